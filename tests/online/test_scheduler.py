"""The scheduler: lowest share first, against plain loops in exact fractions, and by what users may tell it."""

import math
import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.scheduler import OracleScheduler

import fairopt as fo
from fairopt.online import scheduler as module

UNITS = st.sampled_from([Fraction(k, 20) for k in (0, 0, 2, 4, 5, 6, 10, 14, 20, 30)])
SIZES = st.sampled_from([Fraction(k, 10) for k in (0, 7, 10, 20, 30, 45, 60)])


def everything(scheduler):
    """All tasks that may start now."""
    return list(iter(scheduler.next_task, None))


@st.composite
def loops(draw):
    """A scheduler's options, and what its owner tells and asks it."""
    m, n_servers = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 4, 7]))
    row = st.lists(SIZES, min_size=m, max_size=m)
    capacities = draw(st.lists(row.filter(any), min_size=n_servers, max_size=n_servers))
    options = dict(
        on_misfit=draw(st.sampled_from(["skip", "skip", "stop"])),
        order=draw(st.sampled_from(["share", "share", "share", "arrival"])),
        placement=draw(st.sampled_from(["first-fit", "best-fit", "least-loaded"])),
    )
    submit = st.tuples(
        st.just("submit"),
        st.sampled_from("abcdefgh"),
        st.lists(UNITS, min_size=m, max_size=m),
        st.sampled_from([1, 3, 20]),
        st.sampled_from([None, None, Fraction(1, 2), Fraction(3)]),
        st.sampled_from([None, None, None, 1, 2]),
        st.none() | st.lists(st.booleans(), min_size=n_servers, max_size=n_servers),
        st.sampled_from([False, False, True]),
    )
    ask = st.tuples(st.just("ask"), st.sampled_from([1, 2, 100]))
    finish = st.tuples(st.just("finish"), st.lists(st.integers(0, 10**6), min_size=1, max_size=9))
    withdraw = st.tuples(st.just("withdraw"), st.integers(0, 30))
    pickled = st.just(("pickle",))
    steps = submit | ask | ask | finish | finish | withdraw | pickled
    return capacities, options, draw(st.lists(steps, min_size=5, max_size=60))


@given(loops())
@settings(max_examples=15)
def test_decisions_are_those_of_plain_loops_in_fractions(loop):
    capacities, options, steps = loop
    exact = OracleScheduler(capacities, **options)
    fast = fo.Scheduler(np.array(capacities, dtype=float), servers=exact.servers, **options)
    live = []
    for kind, *step in steps:
        if kind == "submit":
            user, units, tasks, weight, limit, eligible, gang = step
            try:
                number = fast.submit(
                    user,
                    [*map(float, units)],
                    tasks,
                    weight=weight and float(weight),
                    limit=limit,
                    eligible=eligible,
                    gang=gang,
                )
            except fo.errors.InvalidInstance:  # too large, nowhere or nothing
                continue
            assert number == exact.submit(user, units, tasks, weight=weight, limit=limit, eligible=eligible, gang=gang)
        elif kind == "ask":
            for _ in range(step[0]):
                task = fast.next_task()
                assert task == exact.next_task()
                if task is None:
                    break
                live.append(task)
        elif kind == "withdraw":
            (job,) = step
            if job < len(exact.jobs) and exact.jobs[job]["left"]:
                assert fast.withdraw(job) == exact.withdraw(job)
            else:
                with pytest.raises(fo.errors.InvalidInstance, match=f"no task of job {job} waits"):
                    fast.withdraw(job)
        elif kind == "finish":
            for number in step[0] if live else ():
                if live:
                    task = live.pop(number % len(live))
                    fast.finish(task)
                    exact.finish(task)
        else:
            fast = pickle.loads(pickle.dumps(fast))
        used = fast.used
        assert (used <= fast.instance.capacities * (1 + 1e-9)).all()
    assert fast.shares == pytest.approx({user: float(share) for user, share in exact.shares.items()}, abs=1e-12)
    free = np.array(exact.free, dtype=float)
    assert np.allclose(fast.used, fast.instance.capacities - free, rtol=0, atol=1e-12)
    assert list(fast.running) == list(fast.waiting) == list(exact.weights)
    assert sum(fast.waiting.values()) == sum(job["left"] for job in exact.jobs)


