"""Slurm's rules: factors and replays against plain recursion and loops; parts, limits and wrong calls."""

import math

import numpy as np
import pytest
from oracle.simulator import drawn as drawn_jobs
from oracle.slurm import (
    SlurmCluster,
    accounts_of,
    classic,
    classic_factor,
    drawn_replay,
    drawn_tree,
    fair_tree,
    replayed,
)
from settings import THOROUGH

import fairopt as fo
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.online import Account, Partition, Priority, RunningLimit, SlurmRules, SlurmScheduler
from fairopt.online.accounts import Accounts


def test_factors_are_those_of_the_manual_on_200_random_trees():
    for seed in range(200):
        tree = drawn_tree(seed)
        accounts, exact = Accounts(accounts_of(tree)), fair_tree(tree)
        found = accounts.fair_tree()
        assert [found[accounts.index[name]] for name in exact] == [float(rank) for rank in exact.values()], seed
        found, by_formula = accounts.classic(2.0), classic(tree)
        expected = [classic_factor(*one, 2.0) for one in by_formula.values()]
        assert [found[accounts.index[name]] for name in by_formula] == pytest.approx(expected, rel=1e-12), seed


def test_random_trees_have_ties_and_accounts_with_the_shares_of_their_parent():
    trees = [drawn_tree(seed) for seed in range(200)]
    ranks = [[*fair_tree(tree).values()] for tree in trees]
    assert sum(len(set(of)) < len(of) for of in ranks) > 50
    assert sum(any(shares is None and "/" not in name for name, (_, shares, _) in tree.items()) for tree in trees) > 50


def test_sshare_of_slurms_own_test_24_1():
    queues = ("A", "", 40), ("B", "A", 30), ("1", "B", 1, 20), ("C", "A", 10), ("2", "C", 1, 25), ("3", "C", 1)
    more = (
        ("D", "", 60),
        ("E", "D", 25),
        ("4", "E", 1, 25),
        ("F", "D", 35),
        ("5", "F", 1),
        ("G", "", 0),
        ("6", "G", 0, 30),
    )
    used = {"A": 45, "B": 20, "C": 25, "D": 25, "E": 25, "G": 30}
    given = [Account(name, above, s, u[0] if u else used.get(name, 0)) for name, above, s, *u in (*queues, *more)]
    accounts = Accounts(given)
    factor = dict(zip(accounts.names, accounts.classic().tolist(), strict=True))
    assert [factor[k] for k in ("A", "C", "E", "G")] == pytest.approx([0.458502, 0.125, 0.5, 0], abs=5e-7)


@pytest.mark.parametrize("first", range(0, 200 if THOROUGH else 20, 10))
def test_every_start_and_server_is_that_of_a_slow_simulator(first):
    for seed in range(first, first + 10):
        capacities, jobs, tree, rules = drawn_replay(seed)
        exact = [(float(s.start), s.job, s.server) for s in replayed(SlurmCluster(capacities, jobs, tree, rules))]
        run = fo.simulate(capacities, jobs, scheduler=SlurmScheduler(capacities, rules, resources=["cpu", "memory"]))
        assert [*zip(run.start.tolist(), run.task_job.tolist(), run.task_server.tolist(), strict=True)] == exact, seed


def order(jobs, rules, capacity=1):
    scheduler = SlurmScheduler([capacity], rules, resources=["cpu"])
    run = fo.simulate([capacity], jobs, scheduler=scheduler)
    return "".join(jobs[k].team or jobs[k].user for k in run.task_job)


def test_past_usage_is_where_a_replay_begins():
    jobs = [fo.Job(f"{team}/u", [1], 600, tasks=40, team=team) for team in "ab"]
    for half_life in (None, 7 * 86_400.0):
        rules = SlurmRules([Account("a", "", 3, 30 * 600), Account("b")], Priority(half_life=half_life))
        assert order(jobs, rules)[:22] == "b" * 10 + "abaaabaaabaa"
    assert order(jobs, SlurmRules([Account("a", "", 3), Account("b")]))[:40].count("a") == 30


def test_raw_shares_count_among_siblings_alone():
    tree = [Account("science"), Account("industry"), Account("astro", "science", 50), Account("acme", "industry", 1)]
    jobs = [fo.Job(name, [1], 600, tasks=60, team=name) for name in ("astro", "acme")]
    run = fo.simulate([1], jobs, scheduler=SlurmScheduler([1], SlurmRules(tree)))
    assert np.bincount(run.task_job[:102]).tolist() == [51, 51]


