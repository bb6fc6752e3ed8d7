"""Hierarchical DRF confirmed from the states of its filling, which the evidence gives as levels of branches.

The vector V_k of a branch k at level l has, of each resource, the shares of its children c, those that can rise scaled
down to the level, and its height is its largest entry per weight (Definition 17.2, docs/methods/hierarchy.md):

    V_k = sum_(c stopped) V_c + sum_(c can rise) V_c min(1, l / h_c),   h_k = max_i V_ki / w_k.

Between two states the tree rises as its definition says if the end of each interval does: in each branch those children
that rose are at its level, and the others above it. For then shares only grow. They may jump where all children of a
branch that rose have stopped, so that there is a state before each jump inside a team; only there a share can fall
(Proposition 17.5). So nothing is simulated: the next event is not searched for, and a fault of the filling does not
repeat itself here. `fairopt verify` does the same in fractions, by code of its own.

Floats: levels from a file are compared to `CLOSE`. That a resource is one of the dominant ones is decided closer
(`DOMINANT`), since two that differ by 1e-9 grow at different rates; rows that are full are told from others to `FULL`.
Where a branch's share hardly moves while its users rise, tasks may be farther from those in fractions than the gap
says. On 3,000 random trees tasks agreed with a filling in fractions within 2e-13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.guarantees import beyond_limits, limited_units, team_floors
from fairopt.instance import Instance
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.clock import check

# Relative: levels, limits and floors this close are equal; shares this close are both dominant; capacities this full
# are full; a rise by less is rounding.
CLOSE, DOMINANT, FULL, STILL = 1e-8, 1e-10, 1e-13, 1e-13
TIE = 1.001e-9  # limits this close are reached together with the level: a little more than the filling's own 1e-9
FITS = 1e-9  # of placements: what certificates allow of a capacity
ROOM = 1e-7  # of the tasks that a user could run alone: room for more; the filling shows 20 times as much
TINY = 1e-12  # tasks of smaller dominant shares count as this in relative distances


class _Unconfirmed(Exception):
    """The evidence does not follow the definition."""


class Confirmed(NamedTuple):
    """The gap: how far levels, full rows and tasks are from the definition, relative; and the shortage of floors.

    ``value`` is the smallest dominant share per weight of the root's children.
    """

    gap: float
    shortage: float
    words: str
    value: float


def confirm(instance: Instance, policy: Any, entry: Mapping[str, Any], table: Float) -> Confirmed:
    """Confirm the tasks of `HDRF` (n_users, n_servers) on an instance in which identical servers are one row."""
    tree = _Tree(instance, policy)
    filling = _Confirmation(instance, tree, entry)
    filling.run(entry.get("states") or ())
    tasks = table.sum(axis=1)[tree.users]
    size = np.maximum(filling.tasks, TINY / tree.ratios.max(axis=1))
    apart = float((np.abs(tasks - filling.tasks) / size).max())  # no task has to be exactly 0
    held = tree.held(tasks)
    filling.count_shortage(held)
    shares = [held[k].max() / tree.weights[k] for k, above in enumerate(tree.parents) if k and not above]
    alone = tree.parent == 0
    shares += (tasks[alone] / tree.per[alone]).tolist()
    return Confirmed(max(filling.gap, apart), filling.shortage, filling.words, float(min(shares)))


class _Tree:
    """Users who take part, in branches: 0 is the root, and parents come first. ``per`` are tasks per level."""

    def __init__(self, instance: Instance, policy: Any) -> None:
        given = dict(policy.weights or {})
        self.users = np.flatnonzero(instance.task_limits > 0)
        self.names, self.parents, weights = [""], [0], [1.0]
        place, parent = {"": 0}, list[int]()
        labels = [instance.teams[by] for by in policy.by]
        for j in self.users:
            at = 0
            for name in (of[j] for of in labels):
                if name is None:
                    continue
                if name not in place:
                    place[name] = len(self.names)
                    self.names.append(name)
                    self.parents.append(at)
                    weights.append(given.get(name, instance.team_weights.get(name, 1.0)))
                # teams of one level inside different ones would have two weights and two levels
                if self.parents[place[name]] != at:
                    raise _Unconfirmed(f"team {name!r} is in two teams")
                at = place[name]
            parent.append(at)
        self.parent, self.weights = np.array(parent, dtype=int), np.array(weights, dtype=float)
        own = [given.get(instance.users[j], instance.own_weights[j]) for j in self.users]
        self.depth = [0]
        for above in self.parents[1:]:
            self.depth.append(self.depth[above] + 1)
        self.children: list[list[int]] = [[] for _ in self.names]
        for k, above in enumerate(self.parents[1:], start=1):
            self.children[above].append(k)
        self.ratios = instance.ratios[self.users]
        # at level l a user has the dominant share l w_j: l w_j / max_i g_ji tasks
        self.per = np.array(own, dtype=float) / self.ratios.max(axis=1)

    def sums(self, of_users: Float) -> Float:
        """Sums over all users below each branch, shape (n_branches, n_columns)."""
        out = self.sums_of_own(of_users)
        for k in range(len(self.parents) - 1, 0, -1):
            out[self.parents[k]] += out[k]
        return out

    def held(self, tasks: Float) -> Float:
        """The shares of resources that each branch uses."""
        return self.sums(self.ratios * tasks[:, None])

    def sums_of_own(self, of_users: Float) -> Float:
        """Sums over the users right below each branch."""
        size = len(self.names)
        return np.stack([np.bincount(self.parent, column, size) for column in of_users.T], axis=1)

    def any_below(self, of_users: Bool) -> Bool:
        """Whether something holds of a user below each branch."""
        return self.sums(of_users[:, None].astype(float))[:, 0] > 0


class _Look(NamedTuple):
    """Branches at a state: whether they can rise, their levels, vectors and heights (shares per weight)."""

    open: Bool
    level: Float
    vector: Float
    height: Float


class _Confirmation:
    """The confirmation of states, one after the other: the tasks of users, and who is at its limit or stopped."""

    def __init__(self, instance: Instance, tree: _Tree, entry: Mapping[str, Any]) -> None:
        self.instance, self.tree, self.m = instance, tree, instance.n_resources
        self.placements, self.placed = list(entry.get("placements") or ()), 0
        self.limits = instance.task_limits[tree.users]
        self.tasks = np.minimum(instance.guarantees[tree.users], self.limits)
        self.ended = np.zeros(len(self.tasks), dtype=bool)
        self.floors: dict[tuple[int, int], float] = {}
        for team, floor in team_floors(instance).items():
            if team in tree.names:
                for i in np.flatnonzero(floor.units > 0):
                    units = floor.units[i] / instance.total_capacities[i]
                    self.floors[tree.names.index(team), int(i)] = float(units)
        self.all_floors = dict(self.floors)
        self.limited = list(limited_units(instance))
        self.uses, self.taken = self._rows(entry.get("rows") or ())
        self.full = np.zeros(len(self.taken), dtype=bool)
        self.asleep = np.zeros(len(self.tasks), dtype=bool)
        # a row of prices may stop users who could run more elsewhere; on one pool without limits each row is a capacity
        self.watched = instance.n_servers > 1 or bool(instance.limits)
        self.begun = False  # before, rows that are full stop users who had nothing to wait for
        self.gap, self.shortage, self.words = 0.0, 0.0, ""

    def _rows(self, given: Sequence[Any]) -> tuple[Float, Float]:
        """What a task of each user takes of each resource and of each row of prices, and what is taken at first.

        At prices p of resources on servers a task costs at least its smallest cost on a server, and all tasks at most
        what the capacities are worth; at prices of floors a task of the team earns, and all earn at least what the
        floors are worth. Users who earn more than they cost are bounded by their limits and by what fits of them alone.
        """
        instance, tree, n = self.instance, self.tree, len(self.tasks)
        demands, eligible = instance.demands[tree.users], instance.eligible[tree.users]
        room = instance.capacities * instance.counts[:, None]
        most = np.minimum(instance.tasks_alone[tree.users].sum(axis=1), self.limits)
        uses, taken = [tree.ratios], [np.zeros(self.m)]
        for row in given:
            prices, earns, floor = np.zeros(room.shape), np.zeros(n), 0.0
            charged, limited = np.zeros(eligible.shape), 0.0
            for where, i, p in row:
                if not 0 <= p < np.inf:
                    raise _Unconfirmed("a price is negative")
                if where is None:
                    charged += p * self.limited[i][tree.users]
                    limited += p * instance.limits[i].amount
                elif isinstance(where, str):
                    k = tree.names.index(where)
                    earns[self._below(k)] += p * demands[self._below(k), i]
                    floor += p * self.floors[k, i] * instance.total_capacities[i]
                else:
                    prices[where, i] += p
            least = np.where(eligible, demands @ prices.T + charged, np.inf).min(axis=1)
            # the most that all can be worth: capacities, limits, and those that earn more than they cost, at their most
            worth = (prices * room).sum() + limited + np.where(earns > least, (earns - least) * most, 0.0).sum()
            if not worth > 0:
                raise _Unconfirmed("a row has no prices")
            # in parts of what the row has, as of a resource; who earns what it costs, up to rounding, does not use it
            uses.append((np.where(least - earns > TIE * earns, least - earns, 0.0) / worth)[:, None])
            taken.append(np.array([floor / worth]))
        return np.hstack(uses), np.concatenate(taken)

    def _below(self, k: int) -> Bool:
        """The users below a branch."""
        inside = np.zeros(len(self.tree.names), dtype=bool)
        inside[k] = True
        for b in range(k + 1, len(inside)):
            inside[b] |= inside[self.tree.parents[b]]
        return inside[self.tree.parent]

    def run(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Confirm all states, and that nobody can rise after the last."""
        self._settle()
        for state in states:
            check("the proof")
            if not (~self.ended & ~self.asleep).any():
                raise _Unconfirmed("a state comes after the end")
            self._confirm(state)
            self._settle()
        if not self.ended.all():
            j = int(self.tree.users[np.flatnonzero(~self.ended)[0]])
            raise _Unconfirmed(f"nothing stops user {self.instance.users[j]!r}")

    # -- who may rise

    def _settle(self) -> None:
        """End users at their limits; while floors are filled, users sleep who use nothing that their teams lack."""
        self.ended |= self.tasks >= self.limits * (1 - TIE)
        while True:
            self.asleep[:] = False
            if not self.floors:
                return
            held, wanted = self.tree.held(self.tasks), np.zeros((len(self.tree.names), self.m), dtype=bool)
            for (k, i), floor in self.floors.items():
                wanted[k, i] = held[k, i] < floor * (1 - TIE)
            for k in range(1, len(wanted)):
                wanted[k] |= wanted[self.tree.parents[k]]
            self.asleep = ~((self.tree.ratios > 0) & wanted[self.tree.parent]).any(axis=1)
            if (~self.ended & ~self.asleep).any():
                return
            self.count_shortage(held)  # nobody can fill a floor any more: all wake up
            self.floors = {}

    def count_shortage(self, held: Float) -> None:
        """Note the floor of which the largest part is lacking where branches hold these shares of resources."""
        for (k, i), floor in self.all_floors.items():
            if 1 - held[k, i] / floor > max(self.shortage, TIE):
                self.shortage = 1 - float(held[k, i] / floor)
                has, needs = (f"{x * self.instance.total_capacities[i]:.9g}" for x in (held[k, i], floor))
                what = self.instance.resources[i]
                self.words = f"team {self.tree.names[k]!r} holds {has} of the {needs} {what} guaranteed to it"

    # -- states

    def look(self, tasks: Float, rising: Bool, clock: Float | None = None) -> _Look:
        """The branches at tasks; at the levels of ``clock``, else at those of the lowest children that can rise."""
        tree, size = self.tree, len(self.tree.names)
        # stopped users count as they are, those that can rise at the level of their branch
        still = np.where(rising, 0.0, tasks)
        vector = tree.sums_of_own(tree.ratios * still[:, None])
        per_level = tree.sums_of_own(tree.ratios * np.where(rising, tree.per, 0.0)[:, None])
        level, height = np.full(size, np.inf), np.zeros(size)
        np.minimum.at(level, tree.parent[rising], (tasks / tree.per)[rising])
        free, can = ~self.full[: self.m], tree.any_below(rising)  # full resources are no dominant ones any more
        for k in range(size - 1, -1, -1):  # from the leaves: parents come first
            mine = tree.children[k]
            if can[k]:
                level[k] = min([level[k], *(height[c] for c in mine if can[c])]) if clock is None else clock[k]
                vector[k] += level[k] * per_level[k]
            for c in mine:
                above = can[c] and height[c] > level[k]
                vector[k] += vector[c] * (level[k] / height[c]) if above else vector[c]
            height[k] = vector[k][free].max(initial=0.0) / tree.weights[k]
        return _Look(can, level, vector, height)

    def _confirm(self, state: Mapping[str, Any]) -> None:
        """Confirm one state, and go on from it."""
        tree, rising = self.tree, ~self.ended & ~self.asleep
        start = self.look(self.tasks, rising)
        clock = start.level.copy()
        for name, level in state["levels"].items():
            k = tree.names.index(name)
            if start.open[k]:
                # within the noise of a file a level may fall, and is then what it was
                if not clock[k] * (1 - CLOSE) <= level < np.inf:
                    raise _Unconfirmed(f"the level of {name!r} falls")
                clock[k] = max(clock[k], float(level))
        before, own = self.tasks, clock[tree.parent]
        with np.errstate(invalid="ignore"):  # branches that cannot rise have an infinite level
            at = np.where(rising, np.minimum(own * tree.per, self.limits), before)
        self.tasks = np.maximum(before, at)  # who is above the level of its branch waits there
        ends = rising & (own * tree.per >= self.limits * (1 - TIE))
        self.tasks[ends] = self.limits[ends]
        step = _Step(self, before, start, clock, rising, ends)
        self.gap = max(self.gap, step.follows())
        for (k, i), floor in self.floors.items():
            if tree.held(self.tasks)[k, i] > floor * (1 + CLOSE) and before.sum() < self.tasks.sum():
                held_before = float((tree.ratios[:, i] * before)[self._below(k)].sum())
                if held_before < floor * (1 - CLOSE):
                    raise _Unconfirmed(f"a floor of {tree.names[k]!r} was reached before")
        self.ended |= ends
        self._fill(state.get("full") or (), before, step)

    def _fill(self, full: Sequence[int], before: Float, step: _Step) -> None:
        """Confirm which rows become full, and stop their users."""
        load = self.taken + self.uses.T @ self.tasks  # by resource and row, in parts of what there is
        new = np.zeros(len(load), dtype=bool)
        new[list(full)] = True
        if (new & self.full).any() or len({*full}) < len(full) or any(r < 0 for r in full):
            raise _Unconfirmed("a row is full twice")
        # three bands: a row that is named is full to 1e-8, one that is not named is not full to 1e-13, and none is over
        if (load[~self.full] > 1 + CLOSE).any() or (load[new] < 1 - CLOSE).any():
            raise _Unconfirmed("a row is not full, or was full before")
        if (load[~self.full & ~new] > 1 - FULL).any():
            raise _Unconfirmed("a row that is full is not named")
        if new.any():
            self.gap = max(self.gap, float(np.abs(load[new] - 1).max()))
        stopped = ~self.ended & (self.uses[:, new] > 0).any(axis=1)
        self.begun |= bool(step.moved.any())
        if self.begun and (stopped & ~self.asleep).any() and (self.watched or self.floors):
            step.in_one_line()
            waiting = stopped & ~step.moved & ~self.asleep
            if waiting.any():  # a placement each time, in the order of states
                if self.placed >= len(self.placements) or not self._has_room(
                    before, waiting, self.placements[self.placed]
                ):
                    user = self.instance.users[self.tree.users[np.flatnonzero(waiting)[0]]]
                    raise _Unconfirmed(
                        f"user {user!r} is stopped while it waits, but not shown to have had room before"
                    )
                self.placed += 1
        self.full |= new
        self.ended |= stopped

    def _has_room(self, tasks: Float, waiting: Bool, placement: Sequence[Any]) -> bool:
        """Whether a placement fits, holds floors, has at least these tasks, and more for those that wait.

        Users of one branch with the same demands and servers, in the same limits, stand for each other.
        """
        instance, tree = self.instance, self.tree
        table = np.zeros(instance.eligible.shape)
        for j, s, x in placement:
            if not 0 <= x < np.inf:
                return False
            table[j, s] += x
        if (table[~instance.eligible] > 0).any():
            return False
        load = np.einsum("js,ji->si", table, instance.demands)
        if (load > instance.capacities * instance.counts[:, None] * (1 + FITS)).any():
            return False
        if beyond_limits(instance, table) > FITS:
            return False
        parts = [instance.demands, instance.eligible, *self.limited]
        kinds = np.hstack([*(part[tree.users] for part in parts), tree.parent[:, None]])
        _, kind = np.unique(kinds, axis=0, return_inverse=True)
        kind = kind.ravel()
        runs, least = np.bincount(kind, table[tree.users].sum(axis=1)), np.bincount(kind, tasks)
        more = np.zeros(len(runs))
        alone = instance.tasks_alone[tree.users].sum(axis=1)
        more[kind[waiting]] = ROOM * alone[waiting]  # one of each kind stands for it: they wait together
        if (runs < (least + more) * (1 - FITS)).any():
            return False
        if not self.all_floors or self._reach_floors(tasks):
            return True
        first = np.unique(kind, return_index=True)[1]
        spread = np.zeros(len(tasks))
        spread[first] = runs  # floors read sums by branch only
        return bool((runs <= np.bincount(kind, self.limits) * (1 + FITS)).all()) and self._reach_floors(spread)

    def _reach_floors(self, tasks: Float) -> bool:
        held = self.tree.held(tasks)
        return all(held[k, i] * (1 + TIE) >= floor for (k, i), floor in self.all_floors.items())


