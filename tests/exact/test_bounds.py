"""Intervals for optimal values: closed forms in many digits, an independent barrier method, and feasible points."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from oracle.concave import has_room, maximise, power_mean
from oracle.exact_cluster import Cluster

import fairopt as fo
from fairopt.errors import Infeasible, InvalidBlock, NotCertified, OutOfDomain
from fairopt.exact.interval import ExactBounds

pytest.importorskip("flint", reason="intervals need python-flint, the extra `exact`")

DIGITS = 60
POOL = fo.Instance([[1, 4], [3, 1]], [9, 18])
CLUSTER = fo.Instance(
    [[40, 8, 8], [8, 5, 1], [3, 3, 9]],
    [[200, 100, 150], [100, 300, 20]],
    weights=[1, 2, 0.5],
    task_limits=[None, None, 7],
    teams={"team": ["a", "b", "b"]},
)


def root(x: Fraction | int) -> Decimal:
    """A square root with many digits."""
    return in_decimal(Fraction(x)).sqrt()


def in_decimal(x: Fraction) -> Decimal:
    """A fraction with the digits of the present context."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def encloses(found: ExactBounds, value: Decimal) -> bool:
    """Whether an interval contains a number that is known up to its last digits."""
    error = abs(value) * Decimal(10) ** (8 - DIGITS)
    return in_decimal(found.lower) - error <= value <= in_decimal(found.upper) + error


def best_of(policy: fo.Policy, instance: fo.Instance, width: float = 1e-12) -> ExactBounds:
    """The bounds of a policy's value, with what they claim about themselves checked."""
    answer = policy.allocate(instance)
    found = answer.exact_bounds(width)
    assert found.lower <= found.upper and found.width <= width
    np.testing.assert_allclose(answer.objective, float(found.lower), rtol=1e-5 + width, atol=1e-9)
    return found


def is_feasible(instance: fo.Instance, tasks: Any) -> bool:
    """Whether tasks of an instance of decimals are within its capacities, limits and eligibility, in fractions."""
    room = [
        [Fraction(str(c)) * int(q) for c in row] for row, q in zip(instance.capacities, instance.counts, strict=True)
    ]
    needs = instance.per_server_demands
    for s, row in enumerate(room):
        for i, c in enumerate(row):
            if sum(Fraction(str(needs[j, s, i])) * tasks[j][s] for j in range(instance.n_users)) > c:
                return False
    within = all(
        t == np.inf or sum(row) <= Fraction(str(t)) for row, t in zip(tasks, instance.task_limits, strict=True)
    )
    return within and all(
        x >= 0 and (x == 0 or instance.eligible[j, s]) for j, row in enumerate(tasks) for s, x in enumerate(row)
    )


# -- closed forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1e-12, 1e-30, 1e-45])
def test_two_users_of_two_resources(width: float) -> None:
    with localcontext(prec=DIGITS):
        # Joe-Wong et al. 2013, section V: tasks 9 (sqrt 2 - 1) and 3 (2 - sqrt 2), with dominant shares of 2/9 and 1/3
        shares = 2 * (root(2) - 1), 2 - root(2)
        assert encloses(best_of(fo.FDS(2), POOL, width), -1 / shares[0] - 1 / shares[1])
        even = Fraction(45, 11), Fraction(18, 11)
        logs = sum(in_decimal(x).ln() for x in even)
        assert encloses(best_of(fo.NashWelfare(), POOL, width), logs)
        # the measure of fairness and efficiency with alpha = 2 in tasks
        tasks = 9 * (root(3) - 1) / 2, 9 * (root(3) - 1) / (2 * root(3))
        total = sum(tasks)
        measure = -(sum(total / x for x in tasks)).sqrt() / total.sqrt()
        assert encloses(best_of(fo.Policy(fo.FairnessEfficiency(2, -0.5, fo.Tasks())), POOL, width), measure)


