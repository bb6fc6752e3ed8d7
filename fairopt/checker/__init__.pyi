from fairopt.checker.answer import verify as verify
from fairopt.checker.outcome import Verification as Verification
