"""Fig. 2 of Joe-Wong et al.: the plane of two resources and the plane of two users."""

from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt import plots
from fairopt.plots.common import new_figure

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")

TWO = fo.Instance(
    [[40, 8, 8], [8, 5, 1]],
    [200, 200, 200],
    users=["batch", "web"],
    resources=["bandwidth", "memory", "cpu"],
    units={"memory": "GiB"},
)
PLANE = fo.Instance([[2, 1], [1, 3]], [12, 12], users=["a", "b"], resources=["cpu", "memory"])
WALLS = fo.Instance([[0.2, 1], [1, 0.2], [1, 1]], [[2, 12], [12, 2]], users=["a", "b", "c"])


def words(ax: Any) -> list[str]:
    legend = ax.get_legend() or ax.figure.legends[0]
    return [text.get_text().replace("\n", " ") for text in legend.get_texts()]


def segments(ax: Any) -> list[np.ndarray]:
    return [segment for collection in ax.collections for segment in collection.get_segments()]


# -- two resources --------------------------------------------------------------------------------------------


def test_demand_lines_leave_the_box_of_capacities_where_the_user_alone_fills_it() -> None:
    ax = plots.draw(PLANE, kind="demands")
    ends = sorted(segment[-1].tolist() for segment in segments(ax))
    assert ends == [[4.0, 12.0], [12.0, 6.0]]
    assert [(p.get_width(), p.get_height()) for p in ax.patches] == [(12, 12)]
    assert ax.get_xlim()[1] > 12 and ax.get_ylim()[1] > 12
    assert words(ax) == ["a", "b", "all capacity"]


