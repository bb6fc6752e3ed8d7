"""Timelines: functions of time, measures, frames, files."""

import json
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairopt as fo
from fairopt.online import timeline as of_timelines

CLUSTER = fo.Instance(
    [],
    [[4, 8], [2, 8]],
    resources=["cpu", "memory"],
    servers=["s1", "s2"],
    server_types=["large", "small"],
    units={"memory": "GiB"},
)
JOBS = [
    fo.Job("web", {"cpu": 2}, Fraction(1, 3), tasks=4, arrival=1, weight=2),
    fo.Job("batch", [1, 3], 2.5, tasks=5, eligible=["large"]),
    fo.Job("web", [1, 1], 0.1, arrival=6, weight=2, eligible=[False, True]),
]


@pytest.fixture(scope="module")
def run():
    return fo.simulate(CLUSTER, JOBS, fair_at=[0, 1, 6.05])


@st.composite
def timelines(draw):
    """Random jobs with durations and arrivals that floats round."""
    jobs = [
        fo.Job(
            draw(st.sampled_from("abc")),
            draw(st.sampled_from([(1.0, 0.3), (0.1, 2.0), (0.7, 0.7)])),
            draw(st.floats(0.1, 3)),
            tasks=draw(st.integers(1, 6)),
            arrival=draw(st.floats(-1, 4)),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]
    return fo.simulate([[2, 2], [1, 3]], jobs, fo.PNormShare(1))


@settings(max_examples=8, deadline=None)
@given(timelines(), st.lists(st.floats(-2, 30), max_size=5), st.sampled_from([1, 4_000_000]))
def test_functions_of_time_are_sums_over_the_tasks_that_run(made, moments, most):
    moments = np.array([*moments, *made.start[:4], *made.end[-4:]])
    per_task = fo.PNormShare(1).per_task(fo.Instance([job.demands for job in made.jobs], made.capacities))
    shares, held = np.zeros((len(moments), len(made.users))), np.zeros((len(moments), len(made.users), 2))
    for k, begun, ended in zip(made.task_job, made.start, made.end, strict=True):
        on, j = (begun <= moments) & (moments < ended), made.users.index(made.jobs[k].user)
        shares[on, j] += per_task[k]
        held[on, j] += made.jobs[k].demands
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_timelines, "MAX_CELLS", most)  # all kinds of jobs at once, and one at a time
        np.testing.assert_allclose(made.shares(moments), shares, rtol=1e-12)
        np.testing.assert_allclose(made.held(moments), held, rtol=1e-12)
        np.testing.assert_allclose(made.utilisation(moments), held.sum(axis=1) / [3, 5], rtol=1e-12)
    assert (made.shares([made.span[1]]) == 0).all()  # exactly


def test_measures_follow_their_definitions(run):
    arrival = np.array([1, 0, 6])
    np.testing.assert_allclose(run.waiting, run.start - arrival[run.task_job])
    last = np.array([run.end[run.task_job == k].max() for k in range(3)])
    np.testing.assert_allclose(run.completion, last - arrival)
    np.testing.assert_allclose(run.slowdown, (last - arrival) / [1 / 3, 2.5, 0.1])
    begun, ended = run.span
    assert (begun, ended) == (0, run.end.max())
    used = np.zeros((2, 2))
    for k, s, length in zip(run.task_job, run.task_server, run.end - run.start, strict=True):
        used[s] += np.array([[2, 0], [1, 3], [1, 1]][k]) * length
    np.testing.assert_allclose(run.mean_utilisation(), used / [[4, 8], [2, 8]] / (ended - begun))
    found = run.summary()
    assert (found["tasks"], found["unstarted"], found["jobs"], found["makespan"]) == (10, 0, 3, ended - begun)
    assert found["waiting"]["median"] == np.median(run.waiting) and found["slowdown"]["mean"] == run.slowdown.mean()
    assert found["waiting"]["p95"] == np.percentile(run.waiting, 95)
    np.testing.assert_allclose([*found["utilisation"].values()], used.sum(axis=0) / [6, 16] / (ended - begun))
    assert found["distance"] == {"mean": run.distance().mean(), "largest": run.distance().max()}


def test_data_of_the_servers_are_at_hand(run):
    assert run.users == ("web", "batch") and run.jobs == tuple(JOBS) and run.resources == ("cpu", "memory")
    assert run.servers == ("s1", "s2") and run.server_types == ("large", "small") and run.units == ("", "GiB")
    np.testing.assert_array_equal(run.capacities, CLUSTER.capacities)


def test_utilisation_of_a_capacity_of_zero_is_nan():
    made = fo.simulate([[4, 0], [4, 0]], [fo.Job("a", [1, 0], 2)])
    np.testing.assert_array_equal(made.utilisation([0]), [[1 / 8, np.nan]])
    assert np.isnan(made.summary()["utilisation"]["resource2"])


