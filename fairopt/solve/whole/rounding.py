"""Whole tasks from divisible ones by largest remainders, on individual servers.

If an objective has its worst value as soon as one user has no task (max-min, Nash welfare), each user first gets one,
large ones first, and if not all fit small ones. Then come each user's tasks on each class of identical servers, rounded
down and interleaved; single tasks by the largest remainder of a user's total; and what still fits, to the smallest
share per weight.

Best fit does not see how tasks of several resources pack, and remainders are not what a policy compares. So the tasks
rounded down are placed otherwise too, until none is left out: the same whole numbers of them on all servers of a row,
which keeps the mix in which resources run out together, and the others large ones first; or by one integer program, of
which HiGHS solves the root alone. What then fits goes to the smallest shares, and the best answer is kept. Of 120
random clusters with 3 to 8 users and servers the usual order left out tasks of 32, equal numbers of 23 and the program
of 14; its optimum, for six times the time, of 12.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import sp
from fairopt.runtime.progress import tell
from fairopt.solve.form.highs import root_of
from fairopt.solve.form.no_whole_task import SAME, slack
from fairopt.solve.form.program import Program
from fairopt.solve.whole.integer import MOST_ON_SERVER
from fairopt.solve.whole.servers import Request, Servers

MAX_TASKS = 1e12  # tasks of a user: beyond, one task is within the tolerances of capacities and the rounding of floats
PARTS = 1000  # most parts in which the tasks of a user on a class are placed
FROM_WHOLE = 1e-6  # tasks: a solver's distance from an integer
# Parts of a row's tasks of which the same whole numbers are placed on its servers. Of 264 random clusters, 60 of them
# with over a hundred servers, they bettered the answer of the other ways in 66. Of the 204 small ones it was worse in
# 19 without 1.0, in 8 without .9 and in 3 without .8; a part of 0, by which all large ones come first, bettered none.
EVEN = (1.0, 0.9, 0.8)
MOST_PAIRS = 2_000_000  # users times servers, beyond which other ways than the usual order take seconds each
MOST_UNKNOWNS = 1_000  # users times servers, beyond which the root of the integer program takes more than a second


class WholeTasks:
    """Whole tasks of a program's users on individual servers, from a placement or from none.

    ``held`` (n_users, n_classes) are tasks by class of identical servers, ``placed`` (n_users, n_individual_servers).
    """

    def __init__(self, program: Program, placement: Float | None = None) -> None:
        self.program, self.instance = program, program.unmerged
        instance, self.row = self.instance, np.repeat(np.arange(self.instance.n_servers), self.instance.counts)
        rows = instance.derived.server_classes if program.merge else np.arange(instance.n_servers)
        self.classes, self.n_classes = rows[self.row], int(rows.max()) + 1
        self.first = np.unique(rows, return_index=True)[1]  # a row of each class
        self.members = [self.classes == k for k in range(self.n_classes)]
        usable = instance.capacities[self.row] * program.usable
        self.servers = Servers(usable, 0.5 * slack(instance, usable))  # half, so that sums of floats stay within it
        self.placed = np.zeros((instance.n_users, len(self.row)))
        self.held = np.zeros((instance.n_users, self.n_classes))
        self.most = np.floor(program.high * (1 + SAME))  # a limit of 2.9999999999 is 3
        self._requests: dict[tuple[int, int], Request] = {}
        if placement is not None:
            for user, server in np.argwhere(placement).tolist():
                self._take(user, server, int(placement[user, server]))

    @cached_property
    def sizes(self) -> Float:
        """The dominant share of one task on a server of each class, shape (n_users, n_classes)."""
        demands = self.instance.per_server_demands[:, self.first]
        capacity = np.broadcast_to(self.instance.capacities[self.first], demands.shape)
        return np.asarray(np.divide(demands, capacity, out=np.zeros(demands.shape), where=capacity > 0).max(axis=2))

    @property
    def large_ones_first(self) -> list[int]:
        """Users in decreasing order of the part of a server that a task takes."""
        return np.argsort(-self.sizes.max(axis=1), kind="stable").tolist()

    @property
    def totals(self) -> Float:
        """Tasks of each user."""
        return self.held.sum(axis=1)

    def _request(self, user: int, k: int) -> Request:
        """The request of a user's task for the servers of a class."""
        key = (user, k if self.instance.demands.ndim == 3 else 0)
        if key not in self._requests:
            self._requests[key] = self.servers.request(self.instance.per_server_demands[user, self.first[k]])
        return self._requests[key]._replace(allowed=self.members[k])

    def _take(self, user: int, server: int, count: int) -> None:
        """Place tasks on a server."""
        k = int(self.classes[server])
        self.servers.take(self._request(user, k), server, count)
        self.placed[user, server] += count
        self.held[user, k] += count

    def place(self, user: int, k: int, count: float = 1) -> float:
        """Place up to ``count`` more tasks of a user on servers of a class by best fit; return their number."""
        return self._place(user, self._request(user, k), count)

    def place_on(self, user: int, servers: NDArray[np.bool_], count: float = 1) -> float:
        """Place up to ``count`` more tasks of a user on some servers by best fit; return their number."""
        if self.instance.demands.ndim == 2:
            return self._place(user, self._request(user, 0)._replace(allowed=servers), count)
        placed = 0.0
        for k in np.unique(self.classes[servers]).tolist():
            request = self._request(user, k)._replace(allowed=servers & self.members[k])
            placed += self._place(user, request, count - placed)
        return placed

    def move(self, user: int, server: int, to: NDArray[np.bool_], count: float) -> float:
        """Move up to ``count`` tasks of a user from a server to other servers by best fit; return their number."""
        request, moved = self._request(user, int(self.classes[server])), 0.0
        while moved + 1 <= count and (new := self.servers.choose(request._replace(allowed=to), "best-fit")) is not None:
            self.servers.give_back(request, server)
            self.placed[user, server] -= 1
            self.held[user, self.classes[server]] -= 1
            self._take(user, new, 1)
            moved += 1
        return moved

    def _place(self, user: int, request: Request, count: float) -> float:
        """Place up to ``count`` tasks of a request by best fit; return their number."""
        placed, most = 0.0, min(count, self.most[user] - self.held[user].sum())
        while most - placed >= 1 and (server := self.servers.choose(request, "best-fit")) is not None:
            # all that fit at once: of 1e12 small tasks none is placed by itself
            some = max(min(int(most - placed), self.servers.how_many(request, server)), 1)
            self._take(user, server, some)
            placed += some
        return placed

    def place_anywhere(self, user: int, wanted: Float, count: float = 1) -> float:
        """Place up to ``count`` tasks, first on the classes furthest below ``wanted`` (n_classes,); return how many."""
        eligible, missing, placed = self.instance.eligible[user], wanted - self.held[user], 0.0
        order = np.argsort(-missing, kind="stable")
        if self.instance.demands.ndim == 2:  # one request for all other servers
            order = order[missing[order] > FROM_WHOLE]
        for k in order:
            if eligible[self.first[k]] and placed < count:
                placed += self.place(user, int(k), count - placed)
        if len(order) < self.n_classes and placed < count:
            allowed = None if self.instance.derived.everywhere else eligible[self.row]
            request = self._request(user, 0)._replace(allowed=allowed)
            placed += self._place(user, request, count - placed)
        return placed

    @cached_property
    def can_fill(self) -> bool:
        """Whether more tasks never harm: there are only bounds, and the objective does not fall."""
        grows = all(term.kind.is_known and term.kind.is_concave for term in self.program.objective.terms())
        return grows and not self.program.rest and bool(self.program.objective.share_blocks())

    def fill(self) -> None:
        """Distribute what is left, each task to the smallest share per weight whose task still fits.

        Of equal shares the smaller task comes first, which leaves room for more users, then the first user. Users whose
        shares are always zero come last.
        """
        if not self.can_fill:
            return
        c = self.program.objective.share_blocks()[0]._of_user.coefficients(self.instance)
        if c.ndim == 1:
            c = np.broadcast_to(c[:, None], (self.instance.n_users, self.instance.n_servers))
        per_task = c[:, self.first] / self.instance.weights[:, None]
        steps = np.where(self.instance.eligible[:, self.first], per_task, 0.0).max(axis=1)
        levels = np.where(steps > 0, (per_task * self.held).sum(axis=1), np.inf)
        waiting = [
            (level, step, j) for j, (level, step) in enumerate(zip(levels.tolist(), steps.tolist(), strict=True))
        ]
        heapq.heapify(waiting)
        wanted = np.zeros(self.n_classes)
        while waiting:
            level, step, j = heapq.heappop(waiting)
            other = waiting[0][0] if waiting else np.inf
            reach = (other - level) // step if other < np.inf else self.most[j]  # until another has less
            if self.place_anywhere(j, wanted, min(max(reach, 1.0), MAX_TASKS)):
                heapq.heappush(waiting, (float(per_task[j] @ self.held[j]) if step else np.inf, step, j))

    def placement(self) -> Float:
        """Tasks by individual server, for all users of the given instance."""
        out = np.zeros((self.program.given.n_users, len(self.row)))
        out[self.program.active] = self.placed
        return out


