"""The whole (beta, lambda) plane of FDS and GFJ (Joe-Wong et al. 2013), each point beside a fine search of directions.

On the instance of their section V and on random instances of three users. A point that has no optimum, and beta = 0,
must be refused; every other one must be certified, and agree with `tests/oracle/plane.py`, which shares no code with
fairopt. Run:

    python benchmarks/plane.py [--points 41 --points-of-three 13 --instances 4 --decades 1.5] [--coarse]

Table and map (`plane.png`) go to benchmarks/out; `--failures` appends a line for each point that is not as it must be.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from common import OUT, arguments, show
from oracle.plane import best_of_plane, has_optimum, log_measure
from rich.progress import track

import fairopt as fo

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FAMILIES = {"FDS": fo.FDS, "GFJ": fo.GFJ}
SECTION_V = fo.Instance([[1, 4], [3, 1]], [9, 18])
AGREE = 1e-6  # of f, relatively: what a certificate promises
REFUSED, FAILED = "refused: no optimum", "failed"
# Okabe and Ito's palette
COLOURS = {
    REFUSED: "#D9D9D9",
    "prices": "#56B4E9",
    "cone": "#F0E442",
    "water-filling": "#E69F00",
    "parametric": "#0072B2",
    FAILED: "#D55E00",
}


class Cell(NamedTuple):
    """One point of the plane: what answered, and how far it is from the search of all directions.

    ``better`` is how much larger than fairopt's the value f found by the search is, relatively, and negative where it
    is smaller; ``tasks`` how far the tasks are apart, of the largest, where the optimum is unique, else NaN.
    """

    beta: float
    lam: float
    method: str
    fault: str = ""
    gap: float = 0.0
    better: float = 0.0
    tasks: float = float("nan")
    programs: int = 0
    seconds: float = 0.0
    dominated: bool = False
    noted: bool = False


def cell(family: Any, instance: fo.Instance, worth: Any, beta: float, lam: float) -> Cell:
    """One answer, judged; ``worth`` is the share that a task of each user is, (n_users,)."""
    optimum = has_optimum(beta, lam)
    start = time.perf_counter()
    try:
        policy = family(beta=beta, lam=lam)
    except fo.errors.InvalidBlock as error:
        return Cell(beta, lam, REFUSED, f"refused: {error}" if optimum else "")
    try:
        answer = policy.allocate(instance)
    except fo.errors.FairoptError as error:
        return Cell(beta, lam, FAILED, f"{type(error).__name__}: {' '.join(str(error).split())}")
    seconds, proof = time.perf_counter() - start, answer.certificate
    loads = (instance.ratios / worth[:, None]).T
    shares = answer.tasks * worth
    best = best_of_plane(loads, beta, lam)
    better = float(np.expm1(best.value - log_measure(shares, beta, lam)))
    levelled = beta != 1 and lam == 0
    tasks, right = answer.tasks, best.shares / worth
    apart = float(np.abs(tasks - right).max() / right.max()) if best.unique or levelled else float("nan")
    slack = 1 - loads @ shares
    faults = (
        "no optimum, but answered" if not optimum else "",
        f"gap {proof.gap:.1e}" if not proof.ok else "",
        f"a resource is exceeded by {-slack.min():.1e}" if slack.min() < -2e-9 else "",
        f"the best f is {better:+.1e} away" if not abs(better) <= AGREE else "",
        f"tasks are {apart:.1e} from the largest equal shares" if levelled and apart > AGREE else "",
    )
    programs = sum(int(k) for t in proof.tried for k in re.findall(r"(\d+) programs", t.status))
    dominated = any(slack[loads[:, j] > 0].min() > AGREE for j in range(len(shares)))
    return Cell(
        beta,
        lam,
        proof.method,
        "; ".join(f for f in faults if f),
        proof.gap,
        better,
        apart,
        programs,
        seconds,
        dominated,
        bool(proof.note),
    )


def swept(family: str, instance: fo.Instance, points: int) -> list[Cell]:
    """Every point of a grid over [-5, 5] x [-2, 2]."""
    worth = instance.ratios.max(axis=1) if family == "FDS" else np.ones(instance.n_users)
    betas, lams = np.linspace(-5, 5, points).round(12), np.linspace(-2, 2, points).round(12)
    todo = [(float(beta), float(lam)) for beta in betas for lam in lams]
    return [
        cell(FAMILIES[family], instance, worth, beta, lam)
        for beta, lam in track(todo, f"{family}, {instance.n_users} users")
    ]


def counts(name: str, cells: list[Cell]) -> dict[str, Any]:
    """A row: how many points each method answered, and what was found of them."""
    solved = [c for c in cells if c.method not in (REFUSED, FAILED)]
    count = Counter(c.method for c in cells)
    return {
        "family, instance": name,
        "points": len(cells),
        **{m: count[m] for m in COLOURS},
        "faults": sum(bool(c.fault) for c in cells),
        "dominated": sum(c.dominated for c in solved),
        "and noted": sum(c.dominated and c.noted for c in solved),
    }


def differences(name: str, cells: list[Cell]) -> dict[str, Any]:
    """A row: largest differences from the search of all directions, programs and seconds."""
    solved = [c for c in cells if c.method not in (REFUSED, FAILED)]
    searched = [c for c in solved if c.method == "parametric"]
    apart = [c.tasks for c in solved if c.tasks >= 0]
    return {
        "family, instance": name,
        "gap": max(c.gap for c in solved),
        "f below": max(c.better for c in solved),
        "f above": max(-c.better for c in solved),
        "unique": len(apart),
        "tasks apart": max(apart, default=math.nan),
        "programs, mean": sum(c.programs for c in searched) / max(len(searched), 1),
        "most": max((c.programs for c in searched), default=0),
        "s per search": sum(c.seconds for c in searched) / max(len(searched), 1),
        "s": sum(c.seconds for c in solved),
    }


def draw(maps: dict[str, list[Cell]], path: Path) -> None:
    """Which method answered where, a panel per sweep, with the edge of the concave region."""
    columns = min(len(maps), 4)
    rows = -(-len(maps) // columns)
    fig, axes = plt.subplots(
        rows, columns, figsize=(4 * columns, 3.4 * rows), squeeze=False, sharex=True, sharey=True, layout="constrained"
    )
    for ax in axes.ravel()[len(maps) :]:
        ax.set_visible(False)
    beta = np.linspace(0.05, 5, 400)
    for ax, (title, cells) in zip(axes.ravel(), maps.items(), strict=False):
        betas, lams = np.unique([c.beta for c in cells]), np.unique([c.lam for c in cells])
        kinds = list(COLOURS)
        table = np.array([kinds.index(c.method) for c in cells]).reshape(len(betas), len(lams)).T
        colours = matplotlib.colors.ListedColormap(list(COLOURS.values()))
        ax.pcolormesh(betas, lams, table, cmap=colours, vmin=-0.5, vmax=len(kinds) - 0.5)
        limits = ax.axis()
        ax.plot(beta, (1 - beta) / beta, color="black", lw=1)
        ax.axis(limits)
        ax.set_title(title)
        for marked, mark in (([c for c in cells if c.dominated], "w."), ([c for c in cells if c.fault], "kx")):
            ax.plot([c.beta for c in marked], [c.lam for c in marked], mark, ms=4)
    for ax in axes[-1]:
        ax.set_xlabel("beta")
    for ax in axes[:, 0]:
        ax.set_ylabel("lambda")
    present = [m for m in COLOURS if any(c.method == m for cells in maps.values() for c in cells)]
    handles: list[Any] = [matplotlib.patches.Patch(color=COLOURS[m], label=m) for m in present]
    handles.append(matplotlib.lines.Line2D([], [], color="black", lw=1, label="lambda = (1 - beta) / beta"))
    for mark, word in ((".", "optimum is dominated"), ("x", "fault")):
        ink = {"mfc": "white" if mark == "." else "black", "mec": "black"}
        handles.append(matplotlib.lines.Line2D([], [], ls="", marker=mark, label=word, **ink))
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main() -> None:
    """Sweep, print, draw."""
    options = arguments(
        str(__doc__), points=41, points_of_three=13, instances=4, decades=1.5, coarse=False, failures=""
    )
    points, of_three, instances = options.points, options.points_of_three, options.instances
    if options.coarse:
        points, of_three, instances = 11, 7, 2
    asked = {"sec. V": SECTION_V}
    for k in range(instances):  # optima can be dominated where demands have zeros
        m, zeros = 3 + k % 2, 0.3 if k % 4 > 1 else 0.0
        name = f"3 users, {m} resources{', zeros' if zeros else ''}, seed {k}"
        asked[name] = fo.datasets.log_uniform(3, m, decades=options.decades, zeros=zeros, seed=k)
    maps = {}
    for name, instance in asked.items():
        for family in FAMILIES:
            cells = swept(family, instance, points if instance.n_users == 2 else of_three)
            maps[f"{family}, {name}"] = cells
            for c in cells:
                if c.fault:
                    told = [family, c.beta, c.lam, instance.capacities[0].tolist(), instance.demands.tolist(), c.fault]
                    print(*told, sep="  ")
                    if options.failures:
                        with Path(options.failures).open("a", encoding="utf-8") as file:
                            print(*told, sep="  ", file=file)
    show("The (beta, lambda) plane: points by method", [counts(*item) for item in maps.items()], "plane_methods")
    rows = [differences(*item) for item in maps.items()]
    show("The same: largest differences from a fine search of all directions", rows, "plane_differences")
    draw(maps, OUT / "plane.png")


if __name__ == "__main__":
    main()
