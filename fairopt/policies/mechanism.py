"""What notions that are not made of blocks have in common: how they are called, and what they refuse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NoReturn

from fairopt.allocation import Allocation
from fairopt.blocks.guarantees import refuse_guarantees
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock, begin
from fairopt.runtime.display import label
from fairopt.solve.form.no_whole_task import refuse_whole
from fairopt.solve.form.program import require_instance


class NotOfBlocks:
    """A mechanism that takes no constraints, such as `HDRF`."""

    _name: ClassVar[str]
    _keeps_limits: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return self._name

    def with_constraints(self, *constraints: Any) -> NoReturn:
        """Raise `InvalidBlock`, with what to use instead.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.HDRF().with_constraints(fo.MaxShare({"vision": 0.3}, fo.OfTeam()))
        Traceback (most recent call last):
            ...
        fairopt.errors.InvalidBlock: HDRF is not made of blocks, so constraints cannot be added to it; it keeps ...
        """
        raise InvalidBlock(no_constraints(self))


class Mechanism(NotOfBlocks, ABC):
    """A mechanism of divisible tasks without guarantees and limits."""

    def allocate(
        self,
        instance: Instance,
        *,
        time_limit: float | None = None,
        integral: bool | Literal["rounded"] = False,
    ) -> Allocation:
        """Find the allocation, and certify it.

        Parameters
        ----------
        instance : Instance
            Users and servers.
        time_limit : float, optional
            Seconds for the whole call.
        integral : bool or "rounded", default False
            Only False.

        Returns
        -------
        Allocation
            The class says what its objective and its gap are.

        Raises
        ------
        OutOfDomain
            If whole tasks are requested, or the instance has guarantees, limits, or servers that the notion is not
            defined for.
        NotCertified
            If the answer could not be certified; holds the best one.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.PSDSF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).certificate.ok
        True
        """
        clock = begin(time_limit)
        self._refuse(instance, integral)
        return self._solved(instance, clock)

    def _refuse(self, instance: Instance, integral: object = False) -> None:
        """Refuse what the mechanism is not defined for."""
        require_instance(instance)
        refuse_whole(self.name, integral)
        refuse_guarantees(instance, self.name)

    @abstractmethod
    def _solved(self, instance: Instance, clock: Clock) -> Allocation:
        """The certified allocation, on the clock of the call."""


class BySolvers(Mechanism):
    """A mechanism whose answers are those of policies, so that it takes their solvers."""

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
    ) -> Allocation:
        """Find the allocation, and certify it.

        Parameters
        ----------
        instance, time_limit, integral
            As in `PSDSF.allocate`, with what it returns and when it raises `OutOfDomain` and `NotCertified`.
        method, solver, solver_options, verbose
            As in `Policy.allocate`, whose other errors it raises too.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.BottleneckFairness().allocate(fo.Instance([[1, 0], [1, 1]], [1, 1], weights=[1, 3]))
        >>> fo.policies.bottleneck_fairness(a).holds
        True
        """
        clock = begin(time_limit)
        self._refuse(instance, integral)
        options = {"method": method, "solver": solver, "solver_options": solver_options, "verbose": verbose}
        return clock.run(lambda: self._solved(instance, clock, **options))

    @abstractmethod
    def _solved(self, instance: Instance, clock: Clock, **options: Any) -> Allocation: ...


def unproved(instance: Instance, tasks: Float, mechanism: Any, *, method: str, note: str) -> Allocation:
    """An allocation of a mechanism without an objective, whose certificate shows feasibility only.

    Parameters
    ----------
    instance : Instance
    tasks : ndarray of shape (n_users, n_servers)
    mechanism : Any
        What is named as its policy.
    method, note : str
        Of the certificate.

    Examples
    --------
    >>> import fairopt as fo, numpy as np
    >>> pool = fo.Instance([[2], [1]], [6])
    >>> answer = fo.policies.unproved(pool, np.array([[1.0], [4.0]]), "first come", method="by hand", note="")
    >>> answer.certificate.violation, answer.certificate.ok
    (0.0, False)
    """
    return gate.of_nothing(instance, tasks, mechanism, method=method, note=note)


def require_pool(instance: Instance, notion: str) -> None:
    """`OutOfDomain` if servers differ."""
    if instance.n_users and instance.merged().n_servers > 1:
        raise OutOfDomain(
            f"{notion} is defined for one pool, and {instance!r} has servers that differ; use instance.pooled()"
        )


def no_constraints(mechanism: Any) -> str:
    """That a mechanism takes no constraints, and what to use instead."""
    keeps = (
        "it keeps limits of the instance on what users and teams take, as in instance.replace(limits=[{'resource': "
        "'gpu', 'amount': 16, 'of': ['vision']}]) or --limit vision=16gpu; or "
        if getattr(mechanism, "_keeps_limits", False)
        else ""
    )
    name = label(mechanism)
    return f"{name} is not made of blocks, so constraints cannot be added to it; {keeps}use a policy such as drf"
