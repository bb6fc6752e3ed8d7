"""Constraints without a solver: unknowns get values, and conditions hold exactly when their definitions say so."""

import dataclasses
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle.instances import exactly, needy

import fairopt as fo
from fairopt.blocks.model import Pairs, Point

NEAR = 1e-6  # points nearer than this to the edge of a condition are left out: floats decide there
POOL = fo.Instance(
    [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"], resources=["bandwidth", "memory", "cpu"]
)


NEEDS, LIMITS = st.just(0.0) | st.floats(0.1, 20), st.just(math.inf) | st.floats(0.1, 20)
FRACTIONS = st.just(0.0) | st.floats(0.01, 1.0)


@st.composite
def clusters(draw):
    """Up to 4 users on up to 3 servers: weights, counts, limits, eligibility, zero demands, demands by server."""
    n, m, servers = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    by_server = draw(st.booleans())
    rows = n * servers if by_server else n
    demands = np.reshape(draw(exactly(rows, needy(m, NEEDS))), (n, servers, m) if by_server else (n, m))
    capacities = np.reshape(draw(st.lists(st.floats(5, 100), min_size=servers * m, max_size=servers * m)), (servers, m))
    eligible = np.reshape(draw(st.lists(st.booleans(), min_size=n * servers, max_size=n * servers)), (n, servers))
    eligible[:, 0] = True
    return fo.Instance(
        demands,
        capacities,
        eligible=eligible,
        weights=draw(st.lists(st.floats(0.2, 5), min_size=n, max_size=n)),
        task_limits=draw(exactly(n, LIMITS)),
        counts=draw(st.lists(st.integers(1, 3), min_size=servers, max_size=servers)),
    )


@st.composite
def placed(draw):
    """A cluster and tasks by user and server, zero where a user may not run."""
    instance = draw(clusters())
    shape = instance.eligible.shape
    return instance, instance.tasks_alone * np.reshape(draw(exactly(shape[0] * shape[1], FRACTIONS)), shape)


def conditions(block, instance, tasks, units=1.0):
    """The block's conditions by name, at tasks by server."""
    where = np.flatnonzero(instance.eligible.ravel())
    unknowns = cp.Variable(len(where))
    scale = units * (1 + np.arange(len(where)) % 3)
    named = block.constraints(fo.Model(instance, unknowns, scale))
    unknowns.value = tasks.ravel()[where] / scale
    assert all(isinstance(name, str) and isinstance(c, cp.Constraint) for name, c in named.items())
    return named


def hold(block, instance, tasks, units=1.0):
    return all(bool(np.all(c.value(1e-12))) for c in conditions(block, instance, tasks, units).values())


def agrees(block, instance, tasks, margins, units=1.0):
    """Whether the block holds exactly where all relative margins are at least zero."""
    margins = np.asarray(margins, dtype=float).ravel()
    assume(not ((np.abs(margins) < NEAR) & (margins != 0)).any())
    assert hold(block, instance, tasks, units) == bool((margins >= 0).all())


def relative(have, need):
    """Margins of have >= need, relative to what is needed."""
    have, need = np.asarray(have, float), np.asarray(need, float)
    size = np.where(need > 0, need, 1.0)
    return np.where(need > 0, (have - need) / size, 0.0)


def coefficients(instance, kind):
    """Dominant shares (or ones) per task by user and server, from the data."""
    d, total = instance.per_server_demands, (instance.capacities * instance.counts[:, None]).sum(axis=0)
    return (d / total).max(axis=2) if kind == "dominant" else np.ones(d.shape[:2])


def shares(instance, tasks, kind="dominant"):
    return (coefficients(instance, kind) * tasks).sum(axis=1)


BLOCK_OF = {"dominant": fo.DominantShare(), "tasks": fo.Tasks()}
UNITS = st.sampled_from([1.0, 0.01, 37.0])


# -- each condition is what its definition says -----------------------------------------------------------------------


@given(placed(), UNITS)
def test_sharing_incentive_is_ones_slice_of_every_server_cut_at_the_limit(at, units):
    instance, tasks = at
    need = []
    for j in range(instance.n_users):
        slice_ = instance.weights[j] / instance.weights.sum()
        alone = 0.0
        for s in range(instance.n_servers):
            if instance.eligible[j, s]:
                d = instance.per_server_demands[j, s]
                alone += min(
                    slice_ * instance.counts[s] * c / q for c, q in zip(instance.capacities[s], d, strict=True) if q > 0
                )
        need.append(min(alone, instance.task_limits[j]))
    agrees(fo.SharingIncentive(), instance, tasks, relative(tasks.sum(axis=1), need), units)


@given(placed(), UNITS)
def test_envy_freeness_is_what_one_could_run_on_anothers_bundle_at_ones_weight_uncut(at, units):
    instance, tasks = at
    d, w, margins = instance.per_server_demands, instance.weights, [0.0]
    for j in range(instance.n_users):
        for k in range(instance.n_users):
            if j != k:
                could = (
                    w[j]
                    / w[k]
                    * sum(
                        tasks[k, s]
                        * min(d[k, s, i] / d[j, s, i] for i in range(instance.n_resources) if d[j, s, i] > 0)
                        for s in range(instance.n_servers)
                        if instance.eligible[j, s]
                    )
                )
                margins.append(relative(tasks[j].sum(), could))
    agrees(fo.EnvyFree(), instance, tasks, margins, units)


@given(placed(), UNITS, st.sampled_from(["dominant", "tasks"]))
def test_equal_shares_are_equal_per_weight(at, units, kind):
    instance, tasks = at
    z = shares(instance, tasks, kind) / instance.weights
    spread = (z - z[0]) / max(z.max(), 1e-300)
    assume(not ((np.abs(spread) < NEAR) & (spread != 0)).any())
    assert hold(fo.EqualShares(BLOCK_OF[kind]), instance, tasks, units) == bool((spread == 0).all())


@given(clusters(), UNITS, st.sampled_from(["dominant", "tasks"]), st.floats(0.1, 5))
def test_equal_shares_hold_where_shares_are_made_equal(instance, units, kind, level):
    c, tasks = coefficients(instance, kind), np.zeros(instance.eligible.shape)
    tasks[:, 0] = level * instance.weights / c[:, 0]
    named = conditions(fo.EqualShares(BLOCK_OF[kind]), instance, tasks, units)
    assert all(np.max(condition.violation(), initial=0.0) <= 1e-8 for condition in named.values())


@given(placed(), UNITS, st.data())
def test_min_and_max_tasks_bound_the_tasks(at, units, data):
    instance, tasks = at
    n = instance.n_users
    level = np.array(data.draw(st.lists(st.one_of(st.just(0.0), st.floats(0.1, 20)), min_size=n, max_size=n)))
    total = tasks.sum(axis=1)
    agrees(fo.MinTasks(level), instance, tasks, relative(total, level), units)
    agrees(fo.MaxTasks(level), instance, tasks, (level - total) / np.where(level > 0, level, 1), units)


@given(placed(), UNITS, st.sampled_from(["dominant", "tasks"]), st.data())
def test_min_and_max_share_bound_the_shares(at, units, kind, data):
    instance, tasks = at
    n = instance.n_users
    level = np.array(data.draw(st.lists(st.one_of(st.just(0.0), st.floats(0.01, 2)), min_size=n, max_size=n)))
    share = shares(instance, tasks, kind)
    agrees(fo.MinShare(level, BLOCK_OF[kind]), instance, tasks, relative(share, level), units)
    agrees(fo.MaxShare(level, BLOCK_OF[kind]), instance, tasks, (level - share) / np.where(level > 0, level, 1), units)


@given(placed(), UNITS, st.floats(0, 1), st.data())
def test_a_reserve_is_left_free_on_every_server(at, units, fraction, data):
    instance, tasks = at
    i = data.draw(st.integers(0, instance.n_resources - 1))
    used = (instance.per_server_demands[:, :, i] * tasks).sum(axis=0)
    capacity = instance.capacities[:, i] * instance.counts
    agrees(fo.Reserve(i, fraction), instance, tasks, 1 - fraction - used / capacity, units)
    agrees(fo.Reserve(instance.resources[i], fraction), instance, tasks, 1 - fraction - used / capacity, units)


@given(placed(), UNITS, st.floats(0.01, 50))
def test_a_level_of_an_objective_bounds_its_value(at, units, level):
    instance, tasks = at
    agrees(fo.Total(fo.Tasks()) >= level, instance, tasks, tasks.sum() / level - 1, units)
    smallest = (shares(instance, tasks) / instance.weights).min()
    agrees(fo.MaxMin() >= level / 50, instance, tasks, smallest / (level / 50) - 1, units)


@given(placed(), st.floats(-50, -0.01))
def test_a_level_of_nash_welfare_may_be_negative(at, level):
    instance, tasks = at
    tasks = np.maximum(tasks, 0.01 * instance.tasks_alone)
    value = (instance.weights * np.log(tasks.sum(axis=1) / instance.weights)).sum()
    agrees(fo.AlphaFair(1, fo.Tasks()) >= level, instance, tasks, (value - level) / abs(level))


@given(clusters())
def test_ones_own_slice_of_every_server_satisfies_the_sharing_incentive_and_without_limits_envies_nobody(instance):
    slices = instance.tasks_alone * (instance.weights / instance.weights.sum())[:, None]
    for block in (fo.SharingIncentive(), fo.EnvyFree()):
        named = conditions(block, instance, slices)
        assert all(np.max(c.violation(), initial=0.0) <= 1e-9 for c in named.values())


# -- scalar, array and dict by user mean the same --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [fo.MinTasks, fo.MaxTasks, fo.MinShare, fo.MaxShare])
@given(at=placed(), level=st.floats(0, 3))
@example(at=(fo.Instance([[1], [1]], [2]), np.ones((2, 1))), level=5e-324)
def test_a_scalar_an_array_and_a_dict_by_user_mean_the_same(kind, at, level):
    instance, tasks = at
    n = instance.n_users
    forms = [
        level,
        [level] * n,
        np.full(n, level),
        tuple([level] * n),
        dict.fromkeys(instance.users, level),
        np.float64(level),
    ]
    assert len({hold(kind(form), instance, tasks) for form in forms}) == 1


@pytest.mark.parametrize("kind", [fo.MinTasks, fo.MinShare])
def test_users_that_a_dict_leaves_out_have_no_lower_bound(kind):
    assert hold(kind({"web": 0.1}), POOL, np.array([[0.0], [5.0]]))


@pytest.mark.parametrize("kind", [fo.MaxTasks, fo.MaxShare])
def test_users_that_a_dict_leaves_out_have_no_upper_bound(kind):
    assert hold(kind({"web": 5}), POOL, np.array([[1e9], [5.0]]))


def test_an_upper_bound_of_zero_means_none():
    assert hold(fo.MaxTasks({"web": 0}), POOL, np.array([[3.0], [0.0]]))
    assert not hold(fo.MaxTasks({"web": 0}), POOL, np.array([[3.0], [0.01]]))
    assert not hold(fo.MaxShare({"web": 0}), POOL, np.array([[3.0], [0.01]]))


@pytest.mark.parametrize("kind", [fo.MinTasks, fo.MinShare])
def test_a_lower_bound_of_zero_asks_nothing(kind):
    assert kind(0).constraints(fo.Model(POOL, cp.Variable(2))) == {}


# -- what always holds comes from the instance -----------------------------------------------------------------------


def test_the_slice_of_a_user_who_takes_no_part_stays_its_own():
    instance = fo.Instance([[1.0], [2.0], [1.0]], [9], task_limits=[None, None, 0])
    a = fo.Policy(fo.Total(fo.Tasks()), [fo.SharingIncentive()]).allocate(instance)
    assert_allclose(a.tasks, [6, 1.5, 0], rtol=1e-9)  # a third of the pool, not a half


def test_lower_bounds_on_a_user_who_takes_no_part_conflict_with_its_limit():
    with pytest.raises(fo.errors.Infeasible, match=r"'web'.*task limit is 0"):
        fo.Policy(fo.Leximin(), [fo.MinTasks({"web": 1})]).allocate(POOL.with_task_limits({"web": 0}))


@pytest.mark.parametrize(
    "constraint",
    [fo.MinTasks({"batch": 1}), fo.MaxTasks({"web": 3}), fo.SharingIncentive(), fo.EnvyFree(), fo.EqualShares()],
    ids=repr,
)
def test_constraints_written_for_all_users_fit_when_some_take_no_part(constraint):
    a = fo.Policy(fo.Leximin(), [constraint]).allocate(POOL.with_task_limits({"web": 0}))
    assert_allclose(a.tasks, [5, 0], rtol=1e-6)


@pytest.mark.parametrize("objective", [fo.MaxMin(), fo.AlphaFair(1), fo.OrderedWeighted((1,))], ids=repr)
def test_a_level_of_an_objective_leaves_out_users_who_take_no_part(objective):
    # task limits of 0 are legal: such a user leaves every objective
    level = 0.1 if not isinstance(objective, fo.AlphaFair) else -5
    a = fo.Policy(fo.Leximin(), [objective >= level]).allocate(POOL.with_task_limits({"web": 0}))
    assert_allclose(a.tasks, [5, 0], rtol=1e-6)


def test_a_max_min_tier_leaves_out_users_who_take_no_part():
    a = fo.Policy(fo.MaxMin().then(fo.Total())).allocate(POOL.with_task_limits({"web": 0}))
    assert_allclose(a.tasks, [5, 0], rtol=1e-6)


# -- what is refused, with place, value and fix ----------------------------------------------------------------------

BOUNDS = [fo.MinTasks, fo.MaxTasks, fo.MinShare, fo.MaxShare]


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("value", [math.nan, -1, math.inf, -1e-300, [1, math.nan], {"web": -1}, {"web": math.inf}])
def test_bounds_are_finite_numbers_from_0(kind, value):
    with pytest.raises(fo.errors.InvalidBlock, match=rf"{kind.__name__} (holds|of).*(nan|-1|inf).*numbers from 0 to"):
        kind(value)


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("value", ["a", 1j, {"web": "x"}, {"web": [1, 2]}, [[1, 2], [3]], "1, 2"], ids=repr)
def test_bounds_that_are_no_numbers_are_refused(kind, value):
    with pytest.raises(
        fo.errors.InvalidBlock, match=f"{kind.__name__} is .*give a number, an array by user or a dict by user"
    ):
        kind(value)


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("value", [[0.1], [0.1, 0.2, 0.3], [], [[0.1, 0.2]], [[0.1], [0.2]]], ids=repr)
def test_bounds_of_the_wrong_shape_are_refused(kind, value):
    with pytest.raises(fo.FairoptError, match=kind.__name__):
        fo.Policy(fo.Leximin(), [kind(value)]).allocate(POOL)


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("verb", ["allocate", "problem"])
def test_a_bound_on_an_unknown_user_is_refused_with_the_nearest(kind, verb):
    with pytest.raises(fo.FairoptError, match=f"{kind.__name__}.*'wep'.*'web'"):
        getattr(fo.Policy(fo.Leximin(), [kind({"wep": 1})]), verb)(POOL)


@pytest.mark.parametrize("demands", [[[1, 0], [1, 1]], [[[1, 0], [2, 0]], [[1, 1], [1, 0]]]])
def test_a_floor_on_a_share_that_a_user_cannot_have_is_infeasible_and_names_it(demands):
    instance = fo.Instance(demands, [[2, 2]] * np.ndim(demands[0]), users=["a", "b"])
    said = r"requires 0\.1 for user 'a', whose ResourceShare\(1\) is always zero"
    with pytest.raises(fo.errors.Infeasible, match=said) as raised:
        fo.Policy(fo.Leximin(), [fo.MinShare(0.1, fo.ResourceShare(1))]).allocate(instance)
    assert raised.value.conflict == ("`MinShare(0.1, ResourceShare(1))`",)
    fo.Policy(fo.Leximin(), [fo.MinShare({"b": 0.1}, fo.ResourceShare(1))]).allocate(instance)  # not asked of a


def test_a_limit_of_zero_on_a_share_that_is_zero_on_some_servers_binds_only_on_the_others():
    demands = [[[1, 0], [1, 1]], [[1, 0], [1, 0]]]
    instance = fo.Instance(demands, [[2, 2], [2, 2]], users=["a", "b"], task_limits=[None, 1])
    answer = fo.Policy(fo.Total(fo.Tasks()), [fo.MaxShare(0, fo.ResourceShare(1))]).allocate(instance)
    assert_allclose(answer.tasks_by_server[0, 1], 0, atol=1e-9)
    assert_allclose(answer.objective, 3, rtol=1e-6)  # user a's on the first server, where its share is zero


def test_equal_shares_are_refused_where_a_share_is_zero():
    instance = fo.Instance([[1, 0], [1, 1]], [2, 2], users=["a", "b"])
    with pytest.raises(fo.errors.OutOfDomain, match="'a'"):
        fo.Policy(fo.Total(), [fo.EqualShares(fo.ResourceShare(1))]).allocate(instance)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan, math.inf, "x", None])
