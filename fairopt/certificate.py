"""The certificate of an answer: its gap and violations, and the attempts of solvers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairopt.errors import NotCertified
from fairopt.io.saving import write_whole
from fairopt.runtime.tolerances import BLOCK_TOLERANCE, GAP_TOLERANCE, VIOLATION_TOLERANCE

__all__ = ["Certificate", "ProblemCertificate", "Try", "within_tolerance"]

SMALL = 1e-2  # a gap above this may be that of an optimum near 0, or of assumed ranges
_OF_RELAXATION = "of the relaxation, in which integer variables may have any value"
STRICT = {"extra": "forbid", "strict": True}  # for reading files


def within_tolerance(gap: float, violation: float, block_violation: float) -> bool:
    """Whether an answer with these numbers of a `Certificate` is certified; False for NaN."""
    return bool(gap <= GAP_TOLERANCE and violation <= VIOLATION_TOLERANCE and block_violation <= BLOCK_TOLERANCE)


@dataclass(frozen=True)
class Try:
    """One attempt of one solver: its status, which is not evidence, and the gap of its answer.

    Attributes
    ----------
    solver, status : str
        The solver, and the status that it reports.
    seconds : float
        Time to build and solve the problem and certify the answer.
    gap, violation : float or None
        As in `Certificate`, if there was an answer.
    message : str
        The solver's error, if any.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> attempt, = fo.MostTasks().allocate(cluster, solver="HIGHS").certificate.tried
    >>> attempt.solver, attempt.status, attempt.gap < 1e-6
    ('HIGHS', 'optimal', True)
    """

    solver: str
    status: str
    seconds: float
    gap: float | None = None
    violation: float | None = None
    message: str = ""

    __pydantic_config__ = STRICT

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
    """The proof that an allocation is feasible and optimal, computed without trusting the solver.

    Attributes
    ----------
    gap : float
        Relative optimality gap: a proven bound on how much better any allocation can be. For whole tasks, a bound on
        the fraction of the divisible optimum that they lose.
    violation : float
        Largest relative excess over a capacity or a task limit of the original instance.
    block_violation : float
        Largest relative violation of the policy's own constraints.
    method : str
        The method: ``water-filling``, ``cone``, ``read``, ``empty``, ...
    solver : str or None
        The solver, if one was used.
    seconds : float
        Time of the whole call.
    tried : tuple of Try
        Every attempt, in order.
    gaps : tuple of float
        One gap per tier, or per level of a leximin solved by programs; for a leximin in whole tasks one per user, from
        the smallest share per weight up.
    note : str
        A remark on the answer.
    assumed : str
        An unproved assumption of the gap; usually empty.
    whole : bool
        Whether tasks are whole and placed on individual servers (``integral``).

    Examples
    --------
    >>> import fairopt as fo
    >>> proof = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).certificate
    >>> proof.ok, proof.method, proof.gap < 1e-12
    (True, 'water-filling', True)
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
    whole: bool = False

    __pydantic_config__ = STRICT

    @property
    def ok(self) -> bool:
        """Whether gap and violations are within tolerance (1e-6 and 1e-9; the policy's constraints 1e-7).

        The gap of whole tasks is not restricted, since they may not reach the divisible optimum.
        """
        return within_tolerance(0.0 if self.whole else self.gap, self.violation, self.block_violation)

    @property
    def _after(self) -> str:
        """Which solvers had no answer that could be certified, if only SCS, a first-order method, was left."""
        others = dict.fromkeys(attempt.solver for attempt in self.tried if attempt.solver != self.solver)
        return f", a first-order method, after {' and '.join(others)}" if self.solver == "SCS" and others else ""

    def __str__(self) -> str:
        by = f"{self.method} ({self.solver}{self._after})" if self.solver else self.method
        verdict = ("certified" if self.ok else "NOT certified") + " whole" * self.whole
        short = self.whole and self.gap > GAP_TOLERANCE
        gap = f"loses at most {100 * self.gap:.3g}% of the divisible optimum" if short else f"gap {self.gap:.1e}"
        if_so = f", assuming that {self.assumed}" if self.assumed else ""
        return f"{verdict}: {gap}{if_so}, violation {self.violation:.1e}, by {by} in {self.seconds:.3f} s"


