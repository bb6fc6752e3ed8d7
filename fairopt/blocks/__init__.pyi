from fairopt.blocks.marginal import Marginal as Marginal
