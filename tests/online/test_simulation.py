"""Simulations: the order of events, schedulers of one's own, interruptions, fair shares."""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.scheduler import OracleScheduler

import fairopt as fo
from fairopt.online import fair
from fairopt.runtime.clock import Clock


def assert_same(one, other):
    for name in ("task_job", "task_server", "start", "end", "unstarted"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


WEIGHTS = {"a": 1.0, "b": 2.0, "c": 1.0}


@st.composite
def runs(draw):
    """Servers and jobs in small whole numbers, so that sums are exact and times meet."""
    m = draw(st.integers(1, 2))
    servers = draw(st.lists(st.lists(st.integers(1, 8), min_size=m, max_size=m), min_size=1, max_size=3))
    jobs = []
    for _ in range(draw(st.integers(0, 6))):
        home = draw(st.integers(0, len(servers) - 1))  # where a task fits
        demands = [draw(st.integers(0, c)) for c in servers[home]]
        mask = [s == home or draw(st.booleans()) for s in range(len(servers))]
        user = draw(st.sampled_from("abc"))
        jobs.append(
            fo.Job(
                user,
                demands if any(demands) else servers[home],
                draw(st.integers(1, 4)),
                tasks=draw(st.integers(1, 5)),
                arrival=draw(st.integers(0, 6)),
                weight=WEIGHTS[user],
                eligible=draw(st.sampled_from([None, mask])),
            )
        )
    return np.array(servers, dtype=float), jobs


@settings(max_examples=10, deadline=None)
@given(runs(), st.sampled_from(["skip", "stop"]), st.sampled_from(["share", "arrival"]))
def test_every_task_runs_once_within_capacities_as_the_exact_scheduler_decides(run, on_misfit, order):
    capacities, jobs = run
    made = fo.simulate(
        capacities, jobs, scheduler=fo.Scheduler(capacities, on_misfit=on_misfit, order=order), fair_at=[0, 2.5, 6]
    )
    exact = OracleScheduler(capacities, on_misfit=on_misfit, order=order)
    assert_same(made, fo.simulate(capacities, jobs, scheduler=exact))
    assert not made.unstarted.any() and len(made.start) == sum(job.tasks for job in jobs)
    assert (np.diff(made.start) >= 0).all()
    for k, job in enumerate(jobs):
        of = made.task_job == k
        assert of.sum() == job.tasks and (made.start[of] >= job.arrival).all()
        assert (made.end[of] == made.start[of] + job.duration).all()
        if job.eligible is not None:
            assert np.array(job.eligible)[made.task_server[of]].all()
    for t in np.unique([*made.start, *made.end]):
        used = np.zeros_like(capacities)
        for k, s, begun, ended in zip(made.task_job, made.task_server, made.start, made.end, strict=True):
            used[s] += (begun <= t < ended) * np.array(jobs[k].demands)
        assert (used <= capacities).all()
    assert ((made.distance() >= 0) & (made.distance() <= 1 + 1e-9)).all()
    assert (made.fair_shares.sum(axis=1) <= len(capacities[0]) + 1e-9).all()


class Log:
    """First come, first served, a few tasks at once, with a log of all calls; it takes neither times nor weights."""

    def __init__(self, room=2):
        self.log, self.waiting, self.free, self.jobs = [], [], room, 0

    def submit(self, user, demands, tasks):
        self.log.append(f"+{user}")
        self.waiting += [self.jobs] * tasks
        self.jobs += 1
        return self.jobs - 1

    def next_task(self):
        self.log.append("?")
        if not self.free or not self.waiting:
            return None
        self.free -= 1
        return Start(self.waiting.pop(0), "pool")

    def finish(self, task):
        self.log.append(f"-{task.job}")
        self.free += 1


class Start(NamedTuple):
    job: int
    server: str


def test_at_one_moment_tasks_end_in_order_of_start_then_jobs_arrive_then_the_scheduler_is_asked_until_it_has_none():
    late, z = (fo.Job(user, [1], 1, arrival=4) for user in ("late", "z"))
    jobs = [late, fo.Job("x", [1], 3, arrival=1), fo.Job("y", [1], 4), z]
    log = Log()
    made = fo.simulate([2], jobs, scheduler=log)
    assert log.log == ["+y", "?", "?", "+x", "?", "?", "-0", "-1", "+late", "+z", "?", "?", "?", "-2", "-3", "?"]
    assert made.task_job.tolist() == [2, 1, 0, 3] and made.start.tolist() == [0, 1, 4, 4]
    assert made.name == "Log"


def test_fractions_meet_where_floats_do_not():
    def begun(third):
        jobs = [fo.Job("a", [2], third, tasks=3), fo.Job("b", [2], 1, arrival=3 * Fraction(1, 10))]
        return fo.simulate([2], jobs, scheduler=Log(room=1)).start.tolist()[3]

    assert begun(Fraction(1, 10)) == 0.3 and begun(0.1) == 0.1 + 0.1 + 0.1 > 0.3


def test_a_scheduler_of_ones_own_gets_what_it_takes():
    class Greedy:
        def __init__(self):
            self.seen, self.queue = [], []

        def submit(self, user, demands, tasks, *, weight, eligible, at):
            self.seen.append((user, demands.tolist(), tasks, weight, eligible.tolist(), at))
            self.queue.append(user)
            return user

        def next_task(self, **given):
            self.seen.append(given)
            return Start(self.queue.pop(0), "s2") if self.queue else None

        def finish(self, task, at):
            self.seen.append((task.job, at))

    own = Greedy()
    job = fo.Job("a", {"cpu": 1}, 5, arrival=2, weight=3, eligible=["s2"])
    cluster = fo.Instance([], [[4, 4], [4, 4]], resources=["cpu", "gpu"], servers=["s1", "s2"])
    assert fo.simulate(cluster, [job], scheduler=own, name="mine").name == "mine"
    assert own.seen == [("a", [1.0, 0.0], 1, 3.0, [False, True], 2), {"at": 2}, {"at": 2}, ("a", 7), {"at": 7}]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Start(7, "pool"), "next_task at 0 gave a task of job 7, which was not submitted"),
        (Start(0, "poll"), "gave a task for server 'poll'; did you mean 'pool'"),
        (Start(0, ["pool"]), "returned .*unhashable.*an object with .job"),
        (Start(1, "pool"), "gave a task for server 'pool', which has {'resource1': 0.0} left"),
        ("task", "next_task returned 'task'.*an object with .job"),
    ],
)
def test_a_task_that_cannot_start_is_an_error_that_says_why(task, message):
    class Wrong(Log):
        def next_task(self):
            return task

    with pytest.raises(fo.errors.InvalidBlock, match=message):
        fo.simulate([2], [fo.Job("a", [2], 1), fo.Job("b", [2], 1, tasks=5)], scheduler=Wrong())


