"""The gate: its certificates are right for any proposal, and nothing else makes certificates."""

from __future__ import annotations

import ast
import json
import pickle
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle.brute_leximin import Polytope, leximin
from oracle.instances import clusters, log_uniform, pools
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.bundle_model import BundlePoint
from fairopt.certificate import Try
from fairopt.proof import gate
from fairopt.proof import level_bounds as levels
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.fewer_rows import FewerRows
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.evidence.levels import LevelDuals
from fairopt.proof.evidence.pool import Bottlenecked, PoolPrices
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.feasibility import relative_violation
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.proposal import Proposal
from fairopt.solve.cluster import alpha_fair
from fairopt.solve.cone.solve import solve_number
from fairopt.solve.dispatch import best
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import Program
from fairopt.solve.levels_in_fractions import levels_in_fractions
from fairopt.solve.settings import Settings

PACKAGE = Path(fo.__file__).parent


# -- one maker ---------------------------------------------------------------------------------------------------------


def calls_of(name: str, path: Path) -> list[ast.Call]:
    text = path.read_text(encoding="utf-8")
    if name not in text:  # most modules need not be parsed
        return []
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [n for n in calls if getattr(n.func, "id", getattr(n.func, "attr", None)) == name]


def test_certificates_are_made_in_one_place_of_the_gate() -> None:
    made = {str(p.relative_to(PACKAGE)): calls_of("Certificate", p) for p in PACKAGE.rglob("*.py")}
    places = {path: calls for path, calls in made.items() if calls}
    assert list(places) == ["proof/gate.py"]
    assert len(places["proof/gate.py"]) == 1


def test_nothing_but_the_gate_changes_a_certificate() -> None:
    for path in PACKAGE.rglob("*.py"):
        for call in calls_of("replace", path):
            words = ast.unparse(call)
            changed = isinstance(call.func, ast.Name) and "certificate" in words
            assert not changed or path.name == "gate.py", f"{path.name}: {words}"


def test_no_proof_reads_what_a_solver_claims_of_itself() -> None:
    claims = {"problem.value", "problem.status", "solver_stats.solve_time", "primal_obj", "obj_val"}
    for path in (PACKAGE / "proof").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store):
                words = ast.unparse(node)
                told = path.name in ("read_problem.py", "certify.py") and words == "problem.status"  # in a message
                assert told or not any(words.endswith(claim) for claim in claims), f"{path.name}: {words}"


# -- any proposal ------------------------------------------------------------------------------------------------------


@given(pools(max_users=4, max_resources=3), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_no_prices_certify_a_total_that_can_be_exceeded(instance: fo.Instance, seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = Program(instance, fo.Total(fo.Tasks()), ())
    assume(not program.empty)
    pool = Pool(program, fo.Tasks())
    prices = rng.choice([-1.0, 0.0, 0.3, 1.0, 7.0], size=pool.m) * rng.uniform(size=pool.m)
    tasks = rng.uniform(size=pool.n) * program.most * rng.choice([0.0, 0.5, 1.0], size=pool.n)
    answer = gate.judge(program, Proposal("linear", tasks, PoolPrices(pool, Dual(prices))))
    right = fo.MostTasks().allocate(instance).objective
    assert not answer.ok or answer.value >= right * (1 - 2e-6)


@given(clusters(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-8, 1e-3, 0.3]))
@settings(max_examples=8, deadline=None)
def test_no_holdings_certify_levels_that_are_not_those_of_leximin(
    instance: fo.Instance, seed: int, away: float
) -> None:
    """Right points, points a little off and points far off, under prices made up or taken from an honest answer."""
    rng = np.random.default_rng(seed)
    program = Program(instance, fo.Leximin(), ())
    assume(not program.empty and not program.single)
    honest = fo.DRF().allocate(instance)
    tasks = program.gather(honest.tasks_by_server)
    tasks = tasks * rng.uniform(1 - away, 1.0, size=len(tasks))
    n, rows = program.instance.n_users, len(program.usable_rows)
    made_up = [
        Dual(
            rng.choice([0.0, 0.0, 1.0], size=rows) * rng.random(rows),
            fixed=rng.permutation(n)[: rng.integers(1, n + 1)],
        )
        for _ in range(rng.integers(1, n + 2))
    ]
    (kept,) = honest.evidence
    told = restored(program, kept, None) if kept is not None and kept["kind"] == "levels" else LevelDuals(made_up)
    c, weights = fo.DominantShare().coefficients(program.instance), program.instance.weights
    right = leximin(Polytope.of(instance), fo.DominantShare().coefficients(instance), instance.weights)
    for evidence in (LevelDuals(made_up), told):
        answer = gate.judge(program, Proposal("levels", tasks.copy(), evidence))
        if answer.ok and c.ndim == 1:
            found = np.sort(c * program.pairs.sum(answer.tasks) / weights)
            np.testing.assert_allclose(found, np.sort(right[program.active]), rtol=3e-6, atol=1e-9)


def test_evidence_of_another_program_proves_nothing() -> None:
    one, other = (Program(fo.Instance([[k], [2]], [10]), fo.Total(fo.Tasks()), ()) for k in (1, 3))
    evidence = PoolPrices(Pool(one, fo.Tasks()), Dual(np.array([10.0])))
    assert gate.judge(other, Proposal("linear", np.zeros(2), evidence)).gap == np.inf
    assert gate.judge(one, Proposal("linear", np.array([10.0, 0.0]), evidence)).ok


def test_evidence_of_another_kind_proves_nothing() -> None:
    """Bottlenecks say nothing of alpha-fairness, nor prices of one server row of conditions that link users."""
    pool = fo.Instance([[2, 3], [2, 1]], [6, 4])
    program = Program(pool, fo.AlphaFair(10), ())
    level = fo.DRF().allocate(pool).tasks
    assert gate.judge(program, Proposal("x", level, Bottlenecked(Pool(program, fo.DominantShare())))).gap == np.inf
    servers = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])
    free = Program(servers, fo.AlphaFair(1), ())
    proposal = next(alpha_fair.solve_alpha_fair_on_servers(free, Settings()))
    linked = Program(servers, fo.AlphaFair(1), (fo.EqualShares(fo.Tasks()),))
    assert gate.judge(free, proposal).ok and gate.judge(linked, proposal).gap == np.inf


@pytest.mark.parametrize("factor", [1e-200, 1e200, 1e300])
def test_multiples_of_the_prices_of_max_min_prove_the_same_gap(factor: float) -> None:
    demands = np.array([[1.5, 2], [1.8, 2], [0.6, 4]]) * [1e41, 1e58]
    instance = fo.Instance(demands, [[1.4e-58, 1.6e-40], [1.4e-59, 7e-41]], weights=[4, 0.5, 0.5])
    program = Program(instance, fo.MaxMin(), ())
    proposal = next(alpha_fair.solve_alpha_fair_on_servers(program, Settings()))
    assert isinstance(proposal.evidence, Prices) and proposal.tasks is not None
    proposal = replace(proposal, tasks=proposal.tasks / 2)
    other = replace(proposal, evidence=Prices(program, proposal.evidence.dual.times(factor)))
    gap = gate.judge(program, proposal).gap
    assert gap > 0.1 and gate.judge(program, other).gap == pytest.approx(gap, rel=1e-9)


