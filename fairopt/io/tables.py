"""Tables whose errors name the table, row, column and value, and the reader of CSV files."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.text_files import decimal_only, read_text
from fairopt.runtime.arrays import Float
from fairopt.runtime.progress import steps, tell
from fairopt.runtime.ranges import fix_or_unit, in_range

LONGEST_CELL = 131_072  # characters: the limit of the csv module
_BEFORE_UNIT = re.compile(r" +(?=\[[^\[\]]*\]$)")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED = re.compile(r"'+[=+\-@\t\r]")
_LARGEST_WHOLE = 2.0**53  # beyond it, not every whole number is a float


@dataclass(frozen=True)
class Column:
    """A column of nonnegative numbers: its name, the argument of `Instance` that it gives, and the valid numbers.

    Parameters
    ----------
    name : str
        The header.
    argument : str, default ""
        The argument of `Instance`.
    fix : str
        What an error about a cell ends with.
    blank : float or None
        The value of an empty cell; None makes it an error.
    positive, whole, infinite : bool
        Refuse zero; refuse fractions; allow infinity.

    Examples
    --------
    >>> import fairopt as fo
    >>> table = fo.io.InputTable("t.csv", {"tasks": ["2", ""]}, 2, [2, 3])
    >>> table.numbers(fo.io.Column("tasks", blank=1.0))
    array([2., 1.])
    """

    name: str
    argument: str = ""
    fix: str = "give a finite number >= 0"
    blank: float | None = None
    positive: bool = False
    whole: bool = False
    infinite: bool = False


@dataclass(frozen=True)
class InputTable:
    """A table from a CSV file or a data frame, whose errors name file, row and column.

    Parameters
    ----------
    path : str
        The file, or what messages call the frame.
    columns : dict
        By header text in cells; of a frame arrays of numbers, NaN for missing ones, or lists of cells.
    size : int
        The number of rows.
    lines : list of int, optional
        The line on which each row starts; None for a frame.

    Examples
    --------
    >>> import fairopt as fo
    >>> table = fo.io.InputTable("t.csv", {"cpu": ["2", "many"]}, 2, [2, 3])
    >>> table.numbers("cpu")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: t.csv, line 3, column 'cpu': 'many' is not a number; give a finite number >= 0
    """

    path: str
    columns: dict[str, list[Any] | NDArray[Any]]
    size: int
    lines: list[int] | None = None

    def __len__(self) -> int:
        return self.size

    def place(self, row: int) -> str:
        """The line of a row in a file, or its number in a frame, from 0."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def refuse(self, row: int, column: str, problem: str) -> NoReturn:
        """Raise the error about one cell."""
        raise InvalidInstance(f"{self.path}, {self.place(row)}, column {column!r}: {problem}")

    def cells(self, column: str) -> list[Any]:
        """A column as Python objects; missing cells are None or empty text."""
        values = self.columns[column]
        if not isinstance(values, np.ndarray):
            return values
        return [None if cell != cell else cell for cell in values.tolist()]

    def texts(self, column: str) -> list[str]:
        """A column as text; whole numbers become text, and missing cells ``""``."""
        tell(f"column {short(column)} of {os.path.basename(self.path)}")
        cells = self.cells(column)
        for row, cell in enumerate(cells if self.lines is None else ()):
            if not (cell is None or isinstance(cell, (str, int, np.integer))) or isinstance(cell, bool):
                self.refuse(row, column, f"{_shown(cell)} is not a name; give text or whole numbers")
        return ["" if cell is None else str(cell) for cell in cells]

    def labels(self, column: str, unique: bool = True) -> list[str]:
        """A column of names, none empty."""
        names = self.texts(column)
        first: dict[str, int] = {}
        for row, name in enumerate(names):
            if not name:
                fix = f"give every {column} its own name" if unique else f"name the {column} in every row"
                self.refuse(row, column, f"the name is empty; {fix}")
            if unique and first.setdefault(name, row) != row:
                there = self.place(first[name])
                self.refuse(row, column, f"{short(name)} is given on {there} too; names must differ")
        return names

    def lists(self, column: str) -> list[list[str] | None]:
        """A column of lists of names, or of names joined by ``|``; None for empty cells."""

        def names(row: int, cell: Any) -> list[str] | None:
            if cell is None or (isinstance(cell, str) and not cell):
                return None
            found = cell.split("|") if isinstance(cell, str) else cell
            if isinstance(found, (list, tuple, np.ndarray)) and len(found):
                found = list(found)
                if all(isinstance(name, str) for name in found):
                    return found
            fix = "give names of servers as a list or joined with '|', or nothing for all servers"
            self.refuse(row, column, f"{_shown(cell)} is not a list of names; {fix}")

        return [names(row, cell) for row, cell in enumerate(self.cells(column))]

    def arguments(self, columns: Iterable[Column]) -> dict[str, Float]:
        """The columns that the table has, by argument."""
        return {column.argument: self.numbers(column) for column in columns if column.name in self.columns}

    def numbers(self, column: Column | str) -> Float:
        """A column of numbers, by default finite ones; arrays keep single precision."""
        rules = Column(column) if isinstance(column, str) else column
        values = self._floats(rules)
        good = values > 0 if rules.positive else values >= 0
        good &= in_range(values) | (values == np.inf if rules.infinite else False)
        if rules.whole:
            good &= (values == np.floor(values)) & (values <= _LARGEST_WHOLE)
        if not good.all():
            row = int(np.argmin(good))
            fix = fix_or_unit(values[row], rules.fix, rules.name)
            self.refuse(row, rules.name, f"the value is {self.cells(rules.name)[row]}; {fix}")
        return values

    def _floats(self, rules: Column) -> Float:
        tell(f"column {short(rules.name)} of {os.path.basename(self.path)}")
        column = self.columns[rules.name]
        if isinstance(column, np.ndarray):
            values = column.astype(column.dtype if column.dtype == np.float32 else np.float64)
            missing = np.isnan(values)
            if missing.any():
                values[missing] = self._number(int(np.argmax(missing)), None, rules)
            return values
        if self.lines is not None and decimal_only(column):  # the usual case: all cells are numbers
            with suppress(ValueError):
                return np.fromiter(map(float, column), dtype=np.float64, count=len(column))
        cells = (self._number(row, cell, rules) for row, cell in enumerate(column))
        return np.fromiter(cells, dtype=np.float64, count=len(column))

    def _number(self, row: int, cell: Any, rules: Column) -> float:
        if cell is None or (isinstance(cell, str) and not cell):
            if rules.blank is None:
                self.refuse(row, rules.name, f"the cell is empty; {rules.fix}")
            return rules.blank
        if isinstance(cell, str):
            if self.lines is None:
                problem = f"{short(cell)} is text, which is not read as a number; convert the column"
                self.refuse(row, rules.name, problem)
            if decimal_only([cell]):
                with suppress(ValueError):
                    return float(cell)
        elif isinstance(cell, (int, float, np.number, Decimal, Fraction)) and not isinstance(cell, bool):
            with suppress(OverflowError):  # a whole number too large for a float
                return float(cell)
        self.refuse(row, rules.name, f"{_shown(cell)} is not a number; {rules.fix}")


