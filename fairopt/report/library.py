"""The library of instances as tables: all cases, and one with its instance and answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairopt.instances.library.answers import Answer
from fairopt.instances.library.cases import Case
from fairopt.instances.library.library import Library
from fairopt.report.pages import page
from fairopt.report.tables import Column, Table, instance_tables
from fairopt.runtime.display import sentence

MOST_USERS = 20  # whose demands are shown


def library_parts(library: Library) -> Iterator[Any]:
    """A table for `rich` with a row per case."""
    rows = [[*map(sentence, _row(case))] for case in library.values()]
    about = Column("what it is, and its source", [f"{title}\n{source}" for *_, title, source in rows], False, True)
    yield Table(_heading(library), Column("name", [name for name, *_ in rows], right=False), [[about]])


def library_page(library: Library) -> str | None:
    """The same in HTML."""
    rows = [_row(case) for case in library.values()]
    headers = ("name", "users", "servers", "what it is", "source")
    columns = [
        Column(header, [row[k] for row in rows], right=header in ("users", "servers"))
        for k, header in enumerate(headers)
    ]
    return page([Table("", columns[0], [columns[1:]])], heading=_heading(library))


def case_parts(case: Case) -> Iterator[Any]:
    """Source, instance and answers of a case, for `rich`."""
    from rich.text import Text

    yield Text(case.name, style="bold")
    for line in _about(case):
        yield Text(line)
    for table in _instance(case):
        yield Text("")
        yield table
    if case.answers:
        yield Text("")
        yield _answers(case)


def case_page(case: Case) -> str | None:
    """The same in HTML."""
    tables = [*_instance(case), *[_answers(case)] * bool(case.answers)]
    return page(tables, _about(case)[1:], case.name, f": {case.title}")


_COLUMNS = ("notion", "policy", "value", "tasks", "gap")


def _heading(library: Library) -> str:
    return f"{len(library)} case{'s' * (len(library) != 1)}"


def _row(case: Case) -> tuple[str, ...]:
    users, _, servers = case.size
    return case.name, f"{users:,}", f"{servers:,}", case.title, str(case.source)


def _about(case: Case) -> list[str]:
    return [
        case.title + ".",
        f"Source: {case.source}.",
        f"Tags: {', '.join(case.tags)}.",
        f"Made by: {case.command}",
        repr(case.instance),
    ]


def _instance(case: Case) -> list[Table]:
    return list(instance_tables(case.instance)) if case.instance.n_users <= MOST_USERS else []


def _answers(case: Case) -> Table:
    rows = [_answer_row(answer) for answer in case.answers.values()]
    first, *others = (
        Column(header, [row[k] for row in rows], False, header not in ("notion", "gap"))
        for k, header in enumerate(_COLUMNS)
    )
    return Table("Answers", first, [others])


def _answer_row(answer: Answer) -> tuple[str, ...]:
    gap = "" if answer.gap is None else "exact" if answer.exact else f"{answer.gap:.0e}"
    if answer.status != "optimal":
        return answer.notion, answer.policy, sentence(str(answer)), "", ""
    return answer.notion, answer.policy, _value(answer), _tasks(answer), gap


def _value(answer: Answer) -> str:
    if answer.value is not None:
        text = str(answer.value)
        return text if len(text) <= 20 else f"{float(answer.value):.12g}"
    if answer.interval is None:
        return ""
    low, high = answer.interval
    same = next((f"{low:.{k}g}" for k in range(15, 2, -1) if f"{low:.{k}g}" == f"{high:.{k}g}"), f"{low:.3g}")
    return same


def _tasks(answer: Answer) -> str:
    if answer.tasks is None:
        return ""
    words = [text if len(text := str(x)) <= 12 else f"{float(x):.6g}" for x in answer.tasks[:8]]
    return ", ".join(words) + (", ..." if len(answer.tasks) > len(words) else "")
