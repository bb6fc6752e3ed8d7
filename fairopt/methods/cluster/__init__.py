"""Exact methods on several servers that differ.

* `leximin`: leximin of a linear share: a linear program (HiGHS) changed from level to level.
* `alpha_fair`: alpha-fairness and max-min by prices per server and resource.
* `interior_point`: these prices, by primal-dual Newton steps; its linear system, in prices or in users.
* `psdsf`: PS-DSF as an equilibrium of servers that fill themselves in turn.
"""
