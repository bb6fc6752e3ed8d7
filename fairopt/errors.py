"""Every error fairopt raises, in one tree, split by what the caller should do about it.

* fix the input: `InvalidInstance`, `InvalidBlock`
* accept the answer "there is none": `OutOfDomain`, `Infeasible`, `Unbounded`, `NotConcave`
* try another way: `NotCertified` (another solver, more time), `SolverUnavailable`, `MissingExtra` (install it)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class FairoptError(Exception):
    """Base of every error that fairopt raises on purpose."""


class InvalidInput(FairoptError, ValueError):
    """What was given cannot be right; the message names the place, the value and the fix."""


class InvalidInstance(InvalidInput):
    """Demands, capacities, labels or a file of them that are no instance."""


class InvalidBlock(InvalidInput):
    """A block or policy with impossible parameters, or an unknown name."""


class NoAnswer(FairoptError):
    """The question is well formed, and the answer is that there is no such allocation."""


class OutOfDomain(NoAnswer):
    """The notion is not defined for this instance, as 2-DF for a user who needs one resource only."""


class Infeasible(NoAnswer):
    """No allocation satisfies all constraints.

    Attributes
    ----------
    conflict : tuple of str
        An irreducible set of constraints that cannot hold together: drop any one and the rest can.
    """

    def __init__(self, message: str, conflict: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.conflict = conflict


class Unbounded(NoAnswer):
    """The objective grows without end in variables of its own: tasks are bounded, and a solver's word is not enough."""


class NotConcave(NoAnswer):
    """The objective is not concave (or a constraint not convex), so no method can promise the optimum."""


class TryAnother(FairoptError):
    """The answer exists, but not by this way."""


class NotCertified(TryAnother):
    """No answer could be proved right within the tolerance.

    Attributes
    ----------
    best : Allocation or None
        The best allocation found, with its certificate, for inspection only.
    tried : tuple of Try
        What was tried, in order.
    """

    def __init__(self, message: str, best: Any = None, tried: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.best = best
        self.tried = tried


class SolverUnavailable(TryAnother):
    """The solver asked for is unknown, not installed, or cannot take this kind of problem."""


class MissingExtra(TryAnother, ImportError):
    """An optional part is not installed; the message holds the exact ``pip install`` line."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'fairopt[{extra}]'")
        self.package = package
        self.extra = extra
        self.purpose = purpose

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra, self.purpose)


LONGEST_NAME = 120  # letters of a name that a message lists


def nearest(name: object, known: Iterable[object]) -> str:
    """End of an error message: the known names nearest to ``name``, or all of them.

    Parameters
    ----------
    name : object
        What was asked for.
    known : iterable
        What there is.

    Returns
    -------
    str
        ``"did you mean 'drf'?"`` or ``"known: ..."``.

    Examples
    --------
    >>> nearest("nahs", ["drf", "2df", "nash"])
    "did you mean 'nash'?"
    """
    names = [str(k) for k in known]
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(_short(c)) for c in close) + "?"
    return "known: " + ", ".join(map(_short, names[:30])) + (", ..." if len(names) > 30 else "")


def _short(name: str) -> str:
    """A name as files may hold it, which can be as long as they like."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
