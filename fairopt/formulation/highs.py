"""HiGHS without its banner on stdout, and usable in forked processes.

It imports nothing of fairopt, as `solver_process` loads it by its path.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

__all__ = ["silence_banner"]


@cache
def silence_banner() -> None:
    """Let HiGHS write its banner, which it does once a process, where nobody reads it.

    `highspy.Highs` writes it when it is made, before an option can be set; its compiled base class does not.
    """
    import highspy

    compiled: Any = highspy.Highs.__base__
    silent = compiled()
    silent.setOptionValue("log_to_console", False)
    silent.passModel(highspy.HighsModel())


def _forget_threads() -> None:
    """Let HiGHS start threads of its own in a forked process, which waits for ever for those of its parent."""
    if "highspy" in sys.modules:
        sys.modules["highspy"].Highs.resetGlobalScheduler(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
