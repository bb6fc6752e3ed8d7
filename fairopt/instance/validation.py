"""Validation of the arguments of an `Instance`. Every message names the place, the value and the fix."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.instance.labels import whole_name
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.display import About
from fairopt.runtime.hostlists import hosts
from fairopt.runtime.ranges import fix_or_unit, in_range

EXACT_INTEGERS = 1 << 53  # all integers up to it are floats
POSITIVE, NOT_NEGATIVE = "give a positive finite number", "give a finite number >= 0"


class Changes(dict[Any, Any]):
    """A dict by user; users missing in it keep their old values."""

    def __init__(self, by_user: Mapping[Any, Any], before: NDArray[Any]) -> None:
        super().__init__(by_user)
        self.before = before


def left_out(by_user: Mapping[Any, Any], name: str, missing: Sequence[str], shape: tuple[int, ...], blank: Any) -> Any:
    """Values for users missing in a dict, as an array for all users: old values, or ``blank``."""
    before = by_user.before if isinstance(by_user, Changes) else np.broadcast_to(blank, shape)
    if before.shape == shape:
        return before
    if missing:
        raise InvalidInstance(
            f"{name} leaves out user {missing[0]!r}, whose old value cannot be kept because the number of users or "
            f"servers changes ({before.shape} to {shape}); name every user"
        )
    return np.broadcast_to(blank, shape)


def as_floats(values: Any, name: str) -> Float:
    """A read-only float array: float32 and float64 arrays as views, anything else converted."""
    # NumPy would use masked values; its module of them, which takes 10 ms to import, is there if there are any
    if "numpy.ma" in sys.modules and np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise InvalidInstance(f"{name} are masked (missing) in {count} places; give numbers there")
    try:
        array = np.asarray(values)
        if array.dtype not in (np.float32, np.float64):
            if array.dtype.kind not in "iufbO":  # NumPy would convert text, dates and complex numbers
                if array.dtype.kind == "U":
                    array.astype(np.float64)  # raises with the word
                raise TypeError(f"they hold {'text' if array.dtype.kind in 'US' else array.dtype.name}")
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInstance(f"{name} cannot be read as numbers ({error}); give numbers in equal rows") from error
    return frozen(array.view())


def fractions_in(values: Any, name: str) -> dict[float, Fraction | None]:
    """The Fractions, and the decimals and integers that floats round, among numbers of an argument, by their floats.

    None for a float that is the rounding of several of them. Those that floats round to 0 are refused here.
    """
    known: dict[float, Fraction | None] = {}
    for number in _leaves(values):
        if not isinstance(number, (Rational, Decimal)):
            continue
        try:
            key, exact = float(number), Fraction(number)
        except (OverflowError, ValueError):  # refused later, or infinite
            continue
        if key == 0 != exact:
            raise InvalidInstance(f"{name} hold {str(number)[:30]}; {fix_or_unit(exact, '', name)}")
        if isinstance(number, Fraction) or exact != Fraction(repr(key)):
            known[key] = exact if known.get(key, exact) == exact else None
    return known


def _leaves(values: Any) -> Iterator[Any]:
    """The entries of nested lists, arrays of objects and dicts that may be other numbers than floats."""
    if isinstance(values, Mapping):
        for value in values.values():
            yield from _leaves(value)
    elif isinstance(values, (np.ndarray, list, tuple)):
        try:
            array = np.asarray(values)
        except ValueError:  # rows of different lengths, refused later
            return
        if array.dtype.kind == "O" or (array.dtype.kind in "iu" and array.size and abs(array).max() > EXACT_INTEGERS):
            yield from array.ravel().tolist()
    else:
        yield values


def distinct(array: Any) -> Any:
    """The one entry that an array repeats by a stride of zero, or else the array: for its minimum, or all of a mask."""
    return array[:1] if array.strides == (0,) else array


def frozen(array: Any) -> Any:
    """A read-only view of an array."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def labels(given: Iterable[Any] | None, size: int, kind: str) -> tuple[str, ...] | None:
    """Labels as a tuple of unique strings, or None."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInstance(f"{kind} labels are {given!r}; give a list of {size}")
    names = tuple(str(g) for g in given)
    _require_unicode(names, f"the {kind} label")
    if len(names) != size:
        raise InvalidInstance(f"{len(names)} {kind} labels for {size} {kind}s; give one each")
    if len(set(names)) != size:
        counts = Counter(names)
        twice = next(name for name in names if counts[name] > 1)
        raise InvalidInstance(f"the {kind} label {twice!r} is given twice; labels must differ")
    return names


def _require_unicode(names: Iterable[str], what: str) -> None:
    """Refuse unpaired surrogates, which cannot be encoded."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        wrong = next(name for name in names if any("\ud800" <= c <= "\udfff" for c in name))
        raise InvalidInstance(
            f"{what} {wrong[:60]!r} holds half of a surrogate pair, which is not valid text; remove it"
        ) from error


