"""Policies: the signatures of the design, a notion of one's own, bad arguments, edges, and what must not matter."""

import dataclasses
import inspect
import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle.instances import exactly, needy

import fairopt as fo

TWO = fo.Instance(
    [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"], resources=["bandwidth", "memory", "cpu"]
)
POLICIES = {
    "drf": fo.DRF(),
    "2df": fo.KDF(2, short="positive"),
    "tsf": fo.TSF(),
    "fds:0.5": fo.FDS(0.5),
    "fds:1": fo.FDS(1),
    "fds:2": fo.FDS(2),
    "gfj:2": fo.GFJ(2),
    "gfj:2,-1": fo.GFJ(beta=2, lam=-1),
    "pnorm": fo.PNormFairness(1, 0.5),
    "most": fo.MostTasks(),
    "nash": fo.NashWelfare(),
    "maxmin": fo.Policy(fo.MaxMin()),
    "gini": fo.Policy(fo.OrderedWeighted((2, 1))),
    "sum": fo.Policy(fo.AlphaFair(1) + fo.Total()),
    "tiers": fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks()))),
    "incentive": fo.Policy(fo.Total(fo.Tasks()), [fo.SharingIncentive()]),
    "envy": fo.Policy(fo.Leximin(), [fo.EnvyFree()]),
    "equal": fo.Policy(fo.Total(fo.Tasks()), [fo.EqualShares()]),
    "reserve": fo.Policy(fo.FDS(1).objective, [fo.Reserve(0, 0.1)]),
}
ALL = pytest.mark.parametrize("name", sorted(POLICIES))


# -- signatures --------------------------------------------------------------------------------


def signature(function):
    return [
        (p.name, p.kind.name.startswith("KEYWORD"), p.default if p.default is not p.empty else "required")
        for p in inspect.signature(function).parameters.values()
        if p.name != "self"
    ]


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (fo.Policy, [("objective", False, "required"), ("constraints", False, ()), ("name", False, None)]),
        (
            fo.Policy.allocate,
            [
                ("instance", False, "required"),
                ("method", True, "auto"),
                ("solver", True, None),
                ("solver_options", True, None),
                ("time_limit", True, None),
                ("verbose", True, False),
                ("integral", True, False),
                ("exact", True, False),
            ],
        ),
        (fo.Policy.problem, [("instance", False, "required")]),
        (fo.Policy.certify, [("problem", False, "required"), ("instance", False, "required")]),
        (
            fo.Instance,
            [
                ("demands", False, "required"),
                ("capacities", False, "required"),
                ("weights", True, None),
                ("task_limits", True, None),
                ("eligible", True, None),
                ("counts", True, None),
                ("users", True, None),
                ("resources", True, None),
                ("servers", True, None),
                ("server_types", True, None),
                ("units", True, None),
                ("notes", True, ()),
                ("teams", True, None),
                ("innermost_first", True, None),
                ("guarantees", True, None),
                ("rates", True, None),
                ("held", True, None),
                ("limits", True, None),
            ],
        ),
        (fo.FDS, [("alpha", False, None), ("beta", True, None), ("lam", True, None)]),
        (fo.GFJ, [("alpha", False, None), ("beta", True, None), ("lam", True, None)]),
        (
            fo.PNormFairness,
            [("p", False, "required"), ("alpha", False, None), ("beta", True, None), ("lam", True, None)],
        ),
        (fo.MLFDRS, [("growth", False, "proportional")]),
        (fo.PSDSF, []),
        (fo.BottleneckFairness, []),
        (fo.FFMRA, [("units", False, "share")]),
        (fo.HFFMRA, [("units", False, "share")]),
        (fo.NaivePerServer, [("policy", False, "required")]),
        (fo.WeightedLog, [("base", False, "factory")]),
        (fo.GlobalAggregateResource, [("units", False, "share"), ("over", False, "cluster")]),
        (fo.AtMostRequested, []),
        (fo.DRF, []),
        (fo.DRF, []),
        (fo.TSF, []),
        (fo.NashWelfare, []),
        (fo.NashBargaining, [("disagreement", False, None)]),
        (fo.KalaiSmorodinsky, [("disagreement", False, None)]),
        (fo.MostTasks, []),
        (fo.MaxMin, [("share", False, "factory")]),
        (fo.Total, [("share", False, "factory")]),
        (fo.Leximin, [("share", False, "factory")]),
        (fo.AlphaFair, [("alpha", False, "required"), ("share", False, "factory")]),
        (fo.FairnessEfficiency, [("beta", False, "required"), ("lam", False, "required"), ("share", False, "factory")]),
        (fo.OrderedWeighted, [("weights", False, "required"), ("share", False, "factory")]),
        (fo.KDominantShare, [("k", False, "required"), ("rank_weights", False, None), ("short", False, "refuse")]),
        (fo.EqualShares, [("share", False, "factory")]),
        (fo.SharingIncentive, []),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_signatures_are_those_of_the_design(function, parameters):
    found = [(n, k, "factory" if "factory" in repr(d) else d) for n, k, d in signature(function)]
    assert found == parameters


