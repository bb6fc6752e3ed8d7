"""Section V of Joe-Wong et al. (2013): FDS, GFJ and DRF in a datacenter of two users, and Figs. 7 to 16 drawn again.

Each printed claim stands beside what is measured here. Where the paper leaves an experiment open, the choice is ours
and is said below. Run:

    python benchmarks/papers/joe_wong.py [--betas 14 --lams 7 --steps 22 --seeds 20]

Pictures and tables (JSON) go to benchmarks/out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from scipy.optimize import brentq

import fairopt as fo

sys.path.insert(0, str(Path(__file__).parents[1]))  # this script is run by its path
import joe_wong_pictures as pictures
from common import OUT, arguments, show

Float = NDArray[np.floating[Any]]
Measured = dict[str, Float]
FAMILIES: dict[str, Callable[..., fo.Policy]] = {"FDS": fo.FDS, "GFJ": fo.GFJ}
AT_2 = {"FDS": fo.FDS(beta=2, lam=-0.5), "GFJ": fo.GFJ(beta=2, lam=-0.5), "DRF": fo.DRF()}  # of Figs. 7 to 11
FULL = 1e-6  # what may be left of a full resource, and how far percentages of one point may be apart
# Fig. 11 does not say from which distribution RAM requirements are. Its CPUs are full and its RAM is not, which takes a
# mean below 4 GB, and it tells the policies apart, which takes some users above 4 GB, where RAM is dominant.
UNIFORM = (0.0, 6.0)
OTHERS = ((1.0, 5.0), (0.0, 8.0), (1.0, 13.0))


def datacenter(ram: float = 18.0, second: float = 1.0) -> fo.Instance:
    """9 CPUs and some GB of RAM; a task takes 1 CPU and 4 GB of user 1, 3 CPUs and some GB of user 2."""
    return fo.Instance(
        [[1, 4], [3, second]], [9, ram], users=["user 1", "user 2"], resources=["CPU", "RAM"],
        units={"CPU": "CPUs", "RAM": "GB"},
    )  # fmt: skip


def measured(policies: Sequence[fo.Policy], instance: fo.Instance) -> Measured:
    """Percent fairness, percent efficiency, tasks by user and what is left of CPU and RAM; policies on the first axis."""
    level, most = fo.DRF().allocate(instance).shares.min(), fo.NoFairness().allocate(instance).tasks.sum()
    answers = [policy.allocate(instance) for policy in policies]
    return {
        "fairness": np.array([100 * a.share(fo.DominantShare()).min() / level for a in answers]),
        "efficiency": np.array([100 * a.tasks.sum() / most for a in answers]),
        "tasks": np.array([a.tasks for a in answers]),
        "left": np.array([a.leftover.sum(axis=0) for a in answers]),
    }


# -- experiments ----------------------------------------------------------------------------------------------------


def by_requirement(steps: int) -> Measured:
    """Figs. 7 to 10: user 2 needs 1 to 13 GB per task; sample variances of tau and sigma, as the paper's numbers are."""
    requirements = np.unique(np.append(np.linspace(1, 13, steps), 3.0))
    found = [measured(list(AT_2.values()), datacenter(second=float(r))) for r in requirements]
    table = np.array([datacenter(second=float(r)).demands for r in requirements])
    return {
        "requirement": requirements,
        "tau": (table[:, 0] / table[:, 1]).var(axis=1, ddof=1),
        "sigma": (table[:, :, 1] / table[:, :, 0]).var(axis=1, ddof=1),
        **{name: np.array([m[name] for m in found]) for name in found[0]},
    }


def by_users(users: Sequence[int], seeds: int, uniform: tuple[float, float]) -> Float:
    """Fig. 11: what is left of 9 CPUs and 18 GB by number of users, seed and policy, (len(users), seeds, 3, 2)."""
    left = np.zeros((len(users), seeds, len(AT_2), 2))
    for k, n in enumerate(users):
        for seed in range(seeds):
            needs = np.random.default_rng(seed).uniform(*uniform, size=n)
            instance = fo.Instance(np.column_stack([np.full(n, 2.0), needs]), [9, 18])
            left[k, seed] = [policy.allocate(instance).leftover.sum(axis=0) for policy in AT_2.values()]
    return left


