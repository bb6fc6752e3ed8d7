"""A process that runs functions one after the other, and is killed where one takes too long."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

_SPAWN = multiprocessing.get_context("spawn")
_idle: list[tuple[Any, Any]] = []  # a process and the connection to it


def within(seconds: float, function: Callable[..., Any], **arguments: Any) -> Any:
    """The result of a function of a module.

    Its own exceptions are raised, TimeoutError when the seconds are over, and RuntimeError if the process ends by
    itself.
    """
    process, connection = _idle.pop() if _idle else _started()
    try:
        connection.send((function, arguments))
        if not connection.poll(seconds):
            raise TimeoutError(f"time limit of {seconds:g} s")
        done, found = connection.recv()
    except BaseException as error:
        process.kill()
        process.join()
        if isinstance(error, (EOFError, OSError)) and not isinstance(error, TimeoutError):
            raise RuntimeError(f"the process of the solver ended with exit code {process.exitcode}") from error
        raise
    _idle.append((process, connection))
    if not done:
        raise found
    return found


def _started() -> tuple[Any, Any]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True)  # ends with this process
    process.start()
    theirs.close()
    return process, ours


def _serve(connection: Any) -> None:
    """Answer requests until there are no more; nothing is printed, and Ctrl-C is for the parent."""
    if hasattr(os, "setsid"):
        os.setsid()
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, function(**arguments))
        except Exception as error:
            answer = (False, error)
        connection.send(answer)
