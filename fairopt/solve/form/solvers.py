"""CVXPY's solvers: which are installed, their options, and one function that runs them."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from fairopt.blocks.table_rows import TableRows
from fairopt.certificate import Try
from fairopt.errors import InvalidBlock, SolverUnavailable, nearest
from fairopt.runtime import subprocesses
from fairopt.runtime.clock import Late, check, current
from fairopt.runtime.lazy import cp, optimize
from fairopt.solve.form.compiled import Compiled, CompiledHere, Left, Posed, posed, whole
from fairopt.solve.form.equilibration import Equilibrated
from fairopt.solve.form.highs import silence_banner
from fairopt.solve.form.recentring import Recentred, is_closer

log = logging.getLogger("fairopt")

# Tight tolerances: Clarabel's defaults leave errors of about 1e-4 in x for logarithms.
TIGHT: dict[str, dict[str, Any]] = {
    "CLARABEL": {
        "tol_gap_abs": 1e-11,
        "tol_gap_rel": 1e-11,
        "tol_feas": 1e-11,
        "max_iter": 500,
        "accept_unknown": True,
    },
    # At 1e-10 it stalls near the optimum of large linear programs: max-min of 10,000 users on 3 servers took 3.6 s
    # instead of 0.3 s at 1e-9, with the same gap of 3e-11.
    "ECOS": {"abstol": 1e-9, "reltol": 1e-9, "feastol": 1e-9, "max_iters": 300},
    "SCS": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 200_000},
    "HIGHS": {
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
        "ipm_optimality_tolerance": 1e-10,
    },
    "SCIPY": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    "OSQP": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 200_000, "polishing": True},
    # At its own 1e-8 leximin of the demo's ten users was not certified.
    "PIQP": {
        "eps_abs": 1e-10,
        "eps_rel": 1e-10,
        "eps_duality_gap_abs": 1e-10,
        "eps_duality_gap_rel": 1e-10,
    },
    # At their own tolerances DRF (QOCO, MOREAU) and alpha = 2 (COPT) of 20 users on servers were not certified.
    "QOCO": {"abstol": 1e-10, "reltol": 1e-10},
    "MOREAU": {"ipm_settings": dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)},
    "COPT": {"FeasTol": 1e-9, "DualTol": 1e-9},
}
TIGHT["ECOS_BB"] = TIGHT["ECOS"]
# For further attempts, if the solver fails at these; CLARABEL and ECOS then work in equilibrated units.
_AGAIN: dict[str, tuple[dict[str, Any], ...]] = {
    "ECOS": ({"abstol": 1e-8, "reltol": 1e-8, "feastol": 1e-8, "max_iters": 300},),
    "CLARABEL": (
        # Equilibrated rows may be 1e5 times as large as those given, which at 1e-11 were broken by 5e-7.
        TIGHT["CLARABEL"] | dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12),
        # Keeping its primal-dual steps where it otherwise changes its strategy after short ones takes up to five times
        # the steps: of 48 programs of 60 and 80 users within 2 and 10 times each other (alpha 1/2, 1, 2, 5) all were
        # certified; with the strategy alone 41, without either 26.
        TIGHT["CLARABEL"]
        | dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        | {"min_switch_step_length": 1e-3},
    ),
}
EQUILIBRATED = ("CLARABEL", "ECOS")  # whose further tries are in these units
# Names of time limits; ECOS has none.
_TIME = {
    "SCS": "time_limit_secs",
    "COPT": "TimeLimit",
    **dict.fromkeys(("CLARABEL", "HIGHS", "SCIPY", "OSQP", "MOREAU"), "time_limit"),
}
# Entries of a compiled problem for which one iteration takes at most about 0.1 s, and for which the whole solve does;
# the latter are also the numbers of a problem that CVXPY's chain compiles within this time.
_LONG, _SHORT = 50_000, 2_000
LATE = "time limit reached"
_NESTED = {"HIGHS": "highs_options", "SCIPY": "scipy_options"}  # the dict of their options in CVXPY
# Error messages, other than a TypeError, for invalid options or values.
_REFUSED = (
    "HIGHS returned status kError for option",
    "Unrecognized settings",
    "incompatible function arguments",
    "Error parsing inputs",  # SCS before 3.3
)
# Size of a linear program above which HiGHS uses its interior-point method. Simplex and interior point took 31 and
# 1.5 s for max-min of 10,000 rates, 5.3 and 2 s for a piecewise linear sum of 10,000 users, and 30 and 4 s for a sum
# under 122,000 rows. Of smaller ones with `MANY` rows for each unknown both take the same at 700 rows and 50 unknowns,
# 0.13 and 0.09 s at 5,100 and 200, and 0.6 and 0.3 s at 13,700 and 400, where CLARABEL takes 2 s.
LARGE = 50_000
# The work of the simplex, rows times rows and columns, above which an interior point is faster: so much per entry, and
# that of about 20 ms.
PER_ENTRY, LEAST_WORK = 300, 1_000_000
# Steps of SCS times numbers of the program, which are about 5 s, and its least steps: it comes last, so that a refusal
# is not late.
SCS_WORK, LEAST_STEPS = 1e9, 2_000
MANY = 10  # rows for each unknown, above which CLARABEL's third try comes second, and HiGHS uses its interior point
# Solvers that catch Ctrl-C and return as if they had failed: the field and its codes. (ECOS close to the optimum
# returns normally, and its answer is certified like any other.)
_SWALLOWS_INTERRUPT = {"SCS": ("status_val", (-5,)), "ECOS": ("exitFlag", (-4, 6))}  # 6: and nearly solved
_SQUARED = 1e150  # SCS squares numbers; if that overflows, it prints to stdout and returns no status
CONE_CHAIN = ("CLARABEL", "ECOS", "SCS")
# Cones by CVXPY's sizes: the word in messages, and CVXPY's class.
_CONES = {
    "soc": ("second-order", "SOC"),
    "exp": ("exponential", "ExpCone"),
    "p3d": ("power", "PowCone3D"),
    "psd": ("semidefinite", "PSD"),
}
_CONES_IF_INSTALLED = {"MOSEK": {"ExpCone", "PowCone3D"}}  # CVXPY lists these cones only if the solver is installed
SOLVED = frozenset({"optimal", "optimal_inaccurate", "user_limit"})


@cache
def installed() -> tuple[str, ...]:
    """Names of the solvers that CVXPY can call here."""
    return tuple(cp.installed_solvers())  # 3 ms a call


def named(solver: str) -> str:
    """A solver's name in CVXPY's spelling; `SolverUnavailable` if it is unknown or not installed."""
    name = str(solver).upper()
    here = installed()
    if name in here:
        return name
    if name in cp.settings.SOLVERS:
        hint = " (wheels for Python 3.11 and 3.12 only)" if name.startswith("ECOS") else ""
        raise SolverUnavailable(f"solver {name} is not installed{hint}; installed: {', '.join(here)}")
    raise SolverUnavailable(f"no solver {solver!r}; {nearest(name, list(here))}")


def chain(linear: bool) -> list[str]:
    """The solvers to try, in order, for linear or for cone programs."""
    return [name for name in (*("HIGHS",) * linear, *CONE_CHAIN) if name in installed()]


def all_linear(conditions: Iterable[cp.Constraint]) -> bool:
    """Whether all constraints are piecewise linear."""
    kinds = cp.constraints
    linear = (kinds.Inequality, kinds.Equality, kinds.NonNeg, kinds.NonPos, kinds.Zero)
    return all(
        isinstance(c, TableRows) or (isinstance(c, linear) and all(a.is_pwl() for a in c.args)) for c in conditions
    )


def statuses(problem: cp.Problem | Posed) -> Iterator[str]:
    """The status by each solver of the chain that accepts the problem, solved lazily."""
    for name in chain(problem.objective.expr.is_pwl() and all_linear(problem.constraints)):
        with suppress(SolverUnavailable):
            yield run(problem, name).status


def tries(solver: str) -> int:
    """How many tries, by settings, there are of the solver."""
    return 1 + len(_AGAIN.get(solver, ()))


def run(
    problem: cp.Problem | Posed,
    solver: str,
    *,
    options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
    again: int = 0,
    left: Left | None = None,
    compiled: Compiled | None = None,
) -> Try:
    """Solve a problem and report the attempt; the answer is left in its variables. A status is not evidence.

    ``options`` of the solver override the tight defaults: for HiGHS ``{"solver": "ipm", "run_crossover": "off"}``
    (interior point) or ``{"solver": "pdlp"}`` (first-order), possibly inside ``highs_options`` as in CVXPY; for SciPy
    inside ``scipy_options``. ``again`` counts further tries, up to `tries`, with other tolerances and units. ``left``
    keeps the primal and the dual point, and ``compiled`` is the problem compiled for this solver, if it is. There is no
    warm start, since options leak between two solves of one problem. The ``time_limit`` includes CVXPY's compilation.
    `SolverUnavailable` if the solver cannot take this kind of problem, `InvalidBlock` for invalid options.

    A first-order method stops at small residuals, which bound no gap. For max-min of 20 to 200 users on 40 to 300
    different servers PDLP's own tolerance of 1e-7 left gaps of 1e-12 to 5e-8, and ``"kkt_tolerance": 1e-6`` gaps of up
    to 3e-6, more than certificates allow. ``"pdlp_optimality_tolerance": 1e-8`` is tighter.
    """
    by_try = TIGHT.get(solver, {}), *_AGAIN.get(solver, ())
    settings: dict[str, Any] = dict(by_try[-1 if again and _has_many_rows(problem) else again])
    numbers = size(problem)
    if solver == "HIGHS":
        silence_banner()
        # PDLP ignores log_to_console
        settings["output_flag"] = verbose
        if numbers > LARGE or _has_many_rows(problem):
            settings["solver"] = "ipm"
    if solver == "SCS":
        settings["max_iters"] = int(min(settings["max_iters"], max(SCS_WORK / numbers, LEAST_STEPS)))
    settings |= _own_options(solver, options or {})
    if solver in _NESTED:  # an option of HiGHS and a parameter of CVXPY are both called ``solver``
        settings = {_NESTED[solver]: settings}
    start, clock = time.perf_counter(), current()
    message, from_call = "", time_limit is None and clock is not None
    if time_limit is None and clock is not None:  # the limit of the enclosing call
        time_limit = max(clock.hard - start, 0.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", "Unrecognized options", optimize.OptimizeWarning)
            if time_limit is not None:
                until = start + time_limit
                status = _solve_in_time(problem, numbers, solver, verbose, settings, until, again, left, compiled)
            else:
                compiled = compiled or Compiled.of(problem, solver, settings)
                status = _solve_data(compiled, solver, verbose, settings, again, left)
    except (TypeError, optimize.OptimizeWarning) as error:
        raise _refused(solver, options, error) from error
    except Exception as error:
        # of CVXPY, or of solvers' bindings: numerical failures, and as classes of their own that a licence is missing
        usual = cp.error.SolverError, ValueError, ArithmeticError, RuntimeError
        if not isinstance(error, usual) and type(error).__module__.partition(".")[0] in ("builtins", "fairopt"):
            raise
        words, by_cvxpy = str(error), isinstance(error, cp.error.SolverError)
        if refuses(error):
            others = ", ".join(name for name in chain(False) if name != solver and _takes(problem, name))
            lacks = lacking(problem, solver)
            why = f"it has {', '.join(lacks)} cones" if lacks else _first_line(error)
            raise SolverUnavailable(
                f"{solver} cannot take this kind of problem ({why}); "
                + (f"try one of {others}" if others else "no installed solver takes it"),
                lacks=lacks,
            ) from error
        if any(refusal in words for refusal in _REFUSED):
            raise _refused(solver, options, error) from error
        status, message = "solver_error", ("" if by_cvxpy else f"{type(error).__name__}: ") + _first_line(error)
    if status == LATE and from_call:
        raise Late
    return Try(solver=solver, status=status, seconds=time.perf_counter() - start, message=message)


def refuses(error: BaseException) -> bool:
    """Whether CVXPY says by this error that the solver cannot take this kind of problem."""
    return isinstance(error, cp.error.SolverError) and ("cannot solve" in str(error) or "not able to" in str(error))


def takes(solver: str) -> frozenset[str]:
    """Names of CVXPY's classes of cones that a solver takes."""
    from cvxpy.reductions.solvers import defines

    interfaces = [of[solver] for of in (defines.SOLVER_MAP_CONIC, defines.SOLVER_MAP_QP) if solver in of]
    cones = {kind.__name__ for interface in interfaces for kind in interface.SUPPORTED_CONSTRAINTS}
    return frozenset(cones | _CONES_IF_INSTALLED.get(solver, set()))


