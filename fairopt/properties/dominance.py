"""Pareto efficiency of an allocation: a linear program, its answer judged on the data, and the proof from its prices.

With ``u_j`` what user j runs, or what its own slice would run if that is more, the program maximises the weighted mean
of the gains ``(y_j - x_j) / u_j`` over all feasible y with ``y_j >= x_j``. The mean is what certificates bound: one
user out of n may gain n times what a solver left over of a capacity, but not the mean. For the same reason the last
``tol`` of a capacity counts as used up, and a user who needs a resource that is used up gains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairopt.allocation import Allocation
from fairopt.errors import NotCertified
from fairopt.instance import Instance
from fairopt.properties.units import own_units

__all__ = ["Dominating", "dominating"]

Float = NDArray[np.floating[Any]]

PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # the least HiGHS takes
NOISE = 1e-9  # of a user's unit: what a linear program at that tolerance may take from somebody, and no gain either

Method = Literal["highs-ds", "highs-ipm"]
# Users times servers from which the interior point method comes first: 2,000 x 27 took it 1.7 s, not 6.8 as the simplex
# method did, and 100,000 on one pool 0.5 s, not 15.
MANY = 10_000
# A whole capacity in the program on several servers. HiGHS drops entries below 1e-9 and lets rows be exceeded by 1e-10,
# so at 1 it gave users of a trace of a full resource what was not there: 6 of 60 leximin answers with demands over 12
# decades came out dominated, none at 1,000. There it gives up more often; prices found at 1 may still prove the bound.
WHOLE, COARSE = 1e3, 1.0
STEPS = 50  # of a solver per unknown: one or two are usual, but the simplex method can go round in circles


@dataclass(frozen=True, eq=False)
class Dominating:
    """The feasible allocation that gains users most while nobody loses.

    Attributes
    ----------
    tasks_by_server : ndarray of shape (n_users, n_servers)
        Its tasks; those of the allocation itself where nobody can gain.
    gains : dict of float by user
        Further tasks of everyone who gains.
    margin : float
        The weighted mean over users of what they gain, relative to what they run (or to what their own slice would
        run, if that is more).
    bound : float
        No feasible allocation has a larger margin (the last part of capacities and gains below the tolerance apart):
        from prices, without trusting the solver.
    """

    tasks_by_server: Float
    gains: dict[str, float]
    margin: float
    bound: float


@dataclass(frozen=True)
class _Question:
    """The program's data, servers that are alike taken together.

    Attributes
    ----------
    instance : Instance
        Merged.
    tasks : ndarray of shape (n_users, n_servers)
        What is to be dominated.
    usable : ndarray of shape (n_servers, n_resources)
        Units of each capacity that y may use.
    unit, worth, room : ndarray of shape (n_users,)
        Of each user: a gain of 1; what that is worth, 1 on average; and the largest gain it could ever have.
    """

    instance: Instance
    tasks: Float
    usable: Float
    unit: Float
    worth: Float
    room: Float

    def load(self, user: NDArray[np.intp], server: NDArray[np.intp]) -> Float:
        """Part of each usable capacity of its server that one unit of a user takes, shape (n_resources, n_pairs)."""
        usable = self.usable[server]
        demands = self.instance.per_server_demands[user, server] * self.unit[user][:, None]
        return np.divide(demands, usable, out=np.zeros(demands.shape), where=usable > 0).T


def dominating(allocation: Allocation, tol: float) -> Dominating:
    """The allocation that dominates another by most.

    Parameters
    ----------
    allocation : Allocation
        Any that is feasible. Only its tasks count, so resources that are handed out and that nobody can use are free.
    tol : float
        The last part of each capacity that counts as used up, and how far ``margin`` and ``bound`` may be apart.

    Returns
    -------
    Dominating

    Raises
    ------
    NotCertified
        If no solver's answer has a margin and a bound close to each other.
    """
    given = allocation.instance
    question = _question(allocation, tol)
    x = question.tasks
    if not len(gainers := np.flatnonzero(question.room > 0)):
        return Dominating(allocation.tasks_by_server, {}, 0.0, 0.0)
    bound, best, said = np.inf, x, []
    many = int(question.instance.eligible.sum()) > MANY
    methods: tuple[Method, ...] = ("highs-ipm", "highs-ds") if many else ("highs-ds", "highs-ipm")
    pool = x.shape[1] == 1
    for whole in (WHOLE,) if pool else (WHOLE, COARSE):
        for method in methods:
            answer = _one_pool(question, gainers, method) if pool else _servers(question, method, whole)
            if isinstance(answer, str):
                said.append(f"{method}: {answer}")
                continue
            found, prices = answer
            if whole == WHOLE:
                best = max(best, _feasible(question, found), key=lambda y: _margin(question, y))
            bound = min(bound, _bound(question, prices))
            if bound - _margin(question, best) <= tol:
                return _named(allocation, given, question, best, max(bound, 0.0))
            said.append(f"{method}: between {_margin(question, best):.3g} and {bound:.3g}")
    raise NotCertified(
        f"whether the allocation is Pareto-efficient could not be proved: {'; '.join(said)}. "
        "Fix: give check(...) a larger tol"
    )


def _question(allocation: Allocation, tol: float) -> _Question:
    given = allocation.instance
    instance = given.merged()
    tasks = np.maximum(allocation.tasks_by_server, 0.0)
    if instance.n_servers < given.n_servers:
        together = np.zeros((given.n_users, instance.n_servers))
        np.add.at(together.T, given.server_classes, tasks.T)
        tasks = together
    total = tasks.sum(axis=1)
    used = np.einsum("jsi,js->si", instance.per_server_demands, tasks)
    usable = instance.capacities * instance.counts[:, None] * (1.0 - tol)
    usable = np.where(used >= usable * (1.0 - NOISE), used, usable)
    part = instance.task_limits > 0
    unit = np.where(part, own_units(instance, total), 1.0)
    alone = instance.tasks_alone.sum(axis=1)
    room = np.where(part, (np.minimum(instance.task_limits, alone) - total) / unit, 0.0)
    room[room <= tol] = 0.0
    if instance.n_servers == 1:  # who needs what is used up stays where it is
        full = usable[0] <= used[0]
        room[(instance.per_server_demands[:, 0][:, full] > 0).any(axis=1)] = 0.0
    worth = np.where(part, instance.weights, 0.0)
    return _Question(instance, tasks, usable, unit, worth / (worth[part].mean() if part.any() else 1.0), room)


def _one_pool(question: _Question, gainers: NDArray[np.intp], method: Method) -> tuple[Float, Float] | str:
    """Tasks and prices: whoever can gain shares what is left."""
    loads = question.load(gainers, np.zeros(len(gainers), dtype=np.intp))
    left = np.maximum(1.0 - _loads(question, question.tasks)[0], 0.0)
    rows = np.flatnonzero((left > 0) & (loads > 0).any(axis=1))
    found: Any = linprog(  # type: ignore[call-overload]
        -question.worth[gainers], A_ub=loads[rows] / left[rows, None], b_ub=np.ones(len(rows)),
        bounds=np.column_stack([np.zeros(len(gainers)), question.room[gainers]]), method=method,
        options={**PRECISE, "maxiter": STEPS * (len(rows) + len(gainers))},
    )  # fmt: skip
    if found.x is None or found.ineqlin.marginals is None:
        return str(found.message)
    y = question.tasks.copy()
    y[gainers, 0] += np.maximum(found.x, 0.0) * question.unit[gainers]
    prices = np.zeros(question.usable.shape)
    prices[0, rows] = np.maximum(-found.ineqlin.marginals, 0.0) / left[rows]
    return y, prices


def _servers(question: _Question, method: Method, whole: float) -> tuple[Float, Float] | str:
    """Tasks and prices: everybody may move, and who can gains.

    The unknowns are changes, so that no change at all is feasible to the last digit.
    """
    instance, n = question.instance, question.instance.n_users
    user, server = np.nonzero(instance.eligible)
    m, pairs = instance.n_resources, len(user)
    row = (server * m + np.arange(m)[:, None]).ravel()
    value = question.load(user, server).ravel()
    capacity = whole * sp.csr_array(
        (value, (row, np.tile(np.arange(pairs), m))), shape=(question.usable.size, pairs + n)
    )
    mine = sp.csr_array((np.ones(pairs), (user, np.arange(pairs))), shape=(n, pairs))
    least = -question.tasks[user, server] / question.unit[user]
    found: Any = linprog(  # type: ignore[call-overload]
        np.concatenate([np.zeros(pairs), -question.worth]), A_ub=capacity,
        b_ub=whole * np.maximum(1.0 - _loads(question, question.tasks), 0.0).ravel(),
        A_eq=sp.hstack([mine, -sp.eye_array(n)], format="csr"), b_eq=np.zeros(n),
        bounds=np.column_stack([
            np.concatenate([least, np.zeros(n)]), np.concatenate([np.full(pairs, np.inf), question.room]),
        ]),
        method=method, options={**PRECISE, "maxiter": STEPS * (pairs + n)},
    )  # fmt: skip
    if found.x is None or found.ineqlin.marginals is None:
        return str(found.message)
    y = question.tasks.copy()
    y[user, server] = np.maximum(y[user, server] + found.x[:pairs] * question.unit[user], 0.0)
    return y, whole * np.maximum(-found.ineqlin.marginals, 0.0).reshape(question.usable.shape)


def _loads(question: _Question, tasks: Float) -> Float:
    used = np.einsum("jsi,js->si", question.instance.per_server_demands, tasks)
    return np.divide(used, question.usable, out=np.zeros(used.shape), where=question.usable > 0)


def _feasible(question: _Question, tasks: Float) -> Float:
    """Tasks within capacities and limits, whatever the solver's tolerance."""
    tasks = tasks / np.maximum(_loads(question, tasks).max(axis=1, initial=1.0), 1.0)
    total, before = tasks.sum(axis=1), question.tasks.sum(axis=1)
    most = np.maximum(question.instance.task_limits, before)
    return tasks * np.where(total > most, most / np.where(total > 0, total, 1.0), 1.0)[:, None]


