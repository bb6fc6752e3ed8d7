"""Derivatives of an allocation: the changes of the data, what gives the rates of tasks, and what follows from these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Tiers
from fairopt.blocks.base import is_ours
from fairopt.blocks.efficiency import FairnessEfficiency, single_term
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective, Total
from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.progress import tell
from fairopt.tradeoff.active_set import ActiveSet, Change, NoRate
from fairopt.tradeoff.coefficients import elasticities
from fairopt.tradeoff.filling import Filled, Flow, fill

__all__ = ["KINDS", "SAME", "Analysis", "Derivatives"]

Float = NDArray[np.floating[Any]]

KINDS = ("capacity", "demand", "weight", "alpha")
SAME = 1e-6  # relative difference of shares that are tied for the smallest, and of derivatives from both sides
ZERO = "it is 0, and a positive number would change who competes for what"


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives by every number of one kind: one more unit (and, where named ``_left``, one less, as a loss).

    Attributes
    ----------
    kind : str
        ``capacity`` (by server row, in total, and resource), ``demand`` (by user and resource), ``weight`` (by user) or
        ``alpha``; the shapes below call its shape ``...``: (n_servers, n_resources), (n_users, n_resources),
        (n_users,) or ().
    tasks, tasks_left : ndarray of shape (n_users, ...)
        Of each user's tasks.
    total, total_left : ndarray of shape (...)
        Of the number of tasks.
    welfare, welfare_left : ndarray of shape (...)
        Of the objective's value; of leximin the smallest share per weight.
    smallest, smallest_left : ndarray of shape (...)
        Of the smallest dominant share per weight.
    reason : ndarray of str of shape (...)
        Why derivatives are NaN; empty where they are not.

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
    total: Float
    total_left: Float
    welfare: Float
    welfare_left: Float
    smallest: Float
    smallest_left: Float
    reason: NDArray[np.str_]
    _find_range: Callable[[tuple[int, ...], int], float]

    @cached_property
    def upper(self) -> Float:
        """By how much each number may grow, until other resources are full, or other limits reached.

        Up to there the same equations give the allocation: its derivatives vary smoothly, and for leximin and totals
        it is a rational function of the number (linear in capacities if coefficients are held). Found by bisection to
        1e-9, with the conditions of the optimum satisfied at every number tried, not proved between them. Infinite
        beyond a million times the number; NaN where there is no derivative, on several servers for leximin, and where
        tasks can be placed in several ways.
        """
        return self._ranges(1)

    @cached_property
    def lower(self) -> Float:
        """By how much each number may shrink, as a number <= 0; see `upper`."""
        return self._ranges(-1)

    def _ranges(self, side: int) -> Float:
        out = np.empty(self.total.shape)
        for k, at in enumerate(np.ndindex(out.shape)):
            tell(f"ranges by {self.kind}", k, out.size)
            out[at] = self._find_range(at, side)
        return out


class Analysis:
    """An allocation, the users who take part, identical servers merged, and what gives rates there."""

    def __init__(self, allocation: Allocation, held: bool) -> None:
        self.allocation, self.held, self.whole = allocation, held, allocation.instance
        objective = getattr(allocation.policy, "objective", None)
        self.term, self.factor = _term(allocation.policy, objective)
        if self.whole.demands.ndim == 3:
            raise OutOfDomain("demands differ by server, and derivatives are of tasks that take the same everywhere")
        self.part = np.flatnonzero(self.whole.task_limits > 0)
        self.share: Share = self.term.share  # type: ignore[attr-defined]
        self.instance = self._of(self.whole)
        self.c = self.share.coefficients(self.instance) if len(self.part) else np.zeros(0)
        self.slopes = elasticities(self.share, self.instance, held)
        self.mu_slopes = elasticities(DominantShare(), self.instance, held)
        if len(self.part):
            self.kernel: Any = self._kernel()

    def _of(self, whole: Instance) -> Instance:
        return whole.taking_part(self.part).merged()

    def _kernel(self) -> Any:
        tasks = self.whole.sum_by_class(self.allocation.tasks_by_server[self.part])
        if not isinstance(self.term, (Leximin, MaxMin)):
            smooth = ActiveSet(self.instance, single_term(_as_alpha(self.term)), self.c)
            try:
                smooth.start(tasks)
            except NoRate as error:
                raise OutOfDomain(f"no derivatives: {error}") from error
            return smooth
        if self.instance.n_servers == 1:
            return _Pool(self, tasks[:, 0])
        return _Levels(self, tasks)

    def derivatives(self, kind: str) -> Derivatives:
        """Both sides of all derivatives by the numbers of a kind."""
        whole = self.whole
        shape = {"capacity": whole.capacities.shape, "demand": whole.demands.shape, "weight": whole.weights.shape}.get(
            kind, ()
        )
        tasks, sums = np.zeros((2, whole.n_users, *shape)), np.zeros((2, 3, *shape))
        reason = np.full(shape, "", dtype=object)
        made: dict[tuple[int, ...], Any] = {}
        for at, index in enumerate(np.ndindex(shape)):
            tell(f"derivatives by {kind}", at, reason.size)
            own = self._own(kind, index)
            if own is None:  # users who take no part change nothing
                continue
            if own not in made:
                made[own] = [self._side(kind, own, side) for side in (1, -1)]
            for k, (moved, others, why) in enumerate(made[own]):
                tasks[(k, self.part, *index)], sums[(k, slice(None), *index)] = moved, others
                reason[index] = reason[index] or why

        def find_range(index: tuple[int, ...], side: int) -> float:
            own = self._own(kind, index)
            return side * np.inf if own is None else self.range(kind, own, side)

        tasks, sums = tasks + 0.0, sums + 0.0  # no negative zeros
        (total, welfare, smallest), left = sums
        why = reason.astype(str)
        return Derivatives(
            kind, tasks[0], tasks[1], total, left[0], welfare, left[1], smallest, left[2], why, find_range
        )

    def _own(self, kind: str, index: tuple[int, ...]) -> tuple[int, ...] | None:
        """The index among merged rows or users who take part; None for other users."""
        if kind == "capacity":
            return (int(self.whole.server_classes[index[0]]), *index[1:]) if len(self.part) else None
        if kind == "alpha":
            return () if len(self.part) else None
        at = int(np.searchsorted(self.part, index[0]))
        return (at, *index[1:]) if at < len(self.part) and self.part[at] == index[0] else None

    def _side(self, kind: str, index: tuple[int, ...], side: int) -> tuple[Float, Float, str]:
        """Derivatives of tasks, and of their number, welfare and smallest share, from a side; NaN with a reason."""
        try:
            moved, sums = self.rates(kind, index, side)
            return side * moved, side * np.array(sums), ""
        except NoRate as error:
            return np.full(len(self.part), np.nan), np.full(3, np.nan), str(error)

    def change(self, kind: str, index: tuple[int, ...], side: int) -> tuple[Change, Float]:
        """One number that grows or shrinks, and the rates of the logarithms of dominant shares."""
        instance = self.instance
        n = instance.n_users
        out = Change(np.zeros(instance.capacities.shape), np.zeros((n, instance.n_resources)), np.zeros(n), np.zeros(n),
                     float(side) if kind == "alpha" else 0.0)  # fmt: skip
        log_mu = np.zeros(n)
        if kind == "capacity":
            room = float(instance.capacities[index] * instance.counts[index[0]])
            if room == 0:
                raise NoRate("the server has none of it: " + ZERO)
            out.capacity[index] = side
            for logs, slopes in ((out.log_c, self.slopes), (log_mu, self.mu_slopes)):
                logs += side * (slopes.capacity if side > 0 else slopes.capacity_left)[:, index[0], index[1]] / room
        elif kind == "demand":
            if instance.demands[index] == 0:
                raise NoRate(ZERO)
            out.demand[index] = side
            for logs, slopes in ((out.log_c, self.slopes), (log_mu, self.mu_slopes)):
                of = slopes.demand if side > 0 else slopes.demand_left
                logs[index[0]] = side * of[index] / instance.demands[index]
        elif kind == "weight":
            out.log_w[index] = side / instance.weights[index]
        elif not isinstance(self.term, AlphaFair):
            raise NoRate(f"{type(self.term).__name__} has no alpha")
        elif self.term.alpha == 0 and (side < 0 or not (self.allocation.tasks[self.part] > 0).all()):
            raise NoRate("alpha is 0, and cannot be less" if side < 0 else "at alpha = 0 a user runs no tasks")
        return out, log_mu

    def rates(self, kind: str, index: tuple[int, ...], side: int) -> tuple[Float, tuple[float, float, float]]:
        """Rates of tasks, and of their number, welfare and the smallest dominant share, along a change."""
        change, log_mu = self.change(kind, index, side)
        moved = self.kernel.rates(change)[0]
        x, w = self.allocation.tasks[self.part], self.instance.weights
        z = self.c * x / w
        dz = z * (change.log_c - change.log_w) + self.c * moved / w
        mu = self.instance.dominant_shares
        y = mu * x / w
        dy = y * (log_mu - change.log_w) + mu * moved / w
        welfare = self.factor * _welfare_rate(self.term, z, w, dz, w * change.log_w, change.alpha)
        return moved, (float(moved.sum()), welfare, _smallest_rate(y, dy))

    def changed(self, kind: str, index: tuple[int, ...], by: float) -> Instance | None:
        """The instance with one number changed by an amount; None where the number is not positive any more."""
        whole = self.whole
        name, old = {"capacity": ("capacities", whole.capacities), "demand": ("demands", whole.demands),
                     "weight": ("weights", whole.weights), "alpha": ("", whole.weights)}[kind]  # fmt: skip
        if not name:
            return self.instance
        new = np.array(old, dtype=float)
        if kind == "capacity":
            rows = np.flatnonzero(whole.server_classes == index[0])
            new[rows, index[1]] += by / whole.counts[rows].sum()
            smallest = float(new[rows, index[1]].min())
        else:
            new[(self.part[index[0]], *index[1:])] += by
            smallest = float(new[(self.part[index[0]], *index[1:])])
        return self._of(whole.replace(**{name: new})) if smallest > 0 else None

    def range(self, kind: str, index: tuple[int, ...], side: int) -> float:
        """The largest change in a direction to which the derivatives' equations hold."""
        try:
            change, _ = self.change(kind, index, side)
            _, *kept = self.kernel.rates(change)
        except NoRate:
            return np.nan
        if not self.kernel.regular:
            return np.nan
        size = {"capacity": lambda: self.instance.capacities[index] * self.instance.counts[index[0]],
                "demand": lambda: self.instance.demands[index], "weight": lambda: self.instance.weights[index],
                "alpha": lambda: max(self.term.alpha, 1.0)}[kind]()  # type: ignore[attr-defined]  # fmt: skip
        size = float(size)
        good, kept, step, bad = 0.0, tuple(kept), 1e-2 * size, np.inf
        while abs(good) < 1e6 * size and (np.isinf(bad) or bad - abs(good) > 1e-9 * size):
            new = abs(good) + step if np.isinf(bad) else (abs(good) + bad) / 2
            found = self._stays(kind, index, side * new, kept)
            if found is None:
                bad = new
            else:
                good, kept, step = side * new, found, 3 * step
        return good if np.isfinite(bad) else side * np.inf

    def _stays(self, kind: str, index: tuple[int, ...], by: float, kept: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What is held at the changed number, if it is the same; else None."""
        instance, term = self.changed(kind, index, by), single_term(_as_alpha(self.term))
        if kind == "alpha":
            if term.alpha + by < 0:  # type: ignore[attr-defined]
                return None
            term = AlphaFair(term.alpha + by, self.share)  # type: ignore[attr-defined]
        if instance is None or instance.n_servers != self.instance.n_servers:
            return None
        c = self.c if self.held else self.share.coefficients(instance)
        if not self.held and kind in ("capacity", "demand"):
            now = elasticities(self.share, instance)
            if kind == "capacity":
                mine = self.slopes.capacity if by > 0 else self.slopes.capacity_left
                same = ((now.capacity != 0) == (mine != 0))[:, index[0], index[1]].all()
            else:
                mine = self.slopes.demand if by > 0 else self.slopes.demand_left
                same = (now.demand[index] > 0) == (mine[index] > 0)
            if not same:
                return None
        found: tuple[Any, ...] | None = self.kernel.stays(instance, term, c, kept)
        return found


class _Pool:
    """Leximin on one pool, by water-filling with rates."""

    regular = True

    def __init__(self, analysis: Analysis, tasks: Float) -> None:
        instance = analysis.instance
        self.limits, self.c = instance.task_limits, analysis.c
        self.flow = Flow(instance.weights / self.c, instance.demands, instance.total_capacities)
        if not np.allclose(fill(self.flow, self.limits).tasks, tasks, rtol=1e-4, atol=1e-6 * float(tasks.max())):
            raise OutOfDomain(
                "max-min leaves some tasks open, and these are not those of leximin; allocate by Leximin instead"
            )

    def rates(self, change: Change) -> tuple[Float, Filled]:
        """Rates of tasks along a change, and what holds each user."""
        log_speed = change.log_w - change.log_c
        flow = Flow(self.flow.speed * log_speed, change.demand, change.capacity.sum(axis=0))
        found = fill(self.flow, self.limits, flow)
        return found.rates, found

    def stays(self, instance: Instance, term: Objective, c: Float, kept: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What holds each user of another instance, if it is the same."""
        found = fill(Flow(instance.weights / c, instance.demands, instance.total_capacities), self.limits)
        return kept if (found.cause == kept[0].cause).all() else None


class _Levels:
    """Leximin on several servers, from the prices of its levels.

    A level rises by its prices times the capacity gained; a user whose tasks per level grow by a part gains as much as
    if its use of each row, by that part, were taken from the capacities.
    """

    regular = False

    def __init__(self, analysis: Analysis, tasks: Float) -> None:
        allocation, instance = analysis.allocation, analysis.instance
        levels = allocation.level_prices
        if levels is None:
            raise OutOfDomain(
                "prices of the levels are not known on these servers: MaxMin leaves tasks open (allocate by Leximin), "
                "or there are too many full capacities"
            )
        first = np.unique(analysis.whole.server_classes, return_index=True)[1]
        self.prices = np.zeros((instance.n_users, *instance.capacities.shape))
        self.z, self.kink = np.ones(instance.n_users), False
        at = {analysis.whole.users[j]: k for k, j in enumerate(analysis.part)}
        for level in levels:
            self.kink |= not np.allclose(level.prices, level.prices_left, rtol=SAME, atol=SAME * level.level)
            mine = [at[user] for user in level.users if user in at]
            self.prices[mine], self.z[mine] = level.prices[first], level.level
        self.x = tasks.sum(axis=1)
        self.used = tasks[:, :, None] * instance.demands[:, None, :]
        self.free = self.x < instance.task_limits * (1 - SAME)

    def rates(self, change: Change) -> tuple[Float, None]:
        """Rates of tasks along a change."""
        if self.kink:
            raise NoRate("prices of more and of less capacity differ, and on several servers only these are known")
        if change.demand.any():
            raise NoRate("for leximin on several servers it depends on where tasks run, which is not unique in general")
        log_speed = np.where(self.free, change.log_w - change.log_c, 0.0)
        room = change.capacity - np.einsum("j,jsi->si", log_speed, self.used)
        rise = np.einsum("jsi,si->j", self.prices, room) / self.z
        return np.where(self.free, self.x * (rise + log_speed), 0.0), None


def _term(policy: Any, objective: Any) -> tuple[Objective, float]:
    """The only term of a policy's objective, and its factor; `OutOfDomain` where derivatives are not known."""
    name = label(policy)
    if not isinstance(objective, Objective) or isinstance(objective, Tiers):
        raise OutOfDomain(f"{name} does not maximise a single objective over tasks, so its derivatives are not known")
    if policy.constraints:
        raise OutOfDomain(f"{name} has constraints of its own, under which derivatives are not known; leave them out")
    terms = [(factor, term) for factor, term in objective.terms() if factor > 0]
    known = (AlphaFair, FairnessEfficiency, Total, Leximin, MaxMin)
    if len(terms) != 1 or not is_ours(terms[0][1]) or not isinstance(terms[0][1], known):
        raise OutOfDomain(
            f"derivatives of {objective!r} are not known; they are of one AlphaFair, concave FairnessEfficiency, "
            "Total, Leximin or MaxMin"
        )
    factor, term = terms[0]
    if isinstance(term, FairnessEfficiency) and not term.concave:
        raise OutOfDomain(f"{term!r} is not concave, and its optimum can jump; derivatives are of the concave region")
    return term, factor


def _as_alpha(term: Objective) -> Objective:
    """A total as alpha-fairness of alpha = 0."""
    plain = single_term(term)
    return AlphaFair(0, plain.share) if isinstance(plain, Total) else plain


def _welfare_rate(term: Objective, z: Float, w: Float, dz: Float, dw: Float, d_alpha: float) -> float:
    """Rate of an objective in natural units, from those of shares per weight, weights and alpha."""
    if isinstance(term, (Leximin, MaxMin)):
        return _smallest_rate(z, dz)
    with np.errstate(all="ignore"):
        if isinstance(term, FairnessEfficiency):
            q, b = 1 - term.beta, term.beta
            power, total = float((w * z**q).sum()), float(w @ z)
            log_power = float((dw * z**q + w * q * z ** (q - 1) * dz).sum()) / power
            f = (1 if b <= 1 else -1) * power ** (1 / b) * total ** (term.lam - q / b)
            return float(f * (log_power / b + (term.lam - q / b) * float(dw @ z + w @ dz) / total))
        if isinstance(term, Total):
            return float(dw @ z + w @ dz)
        alpha = term.alpha  # type: ignore[attr-defined]
        u = np.log(z) if alpha == 1 else z ** (1 - alpha) / (1 - alpha)
        out = float((w * z**-alpha * dz).sum()) + float(dw[dw != 0] @ u[dw != 0])
        if d_alpha and alpha == 1:
            return np.nan  # the value jumps from powers to logarithms
        if d_alpha:
            out += d_alpha * float((w * u * (1 / (1 - alpha) - np.log(z))).sum())
    return out if np.isfinite(out) else np.nan


def _smallest_rate(values: Float, rates: Float) -> float:
    """Rate of the smallest of some values."""
    return float(rates[values <= values.min() * (1 + SAME)].min())
