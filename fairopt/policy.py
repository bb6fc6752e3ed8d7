"""A policy: an objective over shares plus constraints. ``.allocate(instance)`` solves it, ``.problem`` shows it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import cvxpy as cp

from fairopt.allocation import Allocation
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.objectives import Objective
from fairopt.errors import InvalidBlock
from fairopt.formulation.problem import natural_problem
from fairopt.instance import Instance
from fairopt.methods import dispatch
from fairopt.methods.prepared import Prepared
from fairopt.proofs.read import read_problem

__all__ = ["Policy", "accepted", "label"]


class Policy:
    """A fairness notion: what to maximise, and what must hold.

    Parameters
    ----------
    objective : Objective
        What to maximise.
    constraints : iterable of Constraint, optional
        What must hold beside capacities, task limits and eligibility, which always do.
    name : str, optional
        For tables and messages.

    Raises
    ------
    InvalidBlock
        If something is no block.

    Examples
    --------
    >>> import fairopt as fo
    >>> mine = fo.Policy(
    ...     fo.AlphaFair(1, fo.KDominantShare(2)) + 0.1 * fo.Total(fo.Tasks()),
    ...     constraints=[fo.SharingIncentive(), fo.EnvyFree()],
    ... )
    >>> a = mine.allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    >>> a.certificate.ok
    True
    """

    def __init__(self, objective: Objective, constraints: Iterable[Constraint] = (), name: str | None = None) -> None:
        if not isinstance(objective, Objective):
            raise InvalidBlock(
                f"Policy({objective!r}): give an objective, such as Leximin(DominantShare()) or AlphaFair(1)"
            )
        if isinstance(constraints, Constraint):
            constraints = (constraints,)
        if not isinstance(constraints, Iterable):
            raise InvalidBlock(f"constraints are {constraints!r}; give a list of blocks such as [MinShare(0.1)]")
        held = tuple(constraints)
        for constraint in held:
            if not isinstance(constraint, Constraint):
                raise InvalidBlock(
                    f"{constraint!r} among the constraints is no constraint; give blocks such as MinShare(0.1)"
                )
        self.objective = objective
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
    ) -> Allocation:
        """Find the best allocation, and prove it.

        Parameters
        ----------
        instance : Instance
            Users and servers.
        method : {"auto", "cone", "water-filling", "prices", "levels", "linear", "closed"}, default "auto"
            ``auto`` takes the first method that is exact; ``cone`` forces the general one.
        solver : str, optional
            Any name in ``cvxpy.installed_solvers()``: forces the cone method with that solver, and never falls back.
        solver_options : dict, optional
            The solver's own options, over the tight tolerances asked for by default: with ``solver="HIGHS"``, for
            example, ``{"solver": "pdlp"}`` or ``{"solver": "ipm", "run_crossover": "off"}``. Faster methods than the
            general one do not ask a solver, so give one too, or ``method="cone"``.
        time_limit : float, optional
            Seconds for the whole call.
        verbose : bool, default False
            Let solvers print.

        Returns
        -------
        Allocation
            With a certificate within tolerance; never without.

        Raises
        ------
        NotCertified
            If no answer could be proved right; holds the best found and what was tried.
        Infeasible
            If the constraints conflict; names an irreducible set of them.
        OutOfDomain, NotConcave, Unbounded, SolverUnavailable
            See `fairopt.errors`.

        Notes
        -----
        `fairopt.progress` says how far it has come. Ctrl-C raises ``KeyboardInterrupt``: an allocation comes whole and
        proved or not at all, so nothing of it could be kept, and the next call is not affected. ``time_limit`` ends it
        with `NotCertified`, which holds the best found.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
        >>> fo.KDF(k=2).allocate(cluster, solver="CLARABEL").tasks.round(4)
        array([ 1.9231, 15.3846])
        """
        return dispatch.allocate(
            self, instance, method=method, solver=solver, solver_options=solver_options,
            time_limit=time_limit, verbose=verbose,
        )  # fmt: skip

    def prepare(
        self, instance: Instance, *, solver: str | None = None, solver_options: Mapping[str, Any] | None = None
    ) -> Prepared:
        """Keep what can be kept for solving again when only capacities, weights or task limits change.

        Parameters
        ----------
        instance : Instance
            Users and servers.
        solver : str, optional
            As in `allocate`.
        solver_options : dict, optional
            As in `allocate`.

        Returns
        -------
        Prepared
            Whose ``allocate(capacities=, weights=, task_limits=)`` answers as `allocate` would.

        Examples
        --------
        >>> import fairopt as fo
        >>> ready = fo.FDS(1).prepare(fo.Instance([[2, 3], [2, 1]], [6, 4]))
        >>> ready.allocate().tasks.round(4)
        array([0.6667, 2.    ])
        >>> ready.allocate(capacities=[12, 8]).tasks.round(4)
        array([1.3333, 4.    ])
        """
        return Prepared(self, instance, solver=solver, solver_options=solver_options)

    def with_constraints(self, *constraints: Constraint) -> Policy:
        """The same policy under further constraints.

        Parameters
        ----------
        *constraints : Constraint
            Beside those that it has.

        Returns
        -------
        Policy
            Named after this one, if that has a name, and the further constraints.

        Raises
        ------
        InvalidBlock
            If one is not a constraint.

        Examples
        --------
        >>> import fairopt as fo
        >>> most = fo.NoFairness().with_constraints(fo.SharingIncentive())
        >>> most.name
        'most tasks under SharingIncentive()'
        >>> most.allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
        array([ 2.5, 12.5])
        """
        name = self.name and f"{self.name} under {', '.join(map(repr, constraints))}"
        return Policy(self.objective, (*self.constraints, *constraints), name)

    def problem(self, instance: Instance) -> cp.Problem:
        """The policy as a CVXPY problem in natural units, to read, change and solve.

        Parameters
        ----------
        instance : Instance
            Users and servers.

        Returns
        -------
        cvxpy.Problem
            In a variable named "tasks", of shape (n_users,) on one server and (n_users, n_servers) on several; where
            bundles are decided, in one named "bundles" of shape (n_users, n_servers * n_resources) as well. The
            first level for `Leximin`, the first tier for tiers; the logarithm of the measure for
            `FairnessEfficiency` below beta = 1.

        Examples
        --------
        >>> import fairopt as fo
        >>> problem = fo.NoFairness().problem(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
        >>> round(float(problem.solve(solver="HIGHS")), 6)
        25.0
        """
        return natural_problem(self, instance)

    def read(self, problem: cp.Problem, instance: Instance) -> Allocation:
        """Certify the answer of a problem that `problem` made, solved and perhaps changed by the user.

        Parameters
        ----------
        problem : cvxpy.Problem
            Solved; holds the variable named "tasks". Constraints may have been added, and the objective replaced.
        instance : Instance
            What `problem` was made from.

        Returns
        -------
        Allocation
            Optimal for the problem as it is (for `Leximin` and tiers: for its first level), feasible for the instance.

        Raises
        ------
        NotCertified
            If it is not solved, or its answer cannot be proved right.

        Examples
        --------
        >>> import cvxpy as cp, fairopt as fo
        >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
        >>> problem = fo.NoFairness().problem(cluster)
        >>> tasks = problem.var_dict["tasks"]
        >>> changed = cp.Problem(problem.objective, [*problem.constraints, tasks[1] <= 6 * tasks[0]])
        >>> _ = changed.solve(solver="HIGHS")
        >>> fo.NoFairness().read(changed, cluster).tasks.round(4)
        array([ 2.2727, 13.6364])
        """
        return read_problem(self, problem, instance)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        return (self.objective, self.constraints) == (other.objective, other.constraints)

    def __hash__(self) -> int:
        return hash((self.objective, self.constraints))

    def __repr__(self) -> str:
        words = [repr(self.objective)]
        if self.constraints:
            words.append(f"constraints=[{', '.join(map(repr, self.constraints))}]")
        if self.name is not None:
            words.append(f"name={self.name!r}")
        return f"Policy({', '.join(words)})"


def label(mechanism: Any) -> str:
    """What to call a mechanism in tables and messages.

    Parameters
    ----------
    mechanism : Policy or other
        Anything with ``.allocate(instance)``.

    Returns
    -------
    str
        Its name, else its repr; its class where that says no more than where it lies in memory.
    """
    if name := getattr(mechanism, "name", None):
        return str(name)
    text = repr(mechanism)
    return type(mechanism).__name__ if text == object.__repr__(mechanism) else text


def accepted(mechanism: Any, **options: Any) -> dict[str, Any]:
    """Options for a mechanism's ``allocate`` that are not left at their defaults, so that any mechanism will do.

    Parameters
    ----------
    mechanism : Policy or other
        Anything with ``.allocate(instance)``.
    **options
        None, False and "auto" are defaults.

    Returns
    -------
    dict

    Raises
    ------
    InvalidBlock
        If it does not take one that was given.
    """
    given = {key: value for key, value in options.items() if not (value is None or value is False or value == "auto")}
    parameters = inspect.signature(mechanism.allocate).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for key in given if not open_ended else ():
        if key not in parameters:
            raise InvalidBlock(f"{label(mechanism)} takes no {key}; leave it out")
    return given
