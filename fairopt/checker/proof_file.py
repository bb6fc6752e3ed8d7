"""Files that `fo.certify(problem).save` writes: a cone program, a point, a dual point, and what they claim.

What is proved is the program as written. That it is what the user's text means is not: compiling CVXPY's expressions
again would need CVXPY. So the text and its SHA-256 stand in the file, and the result says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .numbers import ZERO, Fraction, Tolerances, at_least
from .outcome import Clock, Fault, Verification, rounded_up, short
from .program import Bound, Names, Program, floats, floats_or_none, require

FORMAT = "fairopt.proof/1"
KEYS = (
    "format",
    "version",
    "source",
    "sense",
    "program",
    "variables",
    "constraints",
    "limits",
    "radius",
    "point",
    "dual",
    "claims",
)
CLAIMS = ("status", "value", "bound", "gap", "violation")
NONE = {"optimal": (), "unbounded": CLAIMS[1:4], "infeasible": CLAIMS[1:]}  # claims that are null, by status
SAME = Fraction(1, 10**9)  # of the unit of gaps: how close a stated value is to the one computed again
ONE = {"columns": "column", "rows": "row", "entries": "entry"}
SHOWN = 3  # names in a sentence
NOT_PROVED = {
    "source": "that the program is what this text means; its SHA-256 is checked",
    "variables": "names only",
    "constraints": "names only",
    "version": "of the writer",
}


class ProofFile:
    """A file, read and checked for its form; its numbers are checked by `verified`."""

    def __init__(self, data: Mapping[str, Any], clock: Clock, tolerances: Tolerances) -> None:
        self.tolerances = tolerances
        require(data, KEYS, "the file")
        require(data["source"], ("name", "text", "sha256"), "source")
        require(data["claims"], CLAIMS, "claims")
        name, self.text, digest = (data["source"][key] for key in ("name", "text", "sha256"))
        if not (name is None or isinstance(name, str)) or not isinstance(self.text, str):
            raise Fault("source has a name or a text that is no text")
        self.digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
        if digest != self.digest:
            raise Fault("the text in source has another SHA-256 than the one stated beside it")
        if not isinstance(data["version"], str):
            raise Fault("version is no text")
        if data["sense"] not in ("minimize", "maximize"):
            raise Fault(f"sense is {short(repr(data['sense']), 40)}, not 'minimize' or 'maximize'")
        self.status = data["claims"]["status"]
        if not isinstance(self.status, str) or self.status not in NONE:
            raise Fault(f"claims.status is {short(repr(self.status), 40)}, not one of {', '.join(NONE)}")
        self.sign = 1 if data["sense"] == "minimize" else -1
        self.program = Program(data["program"], data["limits"], data["radius"], clock)
        self.columns = Names("variables", data["variables"], ("name", "shape", "start", "added"), self.program.columns)
        self.rows = Names("constraints", data["constraints"], ("name", "start", "size"), self.program.rows)
        self.claims = self._claims(data["claims"])
        length = self.program.columns if self.status == "unbounded" else self.program.rows
        self.dual = floats(data["dual"], "dual", length)
        self.point = None if data["point"] is None else floats(data["point"], "point", self.program.columns)
        if (self.point is None) != (self.status == "infeasible"):
            raise Fault(f"point is {'missing' if self.point is None else 'given'}, and the status {self.status}")
        self.name = short(name or repr(" ".join(self.text.split())), 120)
        self.size = {
            "columns": self.program.columns,
            "rows": self.program.rows,
            "entries": len(self.program.matrix),
        }

    def _claims(self, claims: Mapping[str, Any]) -> dict[str, Fraction]:
        """The claims as fractions, without those that the status leaves out."""
        out = dict[str, Fraction]()
        for key, x in zip(CLAIMS[1:], floats_or_none([claims[key] for key in CLAIMS[1:]], "claims", len(CLAIMS) - 1)):
            if (x is None) != (key in NONE[self.status]):
                raise Fault(f"claims.{key} is {x!r}, and the status {self.status}")
            if x is not None:
                out[key] = Fraction(x)
        if any(out.get(key, ZERO) < 0 for key in ("gap", "violation")):
            raise Fault("claims has a gap or a violation below 0")
        return out

    def of(self) -> str:
        """What is proved, in words."""
        sizes = ", ".join(f"{count:,} {ONE[what] if count == 1 else what}" for what, count in self.size.items())
        return f"the program as written for {self.name} ({sizes}; SHA-256 of its text {self.digest[:16]})"

    def held(self) -> str:
        """How far the point is from feasible, in words."""
        violation = self.claims["violation"]
        how = f"to {rounded_up(at_least(violation))} of their terms" if violation else "exactly"
        return f"rows, cones and limits hold {how}"

    def within(self, bound: Bound) -> str:
        """What a bound leaves out: points beyond the radius of some columns."""
        if not bound.within:
            return ""
        names = [f"{self.columns.of(k, 'column')} is {self.program.range.radius[k]:g}" for k in bound.within[:SHOWN]]
        more = f" and {len(bound.within) - SHOWN:,} more" if len(bound.within) > SHOWN else ""
        return f"within a radius ({', '.join(names)}{more}), beyond which nothing is proved: "


def verified(data: Mapping[str, Any], clock: Clock, tolerances: Tolerances) -> Verification:
    """Prove what a file claims of its program; `Fault` if it is not proved."""
    file = ProofFile(data, clock, tolerances)
    clock.check()
    clock.done.append("the file is complete")
    gap, near, statement = {"optimal": _optimal, "infeasible": _infeasible, "unbounded": _unbounded}[file.status](file)
    about = (file.text, file.size, file.digest)
    if not near:
        return Verification(False, at_least(gap), "not proved:", (statement,), *about)
    return Verification(True, at_least(gap), f"proved: {statement}", (), *about, NOT_PROVED)


def _optimal(file: ProofFile) -> tuple[Fraction, bool, str]:
    """The gap that a file proves, whether it is small, and a statement of it."""
    assert file.point is not None
    value, unit = file.program.value(file.point)
    if abs(file.claims["value"] * file.sign - value) > SAME * max(unit, abs(file.program.offset)):
        raise Fault(f"the value is {_shown(file.claims['value'])} in the file, but {_shown(value * file.sign)} there")
    _check_point(file)
    bound = _bound(file, True)
    low = bound.value + file.program.offset
    if file.claims["bound"] * file.sign > low:
        proves = _shown(low * file.sign)
        raise Fault(f"the bound is {_shown(file.claims['bound'])} in the file, but the dual point proves {proves}")
    gap = abs(value - low) / max(unit, abs(bound.value)) if value != low else ZERO
    if gap > file.claims["gap"]:
        raise Fault(f"the gap is {_shown(file.claims['gap'])} in the file, but {at_least(gap):.1e} is proved")
    side, beyond = "least" if file.sign > 0 else "most", "; the value is beyond that, as the point breaks rows"
    size = f"gap <= {rounded_up(at_least(gap))}" if gap else "gap 0"
    near = gap <= file.tolerances.tol or abs(value - low) <= file.tolerances.atol
    size = size if near else f"the dual point proves only a gap of {rounded_up(at_least(gap))}"
    values = f"the value is {_shown(value * file.sign)}, the optimum at {side} {_shown(low * file.sign)}"
    statement = f"{file.within(bound)}{size} of {file.of()}: {values}{beyond * (value < low)}; {file.held()}"
    return gap, near, statement


def _infeasible(file: ProofFile) -> tuple[Fraction, bool, str]:
    """That no point is feasible: a lower bound of 0 is above 0."""
    bound = _bound(file, False)
    if not bound.value > 0:
        raise Fault("the dual point does not prove that the program is infeasible")
    ranges = [file.rows.range_of(i) for i in sorted(file.program.carrying(file.dual))]
    named = list(dict.fromkeys(file.rows.names[k] for k in ranges if k is not None))
    part = f"; {', '.join(named)} {'takes' if len(named) == 1 else 'take'} part" if 0 < len(named) <= SHOWN else ""
    part += ", beside rows without a name" if part and None in ranges else ""
    return ZERO, True, f"{file.within(bound)}no point satisfies {file.of()}{part}"


def _unbounded(file: ProofFile) -> tuple[Fraction, bool, str]:
    """That the objective has no bound from a point that is feasible within the violation."""
    _check_point(file)
    if why := file.program.endless(file.dual):
        raise Fault(why)
    return ZERO, True, f"the objective has no bound in {file.of()}, along a direction from a point; there {file.held()}"


def _bound(file: ProofFile, with_cost: bool) -> Bound:
    """The bound of a file's dual point; `Fault` without one."""
    bound = file.program.bound(file.dual, with_cost)
    if isinstance(bound, int):
        name = file.columns.of(bound, "column")
        raise Fault(f"no bound: c + A'y is not 0 for {name}, which has no limit and no radius on that side")
    return bound


def _check_point(file: ProofFile) -> None:
    """Check that rows, cones and limits hold within the stated violation, that this is small, and radii."""
    assert file.point is not None
    for k, (x, radius) in enumerate(zip(file.point, file.program.range.radius)):
        if radius is not None and abs(x) > radius:
            raise Fault(f"{file.columns.of(k, 'column')} is beyond its radius")
    violation = file.claims["violation"]
    if violation > (most := file.tolerances.tol):
        raise Fault(f"a violation of {float(violation):.1e} is claimed, above {float(most):g}")
    broken = file.program.broken(file.point, violation)
    if broken is not None:
        what, place = broken
        name = (file.columns if what == "column" else file.rows).of(place, what)
        raise Fault(f"{name} is broken by more than {float(violation):.1e} of its terms, which is claimed")
    file.program.clock.done.append("rows, cones and limits hold")


def _shown(x: Fraction) -> str:
    """A number in 10 digits."""
    return f"{float(x):.10g}"
