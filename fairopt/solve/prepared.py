"""Solving again with other capacities, weights or task limits, by a cone program that CVXPY compiles once.

Capacities, limits and lower bounds are parameters on right-hand sides; weights and coefficients of shares enter the
objective as one parameter per user. Demands stay constants: those of 20,000 users as parameters asked for 65 GiB.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.allocation import Allocation
from fairopt.blocks.form import Form
from fairopt.blocks.model import POWER_CONES, Point
from fairopt.blocks.normal_form import wants_mean
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.proof.evidence.solved import Dual, Solved, slope
from fairopt.proof.evidence.written import Written
from fairopt.proof.feasibility import dual_values
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.progress import tell
from fairopt.solve import dispatch
from fairopt.solve.cone.solve import chain_of, solve_number, solve_problem
from fairopt.solve.form import solvers
from fairopt.solve.form.program import ConeModel, Program, require_instance
from fairopt.solve.settings import Proposals, Settings

# Rows times columns of CVXPY's program. Compiling with parameters takes time and memory in proportion (CVXPY 1.9), and
# the solver's own time dominates in larger programs. Alpha = 2 with limits: 100 users on 5 servers (0.3e6) compiled in
# 0.03 s; 1,000 on one pool (12e6) in 0.24 s, which saved nothing of 0.08 s a call; 4,000 (190e6) in 3 s and 1.1 GB.
MOST_CELLS = 12_000_000

# Other programs are not kept: only a block knows how its expressions and conditions depend on capacities and weights.
# Keeping them would save 10 to 40% of a call.


class Prepared:
    """A policy on an instance of which only capacities, weights and task limits will change.

    Answers and certificates are those of ``policy.allocate`` on the changed instance, by the same method. Where that is
    a cone solver, the compiled program is kept if the objective is `AlphaFair`, `Total`, `MaxMin` or a sum of these,
    all constraints are bounds on tasks or shares, coefficients do not differ by server, and there are up to about 1,000
    users on one pool.

    Every other policy is compiled again in each call: `Leximin` (such as `DRF`), `OrderedWeighted`, user-defined
    objectives, and any policy under other constraints. So is a call that changes which capacities or limits are 0, or
    which servers are identical.

    Parameters
    ----------
    policy : Policy
        Anything with ``objective`` and ``constraints``.
    instance : Instance
        Users and servers.
    solver : str, optional
        A name in ``cvxpy.installed_solvers()``, which forces the cone method.
    solver_options : dict, optional
        The solver's own options.

    Attributes
    ----------
    instance : Instance
        The instance as prepared; calls do not change it.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> prepared = fo.MostTasks().prepare(cluster)
    >>> prepared.allocate().tasks
    array([ 0., 25.])
    >>> prepared.allocate(capacities=[200, 100, 200], task_limits=[None, 10]).tasks.round(6)
    array([ 3., 10.])
    """

    def __init__(
        self,
        policy: Any,
        instance: Instance,
        *,
        solver: str | None = None,
        solver_options: Mapping[str, Any] | None = None,
    ) -> None:
        require_instance(instance)
        self.policy = policy
        self.instance = instance
        self._solver = None if solver is None else solvers.named(solver)
        self._options = solver_options
        takes_part = instance.task_limits > 0
        self._structure = _structure(instance, instance if takes_part.all() else taking_part(instance, takes_part))
        self._models: dict[int, KeptModel] = {}  # by id of the objective, one per tier
        self._start: Float | None = None  # prices of the last answer in natural units

    def allocate(
        self,
        *,
        capacities: ArrayLike | Mapping[str, Any] | None = None,
        weights: Any = None,
        task_limits: Any = None,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> Allocation:
        """Find and certify the best allocation of the instance with some numbers changed.

        Parameters
        ----------
        capacities : array-like of shape (n_resources,) or (n_servers, n_resources), or dict by resource, optional
            Default: as prepared.
        weights : scalar, array-like of shape (n_users,) or dict by user, optional
            Default: as prepared, as for users that a dict omits.
        task_limits : scalar, array-like of shape (n_users,) or dict by user, optional
            Default: as prepared, as for users that a dict omits. Infinity removes a limit.
        time_limit : float, optional
            Seconds for the whole call.
        verbose : bool, default False
            Let solvers print.

        Returns
        -------
        Allocation
            The certified allocation of ``instance.replace(...)``. If the kept program gave no certified answer,
            ``certificate.tried`` begins with that attempt.

        Raises
        ------
        InvalidInstance
            As `Instance` does.
        NotCertified, Infeasible, OutOfDomain, Unbounded, SolverUnavailable
            As ``policy.allocate`` does. The next call is not affected.
        """
        given = {"capacities": capacities, "weights": weights, "task_limits": task_limits}
        changes = {name: value for name, value in given.items() if value is not None}
        instance = self.instance.replace(**changes) if changes else self.instance
        allocation = dispatch.allocate(
            self.policy,
            instance,
            solver=self._solver,
            solver_options=self._options,
            time_limit=time_limit,
            verbose=verbose,
            general=self._solve,
            start=self._start,
        )
        self._start = allocation.evidence_prices
        return allocation

    def _solve(self, program: Program, settings: Settings) -> Proposals:
        """Solve the kept program, and fall back to `solve_number`."""
        key = id(program.objective)
        try:
            model = None if settings.clock.late else self._model(program, settings)
            answer = None
            if model is not None:
                self._models[key] = model
                answer = yield model.proposal(program, settings)
        except BaseException:  # an interrupt may leave the program half changed
            self._models.pop(key, None)
            raise
        if answer is not None and answer.ok:
            return
        if model is not None:
            self._models.pop(key, None)  # its units may not suit the new numbers
        yield from solve_number(program, settings)

    def _model(self, program: Program, settings: Settings) -> KeptModel | None:
        """The kept model of this objective, rebuilt if it needs more rows; None if it cannot be kept."""
        if _structure(program.given, program.unmerged) != self._structure:
            return None
        old = self._models.get(id(program.objective))
        if program.rest or (old is None and not can_keep(program)):
            return None
        limited, floored = np.flatnonzero(np.isfinite(program.high)), np.flatnonzero(program.low > 0)
        if old is not None:
            limited, floored = _with_rows(old.limited, limited, program), _with_rows(old.floored, floored, program)
            if limited is old.limited and floored is old.floored:
                return old
        return KeptModel(program, settings, limited, floored)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_models": {}}  # solvers' objects cannot be pickled

    def __repr__(self) -> str:
        kept = [f"{m.unknowns.size} unknowns for {m.solver}" for m in self._models.values()]
        words = f"keeps a compiled program of {' and '.join(kept)}" if kept else "keeps no compiled program"
        return f"Prepared({self.policy}, {self.instance!r}; {words})"


class KeptModel(ConeModel):
    """A `ConeModel` with parameters, for programs that differ in capacities, weights and bounds only.

    The objective is a sum over users of ``factor_j u(c_j x_j)`` and smallest shares: its majorant, which is exact if
    `can_keep`. ``limited`` and ``floored`` are the users with rows for upper and for lower bounds.
    """

    def __init__(self, program: Program, settings: Settings, limited: Indices, floored: Indices) -> None:
        pairs, majorant = program.pairs, _majorant(program)
        self.solver = chain_of(settings, linear=not any(term.alpha for term in majorant.curves))[0]
        self.limited, self.floored = limited, floored
        self.size, self.rows = program.size, program.capacity_rows
        self.capacities = _capacities(program)[self.rows]
        self.room = cp.Parameter(len(self.rows), nonneg=True)
        self.most = cp.Parameter(len(limited), nonneg=True)
        self.least = cp.Parameter(len(floored), nonneg=True)
        self.unknowns = cp.Variable(len(pairs), name="tasks in units", nonneg=True)
        by_user = self.unknowns if pairs.single else pairs.totals @ self.unknowns
        loads, unit = pairs.loads[self.rows], self.size[pairs.user]
        scaled = loads * unit if pairs.single else (loads @ sp.diags_array(unit)).tocsr()
        self.capacity = scaled @ self.unknowns <= self.room
        self.box = [by_user[limited] <= self.most] if len(limited) else []
        self.box += [by_user[floored] >= self.least] if len(floored) else []
        self.rest = []
        # a single power with alpha > 1 as the logarithm of its mean, as in `AlphaFair.solver_form`
        self.in_logs = len(majorant.curves) == 1 and not majorant.ranked and majorant.curves[0].alpha > 1
        terms = (*majorant.curves, *majorant.ranked)
        self.numbers = [cp.Parameter(by_user.size, nonneg=not self.in_logs) for _ in terms]
        self.form = self._form(majorant, by_user)
        self.problem = cp.Problem(cp.Maximize(self.form), [self.capacity, *self.box])

    @property
    def required(self) -> list[cp.Constraint]:
        """None: objectives that can be kept have no variables of their own."""
        return []

    def _form(self, majorant: Form, by_user: cp.Expression) -> cp.Expression:
        """The objective, or an increasing transform of it, with a parameter per user and term."""
        parts: list[cp.Expression] = []
        powers = [term.alpha for term in majorant.curves]
        for alpha, number in zip(powers, self.numbers, strict=False):
            if self.in_logs:
                parts.append(cp.log_sum_exp((1 - alpha) * cp.log(by_user) + number) / (1 - alpha))
            elif alpha == 1:
                parts.append(number @ cp.log(by_user))
            else:
                power = cp.power(by_user, 1 - alpha, approx=self.solver not in POWER_CONES) if alpha else by_user
                parts.append(number @ power / (1 - alpha))
        parts += [cp.min(cp.multiply(number, by_user)) for number in self.numbers[len(powers) :]]
        return sum(parts, start=cp.Constant(0.0))

    def _fill(self, program: Program) -> Float:
        """Set the parameters to a program's numbers; return the unit of each capacity row relative to its capacity."""
        # the users' common factor enters the unit of the unknowns, so that these stay near 1
        common = float(np.exp(np.log(program.size / self.size).mean()))
        unit = self.size * common
        self.program, self.scale = program, unit[program.pairs.user]
        per_unit = _capacities(program)[self.rows] / self.capacities / common
        room = program.usable_rows[self.rows] * per_unit
        # a user without a limit gets one that capacities keep slack, so that its multiplier is zero
        most = (np.minimum(program.high, 2 * program.most) / unit)[self.limited]
        least = (program.low / unit)[self.floored]
        numbers = self._numbers(_majorant(program), unit)
        parameters = (self.room, self.most, self.least, *self.numbers)
        for parameter, value in zip(parameters, (room, most, least, *numbers), strict=True):
            parameter.save_value(value)  # without CVXPY's slow checks; the gate judges answers
        return per_unit

    def _numbers(self, majorant: Form, unit: Float) -> list[Float]:
        """The parameters of the objective's terms."""
        powers, ranked = majorant.curves, majorant.ranked
        if self.in_logs:
            return [np.log(t.factor) + (1 - t.alpha) * np.log(t.c * unit) for t in powers]
        numbers = [t.factor * (t.c * unit) ** (1 - t.alpha) for t in powers]
        numbers += [t.factor * t.v[0] * t.c * unit for t in ranked]
        slope = sum(x.sum() for x in numbers[: len(powers)]) + sum(x.min() for x in numbers[len(powers) :])
        # solvers' tolerances are absolute; see `Power.solver_form` for the units
        alone = powers[0] if len(numbers) == 1 and powers else None
        mean = alone is None or wants_mean(alone.alpha, self.solver)
        return [x * ((1 if mean else len(unit)) / slope) for x in numbers]

    def proposal(self, program: Program, settings: Settings) -> Proposal:
        """Solve a program with the same users, pairs, servers and objective."""
        start = time.perf_counter()
        per_unit = self._fill(program)
        tell(f"kept cone program by {self.solver}")
        attempt, found = solve_problem(self.problem, self.unknowns, self.solver, settings, keep=True)
        attempt = replace(attempt, seconds=time.perf_counter() - start)
        if not found:
            return Proposal("cone", solver=self.solver, attempt=attempt)
        tasks, prices = self.tasks(), dual_values(self.capacity) * per_unit  # per whole capacity
        rate = slope(_majorant(program), self.form, program.point(tasks), self, tasks)
        bounds = [
            Dual(None, None, np.zeros(k)) for k in (np.isfinite(program.high).sum(), (program.low > 0).sum()) if k
        ]
        evidence = Solved(Written(program, self.solver), prices, bounds, None, rate or np.nan, stands_in=True)
        return Proposal("cone", tasks, evidence, self.solver, attempt)


