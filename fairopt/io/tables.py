"""Tables whose errors name table, row, column and value, and the one read from CSV files."""

from __future__ import annotations

import csv
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.text_files import decimal_only, lines, opened, texts

__all__ = [
    "LONGEST_CELL", "MOST_CELLS", "MOST_CHARACTERS", "CsvTable", "InputTable", "check_columns", "read_table", "short",
]  # fmt: skip

_LONGEST_LINE = 1 << 24  # characters; a longer line is no table, and reading it would take memory without end
LONGEST_CELL = 131_072  # characters; the csv module reads no longer ones
MOST_CELLS = 20_000_000  # a cell of a CSV file takes some 65 bytes once read, so that memory stays within 2 GiB
MOST_CHARACTERS = 1 << 28  # of a whole table, at 1 to 4 bytes each in memory
_TOO_LARGE = "so much is not read at once; for many users on one pool see `fairopt shards`"
_MOST_COLUMNS = 10_000  # a resource each: far more than any cluster has
_BEFORE_UNIT = re.compile(r" +(?=\[[^\[\]]*\]$)")
_LARGEST_WHOLE = 2.0**53  # beyond it floats skip whole numbers


class InputTable(ABC):
    """A table from a file or a frame whose errors name table, row, column and value.

    Attributes
    ----------
    path : str
        What messages call the table: its file, or ``users`` for a frame.
    columns : Mapping
        By name; what they hold is the table's own affair.
    """

    path: str
    columns: Mapping[str, Any]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row is, as ``line 3``."""

    @abstractmethod
    def texts(self, column: str) -> list[str]:
        """A column as text, ``""`` where a cell is blank."""

    @abstractmethod
    def lists(self, column: str) -> list[list[str] | None]:
        """A column of lists of names, None where a cell is blank."""

    @abstractmethod
    def floats(self, column: str, fix: str, blank: float | None) -> NDArray[np.floating[Any]]:
        """A column as numbers of any sign, with ``blank`` where a cell is blank; refused if that is None."""

    @abstractmethod
    def shown(self, column: str, row: int) -> str:
        """A cell for a message."""

    def refuse(self, row: int, column: str, problem: str) -> NoReturn:
        """Raise the error about one cell."""
        raise InvalidInstance(f"{self.path}, {self.place(row)}, column {column!r}: {problem}")

    def labels(self, column: str) -> list[str]:
        """A column of names: none empty, none twice."""
        names = self.texts(column)
        first: dict[str, int] = {}
        for row, name in enumerate(names):
            if not name:
                self.refuse(row, column, f"the name is empty; give every {column} a name of its own")
            if first.setdefault(name, row) != row:
                there = self.place(first[name])
                self.refuse(row, column, f"{short(name)} is given on {there} too; names must differ")
        return names

    def numbers(
        self, column: str, fix: str, *, blank: float | None = None, positive: bool = False, whole: bool = False,
        infinite: bool = False,
    ) -> NDArray[np.floating[Any]]:  # fmt: skip
        """A column of numbers, none negative; an error about a cell ends with ``fix``, as ``"give a number >= 0"``.

        ``blank`` is what an empty cell means (an error if not given); ``positive`` refuses zero, ``whole`` fractions,
        and ``infinite`` allows infinity.
        """
        values = self.floats(column, fix, blank)
        good = values > 0 if positive else values >= 0
        if not infinite:
            good &= values < np.inf
        if whole:
            good &= (values == np.floor(values)) & (values <= _LARGEST_WHOLE)
        if not good.all():
            row = int(np.argmin(good))
            self.refuse(row, column, f"the value is {self.shown(column, row)}; {fix}")
        return values


@dataclass(frozen=True)
class CsvTable(InputTable):
    """A CSV file: its columns as lists of text without surrounding blanks, and the line that each row starts on."""

    path: str
    columns: dict[str, list[str]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """The line that a row starts on."""
        return f"line {self.lines[row]}"

    def texts(self, column: str) -> list[str]:
        """A column as it is."""
        return self.columns[column]

    def lists(self, column: str) -> list[list[str] | None]:
        """Names joined by ``|`` as lists."""
        return [cell.split("|") if cell else None for cell in self.columns[column]]

    def shown(self, column: str, row: int) -> str:
        """A cell as it is."""
        return self.columns[column][row]

    def floats(self, column: str, fix: str, blank: float | None) -> NDArray[np.float64]:
        """A column of text as numbers."""
        cells = self.columns[column]
        if decimal_only(cells):
            with suppress(ValueError):
                return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        return np.fromiter((self._number(row, column, fix, blank) for row in range(len(cells))), dtype=np.float64)

    def _number(self, row: int, column: str, fix: str, blank: float | None) -> float:
        cell = self.columns[column][row]
        if not cell:
            if blank is None:
                self.refuse(row, column, f"the cell is empty; {fix}")
            return blank
        if decimal_only([cell]):
            with suppress(ValueError):
                return float(cell)
        self.refuse(row, column, f"{short(cell)} is no number; {fix}")


def read_table(path: str | os.PathLike[str], required: Sequence[str]) -> CsvTable:
    """Read a CSV file in UTF-8, with or without a byte order mark; lines without any content are left out."""
    name = os.fspath(path)
    expected = f"expected a CSV file with the columns {', '.join(required)}, ..."
    with opened(path, expected) as file:
        if os.fstat(file.fileno()).st_size > MOST_CHARACTERS:
            raise InvalidInstance(f"{name} has more than {MOST_CHARACTERS:,} bytes; {_TOO_LARGE}")
        text = _bounded(texts(file, name, expected), name)
        return _parse(lines(text, name, _LONGEST_LINE), name, required)


def _parse(text: Iterator[str], name: str, required: Sequence[str]) -> CsvTable:
    reader = csv.reader(text, strict=True)
    columns: list[list[str]] = []
    header: list[str] | None = None
    starts: list[int] = []
    start = 1
    try:
        for raw in reader:
            row = [cell.strip() for cell in raw]
            if any(row):
                if header is None:
                    row = [_BEFORE_UNIT.sub(" ", cell) for cell in row]
                    header = _checked_header(row, f"{name}, line {start}", required)
                    columns = [[] for _ in header]
                elif len(row) != len(header):
                    raise InvalidInstance(
                        f"{name}, line {start}: the row has {len(row)} cells where the header has {len(header)} "
                        f"({_some(header)}); give one cell per column, in double quotes if it holds a comma"
                    )
                else:
                    for column, cell in zip(columns, row, strict=True):
                        column.append(cell)
                    starts.append(start)
                    if len(starts) * len(header) > MOST_CELLS:
                        raise InvalidInstance(f"{name} has more than {MOST_CELLS:,} cells; {_TOO_LARGE}")
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInstance(
            f"{name}, line {start}: this is not readable as CSV ({error}); check the double quotes there"
        ) from error
    if header is None:
        raise InvalidInstance(f"{name} is empty; expected a header line with the columns {', '.join(required)}, ...")
    return CsvTable(name, dict(zip(header, columns, strict=True)), starts)


def _checked_header(header: list[str], place: str, required: Sequence[str]) -> list[str]:
    if len(header) == 1 and header[0] not in required:
        separator = next((s for s in (";", "\t") if s in header[0]), None)
        if separator:
            raise InvalidInstance(
                f"{place}: there is no column {required[0]!r}; separate the columns by commas, not by {separator!r}"
            )
    check_columns(header, place, required)
    return header


def check_columns(header: Sequence[str], place: str, required: Sequence[str]) -> None:
    """Names of columns: none empty, none twice, and those that must be there are. Errors start with ``place``."""
    if len(header) > _MOST_COLUMNS:
        raise InvalidInstance(f"{place}: there are {len(header):,} columns; give at most {_MOST_COLUMNS:,}")
    seen: set[str] = set()
    for k, name in enumerate(header):
        if not name:
            raise InvalidInstance(f"{place}: column {k + 1} has no name; name it in the header or remove it")
        if name in seen:
            raise InvalidInstance(f"{place}: the column {short(name)} is there twice; names of columns must differ")
        seen.add(name)
    for name in required:
        if name not in seen:
            raise InvalidInstance(f"{place}: there is no column {name!r}; {nearest(name, header)}")


def _bounded(chunks: Iterator[str], name: str) -> Iterator[str]:
    characters = 0
    for chunk in chunks:
        characters += len(chunk)
        if characters > MOST_CHARACTERS:
            raise InvalidInstance(f"{name} has more than {MOST_CHARACTERS:,} characters; {_TOO_LARGE}")
        yield chunk


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def short(text: str) -> str:
    """A text for a message, in quotes, and not too long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
