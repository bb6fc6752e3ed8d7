"""Blocks from the text of their repr; nothing is executed."""

from __future__ import annotations

import ast
import warnings
from fractions import Fraction
from typing import Any

from fairopt.blocks import bundles, constraints, efficiency, ideal, objectives, shares, teams
from fairopt.blocks.base import Block
from fairopt.blocks.inline import Inline
from fairopt.errors import FairoptError, InvalidBlock, nearest
from fairopt.policies.amounts import Amounts
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.dynamic import DynamicDRF
from fairopt.policies.hierarchical import HDRF
from fairopt.policies.per_server import NaivePerServer
from fairopt.policies.psdsf import PSDSF
from fairopt.policies.sequential import SequentialMinMax
from fairopt.policy import Policy
from fairopt.runtime.display import LONG

BLOCKS: dict[str, Any] = {
    name: kind
    for module in (shares, teams, ideal, objectives, efficiency, constraints, bundles)
    for name, kind in ((name, getattr(module, name)) for name in module.__all__)
    if isinstance(kind, type) and issubclass(kind, Block) and not issubclass(kind, Inline)
    if name not in ("Share", "Objective", "Constraint", "Sum", "Tiers", "AtLeast", "BundleBase", "Parts")
}

NUMBERS = (int, float, Fraction)

MECHANISMS: dict[str, Any] = {
    kind.__name__: kind for kind in (BottleneckFairness, DynamicDRF, HDRF, NaivePerServer, PSDSF, SequentialMinMax)
}


def parse_policy(text: str) -> Policy:
    """A policy from text such as ``AlphaFair(2, KDominantShare(2)) + 0.1 * Total(Tasks())``.

    An objective, or a whole ``Policy(..., constraints=[...])``; `InvalidBlock` for anything else.
    """
    value = _read(text)
    if isinstance(value, objectives.Objective):
        return _named(value, text)
    if not isinstance(value, Policy):
        raise InvalidBlock(
            f"{_cut(text)!r} is not an objective or a policy; write one such as AlphaFair(1), or the name drf"
        )
    return value


def parse_block(text: str, kind: Any, what: str, such: str) -> Any:
    """A block of a kind from text; `InvalidBlock` for anything else."""
    value = _read(text, such)
    if not isinstance(value, kind):
        raise InvalidBlock(f"{_cut(text)!r} is not {what}; write one such as {such}")
    return value


def mechanism_or_text(text: str) -> Any:
    """The mechanism of a repr, or the text itself if it is not made of fairopt's blocks only."""
    try:
        value = _read(text)
    except FairoptError:
        return text
    if isinstance(value, objectives.Objective):
        return _named(value, text)
    return value if isinstance(value, (Policy, *MECHANISMS.values())) else text


def _named(objective: objectives.Objective, text: str) -> Policy:
    """A policy named by its text, shortened if that is long."""
    return Policy(objective, name=text.strip() if len(text.strip()) <= LONG else str(objective))


def _read(text: str, example: str = "AlphaFair(1)") -> Any:
    """The value of text: blocks, mechanisms, numbers and their algebra; else `InvalidBlock` with an example."""
    shown = _cut(text)
    try:
        if len(text) > 20_000:
            raise ValueError(f"{len(text):,} letters")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # as for "1and 2"
            tree = ast.parse(text.strip(), mode="eval")
        return _value(tree.body, shown)
    except InvalidBlock:
        raise
    except (SyntaxError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise InvalidBlock(f"{shown!r} cannot be read as blocks ({error}); write one such as {example}") from error


def _cut(text: str) -> str:
    """The beginning of a text, for messages."""
    return text if len(text) <= 120 else text[:120] + "..."


def _value(node: ast.AST, text: str) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, type(None))):
        if isinstance(node.value, int):
            float(node.value)  # OverflowError for integers too large for any parameter
        return node.value
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return float(node.id)
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(_value(e, text) for e in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_value(k, text): _value(v, text) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand, text)
        if isinstance(value, NUMBERS):
            return -value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _value(node.left, text), _value(node.right, text)
        kinds = isinstance(left, objectives.Objective), isinstance(right, objectives.Objective)
        if isinstance(node.op, ast.Add) and all(kinds):
            return left + right
        if isinstance(node.op, ast.Mult) and any(kinds) and any(isinstance(x, NUMBERS) for x in (left, right)):
            return left * right
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.GtE):
        left, right = _value(node.left, text), _value(node.comparators[0], text)
        if isinstance(left, objectives.Objective) and isinstance(right, NUMBERS):
            return left >= right
    if isinstance(node, ast.Call):
        return _call(node, text)
    raise ValueError(f"{_shown(node)} is not a block or a number")


def _call(node: ast.Call, text: str) -> Any:
    arguments = [_value(a, text) for a in node.args]
    if any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
        raise InvalidBlock(f"{text!r}: stars are not read; write the parameters out")
    keywords = {str(k.arg): _value(k.value, text) for k in node.keywords}
    if isinstance(node.func, ast.Name) and node.func.id == "float" and arguments in (["inf"], ["-inf"]):
        return float(arguments[0])
    if isinstance(node.func, ast.Name) and node.func.id == "Fraction" and not keywords:
        if len(arguments) != 2 or not all(type(part) is int for part in arguments) or arguments[1] <= 0:
            raise InvalidBlock(f"{text!r}: write fractions as Fraction(1, 3)")
        return Fraction(*arguments)
    name = _shown(node.func)
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id in ("fo", "fairopt"):
            name = node.func.attr
        elif node.func.attr == "then" and not keywords:
            first = _value(owner, text)
            if isinstance(first, objectives.Objective):
                return first.then(*arguments)
    kind = Policy if name == "Policy" else BLOCKS.get(name, MECHANISMS.get(name))
    if kind is None:
        raise InvalidBlock(f"no block {name!r} in {text!r}; {nearest(name, BLOCKS)}")
    parts = [part for one in (*arguments, *keywords.values()) for part in (one if isinstance(one, tuple) else (one,))]
    if amount := next((part for part in parts if isinstance(part, Amounts)), None):
        raise InvalidBlock(f"{amount} in {text!r} needs a cluster; give it by --constraint, or as a fraction")
    try:
        if Amounts.meant(kind, arguments) and keywords.keys() <= {"share"}:
            return Amounts(kind, *arguments, **keywords)
        return kind(*arguments, **keywords)
    except TypeError as error:
        raise InvalidBlock(f"{name} in {text!r}: {error}") from error


def _shown(node: ast.AST) -> str:
    words = ast.unparse(node) if isinstance(node, ast.expr) else repr(node)
    return words if len(words) <= 60 else words[:60] + "..."