def lacking(problem: cp.Problem | Posed, solver: str) -> tuple[str, ...]:
    """The kinds of cones of a problem that a solver does not take, as CVXPY writes the problem for SCS, which takes
    all.
    """
    sizes = subprocesses.cones(whole(problem).get_problem_data("SCS")[0]["dims"])
    known = takes(solver)
    return tuple(word for kind, (word, name) in _CONES.items() if sizes[kind] and name not in known)


def _takes(problem: cp.Problem | Posed, solver: str) -> bool:
    """Whether CVXPY can pass a problem to a solver."""
    try:
        whole(problem).get_problem_data(solver)
    except cp.error.SolverError:
        return False
    return True


def _solve_data(
    compiled: Compiled,
    solver: str,
    verbose: bool,
    settings: dict[str, Any],
    again: int,
    left: Left | None,
    until: float | None = None,
) -> str:
    """Solve a compiled problem, in equilibrated units if it is a further try of CLARABEL or ECOS; the status.

    Where CLARABEL is rough in these, its cones are moved to their slack there, and it solves once more; if that gives
    no answer, the rough one stands. With a time ``until`` which it may run, in a subprocess.
    """
    data = compiled.data
    _require_range(solver, data)
    solve = compiled.solve if until is None else partial(solve_elsewhere, solver, until)
    if not (again and solver in EQUILIBRATED and Equilibrated.takes(data)):
        raw = solve(data, verbose, settings)
    elif solver == "ECOS":
        equilibrated = Equilibrated.of_ecos(data)
        raw = equilibrated.natural_of_ecos(solve(equilibrated.data, verbose, settings))
    else:
        raw = _equilibrated(data, solve, verbose, settings)
        left_of_time = settings.get("time_limit", np.inf) - raw.solve_time
        if Recentred.helps(data, raw) and left_of_time > 0:
            limit = {"time_limit": left_of_time} if "time_limit" in settings else {}
            moved = Recentred(data, raw.x)
            with suppress(ValueError, RuntimeError, subprocesses._Stopped):  # it failed, or the time is over
                closer = moved.natural(_equilibrated(moved.data, solve, verbose, settings | limit))
                raw = closer if is_closer(data, closer, raw) else raw
    if left is not None:
        left.keep(solver, compiled, raw)
    _raise_interrupt(solver, raw)
    return compiled.unpack(raw)


