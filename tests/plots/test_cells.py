"""Utilisation and prices by class of servers: bars, cells, and the numbers in them."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt import plots
from fairopt.plots.common import amount, new_figure

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")

CLASSES = fo.Instance(
    [[2, 1], [1, 0]],
    [[12, 4], [30, 0], [12, 4]],
    counts=[2, 1, 3],
    resources=["cpu", "gpu"],
    servers=["rack", "plain", "again"],
    users=["train", "web"],
)
POOL = fo.Instance([[2, 8], [1, 2]], [16, 64], resources=["cpu", "memory"], units={"memory": "GiB"})


def many_classes(n: int) -> fo.Instance:
    capacities = np.column_stack([np.arange(1, n + 1), np.full(n, 10), np.arange(n, 0, -1)])
    return fo.Instance([[1, 1, 0], [0, 1, 1]], capacities, counts=np.arange(n) + 1)


def bars(ax: Any) -> dict[str, list[float]]:
    return {c.get_label(): [bar.get_height() for bar in c] for c in ax.containers}


def names(axis: Any) -> list[str]:
    return [text.get_text().replace("\n", " ") for text in axis.get_ticklabels()]


def cells(ax: Any) -> np.ndarray:
    return np.asarray(np.ma.filled(ax.images[0].get_array(), np.nan))


# -- utilisation ----------------------------------------------------------------------------------------------


def test_identical_servers_are_one_group_of_bars_with_their_number() -> None:
    a = fo.DRF().allocate(CLASSES)
    ax = plots.draw(a, kind="utilisation")
    assert names(ax.xaxis) == ["again,rack (5)", "plain (1)"]
    used = a.usage[[0, 2]].sum(axis=0) / [60, 20]
    assert bars(ax)["cpu"] == pytest.approx([100 * used[0], 100 * a.usage[1, 0] / 30])
    assert bars(ax)["gpu"] == pytest.approx([100 * used[1], 0])
    assert [t.get_text() for t in ax.texts][-1] == "none"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["cpu", "gpu"]
    assert ax.get_ylabel() == "in use (%)"


def test_one_class_has_its_resources_at_the_axis_and_no_legend() -> None:
    ax = plots.draw(fo.DRF().allocate(POOL), kind="utilisation")
    assert names(ax.xaxis) == ["cpu", "memory"]
    assert ax.get_legend() is None


def bundles(instance: fo.Instance) -> fo.Allocation:
    """The first user holds everything, and its tasks use half of it."""
    held = np.zeros((instance.n_users, instance.n_servers, instance.n_resources))
    held[0] = instance.capacities * instance.counts[:, None]
    tasks = np.zeros((instance.n_users, instance.n_servers))
    needed = instance.demands[0] > 0
    tasks[0] = (held[0][:, needed] / instance.demands[0][needed]).min(axis=1) / 2
    return fo.Allocation(instance, fo.DRF(), tasks, fo.Certificate(0, 0, "closed"), 0.0, given_bundles=held)


def test_what_is_held_beyond_what_tasks_use_is_lighter_and_on_top() -> None:
    ax = plots.draw(bundles(POOL), kind="utilisation")
    used, more = ax.containers[0], ax.containers[1]
    assert [bar.get_height() for bar in used] == pytest.approx([50])
    assert more[0].get_y() == pytest.approx(50) and more[0].get_height() == pytest.approx(50)
    assert more[0].get_alpha() < 1
    assert ax.get_legend().get_texts()[0].get_text().startswith("lighter: held")


def test_many_classes_are_cells_with_their_percent() -> None:
    instance = many_classes(20)
    a = fo.DRF().allocate(instance)
    ax = plots.draw(a, kind="utilisation")
    expected = 100 * a.usage / (instance.capacities * instance.counts[:, None])
    assert cells(ax) == pytest.approx(expected, abs=1e-6)
    assert [t.get_text() for t in ax.texts][:3] == [f"{x:.0f}" for x in expected[0]]
    assert names(ax.yaxis)[0] == "server1 (1)"
    assert ax.images[0].get_clim() == (0, 100)
    assert ax.figure.axes[1].get_ylabel() == "in use (%)"  # the colour bar


def test_cells_of_held_and_used_stand_beside_each_other() -> None:
    instance = many_classes(20)
    a = bundles(instance)
    ax = plots.draw(a, kind="utilisation")
    held, used = np.split(cells(ax), 2, axis=1)
    assert held == pytest.approx(100 * np.ones((20, 3)))
    assert used == pytest.approx(100 * a.task_usage / (instance.capacities * instance.counts[:, None]))
    assert names(ax.xaxis)[::3] == ["resource1 held", "resource1 by tasks"]


def test_of_70_classes_the_60_largest_are_drawn_and_said_to_be() -> None:
    ax = plots.draw(fo.DRF().allocate(many_classes(70)), kind="utilisation")
    assert cells(ax).shape == (60, 3)
    assert names(ax.yaxis)[0] == "server11 (11)"
    assert ax.get_ylabel() == "servers (number): the 60 largest of 70"


def test_classes_of_a_type_stand_together() -> None:
    typed = many_classes(9).replace(server_types=["T4", "A10", "T4"] * 3)
    ax = plots.draw(fo.DRF().allocate(typed), kind="utilisation")
    assert [name.split(":")[0] for name in names(ax.yaxis)] == ["T4"] * 6 + ["A10"] * 3


def test_no_resource_on_a_server_is_grey_not_zero() -> None:
    instance = fo.Instance([[1, 1], [1, 0]], np.array([[k + 1, k % 2] for k in range(14)]))
    a = fo.DRF().allocate(instance)
    shown = cells(plots.draw(a, kind="utilisation"))
    assert np.isnan(shown[::2, 1]).all() and not np.isnan(shown[1::2]).any()


# -- prices ---------------------------------------------------------------------------------------------------


def test_bars_and_their_numbers_are_the_price_of_all_capacity_and_names_carry_the_price_per_unit() -> None:
    a = fo.NashWelfare().allocate(
        fo.Instance([[2, 1], [1, 2]], [30, 32], resources=["cpu", "gpu"], units=["core", "GPU"])
    )
    assert a.prices is not None and (a.prices > 0).all()
    ax = plots.draw(a, kind="prices")
    worth = a.prices[0] * [30, 32]
    assert [bar.get_height() for bar in ax.containers[0]] == pytest.approx(100 * worth / worth.max())
    assert [t.get_text() for t in ax.texts] == [f"{100 * w / worth.max():.0f}" for w in worth]
    assert ax.get_ylabel() == "price of the whole capacity\n(% of the highest)"
    per = zip(["cpu", "gpu"], a.prices[0], ["core", "GPU"], strict=True)
    assert names(ax.xaxis) == [f"{r} {amount(p, 2)} per {unit}" for r, p, unit in per]
    several = fo.compare(["nash", "most-tasks"], a.instance).plot(kind="prices").axes
    assert names(several[0].xaxis) == ["cpu", "gpu"]  # prices per unit differ by panel


def test_a_price_of_zero_is_written_down_and_rounding_is_zero_too() -> None:
    by_hand = SimpleNamespace(name="by hand")  # without an objective: its prices stand as given
    for rest, shown in ((0.0, "0"), (1e-12, "0"), (1e-4, "<1")):
        a = fo.Allocation(POOL, by_hand, np.ones((2, 1)), fo.Certificate(0, 0, "x"), 0.0, np.array([[0.25, rest]]))
        ax = plots.draw(a, kind="prices")
        assert [t.get_text() for t in ax.texts] == ["100", shown]
        assert names(ax.xaxis) == ["cpu 0.25 per unit", "memory 1e-4 per GiB" if rest == 1e-4 else "memory 0 per GiB"]
        assert [bar.get_height() for bar in ax.containers[0]] == pytest.approx([100, 0.16 if rest == 1e-4 else 0])


def test_prices_that_are_all_zero_are_explained() -> None:
    a = fo.DRF().allocate(POOL.with_task_limits(1))
    ax = plots.draw(a, kind="prices")
    assert [t.get_text() for t in ax.texts] == ["0", "0"]
    assert ax.get_title().partition("\n")[2].startswith("all prices are zero")


def sentences(ax: Any) -> list[str]:
    return [line.replace("\n", " ") for line in ax.get_title().split("\n", 1)[1:]]


def test_prices_that_are_all_zero_are_explained_in_cells_too() -> None:
    limited = CLASSES.with_task_limits([0.5, None])
    assert (
        sentences(plots.draw(fo.DRF().allocate(limited), kind="prices")) == []
    )  # of the level that capacities determine
    assert sentences(plots.draw(fo.DRF().allocate(CLASSES.with_task_limits(0.1)), kind="prices")) == [
        "all prices are zero: all tasks run"
    ]
    assert sentences(plots.draw(fo.NashWelfare().allocate(limited), kind="prices")) == []
    both_full = fo.Instance([[1, 1], [2, 2]], [[4, 4], [6, 6], [4, 4]])
    for policy in (fo.DRF(), fo.NashWelfare()):
        for instance, has_bar in ((limited, True), (both_full, False)):
            picture = plots.draw(policy.allocate(instance), kind="prices")
            assert (picture.images[0].colorbar is not None) == has_bar
        ax = plots.draw(policy.allocate(both_full), kind="prices")
        assert sentences(ax) == ["all prices are zero: more of one resource alone raises nothing"]
        assert {t.get_text() for t in ax.texts if "all" not in t.get_text()} == {""}


def test_where_one_unit_less_costs_more_than_one_more_is_worth_both_numbers_are_there() -> None:
    at_limit = fo.Policy(fo.MaxMin(fo.Tasks())).allocate(fo.Instance([[4, 1], [5, 1]], [9, 9], task_limits=[1, 2]))
    assert [t.get_text() for t in plots.draw(at_limit, kind="prices").texts] == [
        "0 to 100",
        "0",
    ]
    scarce = fo.NashWelfare().allocate(fo.Instance([[1, 1, 1], [2, 2, 1], [0, 0, 1]], [2, 2, 3]))
    right, left = np.asarray(scarce.prices)[0], np.asarray(scarce.prices_left)[0]
    texts = [t.get_text() for t in plots.draw(scarce, kind="prices").texts]
    assert left[0] > 0 and right[0] == pytest.approx(0, abs=1e-9) and left[2] == pytest.approx(right[2])
    worth = left * [2, 2, 3]
    parts = [f"{100 * w / worth.max():.0f}" for w in worth]
    assert texts == [f"0 to {parts[0]}", f"0 to {parts[1]}", parts[2]]


def test_prices_by_class_are_cells_with_their_percent_in_them() -> None:
    instance = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]], resources=["cpu", "gpu"])
    a = fo.NashWelfare().allocate(instance)
    assert a.prices is not None
    ax = plots.draw(a, kind="prices")
    worth = a.prices * instance.total_capacities
    assert cells(ax) == pytest.approx(100 * worth / worth.max(), abs=1e-3)
    shown = [t.get_text() for t in ax.texts]
    assert shown == [f"{100 * w / worth.max():.0f}" for w in worth.flat]
    assert names(ax.yaxis) == ["server1 (1)", "server2 (1)"]


def test_identical_rows_share_a_price() -> None:
    a = fo.NashWelfare().allocate(CLASSES)
    assert a.prices is not None
    shown = cells(plots.draw(a, kind="prices"))
    mean = (2 * a.prices[0] + 3 * a.prices[2]) / 5 * CLASSES.total_capacities
    assert np.isnan(shown[1, 1])  # there is no gpu
    assert shown[0] / np.nanmax(shown) == pytest.approx(mean / np.nanmax([*mean, a.prices[1, 0] * 90]), abs=1e-6)


def test_without_prices_there_is_an_error_for_one_and_a_line_of_text_among_several() -> None:
    result = fo.compare(["ps-dsf", "nash"], CLASSES)
    with pytest.raises(fo.errors.InvalidBlock, match="PS-DSF has none; policies solved as one"):
        result.allocations["PS-DSF"].plot(kind="prices")
    panels = result.plot(kind="prices").axes
    assert panels[0].get_title().endswith("no prices") and not any(t.get_text() for t in panels[0].texts)
    assert np.isfinite(cells(panels[1])).any()
    with pytest.raises(fo.errors.InvalidBlock, match="no prices to draw"):
        fo.compare(["ps-dsf"], CLASSES).plot(kind="prices")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (330, "330"),
        (99.96, "100"),
        (12.34, "12.3"),
        (0.0045, "0.0045"),
        (2.1e-5, "2.1e-5"),
        (1e-5, "1e-5"),
        (4e7, "4e7"),
        (1234.5, "1,234"),
        (-0.5, "-0.5"),
        (1e-12, "1e-12"),
    ],
)
def test_amounts_take_few_letters(value: float, text: str) -> None:
    assert amount(value) == text


# -- panels and given axes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shares", "dominant", "utilisation", "prices", "envy"])
def test_panels_have_the_same_scales_names_and_titles(kind: str) -> None:
    result = fo.compare(["nash", "most-tasks"], CLASSES)
    panels = result.plot(kind=kind).axes[:2]
    assert [p.get_title().split("\n")[0] for p in panels] == list(result.allocations)
    assert len({(p.get_xlim(), p.get_ylim()) for p in panels}) == 1
    assert len({p.figure for p in panels}) == 1
    given = new_figure(6, 3).subplots(1, 2)
    assert result.plot(kind, ax=given) is given[0].figure
    with pytest.raises(fo.errors.InvalidBlock, match="1 axes for 2 policies"):
        result.plot(kind, ax=given[:1])


@pytest.mark.parametrize("kind", ["shares", "dominant", "utilisation", "prices", "envy"])
def test_given_axes_are_drawn_on_and_not_replaced(kind: str) -> None:
    figure = new_figure(6, 3)
    left, right = figure.subplots(1, 2)
    a = fo.NashWelfare().allocate(CLASSES)
    assert a.plot(kind, ax=left) is left
    assert left.has_data() and not right.has_data()
    figure.canvas.draw()


def test_a_figure_of_a_given_size_keeps_it_and_arranges_its_panels_to_fill_it() -> None:
    result = fo.compare(["nash", "most-tasks", "fds:alpha=2", "drf"], CLASSES)
    grids = {}
    for size in ((12.0, 3.0), (3.0, 12.0), (5.0, 9.0)):
        panels = plots.comparison(result, size=size).axes
        assert panels[0].figure.get_size_inches().tolist() == list(size)
        grids[size] = panels[0].get_gridspec().get_geometry()
    assert grids == {(12.0, 3.0): (1, 4), (3.0, 12.0): (4, 1), (5.0, 9.0): (2, 2)}


STRANGE = fo.Instance(
    np.ones((40, 2)),
    np.arange(1.0, 31.0)[:, None] * [1, 2],
    users=[f"_用户 $x_{j}$ {'long ' * 12}\n{j}" for j in range(40)],
    resources=["$cpu_1$\tx", "_" + "mémoire" * 9],
    units=["$", "Gi%s{0}"],
    servers=[f"\\rack^{s} {'x' * 60}" for s in range(30)],
)


@cache
def strange(second: bool) -> fo.report.Comparison:
    return fo.compare({"a $strange^$ name " * 5: fo.NashWelfare(), **({"_": fo.DRF()} if second else {})}, STRANGE)


@pytest.mark.parametrize("kind", ["shares", "dominant", "utilisation", "prices", "demands", "region", "envy"])
@pytest.mark.filterwarnings("ignore:no installed font")
def test_any_label_can_be_drawn_and_is_taken_literally(kind: str) -> None:
    options = {"users": STRANGE.users[:2]} if kind == "region" else {}
    figure = strange(kind in ("shares", "prices")).plot(kind=kind, **options)
    figure.draw_without_rendering()
    from matplotlib.text import Text

    shown = [t.get_text() for t in figure.findobj(Text)]
    assert all(len(line) <= 60 for text in shown for line in text.split("\n"))
    assert not any("\t" in text for text in shown)


@pytest.mark.parametrize("many", [4, 20])
def test_names_of_servers_that_begin_and_end_alike_keep_the_part_that_differs(many: int) -> None:
    rows = [f"production-a100-pool-{k:02}-europe-west4-highmem" for k in range(many)]
    pool = fo.Instance([[1, 1], [1, 0]], np.arange(2 * many).reshape(many, 2) + 1, servers=rows)
    ax = fo.DRF().allocate(pool).plot("utilisation")
    shown = names(ax.xaxis if many == 4 else ax.yaxis)
    assert len(set(shown)) == many
    assert all(f"{k:02}" in name for k, name in enumerate(shown))