def test_a_reserve_is_a_fraction(fraction):
    with pytest.raises(fo.errors.InvalidBlock, match="fraction of Reserve"):
        fo.Reserve("cpu", fraction)


@pytest.mark.parametrize("resource", ["cpuu", 3, -1, None, 1.5])
@pytest.mark.parametrize("verb", ["allocate", "problem"])
def test_a_reserve_of_an_unknown_resource_is_refused(resource, verb):
    with pytest.raises(fo.FairoptError, match="no resource"):
        getattr(fo.Policy(fo.Leximin(), [fo.Reserve(resource, 0.1)]), verb)(POOL)


@pytest.mark.fast_methods
def test_envy_freeness_of_many_users_is_measured_by_all_rows_and_solved_with_few():
    rng = np.random.default_rng(3)
    many = fo.Instance(rng.uniform(0.1, 4, (500, 3)), np.full(3, 500.0))
    a = fo.Policy(fo.MaxMin(fo.Tasks()), [fo.EnvyFree()]).allocate(many, method="cone")
    index = {user: j for j, user in enumerate(many.users)}
    made = np.array([index[j] * 500 + index[k] for _, (j, k), _ in a.evidence[0]["rows"]])
    assert 0 < len(made) < 500 * 499 / 10
    runs = (many.demands[None] / many.demands[:, None]).min(axis=2) * a.tasks
    assert (runs <= a.tasks[:, None] * (1 + 1e-7)).all()
    j, k = np.divmod(made, 500)
    worth = (many.demands[k] / many.demands[j]).min(axis=1)
    x, z = cp.Variable(500), cp.Variable()
    rows = [x >= z, many.demands.T @ x <= 500, x[j] >= cp.multiply(worth, x[k])]
    best = cp.Problem(cp.Maximize(z), rows).solve(solver="HIGHS")
    assert a.objective == pytest.approx(best, rel=1e-6)