def _equilibrated(data: dict[str, Any], solve: Callable[..., Any], verbose: bool, settings: dict[str, Any]) -> Any:
    """CLARABEL's solution, found in equilibrated units."""
    equilibrated = Equilibrated(data)
    # tolerances of the objective as given, as far as digits go
    per_unit = min(equilibrated.of_costs * equilibrated.of_right, 1.0)
    names = ("tol_gap_abs", "tol_gap_rel")
    settings = settings | {name: max(settings[name] * per_unit, min(settings[name], 1e-12)) for name in names}
    return equilibrated.natural(solve(equilibrated.data, verbose, settings))


def _require_range(solver: str, data: Mapping[str, Any]) -> None:
    """`ArithmeticError` if numbers are too large for a solver."""
    if solver == "SCS":
        matrices = [data[name].data for name in ("A", "P") if data.get(name) is not None]
        largest = max(float(np.abs(part).max(initial=0.0)) for part in (*matrices, data["b"], data["c"]))
        if not largest <= _SQUARED:
            raise ArithmeticError(f"a number of the problem is {largest:.2g}, and SCS fails above {_SQUARED:g}")


def _raise_interrupt(solver: str, raw: Any) -> None:
    """`KeyboardInterrupt` if the solver returned because of it."""
    if solver in _SWALLOWS_INTERRUPT:
        field, interrupted = _SWALLOWS_INTERRUPT[solver]
        if raw["info"].get(field) in interrupted:
            raise KeyboardInterrupt