@pytest.mark.parametrize(
    ("alpha", "power"), [("0.5", Fraction(1, 2)), ("2", Fraction(-1)), ("3", Fraction(-2)), ("1", None)]
)
def test_weighted_users_of_one_resource(alpha: str, power: Fraction | None) -> None:
    demands, weights = ["0.1", "2", "3.7", "11"], ["1", "2.5", "0.3", "7"]
    instance = fo.Instance([[float(d)] for d in demands], [10], weights=list(map(float, weights)))
    found = best_of(fo.Policy(fo.AlphaFair(float(alpha), fo.Tasks())), instance, 1e-30)
    with localcontext(prec=DIGITS):
        # x_j = w_j z_j with d_j z_j^alpha equal for all users
        pairs = [(Decimal(d), Decimal(w)) for d, w in zip(demands, weights, strict=True)]
        each = [(-(d.ln()) / Decimal(alpha)).exp() for d, _ in pairs]
        level = 10 / sum(d * w * z for (d, w), z in zip(pairs, each, strict=True))
        levels = [level * z for z in each]
        if power is None:
            value = sum(w * z.ln() for (_, w), z in zip(pairs, levels, strict=True))
        else:
            p = in_decimal(power)
            value = sum(w * (p * z.ln()).exp() / p for (_, w), z in zip(pairs, levels, strict=True))
        assert encloses(found, Decimal(value))


def test_the_norm_of_a_user_at_its_limit() -> None:
    both = fo.Instance([[3, 4]], [30, 80], task_limits=[2])
    with localcontext(prec=DIGITS):
        share = 2 * root(Fraction(1, 100) + Fraction(1, 400))
        assert encloses(best_of(fo.Policy(fo.Total(fo.PNormShare(2))), both, 1e-40), share)
        assert encloses(best_of(fo.Policy(fo.AlphaFair(1, fo.PNormShare(2))), both, 1e-40), share.ln())


def test_a_value_of_zero_is_enclosed_from_both_sides() -> None:
    found = best_of(fo.FDS(1), fo.Instance([[1, 1]], [1, 1]))
    assert found.lower <= 0 <= found.upper and float(found.upper - found.lower) <= 1e-18


@pytest.mark.parametrize(
    "policy",
    [
        fo.Policy(fo.AlphaFair(1), [fo.SharingIncentive()]),
        fo.Policy(fo.AlphaFair(2), [fo.EqualShares(), fo.MinShare(0.5)]),
        fo.Policy(fo.AlphaFair(0.5) + fo.MaxMin(), [fo.MinShare(0.5)]),
    ],
)
def test_constraints_that_leave_one_point(policy: fo.Policy) -> None:
    pool = fo.Instance([[1, 1], [2, 2]], [0.3, 0.3])
    found = best_of(policy, pool, 1e-20)
    assert found.tasks == ((Fraction(3, 20),), (Fraction(3, 40),))


@pytest.mark.parametrize(
    ("objective", "value"), [(fo.MaxMin, 5), (fo.Leximin, 5), (fo.NashWelfare, Decimal(5).ln()), (fo.Total, 5)]
)
def test_users_whom_servers_keep_at_their_base_leave_the_objective(objective: Any, value: Any) -> None:
    full = fo.Instance([[1], [1], [1]], [[4], [6]], eligible=[[1, 0], [1, 0], [0, 1]], guarantees=[2, 2, 1])
    share = fo.Surplus(fo.Tasks())
    found = best_of(fo.Policy(fo.AlphaFair(1, share) if objective is fo.NashWelfare else objective(share)), full)
    assert in_decimal(found.lower) - Decimal("1e-11") <= value <= in_decimal(found.upper) + Decimal("1e-11")


def test_guarantees_that_fill_everything_leave_values_of_zero_or_none() -> None:
    full = fo.Instance([[1]] * 4, [40], guarantees=[20, 18, 0, 2])
    assert best_of(fo.DRF(), full).upper == 0 and best_of(fo.Policy(fo.Leximin(fo.Surplus())), full).upper == 0
    with pytest.raises(OutOfDomain, match="leave user 'user3' no tasks at all"):
        best_of(fo.NashWelfare(), full)


def test_weights_of_seven_decades_do_not_stop_the_steps() -> None:
    demands = [[6, 1, 1, 6], [5, 6, 4, 0], [1, 3, 1, 3], [5, 3, 4, 3], [5, 5, 6, 1]]
    pool = fo.Instance(demands, [18, 18, 2, 5], weights=[1990, 369, 0.0897, 0.000745, 127])
    assert best_of(fo.Policy(fo.AlphaFair(1.5)), pool).width <= 1e-12


