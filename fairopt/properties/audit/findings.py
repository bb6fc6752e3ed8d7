"""The report of an audit, with a finding for each property, and its file."""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import json
import math
import platform
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError, InvalidBlock
from fairopt.instance import Instance
from fairopt.io.saving import write_whole
from fairopt.policies.parse import parse_policy
from fairopt.policies.registry import known_policies
from fairopt.properties.misreports.best import Tally
from fairopt.properties.names import given_labels, labelled, percent
from fairopt.properties.verdicts import ByProperty
from fairopt.runtime.lazy import later

FORMAT = "fairopt.audit/1"


class Evidence(ABC):
    """What shows that a property fails: in words, by how much, and where."""

    sentence: str
    margin: float
    verified: str

    @builtins.property
    @abstractmethod
    def where(self) -> str:
        """All numbers in one line."""

    def __str__(self) -> str:
        return f"{self.sentence}; {self.where} (verified: {self.verified})"


@dataclass(frozen=True)
class Witness(Evidence):
    """An instance on which a property fails, verified by an independent computation.

    Attributes
    ----------
    instance : Instance
        The smallest that was found.
    sentence : str
        The violation in words.
    margin : float
        The relative violation (the gain of a misreport), after numerical errors are deducted.
    user : str or None
        The user who loses, envies, lies or could run more; of lies of a team, the team.
    misreport : tuple of float or None
        The demands that this user reports.
    gain : float or None
        True tasks under the misreport over those under the truth, less 1; infinite where the truth gives none.
    verified : str
        The method of verification.
    changed : Instance or None
        For monotonicity: the instance after a user has left or a capacity has grown. For lies of a team: the instance
        with their reports.

    Examples
    --------
    >>> import fairopt as fo
    >>> witness = fo.audit(fo.MostTasks(), "sharing-incentive", max_examples=40)["si"].witness
    >>> fo.check(fo.MostTasks().allocate(witness.instance))["si"].holds
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

    @builtins.property
    def where(self) -> str:
        """All numbers in one line."""
        return numbers(self.instance)


@dataclass(frozen=True)
class Fault:
    """An instance on which the mechanism raised, answered NaN, exceeded a capacity, or answered at random."""

    message: str
    instance: Instance

    def __str__(self) -> str:
        return f"{self.message}; {numbers(self.instance)}"


@dataclass(frozen=True)
class Unconfirmed:
    """An instance on which a property seemed to fail, and why that could not be verified."""

    instance: Instance
    sentence: str
    reason: str

    def __str__(self) -> str:
        return f"{self.sentence}; {numbers(self.instance)} ({self.reason})"


@dataclass(frozen=True)
class Finding:
    """The result for one property.

    Attributes
    ----------
    property : str
        Canonical name.
    refuted : bool
        Whether there is a verified witness.
    instances : int
        Number of instances with an answer.
    skipped : int
        Number of instances outside the mechanism's domain or excluded by the conditions.
    witness : Witness or None
        Where the property is refuted.
    searched : str
        The instances that were searched, in words.
    seconds : float
        Seconds of the search.
    hits : dict of str to tuple
        By family of instances or misreports: the number ``tried``, of ``hits`` (violations before verification), and
        ``seconds`` until the first (None for none).
    faults : tuple of Fault
        Up to 5 of the instances on which the mechanism failed.
    n_faults : int
        Number of such instances.
    interrupted : bool
        Whether Ctrl-C ended the search early.
    unverified : int
        Number of instances on which the property seemed to fail but could not be verified.
    unconfirmed : tuple of Unconfirmed
        Up to 5 of them.
    proved : str
        What ``audit(..., prove=True)`` proved, in words; empty if nothing.
    late : bool
        Whether the time limit ended the search early.
    judged : str
        How the property is judged of a policy with constraints, in words; empty without constraints.

    Examples
    --------
    >>> import fairopt as fo
    >>> finding = fo.audit(fo.MostTasks(), "sharing-incentive", max_examples=40)["si"]
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
    hits: dict[str, Tally] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    n_faults: int = 0
    interrupted: bool = False
    unverified: int = 0
    unconfirmed: tuple[Unconfirmed, ...] = ()
    proved: str = ""
    late: bool = False
    judged: str = ""

    @builtins.property
    def verdict(self) -> str:
        """``refuted``, ``not refuted on N instances``, or ``no instance was answered``."""
        if self.refuted:
            return "refuted"
        stopped = " (interrupted)" if self.interrupted else " (time limit)" if self.late else ""
        if not self.instances:
            return f"no instance was answered{stopped}"
        not_refuted = f"not refuted on {self.instances:,} instance{'s' * (self.instances != 1)}{stopped}"
        return f"{self.proved}; {not_refuted}" if self.proved else not_refuted

    @builtins.property
    def ok(self) -> bool:
        """Whether there were instances, and neither a violation, even unverified, nor a fault."""
        return self.instances > 0 and not (self.refuted or self.unverified or self.n_faults)

    def remarks(self) -> list[str]:
        """Sentences on what was searched, skipped and failed."""
        words = [self.judged] if self.judged and not (self.witness and self.judged in self.witness.sentence) else []
        words += [] if self.refuted or not self.searched else [self.searched]
        if self.unverified:
            seemed = "instance seemed to be a counterexample"
            seemed = seemed if self.unverified == 1 else "instances seemed to be counterexamples"
            shown = f": {self.unconfirmed[0]}" if self.unconfirmed else ""
            words.append(f"{self.unverified:,} {seemed}, but could not be verified{shown}")
        if self.skipped:
            words.append(f"{self.skipped:,} skipped: outside its domain, or excluded by the conditions")
        if self.n_faults:
            words.append(f"{self.n_faults:,} fault{'s' * (self.n_faults != 1)}: {self.faults[0]}")
        return words

    def __str__(self) -> str:
        shown = [] if self.witness is None else [str(self.witness)]
        return "; ".join([f"{self.property}: {self.verdict}", *shown, *self.remarks()])

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain lists, numbers and strings."""
        return {**plain(self), "verdict": self.verdict, "hits": {kind: t._asdict() for kind, t in self.hits.items()}}


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(ByProperty[Finding]):
    """Findings by property; ``report["sp"]`` and ``report["strategy-proof"]`` are the same.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    policy : Policy or other mechanism
        The mechanism.
    findings : tuple of Finding
        In the order in which the properties were given.
    conditions : tuple of str
        Conditions on the instances.
    seed : int
        Seed of random instances and reports.
    stopped : bool
        Whether Ctrl-C came before or between properties.
    share : Share or None
        The share by which users compared, if one was given.

    Examples
    --------
    >>> import fairopt as fo
    >>> report = fo.audit(fo.MostTasks(), ["sharing-incentive", "envy-free"], max_examples=40)
    >>> [(row["property"], row["refuted"]) for row in report.rows()]
    [('sharing-incentive', True), ('envy-free', True)]
    """

    mechanism: str
    policy: Any
    findings: tuple[Finding, ...]
    conditions: tuple[str, ...] = ()
    seed: int = 0
    stopped: bool = False
    share: Share | None = None

    _done = "audited"
    _columns = ("property", "verdict", "by", "what shows it")

    def _entries(self) -> dict[str, Finding]:
        return {f.property: f for f in self.findings}

    @property
    def ok(self) -> bool:
        """Whether all findings are ok, and Ctrl-C left none out."""
        return bool(self.findings) and not self.stopped and all(f.ok for f in self.findings)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the audit early."""
        return self.stopped or any(f.interrupted for f in self.findings)

    @property
    def late(self) -> bool:
        """Whether the time limit ended a search early."""
        return any(f.late for f in self.findings)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per property: ``property``, ``verdict``, ``margin``, ``witness``, ``instances``, ``skipped``, ..."""
        rows = []
        for f in self.findings:
            w = f.witness
            shown = ("", "", "") if w is None else (w.sentence, w.where, w.verified)
            rows.append(
                {
                    "property": f.property,
                    "verdict": f.verdict,
                    "refuted": f.refuted,
                    "margin": None if w is None else w.margin,
                    "witness": shown[0],
                    "where": shown[1],
                    "verified": shown[2],
                    "instances": f.instances,
                    "skipped": f.skipped,
                    "unverified": f.unverified,
                    "faults": f.n_faults,
                    "searched": f.searched,
                    "seconds": f.seconds,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The report as plain lists, numbers and strings."""
        return {
            "mechanism": self.mechanism,
            "policy": repr(self.policy),
            "conditions": list(self.conditions),
            "seed": self.seed,
            **({} if self.share is None else {"share": repr(self.share)}),
            "findings": [f.to_dict() for f in self.findings],
        }

    def save(self, path: str | Path) -> Path:
        """Write the report as JSON to a path that ends in ``.json``, for `replay`; return the path.

        `InvalidBlock` for another suffix.
        """
        where = Path(path)
        if where.suffix.lower() != ".json":
            raise InvalidBlock(f"{where}: audits are saved as JSON; give a name that ends in .json")
        versions = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "fairopt": sys.modules["fairopt"].__version__,
        }
        data = {"format": FORMAT, **self.to_dict(), "policy": _policy_text(self.policy), "versions": versions}
        data["digest"] = digest(data)
        write_whole(where, json.dumps(data, indent=1, allow_nan=False) + "\n")
        return where

    @classmethod
    def load(cls, path: str | Path, policy: Any = None, share: Share | None = None) -> AuditReport:
        """Read a file of `save`; `replay` also verifies its witnesses.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote.
        policy : Policy or other mechanism, optional
            The mechanism. Without it, a mechanism that is not made of fairopt's blocks is loaded as text.
        share : Share, optional
            The share by which users compared, if it is not one of fairopt's.

        Raises
        ------
        InvalidInstance
            If there is no such file, or it is not one that `save` wrote.

        Examples
        --------
        >>> import pathlib, tempfile, fairopt as fo
        >>> report = fo.audit(fo.MostTasks(), "envy-free", max_examples=40)
        >>> file = report.save(pathlib.Path(tempfile.mkdtemp()) / "audit.json")
        >>> fo.properties.AuditReport.load(file)["ef"].verdict
        'refuted'
        """
        return later("fairopt.properties.audit.replay:load")(Path(path), policy, share)

    def _heading(self) -> str:
        under = f" under {', '.join(self.conditions)}" if self.conditions else ""
        return f"{self.mechanism}{under}" + ("" if self.share is None else f", by {self.share!r}")

    def _row(self, entry: Finding) -> tuple[bool, tuple[str, ...]]:
        w = entry.witness
        shown = [] if w is None else [w.sentence, w.where, f"verified: {w.verified}"]
        by = "" if w is None else percent(w.margin)
        return entry.refuted, (entry.property, entry.verdict, by, "\n".join([*shown, *entry.remarks()]))