def _solve_in_time(
    problem: cp.Problem | Posed,
    numbers: int,
    solver: str,
    verbose: bool,
    settings: dict[str, Any],
    until: float,
    again: int,
    left: Left | None,
    compiled: Compiled | None,
) -> str:
    """`Problem.solve` of a problem of so many `numbers` with a time limit, in a subprocess if needed; the status.

    What is compiled here stops when the time is up, and tells how many entries a solver gets. CVXPY's chain does not.
    """
    name = _TIME.get(solver)
    place = () if name is None else (_NESTED[solver], name) if solver in _NESTED else (name,)
    check(f"CVXPY, which compiles for {solver}")
    compiled = compiled or CompiledHere.made(problem, solver, settings)
    if compiled is not None:
        overruns = may_overrun(solver, compiled.entries)
    else:  # integer programs of HIGHS are of tables, with as many entries as numbers
        overruns = may_overrun(solver, numbers) if solver == "HIGHS" else numbers > _SHORT
    if overruns and compiled is None:
        try:
            return _solve_in_subprocess(problem, solver, verbose, settings, place, until)
        except subprocesses._CannotSend as error:
            log.info("%s is not run in a subprocess: %s", solver, error)
    apart = overruns and compiled is not None  # only the data go to the subprocess
    compiled = compiled or Compiled(problem, solver, settings)
    seconds = until - time.perf_counter()
    if seconds <= 0:
        return LATE
    if place:
        (settings[place[0]] if len(place) > 1 else settings).setdefault(place[-1], seconds)
    check(f"the solver {solver}")
    if apart:
        try:
            return _solve_data(compiled, solver, verbose, settings, again, left, until + _to_return(seconds))
        except subprocesses._Stopped:
            return LATE
        except subprocesses._CannotSend as error:
            log.info("%s is not run in a subprocess: %s", solver, error)
    return _solve_data(compiled, solver, verbose, settings, again, left)


