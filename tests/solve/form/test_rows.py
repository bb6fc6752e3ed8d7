"""Linear conditions as rows: the same numbers as in CVXPY, in exact answers and in the checker, and what follows."""

from dataclasses import dataclass
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import fairopt as fo
from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.model import Pairs, Point
from fairopt.blocks.rows import Rows
from fairopt.checker import constraints as checker_constraints
from fairopt.checker import instance as checker_instance
from fairopt.checker import policy as checker_policy
from fairopt.exact import tiers
from fairopt.exact.cluster import Cluster
from fairopt.exact.rationals import as_fraction
from fairopt.proof import plane_bound as plane
from fairopt.proof.feasibility import relative_violation, violation_at
from fairopt.solve.form.program import ConeModel, Program
from fairopt.testing import instances

BY_SERVER = fo.Instance(
    [[[1, 4], [3, 1]], [[2, 1], [1, 2]], [[1, 1], [1, 5]]],
    [[9, 18], [6, 6]],
    weights=[1, 2, 0.5],
    eligible=[[True, True], [True, False], [True, True]],
    task_limits=[None, 3, None],
)
T = fo.Tasks()
CONSTRAINTS = [
    fo.MinShare(0.05),
    fo.MaxShare(0.4),
    fo.MinTasks(0.1),
    fo.MaxTasks(2),
    fo.SharingIncentive(),
    fo.Reserve(0, 0.25),
    fo.EqualShares(),
    fo.EqualShares(T),
    fo.EnvyFree(),
    fo.Total(T) >= 1,
    fo.Total() + 0.5 * fo.Total(T) >= 0.3,
    fo.MaxMin() >= 0.01,
    fo.AlphaFair(0) >= 0.1,
]
clusters = instances((1, 4), (1, 3), (1, 3), weights=True, placement=True, by_server=True)


def users_of(row):
    """Who adds to a row, and who subtracts: rows of one block differ by these."""
    return tuple(frozenset(j for (j, _), v in row.items() if (v > 0) == up and v) for up in (True, False))


def own_rows(program, block):
    """A block's rows in fairopt, by user and server of the instance given."""
    user, server = program.active[program.pairs.user], program.pairs.server
    found = {}
    for _, _, rows in (program.rows_of(block) or ()) if program.rest else ():
        for values, right in zip(rows.per_task.toarray(), rows.right, strict=True):
            row = {(int(user[p]), int(server[p])): float(values[p]) for p in np.flatnonzero(values)}
            found[users_of(row)] = row, float(right), rows.equal
    return found


def in_verify(instance, block):
    """The instance under a block in the checker, and its rows; those of exact answers are the same, in this order."""
    nothing = np.zeros(instance.eligible.shape).tolist()
    theirs = checker_instance.Cluster({"instance": instance.to_dict(), "tasks_by_server": nothing})
    rows = checker_constraints.impose(theirs, checker_policy.block(repr(block), exactly=True), 0)
    rows = [({pair: Fraction(v.n, v.d) for pair, v in row.items()}, b, equal) for row, b, equal, _ in rows]
    ours = Cluster(instance)
    found, _ = tiers.impose(ours, [block])
    assert [{pair: as_fraction(v) for pair, v in row.of_pairs.items()} for row in found] == [row for row, _, _ in rows]
    assert [(as_fraction(row.bound), row.equal) for row in found] == [(Fraction(b.n, b.d), e) for _, b, e in rows]
    for name in ("low", "high", "usable"):
        pairs = zip(getattr(ours, name), getattr(theirs, name), strict=True)
        assert all(a is b is None or as_fraction(a) == Fraction(b.n, b.d) for a, b in pairs)
    return theirs, rows


