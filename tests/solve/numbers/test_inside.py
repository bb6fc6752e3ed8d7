"""The split of totals inside teams: against exact fractions, and that a wrong one is not called proved."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from oracle.exact_lp import leximin
from solve.numbers.test_leximin import drawn, exact_of, paths, summed

import fairopt as fo
from fairopt.blocks.rows import Rows
from fairopt.proof.inside_teams import InsideTeams
from fairopt.solve.form.program import Program
from fairopt.solve.numbers import inside as method
from fairopt.solve.numbers.inside import Split, risen
from fairopt.solve.settings import Settings

OBJECTIVES = {
    "least": fo.MaxMin,
    "Nash": lambda share: fo.AlphaFair(1, share),
    "root": lambda share: fo.AlphaFair(0.5, share),
    "total": fo.Total,
    "leximin": fo.Leximin,
}
PROVED = "proved when found"


def assert_leximin_inside(answer, totals, own, exact):
    """Exactly, among all tasks with these totals; a right side is never less than what the answer uses."""
    at = [Fraction(float(answer.tasks_by_server[j, s])) for j, s in exact.pairs]

    def value(row):
        return sum((a * x for a, x in zip(row, at, strict=True)), Fraction(0))

    rows = [(row, max(Fraction(right), value(row))) for row, right in exact.rows]
    best = [float(v) for v in leximin(own, rows, [(total, value(total)) for total in totals])]
    np.testing.assert_allclose([float(value(row)) for row in own], best, rtol=0, atol=1e-6 * max(best))


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(4))
def test_splits_are_the_exact_leximin_given_the_totals(seed, objective, servers):
    instance = drawn(seed, servers)
    exact = exact_of(instance)
    totals = summed(instance, exact, exact.forms(exact.dominant(), per_weight=False), "team")
    answer = fo.Policy(OBJECTIVES[objective](fo.OfTeam())).allocate(instance)
    if len(totals) == instance.n_users:
        assert answer.certificate.note == ""
        return
    assert PROVED in answer.certificate.note
    assert_leximin_inside(answer, totals, exact.forms(exact.dominant()), exact)


@dataclass(frozen=True, repr=False)
class Near(fo.Constraint):
    """No user has over ``times`` as many tasks as another."""

    times: float

    def rows(self, pairs):
        some = np.array(list(permutations(range(pairs.totals.shape[0]), 2))).T
        return {"near": Rows(pairs.totals[some[0]] - self.times * pairs.totals[some[1]])}


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("objective", ["least", "Nash", "total"])
@pytest.mark.parametrize("seed", range(3))
def test_splits_under_rows_of_all_pairs_are_exact(seed, objective, servers):
    rng = np.random.default_rng(seed)
    n, times = 6, 3
    instance = fo.Instance(
        rng.integers(1, 9, (n, 2)), rng.integers(20, 60, (servers, 2)), teams={"team": list("aaabbb")}
    )
    exact = exact_of(instance)
    users = np.array([j for j, _ in exact.pairs])
    for one, other in permutations(range(n), 2):
        exact.rows.append(([Fraction(int(j == one) - times * int(j == other)) for j in users], Fraction(0)))
    totals = summed(instance, exact, exact.forms(exact.dominant(), per_weight=False), "team")
    answer = fo.Policy(OBJECTIVES[objective](fo.OfTeam()), [Near(times)]).allocate(instance)
    assert PROVED in answer.certificate.note
    assert_leximin_inside(answer, totals, exact.forms(exact.dominant()), exact)


def test_a_split_that_takes_too_many_steps_is_left_open(monkeypatch):
    instance = fo.Instance([[1, 2], [2, 1], [1, 3], [3, 1]], [[9, 8], [7, 9]], teams={"team": list("abab")})
    policy = fo.Policy(fo.Total(fo.OfTeam(fo.Tasks())), [Near(3)])
    assert PROVED in policy.allocate(instance).certificate.note
    monkeypatch.setattr(method, "MOST_WORK", 0)
    monkeypatch.setattr(method, "LONG", 0)
    answer = policy.allocate(instance)
    assert answer.certificate.ok
    assert answer.certificate.note == "the split of totals inside each team is one of several"


@pytest.mark.parametrize("objective", ["least", "Nash", "leximin"])
def test_splits_of_paths_are_exact(objective):
    instance = paths(6, 2)
    exact = exact_of(instance)
    own = exact.forms(exact.tasks())
    answer = fo.Policy(OBJECTIVES[objective](fo.OfTeam(fo.Tasks()))).allocate(instance)
    assert PROVED in answer.certificate.note
    assert_leximin_inside(answer, summed(instance, exact, own, "team"), own, exact)


def inside_of(instance, tasks):
    program = Program(instance, fo.Leximin(fo.OfTeam(fo.Tasks())), ())
    none = np.zeros(instance.n_users, dtype=bool)
    return InsideTeams(program, fo.OfTeam(fo.Tasks()), np.array(tasks), none, none)


def test_a_team_that_touches_nothing_full_needs_no_program(monkeypatch):
    monkeypatch.setattr(method, "_Part", None)
    teams = {"team": ["a", "a", "b", "b", "b"]}
    instance = fo.Instance(np.eye(5), [4] * 5, teams=teams, task_limits=[9, 9, 1, 9, 9], weights=[1, 3, 1, 1, 1])
    split = Split(inside := inside_of(instance, [4, 0, 0, 3, 2]), Settings())
    split.fill()
    np.testing.assert_allclose(split.tasks, [1, 3, 1, 2, 2])
    assert inside.gap(split.duals, split.tasks) < 1e-12


def test_members_stop_at_full_rows_and_no_others():
    """Of b's members the first meets a's on the only full resource; the other two share the rest."""
    demands = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    instance = fo.Instance(demands, [9, 3, 9], teams={"team": ["a", "a", "b", "b", "b"]})
    split = Split(inside := inside_of(instance, [1, 3, 0, 4, 2]), Settings())
    split.fill()
    np.testing.assert_allclose(split.tasks, [2.5, 1.5, 1.5, 2.25, 2.25])
    assert inside.gap(split.duals, split.tasks) < 1e-9
    assert inside.gap(split.duals, np.array([3, 1, 2, 2, 2.0])) > 0.1  # feasible, but not the leximin
    assert inside.gap([], split.tasks) > 0.1


def test_levels_of_groups_reach_their_totals():
    rng = np.random.default_rng(5)
    group = rng.integers(0, 4, 40)
    slope, start = rng.random(40) + 0.1, rng.random(40)
    end = np.where(rng.random(40) < 0.3, np.inf, start + rng.random(40))
    at = 0.3 + rng.random(4)
    total = np.bincount(group, slope * np.clip(at[group], start, end))
    level = risen(group, slope, start, end, total)
    np.testing.assert_allclose(np.bincount(group, slope * np.clip(level[group], start, end)), total, rtol=1e-12)


def test_a_split_that_fails_its_proof_is_said_to_be_open(monkeypatch):
    monkeypatch.setattr(InsideTeams, "gap", lambda *_: 0.5)
    instance = fo.Instance([[1], [1], [1]], [4], teams={"team": ["a", "a", "b"]})
    note = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(instance).certificate.note
    assert "one of several: about the leximin" in note
    assert "not proved" in note


def test_guarantees_and_rows_bound_the_split():
    instance = fo.Instance([[1, 1], [1, 0], [0, 1], [1, 1]], [8, 8], teams={"team": ["a", "a", "b", "b"]})
    instance = instance.replace(guarantees=[3, 0, 0, 0])
    policy = fo.Policy(fo.MaxMin(fo.OfTeam(fo.Tasks())), [fo.MaxShare({"user3": 1 / 8})])
    answer = policy.allocate(instance)
    assert PROVED in answer.certificate.note
    assert answer.tasks[0] >= 3 - 1e-9
    assert answer.tasks[2] <= 1 + 1e-9
