"""Weights over 28 decades, and guarantees of teams that fit whatever they are."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairopt as fo
from fairopt.errors import NotCertified, OutOfDomain

WITHOUT_WEIGHTS = [fo.Policy(fo.Total()), fo.Policy(fo.Leximin(fo.OfTeam())), fo.Policy(fo.MaxMin(fo.OfTeam()))]
LINEAR = [*WITHOUT_WEIGHTS, fo.DRF(), fo.Policy(fo.MaxMin())]
CURVED = [fo.Policy(fo.AlphaFair(0.5)), fo.Policy(fo.AlphaFair(2)), fo.NashBargaining()]


@st.composite
def fitting(draw: Any) -> fo.Instance:
    """Users of several weights, whose teams are guaranteed a part of what some tasks that fit use."""
    users, servers = draw(st.integers(2, 4)), draw(st.integers(1, 2))
    demands = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=users, max_size=users))
    room = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=servers, max_size=servers))
    teams = draw(st.lists(st.sampled_from("tuv"), min_size=users, max_size=users))
    weights = draw(st.lists(st.integers(-14, 14), min_size=users, max_size=users))
    held: dict[str, list[Fraction]] = {}
    left = [list(map(Fraction, row)) for row in room]
    for row, team in zip(demands, teams, strict=True):
        for here in left:
            most = min(c / d for c, d in zip(here, row, strict=True) if d)
            x = Fraction(int(8 * draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1)])) * most), 8)
            for i, d in enumerate(row):
                here[i] -= d * x
                held.setdefault(team, [Fraction(0)] * 2)[i] += d * x
    guarantees = {
        team: {f"resource{i + 1}": float(units) for i, units in enumerate(of) if units}
        for team, of in held.items()
        if any(of) and draw(st.booleans())
    }
    return fo.Instance(
        demands, room, weights=[10.0**k for k in weights], teams={"team": teams}, guarantees=guarantees or None
    )


def answered(policy: fo.Policy, instance: fo.Instance) -> fo.Allocation | None:
    """The answer, None if it is not certified or not defined; `Infeasible` is raised."""
    try:
        return policy.allocate(instance)
    except (NotCertified, OutOfDomain):
        return None


@pytest.mark.parametrize("policy", LINEAR, ids=str)
@given(fitting())
@settings(max_examples=5)
def test_guarantees_that_fit_are_feasible_at_any_weights_and_answers_are_the_exact_ones(
    policy: fo.Policy, instance: fo.Instance
) -> None:
    answer = answered(policy, instance)
    if answer is None:
        assert policy not in WITHOUT_WEIGHTS
        return
    try:
        exact = policy.allocate(instance, exact=True)
    except NotCertified:  # tasks that exist by rounding only
        return
    share = policy.objective.share_blocks()[0]
    numbers = share._numbers(instance)
    alone = numbers.sums(numbers.per_task * instance.tasks_alone.sum(axis=1)) / numbers.weights
    rounding = 1e-9 * (alone.sum() if policy.objective == fo.Total() else alone.min())
    assert answer.objective == pytest.approx(exact.objective, rel=1e-6, abs=rounding)
    if policy.objective.term.is_order:
        levels = [np.sort(one.share(share) / numbers.weights) for one in (answer, exact)]
        np.testing.assert_allclose(levels[0], levels[1], rtol=1e-6, atol=rounding)


@pytest.mark.parametrize("policy", CURVED, ids=str)
@given(fitting())
@settings(max_examples=3)
def test_curves_at_any_weights_are_within_the_tolerance_of_exact_bounds(
    policy: fo.Policy, instance: fo.Instance
) -> None:
    pytest.importorskip("flint")
    answer = answered(policy, instance)
    if answer is None:
        return
    try:
        bounds = answer.exact_bounds(1e-9)
    except (NotCertified, OutOfDomain):
        return
    best, alpha = float(bounds.upper), policy.objective.term.alpha
    if alpha == 1:
        assert (best - answer.objective) / instance.weights.sum() <= 1.1e-6
    else:  # a mean to the power of 1 - alpha
        assert abs(np.log(best / answer.objective) / (1 - alpha)) <= 1.1e-6
