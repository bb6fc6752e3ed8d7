"""A linear program and the proof of its optimum, as LP text and in VIPR's format.

A proof of VIPR (Cheung, Gleixner and Steffy, Verifying Integer Programming Results, IPCO 2017) is a point that reaches
the value, and multipliers of rows and bounds whose sum says that none exceeds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import NamedTuple

from fairopt.errors import NotCertified
from fairopt.exact.cluster import Table
from fairopt.exact.linear import LinearProgram, _NoPoint
from fairopt.exact.rationals import Rational, as_float, ratio, rational

WIDTH = 110
LARGEST = 2**53  # of the integers that all readers of LP text take exactly
Terms = Mapping[int, Rational]  # coefficients by column


class Row(NamedTuple):
    """A row of a program: ``terms <= right``, or ``==``."""

    name: str
    terms: dict[int, Rational]
    right: Rational
    equal: bool


@dataclass
class Level:
    """A program with names, as it was when it was solved: maximise ``costs``; ``constant`` is beside its value."""

    what: str
    columns: list[str]
    costs: dict[int, Rational]
    free: list[bool]
    rows: list[Row]
    multipliers: list[Rational]
    value: Rational
    constant: Rational
    pairs: dict[tuple[int, int], int]  # columns of tasks; none if these are not to be the answer's
    point: list[Rational]

    def put(self, tasks: Table) -> None:
        """Take the point at tasks; `NotCertified` if they do not reach the value."""
        if not self.pairs:
            return
        zero = rational(0)
        point = dict.fromkeys(range(len(self.columns)), zero)
        point |= {column: tasks[j][s] for (j, s), column in self.pairs.items()}
        fixed, rest = set(self.pairs.values()), LinearProgram()
        others = {c: rest.column(self.costs.get(c, zero), self.free[c]) for c in point if c not in fixed}
        for row in self.rows:
            left = row.right - sum(a * point[c] for c, a in row.terms.items())
            rest.row({others[c]: a for c, a in row.terms.items() if c in others}, left, row.equal)
        try:
            found = rest.solve()
        except _NoPoint as error:
            raise NotCertified(f"the tasks of the answer do not satisfy the program of {self.what}") from error
        point |= {c: found.point[k] for c, k in others.items()}
        self.point = [point[c] for c in range(len(point))]
        if sum(a * point[c] for c, a in self.costs.items()) != self.value:
            raise NotCertified(f"the tasks of the answer do not reach the optimum {self.value} of {self.what}")

    def lp_text(self) -> str:
        """The program as LP text, its rows multiplied to integers, or rounded if these are too large."""
        lines = _comment(f"{self.what}. Optimal value {_shown(self.value)}{self._beside()}.")
        lines += _comment(
            "Comments have the fractions of rows that are multiplied to integers or, beyond 2^53, rounded."
        )
        lines += ["Maximize", *self._scaled("value", self.costs)]
        lines.append("Subject To")
        for row in self.rows:
            lines += self._scaled(row.name, row.terms, row)
        if any(self.free):
            lines += ["Bounds", *(f" {name} free" for name, free in zip(self.columns, self.free, strict=True) if free)]
        return "\n".join([*lines, "End", ""])

    def _scaled(self, name: str, terms: Terms, row: Row | None = None) -> Iterator[str]:
        numbers = [*terms.values(), *([] if row is None else [row.right])]
        factor = math.lcm(*(ratio(v)[1] for v in numbers))

        def text(times: int, written: Callable[[Rational], str]) -> str:
            parts = [
                f"{'-' if a < 0 else '+'} {written(abs(a) * times)} {self.columns[c]}".replace(" 1 ", " ")
                for c, a in terms.items()
                if a
            ]
            # readers want a variable in every row
            left = " ".join(parts).removeprefix("+ ") or " ".join(f"0 {name}" for name in self.columns[:1])
            return left if row is None else f"{left} {'=' if row.equal else '<='} {written(row.right * times)}"

        if all(abs(v * factor) <= LARGEST for v in numbers):
            made = text(factor, str)
            if factor > 1:
                yield from _comment(f"{factor} times: {text(1, str)}")
        else:
            made = text(1, lambda v: repr(as_float(v)))
            yield from _comment(f"rounded: {text(1, _shown)}")
        yield from (f" {line}" for line in wrap(f"{name}: {made}", WIDTH, break_long_words=False))

    def vipr_text(self) -> str:
        """The program, the point and the multipliers, in VIPR's format."""
        bounds = [c for c, free in enumerate(self.free) if not free]
        value, place = str(self.value), {c: k for k, c in enumerate(bounds)}
        gains = dict(self.costs)
        for row, y in zip(self.rows, self.multipliers, strict=True):
            if y:
                for c, a in row.terms.items():
                    gains[c] = gains.get(c, 0) - y * a
        proof = {place[c]: gain for c, gain in sorted(gains.items()) if gain}
        proof |= {len(bounds) + k: y for k, y in enumerate(self.multipliers) if y}
        return "\n".join(
            [
                "VER 1.0",
                f"VAR {len(self.columns)}",
                *self.columns,
                "INT 0",
                f"OBJ max {_sparse(self.costs)}",
                f"CON {len(bounds) + len(self.rows)} {len(bounds)}",
                *(f"nonnegative_{self.columns[c]} G 0 1 {c} 1" for c in bounds),
                *(f"{row.name} {'E' if row.equal else 'L'} {row.right} {_sparse(row.terms)}" for row in self.rows),
                f"RTP range {value} {value}",
                "SOL 1",
                f"{'answer' if self.pairs else 'point'} {_sparse(dict(enumerate(self.point)))}",
                "DER 1",
                f"most L {value} OBJ {{ lin {_sparse(proof)} }} -1",
                "",
            ]
        )

    def _beside(self) -> str:
        return f", beside a constant of {_shown(self.constant)}" if self.constant else ""

    def line(self) -> str:
        """The level in the index."""
        return f"{self.what}: {_shown(self.value)}{self._beside()}"


def _sparse(terms: Terms) -> str:
    found = {c: v for c, v in terms.items() if v}
    return " ".join([str(len(found)), *(f"{c} {v}" for c, v in found.items())])


def _shown(value: Rational) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"about {as_float(value)!r} (a fraction of {len(text):,} digits)"


def _comment(text: str) -> list[str]:
    return [f"\\ {line}" for line in wrap(text, WIDTH, break_long_words=False)]
