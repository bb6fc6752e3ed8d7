"""Time limits: the clock of a call, and the checks of its loops.

A loop of the call stops, and keeps its results, when the `Clock` is ``late``; a solver gets the time that is ``left``,
or runs in a subprocess (`fairopt.runtime.subprocesses`). The proof may take until ``Clock.hard``, after which `check`
raises `Late`. Each report of progress calls `check`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

from fairopt.errors import InvalidBlock, NotCertified
from fairopt.runtime import lazy
from fairopt.runtime.threads import one_thread

FIX = "Fix: give it more time_limit"
SHORTEST = 1e-3  # least seconds of a step's limit, which must be positive

Result = TypeVar("Result")
_CLOCK: ContextVar[Clock | None] = ContextVar("fairopt.clock", default=None)


class Late(BaseException):
    """The time of a call is over. Not an Exception, which users' blocks might catch; it never leaves the call."""


class Clock:
    """The ``time_limit`` of one call, which begins now, and what the call has so far.

    Times are those of `time.perf_counter`. ``end`` is the limit; without ``grace``, ``hard`` is the same. Neither is
    later than that of the enclosing call. Methods set the current ``program``, its best answer so far, ``found``, and
    the proposal that the gate judges, ``proposed``; `check` sets ``at``, the current step.
    """

    program: Any = None
    found: Any = None
    proposed: Any = None
    at = "the first step"

    def __init__(self, time_limit: Any, grace: bool = True) -> None:
        self.time_limit = checked(time_limit)
        self.begun = time.perf_counter()
        seconds, outer = self.time_limit, _CLOCK.get()
        self.end = self.hard = float("inf")
        if seconds is not None:
            self.end = self.begun + seconds
            self.hard = self.end + (min(0.05 + 0.3 * seconds, 0.5) if grace else 0.0)  # calls end at most 1 s late
            if outer is not None:
                self.end, self.hard = min(self.end, outer.end), min(self.hard, outer.hard)

    def __str__(self) -> str:
        return f"the time limit of {self.time_limit or 0.0:g} s, which ended at: {self.at}"

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return time.perf_counter() - self.begun

    @property
    def late(self) -> bool:
        """Whether the time is up; never without a limit."""
        return time.perf_counter() >= self.end

    @property
    def left(self) -> float | None:
        """The ``time_limit`` of a step: seconds until the limit, or None without a limit."""
        return None if self.time_limit is None else max(self.end - time.perf_counter(), SHORTEST)

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """A block in which `check` raises `Late` when the time is over; nothing changes without a limit."""
        if self.end == float("inf"):
            yield
            return
        before = _CLOCK.set(self)
        try:
            yield
        finally:
            _CLOCK.reset(before)

    def run(self, work: Callable[[], Result], late: Callable[[], Result] | None = None) -> Result:
        """The result of ``work``, on one BLAS thread, or, if the time is over, of ``late``, which must be quick.

        By default that is `refuse`.
        """
        with one_thread(), self.enforced():
            try:
                return work()
            except Late:
                if self.end == float("inf"):  # of the enclosing call
                    raise
        return self.refuse() if late is None else late()

    def refuse(self, best: Any = None) -> NoReturn:
        """Raise `NotCertified` with the best answer so far, if any."""
        raise NotCertified(f"no answer was certified within {self}. {FIX}", best=best)


def begin(time_limit: Any, needs_cvxpy: bool = True) -> Clock:
    """The clock of a call: with a limit, it begins after the import of CVXPY if that is needed."""
    if time_limit is not None and needs_cvxpy:
        lazy.load()
    return Clock(time_limit)


def current() -> Clock | None:
    """The clock of the innermost call with a time limit."""
    return _CLOCK.get()


def check(what: str = "", done: int | None = None, total: int | None = None, needs: float = 0.0) -> None:
    """Raise `Late` if the time of the current call is over, or if its next step ``needs`` more seconds than are left.

    ``what`` names this step.
    """
    clock = _CLOCK.get()
    if clock is not None:
        if what:
            clock.at = what if done is None else f"{what}, {done:,}" + ("" if total is None else f" of {total:,}")
        if time.perf_counter() + needs >= clock.hard:
            raise Late


def checked(seconds: Any) -> float | None:
    """A time limit as users give it."""
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise InvalidBlock(f"time_limit is {seconds!r}; give seconds > 0, or None")
    return float(seconds)