def by_alpha(alphas: Float) -> dict[str, Measured]:
    """Figs. 13 and 14: alpha-fairness of both families."""
    return {name: measured([family(float(a)) for a in alphas], datacenter()) for name, family in FAMILIES.items()}


def emphasis(beta: float, t: float) -> float:
    """Lambda, for t between 0.01 and 1.91: t for beta < 0, t (1/beta - 1) for beta > 0.

    The captions of Figs. 12, 15 and 16 print 0.005 to 0.955 times (1/beta - 2) for beta > 0. That has the wrong sign for
    1/2 < beta < 1, where f then has no optimum; 2/beta - 2 in its place has the right one everywhere, and the same
    numbers as beta < 0.
    """
    return t if beta < 0 else t * (1 / beta - 1)


def attained(rams: Float, betas: Float, ts: Float) -> dict[str, list[Measured]]:
    """Figs. 12, 15 and 16: each family over beta and lambda, by RAM capacity."""
    plane = [(float(beta), emphasis(float(beta), float(t))) for beta in betas for t in ts]
    return {
        name: [
            measured([family(beta=beta, lam=lam) for beta, lam in plane], datacenter(float(ram)))
            for ram in track(rams, f"{name} by RAM capacity")
        ]
        for name, family in FAMILIES.items()
    }


# -- claims ---------------------------------------------------------------------------------------------------------


def _claim(place: str, printed: str, holds: bool, found: str) -> dict[str, Any]:
    return {"place": place, "printed": printed, "holds": "yes" if holds else "NO", "measured": found}


def _root(of: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(of, low, high, xtol=1e-13, rtol=1e-13))


def numbers() -> Iterator[dict[str, Any]]:
    """Single numbers, by root finding on allocations."""
    wanted = {
        "FDS: dominant shares are equal where most tasks run": (
            "6 sqrt 3 GB", 6 * math.sqrt(3), lambda ram: _apart(fo.NoFairness().allocate(datacenter(ram)).share(fo.DominantShare())),
            (8, 12),
        ),
        "GFJ: tasks are equal where most run": (
            "11.25 GB", 11.25, lambda ram: _apart(fo.NoFairness().allocate(datacenter(ram)).tasks), (8, 14),
        ),
        "a task of each user is the same dominant share": (
            "12 GB", 12.0, lambda ram: _apart(datacenter(ram).ratios.max(axis=1)), (8, 16),
        ),
        "GFJ allocates as DRF": (
            "beta = 2.6", 2.6, lambda alpha: _apart(fo.GFJ(alpha).allocate(datacenter()).tasks * [2, 3]), (2, 4),
        ),
    }  # fmt: skip
    for what, (printed, value, of, (low, high)) in wanted.items():
        root = _root(of, low, high)
        yield _claim("sec. V", f"{what} at {printed}", abs(root - value) <= 1e-6, f"{root:.9f}")
    crossing = math.log(3) / math.log(1.5)
    yield _claim("", "(the same from the conditions: ln 3 / ln 1.5)", abs(root - crossing) <= 1e-6, f"{crossing:.9f}")


def _apart(pair: Float) -> float:
    return float(pair[0] - pair[1])