def test_an_attempt_without_a_point_proves_nothing() -> None:
    program = Program(fo.Instance([[1], [2]], [10]), fo.Total(fo.Tasks()), ())
    answer = gate.judge(program, Proposal("cone", attempt=Try("X", "optimal", 0.0)))
    assert not answer.ok and answer.tried[0].gap is None


def test_a_solver_that_claims_a_huge_objective_changes_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = fo.Instance([[1, 3], [2, 1], [1, 1]], [[4, 4], [3, 6]])
    program = Program(instance, fo.Total(fo.Tasks()), ())
    proposal = next(solve_number(program, Settings(solver="CLARABEL")))
    assert proposal.tasks is not None
    half = replace(proposal, tasks=proposal.tasks / 2)
    honest = gate.judge(program, half).gap
    monkeypatch.setattr(cp.Problem, "value", property(lambda self: 1e30))
    assert gate.judge(program, half).gap == honest >= 0.49


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(1), fo.FDS(2), fo.MostTasks(), fo.Policy(fo.MaxMin())], ids=repr)
@pytest.mark.parametrize("servers", [1, 2])
def test_an_allocation_keeps_evidence_that_proves_it_again(policy: fo.Policy, servers: int) -> None:
    instance = fo.Instance([[1, 3], [2, 1], [1, 0]], [[4, 4], [3, 6]][:servers], task_limits=[None, None, 2])
    a = pickle.loads(pickle.dumps(policy.allocate(instance)))
    program = Program(instance, policy.objective, ())
    evidence = restored(program, a.evidence[0], a.certificate.solver)
    again = gate.judge(program, Proposal("again", program.gather(a.tasks_by_server), evidence))
    assert again.ok and again.value == pytest.approx(a.objective, rel=1e-12)


ONE_POOL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
TWO_SERVERS = fo.Instance([[1, 4], [3, 1]], [[9, 18], [10, 20]])


def of_the_same_evidence(a: fo.Allocation, objective: fo.Objective) -> JudgedPoint:
    """What the gate says of an allocation's tasks under another objective, by the same numbers as evidence."""
    program, held = Program(a.instance, objective, a.policy.constraints), a.evidence[0]
    if held["kind"] == "prices":  # in units of the objective
        times = (objective.term.factor or 1) / (a.policy.objective.term.factor or 1)
        held = held | {"prices": (times * np.array(held["prices"])).tolist()}
    evidence = restored(program, held, a.certificate.solver)
    return gate.judge(program, Proposal("again", program.gather(a.tasks_by_server), evidence))