class Numbered(Sequence[str]):
    """Default labels, such as ``user1``, made on demand."""

    def __init__(self, kind: str, size: int) -> None:
        self.kind, self.size = kind, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        return f"{self.kind}{range(self.size)[at] + 1}"

    def __iter__(self) -> Iterator[str]:
        return (f"{self.kind}{k + 1}" for k in range(self.size))


def default_labels(kind: str, size: int) -> Sequence[str]:
    """Default labels of users, resources or servers."""
    return ("pool",) if kind == "server" and size == 1 else Numbered(kind, size)


class Labels(NamedTuple):
    """The labels of an instance, for error messages."""

    users: Sequence[str]
    resources: Sequence[str]
    servers: Sequence[str]


def types_of_servers(given: Iterable[str] | None, servers: Sequence[str]) -> tuple[str, ...] | None:
    """One type per server row, possibly repeated, or None."""
    if given is None:
        return None
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise InvalidInstance(f"server_types is {given!r}; give a list of {len(servers)}, one per server row")
    types = tuple(given)
    if len(types) != len(servers):
        raise InvalidInstance(f"{len(types)} server types for {len(servers)} servers; give one each, or None")
    for server, name in zip(servers, types, strict=True):
        if not isinstance(name, str) or not name:
            raise InvalidInstance(f"type of server {server!r} is {name!r}; give text such as 'T4'")
    _require_unicode(types, "the server type")
    return tuple(map(str, types))  # converts NumPy strings


def units_of_resources(
    given: Iterable[str] | Mapping[str, str] | None, resources: Sequence[str]
) -> tuple[str, ...] | None:
    """The unit of each resource, ``""`` for none, or None if no resource has one."""
    if given is None:
        return None
    n = len(resources)
    if isinstance(given, Mapping):
        for name in given:
            index_of(name, {name: i for i, name in enumerate(resources)}, n, "resource")
        given = [given.get(name, "") for name in resources]
    named = texts(given, "units")
    _require_unicode(named, "the unit")
    if len(named) != n:
        raise InvalidInstance(
            f"{len(named)} units for {n} resources; give one each, '' for none, or a dict by resource"
        )
    titles: dict[str, str] = {}
    for name, unit in zip(resources, named, strict=True):
        if unit != unit.strip() or not unit.isprintable() or set(unit) & set("[]"):
            raise InvalidInstance(
                f"the unit of {name!r} is {unit!r}; give a short text such as 'GiB', without brackets"
            )
        title = f"{name} ({unit})" if unit else name
        if titles.setdefault(title, name) != name:
            raise InvalidInstance(
                f"the resources {titles[title]!r} and {name!r} would both be titled {title!r}; rename one"
            )
    return named if any(named) else None