def test_a_task_where_it_may_not_run_is_an_error():
    class Blind(Log):
        def submit(self, user, demands, tasks, eligible):
            return super().submit(user, demands, tasks)

    job, cluster = fo.Job("a", [1], 1, eligible=["s2"]), fo.Instance([], [[2], [2]], servers=["pool", "s2"])
    with pytest.raises(fo.errors.InvalidBlock, match="for server 'pool', where job 0 may not run"):
        fo.simulate(cluster, [job], scheduler=Blind())


def test_more_tasks_than_a_job_has_are_an_error():
    class More(Log):
        def next_task(self):
            return Start(0, "pool")

    with pytest.raises(fo.errors.InvalidBlock, match=r"of job 0, all of whose tasks \(2\) have started"):
        fo.simulate([2], [fo.Job("a", [0.5], 1, tasks=2)], scheduler=More())


def test_schedulers_that_lack_something_are_refused():
    with pytest.raises(fo.errors.InvalidBlock, match=r"without next_task\(\)"):
        fo.simulate([2], [], scheduler=object.__new__(type("Half", (), {"submit": print, "finish": print})))
    with pytest.raises(fo.errors.InvalidBlock, match="give an object"):
        fo.simulate([2], [], scheduler=fo.Scheduler)
    with pytest.raises(fo.errors.InvalidBlock, match="submit takes no weight=, and a job of user 'a' has one"):
        fo.simulate([2], [fo.Job("a", [1], 1, weight=2)], scheduler=Log())
    with pytest.raises(fo.errors.InvalidBlock, match="submit returned None"):
        fo.simulate([2], [fo.Job("a", [1], 1)] * 2, scheduler=type("Silent", (Log,), {"submit": lambda *_: None})())
    used = fo.Scheduler([2])
    used.submit("a", [1])
    with pytest.raises(fo.errors.InvalidBlock, match="which was not submitted in this run; give a new scheduler"):
        fo.simulate([2], [fo.Job("b", [1], 1)], scheduler=used)
    with pytest.raises(fo.errors.InvalidInstance, match=r"the scheduler has capacities \[3.0\] in total, not \[2.0\]"):
        fo.simulate([2], [], scheduler=fo.Scheduler([3]))
    with pytest.raises(fo.errors.InvalidBlock, match="share is 'dominant'"):
        fo.simulate([2], [], "dominant")