def rounded(program: Program, tasks: Float, key: Callable[[Float], Any], clock: Clock) -> Float:
    """Divisible tasks by pair, rounded within capacities and limits: shape (n_users, n_individual_servers).

    The placement with the largest ``key`` of several, beyond `MOST_PAIRS` that in the usual order.
    """
    if program.empty:
        return np.zeros((program.given.n_users, int(program.given.counts.sum())))
    by_row = program.expand(tasks)[program.active]
    totals = by_row.sum(axis=1)
    # a solver's 2.9999999 are 3 tasks, and `low` and `high` hold in whole tasks
    down = np.maximum(np.floor(totals + FROM_WHOLE), np.ceil(program.low * (1 - SAME)))
    down = np.minimum(down, np.floor(program.high * (1 + SAME)))
    best = _interleaved_first(program, tasks)
    if len(down) * program.given.counts.sum() > MOST_PAIRS:
        return best
    if _all_need(program, tasks) and (best[program.active].sum(axis=1)[totals > 0] <= 0).any():
        best = max(best, _interleaved_first(program, tasks, -1), key=key)  # small ones first leave out fewer
    of_best = key(best)
    for start in _starts(program, by_row, down, clock):
        if clock.late:
            break
        other = _completed(program, start, down, totals - down)
        if (of_other := key(other)) > of_best:
            best, of_best = other, of_other
        if (best[program.active].sum(axis=1) >= down).all():
            break
    return best


