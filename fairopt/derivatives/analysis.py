"""Derivatives of an allocation: changes of the data, the rates of tasks along them, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Objective, only_term
from fairopt.blocks.normal_form import Power, Term
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import Share
from fairopt.derivatives.active_set import ActiveSet
from fairopt.derivatives.leximin import SAME, OptimalLevels, Pool
from fairopt.derivatives.optimum import LATE, Change, Optimum, _NoDerivative, elasticities
from fairopt.errors import OutOfDomain, OutOfTime
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import SHORTEST, Clock
from fairopt.runtime.display import label
from fairopt.runtime.progress import tell

Index = tuple[int, ...]

KINDS = {"capacity": "capacities", "demand": "demands", "weight": "weights", "alpha": "alpha"}
FAR = 1e4  # times a number (for alpha, times 1/10): the largest range, beyond which rounding decides
ZERO = "it is 0, and a positive number would change which users compete"


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives by every number of one kind: one more unit, and with ``_left`` the loss by one unit less.

    Attributes
    ----------
    kind : str
        ``capacity`` (by server row, in total, and resource), ``demand`` (by user and resource), ``weight`` (by user) or
        ``alpha``. The shapes below call its shape ``...``: (n_servers, n_resources), (n_users, n_resources), (n_users,)
        or ().
    tasks, tasks_left : ndarray of shape (n_users, ...)
        Of each user's tasks.
    welfare, welfare_left : ndarray of shape (...)
        Of the objective's value; for leximin of the smallest share per weight.
    reason : ndarray of str of shape (...)
        Why derivatives are NaN; empty if they are not.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    >>> found = fo.sensitivity(a).weights
    >>> found.tasks.round(4)  # user1 gains 5/4 tasks per unit of its weight, and loses as many per unit of user2's
    array([[ 1.25, -1.25],
           [-6.25,  6.25]])
    """

    kind: str
    tasks: Float
    tasks_left: Float
    welfare: Float
    welfare_left: Float
    reason: NDArray[np.str_]
    _ranges: Callable[[int], Float]

    @property
    def total(self) -> Float:
        """Derivatives of the number of tasks, shape (...)."""
        return np.asarray(self.tasks.sum(axis=0))

    @property
    def total_left(self) -> Float:
        """The loss of tasks per unit less, shape (...)."""
        return np.asarray(self.tasks_left.sum(axis=0))

    @cached_property
    def upper(self) -> Float:
        """By how much each number may grow until the active set changes, shape (...).

        Within the range the same equations give the allocation, so derivatives vary smoothly. For leximin and totals it
        is a rational function of the number and of the shares' coefficients (linear in capacities if these are fixed).
        Ranges are found by bisection to 1e-9; the conditions of the optimum are checked at the numbers tried, and not
        proved between them. Infinite beyond 10,000 times the number (for alpha, beyond 1,000). NaN without a
        derivative, for leximin on several servers, and if tasks can be placed in several ways.
        """
        return self._ranges(1)

    @cached_property
    def lower(self) -> Float:
        """By how much each number may shrink, as a number <= 0; see `upper`."""
        return self._ranges(-1)