def can_keep(program: Program) -> bool:
    """Whether `KeptModel` takes a program: sums of `AlphaFair`, `Total` and `MaxMin` under bounds, of shares whose
    coefficients do not differ by server.
    """
    objective, n = program.objective, program.instance.n_users
    if (
        program.rest
        or not program.of_users
        or not all(term.is_simple and not term.is_order for term in objective.terms())
    ):
        return False
    if any(share.coefficients(program.instance).ndim == 2 for share in objective.share_blocks()):
        return False
    # with bounds on all users and two variables per curved term
    curved = sum(term.alpha > 0 for term in _majorant(program).curves)
    rows = len(program.capacity_rows) + 2 * n * (1 + curved)
    return rows * (len(program.pairs) + 2 * n * curved) <= MOST_CELLS


def _majorant(program: Program) -> Form:
    """The objective as terms by user, which are the same at every point if `can_keep`."""
    instance = program.instance
    found = program.objective.majorant(Point(instance, np.zeros((instance.n_users, instance.n_servers))))
    assert found is not None
    return found


def _capacities(program: Program) -> Float:
    """Units of each row of `Pairs.loads`."""
    return (program.instance.capacities * program.instance.counts[:, None]).ravel()


def _structure(instance: Instance, taking_part: Instance) -> tuple[bytes, ...]:
    """What a compiled program fixes: users who take part, eligibility, and which servers are identical."""
    classes = taking_part.derived.server_classes
    return (instance.task_limits > 0).tobytes(), instance.eligible.tobytes(), classes.tobytes()


def _with_rows(held: Indices, wanted: Indices, program: Program) -> Indices:
    """The present rows if they suffice, else those of all users, so that the model is rebuilt only once."""
    return held if np.isin(wanted, held).all() else np.arange(program.instance.n_users)
