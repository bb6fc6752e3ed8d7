from fairopt.blocks.algebra import InlineObjective as InlineObjective
from fairopt.blocks.constraints import InlineConstraint as InlineConstraint
from fairopt.blocks.marginal import Marginal as Marginal