def test_KDF_takes_k_and_rank_weights():
    assert signature(fo.KDF)[:2] == [("k", False, 2), ("rank_weights", False, None)]


@pytest.mark.parametrize(
    ("block", "first"),
    [
        (fo.PNormShare, ["p"]),
        (fo.MinShare, ["level", "share"]),
        (fo.MaxShare, ["level", "share"]),
        (fo.Reserve, ["resource", "fraction"]),
    ],
)
def test_parameters_of_blocks_come_in_the_order_of_the_design(block, first):
    assert [n for n, _, _ in signature(block)][: len(first)] == first


def test_the_default_share_is_the_dominant_share():
    for objective in (
        fo.Total(),
        fo.MaxMin(),
        fo.Leximin(),
        fo.AlphaFair(1),
        fo.OrderedWeighted((1,)),
        fo.FairnessEfficiency(2, -1),
    ):
        assert objective.share == fo.DominantShare()
    for constraint in (fo.EqualShares(), fo.MinShare(0), fo.MaxShare(1)):
        assert constraint.share == fo.DominantShare()


# -- a policy as a value ---------------------------------------------------------------------------------------------


def test_a_policy_compares_and_hashes_by_blocks_not_by_name():
    one, other = fo.Policy(fo.Leximin(), name="mine"), fo.DRF()
    assert one == other
    assert hash(one) == hash(other)
    assert one != fo.FDS(1)
    assert one != fo.Policy(fo.Leximin(), [fo.MinTasks(0)])
    assert one != "DRF"
    assert len({one, other, fo.DRF()}) == 1


@ALL
def test_a_policy_prints_as_code_that_makes_it_again(name):
    again = eval(repr(POLICIES[name]), {name: getattr(fo, name) for name in fo.__all__})
    assert again == POLICIES[name]
    assert again.name == POLICIES[name].name


@ALL
def test_a_policy_survives_pickling(name):
    assert pickle.loads(pickle.dumps(POLICIES[name])) == POLICIES[name]


def test_a_single_constraint_needs_no_list_and_any_iterable_does():
    one = fo.MinTasks(1)
    assert fo.Policy(fo.Total(), one) == fo.Policy(fo.Total(), [one]) == fo.Policy(fo.Total(), (c for c in [one]))


@pytest.mark.parametrize(
    "objective", [None, "drf", fo.Tasks(), fo.MinTasks(1), fo.DRF(), fo.Total, 3, [fo.Total()]], ids=repr
)
def test_what_is_no_objective_is_refused(objective):
    with pytest.raises(fo.errors.InvalidBlock, match="give an objective"):
        fo.Policy(objective)


@pytest.mark.parametrize(
    "constraints",
    [[3], ["x"], [fo.Total()], [fo.Tasks()], [fo.SharingIncentive], [None], "ab", 5, None, fo.Total()],
    ids=repr,
)
def test_what_is_no_constraint_is_refused(constraints):
    with pytest.raises(fo.errors.InvalidBlock, match="constraint"):
        fo.Policy(fo.Total(), constraints)


