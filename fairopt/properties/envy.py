"""Envy: how many more tasks, or how much more work, each user would do on the bundle of another.

Up to 5,000 users all pairs are compared. Beyond that, bounds settle most users: the componentwise maximum of all
bundles, and the budget of the most expensive bundle at some prices. For the other users a k-d tree on logarithms of
bundles finds the best bundle, as the nearest point in the maximum norm; bundles within the rounding error of the
distance are compared exactly (docs/methods/checks.md).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.bundle_model import tasks_within
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.properties.units import first_largest, own_units, quotient
from fairopt.properties.work import Work
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import optimize, spatial
from fairopt.runtime.progress import tell
from fairopt.runtime.threads import one_thread
from fairopt.runtime.tolerances import EPS, NOISE

WHOLE = 5_000  # users up to whom all pairs are compared, and the matrix is kept: 200 MB
BLOCK = 262_144  # pairs compared at a time
NORMAL = float(np.finfo(float).tiny) / EPS  # sums of at least this are accurate to a few EPS
FEW = 64  # up to so many users, comparing them with all bundles is faster than a tree
SMALL = 4  # up to so many users with the same set of servers, several sets are searched together
NEAREST = 4  # bundles asked of the tree: the nearest, and others within the rounding error
LEADERS = 16  # bundles compared with all others at a time, to discard those that they dominate
PROGRESS = 0.1  # a pruning step that settles a smaller part is the last one
SHORT, LONG = 0.05, 0.2  # seconds of one batch of tree queries, between which the clock is checked


@dataclass(frozen=True, eq=False)
class Envy:
    """Which user envies which, and by how much."""

    users: tuple[str, ...]  # labels of the rows and columns
    # How much more user j would run on the bundle of k, at its own weight, relative to its tasks or to those on its own
    # slice, if more: positive where j envies k, at least -1, and 0 on the diagonal; (n_users, n_users). None for more
    # than 5,000 users, and if the time was over.
    matrix: Float | None
    envier: str | None  # the pair with the largest entry off the diagonal; None if no pair was found
    envied: str | None
    would_run: float  # tasks, or work, of the envier on the bundle of the envied, and on its own
    runs: float
    # The largest entry of each row off the diagonal and its column, or -1 and -1; (n_users,). For more than 5,000 users
    # only entries beyond ``above`` are searched for: in other rows ``largest`` is an upper bound, and ``whom`` is -1.
    largest: Float
    whom: Indices
    above: float = -np.inf
    left: int = 0  # users not compared when the time was over

    @property
    def pairs_left(self) -> int:
        """Pairs of users not compared when the time was over."""
        return self.left * (len(self.users) - 1)

    def enviers(self, tol: float) -> Indices:
        """Indices of users found to envy another by more than ``tol``."""
        return np.flatnonzero((self.largest > tol) & (self.whom >= 0))

    def pairs(self, tol: float = 1e-6) -> list[tuple[str, str, float]]:
        """Users who envy by more than ``tol``, the user whom each envies most, and the margin; largest first."""
        if tol < self.above:
            raise InvalidBlock(f"envy up to {self.above:g} was not searched for, and {tol=!r}; check with that tol")
        who = self.enviers(tol)
        order = who[np.argsort(-self.largest[who], kind="stable")]
        return [(self.users[j], self.users[self.whom[j]], float(self.largest[j])) for j in order.tolist()]


@dataclass(frozen=True)
class Counting:
    """How to count the tasks that a user could run on another's bundle."""

    in_whole: bool = False
    less_theirs: bool = False  # without one task of the other, on the server where that matters most
    less_own: bool = False  # without one of the user's own

    def tasks(self, score: Float, limits: Float) -> Float:
        """Tasks that count, given the tasks that fit."""
        if not self.in_whole:
            return np.minimum(score, limits)
        return np.maximum(np.minimum(whole(score), whole(limits)) - float(self.less_own), 0.0)

    def least(self, tasks: Float) -> Float:
        """A lower bound on the tasks that must fit if more than these count."""
        return (tasks + float(self.less_own)) / (1.0 + 2.0 * NOISE) if self.in_whole else tasks