def test_tasks_that_are_never_started_are_counted_and_end_the_simulation():
    class Lazy(Log):
        def next_task(self):
            return super().next_task() if self.jobs == 1 else None

    made = fo.simulate([2], [fo.Job("a", [1], 1), fo.Job("b", [1], 1, tasks=3, arrival=5)], scheduler=Lazy())
    assert made.unstarted.tolist() == [0, 3] and "3 not started" in repr(made) and not made.interrupted
    assert made.summary()["unstarted"] == 3 and made.summary()["jobs"] == 1 and np.isnan(made.completion[1])


def test_pools_of_the_scheduler_are_the_servers_of_the_run():
    cluster = fo.Instance([], [[2], [2], [4]], server_types=["small", "small", "large"])
    made = fo.simulate(cluster, [fo.Job("a", [3], 1, tasks=2)], scheduler=fo.Scheduler(cluster, placement="pooled"))
    assert made.servers == ("small", "large") and made.start.tolist() == [0, 0]
    assert made.name == "DominantShare(), placement='pooled'"


def test_progress_and_ctrl_c_keep_the_part_done():
    jobs = [fo.Job("a", [1], 1, tasks=3000), fo.Job("b", [1], 1, arrival=5000)]
    seen = []

    def stop(what, done, total):
        seen.append((what, done, total))
        if done == 2000:
            raise KeyboardInterrupt

    with fo.progress(stop):
        part = fo.simulate([1], jobs, fair_at=[0, 1999, 4000])
    assert seen[:2] == [("tasks ended", 1000, 3001), ("tasks ended", 2000, 3001)]
    assert part.interrupted and "interrupted" in repr(part) and part.until == 2000
    whole = fo.simulate([1], jobs)
    np.testing.assert_array_equal(part.start, whole.start[:2000])
    assert part.unstarted.tolist() == [1000, 1] and part.fair_errors == (None, None, "interrupted")
    assert np.isnan(part.distance()[2]) and part.to_frame("time").index.max() == 1999


def test_ctrl_c_among_the_fair_shares_keeps_those_found():
    def stop(what, done, total):
        if (what, done) == ("fair shares", 1):
            raise KeyboardInterrupt

    with fo.progress(stop):
        part = fo.simulate([4], [fo.Job("a", [1], 5, tasks=8)], fair_at=[0, 5])
    assert part.interrupted and part.fair_errors == (None, "interrupted") and len(part.start) == 8
    np.testing.assert_allclose(part.distance(), [0, np.nan])


def test_fair_shares_are_those_of_the_divisible_policy_on_the_users_present():
    cluster = fo.Instance([], [9, 18])
    a = fo.Job("a", [1, 4], 10, tasks=2, weight=2)
    b = fo.Job("b", [3, 1], 10, tasks=9)
    late = fo.Job("late", [1, 1], 10, tasks=4, arrival=5)
    made = fo.simulate(cluster, [a, b, late], fair_at=[5, 4, 100])
    for row, demands, weights, limits in (
        (made.fair_shares[1][:2], [[1, 4], [3, 1]], [2, 1], [2, 9]),
        (made.fair_shares[0], [[1, 4], [3, 1], [1, 1]], [2, 1, 1], [2, 9, 4]),
    ):
        divisible = fo.Instance(demands, [9, 18], weights=weights, task_limits=limits)
        np.testing.assert_allclose(row, fo.DRF().allocate(divisible).shares, rtol=1e-6)
    assert made.fair_shares[1][2] == 0 and not made.fair_shares[2].any() and made.distance()[2] == 0
    np.testing.assert_array_equal(made.fair_at, [5, 4, 100])
    short = np.maximum(made.fair_shares[0] - made.shares([5])[0], 0)
    np.testing.assert_allclose(made.shortfalls()[0], short)
    np.testing.assert_allclose(made.distance()[0], short.sum() / made.fair_shares[0].sum())


def test_a_user_with_tasks_of_several_demands_divides_its_weight_by_their_total_shares():
    jobs = [fo.Job("a", [1, 0], 9, tasks=6), fo.Job("a", [0, 2], 9, tasks=9), fo.Job("b", [1, 1], 9, tasks=20)]
    made = fo.simulate([10, 20], jobs, fair_at=[0])
    wish = np.array([6 * 0.1, 9 * 0.1])
    parts = fo.Instance([[1, 0], [0, 2], [1, 1]], [10, 20], weights=[*wish / wish.sum(), 1], task_limits=[6, 9, 20])
    one, two, b = fo.DRF().allocate(parts).shares
    np.testing.assert_allclose(made.fair_shares[0], [one + two, b], rtol=1e-6)


def test_fair_shares_heed_where_tasks_may_run():
    jobs = [fo.Job("a", [1], 9, tasks=9, eligible=["s1"]), fo.Job("b", [1], 9, tasks=9)]
    made = fo.simulate(fo.Instance([], [[2], [6]], servers=["s1", "s2"]), jobs, fair_at=[0])
    np.testing.assert_allclose(made.fair_shares, [[2 / 8, 6 / 8]], rtol=1e-6)