def numbers(instance: Instance) -> str:
    """All numbers of a small instance in one line, with labels that are not default ones."""

    def rows(table: Any, labels: tuple[str, ...] = ()) -> str:
        return labelled(["(" + ", ".join(f"{v:.6g}" for v in row) + ")" for row in table], map(repr, labels))

    demands, users = instance.demands, given_labels(instance.users, "user")
    resources, servers = given_labels(instance.resources, "resource"), given_labels(instance.servers, "server")
    words = [f"resources ({', '.join(resources)})"] if resources else []
    words.append(f"demands {rows(demands if demands.ndim == 2 else demands.reshape(len(demands), -1), users)}")
    words.append(f"capacities {rows(instance.capacities, servers)}")
    for by, labels in instance.teams.items():
        words.append(f"{by} ({', '.join('none' if label is None else label for label in labels)})")
    if (instance.own_weights != 1).any():
        words.append(f"weights {rows([instance.own_weights])}")
    words += [f"weight of {team!r} {weight:.6g}" for team, weight in instance.team_weights.items()]
    if (instance.task_limits < float("inf")).any():
        words.append(f"task limits {rows([instance.task_limits])}")
    if instance.guarantees.any():
        words.append(f"guarantees {rows([instance.guarantees])}")
    for team, floor in instance.team_guarantees.items():
        words.append(f"guarantee of {team!r} ({', '.join(f'{units:.6g} {name}' for name, units in floor.items())})")
    if instance.rates is not None:
        words.append(f"rates {rows(instance.rates)}")
    if (instance.counts != 1).any():
        words.append(f"counts {rows([instance.counts])}")
    for user, row in zip(instance.users, instance.eligible, strict=True):
        if not row.all():
            there = ", ".join(name for name, may in zip(instance.servers, row, strict=True) if may)
            words.append(f"{user!r} on {there} only")
    return "; ".join(words)


def plain(value: Any) -> Any:
    """What JSON can hold of a value: dicts for instances and dataclasses, text for what is not finite."""
    if isinstance(value, Instance):
        return value.to_dict()
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return list(map(plain, value))
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def digest(data: dict[str, Any]) -> str:
    """SHA-256 of all other entries, by which an edited file is recognised."""
    rest = {key: value for key, value in data.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _policy_text(policy: Any) -> str:
    """A text from which `parse_policy` or a short name makes the mechanism again, else its repr."""
    text = repr(policy)
    with contextlib.suppress(FairoptError):
        if parse_policy(text) == policy:
            return text
    for name, notion in known_policies().items():
        try:
            if repr(notion.make()) == text:
                return name
        except Exception:  # a required parameter, or a failing package
            continue
    return text