def texts(given: Iterable[str], name: str) -> tuple[str, ...]:
    """A tuple of strings."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInstance(f"{name} is {given!r}; give a list of texts")
    lines = tuple(given)
    for text in lines:
        if not isinstance(text, str):
            raise InvalidInstance(f"{name} hold {text!r}; give text only")
    return tuple(text if isinstance(text, About) else str(text) for text in lines)


def merged_types(types: Sequence[str], classes: NDArray[np.int64]) -> list[str]:
    """The type of each class of servers: its types, sorted and joined by ``|``."""
    members: list[set[str]] = [set() for _ in range(int(classes.max()) + 1)]
    for name, k in zip(types, classes.tolist(), strict=True):
        members[k].add(name)
    return ["|".join(sorted(names)) for names in members]


def index_of(name: str | int, positions: Mapping[str, int], size: int, kind: str) -> int:
    """An index from a label or an index."""
    if isinstance(name, str):
        if name not in positions:
            raise InvalidInstance(f"no {kind} {name!r}; {nearest(name, positions)}")
        return positions[name]
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < size:
        return int(name)
    raise InvalidInstance(f"no {kind} {name!r}; there are {size}")


def row_of(server: str | int, rows: Mapping[str, int], part: bool = False) -> int:
    """The index of a server row; one server of a row of several is refused, unless a ``part`` of it is enough."""
    if isinstance(server, str) and server not in rows:
        for label, row in rows.items():
            if ("[" in label or "," in label) and server in (hosts(label) or ()):
                if part:
                    return row
                raise InvalidInstance(
                    f"{server!r} is one of the identical servers of the row {label!r}; name the whole row, or read "
                    "with merge=False"
                )
    return index_of(server, rows, len(rows), "server")


def check_numbers(demands: Float, capacities: Float, labels: Labels) -> None:
    """Check that demands and capacities are `in_range`, and that every user has a positive demand."""
    by_server = (labels.users, labels.servers, labels.resources)
    axes = by_server if demands.ndim == 3 else (labels.users, labels.resources)
    for name, array, along in (("demands", demands, axes), ("capacities", capacities, by_server[1:])):
        bad = ~in_range(array)
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            *rest, resource = [each[k] for each, k in zip(along, at, strict=True)]
            place = (
                f"of user {rest[0]!r} for resource {resource!r}" if name == "demands" else f"of resource {resource!r}"
            )
            if len(at) == 3 or name == "capacities":
                place += f" on server {rest[-1]!r}"
            raise InvalidInstance(f"{name} {place} is {array[at]}; {fix_or_unit(array[at], NOT_NEGATIVE, resource)}")
    flat = demands if demands.ndim == 2 else demands.max(axis=1, initial=0.0)
    empty = ~(flat.any(axis=1))
    if empty.any():
        raise InvalidInstance(
            f"user {labels.users[int(np.argmax(empty))]!r} demands nothing at all (a row of zeros), so its tasks would "
            "be unlimited; give it a positive demand or leave it out"
        )


def check_totals(capacities: Float, labels: Labels) -> None:
    """Check that the capacities of all servers together are `in_range`, since policies compare shares of them."""
    for i in np.flatnonzero(~in_range(capacities)).tolist():
        total, name = capacities[i], labels.resources[i]
        fix = fix_or_unit(total, NOT_NEGATIVE, name)
        raise InvalidInstance(f"capacities of resource {name!r} on all servers are {total:g} together; {fix}")


def check_per_user(array: Float, name: str, right: Bool, fix: str, users: Sequence[str]) -> None:
    """Check one number per user; ``right`` marks valid ones."""
    if not right.all():
        j = int(np.argmin(right))
        what = "weights" if name == "weights" else "tasks"
        raise InvalidInstance(f"{name} of user {users[j]!r} is {array[j]}; {fix_or_unit(array[j], fix, what)}")


def checked_counts(counts: ArrayLike | None, servers: Sequence[str]) -> NDArray[np.int64]:
    """Counts as integers >= 1, one per server row; 1 by default."""
    if counts is None:
        return np.ones(len(servers), dtype=np.int64)
    given = as_floats(counts, "counts")
    if given.shape != (len(servers),):
        raise InvalidInstance(f"counts have shape {given.shape}; give one whole number per server row")
    bad = ~((given >= 1) & (given <= 2**53)) | (given != np.floor(given))
    if bad.any():
        s = int(np.argmax(bad))
        raise InvalidInstance(f"count of server {servers[s]!r} is {given[s]}; give a whole number >= 1")
    return given.astype(np.int64)


def weights_of_teams(given: Mapping[str, Any]) -> dict[str, float]:
    """Weights by team, positive and finite."""
    out = {}
    for team, weight in given.items():
        number = as_floats(weight, f"weights of team {team!r}")
        if number.ndim or number == 0 or not in_range(number):
            raise InvalidInstance(f"weights of team {team!r} is {weight!r}; {fix_or_unit(number, POSITIVE, 'weights')}")
        out[team] = float(number)
    return out


def guarantees_of_teams(given: Mapping[str, Any], resources: Sequence[str]) -> dict[str, dict[str, float]]:
    """Guarantees by team, in units by resource: 0 of one beside others counts, and None is none of it."""
    position = {name: i for i, name in enumerate(resources)}
    out: dict[str, dict[str, float]] = {}
    for team, units in given.items():
        if not isinstance(units, Mapping):
            raise InvalidInstance(
                f"guarantees of team {team!r} is {units!r}; give units by resource, such as {{{resources[0]!r}: 16}}, "
                "or tasks of its members by name"
            )
        some: dict[str, float] = {}
        named = set[str]()
        for resource, amount in units.items():
            if amount is None:
                continue
            name = resources[index_of(whole_name(resource, resources), position, len(resources), "resource")]
            if name in named:
                raise InvalidInstance(f"guarantees of team {team!r} name resource {name!r} twice; give it once")
            named.add(name)
            number = as_floats(amount, f"guarantees of team {team!r}")
            if number.ndim or not in_range(number):
                fix = fix_or_unit(number, NOT_NEGATIVE, name)
                raise InvalidInstance(f"guarantees of team {team!r} for resource {resource!r} is {amount!r}; {fix}")
            some[name] = float(number)
        if any(some.values()):
            out[team] = some
    return out


def refuse_units_of_users(given: Any) -> None:
    """Refuse the guarantee of a user in units by resource, which is that of a team."""
    for user, tasks in given.items() if isinstance(given, Mapping) else ():
        if isinstance(tasks, Mapping):
            raise InvalidInstance(
                f"guarantees of user {user!r} is {dict(tasks)!r}; give a number of tasks, since units are for teams"
            )


def by_member(given: Any, members: Mapping[str, Indices]) -> Any:
    """A dict by user or team as one by user (or its index); a user's own value wins."""
    if not isinstance(given, Mapping) or not any(name in members for name in given):
        return given
    of_teams = {int(j): value for name, value in given.items() if name in members for j in members[name]}
    of_users = {name: value for name, value in given.items() if name not in members}
    merged = {**of_teams, **of_users}
    return Changes(merged, given.before) if isinstance(given, Changes) else merged


