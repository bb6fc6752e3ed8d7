"""Instances from and to data frames of pandas, Polars, pyarrow and others that narwhals supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, optional
from fairopt.io.assemble import ABOUT_DEMANDS, TEAM, TITLES, arguments_of_tables, tables_of
from fairopt.io.notes import Arguments
from fairopt.io.tables import InputTable, check_columns

if TYPE_CHECKING:
    from fairopt.instance import Instance

_BACKENDS = ("pandas", "polars", "pyarrow")


def read_frames(
    users: Any, servers: Any, demands: Any = None, teams: Any = None, labels: Sequence[str] = ()
) -> Arguments:
    """Read an instance from data frames; see `Instance.from_frames`."""
    return arguments_of_tables(
        table_of(users, "users", ("user",)),
        table_of(servers, "servers", ("server",)),
        None if demands is None else table_of(demands, "demands", ABOUT_DEMANDS),
        None if teams is None else table_of(teams, "teams", (TEAM,)),
        labels,
    )


def table_of(frame: Any, name: str, required: Sequence[str], extra: str = "frames") -> InputTable:
    """Convert a data frame to a table with the ``required`` columns; ``extra`` is the extra that installs narwhals.

    Lazy frames are collected. Named levels of the index of a pandas frame count as columns.
    """
    nw = optional("narwhals", extra, f"reading {'Parquet files' if extra == 'parquet' else 'data frames'}")
    try:
        native = nw.from_native(frame)
        eager = _collected(native, name) if isinstance(native, nw.LazyFrame) else native
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
            raise InvalidInstance(f"{name}: the column {column!r} has a name that is not text; rename it")
    check_columns(columns, name, required)
    cells = {column: _cells(eager[column], f"{name}, column {column!r}") for column in columns}
    return InputTable(name, cells, len(eager))


def _collected(frame: Any, name: str) -> Any:
    try:
        return frame.collect()
    except Exception as error:  # the plan of a lazy frame may run any code
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInstance(f"{name}: the lazy frame cannot be collected ({words[:300]}); fix its plan") from error


def _with_index(frame: Any, name: str) -> Any:
    """A frame with the named levels of its index, if it has one, as columns."""
    levels = getattr(getattr(frame, "index", None), "names", None)
    if levels is None or not hasattr(frame, "reset_index"):
        return frame
    given = [k for k, level in enumerate(levels) if level is not None and level not in frame.columns]
    named = [levels[k] for k in given]
    if len(set(named)) < len(named):
        raise InvalidInstance(f"{name}: levels of the index have one name in {named!r}; names of columns must differ")
    return frame.reset_index(level=given) if given else frame


def _cells(series: Any, place: str) -> list[Any] | NDArray[Any]:
    """Numbers as an array with NaN for missing ones; other cells as a list with None for missing ones."""
    try:
        missing = series.is_null().to_numpy()
    except ArithmeticError as error:
        raise InvalidInstance(f"{place}: a signalling NaN cannot be compared; leave the cell empty") from error
    if series.dtype.is_float() or (series.dtype.is_integer() and "128" not in str(series.dtype)):
        if not missing.any():
            return np.asarray(series.to_numpy())
        values = np.asarray(series.fill_null(0).to_numpy())
        values = values.astype(values.dtype if values.dtype == np.float32 else np.float64)
        values[missing] = np.nan
        return values
    return [None if empty else cell for cell, empty in zip(series.to_list(), missing.tolist(), strict=True)]


def to_frames(instance: Instance, backend: str = "pandas") -> tuple[Any, ...]:
    """See `Instance.to_frames`."""
    if backend not in _BACKENDS:
        raise InvalidInstance(f"backend is {backend!r}; give one of {', '.join(map(repr, _BACKENDS))}")
    tables = tables_of(instance)
    module = optional(backend, "polars" if backend == "polars" else "parquet", f"to_frames({backend!r})")
    make = module.table if backend == "pyarrow" else module.DataFrame
    kept = TITLES[: 1 + TITLES.index([*tables][-1])]
    return tuple(make(tables[title]) if title in tables else None for title in kept)
