"""The linear programs of an answer, and proofs of their optima for checkers by others (`fairopt verify --vipr`).

Programs ``max c'x, A x <= b, x >= 0`` (some rows are equations, some columns free) are written as they are solved: one
is in memory at a time. A proof of VIPR (Cheung, Gleixner and Steffy, Verifying Integer Programming Results, IPCO 2017)
is a point that reaches the value, and multipliers of rows and bounds whose sum says that none exceeds it,

    c'x  =  y'A x + g'x  <=  y'b,      g = c - A'y,

as y >= 0 on inequalities, g <= 0 on columns x >= 0, and g = 0 on free ones. The file holds y and the g that are not 0.

The point must be at the answer's tasks, which may be another optimum than the program's (7 of 30 programs of DRF and of
the smallest share, then the total, on 2 servers; `Level.put`). LP text has no
fractions: rows are multiplied to integers, and where these exceed 2^53, up to which all readers take them exactly,
rounded, with the fractions as comments; the VIPR file is exact. What stays to be trusted is the translation of the
policy into these programs (docs/exact.md, *Proofs for a checker by others*).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from fairopt.allocation import Allocation, ChangedByHand
from fairopt.errors import NotCertified, OutOfDomain
from fairopt.exact.allocate import explained, reading_of, refuse_irrational, solve
from fairopt.exact.bundles import decides_bundles
from fairopt.exact.cluster import Cluster, Table
from fairopt.exact.linear import ExactOptimum, LinearProgram, _NoPoint
from fairopt.exact.modelling import Feasible, OfTeam
from fairopt.exact.rationals import Rational, as_float, as_rational, ratio, rational
from fairopt.instance import Instance
from fairopt.runtime.clock import Clock, begin
from fairopt.runtime.display import label

README, OURS = "README.txt", "Linear programs of a fairopt answer, and proofs of their optima in VIPR's format"
OF_FILLING = (
    "levels of branches at events are largest shares, which no linear program compares; that tasks follow from levels, "
    "that no row is full before its event, and that users stop at their limits is arithmetic, which verify repeats"
)
SHOWN = 5  # names, before "and 7 more"
WIDTH = 110
LARGEST = 2**53  # of the integers that all readers of LP text take exactly
Terms = Mapping[int, Rational]  # coefficients by column


class ProgramRow(NamedTuple):
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
    rows: list[ProgramRow]
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
        # at these tasks what is left are levels, thresholds and shortfalls: a small program finds the best of them
        point = dict.fromkeys(range(len(self.columns)), zero)
        point |= {column: tasks[j][s] for (j, s), column in self.pairs.items()}
        fixed, rest = set(self.pairs.values()), LinearProgram()
        others = {c: rest.column(self.costs.get(c, zero), self.free[c]) for c in point if c not in fixed}
        for row in self.rows:
            left = row.right - sum(a * point[c] for c, a in row.terms.items())
            rest.row({others[c]: a for c, a in row.terms.items() if c in others}, left, row.equal)
        try:
            best = rest.solve()
        except _NoPoint as error:
            raise NotCertified(f"the tasks of the answer do not satisfy the program of {self.what}") from error
        point |= {c: best.point[k] for c, k in others.items()}
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

    def _scaled(self, name: str, terms: Terms, row: ProgramRow | None = None) -> Iterator[str]:
        numbers = [*terms.values(), *([] if row is None else [row.right])]
        # the smallest that makes a row of integers; a factor per row keeps each as small as it can be
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
        # in VIPR bounds are constraints like others: they come first here, and rows are counted behind them
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
    nonzero = {c: v for c, v in terms.items() if v}
    return " ".join([str(len(nonzero)), *(f"{c} {v}" for c, v in nonzero.items())])


def _shown(value: Rational) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"about {as_float(value)!r} (a fraction of {len(text):,} digits)"


def _comment(text: str) -> list[str]:
    return [f"\\ {line}" for line in wrap(text, WIDTH, break_long_words=False)]


class _Writer:
    """Writes the programs of an instance as they are solved, with names, and lists them in ``index``."""

    def __init__(self, instance: Instance, tasks: Table, folder: Path, index: list[str]) -> None:
        self.tasks, self.folder, self.index, self.empty = tasks, folder, index, 0
        self.users = [str(name) for name in instance.users]
        self.resources = [str(name) for name in instance.resources]
        self.servers = [str(name) for name in instance.servers]

    def __call__(
        self,
        what: str,
        model: Feasible | OfTeam,
        optimum: ExactOptimum,
        numbers: Mapping[str, int],
        constant: Rational,
        of_answer: bool = True,
    ) -> None:
        """A `modelling.Record`, with what the program is for; only ``of_answer`` is its point at the answer's tasks."""
        program, columns = model.program, self._columns(model, bool(numbers))
        if not columns:  # viprchk refuses a program without constraints
            self.empty += 1
            return
        rows: list[dict[int, Rational]] = [{} for _ in program.right]
        for c, entries in enumerate(program.columns):
            for k, value in entries.items():
                rows[k][c] = value
        names = _distinct(self._row(model, k, row, numbers) for k, row in enumerate(rows))
        if numbers:  # of leximin: the level is the one column with a cost
            level = next(c for c, cost in enumerate(program.costs) if cost and c not in model.pairs.values())
            # a positive multiplier keeps a number at the level in every optimum (complementary slackness)
            fixed = [t for t, k in numbers.items() if level in rows[k] and optimum.multipliers[k]]
            before = sum(level not in rows[k] for k in numbers.values())
            earlier = f", with {before} at earlier levels" if before else ""
            all_rise = not of_answer and optimum.value > 0
            then = "all compared here can rise" if all_rise else f"its proof fixes {_some(fixed)}"
            what = f"{what}, the smallest number{earlier}; {then}"
        made = Level(
            what,
            columns,
            {c: v for c, v in enumerate(program.costs) if v},
            list(program.free),
            [ProgramRow(*row) for row in zip(names, rows, program.right, program.equal, strict=True)],
            optimum.multipliers,
            optimum.value,
            constant,
            dict(model.pairs) if of_answer else {},
            optimum.point,
        )
        made.put(self.tasks)
        name = f"level-{len(self.index) + 1}"
        (self.folder / f"{name}.lp").write_text(made.lp_text(), encoding="utf-8")
        (self.folder / f"{name}.vipr").write_text(made.vipr_text(), encoding="utf-8")
        self.index.append(f"{name}  {made.line()}")

    def _place(self, s: int | None) -> str:
        return f"_on_{self.servers[s]}" if s is not None and len(self.servers) > 1 else ""

    def _columns(self, model: Feasible | OfTeam, levelled: bool) -> list[str]:
        of_tasks = {c: f"tasks_{self.users[j]}{self._place(s)}" for (j, s), c in model.pairs.items()}
        names = []
        for c, free in enumerate(model.program.free):
            other = ("level" if levelled and model.program.costs[c] else "threshold") if free else "shortfall"
            names.append(of_tasks.get(c, other))
        return _distinct(names)

    def _row(self, model: Feasible | OfTeam, k: int, row: Terms, numbers: Mapping[str, int]) -> str:
        if k in model.prices:
            s, i = model.prices[k]
            return f"{'capacity' if s is not None else 'units'}_{self.resources[i]}{self._place(s)}"
        if k in model.rows:
            return f"condition_{model.rows[k] + 1}"
        if k in model.kept:
            return f"kept_{model.kept.index(k) + 1}"
        ranked = [numbers, *({t: k for t, of in rows.items() if k in of} for rows in model.mixtures)]
        if (t := next((t for of in ranked for t, at in of.items() if at == k), None)) is not None:
            return f"number_{t}"
        user = next((self.users[j] for (j, _), c in model.pairs.items() if c in row), "nobody")
        # what is left bounds the tasks of one user
        return f"least_tasks_{user}" if any(a < 0 for a in row.values()) else f"most_tasks_{user}"