def test_frames_have_a_row_for_each_task_job_user_server_and_moment(run):
    pytest.importorskip("pandas")
    tasks = run.to_frame()
    assert [*tasks.columns] == ["job", "user", "server", "arrival", "start", "end", "waiting"] and len(tasks) == 10
    assert (tasks["user"] == [JOBS[k].user for k in run.task_job]).all() and tasks.index.name == "task"
    jobs = run.to_frame("job")
    for k, rows in tasks.groupby("job"):
        row = jobs.loc[k]
        assert (row["first start"], row["last end"]) == (rows["start"].min(), rows["end"].max())
        assert (
            row["mean waiting"] == pytest.approx(rows["waiting"].mean())
            and row["longest waiting"] == rows["waiting"].max()
        )
        assert row["completion"] == rows["end"].max() - JOBS[k].arrival
    users = run.to_frame("user")
    assert users.loc["web", "mean completion"] == pytest.approx(jobs.loc[[0, 2], "completion"].mean())
    assert users.loc["batch", "task time"] == pytest.approx(5 * 2.5) and users["tasks"].tolist() == [5, 5]
    grid = np.linspace(*run.span, 20001)
    np.testing.assert_allclose(users["mean share"], run.shares((grid[1:] + grid[:-1]) / 2).mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(users["mean shortfall"], run.shortfalls().mean(axis=0))
    servers = run.to_frame("server")
    np.testing.assert_array_equal(servers[["used cpu", "used memory"]], run.mean_utilisation())
    assert servers["type"].tolist() == ["large", "small"] and servers["tasks"].sum() == 10
    times = run.to_frame("time")
    assert set(times.index) == {*run.start, *run.end, 0, 1, 6, 6.05}
    for t, row in times.iterrows():
        assert row["running"] == ((run.start <= t) & (t < run.end)).sum()
        assert row["waiting"] == sum(job.tasks for job in JOBS if job.arrival <= t) - (run.start <= t).sum()
    np.testing.assert_array_equal(times.loc[[0, 1, 6.05], "distance"], run.distance())
    assert times["distance"].isna().sum() == len(times) - 3
    np.testing.assert_array_equal(run.to_frame("time", [2, 1]).loc[1, "share of web"], run.shares([1])[0, 0])


def test_frames_that_are_not_there_are_errors(run, monkeypatch):
    with pytest.raises(fo.errors.InvalidBlock, match="no table by 'users'; did you mean 'user'"):
        run.to_frame("users")
    with pytest.raises(fo.errors.InvalidBlock, match="times belong to the table by 'time'"):
        run.to_frame("user", [1])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fo.errors.MissingExtra, match=r"pip install 'fairopt\[parquet\]'"):
        run.to_frame()


def test_moments_that_are_not_numbers_are_errors(run):
    for ask in (run.shares, run.held, run.utilisation, run.with_fair_at):
        with pytest.raises(fo.errors.InvalidInstance, match=r"\[1\] is nan; give finite numbers"):
            ask([0, float("nan")])


