from fairopt.blocks.algebra import InlineObjective as InlineObjective
from fairopt.blocks.constraints import InlineConstraint as InlineConstraint
from fairopt.blocks.marginal import Marginal as Marginal

# isort: split
# For packages that extend fairopt:
from fairopt.blocks.algebra import tiers_of as tiers_of
from fairopt.blocks.base import ByUser as ByUser
from fairopt.blocks.guarantees import beyond_limits as beyond_limits
from fairopt.blocks.guarantees import limited_units as limited_units
