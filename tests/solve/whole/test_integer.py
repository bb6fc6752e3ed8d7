"""Whole tasks by mixed-integer programs: as good as brute force in fractions, within every condition, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle import whole

import fairopt as fo
from fairopt.runtime.clock import Clock, current
from fairopt.solve.form import solvers
from fairopt.solve.whole import integer

PAIR = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
ROWS = fo.Instance([[1, 4], [3, 1], [1, 1]], [[9, 18], [4, 4]], counts=[1, 2], users=["a", "b", "c"])


@pytest.mark.parametrize("seed", range(0, 20, 10))
def test_leximin_is_that_of_brute_force(seed: int) -> None:
    for k in range(seed, seed + 10):
        instance = whole.small(np.random.default_rng(k), by_server=k % 10 == 9)
        a = fo.DRF().allocate(instance, integral=True)
        assert whole.levels(instance, whole.of_answer(a)[1]) == whole.best(instance)[2]
        assert whole.fits(a) and a.certificate.ok and a.certificate.whole


@pytest.mark.parametrize("seed", range(1000, 1020, 10))
def test_most_tasks_and_max_min_are_those_of_brute_force(seed: int) -> None:
    for k in range(seed, seed + 10):
        instance = whole.small(np.random.default_rng(k), by_server=k % 10 == 9)
        most, smallest, _ = whole.best(instance)
        a = fo.MostTasks().allocate(instance, integral=True)
        assert sum(whole.of_answer(a)[0]) == most and whole.fits(a)
        b = fo.Policy(fo.MaxMin()).allocate(instance, integral=True)
        assert (*whole.levels(instance, whole.of_answer(b)[1]), smallest)[0] == smallest and whole.fits(b)


def test_one_resource_of_five_goes_one_and_one_under_leximin() -> None:
    """The smallest after each step, as Parkes, Procaccia and Shah do it, may end at (5, 0)."""
    a = fo.DRF().allocate(fo.Instance([[1], [4]], [5]), integral=True)
    np.testing.assert_array_equal(a.tasks, [1, 1])


def test_who_stays_at_a_level_is_left_open() -> None:
    """One of two users stays at level 1; the next level is larger if it is the second."""
    instance = fo.Instance([[1, 0], [1, 0], [0, 1]], [3, 5], task_limits=[None, 1, None])
    a = fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance, integral=True)
    np.testing.assert_array_equal(a.tasks, [2, 1, 5])


def test_levels_of_a_share_of_ones_own_by_server() -> None:
    @dataclass(frozen=True, repr=False)
    class Speed(fo.Share):
        def per_task(self, instance: fo.Instance) -> np.ndarray:
            return np.array([[1.0, 3.0]] * instance.n_users)

    a = fo.Policy(fo.Leximin(Speed())).allocate(fo.Instance([[2], [2]], [[4], [6]], counts=[1, 2]), integral=True)
    np.testing.assert_array_equal(a.share(Speed()), [10, 10])
    assert a.placement is not None and a.placement.shape == (2, 3)


def test_levels_that_differ_by_decades_are_all_raised() -> None:
    """In the unit of the divisible level both are below the tolerances of solvers."""
    instance = fo.Instance([[[0.02], [0.01]], [[4e-7], [4e-7]]], [[5], [1]], task_limits=[2, 1])
    a = fo.DRF().allocate(instance, integral=True)
    np.testing.assert_array_equal(a.tasks_by_server, [[2, 0], [1, 0]])


@pytest.mark.parametrize("objective", [fo.MaxMin(), fo.Leximin(), fo.MaxMin().then(fo.Total(fo.Tasks()))], ids=repr)
def test_no_part_of_a_task_that_a_solver_tolerates_is_a_level(objective: fo.Objective) -> None:
    a = fo.Policy(objective).allocate(fo.Instance([[1], [1]], [100], weights=[1e-6, 1e6]), integral=True)
    np.testing.assert_array_equal(a.tasks, [1, 99])


def test_more_tasks_than_solvers_tell_apart_are_rounded_and_more_than_floats_hold_refused() -> None:
    a = fo.DRF().allocate(fo.Instance([[1], [1]], [1e9]), integral=True)
    np.testing.assert_array_equal(a.tasks, [5e8, 5e8])
    assert a.certificate.ok and a.certificate.method == "rounding"
    for how in (True, "rounded"):
        with pytest.raises(fo.errors.OutOfDomain, match=r"user 'web' could run 1e\+21 whole tasks, more than 1e\+12"):
            fo.DRF().allocate(fo.Instance([[1e12], [1e-9]], [1e12], users=["batch", "web"]), integral=how)


@pytest.mark.parametrize("how", [True, "rounded"])
@pytest.mark.parametrize("policy", [fo.DRF(), fo.MostTasks()], ids=lambda p: p.name)
def test_capacities_exceeded_by_the_tolerance_itself_take_one_task_less(policy: fo.Policy, how: Any) -> None:
    a = policy.allocate(fo.Instance([[2.000000002]], [4]), integral=how)
    assert a.certificate.ok and a.tasks == 1


def test_a_solver_that_finds_all_users_above_the_largest_level_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer._Steps, "from_level", lambda self, z, needs: (needs, needs))
    a = fo.DRF().allocate(PAIR, integral=True)
    assert "HiGHS contradicts itself at users above level 1 of whole tasks" in a.certificate.note and a.certificate.ok


def test_a_row_of_several_servers_holds_only_what_each_of_them_does() -> None:
    """Two servers of 3 hold two tasks of 2, not three."""
    a = fo.MostTasks().allocate(fo.Instance([[2]], [[3]], counts=[2]), integral=True)
    np.testing.assert_array_equal(a.tasks_by_server, [[2]])
    np.testing.assert_array_equal(a.placement, [[1, 1]])
    assert a.certificate.gap == pytest.approx(1 / 3, rel=1e-5)


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        (fo.MinTasks({"c": 1.5}), lambda a: a.tasks[2] >= 2),
        (fo.MaxTasks({"c": 1.5}), lambda a: a.tasks[2] <= 1),
        (fo.MinShare(0.25), lambda a: a.share(fo.DominantShare()).min() >= 0.25),
        (fo.MaxShare(0.3), lambda a: a.share(fo.DominantShare()).max() <= 0.3),
        (fo.Reserve(0, 0.5), lambda a: (a.usage[:, 0] <= [4.5, 4]).all()),
        (fo.SharingIncentive(), lambda a: fo.check(a, "si")["si"].holds),
        (fo.EnvyFree(), lambda a: fo.check(a, "ef")["ef"].holds),
        (fo.EqualShares(fo.Tasks()), lambda a: np.ptp(a.tasks) == 0),
        (fo.Total(fo.Tasks()) >= 5.5, lambda a: a.tasks.sum() >= 6),
    ],
    ids=lambda x: repr(x) if isinstance(x, fo.Constraint) else "",
)
@pytest.mark.parametrize("objective", [fo.Leximin(), fo.Total(fo.Tasks())], ids=repr)
def test_constraints_hold_in_whole_tasks(objective: fo.Objective, constraint: fo.Constraint, holds: Any) -> None:
    a = fo.Policy(objective, [constraint]).allocate(ROWS, integral=True)
    assert holds(a) and a.certificate.ok and a.certificate.method == "integer" and whole.fits(a)


def test_conditions_of_ones_own_see_the_rows_as_given() -> None:
    @dataclass(frozen=True, repr=False)
    class OffTheSecond(fo.Constraint):
        def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
            return {"off": cp.sum(model.tasks_by_server[:, 1]) <= 1.9}

    a = fo.Policy(fo.Total(fo.Tasks()), [OffTheSecond()]).allocate(ROWS, integral=True)
    assert a.tasks_by_server[:, 1].sum() == 1 and a.certificate.ok


@pytest.mark.parametrize(
    "objective",
    [
        fo.AlphaFair(0),
        fo.OrderedWeighted((2, 1)),
        fo.MaxMin() + 0.1 * fo.Total(),
        fo.MaxMin().then(fo.Total(fo.Tasks())),
        fo.Leximin(fo.Tasks()).then(fo.Total()),
    ],
    ids=repr,
)
def test_piecewise_linear_objectives_are_the_best_of_all(objective: fo.Objective) -> None:
    a = fo.Policy(objective).allocate(PAIR, integral=True)
    tiers = getattr(objective, "tiers", (objective,))

    def worth(x: tuple[int, int]) -> list[Any]:
        b = fo.Allocation(PAIR, None, np.array(x, dtype=float)[:, None], a.certificate, 0.0)
        point = fo.blocks.model.Point(PAIR, b.tasks_by_server)
        out: list[Any] = []
        for tier in tiers:
            shares = np.sort(point.share(tier.share)) if isinstance(tier, fo.Leximin) else np.array([tier.value(point)])
            out += shares.round(9).tolist()
        return out

    inside = [(j, k) for j in range(6) for k in range(26) if 40 * j + 8 * k <= 200 and 8 * j + 5 * k <= 200]
    best = max(inside, key=worth)
    assert worth((int(a.tasks[0]), int(a.tasks[1]))) == worth(best)
    assert a.certificate.method == "integer" and len(a.certificate.gaps) in (0, len(tiers))


def test_leftovers_of_max_min_are_handed_out() -> None:
    a = fo.Policy(fo.MaxMin()).allocate(fo.Instance([[1, 0], [0, 1]], [4, 9], task_limits=[2, None]), integral=True)
    np.testing.assert_array_equal(a.tasks, [2, 9])


# -- no answer ---------------------------------------------------------------------------------------------------------


def test_constraints_that_only_divisible_tasks_satisfy_are_told_apart() -> None:
    policy = fo.Policy(fo.Total(), [fo.MinTasks({"batch": 2.5}), fo.MinTasks({"web": 12})])
    assert policy.allocate(PAIR).certificate.ok
    with pytest.raises(
        fo.errors.Infeasible, match=r"cannot hold together in whole tasks; in divisible tasks they can"
    ) as told:
        policy.allocate(PAIR, integral=True)
    assert len(told.value.conflict) == 3 and "the capacity of resource1" in told.value.conflict


def test_constraints_that_no_tasks_satisfy_are_told_as_ever() -> None:
    policy = fo.Policy(fo.Total(), [fo.MinTasks({"batch": 6})])
    with pytest.raises(fo.errors.Infeasible, match=r"there is room for 0\.83"):
        policy.allocate(PAIR, integral=True)


def test_tasks_asked_of_a_user_of_whom_none_fits_are_refused_by_name() -> None:
    instance = fo.Instance([[4], [1]], [[3], [3]], users=["large", "small"])
    for how in (True, "rounded"):
        with pytest.raises(fo.errors.Infeasible, match=r"tasks of user 'large', but no whole task of it fits"):
            fo.Policy(fo.Total(), [fo.MinTasks({"large": 0.5})]).allocate(instance, integral=how)


@pytest.mark.parametrize("policy", [fo.DRF(), fo.NashWelfare(), fo.MostTasks()], ids=lambda p: p.name)
def test_users_of_whom_no_task_fits_leave_the_objective(policy: fo.Policy) -> None:
    instance = fo.Instance([[4], [1], [1]], [[3], [3]], task_limits=[None, None, 0.5], users=["large", "small", "half"])
    a = policy.allocate(instance, integral=True)
    np.testing.assert_array_equal(a.tasks, [0, 6, 0])
    assert a.certificate.gap < 1e-9 and "user 'large' and 1 more" in a.certificate.note


@pytest.mark.parametrize("integral", ["round", 1, 2.5, "True"])
def test_other_values_of_integral_are_refused(integral: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"integral is .*give True, 'rounded' or False"):
        fo.DRF().allocate(PAIR, integral=integral)


def test_what_decides_bundles_takes_no_integral() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="decides bundles, not tasks"):
        fo.MLFDRS().allocate(PAIR, integral=True)


@pytest.mark.parametrize("integral", [True, "rounded"])
@pytest.mark.parametrize(
    "mechanism",
    [fo.HDRF(), fo.PSDSF(), fo.DynamicDRF(), fo.BottleneckFairness(), fo.NaivePerServer(fo.DRF())],
    ids=lambda mechanism: mechanism.name,
)
def test_mechanisms_that_divide_tasks_name_what_rounds_their_answers(mechanism: Any, integral: Any) -> None:
    instance = PAIR.replace(teams={"team": ["nightly", "shop"]})
    with pytest.raises(fo.errors.OutOfDomain, match=r"divides tasks.*round the answer: the command fairopt quotas"):
        mechanism.allocate(instance, integral=integral)
    told = fo.compare([fo.DRF(), mechanism], instance, integral=integral).errors[mechanism.name]
    assert isinstance(told, fo.errors.OutOfDomain) and "fairopt quotas" in str(told)


def test_a_mechanism_of_ones_own_without_integral_has_no_whole_tasks() -> None:
    class Mine:
        name = "mine"

        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            return fo.DRF().allocate(instance)

    assert isinstance(fo.compare([fo.DRF(), Mine()], PAIR, integral=True).errors["mine"], fo.errors.OutOfDomain)


def test_a_solver_without_whole_numbers_is_refused_where_they_are_needed() -> None:
    with pytest.raises(fo.errors.SolverUnavailable, match=r"CLARABEL takes no integer variables; try one of .*HIGHS"):
        fo.DRF().allocate(PAIR, integral=True, solver="CLARABEL")
    a = fo.NashWelfare().allocate(PAIR, integral=True, solver="CLARABEL")
    assert a.certificate.method == "rounding" and a.certificate.solver == "CLARABEL"


def test_options_reach_the_solver_of_whole_tasks() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="HIGHS refuses its solver_options"):
        fo.MostTasks().allocate(PAIR, integral=True, solver_options={"no_such_option": 1})


@pytest.mark.parametrize("policy", [fo.DRF(), fo.MostTasks()], ids=lambda p: p.name)
def test_at_a_limit_the_best_found_is_returned_and_the_note_says_so(
    policy: fo.Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = solvers.run

    def slow(problem: cp.Problem, solver: str, **how: Any) -> Any:
        tried = run(problem, solver, **how)
        return tried if how.get("options") is None else fo.certificate.Try(solver, "user_limit", tried.seconds)

    monkeypatch.setattr(solvers, "run", slow)
    a = policy.allocate(PAIR, integral=True)
    assert a.certificate.ok and a.tasks.sum() >= 15
    if policy == fo.MostTasks():  # as many as divisible ones: proved, also where HiGHS left a gap
        assert a.certificate.gap <= 1e-13 and a.certificate.note == ""
        return
    assert "HiGHS reached a limit with a reported gap of 0%" in a.certificate.note
    assert "a better whole answer may exist" in a.certificate.note


def test_a_limit_reached_in_a_subprocess_leaves_no_gap_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    run = solvers.run

    def slow(problem: cp.Problem, solver: str, **how: Any) -> Any:
        tried = run(problem, solver, **how)
        return tried if how.get("options") is None else fo.certificate.Try(solver, "user_limit", tried.seconds)

    monkeypatch.setattr(solvers, "run", slow)
    monkeypatch.setattr(solvers, "may_overrun", lambda solver, numbers: True)
    a = fo.DRF().allocate(PAIR, integral=True, time_limit=60)
    assert a.certificate.ok and a.certificate.note.startswith("HiGHS reached a limit at level 1 of whole tasks")


@pytest.mark.fast_methods
def test_without_time_for_a_program_the_divisible_answer_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "late", property(lambda self: True))
    a = fo.DRF().allocate(PAIR, integral=True)
    assert a.certificate.ok and a.certificate.note.startswith("the time limit was reached at level 1 of whole tasks")
    assert a.certificate.note.endswith("the answer is the divisible one, rounded")


@pytest.mark.parametrize("slow", ["WholeModel._each_within", "solvers.run"])
def test_programs_that_overrun_the_limit_leave_the_best_answer_so_far(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over while the first program is written, or after it is solved."""
    owner, name = getattr(integer, slow.split(".")[0]), slow.split(".")[1]
    work = getattr(owner, name)

    def overrun(*given: Any, **how: Any) -> Any:
        done, clock = work(*given, **how), current()
        assert clock is not None
        if name != "run" or any(variable.attributes["integer"] for variable in given[0].variables()):
            clock.end = clock.hard = 0.0
        return done

    monkeypatch.setattr(owner, name, overrun)
    rounded, a = (fo.DRF().allocate(PAIR, integral=how, time_limit=3600) for how in ("rounded", True))
    assert a.certificate.ok and "the time limit was reached at" in a.certificate.note
    levels, of_rounded = (np.sort(one.tasks * [0.2, 0.04]).round(9).tolist() for one in (a, rounded))
    assert levels >= of_rounded and whole.fits(a)


