"""The points of a frontier, solved in one or several processes, each from the prices of the previous one."""

from __future__ import annotations

import inspect
import multiprocessing
import pickle
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import only_term
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import FairoptError, InvalidBlock, NotCertified
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.metrics import f_beta
from fairopt.policies.dominant import DRF
from fairopt.policies.tradeoff import MostTasks
from fairopt.policy import Policy, label
from fairopt.runtime import subprocesses
from fairopt.runtime.clock import Clock, Late
from fairopt.runtime.tolerances import GAP_TOLERANCE
from fairopt.solve import dispatch
from fairopt.tradeoff.price_of_fairness import price_bound

Point: TypeAlias = tuple[int, dict[str, Any], Any]  # index in the grid, parameters, mechanism
Row: TypeAlias = dict[str, Any]  # `MEASURES`, `TEXTS` and "tasks_by_user", or "error" alone

MEASURES = ("fairness", "efficiency", "tasks", "jain", "f_beta", "price_of_fairness", "price_bound", "gap")
TEXTS = ("method", "error", "note", "dominated")
MOST_POINTS = 16  # per message to a process; the first of them has no initial prices


class Standard:
    """The reference values of the measures on one instance; NaN without a certified answer."""

    def __init__(self, instance: Instance, clock: Clock) -> None:
        self.instance, self.clock = instance, clock
        self._taking_part = taking_part(instance, instance.task_limits > 0)
        self._largest_sums: dict[Share, float] = {}
        self._missing: list[str] = []  # why measures are NaN
        fairest, most = self._answer(DRF()), self._answer(MostTasks())
        self._level = fairest.metrics()["smallest_dominant_share"] if fairest else np.nan
        self._most = float(most.tasks.sum()) if most else np.nan
        self.drf: Row = {}
        if fairest:
            with suppress(Late):  # no point is solved then
                self.drf = self.row(DRF(), fairest)

    def _answer(self, policy: Policy) -> Allocation | None:
        try:
            return policy.allocate(self.instance, time_limit=self.clock.left)
        except FairoptError as error:
            self._missing.append(f"measures relative to {label(policy)} are NaN: {type(error).__name__}: {error}")
            return None

    def row(self, mechanism: Any, allocation: Allocation) -> Row:
        """The measures of an answer."""
        found, shares = allocation.metrics(), allocation.shares
        objective = getattr(mechanism, "objective", None)
        blocks = () if objective is None else objective.share_blocks()
        term = only_term(objective)
        beta = (0.0 if term is None else term.measure.beta if term.measure is not None else term.alpha) or 0.0
        who = allocation._measured
        measured = beta not in (0, 1) and shares[who].any()
        even = f_beta(shares[who], beta, self.instance.weights[who]) if measured else np.nan
        bound, certified = price_bound(mechanism, self._taking_part), allocation.certificate.note
        price = 1 - _ratio(shares.sum(), self._largest_sum(blocks[0] if blocks else DominantShare()))
        notes = [*self._missing, *([bound] if isinstance(bound, str) else [])]
        return {
            "fairness": 100 * _ratio(found["smallest_dominant_share"], self._level),
            "efficiency": 100 * _ratio(found["ntt"], self._most),
            "tasks": found["ntt"],
            "jain": found["jain"],
            "f_beta": even,
            "price_of_fairness": 0.0 if abs(price) <= GAP_TOLERANCE else price,
            "price_bound": np.nan if isinstance(bound, str) else bound,
            "gap": allocation.certificate.gap,
            "method": allocation.certificate.method,
            "note": "; ".join(notes) or None,
            "dominated": certified if certified.startswith("Pareto-dominated") else None,
            "tasks_by_user": allocation.tasks,
        }

    def _largest_sum(self, share: Share) -> float:
        if share not in self._largest_sums:
            most = self._answer(Policy(Total(share)))
            if most is None and self.clock.late:
                raise Late
            self._largest_sums[share] = float(most.shares.sum()) if most else np.nan
        return self._largest_sums[share]