def _distinct(names: Iterable[str]) -> list[str]:
    """Names that LP text and VIPR can have, each once."""
    out: dict[str, None] = {}
    last: dict[str, int] = {}
    for name in names:
        base = distinct = re.sub(r"[^A-Za-z0-9_]", "_", name)
        while distinct in out:  # `last` keeps this linear where thousands of names become one
            last[base] = last.get(base, 1) + 1
            distinct = f"{base}_{last[base]}"
        out[distinct] = None
    return list(out)


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:SHOWN])} and {more} more"


class Written(NamedTuple):
    """The folder of an answer, how many programs it has, and why there are none or not all."""

    folder: Path
    programs: int
    notes: tuple[str, ...]

    def __str__(self) -> str:
        counted = "1 linear program" if self.programs == 1 else f"{self.programs} linear programs"
        return "; ".join([f"{counted} with proofs in {self.folder}", *self.notes])


def write(answer: Allocation, folder: Path, name: str, time_limit: float | None = None) -> Written:
    """Write the programs of an answer into a folder, with an index; files of an earlier call are replaced.

    `FileExistsError` if the folder has other files.
    """
    _prepare(folder)
    index, notes = list[str](), list[str]()
    clock = begin(time_limit, needs_cvxpy=False)
    try:
        notes = clock.run(lambda: _programs(answer, folder, index, clock))
    except OutOfDomain as error:
        notes = [f"{'no more' if index else 'nothing'} is written: {error}"]
    text = [OURS, "", f"{name}: {label(answer.policy)} on {answer.instance!r}", "", *index]
    text += [f"Note: {note}." for note in notes]
    text += ["", "Check each with: viprchk level-1.vipr (https://github.com/scipopt/vipr)", ""]
    (folder / README).write_text("\n".join(text), encoding="utf-8")
    return Written(folder, len(index), tuple(notes))


