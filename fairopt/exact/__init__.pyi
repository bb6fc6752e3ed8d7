from fairopt.exact.allocate import allocate_in_fractions as allocate_in_fractions
from fairopt.exact.interval import ExactBounds as ExactBounds
