"""How policies are solved, by kind of instance.

* `dispatch`: tier by tier, the first method that is exact for the policy on the instance and certified.
* `settings`: how a caller wants a policy solved.
* `pool`: one pool of resources. `cluster`: several servers. `bundles`: policies that decide bundles.
* `cone`: any convex policy, through CVXPY and its solvers.
* `batch`: many small instances at once. `sharded`: more users than fit into one array.
* `prepared`: solving again when capacities, weights or limits change. `saved`: saved allocations, judged again.
"""
