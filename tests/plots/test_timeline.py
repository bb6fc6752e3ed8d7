"""Pictures of timelines: what they show, and that their words can be read."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pictures import legible

import fairopt as fo
from fairopt.errors import InvalidBlock, InvalidInstance, MissingExtra

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")

from fairopt.plots.timeline import TIMELINE_KINDS, draw_timelines

CLUSTER = fo.Instance([], [[8, 64], [16, 128]], resources=["cpu", "memory"], units={"cpu": "cores", "memory": "GiB"})
JOBS = [fo.Job("batch", [2.5, 3], 30, tasks=30), fo.Job("$web_1$", [1, 15], 20, tasks=12, arrival=10, weight=2)]
FAIR_AT = [95.0, 5.0, 15.0]  # in no order


def run_of(order: str = "share", **options: Any) -> fo.online.Timeline:
    scheduler = fo.Scheduler(CLUSTER, order=order, **options)
    return fo.simulate(CLUSTER, JOBS, scheduler=scheduler, fair_at=FAIR_AT, name=order)


@pytest.fixture(scope="module")
def run() -> fo.online.Timeline:
    return run_of()


@pytest.fixture(scope="module")
def crowd() -> fo.online.Timeline:
    """Users of long names."""
    rng = np.random.default_rng(0)
    jobs = [
        fo.Job(
            f"a user whose name is rather long, number {k}",
            rng.uniform(0.1, 3, 2),
            float(rng.lognormal(5, 2)),
            tasks=int(rng.integers(1, 20)),
            arrival=float(rng.uniform(0, 1e5)),
        )
        for k in range(60)
    ]
    return fo.simulate({"cpu": 4, "memory of the graphics card": 4}, jobs, fair_at=[1e4, 5e4])


def panels_of(drawn: Any) -> list[Any]:
    return drawn if isinstance(drawn, list) else [drawn]


@pytest.mark.parametrize("kind", TIMELINE_KINDS)
def test_words_can_be_read(kind: str, run: fo.online.Timeline, crowd: fo.online.Timeline) -> None:
    one = fo.simulate([1], [fo.Job("a", [1], 1)], fair_at=[0])
    several = {"share": run, "arrival": run_of("arrival"), "a name of a policy that is longer than its panel": run}
    drawn = [timeline.plot(kind) for timeline in (run, crowd, one)]
    drawn.append(draw_timelines(several if kind != "shares" else {**several, "fourth": run}, kind))
    assert all(legible(panels_of(d)[0].figure) for d in drawn)


def test_an_allocation_has_a_panel_by_resource_that_stacks_what_users_hold(run: fo.online.Timeline) -> None:
    panels = run.plot("allocation").axes
    assert [ax.get_ylabel() for ax in panels] == ["cpu (%)", "memory (%)"]
    for i, ax in enumerate(panels):
        tops = np.zeros(2)
        for j, stack in enumerate(ax.collections):
            (path,) = stack.get_paths()
            for k, at in enumerate((12.0, 33.0)):
                inside = [y for y in np.arange(0.25, 105, 0.5) if path.contains_point((at, y))]
                expected = 100 * run.held([at])[0, j, i] / CLUSTER.total_capacities[i]
                assert len(inside) / 2 == pytest.approx(expected, abs=0.5)
                if inside:
                    assert min(inside) == pytest.approx(tops[k], abs=0.5)
                tops[k] += expected
        np.testing.assert_allclose(tops, 100 * run.utilisation([12, 33])[:, i])


def test_shares_are_steps_with_fair_shares_of_those_present(run: fo.online.Timeline) -> None:
    ax = run.plot()
    lines = [line for line in ax.lines if line.get_drawstyle() == "steps-post"]
    rings = [line for line in ax.lines if line.get_gid() == "fair"]
    for j, (line, ring) in enumerate(zip(lines, rings, strict=True)):
        moments, shares = line.get_data()
        np.testing.assert_allclose(shares, run.shares(moments)[:, j])
        fair = run.fair_shares[:, j]
        np.testing.assert_array_equal(ring.get_ydata(), np.where(fair > 0, fair, np.nan))
        assert line.get_color() == ring.get_color()
    assert set(moments) == {*run.start, *run.end}


@pytest.mark.parametrize("kind", ["shares", "utilisation"])
def test_many_moments_are_sampled(kind: str, run: fo.online.Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairopt.plots.timeline.MOMENTS", 4)
    monkeypatch.setattr("fairopt.plots.timeline.NUMBERS", 5)
    line = run.plot(kind).lines[0]
    np.testing.assert_allclose(line.get_xdata(), [0, 40, 80, 120])
    of = run.shares if kind == "shares" else lambda t: 100 * run.utilisation(t)
    np.testing.assert_allclose(line.get_ydata(), of(line.get_xdata())[:, 0])


def test_many_users_are_the_largest_and_the_mean_of_others(crowd: fo.online.Timeline) -> None:
    names = [text.get_text() for text in crowd.plot().figure.legends[0].get_texts()]
    assert len(names) == 8 and names[-2:] == ["54 others, mean", "fair share"]
    stacked = [text.get_text() for text in crowd.plot("allocation").legends[0].get_texts()]
    assert len(stacked) == 11 and stacked[0] == "50 others"


def test_use_has_a_line_by_resource_and_of_several_runs_a_panel(run: fo.online.Timeline) -> None:
    (ax,) = panels_of(run.plot("utilisation"))
    for i, line in enumerate(ax.lines):
        np.testing.assert_allclose(line.get_ydata(), 100 * run.utilisation(line.get_xdata())[:, i])
    panels = draw_timelines({"a": run, "b": run_of("arrival")}, "utilisation").axes
    assert [len(ax.lines) for ax in panels] == [2, 2]


def test_waiting_is_cumulative_with_tasks_that_never_started(run: fo.online.Timeline) -> None:
    ax = run.plot("waiting")
    everyone, batch, _ = ax.lines
    assert [line.get_label() for line in ax.lines] == ["all users", "batch", r"\$web_1\$"]
    for line, waits in ((everyone, run.waiting), (batch, run.waiting[run.task_job == 0])):
        for x, y in zip(*line.get_data(), strict=True):
            assert y <= 100 * (waits <= x).mean() + 1e-9
        assert set(np.round(line.get_ydata(), 9)) >= {round(100 * float((waits <= x).mean()), 9) for x in waits}
    kept = len(run.start) // 2
    half = replace(run, **{name: getattr(run, name)[:kept] for name in ("task_job", "task_server", "start", "end")})
    assert half.plot("waiting").lines[0].get_ydata()[-1] == pytest.approx(100 * kept / len(run.start))


def test_waiting_over_decades_has_a_log_axis_on_which_zeros_count(crowd: fo.online.Timeline) -> None:
    few = fo.simulate([1], [fo.Job("a", [1], 10.0**k, arrival=10.0 * k) for k in range(6)])
    assert few.plot("waiting").get_xscale() == "log" and crowd.plot("waiting").get_xscale() == "linear"
    first = few.plot("waiting").lines[0].get_ydata()[0]
    assert first >= 100 * (few.waiting == 0).mean() > 0


def test_ticks_within_a_decade_have_words_of_the_usual_size() -> None:
    jobs = [fo.Job("a", [1], 30.0), fo.Job("a", [1], 3.0, arrival=20.0)]
    jobs += [fo.Job("a", [1], 0.01, arrival=100.0 + k) for k in range(9)]
    ax = fo.simulate([1], jobs).plot("waiting")
    assert ax.get_xscale() == "log"
    ticks = [*ax.xaxis.get_major_ticks(), *ax.xaxis.get_minor_ticks()]
    assert len(ax.xaxis.get_minor_ticks()) > 1 and {tick.label1.get_size() for tick in ticks} == {8}


def test_distance_is_in_order_of_time_and_within_the_part_drawn(run: fo.online.Timeline) -> None:
    ax = run.plot("distance")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), sorted(FAIR_AT))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 100 * run.distance()[[1, 2, 0]])
    part = run.plot("distance", between=(10, 20))
    assert part.lines[0].get_xdata().tolist() == [15] and part.get_xlim() == (10, 20)


def test_a_part_of_the_time_starts_with_what_runs_then(run: fo.online.Timeline) -> None:
    line = run.plot(between=(12, 25)).lines[0]
    assert line.get_xdata()[[0, -1]].tolist() == [12, 25]
    np.testing.assert_allclose(line.get_ydata(), run.shares(line.get_xdata())[:, 0])
    arrived = run.plot("waiting", between=(0, 5)).lines[0].get_ydata()[-1]
    assert arrived == 100


def test_an_interrupted_run_is_drawn_as_far_as_it_is_known(run: fo.online.Timeline) -> None:
    cut = replace(run, until=15.0, interrupted=True)
    assert cut.plot("utilisation").lines[0].get_xdata().max() == 15


def test_axes_may_be_given() -> None:
    from matplotlib.figure import Figure

    run = run_of()
    axes = Figure(layout="constrained").subplots(1, 2)
    assert run.plot("allocation", ax=axes) is axes[0].figure
    assert run.plot("distance", ax=axes[0]) is axes[0]
    with pytest.raises(InvalidBlock, match="1 axes for 2 panels"):
        run.plot("allocation", ax=axes[0])


def test_what_cannot_be_drawn_is_refused(run: fo.online.Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidBlock, match="'alocation'; did you mean 'allocation'"):
        run.plot("alocation")
    bare = fo.simulate([1], [fo.Job("a", [1], 1)])
    with pytest.raises(InvalidBlock, match=r"no fair share of .* is known; give fair_at"):
        bare.plot("distance")
    with pytest.raises(InvalidBlock, match=r"no task of .* runs from 0 to 0"):
        fo.simulate([1], []).plot()
    with pytest.raises(InvalidBlock, match="no task of 'share' runs from 500 to 600"):
        run.plot(between=(500, 600))
    with pytest.raises(InvalidBlock, match=r"between is \(2, 1\)"):
        run.plot(between=(2, 1))
    with pytest.raises(InvalidInstance, match="between"):
        run.plot(between=(0, np.nan))
    with pytest.raises(InvalidBlock, match="no timeline"):
        draw_timelines({})
    with pytest.raises(InvalidBlock, match="different users"):
        draw_timelines({"a": run, "b": bare}, "shares")
    with pytest.raises(InvalidBlock, match="different resources"):
        draw_timelines({"a": run, "b": bare}, "utilisation")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match="matplotlib"):
        run.plot()


@pytest.mark.parametrize("kind", ["waiting", "utilisation"])
def test_legends_keep_the_part_in_which_names_of_policies_differ(kind: str, run: fo.online.Timeline) -> None:
    long = "Leximin(PNormShare(2)) of averages with a half-life of one "
    axes = draw_timelines({long + "hour": run, long + "week": run}, kind).axes
    first, second = axes[0].get_legend_handles_labels()[1]
    assert (first[-4:], second[-4:]) == ("hour", "week")


def test_a_long_title_is_wrapped_and_not_cut(run: fo.online.Timeline) -> None:
    name = "first come, first served, on the north cluster"
    title = draw_timelines({name: run}, "utilisation").axes[0].get_title(loc="left")
    assert " ".join(title.split()) == f"{name}: {TIMELINE_KINDS['utilisation']}"
    assert "\n" in title
