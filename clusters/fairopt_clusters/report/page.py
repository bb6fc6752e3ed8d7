"""The page of a report on a cluster: its tables and bars as data, and their HTML by Jinja2."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt import Allocation, Instance
from fairopt.properties import MEANING, Envy, Verdict, percent, without_envy
from fairopt.questions import (
    EVEN,
    OVER,
    UNDER,
    HeldNow,
    TeamSums,
    figure,
    guaranteed_units,
    held_now,
    listed,
    most_used,
    number,
    part_of,
    part_of_capacity,
    plural,
    team_sums,
    teams_shown,
)
from fairopt.report import (
    Column,
    Table,
    amount,
    in_use,
    numbers,
    percent_in_use,
    percents,
    scarcest_first,
    short_titles,
    signed,
    unusual,
)
from fairopt.runtime import Float, short, shorter, unit_shown, visible, without_vendor
from fairopt_clusters.report import words

if TYPE_CHECKING:
    import jinja2

    from fairopt_clusters.report.cluster import ClusterReport, Origin, Saved
    from fairopt_clusters.report.words import Findings


TEMPLATES = Path(__file__).parent / "templates"
USERS = 30  # rows of users in a table; of more, those with the smallest and the largest shares. Teams: always all
CLASSES = 20  # rows of classes of servers, the busiest
SEGMENTS = 8  # teams or users in a stacked bar; the others are one part
MATRIX = 12  # users of whom all pairs are shown; of more, the pairs with the most envy
PAIRS = 10
SENTENCES = 4  # on what one more unit is worth
LARGE = 1e5  # units from which a column has no decimals
LONG_NAME = 80  # characters of a name in a table
NAME = 40  # characters of a name in a bar's legend
STATES = {OVER: "holds more", UNDER: "holds less", EVEN: "as is fair"}
HOLDS = {True: "holds", False: "fails", None: "open"}


@dataclass(frozen=True)
class Panel:
    """What a section says of one policy; without a name where there is only one."""

    policy: str
    grids: Sequence[Table] = ()
    lines: Sequence[str] = ()
    bars: Sequence[Any] = ()
    gist: str = ""  # of a panel that is folded


def grid(title: str, columns: Sequence[Column], note: str = "") -> Table:
    """A table whose first column names the rows."""
    first, *others = columns
    return Table(title, replace(first, cells=[short(text, LONG_NAME) for text in first.cells]), [others], note)


@cache
def _environment() -> jinja2.Environment:
    import jinja2  # takes a tenth of a second

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def rendered(report: ClusterReport, saved: Mapping[str, Saved], origin: Origin) -> str:
    """See `ClusterReport.to_html`."""
    ids = count(1)
    content = _content(report, saved, origin)
    text: str = (
        _environment().get_template("cluster.html.jinja").render(**content, next_id=lambda: f"table-{next(ids)}")
    )
    return text.lstrip()


def _content(report: ClusterReport, saved: Mapping[str, Saved], origin: Origin) -> dict[str, Any]:
    """Everything that the template reads."""
    instance, findings = report.instance, report.findings
    several = len(findings) > 1
    names = words.short_servers(instance)
    kind, _ = words.who(instance)
    panels: dict[str, list[Panel]] = {
        key: [make(name if several else "", found) for name, found in findings.items()]
        for key, make in {
            "gets": _gets,
            "held": _held,
            "use": _use,
            "worth": _worth,
            "envy": _envy,
            "verdicts": _verdicts,
        }.items()
    }
    panels["why"] = [_why(name if several else "", found, names) for name, found in findings.items()]
    if instance.held_tasks is None:
        panels["held"] = []
    return {
        "title": report.title,
        "made": report.made.strftime("%-d %B %Y, %H:%M %Z"),
        "version": sys.modules["fairopt"].__version__,
        "size": _size(instance, kind),
        "summary": report.sentences,
        "tiles": _tiles(report),
        "to_do": [(one, _command(one.command, report, origin)) for one in words.to_do(findings)],
        "waiting": _waiting(report.main),
        "policy": next(iter(findings)),
        "kind": kind,
        "several": several,
        "notions": [(name, words.in_plain_words(found.allocation.policy)) for name, found in findings.items()],
        "compared": _compared(report, kind) if several else (),
        "findings": report.comparison.findings() if several else (),
        "errors": {name: f"{type(e).__name__}: {e}" for name, e in report.comparison.errors.items()},
        "unanswered": report.comparison.unanswered,
        "panels": panels,
        "stacks": _stacks(report),
        "certificates": _certificates(report, saved),
        "definitions": [(name, repr(found.allocation.policy)) for name, found in findings.items()],
        "commands": _commands(report, saved, origin),
        "checked": bool(saved),
        "notes": [words.with_short_servers(" ".join(note.split()), names) for note in instance.notes],
        "missing": [
            words.with_short_servers(f"{name}: {line}", names) for name, f in findings.items() for line in f.missing
        ],
    }


def _size(instance: Instance, kind: str) -> str:
    """The size of the cluster in one line."""
    of_users = plural(instance.n_users, "user")
    units = instance.units or [""] * instance.n_resources
    amounts = [
        " ".join(filter(None, (figure(total), unit_shown(unit), name)))
        for name, unit, total in zip(
            without_vendor(instance.resources), units, instance.total_capacities.tolist(), strict=True
        )
    ]
    teams = f"{words.counted(instance)} ({of_users})" if kind == "team" else of_users
    return f"{teams} on {plural(int(instance.counts.sum()), 'server')}: {listed(amounts, 6)}"


# -- the summary --------------------------------------------------------------------------------------------------


def _tiles(report: ClusterReport) -> list[tuple[str, str, str, str]]:
    """The four numbers at the top, each with what it is, what it is of, and a tone."""
    allocation, instance = report.main, report.instance
    tasks, asked = float(allocation.tasks.sum()), float(instance.task_limits.sum())
    of = f"of {_short(asked)} asked for" if np.isfinite(asked) else "no limit on what is asked for"
    out = [(_short(tasks), "tasks run", of, "")]
    if instance.n_resources:
        i = most_used([allocation])
        part = float(np.nan_to_num([*allocation.metrics()["utilisation"].values()][i]))
        name = without_vendor(instance.resources)[i]
        out.append((percent_in_use(part), f"of {name} in use", "the most used resource", ""))
    wait = len(words.waiting(allocation))
    name = f"of {words.counted(instance)} wait{'s' * (wait == 1)}"
    get = "get less than they ask for" if wait else "all get what they ask for"
    out.append((f"{wait:,}", name, get, "warn" if wait else "good"))
    proofs = [found.allocation.certificate.ok for found in report.findings.values()]
    every = len(report.comparison.outcomes) + len(report.comparison.unanswered)
    proved = all(proofs) and len(proofs) == every
    name = "best and feasible" if every == 1 else "answers proved best and feasible"
    value = "proved" if proved else f"{sum(proofs)} of {every}"
    return [*out, (value, name, "recomputed, not taken from a solver", "good" if proved else "bad")]


def _short(value: float) -> str:
    """A number for a tile."""
    return f"{value:,.0f}" if value >= 1000 or value == round(value) else f"{value:.4g}"


def _waiting(allocation: Allocation) -> Table | None:
    """Who waits, the smallest share first."""
    some, instance = words.waiting(allocation), allocation.instance
    if not some:
        return None
    kind, _ = words.who(instance)
    shown = some if kind == "team" else some[:PAIRS]
    asks = [np.nan if w.asks is None else w.asks for w in shown]
    gets = [w.gets for w in shown]
    both = numbers([*gets, *asks])
    columns = [
        Column(kind, [w.name for w in shown], right=False),
        Column("gets (tasks)", both[: len(shown)]),
        Column(
            "asks for",
            ["no limit" if w.asks is None else text for w, text in zip(shown, both[len(shown) :], strict=True)],
        ),
        _share_column(np.array([w.dominant_share for w in shown])),
    ]
    weights = unusual(range(len(shown)), "weight", np.array([w.weight for w in some]), 1)
    left = f"{plural(len(some) - len(shown), kind)} more wait." if len(some) > len(shown) else ""
    title = f"Who waits: the smallest share{' per weight' * bool(weights)} first"
    return grid(title, [*columns, *weights], left)


def _compared(report: ClusterReport, kind: str) -> Table:
    """The totals of all policies."""
    answers = [f.allocation for f in report.findings.values()]
    metrics = [a.metrics() for a in answers]
    _, parties = words.who(report.instance)
    wait = [len(words.waiting(a)) for a in answers]
    columns = [
        Column("notion", list(report.findings), right=False),
        Column("tasks", numbers([m["ntt"] for m in metrics])),
        Column(f"{kind}s that wait", [f"{n:,} of {len(parties):,}" for n in wait]),
        Column("smallest share", percents(m["smallest_dominant_share"] for m in metrics)),
    ]
    for name, title in zip(report.instance.resources, without_vendor(report.instance.resources), strict=True):
        parts = [m["utilisation"][name] for m in metrics]
        columns.append(_parts(f"{title} in use", np.array(parts, dtype=float)))
    return grid("The notions side by side", columns)


# -- what each notion gives ---------------------------------------------------------------------------------------


def _gets(policy: str, found: Findings) -> Panel:
    """Tasks, units and shares: of all teams, and of users."""
    teams = found.allocation.instance.teams
    return Panel(policy, [_of(found, by) for by in (*(teams.outermost_first if teams.mixed else ()), None)])


def _units(instance: Instance, units: Float) -> list[Column]:
    return [Column(title, _amounts(units[:, i])) for i, title in enumerate(short_titles(instance))]


def _share_column(shares: Float) -> Column:
    """Shares, with bars relative to the largest."""
    top = float(shares.max(initial=0.0))
    decimals = 1 if top >= 0.1 or not top else 2 if top >= 0.01 else 3
    return Column("share", [f"{100 * x:.{decimals}f}%" for x in shares], bars=(shares / (top or 1.0)).tolist())


def _amounts(values: Float) -> list[str]:
    """Units of a column; large ones are whole."""
    return [f"{x:,.0f}" for x in values.tolist()] if np.abs(values).max(initial=0.0) >= LARGE else numbers(values)


def _entitlements(found: Findings, by: str, names: Sequence[str]) -> tuple[list[Column], str]:
    """A column of what is due at full demand of the resource that leads or is used most, and a sentence on it."""
    if found.entitled is None:
        return [], ""
    instance, lead = found.allocation.instance, found.purchases.lead if found.purchases else None
    i = most_used([found.allocation]) if lead is None else instance.resource_index(lead)
    resource, title = instance.resources[i], short_titles(instance)[i]
    units = found.entitled.get(by, {})
    amounts = [units.get(name, {}).get(resource, np.nan) for name in names]
    note = f"Entitled {title}: what it would get if all had more work than fits."
    everyone = tuple(instance.users if by == "user" else instance.teams.labelling(by).names)
    idle = {name: of[resource] for name, of in units.items() if name not in everyone}
    if idle and by != "user":
        some = listed([f"{name} ({amount(units)})" for name, units in idle.items()], PAIRS)
        note += f" Without tasks now, with those of all others assumed: {some}."
    return [Column(f"entitled {title}", numbers(amounts))], note


def _of(found: Findings, by: str | None) -> Table:
    """What each team under a label gets, or each user, at most `USERS` of them."""
    allocation, instance = found.allocation, found.allocation.instance
    sums, chosen = team_sums(allocation, by, alone=True), _shown(allocation, by)
    names, members = [sums.names[t] for t in chosen], [sums.members[t] for t in chosen]
    tasks, limits = (np.array([of[rows].sum() for rows in members]) for of in (allocation.tasks, instance.task_limits))
    columns = [
        Column(by or "user", names, right=False),
        _share_column(sums.dominant[chosen]),
        Column("tasks", numbers(tasks)),
    ]
    if np.isfinite(limits).any():
        columns.append(_limits("asks for", limits))
    columns += _units(instance, sums.units[chosen])
    columns += unusual(chosen, "weight", sums.weights, 1)
    more, note = _entitlements(found, by or "user", names)
    columns += _guarantees(instance, sums) if by else unusual(chosen, "guarantee", instance.guarantees, 0)
    if by is None and instance.teams.mixed:
        more, note = [], ""
        for label in instance.teams.outermost_first:
            columns.append(Column(label, [instance.teams[label][j] or "none" for j in chosen], right=False))
    if left := len(sums.names) - len(chosen):
        ends = f"The smallest and the largest shares; {plural(left, 'more user')} are left out."
        if nothing := int((instance.task_limits == 0).sum()):
            ends += f" Of these, {nothing:,} can run nothing: their task limit is 0."
        note = f"{ends} {note}".strip()
    return grid(f"What each {by or 'user'} gets", [*columns, *more], note)


def _shown(allocation: Allocation, by: str | None) -> list[int]:
    """All teams; of many users those with the smallest and the largest shares."""
    instance, sums = allocation.instance, team_sums(allocation, by, alone=True)
    if by is not None or instance.n_users <= USERS:
        return list(range(len(sums.names)))
    part = np.flatnonzero(instance.task_limits > 0)
    order = part[np.argsort((sums.dominant / instance.weights)[part], kind="stable")].tolist()
    return [*order[: USERS // 2], *order[max(USERS // 2, len(order) - USERS // 2) :]]


def _guarantees(instance: Instance, sums: TeamSums) -> list[Column]:
    """The units that are guaranteed to teams."""
    floors = guaranteed_units(instance)
    out = []
    for name, title in zip(instance.resources, without_vendor(instance.resources), strict=True):
        given = [floors.get(team, {}).get(name, 0.0) for team in sums.names]
        if any(given):
            out.append(Column(f"guaranteed {title}", numbers(given)))
    return out


def _limits(title: str, values: Float) -> Column:
    """Numbers of which some have no limit."""
    texts = zip(values, numbers(values), strict=True)
    return Column(title, [text if np.isfinite(x) else "no limit" for x, text in texts])


def _parts(title: str, parts: Float) -> Column:
    """Fractions of capacities in use, with bars."""
    return Column(title, percents(parts.tolist()), bars=np.nan_to_num(parts).tolist())


def _stacks(report: ClusterReport) -> dict[str, Any]:
    """Stacked bars of each resource, one for each policy."""
    instance, findings = report.instance, report.findings
    kind, names = words.who(instance)
    units = [team_sums(f.allocation, teams_shown(instance), alone=True).units for f in findings.values()]
    parts = [part_of_capacity(of, np.broadcast_to(instance.total_capacities, of.shape), 0.0) for of in units]
    top = np.max([p.max(axis=1, initial=0.0) for p in parts], axis=0) if names else np.empty(0)
    chosen = sorted(np.argsort(-top, kind="stable")[: SEGMENTS if len(names) <= SEGMENTS else SEGMENTS - 1].tolist())
    rest = np.setdiff1d(np.arange(len(names)), chosen)
    legend = [(chr(ord("A") + k), k + 1, shorter(names[t], NAME)) for k, t in enumerate(chosen)]
    groups = [np.array([t]) for t in chosen]
    if len(rest):
        legend.append(("…", 0, plural(len(rest), f"other {kind}")))
        groups.append(rest)
    resources = []
    for i, resource in enumerate(without_vendor(instance.resources)):
        bars = []
        for policy, of in zip(findings, parts, strict=True):
            shares = [(*key, float(of[rows, i].sum())) for key, rows in zip(legend, groups, strict=True)]
            shown = [s for s in shares if s[3] > 0]
            unused = max(0.0, 1.0 - sum(s[3] for s in shares))
            text = listed([f"{name} {100 * part:.1f}%" for _, _, name, part in shown], SEGMENTS + 1)
            text = f"{text or 'nobody'}; " + (f"unused {100 * unused:.1f}%" if unused >= 5e-4 else "nothing unused")
            bars.append({"policy": policy, "parts": shown, "unused": unused, "text": text})
        resources.append({"name": resource, "bars": bars if instance.total_capacities[i] > 0 else []})
    return {"legend": legend, "resources": resources, "kind": kind}


# -- held now -----------------------------------------------------------------------------------------------------


def _held(policy: str, found: Findings) -> Panel:
    """What runs now beside what is fair: of all teams, and of users."""
    allocation, instance = found.allocation, found.allocation.instance
    labels = (*(instance.teams.outermost_first if instance.teams.mixed else ()), None)
    known = [(by, of) for by in labels if (of := held_now(allocation, by, alone=True)) is not None and of.names]
    grids = [_held_grid(instance, by or "user", of, USERS if by is None else len(of.names)) for by, of in known]
    shown = held_now(allocation, teams_shown(instance), alone=True)
    return Panel(policy, grids, bars=[] if shown is None else _held_bars(instance, shown))


def _held_bars(instance: Instance, found: HeldNow) -> list[dict[str, Any]]:
    """A bar of what is held, with a mark at what is fair, in the resource by which each is judged."""
    kind, _ = words.who(instance)
    rows = found.largest_first[: None if kind == "team" else PAIRS]
    short = without_vendor(instance.resources)
    out = []
    for r in rows:
        i = int(found.judged[r])
        fair, held, total = found.fair[r, 1 + i], found.held[r, 1 + i], found.capacities[i]
        longest = max(float(total), float(fair), float(held)) or 1.0
        state = found.states[r]
        apart = abs(found.difference[r, 1 + i])
        text = f"holds {amount(held)} {short[i]}, fair {amount(fair)}"
        text += f": {amount(apart)} too {'many' if state == OVER else 'few'}" if state != EVEN else ""
        waits = found.waiting[r, 1 + i]
        text += f"; {amount(waits)} wait" if 0 < waits < np.inf else ""
        lengths = {"held": 100 * held / longest, "fair": 100 * fair / longest}
        out.append({"name": found.names[r], **lengths, "text": text, "state": state})
    return out


def _held_grid(instance: Instance, by: str, found: HeldNow, most: int) -> Table:
    """Fair, held, difference and waiting, of the scarcest resource first."""
    rows = found.largest_first[:most]
    titles = ["tasks", *without_vendor(instance.resources)]
    states = [found.states[r] for r in rows]
    columns = [
        Column(by, [found.names[r] for r in rows], right=False),
        Column("now", [STATES[s] for s in states], right=False, tones=[f"state-{s}" for s in states]),
    ]
    for k in scarcest_first(found.scarcest, len(found.resources)):
        cells = signed(found.fair[rows, k], found.held[rows, k], found.difference[rows, k])
        for what, texts in zip(("fair", "held", "difference"), cells, strict=True):
            columns.append(Column(f"{titles[k]}: {what}", texts))
        if k in (0, 1 + found.scarcest) and np.isfinite(instance.task_limits).any():
            columns.append(_limits(f"{titles[k]}: waiting", found.waiting[rows, k]))
    left = len(found.names) - len(rows)
    return grid(
        f"Held now beside what is fair, by {by}",
        columns,
        f"The {len(rows):,} largest differences; {left:,} more are left out." if left else "",
    )


# -- use and prices -----------------------------------------------------------------------------------------------


def _use(policy: str, found: Findings) -> Panel:
    """How much of each resource is in use: in total, and on each class of servers."""
    allocation, instance = found.allocation, found.allocation.instance
    total, used = instance.total_capacities, allocation.usage.sum(axis=0)
    parts = part_of_capacity(used, total)
    columns = [
        Column("resource", short_titles(instance), right=False),
        _parts("in use", parts),
        Column("units in use", [figure(x) for x in used]),
        Column("of", [figure(x) for x in total]),
        Column("left over", [figure(x) for x in np.maximum(total - used, 0.0)]),
    ]
    if allocation.given_bundles is not None:
        by_tasks = part_of_capacity(allocation.task_usage.sum(axis=0), total)
        columns.insert(2, _parts("by tasks", by_tasks))
    if instance.held_units is not None:
        now = part_of_capacity(instance.held_units.sum(axis=0), total)
        columns.insert(2, _parts("in use now", now))
    grids = [grid("Use of each resource", columns)]
    if instance.merged().n_servers > 1:
        grids.append(_classes(allocation))
    return Panel(policy, grids, gist=in_use(allocation))


def _classes(allocation: Allocation) -> Table:
    """Use of each class of identical servers."""
    instance = allocation.instance
    alike, short = instance.merged(), words.short_servers(instance)
    used = part_of(instance, instance.derived.server_classes, allocation.usage)
    busiest = sorted(np.argsort(-np.nan_to_num(used).max(axis=1), kind="stable")[:CLASSES].tolist())
    names = [short.get(alike.servers[s], alike.servers[s]) for s in busiest]
    columns = [Column("servers", names, right=False), Column("number", [f"{alike.counts[s]:,}" for s in busiest])]
    if alike.server_types is not None:
        columns.append(Column("type", [str(alike.server_types[s]) for s in busiest], right=False))
    for i, name in enumerate(without_vendor(instance.resources)):
        part = used[busiest, i]
        columns.append(
            Column(
                name, ["none" if np.isnan(x) else f"{100 * x:.1f}%" for x in part], bars=np.nan_to_num(part).tolist()
            )
        )
    left = alike.n_servers - len(busiest)
    note = f"The {len(busiest)} busiest kinds of servers; {left:,} more are left out." if left else ""
    return grid("Use of each kind of servers", columns, note)


def _worth(policy: str, found: Findings) -> Panel:
    """What one more of each resource and server is worth."""
    every = words.worths(found.purchases)
    if found.purchases is None:
        return Panel(policy, lines=["What more would bring is not known."])
    lead = words.lead_title(found.purchases)
    units = [one for one in every if not np.isnan(one.percent) and (one.gain or one.tasks)]
    servers = [one for one in every if np.isnan(one.percent)]
    lines = [one.text for one in units if one.gain > 0][:SENTENCES]
    lines += [one.text for one in servers if one.gain > 0][:1]
    gist = lines[0] if lines else "Nothing that is added alone lets more tasks run."
    if not lines and lead is not None:
        gist = f"Nothing that is added alone puts more {lead} in use."
    lines = lines or [gist]
    instance = found.allocation.instance
    if idle := [without_vendor(instance.resources)[instance.resource_index(r)] for r in found.purchases.idle]:
        lines.append(f"More {listed(idle, last='or')} alone brings nothing: some is left over on every server.")
    if lead is not None:
        lines.append(f"What puts most {lead} in use is named first; --lead of fairopt report chooses another resource.")
    grids = list[Table]()
    if units:
        shown = units[:CLASSES]
        left = len(units) - len(shown)
        columns = [
            Column("what is added", [one.what for one in shown], right=False),
            *_gains(shown, lead),
            Column("up to (units)", [_range(one.up_to) for one in shown]),
            Column(
                f"{f'{lead} in use' if lead else 'tasks more'} for 1% more",
                [number(one.percent) for one in shown],
                bars=_bars([one.percent for one in shown]),
            ),
            Column("fewer tasks for", [listed(one.losers) or "nobody" for one in shown], right=False),
        ]
        grids.append(grid("One more unit", columns, f"{left:,} more are left out." if left else ""))
    if servers:
        columns = [
            Column("what is added", [one.what for one in servers], right=False),
            *_gains(servers, lead, bars=True),
            Column("fewer tasks for", [listed(one.losers) or "nobody" for one in servers], right=False),
        ]
        grids.append(grid("One more server", columns))
    return Panel(policy, grids, lines, gist=gist)


def _gains(rows: Sequence[words.Worth], lead: str | None, bars: bool = False) -> list[Column]:
    """More units in use of what leads, and more tasks; with bars of what decides the order."""
    tasks = [number(one.tasks) for one in rows]
    drawn = _bars([one.gain for one in rows]) if bars else ()
    if lead is None:
        return [Column("tasks more", tasks, bars=drawn)]
    return [Column(f"{lead} more in use", [number(one.gain) for one in rows], bars=drawn), Column("tasks more", tasks)]


def _bars(values: Sequence[float]) -> list[float]:
    """Lengths of bars relative to the largest."""
    top = max(map(abs, values)) or 1.0
    return [value / top for value in values]


def _range(up_to: float) -> str:
    return "not known" if np.isnan(up_to) else "no end" if np.isinf(up_to) else figure(up_to)


# -- reasons, envy, properties ------------------------------------------------------------------------------------


def _why(policy: str, found: Findings, names: Mapping[str, str]) -> Panel:
    """What stops each team."""
    bars = [
        {"name": e.name, "lines": [words.with_short_servers(line, names) for line in e.sentences]}
        for e in found.explanations
    ]
    left = f"{plural(found.unexplained, 'more user')} left out, with larger shares; 'fairopt why' explains any."
    lines = [left] if found.unexplained else []
    return Panel(policy, lines=lines, bars=bars)


def _envy(policy: str, found: Findings) -> Panel:
    """Who would run more tasks on what another holds."""
    verdict = next((v for v in found.verdicts if v.name == "envy-free"), None)
    if verdict is None:
        why = without_envy(found.allocation)
        return Panel(policy, lines=[f"Envy is not checked, as {why}." if why else "Envy is not known."])
    envy: Envy = verdict.details
    lines = [_sentence(verdict)]
    gist = (
        "Nobody envies another." if verdict.holds else "Some envy others." if verdict.holds is False else "Not decided."
    )
    pairs = envy.pairs() if envy.matrix is not None else []
    grids = list[Table]()
    if 1 < len(envy.users) <= MATRIX and envy.matrix is not None:
        grids = [_matrix(envy)]
    elif pairs:
        enviers, envied, margins = zip(*pairs[:PAIRS], strict=True)
        columns = [
            Column("user", enviers, right=False),
            Column("envies most", envied, right=False),
            Column("could run more tasks, by", [*map(percent, margins)]),
        ]
        left = len(pairs) - len(enviers)
        grids = [grid("Who envies whom", columns, f"{left:,} more users envy another." if left else "")]
    return Panel(policy, grids, lines, gist=gist)


def _matrix(envy: Envy) -> Table:
    """The envy between all pairs."""
    assert envy.matrix is not None
    columns = [Column("what the user would gain with the holdings of", list(envy.users), right=False)]
    for k, name in enumerate(envy.users):
        of = envy.matrix[:, k]
        texts = ["self" if j == k else f"+{percent(x)}" if x > 1e-6 else "none" for j, x in enumerate(of.tolist())]
        tones = [
            "quiet" if j == k else f"heat-{min(4, 1 + int(4 * x))}" if x > 1e-6 else "quiet"
            for j, x in enumerate(of.tolist())
        ]
        columns.append(Column(name, texts, tones=tones))
    return grid("Envy: how many more tasks each user (row) could run with what another (column) holds", columns)


def _verdicts(policy: str, found: Findings) -> Panel:
    """Each property: what it means, whether it holds, and what shows it."""
    bars = [
        {"name": v.name.replace("-", " "), "meaning": MEANING[v.name], "holds": HOLDS[v.holds], "text": _sentence(v)}
        for v in found.verdicts
    ]
    fails = [v.name.replace("-", " ") for v in found.verdicts if v.holds is False]
    return Panel(policy, bars=bars, gist=f"Fails: {listed(fails, 6)}." if fails else "")


def _sentence(verdict: Verdict) -> str:
    text = verdict.sentence
    return f"{text[:1].upper()}{text[1:]}."


# -- proofs -------------------------------------------------------------------------------------------------------


def _certificates(report: ClusterReport, saved: Mapping[str, Saved]) -> Table:
    """The certificate of each answer, and what was proved again from its file."""
    findings = list(report.findings.items())
    proofs = [f.allocation.certificate for _, f in findings]
    columns = [
        Column("notion", [name for name, _ in findings], right=False),
        Column(
            "certified",
            ["yes" if p.ok else "NO" for p in proofs],
            right=False,
            tones=["good" if p.ok else "bad" for p in proofs],
        ),
        Column("gap at most", [f"{p.gap:.1e}" for p in proofs]),
        Column("over a capacity by", [f"{p.violation:.1e}" for p in proofs]),
        Column("method", [" ".join(filter(None, (p.method, p.solver))) for p in proofs], right=False),
        Column("seconds", [f"{p.seconds:.3g}" for p in proofs]),
    ]
    if saved:
        files = [saved[name] for name, _ in findings]
        columns.append(Column("file", [str(one.path) for one in files], right=False))
        columns.append(Column("proved again from the file", [_proved(one) for one in files], right=False))
    return grid("Certificates", columns)


def _proved(saved: Saved) -> str:
    """What is proved from a file, or why nothing is."""
    verification = saved.verification
    if verification.ok:
        return f"yes, gap at most {verification.gap:.1e}"
    return "; ".join([verification.statement.removesuffix(":"), *verification.faults[:1]])


def _commands(report: ClusterReport, saved: Mapping[str, Saved], origin: Origin) -> list[str]:
    """Commands that prove the answers again."""
    given = ["--input", *origin.input] if origin.input and origin.input[0] != "-" else []
    if saved:
        return [shlex.join(["fairopt", "verify", *(str(one.path) for one in saved.values()), *given])]
    if not origin.input:
        return []
    out, files = [], words.file_names(list(report.findings))
    for name, file in files.items():
        out.append(shlex.join(["fairopt", "solve", *origin.input, *origin.policies.get(name, ()), "--out", file]))
    return [*out, shlex.join(["fairopt", "verify", *files.values(), *given])]


def _command(command: Sequence[str], report: ClusterReport, origin: Origin) -> str:
    """A command that helps with something to do; empty if the input is not known."""
    if not command or not origin.input:
        return ""
    first = next(iter(report.findings))
    more = ["--diff"] if command[0] == "quotas" and report.instance.held_tasks is not None else []
    return shlex.join(["fairopt", *command, *origin.input, *origin.policies.get(first, ()), *more])
