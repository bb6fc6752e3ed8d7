"""What an audit found: a witness for what is refuted, and what was searched for what is not."""

from __future__ import annotations

import builtins
import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.properties.audit.saved import write
from fairopt.properties.names import ByProperty, given_labels

__all__ = ["AuditReport", "Fault", "Finding", "Unconfirmed", "Witness"]


@dataclass(frozen=True)
class Witness:
    """An instance that breaks a property, computed again before it was believed.

    Attributes
    ----------
    instance : Instance
        As small as could be found.
    sentence : str
        Who loses what, in words.
    margin : float
        By how much, relative (a gain, for lies); what is left when all errors are granted.
    user : str or None
        Who loses, envies, lies or could have more.
    misreport : tuple of float or None
        What that user states instead of its demands.
    gain : float or None
        True tasks under the lie over those under the truth, less 1; infinite where the truth brings none.
    verified : str
        How it was computed again.
    changed : Instance or None
        The instance after a user has left or a capacity has grown, for monotonicity.

    Examples
    --------
    >>> import fairopt as fo
    >>> witness = fo.audit(fo.NoFairness(), "sharing-incentive", max_examples=40)["si"].witness
    >>> fo.check(fo.NoFairness().allocate(witness.instance))["si"].holds
    False
    """

    instance: Instance
    sentence: str
    margin: float
    user: str | None
    misreport: tuple[Any, ...] | None
    gain: float | None
    verified: str
    changed: Instance | None = None

    def __str__(self) -> str:
        return f"{self.sentence}; {numbers(self.instance)} (verified: {self.verified})"


@dataclass(frozen=True)
class Fault:
    """An instance on which the mechanism failed: it raised, answered NaN, took more than there is, or is random."""

    message: str
    instance: Instance

    def __str__(self) -> str:
        return f"{self.message}; {numbers(self.instance)}"


@dataclass(frozen=True)
class Unconfirmed:
    """An instance that seemed to break a property: what is seen there, and why that could not be verified."""

    instance: Instance
    sentence: str
    reason: str

    def __str__(self) -> str:
        return f"{self.sentence}; {numbers(self.instance)} ({self.reason})"


