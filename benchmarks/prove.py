"""Theorems by machine: notions, properties, numbers of resources, with seconds; and claims of papers.

Every statement is of one pool, positive demands, any number of users and equal weights (of weighted DRF any). A verdict
stands under each number of resources: P proved, R refuted by a witness computed again, ``?`` neither within the limit;
a star marks properties of which no source says anything for the notion. With ``--drawn`` the statements that are proved
are tried on so many drawn pools each, and one that fails ends the run. With ``--claims`` what is proved of each claim
of the literature is written beside it.

Run: python benchmarks/prove.py [--time-limit 20] [--resources 1,2,3,4] [--drawn 100000] [--claims] [--only fds]
"""

from __future__ import annotations

import contextlib
import csv
import json
import time
from pathlib import Path
from typing import Any

from common import OUT, arguments, show

import fairopt as fo
from fairopt.errors import FairoptError, OutOfDomain
from fairopt.policy import Policy
from fairopt.properties.audit.audit import AuditSettings, PropertySearch
from fairopt.properties.literature import claims as literature
from fairopt.properties.prove.statements import CONCRETE, PROVABLE
from fairopt.runtime.progress import tell

ALPHAS = ("0.5", "1", "1.5", "2", "3", "5")
NOTIONS: dict[str, Any] = {
    "DRF": fo.DRF(),
    "weighted DRF": fo.DRF(),
    "2-DF": fo.KDF(2),
    "3-DF": fo.KDF(3),
    **{f"{p}-norm": fo.Policy(fo.Leximin(fo.PNormShare(p))) for p in (1, 2, 3)},
    **{f"FDS {a}": fo.FDS(float(a)) for a in ALPHAS},
    **{f"GFJ {a}": fo.GFJ(float(a)) for a in ALPHAS},
    **{f"{p}-norm {a}": fo.PNormFairness(p, float(a)) for p in (1, 2, 3) for a in ALPHAS},
    "most tasks": fo.MostTasks(),
    "MLF-DRS": fo.MLFDRS(),
    "H-FFMRA": fo.HFFMRA(),
}
# Claims about several servers, and about instances of which no statements are made.
ON_SERVERS, RESTRICTED = ("drfh", "ps-dsf"), ("all have the same dominant", "no completely dominant")
SHORT = {"proved": "P", "refuted": "R", "unknown": "?"}


def table(args: Any) -> list[dict[str, Any]]:
    """A row for each notion and property; written while it grows."""
    claimed = {(family, claim.property) for claim in literature.claims() for family in of_notion(claim.about)}
    rows = []
    for name, notion in NOTIONS.items():
        if args.only and not name.lower().startswith(args.only.lower()):
            continue
        for kind in PROVABLE:
            star = "*" * all((family, kind) not in claimed for family in of_notion(name))
            row: dict[str, Any] = {"notion": name, "property": kind + star}
            for m in args.resources:
                begun = time.perf_counter()
                try:
                    found = fo.prove(
                        notion, kind, resources=m, weights=name == "weighted DRF", time_limit=args.time_limit
                    )[kind]
                    verdict, shown = SHORT[found.verdict], found.shown()
                    if args.drawn and found.verdict == "proved":
                        contradict(notion, kind, m, name == "weighted DRF", args.drawn)
                except FairoptError as error:  # as 2-DF of one resource
                    verdict, shown = "-", str(error)
                row |= {f"m = {m}": f"{verdict} {time.perf_counter() - begun:.1f}", f"shown {m}": shown}
            rows.append(row)
            print(*(row[key] for key in row if not key.startswith("shown")), flush=True)
            OUT.mkdir(exist_ok=True)
            (OUT / "prove.json").write_text(json.dumps(rows, indent=1))
    return rows


def of_notion(words: str) -> set[str]:
    """The families of notions, as claims name them: FDS of ``FDS, beta > 1`` and of ``FDS 2``."""
    if words[0].isdigit() and "norm" in words:
        return {"p-norm" if " " in words else words}
    return {{"2-DF": "k-DF", "3-DF": "k-DF"}.get(word, word) for word in words.replace(",", "").split()}


def contradict(notion: Any, kind: str, m: int, weights: bool, examples: int) -> None:
    """Draw pools on which the property might fail; `AssertionError` if it does."""
    shapes = tuple((n, m) for n in (2, 3, 4, 5))
    setting = AuditSettings(notion, ("positive demands",), weights, False, 1, examples, 1, tell, shapes, True)
    search = PropertySearch(setting, kind)
    search.run(None)
    assert search.witness is None, f"proved, and refuted: {search.witness}"


def of_claim(claim: literature.Claim, args: Any) -> str:
    """What is proved of a claim's mechanism and property on one pool, in words; empty where nothing can be stated."""
    mechanism = claim.make()
    restricted = any(words in claim.conditions for words in RESTRICTED) or claim.mechanism in ON_SERVERS
    if restricted or claim.property not in PROVABLE or type(mechanism) is not Policy or mechanism.constraints:
        return ""
    found: dict[str, list[int]] = {}

    def verdict(words: str, m: int, **options: Any) -> str:
        options |= {"weights": claim.about.startswith("weighted"), "time_limit": args.time_limit}
        proof = fo.prove(mechanism, claim.property, resources=m, **options)[claim.property]
        if proof.verdict == "proved" or (proof.verdict == "refuted" and not options.get("users")):
            among = words.replace("any n", "").removeprefix(", ") if proof.verdict == "refuted" else words
            by = " by z3, " if proof.provers else ", " * bool(among)
            found.setdefault(f"{proof.verdict}{by}{among}", []).append(m)
        return proof.verdict

    for m in args.resources:
        with contextlib.suppress(OutOfDomain):  # as 3-DF of two resources
            whole = verdict("any n", m, positive=False)
            if whole == "unknown":
                for n in CONCRETE[:2]:
                    verdict(f"n = {n}", m, positive=False, users=n)
            if whole != "proved":
                verdict("any n, positive demands", m)
    return "; ".join(f"{words}: m = {', '.join(map(str, ms))}" for words, ms in found.items())


def write_claims(args: Any) -> None:
    """Write what is proved beside each claim."""
    path, done = Path(literature.__file__).with_name("claims.csv"), dict[tuple[str, str], str]()
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row, claim in zip(rows, literature.claims(), strict=True):
        key = f"{claim.mechanism} {claim.about.startswith('weighted')} {claim.conditions}", claim.property
        if key not in done:
            try:
                done[key] = of_claim(claim, args)
            except FairoptError as error:  # a mechanism that has no optimum
                print(claim.mechanism, error)
                done[key] = ""
            print(*key, done[key], flush=True)
        row["machine"] = done[key]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    args = arguments(__doc__, time_limit=20.0, resources=[1, 2, 3, 4], drawn=0, claims=False, only="")
    if args.claims:
        write_claims(args)
        return
    rows = [{k: v for k, v in row.items() if not k.startswith("shown")} for row in table(args)]
    show("Theorems by machine", rows, "prove_table")


if __name__ == "__main__":
    main()
