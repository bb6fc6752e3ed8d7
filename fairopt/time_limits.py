"""Time limits of calls: how late it is, what stops work that does not ask, and what took the time.

A call with a time limit runs `within_limit`. Solvers and searches stop at ``Limit.soft``, which is the limit; proofs
may take until ``Limit.hard``. Then a thread raises `_OutOfTime` in the thread of the call, between two steps of Python,
as Ctrl-C does. What runs long without such steps, a solver, is told when to stop or runs in a process of its own
(`fairopt.formulation.apart`). Without a time limit none of this is there.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, NoReturn, TypeVar

from fairopt import lazy
from fairopt.errors import InvalidBlock, NotCertified

__all__ = ["Clock", "Limit", "begin", "checked", "current", "refuse", "stage", "within_limit"]

BEYOND, GRACE = 0.3, 0.05  # parts of a limit, and seconds, that proofs may take beyond it: of 0.5 and 0.5 promised
AGAIN = 0.1  # seconds until `_OutOfTime` is raised again: foreign code may have swallowed it
FIX = "Fix: give it more time_limit"
SHORTEST = 1e-3  # seconds that a step gets where less is left: a limit is positive
FEW = 0.02  # of the time: stages that took less are not told

Result = TypeVar("Result")
_LIMIT: ContextVar[Limit | None] = ContextVar("fairopt.time_limit", default=None)


class Clock:
    """What is left of a call's ``time_limit``, checked between the steps of the call's own loops.

    A loop stops, and keeps what it has, where the clock is ``late``; a step that takes a limit itself gets ``left``.
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
        """Seconds until the limit, as a ``time_limit`` for a step: positive, and None without a limit."""
        if self.time_limit is None:
            return None
        return max(self.time_limit - self.seconds, SHORTEST)


class _OutOfTime(BaseException):
    """The time of a call is over; never leaves `within_limit`. Not an Exception, as users' blocks may catch these."""


class Limit:
    """The time limit of one call, on the clock of `time.perf_counter`, and what the call has done so far.

    ``soft`` is when to stop searching, ``hard`` when everything is stopped. ``program`` is what is being solved,
    ``found`` its best answer so far, and ``proposed`` what is being judged; methods set them.
    """

    def __init__(self, seconds: float, begun: float, outer: Limit | None = None) -> None:
        self.seconds, self.begun, self.outer = seconds, begun, outer
        self.soft = begun + seconds
        self.hard = self.soft + BEYOND * seconds + GRACE
        if outer is not None:
            self.soft, self.hard = min(self.soft, outer.soft), min(self.hard, outer.hard)
        self.program: Any = None
        self.found: Any = None
        self.proposed: Any = None
        self.stopped_in = ""  # the stage that did not end
        self._stages = ["the rest"]
        self._taken: dict[str, float] = {}
        self._since = begun
        self._inner = 0  # limits within this one, which end before it
        self._frame: FrameType | None = None
        self._thread = threading.get_ident()
        self._lock, self._ended = threading.Lock(), threading.Event()

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self.soft

    def switch(self) -> None:
        """Count the time since the last switch for the stage at work."""
        now, stage = time.perf_counter(), self._stages[-1]
        self._taken[stage] = self._taken.get(stage, 0.0) + now - self._since
        self._since = now

    def account(self) -> str:
        """What the time went to: the longest first."""
        self.switch()
        total = sum(self._taken.values())
        order = sorted(self._taken.items(), key=lambda item: -item[1])
        told = [(name, taken) for name, taken in order if taken >= FEW * total or name == self.stopped_in][:5]
        parts = [
            f"{taken:.2g} s by {name}" + (", which was stopped" if name == self.stopped_in else "")
            for name, taken in told
        ]
        return f"of {total:.2g} s (time limit {self.seconds:g} s) were taken {', '.join(parts)}"

    def run(self, work: Callable[[], Result]) -> Result:
        """What ``work`` returns; `_OutOfTime` if it takes too long."""
        self._frame = sys._getframe()
        threading.Thread(target=self._watch, name="fairopt time limit", daemon=True).start()
        try:
            return work()
        finally:
            self.end()

    def stop(self) -> NoReturn:
        """Raise `_OutOfTime` here."""
        self.stopped_in = self.stopped_in or self._stages[-1]
        raise _OutOfTime

    def end(self) -> None:
        """Let nothing be raised from now on."""
        while not self._ended.is_set():
            try:
                with self._lock:
                    self._ended.set()
            except _OutOfTime:
                continue
        if self.stopped_in:  # one more may be on its way: this one takes its place
            came: BaseException | None = None
            with suppress(_OutOfTime):
                _raise_in(self._thread, _OutOfTime)
                while True:
                    try:
                        while True:
                            pass
                    except _OutOfTime:
                        raise
                    except BaseException as error:  # Ctrl-C, which waits for it
                        came = error
            if came is not None:
                raise came

    def _watch(self) -> None:
        """Raise `_OutOfTime` where the call works, from the hard end on until it has ended."""
        wait = max(self.hard - time.perf_counter(), 0.0)
        while not self._ended.wait(wait):
            with lazy.IMPORTING, self._lock:
                if self._ended.is_set() or not self._at_work():
                    return
                if not self._inner:
                    self.stopped_in = self.stopped_in or self._stages[-1]
                    _raise_in(self._thread, _OutOfTime)
            wait = AGAIN

    def _at_work(self) -> bool:
        """Whether the thread of the call is within `run`."""
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is not None


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """Raise an exception in a thread at its next step of Python.

    CPython can take back one that was not raised yet, but then checks for it at every step, with a profiler for ever.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def begin(seconds: float | None, needs_cvxpy: bool = True) -> float:
    """When a call begins: with a time limit once CVXPY is there, if it is needed, so that its import is not counted."""
    if seconds is not None and needs_cvxpy:
        lazy.load()
    return time.perf_counter()


def current() -> Limit | None:
    """The limit of the call at work, the innermost one."""
    return _LIMIT.get()


def checked(seconds: Any) -> float | None:
    """A time limit as users give it."""
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise InvalidBlock(f"time_limit is {seconds!r}; give seconds > 0, or None")
    return float(seconds)


def refuse(limit: Limit, best: Any = None) -> NoReturn:
    """Raise `NotCertified`, with the best answer so far if there is one."""
    raise NotCertified(f"no answer was certified when the time limit was over: {limit.account()}. {FIX}", best=best)


def within_limit(
    seconds: float | None, begun: float, work: Callable[[], Result], late: Callable[[Limit], Result] = refuse
) -> Result:
    """What ``work`` returns, or where the time is over ``late``, which must be quick; both may raise."""
    outer = _LIMIT.get()
    if seconds is None or seconds == float("inf"):
        return work()
    limit = Limit(seconds, begun, outer)
    before = _LIMIT.set(limit)
    if outer is not None:
        outer._inner += 1
    try:
        try:
            return limit.run(work)
        except _OutOfTime:
            limit.end()
        return late(limit)
    finally:
        if outer is not None:
            outer._inner -= 1
        _LIMIT.reset(before)


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Count the time of a block for ``what``, except what stages within it take."""
    limit = _LIMIT.get()
    if limit is None:
        yield
        return
    limit.switch()
    limit._stages.append(what)
    try:
        yield
    finally:
        limit.switch()
        limit._stages.pop()