@settings(max_examples=25, deadline=None)
@given(clusters, st.sampled_from(CONSTRAINTS))
@example(BY_SERVER, fo.MinShare(0.05))
@example(BY_SERVER, fo.MaxShare(0.4))
@example(BY_SERVER, fo.EnvyFree())
@example(BY_SERVER, fo.EqualShares())
@example(BY_SERVER, fo.Total() + 0.5 * fo.Total(T) >= 0.3)
def test_a_policy_has_the_same_rows_in_fairopt_and_in_verify(instance, block):
    smallest = isinstance(block, AtLeast) and block.objective.term.is_smallest
    assume(not (smallest and instance.demands.ndim == 3))  # rows in verify only, where the share is the same everywhere
    program = Program(instance, fo.Total(T), [block], merge=False)
    cluster, rows = in_verify(instance, block)
    theirs = {users_of(row): (row, right, equal) for row, right, equal in rows}
    ours = own_rows(program, block)
    low, high = np.array(program.low), np.array(program.high)
    for users in ours.keys() - theirs.keys():  # a share that is the same wherever the user runs bounds its tasks
        row, right, _ = ours.pop(users)
        ((j, v),) = {(j, v) for (j, _), v in row.items()}
        (low if v < 0 else high)[j] = right / v
    assert ours.keys() == theirs.keys()
    for users, (row, right, equal) in ours.items():
        other, bound, also = theirs[users]
        other = {pair: v for pair, v in other.items() if v}
        scale = max(map(abs, row.values())) / float(max(map(abs, other.values())))  # verify's are per level
        assert equal == also and row.keys() == other.keys()
        assert_allclose([v / scale for v in row.values()], [float(other[pair]) for pair in row], rtol=1e-12)
        assert right / scale == pytest.approx(float(bound), rel=1e-12)
    most = [np.inf if cluster.high[j] is None else float(cluster.high[j]) for j in cluster.active]
    assert_allclose([float(cluster.low[j]) for j in cluster.active], low, rtol=1e-12)
    assert_allclose(most, high, rtol=1e-12)
    assert_allclose([float(part) for part in cluster.usable], program.usable, rtol=1e-12)


def test_a_share_of_no_tasks_forbids_the_same_pairs_in_fairopt_and_in_verify():
    block = fo.MaxShare({BY_SERVER.users[0]: 0}, fo.ResourceShare(1))
    instance = BY_SERVER.replace(demands=[[[1, 0], [3, 1]], [[2, 1], [1, 2]], [[1, 1], [1, 5]]])
    ((theirs, bound, _),) = in_verify(instance, block)[1]
    ((ours, right, _),) = own_rows(Program(instance, fo.Total(T), [block]), block).values()
    assert {pair for pair, v in theirs.items() if v} == ours.keys() == {(0, 1)}
    assert right == float(bound) == 0.0


@settings(max_examples=20, deadline=None)
@given(clusters, st.integers(0, 2**32 - 1))
@example(BY_SERVER, 0)
def test_costs_and_loads_are_those_of_the_matrices(instance, seed):
    blocks = [fo.MaxShare(0.5), fo.EqualShares(), fo.EnvyFree(), fo.Total(T) >= 1]
    program = Program(instance, fo.Total(T), blocks)
    rows, pairs, rng = program.rows, program.pairs, np.random.default_rng(seed)
    x, prices = rng.uniform(0, 2, len(pairs)), rng.uniform(0, 2, len(rows.usable))
    assert_allclose(rows.load(x), pairs.loads @ x, rtol=1e-12)
    assert_allclose(rows.cost(prices), pairs.loads.T @ prices, rtol=1e-12)
    for block, _, own in rows.further:
        y = rng.normal(size=len(own))
        assert block in blocks
        assert own.cost(y) @ x == pytest.approx(y @ own.load(x), rel=1e-9, abs=1e-9)
        assert (own.cost_size(y) >= np.abs(own.cost(y)) * (1 - 1e-12)).all()
        assert (own.valid(y) >= 0).all() or own.equal


@settings(max_examples=25, deadline=None)
@given(clusters, st.sampled_from(CONSTRAINTS), st.integers(0, 2**32 - 1))
@example(BY_SERVER, fo.MinShare(0.05), 0)
@example(BY_SERVER, fo.EnvyFree(), 3)
def test_rows_are_broken_by_as_much_as_their_conditions_in_cvxpy(instance, block, seed):
    program = Program(instance, fo.Total(T), [block])
    cone = ConeModel(program)
    x = np.random.default_rng(seed).uniform(0, 2, len(program.pairs))
    cone.unknowns.save_value(x / cone.scale)
    for _, _, condition in cone.rest:
        found = cone.known[condition.id].rows.broken(x).max()
        assert found == pytest.approx(relative_violation(condition), rel=1e-6, abs=1e-12)


