"""Proofs of answers from the data as given, the final point and evidence; a solver's status is not evidence.

The files:

* `gate`: makes points feasible, measures them, and is the only maker of certificates.
* `proposal`: proposals of methods, and the interface of evidence; `fairopt.evidence` has the kinds.
* `conditions`: repair of points, violations of constraints, and constraints as multipliers see them.
* `bound`: users' largest gains at given costs, for all bounds by weak duality.
* `least_squares`: minimum-norm solutions of equations, within the time limit.
* `ranges`: ranges of variables that linear rows and cones imply. `polish`: dual points made exact.
* `exact_filling`: leximin on small pools in fractions, where rounding decides levels.
* `pool`: bottlenecks and dual bounds on one pool. `users`: sums of one function per user.
* `envy`: bottlenecks under envy-freeness.
* `servers`: the dual bound on several servers.
* `levels`: leximin on several servers and under further constraints.
* `exact_levels`: leximin on servers in fractions, where rounding decides levels.
* `number_levels`: leximin of teams, or of what is above a base.
* `lagrangian`, `conic`: the bounds of cone programs. `number_lagrangian`: of teams, or of what is above a base.
* `dual_bound`: the gaps of these bounds.
* `plane`: the (beta, lambda) plane, by lines along the sum of shares.
* `read`: answers of CVXPY problems that the user solved (`Policy.certify`).
* `hierarchy`: hierarchical DRF, from the levels at its events.
* `batch`: answers of many instances at once. `psdsf`: PS-DSF. `maximal`: whole tasks placed one by one.
* `entries`: names of rows in files.
* `verify`: the former name of `fairopt.verify`, for one version.
"""

import sys
import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    """`Verification`, which has moved, for one version."""
    if name != "Verification":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    moved = "fairopt.proofs.Verification is now fairopt.checker.Verification; the old name goes in 0.4"
    warnings.warn(moved, DeprecationWarning, stacklevel=2)
    return sys.modules["fairopt"].checker.Verification
