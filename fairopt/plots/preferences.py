"""Surveys of preferences: compatible people over the (beta, lambda) plane, their tastes, and their rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidBlock, nearest
from fairopt.plots.common import colour, cut, lettering, measured, new_figure, plain, shorter, ticks_below
from fairopt.plots.panels import LEGEND
from fairopt.tradeoff.preferences import Survey

__all__ = ["preferences", "questions"]

LARGEST = 500.0  # square points of the largest bubble
SHADES = "Blues"


def preferences(survey: Survey, kind: str = "heat", ax: Any = None) -> Any:
    """A picture of a survey; see `Survey.plot`.

    Examples
    --------
    >>> import fairopt as fo
    >>> people = {"ann": ["even", "more"], "bob": ["more", "even"]}
    >>> found = fo.preferences.Survey({"even": (3, 3), "more": (5, 2)}, people, "gfj", betas=[0.5, 2], lams=[-1, 0, 1])
    >>> preferences(found, "clusters").get_xlabel()
    'efficiency: tasks'
    """
    if kind not in KINDS:
        raise InvalidBlock(f"there is no picture {kind!r} of a survey; {nearest(kind, KINDS)}")
    if ax is None:
        ax = new_figure(5.2, 3.9).subplots()
    measured(ax)
    with lettering(survey.options, [ax]):
        KINDS[kind](survey, ax)
    return ax


def questions(surveys: Mapping[str, Survey]) -> Any:
    """A figure with a row for each question: compatible people, tastes and rankings.

    Examples
    --------
    >>> import fairopt as fo
    >>> found = fo.preferences.Survey({"even": (3, 3), "more": (5, 2)}, {"ann": [0, 1]}, "gfj", betas=[2], lams=[0])
    >>> [ax.get_title() for ax in questions({"1": found}).axes[:3]]
    ['question 1: 1 person', '', '']
    """
    figure = new_figure(5.0 * len(KINDS), 3.7 * len(surveys))
    rows = figure.subplots(len(surveys), len(KINDS), squeeze=False)
    for (question, survey), axes in zip(surveys.items(), rows, strict=True):
        for kind, ax in zip(KINDS, axes, strict=True):
            preferences(survey, kind, ax)
        number = len(survey.people)
        with lettering([question], [axes[0]]):
            title = f"question {cut(question, 30)}: {number:,} {'person' if number == 1 else 'people'}"
            axes[0].set_title(title, fontsize=9)
    return figure


def _heat(survey: Survey, ax: Any) -> None:
    """The number of compatible people, and the edge of the Pareto-efficient region (beta > 0)."""
    from matplotlib.ticker import MaxNLocator

    rows, columns = np.argsort(survey.betas), np.argsort(survey.lams)
    x, y, counts = _edges(survey.betas[rows]), _edges(survey.lams[columns]), survey.counts[np.ix_(rows, columns)]
    image = ax.pcolormesh(x, y, counts.T, cmap=SHADES, vmin=0, vmax=max(counts.max(), 1), rasterized=counts.size > 1e4)
    positive = np.linspace(max(x[0], 1e-3), x[-1], 1000) if x[-1] > 1e-3 else np.zeros(0)
    edge = np.array([(1 - b) / b for b in positive])
    if ((edge > y[0]) & (edge < y[-1])).any():
        ax.plot(positive, edge, color=colour(5), linewidth=1.2, label="edge of Pareto efficiency")
        ax.legend(loc="lower left", **LEGEND | {"frameon": True, "framealpha": 0.85})
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    ax.set_xlabel(r"$\beta$: type of fairness", fontsize=9)
    ax.set_ylabel(r"$\lambda$: emphasis on efficiency", fontsize=9)
    ax.tick_params(length=2, labelsize=8)
    bar = ax.figure.colorbar(image, ax=ax, aspect=30, ticks=MaxNLocator(6, integer=True))
    bar.set_label("compatible people", fontsize=8)
    bar.ax.tick_params(labelsize=8, length=2)
    bar.outline.set_visible(False)


def _clusters(survey: Survey, ax: Any) -> None:
    """A bubble for each taste, its area the number of people, coloured by cluster."""
    cluster, tastes = survey.clusters()[0], survey.tastes
    _, first, at = np.unique(survey.ranking_of, return_index=True, return_inverse=True)
    people = np.bincount(at.ravel())
    for c in range(cluster.max() + 1):
        mine = cluster[first] == c
        label = f"cluster {c + 1}: {people[mine].sum():,}"
        _bubbles(ax, tastes[first][mine, ::-1], people[mine], people.max(), colour(c), label)
    legend = ax.legend(title="people", loc="best", **LEGEND)
    for handle in legend.legend_handles:
        handle.set_sizes([40.0])
    legend.get_title().set_fontsize(8)
    ax.margins(0.15)
    plain(ax)
    ax.set_xlabel("efficiency: tasks", fontsize=9)
    ax.set_ylabel("fairness: - difference of tasks", fontsize=9)


def _ranks(survey: Survey, ax: Any) -> None:
    """A bubble for each option and rank, its area the number of people."""
    number, counts = len(survey.options), survey.ranks
    at, largest = np.argwhere(counts), min(LARGEST, (60 * min(measured(ax)) / number) ** 2)
    _bubbles(ax, at + np.array([0, 1]), counts[counts > 0], counts.max(), colour(0), largest=largest)
    for (option, rank), people in zip(at, counts[counts > 0].tolist(), strict=True) if number <= 8 else ():
        below = 0, -7 - np.sqrt(largest * people / counts.max() / np.pi)
        ax.annotate(f"{people:,}", (option, rank + 1), below, textcoords="offset points", ha="center", fontsize=6)
    ax.set_xlim(-0.7, number - 0.3)
    ax.set_ylim(number + 0.7, 0.3)
    plain(ax)
    ax.set_yticks(range(1, number + 1, max(1, number // 10)))
    ax.set_xlabel("option", fontsize=9)
    ax.set_ylabel("rank (area: people)", fontsize=9)
    ticks_below(ax, [shorter(name) for name in survey.options], measured(ax)[0], most=1.0)


def _bubbles(
    ax: Any, at: NDArray[Any], people: NDArray[Any], most: int, shade: str, label: str | None = None,
    largest: float = LARGEST,
) -> None:  # fmt: skip
    ax.scatter(*at.T, s=largest * people / most, color=shade, alpha=0.6, linewidth=0.5, edgecolor="white", label=label)


def _edges(middles: NDArray[Any]) -> NDArray[Any]:
    """Edges of cells around sorted numbers."""
    if len(middles) == 1:
        return middles[0] + np.array([-0.5, 0.5])
    inner = (middles[1:] + middles[:-1]) / 2
    return np.array([2 * middles[0] - inner[0], *inner, 2 * middles[-1] - inner[-1]])


KINDS: dict[str, Callable[[Survey, Any], None]] = {"heat": _heat, "clusters": _clusters, "ranks": _ranks}
