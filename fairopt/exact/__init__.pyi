from fairopt.exact.interval import ExactBounds as ExactBounds

# isort: split
# For packages that extend fairopt:
from fairopt.exact.allocate import allocate_in_fractions as allocate_in_fractions
