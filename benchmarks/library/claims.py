"""Smallest witnesses: instances that refute or prove a claim of a paper, from the project's table of claims."""

from __future__ import annotations

from collections.abc import Iterator

from entries import Entry

import fairopt as fo
from fairopt.errors import InvalidBlock
from fairopt.policies.registry import named_policy
from fairopt.properties.literature import claims as literature


def entries() -> Iterator[Entry]:
    """A case per instance, named after the mechanism and the property of the first claim that it decides."""
    seen: dict[tuple[object, ...], int] = {}
    names: dict[str, int] = {}
    for claim in literature.claims():
        for case in claim.cases:
            key = (case.demands, case.capacities)
            if key in seen:
                continue
            seen[key] = len(seen)
            paper, _, year = claim.paper.rpartition(" ")
            stem = f"{case.mechanism or claim.mechanism}-{case.breaks}"
            stem = "".join(letter if letter.isalnum() else "-" for letter in stem.lower()).strip("-")
            names[stem] = names.get(stem, 0) + 1
            mechanism = case.mechanism or claim.mechanism
            yield Entry(
                f"claim-{stem}" + f"-{names[stem]}" * (names[stem] > 1),
                case.why[0].upper() + case.why[1:],
                {"where": claim.where, "authors": paper, "year": int(year)},
                ("claim", claim.verdict if claim.verdict in ("refuted", "proved") else "holds", case.breaks),
                case.instance,
                _notion(mechanism, case.instance),
                expected=_expected(mechanism, claim, case),
            )


def _notion(mechanism: str, instance: fo.Instance) -> dict[str, str]:
    """The mechanism of the claim, unless it is one of the main notions."""
    if mechanism in ("drf", "2df", "nash", "most-tasks", "drfh", "ps-dsf", "per-server", "bottleneck"):
        return {} if mechanism in ("drf", "2df", "nash", "most-tasks", "drfh") else {mechanism: mechanism}
    if mechanism in ("sequential-minmax", "dynamic-drf"):  # whole tasks, and arrivals
        return {}
    try:
        named_policy(mechanism)
    except InvalidBlock:  # a measure without an optimum, as the claim says
        return {}
    return {mechanism: mechanism}


def _expected(mechanism: str, claim: literature.Claim, case: literature.Case) -> dict[str, tuple[object, ...]]:
    """The exact tasks of the main notions."""
    if mechanism in ("drf", "2df", "nash", "drfh") and case.instead is None:
        return {"drf" if mechanism == "drfh" else mechanism: tuple(case.tasks)}
    return {}
