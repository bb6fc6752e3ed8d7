"""The script that `provers` runs: it reads SMT-LIB, asks the prover named by its argument, and writes JSON.

The JSON has ``answer`` (``sat``, ``unsat`` or ``unknown``) and, from z3, ``values`` of a solution by name, as
fractions. The script imports nothing of fairopt.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from typing import Any

DIGITS = 40  # of irrational numbers
ROUNDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # seconds of each procedure of z3 in turn


def z3_answer(text: str) -> dict[str, Any]:
    """The answer of z3, by its linear solver, or by nlsat and smt in turn for increasing times.

    Of the two either may take 0.1 s where the other takes minutes.
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
    """The answer of cvc5."""
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
    """Answer one statement."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the parent process
    if sys.platform == "linux":  # end with the parent process
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    sys.stdout.write(json.dumps(PROVERS[sys.argv[1]](sys.stdin.read())))


if __name__ == "__main__":
    main()