TASKS = Counting()
LESS_ONE_OF_THEIRS = Counting(in_whole=True, less_theirs=True)
LESS_ONE_OWN = Counting(in_whole=True, less_own=True)


def whole(tasks: Float) -> Float:
    """Whole tasks, rounded down but for rounding errors."""
    return np.floor(tasks * (1.0 + NOISE))


def at_own_weights(runs: Float, weights: Float, of_others: Float, limits: Float) -> Float:
    """Tasks on others' bundles (..., users, others), scaled by weights and cut at the users' limits."""
    runs *= weights[..., :, None] / of_others[..., None, :]
    return np.minimum(runs, limits[..., :, None])


def envy(
    allocation: Allocation,
    counting: Counting = TASKS,
    tol: float = 1e-6,
    clock: Clock | None = None,
    work: Work | None = None,
) -> Envy:
    """The envy between all users, at their weights and within their limits, in tasks or in ``work``.

    For more than 5,000 users only envy beyond ``tol`` is searched for. Among equally good bundles a user envies that
    with the most of the first resource, then of the next; then that of the first user.
    """
    search = _Search(allocation, counting, tol, clock or Clock(None), work)
    instance, n, done = allocation.instance, allocation.instance.n_users, 0
    if n > 1:
        sets = _sets(allocation, counting) if work is None else None
        several = search.matrix is None and not instance.derived.everywhere and counting == TASKS
        if sets is not None and several:
            done = search.small_sets(allocation, *sets)
        for group in _groups(allocation, counting, sets, SMALL + 1 if done else 0, work):
            if done and search.clock.late:
                search.left += n - done
                break
            done += len(group.users)
            if search.matrix is None:
                search.run(group)
            else:
                search.compare(group, group.users)
        tell("envy: users", n, n)
    return search.result()


# -- what is compared -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Group:
    """Users who may use the same servers of a bundle.

    ``held`` (n_users, n_parts, n_resources) are bundles per weight: by server, or in one part where the server does not
    matter. ``less_one`` are the same less one task, where its server matters. With ``work`` scores are of work.
    """

    instance: Instance
    counting: Counting
    users: Indices
    weights: Float  # of all users
    held: Float
    less_one: Float | None = None
    work: Work | None = None

    @property
    def in_one_part(self) -> bool:
        """Whether tasks on a bundle are one minimum over resources, not a sum of minima over servers."""
        return self.held.shape[1] == 1

    def needs(self, users: Indices) -> Float:
        """Demands of some users, (k, n_parts, n_resources); infinite where they may not run."""
        if self.held.shape[1] < self.instance.n_servers:
            return self.instance.demands[users][:, None]
        eligible = self.instance.eligible[users][:, :, None]
        return np.where(eligible, self.instance.per_server_demands[users], np.inf)

    def score(self, users: Indices, held: Float | None = None, less_one: Float | None = None) -> Float:
        """Tasks of some users that fit on bundles, by default on all, without limits, or their work: (k, n_bundles).

        Bundles are of shape (n_bundles, n_parts, n_resources), or (k, n_bundles, ...) if they differ by user. The score
        is monotone in the bundle also in floating point.
        """
        needs, weights = self.needs(users), self.weights[users, None]
        held, less_one = (self.held, self.less_one) if held is None else (held, less_one)

        def fits(bundles: Float, s: int) -> Float:
            needed = needs[:, s].any(axis=1, keepdims=True)
            return np.where(needed, weights * tasks_within(bundles[..., s, :], needs[:, None, s]), 0.0)

        if self.in_one_part:
            return fits(held, 0)
        if self.work is not None:
            return self.work.most(np.stack([fits(held, s) for s in range(held.shape[-2])], axis=-1), users)
        score = cost = np.zeros((len(users), held.shape[-3]))
        for s in range(held.shape[-2]):
            here = whole(fits(held, s)) if self.counting.in_whole else fits(held, s)
            score = score + here
            if less_one is not None:
                cost = np.maximum(cost, here - whole(fits(less_one, s)))
        return score - cost


