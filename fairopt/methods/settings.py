"""Settings of one call, and the type of methods' proposals."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairopt.formulation.program import Program
from fairopt.methods.arrays import Float
from fairopt.proofs.gate import Answer
from fairopt.proofs.proposal import Proposal

Proposals = Generator[Proposal, Answer | None, None]  # the gate's answer to each proposal is sent back


@dataclass(frozen=True)
class Settings:
    """Solver, options and deadline of one call, on the clock of `time.perf_counter`."""

    solver: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    deadline: float | None = None
    verbose: bool = False
    general: Callable[[Program, Settings], Proposals] | None = None  # replaces `solve_number`, for `Prepared`
    start: Float | None = None  # initial prices in natural units, by row of the given servers

    def left(self) -> float | None:
        """Seconds left, never negative."""
        return None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.0)

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline
