"""Verification of saved witnesses from their numbers alone; nothing in a file is executed or trusted."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError, InvalidInstance
from fairopt.instance import Instance
from fairopt.io.json_text import read_json_text
from fairopt.policies.parse import parse_block, parse_policy
from fairopt.policies.registry import known_policies
from fairopt.policy import label
from fairopt.properties.audit.audit import search_instance, witness_of
from fairopt.properties.audit.findings import (
    FORMAT,
    AuditReport,
    Fault,
    Finding,
    Unconfirmed,
    Witness,
    digest,
    numbers,
    plain,
)
from fairopt.properties.exact.confirm import Counterexample, verified
from fairopt.properties.misreports.best import Tally, verified_misreport
from fairopt.properties.misreports.teams import verified_team_lie
from fairopt.properties.names import OF_TEAMS, percent, property_name
from fairopt.properties.within import WITHIN, decided_on_pools
from fairopt.runtime.progress import by_itself
from fairopt.solve.form.many_instances import is_one_pool

SAME = 1e-6  # relative difference of margins from which the file or the mechanism has changed


@dataclass(frozen=True)
class Replayed:
    """The result for a saved witness."""

    property: str  # canonical name
    mechanism: str
    refutes: bool  # whether the property still fails on the instance
    margin: float  # the violation after numerical errors are deducted; at most 0 if it does not fail there
    saved: float  # the margin in the file
    verified: str  # the method of verification
    instance: Instance

    @builtins.property
    def verdict(self) -> str:
        """``still refutes``, or ``no longer refutes``."""
        return "still refutes" if self.refutes else "no longer refutes"

    def __str__(self) -> str:
        by = f" by {percent(self.margin)}" if self.refutes else ""
        return f"{self.mechanism}, {self.property}: {self.verdict}{by} ({self.verified}); {numbers(self.instance)}"

    def to_dict(self) -> dict[str, Any]:
        """The result as plain lists, numbers and strings."""
        return {**plain(self), "verdict": self.verdict}


def replay(path: str | Path, policy: Any = None, share: Share | None = None) -> tuple[Replayed, ...]:
    """Verify the witnesses of a saved audit again, from the numbers alone.

    Parameters
    ----------
    path : str or Path
        A file that `AuditReport.save` wrote.
    policy : Policy or other mechanism, optional
        The mechanism; required if the file's is not made of fairopt's blocks only.
    share : Share, optional
        The share by which users compared; required if the file has one that is not fairopt's.

    Returns
    -------
    tuple of Replayed
        One for each refuted property.

    Raises
    ------
    InvalidInstance
        If it is not such a file, or does not match its digest. Without a digest the numbers are only checked for
        contradictions.

    Examples
    --------
    >>> import fairopt as fo, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = fo.audit(fo.KDF(2), ["si"], max_examples=100).save(pathlib.Path(folder) / "kdf.json")
    ...     print(fo.properties.replay(path)[0].verdict)
    still refutes
    """
    report = load(Path(path), policy, share)
    witnesses = [(finding.property, finding.witness) for finding in report.findings if finding.witness is not None]
    if witnesses and isinstance(report.policy, str):
        raise InvalidInstance(
            f"{path}: its mechanism is {report.policy[:120]!r}, which is not made of fairopt's blocks only; "
            "give it: --policy file.py:NAME on the command line, replay(path, policy=...) in Python"
        )
    out: list[Replayed] = []
    for k, (name, witness) in enumerate(witnesses):
        with by_itself() as tell:
            tell("witnesses", k, len(witnesses))
            out.append(_replay_witness(report.policy, name, witness, report.share))
    return tuple(out)


def load(path: Path, policy: Any = None, share: Share | None = None) -> AuditReport:
    """See `AuditReport.load`."""
    data = _read(path)
    try:
        findings = tuple(map(_finding, data["findings"]))
        if policy is None:
            policy = _policy_from(str(data["policy"])) or str(data["policy"])
        if share is None and "share" in data:
            share = _share_from(str(data["share"]), path)
        name, conditions = str(data["mechanism"]), tuple(map(str, data["conditions"]))
        return AuditReport(name, policy, findings, conditions, int(data["seed"]), share=share)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInstance(
            f"{path}: not a complete audit ({error}); it was changed after it was saved, so save it again"
        ) from error


def _finding(given: Any) -> Finding:
    name, witness = property_name(given["property"]), given["witness"]
    if not isinstance(given["refuted"], bool) or given["refuted"] != (witness is not None):
        raise ValueError(f"{name} is refuted without a witness, or has one and is not refuted")
    return Finding(
        name,
        given["refuted"],
        int(given["instances"]),
        int(given["skipped"]),
        None if witness is None else _witness(witness, name),
        str(given["searched"]),
        float(given["seconds"]),
        {str(k): Tally(int(h["tried"]), int(h["hits"]), h["seconds"]) for k, h in given["hits"].items()},
        tuple(Fault(str(f["message"]), Instance.from_dict(f["instance"])) for f in given["faults"]),
        int(given["n_faults"]),
        bool(given["interrupted"]),
        int(given["unverified"]),
        tuple(
            Unconfirmed(Instance.from_dict(u["instance"]), str(u["sentence"]), str(u["reason"]))
            for u in given["unconfirmed"]
        ),
        str(given.get("proved", "")),  # absent in files of the first versions, as "late"
        bool(given.get("late", False)),
        str(given.get("judged", "")),
    )


def _witness(given: Any, name: str) -> Witness:
    instance = Instance.from_dict(given["instance"])
    changed = None if given["changed"] is None else Instance.from_dict(given["changed"])
    user, lie, margin = given["user"], given["misreport"], float(given["margin"])
    gain = None if given["gain"] is None else float(given["gain"])
    pool = is_one_pool(instance)
    known = instance.teams.names if name == "team-strategy-proof" else instance.users
    if user is not None and user not in known:
        raise ValueError(f"it names user {user!r}, who is not in the instance")
    if pool and user is None and name not in (*OF_TEAMS, *WITHIN):  # those within constraints name none
        raise ValueError("it names no user")
    if name.startswith("strategy-proof"):
        if lie is None or gain is None or gain != margin:
            raise ValueError("a lie without demands, or with a gain other than its margin")
        report = np.asarray(lie, dtype=float)
        if report.shape != instance.demands.shape[1:] or not (np.isfinite(report) & (report >= 0)).all():
            raise ValueError(f"a report {lie!r} that is not demands of the instance")
        true = instance.demands[instance.users.index(user)]
        if name == "strategy-proof-boosting" and (report < true).any():
            raise ValueError("a boosting report below the truth")
    elif lie is not None or gain is not None:
        raise ValueError(f"a lie, for {name}")
    expected = name.endswith("-monotone") or name == "team-strategy-proof"
    if (pool or name == "team-strategy-proof") and (changed is not None) != expected:
        raise ValueError("the instance after a change is missing, or not expected")
    if changed is not None and name.endswith("-monotone"):
        _check_change(name, instance, changed, str(user))
    if np.isnan(margin):
        raise ValueError("a margin that is not a number")
    return Witness(instance, str(given["sentence"]), margin, user, lie, gain, str(given["verified"]), changed)


def _check_change(name: str, before: Instance, after: Instance, user: str) -> None:
    """Require that the second instance follows from the first: another user has left, or capacities have grown."""
    if name == "population-monotone":
        kept = [j for j, u in enumerate(before.users) if u in after.users]
        right = user in after.users and len(kept) == before.n_users - 1 and before.select_users(kept) == after
    else:
        same = after.capacities.shape == before.capacities.shape
        grown = same and bool((after.capacities >= before.capacities).all())
        right = grown and before.with_capacities(after.capacities) == after
    if not right:
        raise ValueError("the instance after the change does not follow from the one before")


def _replay_witness(policy: Any, name: str, witness: Witness, share: Share | None) -> Replayed:
    instance, margin = witness.instance, -np.inf
    lie: Any = witness.misreport
    outcome: Any
    if is_one_pool(instance) and decided_on_pools(name, policy, instance) and witness.user is not None:
        user = instance.users.index(witness.user)
        report = None if lie is None else tuple(lie)
        proof = verified(policy, Counterexample(name, instance, user, report, witness.changed))
        margin, how, refutes = proof.margin, proof.how, proof.confirmed
    else:
        if lie is not None:
            outcome = witness_of(instance, verified_misreport(policy, instance, str(witness.user), lie, share=share))
        elif name == "team-strategy-proof":
            team = str(witness.user)
            lie = None if witness.changed is None else verified_team_lie(policy, instance, team, witness.changed, share)
            outcome = witness_of(instance, lie)
        else:
            outcome = search_instance(policy, name, instance, False, 0, share=share)
        refutes, how = isinstance(outcome, Witness), "could not be shown again"
        if isinstance(outcome, Witness):
            margin, how = outcome.margin, outcome.verified
    if margin != witness.margin and not abs(margin - witness.margin) <= SAME * max(1.0, min(abs(margin), 1e300)):
        how += f"; the file says {percent(witness.margin)}, so it or the mechanism has changed"
    return Replayed(name, label(policy), refutes, margin, witness.margin, how, instance)


def _read(path: Path) -> dict[str, Any]:
    """The data of a saved audit; `InvalidInstance` for another file, or one that does not match its digest."""
    expected = "give a file that AuditReport.save wrote"
    data = read_json_text(path, expected)
    if data.get("format") != FORMAT:
        raise InvalidInstance(f"{path}: not a saved audit (no format {FORMAT!r}); {expected}")
    if "digest" in data and data["digest"] != digest(data):
        raise InvalidInstance(
            f"{path}: it was changed after it was saved (its digest does not match); save the audit again, or remove "
            "the line of the digest to have the numbers checked as they are now"
        )
    return data


def _share_from(text: str, path: Path) -> Share:
    """The share that a file names; `InvalidInstance` for one that is not fairopt's."""
    try:
        return parse_block(text, Share, "a share", "DominantShare()")
    except FairoptError as error:
        raise InvalidInstance(
            f"{path}: users compared by {text[:120]!r}, which is not one of fairopt's shares; give it: --share "
            "file.py:NAME on the command line, replay(path, share=...) in Python"
        ) from error


def _policy_from(text: str) -> Any:
    """The mechanism that a file names; None for one that is not made of fairopt's blocks."""
    try:
        return parse_policy(text)
    except FairoptError:
        known = known_policies()
        return known[text].make() if text in known else None