@pytest.mark.parametrize("instance", [ONE_POOL, TWO_SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize(
    ("one", "twice"),
    [
        (fo.MaxMin(), 2 * fo.MaxMin()),
        (fo.MaxMin(), fo.OrderedWeighted((2,))),
        (fo.Total(), 2 * fo.Total()),
        (fo.AlphaFair(2), 2 * fo.AlphaFair(2)),
        (fo.AlphaFair(1), 2 * fo.AlphaFair(1)),
        (fo.FairnessEfficiency(2, -0.5), 2 * fo.FairnessEfficiency(2, -0.5)),
    ],
    ids=repr,
)
def test_a_multiple_has_its_value_and_prices(one: fo.Objective, twice: fo.Objective, instance: fo.Instance) -> None:
    a = fo.Policy(one).allocate(instance)
    first, second = of_the_same_evidence(a, one), of_the_same_evidence(a, twice)
    assert first.ok and second.gap == pytest.approx(first.gap, abs=1e-13)
    assert second.value == pytest.approx(2 * first.value, rel=1e-13)
    assert_allclose(second.prices, 2 * first.prices, rtol=1e-12)
    assert_allclose(fo.Policy(twice).allocate(instance).prices, 2 * a.prices, rtol=1e-6)


def test_a_multiple_of_the_smallest_share_without_envy_has_its_value_and_prices() -> None:
    instance = fo.Instance([[4, 3], [2, 2], [1, 1]], [20, 20], task_limits=[None, 3, None])
    a = fo.Policy(fo.MaxMin(), [fo.EnvyFree()]).allocate(instance)
    assert a.evidence[0]["kind"] == "pulled"
    a = replace(a, evidence=({"kind": "pulled", "prices": [[0.1, 0.2]]},))
    first, second = of_the_same_evidence(a, fo.MaxMin()), of_the_same_evidence(a, 2 * fo.MaxMin())
    assert first.ok and second.ok and second.value == 2 * first.value
    assert_allclose(second.prices, 2 * first.prices, rtol=1e-15)


def test_the_measure_at_beta_one_is_proved_by_prices_of_the_sum_in_its_own_units() -> None:
    a = fo.Policy(fo.Total()).allocate(ONE_POOL)
    found = of_the_same_evidence(a, fo.FairnessEfficiency(1, 0.5))  # W S^(1/2)
    assert found.ok and found.value == pytest.approx(2 * a.objective**0.5, rel=1e-13)
    assert found.prices[0] == pytest.approx(a.objective**-0.5, rel=1e-12)  # the price of the sum is 1 / capacity


def test_prices_of_users_prove_nothing_of_a_power_of_their_sum() -> None:
    """On its edge the measure is ``(sum_j s_j^(1/2))^2``: half the tasks lose half of it, whatever the slopes."""
    instance, objective = fo.Instance([[1], [1]], [4e14]), fo.FairnessEfficiency(0.5, 1, fo.Tasks())
    program = Program(instance, objective, ())
    for price in (4e7, 4e8):
        evidence = Prices(program, Dual(np.array([price])))
        assert not gate.judge(program, Proposal("lie", np.array([1e14, 1e14]), evidence)).ok


@pytest.mark.parametrize("constraint", [fo.EnvyFree(), fo.Total(fo.Tasks()) >= 2.5, fo.EqualShares()], ids=repr)
def test_levels_under_conditions_keep_multipliers_that_prove_them_again(constraint: fo.Constraint) -> None:
    instance = fo.Instance([[1, 3], [2, 1], [1, 0]], [[4, 4], [3, 6]], task_limits=[None, None, 2])
    policy = fo.Policy(fo.Leximin(), [constraint])
    a = policy.allocate(instance)
    program = Program(instance, policy.objective, (constraint,))
    evidence = restored(program, json.loads(json.dumps(a.evidence[0])), a.certificate.solver)
    tasks = program.gather(a.tasks_by_server)
    assert gate.judge(program, Proposal("again", tasks, evidence)).ok
    assert not gate.judge(program, Proposal("again", 0.9 * tasks, evidence)).ok
    if isinstance(evidence, FewerRows):
        program, evidence = evidence.program, evidence.found
    assert isinstance(evidence, LevelDuals)
    for holding in evidence.holdings:  # multipliers that a file makes up prove nothing untrue
        dual = 1e9 * np.ones_like(holding.in_cone)
        made_up = replace(evidence, holdings=[replace(h, in_cone=dual) for h in evidence.holdings])
        assert not gate.judge(program, Proposal("again", 0.9 * tasks, made_up)).ok


BROKEN = {
    "unknown": {"kind": "a promise"},
    "no kind": {},
    "prices of other shapes": {"prices": [[1.0]]},
    "no number": {"prices": [["a", "b"], ["c", "d"]]},
    "levels for it": {"kind": "levels", "holdings": []},
    "duals for it": {"kind": "duals", "duals": [], "stands_in": False},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_evidence_that_is_none_is_told_and_a_file_with_it_is_certified_by_solving_once_more(
    broken: str, tmp_path: Path
) -> None:
    instance = fo.Instance([[1, 3], [2, 1]], [[4, 4], [3, 6]])
    a = fo.FDS(2).allocate(instance)
    kept = {"kind": "row prices", **BROKEN[broken]} if broken != "no kind" else {}
    with pytest.raises((KeyError, TypeError, ValueError)):
        restored(Program(instance, fo.FDS(2).objective, ()), kept, None)
    path = a.save(tmp_path / "a.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "evidence": [kept]}), encoding="utf-8")
    assert fo.Allocation.load(path).certificate.ok


# -- wrong and certified before the gate -------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Rates(fo.Share):
    """What a task of each user is worth on each server, by the order in which they were given."""

    rows: tuple[tuple[float, ...], ...]

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return np.array(self.rows)


RATES = Rates(((1, 2, 4), (1, 1, 4)))


@dataclass(frozen=True, repr=False)
class RateByType(fo.Share):
    """A task is worth what the type of the server says."""

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        rates = {"slow": 1.0, "fast": 4.0}
        return np.array([[rates[kind] for kind in instance.server_types]] * instance.n_users)


@pytest.mark.parametrize("objective", [fo.MaxMin(RATES), fo.Leximin(RATES), fo.OrderedWeighted((1,), RATES)], ids=repr)
@pytest.mark.parametrize(("capacities", "right"), [((64, 64, 64), 224), ((64, 63, 65), 225)])
def test_servers_that_only_a_share_tells_apart_are_not_merged(
    objective: fo.Objective, capacities: tuple[float, ...], right: float
) -> None:
    instance = fo.Instance([[1], [1]], [[c] for c in capacities])
    a = fo.Policy(objective).allocate(instance)
    np.testing.assert_allclose(a.share(RATES), [right, right], rtol=1e-6)


def test_a_share_is_asked_about_the_servers_as_they_were_given() -> None:
    instance = fo.Instance([[1], [1]], [[8], [8]], server_types=["slow", "fast"])
    a = fo.Policy(fo.MaxMin(RateByType())).allocate(instance)
    np.testing.assert_allclose(a.share(RateByType()), [20, 20], rtol=1e-6)
    bound = fo.Policy(fo.Total(fo.Tasks()), [fo.MinShare(16, RateByType())]).allocate(instance)
    assert (bound.share(RateByType()) >= 16 * (1 - 1e-7)).all()


def test_a_share_of_ones_own_that_treats_servers_alike_does_not_keep_them_from_merging() -> None:
    alike = Rates(((1, 1, 1), (2, 2, 2)))
    a = fo.Policy(fo.Leximin(alike)).allocate(fo.Instance([[1], [1]], [[3], [3], [3]]))
    assert a.certificate.method == "water-filling"
    np.testing.assert_allclose(a.tasks, [6, 3], rtol=1e-12)


def test_a_share_of_ones_own_speaks_of_users_as_they_were_given() -> None:
    instance = fo.Instance([[1], [1], [1]], [[4], [4], [4]], task_limits=[None, 0, None])
    share = Rates(((1, 1, 1), (9, 9, 9), (2, 2, 2)))
    np.testing.assert_allclose(fo.Policy(fo.Leximin(share)).allocate(instance).tasks, [8, 0, 4], rtol=1e-9)


@pytest.mark.parametrize("alpha", [3, 10, 30])
def test_topping_up_keeps_shares_where_demands_differ_by_server(alpha: float) -> None:
    instance = fo.Instance([[[2], [4]], [[1], [2]]], [[4], [4]])
    a = fo.Policy(fo.AlphaFair(alpha)).allocate(instance)
    np.testing.assert_allclose(a.shares, [0.5, 0.5], rtol=1e-5)


def test_a_constraint_taken_out_of_a_problem_bounds_nothing() -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.Reserve(0, 0.5)])
    instance = fo.Instance([[1], [2]], [10])
    problem = policy.problem(instance)
    freed = cp.Problem(problem.objective, [c for c in problem.constraints if "Reserve" not in str(c.label)])
    freed.solve(solver="HIGHS")
    np.testing.assert_allclose(policy.certify(freed, instance).tasks, [10, 0], atol=1e-9)
    freed.var_dict["tasks"].save_value(np.array([5.0, 0.0]))
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(freed, instance)


def test_an_objective_changed_in_a_problem_is_judged_as_it_is() -> None:
    policy, instance = fo.FDS(2), fo.Instance([[2, 3], [2, 1]], [6, 4])
    problem = policy.problem(instance)
    problem.solve(solver="CLARABEL")
    changed = cp.Maximize(cp.sum(problem.var_dict["tasks"]))
    changed.block = problem.objective.block  # claims to be what it was
    lying = cp.Problem(changed, problem.constraints)
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(lying, instance)


def test_a_problem_that_is_not_convex_is_refused() -> None:
    policy, instance = fo.Policy(fo.Total(fo.Tasks())), fo.Instance([[1], [1]], [10])
    problem = policy.problem(instance)
    tasks = problem.var_dict["tasks"]
    tasks.save_value(np.array([5.0, 5.0]))
    with pytest.raises(fo.errors.NotConcave, match="not convex"):
        policy.certify(cp.Problem(problem.objective, [*problem.constraints, cp.sqrt(tasks[0]) <= 3]), instance)
    with pytest.raises(fo.errors.NotConcave, match="not convex"):
        policy.certify(cp.Problem(cp.Maximize(cp.sum_squares(tasks)), problem.constraints), instance)


def test_a_constraint_added_after_solving_in_a_variable_without_a_value_is_told() -> None:
    policy, instance = fo.Policy(fo.Total(fo.Tasks())), fo.Instance([[1], [1]], [10])
    problem = policy.problem(instance)
    problem.solve(solver="HIGHS")
    more = cp.Problem(problem.objective, [*problem.constraints, cp.Variable(name="spare") >= 1])
    with pytest.raises(fo.errors.NotCertified, match=r"'spare' has no value; call \.solve"):
        policy.certify(more, instance)


def test_ranges_of_other_variables_of_a_problem_hold() -> None:
    policy, instance = fo.Policy(fo.Total(fo.Tasks())), fo.Instance([[1], [1]], [10])
    problem, cap = policy.problem(instance), cp.Variable(bounds=[0, 2], name="cap")
    capped = cp.Problem(problem.objective, [*problem.constraints, problem.var_dict["tasks"][0] <= cap])
    problem.var_dict["tasks"].save_value(np.array([10.0, 0.0]))
    cap.save_value(np.array(10.0))
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(capped, instance)
    capped.solve(solver="HIGHS")
    assert policy.certify(capped, instance).tasks.sum() == pytest.approx(10)


@dataclass(frozen=True)
class Apart(fo.Constraint):
    """A measure of how far dominant shares are apart is zero."""

    measure: str

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        s = model.share(fo.DominantShare())
        apart = s - cp.sum(s) / s.size
        conditions = {
            "norm": cp.norm(apart) <= 0,
            "abs": cp.abs(apart) <= 0,
            "squares": cp.sum_squares(apart) <= 0,
            "beside 1": 1 + cp.norm(apart) <= 1,
        }
        return {"apart": conditions[self.measure]}


@pytest.mark.parametrize("measure", ["norm", "abs", "squares", "beside 1"])
def test_a_measure_that_cancels_to_rounding_is_zero(measure: str) -> None:
    cluster = fo.Instance([[4, 1], [1, 3], [2, 2]], [9, 18])
    objective = fo.MaxMin() if measure == "squares" else fo.AlphaFair(1)
    a = fo.Policy(objective, [Apart(measure)]).allocate(cluster)
    np.testing.assert_allclose(a.shares, 0.375, rtol=1e-9)


@pytest.mark.parametrize("difference", [1e-3, 1e-5])
def test_a_measure_that_cancels_is_as_far_from_zero_as_its_arguments_relative_to_their_terms(difference: float) -> None:
    x = cp.Variable(2)
    x.save_value(np.array([3.0, 3.0 * (1 + difference)]))
    apart = x[0] - x[1]
    rows = (cp.norm(apart) <= 0, cp.abs(apart) <= 0, cp.square(apart) <= 0, 1 + cp.abs(apart) <= 1, apart >= 0)
    for row in rows:
        assert relative_violation(row) == pytest.approx(difference / 2, rel=1.0)
    assert relative_violation(cp.norm(1e6 * apart) <= 0) == relative_violation(cp.norm(apart) <= 0)
    assert relative_violation(cp.sqrt(x[0]) >= cp.sqrt(x[0].value) * (1 + difference)) > difference / 2


def test_what_is_added_to_both_sides_of_a_row_hides_no_violation() -> None:
    policy, instance = fo.Policy(fo.Total(fo.Tasks())), fo.Instance([[1], [1]], [100])
    problem = policy.problem(instance)
    tasks = problem.var_dict["tasks"]
    padded = cp.Problem(problem.objective, [*problem.constraints, cp.sum(tasks) + 1.7e9 <= 1.7e9 + 10])
    tasks.save_value(np.array([10.0, 10.0]))
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(padded, instance)
    x = cp.Variable(2)
    x.save_value(np.array([20.0, 1.0]))
    for row in (x + 1e9 <= 1e9 + 10, x - 1e9 <= 10 - 1e9, 2 * (x - 1e9) <= 20 - 2e9, x <= 10):
        assert relative_violation(row) == pytest.approx(0.5, rel=1e-5)
    assert relative_violation(cp.norm(x) + 1e9 <= 1e9 + 1) > 0.9
    assert relative_violation(x - 1e9 <= 20 - 1e9 - 1e-8) == 0  # less than what the row rounds to


TRACE = fo.Instance([[1, 1e-10], [2, 5]], [[6, 6], [4, 3]], weights=[3, 2], eligible=[[1, 1], [0, 1]])


@pytest.mark.parametrize("solver", [None, "HIGHS"])
def test_a_trace_of_a_full_resource_buys_no_level(solver: str | None) -> None:
    """User 1 needs 1e-10 of what holds user 2: the last 1e-10 of user 2's level would let it rise by half."""
    a = fo.DRF().allocate(TRACE, solver=solver)
    np.testing.assert_allclose(a.shares / TRACE.weights, [1 / 5, 1 / 6], rtol=1e-9)


TRACE_ON_A_POOL = fo.Instance([[1, 0], [1, 1], [0, 1e-7]], [1, 0.5 + 1e-7])


@pytest.mark.parametrize("waiting", [0.5, 0.9, 0.999])
def test_what_is_left_for_a_trace_on_a_pool_is_compared_with_what_it_holds(waiting: float) -> None:
    """The last user could double with a ten millionth of a capacity."""
    program = Program(TRACE_ON_A_POOL, fo.Leximin(fo.Tasks()), ())
    for last, right in ((1.0, True), (waiting, False)):
        proposal = Proposal("cone", np.array([0.5, 0.5, last]), Bottlenecked(Pool(program, fo.Tasks())))
        assert gate.judge(program, proposal).ok == right
    np.testing.assert_allclose(fo.Policy(fo.Leximin(fo.Tasks())).allocate(TRACE_ON_A_POOL).tasks, [0.5, 0.5, 1])
    for solver in ("CLARABEL", "HIGHS"):
        a = fo.Policy(fo.Leximin(fo.Tasks())).allocate(TRACE_ON_A_POOL, solver=solver)
        np.testing.assert_allclose(a.tasks, [0.5, 0.5, 1], rtol=1e-6)


@pytest.mark.parametrize("huge", [1e308, np.inf, np.nan])
def test_prices_of_levels_beyond_the_range_of_floats_prove_nothing(huge: float) -> None:
    program = Program(TRACE, fo.Leximin(), ())
    point = np.array([6.0, 2.8, 0.6 * (1 - 1e-10)])
    first, second = np.array([huge, 0, huge, 1.0]), np.array([huge, huge, 0.496, huge])
    evidence = LevelDuals([Dual(first, fixed=np.array([1])), Dual(second, fixed=np.array([0]))])
    assert not gate.judge(program, Proposal("levels", point, evidence)).ok


@pytest.mark.parametrize("seed", range(4))
@np.errstate(all="ignore")  # as the gate has it
def test_what_users_take_of_a_capacity_together_is_a_knapsack(seed: int) -> None:
    """Against a linear program: each may rise by its excess, and those that a level holds pay for it what is spare."""
    rng = np.random.default_rng(seed)
    instance = log_uniform(rng, 8, 2, servers=3, decades=1)
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    judged = levels.LevelsAtPrices(program, None, rng.uniform(0.5, 1.0, len(program.pairs)))
    held_by, excess = rng.integers(-1, 2, 8), rng.uniform(0.0, 1.0, 8) * (rng.random(8) < 0.8)
    for k in range(2):
        held = np.flatnonzero(held_by == k)
        c = judged.evaluate(Dual(rng.uniform(0.0, 1.0, 6) * (rng.random(6) < 0.7), fixed=held))
        pays = (c.cost * judged.values * excess)[held].sum()
        judged.keep(c._replace(slack=0.4 * pays, rounding=0.1 * pays))
    judged.fixed_at, judged.to_level = held_by, excess * rng.uniform(0.0, 0.2, 8)
    rise = rng.uniform(0.0, 1.0, len(program.pairs)) * (excess > 0)[judged.user]
    for row in range(6):
        by_pair = program.pairs.loads.toarray()[row] * rise
        load = judged.pairs.sum(by_pair)
        free = np.divide(judged.to_level, excess, out=np.zeros(8), where=excess > 0)
        budget = np.array([(held_by == k) * c.cost * judged.values * excess for k, c in enumerate(judged.judged)])
        spare = [c.slack + c.rounding for c in judged.judged]
        found = linprog(-load, budget, spare + budget @ free, bounds=[(f, 1.0) for f in free])
        assert judged.affordable(by_pair, judged.user, excess) == pytest.approx(-found.fun, rel=1e-7, abs=1e-12)


def test_levels_bought_with_the_slack_of_an_earlier_one_are_refused() -> None:
    program = Program(TRACE, fo.Leximin(), ())
    bought = np.array([6.0, 2.8, 0.6 * (1 - 1e-10)])
    first, second = np.array([0, 0, 0, 1.0]), np.array([0.744, 0, 0.496, 0])
    evidence = LevelDuals([Dual(first, fixed=np.array([1])), Dual(second, fixed=np.array([0]))])
    answer = gate.judge(program, Proposal("levels", bought, evidence))
    assert not answer.ok and answer.gap >= 0.3


def test_a_higher_level_that_is_told_first_closes_nothing_to_a_lower_one() -> None:
    """The second user could have 0.75 if the third, at its limit, moved to the first server, where the first has 1."""
    eligible = [[True, False], [False, True], [True, True]]
    instance = fo.Instance([[1]] * 3, [[1], [0.8]], eligible=eligible, task_limits=[None, None, 0.3])
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    first, second = (Dual(np.eye(2)[j], fixed=np.array([j])) for j in (0, 1))
    point = np.array([1, 0.5, 0, 0.3 * (1 - 1e-12)])
    for told in ([first, second], [second, first]):
        assert gate.judge(program, Proposal("levels", point.copy(), LevelDuals(told))).gap >= 0.5
    np.testing.assert_allclose(fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance).tasks, [0.75, 0.75, 0.3])


@pytest.mark.parametrize("noise", [1e-17, 1e-15, 1e-14])
def test_noise_in_prices_holds_nobody(noise: float) -> None:
    """The second user could have 4, and pays less than the rounding of what the first one pays."""
    instance = fo.Instance([[1], [1]], [[1], [4]], eligible=[[True, False], [False, True]])
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    evidence = LevelDuals([Dual(np.array([1.0, noise]), fixed=np.arange(2))])
    assert gate.judge(program, Proposal("levels", np.array([1.0, 1.5]), evidence)).gap >= 1.6
    assert gate.judge(program, Proposal("levels", np.array([1.0, 4.0]), evidence)).ok


def test_what_costs_less_than_the_rounding_of_a_full_resource_is_not_held() -> None:
    """The second user needs 1e-17 of a resource that is full but for the last bit, and could have 4."""
    capacities = [[np.nextafter(1.0, 2.0), 4], [0, 1]]
    eligible = [[True, False], [True, False], [False, True]]
    demands, limits = [[1, 0], [1e-17, 1], [0, 1]], [1, None, 1]
    instance = fo.Instance(demands, capacities, eligible=eligible, task_limits=limits)
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    evidence = LevelDuals([Dual(np.eye(4)[0], fixed=np.array([1]))])
    assert gate.judge(program, Proposal("levels", np.array([1.0, 2.0, 1.0]), evidence)).gap >= 0.9


SMALL = fo.Instance([[1], [2], [1]], [10])


def rewritten(write: Any, instance: fo.Instance = SMALL) -> tuple[fo.Policy, cp.Problem]:
    """A problem of most tasks with another objective and further conditions, from its tasks."""
    policy = fo.Policy(fo.Total(fo.Tasks()))
    problem = policy.problem(instance)
    objective, conditions = write(problem.var_dict["tasks"])
    return policy, cp.Problem(cp.Maximize(objective), [*problem.constraints, *conditions])


@pytest.mark.parametrize("unit", [1e-9, 1e-12])
def test_an_objective_of_small_numbers_is_not_near_its_optimum_for_that(unit: float) -> None:
    """Neither where it does not fall towards no tasks, nor where a variable of its own carries it."""
    policy, problem = rewritten(lambda x: (cp.min(unit * x), []))
    problem.var_dict["tasks"].save_value(np.zeros(3))
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, SMALL)
    level = cp.Variable(name="level")
    policy, problem = rewritten(lambda x: (level, [level <= unit * x]))
    problem.var_dict["tasks"].save_value(np.full(3, 2.0))
    level.save_value(np.array(2 * unit))
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, SMALL)
    policy, problem = rewritten(lambda x: (unit * cp.sum(x), []))
    problem.var_dict["tasks"].save_value(np.zeros(3))
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, SMALL)
    problem.var_dict["tasks"].save_value(np.array([10.0, 0, 0]))
    assert policy.certify(problem, SMALL).certificate.gap <= 1e-6