def _starts(program: Program, by_row: Float, down: Float, clock: Clock) -> Iterator[Float]:
    """Placements of some of the tasks rounded down, (n_active, n_individual_servers), to be completed."""
    instance = program.unmerged
    needs = instance.individual().per_server_demands
    usable = np.repeat(instance.capacities, instance.counts, axis=0) * program.usable
    room = usable + 0.5 * slack(instance, usable)  # as in `WholeTasks`
    for part in EVEN:
        each = np.floor(part * by_row / instance.counts + FROM_WHOLE)
        each[each @ instance.counts > down] = 0.0  # by `FROM_WHOLE`: more than all tasks rounded down
        yield _within(room, np.repeat(each, instance.counts, axis=1), needs)
    yield _within(room, _at_the_root(program, usable, needs, down, clock), needs)


def _within(room: Float, placement: Float, needs: Float) -> Float:
    """The placement without the tasks of servers that it exceeds by rounding or a solver's tolerance."""
    placement[:, (np.einsum("js,jsi->si", placement, needs) > room).any(axis=1)] = 0.0
    return placement


def _at_the_root(program: Program, usable: Float, needs: Float, down: Float, clock: Clock) -> Float:
    """As many of the tasks rounded down as HiGHS finds place for at the root; none if they are too many for it.

    The program is max sum_js c_j x_js, where sum_j d_jsi x_js <= a_si, sum_s x_js <= down_j and x is whole, c_j being
    the dominant share of a task. Its bound is all of these tasks or little less, so that branching adds little. Without
    it HiGHS ends by itself, so that the answer depends on the clock only if a time limit ends before.
    """
    n, n_servers, n_resources = needs.shape
    eligible = np.repeat(program.unmerged.eligible, program.unmerged.counts, axis=1)
    nothing = np.zeros((n, n_servers))
    if nothing.size > MOST_UNKNOWNS or down.max() > MOST_ON_SERVER:
        return nothing
    parts = np.divide(needs, usable, out=np.zeros(needs.shape), where=usable > 0)
    runs = eligible & ((usable > 0) | (needs <= 0)).all(axis=2) & parts.any(axis=2)
    most = np.divide(1 + SAME, parts.max(axis=2), out=np.zeros(runs.shape), where=runs)
    top = np.minimum(np.floor(most), down[:, None])
    total = np.maximum(usable.sum(axis=0), needs.max(axis=(0, 1)))
    share = np.divide(needs, total, out=np.zeros(needs.shape), where=total > 0).max(axis=2).min(axis=1)
    servers: Any = sp.block_diag([parts[:, s].T for s in range(n_servers)])  # by server: twice as fast as by user
    users = sp.kron(np.ones((1, n_servers)), sp.eye_array(n))
    costs, room = -np.tile(share / (share.max() or 1.0), n_servers), np.append(np.ones(n_servers * n_resources), down)
    bounds, rows = (np.zeros(nothing.size), top.T.ravel()), (np.full(len(room), -np.inf), room)
    root = root_of(costs, bounds, rows, sp.csc_array(sp.vstack([servers, users])), clock.left)
    return nothing if root is None else np.rint(root).reshape(n_servers, n).T


