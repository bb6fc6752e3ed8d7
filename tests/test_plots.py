"""Pictures: what is drawn, not how its pixels look."""

import sys
import warnings
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any

import forked
import numpy as np
import pytest

import fairopt as fo
from fairopt import plots
from fairopt.derivatives.sensitivity import Sensitivity
from fairopt.online.timeline import Timeline
from fairopt.plots.common import COLOURS, new_figure
from fairopt.properties.verdicts import PropertyReport, Verdict
from fairopt.report.comparison import Comparison, compare
from fairopt.report.files import write_picture
from fairopt.tradeoff.frontier import Frontier
from fairopt.tradeoff.preferences import Survey

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")

TWO = fo.Instance(
    [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"], resources=["bandwidth", "memory", "cpu"]
)
MANY = fo.datasets.log_uniform(150, 3, seed=3)


def bars(ax: Any) -> dict[str, np.ndarray]:
    """Heights by label of the legend, bottom up."""
    return {c.get_label(): np.array([bar.get_height() for bar in c]) for c in ax.containers}


def legend(figure_or_ax: Any) -> list[str]:
    found = figure_or_ax.get_legend() if hasattr(figure_or_ax, "get_legend") else figure_or_ax.legends[0]
    return [text.get_text() for text in found.get_texts()]


def test_each_bar_is_what_users_hold_and_the_rest_up_to_100_percent() -> None:
    drawn = bars(plots.draw(fo.DRF().allocate(TWO)))
    assert list(drawn) == ["batch", "web", "left over"]
    assert drawn["batch"] == pytest.approx([50, 10, 10])
    assert drawn["web"] == pytest.approx([50, 31.25, 6.25])
    assert sum(drawn.values()) == pytest.approx(np.full(3, 100))


def test_axes_say_what_they_show() -> None:
    ax = plots.draw(fo.DRF().allocate(TWO))
    assert [t.get_text() for t in ax.get_xticklabels()] == ["bandwidth", "memory", "cpu"]
    assert ax.get_ylabel() == "share of capacity (%)"
    assert [t.get_text() for t in ax.texts] == ["100", "41", "16"]


def test_a_single_picture_says_which_policy_it_is_of_and_what_it_shows() -> None:
    a = fo.NashWelfare().allocate(TWO)
    axes = {"demands": {"resources": ("cpu", "memory")}}
    titles = {
        kind: a.plot(kind=kind, **axes.get(kind, {})).get_title().replace("\n", " ")
        for kind in plots.KINDS
        if kind not in ("held", "types")  # figures of several panels
    }
    assert all(title.startswith("Nash welfare: ") for title in titles.values())
    assert len(set(titles.values())) == len(titles)
    assert TWO.plot(resources=("cpu", "memory")).get_title() == "Demands"
    assert fo.check(a)["ef"].plot().get_title().startswith("Envy")
    given = new_figure(4, 3).subplots()
    given.set_title("mine")
    assert a.plot(ax=given).get_title() == "mine"
    assert compare(["drf", "nash"], TWO).plot("region").axes[0].get_title() == "What two users can run"


def test_the_legend_reads_from_the_top_down() -> None:
    assert legend(plots.draw(fo.DRF().allocate(TWO))) == ["left over", "web", "batch"]


def test_of_150_users_the_ten_largest_are_named_and_the_others_added_up() -> None:
    allocation = fo.TSF().allocate(MANY)
    drawn = bars(plots.draw(allocation))
    named = [label for label in drawn if label in MANY.users]
    shares = dict(zip(MANY.users, allocation.share(fo.DominantShare()), strict=True))
    assert len(named) == 10
    assert min(shares[u] for u in named) >= max(s for u, s in shares.items() if u not in named)
    others = [label for label in drawn if "others, mostly" in label]
    assert sum(int(label.split()[0]) for label in others) == 140
    assert sum(drawn.values()) == pytest.approx(np.full(3, 100))


def test_others_of_many_resources_share_one_grey() -> None:
    drawn = bars(plots.draw(fo.DRF().allocate(fo.datasets.log_uniform(40, 6, seed=1))))
    assert "30 others" in drawn


def test_no_two_users_look_alike() -> None:
    ax = plots.draw(fo.DRF().allocate(fo.datasets.demo()))
    looks = [(c[0].get_facecolor(), c[0].get_hatch()) for c in ax.containers]
    assert len(set(looks)) == len(looks) == 11


def test_given_axes_are_drawn_on_and_returned() -> None:
    figure = new_figure(4, 3)
    ax = figure.subplots()
    assert plots.draw(fo.DRF().allocate(TWO), ax=ax) is ax
    other = new_figure(4, 3).subplots()
    assert fo.DRF().allocate(TWO).plot(ax=other) is other


def test_bundles_that_are_no_multiples_of_demands_are_drawn_as_held() -> None:
    held = np.array([[[100.0, 0, 0]], [[100.0, 200.0, 0]]])
    certificate = fo.Certificate(0.0, 0.0, "closed")
    given = fo.Allocation(TWO, fo.DRF(), np.array([[0.0], [12.5]]), certificate, 0.0, given_bundles=held)
    assert bars(plots.draw(given))["batch"] == pytest.approx([50, 0, 0])


def test_one_panel_per_policy_with_an_answer_in_the_same_colours() -> None:
    result = compare(["drf", "2df", "fds:alpha=1", "most-tasks", "tsf"], MANY)  # 2-DF: some users need one resource
    panels = result.plot().axes
    assert [p.get_title().split("\n")[0] for p in panels] == list(result.allocations)
    layers = [list(bars(p)) for p in panels]
    assert all(names == layers[0] for names in layers)
    assert all(p.get_ylim() == panels[0].get_ylim() for p in panels)
    assert len(panels[0].figure.legends) == 1


def test_panels_can_be_given() -> None:
    result = compare(["drf", "2df"], TWO)
    axes = new_figure(8, 3).subplots(1, 3)
    assert result.plot(ax=axes) is axes[0].figure
    with pytest.raises(fo.errors.InvalidBlock, match="1 axes for 2 policies"):
        result.plot(ax=axes[:1])


def test_nothing_to_draw_is_an_error_that_says_so() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="no policy gave an answer"):
        compare(["2df"], fo.Instance([[1, 0]], [1, 1])).plot()


