"""Pareto efficiency of an allocation: the largest gain of any one user while no other user runs fewer tasks.

Gains are relative to what the user runs, or to what its own slice would run where it runs nothing. On one pool a user
alone can take what is left over, so its gain is ``min_i left_i / d_ji``, cut at its limit. On several servers other
users may have to move. There a linear program maximises the sum of all gains; at its prices, judged on the data, no
user can gain more than ``left / cost_j``: what is left over at those prices, over what user j costs at least. Where
that does not settle it, one more program for each user in question does, the one that could gain most first.

What counts as a gain: certified answers are off by as much as their certificates leave open, so what a solver leaves
over is not a fault of the mechanism. But one user among a million runs on a millionth of a capacity, so no fixed part
of a capacity may count as used up. A gain counts if it is more than the proved gap leaves open (`left_open`): the gap
as a part of each capacity that is left and of each user's tasks that are badly placed, and, of alpha-fair objectives
and totals, what a user's part of them allows. A gain of more than a hundredth of what the user runs, or of what its own
slice would run, always counts. Without a gap, as in allocations made by hand, every gain counts. Only rounding does
not: the last 1e-13 of a capacity counts as used up.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.errors import NotCertified
from fairopt.instance import Instance
from fairopt.properties.uncertainty import left_open
from fairopt.properties.units import gain_units, own_units, quotient
from fairopt.runtime import subprocesses
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import optimize, sp
from fairopt.runtime.progress import tell

__all__ = ["Dominating", "dominating"]

log = logging.getLogger("fairopt")

Float = NDArray[np.float64]

PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # the least HiGHS takes
ROUNDING = 1e-13  # of a capacity, or that of sums if more: water-filling of 1e6 users left 7e-14 of a full one
ALWAYS = 0.01  # of what a user runs, or its own slice would run: more is a gain whatever the certificate leaves open
NOISE = 1e-9  # of its tasks: what a linear program at that tolerance may take from another user

Method = Literal["highs-ds", "highs-ipm"]
# Users times servers from which the interior point method comes first: 2,000 x 27 took it 1.7 s, not 6.8 as the simplex
# method did.
MANY = 10_000
# A whole capacity in the program on several servers. HiGHS drops entries below 1e-9 and lets rows be exceeded by 1e-10,
# so at 1 users of a trace of a full resource got more than is left of it: 6 of 60 leximin answers with demands over 12
# decades came out dominated, none at 1,000. There it fails more often; prices found at 1 may still prove the bound.
WHOLE, COARSE = 1e3, 1.0
INFEASIBLE = 2  # a status of linprog
STEPS = 50  # of a solver per unknown: one or two are usual, but the simplex method can cycle
MOST_WORTH = 1e3  # of a gain in the program: users who run next to nothing would outweigh the others
LOOKS = 20  # users looked at one by one after one was found to gain: the others only make the margin larger


@dataclass(frozen=True, eq=False)
class Dominating:
    """The feasible allocation in which one user gains most while no other user runs fewer tasks."""

    tasks_by_server: Float  # (n_users, n_servers); those of the allocation itself where no user can gain
    gains: dict[str, float]  # further tasks of the user who gains; empty where no user does
    margin: float  # that gain, relative to what the user runs (or its own slice would run, where it runs nothing)
    # No user can gain more than this (what the certificate of the allocation leaves open apart): in closed form on one
    # pool, from prices on several servers, without trusting the solver.
    bound: float
    others: int = 0  # further users who could gain instead: on one pool all, on several servers those that were seen


@dataclass(frozen=True)
class _GainProblem:
    """What is asked of an allocation, identical servers taken together."""

    instance: Instance  # merged
    tasks: Float  # what is to be dominated, (n_users, n_servers)
    # Units of each capacity that another allocation may use; those of them that this one leaves over; and those of the
    # latter that its certificate does not leave open: (n_servers, n_resources).
    usable: Float
    left: Float
    sure_left: Float
    sure_tasks: Float  # its tasks, less what the certificate leaves open, (n_users, n_servers)
    scale: Float  # tasks that stand for 1 in programs, (n_users,)
    unit: Float  # tasks that are a gain of 1, (n_users,)
    counts: Float  # the least gain that counts, (n_users,)
    always: Float  # a gain above this counts even if the certificate leaves it open, (n_users,)
    room: Float  # an upper bound of the gain, (n_users,)

    def counted(self, gains: Float) -> Float:
        """Gains that count; 0 for the others."""
        return np.where(gains > self.counts, gains, 0.0)


def dominating(allocation: Allocation, tol: float, clock: Clock | None = None) -> Dominating:
    """The allocation that dominates a feasible one by the largest gain of one user.

    Only tasks count, so resources that are handed out and that no user can use are free. On several servers gains up to
    ``tol`` are not looked for, ``margin`` and ``bound`` may be so far apart, and ``bound`` may stay further above a
    ``margin`` that is more than ``tol`` once 20 users were looked at one by one. `NotCertified` is raised if no
    solver's answer settles whether a user can gain more than ``tol``, unless the clock is late.
    """
    given, problem = allocation.instance, _gain_problem(allocation)
    nothing = Dominating(allocation.tasks_by_server, {}, 0.0, 0.0)
    if not (problem.room > problem.counts).any():
        return nothing
    if problem.instance.n_servers == 1:
        gains = _leftover(problem, problem.left)
        gains = problem.counted(np.where(gains > problem.always, gains, _leftover(problem, problem.sure_left)))
        user, best = int(gains.argmax()), problem.tasks.copy()
        margin = bound = float(gains[user])
        best[user, 0] += margin * problem.unit[user]
    else:
        search = _GainSearch(problem, tol, clock or Clock(None))
        search.run()
        user, best, margin, bound, gains = search.user, search.tasks, search.margin, search.bound, search.seen
    if margin == 0.0:
        return replace(nothing, bound=bound)
    tasks = best if best.shape[1] == given.n_servers else given._spread(best)
    others = int((np.delete(gains, user) > tol).sum())
    more = {given.users[user]: float(margin * problem.unit[user])}
    return Dominating(tasks, more, margin, max(bound, margin), others)


def _gain_problem(allocation: Allocation) -> _GainProblem:
    given = allocation.instance
    instance = given.merged()
    tasks = np.maximum(allocation.tasks_by_server, 0.0)
    if instance.n_servers < given.n_servers:
        tasks = given._sum_by_class(tasks)
    total = tasks.sum(axis=1)
    used, capacities = _used(instance, tasks), instance.capacities * instance.counts[:, None]
    rounding = max(ROUNDING, float(np.finfo(float).eps) * instance.n_users**0.5)
    part = instance.task_limits > 0
    scale, unit = (np.where(part, of(instance, total), 1.0) for of in (own_units, gain_units))
    most = np.minimum(instance.task_limits, instance.tasks_alone.sum(axis=1))
    left = np.where(used >= capacities * (1.0 - rounding), 0.0, capacities - used)
    open_part, open_tasks = left_open(allocation)
    always = ALWAYS * scale / unit
    return _GainProblem(
        instance,
        tasks,
        used + left,
        left,
        np.where(left <= open_part * capacities, 0.0, left),
        np.maximum(tasks - open_part * total[:, None], 0.0),
        scale,
        unit,
        np.minimum(open_tasks / unit, always),
        always,
        np.where(part, np.maximum(most - total, 0.0) / unit, 0.0),
    )


def _used(instance: Instance, tasks: Float) -> Float:
    """Units that tasks use, (n_servers, n_resources), by sums of halves: one after the other 1e6 terms lost 4e-12."""
    demands = instance.per_server_demands
    servers, resources = range(instance.n_servers), range(instance.n_resources)
    return np.array([[(demands[:, s, i] * tasks[:, s]).sum() for i in resources] for s in servers])


def _leftover(problem: _GainProblem, units: Float) -> Float:
    """Gains of users on one pool: each by itself takes what it needs of these."""
    demands = problem.instance.per_server_demands[:, 0]
    gains = problem.room.copy()
    for i, left in enumerate(units[0]):
        need = demands[:, i] * problem.unit
        np.minimum(gains, quotient(left, need, np.inf), out=gains)
    return gains


@dataclass
class _GainSearch:
    """Several servers: what users can gain at least, as found, and at most, as proved.

    ``user``, ``margin`` and ``tasks`` (n_users, n_servers) say who was found to gain most, how much, and how; ``seen``
    what each user gained while all did, and ``most`` a bound of what it can gain, both (n_users,).
    """

    problem: _GainProblem
    tol: float
    clock: Clock
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.user, self.margin, self.tasks = 0, 0.0, self.problem.tasks
        self.most: Float = self.problem.room.copy()
        self.seen: Float = np.zeros(len(self.most))
        many = int(self.problem.instance.eligible.sum()) > MANY
        self.methods: tuple[Method, ...] = ("highs-ipm", "highs-ds") if many else ("highs-ds", "highs-ipm")

    @property
    def bound(self) -> float:
        """An upper bound of the gain of every user."""
        return float(self.problem.counted(self.most).max(initial=0.0))

    def run(self) -> None:
        """Look at all users at once, then at those in question, until what is found and what is proved agree."""
        q = self.problem
        enough = np.maximum(q.counts, self.tol)
        # if each gain is divided by what is left open to its user, those of a certified answer sum to 1 at most
        worth = np.minimum(self.tol / enough * q.scale / q.unit, MOST_WORTH)
        self._look(worth, np.where(q.room > enough, q.room, 0.0), None)
        looked = 0
        while (in_question := self._in_question()).any():
            if self.clock.late or (self.margin > self.tol and looked == LOOKS):
                return
            tell("Pareto efficiency: users in question", looked, looked + int(in_question.sum()))
            user = self.user if in_question[self.user] else int(np.where(in_question, self.most, 0.0).argmax())
            one = np.arange(len(worth)) == user
            self._look(one.astype(float), np.where(one, q.room, 0.0), user)
            looked += 1
            if self._in_question()[user]:
                if self.margin > self.tol or self.clock.late:
                    return
                raise NotCertified(
                    f"whether the allocation is Pareto-efficient could not be proved: {'; '.join(self.said)}. "
                    "Fix: give check(...) a larger tol"
                )

    def _in_question(self) -> NDArray[np.bool_]:
        """Users who may gain more than was found, judging by what is proved."""
        known = self.margin + self.tol * max(self.margin, 1.0) if self.margin > self.tol else self.tol
        return self.most > np.maximum(self.problem.counts, known)

    def _look(self, worth: Float, room: Float, user: int | None) -> None:
        """Maximise a sum of gains, and take its answer as far as it fits and its prices for what they prove."""
        q = self.problem
        self.said.clear()
        for whole in (WHOLE, COARSE):
            for method in self.methods:
                if self.clock.late:
                    return
                answer = _program(q, worth, room, method, whole, self.clock)
                if isinstance(answer, str):
                    self.said.append(f"{method}: {answer}")
                    continue
                tasks, prices = answer
                self.most = np.minimum(self.most, _bounds(q, prices))
                if whole == WHOLE:
                    gains = q.counted((tasks.sum(axis=1) - q.tasks.sum(axis=1)) / q.unit)
                    if user is None:
                        self.seen = gains
                    who = int(gains.argmax()) if user is None else user
                    fitted, gain = _fitted(q, tasks, who)
                    gain = min(gain, float(self.most[who]))
                    if q.counts[who] < gain > self.margin:
                        self.user, self.margin, self.tasks = who, gain, fitted
                if user is None or not self._in_question()[user]:
                    return
                name = q.instance.users[user]
                self.said.append(f"{method}: user {name!r} gains between {self.margin:.3g} and {self.most[user]:.3g}")


def _program(
    q: _GainProblem, worth: Float, room: Float, method: Method, whole: float, clock: Clock
) -> tuple[Float, Float] | str:
    """Tasks and prices where the sum of worthy gains is largest; the tasks of every user may move.

    The unknowns are changes, so that no change at all is feasible to the last digit.
    """
    instance, n = q.instance, q.instance.n_users
    user, server = np.nonzero(instance.eligible)
    m, pairs = instance.n_resources, len(user)
    row = (server * m + np.arange(m)[:, None]).ravel()
    value = quotient(instance.per_server_demands[user, server] * q.scale[user][:, None], q.usable[server]).T.ravel()
    capacity = whole * sp.csr_array((value, (row, np.tile(np.arange(pairs), m))), shape=(q.usable.size, pairs + n))
    mine = sp.csr_array((np.ones(pairs), (user, np.arange(pairs))), shape=(n, pairs))
    left = quotient(q.left, q.usable)
    program: dict[str, Any] = {
        "c": np.concatenate([np.zeros(pairs), -worth]),
        "A_ub": capacity,
        "b_ub": whole * left.ravel(),
        "A_eq": sp.hstack([mine, -sp.eye_array(n)], format="csr"),
        "b_eq": np.zeros(n),
        "bounds": np.column_stack(
            [
                np.concatenate([-q.tasks[user, server] / q.scale[user], np.zeros(n)]),
                np.concatenate([np.full(pairs, np.inf), room * q.unit / q.scale]),
            ]
        ),
        "method": method,
    }
    for presolve in (True, False):  # presolve calls some programs infeasible, though no change at all is feasible
        options = {**PRECISE, "presolve": presolve, "maxiter": STEPS * (pairs + n), "time_limit": clock.left}
        status, message, x, multipliers = _solved(program | {"options": options}, pairs, clock)
        if status != INFEASIBLE:
            break
    if x is None or multipliers is None:
        return str(message)
    tasks = q.tasks.copy()
    tasks[user, server] = np.maximum(tasks[user, server] + x[:pairs] * q.scale[user], 0.0)
    return tasks, whole * np.maximum(-multipliers, 0.0).reshape(q.usable.shape)


def _solved(program: dict[str, Any], pairs: int, clock: Clock) -> tuple[int, str, Any, Any]:
    """Status, message, solution and multipliers of the inequalities of a linear program.

    HiGHS looks at the time between steps, of which one of its interior point method took minutes for 20,000 users on 27
    servers. So large programs are solved in a process of its own where there is a limit.
    """
    if pairs > MANY and clock.left is not None:
        try:
            answer: tuple[int, str, Any, Any] = subprocesses.solve(
                "linprog", time.perf_counter() + clock.left, **program
            )
        except subprocesses._Stopped:
            return 1, "the time limit was over", None, None
        except subprocesses._CannotSend as error:
            log.info("HiGHS is not run in a process of its own: %s", error)
        else:
            return answer
    found: Any = optimize.linprog(**program)
    return found.status, found.message, found.x, None if found.x is None else found.ineqlin.marginals


def _bounds(q: _GainProblem, prices: Float) -> Float:
    """No user can gain more than this that counts, at whatever prices of whole usable capacities.

    A scale of user j costs at least what it costs on the cheapest server. So another allocation in which no user runs
    fewer tasks costs no less than the tasks of now on their cheapest servers, and what it can spend beyond that is what
    is left over now, and what the tasks of now cost too much.
    """
    instance = q.instance
    per_unit = quotient(prices, q.usable)
    cost = np.einsum("jsi,si->js", instance.per_server_demands, per_unit) * q.scale[:, None]
    least = np.where(instance.eligible, cost, np.inf).min(axis=1)
    dear = np.divide(cost - least[:, None], q.scale[:, None], out=np.zeros(cost.shape), where=q.tasks > 0)
    gains, sure = (
        quotient(max(float((per_unit * left).sum() + (dear * tasks).sum()), 0.0), least, np.inf) * q.scale / q.unit
        for left, tasks in ((q.left, q.tasks), (q.sure_left, q.sure_tasks))
    )
    return np.where(gains > q.always, gains, sure)


def _fitted(q: _GainProblem, tasks: Float, user: int) -> tuple[Float, float]:
    """What fits of a user's tasks beside all others, who run as much as before but for noise, and the user's gain."""
    before, total = q.tasks.sum(axis=1), tasks.sum(axis=1)
    others = tasks * quotient(before, total, 1.0)[:, None]
    others = np.where(total[:, None] > 0, others, q.tasks)  # programs lose users who run next to nothing
    others[user] = 0.0
    demands = q.instance.per_server_demands
    used = np.einsum("jsi,js->si", demands, others)
    load = quotient(used, q.usable).max(axis=1, initial=1.0)
    if load.max() > 1.0 + NOISE:
        return q.tasks, 0.0
    others /= load
    left = np.maximum(q.usable - used / load[:, None], 0.0)
    fits = quotient(left, demands[user], np.inf).min(axis=1)
    mine = np.minimum(tasks[user], fits)
    most = max(float(q.instance.task_limits[user]), float(before[user]))
    others[user] = mine * (most / mine.sum()) if mine.sum() > most else mine
    return others, float((others[user].sum() - before[user]) / q.unit[user])
