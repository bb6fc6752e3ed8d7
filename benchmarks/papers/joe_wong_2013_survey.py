"""Section VI of Joe-Wong et al. (2013): question 2 of their survey, and generated respondents in the place of theirs.

The 110 answers are not published; Figs. 18 to 21 are drawn of generated people with known parameters, in two groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from published import COLOURS, Row, Run, cannot, claim, number

import fairopt as fo

CLUSTER = fo.Instance([[1, 4], [3, 1]], [108, 180], users=["A", "B"], resources=["CPU", "storage"])
OPTIONS = {1: (24, 28), 2: (12, 32), 3: (36, 24), 4: (45, 0), 5: (27, 27)}  # tasks of A and B
TABLE = {
    1: "24, 96, 24; 84, 28, 28; 52",
    2: "12, 48, 12; 96, 32, 32; 44",
    3: "36, 144, 36; 72, 24, 24; 60",
    4: "45, 180, 45; 0, 0, 0; 45",
    5: "27, 108, 27; 81, 27, 27; 54",
}
CONSENSUS, EVEN = (3, 5, 1, 2, 4), (5, 3, 1, 2, 4)
BETAS, LAMS = np.delete(np.linspace(-5, 5, 41), 20), np.linspace(-2, 2, 41)  # without beta = 0
GIVEN: dict[str, Any] = {"betas": BETAS, "lams": LAMS, "instance": CLUSTER}
EMPHASIS = LAMS * np.where(BETAS > 1, -1, 1)[:, None]
ABLE = EMPHASIS >= 0
AXIS = "Grid of 40 by 41 points of [-5, 5] x [-2, 2]; theirs is not given."


def figure_17(run: Run) -> Iterator[Row]:
    """The table of question 2, and what the text says of its options."""
    for option, tasks in OPTIONS.items():
        held = [[Fraction(x) * int(d) for d in row] for x, row in zip(tasks, CLUSTER.demands, strict=True)]
        runs = [min(h / int(d) for h, d in zip(*both, strict=True)) for both in zip(held, CLUSTER.demands, strict=True)]
        yield number(
            "Fig. 17",
            "CPUs, TB, tasks of A; of B; all tasks; allocation 1" if option == 1 else f"allocation {option}",
            TABLE[option],
            [*held[0], runs[0], *held[1], runs[1], sum(runs)],
        )
    yield claim(
        "Sec. VI-B",
        "allocation 2 is less efficient than 4",
        sum(OPTIONS[2]) < sum(OPTIONS[4]) == OPTIONS[4][0],
        f"{sum(OPTIONS[2])} and {sum(OPTIONS[4])} tasks",
    )
    three, five = (CLUSTER.ratios.max(axis=1) * OPTIONS[option] for option in (3, 5))
    yield claim(
        "Sec. VI-B",
        "allocation 5 has less equitable dominant shares than 3, and a smaller sum",
        five.max() / five.sum() > three.max() / three.sum() and five.sum() < three.sum(),
        f"{five[0]:.4g} + {five[1]:.4g} = {five.sum():.4g}; {three[0]:.4g} + {three[1]:.4g} = {three.sum():.4g}",
    )


def compatible_points(run: Run) -> Iterator[Row]:
    """The points (beta, lambda) that give a ranking of question 2."""
    place, upside = "Sec. VI-B", {option: OPTIONS[option] for option in (3, 5)}
    five_first = fo.tradeoff.preferences.compatible(upside, [5, 3], "fds", **GIVEN)
    yield claim(
        place,
        "FDS ranks 3 above 5 for all beta and lambda",
        not five_first.any(),
        f"not at {five_first.sum()} of {ABLE.size} points, {five_first[ABLE].sum()} with emphasis >= 0",
        reading=AXIS,
        why="With negative emphasis a smaller sum is better.",
    )
    found = {
        (family, ranking): fo.tradeoff.preferences.compatible(OPTIONS, ranking, family, **GIVEN)
        for family in ("gfj", "fds")
        for ranking in permutations(OPTIONS)
    }
    for family in ("gfj", "fds"):
        points = found[family, CONSENSUS]
        others = [r for r in permutations(OPTIONS) if found[family, r][ABLE].any() and r != CONSENSUS]
        yield claim(
            place,
            f"{family.upper()} explains the consensus 3, 5, 1, 2, 4",
            points.any(),
            f"{points.sum()} of {points.size} points, {points[ABLE].sum()} of {ABLE.sum()} with emphasis >= 0",
            reading=AXIS,
        )
    yield claim(
        "Fig. 21",
        "under FDS all points agree with cluster 1, none with cluster 2",
        not others,
        "no other ranking has a point with emphasis >= 0",
        reading="With emphasis >= 0.",
    )
    both = [found["gfj", ranking] & ABLE for ranking in (CONSENSUS, EVEN)]
    means = np.array([[EMPHASIS[k, points[k]].mean() for points in both] for k in np.flatnonzero(both[1].any(axis=1))])
    clusters = "Under GFJ, rankings 3, 5, 1, 2, 4 and 5, 3, 1, 2, 4."
    yield claim(
        "Fig. 20",
        "cluster 1 has larger |lambda| than cluster 2",
        (means[:, 0] > means[:, 1]).all(),
        f"at each beta; means {means[:, 0].mean():.2f} and {means[:, 1].mean():.2f}",
        reading=clusters,
    )
    above, boundary = BETAS > 1, np.abs((1 - BETAS) / BETAS)[:, None]
    below = [100 * (points & (boundary > EMPHASIS))[above].sum() / points[above].sum() for points in both]
    yield claim(
        "Fig. 20",
        "for beta > 1 most points of cluster 2, not of cluster 1, are not Pareto-efficient",
        below[1] > 50 > below[0],
        f"{below[1]:.1f} % and {below[0]:.1f} % are below the boundary",
        reading=clusters,
    )
    at = [fo.tradeoff.preferences.compatible(OPTIONS, CONSENSUS, "gfj", betas=[2], lams=[lam]).all() for lam in (2, -2)]
    yield claim(
        "Figs. 20, 21",
        "the consensus is compatible with (beta, lambda) = (2, 2)",
        at[0],
        f"{'yes' if at[0] else 'no'} at (2, 2), {'yes' if at[1] else 'no'} at (2, -2)",
        why="Eq. 7 needs lambda < 0 at beta = 2; their axis may be |lambda|.",
    )


def surveyed(emphasis: Any) -> fo.tradeoff.preferences.Survey:
    """Generated people with beta from 1.5 to 5 and these emphases, under GFJ."""
    betas = np.random.default_rng(0).uniform(1.5, 5, len(emphasis))
    rankings = fo.tradeoff.preferences.respondents(OPTIONS, "gfj", np.column_stack([betas, -np.asarray(emphasis)]))
    return fo.tradeoff.preferences.Survey(OPTIONS, rankings, "gfj", **GIVEN)


def generated_respondents(run: Run) -> Iterator[Row]:
    """Figs. 18 to 21 of 110 generated people, in two groups of 55."""
    rng, people = np.random.default_rng(1), 110
    survey = surveyed([*rng.uniform(0.6, 2, people // 2), *rng.uniform(0.02, 0.2, people // 2)])
    rankings = {p: [survey.options[i] for i in r] for p, r in zip(survey.people, survey.rankings, strict=True)}
    fds = fo.tradeoff.preferences.Survey(OPTIONS, rankings, "fds", **GIVEN)
    cluster, _ = survey.clusters()
    right = 100 * np.mean(cluster == (np.arange(people) >= people // 2))
    without = np.bincount(surveyed(rng.uniform(0.02, 1, people)).clusters()[0])
    yield claim(
        "Fig. 19",
        "average fairness and efficiency separate two groups of people",
        right > 90,
        f"{right:.0f} % correct; people without groups form two of {without[0]} and {without[1]}",
        reading="110 generated people: 55 with emphasis 0.6 to 2, 55 with 0.02 to 0.2.",
    )
    counts = [survey.select(cluster == c).counts[ABLE].max() / (cluster == c).mean() / people for c in (0, 1)]
    yield claim(
        "Fig. 20",
        "a majority of each cluster agrees on a point under GFJ",
        min(counts) > 0.5,
        f"{100 * counts[0]:.0f} % and {100 * counts[1]:.0f} %",
        reading="Of 110 generated people.",
    )
    explained = [100 * (fds.wrong[cluster == c][:, ABLE] == 0).any(axis=1).mean() for c in (0, 1)]
    yield claim(
        "Fig. 21",
        "under FDS people of cluster 1 agree with points, of cluster 2 with none",
        explained[0] > 0 == explained[1],
        f"{explained[0]:.0f} % and {explained[1]:.0f} %",
        reading="Of 110 generated people.",
    )
    half = {option: np.divide(tasks, 2) for option, tasks in OPTIONS.items()}
    scaled = fo.tradeoff.preferences.Survey(half, rankings, "gfj", **GIVEN).wrong
    yield claim(
        "Sec. VI-B",
        "f ranks options alike when all are scaled",
        np.array_equal(scaled, survey.wrong),
        "the same points with halved options",
    )
    for place, what, printed in (
        ("Fig. 18", "ranks given in six questions", "110 complete answers of 143"),
        ("Fig. 19", "people in each group, question 1", "52"),
        ("Fig. 20", "people of clusters 1 and 2 who agree on a point", "50 % and 60 %"),
        ("Fig. 20", "the point of most compatible answers", "(2, 2)"),
        ("Fig. 21", "people of cluster 1 who agree with every point", "50 %"),
    ):
        yield cannot(place, what, printed, "Answers are not published.")
    if run.draws:
        _pictures(run, survey, fds, cluster)


def _pictures(
    run: Run, survey: fo.tradeoff.preferences.Survey, fds: fo.tradeoff.preferences.Survey, cluster: NDArray[np.int64]
) -> None:
    fig, (ax, other) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for rank, column in enumerate(survey.rankings.T, 1):
        for option, count in zip(*np.unique(column + 1, return_counts=True), strict=True):
            ax.scatter(option, rank, s=3 * count, color=COLOURS[0])
            ax.annotate(str(count), (option, rank), (11, -3), textcoords="offset points", fontsize=8)
    ax.set(xlabel="allocation", ylabel="rank (1: best)", xlim=(0.5, 5.7), ylim=(5.5, 0.5), title="ranks given")
    survey.plot("clusters", ax=other)
    run.save(
        fig,
        "figs-18-19",
        "Figs. 18 and 19, of generated people: ranks of the allocations of question 2, and average fairness and "
        "efficiency.",
    )
    for found, figure, text in (
        (survey, 20, "GFJ explains both clusters"),
        (fds, 21, "FDS explains the first, not the second"),
    ):
        fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
        for c, axis in enumerate(axes):
            found.select(cluster == c).plot(ax=axis)
            axis.set_title(f"{axis.get_title()}, cluster {c + 1}", fontsize=9)
        run.save(
            fig,
            f"fig-{figure}",
            f"Fig. {figure}, of the same people: {text}.",
        )


EXPERIMENTS = (figure_17, compatible_points, generated_respondents)