def _prepare(folder: Path) -> None:
    """A folder with nothing but the begin of an index, if nothing is lost by it."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    old = list(folder.iterdir())
    index = folder / README
    ours = index.is_file() and index.read_text(encoding="utf-8", errors="replace").startswith(OURS)
    mine = [file for file in old if file.name == README or re.fullmatch(r"level-\d+\.(lp|vipr)", file.name)]
    if old and (not ours or len(mine) < len(old)):
        raise FileExistsError(f"{folder} has files of others; give another folder")
    for file in mine:
        file.unlink()
    index.write_text(f"{OURS}\n\nNot finished.\n", encoding="utf-8")


def _programs(answer: Allocation, folder: Path, index: list[str], clock: Clock) -> list[str]:
    """Write the programs of an answer; what is to be said of them."""
    policy, instance = answer.policy, answer.instance
    if isinstance(policy, ChangedByHand) or answer.certificate.whole:
        what = "problems changed by hand" if isinstance(policy, ChangedByHand) else "whole tasks"
        raise OutOfDomain(f"linear programs prove divisible optima of policies, not {what}")
    notes = list[str]()
    if hasattr(policy, "objective") and not decides_bundles(policy):
        refuse_irrational(policy, instance)
        solver: Any = solve
    elif (solver := getattr(policy, "_solve_exactly", None)) is not None:
        notes.append(OF_FILLING)
    else:
        raise OutOfDomain(f"the proof of {label(policy)} is not one linear program per level; verify repeats it")
    notes.append(reading_of(policy, instance))
    with explained(policy, instance):
        if answer.exact_tasks is None:
            notes.append("the answer is in floats, so that the programs are those of its exact optimum, computed now")
            tasks, *_ = solver(Cluster(instance), policy, clock)
        else:
            tasks = [list(map(as_rational, row)) for row in answer.exact_tasks]
        writer = _Writer(instance, tasks, folder, index)
        solver(Cluster(instance), policy, clock, writer)
    if writer.empty or not index:
        notes.append("programs without variables are not written: nobody can run anything")
    return notes