def test_a_moment_without_a_fair_optimum_is_nan_with_its_reason(monkeypatch):
    real = fo.Policy.allocate

    def sometimes(policy, instance, **_):
        if instance.n_users == 2:
            raise fo.errors.NotCertified("no solver")
        return real(policy, instance)

    monkeypatch.setattr(fair.Policy, "allocate", sometimes)
    jobs = [fo.Job("a", [1], 5, tasks=4), fo.Job("b", [1], 5, arrival=2)]
    made = fo.simulate([4], jobs, fair_at=[0, 2])
    assert made.fair_errors == (None, "NotCertified: no solver") and not made.interrupted
    np.testing.assert_array_equal(np.isnan(made.distance()), [False, True])
    assert made.summary()["distance"] == {"mean": 0.0, "largest": 0.0}


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    def per_task(self, instance):
        return instance.ratios.mean(axis=-1)


def test_a_share_of_ones_own_is_levelled_and_measured():
    made = fo.simulate([4, 8], [fo.Job("a", [1, 0], 5, tasks=4), fo.Job("b", [0, 1], 5)], MeanShare(), fair_at=[0])
    np.testing.assert_allclose(made.shares([0]), [[0.5, 1 / 16]])
    np.testing.assert_allclose(made.distance(), [0], atol=1e-9)


def test_rank_weights_by_user_count_in_fair_shares_too():
    share = fo.KDominantShare(1, rank_weights={"a": [2.0], "later": [3.0]})
    jobs = [fo.Job("a", [1], 5, tasks=12), fo.Job("a", [2], 5, tasks=6), fo.Job("b", [1], 5, tasks=12)]
    made = fo.simulate([12], [*jobs, fo.Job("later", [1], 1, arrival=90)], share, fair_at=[0])
    # shares of a task: 2/12, 4/12 and 1/12; a's kinds have half its weight each, so levels are u/2, u/2 and u
    np.testing.assert_allclose(made.fair_shares[0], [2 / 3, 2 / 3, 0], rtol=1e-6)
    assert made.fair_errors == (None,)


def test_no_jobs_and_one_job():
    none = fo.simulate([4, 2], [], fair_at=[0, 1])
    assert none.users == () and none.distance().tolist() == [0, 0] and none.summary()["makespan"] == 0
    assert none.shares([0, 1]).shape == (2, 0) and none.utilisation([0]).tolist() == [[0, 0]]
    one = fo.simulate([4], [fo.Job("a", [4], 5, arrival=-2)])
    assert one.span == (-2, 3) and one.summary()["slowdown"]["mean"] == 1


@pytest.mark.parametrize("moments", [[float("nan")], [0, float("inf")], "soon", [[0, 1]]])
def test_moments_are_finite_numbers(moments):
    with pytest.raises(fo.errors.InvalidInstance, match="fair_at"):
        fo.simulate([4], [], fair_at=moments)


def test_a_share_that_differs_by_server_is_refused():
    @dataclass(frozen=True, repr=False)
    class ByServer(fo.Share):
        def per_task(self, instance):
            return np.arange(1.0, 3.0)[None, :].repeat(instance.n_users, axis=0)

    with pytest.raises(fo.errors.InvalidBlock, match="of user 'a' differs by server"):
        fo.simulate([[4], [4]], [fo.Job("a", [1], 1)], ByServer())


def test_the_time_limit_returns_the_part_done(monkeypatch: pytest.MonkeyPatch) -> None:
    late = iter([False] * 2 + [True] * 1000)
    monkeypatch.setattr(Clock, "late", property(lambda self: next(late)))
    jobs = [fo.Job("a", [1], 10, tasks=60, arrival=k) for k in range(3)]
    run = fo.simulate([4], jobs, fair_at=[0.0], time_limit=60)
    assert run.interrupted and 0 < len(run.start) < 180 and np.isfinite(run.until)


def test_fair_shares_that_the_time_limit_leaves_out_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run = fo.simulate([4], [fo.Job("a", [1], 10, tasks=6)])
    late, solve = list[int](), fair._fair_shares
    monkeypatch.setattr(fair, "_fair_shares", lambda *given: (solve(*given), late.append(1))[0])
    monkeypatch.setattr(Clock, "late", property(lambda self: bool(late)))
    found = run.with_fair_at([0.0, 5.0], time_limit=60)
    assert found.fair_errors == (None, "not reached before the time limit") and found.interrupted
    assert found.fair_shares.tolist()[0] == [1.0] and np.isnan(found.fair_shares[1]).all()
