"""The program of the solver subprocess. Of fairopt it runs `solve.form.highs`, by its path.

It reads ``sys.path`` and then requests: seconds, and a pickle of a name in `SOLVE` and its arguments. It writes pairs:
True and the result, or False and an exception, or a text if the request cannot be read. It ends at the end of its
input, or when the seconds are over.
"""

from __future__ import annotations

import os
import pickle
import runpy
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def problem(
    problem: Any, solver: str, options: dict[str, Any], time_option: tuple[str, ...], seconds: float, verbose: bool
) -> tuple[str, list[Any], list[list[Any]]] | None:
    """Solve a CVXPY problem: status, values of variables, and dual values by constraint; None if out of time.

    ``time_option`` is the path of the solver's time limit in the options, empty if it has none.
    """
    begun = time.perf_counter()
    data, chain, inverse = problem.get_problem_data(solver, ignore_dpp=True, verbose=verbose, solver_opts=options)
    left = begun + seconds - time.perf_counter()
    if left <= 0:
        return None
    if time_option:
        *nested, name = time_option
        (options[nested[0]] if nested else options).setdefault(name, left)
    raw = chain.solve_via_data(problem, data, warm_start=False, verbose=verbose, solver_opts=options)
    problem.unpack_results(raw, chain, inverse)
    duals = [[v.value for v in condition.dual_variables] for condition in problem.constraints]
    return str(problem.status), [v.value for v in problem.variables()], duals


def clarabel(data: dict[str, Any], options: dict[str, Any], verbose: bool) -> dict[str, Any]:
    """CLARABEL's solution of a problem in cone form, as CVXPY gives it to this solver."""
    import numpy as np
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL

    solution = CLARABEL().solve_via_data(data | {"dims": SimpleNamespace(**data["dims"])}, False, verbose, options)
    plain = {name: getattr(solution, name) for name in ("obj_val", "solve_time", "iterations")}
    return plain | {"x": np.asarray(solution.x), "z": np.asarray(solution.z), "status": str(solution.status)}


def highs(data: dict[str, Any], options: dict[str, Any], verbose: bool) -> dict[str, Any]:
    """HiGHS's solution of a linear program in cone form."""
    own = {name: value for name, value in options.items() if name != "highs_options"}
    own |= options.get("highs_options", {})
    return dict(of_highs()["solve_data"](data | {"dims": SimpleNamespace(**data["dims"])}, verbose, own))


@cache
def of_highs() -> dict[str, Any]:
    """The functions of `solve.form.highs`."""
    return runpy.run_path(str(Path(__file__).parents[1] / "solve" / "form" / "highs.py"))


def linprog(**program: Any) -> tuple[int, str, Any, Any]:
    """Status, message, solution and multipliers of the inequalities of SciPy's linear program."""
    from scipy.optimize import linprog

    solution = linprog(**program)
    return solution.status, solution.message, solution.x, None if solution.x is None else solution.ineqlin.marginals


SOLVE: dict[str, Callable[..., Any]] = {
    "problem": problem,
    "CLARABEL": clarabel,
    "HIGHS": highs,
    "linprog": linprog,
}


def _end_with_parent() -> None:
    """Let Linux kill this process when its parent ends; elsewhere it ends when its seconds are over."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> None:
    """Answer requests until there are no more."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    _end_with_parent()
    os.dup2(2, 1)  # solvers print to stderr
    warnings.simplefilter("ignore")  # of inaccurate answers, which are judged
    sys.path[:] = pickle.load(source)
    import cvxpy  # noqa: F401  # before the first request comes
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")

    of_highs()["silence_banner"]()

    while True:
        try:
            seconds, request = pickle.load(source)
        except EOFError:
            return
        if hasattr(signal, "setitimer"):  # the parent may be dead
            signal.setitimer(signal.ITIMER_REAL, seconds + 1.0)
        answer: tuple[bool, Any]
        try:
            what, data = pickle.loads(request)
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        else:
            try:
                answer = (True, SOLVE[what](**data))
            except Exception as error:
                answer = (False, error)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        pickle.dump(answer, sink, 5)
        sink.flush()


if __name__ == "__main__":
    main()
