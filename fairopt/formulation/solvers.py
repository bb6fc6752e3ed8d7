"""CVXPY's solvers: which are installed, their options, and one call that reports how a solve went."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from fairopt.certificate import Try
from fairopt.errors import InvalidBlock, SolverUnavailable, nearest
from fairopt.formulation.highs import silence_banner
from fairopt.runtime import subprocesses
from fairopt.runtime.clock import check, current
from fairopt.runtime.lazy import cp, optimize

log = logging.getLogger("fairopt")

# Tight, since the certificate decides: Clarabel's defaults leave errors of about 1e-4 in x for logarithms.
TIGHT: dict[str, dict[str, Any]] = {
    "CLARABEL": {
        "tol_gap_abs": 1e-11,
        "tol_gap_rel": 1e-11,
        "tol_feas": 1e-11,
        "max_iter": 500,
        "accept_unknown": True,
    },
    # At 1e-10 it stalls near the optimum of large linear programs: max-min of 10,000 users on 3 servers took 3.6 s, and
    # 0.3 s at 1e-9, with the same gap of 3e-11.
    "ECOS": {"abstol": 1e-9, "reltol": 1e-9, "feastol": 1e-9, "max_iters": 300},
    "SCS": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 200_000},
    "HIGHS": {
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
        "ipm_optimality_tolerance": 1e-10,
    },
    "SCIPY": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    "OSQP": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 200_000, "polishing": True},
}
TIGHT["ECOS_BB"] = TIGHT["ECOS"]
# For a second try, where the solver fails at these.
_LOOSER: dict[str, dict[str, Any]] = {
    "ECOS": {"abstol": 1e-8, "reltol": 1e-8, "feastol": 1e-8, "max_iters": 300},
    "CLARABEL": {**TIGHT["CLARABEL"], "tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9},
}
# The time limits of solvers; ECOS has none.
_TIME = {"SCS": "time_limit_secs", **dict.fromkeys(("CLARABEL", "HIGHS", "SCIPY", "OSQP"), "time_limit")}
# Numbers in a problem of which neither an iteration nor a step of CVXPY's compilation takes more than about 0.1 s, nor
# all iterations of a solver that has no time limit.
_LONG, _SHORT = 50_000, 2_000
LATE = "time limit reached"
_NESTED = {"HIGHS": "highs_options", "SCIPY": "scipy_options"}  # the dict in which CVXPY takes their options
# Messages, other than a TypeError, by which solvers refuse an option or its value.
_REFUSED = (
    "HIGHS returned status kError for option",
    "Unrecognized settings",
    "incompatible function arguments",
    "Error parsing inputs",  # SCS before 3.3
)
# Numbers of a linear program for which HiGHS is asked for its interior point. Simplex and it took 31 and 1.5 s for
# max-min of 10,000 rates, 5.3 and 2 s for a sum of pieces of 10,000 users, and 30 and 4 s for a sum under 122,000 rows.
LARGE = 50_000
LINEAR_CHAIN = ("HIGHS", "CLARABEL", "ECOS", "SCS")
CONE_CHAIN = ("CLARABEL", "ECOS", "SCS")
# Solvers that catch Ctrl-C and return as if they had failed: the field and the codes that tell. (ECOS close to the
# optimum returns as if it were done, and its answer is judged like any other.)
_SWALLOWS_INTERRUPT = {"SCS": ("status_val", (-5,)), "ECOS": ("exitFlag", (-4, 6))}  # 6: and nearly solved
_SQUARED = 1e150  # SCS squares numbers: beyond the range of floats it finds no status, and says so on stdout
SOLVED = frozenset({"optimal", "optimal_inaccurate", "user_limit"})


@cache
def installed() -> tuple[str, ...]:
    """Names of the solvers that CVXPY can call here."""
    return tuple(cp.installed_solvers())  # 3 ms a call: it looks for every package


def named(solver: str) -> str:
    """A solver's name as CVXPY spells it; `SolverUnavailable` if it is unknown, or known and not installed."""
    name = str(solver).upper()
    here = installed()
    if name in here:
        return name
    if name in cp.settings.SOLVERS:
        hint = " (wheels for Python 3.11 and 3.12 only)" if name.startswith("ECOS") else ""
        raise SolverUnavailable(f"solver {name} is not installed{hint}; installed: {', '.join(here)}")
    raise SolverUnavailable(f"no solver {solver!r}; {nearest(name, list(here))}")


def chain(linear: bool) -> list[str]:
    """The solvers to try, in order, for a linear program or for cones."""
    return [name for name in (LINEAR_CHAIN if linear else CONE_CHAIN) if name in installed()]


def all_linear(conditions: Iterable[cp.Constraint]) -> bool:
    """Whether a linear program can hold the conditions."""
    kinds = cp.constraints
    linear = (kinds.Inequality, kinds.Equality, kinds.NonNeg, kinds.NonPos, kinds.Zero)
    return all(isinstance(c, linear) and all(a.is_pwl() for a in c.args) for c in conditions)


