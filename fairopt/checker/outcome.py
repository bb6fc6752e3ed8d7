"""Results of the checker, its errors, and its time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field


class CannotCheck(Exception):
    """The file needs a proof that this module does not know."""


class Fault(Exception):
    """The file is wrong."""


class Late(Exception):
    """The time limit has passed."""


class Clock:
    """The time limit of a call, checked between steps; ``done`` lists what is proved so far."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
            raise ValueError(f"time_limit is {seconds!r}, and must be seconds > 0, or None")
        self.seconds = math.inf if seconds is None else float(seconds)
        self.end, self.done = math.inf if seconds is None else time.perf_counter() + seconds, list[str]()

    def check(self) -> None:
        """Raise `Late` after the time limit."""
        if time.perf_counter() > self.end:
            raise Late


CLAIMS, UNREAD = ("objective", "prices"), {"certificate": "`Allocation.load` recomputes it"}


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    Attributes
    ----------
    ok : bool
        Whether the answer is proved feasible and within ``tol`` of the optimum. Whole tasks must fit and have a proved
        loss below 100%; whether other whole tasks are better is not checked. Of a program of `certify`: whether what
        its file claims is proved, and a gap and a violation of at most ``tol``, or a distance of at most ``atol``.
    gap : float
        Proved relative distance from the optimum, rounded up; the largest of all tiers, infinite if nothing is proved.
    statement : str
        A sentence that says what is proved, or why nothing is.
    faults : tuple of str
        Errors in the file, with their places; empty if the answer is proved.
    policy : str
        The policy's full text, or that of the problem; ``statement`` shortens it.
    size : dict
        The numbers of users, individual servers and resources; of a program those of columns, rows and entries.
    digest : str
        The SHA-256 of the instance (see `digest`), or of the problem's text.
    not_proved : dict
        Keys of the file that are not part of the proof, with the reason.

    Examples
    --------
    >>> import pathlib, tempfile, fairopt as fo
    >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    >>> print(fo.verify(a.save(pathlib.Path(tempfile.mkdtemp()) / "drf.json")))
    proved: gap <= 2.5e-60 of Leximin(), for 2 users, 1 server, 3 resources (SHA-256 ...)
    """

    ok: bool
    gap: float
    statement: str
    faults: tuple[str, ...] = ()
    policy: str = ""
    size: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    not_proved: Mapping[str, str] = field(default_factory=lambda: UNREAD | dict.fromkeys(CLAIMS, "nothing is proved"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "statement", visible(self.statement))
        object.__setattr__(self, "faults", tuple(map(visible, self.faults)))

    def __str__(self) -> str:
        return "\n".join([self.statement, *(f"  {fault}" for fault in self.faults)])


def visible(text: str) -> str:
    """A text on one line, with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def short(text: str, most: int = 200) -> str:
    """A text without its middle if it is long."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def rounded_up(x: float) -> str:
    """Two digits, rounded up."""
    text = f"{x:.1e}"
    return text if float(text) >= x else f"{x * 1.1:.1e}"