def test_names_are_not_taken_for_mathematics() -> None:
    instance = fo.Instance([[1, 1]], [2, 2], users=["$x_1$"], resources=["$a$", "b"])
    plots.draw(fo.DRF().allocate(instance)).figure.canvas.draw()
    assert "_" not in legend(plots.draw(fo.DRF().allocate(instance)))[0]


def test_a_title_of_an_unnamed_policy_is_its_objective_and_constraints_in_full() -> None:
    unnamed = fo.Policy(fo.AlphaFair(2, fo.KDominantShare(2)), [fo.SharingIncentive()])
    a = unnamed.allocate(fo.datasets.demo())
    words = "AlphaFair(2, KDominantShare(2)) under SharingIncentive(): dominant shares"
    assert a.plot(kind="dominant").get_title().replace("\n", " ") == words
    titles = [p.get_title().replace("\n", " ") for p in compare([unnamed, fo.DRF()], fo.datasets.demo()).plot().axes]
    assert titles[0].startswith("AlphaFair(2, KDominantShare(2)) under SharingIncentive()") and titles[1][:4] == "DRF "


def test_dominant_shares_have_one_number_of_decimals() -> None:
    panels = compare(["2df", "most-tasks"], fo.datasets.demo()).plot(kind="dominant").axes
    numbers = {t.get_text() for p in panels for t in p.texts} - {"0"}
    assert len(numbers) > 10 and {n.partition(".")[2].isdigit() and len(n.partition(".")[2]) for n in numbers} == {1}


def test_dominant_shares_are_sorted_and_told_apart_by_whether_all_tasks_run() -> None:
    allocation = fo.DRF().allocate(fo.datasets.demo())
    ax = plots.draw(allocation, kind="dominant")
    widths = [bar.get_width() for bar in ax.containers[0]]
    assert widths == sorted(widths)
    assert ax.get_yticklabels()[0].get_text() == "api"
    assert legend(ax) == ["wants more", "runs all its tasks"]


