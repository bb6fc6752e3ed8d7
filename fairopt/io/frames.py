"""An instance from and to data frames of pandas, Polars, pyarrow and whatever else narwhals reads."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.io.arguments import Arguments
from fairopt.io.assemble import ABOUT_DEMANDS, arguments_of_tables, check_tables, tables_of
from fairopt.io.tables import InputTable, check_columns, short

if TYPE_CHECKING:
    import narwhals as nw

    from fairopt.instance import Instance

__all__ = ["Frame", "read_frames", "rows_of", "to_frames"]

_BACKENDS = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class Frame(InputTable):
    """A data frame; its rows are counted from 0, as frames do."""

    path: str
    columns: dict[str, nw.Series[Any]]
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    def place(self, row: int) -> str:
        """The position of a row."""
        return f"row {row}"

    def texts(self, column: str) -> list[str]:
        """Text as it is, whole numbers as text."""

        def text(row: int, cell: Any) -> str:
            if isinstance(cell, str):
                return cell
            if _is_whole(cell):
                return str(cell)
            self.refuse(row, column, f"{_shown(cell)} is no name; give text or whole numbers")

        return [text(row, cell) if cell is not None else "" for row, cell in enumerate(self._cells(column))]

    def lists(self, column: str) -> list[list[str] | None]:
        """Lists of names, or names joined by ``|``."""

        def names(row: int, cell: Any) -> list[str] | None:
            if cell is None or (isinstance(cell, str) and not cell):
                return None
            if isinstance(cell, str):
                return cell.split("|")
            if isinstance(cell, (list, tuple, np.ndarray)):
                found = list(cell)
                if found and all(isinstance(name, str) for name in found):
                    return found
            fix = "give names of servers as a list or joined by '|', or nothing for everywhere"
            self.refuse(row, column, f"{_shown(cell)} is no list of names; {fix}")

        return [names(row, cell) for row, cell in enumerate(self._cells(column))]

    def floats(self, column: str, fix: str, blank: float | None) -> NDArray[np.floating[Any]]:
        """Numbers of any type; those in single precision stay so."""
        series = self.columns[column]
        if series.dtype.is_float() or (series.dtype.is_integer() and "128" not in str(series.dtype)):
            missing = series.is_null().to_numpy()
            values = np.asarray((series.fill_null(0) if missing.any() else series).to_numpy())
            kept = values.dtype if values.dtype == np.float32 else np.dtype(np.float64)
            out = values.astype(kept)  # a copy
            out[missing] = np.nan
            return self._filled(out, column, fix, blank)
        cells = self._cells(column)
        found = (np.nan if cell is None else self._number(row, column, cell, fix) for row, cell in enumerate(cells))
        return self._filled(np.fromiter(found, dtype=np.float64, count=len(cells)), column, fix, blank)

    def shown(self, column: str, row: int) -> str:
        """A cell as Python shows it."""
        cell = self._cells(column)[row]
        return str(cell) if isinstance(cell, (float, Decimal)) or _is_whole(cell) else _shown(cell)

    def _filled(
        self, values: NDArray[np.floating[Any]], column: str, fix: str, blank: float | None
    ) -> NDArray[np.floating[Any]]:
        missing = np.isnan(values)
        if missing.any():
            if blank is None:
                self.refuse(int(np.argmax(missing)), column, f"the cell is empty (null or NaN); {fix}")
            values[missing] = blank
        return values

    def _number(self, row: int, column: str, cell: Any, fix: str) -> float:
        if not isinstance(cell, bool) and isinstance(cell, (numbers.Real, Decimal)):
            try:
                return float(cell)
            except (OverflowError, ValueError):  # a whole number too large for a float, a signalling NaN
                self.refuse(row, column, f"{_shown(cell)} cannot be kept as a number; {fix}")
        kind = "text, and text is not taken for numbers: convert the column" if isinstance(cell, str) else "no number"
        self.refuse(row, column, f"{_shown(cell)} is {kind}; {fix}")

    def _cells(self, column: str) -> list[Any]:
        """The cells as Python's objects, None where one is null or, in columns that are not floats, NaN."""
        series = self.columns[column]
        blank = series.is_null().to_list()
        return [None if empty else cell for cell, empty in zip(series.to_list(), blank, strict=True)]


