"""The league table of solvers on fairopt's library, and on instances of one size, for the documentation.

Every notion of the library has its optima there. For instances of a size, from the library's families, they are
certified first. Times are ratios on the same machine at the same time, and medians of them.

Run: python benchmarks/league.py [--users 50 --seeds 3 --time-limit 10 --max-users 1000 --write]
"""

from __future__ import annotations

from pathlib import Path

from common import OUT, arguments
from rich.console import Console

import fairopt as fo
from fairopt.report.files import as_json
from fairopt.report.league import League
from fairopt.report.standings import league_markdown, league_tables, remarks

PAGE = Path(__file__).parents[1] / "docs" / "solvers.md"
BELOW = "<!-- `benchmarks/league.py --write` writes what is below. -->\n\n"
SOLVERS = ["CLARABEL", "ECOS", "SCS", "HIGHS", "OSQP", "PIQP"]
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
    for match in league.contradictions:
        raise AssertionError(f"{match} contradicts the known optimum")
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(as_json(league.to_dict()), encoding="utf-8")
    return league


def main() -> None:
    """First the library, then instances of a size."""
    options = arguments(str(__doc__), users=50, seeds=3, time_limit=10.0, max_users=1000, write=False)
    library = fo.datasets.library()
    limits = {"time_limit": options.time_limit}
    small = shown("league", fo.report.bench_solver(SOLVERS, max_users=options.max_users, **limits))
    cases = {
        f"{family}, {options.users} users, seed {seed}": library.family(family, n_users=options.users, seed=seed)
        for family in FAMILIES
        for seed in range(options.seeds)
    }
    larger = shown("league-families", fo.report.bench_solver(SOLVERS, notions=NOTIONS, cases=cases, **limits))
    if small.interrupted or larger.interrupted or not options.write:
        return
    of_library = len({match.case for match in small.matches})
    names = " and ".join(f"`{family}`" for family in FAMILIES)
    versions = ", ".join(f"{name} {version}" for name, version in small.versions.items())
    parts = [
        f"Run on {small.date} with {versions}; {options.time_limit:g} s for each call.",
        f"## The library\n\n{of_library} cases of up to {options.max_users:,} users.",
        league_markdown(small.standings),
        f"## {options.users} users\n\n{len(cases)} instances of {options.users} users, of the families {names}.",
        league_markdown(larger.standings),
    ]
    above = PAGE.read_text(encoding="utf-8").partition(BELOW)[0]
    PAGE.write_text(above + BELOW + "\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
