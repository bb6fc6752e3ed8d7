"""Profitable lies: what a user could gain by reporting other demands than its own."""

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
    tasks_truly,
    true_tasks,
)
from fairopt.properties.names import given_labels
from fairopt.properties.uncertainty import error_bound

__all__ = ["Lies", "Misreport", "Tally", "best_lies", "best_misreport", "true_tasks", "verified_misreport"]

Float = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Misreport:
    """A lie and what it brings.

    Attributes
    ----------
    user : str
        Who lies.
    demands : tuple
        What it reports, units per task by resource; a tuple of those by server where demands differ by server.
    gain : float
        True tasks under the lie over those under the truth, less 1; infinite where the truth brings none.
    truthful, lying : float
        True tasks under either.
    family : str
        Which search found it; see `fairopt.properties.misreports.families`.
    resources, servers : tuple of str
        Labels to say it in; without any, numbers are in the order of the instance.

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
        """A lie in the words of an instance."""
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
        percent = "from none" if np.isinf(self.gain) else f"+{self.gain:.3%}"
        runs = f"{self.lying:.6g} tasks instead of {self.truthful:.6g}"
        return f"user {self.user!r} reports ({told}) and runs {runs} ({percent})"


@dataclass(frozen=True, eq=False)
class Lies:
    """The best lie found for every user of many pools.

    Attributes
    ----------
    gain : ndarray of shape (n_instances, n_users)
        Relative, as in `Misreport`; 0 where no lie pays, NaN where the truth has no answer. Not verified: what is
        above the noise has to be solved again before it is believed (`verified_misreport`).
    demands : ndarray of shape (n_instances, n_users, n_resources)
        What each reports; the truth where no lie pays.
    family : ndarray of str of shape (n_instances, n_users)
        Which search found it; empty where no lie pays.
    truthful : ndarray of shape (n_instances, n_users)
        True tasks under the truth.
    outside : ndarray of bool of shape (n_instances,)
        Where the mechanism is not defined.
    tallies : dict of str to Tally
        By family.
    faults : tuple of (int, ndarray of shape (n_users, n_resources), Exception)
        Instances, with the demands reported, on which the mechanism failed.
    """

    gain: Float
    demands: Float
    family: NDArray[np.str_]
    truthful: Float
    outside: Bool
    tallies: dict[str, Tally]
    faults: tuple[tuple[int, Float, Exception], ...]


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

    The lie replaces the user's demands; it receives what the mechanism then gives it and runs what its true demands
    allow. Tried in this order: the whole row scaled; small whole numbers; one number near co-dominance; single numbers
    up and down; zeros made positive and back; random ones; then a climb from the best of all. Task limits, weights and
    eligibility are not lied about.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        The truth. On one pool reports are tried in batches, where the mechanism allows; on several servers one by one,
        with demands by server lied about number by number and server by server as well.
    user : str or int
        Who lies, by label or index.
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
        None where no lie was found that pays more than the noise of how the mechanism is solved. A lie counts after
        truth and lie were both solved again by themselves, with proof, and the gain is above 1e-5 and above what their
        gaps leave open.

    Raises
    ------
    InvalidBlock
        If there is no such user, or a budget below 1.
    OutOfDomain
        If the mechanism is not defined for the truth.
    Exception
        Whatever the mechanism raises for the truth. Where it fails for a lie, that lie is passed over.

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
    truthful = tasks_truly(checked(mechanism, instance), instance, j)
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
    """Solve truth and lie again, each by itself: the lie, or None unless it pays beyond doubt.

    The gain has to be above 1e-5, and above what the gaps of the two certificates leave open.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.misreports.best import verified_misreport
    >>> cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"])
    >>> print(verified_misreport(fo.FDS(1), cluster, "b", [2, 3]))
    user 'b' reports (2, 3) and runs 0.444444 tasks instead of 0.333333 (+33.333%)
    """
    require_instance(instance)
    j = _user_index(instance, user)
    told = np.asarray(demands, dtype=float)
    try:
        truth, lie = checked(mechanism, instance), checked(mechanism, lying_instance(instance, j, told))
    except FairoptError:
        return None
    truthful, lying = tasks_truly(truth, instance, j), tasks_truly(lie, instance, j)
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
    """Search for a lie that pays, for every user of many pools at once: what makes rare violations findable.

    Arguments are those of `best_misreport`. About so many ``tries`` are made for each user: three quarters by the
    families in turn, and the last quarter by the climb from the best of these.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.misreports.best import best_lies
    >>> found = best_lies(fo.FDS(1), Batch.of([[[1, 3], [3, 1]], [[1, 1], [1, 1]]], [2, 4]))
    >>> (found.gain > 1e-5).any(axis=1)
    array([ True, False])
    """
    for family in families:
        if family not in FAMILIES:
            raise InvalidBlock(f"no family of lies {family!r}; {nearest(family, FAMILIES)}")
    if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
        raise InvalidBlock(f"tries is {tries!r}; give a whole number of reports to try for each user, 1 or more")
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
