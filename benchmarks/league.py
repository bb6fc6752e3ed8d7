"""The league table of solvers on fairopt's library, and on instances of one size, for the documentation.

Every notion of the library has its optima there. For instances of a size, from the library's families, they are
certified first. Times are ratios on the same machine at the same time, and medians of them.

Run: python benchmarks/league.py [--tags hard,paper --max-users 60 --users 50 --seeds 3 --processes 2 --write]
--solvers names them; those that are not installed stay out. --write writes the parts that are run to
docs/measured.
"""

from __future__ import annotations

import json
import math
import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cvxpy as cp
from common import OUT, arguments
from league_solvers import League, Standing, bench_solver
from league_standings import league_markdown, league_tables, remarks
from rich.console import Console

import fairopt as fo
from fairopt.report.comparison import listed
from fairopt.report.files import as_json

WRITTEN = Path(__file__).parents[1] / "docs" / "measured" / "solvers.txt"  # which docs/solvers.md includes
SOLVERS = ["CLARABEL", "ECOS", "SCS", "MOREAU", "QOCO", "COPT", "MOSEK", "HIGHS", "OSQP", "PIQP", "PROXQP"]
FAMILIES = ("shared-pool", "servers")
NOTIONS = {
    "DRF": "drf",
    "max-min, envy-free": "Policy(MaxMin(), constraints=[EnvyFree()])",
    "most tasks": "most-tasks",
    "most tasks, envy-free": "Policy(Total(Tasks()), constraints=[EnvyFree()])",
    "most tasks, sharing incentive": "Policy(Total(Tasks()), constraints=[SharingIncentive()])",
    "ordered weights": "Policy(OrderedWeighted((4, 3, 2, 1)))",
    "Nash welfare": "nash",
    "Nash welfare, envy-free": "Policy(AlphaFair(1, Tasks()), constraints=[EnvyFree()])",
    "alpha = 2": "fds:alpha=2",
    "alpha = 0.5": "fds:alpha=0.5",
    "fairness and efficiency": "fds:beta=2,lam=-3",
    "bundles (MLF-DRS)": "mlf-drs",
}


def shown(name: str, league: League) -> League:
    """Print a league, and write it as JSON to ``benchmarks/out``."""
    console = Console(width=110)
    for table in league_tables(league):
        console.print(table)
    for line in remarks(league):
        console.print(line)
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(as_json(league.to_dict()), encoding="utf-8")
    for match in league.contradictions:
        raise AssertionError(f"{match} contradicts the known optimum")
    return league


def ran(cases: Mapping[str, Any], processes: int, solvers: list[str], **options: Any) -> League:
    """A league of all cases, run in several processes."""
    names = list(cases)
    parts = [{name: cases[name] for name in names[k::processes]} for k in range(processes)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(bench_solver, solvers, cases=part, **options) for part in parts if part]
        leagues = [job.result() for job in jobs]
    return replace(
        leagues[0],
        matches=tuple(match for league in leagues for match in league.matches),
        left_out={problem: why for league in leagues for problem, why in league.left_out.items()},
        interrupted=any(league.interrupted for league in leagues),
    )


def page(title: str, about: str, name: str) -> list[str]:
    """A part of the page, from the JSON of a league: the first table, over all notions."""
    data = json.loads((OUT / f"{name}.json").read_text(encoding="utf-8"))
    standings = [Standing(**{**one, "lacks": tuple(one["lacks"])}) for one in data["standings"]]
    standings = [one for one in standings if one.notion == standings[0].notion]
    for k, one in enumerate(standings):  # infinity is null in JSON
        if one.claim_gap is not None and one.worst_claim_gap is None:
            standings[k] = replace(one, worst_claim_gap=math.inf)
    cases = len({match["case"] for match in data["matches"]})
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    run = f"Run on {data['date']} with {versions}; {data['time_limit']:g} s for each call."
    lacks = [f"{one.solver} takes no {listed(one.lacks)} cones" for one in standings if one.lacks]
    below = [f"{'; '.join(lacks)}."] if lacks else []
    return [f"## {title}", f"{cases} {about} {run}", league_markdown(standings), *below]


def main() -> None:
    """First the library, then instances of a size."""
    options = arguments(
        str(__doc__),
        parts=["library", "families"],
        tags=["paper", "deployed", "claim", "hard", "cluster"],
        max_users=60,
        users=50,
        seeds=3,
        time_limit=10.0,
        processes=2,
        solvers=SOLVERS,
        write=False,
    )
    library = fo.datasets.library()
    names = [name for name in options.solvers if name in cp.installed_solvers()]
    limits = {"processes": options.processes, "solvers": names, "time_limit": options.time_limit}
    known = {
        name: case
        for name, case in library.items()
        if {*case.tags} & {*options.tags} and case.size[0] <= options.max_users
    }
    if "library" in options.parts:
        shown("league", ran(known, **limits))
    cases = {
        f"{family}, {options.users} users, seed {seed}": library.family(
            family, n_users=options.users, seed=seed
        ).instance
        for family in FAMILIES
        for seed in range(options.seeds)
    }
    if "families" in options.parts:
        shown("league-families", ran(cases, notions=NOTIONS, **limits))
    if not options.write:
        return
    families = " and ".join(f"`{family}`" for family in FAMILIES)
    of_library = f"of the {len(library)} cases: those of up to {options.max_users} users with an optimum above 0."
    of_families = f"instances of {options.users} users, of the families {families}."
    before = WRITTEN.read_text(encoding="utf-8").removeprefix("## ").split("\n## ")
    sections = {part.partition("\n")[0]: part for part in before}
    for part, title, about, name in (
        ("library", "Cases of the library", of_library, "league"),
        ("families", f"{options.users} users", of_families, "league-families"),
    ):
        if part in options.parts:
            sections[title] = "\n\n".join(page(title, about, name)).removeprefix("## ") + "\n"
    written = "\n## ".join(part.strip("\n") + "\n" for part in sections.values())
    WRITTEN.write_text(f"## {written}", encoding="utf-8")


if __name__ == "__main__":
    main()
