"""The points of a frontier: solved from the prices of the neighbours, in one or several processes, and measured."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Total
from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import FairoptError
from fairopt.instance import Instance
from fairopt.methods import dispatch
from fairopt.metrics import f_beta
from fairopt.policies.dominant import DRF
from fairopt.policies.tradeoff import NoFairness
from fairopt.policy import Policy
from fairopt.tradeoff.price_of_fairness import alpha_on_one_share, equal_alone, largest_price

__all__ = ["MEASURES", "Point", "Row", "Standard", "solve", "solve_in_processes"]

Float = NDArray[np.floating[Any]]

MEASURES = (
    "fairness", "efficiency", "tasks", "leftover", "jain", "f_beta", "price_of_fairness", "price_bound", "gap",
)  # fmt: skip
NO_BOUND = "no bound on the price of fairness"
MOST_POINTS = 16  # that a process solves between two reports; the first of them has no neighbour
FAR = 4.0  # steps of the grid beyond which prices are not continued


class Point(NamedTuple):
    """A point to solve: its place in the grid, the line it is on and where (None if not a number), its mechanism."""

    place: int
    line: int
    at: float | None
    mechanism: Any


class Row(NamedTuple):
    """What was measured of a point, in the order of `MEASURES`; or the error that took the place of an answer."""

    numbers: tuple[float, ...]
    tasks: Float
    method: str
    error: str | None = None
    note: str = ""

    @classmethod
    def failed(cls, error: FairoptError) -> Row:
        """A row of NaN."""
        return cls((np.nan,) * len(MEASURES), np.empty(0), "", f"{type(error).__name__}: {error}")


class Standard:
    """What the points on one instance are measured against; each number is found once."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._largest: dict[Share, float] = {}
        self._equal: dict[Share, bool] = {}

    @cached_property
    def fairest(self) -> Allocation:
        """The allocation of DRF."""
        return DRF().allocate(self.instance)

    @cached_property
    def most(self) -> Allocation:
        """The allocation with the most tasks."""
        return NoFairness().allocate(self.instance)

    def row(self, mechanism: Any, allocation: Allocation) -> Row:
        """The measures of an answer."""
        found, part = allocation.metrics(), self.instance.task_limits > 0
        objective = getattr(mechanism, "objective", None)
        blocks = objective.share_blocks() if objective is not None else ()
        price = 1 - _ratio(float(allocation.shares.sum()), self._largest_sum(blocks[0] if blocks else DominantShare()))
        beta = {FairnessEfficiency: "beta", AlphaFair: "alpha"}.get(type(objective))
        even = np.nan
        if beta and part.any() and (b := getattr(objective, beta)) != 0 and allocation.shares.any():
            even = f_beta(allocation.shares[part], b, self.instance.weights[part])
        bound = self._bound(mechanism)
        numbers = (
            *self.place(found), found["ntt"], found["aur"], found["jain"], even, price,
            np.nan if isinstance(bound, str) else bound, allocation.certificate.gap,
        )  # fmt: skip
        note = bound if isinstance(bound, str) else ""
        return Row(numbers, allocation.tasks, allocation.certificate.method, None, note)

    @cached_property
    def _best(self) -> tuple[float, float]:
        """The largest smallest dominant share, and the largest number of tasks."""
        return (
            _or_nan(lambda: self.fairest.metrics()["smallest_dominant_share"]),
            _or_nan(lambda: float(self.most.tasks.sum())),
        )

    def place(self, metrics: dict[str, Any]) -> tuple[float, float]:
        """Percent fairness and percent efficiency."""
        least, most = self._best
        return 100 * _ratio(metrics["smallest_dominant_share"], least), 100 * _ratio(metrics["ntt"], most)

    def references(self) -> dict[str, tuple[float, float, Float]]:
        """Percent fairness, percent efficiency and tasks of DRF and of the most tasks, where these have an answer."""
        with contextlib.suppress(FairoptError):
            known = {"DRF": self.fairest, "most tasks": self.most}
            return {name: (*self.place(a.metrics()), a.tasks) for name, a in known.items()}
        return {}

    def _largest_sum(self, share: Share) -> float:
        if share not in self._largest:
            most = Policy(Total(share))
            self._largest[share] = _or_nan(lambda: float(most.allocate(self.instance).shares.sum()))
        return self._largest[share]

    def _bound(self, mechanism: Any) -> float | str:
        """The bound on the price of fairness, or why there is none."""
        found, instance = alpha_on_one_share(mechanism), self.instance
        part = np.flatnonzero(instance.task_limits > 0)
        if found is None:
            return f"{NO_BOUND}: it is known for alpha-fair and leximin policies of one share alone"
        if (instance.weights != instance.weights[:1]).any():
            return f"{NO_BOUND}: it is known for equal weights"
        alpha, share = found
        if share not in self._equal:
            self._equal[share] = equal_alone(instance.taking_part(part), share) if len(part) else True
        if self._equal[share]:
            return largest_price(alpha, len(part))
        return f"{NO_BOUND}: users alone have different largest {share!r}, and it assumes equal"


