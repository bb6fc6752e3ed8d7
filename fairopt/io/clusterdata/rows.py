"""Rows of trace tables in batches of arrays, from CSV or Parquet, so that large files take little memory."""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, MissingExtra, nearest
from fairopt.io.text_files import decimal_only, is_path, lines, opened, texts
from fairopt.progress import tell

__all__ = ["ABSENT", "AFTER", "TraceColumn", "TraceRows", "batches"]

ABSENT = -(2**63)  # a whole number that is not given
AFTER = 2**63 - 1  # the trace's time for what happened after its end
_ROWS = 1 << 16  # a batch of a dozen columns takes some 10 MB
_LONGEST_LINE = 1 << 20  # characters; the longest of the trace have lists of constraints, some thousand
_MOST_BLANK = 100_000  # empty lines in a row; a file of nothing else would take minutes for each GB
_EXACT = 2**53  # whole numbers beyond it lose digits when written as floats
_SMALLEST, _LARGEST = 1e-12, 1e12  # amounts are normalised to the largest server, so that 1 is large and 1e-6 small
_NOT_GIVEN = {"null", "NULL", "None", "nan", "NaN"}
_NUMBER: dict[str, Any] = {"whole": int, "amount": float}
_DTYPE: dict[str, Any] = {"whole": np.int64, "amount": np.float64, "text": object, "filled": np.bool_}
_OBJECT = re.compile(r"""['"]?(\w+)['"]?\s*:\s*['"]?([^,'"{}\s]+)""")


