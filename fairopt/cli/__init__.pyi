from fairopt.cli.application import FAILED_CHECK as FAILED_CHECK
from fairopt.cli.application import app as app
from fairopt.cli.application import command as command
from fairopt.cli.application import exit_code as exit_code
from fairopt.cli.commands import DEFAULT as DEFAULT
from fairopt.cli.commands import WHAT_POLICY as WHAT_POLICY
from fairopt.cli.commands import AsJson as AsJson
from fairopt.cli.commands import Constraints as Constraints
from fairopt.cli.commands import OnePolicy as OnePolicy
from fairopt.cli.commands import asked as asked
from fairopt.cli.inputs import USUAL as USUAL
from fairopt.cli.inputs import Solving as Solving
from fairopt.cli.inputs import Source as Source
from fairopt.cli.inputs import TimeLimit as TimeLimit
from fairopt.cli.inputs import Verbose as Verbose
from fairopt.cli.inputs import reading as reading
from fairopt.cli.inputs import say_notes as say_notes
from fairopt.cli.interrupts import INTERRUPTED as INTERRUPTED
from fairopt.cli.interrupts import STOPPED as STOPPED
from fairopt.cli.progress import complain as complain
from fairopt.cli.progress import console_for as console_for
from fairopt.cli.progress import say as say
from fairopt.cli.progress import show_json as show_json
from fairopt.cli.progress import working as working
from fairopt.cli.progress import written as written
from fairopt.cli.values import labelled_number as labelled_number

def main() -> None: ...
