"""What schedulers remember: formulas, promises on replays, and bad input."""

import math
import re
import sys
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest
from oracle import counters

import fairopt as fo
from fairopt.online import KAI, VTC, HTCondor, Karma, Kueue, Slurm, Usage, memory, try_promise
from fairopt.online.promises import of_old_users
from fairopt.online.traces import in_two
from fairopt.online.usage import named_usage

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from memory_traces import requests

SLOT = {"slot": 1}
TOKENS = {"slot": 1, "prefill": 10**6, "decode": 10**6}
COST = {"prefill": 1, "decode": 2}


def slots(join, after, **options):
    """Who gets the slots from the time when B joins A, who has one to itself until then."""
    scheduler, users = fo.Scheduler([1], **options), ""
    for second in range(join + after):
        for user, at in (("A", 0), ("B", join)):
            if second == at:
                scheduler.submit(user, [1], tasks=1000, at=second)
        task = scheduler.next_task(at=second)
        users += task.user
        scheduler.finish(task, at=second + 1)
    return users[join:]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"half_life": 1000},
        {"usage": Usage(1000.0)},
        {"usage": VTC(cost={"resource1": 1})},
        {"usage": Usage(30, cost={"resource1": 7})},
        {"usage": Karma()},
        {"usage": KAI()},
    ],
)
def test_slots_alternate_from_the_moment_a_user_joins(options):
    assert slots(50, 60, **options) == "BA" * 30


@pytest.mark.parametrize(
    "usage", [Usage(1000.0, lift=False), VTC(cost={"resource1": 1}, lift=False), Slurm(sampling=1), Kueue(sampling=1)]
)
def test_without_lift_a_newcomer_has_as_many_slots_as_it_missed(usage):
    assert slots(50, 60, usage=usage).index("A") in (49, 50, 51)


def test_a_user_who_submits_one_task_at_a_time_is_no_prey_of_one_with_a_backlog():
    scheduler, users = fo.Scheduler([1], usage=Usage(1000.0)), ""
    for second in range(100):
        if second == 50:
            scheduler.submit("B", [1], tasks=100, at=second)
        if scheduler.waiting.get("A", 0) == 0:
            scheduler.submit("A", [1], at=second)
        task = scheduler.next_task(at=second)
        users += task.user
        scheduler.finish(task, at=second + 1)
    assert users[50:] == "BA" * 25


def test_ties_of_users_who_run_as_much_go_to_whoever_was_served_least_recently():
    scheduler = fo.Scheduler([3])
    for user in "AB":
        scheduler.submit(user, [1], tasks=100)
    running = [scheduler.next_task() for _ in range(3)]
    third = [running[2].user]
    for _ in range(5):  # the third slot, while both hold one
        scheduler.finish(running.pop())
        running.append(scheduler.next_task())
        third.append(running[-1].user)
    assert "".join(third) == "ABABAB"


def gap(jobs, usage, slots=1):
    capacities = TOKENS | {"slot": slots}
    return fo.online.service_gap(fo.simulate(capacities, jobs, scheduler=fo.Scheduler(capacities, usage=usage)), COST)


@pytest.mark.parametrize("seed", range(24))
def test_users_who_wait_differ_by_at_most_two_tasks_under_virtual_token_counters(seed):
    largest, bound = gap(requests(seed), VTC(cost=COST), slots=1 + seed % 4)
    assert 0 <= largest <= bound


@pytest.mark.parametrize("seed", [*range(8), 37, 122, 132, 148])  # in the last four sums of thirds tie
def test_virtual_token_counters_serve_as_the_algorithm_in_fractions(seed):
    jobs, scheduler = requests(seed), fo.Scheduler(TOKENS, usage=VTC(cost=COST))
    assert fo.simulate(TOKENS, jobs, scheduler=scheduler).task_job.tolist() == counters.served(jobs, COST)


def test_counters_without_lift_and_of_requests_break_the_bound():
    for usage in (VTC(cost=COST, lift=False), VTC(cost=SLOT)):
        assert any(largest > bound for largest, bound in (gap(requests(seed), usage) for seed in range(60)))


