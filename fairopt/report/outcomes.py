"""One row of a comparison: the allocation of a policy, or its error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairopt.allocation import Allocation
from fairopt.blocks.base import brief
from fairopt.errors import FairoptError, InvalidBlock
from fairopt.instance import Instance
from fairopt.policies.registry import named_policy
from fairopt.policy import accepted, is_mechanism, label
from fairopt.runtime.progress import tell, within

MEASURES = ("ntt", "aur", "jain", "smallest_dominant_share", "wanting_more", "utilisation", "utilisation_of_tasks")
PROOF = ("method", "solver", "gap", "whole", "violation")


@dataclass(frozen=True, eq=False)
class Outcome:
    """The name of a policy, its certified allocation or its error, and the seconds of the call."""

    policy: str
    allocation: Allocation | None
    error: FairoptError | None
    seconds: float

    def row(self) -> dict[str, Any]:
        """The outcome as plain data, with None for the numbers of a failed policy."""
        out: dict[str, Any] = {"policy": self.policy, "certified": False, **dict.fromkeys(MEASURES + PROOF)}
        if self.allocation is not None:
            proof = self.allocation.certificate
            out |= {"certified": proof.ok, **self.allocation.metrics(), **{key: getattr(proof, key) for key in PROOF}}
        error = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return {**out, "seconds": self.seconds, "error": error}


def mechanisms(policies: Any) -> dict[str, Any]:
    """Mechanisms by name, from policies, mechanisms or short names; equal names get numbers."""
    if isinstance(policies, str) or is_mechanism(policies):
        policies = [policies]
    if not isinstance(policies, Iterable):
        raise InvalidBlock(f"{brief(policies)} is not a list of policies; give a list such as [fo.DRF(), 'kdf:k=2']")
    given: Iterable[tuple[str | None, Any]]
    given = policies.items() if isinstance(policies, Mapping) else ((None, p) for p in policies)
    out: dict[str, Any] = {}
    for name, made in given:
        mechanism = named_policy(made) if isinstance(made, str) else made
        if not is_mechanism(mechanism):
            raise InvalidBlock(f"{brief(mechanism)} has no allocate(instance); give a Policy, or a name such as 'drf'")
        plain = name or label(mechanism)
        names = [plain, *(f"{plain} ({k})" for k in range(2, len(out) + 2))]
        out[next(n for n in names if n not in out)] = mechanism
    return out


def outcome(name: str, mechanism: Any, instance: Instance, **options: Any) -> Outcome:
    """Allocate by one mechanism. Options at their defaults are not passed on, since it may not take them."""
    start = time.perf_counter()
    try:
        allocation = mechanism.allocate(instance, **accepted(mechanism, **options))
    except FairoptError as error:
        return Outcome(name, None, error, time.perf_counter() - start)
    return Outcome(name, allocation, None, allocation.certificate.seconds)


def ask_all(
    mechanisms: Mapping[str, Any], instance: Instance, outcomes: list[Outcome], **options: Any
) -> tuple[str, ...]:
    """Append each outcome to ``outcomes`` until Ctrl-C; return the names of the mechanisms that are left."""
    try:
        for k, (name, mechanism) in enumerate(mechanisms.items()):
            tell(name, k, len(mechanisms))
            with within(name):
                outcomes.append(outcome(name, mechanism, instance, **options))
    except KeyboardInterrupt:
        pass
    return tuple(mechanisms)[len(outcomes) :]
