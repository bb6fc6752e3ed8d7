from fairopt.report.comparison import Comparison as Comparison
from fairopt.report.files import schema as schema

# isort: split
# For packages that extend fairopt:
from fairopt.report.brief import FULL as FULL
from fairopt.report.brief import in_use as in_use
from fairopt.report.brief import percent_in_use as percent_in_use
from fairopt.report.files import check_output as check_output
from fairopt.report.held import amount as amount
from fairopt.report.outcomes import Outcome as Outcome
from fairopt.report.outcomes import mechanisms as mechanisms
from fairopt.report.outcomes import outcome as outcome
from fairopt.report.tables import Column as Column
from fairopt.report.tables import Table as Table
from fairopt.report.tables import numbers as numbers
from fairopt.report.tables import percents as percents
from fairopt.report.tables import scarcest_first as scarcest_first
from fairopt.report.tables import short_titles as short_titles
from fairopt.report.tables import signed as signed
from fairopt.report.tables import unusual as unusual
