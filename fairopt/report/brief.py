"""An answer on one screen: what each team or user gets of the resource that matters most, and what is not shown."""

from __future__ import annotations

import numpy as np

from fairopt.allocation import Allocation
from fairopt.networks.paths import FLOW, on_network
from fairopt.questions.by_team import team_sums, teams_shown
from fairopt.questions.explanation import figure, listed, plural
from fairopt.questions.held import held_now, most_used
from fairopt.questions.waiting import leading
from fairopt.report.held import held_columns, held_tables
from fairopt.report.network import network_tables
from fairopt.report.tables import Column, Table, allocation_tables, both_ends, numbers, short_titles, team_weights
from fairopt.runtime.display import shortened, unit_shown, with_all_digits, without_vendor

SCREEN = 40  # lines; longer tables are summarised
ROWS = 12  # teams or users; of more, those with the largest differences or the smallest and largest shares
RESOURCES = 3  # of which units are shown where it is not known what is held
NAME = 20  # characters
FULL = 1e-4  # of the capacity: less left over counts as none


def answer_tables(allocation: Allocation, width: int, everything: bool = False) -> tuple[list[Table], list[str]]:
    """All tables of an answer and no line, or, if they are longer than a screen, one table and lines on the rest.

    Examples
    --------
    >>> import fairopt as fo
    >>> small, large = (fo.DRF().allocate(fo.Instance(np.eye(n) + 0.1, np.ones(n))) for n in (2, 30))
    >>> tables, lines = answer_tables(small, 80)
    >>> len(tables), lines
    (2, [])
    >>> (table,), lines = answer_tables(large, 80)
    >>> len(table.first.cells), lines[-1].partition(";")[0]
    (12, 'not shown: 18 of 30 users, 27 of 30 resources, the use of servers, prices')
    """
    network, more = network_tables(allocation, ROWS)
    if network and not everything:
        return network, more
    tables = [*network, *allocation_tables(allocation), *held_tables(allocation)]
    if everything or sum(1 + len(one.packed(width)) * (len(one.first.cells) + 3) for one in tables) <= SCREEN:
        return tables, []
    table, resources = _table(allocation)
    return [table], [in_use(allocation), _not_shown(allocation, len(table.first.cells), resources)]


def _table(allocation: Allocation) -> tuple[Table, int]:
    """What each team, or each user without teams, gets and holds, and of how many resources it says that."""
    instance, by = allocation.instance, teams_shown(allocation.instance)
    sums = team_sums(allocation, by, alone=True)
    names, members, weights, given, dominant = sums
    held = held_now(allocation, by, alone=True)
    ends = both_ends(dominant / weights, ROWS)
    chosen = ends if len(dominant) <= ROWS or held is None else held.largest_first[:ROWS]
    lead = leading(allocation)
    i = most_used([allocation]) if lead is None else instance.resource_index(lead)
    about = [] if by is None else [Column("users", [f"{len(members[r]):,}" for r in chosen])]
    about += team_weights(instance, by, chosen, sums)
    tasks = np.array([allocation.tasks[members[r]].sum() for r in chosen])
    limits = np.array([instance.task_limits[members[r]].sum() for r in chosen])
    about.append(Column("tasks", numbers(tasks)))
    if by is None and allocation.exact_tasks is not None:
        about.append(
            Column("exactly", [with_all_digits(x) for x in allocation.exact_tasks[chosen].sum(axis=1).tolist()])
        )
    if np.isfinite(limits).any():
        about.append(Column("asks for", numbers(limits)))
    about.append(Column("share (%)", numbers(100 * dominant[chosen])))
    units, shown = list[Column](), 1
    if held is not None:
        waits = bool(np.isfinite(held.waiting[chosen, 1 + i]).any())
        units = held_columns(held, chosen, 1 + i, short_titles(instance)[i], waits)
    if not units:
        order = [i, *(k for k in range(instance.n_resources) if k != i)][:RESOURCES]
        titles = shortened([short_titles(instance)[k] for k in order])
        units = [Column(title, numbers(given[chosen, k])) for title, k in zip(titles, order, strict=True)]
        shown = len(order)
    kind = by or "user"
    which = "" if len(chosen) == len(names) else f" ({len(chosen)} of {len(names):,})"
    rows = "largest differences from what is held" if held is not None else "smallest and the largest dominant shares"
    title = f"What each {kind} gets" + f" (the {rows})" * bool(which)
    first = Column(f"{kind}{which}", shortened([names[r] for r in chosen], NAME), right=False)
    return Table(title, first, [about, units]), shown


