"""Named fairness notions, each a policy made of the blocks that a user has, and mechanisms that are no convex program.

* `dominant`: DRF, k-DF, DRFH, TSF. `tradeoff`: FDS, GFJ, p-norm fairness. `bundles`: MLF-DRS, FFMRA, H-FFMRA.
* `per_server`: a policy on every server by itself. `psdsf`: PS-DSF. `bottleneck`: bottleneck fairness.
* `registry`: policies by short name or from files. `parse`: blocks from what their repr prints.
"""
