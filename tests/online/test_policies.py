"""FCFS, EASY, DRF and hierarchical DRF, with gangs, against a slow simulator; and wrong calls."""

import math
from fractions import Fraction

import numpy as np
import pytest
from oracle.simulator import POLICIES, differs, drawn, simulated

import fairopt as fo

SEEDS = [*range(12), 126, 217, 248]  # in the last three a saturated resource decides between teams


@pytest.mark.parametrize("policy", POLICIES)
def test_every_start_and_server_is_that_of_plain_loops_in_fractions(policy):
    assert [seed for seed in SEEDS if differs(seed, policy)] == []


def test_random_traces_tell_the_policies_apart():
    found = {}
    for seed in range(10):
        capacities, jobs, of_team = drawn(seed)
        for policy in POLICIES:
            found.setdefault(policy, []).append(simulated(capacities, jobs, policy, of_team))
    for one in POLICIES:
        for other in POLICIES[POLICIES.index(one) + 1 :]:
            assert sum(a != b for a, b in zip(found[one], found[other], strict=True)) >= 1


def starts(jobs, scheduler, capacities=(4,)):
    return fo.simulate(list(capacities), jobs, scheduler=scheduler).to_frame("job")["first start"].tolist()


def test_backfilling_lets_only_those_pass_that_do_not_delay_the_first():
    pytest.importorskip("pandas")
    jobs = [
        fo.Job("a", [1], 10, tasks=2),
        fo.Job("first", [3], 5),
        fo.Job("short", [1], 9, limit=10),
        fo.Job("long", [1], 11),
        fo.Job("beside", [1], 30),
    ]
    # at 10 the first needs 3 of 4: one long job fits beside it, and no more
    assert starts(jobs, fo.online.BackfillScheduler([4])) == [0, 10, 0, 0, 11]
    assert starts(jobs, fo.Scheduler([4], order="arrival", on_misfit="stop")) == [0, 10, 10, 15, 15]
    assert starts(jobs, fo.Scheduler([4], order="arrival")) == [0, 11, 0, 0, 9]


def test_the_reservation_moves_forward_when_a_task_ends_before_its_limit():
    pytest.importorskip("pandas")
    jobs = [fo.Job("a", [4], 5, limit=50), fo.Job("first", [4], 5), fo.Job("b", [1], 20, arrival=1)]
    assert starts(jobs, fo.online.BackfillScheduler([4])) == [0, 5, 10]


def test_teams_share_before_their_users_do():
    scheduler = fo.online.HierarchicalScheduler([12], {"small": 1, "large": 2})
    for user, team in (("s", "small"), ("l1", "large"), ("l2", "large"), ("alone", None)):
        scheduler.submit(user, [1], tasks=20, team=team)
    assert len(list(iter(scheduler.next_task, None))) == 12
    assert scheduler.running == {"s": 3, "l1": 3, "l2": 3, "alone": 3}
    assert scheduler.waiting["s"] == 17 and "12 tasks running" in repr(scheduler)


def served(jobs, weights=None):
    scheduler = fo.online.HierarchicalScheduler([1], weights)
    return "".join(jobs[k].user for k in fo.simulate([1], jobs, scheduler=scheduler).task_job)


def test_one_slot_goes_to_whoever_was_served_least_recently_of_teams_and_of_their_users():
    alone = [fo.Job("A", [1], 1, tasks=80), fo.Job("B", [1], 1, tasks=30, arrival=50)]
    assert served(alone) == "A" * 50 + "BA" * 30
    team = [fo.Job("a", [1], 1, tasks=30, team="x"), fo.Job("b", [1], 1, tasks=30, arrival=4, team="x")]
    assert served(team) == "aaaa" + "ba" * 26 + "bbbb"
    both = [*team, fo.Job("c", [1], 1, tasks=20, arrival=10, team="y")]
    assert served(both)[10:50] == "cbca" * 10
    assert served(both, {"x": 2})[12:57] == "cab" * 15


@pytest.mark.parametrize("seed", range(3))
def test_whole_tasks_come_near_the_divisible_filling_where_they_are_small(seed):
    rng = np.random.default_rng(seed)
    demands = rng.choice([1, 2, 3], (4, 2)).astype(float)
    labels = {"users": list("abcd"), "teams": {"team": ["x", "x", "y", None]}}
    exact = fo.HDRF().allocate(fo.Instance(demands, [1000, 1000], **labels)).tasks
    scheduler = fo.online.HierarchicalScheduler([1000, 1000])
    for user, team, row in zip("abcd", labels["teams"]["team"], demands, strict=True):
        scheduler.submit(user, row.tolist(), tasks=1000, team=team)
    list(iter(scheduler.next_task, None))
    assert np.abs(np.array(list(scheduler.running.values())) - exact).max() <= 3


