"""Time limits: the clock of a call's own loops, and the limit of the current call.

A call with a time limit runs in `within_limit`. Its searches and solvers stop at ``Limit.soft``, the limit itself; the
proof may take until ``Limit.hard``, after which `check` raises `Late`. Each report of progress calls `check`. Solvers
get their own limit or run in a subprocess (`fairopt.runtime.subprocesses`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

from fairopt.errors import InvalidBlock, NotCertified
from fairopt.runtime import lazy

__all__ = ["Clock", "Late", "Limit", "begin", "check", "checked", "current", "limited", "refuse", "within_limit"]

FIX = "Fix: give it more time_limit"
SHORTEST = 1e-3  # least seconds of a step's limit, which must be positive

Result = TypeVar("Result")
_LIMIT: ContextVar[Limit | None] = ContextVar("fairopt.time_limit", default=None)


class Clock:
    """The remaining ``time_limit`` of a call, checked between the steps of its own loops.

    A loop stops, and keeps its results, when the clock is ``late``; a step that takes a limit gets ``left``.
    """

    def __init__(self, time_limit: Any) -> None:
        self.time_limit = checked(time_limit)
        self._begun = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return time.perf_counter() - self._begun

    @property
    def late(self) -> bool:
        """Whether the time is up; never without a limit."""
        return self.time_limit is not None and self.seconds >= self.time_limit

    @property
    def left(self) -> float | None:
        """The ``time_limit`` of a step: seconds until the limit, or None without a limit."""
        if self.time_limit is None:
            return None
        return max(self.time_limit - self.seconds, SHORTEST)

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """A block that has this limit; nothing changes without one."""
        if self.time_limit is None:
            yield
            return
        with limited(self.time_limit, self._begun):
            yield


class Late(BaseException):
    """The time of a call is over. Not an Exception, which users' blocks might catch; it never leaves the call."""


class Limit:
    """The time limit of one call, on the clock of `time.perf_counter`, and its results so far.

    Methods set the current ``program``, its best answer so far, ``found``, and the proposal that the gate judges,
    ``proposed``.
    """

    def __init__(self, seconds: float, begun: float, outer: Limit | None = None, grace: bool = True) -> None:
        self.seconds = seconds
        self.soft = begun + seconds
        self.hard = self.soft + (min(0.05 + 0.3 * seconds, 0.5) if grace else 0.0)  # calls end at most 1 s late
        if outer is not None:
            self.soft, self.hard = min(self.soft, outer.soft), min(self.hard, outer.hard)
        self.program: Any = None
        self.found: Any = None
        self.proposed: Any = None
        self.at = "the first step"

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self.soft

    def __str__(self) -> str:
        return f"the time limit of {self.seconds:g} s, which ended at: {self.at}"

    def stop(self) -> NoReturn:
        """End the call."""
        raise Late


def begin(seconds: float | None, needs_cvxpy: bool = True) -> float:
    """The time at which a call begins: with a limit, after the import of CVXPY if that is needed."""
    if seconds is not None and needs_cvxpy:
        lazy.load()
    return time.perf_counter()


def current() -> Limit | None:
    """The limit of the innermost call."""
    return _LIMIT.get()


def check(what: str = "", done: int | None = None, total: int | None = None) -> None:
    """Raise `Late` if the time of the current call is over; ``what`` names its next step."""
    limit = _LIMIT.get()
    if limit is not None:
        if what:
            limit.at = what if done is None else f"{what}, {done:,}" + ("" if total is None else f" of {total:,}")
        if time.perf_counter() >= limit.hard:
            limit.stop()


def checked(seconds: Any) -> float | None:
    """A time limit as users give it."""
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise InvalidBlock(f"time_limit is {seconds!r}; give seconds > 0, or None")
    return float(seconds)


def refuse(limit: Limit, best: Any = None) -> NoReturn:
    """Raise `NotCertified` with the best answer so far, if any."""
    raise NotCertified(f"no answer was certified within {limit}. {FIX}", best=best)


@contextmanager
def limited(seconds: float, begun: float, grace: bool = True) -> Iterator[Limit]:
    """A block in which `check` raises `Late` when the time is over; without ``grace`` exactly at the limit."""
    limit = Limit(seconds, begun, _LIMIT.get(), grace)
    before = _LIMIT.set(limit)
    try:
        yield limit
    finally:
        _LIMIT.reset(before)


def within_limit(
    seconds: float | None, begun: float, work: Callable[[], Result], late: Callable[[Limit], Result] = refuse
) -> Result:
    """The result of ``work`` or, if the time is over, of ``late``, which must be quick."""
    if seconds is None or seconds == float("inf"):
        return work()
    with limited(seconds, begun) as limit:
        try:
            return work()
        except Late:
            pass
    return late(limit)
