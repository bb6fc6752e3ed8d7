"""Alpha-fairness and max-min on several different servers, by prices per server and resource (math.md section 4).

Tasks and prices come from Newton's method on a softened minimum over servers (`soft_minimum`). The bound that judges
them uses the true minimum and nothing else of the method: at any prices, no allocation is worth more. It is the bound
of `lagrangian`, evaluated in chunks of users, without a matrix of all pairs.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import boxcox

from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import MaxMin
from fairopt.certificate import Try
from fairopt.routes import certify
from fairopt.routes.cone import Answer, Settings
from fairopt.routes.program import Program
from fairopt.routes.server_demands import demands_of
from fairopt.routes.soft_minimum import Interior
from fairopt.telling import tell

__all__ = ["applies", "solve"]

Float = NDArray[np.floating[Any]]

# From 0.05 to 5 all of 214 random instances (1 to 200 users, 2 to 7 servers, weights, limits, demands over up to four
# decades) were certified, at 10 all but 1, at 20 all but 25; at 0.01 and 100 most of those over four decades were not.
# What a user alone could still have more is 4e-8 at 2, 6e-5 at 5, and 7% at 10, so beyond 5 it is not for this route.
SMALLEST_ALPHA, LARGEST_ALPHA = 0.05, 5.0
LARGEST_SYSTEM = 3000  # users or prices, whichever are fewer: beyond, factoring a dense system takes seconds a step
STEPS = 100  # 7 to 10 are typical; at alpha = 0.05 a tenth of those over four decades took more than 60
DONE = 1e-8  # one more step would give about 1e-10
EACH = 1e-4  # of what a user pays; without, one of 148 random answers at alpha = 5 let a user have 43% more unused


def applies(program: Program) -> bool:
    """Whether this route is for the program.

    Parameters
    ----------
    program : Program
        What to solve.

    Returns
    -------
    bool
        True for `AlphaFair` (alpha from 0.05 to 5), its edge of `FairnessEfficiency`, and `MaxMin`, on several
        different servers without lower bounds or conditions that link users, if everybody can run something. Where
        shares differ by server, task limits are no limits on shares: then it is for instances without them.
    """
    objective, instance = program.objective, program.instance
    if program.empty or instance.n_servers == 1 or program.rest or (program.low > 0).any():
        return False
    edge = program.alpha_fair
    if not (isinstance(objective, MaxMin) if edge is None else SMALLEST_ALPHA <= edge.alpha <= LARGEST_ALPHA):
        return False
    unknowns = min(instance.n_users, instance.n_servers * instance.n_resources)
    if unknowns > LARGEST_SYSTEM or not (program.most > 0).all():
        return False
    (share,) = objective.share_blocks()
    return share.coefficients(instance).ndim == 1 or not np.isfinite(program.high).any()


def solve(program: Program, settings: Settings) -> Answer:
    """Solve a program that `applies` accepts.

    Parameters
    ----------
    program : Program
        What to solve.
    settings : Settings
        Only the deadline matters here.

    Returns
    -------
    Answer
        The caller looks at ``ok``: the steps may not have led there, or the time was up.

    Notes
    -----
    About 130 bytes of memory per pair of a user and a server, and 7 to 10 steps where numbers are ordinary: on 100,000
    users and 27 servers 1 s and 0.5 GB. Many servers and few users cost no more than many users and few servers: 200
    users on 2,000 servers take 0.2 s, and 1 s where demands differ by server.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.routes.cone import Settings
    >>> from fairopt.routes.program import Program
    >>> cluster = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])
    >>> answer = solve(Program(cluster, fo.MaxMin(), ()), Settings())
    >>> answer.ok, answer.tasks.round(4)
    (True, array([10.,  0.,  0., 10.]))
    """
    begun = time.perf_counter()
    with np.errstate(all="ignore"):  # what is no number stops the steps, and is judged like the rest
        question = _InLevels(program)
        point = question.start()
        for k in range(STEPS):
            tell(f"prices, step {k + 1}")
            if point.done(DONE, EACH) or settings.late or not point.step():
                break
        answer = question.judged(point)
    status = "solved" if answer.ok else "time limit reached" if settings.late else "no certified prices"
    tried = Try("prices", status, time.perf_counter() - begun, answer.gap, answer.violation)
    return replace(answer, tried=(tried,))


class _InLevels:
    """A program in units of level (share per weight, as a multiple of about the max-min level): numbers near 1."""

    def __init__(self, program: Program) -> None:
        self.program = program
        instance, objective = program.instance, program.objective
        self.alpha_fair = program.alpha_fair
        (share,) = objective.share_blocks()
        c = share.coefficients(instance)
        self.unit = Point(instance, np.zeros((0, 0))).level(share)
        self.per_level = instance.weights[:, None] * (self.unit / (c if c.ndim == 2 else c[:, None]))
        self.eligible = instance.eligible
        closed = program.usable <= 0
        if closed.any():
            self.eligible = self.eligible & ~(instance.per_server_demands[:, :, closed] > 0).any(axis=2)
        capacities = instance.capacities * instance.counts[:, None]
        self.demands = demands_of(instance.demands, capacities, self.per_level, self.eligible)
        self.needed = self.demands.all_loads(self.eligible.astype(float)) > 0
        self.usable = np.where(self.needed, program.usable[:, None], 1.0)
        if c.ndim == 1:
            self.limits, self.reach = program.high / self.per_level[:, 0], program.most / self.per_level[:, 0]
        else:
            self.limits = np.full(instance.n_users, np.inf)
            self.reach = (instance.tasks_alone_within(program.usable) / self.per_level).sum(axis=1)

    def start(self) -> Interior:
        """Where the steps begin."""
        if self.alpha_fair is None:
            return Interior(self.demands, self.usable, np.ones(1), 1.0, self.limits.min(keepdims=True))
        weights = self.program.instance.weights
        return Interior(self.demands, self.usable, weights / weights.sum(), self.alpha_fair.alpha, self.limits)

    def judged(self, at: Interior) -> Answer:
        """The tasks, made feasible, with their certificate."""
        program = self.program
        load = (at.used / self.usable).max(axis=0)
        room = np.where(load > 1 - 1e-13, (1 - 1e-13) / load, 1.0)  # below one by more than sums are rounded
        tasks = at.parts * np.where(self.eligible, room, 0.0) * self.per_level
        total = tasks.sum(axis=1)
        tasks *= np.where(total >= program.high, program.high * (1 - 1e-15) / total, 1.0)[:, None]
        prices = np.where(self.needed, at.prices, 0.0)
        point = Point(program.instance, tasks)
        gap, prices = self._max_min_gap(prices, point) if self.alpha_fair is None else self._gap(prices, point)
        by_pair = tasks[program.pairs.user, program.pairs.server]
        violation = certify.measured_violation(program, by_pair)
        return Answer(by_pair, max(gap, 0.0) if np.isfinite(gap) else np.inf, violation, "prices", prices.T.ravel())

    def _max_min_gap(self, prices: Float, point: Point) -> tuple[float, Float]:
        """Gap and natural prices: at a common level users pay in all what it costs, and capacities bring in no less."""
        objective = self.program.objective
        per_level = float(self.demands.cheapest(prices).sum())
        bound, limit = float((self.usable * prices).sum()) / per_level, float(self.limits.min())
        natural = prices * (self.unit / per_level) if bound < limit else np.zeros_like(prices)
        return objective.relative_gap(self.unit * min(bound, limit), objective.value(point), point), natural

    def _gap(self, prices: Float, point: Point) -> tuple[float, Float]:
        """Gap and natural prices by weak duality: every user picks its best level at its cheapest server's cost."""
        objective, edge = self.program.objective, self.alpha_fair
        assert edge is not None
        alpha, weights = edge.alpha, point.weights / point.weights.sum()
        cheapest = self.demands.cheapest(prices)
        levels = np.minimum((weights / cheapest) ** (1.0 / alpha), self.reach)
        worth = float((weights * boxcox(levels, 1.0 - alpha)).sum()) - float(cheapest @ levels)
        majorant = edge.majorant(point)
        bound, value = worth + float((self.usable * prices).sum()), majorant.value(point)
        slope = majorant.unit
        if isinstance(objective, FairnessEfficiency):
            slope *= objective.of_alpha_fair(edge.value(point))[1]
        return 0.0 if bound <= value else edge.relative_gap(bound, value, point), prices * slope