class _Neighbours:
    """Prices of the last points, for a guess at the next: continued along a line, or from the start of the last line.

    The logarithms of the prices of alpha-fairness are ``alpha eta + (1-alpha) log L`` with levels eta that change
    little and a constant L: nearly linear in alpha.
    """

    def __init__(self) -> None:
        self.line = -1
        self.first: Float | None = None  # of this line, logarithms
        self.near: list[tuple[float | None, Float]] = []  # the last two

    def guess(self, point: Point) -> Float | None:
        if point.line != self.line:
            start, self.line, self.first, self.near = self.first, point.line, None, []
            return None if start is None else self._prices(start)
        if not self.near:
            return None
        (v0, before), (v1, last) = self.near[0], self.near[-1]
        if point.at is None or v1 is None or v0 is None or v0 == v1 or not abs(point.at - v1) <= FAR * abs(v1 - v0):
            return self._prices(last)
        return self._prices(last + (last - before) * ((point.at - v1) / (v1 - v0)))

    def learn(self, point: Point, allocation: Allocation) -> None:
        prices = allocation.evidence_prices
        if allocation.certificate.method == "prices" and prices is not None and np.isfinite(prices).all():
            logs = np.log(np.maximum(prices, 1e-300))
            self.first = logs if self.first is None else self.first
            self.near = [*self.near[-1:], (point.at, logs)]

    @staticmethod
    def _prices(logs: Float) -> Float:
        return np.exp(np.clip(logs, -690.0, 690.0))


def solve(standard: Standard, points: Sequence[Point]) -> Iterator[tuple[int, Row]]:
    """The rows of points, one after the other."""
    neighbours = _Neighbours()
    for point in points:
        yield point.place, _solved(standard, point, neighbours)


def _solved(standard: Standard, point: Point, neighbours: _Neighbours) -> Row:
    mechanism, instance = point.mechanism, standard.instance
    try:
        if type(mechanism).allocate is Policy.allocate:
            allocation = dispatch.allocate(mechanism, instance, start=neighbours.guess(point))
            neighbours.learn(point, allocation)
        else:
            allocation = mechanism.allocate(instance)
        return standard.row(mechanism, allocation)
    except FairoptError as error:
        return Row.failed(error)


def solve_in_processes(standard: Standard, points: Sequence[Point], processes: int) -> Iterator[tuple[int, Row]]:
    """The rows of points as they come, solved by several processes, some neighbours at a time."""
    size = min(MOST_POINTS, -(-len(points) // (4 * processes)))
    parts = [points[k : k + size] for k in range(0, len(points), size)]
    with ProcessPoolExecutor(processes, initializer=_begin, initargs=(standard,)) as pool:
        try:
            for done in as_completed([pool.submit(_in_process, part) for part in parts]):
                yield from done.result()
        except BaseException:  # Ctrl-C among them: what is at work ends, and no more is begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_STANDARD: list[Standard] = []  # that of a process made by `solve_in_processes`


def _begin(standard: Standard) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent
    _STANDARD[:] = [standard]


def _in_process(points: Sequence[Point]) -> list[tuple[int, Row]]:
    return list(solve(_STANDARD[0], points))


def _ratio(value: float, most: float) -> float:
    """A part of the most; of nothing, all where there is nothing and NaN otherwise."""
    return value / most if most > 0 else 1.0 if value == most else np.nan


def _or_nan(find: Callable[[], float]) -> float:
    """A number to measure against, or NaN without one: the answers of points are kept."""
    try:
        return find()
    except FairoptError:
        return np.nan
