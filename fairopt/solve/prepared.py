"""Solving again with other capacities, weights or task limits, from the last prices.

With A(C, w, T) the answer of a policy at capacities C, weights w and limits T, this is A at other numbers, computed and
proved as if anew: nothing of the last answer is evidence. Its prices are a start only, for alpha-fairness on a pool,
where Newton's method then takes fewer passes; they are kept in natural units, as levels change with the instance.

Cone programs are written anew, without CVXPY's chain of reductions: for 3 to 300 users on 1 to 5 servers that took 0.5
to 1.5 times as long as a program kept compiled with parameters for what may change. Parameters would also have to stand
where coefficients of shares do, which depend on capacities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float
from fairopt.solve import dispatch
from fairopt.solve.form import solvers
from fairopt.solve.form.program import require_instance


class Prepared:
    """A policy on an instance of which only capacities, weights and task limits will change.

    Answers and certificates are those of ``policy.allocate`` on the changed instance. On one pool alpha-fairness starts
    from the prices of the last answer.

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
            The certified allocation of ``instance.replace(...)``.

        Raises
        ------
        InvalidInstance
            As `Instance` does.
        NotCertified, Infeasible, OutOfDomain, Unbounded, SolverUnavailable
            As ``policy.allocate`` does. The next call is not affected.
        """
        numbers = {"capacities": capacities, "weights": weights, "task_limits": task_limits}
        changes = {name: value for name, value in numbers.items() if value is not None}
        instance = self.instance.replace(**changes) if changes else self.instance
        allocation = dispatch.allocate(
            self.policy,
            instance,
            solver=self._solver,
            solver_options=self._options,
            time_limit=time_limit,
            verbose=verbose,
            start=self._start,
        )
        self._start = allocation.evidence_prices  # None without: the next call then starts as any other
        return allocation

    def __repr__(self) -> str:
        return f"Prepared({self.policy}, {self.instance!r})"