# -- bad arguments of allocate ---------------------------------------------------------------------------------------


@pytest.mark.fast_methods
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "cones"}, fo.errors.InvalidBlock, "'cones'; did you mean 'cone'"),
        ({"method": "waterfilling"}, fo.errors.InvalidBlock, "'water-filling'"),
        ({"method": None}, fo.errors.InvalidBlock, "method"),
        ({"solver": "CLARABELL"}, fo.errors.SolverUnavailable, "did you mean 'CLARABEL'"),
        ({"solver": "nonsense"}, fo.errors.SolverUnavailable, "nonsense.*CLARABEL"),
        ({"solver": "MOSEK"}, fo.errors.SolverUnavailable, "MOSEK is not installed; installed: .*CLARABEL"),
        ({"solver": ""}, fo.errors.SolverUnavailable, "solver"),
        ({"solver": 3}, fo.errors.SolverUnavailable, "3"),
        ({"solver": "CLARABEL", "method": "water-filling"}, fo.errors.InvalidBlock, "needs the cone method"),
        ({"time_limit": 0}, fo.errors.InvalidBlock, "time_limit is 0"),
        ({"time_limit": -1}, fo.errors.InvalidBlock, "time_limit is -1"),
        ({"time_limit": float("nan")}, fo.errors.InvalidBlock, "time_limit is nan"),
        ({"time_limit": "soon"}, fo.errors.InvalidBlock, "time_limit is 'soon'"),
        ({"solver_options": 3, "solver": "CLARABEL"}, fo.errors.InvalidBlock, "solver_options"),
        ({"solver_options": {"no_such_option": 3}, "solver": "CLARABEL"}, fo.FairoptError, "no_such_option"),
        ({"solver_options": {"no_such_option": 3}, "solver": "SCS"}, fo.FairoptError, "no_such_option"),
        ({"solver_options": {"no_such_option": 3}, "solver": "HIGHS"}, fo.FairoptError, "no_such_option"),
        ({"solver_options": {"no_such_option": 3}, "solver": "ECOS"}, fo.FairoptError, "no_such_option"),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_bad_arguments_are_refused_with_place_value_and_fix(arguments, error, message):
    if arguments.get("solver") == "ECOS" and "ECOS" not in cp.installed_solvers():
        pytest.skip("ECOS is not installed")
    with pytest.raises(error, match=message):
        fo.DRF().allocate(TWO, **arguments)


@pytest.mark.parametrize("instance", [None, "cluster.json", [[1, 2]], {}, fo.DRF()], ids=repr)
@pytest.mark.parametrize("verb", ["allocate", "problem"])
def test_what_is_no_instance_is_refused(instance, verb):
    with pytest.raises(fo.errors.InvalidBlock, match="Instance"):
        getattr(fo.DRF(), verb)(instance)


@pytest.mark.parametrize("solver", ["clarabel", "Clarabel", "CLARABEL"])
def test_solvers_are_found_in_any_case(solver):
    assert fo.DRF().allocate(TWO, solver=solver).certificate.solver == "CLARABEL"


def test_a_solver_that_is_forced_is_the_only_one_tried():
    tried = fo.FDS(2).allocate(TWO, solver="SCS").certificate.tried
    assert {t.solver for t in tried} == {"SCS"}


# -- edges -----------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize(
    "instance", [fo.Instance([], [3, 4]), fo.Instance(np.zeros((0, 2)), [[3, 4], [1, 2]])], ids=["pool", "servers"]
)
def test_no_user_at_all_gets_nothing(name, instance):
    a = POLICIES[name].allocate(instance)
    assert a.tasks.shape == (0,)
    assert a.certificate.ok
    assert_array_equal(a.usage, np.zeros(instance.capacities.shape))
    assert POLICIES[name].problem(instance).solve(solver="CLARABEL") == pytest.approx(0, abs=1e-9)


@ALL
def test_one_user_gets_all_it_can_use(name):
    a = POLICIES[name].allocate(fo.Instance([[2, 1]], [4, 4]))
    assert_allclose(a.tasks, [1.8 if name == "reserve" else 2], rtol=1e-6)


