"""The audit of every shipped notion by smallest witnesses: positive demands, zeros, and several servers.

Three tables. The verdicts on one pool: a row per notion, property and kind of demands, with the margin of the witness
(verified by other means), how many instances were searched, and how long until the first hit. Where hits came from: a
row per notion, property and family of instances or of lies. Random small clusters of two or three servers: the verdicts
there.

Run: python benchmarks/audit.py [--examples 2000 --drf 100000 --clusters 100 --workers 2]
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from common import arguments, show

import fairopt as fo
from fairopt.properties.audit.findings import numbers

NOTIONS: dict[str, Any] = {
    "DRF": fo.DRF(),
    "DRFH": fo.DRF(),
    "2-DF": fo.KDF(2),
    "3-DF": fo.KDF(3),
    "FDS 0.5": fo.FDS(0.5),
    "FDS 1": fo.FDS(1),
    "FDS 2": fo.FDS(2),
    "FDS 5": fo.FDS(5),
    "FDS beta 2, lam -0.6": fo.FDS(beta=2, lam=-0.6),
    "GFJ 0.5": fo.GFJ(0.5),
    "GFJ 2": fo.GFJ(2),
    "p-norm 1, alpha 2": fo.PNormFairness(1, 2),
    "p-norm 2, alpha 2": fo.PNormFairness(2, 2),
    "asset fairness": fo.Policy(fo.Leximin(fo.PNormShare(1))),
    "Nash": fo.NashWelfare(),
    "most tasks": fo.MostTasks(),
    "MLF-DRS": fo.MLFDRS(),
    "MLF-DRS, equal growth": fo.MLFDRS("equal"),
    "FFMRA": fo.FFMRA(),
    "H-FFMRA": fo.HFFMRA(),
    "TSF": fo.TSF(),
    "PS-DSF": fo.PSDSF(),
    "DRF per server": fo.NaivePerServer(fo.DRF()),
}
ONE_BY_ONE = ("PS-DSF", "DRF per server", "FDS beta 2, lam -0.6")  # milliseconds each: a tenth as many
ON_SERVERS = ("DRFH", "TSF", "PS-DSF", "DRF per server", "FDS 1", "FDS 2", "MLF-DRS", "FFMRA", "H-FFMRA", "most tasks")
PROPERTIES = ("pareto", "sharing-incentive", "envy-free", "strategy-proof", "strategy-proof-boosting")
NOTHING = float("nan")


def audited(
    name: str, examples: int, positive: bool, weights: bool = False, servers: int = 1
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of one notion: verdicts, and where hits came from."""
    start = time.perf_counter()
    report = fo.audit(
        NOTIONS[name], properties=PROPERTIES, servers=servers, max_examples=examples, positive=positive, weights=weights
    )
    verdicts, families = [], []
    for finding in report.values():
        common = {
            "notion": name + (", weighted" if weights else ""),
            "demands": "positive" if positive else "with zeros",
            "property": finding.property,
        }
        firsts = [s for _, _, s in finding.hits.values() if s is not None]
        witness = finding.witness
        verdicts.append(
            common
            | {
                "verdict": "refuted" if finding.refuted else "stands" if finding.instances else "not tried",
                "instances": finding.instances,
                "skipped": finding.skipped,
                "faults": finding.n_faults,
                "margin": witness.margin if witness else NOTHING,
                "first hit s": min(firsts, default=NOTHING),
                "seconds": finding.seconds,
                "witness": numbers(witness.instance) if witness else "",
                "lie": str(witness.misreport) if witness and witness.misreport else "",
                "verified": witness.verified if witness else "",
            }
        )
        families += [
            common | {"family": family, "tried": tried, "hits": hits, "rate": hits / tried, "first s": first}
            for family, (tried, hits, first) in finding.hits.items()
            if hits
        ]
    print(f"{name}, {'positive' if positive else 'zeros'}: {time.perf_counter() - start:.1f} s", flush=True)
    return verdicts, families


def main() -> None:
    """Every notion in turn, as many at a time as there are workers; DRF is the one that has to stand."""
    options = arguments(str(__doc__), examples=2000, drf=100_000, clusters=100, workers=2)
    both = (True, False)
    jobs = [("DRF", options.drf, False, weights) for weights in both]
    for name in NOTIONS.keys() - {"DRF", "DRFH"}:
        examples = max(options.examples // 10, 1) if name in ONE_BY_ONE else options.examples
        jobs += [(name, examples, positive) for positive in both]
    jobs += [(name, options.clusters, positive, False, 3) for name in ON_SERVERS for positive in both]
    jobs.sort(key=lambda job: (job[0] not in ("DRF", *ONE_BY_ONE), list(NOTIONS).index(job[0])))  # the longest first
    start = time.perf_counter()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(audited, *zip(*(job + (False, 1)[len(job) - 3 :] for job in jobs), strict=True)))
    seconds = time.perf_counter() - start
    on_pools = [rows for job, rows in zip(jobs, found, strict=True) if len(job) < 5]
    on_servers = [rows for job, rows in zip(jobs, found, strict=True) if len(job) == 5]
    show("The audit of every notion", [row for verdicts, _ in on_pools for row in verdicts], "audit")
    show("Where hits came from", [row for _, families in on_pools for row in families], "audit_families")
    show("The audit on several servers", [row for verdicts, _ in on_servers for row in verdicts], "audit_servers")
    print(f"{options.workers} workers: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