def test_dominant_shares_of_many_users_span_decades_and_keep_zeros_in_sight() -> None:
    limited = fo.datasets.log_uniform(150, 3, seed=3, limits=True)
    ax = plots.draw(fo.MostTasks().allocate(limited), kind="dominant")
    assert ax.get_yscale() == "symlog"
    heights = ax.collections[0].get_offsets()[:, 1]
    assert len(heights) == 150
    assert (np.diff(heights) >= 0).all()
    assert heights[0] == 0


def test_a_resource_that_no_server_has_is_none_and_not_left_over() -> None:
    ax = plots.draw(fo.DRF().allocate(fo.Instance([[2, 0], [1, 0]], [400, 0])))
    assert [t.get_text() for t in ax.texts] == ["100", "none"]
    assert bars(ax)["left over"] == pytest.approx([0, 0])


def test_no_user_at_all_can_be_drawn() -> None:
    empty = fo.DRF().allocate(fo.Instance(np.zeros((0, 2)), [1, 1]))
    assert bars(plots.draw(empty))["left over"] == pytest.approx([100, 100])
    plots.draw(empty, kind="dominant")


# -- by type of server ----------------------------------------------------------------------------------------

TYPED = fo.Instance(
    [[2, 1], [1, 0]],
    [[12, 4], [30, 0], [6, 8]],
    counts=[2, 1, 3],
    resources=["cpu", "gpu"],
    server_types=["T4", "no GPU", "T4"],
)


class Half:
    """A mechanism that decides bundles: the first user holds everything, and its tasks use about half of it."""

    name = "half"

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        held = np.zeros((instance.n_users, instance.n_servers, instance.n_resources))
        held[0] = instance.capacities * instance.counts[:, None]
        tasks = np.zeros((instance.n_users, instance.n_servers))
        tasks[0] = (held[0] / instance.demands[0]).min(axis=1) / 2
        return fo.Allocation(instance, self, tasks, fo.Certificate(0.0, 0.0, "closed"), 0.0, given_bundles=held)


def test_there_is_a_panel_for_tasks_and_one_for_each_resource_with_the_numbers_of_the_rows() -> None:
    result = compare(["drf", "most-tasks"], TYPED)
    panels = result.plot("types").axes
    assert [p.get_ylabel() for p in panels] == ["tasks per server", "cpu in use (%)", "gpu in use (%)"]
    rows = {(r["policy"], r["server_type"]): r for r in result.by_server_type()}
    for policy in ("DRF", "most tasks"):
        of_type = [rows[policy, name] for name in ("T4", "no GPU")]
        tasks, cpu, gpu = (bars(p)[policy] for p in panels)
        assert tasks == pytest.approx([r["tasks"] / r["servers"] for r in of_type])
        assert cpu == pytest.approx([100 * r["utilisation"]["cpu"] for r in of_type])
        assert gpu == pytest.approx([100 * of_type[0]["utilisation"]["gpu"], 0])
    assert [t.get_text() for t in panels[-1].get_xticklabels()] == ["T4\n(5)", "no GPU\n(1)"]
    assert [t.get_text() for t in panels[2].texts] == ["none there"]
    assert len(panels[0].texts) == len(panels[1].texts) == 0
    assert legend(panels[0].figure) == ["DRF", "most tasks"]


def test_what_is_held_beyond_what_tasks_use_is_lighter_and_on_top() -> None:
    panels = compare(["drf", Half()], TYPED).plot("types").axes
    assert legend(panels[0].figure)[-1].startswith("lighter: held")
    for ax in panels[1:]:
        used, more = ax.containers[1], ax.containers[2]
        assert used.get_label() == "half"
        for low, high in zip(used, more, strict=True):
            assert high.get_y() == pytest.approx(low.get_height())
            assert high.get_alpha() < 1 and low.get_alpha() is None
            assert high.get_facecolor()[:3] == low.get_facecolor()[:3]
    assert used[0].get_height() + more[0].get_height() == pytest.approx(100)
    assert len(panels[0].containers) == 2  # of tasks nothing is held