@settings(max_examples=25)
@given(clusters(), st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_broken_rows_are_those_by_which_the_conditions_are_most_violated(instance, seed, each):
    pairs, n = Pairs(instance), instance.n_users
    at = np.random.default_rng(seed).uniform(0, 2, len(pairs))
    rows, by = fo.EnvyFree().broken(Point(instance, pairs.table(at)), np.full(n, 1e-9), each)
    model = fo.Model(instance, cp.Variable(len(pairs)), pairs=pairs)
    model.unknowns.value = at
    for condition in fo.EnvyFree().constraints(model).values():
        assert (by > 1e-9).any() == (condition.violation() > 1e-9 * at.max()).any()
    some = by > 1e-9
    for made in fo.EnvyFree().rows(pairs, rows[some]).values():
        assert len(made) == some.sum() and (made.broken(at) > 0).all()


# -- a constraint of one's own ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class Gives(fo.Constraint):
    what: str

    def constraints(self, model):
        made = {
            "fine": lambda: {"twice": model.tasks[0] <= 2 * model.tasks[1]},
            "no dict": lambda: [model.tasks[0] <= 1],
            "no constraint": lambda: {"mine": 3},
            "not convex": lambda: {"mine": cp.sum_squares(model.tasks) >= 1},
            "not dcp": lambda: {"mine": cp.sqrt(model.tasks[0]) * model.tasks[1] <= 1},
        }
        return made[self.what]()


def test_a_constraint_of_ones_own_needs_one_method():
    a = fo.Policy(fo.Total(), [Gives("fine")]).allocate(fo.Instance([[1], [1]], [6]))
    assert a.certificate.ok
    assert a.tasks[0] <= 2 * a.tasks[1] * (1 + 1e-7)


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("no dict", fo.errors.InvalidBlock),
        ("no constraint", fo.errors.InvalidBlock),
        ("not convex", fo.errors.NotConcave),
        ("not dcp", fo.errors.NotConcave),
    ],
)
@pytest.mark.parametrize("objective", [fo.Total(), fo.Leximin()], ids=repr)
def test_a_constraint_of_ones_own_that_is_wrong_is_refused_by_name(what, error, objective):
    with pytest.raises(error, match="Gives"):
        fo.Policy(objective, [Gives(what)]).allocate(POOL)