def _not_shown(allocation: Allocation, rows: int, resources: int) -> str:
    """What a summary leaves out."""
    instance, by = allocation.instance, teams_shown(allocation.instance)
    parts = []
    if by is not None:
        teams = len(team_sums(allocation, by, alone=True).names)
        parts += [f"{teams - rows:,} of {teams:,} {by}s"] if rows < teams else []
        parts.append(plural(instance.n_users, "user"))
        parts += [f"sums by {label}" for label in instance.teams.outermost_first if label != by]
    elif rows < instance.n_users:
        parts.append(f"{instance.n_users - rows:,} of {instance.n_users:,} users")
    if resources < instance.n_resources:
        parts.append(f"{instance.n_resources - resources:,} of {instance.n_resources:,} resources")
    parts.append("the use of servers")
    if allocation._shown_prices[0] is not None:
        parts.append("prices")
    return f"not shown: {', '.join(parts)}; --all shows them, and --out and --json have everything"


def in_use(allocation: Allocation) -> str:
    """What is used up, and how much of the rest is in use; first of GPUs that users wait for, as in tables.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[2, 1], [1, 1]], [8, 100], resources=["gpu", "cpu"])
    >>> fo.report.in_use(fo.DRF().allocate(pool))
    'gpu is used up (all 8); 6% of cpu is in use.'
    """
    instance = allocation.instance
    used, total = allocation.usage.sum(axis=0), instance.total_capacities
    names = without_vendor(instance.resources)
    part = np.divide(used, total, out=np.zeros(len(total)), where=total > 0)
    links_only = on_network(instance)
    shown = [total[i] > 0 and not (links_only and name == FLOW) for i, name in enumerate(instance.resources)]
    lead = leading(allocation)
    order = [i for i in np.argsort(-part, kind="stable").tolist() if shown[i]]
    order.sort(key=lambda i: instance.resources[i] != lead)
    full = [i for i in order if part[i] >= 1 - FULL]
    rest = [f"{percent_in_use(part[i])} of {names[i]}" for i in order if i not in full]
    parts = []
    if full:
        units = instance.units or [""] * len(total)
        all_of = listed([f"all {figure(total[i])} {unit_shown(units[i])}".strip() for i in full])
        parts.append(f"{listed([names[i] for i in full])} {'is' if len(full) == 1 else 'are'} used up ({all_of})")
    if rest:
        parts.append(f"{listed(rest)} {'is' if len(rest) == 1 else 'are'} in use")
    parts = parts[::-1] if order and instance.resources[order[0]] == lead and order[0] not in full else parts
    return "; ".join(parts) + "." if parts else ""


def percent_in_use(part: float) -> str:
    """A part of a capacity in whole percent; 0% and 100% only if nothing, or nearly all, is in use.

    Examples
    --------
    >>> percent_in_use(0.0), percent_in_use(0.001), percent_in_use(0.512), percent_in_use(0.998), percent_in_use(1.0)
    ('0%', 'less than 1%', '51%', 'over 99%', '100%')
    """
    if 0 < part < 0.005:
        return "less than 1%"
    return "over 99%" if 0.995 <= part < 1 - FULL else f"{100 * part:.0f}%"
