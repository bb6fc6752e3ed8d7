"""Tolerances that several modules share. Those of one algorithm stay beside it."""

from __future__ import annotations

import numpy as np

# What certificates allow.
GAP_TOLERANCE = 1e-6  # relative distance to the bound on the optimum
VIOLATION_TOLERANCE = 1e-9  # relative excess over a capacity or a task limit
BLOCK_TOLERANCE = 1e-7  # of the policy's constraints, after the repair that makes capacities hold exactly

# What floats leave.
EPS = float(np.finfo(np.float64).eps)
TERM_ROUNDING = 8 * EPS  # relative to the terms of a sum, in absolute value; exceeds its rounding error
SUM_ROUNDING = 1e-13  # of a capacity: sums over users. Water-filling of 1e6 users left 7e-14 of a full one
ROUNDING = 1e-12  # relative: what several operations leave in a level, a limit or a row
WHOLE_ROUNDING = 1e-14  # of a capacity: what rounding leaves of the numbers given, in loads of whole tasks
TINY = 1e-300  # below every capacity, mean and price in the units of a scaled model

# What solvers leave.
NOISE = 1e-9  # relative: values of a solver closer than this count as equal
SAME_TASKS = 1e-4  # relative difference of equal tasks: at a gap of 1e-11 single users differed by up to 1e-5