@pytest.mark.parametrize(
    ("what", "error"), [("no dict", fo.errors.InvalidBlock), ("no constraint", fo.errors.InvalidBlock)]
)
def test_the_problem_refuses_the_same_constraints(what, error):
    with pytest.raises(error, match="Gives"):
        fo.Policy(fo.Total(), [Gives(what)]).problem(POOL)


def test_a_constraint_without_constraints_says_what_to_write():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Nothing(fo.Constraint):
        pass

    with pytest.raises(fo.errors.InvalidBlock, match="Nothing has no constraints"):
        fo.Policy(fo.Total(), [Nothing()]).allocate(POOL)


def test_a_least_share_of_a_user_without_tasks_is_infeasible_where_shares_differ_by_server() -> None:
    cluster = fo.Instance([[[1], [2]], [[1], [1]]], [[4], [4]], task_limits=[0, None], users=["web", "batch"])
    with pytest.raises(fo.errors.Infeasible, match=r"0\.25 as the share of user 'web', whose task limit is 0"):
        fo.Policy(fo.Total(fo.Tasks()), [fo.MinShare({"web": 0.25})]).allocate(cluster)
    assert fo.Policy(fo.Total(fo.Tasks()), [fo.MinShare({"batch": 0.25})]).allocate(cluster).tasks.tolist() == [0, 8]


def test_a_ceiling_on_a_share_that_differs_by_server_takes_users_of_limit_zero_on_identical_servers() -> None:
    @dataclasses.dataclass(frozen=True, repr=False)
    class Held(fo.Share):
        def per_task(self, instance: fo.Instance) -> np.ndarray:
            return np.array([[4.0, 3.0], [2.0, 3.0]])

    most = fo.Policy(fo.Total(fo.Tasks()), [fo.MaxShare(6, Held())])
    pair = fo.Instance([[1], [1]], [[4], [4]])
    assert most.allocate(pair.with_task_limits([0, None])).tasks == pytest.approx([0, 3])
    assert most.allocate(pair.with_task_limits(0)).tasks.tolist() == [0, 0]
