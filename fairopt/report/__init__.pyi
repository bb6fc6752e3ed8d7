from fairopt.report.comparison import Comparison as Comparison
from fairopt.report.files import schema as schema