def test_a_base_at_the_limit_is_an_equation() -> None:
    given = dict(
        demands=[[0, 5, 4], [5, 3, 5], [3, 3, 3]],
        capacities=[[11, 5, 1], [4, 18, 10], [14, 16, 9], [5, 16, 8]],
        eligible=[[0, 1, 0, 1], [1, 1, 1, 0], [1, 0, 0, 1]],
        task_limits=[0.579, 0.36, 0.257],
    )
    policy = fo.Policy(fo.FairnessEfficiency(2, -0.5, fo.KDominantShare(2)), [fo.MinTasks({"user1": 0.579})])
    assert best_of(policy, fo.Instance(**given), 1e-25).width <= 1e-25


def test_constraints_that_hold_by_rounding_only_are_infeasible() -> None:
    policy = fo.Policy(fo.AlphaFair(1), [fo.MinTasks(Fraction(1, 3) + Fraction(1, 10**12))])
    with pytest.raises(Infeasible, match="in rational numbers nothing satisfies all of them"):
        best_of(policy, fo.Instance([[1], [1], [1]], [1]))


def test_equations_do_not_cost_digits() -> None:
    pool = fo.Instance([[1, 3, 0], [5, 5, 2], [6, 5, 1], [6, 2, 6]], [13, 10, 10], weights=[1, 3, 3, 3])
    policy = fo.Policy(2.0 * fo.MaxMin(fo.StandAloneShare()) + fo.Total(), [fo.EqualShares(fo.Tasks())])
    found, exact = best_of(policy, pool, 1e-25), policy.allocate(pool, exact=True).exact_bounds()
    assert found.lower <= exact.lower == exact.upper <= found.upper


def test_norms_are_sorted_with_their_digits() -> None:
    objective = fo.MaxMin(fo.PNormShare(2)) + fo.Total(fo.PNormShare(3))
    found = best_of(fo.Policy(objective, [fo.SharingIncentive()]), CLUSTER, 1e-25)
    assert is_feasible(CLUSTER, found.tasks)


# -- other methods --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("servers", "seeds"), [(1, range(12)), (3, range(8))])
def test_random_instances_are_enclosed_as_by_a_barrier_method(servers: int, seeds: range) -> None:
    checked = 0
    for seed in seeds:
        r = random.Random(seed)
        n, m, alpha = r.randint(2, 5), r.randint(1, 3), r.choice([0.5, 1.0, 2.0])
        demands = [[r.randint(0, 4) / 4 for _ in range(m)] for _ in range(n)]
        demands = [row if any(row) else [0.25] * m for row in demands]
        capacities = [[r.randint(1, 9) / 2 for _ in range(m)] for _ in range(servers)]
        weights = [r.choice([1, 0.5, 2]) for _ in range(n)]
        exact = Cluster(demands, capacities, weights=weights)
        rows, values = (np.array(part, dtype=float) for part in zip(*exact.rows, strict=True))
        forms, top = np.array(exact.forms(exact.dominant()), dtype=float), np.array(exact.reach(), dtype=float)
        if not has_room(rows, values, top):
            continue
        checked += 1
        w = np.array(weights)
        mean = maximise(power_mean(w, alpha), forms, rows, values, top)
        low, high = (w.sum() * (z if alpha == 1 else np.exp((1 - alpha) * z) / (1 - alpha)) for z in mean[:2])
        instance = fo.Instance(demands, capacities, weights=weights)
        found = best_of(fo.Policy(fo.AlphaFair(alpha)), instance)
        assert is_feasible(instance, found.tasks)
        slack = 1e-12 * max(abs(low), 1.0)
        assert float(found.lower) <= high + slack and float(found.upper) >= low - slack, seed
    assert checked > len(seeds) / 2