def test_age_and_size_can_outweigh_shares():
    tree = [Account("a", "", 1, 1e9), Account("b")]
    jobs = [
        fo.Job("x", [4], 10, team="b"),
        fo.Job("a1", [4], 10, arrival=1, team="a"),
        fo.Job("b1", [1], 10, arrival=9, team="b"),
    ]
    assert order(jobs, SlurmRules(tree, Priority(fairshare=1)), 4) == "bba"
    assert order(jobs, SlurmRules(tree, Priority(fairshare=1, age=10, max_age=20)), 4) == "bab"
    assert order(jobs, SlurmRules(tree, Priority(fairshare=1, size=10)), 4) == "bab"
    assert order(jobs, SlurmRules(tree, Priority(fairshare=0.1, size=10, favor_small=True)), 4) == "bba"


def test_partitions_have_tiers_factors_and_prices():
    rules = SlurmRules(
        (), Priority(fairshare=0, partition=1), {"low": Partition(1), "high": Partition(4), "top": Partition(0, 2)}
    )
    jobs = [
        fo.Job("first", [1], 5),
        *(fo.Job(name, [1], 5, labels={"partition": name}) for name in ("low", "high", "top")),
    ]
    assert order(jobs, rules) == "tophighlowfirst"
    dear = {"gpu": Partition(billing={"cpu": 3})}
    jobs = [fo.Job(n, [1], 10, tasks=9, team=n, labels={"partition": p}) for n, p in (("a", "gpu"), ("b", "batch"))]
    assert order(jobs, SlurmRules([Account("a"), Account("b")], Priority(half_life=None), dear))[:8].count("b") == 6


def test_a_limit_holds_jobs_back_and_others_pass():
    jobs = [fo.Job("u", [1], 10, tasks=4, team="a"), fo.Job("v", [1], 10, tasks=4, team="b", labels={"qos": "short"})]
    for limits, started in (
        ([RunningLimit("a", {"cpu": 1})], {"u": 1, "v": 4}),
        ([RunningLimit("a", {"jobs": 2}), RunningLimit("qos=short", {"cpu": 1})], {"u": 2, "v": 1}),
        ([RunningLimit("", {"jobs": 1}, by_user=True)], {"u": 1, "v": 1}),
    ):
        scheduler = SlurmScheduler([8], SlurmRules(limits=limits), resources=["cpu"])
        run = fo.simulate([8], jobs, scheduler=scheduler)
        assert {user: int(((run.start == 0) & (run.task_job == k)).sum()) for k, user in enumerate("uv")} == started
        assert len(run.start) == 8  # all of them start in the end


def test_a_job_without_a_limit_has_no_planned_end():
    jobs = [
        fo.Job("A", [1], 3600, limit=math.inf),
        fo.Job("B", [2], 600, arrival=1, limit=1200),
        fo.Job("C", [1], 7200, arrival=2, limit=10800),
    ]
    for scheduler in (fo.online.BackfillScheduler([2]), SlurmScheduler([2])):
        run = fo.simulate([2], jobs, scheduler=scheduler)
        assert dict(zip(run.task_job.tolist(), run.start.tolist(), strict=True)) == {0: 0, 2: 2, 1: 7202}


