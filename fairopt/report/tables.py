"""Tables of allocations, instances and server types for `rich`, in which numbers are never wrapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len

from fairopt.allocation import Allocation, units_of
from fairopt.blocks.shares import DominantShare
from fairopt.derivatives.optimum import first_term
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.questions import TeamSums, guaranteed_units, team_sums
from fairopt.questions.by_server import ByType, part_of
from fairopt.questions.held import described_held, most_used
from fairopt.questions.naming import server_names
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import LEAST, short, shortened, unit_shown, visible, with_all_digits, without_vendor
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE

FORMAT = "fairopt.answer/1"
MAX_ROWS = 20  # rows of a table; of more users, those with the smallest and the largest values
SIDES = 1e-6  # relative difference of prices for one unit more and less that counts as none; solvers leave 1e-9
LONGEST = 24  # characters of a fraction; longer ones are in files
ROOM = 12  # characters of a type's name as a column header
PLACEMENT = (
    "If users can run on several types, other placements may give every user the same tasks. The table shows the one "
    "found."
)


@dataclass(frozen=True)
class Column:
    """One column of a table, as text."""

    header: str
    cells: Sequence[str]
    right: bool = True
    sentences: bool = False  # which terminals may wrap
    bars: Sequence[float] = ()  # on a page: lengths from 0 to 1
    tones: Sequence[str] = ()  # classes of cells on a page; "bad" ones stand out in terminals too

    @property
    def side(self) -> str:
        """The side at which the text is aligned."""
        return "right" if self.right else "left"

    @property
    def width(self) -> int:
        """Terminal cells of the widest text."""
        return max(cell_len(visible(text)) for text in (self.header, *self.cells))

    def within(self, most: int) -> Column:
        """The column with names, but not numbers, cut to a width."""
        bare = replace(self, header="", cells=self.cells if self.right else shortened(self.cells, most))
        return replace(bare, header=short(self.header, max(most, bare.width)))

    def shown(self) -> list[Cell]:
        """The cells, with side, bar and tone."""
        bars: list[float | None] = [100 * min(max(bar, 0.0), 1.0) for bar in self.bars] or [None] * len(self.cells)
        looks = zip(self.cells, bars, self.tones or [""] * len(self.cells), strict=True)
        return [Cell(text, self.side, bar, tone) for text, bar, tone in looks]


class Cell(NamedTuple):
    """A cell of a row: its text, the side at which it is aligned, the length of its bar in percent, and its class."""

    text: str
    side: str
    bar: float | None
    tone: str


@dataclass(frozen=True)
class Table:
    """Columns for `rich`; groups that do not fit beside each other go below."""

    title: str
    first: Column
    groups: Sequence[Sequence[Column]]
    note: str = ""  # on a page

    @property
    def columns(self) -> list[Column]:
        """All columns, in order."""
        return [self.first, *(column for group in self.groups for column in group)]

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """The cells of each row."""
        return list(zip(*(c.shown() for c in self.columns), strict=True))

    def packed(self, width: int) -> list[list[Column]]:
        """Columns of each table of this width; a group is split only if it is too wide alone."""
        first, groups = self._fitted(width)
        room, left = width - first.width, -1
        tables: list[list[Column]] = []
        for group in filter(None, groups):
            for piece in [group] if sum(c.width + 2 for c in group) <= room else [[c] for c in group]:
                needed = sum(c.width + 2 for c in piece)
                if needed > left:
                    tables.append([first])
                    left = room
                tables[-1].extend(piece)
                left -= needed
        return tables or [[first]]

    def _fitted(self, width: int) -> tuple[Column, list[list[Column]]]:
        """Columns with names cut to leave room for one column of numbers."""
        widest = max((replace(c, header="").width for group in self.groups for c in group if c.right), default=0)
        first = self.first.within(max(width - widest - 2, LEAST))
        room = max(width - first.width - 2, LEAST)
        headers = iter(shortened([c.header for group in self.groups for c in group], room))
        return first, [[replace(c.within(room), header=next(headers)) for c in group] for group in self.groups]

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        if self.title:
            yield Text(visible(self.title), style="bold")
        look: Any = {"box": box.SIMPLE_HEAD, "pad_edge": False, "show_edge": False}
        if any(c.sentences for c in self.columns):  # folded at the width of the terminal
            table = RichTable(**look, padding=(0, 1, 0, 0))
            for c in self.columns:
                table.add_column(Text(c.header), no_wrap=not c.sentences, overflow="fold")
            for row in self.rows:
                table.add_row(*(Text(cell.text, style="bold red" * (cell.tone == "bad")) for cell in row))
            yield table
            return
        for columns in self.packed(options.max_width):
            table = RichTable(**look, padding=(0, 0, 0, 1))
            for c in columns:
                table.add_column(Text(visible(c.header)), justify="right" if c.right else "left", no_wrap=True)
            for cells in zip(*(column.cells for column in columns), strict=True):
                table.add_row(*(Text(visible(cell)) for cell in cells))
            yield table
            yield ""


def allocation_tables(allocation: Allocation) -> list[Table]:
    """Tasks and units by user, and use by class of servers."""
    instance, dominant = allocation.instance, allocation.share(DominantShare())
    limits = instance.task_limits
    chosen = both_ends(dominant / instance.weights)
    about = [Column("tasks", numbers(allocation.tasks[chosen]))]
    if allocation.exact_tasks is not None:
        totals = allocation.exact_tasks[chosen].sum(axis=1).tolist()
        about.append(Column("exactly", [text if len(text := with_all_digits(x)) <= LONGEST else "~" for x in totals]))
    about += unusual(chosen, "limit", limits, np.inf)
    about += unusual(chosen, "weight", instance.own_weights, 1)  # those of teams are in their table
    about += unusual(chosen, "guarantee", instance.guarantees, 0)
    about.append(Column("dominant share (%)", numbers(100 * dominant[chosen])))
    given = units_of(allocation, chosen)
    units = [Column(r, numbers(given[:, i])) for i, r in enumerate(shortened(instance.resource_titles))]
    title = "Tasks and resources of each user"
    if len(chosen) < instance.n_users:
        title += " (the smallest and the largest dominant shares)"
    if np.isfinite(limits).any():
        done = int((allocation.tasks >= limits * (1 - 1e-6)).sum())
        title += f"; {done:,} of {instance.n_users:,} run all their tasks"
    labels = instance.teams.outermost_first if instance.teams.mixed else ()
    teams = [_teams_table(allocation, by) for by in labels]
    users = users_column(instance, chosen)
    return [Table(title, users, [about, units]), *teams, _servers_table(allocation)]


def _teams_table(allocation: Allocation, by: str) -> Table:
    """What the members of each team, and of each that stands beside these, hold together."""
    sums = team_sums(allocation, by, alone=True)
    chosen = both_ends(sums.dominant / sums.weights)
    about = [Column("users", [f"{len(sums.members[t]):,}" for t in chosen])]
    about += team_weights(allocation.instance, by, chosen, sums)
    about.append(Column("dominant share (%)", numbers(100 * sums.dominant[chosen])))
    units, floors = list[Column](), guaranteed_units(allocation.instance)
    titles = shortened(allocation.instance.resource_titles)
    for i, (name, title) in enumerate(zip(allocation.instance.resources, titles, strict=True)):
        units.append(Column(title, numbers(sums.units[chosen, i])))
        given = [floors.get(sums.names[t], {}).get(name, 0.0) for t in chosen]
        if any(given):
            units.append(Column(f"guaranteed {title}", numbers(given)))
    fewer = f" ({len(chosen)} of {len(sums.names):,})" if len(chosen) < len(sums.names) else ""
    first = Column(by + fewer, shortened([sums.names[t] for t in chosen]), right=False)
    return Table(f"Sum of each {by}", first, [about, units])


def instance_tables(instance: Instance) -> list[Table]:
    """Demands of each user and capacities of each class of servers, at most `MAX_ROWS` of either."""
    users, alike = list(range(min(instance.n_users, MAX_ROWS))), instance.merged()
    rows = list(range(min(alike.n_servers, MAX_ROWS)))
    first = instance.eligible[users].argmax(axis=1)
    demands = instance.per_server_demands[users, first]
    titles = shortened(instance.resource_titles)
    about = [
        Column(by, shortened([instance.teams[by][j] or "-" for j in users]), right=False)
        for by in instance.teams.outermost_first
    ]
    about += unusual(users, "weight", instance.own_weights, 1)
    about += unusual(users, "limit", instance.task_limits, np.inf)
    about += unusual(users, "guarantee", instance.guarantees, 0)
    if not instance.derived.everywhere:
        about.append(Column("servers", [f"{n:,}" for n in (instance.eligible[users] @ instance.counts).tolist()]))
    title = "One task of each user" + (", on its first server" if instance.demands.ndim == 3 else "")
    if len(users) < instance.n_users:
        title += f" (the first {len(users)} of {instance.n_users:,})"
    needed = [Column(t, numbers(demands[:, i])) for i, t in enumerate(titles)]
    needs = Table(title, users_column(instance, users), [needed, about])
    kinds = [] if alike.server_types is None else [Column("type", [alike.server_types[s] for s in rows], right=False)]
    kinds.append(Column("servers", [f"{alike.counts[s]:,}" for s in rows]))
    title = "Capacities of one server" if alike.counts.max() > 1 else "Capacities"
    if len(rows) < alike.n_servers:
        title += f" (the first {len(rows)} of {alike.n_servers:,} classes)"
    named = server_names(alike)
    names = Column("server", shortened([named[s] for s in rows]), right=False)
    there = [Column(t, numbers(alike.capacities[rows, i])) for i, t in enumerate(titles)]
    return [needs, Table(title, names, [kinds, there])]


def _servers_table(allocation: Allocation) -> Table:
    """Use and prices of each class of identical servers."""
    instance = allocation.instance
    alike = instance.merged()
    used = part_of(instance, instance.derived.server_classes, allocation.usage)
    busiest = sorted(np.argsort(-np.nan_to_num(used).max(axis=1), kind="stable")[:MAX_ROWS].tolist())
    titles = server_names(alike)
    cut = shortened([titles[s] for s in busiest])
    rows = [name + (f" x {q}" if (q := alike.counts[s]) > 1 else "") for name, s in zip(cut, busiest, strict=True)]
    resources = shortened(alike.resources)
    groups = [[Column(r, percents(used[busiest, i])) for i, r in enumerate(resources)]]
    if allocation.given_bundles is not None:
        by_tasks = part_of(instance, instance.derived.server_classes, allocation.task_usage)[busiest]
        groups.append([Column(f"{r}, by tasks", percents(by_tasks[:, i])) for i, r in enumerate(resources)])
    title = "Utilisation of each class of servers" if alike.n_servers > 1 else "Utilisation"
    first = np.unique(instance.derived.server_classes, return_index=True)[1]  # identical servers have the same prices
    for prices, titles in price_columns(allocation, resources, less="cost of less {}"):
        of_capacity = np.abs(prices) * instance.total_capacities
        prices = np.where(of_capacity > GAP_TOLERANCE * of_capacity.max(initial=0.0), prices, 0.0)
        if prices.any():
            groups.append([Column(t, numbers(prices[first][busiest, i])) for i, t in enumerate(titles)])
            term = first_term(allocation)
            if term is not None and term.is_order:
                title = f"{title.partition(';')[0]}; {price_title(allocation)}"
    if len(busiest) < alike.n_servers:
        title += f" ({len(busiest)} busiest of {alike.n_servers} classes)"
    return Table(title, Column("server", rows, right=False), groups)


def price_title(allocation: Allocation) -> str:
    """Which level of a leximin the prices shown are of."""
    level = allocation.binding_level
    if level is None or level is (allocation.level_prices or (level,))[0]:
        return "prices of the first level"
    who = f"{len(level.users)} users" if len(level.users) > 1 else short(level.users[0])
    return f"prices of the lowest level that capacities determine ({level.level:.4g}, of {who})"


def describe(allocation: Allocation) -> dict[str, Any]:
    """An allocation and its instance as plain data with labels, for other programs; `Allocation.save` keeps everything.

    Keys are ``policy``, ``blocks`` (its text), ``objective``, ``tasks``, ``shares`` and ``dominant_shares`` by user,
    ``users`` (what is given of each, and ``usage``, the units that it gets), ``servers`` (number, type, capacities and
    use of each row), ``placement`` (nonzero tasks by user and server),
    ``exact_tasks`` (the same as fractions, None without ``exact``), ``teams`` (by label and team), ``held`` (what
    runs now beside what is fair, None if unknown), ``metrics``, ``prices`` and ``prices_left`` by server and resource
    (None if unknown or infinite), ``variables`` and ``multipliers`` of blocks by name, ``certificate``, ``units`` by
    resource or None, and ``notes``.
    """
    instance = allocation.instance
    placement = {
        user: {instance.servers[s]: float(row[s]) for s in np.flatnonzero(row)}
        for user, row in zip(instance.users, allocation.tasks_by_server, strict=True)
    }
    sides = {
        name: None
        if side is None
        else {
            server: _by_resource(instance, np.where(np.isfinite(row), row, np.nan))
            for server, row in zip(instance.servers, side, strict=True)
        }
        for name, side in zip(("prices", "prices_left"), allocation._shown_prices, strict=True)
    }
    return {
        "format": FORMAT,
        "policy": label(allocation.policy),
        "blocks": repr(allocation.policy),
        "objective": allocation.objective,
        "tasks": _by_user(instance, allocation.tasks),
        "shares": _by_user(instance, allocation.shares),
        "dominant_shares": _by_user(instance, allocation.share(DominantShare())),
        "users": _described_users(allocation),
        "servers": _described_servers(allocation),
        "placement": placement,
        "exact_tasks": _exact_tasks(allocation),
        "teams": described_teams(allocation),
        "held": described_held(allocation),
        "metrics": allocation.metrics(),
        **sides,
        **{
            name: {k: v.tolist() for k, v in getattr(allocation, name).items()} for name in ("variables", "multipliers")
        },
        "certificate": {"ok": allocation.certificate.ok, **asdict(allocation.certificate)},
        **described_instance(instance),
    }


def _exact_tasks(allocation: Allocation) -> dict[str, dict[str, str]] | None:
    """Nonzero tasks by user and server as text such as ``5/11``."""
    if allocation.exact_tasks is None:
        return None
    return {
        user: {server: with_all_digits(x) for server, x in zip(allocation.instance.servers, row, strict=True) if x}
        for user, row in zip(allocation.instance.users, allocation.exact_tasks.tolist(), strict=True)
    }


def described_instance(instance: Instance) -> dict[str, Any]:
    """The size of an instance, total capacities, units of resources and notes, as plain data."""
    return {
        "instance": {
            "users": instance.n_users,
            "servers": int(instance.counts.sum()),
            "resources": _by_resource(instance, instance.total_capacities),
        },
        "units": None if instance.units is None else dict(zip(instance.resources, instance.units, strict=True)),
        "notes": list(instance.notes),
    }


def described_teams(allocation: Allocation) -> dict[str, dict[str, dict[str, Any]]]:
    """Members, weight, guarantee, tasks, dominant share and units of each team, by label and team."""
    instance = allocation.instance
    out: dict[str, dict[str, dict[str, Any]]] = {}
    floors = guaranteed_units(instance)
    for by in instance.teams:
        sums = team_sums(allocation, by)
        numbers_of = zip(sums.members, sums.weights.tolist(), sums.dominant.tolist(), sums.units, strict=True)
        out[by] = {
            name: {
                "users": [instance.users[j] for j in members],
                "weight": weight,
                "guarantee": floors.get(name, {}),
                "tasks": float(allocation.tasks[members].sum()),
                "dominant_share": dominant,
                "units": _by_resource(instance, units),
            }
            for name, (members, weight, dominant, units) in zip(sums.names, numbers_of, strict=True)
        }
    return out


def _described_users(allocation: Allocation) -> dict[str, dict[str, Any]]:
    """Teams, own weight, limit, guarantee, demands, eligible servers (None for all) and usage of each user."""
    instance, given = allocation.instance, units_of(allocation, range(allocation.instance.n_users))
    limits = [limit if np.isfinite(limit) else None for limit in instance.task_limits.tolist()]
    labels = {by: instance.teams[by] for by in instance.teams}
    out = {}
    for j, user in enumerate(instance.users):
        demands, rows = instance.demands[j], np.flatnonzero(instance.eligible[j])
        names = [instance.servers[s] for s in rows]
        out[user] = {
            "teams": {by: of[j] for by, of in labels.items()},
            "weight": float(instance.own_weights[j]),
            "limit": limits[j],
            "guarantee": float(instance.guarantees[j]),
            "demands": _by_resource(instance, demands) if demands.ndim == 1 else None,
            "demands_by_server": {name: _by_resource(instance, demands[s]) for name, s in zip(names, rows, strict=True)}
            if demands.ndim == 2
            else None,
            "servers": None if instance.derived.everywhere else names,
            "usage": _by_resource(instance, given[j]),
        }
    return out


def _described_servers(allocation: Allocation) -> dict[str, dict[str, Any]]:
    """Number, type, capacities of one server, and use of each row of servers together."""
    instance = allocation.instance
    return {
        server: {
            "count": int(instance.counts[s]),
            "type": None if instance.server_types is None else instance.server_types[s],
            "capacities": _by_resource(instance, instance.capacities[s]),
            "usage": _by_resource(instance, allocation.usage[s]),
        }
        for s, server in enumerate(instance.servers)
    }


def _by_resource(instance: Instance, values: Float) -> dict[str, float | None]:
    """Numbers by resource; None for NaN."""
    numbers = (None if value != value else value for value in values.tolist())
    return dict(zip(instance.resources, numbers, strict=True))


def _by_user(instance: Instance, values: Float) -> dict[str, float]:
    """Numbers by user."""
    return dict(zip(instance.users, values.tolist(), strict=True))


def team_tables(instance: Instance, allocations: Mapping[str, Allocation], whole_names: bool = False) -> list[Table]:
    """For each label, dominant shares of teams, and their tasks and units of the most used resource, by policy."""
    if not (instance.teams.mixed and allocations):
        return []
    out: list[Table] = []
    headers, i = list(allocations) if whole_names else shortened(list(allocations)), most_used(allocations.values())
    said = ", the most used resource" if instance.n_resources > 1 else ""
    for by in instance.teams.outermost_first:
        sums = [team_sums(a, by, alone=True) for a in allocations.values()]
        chosen = both_ends(np.max([found.dominant for found in sums], axis=0))
        names = [sums[0].names[t] for t in chosen]
        fewer = f" ({len(chosen)} of {len(sums[0].names):,})" if len(chosen) < len(sums[0].names) else ""
        first = Column(by + fewer, names if whole_names else shortened(names), right=False)
        shares = [Column(h, numbers(100 * of.dominant[chosen])) for h, of in zip(headers, sums, strict=True)]
        out.append(Table(f"Dominant share of each {by} (%)", first, [shares]))
        tasks = [
            [a.tasks[of.members[t]].sum() for t in chosen] for a, of in zip(allocations.values(), sums, strict=True)
        ]
        units = [of.units[chosen, i] for of in sums]
        title = f"Tasks and {instance.resource_titles[i]} of each {by}{said}"
        out.append(Table(title, first, tasks_and_units(headers, tasks, units, instance.resources[i])))
    return out


def tasks_and_units(
    headers: Sequence[str], tasks: Sequence[Any], units: Sequence[Any], resource: str
) -> list[list[Column]]:
    """For each policy a column of tasks beside one of units of a resource."""
    name = short(resource)
    return [
        [Column(f"{header}: tasks", numbers(some)), Column(name, numbers(held))]
        for header, some, held in zip(headers, tasks, units, strict=True)
    ]


def type_tables(found: ByType, whole_names: bool = False) -> list[Table]:
    """A table of tasks and one per resource, with policies as rows and server types as columns."""
    shown, policies = found.most(), list(found.tasks)
    kinds = [found.names[t] for t in shown]
    names = policies if whole_names else shortened(policies)
    headers = kinds if whole_names else shortened(kinds, ROOM)

    def table(title: str, rows: list[str], columns: list[list[str]]) -> Table:
        group = [Column(h, cells) for h, cells in zip(headers, columns, strict=True)]
        return Table(title, Column("policy", rows, right=False), [group])

    counts = ", ".join(f"{found.names[t]} x {found.servers[t]:,}" for t in shown)
    fewer = f" ({len(shown)} largest of {len(found.names)})" if len(shown) < len(found.names) else ""
    tasks = [numbers([found.tasks[p][t] for p in policies]) for t in shown]
    out = [table(f"Tasks on each type of server{fewer}: {counts}", list(names), tasks)]
    lines: list[tuple[str, Float]] = []
    for p, name in zip(policies, names, strict=True):
        lines.append((name, found.used[p]))
        if p in found.bundles:
            lines.append(("  allocated", found.held[p]))
    for i, resource in enumerate(found.resources):
        title = f"{resource}: fraction used by tasks" + (", and fraction allocated" if found.bundles else "")
        cells = [percents(parts[t, i] for _, parts in lines) for t in shown]
        out.append(table(title, [name for name, _ in lines], cells))
    return out


def both_ends(values: Float, rows: int = MAX_ROWS) -> list[int]:
    """Indices of all users, or of as many as there are rows, with the smallest and the largest values."""
    if len(values) <= rows:
        return list(range(len(values)))
    order = np.argsort(values, kind="stable").tolist()
    return [*order[: rows // 2], *order[-(rows // 2) :]]


def users_column(instance: Instance, chosen: Sequence[int]) -> Column:
    """The names of the chosen users."""
    header = "user" if len(chosen) == instance.n_users else f"user ({len(chosen)} of {instance.n_users})"
    return Column(header, shortened([instance.users[j] for j in chosen]), right=False)


def price_columns(
    allocation: Allocation, names: Sequence[str], less: str = "price of {}, one less"
) -> list[tuple[Float, list[str]]]:
    """Prices by server row with column titles, and prices for one unit less (titled by ``less``) if they differ."""
    (prices, left), instance = allocation._shown_prices, allocation.instance
    if prices is None or left is None:
        return []
    per = [f" (per {unit})" if unit else "" for unit in instance.units or ("",) * instance.n_resources]
    out = [(prices, [f"price of {name}{unit}" for name, unit in zip(names, per, strict=True)])]
    if not np.allclose(prices, left, rtol=SIDES, atol=SIDES * float(np.abs(prices).max(initial=0.0))):
        out.append((left, [less.format(f"{name}{unit}") for name, unit in zip(names, per, strict=True)]))
    return out


def short_titles(instance: Instance) -> list[str]:
    """The resources without their vendors, with their units; cores of a CPU go without saying.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[1, 1]], [8, 2], resources=["memory", "nvidia.com/gpu"], units={"memory": "GiB"})
    >>> fo.report.short_titles(pool)
    ['memory (GiB)', 'gpu']
    """
    units = instance.units or [""] * instance.n_resources
    named = zip(without_vendor(instance.resources), map(unit_shown, units), strict=True)
    return [f"{name} ({unit})" if unit else name for name, unit in named]


def percents(parts: Iterable[float | None]) -> list[str]:
    """Fractions in percent; "-" for None and NaN.

    Examples
    --------
    >>> from fairopt.report import percents
    >>> percents([0.5, None])
    ['50.0%', '-']
    """
    return ["-" if x is None or np.isnan(x) else f"{100 * x:.1f}%" for x in parts]


def numbers(values: Any) -> list[str]:
    """Numbers of a column with the same decimals; below 1e-9 of the largest they are 0, "-" if not finite.

    Examples
    --------
    >>> from fairopt.report import numbers
    >>> numbers([1, 2.5, np.inf])
    ['1.0000', '2.5000', '-']
    """
    array = np.asarray(values, dtype=float)
    finite = np.abs(array[np.isfinite(array)])
    top = float(finite.max(initial=0.0))
    whole = bool((finite == np.round(finite)).all())
    decimals = 0 if whole else min(4, max(0, 5 - len(f"{top:.0f}")))

    def text(value: float) -> str:
        if not np.isfinite(value):
            return "-"
        if abs(value) <= NOISE * top:
            return "0"
        if top >= 1e7:
            return f"{value:.3e}"
        return f"{value:.1e}" if abs(value) < 10.0**-decimals else f"{value:,.{decimals}f}"

    return [text(v) for v in array.tolist()]


def team_weights(instance: Instance, by: str | None, chosen: Sequence[int], sums: TeamSums) -> list[Column]:
    """A column of weights, which count among siblings: none if a team stands beside teams inside others like it."""
    order = instance.teams.outermost_first
    outer = order[: order.index(by)] if by else ()
    around = {name for label in outer for name in instance.teams.labelling(label).names}
    return unusual(chosen, "weight", sums.weights, 1) if around.isdisjoint(sums.names) else []


def unusual(chosen: Sequence[int], header: str, values: Float, usual: float) -> list[Column]:
    """A column of numbers of the chosen rows, unless all rows have the usual number."""
    return [Column(header, numbers(values[chosen]))] if (values != usual).any() else []


def signed(*columns: Float) -> list[list[str]]:
    """Numbers of several columns with the same decimals; the last are differences, with their signs unless they show 0.

    Examples
    --------
    >>> from fairopt.report import signed
    >>> signed(np.array([1.0]), np.array([0.5])), signed(np.array([6.0]), np.array([1e-15]))
    ([['1.0000'], ['+0.5000']], [['6.0000'], ['0']])
    """
    count, texts = len(columns[0]), numbers(np.concatenate(columns))
    *others, apart = (texts[k * count : (k + 1) * count] for k in range(len(columns)))
    zero = [text != "-" and not text.strip("-0.,") for text in apart]  # "-" stands for what is not known
    signs = ["+" * int(x > 0) for x in columns[-1]]
    return [*others, ["0" if none else s + text for none, s, text in zip(zero, signs, apart, strict=True)]]


def scarcest_first(scarcest: int, n_resources: int) -> list[int]:
    """Columns of tasks, 0, and of resources, from 1: the scarcest, then tasks, then the other resources.

    Examples
    --------
    >>> from fairopt.report import scarcest_first
    >>> scarcest_first(1, 3)
    [2, 0, 1, 3]
    """
    return [1 + scarcest, 0, *(k for k in range(1, n_resources + 1) if k != 1 + scarcest)]
