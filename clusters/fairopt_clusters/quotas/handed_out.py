"""What is left after rounding, handed out in whole tasks: to the team with the smallest share first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairopt import Instance, Tasks, Total
from fairopt.questions import part_of_capacity
from fairopt.runtime import VIOLATION_TOLERANCE, Bool, Float
from fairopt.solve.whole import Program, WholeTasks


def handed_out(instance: Instance, placement: Float) -> Float:
    """A placement with more tasks, one after the other, while any fits on a server within task limits and limits.

    The next one is of the team with the smallest dominant share per weight, of teams in teams the outer ones first;
    of the team's users it is the largest that fits. Servers where tasks of the user run now come first.
    """
    program = Program(instance.replace(guarantees=None, limits=()), Total(Tasks()), ())
    if program.empty:
        return placement
    whole, home = WholeTasks(program, placement[program.active]), instance.individual().held
    limits, order = _Limits(instance, placement), _Order(instance, placement)
    position = {j: k for k, j in enumerate(program.active.tolist())}
    everywhere, anywhere = whole.instance.derived.everywhere, np.ones(len(whole.row), dtype=np.bool_)

    def place(j: int) -> int | None:
        """The server on which one more task of a user was placed; None if it fits nowhere."""
        k = position[j]
        able = limits.within(j, anywhere if everywhere else whole.instance.eligible[k, whole.row])
        here = able & (home[j] > whole.placed[k]) if home is not None and home.ndim == 2 else ~anywhere
        for mask in (here, able):
            before = whole.placed[k].copy()
            if mask.any() and whole.place_on(k, mask):
                return int(np.flatnonzero(whole.placed[k] > before)[0])
        return None

    for j in order:
        s = place(j) if j in position else None
        if s is None:
            order.close(j)
        else:
            limits.take(j, s)
            order.take(j, int(whole.row[s]))
    return whole.placement()


class _Limits:
    """What limits leave of the servers to each user."""

    def __init__(self, instance: Instance, placement: Float) -> None:
        each = instance.individual()
        self.demands, self.left = each.per_server_demands, list[float]()
        members = {user: j for j, user in enumerate(each.users)} | dict(each.teams.names)
        self.resources = [each.resource_index(one.resource) for one in each.limits]
        self.of_user: dict[int, list[tuple[int, Bool]]] = {}
        for n, (limit, i) in enumerate(zip(each.limits, self.resources, strict=True)):
            counts = limit.counts(members, each.n_users, each.n_servers)
            used = float((placement * self.demands[:, :, i])[counts].sum())
            self.left.append(limit.amount * (1 + VIOLATION_TOLERANCE) - used)
            for j in np.flatnonzero(counts.any(axis=1)).tolist():
                self.of_user.setdefault(j, []).append((n, counts[j]))

    def within(self, j: int, able: Bool) -> Bool:
        """The servers, of those where a user is able to run, on which one more task is within limits."""
        for n, on in self.of_user.get(j, ()):
            able = able & (~on | (self.demands[j, :, self.resources[n]] <= self.left[n]))
        return able

    def take(self, j: int, s: int) -> None:
        """Count one more task of a user on a server."""
        for n, on in self.of_user.get(j, ()):
            self.left[n] -= float(self.demands[j, s, self.resources[n]]) if on[s] else 0.0


class _Order:
    """The users in the order in which they get one more task."""

    def __init__(self, instance: Instance, placement: Float) -> None:
        self.demands = instance.per_server_demands
        self.total = instance.total_capacities
        size = part_of_capacity(self.demands, self.total, 0.0).max(axis=(1, 2))
        labels = [instance.teams.labelling(by) for by in instance.teams.outermost_first]
        n = instance.n_users
        alone = np.arange(n)
        paths, weights, first = list[NDArray[np.intp]](), list[Float](), 0
        for names, of_user in labels:  # a user without a team is one
            paths.append(np.where(of_user >= 0, first + of_user, first + len(names) + alone))
            given = [instance.team_weights.get(name, 1.0) for name in names]
            weights.append(np.concatenate([given, instance.own_weights]))
            first += len(names) + n
        if not labels:
            paths, weights, first = [alone], [instance.weights], n
        self.paths, self.weights = np.array(paths), np.concatenate(weights)
        used = np.einsum("js,jsi->ji", instance.derived.by_row(placement), self.demands)
        self.used = np.zeros((first, instance.n_resources))
        for path in paths:
            np.add.at(self.used, path, used)
        self.waiting: dict[int, list[int]] = {}  # of each team its users, large tasks last
        for j in np.argsort(size, kind="stable").tolist():
            self.waiting.setdefault(int(self.paths[-1, j]), []).append(j)
        self.levels = self._shares(np.arange(first))

    def _shares(self, nodes: NDArray[np.intp]) -> Float:
        used = self.used[nodes]
        shares = part_of_capacity(used, np.broadcast_to(self.total, used.shape), 0.0).max(axis=1, initial=0.0)
        return (shares / self.weights[nodes]).round(12)

    def __iter__(self) -> Iterator[int]:
        queue = [(self._key(team), team) for team in self.waiting]
        heapq.heapify(queue)
        while queue:
            key, team = heapq.heappop(queue)
            if key == (now := self._key(team)):  # else it has more since
                yield self.waiting[team][-1]
                now = self._key(team) if self.waiting[team] else ()
            if now:
                heapq.heappush(queue, (now, team))

    def _key(self, team: int) -> tuple[float, ...]:
        """The shares of the teams outside a team, and its own."""
        return tuple(self.levels[self.paths[:, self.waiting[team][0]]].tolist())

    def take(self, j: int, row: int) -> None:
        """Count one more task of a user on a row of servers."""
        nodes = self.paths[:, j]
        self.used[nodes] += self.demands[j, row]
        self.levels[nodes] = self._shares(nodes)

    def close(self, j: int) -> None:
        """Leave out a user whose task fits nowhere; none will later."""
        self.waiting[int(self.paths[-1, j])].remove(j)
