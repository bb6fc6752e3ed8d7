"""Converts tables of users, servers, demands or rates by server, and teams to an instance, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.notes import Arguments, closed_servers
from fairopt.io.tables import Column, InputTable, short
from fairopt.runtime.arrays import Bool, Float, Ints

if TYPE_CHECKING:
    from fairopt.instance import Instance

# A column holds names, numbers (infinity for no limit) or lists of names (None for everywhere).
TableColumns = dict[str, Any]

WEIGHT = Column("weight", "weights", "give a number > 0, or leave it empty for 1", blank=1.0, positive=True)
# Optional columns, written unless all rows are blank. Resources cannot have these names.
USER_COLUMNS = (
    WEIGHT,
    Column("task_limit", "task_limits", "give a number >= 0, or leave it empty for no limit", np.inf, infinite=True),
    Column("guarantee", "guarantees", "give a number of tasks >= 0, or leave it empty for none", blank=0.0),
)
SERVER_COLUMNS = (Column("count", "counts", "give a whole number >= 1", blank=1.0, positive=True, whole=True),)
RATE = Column("rate", "rates", "give a number >= 0", blank=1.0)
HELD = Column("held", "held", "give a number of tasks >= 0, or leave it empty for none", blank=0.0)
BY_SERVER = (RATE, HELD)  # columns of the table by user and server, beside demands
TEAM = "team"  # the label in the column of this name; others are in columns such as "org [team]"
TITLES = ("users", "servers", "demands", "teams")  # of the tables; the last two are optional
ABOUT_DEMANDS = ("user", "server")
_ABOUT_USERS = ("user", *(column.name for column in (*USER_COLUMNS, HELD)), TEAM, "servers")
_ABOUT_SERVERS = ("server", *(column.name for column in SERVER_COLUMNS), "type")
_RESERVED = {*_ABOUT_USERS, *_ABOUT_SERVERS, RATE.name}
NO_USERS = "there are no users"
_WITH_UNIT = re.compile(r"(.+) \[([^\[\]]*)\]", re.DOTALL)
_UNIT_AT_END = re.compile(r"(.*\S)\s*[\[(][^\[\]()]*[\])]", re.DOTALL)  # also parentheses, or no space
_MAX_ENTRIES = 1 << 30  # in an array of users x servers x resources: 8 GiB


def reader_of_tables(read: Callable[[Any, Sequence[str]], InputTable]) -> Callable[..., Arguments]:
    """Make a reader of instances from ``read``, which reads one table and checks its required columns.

    The reader takes users (None to read servers alone), servers and, if there are any, demands or rates by server, and
    teams; ``labels`` are further columns of users that are labels.
    """

    def read_tables(
        users: Any, servers: Any, demands: Any = None, teams: Any = None, labels: Sequence[str] = ()
    ) -> Arguments:
        of_servers = read(servers, ("server",))
        of_users = _no_users(of_servers) if users is None else read(users, ("user",))
        by_server = None if demands is None else read(demands, ABOUT_DEMANDS)
        return arguments_of_tables(
            of_users, of_servers, by_server, None if teams is None else read(teams, (TEAM,)), labels
        )

    return read_tables


def _no_users(servers: InputTable) -> InputTable:
    return InputTable(servers.path, {name: [] for name in ("user", *_resource_headers(servers))}, 0, [])


def arguments_of_tables(
    users: InputTable,
    servers: InputTable,
    demands: InputTable | None = None,
    teams: InputTable | None = None,
    labels: Sequence[str] = (),
) -> Arguments:
    """Read an instance from tables in the format of `fairopt.datasets.read`."""
    known = _labels_of_users(users, labels)
    pairs, about_pairs = demands, {*ABOUT_DEMANDS, *(column.name for column in BY_SERVER)}
    demands = None if demands is None or about_pairs.issuperset(demands.columns) else demands
    headers, resources, units = _resources(users, servers, demands, known)
    server_labels = servers.labels("server")
    if not server_labels:
        raise InvalidInstance(f"{servers.path} has a header only; add a line for at least one server")
    user_labels = users.labels("user")
    entries = len(users) * len(servers) * (1 if demands is None else len(headers))
    if entries > _MAX_ENTRIES and (demands is not None or "servers" in users.columns):
        raise InvalidInstance(
            f"{users.path} and {servers.path}: {len(users):,} users on {len(servers):,} servers are too many to list "
            "who may run where; give identical servers one row with a count"
        )
    of_users, of_servers = users.arguments((*USER_COLUMNS, HELD)), servers.arguments(SERVER_COLUMNS)
    types = servers.texts("type") if "type" in servers.columns else None
    if types is not None and "" in types:
        servers.refuse(types.index(""), "type", "the type is empty; give every server one, or remove the column")
    notes = [] if len(users) else [f"{NO_USERS}: {users.path} has no rows"]
    eligible = eligibility(users, servers.path, server_labels, notes)
    if demands is None:
        amounts = _matrix(users, headers)
        for row in np.flatnonzero(~amounts.any(axis=1)):
            _refuse_zero_demand(users, int(row), f"{short(user_labels[row])} demands nothing at all")
    else:
        amounts, eligible = _by_server(demands, headers, user_labels, server_labels, eligible, (users, servers), notes)
    of_users |= _of_pairs(pairs, user_labels, server_labels, (users, servers))
    by_user: dict[str, Any] = {key: of_users.pop(key) for key in ("weights", "guarantees") if key in of_users}
    values = dict(
        demands=amounts,
        capacities=_matrix(servers, headers),
        eligible=eligible,
        users=user_labels,
        resources=resources,
        servers=server_labels,
        server_types=types,
        units=units,
        notes=notes,
        teams={name: [team or None for team in users.texts(column)] for name, column in known.items()},
        **_with_teams(by_user, user_labels, teams, servers.path, dict(zip(headers, resources, strict=True)), notes),
    )
    return Arguments({**of_users, **of_servers, **values}, (users.path, servers.path))


def _labels_of_users(users: InputTable, labels: Sequence[str]) -> dict[str, str]:
    """The columns of users that are labels, by the name of the label, from the innermost out.

    That is their order, and ``labels`` that are no such column after them; ``labels`` give their own order, the
    outermost first.
    """
    known: dict[str, str] = {}
    for column in users.columns:
        name, unit = _resource_of(column)
        if TEAM in (unit, column) and known.setdefault(name, column) != column:
            raise InvalidInstance(
                f"{users.path}: the columns {known[name]!r} and {column!r} are the same label; keep one"
            )
    possible = [*known, *(column for column in users.columns if column not in _ABOUT_USERS)]
    for label in labels:
        if label not in possible:
            raise InvalidInstance(f"{users.path}: there is no column {label!r} of labels; {nearest(label, possible)}")
    known |= {label: label for label in reversed(labels) if label not in known}
    labels = [*dict.fromkeys(labels)]
    given = reversed(labels)
    order = [next(given) if name in labels else name for name in known]
    return {name: known[name] for name in order}


def _with_teams(
    by_user: dict[str, Any],
    users: list[str],
    teams: InputTable | None,
    servers: str,
    resources: dict[str, str],
    notes: list[str],
) -> dict[str, Any]:
    """Weights and guarantees by user, and by team if there is a table of teams."""
    if teams is None:
        return by_user
    units = [column for column in teams.columns if column not in (TEAM, WEIGHT.name)]
    for header in units:
        if header not in resources:
            refuse_other_unit(header, resources, teams.path, servers, back=True)
            problem = f"the column {header!r} is not a resource of {servers}; {nearest(header, list(resources))}"
            raise InvalidInstance(f"{teams.path}: {problem}")
    names = teams.labels(TEAM)
    blank = "give a finite number >= 0, or leave it empty for no guarantee of it"
    columns = {resources[header]: Column(header, fix=blank, blank=np.inf, infinite=True) for header in units}
    amounts = {of: teams.numbers(column).tolist() for of, column in columns.items()}
    given: dict[str, dict[str, Any]] = {
        "guarantees": {
            name: {of: units[row] for of, units in amounts.items() if units[row] < np.inf}
            for row, name in enumerate(names)
        }
    }
    for name, floor in given["guarantees"].items():
        if any(floor.values()) and not all(floor.values()):
            none = ", ".join(of for of, units in floor.items() if not units)
            notes.append(
                f"the guarantee of {short(name)} with 0 {none} is for tasks that need none of it; leave a cell empty "
                "for no guarantee"
            )
    if WEIGHT.name in teams.columns:
        weights = teams.numbers(replace(WEIGHT, blank=np.inf, infinite=True)).tolist()
        given["weights"] = {name: weight for name, weight in zip(names, weights, strict=True) if weight < np.inf}
    of_users = {argument: dict(zip(users, column.tolist(), strict=True)) for argument, column in by_user.items()}
    return {argument: {**of_users.get(argument, {}), **given.get(argument, {})} for argument in {**of_users, **given}}


def _of_pairs(
    table: InputTable | None, users: list[str], servers: list[str], tables: tuple[InputTable, InputTable]
) -> dict[str, Float]:
    """Rates and tasks held of shape (n_users, n_servers), 0 without a line, by argument."""
    columns = [column for column in BY_SERVER if table is not None and column.name in table.columns]
    if table is None or not columns:
        return {}
    if HELD in columns and HELD.name in tables[0].columns:
        raise InvalidInstance(f"{tables[0].path} and {table.path} both have a column {HELD.name!r}; keep one")
    j, s = _positions(table, users, servers, tables)
    out = {column.argument: np.zeros((len(users), len(servers))) for column in columns}
    for column in columns:
        out[column.argument][j, s] = table.numbers(column)
    if RATE in columns:
        present = np.zeros((len(users), len(servers)), dtype=bool)
        present[j, s] = True
        _check_every_user(present, table, users)
    return out


def _resource_headers(servers: InputTable) -> list[str]:
    """The resource columns of a table of servers."""
    return [column for column in servers.columns if column not in _ABOUT_SERVERS]


def _resource_of(header: str) -> tuple[str, str]:
    """The resource and the unit in a header."""
    match = _WITH_UNIT.fullmatch(header)
    return (match[1], match[2]) if match else (header, "")


def _without_unit(header: str) -> str:
    """The header without a trailing unit in brackets or parentheses."""
    match = _UNIT_AT_END.fullmatch(header)
    return match[1] if match else header


def _resources(
    users: InputTable, servers: InputTable, demands: InputTable | None, labels: dict[str, str]
) -> tuple[list[str], list[str], list[str]]:
    """Headers, names and units of the resources, after checking that the tables have the same ones."""
    headers = _resource_headers(servers)
    if not headers:
        raise InvalidInstance(f"{servers.path} has no resource columns; add one per resource, such as cpu or memory")
    first: dict[str, str] = {}
    for header in headers:
        name, unit = _resource_of(header)
        place = f"{servers.path}, column {header!r}"
        if header != name and (not unit or unit != unit.strip() or not unit.isprintable()):
            raise InvalidInstance(f"{place}: the unit is {unit!r}; write it as 'memory [GiB]'")
        if name in _RESERVED:
            raise InvalidInstance(f"{place}: {name!r} has another meaning and is not a resource; give it another name")
        other = first.setdefault(name, header)
        if other != header:
            both = f"the columns {other!r} and {header!r} are the same resource {name!r}"
            raise InvalidInstance(f"{servers.path}: {both}; keep one")
    about_users = (*_ABOUT_USERS, *labels.values())
    demanding, about = (
        (users, about_users) if demands is None else (demands, (*ABOUT_DEMANDS, *(c.name for c in BY_SERVER)))
    )
    demand_columns = [column for column in demanding.columns if column not in about]
    for header in headers:
        if header not in demand_columns:
            refuse_other_unit(header, demand_columns, demanding.path, servers.path)
            raise InvalidInstance(
                f"{demanding.path}: there is no column {header!r}, which {servers.path} has as a resource; "
                "add it, with 0 for the users who do not need it"
            )
    known = [*dict.fromkeys((*headers, *about))]
    for column in demand_columns:
        if column not in known:
            problem = f"the column {column!r} is not a resource of {servers.path}; {nearest(column, known)}"
            of_teams = f"; if it is a label of users, call it {column + ' [team]'!r}" if demands is None else ""
            raise InvalidInstance(f"{demanding.path}: {problem}{of_teams}")
    for column in users.columns:
        if demands is not None and column not in about_users:
            raise InvalidInstance(
                f"{users.path}: the column {column!r} is none of {', '.join(about_users)}; demands of users "
                f"are in {demands.path}, so remove one of the two"
            )
    pairs = [_resource_of(header) for header in headers]
    return headers, [name for name, _ in pairs], [unit for _, unit in pairs]


def refuse_other_unit(header: str, columns: Iterable[str], path: str, servers: str, back: bool = False) -> None:
    """Raise an error if a column names the resource of a header with another unit; ``back``: the header is of path."""
    other = next((column for column in columns if _without_unit(column) == _without_unit(header)), None)
    if other is not None:
        other, header = (header, other) if back else (other, header)
        raise InvalidInstance(
            f"{path} has the column {other!r} where {servers} has {header!r}; nothing is converted: give both in the "
            "same unit, under the same header, as 'memory [GiB]'"
        )


def headers_of(instance: Instance) -> list[str]:
    """The headers of the resources in a table, as ``memory [GiB]``."""
    units = instance.units or ("",) * instance.n_resources
    return [f"{name} [{unit}]" if unit else name for name, unit in zip(instance.resources, units, strict=True)]


def _matrix(table: InputTable, headers: list[str]) -> Float:
    return np.column_stack([table.numbers(name) for name in headers])


def _refuse_zero_demand(table: InputTable, row: int, what: str) -> NoReturn:
    fix = "give it a positive demand or remove the line"
    table.refuse(row, "user", f"{what}, so its tasks would be unlimited; {fix}")


def eligibility(users: InputTable, servers_path: str, labels: list[str], notes: list[str]) -> Bool | None:
    """The servers in the column ``servers`` of each row, shape (n_rows, n_servers); None if all may run everywhere."""
    cells = users.lists("servers") if "servers" in users.columns else []
    if all(cell is None for cell in cells):
        return None
    position = {name: s for s, name in enumerate(labels)}
    allowed = np.ones((len(users), len(labels)), dtype=bool)
    for row, names in enumerate(cells):
        if names is None:
            continue
        allowed[row] = False
        for name in names:
            s = position.get(name, position.get(name.strip()))
            if s is None:
                problem = f"{servers_path} has no server {short(name.strip())}; {nearest(name, labels)}"
                if names[0].startswith("[") and names[-1].endswith("]"):
                    problem = f"{short('|'.join(names))} is a list in Python's notation; join the names with '|'"
                users.refuse(row, "servers", problem)
            allowed[row, s] = True
    listing = [cell is not None for cell in cells]
    listed = np.any(allowed[listing], axis=0)
    notes += closed_servers(labels, listed, f"list of servers in {users.path}", all(listing))
    return allowed


def _by_server(
    demands: InputTable,
    headers: list[str],
    users: list[str],
    servers: list[str],
    allowed: Bool | None,
    tables: tuple[InputTable, InputTable],
    notes: list[str],
) -> tuple[Float, Bool]:
    """Demands of shape (n_users, n_servers, n_resources), and who may run where."""
    j, s = _positions(demands, users, servers, tables)
    amounts = _matrix(demands, headers)
    out = np.zeros((len(users), len(servers), len(headers)), dtype=amounts.dtype)
    out[j, s] = amounts
    running = demands.numbers(HELD) > 0 if HELD.name in demands.columns else np.zeros(len(demands), dtype=bool)
    present = np.zeros(out.shape[:2], dtype=bool)
    present[j, s] = amounts.any(axis=1) | ~running  # tasks may run where no further ones may
    notes += closed_servers(servers, np.any(present, axis=0), f"line of {demands.path}", to_all=True)
    eligible = present if allowed is None else present & allowed
    for empty in np.flatnonzero(~amounts.any(axis=1) & eligible[j, s]):
        _refuse_zero_demand(demands, int(empty), f"{users[j[empty]]!r} demands nothing at all on {servers[s[empty]]!r}")
    _check_every_user(present, demands, users)
    if allowed is not None:
        listed = ~np.all(allowed, axis=1, keepdims=True)  # users without a list may run wherever they have a line
        missing = allowed & ~present & listed
        if missing.any():
            k, r = (int(at) for at in np.argwhere(missing)[0])
            raise InvalidInstance(
                f"{tables[0].path} lets user {users[k]!r} run on {servers[r]!r}, for which {demands.path} has no line; "
                "add it, or take the server from the list"
            )
    return out, eligible


def _positions(
    table: InputTable, users: list[str], servers: list[str], tables: tuple[InputTable, InputTable]
) -> list[Ints]:
    """The positions of the user and the server of each line; each pair is given once."""
    at = []
    for column, labels, other in zip(ABOUT_DEMANDS, (users, servers), tables, strict=True):
        position = {name: k for k, name in enumerate(labels)}
        names = table.texts(column)
        positions = np.fromiter((position.get(name, -1) for name in names), dtype=np.int64, count=len(names))
        if (positions < 0).any():
            row = int(np.argmax(positions < 0))
            known = f"{other.path} has no {column} {short(names[row])}"
            table.refuse(row, column, f"{known}; {nearest(names[row], labels)}")
        at.append(positions)
    j, s = at
    pairs: Ints = j * len(servers) + s
    kept, first = np.unique(pairs, return_index=True)
    if len(kept) < len(pairs):
        row = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        before = table.place(int(np.flatnonzero(pairs == pairs[row])[0]))
        table.refuse(row, "server", f"{users[j[row]]!r} on {servers[s[row]]!r} is given on {before} too; keep one")
    return at


def _check_every_user(present: Bool, table: InputTable, users: list[str]) -> None:
    """Raise an error about a user without a line."""
    without_line = ~present.any(axis=1)
    if without_line.any():
        name = users[int(np.argmax(without_line))]
        raise InvalidInstance(f"{table.path} has no line for user {name!r}; add one for every server it may run on")


# -- write --------------------------------------------------------------------------------------------------------


def tables_of(instance: Instance, joined: bool = False) -> dict[str, TableColumns]:
    """An instance as tables ``users`` and ``servers``, ``demands`` if they or rates differ by server, and ``teams``.

    The last has a row for each team with a weight or a guarantee, and is omitted if there is none. Columns that hold
    only defaults (weights of 1, no task limits, ...) are omitted; numbers keep their precision. The eligible servers of
    a user are a list, or, if ``joined``, text separated by ``|``; None means all servers.
    """
    if instance.limits:
        raise InvalidInstance("tables cannot hold the limits of this instance; write to a .json file")
    units = instance.units or ("",) * instance.n_resources
    headers = headers_of(instance)
    for name, unit, header in zip(instance.resources, units, headers, strict=True):
        if name in _RESERVED or unit == TEAM:
            refuse_name("resource", name, "is the name of a column with another meaning")
        if _resource_of(header) != (name, unit):
            refuse_name("resource", name, "ends like a header with a unit")
    for kind, names in named(instance):
        for name in names:
            if not name:
                refuse_name(kind, name, "is empty")
    by_server = instance.demands.ndim == 3
    rows = (instance.demands != 0) | np.signbit(instance.demands)  # -0.0 is kept too
    rates = instance.rates
    present = rows.any(axis=2) if by_server else np.broadcast_to(np.True_, instance.eligible.shape)
    if rates is not None:
        present = (present & by_server) | (rates > 0)
    held = instance.held_tasks if instance.n_servers == 1 else instance.held
    constrained = np.zeros(instance.n_users, dtype=bool)  # users barred from a server that has all they need
    for s, capacities in enumerate(instance.capacities):
        missing = (instance.per_server_demands[:, s, capacities == 0] > 0).any(axis=1)
        free = present[:, s] if rates is None else present[:, s] & (rates[:, s] > 0)
        constrained |= free & ~instance.eligible[:, s] & ~missing
    if constrained.any() and not by_server:  # name every possible server, so that a reader notices new ones
        unnamed = ~instance.eligible[constrained].any(axis=0)
        constrained |= instance.eligible[:, unnamed].any(axis=1) & ~instance.eligible.all(axis=1)

    def optional(columns: Iterable[Column]) -> TableColumns:
        own = {"weights": "own_weights"}  # before weights of teams are divided
        values = [(column, getattr(instance, own.get(column.argument, column.argument))) for column in columns]
        return {column.name: numbers for column, numbers in values if (numbers != column.blank).any()}

    users: TableColumns = {"user": list(instance.users)}
    users |= {name if name == TEAM else f"{name} [{TEAM}]": list(instance.teams[name]) for name in instance.teams}
    users |= optional(USER_COLUMNS)
    users |= {HELD.name: held} if held is not None and held.ndim == 1 else {}
    servers: TableColumns = {"server": list(instance.servers), **optional(SERVER_COLUMNS)}
    if constrained.any():
        lists = [
            [instance.servers[s] for s in np.flatnonzero(allowed)] if bound else None
            for allowed, bound in zip(instance.eligible, constrained, strict=True)
        ]
        for name in instance.servers if joined else ():
            if "|" in name or name != name.strip():
                refuse_name("server", name, "holds '|', which separates names of servers, or has blanks at its ends")
        users["servers"] = [names and "|".join(names) for names in lists] if joined else lists
    if instance.server_types is not None:
        servers["type"] = list(instance.server_types)
    servers |= {header: instance.capacities[:, i] for i, header in enumerate(headers)}
    if not by_server:
        users |= {header: instance.demands[:, i] for i, header in enumerate(headers)}
    tables = {"users": users, "servers": servers}
    held = held if held is not None and held.ndim == 2 else None
    if by_server or rates is not None or held is not None:
        listed = present & (by_server or rates is not None)
        j, r = np.nonzero(listed if held is None else listed | (held > 0))
        tables["demands"] = {
            "user": [instance.users[k] for k in j.tolist()],
            "server": [instance.servers[k] for k in r.tolist()],
            **({RATE.name: rates[j, r]} if rates is not None else {}),
            **({HELD.name: held[j, r]} if held is not None else {}),
            **({header: instance.demands[j, r, i] for i, header in enumerate(headers)} if by_server else {}),
        }
    return tables | _table_of_teams(instance, headers)


def _table_of_teams(instance: Instance, headers: list[str]) -> dict[str, TableColumns]:
    """The table of the weights and guarantees of teams, if there are any."""
    weights, floors = instance.team_weights, instance.team_guarantees
    names = [name for name in instance.teams.names if name in weights or name in floors]
    table: TableColumns = {TEAM: names}
    if weights:
        table[WEIGHT.name] = np.array([weights.get(name, np.inf) for name in names])
    for resource, header in zip(instance.resources, headers, strict=True):
        if any(resource in floor for floor in floors.values()):
            table[header] = np.array([floors.get(name, {}).get(resource, np.inf) for name in names])
    return {"teams": table} if names else {}


def named(instance: Instance) -> Iterator[tuple[str, Sequence[str]]]:
    """The names in an instance, by kind."""
    yield "resource", instance.resources
    yield "user", instance.users
    yield "server", instance.servers
    yield "server type", instance.server_types or ()
    yield "label", tuple(instance.teams)
    yield "team", tuple(instance.teams.names)
    yield "unit", [unit for unit in instance.units or () if unit]


def refuse_name(kind: str, name: str, problem: str) -> NoReturn:
    """Raise an error about a name that a table cannot hold."""
    raise InvalidInstance(f"the {kind} {name[:60]!r} {problem}; rename it, or write to a .json file")