@pytest.mark.parametrize("asked", [0, 3])
def test_many_users_set_aside_are_asked_in_order_or_at_once_alike(asked, monkeypatch):
    monkeypatch.setattr(module, "MOST_TRIED", asked)
    rng = np.random.default_rng(4)
    exact, fast = OracleScheduler([[Fraction(6), Fraction(5)]]), fo.Scheduler([[6, 5]])
    for user in map(str, range(40)):
        units = [Fraction(int(k), 8) for k in rng.integers(1, 12, 2)]
        exact.submit(user, units, 9)
        fast.submit(user, [*map(float, units)], 9)
    live = everything(fast)
    assert live == everything(exact)
    for _ in range(60):
        task = live.pop(int(rng.integers(len(live))))
        exact.finish(task)
        fast.finish(task)
        started = everything(fast)
        assert started == everything(exact)
        live += started


def test_a_tie_in_exact_numbers_is_one_in_floats():
    scheduler = fo.Scheduler([10])
    scheduler.submit("A", [1], tasks=3)  # shares of 3 * 0.1, which is more than 0.3 in floats
    assert len(everything(scheduler)) == 3
    scheduler.submit("B", [3], tasks=10)
    scheduler.submit("A", [1], tasks=10)
    assert "".join(task.user for task in everything(scheduler)) == "BAB"  # after B both have 3 of 10


