"""What is known of a notion on a case, and how another answer compares with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, OutOfDomain, Unbounded
from fairopt.instance import Instance
from fairopt.instance.validation import as_floats
from fairopt.runtime.lazy import later
from fairopt.runtime.tolerances import GAP_TOLERANCE, VIOLATION_TOLERANCE

if TYPE_CHECKING:
    from fairopt.allocation import Allocation

Number = Fraction | float

OPTIMAL = "optimal"
ERRORS: dict[str, type[Exception]] = {"infeasible": Infeasible, "unbounded": Unbounded, "out of domain": OutOfDomain}


@dataclass(frozen=True)
class Answer:
    """What is known of one notion on one case.

    Attributes
    ----------
    notion : str
        Its name in the library, as ``drf``.
    policy : str
        The policy as text, for `fairopt.policies.named_policy`; `make` makes it.
    status : str
        ``optimal``, ``infeasible``, ``unbounded`` or ``out of domain``.
    reason : str
        Why there is no optimum; empty if there is one.
    exact : bool
        Whether it was computed in fractions. Fractions of more than 60 characters are stored as the nearest floats.
    value : Fraction or None
        The optimal value in natural units, where it is rational and short. For `Leximin` it is the smallest level.
    interval : tuple of float or None
        Two floats that enclose the optimal value, rigorously if the answer is exact or `proof` names ``exact_bounds``.
    levels : tuple of Fraction or float or None
        Shares per weight of the users that levels compare, where the notion compares levels.
    tasks : tuple of Fraction or float or None
        Tasks of each user in total, where they are unique.
    unit : float or None
        How much the value changes, to first order, per relative change of all tasks. Shortfalls divide by it.
    gap : float or None
        The proved gap of the answer; 0 if it is exact.
    proof : str
        How the answer was proved.

    Examples
    --------
    >>> import fairopt as fo
    >>> answer = fo.datasets.library()["ghodsi-2011-example"].answers["drf"]
    >>> answer.value, answer.tasks, answer.exact
    (Fraction(2, 3), (Fraction(3, 1), Fraction(2, 1)), True)
    """

    notion: str
    policy: str
    status: str = OPTIMAL
    reason: str = ""
    exact: bool = False
    value: Fraction | None = None
    interval: tuple[float, float] | None = None
    levels: tuple[Number, ...] | None = None
    tasks: tuple[Number, ...] | None = None
    unit: float | None = None
    gap: float | None = None
    proof: str = ""

    def make(self) -> Any:
        """The policy or mechanism.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library()["ghodsi-2011-example"].answers["nash"].make()
        Policy(AlphaFair(1, Tasks()), name='Nash welfare')
        """
        return later("fairopt.policies.registry:named_policy")(self.policy)

    def __str__(self) -> str:
        if self.status != OPTIMAL:
            return f"{self.status}: {self.reason}"
        if self.value is not None:
            return str(self.value)
        if self.interval is None:
            return "tasks only" if self.tasks is not None else OPTIMAL
        low, high = self.interval
        return f"{low!r} to {high!r}"

    def to_dict(self) -> dict[str, Any]:
        """The entry in a file: fractions as text, without what is unknown.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library()["ghodsi-2011-example"].answers["drf"].to_dict()["tasks"]
        ['3', '2']
        """
        known = {name: value for name, value in vars(self).items() if value is not None and value is not False}
        del known["notion"]
        return {name: _plain(value) for name, value in known.items() if value != ""}


@dataclass(frozen=True)
class Agreement:
    """How an answer compares with the one of the library.

    Attributes
    ----------
    ok : bool
        Whether it is feasible, and as good as the library's answer to 1e-6; or has no optimum for the same reason.
    shortfall : float
        How far it is from the optimum, relative, in the units of a certificate's gap; NaN where nothing compares.
    violation : float
        Its largest relative violation of a capacity, a limit or eligibility.
    difference : float
        The largest difference of a user's tasks, relative to the user's tasks; NaN where tasks are not unique.
    reason : str
        What disagrees; empty if nothing does.

    Examples
    --------
    >>> import fairopt as fo
    >>> case = fo.datasets.library()["ghodsi-2011-example"]
    >>> bool(case.check(fo.DRF().allocate(case.instance)))
    True
    """

    ok: bool
    shortfall: float = math.nan
    violation: float = math.nan
    difference: float = math.nan
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok


def answer_of(notion: str, entry: Mapping[str, Any]) -> Answer:
    """The answer of an entry in a file."""
    known = dict(entry)
    for name in ("levels", "tasks"):
        if name in known:
            known[name] = tuple(map(_number, known[name]))
    if "value" in known:
        known["value"] = Fraction(known["value"])
    if "interval" in known:
        known["interval"] = tuple(known["interval"])
    return Answer(notion, **known)


def compared(answer: Answer, instance: Instance, found: Any) -> Agreement:
    """How an allocation, an error, or tasks by user or by user and server compare with an answer."""
    if isinstance(found, BaseException):
        agrees = answer.status != OPTIMAL and isinstance(found, ERRORS[answer.status])
        reason = "" if agrees else f"{type(found).__name__}, where the library says {answer}"
        return Agreement(agrees, reason=reason)
    if answer.status != OPTIMAL:
        return Agreement(False, reason=f"the library says {answer}")
    comparable = hasattr(found, "certificate") and found.instance == instance and found.policy == answer.make()
    allocation = found if comparable else _measured(answer, instance, found)
    violation = _violation(instance, allocation)
    shortfall, excess = _shortfall(answer, allocation)
    difference = _difference(answer, allocation)
    reason = ""
    if not violation <= VIOLATION_TOLERANCE:
        reason = f"it violates a capacity, a limit or eligibility by {violation:.1e}"
    elif math.isnan(shortfall) and not difference <= GAP_TOLERANCE:
        reason = f"tasks of a user differ by {difference:.1e} of them"
    elif shortfall > GAP_TOLERANCE:
        reason = f"it is {shortfall:.1e} below the optimum {answer}"
    elif excess > GAP_TOLERANCE:
        reason = f"it is {excess:.1e} above the optimum {answer}"
    return Agreement(not reason, shortfall, violation, difference, reason)


def _measured(answer: Answer, instance: Instance, tasks: Any) -> Allocation:
    """Tasks, or those of an allocation by another policy, as an allocation by the policy of an answer."""
    tasks = getattr(tasks, "tasks_by_server", tasks)
    if isinstance(tasks, Mapping) and instance.n_servers == 1:
        tasks = instance.per_user(tasks, "tasks", default=0.0)
    given = as_floats(tasks, "tasks")
    if given.ndim == 1 and instance.n_servers == 1:
        given = given[:, None]
    if given.shape != (instance.n_users, instance.n_servers):
        raise InvalidInstance(
            f"tasks have shape {np.shape(tasks)}; give ({instance.n_users}, {instance.n_servers}), by user and server"
        )
    return later("fairopt.policies.measured:measured")(answer.make(), instance, given)


def _violation(instance: Instance, allocation: Allocation) -> float:
    own = float(later("fairopt.allocation:feasibility")(instance, allocation.tasks_by_server))
    return max(own, allocation.certificate.block_violation if allocation.certificate.block_violation > 1e-7 else 0.0)


def _shortfall(answer: Answer, allocation: Allocation) -> tuple[float, float]:
    """How far below and above the library's value or levels an answer is, relative."""
    if answer.levels is not None:
        known = np.sort(np.array([float(level) for level in answer.levels]))
        given = np.sort(later("fairopt.policies.measured:levels_of")(allocation))
        if len(known) != len(given):
            raise InvalidBlock(f"the answer compares {len(given)} levels, and the library's {len(known)}")
        if not len(known):
            return 0.0, 0.0
        size = np.where(known > 0, known, 1.0)
        return float(max(((known - given) / size).max(), 0.0)), float(max((given[0] - known[0]) / size[0], 0.0))
    if answer.interval is None or answer.unit is None:
        return math.nan, 0.0
    value, (low, high) = float(allocation.objective), answer.interval
    unit = answer.unit or 1.0  # 0 where somebody gets nothing at best
    return max((low - value) / unit, 0.0), max((value - high) / unit, 0.0)


def _difference(answer: Answer, allocation: Allocation) -> float:
    if answer.tasks is None:
        return math.nan
    known = np.array([float(x) for x in answer.tasks])
    if not len(known):
        return 0.0
    return float((np.abs(allocation.tasks - known) / np.where(known > 0, known, 1.0)).max())


def _number(given: Any) -> Number:
    """A fraction from text, else a float."""
    return Fraction(given) if isinstance(given, str) else float(given)


def _plain(value: Any) -> Any:
    """Fractions as text, tuples as lists."""
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return str(value) if isinstance(value, Fraction) else value
