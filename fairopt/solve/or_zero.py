"""Tasks that are 0 or at least so many, by branch and bound.

    max f(x)   subject to   t_k = 0 or t_k >= v_k  for each k,   and convex constraints.

A node fixes some t_k at 0 and others at v_k or more, and leaves the rest free at ``t_k >= 0``: a convex program, which
any method of the table solves and the gate judges (`fairopt.proof.or_zero` says what closes a node). Answers are the
best tasks of choices: of one that rounds the relaxation of each node, and for leximin of one by the assignment that
does not close it. On one resource such steps alone end at the optimum, and nothing is left to branch on. The node with
the best bound is next, and splits at the free t_k that is farthest from both 0 and v_k; of users alike it is the one up
to whom as many run as the relaxation has in sum. Until there is an answer, the search goes down where t_k >= v_k.

Why not a mixed-integer program: its solver leaves no proof that can be checked, and its rows ``v b <= t <= M b`` with
binaries b have the same relaxation.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import coefficients_cached
from fairopt.errors import Infeasible, NotCertified
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.or_zero import ENOUGH, Node, better, cannot_run, is_impossible, levels_at, loss, point_of
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import begin
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.dispatch import checked_settings, solve_tiers
from fairopt.solve.form.or_zero import Choices, searched
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings


@coefficients_cached()
def allocate(
    policy: Any,
    instance: Instance,
    *,
    method: str = "auto",
    solver: str | None = None,
    solver_options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
) -> Allocation:
    """The certified answer of a policy with ``MinTasks(..., or_zero=True)``; see `Policy.allocate`."""
    clock = begin(time_limit, needs_cvxpy=getattr(instance, "n_servers", 1) > 1)
    settings = checked_settings(instance, method, solver, solver_options, clock, verbose)
    search = Search(policy, instance, settings)
    return clock.run(search.run, search.answer)


class _Posed(NamedTuple):
    """The policy of a node."""

    objective: Objective
    constraints: tuple[Constraint, ...]


class Search:
    """A tree of nodes, and the best answer so far: its ``table`` of tasks by user and server."""

    def __init__(self, policy: Any, instance: Instance, settings: Settings) -> None:
        self.policy, self.settings = policy, settings
        self.choices = Choices(instance, policy.objective, policy.constraints)
        self.is_order = policy.objective.term.is_order
        self.root = Node(np.full(len(self.choices), -1))
        self.table: Float | None = None
        self.levels: Float | None = None
        self.found: gate.JudgedPoint | None = None
        self.solved, self.number = 0, count()
        self.seen = set[bytes]()

    def run(self) -> Allocation:
        """The certified answer; `Infeasible` if no choice meets the constraints."""
        if self.choices.root.empty:
            self.table = np.zeros(self.choices.instance.eligible.shape)
            return self.answer()
        waiting: list[tuple[Any, ...]] = []
        node: Node | None = self.root
        while node is not None or waiting:
            if self.settings.clock.late:
                break
            if node is None:
                node = self._next(waiting)
            if node.looser is not node.fixed and not self._closed(node):
                self._bound(node)
            k = None if self._closed(node) else self._split_at(node)
            if k is None:
                node = None
                continue
            node.none, node.runs = (
                Node(self.choices.decided(node.fixed, k, runs), node.judged, node.looser) for runs in (False, True)
            )
            node.split = k
            self._wait(waiting, node.none)
            node = node.runs  # which goes on with a dive, or waits
            if self.table is not None:
                self._wait(waiting, node)
                node = None
        return self.answer()

    def proved(self, table: Float, tree: list[int]) -> Allocation:
        """Tasks that were found before, with the leaves of their tree proved anew."""
        choices = self.choices
        if not choices.root.empty:
            self.table = table
            self.levels = levels_at(choices, table) if self.is_order else None
        self.seen.add(choices.in_order(choices.amounts(table) > 0).tobytes())
        stack = [self.root]
        for k in tree:
            node = stack.pop()
            if k < 0:
                self._bound(node)
                continue
            node.none, node.runs = (Node(choices.decided(node.fixed, k, runs)) for runs in (False, True))
            node.split = k
            stack += [node.runs, node.none]
        return gate.of_branches(
            self.policy, choices, self.root, table, self.settings.clock.begun, note=ties(choices, table)
        )

    def answer(self) -> Allocation:
        """The answer so far; `NotCertified` if the bound is not reached."""
        choices, clock = self.choices, self.settings.clock
        blocks = searched(self.policy.constraints)
        more = f"; fix: give it more time_limit than {clock.time_limit:g} s" if clock.time_limit else ""
        if self.table is None:
            if self._impossible():
                raise Infeasible(
                    f"no choice of whose tasks are 0 and whose at least those of {blocks[0]} meets the constraints",
                    tuple(f"`{block}`" for block in self.policy.constraints),
                )
            raise NotCertified(f"branch and bound found no answer in {self.solved} programs{more}")
        known = {} if self.found is None else {"solver": self.found.solver, "tried": self.found.tried}
        made = gate.of_branches(
            self.policy, choices, self.root, self.table, clock.begun, note=ties(choices, self.table), **known
        )
        c = made.certificate
        if c.ok:
            return made
        bound = made.objective / (1.0 - c.gap) if c.gap < 1.0 and not self.is_order else np.inf
        of = f"the optimum is at most {bound:.6g}" if bound < np.inf else "of a level of leximin" * self.is_order
        raise NotCertified(
            f"branch and bound ended after {self.solved} programs with a gap of {c.gap:.3g} (tolerance 1e-6)"
            f"{f': the answer in .best has {made.objective:.6g}, and {of}' if bound < np.inf else f' {of}'.rstrip()}, "
            f"violation {c.violation:.2g}, constraints {c.block_violation:.2g}{more}, or have fewer users of different "
            f"demands under {blocks[0]}",
            best=made,
            tried=c.tried,
        )

    def _impossible(self) -> bool:
        """Whether all leaves are impossible."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node.none is not None and node.runs is not None:
                stack += [node.none, node.runs]
            elif not node.impossible:
                return False
        return True

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _wait(self, waiting: list[tuple[Any, ...]], node: Node) -> None:
        """Put a node where the one with the best bound, and of these the one with most fixed, is next."""
        assert node.judged is not None
        program, answer = node.judged
        best = program.expand(answer.tasks)
        bound = levels_at(self.choices, best) if self.is_order else [self._value(best)]
        key = [-float(f"{z:.9g}") for z in bound]
        heapq.heappush(waiting, (key, -int((node.fixed >= 0).sum()), next(self.number), node))

    def _next(self, waiting: list[tuple[Any, ...]]) -> Node:
        """The next node, without an answer that with most fixed."""
        if self.table is None:
            waiting.sort(key=lambda one: one[1:3], reverse=True)
            node = waiting.pop()[-1]
            heapq.heapify(waiting)
        else:
            node = heapq.heappop(waiting)[-1]
        assert isinstance(node, Node)
        return node

    def _closed(self, node: Node) -> bool:
        """Whether nothing better is left in a node."""
        if node.impossible:
            return True
        if self.table is None:
            return False
        return loss(self.choices, node, node.fixed, point_of(self.choices, self.table), self.levels) <= ENOUGH

    def _bound(self, node: Node) -> None:
        """Close a node, or bound it by its convex program."""
        choices = self.choices
        tell("branch and bound", self.solved)
        if self._is_unbeaten(node):
            return
        is_root = node is self.root
        if not is_root and is_impossible(choices, node):
            return
        solved = self._solve(node.fixed, is_root)
        if solved is None:
            return
        if solved[1].ok or node.judged is None:
            node.judged, node.looser = solved, node.fixed
            if not self._closed(node) and self._try(self._rounded(node)):
                self._is_unbeaten(node)

    def _is_unbeaten(self, node: Node) -> bool:
        """Whether levels of leximin cannot be exceeded in a node; where they might be, that choice is tried."""
        while self.is_order and self.levels is not None:
            runs = better(self.choices, node, self.levels)
            if runs is None:
                return True
            if not self._try(runs):
                break
        return False

    def _split_at(self, node: Node) -> int | None:
        """The choice at which to split; None if the node is solved, or all is fixed."""
        choices = self.choices
        if node.judged is None:
            return None
        program, answer = node.judged
        part = choices.amounts(program.expand(answer.tasks)) / choices.least
        free = node.fixed < 0
        between = np.where(free & (part > 0) & (part < 1 - NOISE), np.minimum(part, 1 - part), 0.0)
        if not between.any():
            if self._try(np.where(free, part >= 1 - NOISE, node.fixed == 1)) and self._closed(node):
                return None
            if self._closed(node) or not free.any():
                return None
        same = np.flatnonzero(free & (choices.alike == choices.alike[int(np.argmax(np.where(free, between, -1.0)))]))
        return int(same[min(int(np.minimum(part[same], 1.0).sum() + NOISE), len(same) - 1)])

    def _rounded(self, node: Node) -> Bool:
        """The choice that lets run what is nearest to v_k or above in a relaxation, as long as it fits."""
        assert node.judged is not None
        program, answer = node.judged
        part = self.choices.amounts(program.expand(answer.tasks)) / self.choices.least
        order = np.argsort(np.where(node.fixed < 0, -part, np.inf), kind="stable")[: int((node.fixed < 0).sum())]
        order, runs = order[part[order] > 0], node.fixed == 1

        def first(k: int) -> Bool:
            return runs | np.isin(np.arange(len(runs)), order[:k])

        most, least = len(order), 0  # bisection: at least the first
        while least < most:
            k = (least + most + 1) // 2
            fits = not cannot_run(self.choices.program(self.choices.in_order(first(k))))
            least, most = (k, most) if fits else (least, k - 1)
        return first(least)

    def _solve(self, fixed: Indices, is_root: bool = False) -> tuple[Program, gate.JudgedPoint] | None:
        """The convex program of a node and its answer; None if it is infeasible."""
        self.solved += 1
        posed = _Posed(self.choices.objective, self.choices.constraints(fixed))
        try:
            return solve_tiers(posed, self.choices.instance, self.settings)[0]
        except Infeasible:
            if is_root:
                raise
            return None

    def _try(self, runs: Bool) -> bool:
        """Whether the best tasks of a choice are a better answer, which they then are."""
        fixed = self.choices.in_order(runs)
        if fixed.tobytes() in self.seen:
            return False
        self.seen.add(fixed.tobytes())
        if cannot_run(self.choices.program(fixed)) or (solved := self._solve(fixed)) is None or not solved[1].ok:
            return False
        table = solved[0].expand(solved[1].tasks)
        if self.table is not None and not self._is_better(table, self.table):
            return False
        self.table, self.found = table, solved[1]
        self.levels = levels_at(self.choices, table) if self.is_order else None
        return True

    def _is_better(self, table: Float, other: Float) -> bool:
        """Whether tasks are better than others, beyond rounding."""
        if not self.is_order:
            value, before = self._value(table), self._value(other)
            return value > before + NOISE * abs(before)
        for level, before in zip(levels_at(self.choices, table), levels_at(self.choices, other), strict=True):
            if abs(level - before) > NOISE * max(level, before):
                return bool(level > before)
        return False

    def _value(self, table: Float) -> float:
        """The objective of tasks."""
        return float(self.choices.objective.value(point_of(self.choices, table)))


def ties(choices: Choices, table: Float) -> str:
    """Who has 0 tasks only by the order of users, in words."""
    runs, users, out = choices.amounts(table) > 0, choices.instance.users, list[str]()
    for of_class in dict.fromkeys(choices.alike.tolist()):
        same = np.flatnonzero(choices.alike == of_class)
        none = int((~runs[same]).sum())
        if 0 < none < len(same):
            names = [repr(users[choices.user[k]]) for k in same[:3]]
            more = len(same) - len(names)
            who = f"{', '.join(names)} and {more} more" if more else f"{', '.join(names[:-1])} and {names[-1]}"
            out.append(
                f"users {who} are alike, and {none} {'has' if none == 1 else 'have'} 0 tasks: the last by order; "
                "change the order to take turns"
            )
    return "; ".join(out)