def _to_return(seconds: float) -> float:
    """Seconds that a solver with a limit of so many may take to return."""
    return min(0.05 + 0.15 * seconds, 0.5)


def solve_elsewhere(solver: str, until: float, data: dict[str, Any], verbose: bool, settings: dict[str, Any]) -> Any:
    """What CLARABEL or HIGHS returns of data, in a subprocess which is killed at a time."""
    dims = subprocesses.cones(data["dims"])
    raw = subprocesses.solve(solver, until, data=data | {"dims": dims}, options=settings, verbose=verbose)
    return SimpleNamespace(**raw) if solver == "CLARABEL" else raw


def _solve_in_subprocess(
    problem: cp.Problem | Posed,
    solver: str,
    verbose: bool,
    settings: dict[str, Any],
    place: tuple[str, ...],
    until: float,
) -> str:
    """The status of a problem solved in a subprocess; the answer is left in its variables."""
    problem, left = whole(problem), until - time.perf_counter()
    more = _to_return(left) if place else 0.0
    check(f"the solver {solver} (and CVXPY, which compiles for it)")
    try:
        found = subprocesses.solve(
            "problem",
            until + more,
            problem=problem,
            solver=solver,
            options=settings,
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


def compiled_for_simplex(problem: cp.Problem | Posed) -> CompiledHere | None:
    """A linear program compiled for HiGHS; None if it is large, or CVXPY's chain compiles it."""
    compiled = None if size(problem) > LARGE else CompiledHere.made(problem, "HIGHS", {})
    return compiled if compiled is None or compiled.data["A"].shape[0] else None


def simplex_is_slow(compiled: CompiledHere) -> bool:
    """Whether HiGHS uses the simplex on a linear program, and takes longer than CLARABEL, as sizes say.

    It takes about 1.3 steps a row, each 16 ns a row and column, and CLARABEL 4 microseconds an entry. Of 54 programs of
    up to 3,000 users the 27 that this chose took 3.8 s by the simplex and 1.6 s by CLARABEL, the others 1.1 s and 10 s.
    """
    (rows, columns), entries = compiled.data["A"].shape, compiled.data["A"].nnz
    return rows <= MANY * columns and bool(rows * (rows + columns) > max(PER_ENTRY * (entries + columns), LEAST_WORK))


def _has_many_rows(problem: cp.Problem | Posed) -> bool:
    """Whether rows are many for each unknown, as between all pairs of users, where steps are short in any unit."""
    return sum(c.size for c in problem.constraints) > MANY * sum(v.size for v in problem.variables())


def size(problem: cp.Problem | Posed) -> int:
    """The approximate number of entries of a compiled problem."""
    tables = [c.table for c in problem.constraints if isinstance(c, TableRows)]
    constants = [c.value for c in posed(problem).constants]
    numbers = sum(int(getattr(value, "nnz", np.size(value))) for value in (*constants, *tables))
    return numbers + sum(c.size for c in problem.constraints) + sum(v.size for v in problem.variables())


def may_overrun(solver: str, entries: int) -> bool:
    """Whether a solver may exceed its time limit by much, on a compiled problem with so many entries."""
    return entries > (_LONG if solver in _TIME else _SHORT)


def _own_options(solver: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The solver's options, given flat or in CVXPY's dict of them.

    `InvalidBlock` if this is not a dict, or if CVXPY would ignore an option outside it.
    """
    key = _NESTED.get(solver)
    inner = options.get(key, {}) if key else {}
    if not isinstance(inner, Mapping):
        raise InvalidBlock(f"solver_options[{key!r}] is {inner!r}; give a dict of {solver}'s own options")
    flat = {name: value for name, value in options.items() if name != key}
    if flat and solver == "SCIPY":
        name = next(iter(flat))
        raise InvalidBlock(f"CVXPY ignores {name!r} for SCIPY; give {{'scipy_options': {{{name!r}: ...}}}}")
    return {**flat, **inner}


def _refused(solver: str, options: Mapping[str, Any] | None, error: BaseException) -> InvalidBlock:
    return InvalidBlock(f"{solver} refuses its solver_options {dict(options or {})}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
