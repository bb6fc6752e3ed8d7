"""Pictures in the manner of Hamzeh et al.'s (2021) Figs. 4 to 11; `hamzeh_2021` measures what they draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from published import COLOURS

LINES = (
    (COLOURS[0], "-", "H-FFMRA, bundles", "H-FFMRA", "bundles"),
    (COLOURS[2], "-", "H-FFMRA, tasks", "H-FFMRA", "tasks"),
    (COLOURS[5], "--", "DRF per server", "DRF per server", "tasks"),
)


def allocations(rounds: Any) -> Any:
    """Figs. 4 and 5: running means of what each of four users gets, and of their mean under DRF."""
    fig, axes = _grid(2, 2, sharey="col")
    for row, of in zip(axes, ("bundles", "tasks"), strict=True):
        for i, (ax, resource) in enumerate(zip(row, ("CPU", "RAM"), strict=True)):
            held, drf = (units[..., i] / 1000 for units in rounds.both(f"units of {of}"))
            for j, colour in enumerate(COLOURS[:4]):
                ax.plot(rounds.rounds[::10], _smooth(held[:, j]), color=colour, label=f"user {j + 1}")
            ax.plot(rounds.rounds[::10], _smooth(drf.mean(axis=1)), "--", color=COLOURS[5], label="DRF, mean of users")
            ax.set(title=f"{resource}, {of} (Fig. {4 + i})", ylim=(0, None))
        row[0].set_ylabel("1,000 units")
    return _done(fig, axes)


def curves(rounds: Any, ylabel: str, panels: Sequence[tuple[str, str, tuple[int, ...]]], ylim: Any = (0, 1.04)) -> Any:
    """A line for each policy, and for bundles and tasks, in panels of (title, measure, its index after the rounds)."""
    fig, axes = _grid(len(panels) // 2, 2, sharey="row")
    between = (rounds.rounds[1:] + rounds.rounds[:-1]) / 2
    edges = [rounds.rounds[0], *between, rounds.rounds[-1]]
    for ax, (title, measure, index) in zip(axes.flat, panels, strict=True):
        for n, k in enumerate(rounds.short.nonzero()[0]):
            ax.axvspan(edges[k], edges[k + 1], color="#E6E6E6", lw=0, label="_" if n else "requests exceed a server")
        for colour, style, label, policy, of in LINES:
            values = rounds.series[policy][f"{measure} of {of}"][(slice(None), *index)]
            ax.plot(rounds.rounds, values, style, color=colour, label=label)
        ax.set(title=title, ylim=ylim)
    for row in axes:
        row[0].set_ylabel(ylabel)
    return _done(fig, axes)


def _grid(rows: int, columns: int, **options: Any) -> tuple[Any, Any]:
    size = (7, 1 + 1.3 * rows)
    return plt.subplots(rows, columns, figsize=size, sharex=True, squeeze=False, layout="constrained", **options)


def _smooth(values: Any) -> Any:
    """Running means over a tenth of the rounds, of what there is near the ends; every tenth of them."""
    window = np.ones(2 * (len(values) // 20) + 1)
    return (np.convolve(values, window, "same") / np.convolve(np.ones(len(values)), window, "same"))[::10]


def _done(fig: Any, axes: Any) -> Any:
    """Grid lines, small type, and one legend below."""
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#E0E0E0", lw=0.6)
        ax.tick_params(labelsize=8)
        ax.title.set_fontsize(9)
    for ax in axes[-1]:
        ax.set_xlabel("round")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return fig
