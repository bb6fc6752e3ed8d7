"""The audit of every shipped notion for one pool: what it has, by smallest witnesses, positive and with zeros.

One row per notion, property and kind of demands: the verdict, the margin of the witness (verified by other means), the
instance, how many were searched, and how long until the first hit by the family that was quickest.

Run: python benchmarks/audit.py [--examples 2000 --drf 100000]
"""

from __future__ import annotations

import time
from typing import Any

from common import arguments, show

import fairopt as fo
from fairopt.properties.findings import numbers

NOTIONS: dict[str, Any] = {
    "2-DF": fo.KDF(2), "3-DF": fo.KDF(3), "FDS 0.5": fo.FDS(0.5), "FDS 1": fo.FDS(1), "FDS 2": fo.FDS(2),
    "FDS 5": fo.FDS(5), "GFJ 0.5": fo.GFJ(0.5), "GFJ 2": fo.GFJ(2), "p-norm 1, 2": fo.PNormFairness(1, 2),
    "most tasks": fo.NoFairness(), "MLF-DRS": fo.MLFDRS(), "H-FFMRA": fo.HFFMRA(),
}  # fmt: skip
PROPERTIES = ("pareto", "sharing-incentive", "envy-free", "strategy-proof", "strategy-proof-boosting")


def audited(name: str, policy: Any, examples: int, positive: bool, weights: bool = False) -> list[dict[str, Any]]:
    """Rows of one notion."""
    start = time.perf_counter()
    report = fo.audit(policy, properties=PROPERTIES, max_examples=examples, positive=positive, weights=weights)
    rows = []
    for finding in report.values():
        firsts = [s for _, _, s in finding.hits.values() if s is not None]
        witness = finding.witness
        stands = "stands" if finding.instances else "not tried"
        rows.append({
            "notion": name + (", weighted" if weights else ""), "demands": "positive" if positive else "with zeros",
            "property": finding.property, "verdict": "refuted" if finding.refuted else stands,
            "instances": finding.instances, "margin": witness.margin if witness else float("nan"),
            "first hit s": min(firsts, default=float("nan")), "seconds": finding.seconds,
            "witness": numbers(witness.instance) if witness else "",
        })  # fmt: skip
    print(f"{name}, {'positive' if positive else 'zeros'}: {time.perf_counter() - start:.1f} s", flush=True)
    return rows


def main() -> None:
    """DRF first and longest: it is the one that has to stand."""
    options = arguments(str(__doc__), examples=2000, drf=100_000)
    rows = [row for weights in (False, True) for row in audited("DRF", fo.DRF(), options.drf, False, weights)]
    for name, policy in NOTIONS.items():
        for positive in (True, False):
            rows += audited(name, policy, options.examples, positive)
    show("The audit of every notion", rows, "audit")


if __name__ == "__main__":
    main()