def read_frames(users: Any, servers: Any, demands: Any = None) -> Arguments:
    """Read an instance from data frames; see `Instance.from_frames`."""
    return arguments_of_tables(
        rows_of(users, "users", ("user",)), rows_of(servers, "servers", ("server",)),
        None if demands is None else rows_of(demands, "demands", ABOUT_DEMANDS),
    )  # fmt: skip


def rows_of(frame: Any, name: str, required: Sequence[str], extra: str = "frames") -> Frame:
    """A data frame as a table for `arguments_of_tables`, with those columns that must be there.

    Lazy frames are collected. Of a pandas frame, levels of the index that have a name count as columns. ``extra`` is
    the extra of fairopt that holds what reads it.
    """
    try:
        import narwhals as nw
    except ImportError as error:
        what = "Parquet files" if extra == "parquet" else "data frames"
        raise MissingExtra("narwhals", extra, f"reading {what}") from error
    try:
        found = nw.from_native(frame)
        eager = _collected(found, name) if isinstance(found, nw.LazyFrame) else found
        eager = nw.from_native(_with_index(eager.to_native(), name), eager_only=True)
        columns = list(eager.columns)
    except TypeError as error:
        kind = type(frame).__name__
        raise InvalidInstance(f"{name} is of type {kind}; give a data frame of pandas, Polars or pyarrow") from error
    except nw.exceptions.DuplicateError as error:
        words = " ".join(str(error).split())
        raise InvalidInstance(f"{name}: {words}; names of columns must differ") from error
    for column in columns:
        if not isinstance(column, str):
            raise InvalidInstance(f"{name}: the column {column!r} has a name that is no text; rename it")
    check_columns(columns, name, required)
    return Frame(name, {column: eager[column] for column in columns}, len(eager))


def _collected(frame: Any, name: str) -> Any:
    """What a lazy frame gives; what goes wrong then is an affair of whoever made its plan."""
    try:
        return frame.collect()
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInstance(f"{name}: the lazy frame cannot be collected ({words[:300]}); mend its plan") from error


def _with_index(frame: Any, name: str) -> Any:
    """A frame of pandas or the like with the levels of its index that have a name, and are no columns, as columns."""
    levels = getattr(getattr(frame, "index", None), "names", None)
    if levels is None or not hasattr(frame, "reset_index"):
        return frame
    given = [k for k, level in enumerate(levels) if level is not None and level not in frame.columns]
    named = [levels[k] for k in given]
    if len(set(named)) < len(named):
        raise InvalidInstance(f"{name}: levels of the index have one name in {named!r}; names of columns must differ")
    return frame.reset_index(level=given) if given else frame


def to_frames(instance: Instance, backend: str = "pandas") -> tuple[Any, ...]:
    """See `Instance.to_frames`."""
    if backend not in _BACKENDS:
        raise InvalidInstance(f"backend is {backend!r}; give one of {', '.join(map(repr, _BACKENDS))}")
    tables = tables_of(instance)
    check_tables(instance, tables)
    make = _maker(backend)
    return tuple(make(columns) for columns in tables.values())


def _maker(backend: str) -> Callable[[dict[str, Any]], Any]:
    try:
        if backend == "pandas":
            import pandas as pd

            return lambda columns: pd.DataFrame(columns)
        if backend == "polars":
            import polars as pl

            return lambda columns: pl.DataFrame(columns)
        import pyarrow as pa
    except ImportError as error:
        extra = "polars" if backend == "polars" else "parquet"
        raise MissingExtra(backend, extra, f"to_frames({backend!r})") from error
    return lambda columns: pa.table(columns)


def _is_whole(cell: Any) -> bool:
    return isinstance(cell, (int, np.integer)) and not isinstance(cell, bool)


def _shown(cell: Any) -> str:
    return short(cell) if isinstance(cell, str) else f"{short(str(cell))[1:-1]} ({type(cell).__name__})"
