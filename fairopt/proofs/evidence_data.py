"""Evidence as plain lists and numbers, for allocations to keep and for files; and made whole again for the gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from fairopt.formulation.pool_users import Pool
from fairopt.formulation.program import ConeModel, Program
from fairopt.proofs.conditions import charged_conditions, dual_values
from fairopt.proofs.evidence import (
    Bottlenecked,
    Evidence,
    FairPrices,
    HeldLevels,
    Holding,
    RowPrices,
    Solved,
    TotalPrices,
)
from fairopt.proofs.servers import LevelUnits

__all__ = ["plain", "restored"]


def plain(evidence: Evidence | None) -> dict[str, Any] | None:
    """Evidence as a dict of numbers and lists; None where it holds what cannot be written down."""
    if isinstance(evidence, Bottlenecked):
        return {"kind": "bottlenecks", "order": _list(evidence.order), "prices": _list(evidence.prices)}
    if isinstance(evidence, FairPrices):
        return {"kind": "fair prices", "log_prices": evidence.log_prices.tolist(), "level": float(evidence.level)}
    if isinstance(evidence, TotalPrices):
        return {"kind": "total prices", "prices": evidence.prices.tolist()}
    if isinstance(evidence, RowPrices):
        return {"kind": "row prices", "prices": evidence.prices.tolist()}
    if isinstance(evidence, HeldLevels):
        holdings = [
            {"users": _list(h.users), "prices": _list(h.prices), "duals": list(map(_list, h.duals)), "at": _list(h.at)}
            for h in evidence.holdings
        ]
        return {"kind": "levels", "holdings": holdings, "prices": _list(evidence.prices)}
    if isinstance(evidence, Solved):
        duals = [dual_values(condition).tolist() for condition in _conditions(evidence.model)]
        return {"kind": "duals", "duals": duals, "stands_in": evidence.stands_in is not None}
    return None


def restored(program: Program, held: Mapping[str, Any], solver: str | None) -> Evidence:
    """What `plain` wrote, wherever it was kept, for a program of the same blocks and instance.

    `KeyError`, `TypeError` or `ValueError` if it is no such thing, or of another program.
    """
    kind = held["kind"]
    if kind == "duals":
        return _solved(program, held, solver)
    if kind == "levels":
        return _levels(program, held, solver)
    if kind == "row prices":
        instance = program.instance
        return RowPrices(LevelUnits(program), _numbers(held["prices"], (instance.n_resources, instance.n_servers)))
    if program.pool_share is None:
        raise ValueError(f"{kind} for what is not one pool")
    pool = Pool(program, program.pool_share)
    if kind == "bottlenecks":
        order, prices = held["order"], held["prices"]
        return Bottlenecked(
            pool, None if order is None else _indices(order, pool.m).tolist(),
            None if prices is None else _numbers(prices, (pool.m,)),
        )  # fmt: skip
    if kind == "fair prices":
        if program.alpha_fair is None:
            raise ValueError("fair prices for another objective")
        return FairPrices(pool, _numbers(held["log_prices"], (pool.m,)), float(held["level"]))
    if kind == "total prices":
        return TotalPrices(pool, _numbers(held["prices"], (pool.m,)))
    raise ValueError(f"no evidence of kind {kind!r}")


def _levels(program: Program, held: Mapping[str, Any], solver: str | None) -> HeldLevels:
    """What held users, with a cone program written down anew where conditions other than bounds did too."""
    rows, n, pairs = len(program.usable_rows), program.instance.n_users, len(program.pairs)
    model = None if all(h["at"] is None for h in held["holdings"]) and not program.rest else ConeModel(program, solver)
    shapes = [] if model is None else [(len(dual_values(condition)),) for _, condition in charged_conditions(model)]
    holdings = []
    for h in held["holdings"]:
        at = None if h["at"] is None else _numbers(h["at"], (pairs,))
        duals = () if at is None else [_numbers(d, shape) for d, shape in zip(h["duals"], shapes, strict=True)]
        holdings.append(Holding(_indices(h["users"], n), _numbers(h["prices"], (rows,)), duals, at))
    return HeldLevels(holdings, model, _numbers(held["prices"], (rows,)))


def _solved(program: Program, held: Mapping[str, Any], solver: str | None) -> Solved:
    """A cone program written down anew, with the dual values that were kept."""
    model = ConeModel(program, solver)
    conditions = _conditions(model)
    if len(conditions) != len(held["duals"]):
        raise ValueError(f"{len(held['duals'])} dual values for {len(conditions)} conditions")
    for condition, dual in zip(conditions, held["duals"], strict=True):
        values = _numbers(dual, (len(dual_values(condition)),))
        if len(condition.dual_variables) == 1:  # those of cones are charged to nothing
            condition.dual_variables[0].save_value(values.reshape(condition.shape, order="F"))
    return Solved(model, model.maximand[0] if held["stands_in"] else None)


def _conditions(model: ConeModel) -> list[cp.Constraint]:
    """The conditions whose dual values are evidence."""
    return [model.capacity, *model.box, *(condition for _, _, condition in model.rest)]


def _list(values: Any) -> list[Any] | None:
    """Numbers as a list; None for none."""
    return None if values is None else np.asarray(values).tolist()


def _numbers(values: Any, shape: tuple[int, ...]) -> Any:
    """An array of numbers of a shape."""
    array = np.asarray(values, dtype=float)
    if array.shape != shape:
        raise ValueError(f"evidence of shape {array.shape}, not {shape}")
    return array


def _indices(values: Any, below: int) -> Any:
    """Indices below a number."""
    array = np.asarray(values, dtype=np.intp)
    if array.ndim != 1 or (array.size and not (array.min() >= 0 and array.max() < below)):
        raise ValueError(f"indices beyond {below}")
    return array