def test_a_gang_waits_for_room_for_all_of_it_and_its_tasks_follow_one_another():
    scheduler = fo.Scheduler([[2], [2]], servers=["s1", "s2"], order="arrival")
    scheduler.submit("a", [1], tasks=2)
    scheduler.submit("b", [1], tasks=3, gang=True)
    first, second = iter(scheduler.next_task, None)
    scheduler.finish(first)
    started = list(iter(scheduler.next_task, None))
    assert [task.server for task in started] == ["s1", "s2", "s2"] and {task.user for task in started} == {"b"}
    scheduler.finish(second)
    assert scheduler.running == {"a": 0, "b": 3}


@pytest.mark.parametrize("kind", [fo.Scheduler, fo.online.BackfillScheduler, fo.online.HierarchicalScheduler])
def test_a_gang_larger_than_the_cluster_is_refused(kind):
    given = {"walltime": 1, "at": 0} if kind is fo.online.BackfillScheduler else {}
    with pytest.raises(fo.errors.InvalidInstance, match="gang of user 'a' has 5 tasks, and 4 fit on all servers"):
        kind([[2], [2]]).submit("a", [1], tasks=5, gang=True, **given)
    with pytest.raises(fo.errors.InvalidInstance, match="gang of user 'a' has 5 tasks, and 4 fit"):
        fo.simulate([[2], [2]], [fo.Job("a", [1], 1, tasks=5, gang=True)])


def test_a_scheduler_that_starts_a_part_of_a_gang_is_refused():
    class Half:
        def submit(self, user, demands, tasks, gang):
            self.left = 1
            return 0

        def next_task(self):
            self.left -= 1
            return fo.online.PlacedTask(0, "a", "pool", 0) if self.left >= 0 else None

        def finish(self, task):
            pass

    with pytest.raises(fo.errors.InvalidBlock, match="started 1 of the 2 tasks of a gang of user 'a'; start all"):
        fo.simulate([2], [fo.Job("a", [1], 1, tasks=2, gang=True)], scheduler=Half())


def test_wrong_calls_name_the_value_and_the_fix():
    easy, teams = fo.online.BackfillScheduler([4]), fo.online.HierarchicalScheduler([4])
    with pytest.raises(fo.errors.InvalidInstance, match="walltime of user 'a' is 0; give a number > 0"):
        easy.submit("a", [1], walltime=0, at=0)
    easy.submit("a", [1], walltime=1, at=5)
    with pytest.raises(fo.errors.InvalidInstance, match=r"at is 4 after 5.0; give at= as a time that never decreases"):
        easy.next_task(at=4)
    with pytest.raises(fo.errors.InvalidInstance, match="backfilling needs the time of every call"):
        easy.next_task()
    teams.submit("a", [1], team="x")
    with pytest.raises(fo.errors.InvalidInstance, match="user 'a' has jobs of another team than None; give all the"):
        teams.submit("a", [1])
    with pytest.raises(fo.errors.InvalidInstance, match=r"tasks of user 'a' is 0"):
        teams.submit("a", [1], tasks=0, team="x")
    with pytest.raises(fo.errors.InvalidInstance, match="no task 7 is running"):
        teams.finish(7)
    with pytest.raises(fo.errors.InvalidBlock, match="weight of team 'x' is -1; give a finite number > 0"):
        fo.online.HierarchicalScheduler([4], {"x": -1})


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([2], r"weights is \[2\]; give a dict by team"),
        ({"x": True}, "weight of team 'x' is True; give a finite"),
        ({"x": math.inf}, "weight of team 'x' is inf; give a finite"),
    ],
)
def test_wrong_weights_of_teams_are_refused(weights, words):
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        fo.online.HierarchicalScheduler([4], weights)


@pytest.mark.parametrize("two", [np.int64(2), np.float32(2), Fraction(2)])
def test_weights_of_teams_may_be_numbers_of_any_type(two):
    scheduler = fo.online.HierarchicalScheduler([6], {"x": two})
    for user, team in (("a", "x"), ("b", "y")):
        scheduler.submit(user, [1], tasks=6, team=team)
    assert len(list(iter(scheduler.next_task, None))) == 6
    assert scheduler.running == {"a": 4, "b": 2}


def test_a_job_of_a_wrong_team_or_an_infinite_weight_leaves_no_trace():
    scheduler = fo.online.HierarchicalScheduler([4])
    with pytest.raises(fo.errors.InvalidInstance, match="team of user 'a' is 3; give a label"):
        scheduler.submit("a", [1], team=3)
    with pytest.raises(fo.errors.InvalidInstance, match="weight of user 'a' is inf; give a number > 0"):
        scheduler.submit("a", [1], weight=math.inf)
    assert scheduler.waiting == {} and scheduler.next_task() is None
    backfilling = fo.online.BackfillScheduler([4])
    with pytest.raises(fo.errors.InvalidInstance, match="walltime of user 'a' is True"):
        backfilling.submit("a", [1], walltime=True, at=0)
