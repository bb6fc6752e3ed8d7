"""Exact methods on several different servers.

* `leximin`: level by level; `level_program`: its linear program, kept in HiGHS from level to level.
* `alpha_fair`: alpha-fairness and max-min by prices per server and resource.
* `interior_point`: the search for these prices; `price_system`: the linear system of its steps.
* `psdsf`: PS-DSF as an equilibrium of the servers.
"""
