"""Words of pictures can be read: nothing is cut off, and panels keep their size."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import legible

import fairopt as fo
from fairopt import plots

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
        held=rng.integers(0, 30, 25),
    )


LIKE_OPENB = typed(27, ["cpu_milli", "memory_mib", "gpu_milli"], "openb-node-")
LIKE_KUBE = typed(6, ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"], "general.16: general-")
COMPARED = {"openb": fo.compare(["drf", "h-ffmra"], LIKE_OPENB), "kube": fo.compare(["drf", "nash"], LIKE_KUBE)}


@cache
def drawn(name: str, kind: str, size: tuple[float, float] | None) -> Any:
    result = COMPARED[name]
    assert not result.errors
    two = {"region": {"users": result.instance.users[:2]}, "demands": {"resources": result.instance.resources[:2]}}
    return plots.comparison(result, kind=kind, size=size, **two.get(kind, {}))


PICTURES = [
    *(("kube", kind, None) for kind in plots.KINDS),
    *(("openb", kind, (5, 6) if kind in ("held", "types") else (5, 3)) for kind in plots.KINDS),
    ("kube", "utilisation", (5, 3)),
    ("openb", "utilisation", None),
]


@pytest.mark.parametrize(("name", "kind", "size"), PICTURES)
def test_words_of_panels_are_inside_the_picture_and_apart_at_any_usual_size(name: str, kind: str, size: Any) -> None:
    figure = drawn(name, kind, size)
    assert legible(figure)
    labels = [
        figure.get_supxlabel(),
        figure.get_supylabel(),
        *(ax.get_xlabel() + ax.get_ylabel() for ax in figure.axes),
    ]
    assert any(labels) and all(ax.get_title() for ax in figure.axes[:2]) == (kind != "types")


def heights(figure: Any) -> list[float]:
    figure.draw_without_rendering()
    return [p.get_window_extent().height / figure.dpi for p in figure.axes]


def test_panels_with_long_names_below_keep_their_height_and_do_not_grow_beyond_a_screen() -> None:
    figure = drawn("kube", "utilisation", None)
    assert min(heights(figure)) > 2
    assert figure.get_size_inches()[0] <= 16.5
    assert min(heights(drawn("kube", "utilisation", (5, 3)))) > 0.45


def test_titles_are_no_wider_than_their_panels() -> None:
    result = fo.compare({f"a policy with a long name {k}": fo.DRF() for k in range(3)}, LIKE_KUBE)
    figure = plots.comparison(result, kind="shares", size=(5, 3))
    figure.draw_without_rendering()
    for panel in figure.axes:
        assert panel.title.get_window_extent().width < panel.get_window_extent().width + 0.1 * panel.figure.dpi
        assert panel.title.get_text().endswith("tasks")


def test_a_legend_that_has_no_room_gets_smaller_letters() -> None:
    for size in ((5, 3), (12, 7)):
        figure = drawn("openb", "demands", size)
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
    fo.DRF().allocate(pool).plot(kind, ax=right)
    assert legible(figure)


# -- modules --------------------------------------------------------------------------------------------------


def test_no_module_has_the_name_of_a_public_function_which_importing_it_would_hide() -> None:
    modules = {path.stem for path in Path(plots.__file__).parent.glob("*.py")}
    assert modules & set(plots.__all__) == set()