def test_no_two_policies_look_alike_nor_stand_in_the_same_place() -> None:
    ax = compare([fo.DRF()] * (len(COLOURS) + 3), TYPED).plot("types").axes[1]
    looks = {(c[0].get_facecolor(), c[0].get_hatch()) for c in ax.containers}
    places = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for c in ax.containers for bar in c)
    assert len(looks) == len(COLOURS) + 3
    assert all(right < left for (_, right), (left, _) in pairwise(places))


def words_overlap(figure: Any) -> list[tuple[str, str]]:
    """Pairs of texts drawn over each other, and texts that leave the picture."""
    from matplotlib.text import Text

    renderer = figure.canvas.get_renderer()
    figure.draw(renderer)
    ticks = [(ax.get_ylim(), tick) for ax in figure.axes for tick in ax.yaxis.get_major_ticks()]
    not_drawn = {tick.label1 for (low, high), tick in ticks if not low <= tick.get_loc() <= high}
    shown = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text() and t.get_rotation() in (0, 90)]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in shown if t not in not_drawn]
    assert len(boxes) > 10
    whole = figure.bbox.padded(1)
    out = [(name, "the edge") for name, box in boxes if not (whole.contains(*box.p0) and whole.contains(*box.p1))]
    return out + [(a, b) for k, (a, one) in enumerate(boxes) for b, other in boxes[:k] if one.overlaps(other)]


