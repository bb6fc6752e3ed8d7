"""The evidence that comes with an answer: what was tried, and what was measured of what came of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BLOCK_TOLERANCE", "GAP_TOLERANCE", "VIOLATION_TOLERANCE", "Certificate", "Try", "within_tolerance"]

GAP_TOLERANCE = 1e-6  # relatively
VIOLATION_TOLERANCE = 1e-9
BLOCK_TOLERANCE = 1e-7  # of the blocks' own conditions, after the repair that makes capacities hold exactly


def within_tolerance(gap: float, violation: float, block_violation: float) -> bool:
    """Whether an answer can be certified: a NaN cannot.

    Parameters
    ----------
    gap, violation, block_violation : float
        As in `Certificate`.

    Returns
    -------
    bool
    """
    return bool(gap <= GAP_TOLERANCE and violation <= VIOLATION_TOLERANCE and block_violation <= BLOCK_TOLERANCE)


@dataclass(frozen=True)
class Try:
    """One attempt of one solver: what it said, which is no evidence, and what the certificate made of it.

    Attributes
    ----------
    solver, status : str
        Who, and its own word for how it went.
    seconds : float
        Building, solving and judging.
    gap, violation : float or None
        What the certificate measured, where there was an answer.
    message : str
        What the solver complained of.
    """

    solver: str
    status: str
    seconds: float
    gap: float | None = None
    violation: float | None = None
    message: str = ""

    def __str__(self) -> str:
        words = [f"{self.solver}: {self.status}"]
        if self.gap is not None:
            words.append(f"gap {self.gap:.1e}")
        if self.violation is not None and self.violation > VIOLATION_TOLERANCE:
            words.append(f"violation {self.violation:.1e}")
        if self.message:
            words.append(self.message)
        return ", ".join(words) + f" ({self.seconds:.2f} s)"


@dataclass(frozen=True)
class Certificate:
    """The evidence that an allocation is feasible and optimal, computed without trusting the solver.

    Attributes
    ----------
    gap : float
        Relative optimality gap: a proven bound on how much better any allocation can be.
    violation : float
        Largest relative excess over a capacity or a task limit, measured on the instance's own data.
    block_violation : float
        Largest relative violation of the policy's own constraints.
    method : str
        The method: ``water-filling``, ``cone``, ``read``, ``empty``, ...
    solver : str or None
        The solver, where one was used.
    seconds : float
        The whole call.
    tried : tuple of Try
        Every attempt, in order.
    gaps : tuple of float
        One gap per tier, or per level of a leximin by programs.
    note : str
        A finding about the answer, where there is one.
    assumed : str
        What the gap rests on beside the data, where something could not be proved; empty in general.
    """

    gap: float
    violation: float
    method: str
    solver: str | None = None
    seconds: float = 0.0
    block_violation: float = 0.0
    tried: tuple[Try, ...] = ()
    gaps: tuple[float, ...] = ()
    note: str = ""
    assumed: str = ""

    @property
    def ok(self) -> bool:
        """Whether gap and violations are within tolerance (1e-6, 1e-9; the policy's own constraints 1e-7)."""
        return within_tolerance(self.gap, self.violation, self.block_violation)

    def __str__(self) -> str:
        by = f"{self.method} ({self.solver})" if self.solver else self.method
        verdict = "certified" if self.ok else "NOT certified"
        if_so = f", assuming that {self.assumed}" if self.assumed else ""
        return f"{verdict}: gap {self.gap:.1e}{if_so}, violation {self.violation:.1e}, by {by} in {self.seconds:.3f} s"
