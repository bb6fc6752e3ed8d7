"""The process of `provers`: asks one prover about the SMT-LIB that it reads. It imports nothing of fairopt.

Its argument is the prover's name. Written is JSON: ``answer`` (``sat``, ``unsat`` or ``unknown``), and of z3 also
``values``, the numbers of a solution by name, as fractions.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from typing import Any

DIGITS = 40  # of irrational numbers


ROUNDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # seconds that each procedure of z3 is given, one after the other


def z3_answer(text: str) -> dict[str, Any]:
    """What z3 says: of linear terms by its solver for them, else by two procedures in turn, for ever longer.

    On statements of fairness either may take a tenth of a second where the other takes minutes: cylindrical
    decomposition (nlsat) and products as they are needed in a search by cases (smt).
    """
    import z3

    answer = "unknown"
    if "(set-logic QF_LRA)" in text:
        solver = z3.SolverFor("QF_LRA")
        solver.from_string(text)
        answer = str(solver.check())
    for number, seconds in enumerate(ROUNDS):
        for procedure in ("nlsat", "smt"):
            if answer != "unknown":
                break
            if procedure == "nlsat":
                last = z3.With("nlsat", seed=number, shuffle_vars=True)
                steps = z3.Then("simplify", "propagate-values", "solve-eqs", "elim-uncnstr", "tseitin-cnf", last)
            else:
                steps = z3.Then(z3.With("simplify", som=True), z3.With("smt", random_seed=number))
            solver = z3.TryFor(steps, int(1000 * seconds)).solver()
            solver.from_string(text)
            answer = str(solver.check())
    if answer != "sat":
        return {"answer": answer}
    model, values = solver.model(), {}
    for name in (symbol for symbol in model.decls() if not symbol.arity()):
        value = model[name]
        if z3.is_algebraic_value(value):
            value = value.approx(DIGITS)
        values[name.name()] = str(value.as_fraction())
    return {"answer": answer, "values": values}


def cvc5_answer(text: str) -> dict[str, Any]:
    """What cvc5 says."""
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "statement")
    answer = ""
    while not (command := parser.nextCommand()).isNull():
        answer = str(command.invoke(solver, parser.getSymbolManager())).strip() or answer
    return {"answer": answer}


PROVERS = {"z3": z3_answer, "cvc5": cvc5_answer}


def main() -> None:
    """Answer one question."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that asks
    if sys.platform == "linux":  # end with the process that asks
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    sys.stdout.write(json.dumps(PROVERS[sys.argv[1]](sys.stdin.read())))


if __name__ == "__main__":
    main()