class _Step:
    """The way from one state to the next: who could rise (``rising``), reached a limit (``ends``) and ``moved``."""

    def __init__(self, of: _Confirmation, before: Float, start: _Look, clock: Float, rising: Bool, ends: Bool) -> None:
        self.of, self.before, self.start, self.clock, self.rising, self.ends = of, before, start, clock, rising, ends
        self.end = of.look(of.tasks, rising & ~ends, clock)
        self.moved: Bool = of.tasks > before * (1 + STILL)
        self.moved_branches = of.tree.any_below(self.moved)

    def near(self, look: _Look, k: int, within: float = DOMINANT) -> Bool:
        """The resources of the dominant share of a branch."""
        share = look.height[k] * self.of.tree.weights[k]
        near: Bool = ~self.of.full[: self.of.m] & (look.vector[k] >= share * (1 - within))
        return near

    def follows(self) -> float:
        """The largest relative distance of a child that rose from the level of its branch."""
        tree, moved, worst = self.of.tree, self.moved_branches, 0.0
        high = np.zeros(len(tree.names))
        height = self.before / tree.per
        np.maximum.at(high, tree.parent[self.rising], height[self.rising])
        for k in np.flatnonzero(self.start.open).tolist():
            level = self.clock[k]
            for c in (c for c in tree.children[k] if self.start.open[c]):
                above = self.end.height[c] / level - 1 if level > 0 else np.inf if self.end.height[c] > 0 else 0.0
                if self.end.open[c] and above < -CLOSE:
                    raise _Unconfirmed(f"{tree.names[c]!r} is below the level of its team")
                # right below the root a branch may have jumped above its level at the last moment
                if moved[c] and self.end.open[c] and above > CLOSE and tree.depth[c] == 1:
                    above = max(self._before_jump(c) / level - 1, 0.0) if level > 0 else np.inf
                if moved[c] and above > CLOSE:
                    raise _Unconfirmed(f"{tree.names[c]!r} rose above the level of its team")
                worst = max(worst, abs(above) if moved[c] and self.end.open[c] else 0.0)
            apart = high[k] > self.start.level[k] * (1 + CLOSE) or tree.children[k]
            if tree.depth[k] > 1 and moved[k] and apart:
                self._without_gap(k)
            self._alone(k)
        return worst

    def _children(self, k: int) -> list[tuple[float, float, bool, bool]]:
        """Of children that could rise: heights at the start and at the end, and whether they moved and can rise on."""
        tree, moved = self.of.tree, self.moved_branches
        out = []
        for j in np.flatnonzero(self.rising & (tree.parent == k)):
            top = self.of.tasks[j] / tree.per[j]
            out.append((self.before[j] / tree.per[j], top, bool(self.moved[j]), not self.ends[j]))
        for c in (c for c in tree.children[k] if self.start.open[c]):
            out.append((self.start.height[c], self.end.height[c], bool(moved[c]), bool(self.end.open[c])))
        return out

    def _before_jump(self, c: int) -> float:
        """The height of a branch when the last of its children that rose stopped; infinite if one can rise on."""
        children = self._children(c)
        if any(moved and can for _, _, moved, can in children):
            return np.inf
        clock = self.clock.copy()
        clock[c] = max(end for _, end, moved, _ in children if moved)
        return float(self.of.look(self.of.tasks, self.rising & ~self.ends, clock).height[c])

    def _without_gap(self, k: int) -> None:
        """Confirm that some child of a branch rose at each of its levels."""
        reached = self.start.level[k]
        for low, end, moved, can in sorted(self._children(k)):
            if low > reached * (1 + CLOSE) and low <= self.clock[k] * (1 - CLOSE):
                raise _Unconfirmed(f"a jump of {self.of.tree.names[k]!r} is missing")
            if low <= self.clock[k] * (1 + CLOSE):
                reached = max(reached, self.clock[k] if can else end if moved else low)
        if self.end.open[k] and reached < self.clock[k] * (1 - CLOSE):
            raise _Unconfirmed(f"a jump of {self.of.tree.names[k]!r} is missing")

    def in_one_line(self) -> None:
        """Confirm that nothing happened inside the step, so that all tasks moved along a line."""
        tree, moved = self.of.tree, self.moved_branches
        level, last = self.start.level[tree.parent], self.clock[tree.parent]
        with np.errstate(invalid="ignore"):
            late = self.moved & (self.before / tree.per > level * (1 + CLOSE))
            early = self.moved & (self.of.limits / tree.per < last * (1 - CLOSE))
        if (late | early).any():
            raise _Unconfirmed("a state before a full row is missing")
        for k in np.flatnonzero(self.start.open).tolist():
            self.in_one_line_below(k, [c for c in tree.children[k] if moved[c]])

    def in_one_line_below(self, k: int, children: Sequence[int]) -> None:
        """Confirm that the shares of children moved along a line."""
        for c in children:
            late = self.start.height[c] > self.start.level[k] * (1 + CLOSE)
            early = self.end.height[c] < self.clock[k] * (1 - CLOSE)
            if late or early or not (self.near(self.start, c, CLOSE) & self.near(self.end, c, CLOSE)).any():
                raise _Unconfirmed("a state before a full row is missing")

    # -- children that rise alone

    def _alone(self, k: int) -> None:
        """Confirm children that rise alone together: by their weight over the dominant share of what they add."""
        tree, moved = self.of.tree, self.moved_branches
        level = self.clock[k]
        tied = [c for c in tree.children[k] if self.end.open[c] and self.end.height[c] <= level * (1 + CLOSE)]
        if len(tied) < 2:
            return
        # none of their dominant resources grows, from here on or until now, so that the level does not tell their share
        going = {c for c in tied if not (self.near(self.end, c) & self.grows(c)).any()}
        if not going:
            return
        came = {c for c in tied if moved[c] and (self.near(self.end, c, STILL) & ~self.grew(c)).any()}
        if not came or len(going | came) < 2:
            return
        self.in_one_line_below(k, sorted(going | came))
        held = tree.held(self.of.tasks)
        adds = held - tree.held(self.before)
        rises = [float(adds[c].max()) / tree.weights[c] for c in sorted(going | came)]
        if max(rises) - min(rises) > CLOSE * max(held[c].max() / tree.weights[c] for c in tied):
            raise _Unconfirmed(f"children of {tree.names[k] or 'the root'!r} do not rise alone together")

    def _rates(self, k: int, leaves: Bool, tied: Sequence[int], waiting: Sequence[int], after: bool) -> Bool:
        """The resources of which the share of a branch grows."""
        tree = self.of.tree
        of = {c: self.grows(c) if after else self.grew(c) for c in tied}
        still = [c for c in tied if not (self.near(self.end, c) & of[c]).any()]
        rates: Bool = np.zeros(self.of.m, dtype=bool)
        for c in still or tied:
            rates |= of[c]
        if still:
            return rates
        for c in waiting:
            rates |= self.end.vector[c] > 0
        rates |= (tree.ratios[leaves & (tree.parent == k)] > 0).any(axis=0)
        return rates

    def grows(self, k: int) -> Bool:
        """The resources of which a branch has a growing share after the step."""
        level, can = self.clock[k], [c for c in self.of.tree.children[k] if self.end.open[c]]
        tied = [c for c in can if self.end.height[c] <= level * (1 + CLOSE)]
        return self._rates(k, self.rising & ~self.ends, tied, [c for c in can if c not in tied], True)

    def grew(self, k: int) -> Bool:
        """The resources of which a branch had a growing share at the end of the step."""
        tree, moved, level = self.of.tree, self.moved_branches, self.clock[k]
        at = [c for c in tree.children[k] if moved[c] and abs(self.end.height[c] - level) <= CLOSE * level]
        waiting = [c for c in tree.children[k] if self.end.open[c] and c not in at and not moved[c]]
        late = self.of.tasks / tree.per >= level * (1 - CLOSE)
        return self._rates(k, self.rising & late, at, waiting, False)
