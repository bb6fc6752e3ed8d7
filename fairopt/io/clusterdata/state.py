"""From the events of a trace, in any order, to the state at a time: the last event of each thing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.io.clusterdata.rows import ABSENT, AFTER, TraceRows
from fairopt.io.notes import Notes

__all__ = ["TraceState", "state_at"]

_LONGEST_NAME = 64  # characters kept of a text; the trace's hashes have 44
_WAITING = 1 << 18  # rows that wait to be sorted in; sorting more at once is no faster


class TraceState:
    """What things were at a time: arrays by column, a row for each thing."""

    def __init__(self, rows: TraceRows, key: tuple[str, ...], incomplete: int, times: tuple[int, int]) -> None:
        self.rows, self.key, self.incomplete, self.times = rows, key, incomplete, times

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.rows[column]

    def __len__(self) -> int:
        return len(self.rows[self.key[0]]) if self.rows else 0

    def only(self, chosen: NDArray[np.bool_]) -> TraceState:
        """Some of the things."""
        return TraceState(
            {name: values[chosen] for name, values in self.rows.items()}, self.key, self.incomplete, self.times
        )

    def with_column(self, name: str, values: NDArray[Any]) -> TraceState:
        """The same things with other values in a column."""
        return TraceState({**self.rows, name: values}, self.key, self.incomplete, self.times)

    def name(self, row: int) -> str:
        """The key of a thing, as ``374/0``."""
        return "/".join(str(self.rows[column][row]) for column in self.key)

    def note(self, chosen: NDArray[np.bool_], sentence: str, notes: Notes, **given: str) -> None:
        """Say how many things are chosen, with an example, if any."""
        number = int(np.count_nonzero(chosen))
        if number:
            notes.add(sentence, self.name(int(np.argmax(chosen))), number=number, **given)

    def span(self, at: int | None) -> str:
        """Which times there are, for messages."""
        first, last = self.times
        there = f"its times are from {first} to {last}" if first <= last else "it has no complete row"
        return f"up to the time {at} ({there})" if at is not None else f"({there})"


def state_at(
    batches: Iterable[TraceRows], key: tuple[str, ...], rank: NDArray[np.int64], amounts: Mapping[str, str],
    at: int | None,
) -> TraceState:  # fmt: skip
    """The last event of each thing up to a time (None: all but what happened after the trace), of rows in any order.

    ``key`` are the columns that say what an event is about. ``rank`` is by type of event: which of two events of the
    same time came last (the larger); -1: such events do not count. ``amounts`` are columns by the names that they get:
    each is that of the last event that has it, NaN for what never had any.
    """
    events = _Last(key, tuple(amounts))
    incomplete, times = 0, (AFTER, -1)
    last = AFTER - 1 if at is None else at
    for rows in batches:
        rows = {name: _sortable(values) for name, values in rows.items()}
        rows["rank"] = np.where(rows["type"] == ABSENT, -1, rank[np.maximum(rows["type"], 0)])
        complete = (rows["rank"] >= 0) & (rows["time"] >= 0)
        for name in key:
            complete &= rows[name] != ABSENT
        incomplete += int(np.count_nonzero(~complete))
        seen = rows["time"][complete & (rows["time"] < AFTER)]
        if len(seen):
            times = (min(times[0], int(seen.min())), max(times[1], int(seen.max())))
        rows.update({name: rows.pop(column) for name, column in amounts.items()})
        events.add(_chosen(rows, complete & (rows["time"] <= last)))
    return TraceState(events.result(), key, incomplete, times)


def _sortable(values: NDArray[np.generic]) -> NDArray[np.generic]:
    if values.dtype != object:
        return values
    return np.array([(text or "")[:_LONGEST_NAME] for text in values.tolist()], dtype=f"U{_LONGEST_NAME}")


def _chosen(rows: TraceRows, which: NDArray[Any]) -> TraceRows:
    return {name: values[which] for name, values in rows.items()}


class _Last:
    """The last row of each thing, and its last with all amounts, of batches that come one by one."""

    def __init__(self, key: tuple[str, ...], amounts: tuple[str, ...]) -> None:
        self.key, self.amounts = key, amounts
        self.parts: list[TraceRows] = []
        self.waiting = 0

    def add(self, rows: TraceRows) -> None:
        """More rows. Now and then all but the last of each thing go, so that a row costs constant time and memory."""
        self.parts.append(rows)
        self.waiting += len(rows["time"])
        if self.waiting > max(_WAITING, len(self.parts[0]["time"])):
            rows, last, given = self._settled()
            kept = np.unique(np.concatenate([last, *given.values()]))
            self.parts, self.waiting = [_chosen(rows, kept[kept >= 0])], 0

    def result(self) -> TraceRows:
        """The last rows, sorted by key, with the last amounts; empty if there was no batch at all."""
        if not self.parts:
            return {}
        rows, last, given = self._settled()
        out = _chosen(rows, last)
        for name, where in given.items():
            out[name] = np.append(rows[name], math.nan)[where]
        return out

    def _settled(self) -> tuple[TraceRows, NDArray[np.int64], dict[str, NDArray[np.int64]]]:
        """All rows by key and time, where those of each thing end, and where its last amounts are (-1: nowhere)."""
        rows = {name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}
        order = self._order(rows)
        rows = _chosen(rows, order)
        ends = np.flatnonzero(_differs(rows, self.key))
        starts = np.append(0, ends + 1)[: len(ends)]
        given = {}
        for name in self.amounts:
            last = np.maximum.accumulate(np.where(np.isnan(rows[name]), -1, np.arange(len(order))))[ends]
            given[name] = np.where(last >= starts, last, -1)
        return rows, ends, given

    def _order(self, rows: TraceRows) -> NDArray[np.int64]:
        """Rows by key and time. What else differs decides last, so that the order in which rows come never does."""
        names = (*self.key, "time", "rank")
        order = np.lexsort([rows[name] for name in reversed(names)])
        if not _differs({name: rows[name][order] for name in names}, names).all():
            others = [name for name in rows if name not in names]
            order = np.lexsort([rows[name] for name in (*others, *reversed(names))])
        return order


def _differs(rows: TraceRows, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Whether each row differs in one of some columns from the next; the last one does."""
    out = np.zeros(len(rows[names[0]]), dtype=bool)
    out[-1:] = True
    for name in names:
        out[:-1] |= rows[name][1:] != rows[name][:-1]
    return out
