"""A policy parsed from its text (`block`), and what its parts mean.

Nothing is executed: the text is read as a syntax tree, and only calls of the names in `PARAMETERS` are blocks.
Some objectives are the same as others, and are proved as those: fairness and efficiency on the edge of the plane of
(beta, lambda) is alpha-fair (Lan et al. 2010), a ranked objective of one weight is max-min.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .blocks import CONDITIONS, SHARES
from .numbers import ONE, ROUNDING, ZERO, Fraction, in_decimals, number, together
from .outcome import CannotCheck, Fault

PARAMETERS: dict[str, tuple[str, ...]] = {
    **{name: share.parameters for name, share in SHARES.items()},
    **{name: condition.parameters for name, condition in CONDITIONS.items()},
    "Policy": ("objective", "constraints", "name"),
    "Total": ("share",),
    "MaxMin": ("share",),
    "Leximin": ("share",),
    "AlphaFair": ("alpha", "share"),
    "OrderedWeighted": ("weights", "share"),
    "FairnessEfficiency": ("beta", "lam", "share"),
    "IdealGain": ("base",),
    "OfTeam": ("share", "by", "weights", "inside"),
    "Surplus": ("share", "base"),
    "MinTasks": ("tasks", "or_zero"),
    "MaxTasks": ("tasks",),
    "MinShare": ("level", "share"),
    "MaxShare": ("level", "share"),
    "SharingIncentive": (),
    "EnvyFree": (),
    "Reserve": ("resource", "fraction"),
    "WeightedLog": ("base",),
    "FairShareBase": ("growth",),
    "GlobalAggregateResource": ("units", "over"),
    "AtMostRequested": (),
    "HDRF": ("by", "weights"),
}
USER_SHARES = (*SHARES, "IdealGain")
COMPOSED = ("OfTeam", "Surplus")  # shares of several users, or above a base
OBJECTIVES = ("Total", "MaxMin", "Leximin", "AlphaFair", "OrderedWeighted", "FairnessEfficiency", "WeightedLog")
COMPARING = ("MaxMin", "Leximin", "AlphaFair", "OrderedWeighted", "WeightedLog")  # of numbers per weight


@dataclass(frozen=True)
class Block:
    """A parsed block; ``Sum``, ``Tiers`` and ``AtLeast`` stand for ``+``, ``then`` and ``>=``."""

    name: str
    given: Mapping[str, Any]
    text: str

    @property
    def share(self) -> Block:
        """The block's share; by default the dominant share."""
        return self.given.get("share") or Block("DominantShare", {}, "DominantShare()")

    @property
    def of_user(self) -> Block:
        """The share of a user: itself, or what `OfTeam` or `Surplus` is of."""
        return self.share.of_user if self.name in COMPOSED else self

    @property
    def terms(self) -> list[tuple[Fraction, Block]]:
        """The objective as factors and terms."""
        return self.given["terms"] if self.name == "Sum" else [(ONE, self)]


