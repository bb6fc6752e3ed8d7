"""Affine aggregates that are used many times, as variables.

A mean ``m = a'x`` of n users that stands in the terms of all, as in ``sum_j rel_entr(s_j, m)``, is a row of n entries
that is copied n times. With a variable t it is one such row, and n rows of one entry more:

    b_k - A_k x - r_k (a'x),  k = 1, ..., n     becomes     b_k - A_k x - r_k t,   t = a'x.

Feasible points and objective stay the same, so that a bound on one is a bound on the other. Why: solvers factorise the
n x n block of copies (1,000 users took 13 s, now .4; 3,000 nine million entries and a minute, now .7). What a node
costs is estimated as its entries times its copies, from the sizes of nodes alone; an estimate that is wrong costs time
only. A mean by a dense matrix of n x n equal numbers is not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairopt.runtime.lazy import cp

# Entries that a variable has to save. CLARABEL without and with one, for entropies, norms and logarithms of which each
# has the mean: 40 users 2 to 4 and .5 to 1 ms, 100 users 10 to 110 and 1 to 3, 300 users 70 to 1,200 and 3 to 15.
SAVED = 1_000
WIDE = 4  # entries for each number: with fewer, a node is no aggregate


def with_aggregates(problem: cp.Problem, saved: float) -> tuple[cp.Problem, dict[int, int]]:
    """A problem in cones with variables for aggregates that save so many entries, and new ids of its constraints."""
    objective, constraints = problem.objective.args[0], problem.constraints
    roots = [(a, c.size / a.size if len(c.args) == 2 and a.size == 1 else 1.0) for c in constraints for a in c.args]
    new = _repeated([*roots, *([(objective, 1.0)] if objective.is_affine() else [])], saved)
    if not new:
        return problem, {}
    made: dict[int, Any] = {key: variable for key, (_, variable) in new.items()}

    def replaced(node: Any) -> Any:
        """The node, with variables for aggregates in it."""
        if id(node) not in made:
            args = [replaced(one) for one in node.args]
            same = all(a is b for a, b in zip(args, node.args, strict=True))
            made[id(node)] = node if same else node.copy(args)
        return made[id(node)]

    equations = [variable == node.copy([replaced(a) for a in node.args]) for node, variable in new.values()]
    others = [replaced(one) for one in constraints]
    ids = {old.id: one.id for old, one in zip(constraints, others, strict=True)}
    return cp.Problem(replaced(problem.objective), [*others, *equations]), ids


def _repeated(roots: Sequence[tuple[Any, float]], saved: float) -> dict[int, tuple[Any, cp.Variable]]:
    """The aggregates that are worth variables, by the ids of their nodes, in affine expressions with their copies."""
    order = _from_the_top([node for node, _ in roots])
    entries, copies = dict[int, float](), dict.fromkeys(map(id, order), 0.0)
    for node in reversed(order):
        parts = [entries[id(one)] * _copies(node, one) for one in node.args if id(one) in entries]
        entries[id(node)] = sum(parts) if node.args else float(node.size)
    for node, times in roots:
        if id(node) in copies:
            copies[id(node)] += times
    out = dict[int, tuple[Any, cp.Variable]]()
    for node in order:
        times, held = copies[id(node)], entries[id(node)]
        if node.args and held > WIDE * node.size and held * (times - 1.0) - node.size * times > saved:
            out[id(node)] = node, cp.Variable(node.shape)
            times = 1.0  # in its equation
        for one in node.args:
            if id(one) in copies:
                copies[id(one)] += times * _copies(node, one)
    return out


def _from_the_top(expressions: Sequence[Any]) -> list[Any]:
    """All nodes with variables, each once and before its arguments."""
    order, seen = list[Any](), set[int]()
    left: list[tuple[Any, bool]] = [(one, False) for one in expressions]
    while left:
        node, done = left.pop()
        if done:
            order.append(node)
        elif id(node) not in seen and not node.is_constant():
            seen.add(id(node))
            left.append((node, True))
            left += [(one, False) for one in node.args]
    return order[::-1]


def _copies(node: Any, argument: Any) -> float:
    """In how many entries of a node one entry of its argument is, on average."""
    kinds = cp.atoms.affine
    if isinstance(node, (kinds.promote.Promote, kinds.broadcast_to.broadcast_to, kinds.index.index)):
        return float(node.size / argument.size)
    if isinstance(node, kinds.binary_operators.MulExpression):  # a row or column of the other factor
        other = node.args[1] if argument is node.args[0] else node.args[0]
        dense = getattr(other, "nnz", other.size)
        return float(dense / max(argument.size, 1)) * max(node.size / max(other.size, 1), 1.0)
    return 1.0