def test_the_gap_is_that_of_all_intervals_in_which_two_users_wait():
    jobs = requests(5, clients=(3, 3))
    run = fo.simulate(TOKENS, jobs, scheduler=fo.Scheduler(TOKENS, usage=VTC(cost=COST, lift=False)))
    frame = [(job.user, job.arrival, job.tasks) for job in run.jobs]
    users = sorted({user for user, *_ in frame})
    starts = []  # the user, its service per weight, and who waits
    for start, k in zip(run.start.tolist(), run.task_job.tolist(), strict=True):
        job, begun = run.jobs[k], Counter(user for user, *_ in starts)
        came = {user: sum(tasks for who, at, tasks in frame if who == user and at <= start) for user in users}
        units = dict(job.demands)
        service = (units["prefill"] + 2 * units["decode"]) / job.weight
        starts.append((job.user, service, {user for user in users if came[user] > begun[user]}))
    largest = 0.0
    for f, g in permutations(users, 2):
        for first in range(len(starts)):
            served = 0.0
            for user, service, waiting in starts[first:]:
                if not {f, g} <= waiting:
                    break
                served += service * ((user == f) - (user == g))
                largest = max(largest, abs(served))
    assert fo.online.service_gap(run, COST)[0] == pytest.approx(largest)


def test_where_tasks_that_fit_pass_the_first_user_no_bound_holds():
    jobs = [fo.Job("small", {"slot": 1}, 1), fo.Job("small", {"slot": 1}, 2, tasks=60)]  # never both end at once
    jobs.append(fo.Job("large", {"slot": 2}, 1, tasks=5, arrival=1))
    capacities = {"slot": 2}
    waits = {}
    for on_misfit in ("skip", "stop"):
        scheduler = fo.Scheduler(capacities, usage=VTC(cost=SLOT), on_misfit=on_misfit)
        waits[on_misfit] = fo.online.longest_wait(fo.simulate(capacities, jobs, scheduler=scheduler), newcomers=True)[
            "large"
        ]
    assert waits["skip"] > 50 and waits["stop"] <= 1


PROMISES = ("bounded-difference", "no-starvation", "newcomers", "splitting")
PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
ROWS = PAGE.read_text().partition("| rule | bounded difference")[2].partition("\n\n")[0].splitlines()[2:]
TABLE = [row.strip("| ").split(" | ") for row in ROWS]


def jobs_of(text):
    found = re.findall(r"(\w) (\d+)(?:x\((\d)\+(\d)\))?@(\d+)", text)
    assert len(found) == text.count("@")
    return [
        fo.Job(
            user, {"slot": 1} | ({"prefill": int(p), "decode": int(d)} if p else {}), 1, tasks=int(n), arrival=int(at)
        )
        for user, n, p, d, at in found
    ]


@pytest.mark.parametrize("cells", TABLE, ids=[cells[0] for cells in TABLE])
def test_promises_are_kept_or_broken_as_the_page_says(cells):
    short = {"half_life": 20, "sampling": 1}
    names = {kind.__name__: kind for kind in (Usage, VTC, Slurm, HTCondor, Kueue, KAI, Karma)}
    names |= {"default": None, "SLOT": SLOT, "COST": COST, "SHORT": short}
    usage = eval(cells[0].strip("`"), names)
    cost = COST if isinstance(usage, VTC) else SLOT
    for k, cell in enumerate(cells[1:]):
        options = {"cost": cost, "capacities": {"slot": (1, 3)[k % 2]}}
        promise = PROMISES[k // 2]
        if cell == "kept":
            assert try_promise(promise, usage, tries=25, seed=k + 1, **options) is None
            continue
        jobs = jobs_of(cell)
        broken = try_promise(promise, usage, traces=[jobs], **options)
        assert broken.jobs == tuple(jobs)  # nothing smaller breaks it


def test_newcomers_wait_for_newcomers_and_a_second_name_is_worth_a_slot_under_every_rule():
    assert len(TABLE) == 12
    jobs = [fo.Job("A", {"slot": 1}, 1, tasks=2), fo.Job("B", {"slot": 1}, 1)]
    for usage in (None, Usage(20.0), Slurm(sampling=1), Kueue(sampling=1), KAI(sampling=1), Karma(sampling=1)):
        assert try_promise("newcomers", usage, tries=30) is None
        broken = try_promise("splitting", usage, traces=[jobs], capacities={"slot": 1})
        assert broken.sentence == "A has started 2 tasks by time 1 under two names, 1 under one"


def test_a_newcomer_who_waits_for_others_is_seen():
    assert try_promise("newcomers", traces=[[]]) is None
    jobs = [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=2, arrival=5)]
    run = fo.simulate([1], jobs, scheduler=fo.Scheduler([1], order="arrival"))
    assert of_old_users(run) == {"A": 0, "B": 4}


