"""Where the rows of a shard are, and how they are read and checked.

A shard is a short description of rows that any process can read. Files are read and not mapped, since truncating a
mapped file kills the process. A checksum compares every reading with the first one.
"""

from __future__ import annotations

import copy
import mmap
import os
import re
import sys
import tokenize
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fairopt import datasets
from fairopt.errors import InvalidInput, InvalidInstance, NoAnswer, NotCertified, nearest, optional
from fairopt.instance import Instance
from fairopt.instance.parts import with_rows
from fairopt.instance.validation import Labels, as_floats, check_numbers, default_labels, fix_or_unit, in_range, labels
from fairopt.runtime.arrays import Float
from fairopt.solve.form.pool_users import rows_in_a_chunk
from fairopt.solve.sharded.waiting import gathered, named_errors

ROWS = 1_000_000  # users in a shard that is cut from an array: 32 MB of four resources
ABOUT_USERS = {column.name: column for column in datasets.USER_COLUMNS if column.argument != "guarantees"}
NOT_IN_SHARDS = ("servers", "team", "guarantee", "rate", "held")  # columns of users in other tables


@dataclass(frozen=True)
class Shard(ABC):
    """Some of the users, with a name for messages and the index of the first row in its array or file."""

    name: str
    first: int
    is_view: bool = field(default=False, kw_only=True)  # reading copies nothing

    @abstractmethod
    def read(self) -> dict[str, Any]:
        """Demands (n_users, n_resources), and weights and task limits if given, as arguments of `Instance`."""

    def labels(self) -> Any:
        """The users' labels as an Arrow column, or None."""
        return None

    def instance(self, capacities: Float, resources: Sequence[str], whole: bool) -> tuple[Instance, int | None]:
        """The users on the whole pool, and the checksum of what was read, None for arrays that are not copied.

        Unless ``whole``, demands may be `FileRows`, which are checked when they are first read.
        """
        users = self.read()
        demands = users["demands"]
        shape = np.shape(demands) if isinstance(demands, np.ndarray) else demands.shape
        if len(shape) != 2 or shape[1] != len(resources):
            raise InvalidInstance(
                f"demands have shape {shape}, but there are {len(resources)} capacities ({', '.join(resources)}); "
                "give a column for each"
            )
        about: dict[str, Any] = {"capacities": capacities, "resources": resources}
        if not isinstance(demands, FileRows):
            return Instance(**users, **about), None if self.is_view else checksum_of(users)
        if whole:
            return Instance(demands.copied(), **about), demands.checksum
        no_users = Instance(np.zeros((0, len(resources))), **about)

        def check(chunk: Float) -> None:
            try:
                check_numbers(
                    chunk, no_users.capacities, Labels(default_labels("user", len(chunk)), resources, ("pool",))
                )
            except InvalidInstance:
                Instance(demands.copied(), **about)  # raises the same error with the user's number in the shard
                raise

        demands.check = check
        return with_rows(no_users, demands), None

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the shard, and rows instead of users, in errors."""
        try:
            yield
        except (InvalidInput, NoAnswer, NotCertified) as error:
            message = re.sub(r"user 'user(\d+)'", lambda found: f"row {self.first + int(found[1]) - 1}", str(error))
            named = copy.copy(error)
            named.args = (f"shard {self.name!r}: {message}",)
            raise named from error


@dataclass(frozen=True)
class ArrayShard(Shard):
    """Rows of an array in memory, with weights and task limits in ``about`` if there are any."""

    demands: Float
    about: Mapping[str, Float] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        """The rows."""
        return {"demands": self.demands, **self.about}


@dataclass(frozen=True)
class FileShard(Shard):
    """Rows of an array in a file, from ``offset`` on, with ``strides`` in bytes by row and by column."""

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, int]
    offset: int
    strides: tuple[int, int]

    def read(self) -> dict[str, Any]:
        """The rows, which are read later in chunks."""
        return {"demands": FileRows(self)}


def checksum_of(users: Mapping[str, Any]) -> int:
    """The checksum of demands, weights and limits."""
    found = 0
    for array in users.values():
        found = zlib.crc32(_content(np.ascontiguousarray(array)), found)
    return found


def _content(array: Any) -> Any:
    """The bytes of an array without gaps, in the order of its memory."""
    return array.ravel("K").view(np.uint8)


class FileRows:
    """Rows of a file, read in order in chunks: half the time of one array per shard.

    Raises `NotCertified` if size, time or, if ``compares``, checksum differ from those of the first reading.
    """

    ndim = 2

    def __init__(self, shard: FileShard) -> None:
        self.shard, self.shape, given = shard, shard.shape, shard.dtype
        self.dtype: Any = given if given in (np.float32, np.float64) and given.isnative else np.dtype(np.float64)
        self.strides = (self.shape[1] * self.dtype.itemsize, self.dtype.itemsize)
        self.nbytes = self.shape[0] * self.strides[0]
        self.checksum: int | None = None  # of the first reading
        self.check: Callable[[Float], None] | None = None  # for each chunk of the first reading
        self._stat: tuple[int, ...] | None = None
        self._file: Any = None
        self._next = 0  # the next row of this reading
        self.compares = True  # later readings by checksum too
        self._sum: int | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Float:
        return self.copied().astype(dtype or self.dtype, copy=False)

    def copied(self, rows: slice = slice(None)) -> Float:
        """A copy of some rows."""
        start, stop, step = rows.indices(len(self))
        out = np.empty((len(range(start, stop, step)), self.shape[1]), dtype=self.dtype)
        first = done = 0
        for chunk in self.chunks():
            begin = max(start, first + (start - first) % step) - first
            some = chunk[begin : max(stop - first, 0) : step]
            out[done : done + len(some)] = some
            first, done = first + len(chunk), done + len(some)
        return out

    def chunks(self) -> Iterator[Float]:
        """All rows."""
        step = rows_in_a_chunk(self.shape[1])
        for start in range(0, len(self), step):
            yield self[start : start + step]

    def __getitem__(self, rows: slice) -> Float:
        start, stop, step = rows.indices(len(self))
        if step != 1 or stop - start > rows_in_a_chunk(self.shape[1]):
            return self.copied(rows)
        try:
            if start == 0:
                self._open()
            assert self._file is not None and start == self._next
            raw = self._read(start, stop)
            if self._sum is not None:
                self._sum = zlib.crc32(_content(raw), self._sum)
            chunk = cast(Float, raw if raw.dtype == self.dtype else raw.astype(self.dtype))
            if self.check is not None:
                check, self.check = self.check, None
                check(chunk)
                self.check = check if stop < len(self) else None
            self._next = stop
            if stop == len(self):
                self._close()
        except OSError as error:
            raise InvalidInstance(f"{self.shard.path!r} cannot be read ({error}); check the file") from error
        return chunk

    def _open(self) -> None:
        self._file = open(self.shard.path, "rb")  # noqa: SIM115  # until the last row is read
        self._next, self._sum = 0, 0 if self.compares or self.checksum is None else None
        self._compare_file()

    def _close(self) -> None:
        self._compare_file()
        self._file.close()
        self._file = None
        if self._sum is not None:
            if self.checksum not in (None, self._sum):
                raise changed()
            self.checksum = self._sum

    def _compare_file(self) -> None:
        about = os.fstat(self._file.fileno())
        now = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
        if self._stat not in (None, now):
            raise changed()
        self._stat = now

    def _read(self, start: int, stop: int) -> Any:
        n, m, (by_row, by_column) = stop - start, self.shape[1], self.shard.strides
        where = self.shard.offset + start * by_row
        if by_column == self.shard.dtype.itemsize:
            return self._numbers(where, n * m).reshape(n, m)
        return np.stack([self._numbers(where + i * by_column, n) for i in range(m)]).T

    def _numbers(self, where: int, count: int) -> Any:
        self._file.seek(where)
        content = self._file.read(count * self.shard.dtype.itemsize)
        if len(content) < count * self.shard.dtype.itemsize:
            raise changed()
        return np.frombuffer(content, self.shard.dtype)


def changed() -> NotCertified:
    """The error of a shard that changed."""
    return NotCertified(
        "it changed during the call, in size, time or content, so no answer can be certified; start again when nothing "
        "writes to it"
    )


@dataclass(frozen=True)
class ParquetShard(Shard):
    """A row group of a Parquet file, with a column per resource."""

    path: str
    group: int
    resources: tuple[str, ...]

    def read(self) -> dict[str, Any]:
        """The columns, in the order of the resources."""
        about = [name for name in ABOUT_USERS if name in self._names()]
        table = self._table([*self.resources, *about])
        demands = np.column_stack([_numbers(table, name, self.first) for name in self.resources])
        users: dict[str, Any] = {"demands": demands}
        for name in about:
            column = ABOUT_USERS[name]
            users[column.argument] = _numbers(table, name, self.first, column.blank)
        return users

    def labels(self) -> Any:
        """The column ``user``."""
        return self._table(["user"])["user"] if "user" in self._names() else None

    def _names(self) -> list[str]:
        return list(_parquet_file(Path(self.path)).schema_arrow.names)

    def _table(self, names: Sequence[str]) -> Any:
        known = self._names()
        for name in names:
            if name not in known:
                raise InvalidInstance(f"{self.path!r} has no column {name!r}; {nearest(name, known)}")
            if known.count(name) > 1:
                raise InvalidInstance(f"{self.path!r} has {known.count(name)} columns {name!r}; keep one")
        import pyarrow as pa

        try:
            return _parquet_file(Path(self.path)).read_row_group(self.group, columns=list(names), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise InvalidInstance(f"{self.path!r} cannot be read ({error}); check the file") from error


@dataclass(frozen=True)
class BlockShard(Shard):
    """A block of a Dask array, computed where it is read."""

    block: Any

    def read(self) -> dict[str, Any]:
        """The rows."""
        import dask.base

        of: Any = dask.base
        client = getattr(of.get_scheduler(collections=[self.block]), "__self__", None)  # whose workers may be gone
        if client is None:
            return {"demands": np.asarray(self.block.compute())}
        with named_errors(client):
            return {"demands": np.asarray(gathered(client, [client.compute(self.block)])[0])}


def shards_of(source: Any, resources: Sequence[str] | None) -> list[Shard]:
    """The shards of a source of `allocate_sharded`, in the order of users; ``resources`` are the columns to read.

    Raises `InvalidInstance` if the source cannot be read or has no users.
    """
    if isinstance(source, (list, tuple)):
        shards = [
            shard
            for k, part in enumerate(source)
            for shard in (_cut(part, f"array {k}") if isinstance(part, np.ndarray) else shards_of(part, resources))
        ]
    elif isinstance(source, (str, Path)):
        shards = _files(Path(source), resources)
    elif isinstance(source, Instance):
        shards = _users_of(source, resources)
    elif type(source).__module__.split(".")[0] == "dask":
        shards = _blocks(source)
    else:
        shards = _cut(source)
    if not shards:
        what = f"{str(source)!r}" if isinstance(source, (str, Path)) else f"the source ({type(source).__name__})"
        raise InvalidInstance(f"{what} holds no users; give an array, a .npy file or a folder of .parquet files")
    return shards


def _cut(source: ArrayLike, name: str = "", mapped: bool = False) -> list[Shard]:
    """The shards of an array; ``mapped`` if `_mapped` made it from a file."""
    array = source if isinstance(source, np.ndarray) else np.asarray(source)
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        raise InvalidInstance(
            f"{name or 'the source'} is {type(source).__name__} of shape {array.shape} and type {array.dtype}; give "
            "demands of shape (n_users, n_resources), a list of such arrays, a .npy file, a folder of .parquet files "
            "or a Dask array"
        )
    out: list[Shard] = []
    on_disk = _on_disk(array, mapped)
    is_view = array.dtype in (np.float32, np.float64)  # other numbers are converted
    for first in range(0, max(len(array), 1), ROWS):
        last = min(first + ROWS, len(array))
        rows = f"rows {first} to {last - 1}"
        part = name if name and len(array) <= ROWS else f"{name}, {rows}" if name else rows
        if on_disk is not None:
            path, offset, strides = on_disk
            shape = last - first, array.shape[1]
            where = offset + first * strides[0]
            out.append(FileShard(part, first, path, array.dtype, shape, where, strides, is_view=True))
        else:
            out.append(ArrayShard(part, first, array[first:last], is_view=is_view))
    return out


def _on_disk(array: Any, mapped: bool) -> tuple[str, int, tuple[int, int]] | None:
    """The file, the offset and the strides of a view of a memory map; None of an array in memory.

    Raises `InvalidInstance` unless the view is of whole rows or columns, and the file still that of the map.
    """
    whole = array
    while isinstance(whole, np.ndarray) and not (
        isinstance(whole, np.memmap) and isinstance(cast(Any, whole.base), mmap.mmap)
    ):
        whole = cast(Any, whole.base)
    if not isinstance(whole, np.memmap) or not array.size:
        return None
    fix = "give the name of the file, or a copy in memory by numpy.array(...)"
    if not mapped and not _is_file_of(whole):
        raise InvalidInstance(
            f"the file of a memory map, {whole.filename}, was replaced or removed, or this system does not show it; "
            f"{fix}"
        )
    by_row, by_column = array.strides
    size, (n, m) = array.itemsize, array.shape
    in_rows = (by_column == size or m == 1) and by_row == m * size
    if whole.mode == "c" or not (in_rows or (by_row == size and by_column >= n * size)):
        what = "may differ from it (mode 'c')" if whole.mode == "c" else "is a view of neither whole rows nor columns"
        raise InvalidInstance(f"a memory map of {whole.filename} {what}, and reading it may kill the process; {fix}")
    offset = whole.offset + array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return str(whole.filename), offset, (by_row, size if in_rows else by_column)


def _is_file_of(array: Any) -> bool:
    """Whether the name of a memory map's file still leads to the file that is mapped."""
    if sys.platform == "win32":
        return True  # mapped files cannot be replaced
    try:
        other = np.memmap(array.filename, np.uint8, "r", shape=1)
        maps = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_bytes().splitlines()]
    except (OSError, TypeError, ValueError):
        return False

    def file(of: Any) -> list[bytes]:
        at = of.__array_interface__["data"][0]
        for places, _, _, *device_and_inode in maps:
            first, last = (int(place, 16) for place in places.split(b"-"))
            if first <= at < last:
                return device_and_inode[:2]
        return []

    return file(array) == file(other) != []


