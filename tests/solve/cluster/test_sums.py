"""Sums of one concave function per user on several servers, alone and of a fixed sum of shares, and their proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle import sums
from oracle.concave import maximise
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.form import Curve
from fairopt.blocks.marginal import PowerMarginal
from fairopt.proof import feasibility as conditions
from fairopt.proof import gate
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.solve.cluster import fixed_sum
from fairopt.solve.cluster.alpha_fair import sum_on_servers_applies
from fairopt.solve.cluster.utilities import Curves, Powers
from fairopt.solve.form.program import Program
from fairopt.solve.form.units_on_servers import LevelUnits

Float = Any


@dataclass(frozen=True, repr=False)
class Logs(fo.Objective):
    """The sum of logarithms of tasks plus one, times a factor; with derivatives of what is claimed."""

    factor: float = 1.0
    claimed: float = 1.0

    def expression(self, model: fo.Model) -> cp.Expression:
        return self.factor * cp.sum(cp.log(1 + model.tasks))

    def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
        f, c = self.factor, self.claimed
        return fo.blocks.Marginal(lambda x: f * (1 + x) ** -c, lambda x: -f * c * (1 + x) ** (-c - 1))


SUMS = [*sums.SUMS, Logs(), Logs(10.0) + fo.AlphaFair(3)]


def limited(seed: int, n: int, servers: int = 3, m: int = 2, by_server: bool = False, part: float = 0.5) -> fo.Instance:
    """Different servers, where some users have limits near what they would have, and weights differ."""
    rng = np.random.default_rng(seed)
    demands = rng.uniform(0.1, 1, (n, servers, m) if by_server else (n, m))
    capacities = rng.uniform(0.5, 2, (servers, m))
    limits = np.where(rng.random(n) < part, rng.uniform(1, 5, n) * servers / n, np.inf)
    return fo.Instance(demands, capacities, weights=rng.uniform(0.5, 2, n), task_limits=limits)


@pytest.mark.parametrize(("first", "by_server"), [(0.5, False), (1.0, True), (2.0, False)])
def test_sums_of_powers_against_a_barrier_method(first: float, by_server: bool) -> None:
    n, servers = 4, 2
    instance = limited(int(10 * first), n, servers, by_server=by_server)
    program = Program(instance, fo.AlphaFair(first, fo.Tasks()), ())
    w, forms = instance.weights, np.repeat(np.eye(n), servers, axis=1)

    def function(x: Float) -> tuple[float, Float, Float]:
        z = x / w
        if (z <= 0).any():
            return -np.inf, np.full(n, np.nan), np.zeros((n, n))
        value = np.log(z) if first == 1 else z ** (1 - first) / (1 - first)
        return float(w @ value + 0.3 * x.sum()), z**-first + 0.3, np.diag(-first * z ** (-first - 1) / w)

    held = np.isfinite(instance.task_limits)
    rows = np.vstack([program.pairs.loads.toarray(), forms[held]])
    values = np.concatenate([np.ones(len(rows) - held.sum()), instance.task_limits[held]])
    best = maximise(function, forms, rows, values, np.repeat(program.most, servers))
    a = fo.Policy(fo.AlphaFair(first, fo.Tasks()) + 0.3 * fo.Total(fo.Tasks())).allocate(instance)
    assert a.certificate.method == "prices" and a.certificate.gap < 1e-7
    assert best.low - 1e-7 * abs(best.low) <= a.objective <= best.high + 1e-9 * abs(best.high)


@pytest.mark.parametrize("objective", SUMS, ids=repr)
def test_prices_and_cones_agree(objective: fo.Objective) -> None:
    instance = limited(2, 8)
    a = fo.Policy(objective).allocate(instance)
    assert (a.certificate.ok, a.certificate.method) == (True, "prices")
    other = fo.Policy(objective).allocate(instance, method="cone")
    assert a.objective == pytest.approx(other.objective, rel=1e-6)


def test_a_user_for_whom_nothing_is_worth_its_cost_ends_with_nothing() -> None:
    instance = fo.Instance([[1, 1], [1, 2], [50, 40]], [[2, 3], [3, 2]])
    a = fo.Policy(Logs()).allocate(instance)
    assert a.certificate.method == "prices" and a.tasks[2] < 1e-6 < a.tasks[1]


@pytest.mark.fast_methods
def test_many_equal_users_share_one_price() -> None:
    a = fo.Policy(Logs(2.0) + Logs()).allocate(fo.Instance(np.ones((40, 1)), [[3.0], [7.0]], weights=np.arange(1, 41)))
    np.testing.assert_allclose(a.tasks, 0.25, rtol=1e-6)


@pytest.mark.fast_methods
def test_wrong_derivatives_of_a_block_prove_nothing() -> None:
    instance = limited(5, 6)
    a = fo.Policy(Logs(claimed=1.7)).allocate(instance)
    assert a.certificate.ok and a.certificate.method == "cone" and a.certificate.tried[0].gap > 1e-4
    assert a.objective == pytest.approx(fo.Policy(Logs()).allocate(instance).objective, rel=1e-6)


@pytest.mark.fast_methods
@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001, 2.0])
@pytest.mark.parametrize("objective", [SUMS[0], SUMS[2], SUMS[-2]], ids=repr)
def test_other_prices_weaken_the_bound_and_never_break_it(objective: fo.Objective, factor: float) -> None:
    instance = limited(6, 5)
    a = fo.Policy(objective).allocate(instance)
    program, pairs = Program(instance, objective, ()), Program(instance, objective, ()).pairs
    kept = restored(program, a.evidence[0], None)
    assert isinstance(kept, Prices)
    # not all by one factor, which is fitted
    prices = kept.dual.prices
    other = Prices(program, Dual(prices * np.where(prices == prices.max(), factor, 1.0)))
    table = program.gather(a.tasks_by_server)
    worse = table * np.where(pairs.user == 0, 0.9, 1.0)
    found = [gate.judge(program, Proposal("made up", x, other)) for x in (table, worse)]
    point = program.point(worse)
    assert found[0].gap > a.certificate.gap
    assert found[1].gap * objective.unit(point) >= a.objective - objective.value(point) - 1e-9 * abs(a.objective)


def test_evidence_belongs_to_its_own_program() -> None:
    instance, objective = limited(7, 3, part=0.0), fo.AlphaFair(1) + fo.Total()
    a = fo.Policy(objective).allocate(instance)
    program, other = Program(instance, objective, ()), Program(instance, objective, (fo.EnvyFree(),))
    kept, tasks = restored(program, a.evidence[0], None), program.gather(a.tasks_by_server)
    assert isinstance(kept, Prices)
    assert gate.judge(program, Proposal("prices", tasks, Prices(program, kept.dual))).ok
    assert not gate.judge(program, Proposal("prices", tasks, Prices(other, kept.dual))).ok
    assert not gate.judge(other, Proposal("prices", tasks, Prices(program, kept.dual))).ok


def test_sums_that_do_not_bend_are_left_to_cones() -> None:
    instance, by_server = limited(8, 3), limited(8, 3, by_server=True)
    asked = [
        (instance, fo.Total() + fo.Total(fo.Tasks()), ()),
        (by_server, SUMS[0], ()),
        (instance, SUMS[0], (fo.EnvyFree(),)),
        (instance, fo.AlphaFair(7) + fo.Total(), ()),
        (instance, fo.AlphaFair(1), ()),
        (instance, fo.MaxMin(), ()),
    ]
    assert not any(sum_on_servers_applies(Program(i, o, c)) for i, o, c in asked)
    assert sum_on_servers_applies(Program(instance, SUMS[0], (fo.MaxTasks(3), fo.MinTasks(0.01))))


def test_derivatives_of_a_power_are_those_of_the_power() -> None:
    rng = np.random.default_rng(9)
    weights, size, levels, worth = rng.uniform(0.5, 2, (4, 6))
    curves = Curves(PowerMarginal([Curve(1 / size, weights, 2.0)]), size, 1.0, np.full(6, 9.0))
    powers = Powers(weights, 2.0)
    for name, given in (("at", [levels]), ("logs", [levels]), ("elasticity", [levels]), ("levels_at", [worth, levels])):
        np.testing.assert_allclose(getattr(curves, name)(*given), getattr(powers, name)(*given), rtol=1e-12)
    np.testing.assert_allclose(curves.residual(levels, worth), powers.residual(levels, worth), rtol=1e-12)
    both = [one.scale(worth, np.full(6, 1.5), 2.0) for one in (curves, powers)]
    assert both[0] == pytest.approx(both[1], rel=0.3)


# -- the most even shares of a fixed sum --------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 2.0, -1.0])
@pytest.mark.parametrize("part", [0.4, 0.9])
def test_the_most_even_shares_of_a_mean(beta: float, part: float) -> None:
    instance = limited(10, 8)
    units = LevelUnits(Program(instance, fo.AlphaFair(1), ()))
    w = instance.weights / instance.weights.sum()
    mean = part * fo.Policy(fo.Total()).allocate(instance).objective / (units.unit * instance.weights.sum())
    with np.errstate(all="ignore"):
        even = fixed_sum.most_even(units, w, beta, mean)
    assert even is not None
    levels = even.parts.sum(axis=1)
    assert w @ levels == pytest.approx(mean, rel=1e-8)
    loads = units.demands.all_loads(even.parts)
    assert (loads <= 1 + 1e-8).all() and (levels <= units.limits * (1 + 1e-9)).all()
    assert float((even.prices * (1 - loads)).sum()) == pytest.approx(0, abs=1e-8)
    # users below limits: worth is what is paid for the cheapest server and for the sum, or the level is zero
    worth, paid = np.sign(beta) * w * levels**-beta, units.demands.cheapest(even.prices) + even.price * w
    free = (levels > 1e-6) & (levels < units.limits * (1 - 1e-6))
    assert free.any()
    np.testing.assert_allclose(worth[free], paid[free], rtol=1e-5)
    assert (paid <= worth + 1e-6)[levels >= units.limits * (1 - 1e-6)].all()


@pytest.mark.parametrize(("beta", "lam", "by_server"), [(2, -0.4, True), (2, -0.2, False), (-1, 0.3, False)])
def test_no_shares_of_any_sum_are_better_than_those_found(beta: float, lam: float, by_server: bool) -> None:
    instance = limited(11, 3, 2, by_server=by_server, part=0.0 if by_server else 0.5)
    a = fo.Policy(fo.FairnessEfficiency(beta, lam)).allocate(instance)
    assert (a.certificate.method, [t.solver for t in a.certificate.tried]) == ("parametric", ["prices"])
    tasks, total, w = cp.Variable((3, 2), nonneg=True), cp.Parameter(), instance.weights
    mu = np.broadcast_to(instance.dominant_shares.reshape(3, -1), (3, 2))
    needs = instance.per_server_demands / instance.capacities
    shares = cp.sum(cp.multiply(mu, tasks), axis=1)
    evenness = np.sign(beta) / (1 - beta) * (w @ cp.power(shares / w, 1 - beta))
    fits = [cp.sum(cp.multiply(needs[:, :, i], tasks), axis=0) <= 1 for i in range(2)]
    held = np.isfinite(instance.task_limits)
    limits = [cp.sum(tasks, axis=1)[held] <= instance.task_limits[held]] if held.any() else []
    even = cp.Problem(cp.Maximize(evenness), [*fits, *limits, cp.sum(shares) == total])

    def measure(s: Float) -> float:
        value = np.log(float(w @ (s / (w * s.sum())) ** (1 - beta))) / beta + lam * np.log(s.sum())
        return value if beta < 1 else -value

    best = measure(a.shares)
    for factor in (0.8, 0.97, 1.0, 1.03, 1.2):
        total.value = factor * a.shares.sum()
        even.solve(solver="CLARABEL")
        if even.status == "optimal":
            found = measure((mu * tasks.value).sum(axis=1))
            assert found <= best + 1e-6 and (factor != 1 or found >= best - 1e-6)


@pytest.mark.parametrize("objective", [SUMS[0], fo.FairnessEfficiency(2, -0.3)], ids=repr)
def test_saved_answers_are_proved_from_their_files(objective: fo.Objective, tmp_path: Path) -> None:
    path = fo.Policy(objective).allocate(limited(12, 2, 2)).save(tmp_path / "a.json")
    assert fo.Allocation.load(path).certificate.ok and fo.verify(path).ok


def test_rises_at_prices_are_bounds_and_rises_alone_are_possible() -> None:
    instance = limited(13, 5)
    program, rng = Program(instance, fo.AlphaFair(1), ()), np.random.default_rng(13)
    pairs, most = program.pairs, np.repeat(program.most, 3)
    tasks = program.gather(fo.Policy(fo.AlphaFair(2)).allocate(instance).tasks_by_server) * rng.uniform(0.9, 1, 15)
    prices, held = rng.uniform(0, 1, 6), pairs.sum(tasks)
    bound, alone = conditions.rise_at_prices(program, prices, tasks), conditions.room_left(program, tasks)
    rows = np.vstack([pairs.loads.toarray(), -pairs.totals.toarray(), pairs.totals.toarray()])
    ends = np.concatenate([np.ones(6), -held, np.minimum(instance.task_limits, 1e9)])
    for user in range(5):
        found = linprog(-pairs.totals.toarray()[user], rows, ends, bounds=list(zip(np.zeros(15), most, strict=True)))
        assert alone[user] - 1e-9 <= -found.fun - held[user] <= bound[user] + 1e-9