def checked_rates(given: Any, labels: Labels, members: Mapping[str, Indices]) -> Float | None:
    """Rates as (n_users, n_servers), finite and nonnegative, with a positive one for every user; or None."""
    if given is None:
        return None
    shape, given = (len(labels.users), len(labels.servers)), by_member(given, members)
    if isinstance(given, Mapping):
        given = _by_user_and_server(given, "rates", labels, 1.0)
    rates = _one_per_pair(given, "rates", shape, labels)
    idle = ~rates.any(axis=1)
    if idle.any():
        raise InvalidInstance(
            f"user {labels.users[int(np.argmax(idle))]!r} has a rate of 0 on every server; give it a positive rate "
            "somewhere, or leave it out"
        )
    return frozen(rates)


def checked_held(given: Any, labels: Labels, by_server: bool) -> Float:
    """Tasks held as (n_users, n_servers), or as (n_users,) where the servers are not known; finite and nonnegative.

    ``by_server``: demands differ by server, so that the servers have to be known.
    """
    shape = (len(labels.users), len(labels.servers))
    if isinstance(given, Mapping):
        at, missing = _places(given, labels.users)
        places = [user for user, row in given.items() if np.ndim(row) or isinstance(row, Mapping)]
        before = given.before.ndim if isinstance(given, Changes) else 1
        if places or (before == 2 and shape[1] > 1):
            number = next((user for user in given if user not in places), None)
            if number is not None and shape[1] > 1:
                raise InvalidInstance(
                    f"held of user {number!r} is {given[number]!r}, but others are given by server; give a number "
                    f"for each of the {shape[1]} servers, or a dict by server"
                )
            if before == 1 and isinstance(given, Changes) and missing and shape[1] > 1:
                raise InvalidInstance(
                    f"held of user {missing[0]!r} is known in all only, but that of {places[0]!r} is given by server; "
                    "name every user"
                )
            given = _by_user_and_server(given, "held", labels, 0.0)
        else:
            out = np.array(left_out(given, "held", missing, shape[:1], 0.0))
            for user, tasks in given.items():
                out[at[user]] = as_floats(tasks, f"held of user {user!r}")
            given = out
    held = as_floats(given, "held")
    if held.ndim == 1 and held.shape == shape[:1] and shape[1] == 1:
        held = held[:, None]
    if held.ndim != 1:
        return frozen(_one_per_pair(held, "held", shape, labels))
    if held.shape != shape[:1]:
        raise InvalidInstance(f"held has shape {held.shape}; give (n_users, n_servers) = {shape}, or {shape[:1]}")
    if by_server:
        raise InvalidInstance("held has one number per user, but demands differ by server; give one per server")
    check_per_user(held, "held", in_range(held), "give a finite number of tasks >= 0", labels.users)
    return frozen(held)