@dataclass(frozen=True)
class ProblemCertificate:
    """What is proved of a CVXPY problem and its answer by `certify`, without trusting the solver.

    Attributes
    ----------
    value : float or None
        The objective at the answer; None without one.
    bound : float
        A proven bound on the optimum: no feasible point has a smaller objective, or a larger one if it is maximised.
        Infinite if there is none, if the problem is infeasible and if it is unbounded.
    gap : float
        ``distance`` relative to the larger of value and bound, without constants that the objective adds, or to a
        thousandth of the largest term of the objective, if that is more. NaN if the problem is infeasible or unbounded.
    distance : float
        Distance of value and bound, with what rounding may hide of the value.
    violation : float
        Largest violation of a constraint or of an attribute of a variable, relative to the terms of its row.
    violations : tuple of (str, float)
        All that are not 0, by label or place of the constraint, largest first.
    infeasible, unbounded : bool
        Whether it is proved that no point satisfies the constraints, or that the objective improves without end.
    weights : tuple of (str, float)
        Of an infeasible problem, the constraints that cannot hold together and their weights in the proof, of which the
        largest is 1.
    assumed : str
        An assumption of the proof, on the ranges of variables or the direction of an unbounded problem; usually empty.
    relaxed : bool
        Whether some variables are whole numbers, so that the bound is that of the relaxation, as is the direction of an
        unbounded problem.
    claimed, solver : str or None
        The status that the solver reports, which is not evidence, and the solver.
    solved_again : bool
        Whether the proof took another solve, since the dual values of the constraints did not suffice.
    maximised : bool
        Whether the objective is maximised.
    tol, atol : float
        The tolerances of ``ok``.
    seconds : float
        Time of the whole call.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import fairopt as fo
    >>> x = cp.Variable(name="x")
    >>> proof = fo.certify(cp.Problem(cp.Minimize(x), [x >= 2, x <= 1]))
    >>> proof.infeasible, proof.weights
    (True, (('constraints[0] (2.0 <= x)', 1.0), ('constraints[1] (x <= 1.0)', 1.0)))
    """

    value: float | None
    bound: float
    gap: float
    violation: float
    distance: float = math.inf
    violations: tuple[tuple[str, float], ...] = ()
    infeasible: bool = False
    unbounded: bool = False
    weights: tuple[tuple[str, float], ...] = ()
    assumed: str = ""
    relaxed: bool = False
    claimed: str | None = None
    solver: str | None = None
    solved_again: bool = False
    maximised: bool = False
    tol: float = GAP_TOLERANCE
    atol: float = 0.0
    seconds: float = 0.0
    file: Callable[[str | None], dict[str, Any]] | None = field(default=None, repr=False, compare=False)

    def save(self, path: str | os.PathLike[str], name: str | None = None) -> Path:
        """Write the proof as JSON, which `verify` checks without a solver; return the path.

        The file has the problem as a cone program, the answer and the dual point, and a ``name`` of where the problem
        is from. `NotCertified` if there is no bound.
        """
        if self.file is None:
            raise NotCertified(f"there is nothing to save: {self}")
        write_whole(Path(path), json.dumps(self.file(name), allow_nan=False) + "\n")
        return Path(path)

    @property
    def ok(self) -> bool:
        """Whether the gap is within ``tol`` or the distance within ``atol``, and the violation within ``tol``, or the
        problem is proved infeasible or unbounded.
        """
        near = self.gap <= self.tol or self.distance <= self.atol
        return self.infeasible or self.unbounded or bool(near and self.violation <= self.tol)

    @property
    def next_step(self) -> str:
        """What to do about an answer that is not certified; empty if it is."""
        if self.ok:
            return ""
        if self.value is None:
            return "solve the problem first, or look why the solver left no values"
        if not math.isfinite(self.value):
            return "give values inside of the objective's domain"
        if self.violation > self.tol:
            name, _ = self.violations[0]
            return f"solve with a tighter tolerance of feasibility, as the answer breaks {name}, or give a larger tol"
        if not math.isfinite(self.bound):
            return "give ranges of variables by limits={variable: (low, high)}, as no bound was found without"
        if self.relaxed:
            return "a gap of whole numbers may stay: give a larger tol, or add what excludes fractions"
        if self.assumed and (self._is_beyond or self.gap > SMALL):
            return "solve with a tighter tolerance, or give ranges of variables by limits={variable: (low, high)}"
        if self.gap > SMALL and abs(self.bound) <= self.distance:
            return (
                "solve with a tighter tolerance or in larger units, or, if the optimum is 0 and "
                f"{self.distance:.1e} is as good, give it as atol"
            )
        return "solve with a tighter tolerance, in other units or by another solver, or give a larger tol"

    @property
    def _is_beyond(self) -> bool:
        """Whether the answer is better than the bound."""
        return self.value is not None and (self.value > self.bound if self.maximised else self.value < self.bound)

    def __str__(self) -> str:
        assumed = f", among points with {self.assumed}" if self.assumed else ""
        by = f"{'by one more solve' if self.solved_again else 'by its own dual values'} in {self.seconds:.3f} s"
        claimed = f"; {self.solver or 'the solver'} said {self.claimed}" if self.claimed else ""
        if self.infeasible:
            which = ", ".join(f"{name} (weight {by:.3g})" for name, by in self.weights)
            return f"proved infeasible{assumed}: {which} cannot hold together; {by}{claimed}"
        if self.unbounded:
            if_so = f", assuming {self.assumed}" if self.assumed else ""
            along = f", along a direction {_OF_RELAXATION}" if self.relaxed else ""
            return (
                f"proved unbounded: the objective improves without end from a feasible point (violation "
                f"{self.violation:.1e}){along}{if_so}; {by}{claimed}"
            )
        verdict = "certified" if self.ok else "NOT certified"
        bound = f"optimum {'at most' if self.maximised else 'at least'} {self.bound:.10g}{assumed}"
        worst = ", ".join(f"{name} {by:.1e}" for name, by in self.violations[:3])
        violation = f"violation {self.violation:.1e}" + (f" ({worst})" if worst else "")
        notes = ""
        if self.relaxed:
            notes += f"; the bound is that {_OF_RELAXATION}"
        if self._is_beyond:
            if self.violation:
                notes += "; the answer is better than the bound by what its violation allows: the bound is one-sided"
            else:
                notes += "; the answer is better than the bound, so the assumption does not hold"
        notes += f". Next: {self.next_step}" if self.next_step else ""
        if self.value is None:
            return f"{verdict}: some variables have no values; {bound}, {by}{claimed}{notes}"
        apart = f", {self.distance:.1e} apart" if f"{self.value:.10g}" == f"{self.bound:.10g}" and self.distance else ""
        how = f"gap {self.gap:.1e}"
        if self.gap > self.tol and self.distance <= self.atol:
            how = f"{self.distance:.1e} from the optimum, within an atol of {self.atol:.1e}"
        numbers = f"{how} (value {self.value:.10g}, {bound}{apart})"
        return f"{verdict}: {numbers}, {violation}, {by}{claimed}{notes}"