def about_requirements(m: Measured) -> Iterator[dict[str, Any]]:
    """Figs. 7 to 10."""
    r, left, efficiency, names = m["requirement"], m["left"], m["efficiency"], list(AT_2)
    three, twelve = int(np.argmin(abs(r - 3))), int(np.argmin(abs(r - 12)))
    yield _claim(
        "Figs. 7, 8", "at 3 GB the variance of tau is 0.5 and that of sigma 4.5",
        bool(abs(m["tau"][three] - 0.5) + abs(m["sigma"][three] - 4.5) < 1e-12),
        f"{m['tau'][three]:.3f} and {m['sigma'][three]:.3f} (sample variances)",
    )  # fmt: skip
    for k, name in enumerate(names):
        cpu, ram = left[:, k, 0] > FULL, left[:, k, 1] > FULL
        yield _claim(
            "Figs. 7, 8", f"{name}: below 3 GB only RAM is left, above only CPUs",
            bool((ram == (r < 3)).all() and (cpu == (r > 3)).all()),
            f"RAM up to {r[ram].max():.4g} GB, CPUs from {r[cpu].min():.4g} GB on, nothing between",
        )  # fmt: skip
    total, wide = left.sum(axis=2), m["tau"] > 1
    yield _claim(
        "Figs. 7, 8", "FDS leaves less than GFJ, and GFJ less than DRF, beyond a variance of tau of 1",
        bool((np.diff(total[wide], axis=1) > 0).all()), f"means there: {_listed(names, total[wide].mean(axis=0))}",
    )  # fmt: skip
    more = total[:, 0] > total[:, 1] + FULL
    yield _claim(
        "Figs. 7, 8", "FDS leaves least", not more.any(),
        f"GFJ leaves less from {r[more].min():.4g} to {r[more].max():.4g} GB; at 6 GB "
        f"{_listed(names, total[int(np.argmin(abs(r - 6)))])}",
    )  # fmt: skip
    yield _claim(
        "Figs. 9, 10", "full efficiency of all three near 0.5 and 4.5", bool((efficiency[three] > 100 - FULL).all()),
        f"at 3 GB {_listed(names, efficiency[three])} %",
    )  # fmt: skip
    gain = efficiency[0, :2] - efficiency[0, 2]
    yield _claim(
        "Figs. 9, 10", "about 15% more efficient than DRF as the variance grows", bool((abs(gain - 15) < 5).all()),
        f"at 1 GB {_listed(names, efficiency[0])} %; no allocation is more than {100 - efficiency[0, 2]:.1f} points above DRF",
    )  # fmt: skip
    yield _claim(
        "Figs. 9, 10", "similar efficiency of all three for low heterogeneity", bool(np.ptp(efficiency[twelve]) < 1),
        f"without heterogeneity (12 GB) {_listed(names, efficiency[twelve])} %",
    )  # fmt: skip


def about_users(users: Sequence[int], left: Float, uniform: tuple[float, float]) -> Iterator[dict[str, Any]]:
    """Fig. 11."""
    full = left[..., 0] <= FULL
    place, where = "Fig. 11", f"RAM uniform from {uniform[0]:g} to {uniform[1]:g} GB"
    yield _claim(
        place, f"all CPUs are used, only RAM is left ({where})", bool(full.all() and (left[..., 1] > FULL).all()),
        f"all CPUs used in {_listed(list(AT_2), 100 * full.mean(axis=(0, 1)))} % of the draws",
    )  # fmt: skip
    many = left[-1].mean(axis=0).sum(axis=1)
    yield _claim(
        place, f"with many users FDS and GFJ leave less than DRF ({where})", bool(many[:2].max() < many[2]),
        f"GB and CPUs left at {users[-1]} users, mean: {_listed(list(AT_2), many)}",
    )  # fmt: skip


def about_alpha(alphas: Float, m: dict[str, Measured]) -> Iterator[dict[str, Any]]:
    """Figs. 13 and 14."""
    fds, gfj = m["FDS"], m["GFJ"]
    crossing = math.log(3) / math.log(1.5)
    before = alphas <= crossing
    yield _claim(
        "Fig. 14", "GFJ's fairness grows up to the crossing, and falls after it",
        bool((np.diff(gfj["fairness"][before]) >= -FULL).all() and (np.diff(gfj["fairness"][~before]) < 0).all()),
        f"{gfj['fairness'][0]:.1f} % at beta = {alphas[0]:g}, {gfj['fairness'].max():.1f} %, {gfj['fairness'][-1]:.1f} % at "
        f"{alphas[-1]:g}",
    )  # fmt: skip
    flat = alphas[gfj["efficiency"] > 100 - FULL].max()
    yield _claim(
        "Fig. 14", "GFJ: more emphasis on fairness need not cost efficiency below the crossing",
        bool((np.diff(gfj["efficiency"][before]) >= -FULL).all()),
        f"100 % efficient, and no fairer, up to beta = {flat:.3f} (ln 3 / ln 2.5 = {math.log(3) / math.log(2.5):.3f}), "
        f"then less the larger beta is: {gfj['efficiency'][before][-1]:.1f} % before the crossing",
    )  # fmt: skip
    yield _claim(
        "Fig. 13", "GFJ runs fewer tasks than FDS", bool((gfj["efficiency"] <= fds["efficiency"] + FULL).all()),
        f"at beta = {alphas[-1]:g}: {gfj['efficiency'][-1]:.1f} % against {fds['efficiency'][-1]:.1f} %",
    )  # fmt: skip
    flat = alphas[fds["efficiency"] > 100 - FULL].max()
    yield _claim(
        "Fig. 13", "FDS runs most tasks for small beta", bool(flat > 1),
        f"up to beta = {flat:.3f} (ln 2 / ln (5/3) = {math.log(2) / math.log(5 / 3):.3f})",
    )  # fmt: skip
    far = fo.FDS(200).allocate(datacenter()).tasks
    yield _claim(
        "Figs. 13, 14", "FDS tends to DRF as beta grows", bool(abs(far - [3, 2]).max() < 0.01 and (np.diff(fds["fairness"]) >= -FULL).all()),
        f"tasks {far.round(4).tolist()} at beta = 200; fairness {fds['fairness'][-1]:.1f} % at {alphas[-1]:g}",
    )  # fmt: skip