@ALL
def test_one_user_on_one_resource(name):
    if name == "2df":
        return
    assert_allclose(
        POLICIES[name].allocate(fo.Instance([[2]], [4])).tasks, [1.8 if name == "reserve" else 2], rtol=1e-6
    )


@pytest.mark.parametrize(
    "name", sorted(set(POLICIES) - {"2df", "gfj:2", "gfj:2,-1", "most", "gini", "fds:0.5", "pnorm", "sum", "reserve"})
)
def test_one_resource_is_split_in_equal_shares(name):
    a = POLICIES[name].allocate(fo.Instance([[2], [1]], [4]))
    expected = [0.0, 4.0] if name == "most" else [1.0, 2.0]
    assert_allclose(a.tasks, [1, 2] if name != "incentive" else expected, rtol=1e-5)


@ALL
def test_every_task_limit_zero_leaves_all_free(name):
    a = POLICIES[name].allocate(TWO.with_task_limits(0))
    assert_array_equal(a.tasks, [0, 0])
    assert_array_equal(a.leftover, [[200, 200, 200]])
    assert a.certificate.ok


@ALL
def test_a_task_limit_of_zero_leaves_the_user_out_and_the_rest_as_if_alone(name):
    rest = fo.Instance(TWO.demands[:1], TWO.capacities)
    a, alone = POLICIES[name].allocate(TWO.with_task_limits({"web": 0})), POLICIES[name].allocate(rest)
    assert a.tasks[1] == 0
    assert_allclose(a.tasks[0], alone.tasks[0], rtol=1e-6)
    if name != "incentive":
        assert a.objective == pytest.approx(alone.objective, rel=1e-6)


@ALL
def test_capacities_of_1e_minus_9_and_1e15_in_one_instance(name):
    units = np.array([1e-9 / 200, 1e15 / 200, 1.0])
    extreme = fo.Instance(TWO.demands * units, TWO.capacities * units)
    a, plain = POLICIES[name].allocate(extreme), POLICIES[name].allocate(TWO)
    assert a.certificate.ok
    assert_allclose(a.tasks, plain.tasks, rtol=1e-4, atol=1e-6)


@ALL
def test_servers_of_1e_minus_9_and_1e15_in_one_instance(name):
    """Sums of tasks count users 14 decades apart: a last digit makes solvers fail, and they are refused."""
    extreme = fo.Instance([[1e-10, 1e13], [2e-10, 1e14], [0, 1]], [[1e-9, 1e15], [2e-9, 1e14]])
    try:
        assert POLICIES[name].allocate(extreme).certificate.ok
    except fo.errors.NotCertified:
        assert name in ("tiers", "incentive", "equal")


@ALL
def test_users_who_are_alike_get_alike_where_the_optimum_is_one_point(name):
    tasks = POLICIES[name].allocate(fo.Instance([[2, 1]] * 4, [4, 4])).tasks
    assert tasks.sum() == pytest.approx(1.8 if name == "reserve" else 2, rel=1e-6)
    if name not in ("most", "incentive", "gini"):
        assert_allclose(tasks, tasks[0], rtol=1e-4)


@ALL
def test_servers_that_are_alike_are_as_good_as_their_count(name):
    split = POLICIES[name].allocate(fo.Instance([[2, 1], [1, 1]], [[4, 4], [4, 4], [4, 4]]))
    counted = POLICIES[name].allocate(fo.Instance([[2, 1], [1, 1]], [[4, 4]], counts=[3]))
    assert_allclose(split.tasks, counted.tasks, rtol=1e-6, atol=1e-6)
    assert split.objective == pytest.approx(counted.objective, rel=1e-9)
    assert_allclose(split.tasks_by_server, split.tasks[:, None] / 3 * np.ones((1, 3)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"2df", "most", "incentive"}))
def test_a_user_who_needs_other_resources_on_each_server_is_served(name):
    a = POLICIES[name].allocate(fo.Instance([[[1, 0], [0, 1]]], [[5, 5], [5, 5]]))
    assert a.certificate.ok


