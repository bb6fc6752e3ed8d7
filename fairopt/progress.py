"""Progress callbacks for long computations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "additional_listener", "by_itself", "progress", "tell", "within"]

Listener = Callable[[str, int | None, int | None], object]

_LISTENER: ContextVar[Listener | None] = ContextVar("fairopt.progress", default=None)


@contextmanager
def progress(callback: Listener) -> Iterator[None]:
    """Call a function with the progress of all work in the block.

    Parameters
    ----------
    callback : callable
        Called as ``callback(what, done, total)`` with a text and two whole numbers. ``done`` and ``total`` are None
        where they are not known; ``done`` can be known without ``total``. The text is for people, and may change
        from one release to the next.

    Notes
    -----
    What the callback raises ends the work, and comes out of the call that was at work: a way to stop it. What raises
    ``KeyboardInterrupt`` does as Ctrl-C does: ``compare`` and ``audit`` return what they have. Only a `FairoptError`
    is taken for one of the policy that was at work.

    Blocks may be nested; only the innermost callback is called. The callback is called in the thread that works. As
    every context variable, a listener is known to the thread and the asyncio task that it was set in and to tasks made
    there, not to other threads (run these by ``contextvars.copy_context().run``) nor to other processes, as those of a
    Dask cluster, whose work is told by the process that waits for them.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.progress import progress
    >>> with progress(lambda what, done, total: print(f"{what}: {done} of {total}")):
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
    """Report progress to the callback, if there is one: 0.1 microseconds without, and 0.3 for a text with numbers.

    Parameters
    ----------
    what : str
        In a few words.
    done, total : int, optional
        How much of how much.

    Examples
    --------
    >>> heard = []
    >>> with progress(lambda *said: heard.append(said)):
    ...     tell("levels", 3, 10)
    >>> tell("without a callback")
    >>> heard
    [('levels', 3, 10)]
    """
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Put a name before the text of all progress reported in the block.

    Parameters
    ----------
    name : str
        Of the part of the work that the block is.

    Examples
    --------
    >>> heard = []
    >>> with progress(lambda what, done, total: heard.append(what)), within("DRF"):
    ...     tell("level 2")
    >>> heard
    ['DRF: level 2']
    """
    outer = _LISTENER.get()
    if outer is None:
        yield
        return
    with progress(lambda what, done, total: outer(f"{name}: {what}", done, total)):
        yield


@contextmanager
def additional_listener(callback: Listener) -> Iterator[None]:
    """Call a second function, before the callback there is, with the progress of all work in the block.

    Parameters
    ----------
    callback : callable
        As that of `progress`; what it raises ends the work.

    Examples
    --------
    >>> texts, counts = [], []
    >>> with progress(lambda what, done, total: texts.append(what)):
    ...     with additional_listener(lambda what, done, total: counts.append(done)):
    ...         tell("levels", 3, 10)
    >>> texts, counts
    (['levels'], [3])
    """
    outer = _LISTENER.get()

    def both(what: str, done: int | None, total: int | None) -> None:
        callback(what, done, total)
        if outer is not None:
            outer(what, done, total)

    with progress(both):
        yield


@contextmanager
def by_itself() -> Iterator[Listener]:
    """Silence the progress of many small calls in the block; the function it yields, as `tell`, reports that of all.

    Examples
    --------
    >>> heard = []
    >>> with progress(lambda what, done, total: heard.append(what)):
    ...     with by_itself() as say:
    ...         tell("one of a million calls")
    ...         say("half of a million", 500_000, 1_000_000)
    >>> heard
    ['half of a million']
    """
    outer = _LISTENER.get()
    if outer is None:
        yield tell  # there is no callback for the calls either
        return
    before = _LISTENER.set(None)
    try:
        yield outer
    finally:
        _LISTENER.reset(before)
