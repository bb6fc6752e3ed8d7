"""Section V of Joe-Wong et al. (2013): FDS, GFJ and DRF in a datacenter of two users, Figs. 7 to 16."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import joe_wong_2013_pictures as pictures
import numpy as np
from published import Row, Run, claim, number
from scipy.optimize import brentq

import fairopt as fo

FAMILIES: dict[str, Callable[..., fo.Policy]] = {"FDS": fo.FDS, "GFJ": fo.GFJ}
AT_2 = {"FDS": fo.FDS(beta=2, lam=-0.5), "GFJ": fo.GFJ(beta=2, lam=-0.5), "DRF": fo.DRF()}  # of Figs. 7 to 11
SQUARE, CROSSING = 6 * math.sqrt(3), math.log(3) / math.log(1.5)
FULL = 1e-6  # what may be left of a full resource
SAME = 1e-3  # percentage points: many times the gap of a certificate
PERCENT = "Fairness: smallest dominant share, in percent of DRF's; efficiency: tasks, in percent of the most."


def datacenter(ram: float = 18.0) -> fo.Instance:
    """9 CPUs and some GB of RAM; a task takes 1 CPU and 4 GB of user 1, 3 CPUs and 1 GB of user 2."""
    return fo.Instance([[1, 4], [3, 1]], [9, ram], resources=["CPU", "RAM"])


def swept(family: Callable[..., fo.Policy], instance: fo.Instance, **grid: Any) -> fo.tradeoff.Frontier:
    """A frontier on which every point is answered; Ctrl-C ends the run, where a frontier alone keeps what it has."""
    found = fo.frontier(family, instance, grid)
    if found.interrupted:
        raise KeyboardInterrupt
    assert not any(found["error"]), found["error"]
    return found


def listed(values: Any) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in zip(AT_2, values, strict=True))


def solved(demands: Any) -> tuple[Any, Any]:
    """Tasks and what is left of 9 CPUs and 18 GB: by policy, instance, and user or resource."""
    tasks = np.array([fo.allocate_many(policy, demands, [9, 18]).tasks for policy in AT_2.values()])
    return tasks, [9, 18] - np.einsum("pbj,bji->pbi", tasks, demands)


def figures_7_to_10(run: Run) -> Iterator[Row]:
    """User 2 needs 1 to 13 GB per task."""
    r = np.linspace(1, 13, 97)
    demands = np.array([[[1, 4], [3, need]] for need in r])
    spread = [fo.tradeoff.heterogeneity(fo.Instance(d, [9, 18])) for d in demands]
    tau, sigma = np.array([[h.tau_variance, h.sigma_variance] for h in spread]).T
    tasks, left = solved(demands)
    total, most = left.sum(axis=2), fo.allocate_many(fo.MostTasks(), demands, [9, 18]).tasks.sum(axis=1)
    efficiency = 100 * tasks.sum(axis=2) / most
    one, three, twelve = (int(np.argmin(abs(r - at))) for at in (1, 3, 12))
    yield number(
        "Sec. V-A",
        "variances of tau and sigma if user 2 needs 3 GB",
        "0.5, 4.5",
        [tau[three], sigma[three]],
    )
    place, added = "Figs. 7, 8", "CPUs plus GB."
    for (cpu, ram), name in zip(left.transpose(0, 2, 1) > FULL, AT_2, strict=True):
        holds = (ram == (r < 3)).all() and (cpu == (r > 3)).all()
        yield claim(
            place,
            f"{name}: only RAM is left below 3 GB, only CPUs above",
            holds,
            f"RAM up to {r[ram].max():.4g} GB, CPUs from {r[cpu].min():.4g} GB on",
            why="" if holds else "Both resources are full in a range around 3 GB.",
        )
    wide = total[:, (tau > 1) | (sigma > 5)]
    yield claim(
        place,
        "above variances of 1 (tau) and 5 (sigma) FDS leaves less than GFJ, GFJ less than DRF",
        (np.diff(wide, axis=0) > 0).all(),
        f"means: {listed(wide.mean(axis=1))}",
        reading=added,
    )
    more = r[total[0] > total[1] + FULL]
    yield claim(
        place,
        "FDS leaves least",
        not len(more),
        f"GFJ leaves less from {more.min():.4g} to {more.max():.4g} GB",
        why="FDS leaves least below 3 GB, GFJ for most demands above.",
    )
    place = "Figs. 9, 10"
    yield claim(
        place,
        "all three fully efficient near variances of 0.5 and 4.5",
        (efficiency[:, three] > 100 - SAME).all(),
        f"{listed(efficiency[:, three])} %",
        reading=PERCENT,
    )
    yield claim(
        place,
        "all three similarly efficient at low heterogeneity",
        np.ptp(efficiency[:, twelve]) < 1,
        f"without any {listed(efficiency[:, twelve])} %",
        why="GFJ runs equal numbers of tasks of unequal size.",
    )
    gain = (efficiency[:2] - efficiency[2]).max(axis=1)
    yield claim(
        place,
        "FDS and GFJ about 15 % more efficient than DRF at high variance",
        (abs(gain - 15) < 5).all(),
        f"at 1 GB {listed(efficiency[:, one])} %",
        why=f"At most {gain[0]:.2f} and {gain[1]:.2f} points from 1 to 13 GB.",
    )
    if run.draws:
        run.save(
            pictures.figures_7_to_10(tau, sigma, total, efficiency),
            "figs-7-10",
            "Figs. 7 to 10: user 2 needs 1 to 13 GB per task (dotted: 3).",
        )


def figure_11(run: Run) -> Iterator[Row]:
    """Users who need 2 CPUs and random RAM."""
    users, draws = (2, 3, 5, 8, 12, 20, 30, 50, 80, 120), 200

    def left(n: int, low: float, high: float) -> tuple[Any, Any, Any]:  # by policy; means; % of draws with no CPUs left
        needs = np.random.default_rng(n).uniform(low, high, size=(draws, n))
        left = solved(np.stack([np.full_like(needs, 2.0), needs], axis=2))[1]
        return left.sum(axis=2), left.sum(axis=2).mean(axis=1), 100 * (left[..., 0] <= FULL).mean(axis=1)

    totals, means, used = zip(*(left(n, 0, 6) for n in users), strict=True)
    reading = "RAM uniform from 0 to 6 GB; no range is given."
    yield claim(
        "Fig. 11",
        "from 20 users on only RAM is left",
        np.min(used[5:]) == 100,
        f"all CPUs in {np.min(used[5:]):g} % of {draws} draws; of 2 users {listed(used[0])} %",
        reading=reading,
    )
    yield claim(
        "Fig. 11",
        "with many users FDS and GFJ use more capacity than DRF",
        max(means[-1][:2]) < means[-1][2],
        f"mean left with {users[-1]} users: {listed(means[-1])}",
        reading=reading,
    )
    others = {f"{low} to {high} GB": left(users[-1], low, high)[1:] for low, high in ((1, 5), (0, 8), (1, 13))}
    yield claim(
        "Fig. 11",
        "other random RAM requirements give similar plots",
        all(min(used) == 100 and max(mean[:2]) < mean[2] for mean, used in others.values()),
        f"mean left with 1 to 13 GB: {listed(others['1 to 13 GB'][0])}",
        why="CPUs are left, and GFJ leaves more than DRF.",
    )
    if run.draws:
        run.save(
            pictures.figure_11(users, totals),
            "fig-11",
            "Fig. 11: units left if users need 2 CPUs and 0 to 6 GB per task (means and quartiles of 200 draws).",
        )


def figures_13_14(run: Run) -> Iterator[Row]:
    """Alpha-fairness by beta, and the RAM at which nothing is given up."""
    alphas = np.sort(np.append(np.linspace(0.1, 10, 100 if run.full else 34), CROSSING))
    fds, gfj = (swept(family, datacenter(), alpha=alphas) for family in FAMILIES.values())
    before, last, most = alphas <= CROSSING, alphas[-1], fo.MostTasks().allocate(datacenter()).tasks.sum()

    def tasks(family: Callable[..., fo.Policy], beta: float) -> Any:
        return family(beta).allocate(datacenter()).tasks

    same = brentq(lambda beta: float(tasks(fo.GFJ, beta) @ [2, -3]), 2, 4, xtol=1e-12)
    flat = [brentq(lambda b, of=of: tasks(of, b).sum() - most + FULL, 0.5, 3) for of in FAMILIES.values()]
    yield claim(
        "Fig. 13",
        "for small beta FDS runs the most tasks",
        flat[0] > 0.5,
        f"up to beta = {flat[0]:.4g} (ln 2 / ln (5/3) = {math.log(2) / math.log(5 / 3):.4g})",
    )
    yield claim(
        "Fig. 13",
        "GFJ runs fewer tasks than FDS",
        (gfj["tasks"] <= fds["tasks"] + FULL).all(),
        f"at beta = {last:g}: {gfj['tasks'][-1]:.3f} and {fds['tasks'][-1]:.3f}",
    )
    far = tasks(fo.FDS, 200)
    yield claim(
        "Figs. 13, 14",
        "FDS tends to DRF as beta grows",
        (np.diff(fds["fairness"]) >= -SAME).all() and abs(far - [3, 2]).max() < 0.01,
        f"{fds['fairness'][-1]:.1f} % fair at {last:g}; {far[0]:.3f} and {far[1]:.3f} tasks at 200",
    )
    yield number(
        "Fig. 14",
        "beta at which GFJ's optimum is DRF's",
        "2.6",
        same,
        why="It is ln 3 / ln 1.5.",
    )
    rises, falls = np.diff(gfj["fairness"][before]), np.diff(gfj["fairness"][~before])
    yield claim(
        "Fig. 14",
        "GFJ's fairness rises up to DRF's optimum, then falls",
        (rises >= -SAME).all() and (falls < 0).all(),
        f"{gfj['fairness'][0]:.1f} % at beta = {alphas[0]:g}, {gfj['fairness'][-1]:.1f} % at {last:g}",
        reading=PERCENT,
    )
    yield claim(
        "Fig. 14",
        "GFJ: below it a larger beta need not cost efficiency",
        (np.diff(gfj["efficiency"][before]) >= -SAME).all(),
        f"100 % up to beta = {flat[1]:.4g} (ln 3 / ln 2.5 = {math.log(3) / math.log(2.5):.4g}), then falling to "
        f"{gfj.drf['efficiency']:.1f} %",
        why="Where fairness rises, efficiency falls.",
    )

    def apart(ram: float, of: Callable[[fo.Allocation], Any]) -> float:
        return float(np.subtract(*of(fo.MostTasks().allocate(datacenter(ram)))))

    root = brentq(apart, 8, 12, args=(lambda a: a.share(fo.DominantShare()),), xtol=1e-12)
    yield claim(
        "Sec. V-B",
        "most tasks have equal dominant shares at 6 sqrt 3 GB",
        abs(root - SQUARE) < FULL,
        f"{root:.7g}, by root finding",
    )
    yield number(
        "Sec. V-B",
        "GB of RAM at which most tasks are equal tasks",
        "11.25",
        brentq(apart, 8, 14, args=(lambda a: a.tasks,), xtol=1e-12),
    )
    alike = brentq(lambda ram: float(np.subtract(*datacenter(ram).ratios.max(axis=1))), 8, 16, xtol=1e-12)
    yield number("Sec. V-A", "GB of RAM at which tasks have equal dominant shares", "12", alike)
    if run.draws:
        run.save(
            pictures.figures_13_14({"FDS": fds, "GFJ": gfj}, CROSSING),
            "figs-13-14",
            "Figs. 13 and 14: tasks, fairness and efficiency by beta on the boundary; dotted: ln 3 / ln 1.5 = 2.71.",
        )


def emphasis(beta: float, t: float) -> float:
    """Lambda, for t between 0.01 and 1.91: t for beta < 0, t (1/beta - 1) for beta > 0."""
    return t if beta < 0 else t * (1 / beta - 1)


def figures_12_15_16(run: Run) -> Iterator[Row]:
    """Each family over beta and lambda, by RAM capacity."""
    betas, ts = [0.5, 1.65, 4.95], [1.0, 1.91]
    if run.full:
        betas, ts = np.sort([0.15, *np.linspace(-4.95, 4.95, 10)]), np.linspace(0.01, 1.91, 5)
    rams = np.sort([4, SQUARE, 11.25, 12, 18, 25, *((5, 6, 7, 8, 9, 14, 16, 21) if run.full else ())])
    printed, place = np.linspace(0.001, 4.999, 4999), "Figs. 12, 15, 16"
    without = [_no_optimum(b, 0.48 * (1 / b - 2)) for b in printed.tolist()]
    ours = [_no_optimum(b, emphasis(b, t)) for b in printed.tolist() for t in (0.01, 1.91)]
    yield claim(
        place,
        "optima exist for lambda from 0.005 (1/beta - 2) to 0.955 (1/beta - 2), beta > 0",
        not any(without),
        f"none for beta from {printed[without].min():.3f} to {printed[without].max():.3f}",
        why="The sign is wrong from 1/2 to 1.",
        reading="" if any(ours) else "With 2/beta - 2 they exist everywhere.",
    )
    found = {
        name: [
            swept(lambda beta, t, of=of: of(beta=beta, lam=emphasis(beta, t)), datacenter(float(ram)), beta=betas, t=ts)
            for ram in rams
        ]
        for name, of in FAMILIES.items()
    }
    drf = np.array([f.drf["efficiency"] for f in found["FDS"]])
    span = {name: np.array([[f["efficiency"].min(), f["efficiency"].max()] for f in fs]) for name, fs in found.items()}
    both = [spans[np.searchsorted(rams, 12)] for spans in span.values()]
    yield claim(
        "Fig. 12",
        "FDS and GFJ have the same efficiency range at 12 GB",
        abs(both[0] - both[1]).max() < SAME,
        f"{both[0][0]:.2f} to {both[0][1]:.2f} % both",
        sampled=True,
    )
    above = {name: (spans[:, 0] - drf).min() for name, spans in span.items()}
    yield claim(
        "Fig. 12",
        "DRF bounds FDS's efficiency from below",
        above["FDS"] > -SAME,
        f"least efficient point of FDS {abs(above['FDS']):.2f} from DRF, of GFJ {-above['GFJ']:.2f} below",
        sampled=True,
    )
    for name, figure, ram, words in (("FDS", 15, SQUARE, "6 sqrt 3"), ("GFJ", 16, 11.25, "11.25")):
        k, width = int(np.searchsorted(rams, ram)), np.ptp(span[name], axis=1)
        yield claim(
            "Fig. 12",
            f"more capacity can widen {name}'s range",
            width[-1] > width[k],
            f"{width[0]:.1f} points at 4 GB, {width[k]:.1f} at {words}, {width[-1]:.1f} at 25",
            sampled=True,
        )
        point = [found[name][k][of] for of in ("fairness", "efficiency")]
        yield claim(
            f"Fig. {figure}",
            f"no trade-off for {name} at {words} GB",
            np.ptp(point, axis=1).max() < SAME,
            f"one point: {point[0].mean():.4f} %, {point[1].mean():.4f} %",
        )
    up = rams <= SQUARE
    fair = [swept(lambda _: fo.MostTasks(), datacenter(float(ram)), _=[0])["fairness"][0] for ram in rams[up]]
    yield claim(
        "Fig. 15",
        "from 4 to 6 sqrt 3 GB fairness and efficiency both rise",
        min(np.diff(drf[up]).min(), np.diff(fair).min()) >= -SAME,
        f"DRF is {drf[0]:.1f} to 100 % efficient, most tasks {fair[0]:.1f} to 100 % fair",
    )
    falls = {name: np.array([_falls(f) for f in fs]) for name, fs in found.items()}
    yield claim(
        "Fig. 15",
        "above 6 sqrt 3 GB fairness costs efficiency",
        falls["FDS"][~up].all(),
        f"no point of FDS is better in both than another at {falls['FDS'].sum()} of {len(rams)} sizes",
        sampled=True,
    )
    yield claim(
        "Fig. 16",
        "contours bend back: one fairness, several efficiencies",
        not falls["GFJ"].all(),
        f"some are at {sum(~falls['GFJ'])} sizes",
        sampled=True,
    )
    if run.draws:
        run.save(
            pictures.figure_12(rams, span, drf),
            "fig-12",
            "Fig. 12: efficiency of FDS and GFJ over beta and lambda, and of DRF.",
        )
        run.save(
            pictures.figures_15_16(rams, found, (4, 6, 8, SQUARE, 11.25, 14, 18, 25)),
            "figs-15-16",
            "Figs. 15 and 16: efficiency against fairness by RAM capacity.",
        )


def _falls(f: fo.tradeoff.Frontier) -> bool:
    """Whether no point is fairer and more efficient than another."""
    fairer = f["fairness"][:, None] > f["fairness"] + SAME
    return not (fairer & (f["efficiency"][:, None] > f["efficiency"] + SAME)).any()


def _no_optimum(beta: float, lam: float) -> bool:
    with suppress(fo.errors.InvalidBlock):
        return not fo.FDS(beta=beta, lam=lam)
    return True


EXPERIMENTS = (figures_7_to_10, figure_11, figures_13_14, figures_12_15_16)