def assert_same(one, other):
    for name in ("task_job", "task_server", "start", "end", "share_per_task", "fair_at", "fair_shares", "capacities"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in (
        "users",
        "servers",
        "server_types",
        "resources",
        "units",
        "share",
        "name",
        "until",
        "interrupted",
        "fair_errors",
    ):
        assert getattr(one, name) == getattr(other, name), name


def test_a_saved_timeline_is_the_same_when_loaded(run, tmp_path):
    loaded = fo.online.Timeline.load(run.save(tmp_path / "run.json"))
    assert_same(run, loaded)
    assert loaded.jobs == tuple(JOBS)
    np.testing.assert_array_equal(loaded.shares([0, 1, 3]), run.shares([0, 1, 3]))
    assert_same(fo.simulate([4], []), fo.online.Timeline.load(fo.simulate([4], []).save(tmp_path / "none.json")))


def test_moments_that_differ_by_rounding_stay_apart_when_loaded(tmp_path):
    jobs = [fo.Job(f"u{k}", [1], 1 + k / 7, tasks=12) for k in range(7)]  # 2 * (1 + 5/7) and 24/7
    made = fo.simulate([3], jobs)
    assert (np.diff(np.unique(made.end)) < 1e-12).any()
    assert_same(made, fo.online.Timeline.load(made.save(tmp_path / "run.json")))


def test_exact_moments_that_are_one_as_floats_are_one_when_loaded(tmp_path):
    jobs = [fo.Job("a", [1], Fraction(1, 3)), fo.Job("b", [1], 1 / 3), fo.Job("c", [2], 1, arrival=Fraction(1, 9))]
    made = fo.simulate([2], jobs)  # a third is more than the float next to it
    assert made.start.tolist() == [0, 0, 1 / 3]
    more = fo.simulate([2], [*jobs, fo.Job("d", [1], 1, arrival=Fraction(1, 4))])
    for one in (made, more):
        assert_same(one, fo.online.Timeline.load(one.save(tmp_path / "run.json")))


def test_an_interrupted_timeline_is_the_same_when_loaded(tmp_path):
    def stop(what, done, total):
        raise KeyboardInterrupt

    with fo.progress(stop):
        part = fo.simulate([3], [fo.Job("a", [1], 1, tasks=1500)], fair_at=[5, 900])
    assert part.interrupted and np.isnan(part.fair_shares[1]).all()
    assert_same(part, fo.online.Timeline.load(part.save(tmp_path / "part.json")))


@dataclass(frozen=True, repr=False)
class Own(fo.Share):
    def per_task(self, instance):
        return instance.ratios.sum(axis=-1) ** 2

    def __repr__(self):
        return "__import__('os').abort()"


def test_a_share_of_ones_own_is_loaded_as_text_and_not_executed(tmp_path):
    made = fo.simulate([4, 4], [fo.Job("a", [1, 2], 1, tasks=3)], Own())
    loaded = fo.online.Timeline.load(made.save(tmp_path / "own.json"))
    assert loaded.share == "__import__('os').abort()" and loaded.shares([0]).tolist() == made.shares([0]).tolist()
    np.testing.assert_array_equal(loaded.with_fair_at([0]).fair_shares, made.with_fair_at([0]).fair_shares)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="fairopt.frontier/1"), "format is .*fairopt.timeline/1"),
        (lambda d: d.pop("end"), "end is missing"),
        (lambda d: d.update(more=1), "unknown key 'more'"),
        (lambda d: d["start"].__setitem__(1, "soon"), r"start\[1\] is \"soon\"; give a number"),
        (lambda d: d["end"].__setitem__(1, float("nan")), r"end\[1\] is NaN; give a finite number"),
        (lambda d: d["end"].__setitem__(1, d["start"][1] - 1), r"end\[1\] is -1, and .* follows from the jobs"),
        (lambda d: d["end"].pop(), "end has 9 entries, and 10 follow"),
        (lambda d: d["task_job"].pop(), "task_job, task_server and start differ in length"),
        (lambda d: d["task_server"].append(0), "task_job, task_server and start differ in length"),
        (lambda d: d["start"].__setitem__(4, 1.1), r"start\[4\] is 1.1, and 1.33333333333 follows"),
        (lambda d: d["start"].__setitem__(9, 99), "start has 10 entries, and 9 follow"),
        (lambda d: d["task_job"].__setitem__(0, 0), "gave a task of job 0, which was not submitted"),
        (lambda d: d["task_job"].__setitem__(9, 1), r"of job 1, all of whose tasks \(5\) have started"),
        (lambda d: d["task_server"].__setitem__(0, 1), "for server 's2', where job 1 may not run"),
        (lambda d: d["task_server"].__setitem__(0, 7), "for server '7'; known: s1, s2"),
        (lambda d: d["cluster"]["capacities"].__setitem__(0, [1.5, 8]), "which has {'cpu': 0.5"),
        (lambda d: d["cluster"].update(capacities=[[4, -8], [2, 8]]), r"cluster: capacities\[0\]\[1\] is -8"),
        (lambda d: d["jobs"][0].update(tasks=0), "tasks of a job of user 'web' is 0"),
        (lambda d: d["jobs"][0].update(duration=[5]), r"duration of a job of user 'web' is \[5\]"),
        (lambda d: d["jobs"][1].update(eligible=7), "eligible of a job is 7, and there are 2 places"),
        (lambda d: d["jobs"][1].update(eligible=[7]), r"jobs\[1\].eligible is a list; give a whole number"),
        (lambda d: d["jobs"][1].update(colour=7), r"unknown key 'jobs\[1\].colour'"),
        (
            lambda d: d["jobs"][0].update(duration="1/0"),
            r"jobs\[0\].duration is \"1/0\"; give a number, or a fraction as '1/3'",
        ),
        (lambda d: d["jobs"][0].update(duration="9**9"), r"jobs\[0\].duration is .*give a number"),
        (lambda d: d["share_per_task"].__setitem__(0, 0.9), r"share_per_task\[0\] is 0.9, and .* follows"),
        (lambda d: d["share_per_task"].pop(), "share_per_task has 2 entries, and 3 follow"),
        (lambda d: d.update(share="FDS"), None),
        (lambda d: d["fair_shares"].pop(), "fair_shares does not have a row for 2 users"),
        (lambda d: d["fair_shares"].__setitem__(0, [1.0]), "fair_shares does not have a row for 2 users"),
    ],
)
def test_a_file_that_was_changed_is_refused(run, tmp_path, change, message):
    path = run.save(tmp_path / "run.json")
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    if message is None:
        assert fo.online.Timeline.load(path).share == "FDS"
        return
    with pytest.raises(fo.errors.InvalidInstance, match=message) as error:
        fo.online.Timeline.load(path)
    assert str(path) in str(error.value)


def test_names_that_are_no_timelines_are_errors(run, tmp_path):
    with pytest.raises(fo.errors.InvalidInstance, match=r"give a name that ends in \.json"):
        run.save(tmp_path / "run.csv")
    with pytest.raises(FileNotFoundError, match=r"run\.json"):
        run.save(tmp_path / "nowhere" / "run.json")
    with pytest.raises(fo.errors.InvalidInstance, match=r"nothing\.json"):
        fo.online.Timeline.load(tmp_path / "nothing.json")
    (tmp_path / "text.json").write_text("[1, 2")
    with pytest.raises(fo.errors.InvalidInstance, match="does not start with"):
        fo.online.Timeline.load(tmp_path / "text.json")
