"""Options and people's rankings of them from CSV files."""

from __future__ import annotations

import os
from typing import Any

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.tables import InputTable, read_table

__all__ = ["read"]

Questions = dict[str, tuple[dict[str, dict[str, float]], dict[str, list[str]]]]


def read(options: str | os.PathLike[str], rankings: str | os.PathLike[str]) -> Questions:
    r"""Read the questions of a survey and the answers of people.

    Parameters
    ----------
    options : path-like
        A CSV file with the columns ``question`` and ``option``; every other column is a user, with its tasks.
    rankings : path-like
        A CSV file with the columns ``person``, ``question``, ``option`` and ``rank`` (1 is the best), with a line for
        each option that a person ranks; further columns are left alone.

    Returns
    -------
    dict by question
        Options (tasks by user, by option) and rankings (options, the best first, by person), as `Survey` takes them.

    Raises
    ------
    InvalidInstance
        If a file cannot be read; if columns, options or ranks are missing, unknown, repeated or tied. The message names
        the file, the line and the person.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "options.csv").write_text("question,option,web,batch\n1,even,3,3\n1,more,5,2")
    >>> _ = (folder / "rankings.csv").write_text("person,question,option,rank\nann,1,even,2\nann,1,more,1")
    >>> fo.preferences.read(folder / "options.csv", folder / "rankings.csv")
    {'1': ({'even': {'web': 3.0, 'batch': 3.0}, 'more': {'web': 5.0, 'batch': 2.0}}, {'ann': ['more', 'even']})}
    """
    table = read_table(options, ("question", "option"))
    users = [name for name in table.columns if name not in ("question", "option")]
    if not users or not len(table):
        what, fix = ("options", "a line for each") if users else ("users", "a column with the tasks of each")
        raise InvalidInstance(f"{table.path} has no {what}; give {fix}")
    tasks = [table.numbers(user, "give tasks as a number >= 0").tolist() for user in users]
    out: Questions = {}
    for row, (question, option) in enumerate(_names(table, "question", "option")):
        held = out.setdefault(question, ({}, {}))[0]
        if option in held:
            table.refuse(row, "option", f"question {question!r} has option {option!r} twice; labels must differ")
        held[option] = {user: of_user[row] for user, of_user in zip(users, tasks, strict=True)}
    table = read_table(rankings, ("person", "question", "option", "rank"))
    at = table.numbers("rank", "give 1 for the best option, 2 for the next, ...", positive=True).tolist()
    ranks: dict[tuple[str, str], dict[float, str]] = {}
    for row, (person, question, option) in enumerate(_names(table, "person", "question", "option")):
        for column, name, known in (("question", question, out), ("option", option, out.get(question, [{}])[0])):
            if name not in known:
                there = f"there is no {column} {name!r} in {os.fspath(options)}"
                table.refuse(row, column, f"{there}; {nearest(name, known)}")
        given = ranks.setdefault((question, person), {})
        if option in given.values():
            table.refuse(row, "option", f"person {person!r} ranks option {option!r} twice; give each option once")
        if given.setdefault(at[row], option) != option:
            both = f"options {given[at[row]]!r} and {option!r} alike"
            table.refuse(row, "rank", f"person {person!r} ranks {both}; give a strict ranking, or leave the person out")
    for (question, person), given in ranks.items():
        for option in out[question][0]:
            if option not in given.values():
                what = f"person {person!r} leaves out option {option!r} of question {question!r}"
                raise InvalidInstance(f"{table.path}: {what}; rank all options, or leave the answer out")
        out[question][1][person] = [given[rank] for rank in sorted(given)]
    for question, (_, answers) in out.items():
        if not answers:
            raise InvalidInstance(f"{table.path} has no answer to question {question!r}; leave the question out")
    return out


def _names(table: InputTable, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of names, row by row; none empty."""
    rows = list(zip(*map(table.texts, columns), strict=True))
    for row, names in enumerate(rows):
        if "" in names:
            table.refuse(row, columns[names.index("")], "the cell is empty; give a name")
    return rows
