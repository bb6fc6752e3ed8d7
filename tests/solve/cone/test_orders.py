"""Ordered weights by programs in one order of users after the other: against programs with all rows, and by hand."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle.instances import log_uniform

import fairopt as fo
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.gate import judge
from fairopt.proof.proposal import Proposal
from fairopt.solve.cone import orders
from fairopt.solve.cone.orders import grouped, orders_apply
from fairopt.solve.form.program import ConeModel, Program

EVEN = tuple(np.linspace(1, 0.01, 9))
WEIGHTS = {
    "all differ": EVEN,
    "two": (3.0,) * 4 + (1.0,) * 5,
    "some count": (2.0, 1.0),
    "halves": tuple(0.5 ** np.arange(9)),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use orders for few users too."""
    monkeypatch.setattr(orders, "ROWS", 0)


def instance_of(seed: int, n: int = 9, servers: int = 3, twins: bool = False) -> fo.Instance:
    """Random users, of whom some have limits; with twins each demand is there three times."""
    instance = log_uniform(np.random.default_rng(seed), n, 2, servers=servers, limits=0.3)
    return instance.replace(demands=instance.demands[np.arange(n) // 3]) if twins else instance


def by_hand(instance: fo.Instance, v: tuple[float, ...]) -> float:
    """The optimum of dominant shares with all rows: sums of the k smallest."""
    n, servers = instance.n_users, instance.n_servers
    x = cp.Variable((n, servers), nonneg=True)
    total, limited = cp.sum(x, axis=1), np.isfinite(instance.task_limits)
    rows = [x[:, s] @ instance.demands <= instance.capacities[s] for s in range(servers)]
    rows += [cp.multiply(x, 1.0 - instance.eligible) == 0, total[limited] <= instance.task_limits[limited]]
    z = cp.multiply(fo.DominantShare().coefficients(instance) / instance.weights, total)
    term = fo.OrderedWeighted(v).term
    form = sum(term.factor * drop * (cp.sum(z) if k == n else cp.sum_smallest(z, k)) for k, drop in term.kind.steps(n))
    return float(cp.Problem(cp.Maximize(form), rows).solve(solver="HIGHS"))


@pytest.mark.fast_methods
@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("twins", [False, True])
def test_answers_are_those_of_a_program_with_all_rows(always: None, name: str, twins: bool) -> None:
    instance = instance_of(len(name), twins=twins)
    a = fo.Policy(fo.OrderedWeighted(WEIGHTS[name])).allocate(instance)
    assert "program" in a.certificate.tried[-1].status and len(a.certificate.tried) == 1
    assert a.objective == pytest.approx(by_hand(instance, WEIGHTS[name]), rel=1e-6)


@pytest.mark.fast_methods
@pytest.mark.parametrize("constraint", [fo.SharingIncentive(), fo.EnvyFree(), fo.MaxTasks(2)], ids=repr)
@pytest.mark.parametrize(
    "objective",
    [
        fo.OrderedWeighted(EVEN, fo.Tasks()),
        fo.OrderedWeighted(EVEN) + 0.1 * fo.Total(),
        fo.OrderedWeighted(EVEN) + 0.05 * fo.AlphaFair(0.5),
    ],
    ids=["tasks", "with a total", "with alpha-fairness"],
)
def test_other_conditions_and_terms(monkeypatch: pytest.MonkeyPatch, constraint: Any, objective: Any) -> None:
    instance, policy = instance_of(3), fo.Policy(objective, [constraint])
    whole = policy.allocate(instance)
    monkeypatch.setattr(orders, "ROWS", 0)
    a = policy.allocate(instance)
    assert "program" in a.certificate.tried[-1].status
    assert a.objective == pytest.approx(whole.objective, rel=1e-6)


@pytest.mark.fast_methods
def test_where_one_order_gains_nothing_several_are_kept(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second order is as good as the first, and both together are proved best."""
    instance = fo.Instance([[3, 2], [3, 4], [1, 2]], [[3, 7], [5, 4]], eligible=[[True, False], [True] * 2, [True] * 2])
    take, kept = orders._Orders._add, []

    def counted(programs: Any, users: Any) -> None:
        take(programs, users)
        kept.append(len(programs.orders))

    monkeypatch.setattr(orders._Orders, "_add", counted)
    a = fo.Policy(fo.OrderedWeighted((7, 7, 6))).allocate(instance)
    assert kept == [1, 2] and a.certificate.tried[-1].status == "optimal (2 programs)"
    assert a.objective == pytest.approx(by_hand(instance, (7, 7, 6)), rel=1e-6)


def test_what_no_weight_counts_is_handed_out_on_one_pool(always: None) -> None:
    """The poorest alone counts, and the second resource suffices for more than that of the last user."""
    pool = fo.Instance([[1, 0], [1, 1], [0, 1]], [2, 9])
    a = fo.Policy(fo.OrderedWeighted((1,))).allocate(pool, method="cone")
    assert fo.check(a)["pareto"].holds


@pytest.mark.fast_methods
def test_users_are_not_too_many_for_the_proof() -> None:
    instance = log_uniform(np.random.default_rng(1), 150, 3, servers=4)
    a = fo.Policy(fo.OrderedWeighted(tuple(np.linspace(1, 0.01, 150)))).allocate(instance, method="cone")
    assert "programs" in a.certificate.tried[-1].status and a.certificate.gap <= 1e-6


def test_what_is_infeasible_is_named(always: None) -> None:
    with pytest.raises(fo.errors.Infeasible, match="MinTasks"):
        fo.Policy(fo.OrderedWeighted((2, 1)), [fo.MinTasks(5)]).allocate(fo.Instance([[1], [2]], [[6], [3]]))


def test_evidence_of_a_file_proves_the_answer_again_and_nothing_better(always: None) -> None:
    instance, objective = instance_of(5), fo.OrderedWeighted(EVEN)
    a, program = fo.Policy(objective).allocate(instance), Program(instance, objective, ())
    evidence, tasks = restored(program, a.evidence[0], a.certificate.solver), program.gather(a.tasks_by_server)
    assert judge(program, Proposal("cone", tasks, evidence)).gap <= 1e-7
    assert not judge(program, Proposal("cone", 0.9 * tasks, evidence)).ok
    for unit in (1e-3, 1e3, "one"):
        with pytest.raises((TypeError, ValueError)):
            restored(program, {**a.evidence[0], "unit": unit}, a.certificate.solver)


def test_a_form_that_stands_in_for_the_objective_proves_nothing_by_itself() -> None:
    """It is far below the objective, and would prove any point if it counted as the objective."""
    instance = instance_of(2)
    for objective in (fo.OrderedWeighted(EVEN), fo.OrderedWeighted(EVEN) + fo.MaxMin(fo.Tasks())):
        program = Program(instance, objective, ())
        tasks = 0.5 * program.gather(fo.Policy(objective).allocate(instance).tasks_by_server)
        for form in (cp.Constant(0.0), -cp.sum(ConeModel(program, "CLARABEL").unknowns)):
            answer = judge(program, Proposal("cone", tasks, Solved.of(ConeModel(program, "CLARABEL"), form, 1.0)))
            assert answer.gap >= 0.4


@pytest.mark.parametrize(
    ("objective", "applies"),
    [
        (fo.OrderedWeighted(EVEN), True),
        (fo.OrderedWeighted(EVEN) + fo.Total(), True),
        (fo.MaxMin(), False),
        (fo.OrderedWeighted(EVEN) + fo.MaxMin(), False),
        (fo.OrderedWeighted(EVEN) + fo.OrderedWeighted((1,)), False),
        (fo.Leximin(), False),
    ],
    ids=repr,
)
def test_when_it_applies(always: None, objective: Any, applies: bool) -> None:
    assert orders_apply(Program(instance_of(1), objective, ())) == applies


def test_rows_hold_levels_of_unequal_weight_in_order() -> None:
    """Of places with weights 3 3 1 1 1 0: a bound between the two groups, and none where one has a single place."""
    groups = grouped(np.array([3.0, 3, 1, 1, 1, 0]))
    pairs = set(zip(groups.below.tolist(), groups.above.tolist(), strict=True))
    assert groups.n_bounds == 1
    assert pairs == {(0, 6), (1, 6), (6, 2), (6, 3), (6, 4), (2, 5), (3, 5), (4, 5)}
    assert grouped(np.ones(3)).below.size == 0