def _completed(program: Program, start: Float, down: Float, rest: Float) -> Float:
    """A placement with more tasks: the others rounded down, large ones first; one each by largest remainder; the rest.

    Each goes where it fits best.
    """
    whole = WholeTasks(program, start)
    anywhere = np.zeros(whole.n_classes)
    for j in whole.large_ones_first:
        whole.place_anywhere(j, anywhere, float(down[j] - whole.held[j].sum()))
    for j in [] if whole.can_fill else np.argsort(-rest.round(9), kind="stable").tolist():
        if rest[j] > FROM_WHOLE:
            whole.place_anywhere(j, anywhere)
    whole.fill()
    return whole.placement()


def _interleaved_first(program: Program, tasks: Float, sign: int = 1) -> Float:
    """Tasks placed in the usual order, by class of servers; with a sign of -1 the first ones in increasing size."""
    whole = WholeTasks(program)
    wanted = np.zeros(whole.held.shape)
    by_row = program.expand(tasks)[program.active]
    np.add.at(wanted.T, whole.classes[np.searchsorted(whole.row, np.arange(by_row.shape[1]))], by_row.T)
    down = np.floor(wanted + FROM_WHOLE)
    total = wanted.sum(axis=1)
    size = whole.sizes
    low = np.ceil(program.low * (1 - SAME))
    first = np.maximum(low, total > 0) if _all_need(program, tasks) else low
    for j in np.argsort(-sign * np.where(first > 0, size.max(axis=1), -1.0), kind="stable").tolist():
        if first[j] > 0:
            whole.place_anywhere(j, wanted[j], first[j])
    users, classes = np.nonzero(down)
    for done, (p, count) in enumerate(_interleaved(down[users, classes], wanted[users, classes], size[users, classes])):
        if done % 1000 == 0:
            tell("rounding, tasks", done)
        j, k = int(users[p]), int(classes[p])
        whole.place(j, k, count - whole.held[j, k])

    def order(j: int, held: float) -> tuple[bool, float, int]:
        """The sort key: users below a lower bound first, then by decreasing remainder."""
        return held >= low[j], round(held - float(total[j]), 9), j  # rounded, so that ties go to the first user

    waiting = [order(j, held) for j, held in enumerate(whole.totals.tolist())]
    heapq.heapify(waiting)
    while waiting:
        enough, over, j = heapq.heappop(waiting)
        if (over < -FROM_WHOLE or not enough) and whole.place_anywhere(j, wanted[j]):
            heapq.heappush(waiting, order(j, float(whole.held[j].sum())))
    whole.fill()
    return whole.placement()


def _interleaved(down: Float, wanted: Float, size: Float) -> Iterator[tuple[int, float]]:
    """The order in which users' tasks are placed: indices, each with the number of tasks placed by then.

    The i-th of X tasks has time ``(i - 1/2) / X``, larger tasks first, so that each server gets the mix of the
    divisible answer, in which resources run out together. On a trace with 151 kinds of tasks and 1,523 servers placing
    large tasks first lost 13% of the most tasks, and this order 6%.
    """
    parts = np.minimum(down, PARTS).astype(np.int64)
    which = np.repeat(np.arange(len(down)), parts)
    part = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts) + 1
    moment = (part - 0.5) / parts[which] * (down / wanted)[which]
    upto = np.floor(part * (down / parts)[which] * (1 + SAME))
    for p in np.lexsort((-size[which], moment.round(9))):  # ties go to the first user in spite of rounding
        yield int(which[p]), float(min(upto[p], down[which[p]]))


def _all_need(program: Program, tasks: Float) -> bool:
    """Whether the objective has its worst value as soon as one user has no task."""
    totals = program.pairs.sum(tasks)
    without = np.where(program.pairs.user == int(np.argmin(np.where(totals > 0, totals, np.inf))), 0.0, tasks)
    with np.errstate(all="ignore"):
        return program.objective.loss(program.point(tasks), 0.0, program.point(without)) >= 1.0
