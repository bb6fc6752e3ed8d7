"""Jobs: checked when they are made."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

import fairopt as fo


def test_numbers_are_kept_exactly_and_demands_as_floats():
    job = fo.Job("a", np.array([1, 2]), Fraction(1, 3), tasks=np.int64(4), arrival=np.float32(0.5), weight=2)
    assert (job.demands, job.duration, job.tasks, job.arrival, job.weight) == ((1.0, 2.0), Fraction(1, 3), 4, 0.5, 2.0)
    assert type(job.tasks) is int and type(job.arrival) is float and job.eligible is None
    assert fo.Job("a", [1], 3).duration == 3 and type(fo.Job("a", [1], 3).duration) is int


def test_demands_by_resource_are_a_dict():
    pandas = pytest.importorskip("pandas")
    given = {"cpu": 1, "memory": 0}
    for demands in (given, pandas.Series(given)):
        assert fo.Job("a", demands, 1).demands == {"cpu": 1.0, "memory": 0.0}


def test_a_million_jobs_can_share_their_rows():
    row, places = (1.0, 2.0), ("s1", "s2")
    job = fo.Job("a", row, 1.0, eligible=places)
    assert job.demands is row and job.eligible is places and not hasattr(job, "__dict__")


def test_places_are_labels_or_a_mask():
    assert fo.Job("a", [1], 1, eligible=["s1"]).eligible == ("s1",)
    assert fo.Job("a", [1], 1, eligible=np.array([True, False])).eligible == (True, False)


def test_a_job_is_shown_as_it_can_be_pasted():
    for job in (fo.Job("a", [1], 1), fo.Job("a", [1], 1, gang=True, limit=Fraction(5, 2), team="x")):
        assert eval(repr(job), {"Job": fo.Job, "Fraction": Fraction}) == job
    assert repr(fo.Job("a", [1], 1)).endswith("eligible=None)")


def test_the_walltime_is_the_limit_or_else_the_duration():
    assert fo.Job("a", [1], Fraction(1, 3)).walltime == Fraction(1, 3) and fo.Job("a", [1], 1, limit=2).walltime == 2


def test_a_job_is_frozen_compares_and_can_be_pickled():
    job = fo.Job("a", [1, 2], 3, tasks=4)
    assert pickle.loads(pickle.dumps(job)) == job == fo.Job("a", (1.0, 2.0), 3, tasks=4) and len({job, job}) == 1
    with pytest.raises(AttributeError):
        job.tasks = 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(user=""), "user of a job is ''"),
        (dict(user=7), "user of a job is 7"),
        (dict(demands=[0, 0]), "user 'web' demands nothing"),
        (dict(demands=[]), "user 'web' demands nothing"),
        (dict(demands=[1, -2]), r"user 'web' are \[1, -2\]; give finite numbers >= 0"),
        (dict(demands=[1, float("nan")]), "user 'web' are .*nan.*give finite numbers"),
        (dict(demands=(float("inf"),)), "user 'web' are .*inf.*give finite numbers"),
        (dict(demands=[[1, 2]]), "user 'web' are .*one number by resource"),
        (dict(demands=3), "user 'web' are 3; give one number by resource"),
        (dict(demands=["one"]), "user 'web' cannot be read as numbers"),
        (dict(demands={"cpu": "one"}), "user 'web' cannot be read as numbers"),
        (dict(demands={"cpu": -1}), "user 'web' are {'cpu': -1}"),
        (dict(duration=0), "duration of a job of user 'web' is 0; give a finite number > 0"),
        (dict(duration=-1.5), "duration of a job of user 'web' is -1.5"),
        (dict(duration=float("nan")), "duration of a job of user 'web' is nan"),
        (dict(duration="5"), "duration of a job of user 'web' is '5'"),
        (dict(duration=10**400), "duration of a job of user 'web' is 1000"),
        (dict(tasks=0), "tasks of a job of user 'web' is 0"),
        (dict(tasks=2.5), "tasks of a job of user 'web' is 2.5; give a whole number >= 1"),
        (dict(tasks=10**19), "tasks of a job of user 'web' is 10000000000000000000; give a whole number >= 1"),
        (dict(tasks=True), "tasks of a job of user 'web' is True"),
        (dict(tasks=float("inf")), "tasks of a job of user 'web' is inf"),
        (dict(arrival=float("inf")), "arrival of a job of user 'web' is inf"),
        (dict(arrival=None), "arrival of a job of user 'web' is None"),
        (dict(weight=0), "weight of a job of user 'web' is 0; give a finite number > 0"),
        (dict(eligible="s1"), "eligible of user 'web' is 's1'; give a list"),
        (dict(eligible=[]), "eligible of user 'web'"),
        (dict(eligible=[1, 0]), "eligible of user 'web'"),
        (dict(eligible=5), "eligible of user 'web' is 5"),
        (dict(gang="yes"), "gang of a job of user 'web' is 'yes'; give True or False"),
        (dict(limit=0), "limit of a job of user 'web' is 0; give a finite number > 0"),
        (
            dict(duration=10, limit=9),
            "limit of a job of user 'web' is 9, below its duration 10: its tasks would be ended first; give a limit of",
        ),
        (dict(team=""), "team of a job of user 'web' is ''; give a label"),
    ],
)
def test_wrong_values_name_the_user_the_value_and_the_fix(changes, message):
    with pytest.raises(fo.errors.InvalidInstance, match=message):
        fo.Job(**{"user": "web", "demands": [1, 2], "duration": 1, **changes})


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (["a"], r"jobs\[0\] is 'a'"),
        (None, "jobs is None; give a list"),
        (fo.Job("a", [1], 1), r"jobs is Job\(user='a'.*give a list"),
        ([fo.Job("a", [1], 1, weight=2), fo.Job("a", [1], 1)], "user 'a' has jobs of weights 2 and 1"),
        (
            [fo.Job("a", [1], 1, team="x"), fo.Job("a", [1], 1)],
            "user 'a' has jobs of teams 'x' and None; give all its jobs the same team",
        ),
        ([fo.Job("a", [1, 2], 1)], r"user 'a' are \(1.0, 2.0\); give 1 numbers, one by resource"),
        ([fo.Job("a", {"cpu": 1}, 1)], "user 'a' demands 'cpu'"),
        (
            [fo.Job("a", [9], 1, arrival=50), fo.Job("a", [1], 1)],
            "task of user 'a' needs 9 .*no server has more than 4",
        ),
        ([fo.Job("a", [3], 1, eligible=["s2"])], "task of user 'a' needs 3 .*where it may run has more than 2"),
        ([fo.Job("a", [1], 1, eligible=["s3"])], "user 'a' names 's3'"),
        ([fo.Job("a", [1], 1, eligible=[True])], r"user 'a' has shape \(1,\)"),
        ([fo.Job("a", [1], 1, eligible=[False, False])], "user 'a' has no server"),
        ([fo.Job("a", [1], 1e308, tasks=10)], "add up to more than floats hold"),
    ],
)
def test_jobs_that_do_not_belong_to_the_servers_are_named_before_anything_runs(jobs, message):
    cluster = fo.Instance([], [[4], [2]], servers=["s1", "s2"])

    class Untouched:
        def submit(self, *job):
            raise AssertionError("asked")

        next_task = finish = submit

    with pytest.raises(fo.errors.InvalidInstance, match=message):
        fo.simulate(cluster, jobs, scheduler=Untouched())


def test_a_share_that_is_not_defined_for_a_job_is_an_error_before_anything_runs():
    with pytest.raises(fo.errors.OutOfDomain, match="user 'b' has a zero"):
        fo.simulate([4, 4], [fo.Job("a", [1, 1], 1), fo.Job("b", [1, 0], 1, arrival=9)], fo.KDominantShare(2))
