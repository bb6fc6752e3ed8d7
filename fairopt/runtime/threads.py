"""One BLAS thread while fairopt computes, whatever the environment says.

BLAS gives a product or a factorisation of a hundred rows to threads on all cores, which then wait for each other in
busy loops. On two cores FDS(2) of 200 users on 50 servers took 9 to 60 times as long as on one thread, and beside other
processes up to 140 times. Nothing gained by it: a million users with 16 resources took as long or longer.

Limits of threads are mostly of the process, so that its other threads too have one BLAS thread meanwhile; the number
before returns when the last thread leaves its outermost block. SciPy brings an OpenBLAS of its own, and is imported
late (`fairopt.runtime.lazy`): libraries are looked for again when modules have been imported.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import NamedTuple

__all__ = ["one_thread", "relimit"]


class _Library(NamedTuple):
    """A loaded library of BLAS that has threads; whether the limit is of the thread that sets it, as with OpenMP."""

    get: Callable[[], int | None]
    set: Callable[[int], object]
    by_thread: bool


_lock = RLock()  # a signal's handler may call fairopt while its thread holds it
_inside: dict[int, list[tuple[_Library, int]]] = {}  # by thread that is in a block: its own limits before
_of_process: list[tuple[_Library, int]] = []
_found: tuple[int, list[_Library]] = (0, [])  # the number of modules when libraries were looked for, and the libraries


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread in the block, or in the decorated function; 5 microseconds, nested 0.5."""
    here = get_ident()
    if here in _inside:
        yield
        return
    try:
        with _lock:
            _inside[here] = []
            relimit()
        yield
    finally:  # also after Ctrl-C in the lines above
        with _lock:
            _restore(_inside.pop(here, []))
            if not _inside:
                _restore(_of_process)


def relimit() -> None:
    """Limit libraries that were loaded since the block began; nothing outside blocks."""
    global _found
    with _lock:
        if (own := _inside.get(get_ident())) is None:
            return
        if len(sys.modules) != _found[0]:
            _found = len(sys.modules), _libraries()
        for library in _found[1]:
            if (before := library.get()) not in (1, None):
                library.set(1)
                (own if library.by_thread else _of_process).append((library, before))


def _libraries() -> list[_Library]:
    from threadpoolctl import ThreadpoolController

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # at each look, where two libraries of OpenMP are loaded
        controllers = ThreadpoolController().select(user_api="blas").lib_controllers
    layers = [getattr(one, "threading_layer", "") for one in controllers]
    # `set_num_threads` of OpenBLAS silently ignores threads other than the one that first set a limit, and the last to
    # leave a block may be another; MKL and BLIS have no other function.
    return [
        _Library(one.get_num_threads, getattr(one, "_real_set_num_threads", one.set_num_threads), layer == "openmp")
        for one, layer in zip(controllers, layers, strict=True)
        if layer != "disabled"
    ]


def _restore(limited: list[tuple[_Library, int]]) -> None:
    """Undo limits, except where there is another number by now; a 1 that somebody else set looks like ours."""
    while limited:
        library, before = limited.pop()
        if library.get() == 1:
            library.set(before)


def _forked() -> None:
    """Forget the other threads of the parent, which a forked process does not have."""
    global _lock
    _lock, here = RLock(), get_ident()
    for other in [ident for ident in _inside if ident != here]:
        del _inside[other]
    if not _inside:
        _restore(_of_process)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