@pytest.mark.parametrize("weights", [(6, 3, 1), (1, 3, 6), (1, 1, 1)], ids=str)
def test_single_slots_one_after_another_follow_the_weights(weights):
    scheduler = fo.Scheduler([1])
    for user, weight in zip("abc", weights, strict=True):
        scheduler.submit(user, [1], tasks=math.inf, weight=weight)
    slots = []
    for _ in range(60):
        slots.append(scheduler.next_task())
        scheduler.finish(slots[-1])
    whole = sum(weights)
    for many in range(whole, 61, whole):
        given = [sum(task.user == user for task in slots[:many]) for user in "abc"]
        assert given == [many // whole * weight for weight in weights]


def test_who_waited_for_nothing_has_no_claim_on_the_past():
    scheduler = fo.Scheduler([1])
    scheduler.submit("old", [1], tasks=math.inf)
    for _ in range(20):
        scheduler.finish(scheduler.next_task())
    scheduler.submit("new", [1], tasks=math.inf)
    slots = [scheduler.next_task()]
    for _ in range(9):
        scheduler.finish(slots[-1])
        slots.append(scheduler.next_task())
    assert "".join(task.user[0] for task in slots) == "nonononono"


def test_capacities_are_full_in_spite_of_rounding():
    scheduler = fo.Scheduler([1])
    scheduler.submit("A", [0.1], tasks=math.inf)
    tasks = everything(scheduler)
    assert len(tasks) == 10
    for _ in range(1000):
        scheduler.finish(tasks.pop(0))
        tasks += everything(scheduler)
        assert len(tasks) == 10


def test_stop_waits_for_the_first_in_line_and_skip_passes_it_over():
    for on_misfit, expected in (("skip", ["big", "small", "small"]), ("stop", ["big", "small"])):
        scheduler = fo.Scheduler([10], on_misfit=on_misfit)
        scheduler.submit("big", [8], tasks=2, weight=100)
        scheduler.submit("small", [1], tasks=2)
        assert [task.user for task in everything(scheduler)] == expected


def test_jobs_of_one_user_start_in_order_and_those_that_fit_nowhere_are_passed_over():
    scheduler = fo.Scheduler([10])
    for units in (6, 7, 2):
        scheduler.submit("A", [units])
    first, third = everything(scheduler)
    assert (first.job, third.job) == (0, 2)
    scheduler.finish(first)
    assert scheduler.next_task().job == 1


def test_weights_limits_and_backlogs():
    scheduler = fo.Scheduler([12])
    scheduler.submit("A", [1], tasks=math.inf, weight=2)
    scheduler.submit("B", [1], tasks=math.inf)
    scheduler.submit("C", [1], tasks=math.inf, limit=2)
    tasks = everything(scheduler)
    assert scheduler.running == {"A": 6, "B": 4, "C": 2}
    assert scheduler.waiting == dict.fromkeys("ABC", math.inf)
    for task in [task for task in tasks if task.user == "A"]:
        scheduler.finish(task)
    scheduler.submit("C", [1], limit=9)  # the limit is the user's, from now on
    everything(scheduler)
    assert scheduler.running["C"] > 2


@pytest.mark.parametrize(("limit", "runs"), [(2.5, 2), (0.5, 0), (2, 2)])
def test_a_limit_that_is_no_whole_number_is_not_exceeded(limit, runs):
    scheduler = fo.Scheduler([9])
    scheduler.submit("web", [1], tasks=9, limit=limit)
    assert len(list(iter(scheduler.next_task, None))) == runs


def test_places_are_names_of_servers_or_of_types_or_a_mask():
    scheduler = fo.Scheduler([[4], [4], [4]], servers=["a", "b", "c"], server_types=["cpu", "gpu", "gpu"])
    for user, eligible in (("x", ["gpu"]), ("y", ["a"]), ("z", [False, False, True])):
        scheduler.submit(user, [3], eligible=eligible)
    assert {task.user: task.server for task in everything(scheduler)} == {"x": "b", "y": "a", "z": "c"}


def test_a_function_places_tasks_and_is_held_to_servers_where_they_fit():
    def last(units, free, rows):
        assert (units <= free).all()
        return rows[-1]

    scheduler = fo.Scheduler([[4], [4], [1]], placement=last)
    scheduler.submit("A", [2], tasks=5)
    assert [task.server for task in everything(scheduler)] == ["server2", "server2", "server1", "server1"]
    scheduler = fo.Scheduler([[4], [1]], placement=lambda units, free, rows: 1)
    scheduler.submit("A", [2])
    with pytest.raises(fo.errors.InvalidBlock, match=r"returned 1; return one of \[0\]"):
        scheduler.next_task()


def test_pooled_types_have_no_walls():
    servers = dict(capacities=[[8, 64]] * 3 + [[8, 32]] * 2, server_types=["large"] * 3 + ["small"] * 2)
    alone, pooled = fo.Scheduler(**servers), fo.Scheduler(**servers, placement="pooled")
    for scheduler in (alone, pooled):
        scheduler.submit("A", [5, 1], tasks=9)
    assert len(everything(alone)) == 5
    assert [task.server for task in everything(pooled)] == ["large"] * 4 + ["small"] * 3
    assert pooled.used.tolist() == [[20, 4], [15, 3]]


def test_servers_of_an_instance_are_taken_one_by_one():
    cluster = fo.Instance([[1]], [[4], [6]], counts=[2, 1], servers=["a", "b"], resources=["cpu"])
    scheduler = fo.Scheduler(cluster)
    assert scheduler.instance.servers == ("a #1", "a #2", "b")
    scheduler.submit("A", {"cpu": 3}, tasks=9)
    assert [task.server for task in everything(scheduler)] == ["a #1", "a #2", "b", "b"]


@dataclass(frozen=True, repr=False)
class OnLarge(fo.Share):
    """A task counts double on the first server."""

    def per_task(self, instance):
        return np.array([[2.0] + [1.0] * (instance.n_servers - 1)] * instance.n_users)


def test_a_share_of_ones_own_may_differ_by_server():
    scheduler = fo.Scheduler([[4], [4]], OnLarge())
    scheduler.submit("A", [4])
    scheduler.submit("B", [4])
    first, second = everything(scheduler)
    assert scheduler.shares == {"A": 2.0, "B": 1.0}
    scheduler.finish(first)
    scheduler.finish(second)
    assert scheduler.shares == {"A": 0.0, "B": 0.0}


def test_tiny_tasks_tend_to_the_divisible_allocation():
    rng = np.random.default_rng(5)
    for share in (fo.DominantShare(), fo.KDominantShare(2)):
        demands = rng.integers(1, 9, (4, 3)).astype(float)
        cluster = fo.Instance(demands, [40, 50, 60])
        fair = fo.Policy(fo.Leximin(share)).allocate(cluster).tasks
        for parts in (1, 10, 100):
            scheduler = fo.Scheduler([40, 50, 60], share)
            for user, row in zip(cluster.users, demands, strict=True):
                scheduler.submit(user, row / parts, tasks=math.inf)
            everything(scheduler)
            whole = np.array(list(scheduler.running.values())) / parts
            assert np.abs(whole - fair).max() <= 8 / parts  # with all demands positive, a few tasks apart at most


def averages(history, half_life, now):
    """The decayed averages, from the whole history of (time, present shares)."""
    average, since, present = {}, {}, {}
    for time, shares in [*history, (now, history[-1][1])]:
        for user, share in shares.items():
            before = present.get(user, 0.0)
            decay = 0.5 ** ((time - since.get(user, time)) / half_life)
            average[user] = before + (average.get(user, 0.0) - before) * decay
            since[user], present[user] = time, share
    return average


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_with_a_half_life_the_smallest_decayed_average_is_first(seed):
    rng = np.random.default_rng(seed)
    half_life, now = float(rng.choice([1, 5, 30])), float(rng.choice([0, 1e6]))
    scheduler, tasks = fo.Scheduler([8], half_life=half_life), []
    for user in "ABC":
        scheduler.submit(user, [1], tasks=100, at=now)
    history = [(now, dict.fromkeys("ABC", 0.0))]
    for _ in range(25):
        now += float(rng.choice([0, 0.1, 1, 7]))
        for _ in range(int(rng.integers(3)) if tasks else 0):
            task = tasks.pop(int(rng.integers(len(tasks)))) if tasks else None
            if task:
                scheduler.finish(task, at=now)
        history.append((now, {user: k / 8 for user, k in scheduler.running.items()}))
        average, running = averages(history, half_life, now), scheduler.running
        task = scheduler.next_task(at=now)
        if task is not None:
            least = min(average.values())
            assert average[task.user] <= least * (1 + 1e-5)
            if least == 0:
                assert running[task.user] == min(running[user] for user in "ABC" if average[user] == 0)
            tasks.append(task)
        history.append((now, {user: k / 8 for user, k in scheduler.running.items()}))
        assert scheduler.shares == pytest.approx(averages(history, half_life, now), abs=1e-12)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (dict(demands=[9, 1]), "user 'web' needs 9 of cpu, and no server has more than 8; make the task smaller"),
        (dict(demands=[8, 60]), "needs 8 of cpu, 60 of memory, and no server has all of it"),
        (dict(demands=[1, 40], eligible=["b"]), "needs 40 of memory, and no server where it may run has more than 32"),
        (dict(demands=[0, 0]), "user 'web' demands nothing"),
        (dict(demands=[1]), r"demands of user 'web' are \[1\]; give 2 numbers, one by resource"),
        (dict(demands=[1, math.nan]), r"demands of user 'web' are \[1, nan\]"),
        (dict(demands={"gpu": 1}), "user 'web' demands 'gpu'; did you mean 'cpu'"),
        (dict(tasks=0), "tasks of user 'web' is 0; give a whole number >= 1"),
        (dict(tasks=1.5), "tasks of user 'web' is 1.5"),
        (dict(tasks=10**400), "tasks of user 'web' is 1000"),
        (dict(weight=10**400), "weight of user 'web' is 1000"),
        (dict(tasks=True), "tasks of user 'web' is True"),
        (dict(tasks=math.nan), "tasks of user 'web' is nan"),
        (dict(weight=0), "weight of user 'web' is 0; give a number > 0"),
        (dict(weight=math.inf), "weight of user 'web' is inf"),
        (dict(limit=-1), "limit of user 'web' is -1"),
        (dict(eligible=["c"]), "eligible of user 'web' names 'c'; known: b, a"),
        (dict(eligible="a"), "eligible of user 'web' is 'a'; give a list"),
        (dict(eligible=5), "eligible of user 'web' is 5; give a list"),
        (dict(eligible=[True]), r"eligible of user 'web' has shape \(1,\); give \(2,\)"),
        (dict(eligible=[False, False]), "eligible of user 'web' has no server"),
        (dict(user=""), "user is ''; give a label"),
        (dict(at=1), r"at is 1 after 2; give at= as a time"),
        (dict(at=math.nan), "at is nan"),
        (dict(at="now"), "at is 'now'"),
    ],
)
def test_a_wrong_job_is_named_and_nothing_is_lost(job, message):
    scheduler = fo.Scheduler([[8, 32], [4, 64]], resources=["cpu", "memory"], servers=["b", "a"])
    scheduler.submit("batch", [1, 1], tasks=2, at=2)
    with pytest.raises(fo.errors.InvalidInstance, match=message):
        scheduler.submit(**{"user": "web", "demands": [1, 1]} | job)
    assert scheduler.waiting == {"batch": 2}
    assert [task.user for task in everything(scheduler)] == ["batch", "batch"]