SCHEDULERS = {
    "drf": fo.Scheduler,
    "fcfs": lambda c: fo.Scheduler(c, order="arrival"),
    "easy": fo.online.BackfillScheduler,
    "hdrf": fo.online.HierarchicalScheduler,
    "slurm": SlurmScheduler,
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_parts_of_a_job_start_together_on_random_traces(name):
    started = 0
    for seed in range(25):
        capacities, jobs, _ = drawn_jobs(seed)
        mixed = []
        for k, job in enumerate(jobs):
            mixed.append(job)
            if k % 2:  # of one unit, and two of half a unit: together they fit on each server
                options = {"arrival": job.arrival, "weight": job.weight, "team": job.team, "together": f"{k}"}
                unit = np.ones(len(job.demands))
                mixed.append(fo.Job(job.user, unit, job.duration, **options))
                mixed.append(fo.Job(job.user, unit / 2, job.duration + 1, tasks=2, gang=True, **options))
        run = fo.simulate(capacities, mixed, scheduler=SCHEDULERS[name](capacities))
        assert not run.unstarted.any()
        for label, parts in run.table.parts.items():
            times = {float(t) for k in parts for t in run.start[run.task_job == k]}
            assert len(times) == 1, (seed, label)
            started += 1
    assert started > 80


def test_parts_wait_for_room_for_all_and_hold_what_they_take():
    jobs = [
        fo.Job("a", [1], 10),
        fo.Job("a", [2], 5, arrival=1, together="h"),
        fo.Job("a", [1], 7, arrival=1, together="h"),
        fo.Job("b", [1], 3, arrival=2),
        fo.Job("b", [1], 30, arrival=2),
    ]
    run = fo.simulate([3], jobs, scheduler=fo.online.BackfillScheduler([3]))
    assert dict(zip(run.task_job.tolist(), run.start.tolist(), strict=True)) == {0: 0, 3: 2, 1: 10, 2: 10, 4: 15}
    with pytest.raises(InvalidInstance, match="'h' do not fit on the empty servers together"):
        fo.simulate([2], jobs)
    with pytest.raises(InvalidInstance, match="several users or arrivals"):
        fo.simulate([4], [fo.Job("a", [1], 1, together="h"), fo.Job("b", [1], 1, together="h")])
    scheduler = fo.Scheduler([3])
    scheduler.submit("a", [1], together="x")
    scheduler.submit("a", [3], together="x")
    with pytest.raises(InvalidInstance, match="starts together with others"):
        scheduler.withdraw(0)


def test_a_timeline_with_parts_labels_and_no_limit_is_saved(tmp_path):
    jobs = [fo.Job("a", [1], 5, together="h", labels={"qos": "x"}, limit=math.inf), fo.Job("a", [2], 5, together="h")]
    run = fo.simulate([3], jobs)
    again = fo.online.Timeline.load(run.save(tmp_path / "run.json"))
    assert again.jobs == run.jobs and again.jobs[0].limit == math.inf and again.start.tolist() == [0, 0]


def test_wrong_rules_name_the_value_and_the_fix():
    for make, message in (
        (lambda: Account("a", shares=-1), "shares of 'a' is -1; give a finite number >= 0"),
        (lambda: Accounts([Account("a"), Account("a")]), "the account 'a' is there twice"),
        (lambda: Accounts([Account("a", "b")]), "the parent of 'a' is 'b'"),
        (lambda: Accounts([Account("a", "b"), Account("b", "a")]), "is above itself"),
        (lambda: SlurmScheduler([1], SlurmRules(limits=[RunningLimit("a", {"gpu": 1})])), "the limit of a names 'gpu'"),
        (lambda: fo.Job("a", [1], 1, labels={"qos": 3}), "labels of a job of user 'a'"),
        (lambda: fo.Job("a", [1], 1, tasks=2, together="x"), "give gang=True"),
    ):
        with pytest.raises(InvalidInstance, match=message):
            make()
    for make, message in (
        (lambda: Priority(half_life=0), "half_life is 0; give a finite number > 0"),
        (lambda: Priority(formula="tree"), "formula is 'tree'"),
        (lambda: SlurmScheduler([1], [Account("a")]), "give fo.online.SlurmRules"),
        (lambda: fo.online.HierarchicalScheduler([1], parents={"a": "b", "b": "a"}), "is above itself"),
    ):
        with pytest.raises(InvalidBlock, match=message):
            make()


@pytest.mark.parametrize("seed", range(3))
def test_nested_teams_come_near_the_divisible_filling_where_tasks_are_small(seed):
    rng = np.random.default_rng(seed)
    demands = rng.choice([1, 2, 3], (5, 2)).astype(float)
    teams = {"team": ["x", "x", "y", "z", "z"], "above": ["p", "p", "p", "q", "q"]}
    weights = {"x": 2, "q": 3}
    cluster = fo.Instance(demands, [2000, 2000], users=list("abcde"), teams=teams, weights=weights)
    exact = fo.HDRF(by=("above", "team")).allocate(cluster).tasks
    parents = {"x": "p", "y": "p", "z": "q"}
    scheduler = fo.online.HierarchicalScheduler([2000, 2000], weights, parents=parents)
    for user, team, row in zip("abcde", teams["team"], demands, strict=True):
        scheduler.submit(user, row.tolist(), tasks=2000, team=team)
    list(iter(scheduler.next_task, None))
    assert np.abs(np.array([*scheduler.running.values()]) - exact).max() <= 5
