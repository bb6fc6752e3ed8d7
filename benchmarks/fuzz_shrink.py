"""Smaller draws of which the same is wrong: fewer users, servers, resources and blocks, and rounder numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any

from fuzz_blocks import Draw

import fairopt as fo


def shrunk(draw: Draw, same: Callable[[Draw], bool], seconds: float = 30.0) -> Draw:
    """The shortest draw found of which the same is wrong, by steps that each keep that."""
    end, going = time.perf_counter() + seconds, True
    while going:
        going = False
        for make in steps(draw):
            if time.perf_counter() > end:
                return draw
            try:
                smaller = make()
                better = size(smaller) < size(draw) and same(smaller)
            except Exception:  # a step that makes no sense here
                continue
            if better:
                draw, going = smaller, True
                break
    return draw


def size(draw: Draw) -> tuple[int, int, str]:
    """What is to be small: first numbers and names, then the letters of the code."""
    code = draw.code
    return sum(map(code.count, ",([")), len(code), code


def steps(draw: Draw) -> Iterator[Callable[[], Draw]]:
    """All ways to make a draw smaller by one step, the largest first."""
    given, policy, how = draw.given, draw.policy, draw.how
    if draw.how[0] == "many" and draw.how[1]:
        for k in range(len(how[1]) + 1):

            def fewer(k: int = k) -> Draw:
                left = [given, *how[1]]
                del left[k]
                return replace(draw, given=left[0], how=("many", tuple(left[1:])))

            yield fewer
        return
    n, rows = len(given["demands"]), _rows(given)
    for what, many in (("user", n), ("server", rows), ("resource", len(_row(given)))):
        for k in reversed(range(many if many > 1 else 0)):
            yield lambda what=what, k=k: without(draw, what, k)
    for key in given.keys() - {"demands", "capacities"}:
        yield lambda key=key: replace(draw, given={k: v for k, v in given.items() if k != key})
    if draw.options:
        yield lambda: replace(draw, options={})
    if how[0] == "prepared":
        yield lambda: replace(draw, how=("allocate",))
        for key in how[1]:
            yield lambda key=key: replace(draw, how=("prepared", {k: v for k, v in how[1].items() if k != key}))
    if how[0] == "read":
        for k in range(len(how[2])):
            yield lambda k=k: replace(draw, how=(how[0], how[1], how[2][:k] + how[2][k + 1 :], how[3]))
    if isinstance(policy, fo.Policy) and not draw.text:
        for smaller in _policies(policy):
            yield lambda smaller=smaller: replace(draw, policy=smaller)
    for key, value in given.items():
        for rounder in _rounder(value):
            yield lambda key=key, rounder=rounder: replace(draw, given=given | {key: rounder})


def without(draw: Draw, what: str, k: int) -> Draw:
    """A draw without one user, server or resource, in the instance and in the blocks."""
    given, n, rows = draw.given, len(draw.given["demands"]), _rows(draw.given)
    third, flat = _depth(given["demands"]) == 3, _depth(given["capacities"]) == 1
    axes = {  # where each argument has what goes
        "user": {"demands": 0, "weights": 0, "task_limits": 0, "eligible": 0, "rates": 0},
        "server": {"capacities": 0, "counts": 0, "server_types": 0, "eligible": 1, "rates": 1}
        | ({"demands": 1} if third else {}),
        "resource": {"capacities": 0 if flat else 1, "demands": 2 if third else 1},
    }[what]

    def less(arguments: dict[str, Any]) -> dict[str, Any]:
        cut = {key: _cut(v, axes[key], k) if key in axes else v for key, v in arguments.items()}
        if what == "user" and "teams" in cut:
            cut["teams"] = {by: _cut(labels, 0, k) for by, labels in cut["teams"].items()}
        return cut

    many = {"user": n, "server": rows, "resource": len(_row(given))}[what]
    how = draw.how
    if how[0] == "prepared":
        how = ("prepared", less(how[1]))
    policy = draw.policy if draw.text else _mapped(draw.policy, what, k, many)
    return replace(draw, given=less(given), policy=policy, how=how)


def _mapped(block: Any, what: str, k: int, many: int) -> Any:
    """A policy or block without one user, server or resource."""
    if isinstance(block, fo.Policy):
        left = [_mapped(part, what, k, many) for part in (block.objective, *block.constraints)]
        return fo.Policy(left[0], left[1:])
    if isinstance(block, tuple):
        return tuple(_mapped(v, what, k, many) for v in block)
    if not is_dataclass(block):
        return block
    changed = {}
    for field in fields(block):
        value = getattr(block, field.name)
        if hasattr(value, "pairs") and what == "user":
            of = {int(user.removeprefix("user")) - 1: v for user, v in value.pairs}
            changed[field.name] = {f"user{j + (j < k)}": v for j, v in of.items() if j != k}
        elif field.name == "resource" and what == "resource" and isinstance(value, int):
            changed[field.name] = value - (value > k)
        elif field.name == "rates" and isinstance(value[0], tuple):  # by label of a server: the rest is by user
            cut = value if what != "user" else tuple((label, _cut(row, 0, k)) for label, row in value)
            changed[field.name] = _cut(cut, 0, k) if what == "server" else cut
        elif field.name in ("matrix", "table") and what != "resource":
            axis = {"matrix": 1, "table": 0 if what == "user" else 1}[field.name]
            changed[field.name] = value if field.name == "matrix" and what == "server" else _cut(value, axis, k)
        elif is_dataclass(value) or field.name in ("tiers", "parts"):
            changed[field.name] = _mapped(value, what, k, many)
        elif what == "user" and field.name != "values" and isinstance(value, tuple) and len(value) == many:
            changed[field.name] = _cut(value, 0, k)
    return replace(block, **changed) if changed else block


def _policies(policy: fo.Policy) -> Iterator[fo.Policy]:
    """Policies of fewer blocks, tiers and terms, of plainer shares, without a name, and of rounder numbers."""
    objective, blocks = policy.objective, list(policy.constraints)
    if policy.name is not None:
        yield fo.Policy(objective, blocks)
    for k in range(len(blocks)):
        yield fo.Policy(objective, blocks[:k] + blocks[k + 1 :])
    for smaller in _smaller(objective):
        yield fo.Policy(smaller, blocks)
    for k, block in enumerate(blocks):
        for smaller in _smaller(block):
            yield fo.Policy(objective, [*blocks[:k], smaller, *blocks[k + 1 :]])


def _smaller(block: Any) -> Iterator[Any]:
    """A block with one thing less, or one plainer."""
    if hasattr(block, "tiers"):
        for k in range(len(block.tiers)):
            left = block.tiers[:k] + block.tiers[k + 1 :]
            yield left[0] if len(left) == 1 else replace(block, tiers=left)
        for k, tier in enumerate(block.tiers):
            for one in _smaller(tier):
                yield replace(block, tiers=(*block.tiers[:k], one, *block.tiers[k + 1 :]))
    if hasattr(block, "atoms"):  # of `fuzz_constants`
        for k in range(len(block.atoms) if len(block.atoms) > 1 else 0):
            yield replace(block, atoms=block.atoms[:k] + block.atoms[k + 1 :])
    if hasattr(block, "parts"):
        yield from (part for _, part in block.parts)
    if getattr(block, "share", None) not in (None, fo.Tasks(), fo.DominantShare()):
        yield from (*_changed(block, "share", fo.Tasks()), *_changed(block, "share", fo.DominantShare()))
    for field in fields(block) if is_dataclass(block) else ():
        value = getattr(block, field.name)
        if isinstance(value, (int, float, tuple)) and field.name not in ("tiers", "parts", "atoms"):
            for rounder in _rounder(value):
                yield from _changed(block, field.name, rounder)


def _changed(block: Any, name: str, value: Any) -> Iterator[Any]:
    """The block with another parameter, where it takes that."""
    with suppress(Exception):
        yield replace(block, **{name: value})


def _rounder(value: Any) -> Iterator[Any]:
    """The same with one number less odd: 1, an integer, one digit, two."""
    if isinstance(value, (list, tuple)):
        for k, one in enumerate(value):
            for rounder in _rounder(one):
                yield type(value)([*value[:k], rounder, *value[k + 1 :]])
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        candidates = (1, 2, round(value), *(float(f"{value:.{k}g}") for k in (1, 2)), float(f"1e{f'{value:e}'[-3:]}"))
        for one in dict.fromkeys(candidates if value else ()):
            plainer = int(one) if float(one).is_integer() and abs(one) < 1e6 else one
            if plainer != value and len(repr(plainer)) <= len(repr(value)):
                yield plainer


def _cut(table: Any, axis: int, k: int) -> Any:
    """A nested list or tuple without one entry along an axis."""
    if axis:
        return type(table)([_cut(row, axis - 1, k) for row in table])
    return table[:k] + table[k + 1 :]


def _depth(table: Any) -> int:
    return 1 + _depth(table[0]) if isinstance(table, (list, tuple)) else 0


def _rows(given: dict[str, Any]) -> int:
    """Servers."""
    return len(given["capacities"]) if _depth(given["capacities"]) == 2 else 1


def _row(given: dict[str, Any]) -> Any:
    """Capacities of the first server."""
    return given["capacities"][0] if _depth(given["capacities"]) == 2 else given["capacities"]
