"""HiGHS without its banner on stdout, and usable in forked processes.

It imports nothing of fairopt, since `solver_process` loads it by path.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

__all__ = ["silence_banner"]


@cache
def silence_banner() -> None:
    """Make HiGHS print its banner, once per process, with output switched off.

    `highspy.Highs` prints it when created, before options can be set; its compiled base class does not.
    """
    import highspy

    compiled: Any = highspy.Highs.__base__
    silent = compiled()
    silent.setOptionValue("log_to_console", False)
    silent.passModel(highspy.HighsModel())


def _forget_threads() -> None:
    """Let HiGHS start new threads in a forked process; otherwise it waits for those of its parent."""
    if "highspy" in sys.modules:
        sys.modules["highspy"].Highs.resetGlobalScheduler(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