def test_a_user_who_runs_free_of_one_server_uses_the_other():
    a = fo.DRF().allocate(fo.Instance([[[1, 0], [0, 1]], [[1, 1], [1, 1]]], [[5, 5], [5, 5]]))
    assert a.certificate.ok


HARDER = {
    "one resource": fo.Instance([[1], [1]], [4], task_limits=[1, None]),
    "two resources": fo.Instance([[2, 1], [1, 2], [1, 1]], [9, 9], task_limits=[1, None, None]),
    "weights": fo.Instance([[1], [1], [1]], [4], task_limits=[None, 0.2, 0.2], weights=[1, 2, 0.5]),
    "no limits": fo.Instance([[1]] * 5, [48], weights=[0.18, 3, 0.25, 0.13, 1.57]),
    "by server": fo.Instance([[[1, 2], [2, 1]], [[3, 1], [1, 4]]], [[10, 10], [20, 15]]),
    "dear elsewhere": fo.Instance([[[1], [10]], [[1], [30]]], [[5], [5]]),
    "limits on servers": fo.Instance([[1, 2], [2, 1]], [[3, 4], [5, 2]], task_limits=[0.5, None]),
}


@ALL
@pytest.mark.parametrize("instance", sorted(HARDER))
def test_limits_weights_and_demands_by_server_leave_every_answer_certified(name, instance):
    if name == "2df" and HARDER[instance].n_resources < 2:
        return
    assert POLICIES[name].allocate(HARDER[instance]).certificate.ok


UNREACHABLE = [fo.MaxTasks(0), fo.Reserve(0, 1)]


@pytest.mark.parametrize("constraint", UNREACHABLE, ids=repr)
@pytest.mark.parametrize("policy", [fo.FDS(1), fo.FDS(2)], ids=lambda p: p.name)
def test_where_everybody_must_get_nothing_an_objective_of_logarithms_has_no_answer_and_says_so(policy, constraint):
    with pytest.raises((fo.errors.OutOfDomain, fo.errors.Infeasible), match=r"batch|Reserve|MaxTasks"):
        fo.Policy(policy.objective, [constraint]).allocate(TWO)


@pytest.mark.parametrize("constraint", UNREACHABLE, ids=repr)
@pytest.mark.parametrize("name", ["drf", "most", "maxmin", "gini", "fds:0.5"])
def test_where_everybody_must_get_nothing_everybody_does(name, constraint):
    a = fo.Policy(POLICIES[name].objective, [constraint]).allocate(TWO)
    assert_allclose(a.tasks, [0, 0], atol=1e-9)


# -- what must not matter --------------------------------------------------------------------------------------------


NEEDS = st.just(0.0) | st.floats(0.1, 10)


