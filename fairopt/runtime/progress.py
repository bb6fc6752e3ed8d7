"""Progress callbacks for long computations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from fairopt.runtime.clock import check, current

Listener = Callable[[str, int | None, int | None], object]

EVERY = 1 << 12  # steps of a fast loop between two reports
Thing = TypeVar("Thing")
_LISTENER: ContextVar[Listener | None] = ContextVar("fairopt.progress", default=None)


@contextmanager
def progress(callback: Listener) -> Iterator[None]:
    """Call a function with the progress of all work in the block.

    Parameters
    ----------
    callback : callable
        Called as ``callback(what, done, total)`` with a text and two whole numbers; ``done`` and ``total`` are None
        where they are not known. The text is for people, and may change from one release to the next.

    Notes
    -----
    An exception of the callback ends the current call, which raises it. ``KeyboardInterrupt`` acts as Ctrl-C: `compare`
    and `audit` return what they have. A `FairoptError` is treated as an error of the current policy.

    Blocks may be nested; only the innermost callback is called, in the working thread. The callback is a context
    variable: other threads need ``contextvars.copy_context().run``, and other processes do not see it (progress of a
    Dask cluster is reported by the process that waits for it).

    Examples
    --------
    >>> import fairopt as fo
    >>> with fo.progress(lambda what, done, total: print(f"{what}: {done} of {total}")):
    ...     result = fo.compare(["drf", "tsf"], fo.Instance([[2, 3], [2, 1]], [6, 4]))
    DRF: 0 of 2
    TSF: 1 of 2
    """
    before = _LISTENER.set(callback)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def tell(what: str, done: int | None = None, total: int | None = None) -> None:
    """Check the time limit, then report progress to the callback, if any; 0.2 microseconds without."""
    check(what, done, total)
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)


def observed() -> bool:
    """Whether there is a callback or a time limit."""
    return _LISTENER.get() is not None or current() is not None


def steps(things: Iterable[Thing], what: str, total: int | None = None) -> Iterator[Thing]:
    """The things, with progress reported every `EVERY` of them."""
    for k, thing in enumerate(things):
        if not k % EVERY:
            tell(what, k, total)
        yield thing


@contextmanager
def within(name: str) -> Iterator[None]:
    """Put a name before the text of all progress reported in the block, as in ``DRF: level 2``."""
    outer = _LISTENER.get()
    if outer is None:
        yield
        return
    with progress(lambda what, done, total: outer(f"{name}: {what}", done, total)):
        yield


@contextmanager
def by_itself() -> Iterator[Listener]:
    """Silence the progress of calls in the block; the yielded function, like `tell`, reports that of the whole."""
    outer = _LISTENER.get()
    if outer is None:
        yield tell
        return
    before = _LISTENER.set(None)
    try:
        yield outer
    finally:
        _LISTENER.reset(before)