def failed(error: FairoptError) -> Row:
    """The row of a point without an answer."""
    return {"error": f"{type(error).__name__}: {error}"}


def solve(standard: Standard, points: Sequence[Point]) -> Iterator[tuple[int, Row]]:
    """The rows of points, until the clock of the sweep is late."""
    prices, clock = None, standard.clock
    for place, parameters, mechanism in points:
        if standard.clock.late:
            return
        try:
            if type(mechanism).allocate is Policy.allocate:
                allocation = dispatch.allocate(mechanism, standard.instance, start=prices, time_limit=clock.left)
                prices = allocation.evidence_prices
            else:
                limited = clock.left is not None and "time_limit" in inspect.signature(mechanism.allocate).parameters
                options = {"time_limit": clock.left} if limited else {}
                allocation = mechanism.allocate(standard.instance, **options)
            row = standard.row(mechanism, allocation)
        except Late:
            return
        except FairoptError as error:
            if isinstance(error, NotCertified) and clock.late:
                return
            row = failed(error)
        except Exception as error:  # of a user's mechanism
            error.add_note(f"at the point {parameters} of the frontier")
            raise
        yield place, row


def solve_in_processes(standard: Standard, points: Sequence[Point], processes: int) -> Iterator[tuple[int, Row]]:
    """The rows of points as they come, from several processes, which are killed when the iterator ends."""
    try:
        pickle.dumps(points)
    except Exception as error:
        fix = "define their classes and functions by name at the top of a module, or leave processes at 1"
        raise InvalidBlock(f"the mechanisms cannot be sent to other processes ({error}); {fix}") from error
    size = min(MOST_POINTS, len(points) // (4 * processes) + 1)
    parts = [points[k : k + size] for k in range(0, len(points), size)][::-1]
    with _workers(standard, min(processes, len(parts))) as busy:
        for connection in busy:
            connection.send(parts.pop())
        while busy and not standard.clock.late:
            for ready in wait(busy, standard.clock.left):
                assert isinstance(ready, Connection)
                try:
                    message = ready.recv()
                except EOFError as error:
                    raise RuntimeError(
                        "a process of the frontier was ended from outside, perhaps for want of memory; give fewer "
                        "processes"
                    ) from error
                if isinstance(message, BaseException):
                    raise message
                if message is not None:
                    yield message
                elif parts:
                    ready.send(parts.pop())
                else:
                    busy.remove(ready)


@contextmanager
def _workers(standard: Standard, number: int) -> Iterator[list[Connection]]:
    """Connections to processes that run `_work`, until the end of the block."""
    connections, started = [], []
    try:
        with subprocesses.without_sigint():
            for _ in range(number):
                ours, theirs = multiprocessing.Pipe()
                process = multiprocessing.Process(target=_work, args=(theirs, standard), daemon=True)
                process.start()
                started.append(process)
                connections.append(ours)
                theirs.close()
        yield connections[:]
    finally:
        for process in started:
            process.kill()
        for process, connection in zip(started, connections, strict=False):
            process.join()
            connection.close()


def _work(connection: Connection, standard: Standard) -> None:
    """Receive points and send their rows, then None, or an exception, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent
    standard.clock = Clock(None)  # the parent checks its own
    parent = multiprocessing.parent_process()
    assert parent is not None
    while connection in wait([connection, parent.sentinel]):
        try:
            for row in solve(standard, connection.recv()):
                connection.send(row)
            connection.send(None)
        except Exception as error:
            try:
                connection.send(error)
            except Exception:  # of a class that cannot be pickled
                connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _ratio(value: float, most: float) -> float:
    """``value / most``; if ``most`` is 0, 1 for 0 and NaN otherwise."""
    return value / most if most > 0 else 1.0 if value == most else np.nan
