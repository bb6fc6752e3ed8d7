"""Pictures of surveys: compatible people over the (beta, lambda) plane, and their preferences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.plots.common import check_axes, check_kind, colour, colour_bar, cut, fall_back_fonts, new_figure, plain
from fairopt.plots.panels import LEGEND
from fairopt.tradeoff.preferences import Survey

LARGEST = 500.0  # area of the largest bubble in square points
SHADES = "Blues"


def preferences(survey: Survey, kind: str = "heat", ax: Any = None) -> Any:
    """A picture of a survey; see `Survey.plot`."""
    check_kind(kind, KINDS, "survey")
    ax = new_figure(5.2, 3.9).subplots() if ax is None else ax
    check_axes(ax)
    KINDS[kind](survey, ax)
    number = len(survey.people)
    ax.set_title(f"{cut(survey.family, 24)}, {number:,} {'person' if number == 1 else 'people'}", fontsize=9)
    fall_back_fonts(ax.figure)
    return ax


def questions(surveys: Mapping[str, Survey]) -> Any:
    """A figure with a row for each question: compatible people, and their preferences.

    Examples
    --------
    >>> import fairopt as fo
    >>> found = Survey([(3, 3), (5, 2)], {"ann": [0, 1]}, "gfj", betas=[2], lams=[0])
    >>> [ax.get_title() for ax in questions({"1": found}).axes[:2]]
    ['question 1: gfj, 1 person', 'gfj, 1 person']
    """
    figure = new_figure(5.0 * len(KINDS), 3.7 * len(surveys))
    rows = figure.subplots(len(surveys), len(KINDS), squeeze=False)
    for (question, survey), axes in zip(surveys.items(), rows, strict=True):
        for kind, ax in zip(KINDS, axes, strict=True):
            preferences(survey, kind, ax)
        axes[0].set_title(f"question {cut(question, 24)}: {axes[0].get_title()}", fontsize=9)
    fall_back_fonts(figure)
    return figure


def _heat(survey: Survey, ax: Any) -> None:
    """Draw numbers of compatible people, the best point, and the boundary of Pareto efficiency (beta > 0)."""
    from matplotlib.ticker import MaxNLocator

    rows, columns = np.argsort(survey.betas), np.argsort(survey.lams)
    x, y, counts = _edges(survey.betas[rows]), _edges(survey.lams[columns]), survey.counts[np.ix_(rows, columns)]
    image = ax.pcolormesh(x, y, counts.T, cmap=SHADES, vmin=0, vmax=max(counts.max(), 1), rasterized=counts.size > 1e4)
    positive = np.linspace(max(x[0], 1e-3), max(x[-1], 1e-3), 1000)
    edge = (1 - positive) / positive
    if ((edge > y[0]) & (edge < y[-1])).any():
        ax.plot(positive, edge, color=colour(5), linewidth=1.2, label="edge of Pareto efficiency")
    ax.plot(*survey.best_point, "P", color="white", markeredgecolor="black", label="fewest pairs in the wrong order")
    ax.legend(loc="lower left", **LEGEND | {"frameon": True, "framealpha": 0.85})
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    ax.set_xlabel(r"$\beta$: type of fairness", fontsize=9)
    ax.set_ylabel(r"$\lambda$: emphasis on efficiency", fontsize=9)
    ax.tick_params(length=2, labelsize=8)
    colour_bar(image, ax, ax.figure, "compatible people", ticks=MaxNLocator(6, integer=True))


def _edges(middles: NDArray[Any]) -> NDArray[Any]:
    """Edges of cells centred at sorted numbers."""
    if len(middles) == 1:
        return middles[0] + np.array([-0.5, 0.5])
    inner = (middles[1:] + middles[:-1]) / 2
    return np.array([2 * middles[0] - inner[0], *inner, 2 * middles[-1] - inner[-1]])


def _clusters(survey: Survey, ax: Any) -> None:
    """Draw a bubble for each preference, with area proportional to the number of people, coloured by cluster."""
    tastes, first, people = np.unique(survey.tastes, axis=0, return_index=True, return_counts=True)
    cluster = survey.clusters()[0][first]
    for c in range(cluster.max() + 1):
        mine = cluster == c
        fairness, efficiency = tastes[mine].T
        ax.scatter(
            efficiency,
            fairness,
            s=LARGEST * people[mine] / people.max(),
            color=colour(c),
            alpha=0.6,
            linewidth=0.5,
            edgecolor="white",
            label=f"cluster {c + 1}: {people[mine].sum():,}",
        )
    legend = ax.legend(title="people", title_fontsize=8, loc="best", **LEGEND)
    for handle in legend.legend_handles:
        handle.set_sizes([40.0])
    ax.margins(0.15)
    plain(ax)
    ax.set_xlabel("efficiency: tasks", fontsize=9)
    ax.set_ylabel("fairness: - difference of tasks", fontsize=9)


KINDS: dict[str, Callable[[Survey, Any], None]] = {"heat": _heat, "clusters": _clusters}