@dataclass(frozen=True)
class TraceColumn:
    """A column to read.

    Attributes
    ----------
    name : str
        As in the trace's documentation, with a dot before the field of a struct.
    kind : str
        ``"whole"`` (int64, `ABSENT` where not given), ``"amount"`` (float64, NaN where not given), ``"text"`` (object,
        None where not given), or ``"filled"`` (bool: whether something is given).
    required : bool, default True
        Whether it must be there; if it is not, nothing is given in any row.
    names : mapping of str to int, optional
        Names that stand for whole numbers, which are one after the other; there are no others.
    """

    name: str
    kind: str
    required: bool = True
    names: Mapping[str, int] = field(default_factory=dict)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Names under which exports have it: BigQuery calls ``capacity.cpus`` just ``cpus`` if asked for it alone."""
        head, _, tail = self.name.rpartition(".")
        return (self.name, f"{head}_{tail}", tail) if head else (self.name,)


TraceRows = dict[str, NDArray[Any]]


def batches(path: str | os.PathLike[str], columns: Sequence[TraceColumn], table: str) -> Iterator[TraceRows]:
    """Read a table (its name is for messages, as ``"InstanceEvent"``) batch by batch, as arrays by name of column.

    The path is a CSV file, gzipped or not, a Parquet file, or a folder of such files. What is in it decides, not its
    name; other columns may be there.
    """
    if not is_path(path):
        raise InvalidInstance(f"{path!r} is no file; give the path of {_expected(table, columns)}")
    expected = f"expected {_expected(table, columns)}"
    for file in _parts(path, table, columns):
        done = 0
        tell(f"reading {file.name}", done)
        with opened(file, expected) as raw:
            start = raw.read(4)
            raw.seek(0)
            rows = _parquet(file, columns, table) if start == b"PAR1" else _csv(raw, file, columns, table, expected)
            for batch in rows:
                yield batch
                done += len(batch[columns[0].name])
                tell(f"reading {file.name}", done)


def _expected(table: str, columns: Sequence[TraceColumn]) -> str:
    names = ", ".join(column.name for column in columns if column.required)
    return f"{table} rows as CSV, gzipped CSV or Parquet, with the columns {names}"


def _parts(given: str | os.PathLike[str], table: str, columns: Sequence[TraceColumn]) -> list[Path]:
    path = Path(given)
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        parts = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInstance(f"{path} cannot be read ({reason}); expected {_expected(table, columns)}") from error
    if not parts:
        raise InvalidInstance(f"{path} is a folder without files; expected {_expected(table, columns)}")
    return parts


# -- CSV ------------------------------------------------------------------------------------------------------


def _csv(raw: BinaryIO, path: Path, columns: Sequence[TraceColumn], table: str, expected: str) -> Iterator[TraceRows]:
    reader = csv.reader(_lines(raw, str(path), expected), strict=True)
    sources: dict[str, int] = {}
    cells: list[list[str]] = []
    starts: list[int] = []
    width, start = 0, 1
    try:
        for row in reader:
            if row and not width:
                width = len(row)
                sources = _sources([cell.strip() for cell in row], columns, f"{path}, line {start}", table)
            elif len(row) == width:
                cells.append(row)
                starts.append(start)
            elif row:
                raise InvalidInstance(
                    f"{path}, line {start}: the row has {len(row)} cells where the header has {width}; give one "
                    "cell per column, in double quotes if it holds a comma"
                )
            start = reader.line_num + 1
            if len(cells) == _ROWS:
                yield _batch_of_cells(cells, starts, sources, columns, path)
                cells, starts = [], []
    except csv.Error as error:
        raise InvalidInstance(
            f"{path}, line {start}: this is not readable as CSV ({error}); check the double quotes there"
        ) from error
    if not width:
        raise InvalidInstance(f"{path} is empty; {expected}")
    if cells:
        yield _batch_of_cells(cells, starts, sources, columns, path)


def _lines(raw: BinaryIO, name: str, expected: str) -> Iterator[str]:
    blank = 0
    for number, line in enumerate(lines(_chunks(raw, name, expected), name, _LONGEST_LINE), 1):
        blank = blank + 1 if line in ("\n", "\r\n", "\r") else 0
        if blank > _MOST_BLANK:
            raise InvalidInstance(f"{name}, line {number} is the {blank}th empty one in a row; this is no table")
        yield line


def _chunks(raw: BinaryIO, name: str, expected: str) -> Iterator[str]:
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    if not packed:
        yield from texts(raw, name, expected)
        return
    try:
        with gzip.GzipFile(fileobj=raw) as file:
            yield from texts(file, name, expected)
    except (EOFError, zlib.error) as error:
        raise InvalidInstance(f"{name} cannot be unpacked ({error}); {expected}") from error


def _sources(header: list[str], columns: Sequence[TraceColumn], place: str, table: str) -> dict[str, int]:
    """Which column of the file holds each that is wanted; a struct may stand in one, as ``{"cpus": 0.5}``."""
    out = {}
    for column in columns:
        known = (*column.spellings, column.name.partition(".")[0])
        found = next((name for name in known if name in header), None)
        if found is not None:
            if header.count(found) > 1:
                raise InvalidInstance(f"{place}: the column {found!r} is there twice; names of columns must differ")
            out[column.name] = header.index(found)
        elif column.required:
            raise InvalidInstance(
                f"{place}: there is no column {column.name!r}; {nearest(column.name, header)[:300]} "
                f"(this should be a table of {table} rows)"
            )
    return out


def _batch_of_cells(
    cells: list[list[str]], lines: list[int], sources: dict[str, int], columns: Sequence[TraceColumn], path: Path
) -> TraceRows:
    out: TraceRows = {}
    for column in columns:
        if column.name not in sources:
            out[column.name] = _absent(column, len(cells))
            continue
        k = sources[column.name]
        texts: list[str | None] = [row[k] for row in cells]
        out[column.name] = _from_text(texts, column, lambda row: f"{path}, line {lines[row]}")
    return out


def _absent(column: TraceColumn, size: int) -> NDArray[Any]:
    value = {"whole": ABSENT, "amount": math.nan, "text": None, "filled": False}[column.kind]
    return np.full(size, value, dtype=_DTYPE[column.kind])


def _from_text(texts: Sequence[str | None], column: TraceColumn, place: Callable[[int], str]) -> NDArray[Any]:
    """A column of text as what it should be; ``place(row)`` says where a row is."""
    if column.kind == "filled":
        empty = {"", "[]", "{}", "null", "None"}
        return np.array([text is not None and text.strip() not in empty for text in texts], dtype=bool)
    if column.kind == "text":
        out = np.empty(len(texts), dtype=object)
        out[:] = [(text or "").strip() or None for text in texts]
        return out
    convert: Any = _whole if column.kind == "whole" else _amount
    try:  # nearly always all are numbers
        _check_decimal(texts)
        values = np.fromiter(map(_NUMBER[column.kind], texts), dtype=_DTYPE[column.kind], count=len(texts))
    except (TypeError, ValueError, OverflowError):
        values = _absent(column, len(texts))
        for row, cell in enumerate(texts):
            text: str | None = (cell or "").strip()
            if text and text[0] == "{":
                text = dict(_OBJECT.findall(text)).get(column.name.rpartition(".")[2])
            if text and text not in _NOT_GIVEN:
                value = column.names.get(text.upper())
                if value is None and decimal_only([text]):
                    value = convert(text)
                if value is None:
                    _refuse(place(row), column, text)
                values[row] = value
    return _checked(values, column, place)


def _check_decimal(texts: Sequence[Any]) -> None:
    if not decimal_only(texts):
        raise ValueError("not all are decimal numbers")


def _whole(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            return None
        if not number.is_integer() or (abs(number) > _EXACT and number != float(AFTER)):
            return None  # infinity too is no integer
        value = min(int(number), AFTER)
    return value if ABSENT < value <= AFTER else None


def _amount(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _refuse(place: str, column: TraceColumn, value: object) -> NoReturn:
    text = str(value)
    text = text if len(text) <= 40 else text[:37] + "..."
    fix = "give a whole number" if column.kind == "whole" else f"give 0, or a number from {_SMALLEST:g} to {_LARGEST:g}"
    if column.names:
        fix += ", or one of " + ", ".join(column.names)
    raise InvalidInstance(f"{place}, column {column.name!r}: the value is {text!r}; {fix}")


def _checked(values: NDArray[Any], column: TraceColumn, place: Callable[[int], str]) -> NDArray[Any]:
    """The same values, if they can be right."""
    if column.kind == "amount":
        good = np.isnan(values) | (values == 0) | ((values >= _SMALLEST) & (values <= _LARGEST))
    elif column.names:
        known = column.names.values()
        good = (values == ABSENT) | ((values >= min(known)) & (values <= max(known)))
    else:
        return values
    if not good.all():
        row = int(np.argmin(good))
        _refuse(place(row), column, values[row])
    return values


# -- Parquet --------------------------------------------------------------------------------------------------


def _parquet(path: Path, columns: Sequence[TraceColumn], table: str) -> Iterator[TraceRows]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "Reading Parquet files") from error
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            sources = _sources(names, columns, str(path), table)
            wanted = sorted({names[k] for k in sources.values()})
            first = 1
            for batch in file.iter_batches(batch_size=_ROWS, columns=wanted):
                out: TraceRows = {}
                for column in columns:
                    out[column.name] = (
                        _from_arrow(batch.column(batch.schema.get_field_index(names[sources[column.name]])), column,
                                    path, first)
                        if column.name in sources else _absent(column, batch.num_rows)
                    )  # fmt: skip
                first += batch.num_rows
                yield out
    except (pa.ArrowException, MemoryError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InvalidInstance(f"{path} cannot be read ({reason}); expected {_expected(table, columns)}") from error


def _from_arrow(array: Any, column: TraceColumn, path: Path, first: int) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    def place(row: int) -> str:
        return f"{path}, row {first + row}"

    kind = array.type
    if column.kind == "filled":
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return np.asarray(pc.fill_null(pc.greater(pc.list_value_length(array), 0), False), dtype=bool)
        return np.asarray(array.is_valid(), dtype=bool)
    if pa.types.is_struct(kind):
        inner = column.name.rpartition(".")[2]
        if "." not in column.name or kind.get_field_index(inner) < 0:
            fields = ", ".join(kind.field(k).name for k in range(kind.num_fields))[:200]
            raise InvalidInstance(
                f"{path}, column {column.name.partition('.')[0]!r} is nested, of the fields {fields}; "
                f"give a column {column.name!r}"
            )
        array = pc.struct_field(array, kind.get_field_index(inner))
        kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or column.kind == "text":
        if not (pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            _refuse_type(path, column, kind)
        return _from_text([None if v is None else str(v) for v in array.to_pylist()], column, place)
    if pa.types.is_null(kind):
        return _absent(column, len(array))
    if pa.types.is_integer(kind) and column.kind == "whole":
        values = np.asarray(pc.fill_null(array.cast(pa.int64()), ABSENT), dtype=np.int64)
        return _checked(values, column, place)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        _refuse_type(path, column, kind)
    numbers = np.asarray(pc.fill_null(array.cast(pa.float64()), math.nan), dtype=np.float64)
    if column.kind == "amount":
        return _checked(numbers, column, place)
    return _from_text([None if math.isnan(v) else repr(v) for v in numbers.tolist()], column, place)


def _refuse_type(path: Path, column: TraceColumn, kind: object) -> NoReturn:
    wanted = {"whole": "whole numbers", "amount": "numbers"}.get(column.kind, "text")
    raise InvalidInstance(f"{path}, column {column.name!r} is of type {str(kind)[:100]}; export it as {wanted}")