OBJECTIVES = [
    fo.AlphaFair(2),
    fo.AlphaFair(0.3, fo.PNormShare(3)) + 0.1 * fo.Total(fo.Tasks()),
    fo.AlphaFair(50, fo.Tasks()),
    fo.AlphaFair(1) + fo.MaxMin() + 0.3 * fo.OrderedWeighted([3, 2, 1]),
    fo.AlphaFair(1, fo.OfTeam()),
    fo.AlphaFair(1, fo.Surplus(base=[0.1, 0.2, 0.3])),
    fo.FairnessEfficiency(2, -0.8),
    fo.FairnessEfficiency(0.5, 3),
    fo.FairnessEfficiency(1, 2),
    fo.FairnessEfficiency(3, -2 / 3),
    fo.OrderedWeighted([5, 1]),
    fo.Leximin(),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_narrower_intervals_lie_within_the_ends_of_wider_ones(objective: fo.Objective) -> None:
    policy = fo.Policy(objective)
    wide, middle, narrow = (best_of(policy, CLUSTER, width) for width in (1e-3, 1e-12, 1e-25))
    for found in (wide, middle):  # the narrow one's lower end is reached by a feasible point
        assert found.lower <= narrow.upper and narrow.lower <= found.upper
    assert all(is_feasible(CLUSTER, found.tasks) for found in (wide, middle, narrow))


@pytest.mark.parametrize("bound", [fo.SharingIncentive(), fo.EnvyFree(), fo.MinShare(0.2), fo.Reserve(0, 0.5)], ids=str)
def test_constraints_and_guarantees_only_lower_the_value(bound: fo.Constraint) -> None:
    objective = fo.AlphaFair(2)
    free, bounded = best_of(fo.Policy(objective), CLUSTER), best_of(fo.Policy(objective, [bound]), CLUSTER)
    assert bounded.lower <= free.upper
    assert is_feasible(CLUSTER, bounded.tasks)
    kept = CLUSTER.replace(guarantees={"b": {0: 150, 1: 80}})
    guaranteed = best_of(fo.Policy(objective), kept)
    held = [sum(Fraction(str(CLUSTER.demands[j, i])) * sum(guaranteed.tasks[j]) for j in (1, 2)) for i in (0, 1)]
    assert guaranteed.lower <= free.upper and held[0] + held[1] > 0


# -- rational optima, bundles, and what is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "value", "of"),
    [
        (fo.DRF(), Fraction(180, 557), "the first level"),
        (fo.MostTasks(), Fraction(4082, 115), "the objective"),
        (fo.Policy(fo.OrderedWeighted([3, 1])), Fraction(720, 557), "the objective"),
        (fo.Policy(fo.Leximin().then(fo.Total())), Fraction(180, 557), "the first level of the first tier"),
    ],
)
def test_exact_answers_have_an_interval_of_one_number(policy: fo.Policy, value: Fraction, of: str) -> None:
    found = policy.allocate(CLUSTER, exact=True).exact_bounds()
    assert (found.lower, found.upper, found.width, found.of, str(found)) == (value, value, 0.0, of, str(value))
    inexact = best_of(policy, CLUSTER)
    assert inexact.lower <= value <= inexact.upper and inexact.of == of


def test_the_value_of_bundles_is_that_of_the_best_ones() -> None:
    found = best_of(fo.MLFDRS(), POOL, 1e-40)
    held = [Fraction(18, 11), Fraction(81, 5), Fraction(81, 11), Fraction(9, 5)]
    base = [Fraction(1), Fraction(9), Fraction(9, 2), Fraction(1)]
    with localcontext(prec=DIGITS):
        assert encloses(
            found, sum((in_decimal(b) * in_decimal(a).ln() for a, b in zip(held, base, strict=True)), Decimal(0))
        )
    assert found.tasks == ((Fraction(18, 11),), (Fraction(9, 5),))


def test_numbers_are_decimals_or_the_fractions_given() -> None:
    found = best_of(fo.MostTasks(), fo.Instance([[0.1]], [1]))
    assert found.lower <= 10 <= found.upper and "decimals" in found.reading
    third = best_of(fo.MostTasks(), fo.Instance([[Fraction(1, 3)]], [1]), 1e-25)  # the float is not within 1e-17 of it
    assert third.lower <= 3 <= third.upper and "Fractions given" in third.reading


def test_nobody_to_share_has_the_value_zero() -> None:
    nobody = fo.Instance([[1]], [2], task_limits=[0])
    for objective in (fo.AlphaFair(1), fo.Leximin(), fo.FairnessEfficiency(2, -1), fo.WeightedLog()):
        found = fo.Policy(objective).allocate(nobody).exact_bounds()
        assert (found.lower, found.upper, found.width, found.tasks) == (0, 0, 0.0, ((0,),))


def test_one_resource_more_for_one_user_only_is_no_difference() -> None:
    found = fo.FDS(2).allocate(fo.Instance([[1]], [4])).exact_bounds(1e-20)
    assert str(found) == repr(found).removeprefix("ExactBounds(").removesuffix(", of the objective)")
    low, high = (Decimal(part) for part in str(found).split(" to "))
    assert low <= in_decimal(found.lower) <= -1 <= in_decimal(found.upper) <= high and low < high