def _gains(question: _Question, tasks: Float) -> Float:
    """In units of each user; negative where somebody loses."""
    return np.where(question.worth > 0, (tasks.sum(axis=1) - question.tasks.sum(axis=1)) / question.unit, 0.0)


def _margin(question: _Question, tasks: Float) -> float:
    gains = _gains(question, tasks)
    if gains.min(initial=0.0) < -NOISE:
        return 0.0  # somebody loses, so this dominates nothing
    return float(question.worth @ gains / question.worth.sum())


def _bound(question: _Question, prices: Float) -> float:
    """No feasible allocation gains more on average than this, at whatever prices of whole usable capacities.

    A unit of user j costs ``q_j``, on the server where that is least. What y costs is at most the prices of all
    capacities, so its gains cost at most those less what x costs; and a gain worth more than ``q_j`` is at most
    ``room_j``. Prices raised until no gain is worth more than it costs give another bound.
    """
    instance = question.instance
    cost = np.full(instance.n_users, np.inf)
    for s in range(instance.n_servers):
        per_unit = np.divide(prices[s], question.usable[s], out=np.zeros(len(prices[s])), where=question.usable[s] > 0)
        here = instance.per_server_demands[:, s] @ per_unit * question.unit
        cost = np.where(instance.eligible[:, s], np.minimum(cost, here), cost)
    left = max(float(prices.sum() - cost @ (question.tasks.sum(axis=1) / question.unit)), 0.0)
    some, total = question.room > 0, question.worth.sum()
    short = np.maximum(question.worth - cost, 0.0)[some] @ question.room[some]
    with np.errstate(divide="ignore"):
        raised = float(np.max(question.worth[some] / cost[some], initial=1.0))
    return float(min(left + short, raised * left if raised < np.inf else np.inf) / total)


def _named(allocation: Allocation, given: Instance, question: _Question, best: Float, bound: float) -> Dominating:
    margin = max(_margin(question, best), 0.0)
    gains = _gains(question, best)
    who = np.flatnonzero(gains > NOISE)
    if not len(who) or margin == 0.0:
        return Dominating(allocation.tasks_by_server, {}, 0.0, bound)
    tasks = best if best.shape[1] == given.n_servers else given.spread(best)
    more = {given.users[j]: float(gains[j] * question.unit[j]) for j in who}
    return Dominating(tasks, more, margin, max(bound, margin))