@pytest.mark.parametrize(("n_policies", "n_types"), [(1, 1), (1, 8), (10, 3), (2, 20)])
def test_no_words_overlap(n_policies: int, n_types: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = ["no GPU", "A10", "P100", "V100M16", "V100M32", "T4", "G2", "G3", *(f"A-long-name-{k}" for k in range(12))]
    cluster = fo.Instance(
        [[1, 1]],
        np.full((n_types, 2), 5),
        counts=[1500] * n_types,
        resources=["memory_mib", "gpu_milli"],
        server_types=names[:n_types],
    )
    policies = {f"AlphaFair({k}, KDominantShare(2))": fo.DRF() for k in range(n_policies - 1)}
    figure = compare({**policies, "half": Half()}, cluster).plot("types")
    FigureCanvasAgg(figure)
    assert words_overlap(figure) == []


def test_without_types_there_is_one_group_of_bars() -> None:
    panels = compare(["drf"], TWO).plot("types").axes
    assert [t.get_text() for t in panels[-1].get_xticklabels()] == ["all servers\n(1)"]
    assert len(panels) == 4


def test_panels_by_type_can_be_given() -> None:
    result = compare(["drf", "2df"], TYPED)  # 2-DF has no answer
    axes = new_figure(8, 6).subplots(4, 1)
    assert result.plot("types", ax=axes) is axes[0].figure
    assert legend(axes[0]) == ["DRF"]
    with pytest.raises(fo.errors.InvalidBlock, match="2 axes for tasks and 2 resources"):
        result.plot("types", ax=axes[:2])
    with pytest.raises(fo.errors.InvalidBlock, match="no policy gave an answer"):
        compare(["2df"], TYPED).plot("types")


def test_pictures_can_be_saved_without_a_screen(tmp_path: Any) -> None:
    for name in ("a.png", "a.svg", "a.pdf"):
        plots.draw(fo.DRF().allocate(TWO)).figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def test_our_pdfs_embed_truetype_and_leave_the_settings_of_users_alone(tmp_path: Any) -> None:
    from matplotlib import rcParams

    figure, before = plots.draw(fo.DRF().allocate(TWO)).figure, rcParams["pdf.fonttype"]
    write_picture(figure, tmp_path / "ours.pdf")
    assert rcParams["pdf.fonttype"] == before == 3
    figure.savefig(tmp_path / "theirs.pdf")
    fonts = [
        {kind for kind in (b"/Type3", b"/CIDFontType2", b"/FontFile2") if kind in (tmp_path / name).read_bytes()}
        for name in ("ours.pdf", "theirs.pdf")
    ]
    assert fonts == [{b"/CIDFontType2", b"/FontFile2"}, {b"/Type3"}]


def test_drawing_leaves_pyplot_alone() -> None:
    code = (
        "import sys, fairopt as fo\n"
        "assert 'matplotlib' not in sys.modules\n"
        "two = fo.Instance([[1, 2], [2, 1]], [6, 6])\n"
        "for kind in ('shares', 'dominant', 'utilisation', 'prices', 'demands', 'region', 'envy'):\n"
        "    fo.DRF().allocate(two).plot(kind=kind).figure.draw_without_rendering()\n"
        "fo.compare(['drf', 'nash'], two).plot()\n"
        "assert 'matplotlib.figure' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = forked.run("-c", code)
    assert done.returncode == 0, done.stderr


def test_where_pyplot_is_in_use_pictures_are_its_current_figure(tmp_path: Any) -> None:
    code = (
        "import matplotlib.pyplot as plt, fairopt as fo\n"
        "two = fo.Instance([[1, 2], [2, 1]], [6, 6])\n"
        "ax = fo.DRF().allocate(two).plot()\n"
        "assert plt.gcf() is ax.figure\n"
        "plt.savefig('one.png')\n"
        "figure = fo.compare(['drf', 'nash'], two).plot()\n"
        "assert plt.gcf() is figure and figure is not ax.figure\n"
        "plt.savefig('two.png')\n"
        "assert min(plt.imread(name)[..., :3].min() for name in ('one.png', 'two.png')) < 0.5\n"
    )
    done = forked.run("-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_without_matplotlib_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    held = TWO.replace(held=[1, 9])
    for kind in plots.KINDS:
        two = {"resources": TWO.resources[:2]} if kind == "demands" else {}
        for result in (fo.DRF().allocate(held), compare(["drf"], held)):
            with pytest.raises(fo.errors.MissingExtra, match=r"pip install 'fairopt\[plots\]'"):
                result.plot(kind, **two)


# -- letters of other scripts -----------------------------------------------------------------------------------------


def of_users(*users: str) -> fo.Allocation:
    return fo.DRF().allocate(fo.Instance(np.ones((len(users), 1)), [6], users=users))


def drawn_quietly(a: fo.Allocation, kind: str = "dominant") -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ax = a.plot(kind=kind)
        ax.figure.draw_without_rendering()
    return ax, [str(w.message) for w in said]


def test_letters_that_the_usual_font_lacks_are_drawn_with_another_installed_one() -> None:
    from matplotlib import rcParams

    letter = "\u2316"  # which STIXGeneral has, the font of symbols that comes with matplotlib, and DejaVu Sans has not
    before = list(rcParams["font.family"])
    ax, said = drawn_quietly(of_users(letter, "web"))
    name = ax.get_yticklabels()[0]
    assert name.get_text() == letter and name.get_fontfamily()[0] == before[0] and len(name.get_fontfamily()) == 2
    assert said == [] and list(rcParams["font.family"]) == before
    given = new_figure(4, 3).subplots()
    given.set_yticks([0, 1])  # which makes labels in the usual font
    of_users(letter, "web").plot("dominant", ax=given)
    assert [len(label.get_fontfamily()) for label in given.get_yticklabels()] in ([1, 2], [2, 1])
    given.figure.draw_without_rendering()


def test_matplotlib_warns_of_letters_that_no_font_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.font_manager import fontManager

    monkeypatch.setattr(fontManager, "ttflist", [e for e in fontManager.ttflist if e.name.startswith("DejaVu")])
    ax, said = drawn_quietly(of_users("用户-a", "web"))
    assert {sentence.partition(" (")[0] for sentence in said} == {"Glyph 29992", "Glyph 25143"}
    assert [t.get_text() for t in ax.get_yticklabels()] == ["用户-a", "web"]
    assert drawn_quietly(of_users("é ß ł", "web"))[1] == []


# -- conventions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        fo.Instance,
        fo.Allocation,
        Comparison,
        Frontier,
        Sensitivity,
        Timeline,
        Survey,
        Verdict,
        PropertyReport,
    ],
)
def test_every_result_is_drawn_by_kind_and_on_axes_given_by_name(result: Any) -> None:
    kind, ax, *others = list(signature(result.plot).parameters.values())[1:]
    assert (kind.name, kind.kind) == ("kind", Parameter.POSITIONAL_OR_KEYWORD) and isinstance(kind.default, str)
    assert (ax.name, ax.default) == ("ax", None)
    assert all(p.kind is Parameter.KEYWORD_ONLY and p.default is None for p in (ax, *others) if p.name != "of")