def _places(given: Mapping[Any, Any], users: Sequence[str]) -> tuple[dict[Any, int], list[str]]:
    """The index of each user in a dict by label or index, and the users that it leaves out."""
    position = {user: j for j, user in enumerate(users)}
    at = {user: index_of(user, position, len(users), "user") for user in given}
    named = set(at.values())
    return at, [user for user, j in position.items() if j not in named]


def _by_user_and_server(given: Mapping[Any, Any], name: str, labels: Labels, blank: float) -> Float:
    """A dict by user of numbers per server, of dicts by server or of single numbers as (n_users, n_servers)."""
    shape = (len(labels.users), len(labels.servers))
    columns = {server: s for s, server in enumerate(labels.servers)}
    at, missing = _places(given, labels.users)
    out = np.array(left_out(given, name, missing, shape, blank))
    for user, row in given.items():
        if isinstance(row, Mapping):
            for server, number in row.items():
                what = f"{name} of user {labels.users[at[user]]!r} on server {server!r}"
                tasks = as_floats(number, what)
                if tasks.ndim:
                    raise InvalidInstance(f"{what} is {number!r}; give one number")
                out[at[user], row_of(server, columns)] = tasks
            continue
        numbers = as_floats(row, f"{name} of user {labels.users[at[user]]!r}")
        if numbers.shape not in ((), shape[1:]):
            raise InvalidInstance(
                f"{name} of user {labels.users[at[user]]!r} have the shape {numbers.shape}; give one per server"
            )
        out[at[user]] = numbers
    return out