def about_attained(rams: Float, found: dict[str, list[Measured]], drf: Measured) -> Iterator[dict[str, Any]]:
    """Figs. 12, 15 and 16."""
    span = {name: np.array([[m["efficiency"].min(), m["efficiency"].max()] for m in ms]) for name, ms in found.items()}
    at = {ram: int(np.argmin(abs(rams - ram))) for ram in (6 * math.sqrt(3), 11.25, 12.0, 18.0)}
    twelve = at[12.0]
    yield _claim(
        "Fig. 12", "the same range of efficiency for FDS and GFJ at 12 GB",
        bool(abs(span["FDS"][twelve] - span["GFJ"][twelve]).max() < 1e-4),
        f"FDS {_span(span['FDS'][twelve])}, GFJ {_span(span['GFJ'][twelve])} %",
    )  # fmt: skip
    below = span["FDS"][:, 0] - drf["efficiency"]
    yield _claim(
        "Fig. 12", "DRF is a lower bound of the efficiency of FDS", bool(below.min() > -1e-4),
        f"at least {below.min():+.1e} points above DRF, at every capacity",
    )  # fmt: skip
    below = span["GFJ"][:, 0] - drf["efficiency"]
    yield _claim(
        "Fig. 12", "(the same of GFJ, not claimed)", bool(below.min() > -1e-4),
        f"{below.min():+.1f} points at {rams[below.argmin()]:.3g} GB",
    )  # fmt: skip
    width = {name: np.ptp(s, axis=1) for name, s in span.items()}
    yield _claim(
        "Fig. 12", "capacity can widen the range", bool(width["FDS"][-1] > width["FDS"][0]),
        f"FDS {width['FDS'][0]:.1f} points at {rams[0]:g} GB, {width['FDS'][at[6 * math.sqrt(3)]]:.1e} at 6 sqrt 3, "
        f"{width['FDS'][-1]:.1f} at {rams[-1]:g}; GFJ {width['GFJ'][0]:.1f}, {width['GFJ'][at[11.25]]:.1e} at 11.25, "
        f"{width['GFJ'][-1]:.1f}",
    )  # fmt: skip
    ideal, gfj = found["FDS"][at[6 * math.sqrt(3)]], found["GFJ"][at[11.25]]
    worst = min(ideal["efficiency"].min(), ideal["fairness"].min())
    yield _claim(
        "Fig. 15", "FDS is 100% fair and efficient at 6 sqrt 3 GB", bool(worst > 100 - 1e-3), f"at least {worst:.6f} %",
    )  # fmt: skip
    spread = max(np.ptp(gfj["efficiency"]), np.ptp(gfj["fairness"]))
    yield _claim(
        "Fig. 16", "GFJ has no trade-off at 11.25 GB", bool(spread < 1e-3),
        f"one point, {gfj['fairness'].mean():.2f} % fair and {gfj['efficiency'].mean():.2f} % efficient (spread {spread:.0e})",
    )  # fmt: skip
    up = rams <= 6 * math.sqrt(3)
    drf_rises = (np.diff(drf["efficiency"][up]) >= -FULL).all()
    most = np.array([m["fairness"][m["efficiency"].argmax()] for m in found["FDS"]])
    yield _claim(
        "Fig. 15", "from 4 to 6 sqrt 3 GB both fairness and efficiency can be increased",
        bool(drf_rises and (np.diff(most[up]) >= -1e-3).all()),
        f"the fairest point (DRF) is {drf['efficiency'][0]:.1f} to 100 % efficient, the most efficient {most[0]:.1f} to 100 % "
        "fair; at one capacity each costs the other",
    )  # fmt: skip
    for name, ms in found.items():
        above = [k for k in range(len(rams)) if rams[k] > 6 * math.sqrt(3) + 1e-9]
        slopes = [_falls(ms[k]) for k in above]
        yield _claim(
            "Fig. 15" if name == "FDS" else "Fig. 16",
            "above 6 sqrt 3 GB more fairness costs efficiency" if name == "FDS" else "contours bend back: one fairness, several efficiencies",
            all(slopes) if name == "FDS" else not all(slopes),
            f"efficiency falls along fairness at {sum(slopes)} of {len(slopes)} capacities",
        )  # fmt: skip
    betas = np.linspace(0.001, 4.999, 999)
    refused = [_no_optimum(float(beta), 0.48 * (1 / beta - 2)) for beta in betas]
    none = betas[np.array(refused)]
    yield _claim(
        "Figs. 12, 15, 16", "lambda from 0.005 (1/beta - 2) to 0.955 (1/beta - 2) for beta > 0", not any(refused),
        f"no optimum for beta from {none.min(initial=np.inf):.3f} to {none.max(initial=-np.inf):.3f}; 2/beta - 2 fits",
    )  # fmt: skip


