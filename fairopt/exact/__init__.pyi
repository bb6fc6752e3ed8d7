from fairopt.exact.interval import ExactBounds as ExactBounds
