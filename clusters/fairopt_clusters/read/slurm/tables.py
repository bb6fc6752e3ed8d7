"""Tables that Slurm's commands print: columns separated by ``|``, or by blanks, below a header."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fairopt.errors import InvalidInstance


def titles_of(text: str) -> list[str]:
    """The titles in the first line of a table, or its words if it is none."""
    first = text.lstrip().partition("\n")[0].rstrip()
    return [one.strip() for one in first.removesuffix("|").split("|" if "|" in first else None)]


def rows_of(text: str, name: str, command: str, needed: Collection[str] = ()) -> Iterator[tuple[dict[str, str], str]]:
    """The cells of each row by title, with blanks around them, and its place in the file.

    Errors about a column that is ``needed`` and not there, or a row with other numbers of cells, name the ``command``
    that prints them.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    header = titles_of(text)
    for title in needed:
        if title not in header:
            raise InvalidInstance(f"{name} has no column {title}; give {command}")
    for number, line in lines[1:]:
        cells, place = line.split("|" if "|" in lines[0][1] else None), f"{name}, line {number}"
        cells = cells[:-1] if len(cells) == len(header) + 1 and not cells[-1] else cells
        if len(cells) != len(header):
            few = f"the row has {len(cells)} cells where the header has {len(header)}"
            raise InvalidInstance(f"{place}: {few}; give {command}")
        yield dict(zip(header, cells, strict=True)), place