def test_the_value_of_an_empty_pool_breaks_no_row():
    rows = Rows([[1.0, -1.0]], [0.0])
    assert [rows.broken(tasks).item() for tasks in ([0, 0], [2, 1], [np.nan, 0])] == pytest.approx([0, 0.5, np.inf])
    assert rows.broken([1e-9, 0], typical=1.0).item() < 1e-5  # tasks of nothing hold everything


@dataclass(frozen=True, repr=False)
class Near(fo.Constraint):
    """Dominant shares differ by at most d, as rows."""

    d: float

    def rows(self, pairs):
        s = pairs.share(fo.DominantShare())
        above, below = np.nonzero(~np.eye(pairs.instance.n_users, dtype=bool))
        return {"near": Rows(s[above] - s[below], self.d)}


@dataclass(frozen=True, repr=False)
class NearInCvxpy(fo.Constraint):
    d: float

    def constraints(self, model):
        s = model.share(fo.DominantShare())
        above, below = np.nonzero(~np.eye(model.instance.n_users, dtype=bool))
        return {"near": s[above] - s[below] <= self.d}


@pytest.mark.parametrize("objective", [fo.AlphaFair(2), fo.Leximin(), fo.Total(T)])
@pytest.mark.parametrize(
    "instance", [fo.datasets.log_uniform(5, 3, seed=1), BY_SERVER, BY_SERVER.replace(task_limits=[None, 0, None])]
)
def test_a_condition_of_ones_own_by_rows_has_the_answer_and_the_proof_of_one_in_cvxpy(objective, instance):
    found, other = (fo.Policy(objective, [block(0.05)]).allocate(instance) for block in (Near, NearInCvxpy))
    assert found.certificate.ok and not found.certificate.assumed
    assert found.objective == pytest.approx(other.objective, rel=1e-6)
    assert_allclose(found.tasks[found.instance.task_limits == 0], 0)


def test_answers_are_measured_by_rows_without_a_model(monkeypatch):
    program = Program(BY_SERVER, fo.Total(T), [Near(0.05), fo.MaxShare(0.4), fo.EnvyFree()])
    monkeypatch.setattr("fairopt.proof.feasibility.ConeModel", None)
    assert violation_at(program, np.zeros(len(program.pairs))) == 0
    assert violation_at(program, np.arange(len(program.pairs), dtype=float)) > 0.1


def test_a_condition_in_conflict_is_told_in_its_own_units():
    with pytest.raises(fo.errors.Infeasible, match="at most 4 can be had for 'together' of users"):
        fo.Policy(fo.Total(), [Given(lambda pairs: {"together": Rows([-1, -1], -8)})]).allocate(
            fo.Instance([[1], [1]], [4])
        )


