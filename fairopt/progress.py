"""How far long work has come: said by whoever does it, heard by whoever listens, and nearly free when nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "additional_listener", "by_itself", "progress", "tell", "within"]

Listener = Callable[[str, int | None, int | None], object]

_LISTENER: ContextVar[Listener | None] = ContextVar("fairopt.progress", default=None)


@contextmanager
def progress(callback: Listener) -> Iterator[None]:
    """Have a function called with what is being done, while the block runs.

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

    Blocks may be nested; the innermost hears. The callback is called in the thread that works. As every context
    variable, a listener is known to the thread and the asyncio task that it was set in and to tasks made there, not to
    other threads (run these by ``contextvars.copy_context().run``) nor to other processes, as those of a Dask cluster,
    whose work is told by the process that waits for them.

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
    """Say what is being done. Nothing happens when nobody listens: 0.1 microseconds, and 0.3 for a text with numbers.

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
    >>> tell("nobody listens")
    >>> heard
    [('levels', 3, 10)]
    """
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def within(name: str) -> Iterator[None]:
    """What is told in the block is told of something: its text begins with the name.

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
    """What is told in the block is heard by a function first, then by the listener there is, if any.

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
    """Work made of very many small calls, that tells of the whole: what the calls say is not heard.

    Yields
    ------
    callable
        To be called as `tell`; only this is heard.

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
        yield tell  # nobody listens, so neither do these calls reach anybody
        return
    before = _LISTENER.set(None)
    try:
        yield outer
    finally:
        _LISTENER.reset(before)
