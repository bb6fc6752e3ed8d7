"""CSV files as columns of text that remember their line, so that every error can name file, line, column and value."""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest

__all__ = ["Table", "read_table"]

_LONGEST_LINE = 1 << 24  # characters; a longer line is no table, and reading it would take memory without end
_LARGEST_WHOLE = 2.0**53  # beyond it floats skip whole numbers


@dataclass(frozen=True)
class Table:
    """A CSV file: its columns as lists of text without surrounding blanks, and the line that each row starts on."""

    path: str
    columns: dict[str, list[str]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def refuse(self, row: int, column: str, problem: str) -> NoReturn:
        """Raise the error about one cell."""
        raise InvalidInstance(f"{self.path}, line {self.lines[row]}, column {column!r}: {problem}")

    def labels(self, column: str) -> list[str]:
        """A column of names: none empty, none twice."""
        names = self.columns[column]
        first: dict[str, int] = {}
        for row, name in enumerate(names):
            if not name:
                self.refuse(row, column, f"the name is empty; give every {column} a name of its own")
            if first.setdefault(name, row) != row:
                self.refuse(row, column, f"{name!r} is given on line {self.lines[first[name]]} too; names must differ")
        return names

    def numbers(
        self, column: str, fix: str, *, blank: float | None = None, positive: bool = False, whole: bool = False,
        infinite: bool = False,
    ) -> NDArray[np.float64]:  # fmt: skip
        """A column of numbers, none negative.

        Parameters
        ----------
        column : str
            Name of the column.
        fix : str
            End of the message about a bad cell, as ``"give a number >= 0"``.
        blank : float, optional
            What an empty cell means; an error if not given.
        positive, whole, infinite : bool, default False
            Refuse zero; refuse fractions; allow infinity.

        Returns
        -------
        ndarray of shape (n_rows,)

        Raises
        ------
        InvalidInstance
            Names file, line, column, value and fix.
        """
        cells = self.columns[column]
        try:
            values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        except ValueError:
            values = np.fromiter((self._number(row, column, fix, blank) for row in range(len(cells))), dtype=np.float64)
        good = values > 0 if positive else values >= 0
        if not infinite:
            good &= values < np.inf
        if whole:
            good &= (values == np.floor(values)) & (values <= _LARGEST_WHOLE)
        if not good.all():
            row = int(np.argmin(good))
            self.refuse(row, column, f"the value is {cells[row]}; {fix}")
        return values

    def _number(self, row: int, column: str, fix: str, blank: float | None) -> float:
        cell = self.columns[column][row]
        if not cell:
            if blank is None:
                self.refuse(row, column, f"the cell is empty; {fix}")
            return blank
        try:
            return float(cell)
        except ValueError:
            self.refuse(row, column, f"{_short(cell)} is no number; {fix}")


def read_table(path: str | os.PathLike[str], required: Sequence[str]) -> Table:
    """Read a CSV file in UTF-8, with or without a byte order mark.

    Parameters
    ----------
    path : path-like
        The file.
    required : sequence of str
        Columns that must be there.

    Returns
    -------
    Table
        Lines without any content are left out.

    Raises
    ------
    InvalidInstance
        If the file cannot be opened, is empty, is no UTF-8, or has rows that do not fit the header.
    """
    name = os.fspath(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return _parse(file, name, required)
    except UnicodeDecodeError as error:
        line = _undecodable_line(Path(path))
        problem = f"this is not UTF-8 ({error.reason}); save the file as UTF-8"
        raise InvalidInstance(f"{name}, line {line}: {problem}") from error
    except OSError as error:
        raise InvalidInstance(
            f"{name} cannot be read ({error.strerror}); expected a CSV file with the columns {', '.join(required)}"
        ) from error


def _parse(file: TextIO, name: str, required: Sequence[str]) -> Table:
    reader = csv.reader(_bounded_lines(file, name), strict=True)
    columns: list[list[str]] = []
    header: list[str] | None = None
    lines: list[int] = []
    start = 1
    try:
        for raw in reader:
            row = [cell.strip() for cell in raw]
            if any(row):
                if header is None:
                    header = _checked_header(row, f"{name}, line {start}", required)
                    columns = [[] for _ in header]
                elif len(row) != len(header):
                    raise InvalidInstance(
                        f"{name}, line {start}: the row has {len(row)} cells where the header has {len(header)} "
                        f"({', '.join(header)}); give one cell per column, in double quotes if it holds a comma"
                    )
                else:
                    for column, cell in zip(columns, row, strict=True):
                        column.append(cell)
                    lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInstance(
            f"{name}, line {start}: this is not readable as CSV ({error}); check the double quotes there"
        ) from error
    if header is None:
        raise InvalidInstance(f"{name} is empty; expected a header line with the columns {', '.join(required)}, ...")
    return Table(name, dict(zip(header, columns, strict=True)), lines)


def _checked_header(header: list[str], place: str, required: Sequence[str]) -> list[str]:
    for k, name in enumerate(header):
        if not name:
            raise InvalidInstance(f"{place}: column {k + 1} has no name; name it in the header or remove it")
        if name in header[:k]:
            raise InvalidInstance(f"{place}: the column {name!r} is there twice; names of columns must differ")
    for name in required:
        if name not in header:
            separator = next((s for s in (";", "\t") if len(header) == 1 and s in header[0]), None)
            hint = f"separate the columns by commas, not by {separator!r}" if separator else nearest(name, header)
            raise InvalidInstance(f"{place}: there is no column {name!r}; {hint}")
    return header


def _bounded_lines(file: TextIO, name: str) -> Iterator[str]:
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise InvalidInstance(f"{name}, line {number} is longer than {_LONGEST_LINE} characters; this is no table")
        yield line


def _undecodable_line(path: Path) -> int:
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as file:
        try:
            while chunk := file.read(1 << 20):
                line += decoder.decode(chunk).count("\n")
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
    return line


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
