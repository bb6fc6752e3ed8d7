"""Settings of one call, and the type of methods' proposals."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fairopt.proof.gate import JudgedPoint
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock

Proposals = Generator[Proposal, JudgedPoint | None, None]  # the gate's answer to each proposal is sent back


@dataclass(frozen=True)
class Settings:
    """Solver, options and clock of one call."""

    solver: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=lambda: Clock(None))
    verbose: bool = False
    method: str = "auto"  # as given
    last_tier: bool = False  # whether no tier follows, so that what it leaves open is settled too
    start: Float | None = None  # initial prices in natural units, by row of the given servers


def of_other_programs(settings: Settings) -> Settings:
    """The settings of programs of other objectives."""
    return replace(settings, start=None, method="auto", last_tier=False)