def test_the_path_adds_up_what_users_hold_flattest_first_and_ends_at_what_is_in_use() -> None:
    a = fo.DRF().allocate(PLANE)
    ax = plots.draw(a, kind="demands")
    path = segments(ax)[-2:]
    assert path[0] == pytest.approx(np.array([[0, 0], a.tasks[0] * PLANE.demands[0]]))
    assert path[1][1] == pytest.approx(a.usage[0])
    (dot,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert np.ravel(dot.get_data()) == pytest.approx(a.usage[0])
    assert words(ax)[-2:] == ["what users hold, one after the other", "in use"]


def test_axes_carry_the_units_of_the_chosen_resources() -> None:
    ax = TWO.plot(resources=("cpu", "memory"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cpu", "memory (GiB)")


def test_bundles_are_drawn_as_held() -> None:
    held = np.array([[[6.0, 0]], [[6.0, 12.0]]])
    given = fo.Allocation(PLANE, fo.DRF(), np.zeros((2, 1)), fo.Certificate(0, 0, "closed"), 0.0, given_bundles=held)
    path = segments(plots.draw(given, kind="demands"))[-2:]
    assert [piece[1].tolist() for piece in path] == [[6, 0], [12, 12]]


def test_demands_that_differ_by_server_have_the_slope_of_what_is_held() -> None:
    instance = fo.Instance([[[2, 1], [1, 1]]], [[4, 4], [4, 4]], resources=["cpu", "gpu"])
    a = fo.DRF().allocate(instance)
    line, path = segments(plots.draw(a, kind="demands"))
    assert line[1][1] / line[1][0] == pytest.approx(path[1][1] / path[1][0])
    assert segments(plots.draw(instance, kind="demands"))[0][1] == pytest.approx([8, 8])  # the least of each


def test_users_of_neither_resource_and_users_who_run_nowhere_have_no_line() -> None:
    instance = fo.Instance([[0, 0, 1], [1, 1, 0]], [4, 4, 4], task_limits=[1, 0])
    ends = [s[1].tolist() for s in segments(plots.draw(instance, resources=instance.resources[:2], kind="demands"))]
    assert sorted(ends) == [[0, 0], [4, 4]]


# -- two users ------------------------------------------------------------------------------------------------


def region(ax: Any) -> list[list[float]]:
    return ax.patches[0].get_xy()[:-1].round(9).tolist()


def test_the_region_of_one_pool_is_what_lies_below_all_resource_lines() -> None:
    ax = plots.draw(PLANE, kind="region")
    assert region(ax) == [[0, 0], [0, 4], [4.8, 2.4], [6, 0]]
    lines = [np.transpose(line.get_data()).tolist() for line in ax.lines[1:]]
    assert lines == [[[0, 12], [6, 0]], [[0, 4], [12, 0]]]
    assert words(ax) == ["possible", "cpu full", "memory full"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tasks of a", "tasks of b")


def test_points_of_all_policies_lie_on_one_panel_and_those_that_coincide_share_a_marker() -> None:
    result = fo.compare(["drf", "2df", "fds:alpha=1", "nash", "most-tasks"], TWO)
    (ax,) = result.plot("region").axes
    points = [np.ravel(line.get_data()) for line in ax.lines if line.get_linestyle() == "None"]
    assert np.array(points) == pytest.approx(np.array([[2.5, 12.5], [25 / 13, 200 / 13], [0, 25]]), rel=1e-3, abs=1e-6)
    assert words(ax)[-3:] == [
        "DRF = FDS(alpha=1) = Nash welfare (2.5, 12.5)",
        "2-DF (1.923, 15.38)",
        "most tasks (0, 25)",
    ]
    looks = {(line.get_marker(), line.get_color()) for line in ax.lines if line.get_linestyle() == "None"}
    assert len(looks) == 3


def test_lines_that_are_not_in_the_picture_are_said_to_be_further_out() -> None:
    assert "cpu full: further out" in words(plots.draw(TWO, kind="region"))
    assert "bandwidth full" in words(plots.draw(TWO, kind="region"))


def test_a_line_that_is_in_some_panels_only_is_said_to_be_further_out_in_others() -> None:
    result = fo.compare(["drf", "2df", "most-tasks"], fo.datasets.demo())
    panels = result.plot(kind="region", users=("web", "api")).axes
    told = [" ".join(t.get_text().split()) for t in panels[0].figure.legends[0].get_texts()]
    assert "cpu full everywhere" in told
    assert "memory full everywhere: in some panels further out" in told
    assert "bandwidth full everywhere: further out" in told


def test_of_more_users_the_others_keep_what_they_hold_on_each_server() -> None:
    result = fo.compare(["drf", "most-tasks"], WALLS)
    panels = result.plot(kind="region", users=("a", "b")).axes
    assert [p.get_title().split("\n")[0] for p in panels] == ["DRF", "most tasks"]
    for ax, a in zip(panels, result.allocations.values(), strict=True):
        left = WALLS.capacities - a.tasks_by_server[2][:, None] * WALLS.demands[2]
        alone = np.minimum(left[:, 0] / 0.2, left[:, 1] / 1).sum()
        assert np.max(region(ax), axis=0)[0] == pytest.approx(alone)
        (dot,) = [line for line in ax.lines if line.get_linestyle() == "None"]
        assert np.ravel(dot.get_data()) == pytest.approx(a.tasks[:2])
    assert panels[0].get_xlim() == panels[1].get_xlim()
    of_an_instance = WALLS.plot(kind="region", users=("b", "a"))
    assert of_an_instance.get_xlabel() == "tasks of b"


def test_task_limits_cut_the_region_and_are_drawn_unless_infinite() -> None:
    limited = PLANE.with_task_limits([5, None])
    ax = plots.draw(limited, kind="region")
    assert np.max(region(ax), axis=0).tolist() == [5, 4]
    assert "task limit" in words(ax) and "task limit" not in words(plots.draw(PLANE, kind="region"))
    nothing = plots.draw(PLANE.with_task_limits(0), kind="region")
    assert np.max(region(nothing)) == 0
    assert nothing.get_xlim()[1] > 0


def test_where_demands_differ_by_server_there_are_no_resource_lines() -> None:
    instance = fo.Instance([[[2, 1], [1, 1]], [[1, 1], [1, 2]]], [[4, 4], [4, 4]])
    ax = plots.draw(instance, kind="region")
    assert words(ax) == ["possible on these servers"]
    assert np.max(region(ax), axis=0) == pytest.approx([6, 6])


# -- which two ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kind": "demands"},
            r"choose two of the 3, such as resources=\('bandwidth', 'memory'\), from 'bandwidth', 'mem",
        ),
        ({"kind": "demands", "resources": ("cpu", "cpu")}, "give two different names"),
        ({"kind": "demands", "resources": "cpu"}, "give two different names"),
        ({"kind": "demands", "resources": ("cpu", "memroy")}, "did you mean 'memory'"),
        ({"kind": "region", "users": ("web", "x")}, "there is no 'x' among the users"),
        ({"kind": "region", "resources": ("cpu", "memory")}, "takes no resources=, which goes with kind='demands'"),
        ({"kind": "shares", "users": ("batch", "web")}, "takes no users=, which goes with kind='region'"),
        ({"kind": "pie"}, "no kind of picture 'pie'; "),
    ],
)
def test_what_cannot_be_drawn_is_an_error_that_says_what_can(options: dict[str, Any], message: str) -> None:
    a = fo.DRF().allocate(TWO)
    with pytest.raises(fo.errors.InvalidBlock, match=message):
        a.plot(**options)
    with pytest.raises(fo.errors.InvalidBlock, match=message):
        fo.compare(["drf"], TWO).plot(**options)


def test_one_user_or_one_resource_makes_no_plane() -> None:
    single = fo.Instance([[1]], [2])
    with pytest.raises(fo.errors.InvalidBlock, match="two users on its axes, but the instance has 1"):
        single.plot(kind="region")
    with pytest.raises(fo.errors.InvalidBlock, match="two resources on its axes, but the instance has 1"):
        single.plot()
    with pytest.raises(fo.errors.InvalidBlock, match="'shares' is a picture of an allocation"):
        single.plot(kind="shares")


def test_what_is_no_axes_is_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="ax='prices'; give a matplotlib Axes"):
        fo.DRF().allocate(TWO).plot(ax="prices")
    with pytest.raises(fo.errors.InvalidBlock, match="give a matplotlib Axes"):
        fo.compare(["drf"], TWO).plot(ax="prices")


def test_given_axes_are_used_for_planes() -> None:
    ax = new_figure(4, 3).subplots()
    assert PLANE.plot("region", ax=ax) is ax
    other = new_figure(4, 3).subplots()
    assert fo.DRF().allocate(PLANE).plot("demands", ax=other) is other


def test_a_thousand_users_have_ten_colours_and_the_rest_is_added_up() -> None:
    many = fo.datasets.log_uniform(1000, 2, seed=1)
    a = fo.DRF().allocate(many)
    ax = a.plot(kind="demands")
    assert sum("others, mostly" in word for word in words(ax)) == 2
    assert sum(word in many.users for word in words(ax)) == 10
    assert segments(ax)[-1][1] == pytest.approx(a.usage[0])
    assert len(segments(ax)) == 2000
