from fairopt.report.comparison import Comparison as Comparison
