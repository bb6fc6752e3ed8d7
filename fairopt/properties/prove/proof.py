"""The results of `prove`: verdicts with statements, and SMT-LIB files that other solvers can check."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairopt.errors import InvalidBlock
from fairopt.io.saving import write_whole
from fairopt.properties.audit.findings import AuditReport, Finding, Witness, plain
from fairopt.properties.prove.statements import Query, comment, glossary
from fairopt.properties.verdicts import ByProperty

READING = (  # the heading of an exported proof
    "Each check below must answer unsat. The last statement is a relaxation of the property's failure: every pool of "
    "the kind on which the property fails, with its answers, satisfies it. If it is unsatisfiable, the property always "
    "holds. The statements before it are lemmas about the share. Symbols are free real numbers, so there are no "
    "quantifiers. A comment before each statement explains what it omits and why that is sound. Propositions are those "
    "of chapter 16 of Methods and proofs (docs/methods/machine.md in the sources of fairopt).",
    "Capacities are 1, by choice of units. Symbols:",
)


@dataclass(frozen=True, eq=False)
class Proof:
    """Whether a property holds on every instance of a kind.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    policy : Policy or other mechanism
        The mechanism.
    property : str
        Canonical name.
    verdict : {"proved", "refuted", "unknown"}
        Whether the property holds on all instances, fails on one, or is undecided.
    statement : str
        The theorem, or the statement that was tried, with its instances and assumptions.
    assumption : str
        Assumptions on user-defined blocks: that they compute what their `conditions` state, and on how many drawn pools
        that was tested. Empty if all blocks are fairopt's.
    witness : Witness or None
        A verified counterexample, if refuted.
    tried : tuple of str
        What was tried, and the results.
    provers : tuple of str
        The provers that proved it.
    seconds : float
        Seconds of the search.
    queries : tuple of Query
        The unsatisfiable statements that make the proof.
    interrupted : bool
        Whether Ctrl-C ended it early.

    Examples
    --------
    >>> import fairopt as fo
    >>> proof = fo.prove(fo.DRF(), "envy-free", resources=2)["envy-free"]
    >>> proof.verdict, proof.provers
    ('proved', ('z3',))
    >>> print(proof.statement)
    no user would run more tasks on what another user holds, at its own weight: on every pool of 2 resources with any \
number of users, demands above 0, equal weights and no task limits
    """

    mechanism: str
    policy: Any
    property: str
    verdict: str
    statement: str
    witness: Witness | None = None
    tried: tuple[str, ...] = ()
    provers: tuple[str, ...] = ()
    seconds: float = 0.0
    queries: tuple[Query, ...] = ()
    interrupted: bool = False
    assumption: str = ""

    @builtins.property
    def ok(self) -> bool:
        """Whether the property is proved."""
        return self.verdict == "proved"

    def __str__(self) -> str:
        by = f" by {' and '.join(self.provers)}" if self.provers else ""
        return f"{self.property}: {self.verdict}{by}; {self.shown()}"

    def shown(self) -> str:
        """The witness, or the statement, with what was tried if it is undecided."""
        if self.witness is not None:
            return str(self.witness)
        return "; ".join([self.statement, *(self.tried if self.verdict == "unknown" else ())])

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain lists, numbers and strings."""
        known = plain(replace(self, policy=repr(self.policy), queries=()))
        del known["queries"]
        return {**known, "smt": [query.text for query in self.queries]}

    def finding(self) -> Finding:
        """The proof as a finding of an audit."""
        return Finding(self.property, self.witness is not None, 1, 0, self.witness, self.statement, self.seconds)

    def export(self, path: str | Path) -> Path:
        """Write a proof as SMT-LIB (``.smt2``), or a witness for `replay` (``.json``); return the path.

        `InvalidBlock` for the other suffix, or if the property is undecided.
        """
        where, needed = Path(path), {"proved": ".smt2", "refuted": ".json"}.get(self.verdict)
        if needed is None:
            raise InvalidBlock(
                "; ".join([f"{self.property} is {self.verdict}: there is nothing to export", *self.tried])
            )
        if where.suffix.lower() != needed:
            kind = "proofs are exported as SMT-LIB" if needed == ".smt2" else "witnesses are exported as JSON"
            raise InvalidBlock(f"{where}: {kind}; give a name that ends in {needed}")
        if self.witness is not None:
            return AuditReport(self.mechanism, self.policy, (self.finding(),)).save(where)
        heading = [comment(f"{self.mechanism}, {self.property}: {self.statement}."), *map(comment, READING)]
        heading.append(glossary(self.queries))
        write_whole(where, "\n".join([*heading, ""]) + "(reset)\n".join(query.text for query in self.queries))
        return where


@dataclass(frozen=True, eq=False, repr=False)
class ProofReport(ByProperty[Proof]):
    """Proofs by property; ``report["sp"]`` and ``report["strategy-proof"]`` are the same.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    about : str
        The kind of instances, in words.
    proofs : tuple of Proof
        In the order of the properties; fewer after Ctrl-C.

    Examples
    --------
    >>> import fairopt as fo
    >>> report = fo.prove(fo.DRF(), ["ef", "pe"], resources=1)
    >>> report["ef"].verdict, report["pe"].verdict
    ('proved', 'proved')
    """

    mechanism: str
    about: str
    proofs: tuple[Proof, ...]

    @classmethod
    def of(cls, proofs: Sequence[Proof]) -> ProofReport:
        """The report of proofs for one mechanism and kind of instances."""
        about = proofs[0].statement.partition(": ")[2] if proofs else ""
        return cls(proofs[0].mechanism if proofs else "nothing is known", about, tuple(proofs))

    _done = "tried"
    _columns = ("property", "verdict", "by", "what shows it")

    def _entries(self) -> dict[str, Proof]:
        return {p.property: p for p in self.proofs}

    def _heading(self) -> str:
        return f"{self.mechanism} {self.about}"

    def _row(self, entry: Proof) -> tuple[bool, tuple[str, ...]]:
        shown = "" if entry.verdict == "proved" else entry.shown()
        by = ", ".join(entry.provers)
        return entry.verdict == "refuted", (entry.property, entry.verdict, by, shown)

    @builtins.property
    def ok(self) -> bool:
        """Whether all properties are proved."""
        return bool(self.proofs) and not self.interrupted and all(p.ok for p in self.proofs)

    @builtins.property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it early."""
        return any(p.interrupted for p in self.proofs)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per property: ``property``, ``verdict``, ``provers``, ``seconds``, ``statement``, ``witness``."""
        return [
            {
                "property": p.property,
                "verdict": p.verdict,
                "provers": ", ".join(p.provers),
                "seconds": p.seconds,
                "statement": p.statement,
                "witness": "" if p.witness is None else str(p.witness),
            }
            for p in self.proofs
        ]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain lists, numbers and strings."""
        return {"mechanism": self.mechanism, "about": self.about, "proofs": [p.to_dict() for p in self.proofs]}