@dataclass(frozen=True)
class Finding:
    """What was found about one property.

    Attributes
    ----------
    property : str
        By its canonical name.
    refuted : bool
        Whether there is a verified witness.
    instances : int
        On how many it was tried, those without an answer left out.
    skipped : int
        Outside the mechanism's domain: not held against it.
    witness : Witness or None
        Where it is refuted.
    searched : str
        Where was looked.
    seconds : float
        What that took.
    hits : dict of str to tuple
        By family of instances (and of lies): how many were tried, how many broke the property before verification, and
        seconds until the first of them (None for none).
    faults : tuple of Fault
        Some of the instances on which the mechanism failed.
    n_faults : int
        How many there were.
    interrupted : bool
        Whether Ctrl-C ended the search early.
    unverified : int
        How many instances seemed to break the property, but could not be verified.
    unconfirmed : tuple of Unconfirmed
        Some of them.

    Examples
    --------
    >>> import fairopt as fo
    >>> finding = fo.audit(fo.NoFairness(), "sharing-incentive", max_examples=40)["si"]
    >>> finding.property, finding.verdict
    ('sharing-incentive', 'refuted')
    """

    property: str
    refuted: bool
    instances: int
    skipped: int
    witness: Witness | None
    searched: str
    seconds: float
    hits: dict[str, tuple[int, int, float | None]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    n_faults: int = 0
    interrupted: bool = False
    unverified: int = 0
    unconfirmed: tuple[Unconfirmed, ...] = ()

    @builtins.property
    def verdict(self) -> str:
        """``refuted``, or ``not refuted on N instances``; or that none was answered."""
        if self.refuted:
            return "refuted"
        if not self.instances:
            return "no instance was answered"
        stopped = " (interrupted)" if self.interrupted else ""
        return f"not refuted on {self.instances:,} instance{'s' * (self.instances != 1)}{stopped}"

    def remarks(self) -> list[str]:
        """Where was looked, what was left out, and what went wrong, in words."""
        words = [] if self.refuted or not self.searched else [self.searched]
        if self.unverified:
            seemed = "instance seemed" if self.unverified == 1 else "instances seemed"
            shown = f", as {self.unconfirmed[0]}" if self.unconfirmed else ""
            words.append(f"{self.unverified:,} {seemed} to break it, which could not be verified{shown}")
        if self.skipped:
            words.append(f"{self.skipped:,} outside its domain, or not as the conditions ask")
        if self.n_faults:
            words.append(f"{self.n_faults:,} fault{'s' * (self.n_faults != 1)}, as {self.faults[0]}")
        return words

    def __str__(self) -> str:
        shown = [] if self.witness is None else [str(self.witness)]
        return "; ".join([f"{self.property}: {self.verdict}", *shown, *self.remarks()])

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain lists, numbers and strings."""
        w = self.witness
        return {
            "property": self.property, "refuted": self.refuted, "verdict": self.verdict, "instances": self.instances,
            "skipped": self.skipped, "searched": self.searched, "seconds": self.seconds,
            "interrupted": self.interrupted, "unverified": self.unverified,
            "hits": {k: {"tried": t, "hits": h, "seconds": s} for k, (t, h, s) in self.hits.items()},
            "witness": None if w is None else {
                "instance": w.instance.to_dict(), "sentence": w.sentence, "margin": plain(w.margin), "user": w.user,
                "misreport": None if w.misreport is None else list(w.misreport),
                "gain": None if w.gain is None else plain(w.gain), "verified": w.verified,
                "changed": None if w.changed is None else w.changed.to_dict(),
            },
            "unconfirmed": [
                {"instance": u.instance.to_dict(), "sentence": u.sentence, "reason": u.reason} for u in self.unconfirmed
            ],
            "n_faults": self.n_faults,
            "faults": [{"message": f.message, "instance": f.instance.to_dict()} for f in self.faults],
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(ByProperty[Finding]):
    """Findings by property; ``report["sp"]`` and ``report["strategy-proof"]`` are the same.

    Attributes
    ----------
    mechanism : str
        Its name.
    policy : Policy or other mechanism
        What was audited.
    findings : tuple of Finding
        In the order asked for.
    conditions : tuple of str
        What instances had to fulfil.
    seed : int
        Where chance came from.
    stopped : bool
        Whether Ctrl-C came before or between properties.

    Examples
    --------
    >>> import fairopt as fo
    >>> report = fo.audit(fo.NoFairness(), ["sharing-incentive", "envy-free"], max_examples=40)
    >>> [(row["property"], row["refuted"]) for row in report.rows()]
    [('sharing-incentive', True), ('envy-free', True)]
    """

    mechanism: str
    policy: Any
    findings: tuple[Finding, ...]
    conditions: tuple[str, ...] = ()
    seed: int = 0
    stopped: bool = False

    _done = "audited"

    def _entries(self) -> dict[str, Finding]:
        return {f.property: f for f in self.findings}

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it early."""
        return self.stopped or any(f.interrupted for f in self.findings)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per property: ``property``, ``verdict``, ``margin``, ``witness``, ``instances``, ``skipped``, ...

        Returns
        -------
        list of dict
        """
        return [
            {
                "property": f.property, "verdict": f.verdict, "refuted": f.refuted,
                "margin": None if f.witness is None else f.witness.margin,
                "witness": "" if f.witness is None else f.witness.sentence,
                "where": "" if f.witness is None else numbers(f.witness.instance),
                "verified": "" if f.witness is None else f.witness.verified,
                "instances": f.instances, "skipped": f.skipped, "unverified": f.unverified, "faults": f.n_faults,
                "searched": f.searched, "seconds": f.seconds,
            }
            for f in self.findings
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The report as plain lists, numbers and strings."""
        return {
            "mechanism": self.mechanism, "policy": repr(self.policy), "conditions": list(self.conditions),
            "seed": self.seed, "findings": [f.to_dict() for f in self.findings],
        }  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, for `replay` to check again.

        Parameters
        ----------
        path : str or Path
            Ends in ``.json``.

        Returns
        -------
        Path

        Raises
        ------
        InvalidBlock
            For another ending, or where there is no such folder.
        """
        where = Path(path)
        if where.suffix != ".json":
            raise InvalidBlock(f"{where}: audits are saved as JSON; give a name that ends in .json")
        if not where.resolve().parent.is_dir():
            raise InvalidBlock(f"{where} cannot be written: there is no folder {where.parent}; make it first")
        return write(self.to_dict(), self.policy, where)

    def __str__(self) -> str:
        return "\n".join([self._title, *(f"  {f}" for f in self.findings)])

    def __repr__(self) -> str:
        words = ", ".join(f"{f.property}: {f.verdict}" for f in self.findings)
        return f"<AuditReport of {self.mechanism}; {words or 'nothing audited'}>"

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><td>{f.property}</td><td>{f'<b>{f.verdict}</b>' if f.refuted else f.verdict}</td>"
            f"<td>{'<br>'.join(map(html.escape, self._shown(f)))}</td></tr>"
            for f in self.findings
        )
        head = "<tr><th>property</th><th>verdict</th><th>what shows it</th></tr>"
        return f"<b>{html.escape(self._title)}</b><table>{head}{lines}</table>"

    @staticmethod
    def _shown(finding: Finding) -> list[str]:
        """What shows a finding, in lines."""
        witness = finding.witness
        lines = [] if witness is None else [witness.sentence, numbers(witness.instance), witness.verified]
        return lines + finding.remarks()

    @property
    def _title(self) -> str:
        under = f" under {', '.join(self.conditions)}" if self.conditions else ""
        return f"{self.mechanism}{under}"

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        yield Text(self._title, style="bold")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
        for header in ("property", "verdict", "by", "what shows it"):
            table.add_column(Text(header), no_wrap=header in ("property", "by"))
        for f in self.findings:
            by = "" if f.witness is None else percent(f.witness.margin)
            table.add_row(
                Text(f.property), Text(f.verdict, style="bold red" if f.refuted else ""), Text(by),
                Text("\n".join(self._shown(f))),
            )  # fmt: skip
        yield table


def numbers(instance: Instance) -> str:
    """All the numbers of a small instance in a line, with the labels that were given."""

    def rows(table: Any, labels: tuple[str, ...] = ()) -> str:
        parts = ["(" + ", ".join(f"{v:.6g}" for v in row) + ")" for row in table]
        return ", ".join(map(" ".join, zip(map(repr, labels), parts, strict=True)) if labels else parts)

    demands, users = instance.demands, given_labels(instance.users, "user")
    resources, servers = given_labels(instance.resources, "resource"), given_labels(instance.servers, "server")
    words = [f"resources ({', '.join(resources)})"] if resources else []
    words.append(f"demands {rows(demands if demands.ndim == 2 else demands.reshape(len(demands), -1), users)}")
    words.append(f"capacities {rows(instance.capacities, servers)}")
    if (instance.weights != 1).any():
        words.append(f"weights {rows([instance.weights])}")
    if (instance.task_limits < float("inf")).any():
        words.append(f"task limits {rows([instance.task_limits])}")
    if (instance.counts != 1).any():
        words.append(f"counts {rows([instance.counts])}")
    for user, row in zip(instance.users, instance.eligible, strict=True):
        if not row.all():
            there = ", ".join(name for name, may in zip(instance.servers, row, strict=True) if may)
            words.append(f"{user!r} on {there} only")
    return "; ".join(words)


def percent(value: float) -> str:
    """A relative number for people."""
    return "from none" if value == float("inf") else f"{value:.2%}"


def plain(value: float) -> float | str:
    """A number that JSON can hold."""
    return value if abs(value) < float("inf") else repr(value)
