"""Proofs of answers, from the data as given, the final point and evidence; a solver's claims about itself are none.

* `evidence`: what a method hands over with its point.
* `gate`: the only maker of certificates.
* `conditions`: repair of a point, and how well conditions hold at it.
* `pool`: bottlenecks and dual bounds on one pool, in one pass over the users.
* `servers`: the dual bound of alpha-fairness and max-min on several servers.
* `levels`: leximin on several servers and under further conditions.
* `cone_programs`: answers of cone programs; `lagrangian` and `conic` are their bounds.
* `read`: answers of problems that the user solved or changed.
* `bundles`: bundles and tasks where a policy decides both, by the dual of their cone program.
* `batch`: answers of many instances at once. `psdsf`: PS-DSF, from data and tasks alone.
* `evidence_data`: evidence as plain numbers, for allocations to keep and for files.
* `derivatives`: prices as derivatives of what was optimised.
"""
