"""What a tree of branch and bound proves of tasks that are 0 or at least so many (`fairopt.solve.form.or_zero`).

The two children of a node fix one free t_k at 0, and at v_k or more, so that the leaves of a tree cover all choices. A
leaf is closed in one of three ways, none of which reads what a solver says:

* its convex program was judged by the gate, whose bound holds for all choices that the leaf leaves open;
* nothing fits: lower bounds cost more than there is at some prices of resources, or a dual ray of the program says so;
* for leximin, at prices p >= 0 of resources, no tasks exceed a level of the answer and keep those below it.

The last is needed since relaxations know nothing of how many users must have 0: of 12 A for three cars with 0 or at
least 6 they make 4, 4 and 4. Let r_1 <= ... <= r_n be levels to be reached: those of the answer below one that is to be
exceeded by `RISE`, and that one from there on. With K_j(r) the least cost at prices p of tasks at which user j reaches
r, they cannot be reached if

    min over permutations s of  sum_j K_j(r_s(j))  >  p'C      (an assignment problem; Proposition 7.20).

Levels are sorted, so that this holds whoever has them. For one resource it is exact.

Floats: costs are compared with `ROUNDED` of it added to the capacity, far below what `RISE` adds. Levels that differ by
less than `NOISE` count as one. An answer is judged as it is, without repair: a task count between 0 and v_k breaks a
constraint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairopt.blocks.model import Point
from fairopt.proof.conic import cannot_hold
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import optimize
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE
from fairopt.solve.form.or_zero import Choices
from fairopt.solve.form.program import ConeModel, Program

RISE = 0.5 * GAP_TOLERANCE  # of a level: less is not looked for
STEPS = 12  # of prices of resources: 30 left a sixth fewer nodes for 16 users of two resources, in as much time
BITS_36, ROUNDED = 131073.0, 1e-10  # 2^17 + 1, and more than numbers lose that are rounded by it
ENOUGH = 0.8 * GAP_TOLERANCE  # a loss below which a node is closed


class Judged(Protocol):
    """An answer of the gate (`JudgedPoint`)."""

    tasks: Float
    gap: float


@dataclass
class Node:
    """What is ``fixed`` (1, 0, or -1 for free), and what is proved of it.

    ``judged`` is a program with no more fixed, and its answer; ``split`` the choice that the children, ``none`` and
    ``runs``, fix. ``unbeaten`` are sorted levels that no tasks of it exceed, and ``impossible`` is it if nothing fits.
    """

    fixed: Indices
    judged: tuple[Program, Judged] | None = None
    looser: Indices | None = None  # what is fixed in the program that was judged
    split: int = -1
    none: Node | None = None
    runs: Node | None = None
    unbeaten: Float | None = None
    impossible: bool = False


def point_of(choices: Choices, table: Float) -> Point:
    """Tasks by user and server as a point of the root."""
    return choices.root.point(choices.root.gather(table))


def levels_at(choices: Choices, table: Float) -> Float:
    """The shares per weight in increasing order."""
    share, point = choices.share, point_of(choices, table)
    return np.sort(point.share(share) / point.weights_of(share))


def cannot_run(program: Program) -> bool:
    """Whether it is proved that no tasks meet the conditions of a node."""
    load = program.low @ program.instance.derived.cheapest_ratios  # as if all servers were one
    if (program.low > program.most * (1 + NOISE)).any() or (load > program.usable * (1 + NOISE)).any():
        return True
    # bounds on tasks of one pool fit if their load does
    return bool(program.rest or not program.single) and cannot_hold(ConeModel(program).all_constraints)


def is_impossible(choices: Choices, node: Node) -> bool:
    """Whether it is proved that nothing fits in a node, which then keeps that."""
    node.impossible = node.impossible or cannot_run(choices.program(node.fixed))
    return node.impossible


def better(choices: Choices, node: Node, levels: Float) -> Bool | None:
    """Which choices run where the lowest level of leximin might be exceeded while those below are kept; None if none
    can be, which the node then keeps.
    """
    costs, price = _Costs(choices, choices.program(node.fixed), node.fixed), None
    for k in np.flatnonzero(np.append(levels[1:] > levels[:-1] * (1 + NOISE), True)):  # the last of equal levels
        wanted = np.where(np.arange(len(levels)) < k, levels, max(levels[k] * (1 + RISE), np.finfo(float).tiny))
        runs, price = costs.reached(wanted, price)
        if runs is not None:
            return runs
    node.unbeaten = levels
    return None


class _Costs:
    """What levels cost users in a node: tasks by user times their least cost, ``max(low, v_k, level per task)``."""

    def __init__(self, choices: Choices, program: Program, fixed: Indices) -> None:
        self.choices, self.program, self.fixed = choices, program, fixed
        pairs, capacity = program.pairs, program.whole_capacities
        total = capacity.sum(axis=0)
        self.part = np.divide(capacity, total, out=np.zeros(capacity.shape), where=total > 0)  # of each row
        worth = pairs.of(choices.share.coefficients(program.instance)) / program.instance.weights[pairs.user]
        self.open = ~program.zero_pairs
        self.per_level = np.divide(1.0, worth, out=np.full(len(pairs), np.inf), where=worth > 0)  # tasks by pair
        self.most = program.most * -pairs.min(-np.where(self.open, worth, 0.0)) * (1 + NOISE)
        user = np.searchsorted(program.active, choices.user)
        own = choices.server < 0
        self.user, self.start = user, np.zeros(len(pairs))  # the least tasks of a pair other than 0
        place = pairs.index(user[~own], choices.server[~own])
        self.start[place] = choices.least[~own]
        of_user = np.zeros(program.instance.n_users)
        of_user[user[own]] = choices.least[own]
        self.start = np.maximum(self.start, of_user[pairs.user])
        self.runs = place[fixed[~own] == 1]

    def reached(self, wanted: Float, price: Float | None) -> tuple[Bool | None, Float]:
        """Which choices run where levels, given in increasing order, are reached at the least cost; None if that is
        more than all that may be used costs, at ``price`` or others. With the last prices, (n_resources,).

        They fall where the cheapest tasks use less than of the scarcest resource. They are the same on all servers:
        those by server, which could be closer, swung from one to the next, and left 3 to 7 times as many nodes.
        """
        program = self.program
        price = ((self.part * program.usable) > 0).any(axis=0).astype(float) if price is None else price
        for step in range(1, STEPS + 1):
            found = self._least((self.part * price).ravel(), wanted)
            if found is None:
                return None, price
            runs, load = found
            used = (self.part * load.reshape(self.part.shape)).sum(axis=0)
            ratio = np.divide(used, program.usable, out=np.zeros(len(used)), where=price > 0)
            if not ratio.max(initial=0.0) > 1:  # it fits, at all prices
                break
            price = price * np.exp(8.0 * (ratio / ratio.max() - 1.0) / step)
        return runs, price

    def _least(self, price: Float, wanted: Float) -> tuple[Bool, Float] | None:
        """The choices that run, and the load of rows, at one price; None if that costs too much."""
        program, pairs = self.program, self.program.pairs
        n, cost = program.instance.n_users, np.asarray(pairs.loads.T @ price)
        per_level = np.where(self.per_level < np.inf, self.per_level * cost, np.inf)
        cheapest, start, level = (
            pairs.min(np.where(self.open, one, np.inf)) for one in (cost, self.start * cost, per_level)
        )
        floor = np.multiply(program.low, cheapest, out=np.zeros(n), where=program.low > 0)
        floor = np.maximum(floor, np.bincount(pairs.user[self.runs], (self.start * cost)[self.runs], n))
        costs = np.maximum(floor, start)[:, None] * np.ones(n)
        above = wanted > 0
        costs[:, above] = np.maximum(costs[:, above], level[:, None] * wanted[above])
        costs[:, ~above] = floor[:, None]
        with np.errstate(invalid="ignore"):  # rounded to 36 bits, so that ties do not depend on rounding
            costs = np.where(costs < np.inf, BITS_36 * costs - (BITS_36 * costs - costs), np.inf)
        costs[wanted > self.most[:, None]] = np.inf
        try:
            of_user, rank = optimize.linear_sum_assignment(costs)
        except ValueError:  # levels that too few users can have
            return None
        if float(costs[of_user, rank].sum()) > float(price @ program.usable_rows) * (1 + ROUNDED):
            return None
        runs, tasks = above[rank[np.argsort(of_user)]], np.zeros(n)
        np.divide(costs[of_user, rank], cheapest[of_user], out=tasks, where=cheapest[of_user] > 0)
        at = self.open & (cost == cheapest[pairs.user])  # equally where several servers are as cheap
        load = np.asarray(pairs.loads @ (at * (tasks / np.maximum(pairs.sum(at * 1.0), 1.0))[pairs.user]))
        return (runs[self.user] | (self.fixed == 1)) & (self.fixed != 0), load


def nodes(root: Node) -> Iterator[Node]:
    """The nodes of a tree: first one, then those below it where t_k = 0, then the others."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in (node.runs, node.none) if child is not None]


