"""What `prove` returns: a verdict with its statement, what shows it, and the text that other solvers can check."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairopt.errors import InvalidBlock
from fairopt.io.saving import write_whole
from fairopt.properties.audit.findings import AuditReport, Finding, Witness
from fairopt.properties.prove.statements import Query, comment, glossary
from fairopt.properties.verdicts import ByProperty

__all__ = ["Proof", "ProofReport"]

# How a saved proof is read.
READING = (
    "Each answer below must be unsat. The last statement is a relaxation of the property's failure: every pool of the "
    "kind on which the property fails, with its answers, is a solution of it, and it may have others. Without any, the "
    'property never fails. Those before it are facts on the share. "For all pools, answers and lies" needs no '
    "quantifiers, since each symbol stands for any real number. What else was left out, and why nothing is lost by it, "
    "stands before each statement. Propositions are those of chapter 16 of Methods and proofs (docs/methods/machine.md "
    "in the sources of fairopt).",
    "Capacities are 1, by units. What symbols stand for:",
)


@dataclass(frozen=True, eq=False)
class Proof:
    """Whether a property holds on every instance of a kind.

    Attributes
    ----------
    mechanism : str
        Its name.
    policy : Policy or other mechanism
        The mechanism itself.
    property : str
        By its canonical name.
    verdict : {"proved", "refuted", "unknown"}
        Whether it holds on all these instances; whether it fails on one; or neither is known.
    statement : str
        What is proved, or was asked: of which instances, and what is assumed.
    assumption : str
        What is assumed of blocks of one's own: that they compute what their `conditions` state, and on how many drawn
        pools the two were compared. Empty where all blocks are fairopt's.
    witness : Witness or None
        Where it is refuted: an instance, confirmed by the independent computation of audits.
    tried : tuple of str
        What was tried, and with what result.
    provers : tuple of str
        The provers that proved it.
    seconds : float
        Seconds that it took.
    queries : tuple of Query
        The statements without a solution that make the proof.
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
        """Whether it is proved."""
        return self.verdict == "proved"

    def __str__(self) -> str:
        by = f" by {' and '.join(self.provers)}" if self.provers else ""
        return f"{self.property}: {self.verdict}{by}; {self.shown()}"

    def shown(self) -> str:
        """The witness, or the statement, with what was tried where nothing is known, in words."""
        if self.witness is not None:
            return str(self.witness)
        return "; ".join([self.statement, *(self.tried if self.verdict == "unknown" else ())])

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain lists, numbers and strings."""
        return {
            "mechanism": self.mechanism,
            "policy": repr(self.policy),
            "property": self.property,
            "verdict": self.verdict,
            "statement": self.statement,
            "assumption": self.assumption,
            "tried": list(self.tried),
            "provers": list(self.provers),
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "witness": None if self.witness is None else self.finding().to_dict()["witness"],
            "smt": [query.text for query in self.queries],
        }

    def finding(self) -> Finding:
        """The verdict as the finding of an audit."""
        return Finding(self.property, self.witness is not None, 1, 0, self.witness, self.statement, self.seconds)

    def export(self, path: str | Path) -> Path:
        """Write the proof for any solver that reads SMT-LIB (``.smt2``), or a witness for `replay` (``.json``).

        Each statement of the file must be answered ``unsat``. `InvalidBlock` for a proof under ``.json``, or a witness
        under ``.smt2``, and where nothing is known.
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
        Its name.
    about : str
        The instances that are asked about.
    proofs : tuple of Proof
        In the order of the properties; fewer after Ctrl-C.

    Examples
    --------
    >>> import fairopt as fo
    >>> report = fo.prove(fo.DRF(), resources=1)
    >>> report["ef"].verdict, report["pe"].verdict
    ('proved', 'proved')
    """

    mechanism: str
    about: str
    proofs: tuple[Proof, ...]

    @classmethod
    def of(cls, proofs: Sequence[Proof]) -> ProofReport:
        """The report of proofs about the same notion and instances."""
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
        """Whether all properties that were asked for are proved."""
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

    def __str__(self) -> str:
        return "\n".join([self._heading(), *(f"  {p}" for p in self.proofs)])

    def __repr__(self) -> str:
        words = ", ".join(f"{p.property}: {p.verdict}" for p in self.proofs)
        return f"<ProofReport of {self.mechanism}; {words or 'nothing tried'}>"
