"""The kinds of evidence in files, by their names there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairopt.evidence.above import AboveBase
from fairopt.evidence.alike import OfKinds
from fairopt.evidence.exact_levels import ExactLevels
from fairopt.evidence.fewer_rows import FewerRows
from fairopt.evidence.levels import LevelDuals
from fairopt.evidence.number_levels import NumberLevels
from fairopt.evidence.pool import Bottlenecked, EnvyBottlenecks, FairPrices, TotalPrices
from fairopt.evidence.prices import CapacityPrices, RowPrices, UserPrices
from fairopt.evidence.solved import Solved
from fairopt.evidence.tangents import Tangents
from fairopt.formulation.program import Program
from fairopt.proofs.proposal import Evidence, Reader

KINDS: dict[str, type[Evidence]] = {
    "bottlenecks": Bottlenecked,
    "pulled": EnvyBottlenecks,
    "fair prices": FairPrices,
    "total prices": TotalPrices,
    "user prices": UserPrices,
    "capacity prices": CapacityPrices,
    "row prices": RowPrices,
    "levels": LevelDuals,
    "exact levels": ExactLevels,
    "number levels": NumberLevels,
    "duals": Solved,
    "tangents": Tangents,
    "rows": FewerRows,
    "above a base": AboveBase,
    "users alike": OfKinds,
}


def restored(program: Program, held: Mapping[str, Any], solver: str | None) -> Evidence:
    """The evidence that `Evidence.numbers` wrote, for a program of the same blocks and instance.

    `KeyError`, `TypeError` or `ValueError` if it is malformed or of another program.
    """
    return Reader(KINDS, solver)(program, held)
