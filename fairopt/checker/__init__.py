"""Prove saved answers with Python's standard library alone; nothing else of fairopt imports it but `fo.verify`.

The names for users are `verify` and `Verification`.

*Feasibility* is checked at the stored tasks, in exact fractions. *The gap* is proved by weak duality: the policy is
parsed from its text, shares, bounds and rows are computed from the instance, and the file adds prices and multipliers,
at which no feasible tasks can be better than a bound (`sums`). Wrong evidence weakens a bound and cannot falsify it.

* `answer`: a file as a whole: what it claims, and the sentence that says what is proved (`verify`)
* `outcome`: results, errors and time limits
* `numbers`: rational numbers, intervals, logarithms and powers between bounds
* `blocks`: the formulas of shares and of conditions on pairs, by name
* `policy`: the policy, parsed from its text
* `instance`: the instance of a file, and its digest
* `teams`: guarantees and shares of teams, and what is above a base
* `sums`: sums of concave functions of shares, bounded by prices (weak duality)
* `constraints`: constraints as bounds and rows, and feasibility
* `surplus`: who stays at the base of a surplus
* `pool`: max-min fairness on one pool
* `levels`: max-min fairness on servers, level by level
* `linear`: linear programs in fractions, and levels that rounding decides
* `plane`: fairness and efficiency, by lines
* `bundles`: weighted logarithms of bundles
* `hierarchy`: hierarchical DRF
* `claims`: the objective and the prices that a file states
* `tiers`: which evidence proves which objective, tier by tier
* `whole`: whole tasks
* `exact`: exact answers
* `proof_file`: files of `fo.certify(problem).save`: what they claim, and the sentence that says what is proved
* `as_written`: users' blocks as a file writes them: linear rows, and cone programs in tasks
* `program`: cone programs in exact arithmetic: the bound of a dual point, and whether a point is feasible
* `cones`: curved cones: membership, and the way into the dual cone
* `__main__`: the command ``python -m fairopt.checker ANSWER``, and the checker as one file
"""

from __future__ import annotations

from .answer import verify
from .outcome import Verification

__all__ = ["Verification", "verify"]


def __dir__() -> list[str]:
    """Public names."""
    return [*__all__, "__doc__"]
