"""Ctrl-C before `fairopt.cli.main` handles it: the command ends without a traceback.

The package imports this module first. It imports nothing that Python has not imported already.
"""

import _signal  # type: ignore[import-not-found]  # `signal` itself would import `enum`
import sys

_is_command = sys.argv[0].endswith("/fairopt") or (sys.argv[0] == "-m" and "-m fairopt" in " ".join(sys.orig_argv))
if _is_command and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
