"""Waiting and bounded slowdown by team and user, and units of time."""

from fractions import Fraction

import numpy as np
import pytest

import fairopt as fo
from fairopt.online.units import readable

JOBS = [
    fo.Job("ann", [2], 10, tasks=3, team="x"),
    fo.Job("bob", [2], 2, tasks=1, arrival=1, team="x"),
    fo.Job("cid", [4], 40, arrival=2, team="y"),
    fo.Job("dan", [1], 1, arrival=60),
]


@pytest.fixture(scope="module")
def run():
    return fo.simulate([4], JOBS, scheduler=fo.Scheduler([4], order="arrival", on_misfit="stop"), time_unit="min")


def test_numbers_are_those_of_the_tasks_of_each_team(run):
    # ann starts at 0, 0 and 10, bob at 10, cid at 20 when ann ends, dan at 60
    assert run.start.tolist() == [0, 0, 10, 10, 20, 60]
    found = run.waits("team", threshold=5)
    assert list(found) == ["x", "y", "(no team)"] and found["x"]["tasks"] == 4 and found["x"]["jobs"] == 2
    assert found["x"]["waiting"] == {"mean": 19 / 4, "p95": pytest.approx(9.85), "max": 10}
    assert found["x"]["bounded_slowdown"]["max"] == max(20 / 10, 11 / 5)  # of bob, whose 2 count as 5
    assert found["y"]["waiting"]["mean"] == 18 and found["y"]["bounded_slowdown"]["mean"] == 58 / 40
    assert found["(no team)"]["bounded_slowdown"]["max"] == 1
    assert run.waits("user", 0)["bob"]["bounded_slowdown"]["mean"] == 11 / 2 == run.slowdown[1]


def test_the_summary_names_the_team_that_waits_longest(run):
    worst = run.summary()["worst"]
    assert worst["team"] == "y" and worst["waiting"]["max"] == 18
    alone = fo.simulate([4], [fo.Job("a", [4], 5), fo.Job("b", [4], 5)])
    assert alone.summary()["worst"]["user"] == "b" and alone.teams == ()
    assert fo.simulate([4], []).summary()["worst"] is None


def test_tables_by_team_and_user_agree_with_the_dicts(run):
    pytest.importorskip("pandas")
    table = run.to_frame("team")
    assert table.loc["y", "longest waiting"] == 18 and table.index.tolist() == ["x", "y", "(no team)"]
    assert run.to_frame("user").loc["bob", "p95 waiting"] == 9


def test_jobs_that_never_end_have_no_slowdown_and_are_counted():
    class Nothing:
        def submit(self, user, demands, tasks):
            return user

        def next_task(self):
            return None

        def finish(self, task):
            pass

    found = fo.simulate([4], [fo.Job("a", [1], 1, tasks=3)], scheduler=Nothing()).waits("user")["a"]
    assert (found["tasks"], found["unstarted"], found["jobs"]) == (0, 3, 0) and np.isnan(found["waiting"]["mean"])


def test_times_are_shown_in_the_largest_unit_of_which_there_are_three():
    assert readable("s", 179) == (1, "s") and readable("s", 180) == (60, "min")
    assert readable("min", 3 * 1440) == (1440, "d") and readable("h", 1) == (1, "h")


def test_a_saved_run_keeps_gangs_limits_teams_and_the_unit(tmp_path):
    jobs = [*JOBS, fo.Job("eve", [1], 5, tasks=3, gang=True, limit=Fraction(11, 2), team="y")]
    run = fo.simulate([4], jobs, scheduler=fo.online.BackfillScheduler([4]), time_unit="h")
    again = fo.online.Timeline.load(run.save(tmp_path / "run.json"))
    assert again.jobs == run.jobs and again.time_unit == "h" and again.waits() == run.waits() and again.name == "EASY"


def test_wrong_options_are_refused(run):
    with pytest.raises(fo.errors.InvalidBlock, match="by is 'teams'; did you mean 'team'"):
        run.waits("teams")
    with pytest.raises(fo.errors.InvalidBlock, match="threshold is -1; give a finite number >= 0"):
        run.bounded_slowdown(-1)
    with pytest.raises(fo.errors.InvalidInstance, match="time_unit is 'hours'"):
        fo.simulate([4], [], time_unit="hours")


@pytest.mark.parametrize(("kind", "labels"), [("utilisation", "time (hours)"), ("waiting", "waiting time (minutes)")])
def test_axes_have_round_ticks_in_readable_units(kind, labels):
    pytest.importorskip("matplotlib")
    jobs = [fo.Job("a", [4], 1200, arrival=900 * k) for k in range(20)]
    ax = fo.simulate([4], jobs, time_unit="s").plot(kind)
    assert ax.get_xlabel() == labels
    ax.figure.canvas.draw()
    ticks = [float(text.get_text()) for text in ax.get_xticklabels()]
    assert len(ticks) >= 3 and all(tick == round(tick) for tick in ticks)


def test_logarithmic_axes_name_the_unit_at_each_tick():
    pytest.importorskip("matplotlib")
    jobs = [fo.Job("a", [1], 2, tasks=40), fo.Job("b", [4], 90000), fo.Job("c", [1], 10)]
    ax = fo.simulate([4], jobs, scheduler=fo.Scheduler([4], order="arrival"), time_unit="s").plot("waiting")
    ax.figure.canvas.draw()
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "waiting time"
    assert {"10 s", "1 h"} <= {text.get_text() for text in ax.get_xticklabels()}


def test_a_team_named_as_the_row_of_users_without_one_shares_it():
    run = fo.simulate([1], [fo.Job("ann", [1], 5, team="(no team)"), fo.Job("bob", [1], 5)])
    assert {name: of["tasks"] for name, of in run.waits("team").items()} == {"(no team)": 2}
    assert run.summary()["worst"]["waiting"]["max"] == 5


def test_a_gang_counts_once_where_waiting_is_averaged_and_rows_have_what_files_call_jobs():
    """A gang of 3 waits 10, a job of one task not at all: 5 on average, and not 7.5."""
    jobs = [fo.Job("a", [4], 10, team="x"), fo.Job("b", [1], 5, tasks=3, gang=True, team="y", labels={"JobID": "7"})]
    run = fo.simulate([4], jobs)
    assert run.summary()["waiting"]["mean"] == 5 and run.waits("team")["y"]["tasks"] == 3
    assert (
        run.waits("user")["b"]["waiting"] == {"mean": 10, "p95": 10, "max": 10}
        and run.summary()["worst"]["team"] == "y"
    )
    assert run.waiting.tolist() == [0, 10, 10, 10]
    apart = [jobs[0], fo.Job("b", [1], 5, tasks=3)]
    assert fo.simulate([4], apart).summary()["waiting"]["mean"] == 7.5
    table = run.to_frame("task")
    assert table["JobID"].tolist() == ["", "7", "7", "7"] and table["team"].tolist() == ["x", "y", "y", "y"]
    assert run.to_frame("job")["team"].tolist() == ["x", "y"]
    assert "JobID" not in fo.simulate([4], apart).to_frame("task")