TINY = [fo.Total(fo.Tasks()), fo.MaxMin(), fo.AlphaFair(0.5), fo.OrderedWeighted((1, 0.5)), fo.MaxMin() + fo.Total()]


@pytest.mark.parametrize("objective", TINY, ids=repr)
def test_no_tasks_are_no_optimum_of_small_numbers(objective: fo.Objective, tmp_path: Path) -> None:
    path = fo.Policy(1e-9 * objective).allocate(fo.Instance([[1], [1]], [10])).save(tmp_path / "a.json")
    assert fo.Allocation.load(path).certificate.ok
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "tasks_by_server": [[0.0], [0.0]], "objective": 0.0}), encoding="utf-8")
    assert not fo.Allocation.load(path).certificate.ok


def test_totals_over_24_decades_are_right_or_refused() -> None:
    """Honest solvers are off there by more than the answer: 2.3e-14 was certified where 2.1e-10 is right."""
    instance = fo.Instance(
        [
            [33200000, 3820000, 87500000],
            [0.00363, 6.79e-08, 0.0348],
            [0.0322, 0, 0.752],
            [0.431, 328, 0.0382],
            [0.0286, 87.5, 44700000],
        ],
        [
            [183000000000, 222000000000, 1.15e-09],
            [1.42e-11, 686000000, 28000],
            [6.84e-12, 6.09e-10, 108000000],
            [1670000, 26000000000, 7.11e-12],
        ],
        task_limits=[None, None, None, None, 4.59],
    )
    right = 2.0832397864152586e-10  # by linear programming in fractions
    for solver in (None, *(s for s in ("HIGHS", "CLARABEL", "ECOS") if s in cp.installed_solvers())):
        try:
            a = fo.Policy(fo.Total()).allocate(instance, solver=solver)
        except fo.errors.NotCertified as error:
            assert error.best is None or not error.best.certificate.ok
            continue
        assert a.shares.sum() == pytest.approx(right, rel=1e-6)


