"""What methods propose, and what the gate asks of evidence: the interface of the kinds in `fairopt.evidence`.

Wrong evidence gives a weak bound, never a wrong one. A solver's status, objective value and bound are not evidence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fairopt.certificate import Try
from fairopt.formulation.program import Float, Program
from fairopt.proofs.entries import Imposed


@dataclass
class Measured:
    """A point within capacities and limits, and what evidence proves of it.

    ``gap``, ``block_violation``, ``assumed`` and ``gaps`` are as in `Certificate`; ``prices`` (n_rows,) are by row of
    `Pairs.loads`, per whole capacity, in natural units of the objective. ``violation`` and the objective's ``value``
    are given where they were measured on the way; else the gate measures them.
    """

    tasks: Float
    gap: float
    block_violation: float = 0.0
    prices: Float | None = None
    assumed: str = ""
    gaps: tuple[float, ...] = ()
    bundles: Float | None = None
    violation: float | None = None
    value: float | None = None


class Evidence(ABC):
    """Numbers that prove how good a point is, with their bound; each kind is a class in a file of its own.

    A ``kind`` is the name under which files hold it (`numbers`, `restored`), empty of evidence that follows from the
    instance. With ``has_point`` the evidence supplies its own optimum, and a proposal needs no tasks.
    """

    kind: ClassVar[str] = ""
    has_point: ClassVar[bool] = False

    @property
    def by_level(self) -> bool:
        """Whether it proves level by level: after later tiers the gap is its own, and how far levels fell since."""
        return False

    @property
    def writes_tasks(self) -> bool:
        """Whether the tasks of the point are written only while they are measured."""
        return False

    @abstractmethod
    def applies(self, program: Program) -> bool:
        """Whether this belongs to the program, and proves something of its objective under its conditions."""

    @abstractmethod
    def measured(self, program: Program, tasks: Any, bundles: Float | None) -> Measured:
        """The point made feasible, with the gap to the best of the program; ``tasks`` are by pair."""

    def numbers(self) -> dict[str, Any] | None:
        """All of it as numbers and lists for files; None where it follows from the instance."""
        return None

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        """What `numbers` wrote, for a program of the same blocks and instance.

        `KeyError`, `TypeError` or `ValueError` if it is malformed, or of another program.
        """
        raise ValueError(f"{cls.kind or cls.__name__} is not in files")

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        """The same in the form that `verify` reads, of a program whose conditions have these rows there.

        `ValueError` where there is no such form.
        """
        raise ValueError(f"{program.objective} has no evidence that is portable")

    def most_rise(self, program: Program, tasks: Float) -> Float:
        """How many more tasks each user could run at most while none runs fewer, shape (n_users,)."""
        return np.full(program.instance.n_users, np.inf)

    def of_charged_rows(self, program: Program) -> tuple[Program, Evidence, tuple[tuple[int, ...], ...]] | None:
        """The program without those of `Program.many_rows` that have no price, evidence of it, and the rows left by
        block; None where prices of rows are not known.
        """
        return None


@dataclass(frozen=True)
class Proposal:
    """The outcome of one attempt of a method: a point with evidence, or no point.

    Tasks are by pair of a user and a server; where bundles are decided, both are by server row.
    """

    method: str
    tasks: Float | None = None
    evidence: Evidence | None = None
    solver: str | None = None
    attempt: Try | None = None
    bundles: Float | None = None


@dataclass(frozen=True)
class Reader:
    """Reads evidence from files by the name of its kind; ``solver`` is the one that found it, if any."""

    kinds: Mapping[str, type[Evidence]]
    solver: str | None = None

    def __call__(self, program: Program, held: Mapping[str, Any]) -> Evidence:
        """The evidence of a program."""
        if held["kind"] not in self.kinds:
            raise ValueError(f"{held['kind']!r} is not a kind of evidence")
        return self.kinds[held["kind"]].restored(program, held, self)


def as_list(values: Any) -> list[Any] | None:
    """Numbers as a list; None stays None."""
    return None if values is None else np.asarray(values).tolist()


def as_numbers(values: Any, shape: tuple[int, ...]) -> Any:
    """Numbers as an array of the given shape."""
    array = np.asarray(values, dtype=float)
    if array.shape != shape:
        raise ValueError(f"evidence of shape {array.shape}, not {shape}")
    return array


def as_indices(values: Any, below: int) -> Any:
    """Numbers as indices below a bound."""
    array = np.asarray(values, dtype=np.intp)
    if array.ndim != 1 or (array.size and not (array.min() >= 0 and array.max() < below)):
        raise ValueError(f"indices not below {below}")
    return array