def losses(choices: Choices, root: Node, table: Float) -> float:
    """What tasks lose at most against all choices: of the objective, or of a level of leximin."""
    worst, point = 0.0, point_of(choices, table)
    levels = levels_at(choices, table) if choices.objective.term.is_order else None
    stack = [(root, np.full(len(choices), -1))]
    while stack:
        node, fixed = stack.pop()
        if node.split < 0:
            worst = max(worst, loss(choices, node, fixed, point, levels))
            continue
        if node.none is None or node.runs is None or fixed[node.split] >= 0:
            return np.inf
        for child, runs in ((node.none, False), (node.runs, True)):
            stack.append((child, choices.decided(fixed, node.split, runs)))
    return worst


def loss(choices: Choices, node: Node, fixed: Indices, point: Point, levels: Float | None) -> float:
    """What a point loses at most against the choices of a leaf."""
    if not np.array_equal(node.fixed, fixed):
        return np.inf
    if node.impossible:
        return 0.0
    if levels is not None and node.unbeaten is not None and (lost := _lost(node.unbeaten, levels, RISE / 2)) <= ENOUGH:
        return lost
    if node.judged is None or node.looser is None or not ((node.looser < 0) | (node.looser == fixed)).all():
        return np.inf
    program, answer = node.judged
    own = choices.constraints(node.looser)
    if program.given is not choices.instance or program.constraints[: len(own)] != own:
        return np.inf
    best = program.expand(answer.tasks)
    if levels is None:
        with np.errstate(all="ignore"):
            lost = choices.objective.loss(point_of(choices, best), answer.gap, point)
        return float(min(max(lost, 0.0), 1.0)) if lost == lost else np.inf
    return _lost(levels_at(choices, best), levels, answer.gap)


def _lost(best: Float, levels: Float, gap: float) -> float:
    """The largest part of a level of leximin that is lost, up to the first that is above the best."""
    lost = 0.0
    for bound, level in zip(best * (1 + 2 * gap) if gap < np.inf else np.full(len(best), np.inf), levels, strict=True):
        if bound < level * (1 - NOISE):
            break
        lost = max(lost, 1.0 - level / bound if bound > 0 else 0.0)
    return lost