def test_a_broken_promise_is_a_file_that_breaks_it_again(tmp_path):
    usage = VTC(cost=COST, lift=False)
    broken = try_promise("bounded-difference", usage, tries=4)
    assert str(broken).startswith(broken.sentence + "; A: 1 task of ")
    with pytest.raises(fo.errors.InvalidBlock, match=r"give a name that ends in \.csv"):
        broken.to_csv(tmp_path / "trace.json")
    jobs = fo.online.read_jobs(broken.to_csv(tmp_path / "trace.csv"), fo.Instance([], broken.capacities))
    again = try_promise("bounded-difference", usage, traces=[jobs.jobs], capacities=broken.capacities)
    assert again.sentence == broken.sentence
    server = {"slot": 4}
    gangs = [fo.Job(user, {"slot": 1}, 1, tasks=tasks, gang=True) for user, tasks in (("A", 4), ("B", 2))]
    broken = try_promise("no-starvation", traces=[gangs], capacities=server)
    jobs = fo.online.read_jobs(broken.to_csv(tmp_path / "gangs.csv"), fo.Instance([], server))
    assert [(job.tasks, job.gang) for job in jobs.jobs] == [(3, True), (1, True)]
    many = [fo.Job(user, {"slot": 1}, 1, tasks=2, gang=True) for user in "ABAB"]
    broken = try_promise("splitting", traces=[many], capacities={"slot": 2})
    assert [(job.user, job.tasks) for job in broken.jobs] == [("A", 1), ("B", 2)]


def test_splitting_pays_unless_weights_are_split_too():
    jobs = [fo.Job(user, [1], 1) for user in "AB" * 30]
    counts = []
    for trace in (jobs, in_two(jobs, "A")):
        run = fo.simulate([1], trace, scheduler=fo.Scheduler([1], usage=VTC(cost={"resource1": 1})))
        counts.append(sum(jobs[k].user == "A" for k in run.task_job[:30]))
    assert counts == [15, 20]
    three = in_two([fo.Job("A", [1], 1, tasks=3), fo.Job("A", [1], 1, tasks=2)], "A")
    assert [(job.user, job.tasks) for job in three] == [("A 1", 2), ("A 2", 1), ("A 1", 1), ("A 2", 1)]


def test_one_decay_is_that_of_many_samples_with_constant_use():
    value = 3.0
    for _ in range(100):
        value = memory.decayed(value, 2.0, 5.0, 77.0)
    assert value == pytest.approx(memory.decayed(3.0, 2.0, 500.0, 77.0), rel=1e-12)


def test_the_karma_scheduler_earns_what_others_borrow():
    scheduler = fo.Scheduler([6], usage=Karma(sampling=10))
    scheduler.submit("A", [1], tasks=4, at=0)
    scheduler.submit("B", [1], at=0)
    scheduler.submit("C", [1], at=0)
    while scheduler.next_task(at=0):
        pass
    scheduler.submit("B", [6], at=10)
    # each is guaranteed 1/6 and earns 1/6; A borrows 3/6, all of it public
    assert scheduler.shares == pytest.approx({"A": 1 / 6 - 3 / 6, "B": 1 / 6, "C": 1 / 6})


