"""What follows from teams' totals by prices: the largest and the smallest that it can be are one, in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from oracle.exact_lp import maximise
from solve.numbers.test_inside import PROVED, assert_leximin_inside
from solve.numbers.test_leximin import drawn, exact_of, summed

import fairopt as fo
from fairopt.proof.determined import determined
from fairopt.proof.dual import Dual
from fairopt.proof.number_level_bounds import NumberBounds
from fairopt.solve.form.program import Program
from fairopt.solve.numbers import split


def question(seed, servers):
    """Demands that are no small integers, so that few costs tie, and guarantees of some users."""
    instance, rng = drawn(seed, servers), np.random.default_rng(seed)
    instance = instance.replace(demands=np.asarray(instance.demands) * rng.uniform(0.7, 1.4, instance.demands.shape))
    parts = rng.uniform(0, 0.95, instance.n_users) * (rng.random(instance.n_users) < 0.4)
    return instance.replace(guarantees=fo.DRF().allocate(instance).tasks * parts)


def ends(form, rows, equal):
    """The smallest and the largest value of a linear form."""
    return -maximise([-v for v in form], rows, equal).value, maximise(form, rows, equal).value


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("objective", [fo.Leximin, lambda share: fo.AlphaFair(0.5, share)])
def test_what_is_determined_is_the_only_one(objective, servers, monkeypatch):
    seen = []

    def kept(bounds, duals, tasks):
        seen.append((tasks, *determined(bounds, duals, tasks)))
        return seen[-1][1:]

    monkeypatch.setattr(split, "determined", kept)
    n_pairs = n_users = 0
    for seed in range(6):
        instance = question(seed, servers)
        exact = exact_of(instance)
        own = exact.forms(exact.dominant(), per_weight=False)
        totals, before = summed(instance, exact, own, "team"), len(seen)
        fo.Policy(objective(fo.OfTeam())).allocate(instance)
        if len(seen) == before:  # no team has two members
            continue
        tasks, pairs, users = seen[-1]
        x = [Fraction(v) for v in tasks.tolist()]

        def value(form, x=x):
            return sum((a * b for a, b in zip(form, x, strict=True)), Fraction(0))

        least = [([-int(u == j) for u, _ in exact.pairs], -Fraction(v)) for j, v in enumerate(instance.guarantees)]
        rows = [(row, max(Fraction(right), value(row))) for row, right in [*exact.rows, *least]]
        equal = [(total, value(total)) for total in totals]
        size = float(max(value(total) for total in totals))
        unit = np.eye(len(x), dtype=int).tolist()
        for j in np.flatnonzero(users):
            low, high = ends(own[j], rows, equal)
            assert high - low <= 1e-6 * size
        for p in np.flatnonzero(pairs):
            low, high = ends(unit[p], rows, equal)
            assert (high - low) * max(own[exact.pairs[p][0]]) <= 1e-6 * size
        n_pairs, n_users = n_pairs + int(pairs.sum()), n_users + int(users.sum())
    assert n_pairs > 10
    assert n_users > 5


def test_a_split_that_prices_determine_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(split, "InsideTeams", None)
    rng = np.random.default_rng(5)
    teams = {"team": ["a", "a", "a", "b", "b", "b"]}
    instance = fo.Instance(rng.uniform(1, 9, (6, 2)), rng.uniform(20, 40, (3, 2)), teams=teams)
    exact = exact_of(instance)
    own = exact.forms(exact.dominant())
    answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(instance)
    assert PROVED in answer.certificate.note
    assert_leximin_inside(answer, summed(instance, exact, own, "team"), own, exact)


def test_prices_far_from_an_optimum_determine_nothing():
    teams = {"team": ["a", "a", "b", "b"]}
    instance = fo.Instance([[1, 2], [3, 1], [2, 2], [1, 4]], [[10, 10]], teams=teams)
    answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(instance)
    bounds = NumberBounds(Program(instance, fo.Leximin(fo.OfTeam()), ()))
    dual = Dual(np.array([1.0, 0.1]), mixtures=[np.array([0.5, 2.0])], fixed=np.arange(2))
    pairs, users = determined(bounds, [dual], answer.tasks)
    assert not pairs.any()
    assert not users.any()