@dataclass(frozen=True, repr=False)
class Cap(fo.Constraint):
    """A block that prints as others of its class do."""

    user: int = field(repr=False)
    most: float = field(repr=False)
    least: float = field(default=0.0, repr=False)

    def __repr__(self) -> str:
        return "Cap()"

    def constraints(self, model):
        return {"cap": model.tasks[self.user] <= self.most, "floor": model.tasks[self.user] >= self.least}


THREE = fo.Instance([[3, 1], [5, 3], [1, 5]], [18, 36])
WITH_TASKS = fo.WeightedLog() + 0.1 * fo.Total(fo.Tasks())


@pytest.mark.parametrize("objective", [WITH_TASKS, fo.Total(fo.Tasks())], ids=["bundles", "tasks"])
def test_two_blocks_that_print_alike_both_hold(objective: fo.Objective) -> None:
    for caps in ([Cap(0, 1), Cap(1, 1)], [Cap(1, 1), Cap(0, 1)]):
        assert (fo.Policy(objective, caps).allocate(THREE).tasks[:2] <= 1 + 1e-6).all()
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(objective, [Cap(0, 2), Cap(0, 9, least=3)]).allocate(THREE)


@pytest.mark.parametrize("objective", [WITH_TASKS, fo.Total(fo.Tasks())], ids=["bundles", "tasks"])
def test_constraints_of_ones_own_see_everybody_as_given(objective: fo.Objective) -> None:
    instance = THREE.with_task_limits([0, np.inf, np.inf])
    capped = fo.Policy(objective, [Cap(1, 1)]).allocate(instance).tasks
    assert capped[0] == 0 and capped[1] <= 1 + 1e-6 < capped[2]
    assert fo.Policy(objective, [Cap(2, 1)]).allocate(instance).tasks[2] <= 1 + 1e-6