def test_a_share_that_is_not_defined_for_a_job_is_an_error():
    with pytest.raises(fo.errors.OutOfDomain, match="'web' has a zero KDominantShare"):
        fo.Scheduler([4, 4], fo.KDominantShare(2)).submit("web", [1, 0])


def test_an_endless_backlog_is_withdrawn_and_others_go_on():
    scheduler = fo.Scheduler([4])
    endless, other = scheduler.submit("web", [1], tasks=math.inf), scheduler.submit("web", [1])
    assert scheduler.withdraw(endless) == math.inf and scheduler.waiting == {"web": 1}
    assert [task.job for task in everything(scheduler)] == [other]


def test_a_task_ends_once():
    scheduler = fo.Scheduler([4])
    scheduler.submit("web", [1])
    task = scheduler.next_task()
    scheduler.finish(task.id)
    for wrong in (task, 7, "x", [1]):
        with pytest.raises(fo.errors.InvalidInstance, match="is running; give one that next_task returned, once"):
            scheduler.finish(wrong)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(share="drf"), fo.errors.InvalidBlock, "share is 'drf'; give a share such as"),
        (dict(placement="worst-fit"), fo.errors.InvalidBlock, "placement is 'worst-fit'; did you mean"),
        (dict(placement="pooled"), fo.errors.InvalidBlock, "give server_types"),
        (dict(on_misfit="wait"), fo.errors.InvalidBlock, "on_misfit is 'wait'"),
        (dict(order="random"), fo.errors.InvalidBlock, "order is 'random'"),
        (dict(half_life=0), fo.errors.InvalidBlock, "half_life is 0; give a finite time > 0"),
        (dict(half_life=5, order="arrival"), fo.errors.InvalidBlock, "leave half_life and usage out"),
        (dict(capacities=[[-1]]), fo.errors.InvalidInstance, "-1"),
        (dict(capacities=[4], servers=["a", "b"]), fo.errors.InvalidInstance, "server"),
        (
            dict(capacities=fo.Instance([[1]], [4]), resources=["cpu"]),
            fo.errors.InvalidInstance,
            "those of the instance",
        ),
    ],
)
def test_wrong_options_are_named(options, error, message):
    with pytest.raises(error, match=message):
        fo.Scheduler(**{"capacities": [4, 4]} | options)


