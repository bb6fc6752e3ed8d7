"""Pareto efficiency of an allocation: the largest gain of one user while no other user runs fewer tasks.

Where tasks are worth more on some servers than on others, as judged by a share, gains and losses are of work.

On one pool the gain has a closed form (docs/methods/checks.md, Proposition 11.2). On several servers a linear program
maximises the sum of all gains, and its dual prices bound the gain of each user (Bound 11.3); users whom this leaves
undecided get a program each.

Of a policy with constraints a gain counts only within them (`within`). Whoever cannot gain without them cannot gain
within them, so the program of the policy's constraints is solved only if somebody can.

A gain counts if it exceeds what the certificate's gap leaves open (`left_open`), or a hundredth of the user's tasks or
of those on its own slice. Without a gap every gain beyond rounding counts.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.shares import Share, Tasks
from fairopt.errors import Infeasible, NotCertified
from fairopt.instance import Instance
from fairopt.properties.uncertainty import left_open
from fairopt.properties.units import gain_units, own_units, quotient
from fairopt.properties.within import constraints_of, most_gains
from fairopt.properties.work import Work
from fairopt.runtime import subprocesses
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import optimize, sp
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import BLOCK_TOLERANCE, EPS, NOISE, SUM_ROUNDING
from fairopt.solve.form.program import servers_symmetric

log = logging.getLogger("fairopt")


PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # the smallest of HiGHS
ALWAYS = 0.01  # of the user's tasks, or of those on its own slice: a larger gain counts whatever the gap

Method = Literal["highs-ds", "highs-ipm"]
MANY = 10_000  # users times servers from which interior points come first: 1.7 s against 6.8 s for 2,000 x 27
# Capacities in the program on several servers. HiGHS drops entries below 1e-9 and lets rows be exceeded by 1e-10: at a
# scale of 1, 6 of 60 leximin answers with demands over 12 decades came out dominated, none at 1,000. HiGHS fails more
# often at 1,000; prices found at 1 may still prove the bound.
FINE, COARSE = 1e3, 1.0
INFEASIBLE = 2  # a status of linprog
STEPS = 50  # iterations per unknown: one or two are usual, but the simplex method can cycle
MOST_WEIGHT = 1e3  # of a gain in the program, where users with next to no tasks would outweigh the others
LOOKS = 20  # programs of single users after a gain was found: others only raise the margin


@dataclass(frozen=True, eq=False)
class Dominating:
    """The feasible allocation in which one user gains most while no other user runs fewer tasks."""

    tasks_by_server: Float  # (n_users, n_servers); the allocation itself where no user can gain
    gains: dict[str, float]  # further tasks, or work, of the user who gains; empty if none does
    margin: float  # that gain relative to the user's tasks, or to those on its own slice if it runs nothing
    bound: float  # no user can gain more, apart from what the gap leaves open; proved without trusting a solver
    others: int = 0  # further users who could gain instead: on one pool all, on several servers those found
    assumed: str = ""  # an unproved assumption of ``bound``, as in `Certificate`


@dataclass(frozen=True)
class _GainProblem:
    """The data of the search for a dominating allocation; identical servers are merged.

    ``worth`` is what a task counts, 1 unless gains are of work. ``limited`` are users whose task limit is a row of its
    own, since it does not bound their gain.
    """

    instance: Instance  # merged
    tasks: Float  # (n_users, n_servers)
    worth: Float  # (n_users, n_servers)
    runs: Float  # tasks, or work, (n_users,)
    limited: Indices
    usable: Float  # units that a dominating allocation may use, (n_servers, n_resources)
    left: Float  # units that the allocation leaves over, (n_servers, n_resources)
    spare: Float  # parts of task limits that the allocation leaves over, (n_limited,)
    open_part: float  # the part of a capacity or limit that the gap leaves open
    sure_tasks: Float  # tasks less what the gap leaves open, (n_users, n_servers)
    scale: Float  # tasks that are 1 in programs, (n_users,)
    size: Float  # gains that are 1 in programs, (n_users,)
    unit: Float  # tasks, or work, that are a gain of 1, (n_users,)
    counts: Float  # the smallest gain that counts, (n_users,)
    always: Float  # gains above this count whatever the gap, (n_users,)
    room: Float  # an upper bound on the gain, (n_users,)

    @property
    def sure_left(self) -> Float:
        """Units left over, 0 where the gap leaves them open."""
        capacities = self.instance.capacities * self.instance.counts[:, None]
        return np.where(self.left <= self.open_part * capacities, 0.0, self.left)

    def counted(self, gains: Float) -> Float:
        """Gains that count; 0 for the others."""
        return np.where(gains > self.counts, gains, 0.0)


def dominating(allocation: Allocation, tol: float, clock: Clock | None = None, work: Work | None = None) -> Dominating:
    """The allocation that dominates a feasible one by the largest gain of one user, in tasks or in ``work``.

    Only tasks count, not bundles, and only within the policy's constraints. On several servers, and under constraints,
    ``margin`` and ``bound`` agree to ``tol``, or ``margin`` exceeds ``tol`` and 20 users were tried alone.
    `NotCertified` is raised if no solver settles whether a user can gain more than ``tol``, unless the clock is late.
    """
    clock = clock or Clock(None)
    over_all = _dominating(allocation, tol, clock, work, within=False)
    if max(over_all.margin, over_all.bound) <= tol or not constraints_of(allocation.policy, allocation.instance):
        return over_all
    return _dominating(allocation, tol, clock, work, within=True)


def _dominating(allocation: Allocation, tol: float, clock: Clock, work: Work | None, within: bool) -> Dominating:
    """The same ``within`` the constraints of the policy, or without them."""
    given, problem = allocation.instance, _gain_problem(allocation, work, merge=not within)
    if not within and not (problem.room > problem.counts).any():
        return Dominating(allocation.tasks_by_server, {}, 0.0, 0.0)
    search = _GainSearch(problem, tol, clock)
    if within:
        search = _SearchWithin(problem, tol, clock, allocation, Tasks() if work is None else work.share)
    if problem.instance.n_servers > 1 or within:
        search.run()
    else:
        search.on_pool()
    user, margin = search.user, search.margin
    if margin == 0.0:
        return Dominating(allocation.tasks_by_server, {}, 0.0, search.bound, assumed=search.assumed)
    tasks = search.tasks if search.tasks.shape[1] == given.n_servers else given.derived.spread(search.tasks)
    others = int((np.delete(search.seen, user) > tol).sum())
    more = {given.users[user]: float(margin * problem.unit[user])}
    return Dominating(tasks, more, margin, max(search.bound, margin), others, search.assumed)


def _gain_problem(allocation: Allocation, work: Work | None, merge: bool = True) -> _GainProblem:
    given = instance = allocation.instance
    if merge and (work is None or servers_symmetric(given, (work.share,))):
        instance = given.merged()
    tasks = np.maximum(allocation.tasks_by_server, 0.0)
    if instance.n_servers < given.n_servers:
        tasks = given.derived.sum_by_class(tasks)
        first = np.unique(given.derived.server_classes, return_index=True)[1]
        work = None if work is None else work.on(instance, first)
    total, slices, limits = tasks.sum(axis=1), instance.own_slices, instance.task_limits
    part = limits > 0
    scale = np.where(part, own_units(slices, total), 1.0)
    if work is None:
        worth, runs, limited = np.broadcast_to(1.0, tasks.shape), total, np.zeros(0, dtype=np.intp)
        most = np.minimum(limits, instance.tasks_alone.sum(axis=1))
    else:
        worth, runs, limited = work.per_task, work.of(tasks), np.flatnonzero(work.limited & part)
        most, slices = work.alone, work.slices
        part = part & (slices > 0)  # others have no share, whatever they run
    size, unit = (np.where(part, of(slices, runs), 1.0) for of in (own_units, gain_units))
    used, capacities = _used(instance, tasks), instance.capacities * instance.counts[:, None]
    rounding = max(SUM_ROUNDING, EPS * instance.n_users**0.5)
    left = np.where(used >= capacities * (1.0 - rounding), 0.0, capacities - used)
    spare = 1.0 - total[limited] / limits[limited]
    open_part, relative = left_open(allocation, None if work is None else work.share)
    always = ALWAYS * size / unit
    return _GainProblem(
        instance,
        tasks,
        worth,
        runs,
        limited,
        used + left,
        left,
        np.where(spare <= rounding, 0.0, spare),
        open_part,
        np.maximum(tasks - open_part * total[:, None], 0.0),
        scale,
        size,
        unit,
        np.minimum(relative * runs / unit, always),
        always,
        np.where(part, np.maximum(most - runs, 0.0) / unit, 0.0),
    )


def _used(instance: Instance, tasks: Float) -> Float:
    """Units that tasks use, (n_servers, n_resources); pairwise sums, since `einsum` lost 4e-12 on 1e6 terms."""
    demands = instance.per_server_demands
    servers, resources = range(instance.n_servers), range(instance.n_resources)
    return np.array([[(demands[:, s, i] * tasks[:, s]).sum() for i in resources] for s in servers])


def _leftover(problem: _GainProblem, units: Float) -> Float:
    """Gains on one pool if each user alone takes what is left over."""
    demands = problem.instance.per_server_demands[:, 0]
    gains = problem.room.copy()
    for i, left in enumerate(units[0]):
        need = demands[:, i] * problem.unit
        np.minimum(gains, quotient(left, need, np.inf), out=gains)
    return gains


@dataclass
class _GainSearch:
    """The largest gain found on several servers, and bounds on all gains.

    ``user``, ``margin`` and ``tasks`` (n_users, n_servers) are the best gain found; ``seen`` (n_users,) are the gains
    in the first program, and ``most`` (n_users,) proved bounds.
    """

    problem: _GainProblem
    tol: float
    clock: Clock

    def __post_init__(self) -> None:
        self.messages: list[str] = []
        self.assumed = ""  # an unproved assumption of the bounds
        self.user, self.margin, self.tasks = 0, 0.0, self.problem.tasks
        self.most: Float = self.problem.room.copy()
        self.seen: Float = np.zeros(len(self.most))
        many = int(self.problem.instance.eligible.sum()) > MANY
        self.methods: tuple[Method, ...] = ("highs-ipm", "highs-ds") if many else ("highs-ds", "highs-ipm")

    @property
    def bound(self) -> float:
        """An upper bound on the gain of every user."""
        return float(self.problem.counted(self.most).max(initial=0.0))

    def on_pool(self) -> None:
        """The gains on one pool, where each user alone takes what is left over."""
        q = self.problem
        gains = _leftover(q, q.left)
        gains = q.counted(np.where(gains > q.always, gains, _leftover(q, q.sure_left)))
        self.seen, self.user, self.most = gains, int(gains.argmax()), gains
        self.margin, self.tasks = float(gains[self.user]), q.tasks.copy()
        self.tasks[self.user, 0] += self.margin * q.unit[self.user]

    def run(self) -> None:
        """Solve for all users at once, then for undecided ones alone, until gains and bounds agree."""
        q = self.problem
        enough = np.maximum(q.counts, self.tol)
        # gains of a certified answer, each over what the gap leaves open to its user, sum to at most 1
        gain_weights = np.minimum(self.tol / enough * q.size / q.unit, MOST_WEIGHT)
        self._look(gain_weights, np.where(q.room > enough, q.room, 0.0), None)
        looked = 0
        while (in_question := self._in_question()).any():
            if self.clock.late or (self.margin > self.tol and looked == LOOKS):
                return
            tell("Pareto efficiency: users in question", looked, looked + int(in_question.sum()))
            user = self.user if in_question[self.user] else int(np.where(in_question, self.most, 0.0).argmax())
            one = np.arange(len(gain_weights)) == user
            self._look(one.astype(float), np.where(one, q.room, 0.0), user)
            looked += 1
            if self._in_question()[user]:
                if self.margin > self.tol or self.clock.late:
                    return
                raise NotCertified(
                    f"whether the allocation is Pareto-efficient could not be proved: {'; '.join(self.messages)}. "
                    "Fix: give check(...) a larger tol"
                )

    def _in_question(self) -> Bool:
        """Users whose bounds exceed the gain that was found."""
        known = self.margin + self.tol * max(self.margin, 1.0) if self.margin > self.tol else self.tol
        return self.most > np.maximum(self.problem.counts, known)

    def _look(self, gain_weights: Float, room: Float, user: int | None) -> None:
        """Maximise a weighted sum of gains; its repaired answer gives a gain, and its dual prices give bounds."""
        q = self.problem
        self.messages.clear()
        for unit in (FINE, COARSE):
            for method in self.methods:
                if self.clock.late:
                    return
                answer = _program(q, gain_weights, room, method, unit, self.clock)
                if isinstance(answer, str):
                    self.messages.append(f"{method}: {answer}")
                    continue
                tasks, multipliers = answer
                self.most = np.minimum(self.most, _bounds(q, multipliers))
                if unit == FINE:
                    gains = q.counted(((q.worth * tasks).sum(axis=1) - q.runs) / q.unit)
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
                between = f"user {name!r} gains between {self.margin:.3g} and {self.most[user]:.3g}"
                self.messages.append(f"{method}: {between}")


@dataclass
class _SearchWithin(_GainSearch):
    """The same within the constraints of the policy: programs are policies, with certified answers."""

    allocation: Allocation
    share: Share  # by which users compare

    def _look(self, gain_weights: Float, room: Float, user: int | None) -> None:
        q = self.problem
        self.messages.clear()
        factors = np.where(room > 0, gain_weights / q.size, 0.0)
        if self.clock.late or not factors.any():
            return
        try:
            answer, bounds = most_gains(self.allocation, self.share, q.runs, factors, self.clock.left)
        except Infeasible:  # the constraints hold in the answer within their tolerance, and nowhere beyond it
            self.most = np.zeros_like(self.most)
            return
        except NotCertified as error:
            self.messages.append(str(error))
            return
        self.most, self.assumed = np.minimum(self.most, bounds / q.unit), answer.certificate.assumed or self.assumed
        tasks = np.asarray(answer.tasks_by_server)
        has = (q.worth * tasks).sum(axis=1)
        gains = q.counted((has - q.runs) / q.unit)
        if user is None:
            self.seen = gains
        who = int(gains.argmax()) if user is None else user
        gain = min(float(gains[who]), float(self.most[who]))
        if (has < q.runs * (1.0 - BLOCK_TOLERANCE)).any():
            self.messages.append("another user loses by rounding")
        elif gain > self.margin:
            self.user, self.margin, self.tasks = who, gain, tasks


def _program(
    q: _GainProblem, gain_weights: Float, room: Float, method: Method, unit: float, clock: Clock
) -> tuple[Float, Float] | str:
    """Tasks and multipliers that maximise the weighted sum of gains, or the solver's message.

    Multipliers are of capacities, then of the rows of task limits.

    The unknowns are changes of tasks, so that zero is exactly feasible.
    """
    instance, n = q.instance, q.instance.n_users
    user, server = np.nonzero(instance.eligible)
    m, pairs = instance.n_resources, len(user)
    row = (server * m + np.arange(m)[:, None]).ravel()
    value = quotient(instance.per_server_demands[user, server] * q.scale[user][:, None], q.usable[server]).T.ravel()
    rows = sp.csr_array((value, (row, np.tile(np.arange(pairs), m))), shape=(q.usable.size, pairs + n))
    own = quotient(q.worth[user, server] * q.scale[user], q.size[user])
    mine = sp.csr_array((own, (user, np.arange(pairs))), shape=(n, pairs))
    left = quotient(q.left, q.usable).ravel()
    if len(q.limited):
        parts = quotient(q.scale[user], instance.task_limits[user])
        of_limits = sp.csr_array((parts, (user, np.arange(pairs))), shape=(n, pairs + n))[q.limited]
        rows, left = sp.vstack([rows, of_limits], format="csr"), np.append(left, q.spare)
    program: dict[str, Any] = {
        "c": np.concatenate([np.zeros(pairs), -gain_weights]),
        "A_ub": unit * rows,
        "b_ub": unit * left,
        "A_eq": sp.hstack([mine, -sp.eye_array(n)], format="csr"),
        "b_eq": np.zeros(n),
        "bounds": np.column_stack(
            [
                np.concatenate([-q.tasks[user, server] / q.scale[user], np.zeros(n)]),
                np.concatenate([np.full(pairs, np.inf), room * q.unit / q.size]),
            ]
        ),
        "method": method,
    }
    for presolve in (True, False):  # presolve calls some feasible programs infeasible
        options = {**PRECISE, "presolve": presolve, "maxiter": STEPS * (pairs + n), "time_limit": clock.left}
        status, message, x, multipliers = _solved(program | {"options": options}, pairs, clock)
        if status != INFEASIBLE:
            break
    if x is None or multipliers is None:
        return str(message)
    tasks = q.tasks.copy()
    tasks[user, server] = np.maximum(tasks[user, server] + x[:pairs] * q.scale[user], 0.0)
    return tasks, unit * np.maximum(-multipliers, 0.0)


def _solved(program: dict[str, Any], pairs: int, clock: Clock) -> tuple[int, str, Any, Any]:
    """Status, message, solution and inequality multipliers of a linear program.

    HiGHS checks the time between iterations; one interior-point iteration took minutes for 20,000 users on 27 servers.
    So large programs with a time limit run in a subprocess.
    """
    if pairs > MANY and clock.left is not None:
        try:
            answer: tuple[int, str, Any, Any] = subprocesses.solve(
                "linprog", time.perf_counter() + clock.left, **program
            )
        except subprocesses._Stopped:
            return 1, "the time limit was over", None, None
        except subprocesses._CannotSend as error:
            log.info("HiGHS is not run in a subprocess: %s", error)
        else:
            return answer
    solution: Any = optimize.linprog(**program)
    return solution.status, solution.message, solution.x, None if solution.x is None else solution.ineqlin.marginals


def _bounds(q: _GainProblem, multipliers: Float) -> Float:
    """Upper bounds on gains that count, at any multipliers of rows (docs/methods/checks.md, Bound 11.3)."""
    instance, of_limits = q.instance, multipliers[q.usable.size :]
    per_unit = quotient(multipliers[: q.usable.size].reshape(q.usable.shape), q.usable)
    cost = np.einsum("jsi,si->js", instance.per_server_demands, per_unit)
    cost[q.limited] += (of_limits / instance.task_limits[q.limited])[:, None]
    each = quotient(cost, q.worth)  # per unit of gain, where there is any
    least = np.where(instance.eligible & (q.worth > 0), each, np.inf).min(axis=1)
    above = np.where(q.worth > 0, q.worth * (each - np.where(least < np.inf, least, 0.0)[:, None]), cost)
    reduced = np.where(q.tasks > 0, above, 0.0)
    sure_spare = np.where(q.spare <= q.open_part, 0.0, q.spare)
    gains, sure = (
        quotient(max(float((per_unit * left).sum() + of_limits @ spare + (reduced * tasks).sum()), 0.0), least, np.inf)
        / q.unit
        for left, spare, tasks in ((q.left, q.spare, q.tasks), (q.sure_left, sure_spare, q.sure_tasks))
    )
    return np.where(gains > q.always, gains, sure)


def _fitted(q: _GainProblem, tasks: Float, user: int) -> tuple[Float, float]:
    """Tasks repaired to be feasible while all other users have as much as before, and the user's gain."""
    before, total = q.runs, (q.worth * tasks).sum(axis=1)
    others = tasks * quotient(before, total, 1.0)[:, None]
    dropped = (total == 0) & (before > 0)  # users with next to no tasks, by the program
    others = np.where(dropped[:, None], q.tasks, others)
    others[user] = 0.0
    demands = q.instance.per_server_demands
    used = np.einsum("jsi,js->si", demands, others)
    load = quotient(used, q.usable).max(axis=1, initial=1.0)
    limits = np.maximum(q.instance.task_limits, q.tasks.sum(axis=1))
    if load.max() > 1.0 + NOISE or (others.sum(axis=1) > limits * (1.0 + NOISE)).any():
        return q.tasks, 0.0
    others /= load
    left = np.maximum(q.usable - used / load[:, None], 0.0)
    fits = quotient(left, demands[user], np.inf).min(axis=1)
    mine = np.minimum(tasks[user], fits)
    others[user] = mine * (limits[user] / mine.sum()) if mine.sum() > limits[user] else mine
    return others, float(((q.worth[user] * others[user]).sum() - before[user]) / q.unit[user])
