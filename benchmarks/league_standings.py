"""League tables for a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from league_solvers import OVERALL, League, Match, Standing

from fairopt.report.comparison import listed
from fairopt.report.markup import markdown_table
from fairopt.report.tables import Column, Table

__all__ = ["league_markdown", "league_tables", "remarks"]

NONE = "-"
SHOWN = 5  # wrong claims that are named
MANY = 12  # notions; beyond them those of fewer than `FEW` problems have no table of their own
FEW = 3
COLUMNS = (
    "certified, refused, n/a: what allocate returns with the solver, for certified answers and the rest; n/a: it does "
    "not take the problem. gap, worst: median and largest true gap of certified answers. time: median of the time over "
    "that of the fastest solver on the same problem. claims: how often the solver alone, with its own options on the "
    "problem in natural units, reports an optimum, or that there is none; wrong: how often that is wrong by more than "
    "{wrong_above:g}; its worst: the largest true gap of these optima."
)


def league_tables(league: League) -> Iterator[Table]:
    """A table for all notions, and one for each that `shown` has."""
    for some in shown(league.standings)[0]:
        notion = some[0].notion
        first, *groups = _columns(some)
        yield Table(f"{notion}: {_count(some[0])}", first, groups)


def shown(standings: Sequence[Standing], few: int = FEW) -> tuple[list[list[Standing]], dict[str, int]]:
    """The standings by notion, and the problems of each notion without a table of its own."""
    of: dict[str, list[Standing]] = {}
    for one in standings:
        of.setdefault(one.notion, []).append(one)
    problems = {notion: some[0].problems for notion, some in of.items()}
    rare = {notion: n for notion, n in problems.items() if n < few and len(of) > MANY}
    return [some for notion, some in of.items() if notion not in rare], rare


def _columns(standings: Sequence[Standing]) -> tuple[Column, list[Column], list[Column], list[Column]]:
    """The solver, and groups of columns."""
    return (
        Column("solver", [one.solver for one in standings], right=False),
        [
            Column("certified", [f"{one.certified:,}" for one in standings]),
            Column("refused", [f"{one.refused:,}" for one in standings]),
            Column("n/a", [f"{one.not_applicable:,}" for one in standings]),
        ],
        [
            Column("gap", [_gap(one.gap) for one in standings]),
            Column("worst", [_gap(one.worst_gap) for one in standings]),
            Column("time", [NONE if one.time is None else _ratio(one.time) for one in standings]),
        ],
        [
            Column("claims", [NONE if one.claims is None else f"{one.claims:,}" for one in standings]),
            Column("wrong", [NONE if one.wrong is None else f"{one.wrong:,}" for one in standings]),
            Column("its worst", [_gap(one.worst_claim_gap) for one in standings]),
        ],
    )


def _count(one: Standing) -> str:
    return f"{one.problems:,} problem{'s' * (one.problems != 1)}"


def _gap(gap: float | None) -> str:
    """A gap; what rounding leaves is 0."""
    return NONE if gap is None else "inf" if gap == inf else "0" if gap < 1e-15 else f"{gap:.0e}"


def _ratio(ratio: float) -> str:
    return f"{ratio:,.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def remarks(league: League) -> Iterator[str]:
    """Lines below the tables: the columns, missing cones, and claims that are wrong."""
    if not league.matches:
        yield "no problem was tried"
    else:
        yield COLUMNS.format(wrong_above=league.wrong_above)
    for one in league.standings:
        if one.lacks and one.notion == league.standings[0].notion:
            yield f"{one.solver} does not take {listed(one.lacks)} cones."
    if rare := shown(league.standings)[1]:
        yield f"Only in the first table: {', '.join(f'{notion} ({n})' for notion, n in rare.items())}."
    for match in league.wrong[:SHOWN]:
        yield f"wrong: {_wrong(match)}"
    if len(league.wrong) > SHOWN:
        yield f"and {len(league.wrong) - SHOWN:,} more wrong claims; --json and --out name all"
    if league.left_out:
        problem, why = next(iter(league.left_out.items()))
        more = f", and {len(league.left_out) - 1:,} more" if len(league.left_out) > 1 else ""
        yield f"left out, since no optimum is known: {problem} ({why}){more}"
    yield f"{', '.join(f'{name} {version}' for name, version in league.versions.items())}; {league.date}"


def _wrong(match: Match) -> str:
    """A wrong claim in words."""
    if match.claim_gap is None:
        return f"{match.solver} says {match.status!r} of {match.notion} on {match.case}, which has an optimum"
    return f"{match.solver} says 'optimal' of {match.notion} on {match.case}, with a true gap of {match.claim_gap:.2g}"


def league_markdown(standings: Sequence[Standing], few: int = FEW) -> str:
    """The standings of each notion as Markdown; of many notions those with ``few`` problems or more."""
    parts = []
    for some in shown(standings, few)[0]:
        notion = some[0].notion
        first, *groups = _columns(some)
        title = notion if notion == OVERALL else f"`{notion}`"
        parts.append(f"**{title}**, {_count(some[0])}")
        parts.append("\n".join(markdown_table([first, *(column for group in groups for column in group)])))
    return "\n\n".join(parts)
