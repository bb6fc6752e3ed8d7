"""Named fairness notions, made of public blocks, and mechanisms that are not convex programs.

* `dominant`: DRF, k-DF, DRFH, TSF.
* `tradeoff`: FDS, GFJ, p-norm fairness, Nash welfare, most tasks.
* `bundles`: MLF-DRS, FFMRA, H-FFMRA.
* `per_server`: any policy on each server by itself. `psdsf`: PS-DSF. `bottleneck`: bottleneck fairness.
* `sequential`: SequentialMinMax, whole tasks one after the other. `dynamic`: dynamic DRF, users who arrive and stay.
* `registry`: policies by short name, from files and from entry points.
* `parse`: blocks from the text of their repr.
"""