def _falls(m: Measured) -> bool:
    """Whether efficiency never rises with fairness."""
    order = np.lexsort((-m["efficiency"], m["fairness"].round(6)))
    return bool((np.diff(m["efficiency"][order]) <= 1e-3).all())


def _no_optimum(beta: float, lam: float) -> bool:
    try:
        fo.FDS(beta=beta, lam=lam)
    except fo.errors.InvalidBlock:
        return True
    return False


def _listed(names: Sequence[str], values: Float) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in zip(names, values, strict=True))


def _part(which: NDArray[np.bool_]) -> str:
    return f"{100 * which.mean():.0f} %"


def _span(pair: Float) -> str:
    return f"{pair[0]:.2f} to {pair[1]:.2f}"


def main() -> None:
    """All experiments, pictures and claims."""
    options = arguments(str(__doc__), betas=14, lams=7, steps=22, seeds=20)
    verdicts = list(numbers())
    needs = by_requirement(97)
    verdicts += about_requirements(needs)
    pictures.heterogeneity(needs, list(AT_2), OUT / "joe-wong-figs-7-10.png")
    users = [2, 3, 5, 8, 12, 20, 30, 50, 80, 100]
    left = by_users(users, options.seeds, UNIFORM)
    verdicts += about_users(users, left, UNIFORM)
    pictures.users(users, left, list(AT_2), OUT / "joe-wong-fig-11.png")
    for other in OTHERS:
        verdicts += about_users(users[-1:], by_users(users[-1:], options.seeds, other), other)
    alphas = np.round(np.geomspace(0.1, 10, 81), 12)
    along = by_alpha(alphas)
    verdicts += about_alpha(alphas, along)
    pictures.along_alpha(alphas, along, measured([fo.DRF()], datacenter()), OUT / "joe-wong-figs-13-14.png")
    rams = np.unique([*np.linspace(4, 25, options.steps), 6 * math.sqrt(3), 11.25, 12.0, 18.0])
    betas = np.linspace(-4.95, 4.95, options.betas)  # an even number of them leaves 0 out
    found = attained(rams, betas, np.linspace(0.01, 1.91, options.lams))
    drf = {"efficiency": np.array([measured([fo.DRF()], datacenter(float(ram)))["efficiency"][0] for ram in rams])}
    verdicts += about_attained(rams, found, drf)
    pictures.ranges(rams, found, drf, OUT / "joe-wong-fig-12.png")
    pictures.contours(rams, found, OUT / "joe-wong-figs-15-16.png")
    show("What Joe-Wong et al. (2013, sec. V) print, and what is measured", verdicts, "joe-wong-claims")


if __name__ == "__main__":
    main()