def escaped(cell: Any) -> Any:
    """A cell for a CSV file. Text that a spreadsheet would execute gets an apostrophe, which `read_table` removes.

    Text that already starts with apostrophes gets one more, so that every text is read back unchanged.

    Parameters
    ----------
    cell : object
        What the cell holds.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.escaped("=1+1"), fo.io.escaped("web")
    ("'=1+1", 'web')
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def read_table(
    path: str | os.PathLike[str], required: Sequence[str], further: Sequence[str] | None = None
) -> InputTable:
    r"""The table in a CSV file in UTF-8, with or without a byte order mark; lines without any content are left out.

    Parameters
    ----------
    path : path-like
        The file.
    required : sequence of str
        Headers that it must have.
    further : sequence of str, optional
        All others that it may have; with None it may have any.

    Examples
    --------
    >>> import fairopt as fo
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = file.write_text("user,cpu\nweb,2\n")
    >>> table = fo.io.read_table(file, ["user"])
    >>> table.texts("user"), table.numbers("cpu")
    (['web'], array([2.]))
    """
    name = os.fspath(path)
    text = read_text(path, f"expected a CSV file with the columns {', '.join(required)}, ...")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidInstance(f"{name}, line {line} holds a NUL character; the file is not text; save it as CSV again")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for raw in steps(reader, f"rows of {os.path.basename(name)}"):
            row = [cell[1:] if _ESCAPED.match(cell) else cell for cell in map(str.strip, raw)]
            if any(row) and not header:
                header = _header(row, f"{name}, line {start}", required)
                known = [*required, *(further or ())]
                for column in header if further is not None else ():
                    if column not in known:
                        raise InvalidInstance(
                            f"{name}, line {start}: the column {short(column)} is not read; rename it to one of "
                            f"{', '.join(known)}, or remove it"
                        )
            elif any(row):
                rows.append(row)
                lines.append(start)
                if len(row) != len(header):
                    names = ", ".join(header[:10]) + (", ..." if len(header) > 10 else "")
                    raise InvalidInstance(
                        f"{name}, line {start}: the row has {len(row)} cells where the header has {len(header)} "
                        f"({names}); give one cell per column, in double quotes if it holds a comma"
                    )
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInstance(
            f"{name}, line {start}: this line cannot be read as CSV ({error}); check the double quotes there"
        ) from error
    if not header:
        raise InvalidInstance(f"{name} is empty; expected a header line with the columns {', '.join(required)}, ...")
    return InputTable(name, {column: [row[k] for row in rows] for k, column in enumerate(header)}, len(rows), lines)


def _header(row: list[str], place: str, required: Sequence[str]) -> list[str]:
    """The column names, checked before other rows so that a wrong separator is reported first."""
    header = [_BEFORE_UNIT.sub(" ", cell) for cell in row]
    separator = next((s for s in (";", "\t") if s in header[0]), None)
    if len(header) == 1 and header[0] not in required and separator:
        raise InvalidInstance(
            f"{place}: there is no column {required[0]!r}; separate the columns with commas, not with {separator!r}"
        )
    check_columns(header, place, required)
    return header


def check_columns(header: Sequence[str], place: str, required: Sequence[str]) -> None:
    """Raise `InvalidInstance` unless headers are not empty, differ and include those that are required.

    Parameters
    ----------
    header : sequence of str
        The headers.
    place : str
        What errors start with.
    required : sequence of str
        Headers that must be there.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.check_columns(["JobID", "User"], "sacct.txt, line 1", ["JobID"])
    """
    seen: set[str] = set()
    for k, name in enumerate(header):
        if not name:
            raise InvalidInstance(f"{place}: column {k + 1} has no name; name it in the header or remove it")
        if name in seen:
            raise InvalidInstance(f"{place}: the column {short(name)} appears twice; names of columns must differ")
        seen.add(name)
    for name in required:
        if name not in seen:
            raise InvalidInstance(f"{place}: there is no column {name!r}; {nearest(name, header)}")


def short(text: str) -> str:
    """A text for a message, quoted and shortened.

    Parameters
    ----------
    text : str
        The text.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.short("web")
    "'web'"
    """
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _shown(cell: Any) -> str:
    return short(cell) if isinstance(cell, str) else f"{short(str(cell))[1:-1]} ({type(cell).__name__})"