def test_kueue_counts_an_admission_at_once_and_what_runs_at_samples():
    scheduler = fo.Scheduler({"cpu": 8}, usage=Kueue(half_life=600, sampling=300))
    scheduler.submit("q", {"cpu": 4}, at=0)
    task = scheduler.next_task(at=0)
    alpha = 1 - 0.5**0.5
    assert scheduler.shares["q"] == pytest.approx(4 * alpha)
    scheduler.finish(task, at=299)
    scheduler.submit("r", {"cpu": 1}, at=300)
    assert scheduler.shares["q"] == pytest.approx(4 * alpha * (1 - alpha))  # 299 s of running count nothing more


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Kueue(half_life=0), "Kueue: half_life is 0; give a finite time > 0"),
        (lambda: Usage(half_life=-1), "Usage: half_life is -1; give a finite time > 0"),
        (lambda: Usage(half_life=math.inf), "half_life is inf"),
        (lambda: Slurm(half_life=None), "Slurm: half_life is None; give a finite time > 0"),
        (lambda: VTC(cost=None), "VTC: cost is None; give a dict by resource"),
        (lambda: VTC(cost={"prefill": -1}), "the cost of 'prefill' is -1; give a finite number >= 0"),
        (lambda: Usage(cost=[1]), "give a dict by resource"),
        (lambda: Usage(lift="no"), "lift is 'no'"),
        (lambda: Kueue(sampling=0), "sampling is 0; give a finite time > 0"),
        (lambda: KAI(k=-1), "k is -1; give a finite number >= 0"),
        (lambda: Karma(alpha=2), "alpha is 2; give a number from 0 to 1"),
        (lambda: Karma(sampling=math.nan), "sampling is nan"),
        (lambda: memory.decayed(1, 1, -1, 5), "time never goes back"),
        (lambda: memory.decayed(1, 1, 1, 0), "half_life is 0"),
        (lambda: fo.Scheduler([1], usage=5), "usage is 5; give one such as"),
        (lambda: try_promise("no-starvations"), "promise is 'no-starvations'; did you mean 'no-starvation'"),
        (lambda: try_promise(["splitting"]), r"promise is \['splitting'\]"),
        (lambda: named_usage("decayed:half_life=5,lift=2"), "lift is 2.0; give True or False"),
        (lambda: try_promise("splitting", 5), "usage is 5; give one such as"),
        (lambda: try_promise("splitting", traces=[fo.Job("A", [1], 1)]), "traces holds a job; give a list of lists"),
        (lambda: try_promise("splitting", traces=[5]), "traces holds 5; give a list of lists of Job"),
        (lambda: try_promise("splitting", traces=5), "traces is 5; give a list of lists of Job"),
        (lambda: try_promise("splitting", capacities=[1]), "give a dict by resource, such as {'slot': 3}"),
        (lambda: try_promise("splitting", cost={"slot": -1}), "the cost of 'slot' is -1; give a finite number >= 0"),
        (lambda: named_usage("decayed"), "'decayed' remembers nothing; write decayed:half_life=3600, say"),
        (lambda: try_promise("splitting", tries=0), "tries is 0; give a whole number, 1 or more"),
        (lambda: try_promise("splitting", seed=-1), "seed is -1; give a whole number, 0 or more"),
        (lambda: fo.Scheduler([1], usage=Usage(5), half_life=5), "leave one of the two out"),
        (lambda: fo.Scheduler([1], usage=Usage(5), order="arrival"), "leave half_life and usage out"),
    ],
)
def test_wrong_numbers_are_named(made, message):
    with pytest.raises(fo.errors.InvalidBlock, match=message):
        made()


def test_short_names_say_whether_users_are_lifted():
    assert named_usage("decayed:half_life=60,lift=0") == Usage(60, lift=False)
    assert named_usage("decayed:half_life=60,lift=1") == named_usage("decayed:half_life=60") == Usage(60)


def test_a_cost_of_an_unknown_resource_and_a_time_that_goes_back_are_named():
    with pytest.raises(fo.errors.InvalidInstance, match="usage has a cost of 'cpus'; did you mean 'cpu'"):
        fo.Scheduler({"cpu": 1}, usage=Usage(cost={"cpus": 1}))
    scheduler = fo.Scheduler({"cpu": 1}, usage=HTCondor())
    with pytest.raises(fo.errors.InvalidInstance, match="usage needs the time of every call"):
        scheduler.submit("A", [1])
    scheduler.submit("A", [1], at=5)
    with pytest.raises(fo.errors.InvalidInstance, match="at is 4 after 5"):
        scheduler.next_task(at=4)


@pytest.mark.parametrize("usage", [Usage(9), VTC(), Slurm(), HTCondor(), Kueue(), KAI(k=2), Karma(alpha=0.2)])
def test_a_usage_is_a_block(usage):
    names = {kind.__name__: kind for kind in (Usage, VTC, Slurm, HTCondor, Kueue, KAI, Karma)}
    assert eval(repr(usage), names) == usage and hash(usage) == hash(eval(repr(usage), names))


@pytest.mark.parametrize("usage", [KAI(half_life=20, sampling=3), Karma(sampling=4), Slurm(half_life=30, sampling=2)])
def test_samples_do_not_depend_on_calls_in_between(usage):
    """One call after many samples, and many calls, order users alike."""
    orders = []
    for every in (1, 7):
        scheduler, order = fo.Scheduler([4], usage=usage), ""
        for user in "ABC":
            scheduler.submit(user, [1], tasks=50, at=0)
        tasks = [scheduler.next_task(at=0) for _ in range(4)]
        for second in range(1, 70):
            if second % every == 0:
                scheduler.next_task(at=second)
            if second % 7 == 0:
                scheduler.finish(tasks.pop(0), at=second)
                tasks.append(scheduler.next_task(at=second))
                order += tasks[-1].user
        orders.append(order)
    assert orders[0] == orders[1] and set(orders[0]) == set("ABC")