def statuses(problem: cp.Problem) -> Iterator[str]:
    """The status by each solver of the chain that takes the problem, solved lazily, one after the other."""
    for name in chain(problem.objective.expr.is_pwl() and all_linear(problem.constraints)):
        with suppress(SolverUnavailable):
            yield run(problem, name).status


def has_second_try(solver: str) -> bool:
    """Whether looser tolerances are known for the solver."""
    return solver in _LOOSER


def run(
    problem: cp.Problem,
    solver: str,
    *,
    options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
    looser: bool = False,
    keep: bool = False,
) -> Try:
    """Solve a problem, and report how it went (a status is not evidence); the answer is left in its variables.

    ``options`` are the solver's own, over the tight default ones: for HiGHS ``{"solver": "ipm", "run_crossover":
    "off"}`` (interior point) or ``{"solver": "pdlp"}`` (first-order), also inside ``highs_options`` as CVXPY takes
    them; for SciPy inside ``scipy_options``. ``looser`` sets looser tolerances, for a second try. With ``keep`` the
    problem is compiled for any values of its parameters, to be solved again with others. The solver always starts
    afresh: with a warm start, options leak between two solves of one problem. `SolverUnavailable` if the solver cannot
    solve this kind of problem, `InvalidBlock` if it refuses its options. The ``time_limit`` includes the time that
    CVXPY takes to compile.

    A first-order method stops where its residuals are small, which bounds no gap. On max-min of 20 to 200 users on 40
    to 300 different servers PDLP's own tolerance of 1e-7 left gaps of 1e-12 to 5e-8, and ``"kkt_tolerance": 1e-6`` gaps
    of up to 3e-6: more than a certificate allows. ``"pdlp_optimality_tolerance": 1e-8`` is tighter.
    """
    asked: dict[str, Any] = dict((_LOOSER if looser else TIGHT).get(solver, {}))
    if solver == "HIGHS":
        silence_banner()
        # PDLP prints whatever log_to_console says, unless output_flag is off
        asked["output_flag"] = verbose
        if size(problem) > LARGE:
            asked["solver"] = "ipm"
    asked |= _own_options(solver, options or {})
    if solver in _NESTED:  # one of HiGHS's options is called ``solver``, as is a parameter of CVXPY
        asked = {_NESTED[solver]: asked}
    start, limit = time.perf_counter(), current()
    message, unasked = "", time_limit is None and limit is not None
    if time_limit is None and limit is not None:  # on the way to an answer or a proof: what conflicts, say
        time_limit = max(limit.hard - start, 0.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", "Unrecognized options", optimize.OptimizeWarning)
            if time_limit is not None:
                status = _solve_in_time(problem, solver, verbose, asked, keep, start + time_limit)
            elif solver in _SWALLOWS_INTERRUPT:
                _solve_interruptibly(problem, solver, verbose, asked, keep)
            else:
                problem.solve(solver=solver, warm_start=False, verbose=verbose, ignore_dpp=not keep, **asked)
        if time_limit is None:
            status = str(problem.status)
    except (TypeError, optimize.OptimizeWarning) as error:
        raise _refused(solver, options, error) from error
    except (cp.error.SolverError, ValueError, ArithmeticError, RuntimeError) as error:
        # by CVXPY, or by solvers' bindings on numerical trouble
        words, by_cvxpy = str(error), isinstance(error, cp.error.SolverError)
        if by_cvxpy and ("cannot solve" in words or "not able to" in words):
            others = ", ".join(name for name in chain(False) if name != solver and _takes(problem, name))
            raise SolverUnavailable(
                f"{solver} cannot take this kind of problem ({_first_line(error)}); "
                + (f"try one of {others}" if others else "no solver installed here takes it")
            ) from error
        if any(refusal in words for refusal in _REFUSED):
            raise _refused(solver, options, error) from error
        status, message = "solver_error", ("" if by_cvxpy else f"{type(error).__name__}: ") + _first_line(error)
    if status == LATE and unasked and limit is not None:
        limit.stop()
    return Try(solver=solver, status=status, seconds=time.perf_counter() - start, message=message)


def _takes(problem: cp.Problem, solver: str) -> bool:
    """Whether CVXPY can give a problem to a solver."""
    try:
        problem.get_problem_data(solver)
    except cp.error.SolverError:
        return False
    return True


def _solve_interruptibly(problem: cp.Problem, solver: str, verbose: bool, asked: dict[str, Any], keep: bool) -> None:
    """`Problem.solve`, with a check of why the solver returned."""
    data, chain, inverse = problem.get_problem_data(solver, ignore_dpp=not keep, verbose=verbose, solver_opts=asked)
    _require_range(solver, data)
    raw = chain.solve_via_data(problem, data, warm_start=False, verbose=verbose, solver_opts=asked)
    _unpack(problem, solver, raw, chain, inverse)


def _require_range(solver: str, data: Mapping[str, Any]) -> None:
    """`ArithmeticError` where numbers are too large for a solver."""
    if solver == "SCS":
        matrices = [data[name].data for name in ("A", "P") if data.get(name) is not None]
        largest = max(float(np.abs(part).max(initial=0.0)) for part in (*matrices, data["b"], data["c"]))
        if not largest <= _SQUARED:
            raise ArithmeticError(f"a number of the problem is {largest:.2g}, and SCS takes none above {_SQUARED:g}")


def _unpack(problem: cp.Problem, solver: str, raw: Any, chain: Any, inverse: Any) -> None:
    """Leave the answer in the problem's variables; `KeyboardInterrupt` if a solver returned because of it."""
    if solver in _SWALLOWS_INTERRUPT:
        field, interrupted = _SWALLOWS_INTERRUPT[solver]
        if raw["info"].get(field) in interrupted:
            raise KeyboardInterrupt
    problem.unpack_results(raw, chain, inverse)


def _solve_in_time(
    problem: cp.Problem, solver: str, verbose: bool, asked: dict[str, Any], keep: bool, until: float
) -> str:
    """`Problem.solve` that ends in time, if need be in a process of its own: the status."""
    name = _TIME.get(solver)
    place = () if name is None else (_NESTED[solver], name) if solver in _NESTED else (name,)
    check("writing programs for CVXPY")
    overruns = not keep and may_overrun(solver, size(problem))
    if overruns:
        try:
            return _solve_apart(problem, solver, verbose, asked, place, until)
        except subprocesses._CannotSend as error:
            log.info("%s is not run in a process of its own: %s", solver, error)
    check(f"CVXPY, which compiles for {solver}")
    data, chain, inverse = problem.get_problem_data(solver, ignore_dpp=not keep, verbose=verbose, solver_opts=asked)
    _require_range(solver, data)
    left = until - time.perf_counter()
    if left <= 0:
        return LATE
    if place:
        (asked[place[0]] if len(place) > 1 else asked).setdefault(place[-1], left)
    check(f"the solver {solver}")
    raw = chain.solve_via_data(problem, data, warm_start=False, verbose=verbose, solver_opts=asked)
    _unpack(problem, solver, raw, chain, inverse)
    return str(problem.status)


def _solve_apart(
    problem: cp.Problem, solver: str, verbose: bool, asked: dict[str, Any], place: tuple[str, ...], until: float
) -> str:
    """The status of a problem that another process solves; the answer is left in its variables."""
    left = until - time.perf_counter()
    more = min(0.05 + 0.15 * left, 0.5) if place else 0.0  # for solvers that know the time, to hand over what they have
    check(f"the solver {solver} (and CVXPY, which compiles for it)")
    try:
        found = subprocesses.solve(
            "problem",
            until + more,
            problem=problem,
            solver=solver,
            options=asked,
            time_option=place,
            seconds=left,
            verbose=verbose,
        )
    except subprocesses._Stopped:
        found = None
    if found is None:
        return LATE
    status, values, duals = found
    for variable, value in zip(problem.variables(), values, strict=True):
        variable.save_value(value)
    for condition, of_condition in zip(problem.constraints, duals, strict=True):
        for variable, value in zip(condition.dual_variables, of_condition, strict=True):
            variable.save_value(value)
    return str(status)


def size(problem: cp.Problem) -> int:
    """About how many numbers a compiled problem has."""
    constants = [c.value for c in problem.constants()]
    numbers = sum(int(getattr(value, "nnz", np.size(value))) for value in constants)
    return numbers + sum(c.size for c in problem.constraints) + sum(v.size for v in problem.variables())


def may_overrun(solver: str, numbers: int) -> bool:
    """Whether a solver may go on for long when its time is over, on a problem of so many numbers."""
    return numbers > (_LONG if solver in _TIME else _SHORT)


def _own_options(solver: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The solver's own options, given side by side or in CVXPY's dict of them.

    `InvalidBlock` if this dict is not one, or if CVXPY would ignore an option outside it.
    """
    key = _NESTED.get(solver)
    inner = options.get(key, {}) if key else {}
    if not isinstance(inner, Mapping):
        raise InvalidBlock(f"solver_options[{key!r}] is {inner!r}; give a dict of {solver}'s own options")
    flat = {name: value for name, value in options.items() if name != key}
    if flat and solver == "SCIPY":
        name = next(iter(flat))
        raise InvalidBlock(f"CVXPY passes over {name!r} for SCIPY; give {{'scipy_options': {{{name!r}: ...}}}}")
    return {**flat, **inner}


def _refused(solver: str, options: Mapping[str, Any] | None, error: BaseException) -> InvalidBlock:
    return InvalidBlock(f"{solver} refuses its solver_options {dict(options or {})}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