def test_earlier_tiers_over_bundles_are_judged_at_the_last_point() -> None:
    a = fo.Policy(fo.WeightedLog().then(fo.Total(fo.Tasks()))).allocate(THREE)
    alone = fo.Policy(fo.WeightedLog()).allocate(THREE)
    unit = fo.WeightedLog().drop(BundlePoint(THREE, alone.bundles, alone.tasks_by_server))
    assert a.certificate.gaps[0] >= 0.9 * (alone.objective - a.objective) / unit > 1e-8
    assert a.certificate.gap == max(a.certificate.gaps) <= 1e-6


def test_answers_of_a_batch_stay_what_was_judged() -> None:
    many = fo.allocate_many(fo.DRF(), [[[1.0], [1]]], [10.0])
    with pytest.raises(ValueError, match="read-only"):
        many.tasks[0] = [50, 1]
    a = many[0]
    with pytest.raises(ValueError, match="read-only"):
        a.tasks[0] = 50


def test_the_objective_of_ps_dsf_follows_from_its_tasks(tmp_path: Path) -> None:
    a = fo.PSDSF().allocate(fo.Instance([[1, 2], [2, 1]], [[4, 4], [3, 6]]))
    path = a.save(tmp_path / "a.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "objective": 1e9}), encoding="utf-8")
    assert fo.Allocation.load(path).objective == a.objective


@pytest.mark.parametrize("base", [fo.Total, fo.AlphaFair, fo.MinTasks, fo.Tasks, fo.DominantShare])
def test_blocks_that_ship_are_no_base_of_ones_own(base: type) -> None:
    with pytest.raises(
        fo.errors.InvalidBlock, match=rf"Mine is a subclass of fairopt's {base.__name__}, and fast methods"
    ):
        type("Mine", (base,), {})


@dataclass(frozen=True, repr=False)
class Below(fo.Constraint):
    """A condition in an atom that CVXPY has no gradient of."""

    atom: str

    def constraints(self, model):
        largest = cp.norm(model.tasks, "inf") if self.atom == "norm" else cp.cummax(model.tasks)
        return {"below": largest <= 3}


@pytest.mark.parametrize("atom", ["norm", "cummax"])
def test_conditions_without_a_gradient_are_held(atom: str) -> None:
    a = fo.Policy(fo.Total(fo.Tasks()), [Below(atom)]).allocate(fo.Instance([[1], [2], [3]], [100]))
    np.testing.assert_allclose(a.tasks, [3, 3, 3], rtol=1e-6)


# -- conditions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Rows(fo.Constraint):
    """Two rows of one vector condition: the second user's by ten decades smaller than the first's."""

    def constraints(self, model):
        return {"rows": cp.multiply(np.array([1e6, 1e-4]), model.tasks) <= np.array([4e6, 1e-4])}


def test_every_row_of_a_condition_is_measured_by_its_own_size() -> None:
    x = cp.Variable(2)
    condition = cp.multiply(np.array([1e6, 1e-4]), x) <= np.array([4e6, 1e-4])
    x.save_value(np.array([4.0, 2.0]))  # the second row is exceeded by half of its size
    assert relative_violation(condition) == pytest.approx(0.5)
    a = fo.Policy(fo.Total(fo.Tasks()), [Rows()]).allocate(fo.Instance([[1], [1]], [10]))
    np.testing.assert_allclose(a.tasks, [4, 1], rtol=1e-6)


@dataclass(frozen=True, repr=False)
class OnlyRequired(fo.Constraint):
    """A condition that the block adds to what is required, and no other."""

    def constraints(self, model):
        model.required.append(model.tasks[0] <= 1)
        return {}


@pytest.mark.parametrize("solver", [None, "CLARABEL", "HIGHS"])
@pytest.mark.parametrize("objective", [fo.Leximin(), fo.MaxMin(), fo.Total(), fo.AlphaFair(1)], ids=repr)
def test_a_constraint_that_only_requires_holds(objective: fo.Objective, solver: str | None) -> None:
    instance = fo.Instance([[1, 1], [1, 2]], [10, 10])
    if solver == "HIGHS" and isinstance(objective, fo.AlphaFair):
        pytest.skip("HiGHS takes linear programs")
    a = fo.Policy(objective, [OnlyRequired()]).allocate(instance, solver=solver)
    assert a.tasks[0] <= 1 + 1e-7
    if isinstance(objective, (fo.Leximin, fo.AlphaFair)):
        np.testing.assert_allclose(a.tasks, [1, 4.5], rtol=1e-5)
    program = Program(instance, fo.Leximin(), (OnlyRequired(),))
    broken = Proposal("cone", np.array([10 / 3, 10 / 3]), Bottlenecked(Pool(program, fo.DominantShare())))
    assert not gate.judge(program, broken).ok


@dataclass(frozen=True, repr=False)
class Helped(fo.Constraint):
    """The first user's tasks under a variable of the block's own, which a required condition ties to 1."""

    def constraints(self, model):
        help_ = cp.Variable()
        model.required += [help_ <= 1]
        return {"helped": model.tasks[0] <= help_}


@pytest.mark.parametrize("limits", [None, [None, 0]])
def test_what_a_block_requires_is_solved_along_and_checked(limits: list[float | None] | None) -> None:
    instance = fo.Instance([[1], [2]], [10], task_limits=limits)
    program = Program(instance, fo.Total(fo.Tasks()), (Helped(),))
    answer = best(program, solve_number(program, Settings()))
    assert answer.ok and answer.tasks[0] == pytest.approx(1, rel=1e-6)
    far = gate.judge(program, Proposal("cone", answer.tasks + np.eye(len(answer.tasks))[0], answer.evidence))
    assert far.block_violation >= 0.4


@dataclass(frozen=True, repr=False)
class Lesser(fo.Objective):
    """The smaller number of tasks, by a variable of the block's own: a tangent in the tasks alone proves nothing."""

    def expression(self, model):
        least = cp.Variable()
        model.required += [least <= model.tasks]
        return least


@dataclass(frozen=True, repr=False)
class FromBelow(fo.Objective):
    """The same with a variable that no condition bounds, and whose multipliers do not add up exactly in floats."""

    def expression(self, model):
        level = 0.3 * cp.Variable()
        return level - cp.sum(cp.pos(level - model.tasks))


def test_what_a_bound_assumes_is_said_in_the_certificate() -> None:
    a = fo.Policy(FromBelow()).allocate(fo.Instance([[2, 3], [2, 1]], [6, 4]))
    np.testing.assert_allclose(a.tasks, [1, 1], rtol=1e-6)
    assert "without a proven range" in a.certificate.assumed and a.certificate.assumed in str(a.certificate)
    for policy in (fo.DRF(), fo.Policy(Lesser())):
        assert not policy.allocate(fo.Instance([[2, 3], [2, 1]], [6, 4])).certificate.assumed


def test_variables_of_a_block_that_a_solver_left_are_no_value_of_other_tasks() -> None:
    program = Program(fo.Instance([[2, 3], [2, 1]], [6, 4]), Lesser(), ())
    proposal = next(solve_number(program, Settings()))
    assert proposal.tasks is not None and gate.judge(program, proposal).ok
    assert gate.judge(program, replace(proposal, tasks=proposal.tasks / 2)).gap >= 0.4


@dataclass(frozen=True, repr=False)
class InThousandths(fo.Objective):
    """A transform that is small where the objective is not, and a gap in it no gap in the objective."""

    def expression(self, model):
        return cp.sum(cp.sqrt(model.tasks))

    def solver_form(self, model):
        return 1e-8 * cp.sum(cp.sqrt(model.tasks))


@dataclass(frozen=True, repr=False)
class Billionths(fo.Objective):
    """Tasks in billions."""

    def expression(self, model):
        return 1e-9 * cp.sum(model.tasks)


def test_an_excess_of_a_transform_is_no_gap_of_the_objective() -> None:
    cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    try:
        a = fo.Policy(InThousandths()).allocate(cluster)
    except fo.errors.NotCertified:
        return
    np.testing.assert_allclose(a.objective, fo.GFJ(0.5).allocate(cluster).objective / 2, rtol=1e-6)


def test_no_tasks_at_all_are_not_near_the_optimum_of_an_objective_of_small_numbers() -> None:
    program = Program(fo.Instance([[1], [2]], [10]), Billionths(), ())
    proposal = next(solve_number(program, Settings(solver="CLARABEL")))
    assert proposal.tasks is not None
    assert gate.judge(program, replace(proposal, tasks=0.0 * proposal.tasks)).gap >= 0.1


def test_a_condition_that_is_infinite_is_not_met() -> None:
    x = cp.Variable(2)
    condition = cp.log(x[0]) >= 0
    x.save_value(np.array([0.0, 25.0]))
    assert relative_violation(condition) == np.inf


# -- wild scales -------------------------------------------------------------------------------------------------------


def zeros_read(policy: fo.Policy, instance: fo.Instance) -> fo.Allocation:
    problem = policy.problem(instance)
    problem.var_dict["tasks"].save_value(np.zeros(problem.var_dict["tasks"].shape))
    return policy.certify(problem, instance)


ALIKE = fo.Instance([[1], [1]], [1])


@pytest.mark.parametrize(
    ("policy", "instance"),
    [
        (fo.Policy(fo.MaxMin()), ALIKE.with_weights([1e13, 1e13])),
        (fo.Policy(fo.OrderedWeighted((2, 1))), ALIKE.with_weights([1e20, 1e20])),
        (fo.Policy(fo.OrderedWeighted((2e-20, 1e-20))), ALIKE),
        (fo.Policy(fo.Total(fo.Tasks())), fo.Instance([[1], [1]], [1e-15], weights=[1e-60, 1e-60])),
        *(
            (fo.Policy(objective, [fo.MaxTasks(1e-14)]), ALIKE)
            for objective in (fo.MaxMin(), fo.Total(), fo.OrderedWeighted((2, 1)))
        ),
        (fo.Policy(fo.MaxMin(), [fo.MaxShare({"user1": 1e-14})]), ALIKE),
    ],
    ids=repr,
)
def test_no_tasks_are_not_the_optimum_where_it_is_only_small(policy: fo.Policy, instance: fo.Instance) -> None:
    with pytest.raises(fo.errors.NotCertified, match=r"gap 1\.0e\+00"):
        zeros_read(policy, instance)


@pytest.mark.fast_methods
@pytest.mark.parametrize("objective", [fo.Total(), fo.OrderedWeighted((2, 1)), fo.MaxMin()])
def test_a_limit_of_a_hundred_trillionth_of_a_task_is_used_up(objective: fo.Objective) -> None:
    a = fo.Policy(objective, [fo.MaxTasks(1e-14)]).allocate(ALIKE)
    np.testing.assert_allclose(a.tasks, [1e-14, 1e-14], rtol=1e-6)


@pytest.mark.parametrize("weight", [1e-60, 1e-10, 1.0, 1e10, 1e60])
def test_weights_say_nothing_of_how_much_of_a_total_is_lost(weight: float) -> None:
    instance = fo.Instance([[1, 3], [1, 0]], [[8, 1], [2, 3]], weights=[weight, weight])
    program = Program(instance, fo.Total(fo.Tasks()), ())
    proposal = next(solve_number(program, Settings(solver="HIGHS")))
    assert proposal.tasks is not None and gate.judge(program, proposal).ok
    lost = gate.judge(program, replace(proposal, tasks=0.999 * proposal.tasks))
    assert lost.gap == pytest.approx(1e-3, rel=1e-6)


def test_units_at_the_ends_of_the_range_are_answered() -> None:
    wild = fo.Instance([[1e60], [1e60]], [[2e-60], [4e-60]], weights=[1e-60] * 2)
    np.testing.assert_allclose(fo.DRF().allocate(wild).tasks, [3e-120, 3e-120], rtol=1e-9)


def test_zeros_that_only_rounded_rows_prove_are_not_proved() -> None:
    """No envy on one resource means equal bundles, and floats of the ratios leave no bundles but zeros."""
    program = Program(fo.Instance([[5], [2], [6], [3]], [15]), fo.Leximin(fo.Tasks()), (fo.EnvyFree(),))
    found = gate.judge(program, levels_in_fractions(program, Settings()))
    assert not found.ok and not found.tasks.any()


def test_a_level_that_the_rounding_of_a_condition_decides_is_not_proved() -> None:
    """The last digit of 2.2 gives the third user 4e-15: prices of 54 and 12 less 66 leave no digit of it."""
    instance = fo.Instance([[5, 0, 6], [4, 1, 0], [0, 6, 4]], [9, 2, 17])
    policy = fo.Policy(fo.Leximin(), [fo.Total(fo.Tasks()) >= 2.1999999999999997])
    try:
        tried = policy.allocate(instance).certificate.tried
    except fo.errors.NotCertified as refused:
        tried = refused.tried
    by_simplex = [attempt.gap for attempt in tried if attempt.solver == "HIGHS"]
    assert by_simplex and all(gap is None or gap > 1 for gap in by_simplex)


POISON = {
    "nan": np.nan,
    "infinite": np.inf,
    "huge": 1e308,
    "negative": -1.0,
    "tiny": 1e-320,
    "none": 0.0,
    "thousandth": 1e-3,
}


def poisoned(values: Any, what: float, first: bool) -> Any:
    """An array whose first entry, or all, are replaced, or for a part multiplied by it."""
    out = np.array(values, dtype=float)
    where = (0,) * out.ndim if first and out.size else ...
    out[where] = out[where] * what if what == 1e-3 else what
    return out


PROVED = {
    "pool": (fo.DRF(), ALIKE.with_weights([1, 2])),
    "floors": (fo.Policy(fo.Leximin(), [fo.MinTasks((0.1, 0))]), fo.Instance([[1, 0], [1, 1]], [1, 2])),
    "prices": (fo.FDS(2), fo.Instance([[2, 3], [2, 1]], [6, 4])),
    "total": (fo.MostTasks(), fo.Instance([[2, 3], [2, 1]], [6, 4])),
    "ordered": (fo.Policy(fo.OrderedWeighted((2, 1))), fo.Instance([[2, 3], [2, 1]], [6, 4])),
    "servers": (fo.DRF(), fo.Instance([[1, 1], [1, 2]], [[4, 5], [3, 9]])),
    "server prices": (fo.FDS(2), fo.Instance([[1, 1], [1, 2]], [[4, 5], [3, 9]])),
    "rows": (fo.Policy(fo.Total(), [fo.EnvyFree()]), fo.Instance([[2, 3], [2, 1]], [6, 4])),
    "held rows": (fo.Policy(fo.Leximin(), [fo.MaxShare(0.4), fo.EnvyFree()]), fo.Instance([[2, 3], [2, 1]], [6, 4])),
    "sum": (fo.Policy(fo.AlphaFair(1) + fo.Total()), fo.Instance([[2, 3], [2, 1]], [6, 4])),
    "plane": (fo.Policy(fo.FairnessEfficiency(2, -0.2)), fo.Instance([[1, 4], [3, 1]], [9, 18])),
}


@pytest.mark.parametrize("name", PROVED)
def test_no_number_that_is_not_finite_reaches_a_certificate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in the tasks and the prices: refused, or finite and within 1e-6 of the right answer."""
    policy, instance = PROVED[name]
    proposed: list[tuple[Program, Proposal]] = []
    honest = gate.judge

    def kept(program: Any, proposal: Proposal) -> gate.JudgedPoint:
        if proposal.tasks is not None:
            proposed.append((program, replace(proposal, tasks=proposal.tasks.copy())))
        return honest(program, proposal)

    with monkeypatch.context() as patch:
        patch.setattr(gate, "judge", kept)
        policy.allocate(instance)
    program, proposal = proposed[-1]
    right = honest(program, replace(proposal, tasks=np.array(proposal.tasks)))
    assert right.ok
    parts = [field for field in ("prices", "log_prices") if getattr(proposal.evidence, field, None) is not None]
    for what in POISON.values():
        for first in (True, False):
            spoilt = [replace(proposal, tasks=poisoned(proposal.tasks, what, first))]
            spoilt += [
                replace(
                    proposal,
                    tasks=np.array(proposal.tasks),
                    evidence=replace(
                        proposal.evidence,
                        **{  # type: ignore[type-var]
                            part: poisoned(getattr(proposal.evidence, part), what, first)
                        },
                    ),
                )
                for part in parts
            ]
            for one in spoilt:
                answer = honest(program, one)
                if answer.ok:
                    numbers = [answer.gap, answer.violation, answer.block_violation, answer.value, *answer.gaps]
                    assert np.isfinite(numbers).all() and np.isfinite(answer.tasks).all() and min(numbers[:3]) >= 0
                    np.testing.assert_allclose(answer.tasks, right.tasks, rtol=2e-3, atol=1e-9)
                    np.testing.assert_allclose(answer.value, right.value, rtol=2e-6)


@pytest.mark.parametrize("multiplier", [1.0, 1e10, 1e14, 1e16, 1e17, 1e18])
def test_large_multipliers_do_not_prove_that_nothing_is_the_most(multiplier: float) -> None:
    instance, policy = fo.Instance([[1], [1]], [1]), fo.Policy(fo.Total(fo.Tasks()), [fo.EnvyFree()])
    problem = policy.problem(instance)
    problem.solve(solver="CLARABEL")
    for variable in problem.variables():
        variable.save_value(np.zeros(variable.shape))
    for condition in problem.constraints:
        dual = condition.dual_variables[0]
        dual.save_value(np.full(dual.shape, multiplier))
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, instance)


def test_levels_on_servers_that_cost_more_are_a_gap() -> None:
    """Each of two users needs twice as much on the server where it is as on the other one: both could have 1."""
    instance = fo.Instance([[[2], [1]], [[1], [2]]], [[1], [1]])
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    duals = LevelDuals([Dual(np.ones(2), fixed=np.arange(2))])
    wrong, right = (
        gate.judge(program, Proposal("levels", program.gather(table), duals))
        for table in (0.5 * np.eye(2), np.eye(2)[::-1])
    )
    assert wrong.violation == right.violation == 0
    assert wrong.gap >= 1.0 and right.gap <= 1e-12
