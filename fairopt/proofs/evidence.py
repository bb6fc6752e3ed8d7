"""What a method proposes: a point with prices, levels or multipliers as evidence; and evidence as plain data, for
files.

Wrong evidence gives a weak bound, never a wrong one. A solver's status, objective value and bound are not evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairopt.blocks.efficiency import PowerSpread, TotalIs
from fairopt.blocks.objectives import Objective, Total
from fairopt.certificate import Try
from fairopt.formulation.division import Division
from fairopt.formulation.pool_users import Chunk, Pool
from fairopt.formulation.program import ConeModel, Float, Indices, Program
from fairopt.lazy import cp
from fairopt.proofs.conditions import dual_values
from fairopt.proofs.conic import ConicConditions, further_conditions
from fairopt.proofs.envy import Pulled
from fairopt.proofs.servers import RowUnits, units_of

Settle = Callable[[Chunk], None]


@dataclass
class Bottlenecked:
    """Leximin or max-min on one pool, where each user is at a full resource or at its limit: this needs no multipliers.

    ``order`` are resources in the order in which they became full, a hint; ``prices`` (n_resources,) derivatives of the
    max-min level by each whole capacity. ``settle`` writes the tasks of a chunk of users as the gate reads it, which
    saves a pass over the demands.
    """

    pool: Pool
    order: Sequence[int] | None = None
    prices: Float | None = None
    settle: Settle | None = None


@dataclass
class FairPrices:
    """Alpha-fairness on one pool: logarithms of prices per whole capacity, for shares in units of ``level``."""

    pool: Pool
    log_prices: Float
    level: float
    settle: Settle | None = None


@dataclass
class TotalPrices:
    """The largest total on one pool: prices per whole capacity."""

    pool: Pool
    prices: Float
    settle: Settle | None = None


@dataclass(frozen=True)
class CapacityPrices:
    """Prices by row of loads, per whole capacity, in natural units of an objective that has a majorant."""

    program: Program
    prices: Float


@dataclass(frozen=True)
class RowPrices:
    """Alpha-fairness, max-min and sums of one concave function per user on several servers.

    ``prices`` (n_resources, n_servers) are per whole capacity, in units of level; in natural units of the objective
    where it is a sum.
    """

    units: RowUnits
    prices: Float


@dataclass(frozen=True)
class UserPrices:
    """A sum of one concave function per user: prices by row of `Pairs.loads`, per whole capacity, in natural units of
    the objective.

    ``of_sum`` is the price of the sum of shares where that is fixed (`TotalIs`), of either sign. On several servers
    they prove only the most even shares of a fixed sum (`Tangents`).
    """

    program: Program
    prices: Float
    of_sum: float = 0.0


@dataclass(frozen=True)
class Holding:
    """Prices that hold some ``users`` (indices) of a leximin at their level.

    ``prices`` (n_rows,) are by row of `Pairs.loads`, per whole capacity; ``dual`` is a point near the dual cone of the
    further conditions, and ``sizes`` those of the variables that CVXPY added to them (`ConicConditions`).
    """

    users: Indices
    prices: Float
    dual: Float | None = None
    sizes: Float | None = None


@dataclass(frozen=True)
class HeldLevels:
    """Leximin by programs: for every user below its limit the prices that hold it, by level.

    ``model`` is the cone program, where there are conditions besides bounds, and ``further`` are these conditions;
    ``prices`` (n_rows,) the derivatives of the max-min level by each row.
    """

    holdings: Sequence[Holding]
    model: ConeModel | None = None
    prices: Float | None = None
    further: ConicConditions | None = None


@dataclass(frozen=True)
class Solved:
    """A cone program with the values and dual values of a solver.

    The expression maximised is `ConeModel.maximand`, or the objective in another ``unit``, or ``stands_in``, which has
    the same optimum as the objective, and relates to it in no other way but for its unit, if that is given.
    """

    model: ConeModel
    stands_in: cp.Expression | None = None
    unit: float | None = None

    @cached_property
    def maximand(self) -> tuple[cp.Expression, float | None]:
        """The expression that was maximised, and natural units per unit of it; None for an increasing transform."""
        if self.stands_in is not None:
            return self.stands_in, self.unit
        if self.unit is None:
            return self.model.maximand
        return cp.sum(self.model.program.objective.expression(self.model.model)) / self.unit, self.unit


@dataclass(frozen=True)
class Tangents:
    """`FairnessEfficiency` by a search along the sum of shares.

    ``largest`` is evidence of the largest sum, ``smallest`` of the smallest where that is not zero, and ``cuts`` are
    optima of the evenness at fixed sums: each a program of the same blocks with `TotalIs`, tasks by pair, and what a
    solver left, or prices in units of the majorant.
    """

    largest: tuple[Program, Proposal]
    smallest: tuple[Program, Proposal] | None
    cuts: Sequence[tuple[Program, Float, Solved | UserPrices]]


@dataclass(frozen=True)
class FewerRows:
    """Evidence of a program with fewer conditions: what no point of it exceeds, no point of the whole program does."""

    program: Program
    found: Evidence
    made: tuple[tuple[int, ...], ...]  # rows by block of `Program.many_rows`


Evidence = (
    FewerRows
    | CapacityPrices
    | Bottlenecked
    | Pulled
    | FairPrices
    | TotalPrices
    | RowPrices
    | UserPrices
    | HeldLevels
    | Solved
    | Tangents
    | Division
)


@dataclass(frozen=True)
class Proposal:
    """The outcome of one attempt of a method: a point with evidence, or no point.

    Tasks are by pair of a user and a server; where bundles are decided, both are by server row. A `Division` without a
    point stands for its own optimum.
    """

    method: str
    tasks: Float | None = None
    evidence: Evidence | None = None
    solver: str | None = None
    attempt: Try | None = None
    bundles: Float | None = None


PLAIN: dict[type, tuple[str, ...]] = {  # name in files, and fields
    Bottlenecked: ("bottlenecks", "order", "prices"),
    FairPrices: ("fair prices", "log_prices", "level"),
    TotalPrices: ("total prices", "prices"),
    CapacityPrices: ("capacity prices", "prices"),
    Pulled: ("pulled", "prices"),
    RowPrices: ("row prices", "prices"),
    UserPrices: ("user prices", "prices", "of_sum"),
}


def plain(evidence: Evidence | None) -> dict[str, Any] | None:
    """Evidence as a dict of numbers and lists; None for a `Division`, which follows from the instance."""
    for form, (kind, *names) in PLAIN.items():
        if isinstance(evidence, form):
            return {"kind": kind} | {name: _list(getattr(evidence, name)) for name in names}
    if isinstance(evidence, FewerRows):
        return {"kind": "rows", "made": [list(rows) for rows in evidence.made], "found": plain(evidence.found)}
    if isinstance(evidence, HeldLevels):
        holdings = [
            {name: _list(getattr(h, name)) for name in ("users", "prices", "dual", "sizes")} for h in evidence.holdings
        ]
        return {"kind": "levels", "holdings": holdings, "prices": _list(evidence.prices)}
    if isinstance(evidence, Tangents):
        sums = [end and end[1] for end in (evidence.largest, evidence.smallest)]
        ends = [end and {"tasks": _list(end.tasks), "found": plain(end.evidence)} for end in sums]
        cuts = [{"sum": fixed_sum(cut), "tasks": _list(at), "found": plain(found)} for cut, at, found in evidence.cuts]
        return {"kind": "tangents", "ends": ends, "cuts": cuts}
    if isinstance(evidence, Solved):
        duals = [dual_values(condition).tolist() for condition in _conditions(evidence.model)]
        return {"kind": "duals", "duals": duals, "stands_in": evidence.stands_in is not None, "unit": evidence.unit}
    return None


def restored(program: Program, held: Mapping[str, Any], solver: str | None) -> Evidence:
    """The evidence that `plain` wrote, for a program of the same blocks and instance.

    `KeyError`, `TypeError` or `ValueError` if it is malformed, or of another program.
    """
    kind = held["kind"]
    if kind == "duals":
        return _solved(program, held, solver)
    if kind == "levels":
        return _levels(program, held, solver)
    if kind == "tangents":
        return _tangents(program, held, solver)
    if kind == "rows":
        n = program.instance.n_users
        made = tuple(tuple(_indices(rows, n * n).tolist()) for rows in held["made"])
        fewer = program.with_rows(dict(zip(program.many_rows, made, strict=True)))
        return FewerRows(fewer, restored(fewer, held["found"], solver), made)
    if kind == "row prices":
        instance = program.instance
        return RowPrices(units_of(program), _numbers(held["prices"], (instance.n_resources, instance.n_servers)))
    if kind == "user prices":
        return _user_prices(program, held)
    if kind == "pulled":
        return Pulled(program, None if held["prices"] is None else _numbers(held["prices"], program.usable.shape))
    if kind == "capacity prices":
        return CapacityPrices(program, _numbers(held["prices"], (len(program.usable_rows),)))
    if program.pool_share is None:
        raise ValueError(f"{kind} for a program of several servers")
    pool = Pool(program, program.pool_share)
    if kind == "bottlenecks":
        order = None if held["order"] is None else _indices(held["order"], pool.m).tolist()
        return Bottlenecked(pool, order, None if held["prices"] is None else _numbers(held["prices"], (pool.m,)))
    if kind == "fair prices":
        if not program.term.is_curved:
            raise ValueError("fair prices for another objective")
        return FairPrices(pool, _numbers(held["log_prices"], (pool.m,)), float(held["level"]))
    if kind == "total prices":
        return TotalPrices(pool, _numbers(held["prices"], (pool.m,)))
    raise ValueError(f"{kind!r} is not a kind of evidence")


def _user_prices(program: Program, held: Mapping[str, Any]) -> UserPrices:
    """`UserPrices` of a program."""
    return UserPrices(program, _numbers(held["prices"], program.usable_rows.shape), float(held["of_sum"]))


def _levels(program: Program, held: Mapping[str, Any], solver: str | None) -> HeldLevels:
    """`HeldLevels`, with a new cone model where conditions other than bounds hold users."""
    rows, n = len(program.usable_rows), program.instance.n_users
    free = all(h["dual"] is None for h in held["holdings"]) and not program.rest
    model = None if free else ConeModel(program, solver)
    further = None if model is None else further_conditions(model)
    shapes = {"dual": (0,), "sizes": (0,)}
    if further is not None:
        shapes = {"dual": further.right.shape, "sizes": further.on_others.shape[1:]}
    holdings = []
    for h in held["holdings"]:
        told = {name: None if h[name] is None else _numbers(h[name], shape) for name, shape in shapes.items()}
        holdings.append(Holding(_indices(h["users"], n), _numbers(h["prices"], (rows,)), **told))
    return HeldLevels(holdings, model, _numbers(held["prices"], (rows,)), further)


def fixed_sum(program: Program) -> float | None:
    """The sum of shares that a program of `Tangents` requires, if any."""
    return next((block.level for block in program.constraints if isinstance(block, TotalIs)), None)


def _tangents(program: Program, held: Mapping[str, Any], solver: str | None) -> Tangents:
    """`Tangents`, with new programs for the extreme sums and for the sums at which the evenness was solved."""
    measure, pairs = program.term.measure, (len(program.pairs),)
    if measure is None:
        raise ValueError("tangents for another objective")

    def end(of: Objective, kept: Mapping[str, Any]) -> tuple[Program, Proposal]:
        asked = Program(program.given, of, program.constraints)
        return asked, Proposal("saved", _numbers(kept["tasks"], pairs), restored(asked, kept["found"], solver))

    def cut(kept: Mapping[str, Any]) -> tuple[Program, Float, Solved | UserPrices]:
        fixed = () if kept["sum"] is None else (TotalIs(float(kept["sum"]), measure.share),)
        asked = Program(program.given, measure.evenness, (*program.constraints, *fixed))
        by_prices = kept["found"]["kind"] == "user prices"
        found = _user_prices(asked, kept["found"]) if by_prices else _solved(asked, kept["found"], solver)
        return asked, _numbers(kept["tasks"], pairs), found

    largest, smallest = held["ends"]
    least = None if smallest is None else end(PowerSpread(1.0, measure.share), smallest)
    return Tangents(end(Total(measure.share), largest), least, tuple(map(cut, held["cuts"])))


def _solved(program: Program, held: Mapping[str, Any], solver: str | None) -> Solved:
    """`Solved`, with a new cone model that has the dual values that were kept."""
    model = ConeModel(program, solver)
    conditions = _conditions(model)
    if len(conditions) != len(held["duals"]):
        raise ValueError(f"{len(held['duals'])} dual values for {len(conditions)} conditions")
    for condition, dual in zip(conditions, held["duals"], strict=True):
        values = _numbers(dual, (len(dual_values(condition)),))
        if len(condition.dual_variables) == 1:  # dual values of cones are not charged
            condition.dual_variables[0].save_value(values.reshape(condition.shape, order="F"))
    unit = held.get("unit")
    if unit is None:
        return Solved(model, model.maximand[0] if held["stands_in"] else None)
    if not 0 < float(unit) < np.inf:
        raise ValueError(f"the unit is {unit!r}, and must be a number > 0")
    return Solved(model, cp.Constant(0.0) if held["stands_in"] else None, float(unit))  # with a unit it is not read


def _conditions(model: ConeModel) -> list[cp.Constraint]:
    """The conditions whose dual values are evidence."""
    return [model.capacity, *model.box, *(condition for _, _, condition in model.rest)]


def _list(values: Any) -> list[Any] | None:
    """Numbers as a list; None stays None."""
    return None if values is None else np.asarray(values).tolist()


def _numbers(values: Any, shape: tuple[int, ...]) -> Any:
    """Numbers as an array of the given shape."""
    array = np.asarray(values, dtype=float)
    if array.shape != shape:
        raise ValueError(f"evidence of shape {array.shape}, not {shape}")
    return array


def _indices(values: Any, below: int) -> Any:
    """Numbers as indices below a bound."""
    array = np.asarray(values, dtype=np.intp)
    if array.ndim != 1 or (array.size and not (array.min() >= 0 and array.max() < below)):
        raise ValueError(f"indices not below {below}")
    return array
