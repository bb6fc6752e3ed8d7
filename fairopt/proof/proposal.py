"""Proposals of methods, and the interface of the kinds of evidence in `fairopt.proof.evidence`.

A method is a generator of `Proposal`s: a point x and evidence e, numbers such as prices or levels. The gate computes

    gap(x, e) >= (max_y f(y) - f(x)) / unit      for every e of the right shape,

so that wrong evidence gives a weak bound, never a wrong one. A solver's status, objective value and bound are not
evidence: nothing can be computed from them. Each kind is a class that holds numbers and the program of these, says to
which programs it belongs (`Evidence.applies`: the bound of one program is none of another), and writes itself
to files in natural units, where the checker reads it (docs/methods/evidence.md, Definition 9.5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fairopt.certificate import Try
from fairopt.proof.entries import Named
from fairopt.runtime.arrays import Float
from fairopt.solve.form.program import Program


@dataclass
class Measured:
    """A point within capacities and limits, and what evidence proves of it.

    ``gap``, ``block_violation``, ``assumed`` and ``gaps`` are as in `Certificate`; ``prices`` (n_rows,) are by row of
    `Pairs.loads`, per whole capacity, in natural units of the objective. The gate measures ``violation`` and the
    objective's ``value`` if they are None. ``load`` (n_resources,) is the used fraction of one pool, if known.
    ``variables`` are the values of blocks' variables, None if the gate is to find them. ``multipliers`` are those of
    blocks' constraints, by name.
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
    load: Float | None = None
    variables: Mapping[str, Float] | None = None
    multipliers: Mapping[str, Float] = field(default_factory=dict)


MOVED = "whose tolerances may move them"  # levels, in what a certificate assumes; the table then tries fractions


class Evidence(ABC):
    """Numbers that bound the gap of a point; each kind is a class.

    ``kind`` is its name in files, empty for evidence that follows from the instance. With ``has_point`` the evidence
    supplies its own optimum, and a proposal needs no tasks. With ``of_solver`` its numbers are a solver's, which files
    hold in a form of their own; others are written as they were judged, up to rounding.
    """

    kind: ClassVar[str] = ""
    has_point: ClassVar[bool] = False
    of_solver: ClassVar[bool] = False

    @property
    def by_level(self) -> bool:
        """Whether it proves level by level: after later tiers the gap is its own plus the fall of levels."""
        return False

    @abstractmethod
    def applies(self, program: Program) -> bool:
        """Whether it belongs to the program, and bounds its objective under its constraints."""

    @abstractmethod
    def measured(self, program: Program, tasks: Any, bundles: Float | None) -> Measured:
        """The point made feasible, with its gap; ``tasks`` are by pair."""

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """Its entry in files, which the gate and the checker read, for tasks that it proves; `ValueError` if there is
        none.
        """
        raise ValueError(f"{program.objective} has no evidence in natural units")

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Evidence:
        """What `entry` wrote, for a program of the same blocks and instance.

        `KeyError`, `TypeError` or `ValueError` if it is malformed or of another program.
        """
        raise ValueError(f"{cls.kind or cls.__name__} is not in files")

    def most_rise(self, program: Program, tasks: Float) -> Float:
        """A bound on how many more tasks each user can run while none runs fewer, shape (n_users,)."""
        return np.full(program.instance.n_users, np.inf)

    def of_charged_rows(self, program: Program) -> tuple[Program, Evidence, tuple[tuple[int, ...], ...]] | None:
        """The program without those of `Program.many_rows` that have no price, its evidence, and the rows left by
        block.

        None if prices of rows are not known.
        """
        return None


@dataclass(frozen=True)
class Proposal:
    """The outcome of a method's attempt: a point with evidence, or no point.

    Tasks are by pair of user and server; with bundles both are by server row. If answers to other programs led to it,
    ``tried`` are their attempts, in place of an ``attempt``, and ``note`` is what they note.
    """

    method: str
    tasks: Float | None = None
    evidence: Evidence | None = None
    solver: str | None = None
    attempt: Try | None = None
    bundles: Float | None = None
    tried: tuple[Try, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Reader:
    """Reads evidence from files by its kind; ``solver`` is the one that found it, if any; ``names`` are of rows."""

    kinds: Mapping[str, Restore]
    names: Named
    solver: str | None = None

    def __call__(self, program: Program, held: Mapping[str, Any]) -> Evidence:
        """The evidence of a program."""
        if held["kind"] not in self.kinds:
            raise ValueError(f"{held['kind']!r} is not a kind of evidence")
        return self.kinds[held["kind"]](program, held, self)


Restore = Callable[[Program, Mapping[str, Any], Reader], Evidence]


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
    """Numbers as distinct indices below a bound."""
    array = np.asarray(values, dtype=np.intp)  # of a file: negative ones would count from the end
    if array.ndim != 1 or (array.size and not (array.min() >= 0 and array.max() < below)):
        raise ValueError(f"indices not below {below}")
    if len(np.unique(array)) < len(array):
        raise ValueError("indices are repeated")
    return array