def _one_per_pair(given: Any, name: str, shape: tuple[int, int], labels: Labels) -> Float:
    """Numbers as (n_users, n_servers), finite and nonnegative."""
    out = as_floats(given, name)
    if out.size == 0 == shape[0]:
        out = out.reshape(shape)
    if out.shape != shape:
        raise InvalidInstance(f"{name} have shape {out.shape}; give (n_users, n_servers) = {shape}")
    bad = ~in_range(out)
    if bad.any():
        j, s = (int(k) for k in np.argwhere(bad)[0])
        place = f"{name} of user {labels.users[j]!r} on server {labels.servers[s]!r}"
        fix = fix_or_unit(out[j, s], NOT_NEGATIVE, "tasks" if name == "held" else name)
        raise InvalidInstance(f"{place} is {out[j, s]}; {fix}")
    return out


def checked_eligibility(
    eligible: Any, demands: Float, capacities: Float, labels: Labels, rates: Float | None = None
) -> Bool:
    """Eligibility as (n_users, n_servers): nowhere without a needed resource, or where the user's rate is 0."""
    shape = (len(demands), len(capacities))
    if eligible is None:
        allowed: Bool = np.broadcast_to(np.True_, shape)
    elif isinstance(eligible, Mapping):
        allowed = _eligibility_by_name(eligible, labels)
    else:
        try:
            given = np.asarray(eligible)
        except ValueError as error:
            raise InvalidInstance(f"eligible cannot be read ({error}); give rows of equal length") from error
        if given.size == 0 and len(demands) == 0:
            given = given.reshape(shape)
        if given.shape != shape:
            raise InvalidInstance(f"eligible has shape {given.shape}; give (n_users, n_servers) = {shape}")
        if given.dtype != bool and not np.isin(given, (0, 1)).all():
            raise InvalidInstance("eligible holds values other than true and false (or 1 and 0); give only these")
        allowed = given.astype(bool, copy=False)
    if rates is not None:
        allowed = allowed & (rates > 0)
    if eligible is None and rates is None and demands.ndim == 2 and capacities.all():
        return allowed  # the usual case, quickly
    per_server = demands if demands.ndim == 3 else demands[:, None, :]
    for i in np.flatnonzero((capacities == 0).any(axis=0)):
        allowed = allowed & ~((capacities[:, i] == 0) & (per_server[:, :, i] > 0))
    if demands.ndim == 3:  # tasks without demands on a server would be unlimited there
        free = allowed & ~demands.any(axis=2)
        if free.any():
            j, s = (int(k) for k in np.argwhere(free)[0])
            raise InvalidInstance(
                f"user {labels.users[j]!r} demands nothing on server {labels.servers[s]!r}, so its tasks would be "
                "unlimited there; give a positive demand, or mark it as not eligible"
            )
    if not allowed.any(axis=1).all():
        _refuse_nowhere(int(np.argmin(allowed.any(axis=1))), per_server, capacities, labels)
    return allowed


def _eligibility_by_name(eligible: Mapping[Any, Any], labels: Labels) -> Bool:
    columns = {server: s for s, server in enumerate(labels.servers)}
    at, missing = _places(eligible, labels.users)
    allowed = np.array(left_out(eligible, "eligible", missing, (len(labels.users), len(columns)), np.True_))
    for user, names in eligible.items():
        if not isinstance(names, (str, list, tuple, set, frozenset)):
            raise InvalidInstance(f"eligible of user {user!r} is {names!r}; give a list of server labels")
        allowed[at[user]] = False
        for name in [names] if isinstance(names, str) else names:
            allowed[at[user], row_of(name, columns)] = True
    return allowed


def _refuse_nowhere(j: int, demands: Float, capacities: Float, labels: Labels) -> None:
    """Raise the error for a user who is eligible on no server."""
    needed = np.broadcast_to(demands[j] > 0, capacities.shape)
    for i, resource in enumerate(labels.resources):
        if needed[:, i].any() and not capacities[needed[:, i], i].any():
            raise InvalidInstance(
                f"user {labels.users[j]!r} needs {resource!r}, which has capacity 0 on every server; "
                "give it capacity, or leave the user out"
            )
    raise InvalidInstance(
        f"user {labels.users[j]!r} is eligible on no server that has all it needs; "
        "check its row of eligible against the capacities, or leave the user out"
    )
