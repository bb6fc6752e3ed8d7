"""Tasks that are 0 or at least so many, by branch and bound.

    max f(x)   subject to   t_k = 0 or t_k >= v_k  for each k,   and convex constraints.

A node fixes some t_k at 0 and others at v_k or more, and leaves the rest free at ``t_k >= 0``: a convex program, which
any method of the table solves and the gate judges (`fairopt.proof.or_zero` says what closes a node). Answers are the
best tasks of choices: of one that rounds the relaxation of each node, and for leximin of one by the assignment that
does not close it. On one resource such steps alone end at the optimum, and nothing is left to branch on. The node with
the best bound is next, and splits at the free t_k that is farthest from both 0 and v_k; of users alike it is the one up
to whom as many run as the relaxation has in sum.

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
from fairopt.proof.or_zero import ENOUGH, Node, better, cannot_run, is_impossible, levels_at, loss, nodes, point_of
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
        self.found: gate.JudgedPoint | None = None
        self.solved, self.seen = 0, set[bytes]()

    def run(self) -> Allocation:
        """The certified answer; `Infeasible` if no choice meets the constraints."""
        choices, number = self.choices, count()
        if choices.root.empty:
            self.table = np.zeros(choices.instance.eligible.shape)
            return self.answer()
        waiting: list[tuple[Any, ...]] = [((), 0, next(number), self.root)]
        while waiting and not self.settings.clock.late:
            node = heapq.heappop(waiting)[-1]
            if node.looser is not node.fixed and not self._closed(node):
                self._bound(node)
            k = None if self._closed(node) else self._split_at(node)
            if k is None:
                continue
            node.none, node.runs = (
                Node(choices.decided(node.fixed, k, runs), node.judged, node.looser) for runs in (False, True)
            )
            node.split = k
            bound = [-float(f"{z:.9g}") for z in self._score(node.judged[0].expand(node.judged[1].tasks))]
            for child in (node.runs, node.none):  # the best bound is next, and of these the node with most fixed
                heapq.heappush(waiting, (bound, -int((child.fixed >= 0).sum()), next(number), child))
        for node in nodes(self.root):  # a leaf whose program no solver certifies may be closed by an answer found later
            if node.split < 0 and not self.settings.clock.late and not self._closed(node):
                self._is_unbeaten(node)
        return self.answer()

    def proved(self, table: Float, tree: list[int]) -> Allocation:
        """Tasks that were found before, with the leaves of their tree proved anew."""
        choices = self.choices
        self.table, stack = table, [self.root]
        self.seen.add(choices.in_order(choices.amounts(table) > 0).tobytes())
        for k in tree if not choices.root.empty else ():
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
        choices, limit = self.choices, self.settings.clock.time_limit
        (block, *_), fix = searched(self.policy.constraints), f"give it more time_limit than {limit or 0:g} s"
        if self.table is None:
            if all(node.impossible for node in nodes(self.root) if node.split < 0):
                raise Infeasible(
                    f"no choice of whose tasks are 0 and whose at least those of {block} meets the constraints",
                    tuple(f"`{one}`" for one in self.policy.constraints),
                )
            raise NotCertified(f"branch and bound found no answer in {self.solved} programs. Fix: {fix}")
        known = {} if self.found is None else {"solver": self.found.solver, "tried": self.found.tried}
        note = ties(choices, self.table)
        made = gate.of_branches(
            self.policy, choices, self.root, self.table, self.settings.clock.begun, note=note, **known
        )
        c = made.certificate
        if c.ok:
            return made
        what = ", of a level of leximin"
        if not self.is_order:
            left = (one for one in nodes(self.root) if one.split < 0 and not self._closed(one))
            known_of = [one.judged for one in left if one.judged is not None]
            bound = max((self._score(p.expand(a.tasks))[0] * (1 + a.gap) for p, a in known_of), default=np.inf)
            what = f": the answer in .best has {made.objective:.6g}, and the optimum is at most {bound:.6g}"
        raise NotCertified(
            f"branch and bound ended after {self.solved} programs with a gap of {c.gap:.3g} (tolerance 1e-6){what}; "
            f"violation {c.violation:.2g}, constraints {c.block_violation:.2g}. Fix: {fix}, or have fewer users "
            f"under {block}",
            best=made,
            tried=c.tried,
        )

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _score(self, table: Float) -> Float:
        """What tasks are compared by, in order: sorted levels of leximin, or the objective."""
        if self.is_order:
            return levels_at(self.choices, table)
        return np.array([self.choices.objective.value(point_of(self.choices, table))])

    def _closed(self, node: Node) -> bool:
        """Whether nothing better is left in a node."""
        if node.impossible or self.table is None:
            return node.impossible
        levels = self._score(self.table) if self.is_order else None
        return loss(self.choices, node, node.fixed, point_of(self.choices, self.table), levels) <= ENOUGH

    def _bound(self, node: Node) -> None:
        """Close a node, or bound it by its convex program."""
        tell("branch and bound", self.solved)
        is_root = node is self.root
        if self._is_unbeaten(node) or (not is_root and is_impossible(self.choices, node)):
            return
        solved = self._solve(node.fixed, is_root)
        if solved is not None and (solved[1].ok or node.judged is None):
            node.judged, node.looser = solved, node.fixed
            if not self._closed(node) and self._try(self._rounded(node)):
                self._is_unbeaten(node)

    def _is_unbeaten(self, node: Node) -> bool:
        """Whether levels of leximin cannot be exceeded in a node; where they might be, that choice is tried."""
        while self.is_order and self.table is not None:
            runs = better(self.choices, node, self._score(self.table))
            if runs is None:
                return True
            if not self._try(runs):
                break
        return False

    def _parts(self, node: Node) -> Float:
        """The t_k of a node's relaxation, in units of v_k; of 9 digits, so that ties do not depend on rounding."""
        assert node.judged is not None
        program, answer = node.judged
        return np.round(self.choices.amounts(program.expand(answer.tasks)) / self.choices.least, 9)

    def _split_at(self, node: Node) -> int | None:
        """The choice at which to split; None if the node is solved, or all is fixed."""
        if node.judged is None:
            return None
        part, free = self._parts(node), node.fixed < 0
        between = np.where(free & (part > 0) & (part < 1 - NOISE), np.minimum(part, 1 - part), 0.0)
        if not between.any():
            self._try(np.where(free, part >= 1 - NOISE, node.fixed == 1))
            if self._closed(node) or not free.any():
                return None
        alike = self.choices.alike
        same = np.flatnonzero(free & (alike == alike[int(np.argmax(np.where(free, between, -1.0)))]))
        return int(same[min(int(np.minimum(part[same], 1.0).sum() + NOISE), len(same) - 1)])

    def _rounded(self, node: Node) -> Bool:
        """The choice that lets run what is nearest to v_k or above in a relaxation, as long as it fits."""
        part, runs = self._parts(node), node.fixed == 1
        order = np.argsort(-part, kind="stable")
        order = order[(part[order] > 0) & (node.fixed[order] < 0)]
        least, most = 0, len(order)  # how many of them fit, by bisection
        while least < most:
            k = (least + most + 1) // 2
            more = runs | np.isin(np.arange(len(runs)), order[:k])
            fits = not cannot_run(self.choices.program(self.choices.in_order(more)))
            least, most = (k, most) if fits else (least, k - 1)
        return runs | np.isin(np.arange(len(runs)), order[:least])

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
        """Whether the best tasks of a choice are a better answer, beyond rounding, which they then are."""
        fixed = self.choices.in_order(runs)
        if fixed.tobytes() in self.seen:
            return False
        self.seen.add(fixed.tobytes())
        if cannot_run(self.choices.program(fixed)) or (solved := self._solve(fixed)) is None or not solved[1].ok:
            return False
        table = solved[0].expand(solved[1].tasks)
        if self.table is not None:
            new, old = self._score(table), self._score(self.table)
            differs = np.flatnonzero(np.abs(new - old) > NOISE * np.maximum(np.abs(new), np.abs(old)))
            if not len(differs) or new[differs[0]] < old[differs[0]]:
                return False
        self.table, self.found = table, solved[1]
        return True


def ties(choices: Choices, table: Float) -> str:
    """Who has 0 tasks only by the order of users, in words."""
    runs, out = choices.amounts(table) > 0, list[str]()
    for of_class in dict.fromkeys(choices.alike.tolist()):
        same = np.flatnonzero(choices.alike == of_class)
        none = int((~runs[same]).sum())
        if 0 < none < len(same):
            names = [repr(choices.instance.users[j]) for j in choices.user[same]]
            names = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
            out.append(
                f"users {', '.join(names[:-1])} and {names[-1]} are alike, and {none} {'has' if none == 1 else 'have'} "
                "0 tasks: the last by order; change the order to take turns"
            )
    return "; ".join(out)