class Analysis:
    """An allocation with its active users, identical servers merged, and what computes rates there."""

    def __init__(self, allocation: Allocation, held: bool, time_limit: float | None = None) -> None:
        self.held, self.whole, self.left = held, allocation.instance, time_limit
        self.term, self.objective = _term(allocation.policy, allocation.instance)
        if self.whole.demands.ndim == 3:
            raise OutOfDomain("demands differ by server; derivatives need demands that are equal on all servers")
        self.optimum = optimum = Optimum(allocation)
        self.part, self.instance = optimum.program.active, optimum.program.instance
        self.share: Share = self.term.share
        self.smooth = replace(self.term, factor=1.0, kind=self.term.kind.simplest)  # of the same optimum
        none = np.zeros((len(self.part), *self.instance.capacities.shape))
        self.slopes = (none, none) if held else elasticities(self.share, self.instance)
        if not len(self.part):
            return
        self.c = self.share.coefficients(self.instance)
        if self.c.ndim == 2:
            raise OutOfDomain(f"{self.share} differs by server; derivatives need shares that are equal on all servers")
        self.x = optimum.total
        self.kernel: Any
        if not self.term.is_smallest:
            self.kernel = ActiveSet(optimum.program.pairs, self.smooth, self.c)
            with self._timed() as clock:
                try:
                    self.kernel.start(optimum, clock)
                except _NoDerivative as error:
                    if str(error) == LATE:
                        raise OutOfTime(
                            f"no derivatives were found within the time limit of {clock.time_limit:g} s; give it more "
                            "time_limit"
                        ) from None
                    raise OutOfDomain(f"no derivatives: {error}") from error
        elif self.instance.n_servers == 1:
            self.kernel = Pool(self.instance, self.c, self.x)
        else:
            self.kernel = OptimalLevels(allocation.level_prices, optimum)

    def derivatives(self, kind: str) -> Derivatives:
        """Both sides of all derivatives by the numbers of a kind."""
        shape = () if kind == "alpha" else getattr(self.instance, KINDS[kind]).shape
        n = len(self.part)
        tasks, welfare, reason = np.zeros((2, n, *shape)), np.zeros((2, *shape)), np.full(shape, "", dtype=object)
        with self._timed() as clock:
            for count, at in enumerate(np.ndindex(shape) if n else ()):
                tell(f"derivatives by {kind}", count, reason.size)
                for k, side in enumerate((1, -1)):
                    try:
                        moved, value = self.rates(kind, at, side, clock)
                    except _NoDerivative as error:
                        moved, value = np.full(n, np.nan), np.nan
                        reason[at] = reason[at] or str(error)
                    tasks[(k, slice(None), *at)], welfare[(k, *at)] = side * moved, side * value

        def ranges(side: int) -> Float:
            out = np.full(shape, side * np.inf)
            with self._timed() as clock:
                for count, at in enumerate(np.ndindex(shape) if n else ()):
                    tell(f"ranges by {kind}", count, out.size)
                    out[at] = np.nan if clock.late else self.range(kind, at, side)
            return self._expand(kind, out, 0, side * np.inf)

        by_user = np.zeros((2, self.whole.n_users, *self._expand(kind, reason, 0, "").shape))
        by_user[:, self.part] = self._expand(kind, tasks, 2)
        right, left = by_user + 0.0  # no negative zeros
        value, value_left = self._expand(kind, welfare, 1) + 0.0
        return Derivatives(kind, right, left, value, value_left, self._expand(kind, reason, 0, "").astype(str), ranges)

    @contextmanager
    def _timed(self) -> Iterator[Clock]:
        """A clock of the remaining time for all computations."""
        clock = Clock(None if self.left is None else max(self.left, SHORTEST))
        try:
            yield clock
        finally:
            self.left = None if self.left is None else self.left - clock.seconds

    def _expand(self, kind: str, values: Any, axis: int, other: Any = 0.0) -> Any:
        """Values by the numbers of the analysis, expanded to those of the instance as given."""
        if kind == "alpha":
            return values
        if kind == "capacity":
            return np.take(values, self.optimum.classes, axis=axis)
        shape = (*values.shape[:axis], self.whole.n_users, *values.shape[axis + 1 :])
        out = np.full(shape, other, dtype=values.dtype)
        out[(slice(None),) * axis + (self.part,)] = values
        return out

    def _log_slopes(self, slopes: tuple[Float, Float], kind: str, at: Index, side: int) -> Float:
        """Derivatives of log c by the logarithm of one number that grows or shrinks."""
        up, down = slopes if side > 0 else slopes[::-1]
        if kind == "capacity":
            return -down[:, at[0], at[1]]
        out = np.zeros(len(up))
        if kind == "demand":
            out[at[0]] = up[at[0], :, at[1]].sum()
        return out

    def _size(self, kind: str, at: Index) -> float:
        """The number itself; for capacities that of all identical servers."""
        if kind == "alpha":
            return float(self.smooth.alpha or 0.0)
        size = getattr(self.instance, KINDS[kind])[at]
        return float(size * self.instance.counts[at[0]] if kind == "capacity" else size)

    def change(self, kind: str, at: Index, side: int) -> Change:
        """The change of one number that grows or shrinks."""
        n = self.instance.n_users
        if kind == "alpha":
            if self.smooth.alpha is None or isinstance(self.objective, Total):
                raise _NoDerivative(f"{type(self.objective).__name__} has no alpha")
            if self.smooth.alpha == 0 and (side < 0 or not (self.x > 0).all()):
                raise _NoDerivative(
                    "alpha is 0, and cannot be less" if side < 0 else "at alpha = 0 a user runs no tasks"
                )
        rates = {name: np.zeros(getattr(self.instance, KINDS[name]).shape) for name in ("capacity", "demand", "weight")}
        log_c: Float = np.zeros(n)
        if kind != "alpha":
            size = self._size(kind, at)
            if size == 0:
                raise _NoDerivative(("the server has none of it: " if kind == "capacity" else "") + ZERO)
            rates[kind][at] = side
            log_c = side / size * self._log_slopes(self.slopes, kind, at, side)
        log_w = rates["weight"] / self.instance.weights
        return Change(rates["capacity"], rates["demand"], log_c, log_w, float(side) if kind == "alpha" else 0.0)

    def rates(self, kind: str, at: Index, side: int, clock: Clock) -> tuple[Float, float]:
        """Rates of tasks and of welfare along a change."""
        if clock.late:
            raise _NoDerivative(LATE)
        change, w = self.change(kind, at, side), self.instance.weights
        moved = self.kernel.rates(change)[0]
        z = self.c * self.x / w
        dz = z * (change.log_c - change.log_w) + self.c * moved / w
        return moved, _welfare_rate(self.term, z, w, dz, w * change.log_w, change.alpha)

    def range(self, kind: str, at: Index, side: int) -> float:
        """The largest change in a direction for which the derivatives' equations hold."""
        try:
            kept = self.kernel.rates(self.change(kind, at, side))[1]
        except _NoDerivative:
            return np.nan
        if kept is None:
            return np.nan
        size = 0.1 if kind == "alpha" else self._size(kind, at)
        good, step, bad = 0.0, 1e-2 * size, np.inf
        while good < FAR * size and (np.isinf(bad) or bad - good > 1e-9 * size):
            new = min(good + step, FAR * size) if np.isinf(bad) else (good + bad) / 2
            found = self._stays(kind, at, side * new, kept)
            if found is None:
                bad = new
            else:
                good, kept, step = new, found, 3 * step
        return side * (good if np.isfinite(bad) else np.inf)

    def _stays(self, kind: str, at: Index, by: float, kept: Any) -> Any:
        """The active set with one number changed, if it is the same; otherwise None."""
        if kind == "alpha":
            alpha = self._size(kind, at) + by
            return (
                None
                if alpha < 0
                else self.kernel.stays(self.instance, Term(1.0, Power(alpha), self.share), self.c, kept)
            )
        numbers = np.array(getattr(self.instance, KINDS[kind]), dtype=float)
        numbers[at] += by / (self.instance.counts[at[0]] if kind == "capacity" else 1)
        if not numbers[at] > 0:
            return None
        instance = self.instance.replace(**{KINDS[kind]: numbers})
        if self.held or kind == "weight":
            return self.kernel.stays(instance, self.smooth, self.c, kept)
        here, now = self._log_slopes(self.slopes, kind, at, 1 if by > 0 else -1), elasticities(self.share, instance)
        if ((self._log_slopes(now, kind, at, 1) != 0) != (here != 0)).any():
            return None
        return self.kernel.stays(instance, self.smooth, self.share.coefficients(instance), kept)