def _sets(allocation: Allocation, counting: Counting) -> tuple[Bool, Indices] | None:
    """Distinct sets of eligible servers (n_sets, n_servers), and that of each user; None if a bundle's server matters.

    Otherwise a user could run the other's tasks on its own servers, wherever they are.
    """
    instance = allocation.instance
    of_demands = allocation.given_bundles is None and instance.demands.ndim == 2
    if not of_demands or (instance.n_servers > 1 and counting.in_whole):
        return None
    if instance.derived.everywhere:
        return np.ones((1, instance.n_servers), dtype=bool), np.zeros(instance.n_users, dtype=np.intp)
    where, group = np.unique(instance.eligible, axis=0, return_inverse=True)
    return where, group.ravel()


def _groups(
    allocation: Allocation, counting: Counting, sets: tuple[Bool, Indices] | None, fewest: int, work: Work | None
) -> Iterator[_Group]:
    """Users in groups of the same servers; sets of servers with fewer than ``fewest`` users are left out."""
    instance, users = allocation.instance, np.arange(allocation.instance.n_users)
    weights, one = instance.weights, instance.n_servers == 1
    per_weight = weights[:, None, None]
    if sets is not None:
        where, group = sets
        by_server = np.ascontiguousarray(allocation.tasks_by_server.T)
        for k in np.flatnonzero(np.bincount(group, minlength=len(where)) >= fewest):
            servers = where[k]
            tasks = allocation.tasks if servers.all() else by_server[servers].sum(axis=0)
            held = (instance.demands * tasks[:, None])[:, None]
            if counting.less_theirs:
                held = np.maximum(held - instance.demands[:, None], 0.0)
            yield _Group(instance, counting, users[group == k], weights, held / per_weight)
        return
    held, less_one = allocation.bundles, None
    if counting.less_theirs:
        less = np.maximum(held - instance.per_server_demands, 0.0)
        held, less_one = (less, None) if one else (held, less / per_weight)
    yield _Group(instance, counting, users, weights, held / per_weight, less_one, work)


# -- the search -----------------------------------------------------------------------------------------------


