"""Pictures of frontiers: what they show, and that their words can be read."""

from typing import Any

import numpy as np
import pytest
from pictures import legible

import fairopt as fo
from fairopt.errors import InvalidBlock

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")

SECTION_V = fo.Instance([[1, 4], [3, 1]], [9, 18], users=["a name that is long enough to be cut somewhere", "$w_b$"])
MANY = fo.Instance(10 ** np.random.default_rng(0).uniform(-1, 2, (40, 2)), [50, 60])


@pytest.mark.parametrize(
    ("family", "instance", "grid"),
    [
        (fo.FDS, SECTION_V, {"alpha": [2]}),
        (fo.FDS, SECTION_V, {"alpha": np.linspace(0, 8, 9)}),
        (fo.FDS, MANY, {"alpha": np.linspace(0, 3, 12)}),
        (lambda gar: fo.HFFMRA() if gar else fo.MLFDRS(), SECTION_V, {"gar": [True, False]}),
        (fo.PNormFairness, SECTION_V, {"p": [0, 1, np.inf], "alpha": [0, 1, 2]}),
        (fo.GFJ, SECTION_V, {"beta": [0.5, 1, 2, 0], "lam": [-1, 0.2, 0.5, 2]}),
    ],
)
def test_words_can_be_read(family: Any, instance: fo.Instance, grid: dict[str, Any]) -> None:
    found = fo.frontier(family, instance, grid)
    pictures = [found.plot()]
    pictures += [found.plot(kind="map", of=of) for of in ("efficiency", "method")] if len(grid) == 2 else []
    pictures += [found.plot(kind="tasks")] if len(grid) == 1 else []
    assert all(legible(ax.figure) for ax in pictures)


def test_families_on_one_axes_have_a_line_each_and_drf_once() -> None:
    from matplotlib.figure import Figure

    ax = Figure(layout="constrained").add_subplot()
    for family in (fo.FDS, fo.GFJ):
        assert fo.frontier(family, SECTION_V, {"alpha": [0, 1, 2, 4]}).plot(ax=ax) is ax
    assert sorted(text.get_text() for text in ax.get_legend().get_texts()) == ["DRF", "FDS", "GFJ"]
    dots = [line for line in ax.lines if line.get_gid() == "frontier"]
    assert dots[0].get_color() != dots[1].get_color() and legible(ax.figure)


def test_words_are_categories_without_a_line_and_drf_hides_no_point() -> None:
    found = fo.frontier(lambda gar: fo.HFFMRA() if gar else fo.DRF(), SECTION_V, {"gar": [True, False]})
    ax = found.plot()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["best of the sweep", "gar: True", "gar: False", "DRF"] and len(ax.figure.axes) == 1
    assert {line.get_linestyle() for line in (*ax.lines, *found.plot(kind="tasks").lines[:1])} == {"None"}
    assert ax.lines[-1].get_markerfacecolor() == "none"
    plane = fo.frontier(fo.FDS, SECTION_V, {"beta": [2], "lam": [-1, -0.5]}).plot()
    assert plane.figure.axes[1].get_ylabel() == "beta (any lam)"


def test_tasks_are_those_of_users_beside_drf() -> None:
    found = fo.frontier(fo.GFJ, SECTION_V, {"alpha": [2, 0, 1]})
    ax = found.plot(kind="tasks", users=[SECTION_V.users[1]])
    line, drf = ax.lines[:2]
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2])
    np.testing.assert_array_equal(line.get_ydata(), found.tasks_by_user[[1, 2, 0], 1])
    assert drf.get_ydata()[0] == pytest.approx(2)


def test_a_map_has_a_cell_for_each_point_with_the_first_parameter_below() -> None:
    found = fo.frontier(fo.GFJ, SECTION_V, {"beta": [0, 2], "lam": [-2, -1, -0.5]})
    ax = found.plot(kind="map", of="efficiency")
    cells = ax.images[0].get_array()
    assert cells.shape == (3, 2) and cells.mask[:, 0].all() and ax.get_xlabel() == "beta"
    np.testing.assert_allclose(cells[:, 1], found["efficiency"][3:])


def test_rounding_is_not_drawn_as_a_result() -> None:
    found = fo.frontier(fo.GFJ, SECTION_V, {"beta": [2, 3], "lam": [-1, -2]})
    found["fairness"][:], found["efficiency"][:] = 100 + 1e-10 * np.arange(4), 80 - 1e-10 * np.arange(4)
    least = 0.1 - 1e-9
    assert least <= np.ptp(found.plot(kind="map").images[0].get_clim()) <= 0.11
    found.drf.clear()
    ax = found.plot()
    assert np.ptp(ax.get_xlim()) >= least and np.ptp(ax.get_ylim()) >= least and legible(ax.figure)


def test_a_map_tells_apart_why_there_is_no_colour() -> None:
    def stop(what: str, done: int | None, total: int | None) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with fo.progress(stop):
        found = fo.frontier(fo.GFJ, SECTION_V, {"beta": [0, 1, 2], "lam": [0.5, -0.25]})
    assert found.interrupted
    for of, expected in (("f_beta", ["no value", "not reached", "no answer"]), ("tasks", ["not reached", "no answer"])):
        ax = found.plot(kind="map", of=of)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == expected and legible(ax.figure)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "taks"}, "did you mean 'tasks'"),
        ({"kind": "map"}, "two parameters"),
        ({"kind": "tasks", "users": ["nobody"]}, "no user 'nobody'"),
        ({"of": "fairnes"}, "did you mean 'fairness'"),
        ({"ax": 3}, "give a matplotlib Axes"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidBlock, match=words):
        fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}).plot(**options)


def test_without_an_answer_only_a_map_is_drawn() -> None:
    found = fo.frontier(fo.FDS, SECTION_V, {"beta": [0], "lam": [1, 2]})
    assert all(legible(found.plot("map", of=of).figure) for of in ("fairness", "method"))
    with pytest.raises(InvalidBlock, match="no point has an answer"):
        found.plot()
    with pytest.raises(InvalidBlock, match="needs one parameter"):
        found.plot(kind="tasks")
