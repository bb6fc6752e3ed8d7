"""Proofs of answers, from the data as given, the final point and evidence; a solver's status is not evidence.

The name for users is `Verification`, what `fairopt.verify` returns.

The files:

* `gate`: makes points feasible, measures them, and is the only maker of certificates.
* `proposal`: what a method proposes, and what the gate asks of evidence; `fairopt.evidence` has the kinds.
* `conditions`: repair of points, violations of conditions, and their charges at multipliers.
* `bound`: what users gain at most at given costs, for all bounds by weak duality.
* `pool`: bottlenecks and dual bounds on one pool. `users`: sums of one function per user.
* `envy`: bottlenecks where no user may envy another.
* `servers`: the dual bound on several servers.
* `levels`: leximin on several servers and under constraints.
* `lagrangian`, `conic`: the bounds of cone programs.
* `plane`: the (beta, lambda) plane, by lines along the sum of shares.
* `read`: answers of CVXPY problems that the user solved (`Policy.certify`).
* `batch`: answers of many instances at once. `psdsf`: PS-DSF. `maximal`: whole tasks placed one by one.
* `verify`: saved answers proved from their files alone, without the rest of the package. `entries`: what files hold
  for it.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
