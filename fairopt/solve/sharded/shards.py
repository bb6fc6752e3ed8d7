"""Where the rows of a shard are, and how they are read and checked.

Files are read and not mapped, since truncating a mapped file kills the process. A checksum compares every reading with
the first one.
"""

from __future__ import annotations

import copy
import os
import re
import tokenize
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt import datasets
from fairopt.errors import InvalidInput, InvalidInstance, NoAnswer, NotCertified, nearest, optional
from fairopt.instance import Instance
from fairopt.instance.parts import with_rows
from fairopt.instance.validation import Labels, as_floats, check_numbers, default_labels, labels
from fairopt.runtime.arrays import Float
from fairopt.runtime.ranges import fix_or_unit, in_range
from fairopt.solve.form.pool_users import rows_in_a_chunk

ROWS = 1_000_000  # users in a shard that is cut from an array: 32 MB of four resources
ABOUT_USERS = {column.name: column for column in datasets.USER_COLUMNS if column.argument != "guarantees"}
NOT_IN_SHARDS = ("servers", "team", "guarantee", "rate", "held")  # columns of users in other tables


@dataclass(frozen=True)
class Shard(ABC):
    """Some of the users, with a name for messages and the index of the first row in its array or file."""

    name: str
    first: int

    @abstractmethod
    def read(self) -> dict[str, Any]:
        """Demands (n_users, n_resources), and weights and task limits if given, as arguments of `Instance`."""

    def labels(self) -> Any:
        """The users' labels as an Arrow column, or None."""
        return None

    def copies(self, whole: bool) -> bool:
        """Whether an instance of these users holds a copy of demands."""
        return True

    def instance(self, capacities: Float, resources: Sequence[str], whole: bool) -> tuple[Instance, int | None]:
        """The users on the whole pool, and the checksum of what was read, None for arrays that are not copied.

        Unless ``whole``, demands may be `FileRows`, which are checked when they are first read.
        """
        users = self.read()
        _require_columns(users["demands"].shape, resources)
        checksum = None
        if self.copies(whole):
            checksum = 0
            for array in users.values():
                checksum = zlib.crc32(_content(np.ascontiguousarray(array)), checksum)
        return Instance(**users, capacities=capacities, resources=resources), checksum

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


def _require_columns(shape: Sequence[int], resources: Sequence[str]) -> None:
    """Raise `InvalidInstance` unless demands have a column for each resource."""
    if len(shape) != 2 or shape[1] != len(resources):
        raise InvalidInstance(
            f"demands have shape {shape}, but there are {len(resources)} capacities ({', '.join(resources)}); "
            "give a column for each"
        )


@dataclass(frozen=True)
class ArrayShard(Shard):
    """Rows of an array in memory, with weights and task limits in ``about`` if there are any."""

    demands: Any
    about: Mapping[str, Float] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        """The rows."""
        return {"demands": np.asarray(self.demands), **self.about}

    def copies(self, whole: bool) -> bool:
        """Whether numbers are converted."""
        return self.demands.dtype not in (np.float32, np.float64)


@dataclass(frozen=True)
class BlockShard(ArrayShard):
    """A block of a Dask array: a `dask.delayed.Delayed`, or on a worker what it computes."""

    def read(self) -> dict[str, Any]:
        """The rows, computed by Dask's default scheduler."""
        import dask.base

        of: Any = dask.base
        return {"demands": np.asarray(of.compute(self.demands)[0])}

    def copies(self, whole: bool) -> bool:
        """A block is computed again in every round."""
        return True


