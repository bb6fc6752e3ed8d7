"""Profitable misreports: what a user gains by reporting other demands than its own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.errors import FairoptError, InvalidBlock, InvalidInstance, nearest
from fairopt.formulation.batch import Batch, is_one_pool
from fairopt.formulation.program import require_instance
from fairopt.instance import Instance
from fairopt.progress import by_itself
from fairopt.properties.answers import checked, outcomes_of
from fairopt.properties.misreports.families import FAMILIES
from fairopt.properties.misreports.search import (
    FLOOR,
    NOISE,
    Tally,
    lying_instance,
    search_on_pools,
    search_on_servers,
    tasks_of_everything,
    tasks_on,
    true_tasks,
)
from fairopt.properties.names import given_labels, zero_if_noise
from fairopt.properties.uncertainty import error_bound

__all__ = ["Lies", "Misreport", "Tally", "best_lies", "best_misreport", "true_tasks", "verified_misreport"]

Float = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Misreport:
    """A lie of a user, and what it gains by it.

    Attributes
    ----------
    user : str
        The user who lies.
    demands : tuple
        The demands that it reports, by resource; a tuple of those by server where demands differ by server.
    gain : float
        True tasks under the lie over those under the truth, less 1; infinite where the truth brings none.
    truthful, lying : float
        True tasks under either.
    family : str
        The search that found it; see `fairopt.properties.misreports.families`.
    resources, servers : tuple of str
        Labels for the sentence; without any, numbers are in the order of the instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"], resources=["cpu", "memory"])
    >>> print(fo.best_misreport(fo.FDS(1), cluster, "b"))
    user 'b' reports (cpu 2, memory 3) and runs 0.444444 tasks instead of 0.333333 (+33.333%)
    """

    user: str
    demands: tuple[Any, ...]
    gain: float
    truthful: float
    lying: float
    family: str
    resources: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()

    @classmethod
    def on(
        cls, instance: Instance, user: int, demands: tuple[Any, ...], *, gain: float, truthful: float, lying: float,
        family: str,
    ) -> Misreport:  # fmt: skip
        """A lie with the labels of an instance."""
        names = (given_labels(instance.resources, "resource"), given_labels(instance.servers, "server"))
        return cls(instance.users[user], demands, gain, truthful, lying, family, *names)

    def _row(self, row: tuple[float, ...]) -> str:
        words = [f"{d:.6g}" for d in row]
        return ", ".join(map(" ".join, zip(self.resources, words, strict=True)) if self.resources else words)

    def __str__(self) -> str:
        if self.demands and isinstance(self.demands[0], tuple):
            rows = [f"({self._row(row)})" for row in self.demands]
            told = ", ".join(map(" ".join, zip(self.servers, rows, strict=True)) if self.servers else rows)
        else:
            told = self._row(self.demands)
        truthful = zero_if_noise(self.truthful, self.lying)
        by = f"+{self.gain:.3%}" if truthful else "from none"
        return f"user {self.user!r} reports ({told}) and runs {self.lying:.6g} tasks instead of {truthful:.6g} ({by})"


@dataclass(frozen=True, eq=False)
class Lies:
    """The best lie found for every user of many pools; all arrays by instance and user."""

    # Relative, as in `Misreport`; 0 where no lie pays, NaN where the truth has no answer. Not verified: a gain above
    # the noise has to be solved again before it is believed (`verified_misreport`).
    gain: Float
    demands: Float  # what each user reports: the truth where no lie pays, (n_instances, n_users, n_resources)
    family: NDArray[np.str_]  # the search that found it; empty where no lie pays
    truthful: Float  # true tasks under the truth
    outside: Bool  # where the mechanism is not defined, (n_instances,)
    tallies: dict[str, Tally]  # by family
    faults: tuple[tuple[int, Float, Exception], ...]  # instances on which the mechanism failed, with reported demands


def best_misreport(
    mechanism: Any,
    instance: Instance,
    user: str | int,
    *,
    boosting: bool = False,
    positive: bool = False,
    seed: int = 0,
    budget: int | None = None,
) -> Misreport | None:
    """Search for the lie that pays a user most: other demands than its own.

    The user receives what the mechanism gives for the reported demands and runs what its true demands allow. Reports
    are tried in this order: the whole row scaled; small whole numbers; one number near co-dominance; single numbers up
    and down; zeros made positive and back; random ones; then a climb from the best. Task limits, weights and
    eligibility are always reported as they are.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        The truth. On one pool reports are tried in batches, where the mechanism allows it; on several servers one by
        one, where demands by server change number by number and server by server as well.
    user : str or int
        The user who lies, by label or index.
    boosting : bool, default False
        Only reports of at least the true demands.
    positive : bool, default False
        Only reports that are positive wherever the truth is.
    seed : int, default 0
        For random reports.
    budget : int, optional
        About how many reports to try: by default 3,000 on one pool and 300 on several servers.

    Returns
    -------
    Misreport or None
        None where no lie was found that pays more than the numerical noise. A lie counts if truth and lie, solved again
        one by one with certificates, show a gain above 1e-5 and above what their gaps leave open.

    Raises
    ------
    InvalidBlock
        If there is no such user, or a budget below 1.
    OutOfDomain
        If the mechanism is not defined for the truth. Any exception of the mechanism for the truth is raised; a lie for
        which it fails is left out.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.misreports.best import best_misreport
    >>> cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"])
    >>> lie = best_misreport(fo.FDS(1), cluster, "b")
    >>> print(lie)
    user 'b' reports (2, 3) and runs 0.444444 tasks instead of 0.333333 (+33.333%)
    >>> best_misreport(fo.DRF(), cluster, "b") is None
    True
    """
    require_instance(instance)
    j = _user_index(instance, user)
    one_pool = is_one_pool(instance)
    tries = budget if budget is not None else 3000 if one_pool else 300
    if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
        raise InvalidBlock(f"budget is {budget!r}; give a whole number of reports to try, 1 or more")
    truthful = tasks_on(checked(mechanism, instance).bundles[j], instance, j)
    if one_pool:
        search = search_on_pools(mechanism, Batch.of_instance(instance), np.array([j]), np.array([truthful]))
    else:
        search = search_on_servers(mechanism, instance, j, truthful)
    with by_itself() as tell:
        search.run(FAMILIES, tries, boosting, positive, np.random.default_rng(seed), tell=tell)
        for told, family in search.promising():
            tell(f"a lie of {instance.users[j]!r} is solved again", None, None)
            demands = told.reshape(instance.demands.shape[1:])
            found = verified_misreport(mechanism, instance, j, demands, family)
            if found is not None:
                return found
    return None


def verified_misreport(
    mechanism: Any, instance: Instance, user: str | int, demands: ArrayLike, family: str = ""
) -> Misreport | None:
    """Solve truth and lie again, one by one: the lie, or None unless it gains beyond noise and both gaps."""
    require_instance(instance)
    j = _user_index(instance, user)
    told = np.asarray(demands, dtype=float)
    try:
        truth, lie = checked(mechanism, instance), checked(mechanism, lying_instance(instance, j, told))
    except FairoptError:
        return None
    truthful, lying = tasks_on(truth.bundles[j], instance, j), tasks_on(lie.bundles[j], instance, j)
    unsure = error_bound(truth)[j] * truthful + error_bound(lie)[j] * lying
    if lying - truthful <= max(NOISE * truthful, FLOOR * tasks_of_everything(instance, j), unsure):
        return None
    gain = lying / truthful - 1.0 if truthful > 0 else np.inf
    said: list[Any] = told.tolist()
    row = tuple(tuple(r) if isinstance(r, list) else r for r in said)
    return Misreport.on(instance, j, row, gain=float(gain), truthful=truthful, lying=lying, family=family)


def best_lies(
    mechanism: Any,
    pools: Batch,
    *,
    boosting: bool = False,
    positive: bool = False,
    tries: int = 400,
    families: tuple[str, ...] = FAMILIES,
    seed: int = 0,
) -> Lies:
    """Search for the lie that pays most, for every user of many pools at once; options as in `best_misreport`.

    Of about ``tries`` reports for each user, three quarters are made by the families in turn, and the others by the
    climb from the best of these.
    """
    need, limits = pools.demands, pools.limits
    truth = outcomes_of(mechanism, pools)
    truthful = np.where(truth.ok[:, None], true_tasks(truth.received(need), need, limits), np.nan)
    b, user = np.nonzero(truth.ok[:, None] & (limits > 0))
    search = search_on_pools(mechanism, pools[b], user, truthful[b, user])
    with by_itself() as tell:
        search.run(families, tries, boosting, positive, np.random.default_rng(seed), tell)
    gain = np.where(np.isnan(truthful), np.nan, 0.0)
    told, family_of = need.copy(), np.full(limits.shape, "", dtype="<U16")
    gain[b, user], told[b, user], family_of[b, user] = search.gain, search.best, search.family
    faults = [(k, need[k], error) for k, error in truth.faults]
    for case, report, error in search.faults:
        stated = need[b[case]].copy()
        stated[user[case]] = report
        faults.append((int(b[case]), stated, error))
    return Lies(gain, told, family_of, truthful, truth.outside, search.tallies, tuple(faults))


def _user_index(instance: Instance, user: str | int) -> int:
    """`Instance.user_index`, with another error, and True is not a user."""
    if not isinstance(user, bool):
        with contextlib.suppress(InvalidInstance):
            return instance.user_index(user)
    raise InvalidBlock(f"no user {user!r}; {nearest(user, instance.users)}")
