"""Corners in which a certified answer was once wrong or an error untrue: instances by the thousand, and references.

Each class draws instances from a seed, asks fairopt through its public interface, and compares with references that
share no code with it: linear programs and leximin level by level in exact fractions, and concave objectives between a
feasible point and a proven bound. A draw is right if what is certified is true: the objective (each sorted level of a
leximin; the weighted power mean for alpha-fairness) within 1e-6 of the reference, relatively, capacities and limits to
1e-9, conditions of blocks to 1e-7, each row by its own size. Every draw has an answer, so `Infeasible` and `Unbounded`
are wrong; a refusal (`NotCertified`) is not. ``open`` counts answers at least as good as the best point known, where
the reference's own bound is not close enough to say more. ``s/ref`` is the median of fairopt's seconds over the
reference's.

shares   A share of one's own that differs by server, on servers that are alike in all else.
alpha    AlphaFair from 2 to 20 where demands differ by server.
wide     Linear objectives, demands over 8 to 24 decades, by each solver in turn.
read     Problems from which conditions were taken out, added or changed, whose objective was replaced, or whose answer
         was spoilt, and read back. Capacities, limits and eligibility hold even if they were taken out.
traces   Leximin on servers, where some need 1e-4 to 1e-12 of a resource of what others need, or servers almost tie.
own      Bounded objectives of one's own: sums of concave functions of each user's tasks.
rows     Conditions of one's own with rows of sizes from 1e-8 to 1e8: given, required by a block, or by an objective.
load     Answers of all notions, saved and loaded: what `save` wrote may not be refused.
edited   The same, with all tasks halved in the file: that may not be certified.

The shortest wrong draw of each class and kind is printed as code to paste, and ten of each are kept in benchmarks/out.
`--time` measures `allocate` instead, with `--against PATH` beside another checkout, in turn; see two_checkouts.py.

Run: python benchmarks/corners.py [--classes shares,alpha --draws 200 --seed 1] or --time [--against ../other]
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from inspect import getsource
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core

import numpy as np
import two_checkouts
from common import OUT, arguments, median, show
from corner_draws import CLASSES, NAMES, OWN
from corner_verdicts import OPEN

import fairopt as fo

KEPT = 10  # of what is wrong, by class and kind, in the file


def ask(code: str) -> tuple[Any, str]:
    """An answer, or what came instead: a word for a refusal or an error, more for an untrue statement."""
    names = dict(NAMES)
    try:
        exec(code, names)
    except fo.NotCertified:
        return None, "NotCertified"
    except (fo.Infeasible, fo.Unbounded) as statement:
        return None, f"says {type(statement).__name__}: {statement}"
    except Exception as error:  # counted by its type
        return None, type(error).__name__
    return names["answer"], ""


def run(name: str, draws: int, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A row of the table, and what was wrong, the shortest code first."""
    counts: Counter[str] = Counter()
    how: Counter[str] = Counter()
    wrong: list[dict[str, Any]] = []
    ratios: list[float] = []
    begun = time.perf_counter()
    for k in range(draws):
        case = CLASSES[name](np.random.default_rng([seed, list(CLASSES).index(name), k]))
        start = time.perf_counter()
        answer, instead = ask(case.code)
        asked = time.perf_counter()
        if answer is not None:
            instead = case.verdict(answer)
            ratios.append((asked - start) / (time.perf_counter() - asked))
        if ":" not in instead:
            counts[{"": "right", OPEN: "open"}.get(instead, instead)] += 1
        else:
            how[instead.partition(":")[0]] += 1
            wrong.append({"class": name, "draw": k, "what": instead, "code": case.code})
    known = ("right", "NotCertified", "open")
    others = {word: count for word, count in counts.most_common() if word not in known}
    row = {
        "class": name, "draws": draws, "right": counts["right"], "WRONG": len(wrong), "how": listed(how),
        "refused": counts["NotCertified"], "open": counts["open"],
        "other errors": listed(others),
        "s/ref": median(ratios) if ratios else float("nan"), "seconds": time.perf_counter() - begun,
    }  # fmt: skip
    return row, sorted(wrong, key=lambda w: len(w["code"]))


def listed(counts: Mapping[str, int]) -> str:
    """Words and how often."""
    return ", ".join(f"{word} {count}" for word, count in counts.items()) or "none"


def pasted(code: str) -> str:
    """The code with what it needs to run by itself."""
    blocks = [block for name, block in OWN.items() if f"{name}(" in code]
    head = ["from dataclasses import dataclass", "import cvxpy as cp", "import numpy as np", "import fairopt as fo"]
    return "\n".join([*head, "from fairopt import *", *map(getsource, blocks), code])


def main() -> None:
    """Print the shortest of what is wrong in each class and way, and a row by class."""
    options = arguments(
        str(__doc__), draws=2000, classes=list(CLASSES), seed=1, time=False, against="", rounds=10, large=1_000_000
    )
    if options.time:
        two_checkouts.run(options.against, options.rounds, options.large)
        return
    warnings.simplefilter("ignore")
    table, found = [], []
    for name in options.classes:
        row, wrong = run(name, options.draws, options.seed)
        table.append(row)
        shown: Counter[str] = Counter()
        for one in wrong:
            kind = one["what"].partition(":")[0]
            if not shown[kind]:
                print(f"# {name}, {one['what']}\n{pasted(one['code'])}\n")
            if shown[kind] < KEPT:
                found.append(one)
            shown[kind] += 1
    whole = "" if options.classes == list(CLASSES) else "-" + "-".join(options.classes)
    show(f"Corners: certified answers against references ({fo.__file__})", table, f"corners{whole}")
    (OUT / f"corners{whole}-wrong.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
