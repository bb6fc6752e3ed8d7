"""Words of pictures can be read: nothing over each other, nothing cut off, measured as it is drawn."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt import plots
from fairopt.plots.common import inches, new_figure, ticks_below

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")


def typed(n_classes: int, resources: list[str], names: str) -> fo.Instance:
    """Users of long names on classes of servers with long names, as openb and Kubernetes clusters have them."""
    rng = np.random.default_rng(n_classes)
    m = len(resources)
    return fo.Instance(
        rng.integers(1, 9, (25, m)),
        rng.integers(20, 400, (n_classes, m)),
        task_limits=rng.integers(1, 90, 25),
        users=[f"{k}.908cpu/46GiB/0.{k}gpu" for k in range(25)],
        resources=resources,
        servers=[f"{names}{k:04d}" for k in range(n_classes)],
        server_types=[f"V100M{k % 7}" for k in range(n_classes)],
    )


LIKE_OPENB = typed(27, ["cpu_milli", "memory_mib", "gpu_milli"], "openb-node-")
LIKE_KUBE = typed(6, ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"], "general.16: general-")
POLICIES = ["drf", "h-ffmra", "nash", "most-tasks"]
COMPARED = {"openb": fo.compare(POLICIES[:3], LIKE_OPENB), "kube": fo.compare(["drf", "nash"], LIKE_KUBE)}


@cache
def drawn(name: str, kind: str, size: tuple[float, float] | None) -> Any:
    result = COMPARED[name]
    assert not result.errors
    two = {"region": {"users": result.instance.users[:2]}, "demands": {"resources": result.instance.resources[:2]}}
    return plots.comparison(result, kind=kind, size=size, **two.get(kind, {}))


PICTURES = [
    *(("kube", kind, None) for kind in plots.KINDS),
    *(("openb", kind, (5, 3)) for kind in plots.KINDS),
    ("kube", "utilisation", (5, 3)),
    ("openb", "utilisation", None),
]


@pytest.mark.parametrize(("name", "kind", "size"), PICTURES)
def test_panels_can_be_read_at_any_usual_size(name: str, kind: str, size: tuple[float, float] | None) -> None:
    assert plots.unreadable(drawn(name, kind, size)[0].figure) == []


def heights(panels: list[Any]) -> list[float]:
    panels[0].figure.draw_without_rendering()
    return [p.get_window_extent().height / p.figure.dpi for p in panels]


def test_panels_with_long_names_below_keep_their_height_and_do_not_grow_beyond_a_screen() -> None:
    panels = drawn("kube", "utilisation", None)
    assert min(heights(panels)) > 2
    assert panels[0].figure.get_size_inches()[0] <= 16.5
    assert min(heights(drawn("kube", "utilisation", (5, 3)))) > 0.45


def test_titles_are_no_wider_than_their_panels() -> None:
    result = fo.compare({f"a policy with a long name {k}": fo.DRF() for k in range(3)}, LIKE_KUBE)
    panels = plots.comparison(result, kind="shares", size=(5, 3))
    panels[0].figure.draw_without_rendering()
    for panel in panels:
        assert panel.title.get_window_extent().width < panel.get_window_extent().width + 0.1 * panel.figure.dpi
        assert panel.title.get_text().endswith("tasks")


def test_a_legend_that_has_no_room_gets_smaller_letters() -> None:
    for size in ((5, 3), (12, 7)):
        figure = drawn("openb", "demands", size)[0].figure
        figure.draw_without_rendering()
        (legend,) = figure.legends
        assert figure.bbox.contains(*legend.get_window_extent().p0)
        assert figure.bbox.contains(*legend.get_window_extent().p1)
    assert legend.get_texts()[0].get_fontsize() > 5


@pytest.mark.parametrize("kind", ["shares", "utilisation", "dominant", "envy"])
def test_names_fit_ones_own_narrow_axes_after_the_legend_took_its_part(kind: str) -> None:
    from matplotlib.figure import Figure

    pool = fo.Instance(
        np.ones((3, 3)),
        [[9, 9, 9]],
        resources=["bandwidth", "memory_mib", "gpu_milli"],
        users=["analytics and reports", "training", "web"],
    )
    figure = Figure((6, 4), layout="constrained")
    _, right = figure.subplots(1, 2)
    fo.DRF().allocate(pool).plot(right, kind)
    assert [phrase for phrase in plots.unreadable(figure) if "lies over" in phrase] == []


def test_ticks_of_a_low_panel_are_fewer() -> None:
    low = fo.compare(["drf"], LIKE_KUBE)
    high = plots.comparison(low, kind="shares", size=(8, 5))[0]
    flat = plots.comparison(low, kind="shares", size=(8, 1.6))[0]
    assert len(flat.get_yticks()) < len(high.get_yticks()) == 6


# -- what is measured -----------------------------------------------------------------------------------------


def two_words(gap: float, angle: float = 0.0) -> Any:
    """A figure with two words of 10 points, so many inches apart along a level line."""
    figure = new_figure(4, 2)
    figure.set_layout_engine("none")
    for x in (1.0, 1.0 + gap):
        figure.text(x / 4, 0.5, "memory", fontsize=10, rotation=angle, ha="right", rotation_mode="anchor")
    return figure


def test_words_over_each_other_are_found_level_upright_and_aslant() -> None:
    wide, high = inches("memory", 10), 0.16
    for angle, apart in ((0.0, wide), (90.0, high), (35.0, high / np.sin(np.radians(35)))):
        assert plots.unreadable(two_words(apart * 1.1, angle)) == []
        assert plots.unreadable(two_words(apart * 0.7, angle)) == ["'memory' lies over 'memory'"]


def test_words_and_legends_that_leave_the_picture_are_found() -> None:
    figure = new_figure(3, 2)
    figure.set_layout_engine("none")
    ax = figure.subplots()
    ax.plot([0, 1], label="a label")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.text(0.0, 0.5, "outside", ha="right")
    found = plots.unreadable(figure)
    assert "the legend leaves the picture" in found and "'outside' leaves the picture" in found


def test_hidden_words_and_ticks_beyond_the_limits_do_not_count() -> None:
    figure = two_words(0.1)
    figure.texts[1].set_visible(False)
    assert plots.unreadable(figure) == []
    ax = new_figure(4, 3).subplots()
    ax.set_yticks([0.0, 0.5, 1.0, 1.001])
    ax.set_ylim(0, 1)
    assert plots.unreadable(ax.figure) == []


def test_a_panel_in_which_nothing_can_be_seen_is_found() -> None:
    figure = new_figure(3, 3)
    figure.set_layout_engine("none")
    figure.add_axes((0.3, 0.3, 0.4, 0.05)).set(xticks=[], yticks=[])
    assert plots.unreadable(figure) == ["a panel is 0.15 inches small"]


@pytest.mark.parametrize("text", ["4,745 tasks", "WWWW", "nvidia.com/gpu", "memory_mib\nby tasks"])
def test_the_width_of_words_is_that_of_the_font(text: str) -> None:
    figure = new_figure(4, 2)
    shown = figure.text(0.1, 0.5, text, fontsize=9)
    figure.draw_without_rendering()
    assert inches(text, 9) == pytest.approx(shown.get_window_extent().width / figure.dpi, rel=0.08)


def test_names_of_two_lines_are_aslant_only_where_two_lines_have_room() -> None:
    def turn(names: list[str], each: float) -> float:
        ax = new_figure(9, 4).subplots()
        ticks_below(ax, names, each * len(names))
        return float(ax.get_xticklabels()[0].get_rotation())

    names = [f"a resource {k}\nby tasks" for k in range(4)]
    assert [turn(names, each) for each in (2.0, 0.5, 0.4)] == [0, 35, 90]
    assert [turn([n.split("\n")[0] for n in names], each) for each in (0.4, 0.2)] == [35, 90]


# -- modules --------------------------------------------------------------------------------------------------


def test_no_module_has_the_name_of_a_public_function_which_importing_it_would_hide() -> None:
    modules = {path.stem for path in Path(plots.__file__).parent.glob("*.py")}
    assert modules & set(plots.__all__) == set()
