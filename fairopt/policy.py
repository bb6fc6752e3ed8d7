"""A policy: an objective over shares plus constraints. ``.allocate(instance)`` solves it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Objective, objective_of
from fairopt.blocks.base import blocks_within, brief, require_hashable
from fairopt.blocks.constraints import Constraint, MinTasks, constraints_of
from fairopt.blocks.model import Model
from fairopt.errors import InvalidBlock, OutOfDomain, within_memory
from fairopt.instance import Instance
from fairopt.runtime.display import label
from fairopt.runtime.lazy import cp, later
from fairopt.solve import dispatch
from fairopt.solve.form.no_whole_task import refuse_whole

if TYPE_CHECKING:
    from fairopt.solve.prepared import Prepared

__all__ = ["Policy", "accepted", "is_mechanism", "label", "makes_policies"]

SMALLER = (
    "merge equal servers with .merged(), or take one pool with .pooled(), whose users fo.allocate_sharded reads in "
    "parts, or more memory"
)

Given: TypeAlias = Constraint | Callable[[Model], Any]  # in place of a constraint

_Make = TypeVar("_Make", bound="Callable[..., Policy]")


class Policy:
    """A fairness notion: an objective to maximise under constraints.

    Capacities, task limits and eligibility of the instance always hold.

    Parameters
    ----------
    objective : Objective, or function
        The objective to maximise. A function takes a `Model` and returns a concave CVXPY expression of one number.
    constraints : Constraint, function, or iterable of these, optional
        Further constraints. A function takes a `Model` and returns a CVXPY constraint, a list of them, or a dict of
        them by name. Functions are for one-off ideas: a saved answer has only their text, so it cannot be verified
        from the file alone.
    name : str, optional
        Name in tables and messages.

    Raises
    ------
    InvalidBlock
        If an argument is neither a block nor a function of the model.

    Examples
    --------
    >>> import fairopt as fo
    >>> mine = fo.Policy(
    ...     fo.AlphaFair(2, fo.KDominantShare(2)) + 0.1 * fo.Total(fo.Tasks()),
    ...     constraints=[fo.SharingIncentive(), fo.EnvyFree()],
    ... )
    >>> a = mine.allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    >>> a.certificate.ok
    True

    Functions in place of blocks:

    >>> import cvxpy as cp
    >>> inline = fo.Policy(lambda model: cp.sum(cp.log(model.tasks - 1)), lambda model: model.tasks[0] >= 2)
    >>> inline.allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks.round(2)
    array([ 2.9, 10.5])
    """

    def __init__(
        self,
        objective: Objective | Callable[[Model], Any],
        constraints: Given | Iterable[Given] = (),
        name: str | None = None,
    ) -> None:
        held, known = constraints_of(constraints), objective_of(objective)
        if known is None:
            raise InvalidBlock(
                f"Policy({brief(objective)}): give an objective, such as Leximin(DominantShare()) or AlphaFair(1), or "
                "a function such as `lambda model: cp.sum(cp.log(model.tasks))`"
            )
        for block in blocks_within((known, held)):
            require_hashable(block)
            if isinstance(block, Objective):
                block.require_terms()
        self.objective = known
        self.constraints = held
        self.name = name

    def allocate(
        self,
        instance: Instance,
        *,
        method: str = "auto",
        solver: str | None = None,
        solver_options: Mapping[str, Any] | None = None,
        time_limit: float | None = None,
        verbose: bool = False,
        integral: bool | Literal["rounded"] = False,
        exact: bool = False,
    ) -> Allocation:
        """Find the optimal allocation, and certify it.

        Parameters
        ----------
        instance : Instance
            Users and servers.
        method : str, default "auto"
            ``"auto"`` takes the first method that is exact, ``"cone"`` the general one, by CVXPY. ``"water-filling"``,
            ``"prices"``, ``"levels"``, ``"linear"`` and ``"closed"`` are the specialised ones; ``"parametric"`` is a
            search for `FairnessEfficiency` outside the alpha-fair case, along the sum of shares.
        solver : str, optional
            A name in ``cvxpy.installed_solvers()``: forces the cone method with this solver only. If its point of a
            small linear program is not certified, the vertex next to it is found in fractions, unless there are
            options.
        solver_options : dict, optional
            Options of the solver, which override the tight default tolerances: for ``solver="HIGHS"``, for example,
            ``{"solver": "pdlp"}`` or ``{"solver": "ipm", "run_crossover": "off"}``. They require ``solver`` or
            ``method="cone"``.
        time_limit : float, optional
            Seconds for the whole call, which ends at most one second later with `NotCertified`. The error names the
            step reached and holds the best answer found.
        verbose : bool, default False
            Let solvers print.
        integral : bool or "rounded", default False
            Whole tasks, each on one server. True solves mixed-integer programs if objectives and constraints are
            piecewise linear; otherwise, and always for ``"rounded"``, the divisible answer is rounded by largest
            remainders. The certificate bounds the loss against the divisible optimum; optimality in whole tasks rests
            on the MIP solver. ``solver`` (default HiGHS) and ``solver_options`` then refer to the mixed-integer
            programs. At the ``time_limit`` the best answer so far is returned, with a note, if it can be certified in
            time.
        exact : bool, default False
            Also find the optimum in fractions, `Allocation.exact_tasks`, proved with gap 0 in fractions: for totals,
            max-min, leximin, ordered weights and sums and tiers of these under fairopt's constraints, with rational
            shares, and for `MLFDRS`, `FFMRA` and `HFFMRA`. Numbers count as the shortest decimals that print them (0.1
            is 1/10), or as the `fractions.Fraction` that were given; the certificate's note says which. Your own shares
            need `Share.exact_per_task`. The extra ``exact`` makes it faster.

        Returns
        -------
        Allocation
            Always with a certificate within tolerance.

        Raises
        ------
        NotCertified
            If no answer could be proved optimal; holds the best one and all attempts.
        Infeasible
            If the constraints conflict, possibly in whole tasks only; names an irreducible set of them.
        OutOfDomain
            If the notion is not defined for the instance or, for ``exact``, if its optimum is not rational.
        NotConcave
            If the objective is not concave, or a constraint not convex.
        Unbounded
            If the objective has no maximum.
        SolverUnavailable
            If the solver is not installed, or cannot take the problem.
        OutOfMemory
            If memory runs out; names the policy and the size.

        Notes
        -----
        `progress` reports the steps of the call. Ctrl-C raises ``KeyboardInterrupt`` and does not affect later calls.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
        >>> fo.KDF(k=2).allocate(cluster, solver="CLARABEL").tasks.round(4)
        array([ 1.9231, 15.3846])

        >>> a = fo.KDF(k=2).allocate(cluster, integral=True)
        >>> a.tasks, a.certificate.note
        (array([ 2., 15.]), 'optimality in whole tasks rests on HiGHS')

        >>> a = fo.KDF(k=2).allocate(cluster, exact=True)
        >>> print(*a.exact_tasks[:, 0], a.certificate.gap)
        25/13 200/13 0.0
        """
        options: dict[str, Any] = {
            "method": method,
            "solver": solver,
            "solver_options": solver_options,
            "time_limit": time_limit,
            "verbose": verbose,
        }
        with within_memory(lambda: f"{label(self)} of {instance!r}", SMALLER):
            if searched := [block for block in self.constraints if isinstance(block, MinTasks) and block.or_zero]:
                if exact or integral:
                    raise OutOfDomain(
                        f"{searched[0]} is searched in divisible tasks and floats; leave "
                        f"{'exact' if exact else 'integral'} out"
                    )
                return later("fairopt.solve.or_zero:allocate")(self, instance, **options)
            if exact:
                if integral:
                    raise InvalidBlock(
                        "exact answers are of divisible tasks; give exact=True or integral=True, not both"
                    )
                return later("fairopt.exact.allocate:allocate")(self, instance, dispatch.solved, **options)
            if integral:
                return later("fairopt.solve.whole.solve:allocate_whole")(self, instance, integral, **options)
            return dispatch.allocate(self, instance, **options)

    def prepare(
        self, instance: Instance, *, solver: str | None = None, solver_options: Mapping[str, Any] | None = None
    ) -> Prepared:
        """Prepare the policy for repeated solves in which only capacities, weights or task limits change.

        Alpha-fairness on one pool starts from the last prices; other methods start anew.

        Parameters
        ----------
        instance : Instance
            Users and servers.
        solver, solver_options
            As in `allocate`.

        Returns
        -------
        Prepared
            Its ``allocate(capacities=, weights=, task_limits=)`` gives the answers of `allocate`.

        Examples
        --------
        >>> import fairopt as fo
        >>> ready = fo.FDS(1).prepare(fo.Instance([[2, 3], [2, 1]], [6, 4]))
        >>> ready.allocate().tasks.round(4)
        array([0.6667, 2.    ])
        >>> ready.allocate(capacities=[12, 8]).tasks.round(4)
        array([1.3333, 4.    ])
        """
        return later("fairopt.solve.prepared:Prepared")(self, instance, solver=solver, solver_options=solver_options)

    def with_constraints(self, *constraints: Given | Iterable[Given]) -> Policy:
        """The same policy under further constraints.

        Parameters
        ----------
        *constraints : Constraint, function, or iterable of these
            The further constraints, as `Policy` takes them.

        Returns
        -------
        Policy
            If this policy has a name, the new one is named after it and the further constraints.

        Raises
        ------
        InvalidBlock
            If one is not a constraint.

        Examples
        --------
        >>> import fairopt as fo
        >>> most = fo.MostTasks().with_constraints(fo.SharingIncentive())
        >>> most.name
        'most tasks under SharingIncentive()'
        >>> most.allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
        array([ 2.5, 12.5])
        """
        further = tuple(one for given in constraints for one in constraints_of(given))
        name = f"{self.name} under {', '.join(map(str, further))}" if self.name and further else self.name
        return Policy(self.objective, (*self.constraints, *further), name)

    def problem(self, instance: Instance) -> cp.Problem:
        """The policy as a CVXPY problem in natural units, to read, change and solve.

        Parameters
        ----------
        instance : Instance
            Users and servers.

        Returns
        -------
        cvxpy.Problem
            It has a variable ``tasks`` of shape (n_users,) on one server or (n_users, n_servers) on several, and if
            bundles are decided a variable ``bundles`` of shape (n_users, n_servers * n_resources). For `Leximin` it is
            the first level, for tiers the first tier, and for `FairnessEfficiency` with beta <= 1 the logarithm of the
            measure.

        Examples
        --------
        >>> import fairopt as fo
        >>> problem = fo.MostTasks().problem(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
        >>> round(float(problem.solve(solver="HIGHS")), 6)
        25.0
        """
        return later("fairopt.solve.form.problem:natural_problem")(self, instance)

    def certify(self, problem: cp.Problem, instance: Instance) -> Allocation:
        """Certify the answer of a problem that `problem` made and the user solved, possibly after changes.

        Parameters
        ----------
        problem : cvxpy.Problem
            Solved, with the variable ``tasks``; constraints may be added, and the objective replaced.
        instance : Instance
            The instance that was given to `problem`.

        Returns
        -------
        Allocation
            Optimal for the problem and feasible for the instance. Its ``policy`` is this one if the problem is
            unchanged (for `Leximin` and tiers their first level, which is all that is proved); otherwise it states
            that the problem was changed by hand.

        Raises
        ------
        NotCertified
            If the problem is not solved, or its answer cannot be proved optimal.

        Examples
        --------
        >>> import cvxpy as cp, fairopt as fo
        >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
        >>> problem = fo.MostTasks().problem(cluster)
        >>> tasks = problem.var_dict["tasks"]
        >>> changed = cp.Problem(problem.objective, [*problem.constraints, tasks[1] <= 6 * tasks[0]])
        >>> _ = changed.solve(solver="HIGHS")
        >>> answer = fo.MostTasks().certify(changed, cluster)
        >>> answer.tasks.round(4), answer.policy.name
        (array([ 2.2727, 13.6364]), 'most tasks as changed by hand')
        """
        return later("fairopt.solve.solved_problem:read")(self, problem, instance)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        return (self.objective, self.constraints) == (other.objective, other.constraints)

    def __hash__(self) -> int:
        return hash((self.objective, self.constraints))

    def __repr__(self) -> str:
        return self._text_by(repr)

    def __str__(self) -> str:
        """The policy in names and messages, with long parameters of blocks shortened."""
        return self._text_by(str)

    def _text_by(self, text: Callable[[object], str]) -> str:
        words = [text(self.objective)]
        if self.constraints:
            words.append(f"constraints=[{', '.join(map(text, self.constraints))}]")
        if self.name is not None:
            words.append(f"name={self.name!r}")
        return f"Policy({', '.join(words)})"


def is_mechanism(given: Any) -> bool:
    """Whether an object has ``allocate``; classes and functions do not count, since they only make such objects."""
    return callable(getattr(given, "allocate", None)) and not (inspect.isclass(given) or inspect.isfunction(given))


def accepted(mechanism: Any, **options: Any) -> dict[str, Any]:
    """Options for a mechanism's ``allocate`` other than None, False and "auto".

    `InvalidBlock` if it does not take one, `OutOfDomain` if that is ``integral``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.policies.accepted(fo.HDRF(), time_limit=5, solver=None, integral=False)
    {'time_limit': 5}
    """
    given = {key: value for key, value in options.items() if not (value is None or value is False or value == "auto")}
    parameters = inspect.signature(mechanism.allocate).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for key in given if not open_ended else ():
        if key not in parameters:
            if key == "integral":
                refuse_whole(label(mechanism), given[key])
            raise InvalidBlock(f"{label(mechanism)} takes no {key}; leave it out")
    return given


def makes_policies(make: _Make) -> _Make:
    """Give a function that makes policies an ``allocate`` that raises, to catch ``DRF.allocate(...)``."""
    name = make.__name__

    def allocate(*_: Any, **__: Any) -> NoReturn:
        call = f"{name}({'...' if inspect.signature(make).parameters else ''})"
        raise InvalidBlock(f"{name} is a function that makes a policy; call it first: {call}.allocate(instance)")

    vars(make)["allocate"] = allocate
    return make
