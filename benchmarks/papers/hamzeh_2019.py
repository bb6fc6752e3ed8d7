"""Hamzeh et al. (2019): MLF-DRS. See `published` for what a row is.

Run: python benchmarks/papers/hamzeh_2019.py [--quick]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from published import COLOURS, Paper, Row, Run, claim, listed, main, number, plt

import fairopt as fo

Float = NDArray[np.floating[Any]]
EXAMPLE = fo.Instance([[1, 4], [3, 1]], [9, 18])
USERS = ["user 1", "user 2", "user 3", "user 4"]
TABLE = fo.Instance([[3, 1], [5, 3], [1, 5], [2, 7]], [18, 36], users=USERS, resources=["CPU", "RAM"])
DRF = ((6, 2), (5, 3), (3, 12), (4, 14))  # printed
MLF_DRS = ((6.5, 2.3), (7.2, 4.3), (1.4, 14.7), (2.9, 14.7))


def whole_tasks() -> Float:
    """Whole tasks of the users of Table I by progressive filling."""
    scheduler = fo.Scheduler(TABLE)
    for user, units in zip(TABLE.users, TABLE.demands, strict=True):
        scheduler.submit(user, units, tasks=100)
    while scheduler.next_task():
        pass
    return np.array([*scheduler.running.values()], dtype=float)


def percents(units: Float) -> Float:
    """Part of CPU and RAM that the users of Table I hold."""
    return 100 * units.sum(axis=0) / TABLE.capacities[0]


def example(run: Run) -> Iterator[Row]:
    """DRF in the example of sec. III."""
    what, printed = "CPU and GB of a task of users 1 and 2, of capacity", "1/9, 4/18; 3/9, 1/18"
    yield number("Sec. III", what, printed, EXAMPLE.ratios.ravel())
    drf = fo.DRF().allocate(EXAMPLE)
    yield number("Sec. III", "CPU and GB of user 1 under DRF", "3, 12", drf.bundles[0, 0])
    yield number("Sec. III", "CPU and GB of user 2 under DRF", "6, 4", drf.bundles[1, 0], why="Two tasks take 2 GB.")
    words = "user 2 of sec. III gets exactly what it asked for"
    measured, why = f"{drf.tasks[1]:g} times what it asked for", "User 2 of Table I does."
    yield claim("Sec. IV", words, abs(drf.tasks[1] - 1) < 1e-6, measured, why=why)


def table_1_drf(run: Run) -> Iterator[Row]:
    """Table I: DRF, and what the text says of it."""
    tasks, divisible = whole_tasks(), fo.DRF().allocate(TABLE)
    units = tasks[:, None] * TABLE.demands
    used, found = percents(units)[1], percents(divisible.bundles[:, 0])[1]
    yield number(
        "Sec. IV",
        "percent of RAM used and wasted under DRF in Table I",
        "72%, 24%",
        [used, 100 - used],
        why=f"They do not add up to 100; divisible DRF uses {found:.1f}%.",
    )
    fair, asked = TABLE.capacities[0] / TABLE.n_users, TABLE.demands[1, 0]
    measured = f"{fair[0]:g} CPUs; user 2 asks for {asked:g}"
    words = "an equal part is 5 CPUs, less than user 2 asks for"
    yield claim("Sec. V", words, fair[0] == 5 < asked, measured, why="5 is the demand itself.")
    for k, printed in enumerate(DRF):
        reading = "Whole tasks by progressive filling."
        why = f"Three tasks take {units[k, 1]:g} GB." if k == 2 else ""
        what = f"DRF, CPU and GB of user {k + 1}"
        yield number("Table I", what, listed(printed), units[k], reading=reading, why=why)
    dominant = np.array(TABLE.resources)[(TABLE.demands / TABLE.capacities).argmax(axis=1)].tolist()
    words = "dominant resources: CPU for users 1 and 2, RAM for 3 and 4"
    yield claim("Sec. VI", words, dominant == ["CPU", "CPU", "RAM", "RAM"], ", ".join(dominant))
    yield claim(
        "Sec. VI",
        "under DRF user 2 cannot maximise its allocation, and user 3 can",
        tasks[1] == 1 < tasks[2],
        f"{tasks[1]:g} and {tasks[2]:g} times their demands",
        reading="Whole tasks.",
    )


def table_1_mlf_drs(run: Run) -> Iterator[Row]:
    """Table I: MLF-DRS, and Figs. 1 to 4."""
    mlf, equal = fo.MLFDRS().allocate(TABLE), fo.MLFDRS(growth="equal").allocate(TABLE)
    ours, other, printed = mlf.bundles[:, 0], equal.bundles[:, 0], np.array(MLF_DRS)
    yield number(
        "Table I",
        "MLF-DRS, CPU of users 1 to 4",
        listed(printed[:, 0]),
        ours[:, 0],
        reading="Growth in proportion to bases (the larger of dominant demand and fair share; the smaller for others).",
    )
    yield number(
        "Table I",
        "MLF-DRS, GB of users 3 and 4",
        listed(printed[2:, 1]),
        ours[2:, 1],
    )
    yield number(
        "Table I",
        "MLF-DRS, GB of users 1 and 2",
        listed(printed[:2, 1]),
        ours[:2, 1],
        why=f"Equal growth gives {listed(other[:2, 1])}, but {listed(other[:, 0])} CPUs.",
    )
    drf = fo.DRF().allocate(TABLE)
    yield claim(
        "Figs. 1, 2",
        "under MLF-DRS users get what they want, under DRF some do not",
        (mlf.tasks >= drf.tasks).all(),
        f"{listed(mlf.tasks)} tasks; DRF {listed(drf.tasks)}",
        reading="Read as at least the tasks of DRF.",
        why="Users 1, 3 and 4 run fewer tasks.",
    )
    held, used = percents(ours), percents(mlf.tasks[:, None] * TABLE.demands)
    units = whole_tasks()[:, None] * TABLE.demands
    theirs = f"DRF {listed(percents(drf.bundles[:, 0]))}"
    yield claim(
        "Figs. 3, 4",
        "MLF-DRS improves utilisation to 100% of CPU and of RAM",
        np.allclose(held, 100),
        f"{listed(held)}; {theirs}",
        reading="Of bundles.",
    )
    more = listed(percents(equal.tasks[:, None] * TABLE.demands))
    measured = f"{listed(used)}; equal growth: {more}"
    why = "Bundles are not multiples of demands."
    words = "MLF-DRS improves utilisation by tasks to 100%"
    yield claim("Figs. 3, 4", words, np.allclose(used, 100), measured, why=why)
    if run.draws:
        series = {
            "DRF, whole tasks": (units, units, np.array(DRF)),
            "DRF, divisible": (drf.bundles[:, 0], drf.bundles[:, 0], None),
            "MLF-DRS": (ours, mlf.tasks[:, None] * TABLE.demands, printed),
        }
        figures(run, series)


def figures(run: Run, series: Mapping[str, tuple[Float, Float, Float | None]]) -> None:
    """Figs. 1 and 2, and Figs. 3 and 4: what is held, used by tasks, and printed."""
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.4), layout="constrained", width_ratios=(4, 4, 2.4))
    for k, (name, (held, used, printed)) in enumerate(series.items()):
        for i, ax in enumerate(axes):
            h, u = (percents(x) if i == 2 else x[:, i] for x in (held, used))
            at = np.arange(len(h)) + 0.27 * (k - 1)
            ax.bar(at, h, 0.25, color=COLOURS[k], alpha=0.4)
            ax.bar(at, u, 0.25, color=COLOURS[k], label=name)
            if printed is not None and i < 2:
                ax.plot(at, printed[:, i], "_", color="black", markersize=9, label="printed" if k else None)
    titles, units = ("CPU (Fig. 1)", "RAM (Fig. 2)", "Figs. 3 and 4"), ("CPUs", "GB", "in use (%)")
    for ax, title, unit, names in zip(axes, titles, units, (USERS, USERS, TABLE.resources), strict=True):
        ax.set_xticks(range(len(names)), names)
        ax.set_title(title, fontsize=10)
        ax.set_ylabel(unit)
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    run.save(
        figure,
        "figs-1-to-4",
        "Figs. 1 to 4: CPU and RAM by user, and utilisation; lighter: held but not used by tasks.",
    )


PAPER = Paper("hamzeh-2019", "Hamzeh et al. (2019)", "MLF-DRS", (example, table_1_drf, table_1_mlf_drs))

if __name__ == "__main__":
    main(PAPER)
