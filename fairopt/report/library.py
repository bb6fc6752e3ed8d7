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
    """A table for `rich` with a row per case, folded at the width of the terminal."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    yield Text(_heading(library), style="bold")
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is, and its source", overflow="fold")
    for case in library.values():
        name, *_, title, source = map(sentence, _row(case))
        table.add_row(Text(name), Text(f"{title}\n").append(source, style="dim"))
    yield table


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
        yield from _answer_parts(case)


def case_page(case: Case) -> str | None:
    """The same in HTML."""
    rows = [_answer_row(answer) for answer in case.answers.values()]
    first, *others = (Column(header, [row[k] for row in rows], right=False) for k, header in enumerate(_COLUMNS))
    answers = [Table("Answers", first, [others])] if rows else []
    return page([*_instance(case), *answers], _about(case)[1:], case.name, f": {case.title}")


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


def _answer_parts(case: Case) -> Iterator[Any]:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for header in _COLUMNS:
        table.add_column(header, overflow="fold", no_wrap=header in ("notion", "gap"))
    for answer in case.answers.values():
        table.add_row(*map(Text, _answer_row(answer)))
    yield table


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
