"""Tables and sentences of what runs now beside what a policy gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.io.notes import counted
from fairopt.questions.by_team import teams_shown
from fairopt.questions.held import EVEN, OVER, UNDER, HeldNow, by_team_else_user, held_now
from fairopt.report.tables import MAX_ROWS, Column, Table, numbers, scarcest_first, signed
from fairopt.runtime.display import of_units, short, shortened
from fairopt.runtime.tolerances import VIOLATION_TOLERANCE

NAME = 20  # characters of a name: leaves room for the scarcest resource on 80 columns
NAMED = 2  # users or teams on each side in the sentence
MAX_BELOW = 10  # lines about teams that hold too little


def held_tables(allocation: Allocation) -> list[Table]:
    """What is fair and held, their difference, and what waits: by team, outermost first, and by user.

    Where each user is a team of its own, the table by user would repeat that by team and is left out.
    Empty if it is not known what is held. Of many rows those with the largest differences are shown.
    """
    by_user = held_now(allocation)
    if by_user is None:
        return []
    labels = allocation.instance.teams.outermost_first if allocation.instance.teams.mixed else ()
    teams = [(by, held_now(allocation, by, alone=True)) for by in labels]
    if any(sorted(allocation.instance.teams.labelling(by).of_user) == [*range(len(by_user.names))] for by in labels):
        by_user = None
    known = [(by, found) for by, found in (*teams, ("user", by_user)) if found is not None]
    return [_table(allocation.instance, by, found) for by, found in known]


def _table(instance: Instance, by: str, found: HeldNow) -> Table:
    """A group of columns for the scarcest resource, one for tasks, and one for each other resource."""
    rows = found.largest_first[:MAX_ROWS]
    titles = ["tasks", *shortened(instance.resource_titles)]
    scarcest = 1 + found.scarcest
    waits = bool(np.isfinite(instance.task_limits).any())
    groups = [
        held_columns(found, rows, k, titles[k], waits and k in (0, scarcest))
        for k in scarcest_first(found.scarcest, len(found.resources))
    ]
    elsewhere = [int(found.judged[r]) != found.scarcest and found.states[r] != EVEN for r in rows]
    states = [found.states[r] + "*" * other for r, other in zip(rows, elsewhere, strict=True)]
    groups[0].insert(0, Column("state", states, right=False))
    title = f"Held now beside what is fair, by {by}"
    if len(rows) < len(found.names):
        title += " (the largest differences)"
        by += f" ({len(rows)} of {len(found.names):,})"
    if any(elsewhere):
        title += f"; *: by another resource than {short(found.resources[found.scarcest])}"
    names = [found.names[r] for r in rows]
    return Table(title, Column(by, shortened(names, NAME), right=False), groups)


def held_columns(found: HeldNow, rows: Sequence[int], k: int, title: str, waits: bool) -> list[Column]:
    """What is fair and held of tasks or of a resource, their difference, and what waits."""
    fair, apart = signed(found.fair[rows, k], found.difference[rows, k])
    out = [Column(f"{title}: fair", fair), Column("held", numbers(found.held[rows, k])), Column("+/-", apart)]
    return [*out, Column("waiting", numbers(found.waiting[rows, k]))] if waits else out


def held_sentences(allocation: Allocation) -> list[str]:
    """Who holds more and less than is fair, and what exceeds the capacities; of the innermost teams or of users."""
    held = held_now(allocation, teams_shown(allocation.instance), alone=True)
    if held is None or not held.names:
        return []
    return [_differences(allocation.instance, held), *_excess(allocation.instance, held)]


def would_run(name: str, allocation: Allocation) -> str:
    """What a policy would run beside what runs, and who waits for it; empty where it is not known what runs."""
    instance = allocation.instance
    found = held_now(allocation, teams_shown(instance), alone=True)
    if found is None or instance.held_tasks is None or not found.names:
        return ""
    waiting, of = len(found.below(1.0)), teams_shown(instance) or "user"
    would, runs = float(allocation.tasks.sum()), float(instance.held_tasks.sum())
    who = f"{waiting:,} of {counted(len(found.names), of)} {'waits' if waiting == 1 else 'wait'} below what is fair"
    return f"{name} would run {would:,.4g} tasks; {runs:,.6g} run" + (f", {who}" if waiting else "")


def held_sentence(allocation: Allocation, name: str) -> str | None:
    """What a user or a team holds now, beside its fair share; None if it is not known."""
    instance = allocation.instance
    labels = (by for by in instance.teams if name in instance.teams.labelling(by).names)
    held = held_now(allocation, None if name in instance.users else next(labels))
    if held is None:
        return None
    r = held.names.index(name)
    i = int(held.judged[r])
    apart, waiting = held.difference[r, 1 + i], held.waiting[r, 1 + i]
    text = f"held now: {name} holds {_units(instance, i, held.held[r, 1 + i])}, "
    text += f"{amount(abs(apart))} {'more' if apart > 0 else 'less'} than its fair share" if apart else "its fair share"
    return text + (f", and waits for {amount(waiting)}" if 0 < waiting < np.inf else "")


def below_sentences(allocation: Allocation, part: float) -> list[str]:
    """What teams that wait hold, where that is less than a part of their fair share; empty without such teams."""
    now = held_now(allocation, by_team_else_user(allocation.instance), alone=True)
    rows = [] if now is None else now.below(part)
    if now is None or not rows:
        return []
    names, out = shortened([now.names[r] for r in rows]), list[str]()
    for r, name in [*zip(rows, names, strict=True)][:MAX_BELOW]:
        i = int(now.judged[r])
        fair, held, waiting = (of[r, 1 + i] for of in (now.fair, now.held, now.waiting))
        waits = "more" if waiting == np.inf else amount(waiting)
        text = f"{name} holds {_units(allocation.instance, i, held)}, {100 * now.ratios[r]:.3g} % of its fair "
        out.append(f"{text}{amount(fair)}, and waits for {waits}")
    if len(rows) > MAX_BELOW:
        out.append(f"{len(rows) - MAX_BELOW:,} others that wait hold less than {100 * part:.3g} % too")
    more = (now.difference[:, 1 + now.scarcest] > 0) | (np.array(now.states) == OVER)
    over = [now.names[r] for r in now.largest_first if more[r]][:NAMED]
    others = f"{' and '.join(shortened(over)) or 'nobody'} hold{'s' * (len(over) < 2)} more than is fair"
    quotas = "set quotas ('fairopt quotas' of fairopt-clusters)"
    return [*out, f"{others}: run what waits first, {quotas}, or see 'fairopt why'"]


def _differences(instance: Instance, found: HeldNow) -> str:
    """The largest differences."""
    over, under = ([r for r in found.largest_first if found.states[r] == state] for state in (OVER, UNDER))
    if not (over or under):
        return "held now: each has its fair share"
    rows, words = [*over[:NAMED], *under[:NAMED]], list[str]()
    for r, name in zip(rows, shortened([found.names[r] for r in rows]), strict=True):
        i = int(found.judged[r])
        more = "more" if found.states[r] == OVER else "less"
        text = f"{name} holds {_units(instance, i, abs(found.difference[r, 1 + i]))} {more}"
        text += "" if words else " than its fair share"
        if 0 < found.waiting[r, 1 + i] < np.inf:
            text += f" and waits for {amount(found.waiting[r, 1 + i])}"
        words.append(text)
    others = len(over) + len(under) - len(words)
    if others:
        words.append(f"{others:,} other{'s differ' if others > 1 else ' differs'}")
    return "held now: " + "; ".join(words)


def _excess(instance: Instance, found: HeldNow) -> Iterator[str]:
    """Resources of which tasks hold more than the total capacity."""
    for i in np.flatnonzero(found.excess).tolist():
        capacity = found.capacities[i]
        alone = np.flatnonzero(found.held[:, 1 + i] > capacity * (1 + VIOLATION_TOLERANCE)).tolist()
        names = shortened([found.names[r] for r in alone])
        parts = [f"{name} {amount(found.held[r, 1 + i])}" for r, name in zip(alone[:NAMED], names, strict=False)]
        by = f" ({', '.join(parts)})" if parts else ""
        total = _units(instance, i, found.held[:, 1 + i].sum())
        yield f"held now: {total} in all{by}, but the servers have {amount(capacity)}; check what is held, and where"


def _units(instance: Instance, i: int, units: float) -> str:
    """Units of a resource, such as "12 gpu" or "64 GiB of memory"."""
    return f"{amount(units)} {of_units(instance.resources, instance.units)[i]}"


def amount(value: float) -> str:
    """A number in three digits, or whole.

    Examples
    --------
    >>> from fairopt.report import amount
    >>> amount(12.345), amount(12345)
    ('12.3', '12,345')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