class _Decimals(ast.NodeTransformer):
    """Replaces floats in a parsed text by the shortest decimals that print them."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        finite = isinstance(node.value, float) and math.isfinite(node.value)
        return ast.copy_location(ast.Constant(in_decimals(node.value)), node) if finite else node  # type: ignore[arg-type]


def block(text: str, exactly: bool = False) -> Block:
    """Parse a policy or block; nothing is executed. If ``exactly``, floats are read by `in_decimals`."""
    try:
        tree = ast.parse(text, mode="eval")
        return _block((_Decimals().visit(tree) if exactly else tree).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotCheck(f"the policy is not one of fairopt's blocks ({error})") from error


def _block(node: ast.AST) -> Any:
    """What an expression stands for: a number, a list, a dict or a block."""
    text = ast.unparse(node)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_block(node.operand)
    if isinstance(node, (ast.Tuple, ast.List)):
        return [_block(part) for part in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_block(k): _block(v) for k, v in together(node.keys, node.values)}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return Block("Sum", {"terms": _block(node.left).terms + _block(node.right).terms}, text)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        factor = number(_block(node.left), "a factor", 0)
        return Block("Sum", {"terms": [(factor * c, term) for c, term in _block(node.right).terms]}, text)
    if isinstance(node, ast.Compare) and [type(op) for op in node.ops] == [ast.GtE]:
        return Block("AtLeast", {"objective": _block(node.left), "level": _block(node.comparators[0])}, text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "then":
        first, (second,) = _block(node.func.value), map(_block, node.args)
        return Block("Tiers", {"tiers": [*(first.given["tiers"] if first.name == "Tiers" else [first]), second]}, text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(node.func.id, node, text)
    raise CannotCheck(f"{text} is not a block of fairopt")


def _called(name: str, node: ast.Call, text: str) -> Any:
    """A number or a block that is written as a call."""
    constants = [part.value for part in node.args if isinstance(part, ast.Constant)]
    if name == "float" and len(constants) == len(node.args) == 1 and not node.keywords:
        return float(constants[0])  # type: ignore[arg-type]
    if name == "Fraction" and len(constants) == len(node.args) == 2 and not node.keywords:
        n, d = constants
        if type(n) is int and type(d) is int and d > 0:
            return Fraction(n, d)
        raise ValueError(f"{text} is not a fraction")
    if name not in PARAMETERS:  # user-defined
        return Block(name, {}, text)
    given = dict(zip(PARAMETERS[name], map(_block, node.args)))
    words = [word.arg for word in node.keywords]
    once = len({*given, *words}) == len(node.args) + len(words)
    if not once or {*words} - {*PARAMETERS[name]}:
        raise CannotCheck(f"{text} has parameters that {name} does not take")
    given |= {str(word.arg): _block(word.value) for word in node.keywords}
    _check_types(name, given, text)
    return Block(name, given, text)


def _check_types(name: str, given: Mapping[str, Any], text: str) -> None:
    """`CannotCheck` if a parameter of a block is not of the kind that its class takes."""
    inner = given.get("share")
    if "share" in given and not (
        isinstance(inner, Block) and inner.name not in (*OBJECTIVES, "Policy", "Sum", "Tiers")
    ):
        raise CannotCheck(f"{text}: share is no share")
    nested = isinstance(inner, Block) and inner.name in COMPOSED
    if nested and name in COMPOSED and (name, inner.name) != ("Surplus", "OfTeam"):  # type: ignore[union-attr]
        raise CannotCheck(f"{text}: {name} is of a user's share")
    if given.get("inside", "any") not in ("fair", "any"):
        raise CannotCheck(f"{text}: inside is neither 'fair' nor 'any'")
    if name == "Policy":
        conditions = given.get("constraints", [])
        if not isinstance(given.get("objective"), Block) or not isinstance(given.get("name", ""), (str, type(None))):
            raise CannotCheck(f"{text}: no objective, or a name that is no text")
        if not isinstance(conditions, list) or not all(isinstance(one, Block) for one in conditions):
            raise CannotCheck(f"{text}: constraints are no list of blocks")


def is_linear(objective: Block) -> bool:
    """Whether an objective is a sum of shares."""
    return all(t.name == "Total" or (t.name == "AlphaFair" and t.given["alpha"] == 0) for _, t in objective.terms)


def alpha_of(term: Block) -> Fraction:
    """The alpha of alpha-fairness; 0 for other terms."""
    return number(term.given["alpha"], "alpha", 0) if term.name == "AlphaFair" else ZERO


def is_levelled(term: Block) -> bool:
    """Whether a one-term objective compares numbers with each other."""
    return term.name in COMPARING and not is_linear(term)


def as_list(value: Any) -> list[Any]:
    """A list, or a single value in a list."""
    return value if isinstance(value, list) else [value]


def as_max_min(objective: Block) -> tuple[Fraction, Block]:
    """An objective of the smallest share per weight as a factor and `MaxMin`; any other with the factor 1."""
    nonzero = [(factor, term) for factor, term in objective.terms if factor]
    if len(nonzero) == 1 and nonzero[0][1].name in ("MaxMin", "OrderedWeighted"):
        factor, term = nonzero[0]
        first, *others = (number(x, "a weight", 0) for x in as_list(term.given.get("weights", 1)))
        if first and not any(others):
            return factor * first, Block("MaxMin", {"share": term.share}, objective.text)
    return ONE, objective


def as_alpha_fair(term: Block) -> Block:
    """The alpha-fair objective, or the total, with the same optimum as a `FairnessEfficiency`."""
    beta, lam = number(term.given["beta"], "beta"), number(term.given["lam"], "lam")
    if beta == 1 and lam > 0:
        return Block("Total", {"share": term.share}, term.text)
    emphasis = lam if beta < 1 else -lam
    edge = abs(1 - beta) / (abs(beta) or 1)
    if beta <= 0 or beta == 1 or abs(emphasis - edge) > ROUNDING * edge:
        raise CannotCheck(f"{term.text} is not alpha-fair, so it is proved by lines and cannot be part of a sum")
    return Block("AlphaFair", {"alpha": term.given["beta"], "share": term.share}, term.text)


def rank_weights(term: Block, count: int) -> list[Fraction]:
    """The weights of a term by rank, of so many ranks."""
    v = [number(x, "a weight", 0) for x in as_list(term.given.get("weights", 1))]
    if v != sorted(v, reverse=True) or not any(v):
        raise Fault(f"the weights of {term.text} increase, or are all 0")
    return (v + [ZERO] * count)[:count]


def is_surplus(term: Block) -> bool:
    """Whether a one-term objective compares what is above a base."""
    return term.share.name == "Surplus" and is_levelled(term)


def decides_bundles(policy: Block) -> bool:
    """Whether a policy maximises weighted logarithms of bundles."""
    objective = policy.given.get("objective")
    return isinstance(objective, Block) and any(term.name == "WeightedLog" for _, term in objective.terms)


def tiers_of(objective: Block) -> list[Block]:
    """The tiers of an objective; the objective itself if it has none."""
    return objective.given["tiers"] if objective.name == "Tiers" else [objective]