def _mapped(path: Path) -> Float:
    try:
        array: Float = np.load(path.resolve(), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:  # numpy parses its header
        raise InvalidInstance(
            f"{str(path)!r} cannot be read as a .npy file ({error}); write it with numpy.save"
        ) from error
    return array  # `_cut` checks shape and type


def _files(path: Path, resources: Sequence[str] | None) -> list[Shard]:
    if not path.exists():
        raise InvalidInstance(f"there is no {str(path)!r}; give a .npy file, or a folder of .parquet files")
    files = [(path, path.name)]
    if path.is_dir():
        found = [(file, file.relative_to(path)) for file in sorted(path.rglob("*")) if file.is_file()]
        files = [
            (file, str(inside))
            for file, inside in found
            if file.suffix in (".npy", ".parquet") and not any(part[0] in "._" for part in inside.parts)
        ]
        if len({file.suffix for file, _ in files}) > 1:
            raise InvalidInstance(f"{str(path)!r} holds .npy and .parquet files; keep one kind")
    out: list[Shard] = []
    for file, name in files:
        npy = file.suffix == ".npy"
        out += _cut(_mapped(file), name, mapped=True) if npy else _row_groups(file, name, resources)
    return out


def with_servers(source: Any, capacities: Any) -> tuple[Any, Any]:
    """The users of a folder with tables of users and servers, and the total capacities unless given.

    Other sources are returned as they are.
    """
    folder = Path(source) if isinstance(source, (str, Path)) else None
    for ending in (".parquet", ".csv") if folder is not None else ():
        users, servers, demands = (Path(source, f"{name}{ending}") for name in ("users", "servers", "demands"))
        if not (users.exists() and servers.exists()):
            continue
        others = {p.name for e in (".npy", ".parquet", ".csv") for p in Path(source).glob(f"*{e}")}
        unknown = sorted(others - {users.name, servers.name})
        if unknown:
            why = "demands differ by server, and shards share one pool" if demands.exists() else "it would not be read"
            raise InvalidInstance(
                f"{source!s} has {users.name}, {servers.name} and {unknown[0]}: {why}; give only the table of users"
            )
        of = datasets.servers_alone(servers) if ending == ".parquet" else datasets.read(source)
        if capacities is None:
            capacities = dict(zip(_columns(of), of.total_capacities.tolist(), strict=True))
        return users if ending == ".parquet" else of, capacities
    if capacities is None:
        raise InvalidInstance(
            "capacities are missing; give one for each resource, or a folder with users.parquet and servers.parquet"
        )
    return source, capacities


def _columns(instance: Instance) -> list[str]:
    """The names of resource columns in a table, such as ``memory [GiB]``."""
    units = instance.units or ("",) * instance.n_resources
    return [f"{name} [{unit}]" if unit else name for name, unit in zip(instance.resources, units, strict=True)]


def _users_of(instance: Instance, resources: Sequence[str] | None) -> list[Shard]:
    """The users of an instance on one pool."""
    labels = [label if label == "team" else f"{label} [team]" for label in instance.teams]
    extra = {
        "servers": not instance.derived.everywhere,
        "guarantee": instance.derived.has_guarantees,
        "rate": instance.rates is not None,
        "held": instance.held is not None,
    }
    where = [*_columns(instance), *labels, *(name for name, given in extra.items() if given)]
    _check_columns("users.csv", where, resources)
    demands = instance.demands[:, [where.index(name) for name in resources or ()]]
    about = {"weights": instance.weights, "task_limits": instance.task_limits}
    return [
        replace(shard, about={name: of[shard.first :][: len(shard.demands)] for name, of in about.items()})
        for shard in _cut(demands, "users.csv")
        if isinstance(shard, ArrayShard)
    ]


def _check_columns(path: str, columns: Sequence[str], resources: Sequence[str] | None) -> None:
    """Raise `InvalidInstance` unless resources and columns of a table of users match."""
    if resources is None:
        raise InvalidInstance(
            "capacities have no names, which a table needs for its columns; give a dict such as {'cpu': 64, 'gpu': 8}"
        )
    for resource in resources:
        if resource in ("user", *ABOUT_USERS):
            raise InvalidInstance(
                f"a resource is called {resource!r}, which is reserved for a column about users; rename the column and "
                "the capacity"
            )
        if resource not in columns:
            raise InvalidInstance(f"{path!r} has no column {resource!r}; {nearest(resource, columns)}")
    for column in columns:
        if column not in (*resources, "user", *ABOUT_USERS):
            known = column in NOT_IN_SHARDS or column.endswith(" [team]")
            what = "users share one pool" if column == "servers" else "shards have no teams, guarantees or rates"
            fix = f"remove it: {what}" if known else "give one, or remove the column"
            raise InvalidInstance(f"{path!r} has a column {column!r} without a capacity; {fix}")


def _row_groups(path: Path, name: str, resources: Sequence[str] | None) -> list[Shard]:
    file = _parquet_file(path)
    _check_columns(str(path), file.schema_arrow.names, resources)
    about, out = file.metadata, list[Shard]()
    first, groups = 0, about.num_row_groups
    for group in range(groups):
        part = name if groups == 1 else f"{name}, row group {group}"
        out.append(ParquetShard(part, first, str(path.resolve()), group, tuple(resources or ())))
        first += about.row_group(group).num_rows
    return out


def _parquet_file(path: Path) -> Any:
    pa, pq = (optional(name, "parquet", "reading Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInstance(f"{str(path)!r} cannot be read as Parquet ({error}); check the file") from error


def _numbers(table: Any, name: str, first: int, blank: float | None = None) -> Float:
    """A column as floats, with empty entries as ``blank``; without it they raise `InvalidInstance`."""
    import pyarrow as pa

    column, types = table[name], pa.types
    kind = column.type
    if not any(right(kind) for right in (types.is_floating, types.is_integer, types.is_decimal, types.is_null)):
        raise InvalidInstance(f"column {name!r} holds no numbers ({kind}); give floats")
    if kind != pa.float32() or blank is not None:
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        if blank is None:
            row = first + int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise InvalidInstance(f"column {name!r} is empty in row {row}; give a number >= 0")
        column = column.fill_null(blank)
    return np.asarray(column.to_numpy())


def _blocks(source: Any) -> list[Shard]:
    if not hasattr(source, "to_delayed") or getattr(source, "ndim", None) != 2 or len(source.chunks[1]) != 1:
        raise InvalidInstance(
            f"{type(source).__name__} cannot be split by user; give a Dask array of shape (n_users, n_resources) "
            "whose chunks hold whole rows: array.rechunk({1: -1})"
        )
    return [BlockShard(f"block {k}", 0, block) for k, block in enumerate(source.to_delayed()[:, 0])]


def named_capacities(capacities: Any) -> tuple[Float, tuple[str, ...] | None]:
    """Capacities as an array, and the names of the resources if given."""
    names = labels(capacities, len(capacities), "resource") if isinstance(capacities, Mapping) else None
    given = list(capacities.values()) if isinstance(capacities, Mapping) else capacities
    values = np.array(as_floats(given, "capacities"), dtype=float)
    if values.ndim != 1 or len(values) == 0:
        raise InvalidInstance(f"capacities have shape {values.shape}; give one number for each resource")
    bad = ~in_range(values) | (values == 0)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        name = names[i] if names else f"resource{i + 1}"
        fix = fix_or_unit(values[i], "give a finite number > 0, or leave out the resource", name)
        raise InvalidInstance(f"the capacity of {name!r} is {values[i]}; {fix}")
    return values, names