@st.composite
def clusters(draw):
    n, m, servers = draw(st.integers(2, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    capacities = draw(st.lists(st.floats(5, 50), min_size=servers * m, max_size=servers * m))
    return fo.Instance(
        draw(exactly(n, needy(m, NEEDS))),
        np.reshape(capacities, (servers, m)),
        weights=draw(st.lists(st.floats(0.3, 3), min_size=n, max_size=n)),
        task_limits=draw(st.lists(st.sampled_from([np.inf, np.inf, 0.5, 5.0, 0.0]), min_size=n, max_size=n)),
        users=list("abcd"[:n]),
    )


UNIQUE = ["drf", "fds:2", "nash", "fds:0.5", "tsf"]  # tasks in total are unique at the optimum


@settings(max_examples=8)
@given(instance=clusters(), random=st.randoms(use_true_random=False), name=st.sampled_from(UNIQUE))
def test_the_order_of_users_does_not_matter(instance, random, name):
    order = list(range(instance.n_users))
    random.shuffle(order)
    shuffled = fo.Instance(
        instance.demands[order],
        instance.capacities,
        weights=instance.weights[order],
        task_limits=instance.task_limits[order],
        users=[instance.users[j] for j in order],
    )
    a, b = POLICIES[name].allocate(instance), POLICIES[name].allocate(shuffled)
    assert_allclose(b.tasks, a.tasks[order], rtol=2e-4, atol=1e-6)
    assert b.objective == pytest.approx(a.objective, rel=1e-5, abs=1e-6)
    assert list(b.to_frame().index) == [instance.users[j] for j in order]


@settings(max_examples=8)
@given(instance=clusters(), scale=st.floats(1e-3, 1e3), name=st.sampled_from(["drf", "fds:2", "nash"]))
def test_units_of_resources_and_of_weights_do_not_matter(instance, scale, name):
    units = scale ** np.arange(1, instance.n_resources + 1)
    other = fo.Instance(
        instance.demands * units,
        instance.capacities * units,
        weights=instance.weights * scale,
        task_limits=instance.task_limits,
    )
    a, b = POLICIES[name].allocate(instance), POLICIES[name].allocate(other)
    assert_allclose(b.tasks, a.tasks, rtol=2e-4, atol=1e-6)


@settings(max_examples=8)
@given(instance=clusters(), name=st.sampled_from(sorted(POLICIES)))
def test_what_is_returned_is_certified_and_feasible_on_the_data(instance, name):
    if name == "2df" and instance.n_resources < 2:
        return
    a = POLICIES[name].allocate(instance)
    assert a.certificate.ok
    assert (a.usage <= instance.capacities * (1 + 1e-9)).all()
    assert (a.tasks <= instance.task_limits * (1 + 1e-9)).all()
    assert (a.tasks_by_server >= 0).all()
    assert (a.tasks_by_server[~instance.eligible] == 0).all()


@settings(max_examples=8)
@given(instance=clusters(), name=st.sampled_from(UNIQUE))
def test_the_same_question_has_the_same_answer(instance, name):
    a, b = (POLICIES[name].allocate(instance) for _ in range(2))
    assert_allclose(a.tasks_by_server, b.tasks_by_server, rtol=1e-9, atol=1e-12)


def test_labels_in_labels_out():
    a = fo.DRF().allocate(TWO)
    assert a.instance.users == ("batch", "web")
    assert list(a.to_frame().index) == ["batch", "web"]
    assert list(a.metrics()["utilisation"]) == ["bandwidth", "memory", "cpu"]


# -- a notion of one's own, in ten lines -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class AtMostTwice(fo.Constraint):
    def constraints(self, model):
        z = model.share(fo.DominantShare())
        return {f"{j} at most twice {k}": z[j] <= 2 * z[k] for j in range(2) for k in range(2) if j != k}


def test_a_notion_of_ones_own():
    mine = fo.Policy(fo.Total(fo.Tasks()), [AtMostTwice()], name="efficient within a factor of two")
    a = mine.allocate(TWO)
    assert a.certificate.ok
    # memory binds neither: shares z and 2z of bandwidth, 40 x1 + 8 x2 <= 200 with 0.04 x2 = 0.4 x1
    assert_allclose(a.tasks, [5 / 3, 50 / 3], rtol=1e-7)
    assert repr(a).startswith("<Allocation by efficient within a factor of two")


def test_the_example_of_the_design():
    mine = fo.Policy(
        fo.AlphaFair(1, fo.KDominantShare(2)) + 0.1 * fo.Total(fo.Tasks()),
        constraints=[fo.SharingIncentive(), fo.EnvyFree()],
    )
    a = mine.allocate(TWO, solver="CLARABEL")
    assert a.certificate.ok
    assert_allclose(a.tasks, [2.5, 12.5], rtol=1e-5)
    problem = mine.problem(TWO)
    assert isinstance(problem, cp.Problem)
    assert [v.name() for v in problem.variables()] == ["tasks"]


# -- problem and read ------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize(
    "instance", [TWO, fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])], ids=["pool", "servers"]
)
def test_the_problem_in_natural_units_has_the_value_of_the_allocation(name, instance):
    problem = POLICIES[name].problem(instance)
    variable = problem.var_dict["tasks"]
    assert variable.shape == ((2,) if instance.n_servers == 1 else (2, 2))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    a = POLICIES[name].allocate(instance)
    assert problem.value == pytest.approx(a.objective, rel=1e-6)
    read = POLICIES[name].certify(problem, instance)
    assert read.certificate.ok
    assert read.certificate.method == "read"
    assert read.objective == pytest.approx(a.objective, rel=1e-6)