@dataclass(frozen=True, repr=False)
class Own(fo.Objective):
    """A user-defined objective."""

    def expression(self, model: Any) -> Any:
        import cvxpy as cp

        return cp.sum(cp.sqrt(model.tasks))


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (fo.HDRF(), "mechanism without an objective"),
        (fo.Policy(fo.FairnessEfficiency(3, -0.1)), "not concave"),
        (fo.Policy(fo.FairnessEfficiency(2, -1) + fo.Total()), "stands alone"),
        (fo.Policy(fo.AlphaFair(2), [fo.MinShare(0.1, fo.PNormShare(2))]), "are irrational"),
        (fo.Policy(fo.Total(), [fo.AlphaFair(1) >= -9]), "bounds no sum of shares"),
        (fo.Policy(Own()), "fairopt's own"),
        (fo.Policy(fo.WeightedLog() + fo.Total()), "cone program over bundles"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_has_no_bounds_says_why(mechanism: Any, reason: str) -> None:
    answer = mechanism.allocate(CLUSTER.with_weights(1))
    with pytest.raises(OutOfDomain, match=reason):
        answer.exact_bounds()


def test_widths_are_numbers_that_can_be_reached() -> None:
    answer = fo.FDS(1).allocate(POOL)
    for wrong in (0, -1, "thin", float("nan"), 2):
        with pytest.raises(InvalidBlock, match="width"):
            answer.exact_bounds(wrong)  # type: ignore[arg-type]
    with pytest.raises(NotCertified, match="time limit"):
        fo.FDS(1).allocate(fo.Instance(np.arange(1, 1201).reshape(300, 4), [9] * 4)).exact_bounds(time_limit=1e-3)


def test_whole_tasks_have_no_bounds() -> None:
    with pytest.raises(OutOfDomain, match="whole tasks"):
        fo.MostTasks().allocate(POOL, integral=True).exact_bounds()


# -- irrational shares of one's own ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class RootShare(fo.Share):
    """The geometric mean of two ratios."""

    digits: int = 400

    def per_task(self, instance: fo.Instance) -> Any:
        return np.sqrt(instance.ratios.prod(axis=-1))

    def exact_per_task(self, instance: fo.Instance, width: Fraction | None = None) -> Any:
        if width is None:
            raise OutOfDomain("square roots")
        unit, out = 10**self.digits, []
        for row in instance.in_fractions.ratios:
            x = row.prod()
            low = isqrt(x.numerator * unit**2 // x.denominator)
            out.append((Fraction(low, unit), Fraction(low + 1, unit)))
        return out


def test_the_root_of_an_irrational_share_of_ones_own_is_enclosed() -> None:
    instance = fo.Instance([[2, 1]], [7, 5])
    found = best_of(fo.Policy(fo.Total(RootShare())), instance, 1e-60)
    with localcontext(prec=100):
        value = Decimal("3.5") * root(Fraction(2, 35))  # 7 / 2 tasks
        assert in_decimal(found.lower) <= value <= in_decimal(found.upper)
    with pytest.raises(OutOfDomain, match="no exact answer: square roots"):
        fo.Policy(fo.Total(RootShare())).allocate(instance, exact=True)


@pytest.mark.parametrize(
    "objective",
    [fo.MaxMin(RootShare()), fo.AlphaFair(2, RootShare()), fo.AlphaFair(0.5, fo.OfTeam(RootShare()))],
    ids=str,
)
def test_irrational_shares_of_ones_own_are_compared(objective: fo.Objective) -> None:
    instance = fo.Instance([[2, 1], [1, 3], [1, 1]], [7, 5], teams={"team": ["a", "b", "b"]})
    wide, narrow = (best_of(fo.Policy(objective), instance, width) for width in (1e-6, 1e-40))
    assert wide.lower <= narrow.upper and narrow.lower <= wide.upper


def test_intervals_of_a_share_that_are_too_long_are_refused() -> None:
    with pytest.raises(InvalidBlock, match="wrong or too long"):
        fo.Policy(fo.Total(RootShare(20))).allocate(fo.Instance([[2, 1]], [7, 5])).exact_bounds(1e-60)
