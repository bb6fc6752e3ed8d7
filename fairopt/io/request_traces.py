"""Reads traces of requests to language models as jobs: a time, input tokens and output tokens by request.

The published traces name no tenants and no durations. Tenants are a column or an assignment that the caller states;
durations follow from rates at which a slot reads input and writes output. A request takes one ``slot``, and
``input``, ``output`` and ``tokens`` (their sum, as a cache of keys and values holds them), of which the servers name
those that count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.jobs import JobArguments, in_order, since_first
from fairopt.io.notes import Notes, counted
from fairopt.io.tables import Column, InputTable, read_table, short
from fairopt.io.text_files import read_text
from fairopt.io.times import are_dates
from fairopt.runtime.arrays import Float, Indices

if TYPE_CHECKING:
    from fairopt.instance import Instance

RESOURCES = ("slot", "input", "output", "tokens")
PREFILL, DECODE = 5_000.0, 50.0  # tokens a second of a slot, where the caller gives none; a note says so
FIRST_BYTES = 4096  # of a file, which tell whether it is a trace


class Format(NamedTuple):
    """The columns of a published trace, and the unit of its times in seconds."""

    title: str
    time: str
    input: str
    output: str
    seconds: float = 1.0


FORMATS = (
    Format("Azure's traces", "TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    Format("BurstGPT", "Timestamp", "Request tokens", "Response tokens"),
    Format("Mooncake's traces", "timestamp", "input_length", "output_length", 1e-3),
)


def is_requests(place: Path, kinds: object = ()) -> bool:
    """Whether a file is a trace of requests, by its header or its first line."""
    if place.suffix.lower() not in (".csv", ".jsonl") or not place.is_file():
        return False
    with place.open("rb") as file:
        first = file.read(FIRST_BYTES).partition(b"\n")[0].decode("utf-8-sig", "replace")
    names = {cell.strip().strip('"') for cell in first.split(",")}
    return any({of.time, of.input, of.output} <= names or _in_json(of, first) for of in FORMATS)


def _in_json(of: Format, line: str) -> bool:
    """Whether a line of JSON has the fields of a format."""
    return line.startswith("{") and all(f'"{name}"' in line for name in (of.time, of.input, of.output))


def read_requests(
    path: Path,
    servers: Instance,
    notes: Notes,
    *,
    tenants: Mapping[str, Any] | None = None,
    tenant_column: str | None = None,
    prefill_rate: float | None = None,
    decode_rate: float | None = None,
) -> JobArguments:
    """A job of one task for each request, see `fairopt.online.read_jobs`."""
    table = _lines_of_json(path) if path.suffix.lower() == ".jsonl" else read_table(path, required=())
    of = next((one for one in FORMATS if {one.time, one.input, one.output} <= table.columns.keys()), None)
    if of is None or not len(table):
        raise InvalidInstance(f"{table.path} has no requests; give a line for each, with {_known()}")
    tokens = {"input": table.numbers(Column(of.input)), "output": table.numbers(Column(of.output))}
    rates = _rates({"prefill_rate": prefill_rate, "decode_rate": decode_rate}, notes)
    users = _tenants(table, tenants, tenant_column, notes)
    arrivals = _times(table, of)
    asked = tokens["input"] + tokens["output"] > 0
    if not asked.all():
        notes.say(f"{counted((~asked).sum(), 'request')} without tokens left out")
    if not asked.any():
        raise InvalidInstance(f"{table.path}: all requests have 0 tokens, so there is nothing to serve")
    ones = np.ones(len(table))
    amounts = {"slot": ones, **tokens, "tokens": tokens["input"] + tokens["output"]}
    known = {name: amounts[name] for name in RESOURCES if name in servers.resources}
    if not known:
        fix = f"give one or more of {', '.join(RESOURCES)}, such as slot=8"
        raise InvalidInstance(f"a request needs none of the resources {', '.join(servers.resources)}; {fix}")
    return JobArguments(
        users,
        in_order(table.path, known, servers, notes),
        durations=tokens["input"] / rates[0] + tokens["output"] / rates[1],
        arrivals=arrivals,
        tasks=ones,
        weights=ones,
        listed=np.zeros(len(table), dtype=int),
        lists=[None],
        time_unit="s",
    ).part(asked)


def _known() -> str:
    """The columns of all formats."""
    return ", or ".join(f"{of.time}, {of.input} and {of.output} ({of.title})" for of in FORMATS)


def _lines_of_json(path: Path) -> InputTable:
    """A file with an object of JSON on each line, as a table of their fields."""
    rows, lines = list[dict[str, Any]](), list[int]()
    for line, text in enumerate(read_text(path, "expected requests").splitlines(), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInstance(f"{path}, line {line}: {error}; give an object of JSON on each line") from None
        if not isinstance(row, dict):
            raise InvalidInstance(f"{path}, line {line}: {short(text)} is no object of JSON; give one on each line")
        rows.append(row)
        lines.append(line)
    names = dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, (list, dict)))
    columns: dict[str, Any] = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        columns[name] = ["" if cell is None else cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
    return InputTable(str(path), columns, len(rows), lines)


def _rates(given: Mapping[str, float | None], notes: Notes) -> tuple[float, float]:
    """Tokens a second of a slot, for input and output."""
    for name, rate in given.items():
        if rate is not None and not 0 < rate < float("inf"):
            raise InvalidInstance(f"{name} is {rate!r}; give tokens a second of one slot, such as {DECODE:g}")
    prefill, decode = (
        usual if rate is None else float(rate) for rate, usual in zip(given.values(), (PREFILL, DECODE), strict=True)
    )
    assumed = "" if None not in given.values() else " (assumed: the trace has no durations)"
    notes.say(f"a slot reads {prefill:,g} input tokens a second and writes {decode:,g} output tokens a second{assumed}")
    return prefill, decode


def _times(table: InputTable, of: Format) -> Float:
    """Arrivals in seconds since the first one."""
    if are_dates(table.cells(of.time)):
        return since_first(table, of.time, "give the time of the request")
    seconds = table.numbers(Column(of.time, fix="give a finite number >= 0, or dates in all cells")) * of.seconds
    return np.asarray(seconds - seconds.min())


def _tenants(table: InputTable, parts: Mapping[str, Any] | None, column: str | None, notes: Notes) -> list[str]:
    """The tenant of each request: a column, or an assignment by parts that is noted."""
    if (parts is None) == (column is None):
        fix = "give tenants (their parts of the requests, such as --tenants a=1 --tenants b=3) or tenant_column"
        what = "names no tenants" if parts is None else "would have two assignments"
        raise InvalidInstance(f"{table.path} {what}; {fix}{'' if parts is None else ', not both'}")
    if column is not None:
        if column not in table.columns:
            raise InvalidInstance(f"{table.path} has no column {column!r}; {nearest(column, table.columns)}")
        return table.labels(column, unique=False)
    given = dict(parts or {})
    try:
        amounts = {str(name): float(part) for name, part in given.items()}
    except (TypeError, ValueError):
        amounts = {}
    if not amounts or not all(0 < part < float("inf") for part in amounts.values()):
        raise InvalidInstance(f"tenants is {given!r}; give each a finite part > 0, such as a=1")
    names, share = list(amounts), np.array([*amounts.values()]) / sum(amounts.values())
    listed = ", ".join(f"{name} {part:.3g}" for name, part in zip(names, share, strict=True))
    notes.say(f"the trace names no tenants: requests are given to them in turn, by parts ({listed})")
    return [names[k] for k in _in_turn(share, len(table))]


def _in_turn(share: Float, n: int) -> Indices:
    """To whom each of n goes: to whoever is farthest behind its part."""
    had, out = np.zeros(len(share)), np.zeros(n, dtype=int)
    for k in range(n):
        # Rounded, so that parts that are equal but for their last digits go in order.
        out[k] = np.argmax(np.round(share * (k + 1) - had, 9))
        had[out[k]] += 1
    return out