@dataclass(frozen=True)
class FileShard(Shard):
    """Rows of a ``.npy`` file, from ``offset`` on, with ``strides`` in bytes by row and by column."""

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    def read(self) -> dict[str, Any]:
        """The rows."""
        with self.readable(), open(self.path, "rb") as file:
            return {"demands": self.rows(file, 0, len(self))}

    def __len__(self) -> int:
        return self.shape[0]

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Raise `InvalidInstance` where the file cannot be read."""
        try:
            yield
        except OSError as error:
            raise InvalidInstance(f"{self.path!r} cannot be read ({error}); check the file") from error

    def rows(self, file: Any, start: int, stop: int) -> Float:
        """Some rows of the open file."""
        n, m, (by_row, by_column) = stop - start, self.shape[1], self.strides
        where = self.offset + start * by_row
        if by_column == self.dtype.itemsize:
            return self._numbers(file, where, n * m).reshape(n, m)
        return np.stack([self._numbers(file, where + i * by_column, n) for i in range(m)]).T

    def _numbers(self, file: Any, where: int, count: int) -> Any:
        file.seek(where)
        content = file.read(count * self.dtype.itemsize)
        if len(content) < count * self.dtype.itemsize:
            raise changed()
        return np.frombuffer(content, self.dtype)

    def copies(self, whole: bool) -> bool:
        """Whether rows are read into one array."""
        return whole

    def instance(self, capacities: Float, resources: Sequence[str], whole: bool) -> tuple[Instance, int | None]:
        """The users, whose demands are `FileRows` unless ``whole``."""
        if whole:
            return super().instance(capacities, resources, whole)
        _require_columns(self.shape, resources)
        no_users = Instance(np.zeros((0, len(resources))), capacities=capacities, resources=resources)
        return with_rows(no_users, FileRows(self, no_users)), None


def _content(array: Any) -> Any:
    """The bytes of an array without gaps, in the order of its memory."""
    return array.ravel("K").view(np.uint8)


class FileRows:
    """Rows of a file, read in order in chunks: half the time of one array per shard.

    The first reading checks them. Raises `NotCertified` if size, time or, if ``compares``, a chunk's checksum differ
    from those of the first reading.
    """

    ndim = 2

    def __init__(self, shard: FileShard, no_users: Instance) -> None:
        self.shard, self.no_users, self.shape, given = shard, no_users, shard.shape, shard.dtype
        self.dtype: Any = given if given in (np.float32, np.float64) and given.isnative else np.dtype(np.float64)
        self.strides = (self.shape[1] * self.dtype.itemsize, self.dtype.itemsize)
        self.nbytes = self.shape[0] * self.strides[0]
        self.compares = True  # later readings by checksum too
        self._sums: dict[int, int] = {}  # checksums by the first row of a chunk
        self._stat: tuple[int, ...] | None = None
        self._file: Any = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def checksum(self) -> int:
        """The checksum of the first reading."""
        return zlib.crc32(np.array(list(self._sums.values()), dtype=np.uint32).tobytes())

    def __getitem__(self, rows: slice) -> Float:
        start, stop, step = rows.indices(len(self))
        if step != 1 or stop - start > rows_in_a_chunk(self.shape[1]):
            return np.asarray(self.shard.read()["demands"][rows], dtype=self.dtype)
        if start == 0:
            with self.shard.readable():
                self._file = open(self.shard.path, "rb")  # noqa: SIM115  # until the last row is read
        try:
            chunk = self._chunk(start, stop)
        except BaseException:
            stop = len(self)
            raise
        finally:
            if stop == len(self):
                self._file.close()
                self._file = None
        return chunk

    def _chunk(self, start: int, stop: int) -> Float:
        with self.shard.readable():
            raw = self.shard.rows(self._file, start, stop)
            about = os.fstat(self._file.fileno())
        now = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
        if self._stat not in (None, now):
            raise changed()
        self._stat = now
        chunk = np.asarray(raw, dtype=self.dtype)
        is_first = start not in self._sums
        if is_first or self.compares:
            checksum = zlib.crc32(_content(raw))
            if self._sums.setdefault(start, checksum) != checksum:
                raise changed()
        if is_first:
            self._check(chunk)
        return chunk

    def _check(self, chunk: Float) -> None:
        """Raise `InvalidInstance` for demands that no instance can have."""
        about = self.no_users
        names = Labels(default_labels("user", len(chunk)), about.resources, ("pool",))
        try:
            check_numbers(chunk, about.capacities, names)
        except InvalidInstance:
            self.shard.instance(about.capacities[0], about.resources, whole=True)  # raises it with the right row
            raise


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
        columns = {name: ABOUT_USERS[name] for name in about}
        return {"demands": demands} | {
            column.argument: _numbers(table, name, self.first, column.blank) for name, column in columns.items()
        }

    def labels(self) -> Any:
        """The column ``user``."""
        return self._table(["user"])["user"] if "user" in self._names() else None

    def _names(self) -> list[str]:
        return list(_parquet_file(Path(self.path)).schema_arrow.names)

    def _table(self, names: Sequence[str]) -> Any:
        import pyarrow as pa

        try:
            table = _parquet_file(Path(self.path)).read_row_group(self.group, columns=list(names), use_threads=False)
            return table.select(names)  # raises KeyError for a column that is missing or there twice
        except (OSError, KeyError, pa.ArrowException) as error:
            raise InvalidInstance(f"{self.path!r} cannot be read ({error}); check the file") from error


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


def _cut(source: ArrayLike, name: str = "", path: Path | None = None) -> list[Shard]:
    """The shards of an array, or of a file that is mapped as one."""
    array = source if isinstance(source, np.ndarray) else np.asarray(source)
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        raise InvalidInstance(
            f"{name or 'the source'} is {type(source).__name__} of shape {array.shape} and type {array.dtype}; give "
            "demands of shape (n_users, n_resources), a list of such arrays, a .npy file, a folder of .parquet files "
            "or a Dask array"
        )
    out: list[Shard] = []
    for first in range(0, max(len(array), 1), ROWS):
        rows = array[first : first + ROWS]
        text = f"rows {first} to {first + len(rows) - 1}"
        part = name if name and len(array) <= ROWS else f"{name}, {text}" if name else text
        if path is not None and isinstance(array, np.memmap):
            where = array.offset + first * array.strides[0]
            out.append(FileShard(part, first, str(path.resolve()), array.dtype, rows.shape, where, rows.strides))
        else:
            out.append(ArrayShard(part, first, np.asarray(rows)))
    return out


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
        every = [(file, file.relative_to(path)) for file in sorted(path.rglob("*")) if file.is_file()]
        files = [
            (file, str(inside))
            for file, inside in every
            if file.suffix in (".npy", ".parquet") and not any(part[0] in "._" for part in inside.parts)
        ]
        if len({file.suffix for file, _ in files}) > 1:
            raise InvalidInstance(f"{str(path)!r} holds .npy and .parquet files; keep one kind")
    out: list[Shard] = []
    for file, name in files:
        npy = file.suffix == ".npy"
        out += _cut(_mapped(file), name, file) if npy else _row_groups(file, name, resources)
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