def _term(policy: Any, instance: Instance) -> tuple[Term, Objective]:
    """The only term of a policy's objective, and the objective; `OutOfDomain` if derivatives are not known."""
    name, objective = label(policy), getattr(policy, "objective", None)
    term = only_term(objective)
    if objective is None or term is None:
        raise OutOfDomain(f"{name} does not maximise a single objective over tasks, so its derivatives are not known")
    if policy.constraints:
        raise OutOfDomain(f"{name} has constraints, under which derivatives are not known; leave them out")
    if instance.derived.has_guarantees or instance.limits:
        what = "guarantees" if instance.derived.has_guarantees else "limits"
        raise OutOfDomain(f"{instance!r} has {what}, under which derivatives are not known; leave them out")
    if not term.is_simple and term.measure is None:
        raise OutOfDomain(
            f"derivatives of {objective} are not known; the objective must be one AlphaFair, concave "
            "FairnessEfficiency, Total, Leximin or MaxMin"
        )
    if term.measure is not None and not term.measure.concave:
        raise OutOfDomain(
            f"{term.measure} is not concave, and its optimum can jump; derivatives need the concave region"
        )
    return term, objective


@np.errstate(all="ignore")
def _welfare_rate(term: Term, z: Float, w: Float, dz: Float, dw: Float, d_alpha: float) -> float:
    """The rate of a term in natural units, from those of shares per weight, weights and alpha."""
    if term.is_smallest:
        return term.factor * float(dz[z <= z.min() * (1 + SAME)].min())
    return term.factor * term.kind.rate(z, w, dz, dw, d_alpha)