class _Search:
    """The search for each user's best bundle, and what was found so far; ``tasks`` may be work."""

    def __init__(self, allocation: Allocation, counting: Counting, tol: float, clock: Clock, work: Work | None) -> None:
        self.instance, self.counting, self.clock = allocation.instance, counting, clock
        self.tasks = allocation.tasks if work is None else work.of(allocation.tasks_by_server)
        self.limits = self.instance.task_limits if work is None else np.full(len(self.tasks), np.inf)  # of scores
        self.unit = own_units(self.instance.own_slices if work is None else work.slices, self.tasks)
        n = self.instance.n_users
        self.matrix = np.zeros((n, n)) if n <= WHOLE else None
        self.above = -np.inf if self.matrix is not None else tol
        self.largest, self.whom = np.full(n, np.inf if n > 1 else -1.0), np.full(n, -1, dtype=np.intp)
        self.would = np.zeros(n)
        self.left = 0

    def result(self) -> Envy:
        """The envy found."""
        users, enviers = self.instance.users, np.flatnonzero(self.whom >= 0)
        matrix = None if self.left else self.matrix
        if not len(enviers):
            return Envy(users, matrix, None, None, 0.0, 0.0, self.largest, self.whom, self.above, self.left)
        j = int(enviers[first_largest(self.largest[enviers])])
        would, runs = float(self.would[j]), float(self.tasks[j])
        pair = users[j], users[int(self.whom[j])]
        return Envy(users, matrix, *pair, would, runs, self.largest, self.whom, self.above, self.left)

    def relative(self, users: Indices, score: Float) -> tuple[Float, Float]:
        """Envy of bundles by their scores (k, n_bundles), and the tasks that count."""
        counted = self.counting.tasks(score, self.limits[users, None])
        return quotient(counted - self.tasks[users, None], self.unit[users, None]), counted

    def note(self, users: Indices, whom: Indices, score: Float) -> None:
        """Keep the best bundle of each of some users, if the envy exceeds ``above``."""
        relative, counted = (a[:, 0] for a in self.relative(users, score[:, None]))
        envied = relative > self.above
        who = users[envied]
        self.largest[who], self.whom[who], self.would[who] = relative[envied], whom[envied], counted[envied]
        rest = users[~envied]
        self.largest[rest] = np.minimum(self.largest[rest], self.above)

    def compare(self, group: _Group, users: Indices, bundles: Indices | None = None) -> None:
        """Compare some users of a group with all others, or with given bundles, none of them their own."""
        n = self.instance.n_users if bundles is None else len(bundles)
        step, held = max(1, BLOCK // n), None if bundles is None else group.held[bundles]
        for first in range(0, len(users), step):
            if self.clock.late:
                self.left += len(users) - first
                return
            tell("envy: users", int(users[first]), self.instance.n_users)
            some = users[first : first + step]
            rows, score = np.arange(len(some)), group.score(some, held)
            if self.matrix is not None:
                self.matrix[some] = self.relative(some, score)[0]
                self.matrix[some, some] = 0.0
            if bundles is None:
                score[rows, some] = -np.inf
                best = _largest_of_best(score, group.held)
                self.note(some, best, score[rows, best])
            else:
                best = score.argmax(axis=1)
                self.note(some, bundles[best], score[rows, best])

    def run(self, group: _Group) -> None:
        """Find the envy of a group's users: by bounds, by the tree, then by comparing with all."""
        users = group.users
        most = group.held.max(axis=0)[None], None if group.less_one is None else group.less_one.max(axis=0)[None]
        users = self.settle(users, group.score(users, *most)[:, 0])
        if len(users) > FEW and group.in_one_part:
            own = group.score(users, group.held[users, None])
            own_best = self.relative(users, own)[0][:, 0] > self.above  # could run that much more on its own bundle
            self.nearest(group, users[~own_best])
            users = users[own_best]
        self.compare(group, users)

    @one_thread()
    def small_sets(self, allocation: Allocation, where: Bool, group: Indices) -> int:
        """Find the envy of users whose set of servers few others have, for several sets at once; the number of users.

        A matrix product gives the scores up to rounding; bundles within that of the best are compared exactly.
        """
        instance, n = self.instance, self.instance.n_users
        small = np.flatnonzero((np.bincount(group, minlength=len(where)) <= SMALL)[group])
        weights, step = instance.weights, max(1, BLOCK // n)
        per_weight = np.ascontiguousarray(allocation.tasks_by_server.T) / weights
        eligible = instance.eligible.astype(float)
        error = 1.0 + 4.0 * (instance.n_servers + 8) * EPS
        for first in range(0, len(small), step):
            if self.clock.late:
                self.left += len(small) - first
                break
            tell("envy: users", int(small[first]), n)
            some = small[first : first + step]
            score = eligible[some] @ per_weight
            score *= weights[some, None] * tasks_within(instance.demands, instance.demands[some, None])
            score[np.arange(len(some)), some] = -np.inf
            most = score.max(axis=1)
            envious = self.settle(some, most * error)
            rows = np.searchsorted(some, envious)
            nearly = score[rows] * error >= most[rows, None] / error
            for j, could in zip(envious.tolist(), nearly, strict=True):
                near = np.flatnonzero(could)
                servers, tasks = where[group[j]], allocation.tasks[near]
                if not servers.all():
                    parts = [allocation.tasks_by_server[near, s] for s in np.flatnonzero(servers)]
                    tasks = functools.reduce(np.add, parts)  # in the order of `_groups`, for the same rounding
                held = (instance.demands[near] * tasks[:, None] / weights[near, None])[:, None]
                exact = _Group(instance, self.counting, np.array([j]), weights, held).score(np.array([j]))
                best = _largest_of_best(exact, held)
                self.note(np.array([j]), near[best], exact[0, best])
        return len(small)

    def settle(self, users: Indices, most: Float) -> Indices:
        """Users who may still envy, given upper bounds ``most`` on their scores."""
        bound = self.relative(users, most[:, None])[0][:, 0]
        self.largest[users] = np.minimum(self.largest[users], bound)
        return users[bound > self.above]

    def nearest(self, group: _Group, users: Indices) -> None:
        """Find the envy of users, none of whom scores beyond ``above`` on its own bundle, by the tree."""
        held = group.held[:, 0]
        largest = held.max(axis=0)
        largest[largest <= 0] = 1.0
        users = self.priced(group, users, held / largest, largest)
        if not len(users):
            return
        bundles = _undominated(held, largest)
        least, needs = self.above_which(users), group.needs(users)[:, 0]
        tree = _Tree(held[bundles] / largest, needs, least, group.weights[users], largest)
        unsure, first, size = [users[:0]], 0, NEAREST * 64
        while first < len(users):
            if self.clock.late:
                self.left += len(users) - first
                break
            tell("envy: users", int(users[first]), self.instance.n_users)
            begun, some = time.perf_counter(), slice(first, first + size)
            first += size
            distance, which = tree.query(some)
            near = distance[:, 0] < np.inf
            self.note(users[some][~near], users[some][~near], np.full(int((~near).sum()), -np.inf))
            distance, which, who = distance[near], which[near], users[some][near]
            known = (distance[:, -1] == np.inf) | (distance[:, -1] > distance[:, 0] + 2.0 * tree.error)
            unsure.append(who[~known])
            which, who = which[known], who[known]
            score = group.score(who, held[np.append(bundles, 0)[which], None])
            score[which == len(bundles)] = -np.inf
            best = score.max(axis=1, initial=-np.inf)
            among = np.where(score == best[:, None], which, len(bundles)).min(axis=1, initial=len(bundles))
            self.note(who, bundles[among], best)
            took = time.perf_counter() - begun
            size = 2 * size if took < SHORT else max(size // 2, 1) if took > LONG else size
        self.compare(group, np.concatenate(unsure), bundles)

    def above_which(self, users: Indices) -> Float:
        """Lower bounds on scores that mean envy beyond ``above``."""
        runs, more = self.tasks[users], self.above * self.unit[users]
        return self.counting.least(runs + more - 8.0 * EPS * (np.abs(runs) + more))

    def priced(self, group: _Group, users: Indices, held: Float, largest: Float) -> Indices:
        """Users who may still envy by bounds at prices; the largest amount of each resource is the unit.

        At any prices the tasks that fit on a bundle cost no more than the bundle. The prices are fitted so that the
        users pay alike, per weight, for their tasks.
        """
        m = held.shape[1]
        while len(users):
            per_task = group.needs(users)[:, 0] / largest / group.weights[users, None]
            costs = per_task * self.above_which(users)[:, None]
            costs = costs[np.isfinite(costs).all(axis=1)]
            prices, _ = optimize.nnls(costs.T @ costs, costs.sum(axis=0))
            budget, price = float((held @ prices).max()), per_task @ prices
            bound = np.divide(budget, price, out=np.full(len(users), np.inf), where=price > NORMAL)
            left = self.settle(users, bound * (1.0 + (4 * m + 8) * EPS))
            enough = len(users) - len(left) > PROGRESS * len(users)
            users = left
            if not enough:
                break
        return users


class _Tree:
    """A k-d tree of log bundles; a user's best bundle is the nearest to its log needs shifted up by ``reach``.

    ``held`` (n_bundles, n_resources) are bundles relative to the ``largest`` amounts. User j looks for bundles on which
    more than ``tasks[j]`` fit.
    """

    def __init__(self, held: Float, needs: Float, tasks: Float, weights: Float, largest: Float) -> None:
        bundles = np.log(held, out=np.full(held.shape, np.inf), where=held > 0)
        lowest = bundles.min(initial=0.0)
        with np.errstate(divide="ignore"):
            parts = [np.log(x) for x in (needs, np.maximum(tasks, NORMAL)[:, None], weights[:, None], largest)]
        points = parts[0] + parts[1] - parts[2] - parts[3]
        # needs below all bundles are raised, since distances would lose digits
        points += np.maximum(lowest - 1.0 - points.max(axis=1, keepdims=True), 0.0)
        lowest = min(lowest, points.min(initial=0.0, where=needs > 0))
        nothing = lowest - 2.0  # stands for log 0: below all needs
        self.reach = 2.0 - 2.0 * nothing  # resources that a user does not need never determine its distance
        self.points = np.where(needs > 0, self.reach + points, nothing / 2.0)
        size = sum(float(np.abs(part[np.isfinite(part)]).max(initial=0.0)) for part in parts)
        self.error = 16.0 * EPS * (self.reach + size)  # of distances
        bundles[held <= 0] = nothing
        # for 1e6 bundles of one price a query took 7 microseconds, and 580 with balanced nodes
        self.tree = spatial.cKDTree(bundles, balanced_tree=False, compact_nodes=False)

    def query(self, users: slice) -> tuple[Float, Indices]:
        """Distances of the nearest bundles, and their positions; infinite for bundles that are too small."""
        furthest = self.reach + 2.0 * self.error
        nearest: Any = self.tree.query(self.points[users], k=NEAREST, p=np.inf, distance_upper_bound=furthest)
        return nearest


def _largest_of_best(score: Float, held: Float) -> Indices:
    """The bundle with the best score (k, n_bundles); ties go to the most of the first resource, then of the next."""
    best = score == score.max(axis=1, keepdims=True)
    several = np.flatnonzero(best.sum(axis=1) > 1)
    for amounts in held.reshape(len(held), -1).T if len(several) else ():
        among = np.where(best[several], amounts, -np.inf)
        best[several] = among == among.max(axis=1, keepdims=True)
    return best.argmax(axis=1)


def _undominated(held: Float, largest: Float) -> Indices:
    """Indices of distinct bundles (n_bundles, n_resources) without most dominated ones, in the order of ties.

    Bundles with the largest products are compared with all others, as long as that discards many.
    """
    with np.errstate(divide="ignore"):
        size = np.log(held / largest).sum(axis=1)
    rest, kept = np.arange(len(held)), [np.zeros(0, dtype=np.intp)]
    while len(rest) > LEADERS:
        at = np.argpartition(-size[rest], LEADERS)[:LEADERS]
        leaders, rest = rest[at], np.delete(rest, at)
        kept.append(leaders)
        free = np.ones(len(rest), dtype=bool)
        columns = [np.ascontiguousarray(held[rest, i]) for i in range(held.shape[1])]
        for leader in leaders:
            less, other = np.ones(len(rest), dtype=bool), np.zeros(len(rest), dtype=bool)
            for column, most in zip(columns, held[leader], strict=True):
                less &= column <= most
                other |= column < most
            free &= ~(less & other)
        before, rest = len(rest), rest[free]
        if len(rest) > (1.0 - PROGRESS) * before:
            break
    rest = np.sort(np.concatenate([*kept, rest]))
    order = rest[np.lexsort(tuple(-held[rest, i] for i in reversed(range(held.shape[1]))))]
    new = np.append(True, (np.diff(held[order], axis=0) != 0).any(axis=1))
    return order[new]