def test_numbers_beyond_the_solver_are_rounded_instead() -> None:
    """HiGHS drops parts of a capacity below 1e-9, so that tasks of one would exceed it by far."""
    instance = fo.Instance([[1e-9], [1]], [1e2])
    a = fo.MostTasks().allocate(instance, integral=True)
    assert a.certificate.ok and a.certificate.gap < 1e-6
    np.testing.assert_array_equal(a.tasks, fo.MostTasks().allocate(instance, integral="rounded").tasks)


def test_no_users_and_users_of_limit_zero_have_no_tasks() -> None:
    for instance in (fo.Instance(np.zeros((0, 1)), [4]), fo.Instance([[1], [2]], [4], task_limits=0)):
        for how in (True, "rounded"):
            a = fo.DRF().allocate(instance, integral=how)
            assert a.certificate.ok and a.certificate.whole and not a.tasks.any() and a.certificate.note == ""
    a = fo.DRF().allocate(fo.Instance([[5]], [4]), integral=True)
    assert a.certificate.note == "left out, as not one whole task fits: user 'user1'"


def test_a_program_that_presolve_calls_infeasible_is_solved_without_it() -> None:
    """HiGHS 1.14 says so of the users above level 1, beside the answer that it found for level 1."""
    instance = fo.Instance(
        [[4, 2], [3, 4], [1, 0], [4, 3]],
        [[7, 4], [7, 4], [7, 3]],
        task_limits=[None, 2, None, 0],
        eligible=[[True] * 3, [True] * 3, [True] * 3, [True, True, False]],
    )
    a = fo.DRF().allocate(instance, integral=True)
    np.testing.assert_array_equal(a.tasks, [2, 1, 10, 0])
    assert a.certificate.note == "optimality in whole tasks rests on HiGHS"