def test_a_problem_that_is_not_solved_cannot_be_read():
    with pytest.raises(fo.errors.NotCertified, match="solve"):
        fo.FDS(1).certify(fo.FDS(1).problem(TWO), TWO)


def test_a_problem_of_something_else_cannot_be_read():
    x = cp.Variable(2)
    problem = cp.Problem(cp.Maximize(cp.sum(x)), [x <= 1])
    problem.solve()
    with pytest.raises(fo.errors.InvalidBlock, match="no variable named 'tasks'"):
        fo.FDS(1).certify(problem, TWO)


def test_a_problem_of_another_instance_cannot_be_read():
    problem = fo.MostTasks().problem(TWO)
    problem.solve()
    with pytest.raises(fo.errors.InvalidBlock, match="shape"):
        fo.MostTasks().certify(problem, fo.Instance([[1], [1], [1]], [3]))


@pytest.mark.parametrize("policy", [fo.FDS(1), fo.FDS(2), fo.GFJ(0.5), fo.MostTasks(), fo.DRF()], ids=lambda p: p.name)
@pytest.mark.parametrize("factor", [0.9, 0.999, 1.01])
def test_an_answer_that_is_not_optimal_cannot_be_read(policy, factor):
    problem = policy.problem(TWO)
    problem.solve(solver="CLARABEL")
    problem.var_dict["tasks"].value = problem.var_dict["tasks"].value * factor * np.array([1.0, 0.9])
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, TWO)


def test_a_changed_problem_is_read_for_what_it_is():
    policy = fo.MostTasks()
    problem = policy.problem(TWO)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(problem.objective, [*problem.constraints, tasks[1] <= 6 * tasks[0]])
    changed.solve(solver="HIGHS")
    a = policy.certify(changed, TWO)
    assert_allclose(a.tasks, [25 / 11, 150 / 11], rtol=1e-7)
    assert a.certificate.ok


def test_a_problem_without_its_capacities_is_not_feasible_and_cannot_be_read():
    problem = fo.MostTasks().problem(TWO)
    wide = cp.Problem(problem.objective, [problem.var_dict["tasks"] <= 1000])
    wide.solve(solver="HIGHS")
    with pytest.raises(fo.errors.NotCertified):
        fo.MostTasks().certify(wide, TWO)


@pytest.mark.parametrize("problem", [None, 3, "x"])
def test_what_is_no_problem_cannot_be_read(problem):
    with pytest.raises(fo.errors.InvalidBlock, match=r"policy\.problem\(instance\)"):
        fo.DRF().certify(problem, TWO)


# -- further constraints ---------------------------------------------------------------------------------------------


def test_further_constraints_are_added_and_named():
    base = fo.Policy(fo.Total(fo.Tasks()), [fo.MaxTasks(9)], name="most")
    more = base.with_constraints(fo.MinTasks(1), fo.SharingIncentive())
    assert more == fo.Policy(fo.Total(fo.Tasks()), [fo.MaxTasks(9), fo.MinTasks(1), fo.SharingIncentive()])
    assert more.name == "most under MinTasks(1), SharingIncentive()" and base.constraints == (fo.MaxTasks(9),)
    assert fo.Policy(fo.MaxMin()).with_constraints(fo.MinTasks(1)).name is None


def test_a_further_constraint_that_is_none_is_refused():
    with pytest.raises(fo.errors.InvalidBlock, match="DominantShare"):
        fo.DRF().with_constraints(fo.DominantShare())


def test_dir_shows_the_public_names_only():
    assert set(dir(fo)) == {*fo.__all__, "__all__", "__doc__", "__version__"}
    assert fo.Policy.with_constraints.__doc__ and all(hasattr(fo, name) for name in dir(fo))
