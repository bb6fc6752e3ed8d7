from fairopt.exact.bounds import ExactBounds as ExactBounds
