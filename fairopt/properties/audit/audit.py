"""The audit of a mechanism: a search for instances that break a property, with witnesses that are verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.progress import by_itself
from fairopt.properties.audit.findings import AuditReport, Finding
from fairopt.properties.audit.property_search import AuditSettings, PropertySearch
from fairopt.properties.names import property_name

__all__ = ["CONDITIONS", "USUAL", "audit"]

CONDITIONS = ("positive demands", "no completely dominant user", "boosting only")
USUAL = ("pareto", "sharing-incentive", "envy-free", "strategy-proof")


def audit(
    mechanism: Any,
    properties: str | Iterable[str] = USUAL,
    instances: Iterable[Instance] | None = None,
    *,
    positive: bool = False,
    conditions: str | Iterable[str] = (),
    weights: bool = False,
    limits: bool = False,
    servers: int = 1,
    max_examples: int = 2000,
    seed: int = 0,
    seconds: float | None = None,
    found: Callable[[Finding], None] | None = None,
) -> AuditReport:
    """Search for instances on which a mechanism breaks a property; shrink and verify what is found.

    Small pools are drawn from families (small integers, some resources scarce at one point, log space, near ties) and
    measured thousands at a time, where the mechanism allows it. A failing instance is reduced to few users and small
    integers, and computed again by an independent method, before the property is called refuted.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    properties : iterable of str
        Names or short forms, as ``["pe", "si", "ef", "sp"]``, which are audited by default.
    instances : iterable of Instance, optional
        Instances to look at, on any number of servers, instead of drawn ones; witnesses among them are not shrunk.
        Those that do not fulfil the conditions are skipped and counted.
    positive : bool, default False
        Positive demands only, in instances and in reports.
    conditions : iterable of str
        Of ``"positive demands"``, ``"no completely dominant user"`` (Jiang and Wu 2021, eq. 7, for the k of a
        k-dominant share, else 2) and ``"boosting only"`` (reports of at least the true demands).
    weights, limits : bool, default False
        Let drawn instances have weights from 1 to 4, and task limits.
    servers : int, default 1
        Above 1, draw clusters of two servers up to this number, with placement constraints, instead of pools: for
        notions such as `DRFH` and `PSDSF`. They are solved one by one, hundreds of times slower than pools.
    max_examples : int, default 2000
        Instances per property; fewer where it is refuted before.
    seed : int, default 0
        Seed of the random instances and reports.
    seconds : float, optional
        Time limit of each property.
    found : callable, optional
        Called with each `Finding` as soon as it is known.

    Returns
    -------
    AuditReport
        A `Finding` for each property. Ctrl-C returns the findings so far, marked as interrupted.

    Raises
    ------
    InvalidBlock
        If a property or condition is unknown, another argument is invalid, or the mechanism has no ``allocate``.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.audit.audit import audit
    >>> report = audit(fo.KDF(2), ["si", "pe"], positive=True, max_examples=200)
    >>> report["pe"].verdict
    'not refuted on 200 instances'
    >>> print(report["si"].witness)
    user 'user2' runs 0.3333 tasks, where its own slice would run 0.5: ... (verified: exact fractions)
    """
    if isinstance(mechanism, type) or not callable(getattr(mechanism, "allocate", None)):
        raise InvalidBlock(f"audit({mechanism!r}): give a policy, such as DRF(), or anything with .allocate(instance)")
    names = list(dict.fromkeys(map(property_name, _texts(properties, "properties", USUAL))))
    if not names:
        raise InvalidBlock("no properties to audit; give some such as ['pe', 'si', 'ef', 'sp']")
    _check_whole(max_examples, "max_examples", 1)
    _check_whole(servers, "servers", 1)
    _check_whole(seed, "seed", 0)
    if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
        raise InvalidBlock(f"seconds is {seconds!r}; give a number > 0, or None")
    known = _conditions(conditions, positive)
    if "boosting only" in known:
        names = list(dict.fromkeys("strategy-proof-boosting" if n == "strategy-proof" else n for n in names))
    if isinstance(instances, Instance) or not isinstance(instances, Iterable | None):
        raise InvalidBlock(f"instances is {instances!r}; give a list of instances, as [cluster]")
    given = None if instances is None else list(instances)
    if given is not None and not given:
        raise InvalidBlock("instances is empty; give some, or leave it out to have instances drawn")
    for instance in given or ():
        if not isinstance(instance, Instance):
            raise InvalidBlock(f"instances hold {instance!r}; give fairopt.Instance objects")
    with by_itself() as tell:
        setting = AuditSettings(
            mechanism, known, bool(weights), bool(limits), int(servers), int(max_examples), int(seed), seconds, tell
        )
        findings: list[Finding] = []
        stopped = False
        try:
            random = setting.random_faults(given)
            for name in names:
                search = PropertySearch(setting, name, random)
                search.run(given)
                findings.append(search.finding())
                if found is not None:
                    found(findings[-1])
                if search.interrupted:
                    break
        except KeyboardInterrupt:
            stopped = True
        return AuditReport(label(mechanism), mechanism, tuple(findings), known, setting.seed, stopped)


def _texts(given: Any, name: str, usual: tuple[str, ...]) -> list[str]:
    if given is None:
        return list(usual)
    if not isinstance(given, (str, Iterable)):
        raise InvalidBlock(f"{name} are {given!r}; give a name or a list of names")
    return [given] if isinstance(given, str) else list(given)


def _check_whole(value: Any, name: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidBlock(f"{name} is {value!r}; give a whole number, {least} or more")


def _conditions(given: Any, positive: bool) -> tuple[str, ...]:
    asked = _texts(given, "conditions", ())
    for condition in asked:
        if condition not in CONDITIONS:
            raise InvalidBlock(f"no condition {condition!r}; {nearest(str(condition), CONDITIONS)}")
    return tuple(c for c in CONDITIONS if c in asked or (positive and c == "positive demands"))
