"""Reads extracts of Google's ClusterData 2019: the state of a Borg cell at a given time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest, optional
from fairopt.io import Arguments, Notes, about, check_choice, check_file, is_path, short
from fairopt.runtime import tell
from fairopt_clusters.read.work import TASKS, Work, arguments_of_work

if TYPE_CHECKING:
    import pandas as pd

_ABSENT, _AFTER = -(2**63), 2**63 - 1  # a missing whole number; the time of events after the trace
_ROWS = 1 << 18  # rows to sort at once
_EXACT = 2**53  # larger whole numbers lose digits as floats
_SMALLEST, _LARGEST = 1e-12, 1e12  # amounts are relative to the largest server: 1 is large, 1e-6 small
_NOT_GIVEN = ["", "null", "NULL", "None", "nan", "NaN"]
_AMOUNTS = ["cpu", "memory"]
_PAIR = re.compile(r"""['"]?(\w+)['"]?\s*:\s*['"]?([^,'"{}\s]+)""")  # of a struct as text


# -- the tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    """A column of a table: whole numbers, amounts, text, or lists of which only ``"filled"`` or not matters.

    ``names`` stand for consecutive whole numbers; a column that is not required may be missing.
    """

    name: str
    kind: str = "whole"
    names: Mapping[str, int] = field(default_factory=dict)
    required: bool = True

    def source(self, header: Sequence[str], place: str, table: str) -> str | None:
        """The name of the column in a file; BigQuery exports ``capacity.cpus`` as ``cpus`` if it is selected alone."""
        head, _, tail = self.name.rpartition(".")
        known = (self.name, f"{head}_{tail}", tail, head) if head else (self.name,)
        present = next((name for name in known if name in header), None)
        if present is not None and header.count(present) > 1:
            raise InvalidInstance(f"{place}: the column {present!r} appears twice; names of columns must differ")
        if present is None and self.required:
            raise InvalidInstance(
                f"{place}: there is no column {self.name!r}; {nearest(self.name, header)[:300]} "
                f"(this should be a table of {table} rows)"
            )
        return present


_NOT_OVER = ("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE")
_OVER = ("EVICT", "FAIL", "FINISH", "KILL", "LOST")
_EVENTS = {name: k for k, name in enumerate((*_NOT_OVER, *_OVER, "UPDATE_PENDING", "UPDATE_RUNNING"))}
# Which of two simultaneous events of an instance came last: an evicted or failed one is submitted again, a finished or
# killed one is not. Exports are unordered, so the order of rows must not matter.
_RANK = np.array([1, 2, 3, 4, 0, 0, 7, 7, 7, 5, 6])
_SERVER_EVENTS = {"EVENT_TYPE_UNKNOWN": 0, "ADD": 1, "REMOVE": 2, "UPDATE": 3}
_SERVER_RANK = np.array([-1, 2, 1, 3])  # removed and added at once: restarted; -1 never counts
_ALLOC_SET, _DEDICATED = 1, -1
_INSTANCES = (
    _Field("time"),
    _Field("type", names=_EVENTS),
    _Field("collection_id"),
    _Field("instance_index"),
    _Field("resource_request.cpus", "amount"),
    _Field("resource_request.memory", "amount"),
    _Field("priority", required=False),
    _Field("collection_type", names={"JOB": 0, "ALLOC_SET": 1}, required=False),
    _Field("alloc_collection_id", required=False),
    _Field("machine_id", required=False),
    _Field("constraint", "filled", required=False),
)
_SERVERS = (
    _Field("time"),
    _Field("type", names=_SERVER_EVENTS),
    _Field("machine_id"),
    _Field("capacity.cpus", "amount"),
    _Field("capacity.memory", "amount"),
    _Field("platform_id", "text", required=False),
)
_COLLECTIONS = (_Field("collection_id"), _Field("user", "text"))
_OWNERS = ("collection", "user", "priority", "tier")
_TIERS = {"free": 99, "best-effort batch": 115, "mid": 119, "production": 359, "monitoring": 2**63}  # largest priority
_INCOMPLETE = "{row} of {file} without time, type or identity did not count"
_Path = str | os.PathLike[str]


def _libraries() -> tuple[Any, Any]:
    """The modules pyarrow and pandas, which CSV files need too."""
    for name in ("compute", "csv", "parquet"):
        optional(f"pyarrow.{name}", "parquet", "reading ClusterData")
    return tuple(optional(name, "parquet", "reading ClusterData") for name in ("pyarrow", "pandas"))


def _frames(path: _Path, columns: Sequence[_Field], table: str) -> Iterator[pd.DataFrame]:
    """Read the columns of a table in data frames of about 10 MB each."""
    pa, pd = _libraries()
    names = ", ".join(column.name for column in columns if column.required)
    expected = f"expected {table} rows as CSV, gzipped CSV or Parquet, with the columns {names}"
    if not is_path(path):
        raise InvalidInstance(f"{path!r} is not the name of a file; {expected}")
    file = Path(path)
    try:
        files = sorted(p for p in file.iterdir() if p.is_file() and p.name[0] not in "._") if file.is_dir() else [file]
        if not files:
            raise InvalidInstance(f"{path} is a folder without files; {expected}")
        for file in files:
            check_file(file, expected)
            done = 0
            tell(f"reading {file.name}", done)
            for batch in _batches(pa, file, columns, table):
                yield pd.DataFrame({c.name: _values(pa, batch, c, file, done + 1) for c in columns}, copy=False)
                done += batch.num_rows
                tell(f"reading {file.name}", done)
    except InvalidInstance:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InvalidInstance(f"{file} cannot be read ({reason}); {expected}") from error


def _batches(pa: Any, file: Path, columns: Sequence[_Field], table: str) -> Iterator[Any]:
    """Read batches of rows with those of the columns that the file has."""
    with file.open("rb") as raw:
        start = raw.read(4)

    def rows_of_csv(**options: Any) -> Any:
        stream = pa.input_stream(os.fspath(file), compression="gzip" if start.startswith(b"\x1f\x8b") else None)
        parse, convert = pa.csv.ParseOptions(newlines_in_values=True), pa.csv.ConvertOptions(**options)
        return pa.csv.open_csv(stream, parse_options=parse, convert_options=convert)

    parquet = start == b"PAR1"
    with pa.parquet.ParquetFile(file) if parquet else rows_of_csv() as source:
        header = (source.schema_arrow if parquet else source.schema).names
        sources = {c.name: name for c in columns if (name := c.source(header, str(file), table))}
        wanted = list(dict.fromkeys(sources.values()))
        if not parquet:  # read as text: pyarrow would guess types
            source = rows_of_csv(include_columns=wanted, column_types={name: pa.string() for name in wanted})
        for batch in source.iter_batches(batch_size=1 << 16, columns=wanted) if parquet else source:
            yield pa.RecordBatch.from_pydict({name: batch.column(source) for name, source in sources.items()})


def _values(pa: Any, batch: Any, column: _Field, file: Path, first: int) -> NDArray[Any]:
    """A column as whole numbers (`_ABSENT` if missing), amounts (NaN if missing), text (``""``) or booleans."""
    pc, types = pa.compute, pa.types
    array = batch.column(column.name) if column.name in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
    if types.is_struct(array.type) and array.type.get_field_index(column.name.rpartition(".")[2]) >= 0:
        array = pc.struct_field(array, column.name.rpartition(".")[2])
    if types.is_nested(array.type) and column.kind == "filled":
        a_list = types.is_list(array.type) or types.is_large_list(array.type)
        filled = pc.greater(pc.list_value_length(array), 0) if a_list else array.is_valid()
        array = pc.if_else(filled, "filled", "")
    whole, amount = column.kind == "whole", column.kind == "amount"
    number = types.is_floating(array.type) or types.is_decimal(array.type)
    if not (types.is_integer(array.type) and (whole or amount)) and not (number and amount):
        try:
            array = pc.utf8_trim_whitespace(array.cast(pa.string()))
        except pa.ArrowNotImplementedError as error:
            raise InvalidInstance(
                f"{file}, column {column.name!r} is of type {str(array.type)[:100]}; export it as "
                f"{'whole numbers' if whole else 'numbers' if amount else 'text'}"
            ) from error
        array = pc.if_else(pc.is_in(array, value_set=pa.array(_NOT_GIVEN)), None, array)
    if not (whole or amount):
        given = np.asarray(pc.fill_null(array, "").to_pylist(), dtype=object)
        return given if column.kind == "text" else ~np.isin(given.astype(str), ["", "[]", "{}"])
    try:
        array = array.cast(pa.int64() if whole else pa.float64())
    except pa.ArrowInvalid:  # names, structs as text, wrong numbers: convert each distinct cell once
        encoded = array.cast(pa.string()).dictionary_encode()
        numbers = [_number(cell, column) for cell in encoded.dictionary.to_pylist()]
        if None in numbers:
            k = numbers.index(None)
            _refuse(file, first + encoded.indices.index(k).as_py(), column, encoded.dictionary[k].as_py())
        array = pa.array(numbers, pa.int64() if whole else pa.float64()).take(encoded.indices)
    if whole:
        values = np.asarray(pc.fill_null(array, _ABSENT))
        bad = (values != _ABSENT) & ((values < 0) | (values >= len(column.names))) if column.names else np.array(False)
    else:
        values = np.asarray(array.to_numpy(zero_copy_only=False))
        bad = ~(np.isnan(values) | (values == 0) | ((values >= _SMALLEST) & (values <= _LARGEST)))
    if bad.any():
        row = int(np.argmax(bad))
        _refuse(file, first + row, column, values[row])
    return values


def _number(text: str, column: _Field) -> float | None:
    """The number in a text: `_ABSENT` or NaN if it is missing, None if it is wrong."""
    whole = column.kind == "whole"
    if text.startswith("{"):  # a struct as text, as {"cpus": 0.5}
        text = dict(_PAIR.findall(text)).get(column.name.rpartition(".")[2], "")
        if text in _NOT_GIVEN:
            return _ABSENT if whole else np.nan
    if text.upper() in column.names:
        return column.names[text.upper()]
    try:
        number = float(text) if text.isascii() and "_" not in text else None  # Python also reads 1_000
        if number is None or not whole:
            return number
        value = int(text) if text.lstrip("+-").isdecimal() else int(number) - (number == 2.0**63)  # _AFTER, rounded
    except (ValueError, OverflowError):
        return None
    exact = number.is_integer() and (str(value) == text.lstrip("+") or abs(number) <= _EXACT or value == _AFTER)
    return value if exact and _ABSENT < value <= _AFTER else None


def _refuse(file: Path, row: int, column: _Field, value: object) -> NoReturn:
    text = str(value)
    fix = "give a whole number" if column.kind == "whole" else f"give 0, or a number from {_SMALLEST:g} to {_LARGEST:g}"
    if column.names:
        fix += ", or one of " + ", ".join(column.names)
    raise InvalidInstance(f"{file}, row {row}, column {column.name!r}: the value is {short(text)}; {fix}")


# -- the state at a time --------------------------------------------------------------------------------------


def _state(
    path: _Path,
    columns: Sequence[_Field],
    table: str,
    key: list[str],
    rank: NDArray[Any],
    at: int | None,
    hint: str,
    notes: Notes,
) -> pd.DataFrame:
    """The last event of each instance or server up to a time (None: up to the end of the trace), from unsorted rows.

    ``rank`` orders simultaneous events by type. Cores and memory are those of the last event that gives them, NaN if
    none does.
    """
    _, pd = _libraries()
    amounts = [column.name for column in columns if column.kind == "amount"]
    incomplete, first, last = 0, _AFTER, -1
    parts: list[Any] = []
    pending = 0
    for frame in _frames(path, columns, table):
        frame = frame.rename(columns=dict(zip(amounts, _AMOUNTS, strict=True)))
        frame["rank"] = np.where(frame["type"] < 0, -1, rank[frame["type"].clip(lower=0)])
        complete = (frame["rank"] >= 0) & (frame["time"] >= 0) & (frame[key] != _ABSENT).all(axis=1)
        incomplete += int((~complete).sum())
        times = frame["time"][complete & (frame["time"] < _AFTER)]
        if len(times):
            first, last = min(first, int(times.min())), max(last, int(times.max()))
        frame = frame[complete & (frame["time"] <= (_AFTER - 1 if at is None else at))]
        parts.append(frame)
        pending += len(frame)
        if pending > max(_ROWS, len(parts[0])):  # rarely: amortised constant time and memory per row
            parts, pending = [_needed(pd.concat(parts), key)], 0
    if not any(map(len, parts)):
        there = f"its times are from {first} to {last}" if first <= last else "it has no complete row"
        until_time = "" if at is None else f"up to the time {at} "
        raise InvalidInstance(f"{os.fspath(path)} has no events {until_time}({there}); give another time, or {hint}")
    state = _needed(pd.concat(parts), key)
    if at is None:
        notes.say(f"the state is that at {state['time'].max()} microseconds, the last time in {_base(path)}")
    notes.add(_INCOMPLETE, number=incomplete, file=_base(path))
    given = state.groupby(key)[_AMOUNTS].last().to_numpy()  # the last values that are not NaN
    state = state[~state.duplicated(key, keep="last")].reset_index(drop=True)
    return state.assign(**dict(zip(_AMOUNTS, given.T, strict=True)))


def _needed(events: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """The last event by key and the last with each amount, sorted."""
    names = [*key, "time", "rank"]
    order = np.lexsort([events[name] for name in reversed(names)])
    if events.duplicated(names).any():
        others = [events[name] for name in [*events.columns.drop([*names, *_AMOUNTS]), *_AMOUNTS]]
        order = np.lexsort([*others, *(events[name] for name in reversed(names))])
    events = events.iloc[order].reset_index(drop=True)
    kept = ~events.duplicated(key, keep="last")
    for name in _AMOUNTS:
        given = events[events[name].notna()]
        kept |= ~given.duplicated(key, keep="last").reindex(events.index, fill_value=True)
    return events[kept]


# -- the reader -----------------------------------------------------------------------------------------------


def arguments_of_clusterdata(
    instances: _Path,
    machines: _Path,
    collections: _Path | None = None,
    at: int | None = None,
    users: str = "collection",
    tasks: str = "mean",
    merge: bool = True,
) -> Arguments:
    """Read an extract of the trace; see `fairopt_clusters.read_clusterdata2019`."""
    check_choice("tasks", tasks, TASKS)
    check_choice("users", users, _OWNERS)
    if users == "user" and collections is None:
        raise InvalidInstance("users='user' needs the users of collections; give a file of CollectionEvent rows")
    if at is not None and (isinstance(at, bool) or not isinstance(at, (int, np.integer)) or not 0 <= at <= _AFTER):
        raise InvalidInstance(f"at is {at!r}; give microseconds as a whole number >= 0, or None for the last time")
    notes = Notes()
    found, until = _instances(instances, at, notes)
    servers = _servers(machines, until, notes)
    owners = _owners(found, users, collections)
    missing = "without priority" if users != "user" else f"of collections that {_base(collections)} gives no user"
    found = _left_out(found, owners == "", missing, notes).assign(owner=owners)
    equal = found.assign(name=_names(found)).groupby(["owner", *_AMOUNTS], sort=False)["name"].agg(["size", "first"])
    work = [
        Work(owner, (cpu, memory), None, number, name)
        for (owner, cpu, memory), number, name in zip(equal.index, equal["size"], equal["first"], strict=True)
    ]
    places = os.fspath(instances), os.fspath(machines)
    with about(*places):
        values = arguments_of_work(
            work,
            resources=_AMOUNTS,
            capacities=servers[_AMOUNTS].to_numpy(),
            servers=[str(k) for k in servers["machine_id"]],
            tasks=tasks,
            server_types=_types(servers["platform_id"].tolist()),
            notes=notes,
            word="instance",
        )
    return Arguments(values, places, merge)


def _instances(path: _Path, at: int | None, notes: Notes) -> tuple[pd.DataFrame, int]:
    """The instances that count at a time, and that time."""
    key, hint = ["collection_id", "instance_index"], "another part of the trace"
    state = _state(path, _INSTANCES, "InstanceEvent", key, _RANK, at, hint, notes)
    until = int(state["time"].max()) if at is None else int(at)
    state = state[~state["type"].isin([_EVENTS[name] for name in _OVER])]
    state = _left_out(state, state[_AMOUNTS].isna().all(axis=1), "without any request", notes)
    state = _left_out(state, (state[_AMOUNTS].fillna(0) == 0).all(axis=1), "that requested nothing", notes)
    state = _left_out(state, state["machine_id"] == _DEDICATED, "on dedicated servers", notes)
    sets = state["collection_type"] == _ALLOC_SET
    inside = ~sets & state["alloc_collection_id"].isin(state["collection_id"][sets])
    state = _left_out(state, inside, "inside alloc sets, whose reservations count,", notes)
    anywhere = "{instance} with constraints may run anywhere: constraints are not modelled"
    _note(state, state["constraint"], anywhere, notes)
    return _completed(state, "{instance} that {requests} {given} but no {missing} {counts} with 0 of it", notes), until


def _servers(path: _Path, until: int, notes: Notes) -> pd.DataFrame:
    """The servers at a time."""
    hint = "the rows from time 0 on"
    state = _state(path, _SERVERS, "MachineEvent", ["machine_id"], _SERVER_RANK, until, hint, notes)
    state = state[state["type"] != _SERVER_EVENTS["REMOVE"]]
    unknown = state[_AMOUNTS].isna().all(axis=1)
    _note(state, unknown, "{server} without any capacity {was} left out", notes)
    state = state[~unknown]
    if not len(state):
        raise InvalidInstance(
            f"{os.fspath(path)} leaves no server at the time {until}; give the rows from time 0 on, with capacities"
        )
    return _completed(state, "{server} with {given} but no {missing} {counts} with 0 of it", notes)


def _base(path: _Path | None) -> str:
    return os.path.basename(os.fspath(path or ""))


def _names(state: pd.DataFrame) -> pd.Series[str]:
    """Instances as ``374/0``, servers as ``7``."""
    if "instance_index" not in state:
        return state["machine_id"].astype(str)
    return state["collection_id"].astype(str) + "/" + state["instance_index"].astype(str)


def _note(state: pd.DataFrame, chosen: pd.Series[bool], sentence: str, notes: Notes, **given: str) -> None:
    if chosen.any():
        notes.add(sentence, _names(state[chosen].iloc[:1]).iloc[0], number=int(chosen.sum()), **given)


def _left_out(state: pd.DataFrame, omitted: pd.Series[bool], what: str, notes: Notes) -> pd.DataFrame:
    _note(state, omitted, "{instance} {what} {was} left out", notes, what=what)
    return state[~omitted]


def _completed(state: pd.DataFrame, sentence: str, notes: Notes) -> pd.DataFrame:
    """Replace an amount that was never given by 0, if the other was given."""
    for missing, given in (("cpu", "memory"), ("memory", "cpu")):
        _note(state, state[missing].isna(), sentence, notes, given=given, missing=missing)
    return state.fillna(dict.fromkeys(_AMOUNTS, 0.0))


def _types(platforms: list[str]) -> list[str] | None:
    """Platforms, named by the start of their hashes if that is unique."""
    names = set(platforms)
    if names == {""}:
        return None
    cut = 6 if len({name[:6] for name in names}) == len(names) else None
    return [name[:cut] or "unnamed platform" for name in platforms]


def _owners(state: pd.DataFrame, users: str, collections: _Path | None) -> pd.Series[str]:
    """The owner of each instance, ``""`` if unknown."""
    _, pd = _libraries()
    if users == "collection":
        return state["collection_id"].astype(str)
    if users == "user" and collections is not None:
        parts = [frame.drop_duplicates() for frame in _frames(collections, _COLLECTIONS, "CollectionEvent")]
        found = pd.concat([state[["collection_id"]].assign(user="")[:0], *parts])
        found = found[np.array([bool(name) and name.isprintable() for name in found["user"]], dtype=np.bool_)]
        smallest = found.groupby("collection_id")["user"].min()  # rows are unsorted
        return state["collection_id"].map(smallest).astype(object).fillna("")
    priority = state["priority"]
    if users == "priority":
        return ("priority " + priority.astype(str)).where(priority != _ABSENT, "")
    tiers = pd.cut(priority.astype(float), [-np.inf, *_TIERS.values()], labels=list(_TIERS)).astype(str)
    return tiers.where(priority != _ABSENT, "")