class Given(fo.Constraint):
    def __new__(cls, rows):
        @dataclass(frozen=True, repr=False)
        class Own(fo.Constraint):
            def rows(self, pairs):
                return rows(pairs)

        return Own()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (lambda pairs: None, "returned None"),
        (lambda pairs: {"a": Rows(pairs.weights["user1"])}, r"x\[pairs.instance.user_index\('user1'\)\]"),
        (lambda pairs: [1], "gave list; give a dict of Rows by name"),
        (lambda pairs: {"a": 1}, "under 'a'; give fairopt.blocks.rows.Rows"),
        (lambda pairs: {"a": Rows([1.0, 2.0, 3.0])}, r"have 3 coefficients for 2 \(user, server\) pairs"),
        (
            lambda pairs: {"a": Rows(np.ones((1, 1, 2)))},
            r"Own.*per_task of Rows has shape \(1, 1, 2\).*give real .*n_pairs",
        ),
        (lambda pairs: {"a": Rows(5)}, r"Own.*per_task of Rows has shape \(\).*give real numbers"),
        (lambda pairs: {"a": Rows([["a", "b"]])}, r"Own.*per_task of Rows is \[\['a', 'b'\]\]; give an array of real"),
        (lambda pairs: {"a": Rows(["1", "2"])}, "Own.*per_task of Rows is .*give an array of real numbers"),
        (lambda pairs: {"a": Rows([[1.0, 2.0], [1.0]])}, "Own.*per_task of Rows is .*inhomogeneous.*give an array"),
        (lambda pairs: {"a": Rows(1j * np.ones(2))}, "Own.*per_task of Rows is .*give an array of real numbers"),
        (lambda pairs: {"a": Rows(sp.csr_array(1j * np.ones((1, 2))))}, "Own.*type complex128; give real numbers"),
        (lambda pairs: {"a": Rows([1.0, 1.0], "x")}, "Own.*right of Rows is 'x'; give an array of real numbers"),
        (
            lambda pairs: {"a": Rows([1.0, 1.0], [1, 2, 3])},
            r"right of Rows has shape \(3,\); give one number, or \(1,\)",
        ),
        (lambda pairs: {"a": Rows([1.0, 1.0], [[1]])}, r"right of Rows has shape \(1, 1\); give one number"),
        (lambda pairs: {"a": Rows([1.0, 1.0], 1, unit="m")}, "unit of Rows is 'm'; give an array of real numbers"),
        (lambda pairs: {"a": Rows([1.0, np.nan])}, "its rows 'a' hold nan"),
        (lambda pairs: {"a": Rows([1.0, 1.0], np.inf)}, "its rows 'a' hold inf"),
        (lambda pairs: {"a": Rows([1.0, 1.0], 1, unit=0)}, "the unit of its rows 'a' is 0"),
        (lambda pairs: {"a": Rows([0.0, 0.0], -1)}, "cannot hold, whatever the tasks"),
    ],
)
def test_wrong_rows_are_refused_with_the_fix(rows, said):
    with pytest.raises(fo.errors.FairoptError, match=said):
        fo.Policy(fo.Total(), [Given(rows)]).allocate(fo.Instance([[1], [1]], [4]))


def test_rows_of_ones_own_limit_how_far_all_shares_can_grow_as_those_of_fairopt_do():
    limits, level = fo.MaxShare(0.05), Given(lambda pairs: {"level": Rows(-np.ones(len(pairs)), -1)})
    objective, point = fo.FairnessEfficiency(0.5, 3), Point(BY_SERVER, np.ones((3, 2)))
    lows = [
        plane.extremes(Program(BY_SERVER, objective, blocks), point, plane.Extreme(1.0, 0.0), None)[0]
        for blocks in ([limits, level], [Given(limits.rows), level], [level])
    ]
    assert 0 < lows[0] == lows[1] < lows[2]
    exactly = Given(lambda pairs: {"exactly": Rows(np.ones(len(pairs)), 2, equal=True)})
    assert plane.extremes(Program(BY_SERVER, objective, [exactly]), point, plane.Extreme(1.0, 0.0), None)[0] == 0


def test_a_constraint_writes_rows_or_conditions_and_not_both():
    with pytest.raises(fo.errors.InvalidBlock, match="defines both rows and constraints"):

        class Both(fo.Constraint):
            def rows(self, pairs):
                return {}

            def constraints(self, model):
                return {}


def test_solvers_see_rows_in_units_of_their_right_hand_side_or_of_their_largest_term():
    pairs = Pairs(fo.Instance([[1], [1]], [1e6]))
    unknowns = cp.Variable(2)
    model = fo.Model(pairs.instance, unknowns, np.array([10.0, 1000.0]))
    rows = Rows([[1.0, 1.0], [1.0, -2.0], [3.0, 0.0]], [500.0, 0.0, 0.0])
    assert rows.units(model.scale).tolist() == [500.0, 2000.0, 30.0]
    unknowns.value = [1.0, 1.0]
    assert_allclose(rows.constraint(model).expr.value, [1.02, -0.995, 1.0])
