"""Leximin of teams, or of what is above a base, and what such objectives leave open.

* `leximin`: leximin of numbers level by level. `pool_levels`: on one pool, by programs of few rows and columns.
  `level_program`: the linear program of a level, kept in HiGHS.
* `columns`: which users of a large pool these programs need. `polish`: prices whose ties are exact to rounding.
* `split`: the split of totals inside teams. `inside`: the leximin of members' shares that it is.
"""