def test_a_half_life_needs_the_time_of_every_call():
    scheduler = fo.Scheduler([4], half_life=60)
    with pytest.raises(fo.errors.InvalidInstance, match="half_life needs the time of every call"):
        scheduler.submit("web", [1])
    scheduler.submit("web", [1], at=0)
    with pytest.raises(fo.errors.InvalidInstance, match="needs the time"):
        scheduler.next_task()


def test_a_scheduler_of_nothing_has_nothing_to_start():
    assert fo.Scheduler([4]).next_task() is None
    assert repr(fo.Scheduler([4])) == "<Scheduler of DominantShare(): 0 users on 1 server, 0 tasks running, 0 waiting>"


def test_rank_weights_by_user_count_in_shares():
    scheduler = fo.Scheduler([4, 8], fo.KDominantShare(2, rank_weights={"A": (1, 2), "B": (3, 1)}))
    for user in "AB":
        scheduler.submit(user, [1, 2])
    everything(scheduler)
    assert scheduler.shares == {"A": 2 / 16, "B": 3 / 16}


def test_a_limit_of_zero_holds_a_user_back_until_it_is_raised() -> None:
    scheduler = fo.Scheduler([4])
    scheduler.submit("a", [1], tasks=2, limit=0)
    assert scheduler.next_task() is None and scheduler.waiting == {"a": 2}
    scheduler.submit("a", [1], limit=np.inf)
    assert len(list(iter(scheduler.next_task, None))) == 3
    with pytest.raises(fo.errors.InvalidInstance, match=r"limit of user 'a' is -1; give a number >= 0"):
        scheduler.submit("a", [1], limit=-1)
