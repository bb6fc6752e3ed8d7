"""What quotas by kind of servers secure for teams: tasks of their users, filled evenly within the quotas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fairopt.io import Notes
from fairopt.runtime import Bool, Float, Indices

FULL = 1e-10  # relative
ROUNDING_FACTOR = 1 + 1e-9  # on capacities, when checking whether a task fits
LARGEST = 100_000  # denominator of a simple fraction
ROUNDED = 1e-12  # relative: of 1,000 amounts that are no such fraction about 3 would be taken for one
FEW = 4  # levels that are tried one after the other
PRICED = 1e-7  # of all that a step is worth: more than solver noise


@dataclass(frozen=True, eq=False)
class Entitlement:
    """The units of a resource that teams are owed together on some servers, which may differ by team.

    ``others`` of theirs share ``of_all`` with them, on their servers, and leave them what they need there: named by
    ``name``.
    """

    resource: str
    amount: float
    on: Mapping[str, Bool]
    name: str = ""
    others: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)
    of_all: float = 0.0


@dataclass(frozen=True, eq=False)
class Limit:
    """The most units of a resource that teams use together, each on the servers that it marks.

    ``reasons`` are those of limits of an `Instance`: why what is beyond it is idle.
    """

    name: str
    resource: str
    amount: float
    of: Mapping[str, tuple[bool, ...]]
    reasons: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, eq=False)
class Owed:
    """What teams are owed, and limits.

    ``of_team`` are the quotas of each team. ``of_outer`` are those of teams of teams, the inner ones first, by name,
    with their teams. ``weights`` are those of teams. Unless it is ``scaled``, what teams are owed need not fit.
    """

    of_team: Mapping[str, Sequence[Entitlement]] = field(default_factory=dict)
    of_outer: Mapping[str, tuple[Sequence[str], Sequence[Entitlement]]] = field(default_factory=dict)
    limits: Sequence[Limit] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    scaled: bool = True


@dataclass(frozen=True, eq=False)
class Users:
    """Users as arrays: demands (n, m), limits (n,), where a task fits (n, n_servers), and the users of each team."""

    demands: Float
    limits: Float
    able: Bool
    members: Mapping[str, Collection[int]]
    resources: Sequence[str]
    capacities: Float


class Secured(NamedTuple):
    """Tasks by user, units of teams of teams, the part of the tasks that fits, and limits on what others use."""

    tasks: Float
    floors: dict[str, dict[str, float]]
    part: float
    limits: list[Limit]


def secured(owed: Owed, work: Users, staying: Float | None = None) -> Secured:
    """Tasks by user that quotas secure, units of teams of teams, and the part of the tasks that fits on the servers.

    What a team of teams needs on servers of its own at the least, to run what is secured for it within its quotas,
    others leave it there: so no server of another kind pays for it.

    What is owed to a team counts first for its ``staying`` tasks by user, which run on servers that start no others.
    From there its users rise together in dominant shares until a quota of what they need is used up or their tasks run
    out; of teams of teams all users rise on from there, in proportion to weights, within the limits too. So what is
    secured fits together, but for that of teams if it is not scaled. A user with a request that no quota of its team
    names is secured nothing, and one of a team without quotas what stays, within the limits.
    """
    staying = np.zeros(len(work.demands)) if staying is None else staying
    total = work.capacities.sum(axis=0)
    shares = np.max(work.demands / np.where(total > 0, total, 1.0), axis=1, initial=0.0)
    tasks = np.zeros(len(work.demands))
    team_of = {j: team for team in owed.of_team for j in work.members.get(team, ())}
    limits = [
        Entitlement(one.resource, one.amount, {team: np.array(on, dtype=np.bool_) for team, on in one.of.items()})
        for one in owed.limits
    ]
    for team, quotas in owed.of_team.items():
        mine = np.array(sorted(work.members.get(team, ())), dtype=np.intp)
        named = [work.resources.index(name) for name in {one.resource for one in quotas}]
        mine = mine[work.able[mine].any(axis=1) & work.demands[mine][:, named].any(axis=1)]
        if len(stay := mine[staying[mine] > 0]):
            first = replace(work, limits=np.minimum(work.limits, staying))
            tasks[stay] = _Filling(first, stay, quotas, dict.fromkeys(stay.tolist(), team)).run(
                tasks[stay], staying[stay]
            )
        if len(mine):
            tasks[mine] = _Filling(work, mine, quotas, dict.fromkeys(mine.tolist(), team)).run(
                tasks[mine], 1.0 / shares[mine]
            )
    everyone = np.flatnonzero(tasks > 0)
    part = _Filling(work, everyone, (), {}, by_server=True).part_that_fits(tasks[everyone]) if len(everyone) else 1.0
    of_teams = tasks * part if owed.scaled else tasks
    of_teams = np.where(of_teams > FULL, of_teams, 0.0)
    tasks = tasks * part
    alone = np.array([not owed.of_team.get(team_of.get(j, "")) for j in range(len(tasks))], dtype=np.bool_)
    if (staying * alone > 0).any():
        kept = np.flatnonzero((tasks > 0) | (staying * alone > 0))
        first = replace(work, limits=np.where(alone, np.minimum(work.limits, staying), work.limits))
        tasks[kept] = _Filling(first, kept, limits, team_of).run(tasks[kept], (staying * alone)[kept])
        of_teams[alone] = tasks[alone]
    floors, kept_for = dict[str, dict[str, float]](), list[Limit]()
    for outer, (teams, quotas) in owed.of_outer.items():
        inside = {j for team in teams for j in work.members.get(team, ()) if work.able[j].any()}
        if not inside:
            continue
        kept = np.array(sorted(inside | {*np.flatnonzero(tasks > 0).tolist()}), dtype=np.intp)
        rates = np.array([owed.weights.get(team_of[j], 1.0) / shares[j] if j in inside else 0.0 for j in kept.tolist()])
        filling = _Filling(work, kept, [*quotas, *limits], team_of, by_server=True)
        tasks[kept] = filling.run(tasks[kept], rates)
        for k, one in enumerate(quotas):
            if one.others and (least := filling.least(tasks[kept], k)) > FULL * one.of_all:
                left = one.of_all - least  # of nothing programs leave 1e-12, a limit that no solver can tell from 0
                kept_for.append(Limit(one.name, one.resource, left if left > FULL * one.of_all else 0.0, one.others))
        rows = sorted(inside)
        units = tasks[rows] @ work.demands[rows]
        named = [i for i, name in enumerate(work.resources) if any(one.resource == name for one in quotas)]
        floors[outer] = {work.resources[i]: float(units[i]) for i in named if units[i] > 0}
    return Secured(of_teams, floors, part if owed.scaled else 1.0, kept_for)


def members_of(labels: Iterable[Sequence[str | None]]) -> dict[str, list[int]]:
    """The users of each team, of labels that give the team of each user."""
    members: dict[str, list[int]] = {}
    for teams in labels:
        for j, team in enumerate(teams):
            if team is not None:
                members.setdefault(team, []).append(j)
    return members


def fitting(demands: Float, capacities: Float, eligible: Sequence[Bool] | Bool) -> Bool:
    """Where a task of each user fits and may run, shape (n, n_servers)."""
    room = capacities * ROUNDING_FACTOR
    return np.array([may & (one <= room).all(axis=1) for one, may in zip(demands, eligible, strict=True)], dtype=bool)


def guarantees_of(
    owed: Owed, work: Users, names: Sequence[str], staying: Float | None = None
) -> tuple[dict[str, Any], float, list[Limit]]:
    """Guarantees of tasks by user and of units by team of teams, the part of what is owed that fits, and limits."""
    made = secured(owed, work, staying)
    of_users = {name: without_rounding(x) for name, x in zip(names, made.tasks.tolist(), strict=True) if x > 0}
    of_outer = {team: {r: without_rounding(x) for r, x in of.items()} for team, of in made.floors.items()}
    limits = [replace(one, amount=float(without_rounding(one.amount))) for one in made.limits]
    return of_users | of_outer, made.part, limits


def note_part(part: float, notes: Notes) -> None:
    """Say which part of what is owed fits."""
    what = f"what is owed does not fit on the servers together: {part:.4g} of it counts, for all queues"
    notes.add(what, number=part < 1)


def without_rounding(amount: float) -> float | Fraction:
    """The simple fraction that an amount is up to the rounding of programs in floats, else the amount.

    What teams are owed then is a tie in exact answers where it is one in the quotas given.
    """
    near = Fraction(amount).limit_denominator(LARGEST)
    return near if abs(near - Fraction(amount)) <= Fraction(ROUNDED) * near else amount


class _Filling:
    """Users whose tasks rise together, in tasks by user and class of servers that are alike in all rows."""

    def __init__(
        self,
        work: Users,
        users: Indices,
        quotas: Sequence[Entitlement],
        team_of: Mapping[int, str],
        by_server: bool = False,
    ) -> None:
        self.limits = work.limits[users]
        self.unit = np.maximum(self.limits, FULL)
        for k in np.flatnonzero(np.isinf(self.limits)).tolist():  # what fills its servers
            j = users[k]
            needs, on = work.demands[j] > 0, work.able[j]
            self.unit[k] = max(float((work.capacities[on][:, needs] / work.demands[j, needs]).min(axis=1).sum()), FULL)
        masks = list({id(on): on for one in quotas for on in one.on.values()}.values())
        keys = [*masks, *work.able[users]] if by_server else masks
        table = np.array(keys, dtype=float).T.reshape(work.able.shape[1], len(keys))
        if by_server:
            table = np.hstack([table, work.capacities])
        _, first, of_server = np.unique(table, axis=0, return_index=True, return_inverse=True)
        of_server = of_server.ravel()
        able = np.zeros((len(users), len(first)), dtype=np.bool_)
        for k in range(len(first)):
            able[:, k] = work.able[np.ix_(users, np.flatnonzero(of_server == k))].any(axis=1)
        self.user, place = np.nonzero(able)
        demands = work.demands[users]
        rows, columns, values, right = list[Indices](), list[Indices](), list[Float](), list[float]()
        self.row_of = dict[int, int]()  # of quotas
        for n, one in enumerate(quotas):
            needs = demands[:, work.resources.index(one.resource)]
            row = np.zeros(len(self.user))
            teams = [team_of.get(j, "") for j in users.tolist()]
            for team, on in one.on.items():
                mine = np.array([name == team for name in teams], dtype=np.bool_)
                row += np.where(mine[self.user] & on[first][place], needs[self.user], 0.0)
            if row.any():
                self.row_of[n] = len(right)
                columns.append(np.flatnonzero(row))
                rows.append(np.full(len(columns[-1]), len(right)))
                values.append(row[columns[-1]])
                right.append(one.amount)
        if by_server:
            room = work.capacities[first] * np.bincount(of_server, minlength=len(first))[:, None]
            column, resource = np.nonzero(demands[self.user])
            used, row_of = np.unique(place[column] * room.shape[1] + resource, return_inverse=True)
            columns.append(column)
            rows.append(len(right) + row_of.ravel())
            values.append(demands[self.user[column], resource])
            right += room.ravel()[used].tolist()
            self.on = able, demands, room
        # nonzero numbers only: there are up to users times classes columns, 1.3 million of 8,000 pods on 480 servers
        self.row, self.column = (np.concatenate([np.zeros(0, np.intp), *of]) for of in (rows, columns))
        self.value, self.right = np.concatenate([np.zeros(0), *values]), np.array(right)

    def run(self, start: Float, rates: Float) -> Float:
        """The tasks at which limits or rows have stopped all users that rise from a start at given rates."""
        if len(self.user) == len(start):  # one class of servers each
            rows = np.zeros((len(self.right), len(start)))
            rows[self.row, self.column] = self.value
            return _filled(start, rates, self.limits, rows, self.right)
        at, rising = start.copy(), (rates > 0) & (start < self.limits * (1 - FULL))
        while rising.any():
            at = self._ahead(at, np.where(rising, rates, 0.0))
            rising &= at < self.limits * (1 - FULL)
            speed = np.where(rising, rates, 0.0)
            level, worth = self._highest(at, speed) if rising.any() else (0.0, speed)
            at = np.minimum(at + level * speed, self.limits)
            stopped = rising & ((worth > PRICED) | (at >= self.limits * (1 - FULL)))
            rising &= ~(stopped if stopped.any() else rising)  # by rounding, all
        return at

    def _ahead(self, at: Float, speed: Float) -> Float:
        """Tasks further on, before rows stop anybody: those who reach their limits go no further.

        Bisection over the levels at which they do, as one program a limit takes n of them. CPU seconds of a whole
        reading without and with it, of pods that are all different: 1,000 on 60 servers 2.7 and 0.8, 2,000 on 120
        6.5 and 1.6, 8,000 on 480 62 and 8.6.
        """
        rising = speed > 0
        levels = np.unique((self.limits - at)[rising] / speed[rising])
        levels = levels[np.isfinite(levels)]
        low, high, k = -1, len(levels), len(levels) - 1
        found = at
        while high - low > FEW:
            ahead = np.minimum(at + levels[k] * speed, self.limits)
            if self._highest(at, ahead - at)[0] >= 1 - ROUNDED:
                low, found = k, ahead
            else:
                high = k
            k = (low + high) // 2
        return found

    def _highest(self, at: Float, speed: Float) -> tuple[float, Float]:
        """How far users can rise from tasks at given speeds, and by what parts each of them stops all."""
        from scipy.optimize import linprog

        unit, fast = self.unit, float(np.max(speed / self.unit))
        gain = np.zeros(len(self.user) + 1)
        gain[-1] = -1.0
        most = float(np.min(((self.limits - at) / np.where(speed > 0, speed, 1.0))[speed > 0])) * fast
        bounds = [(0, None)] * len(self.user) + [(0, max(most, 0.0))]
        solution = linprog(gain, *self._rows(at, speed / unit / fast), bounds=bounds, method="highs-ds")
        if solution.x is None:  # what is at the start uses up rows but for rounding
            return 0.0, np.where(speed > 0, 1.0, 0.0)
        worth = np.maximum(-solution.ineqlin.marginals[: len(at)], 0.0) * speed / unit / fast
        return max(float(solution.x[-1]), 0.0) / fast, worth

    def least(self, tasks: Float, quota: int) -> float:
        """The least that tasks use of a quota, within all rows; 0 if they need not use it, or by rounding."""
        from scipy.optimize import linprog

        if quota not in self.row_of:
            return 0.0
        mine = self.row == self.row_of[quota]
        row = np.bincount(self.column[mine], self.value[mine], len(self.user) + 1)
        if len(self.user) == len(tasks):  # one class of servers each
            return float(row[:-1] @ tasks)
        row[:-1] *= self.unit[self.user]
        rows = self._rows(tasks * (1 - ROUNDED), np.zeros(len(tasks)))
        bounds = [(0, None)] * len(self.user) + [(0, 0)]
        solution = linprog(row, *rows, bounds=bounds, method="highs-ds")
        return max(float(solution.fun or 0.0), 0.0) if solution.x is not None else 0.0

    def _rows(self, at: Float, speed: Float) -> tuple[Any, Float]:
        """Rows and right sides of a program: users have tasks and what they rise by, within all rows.

        Columns are parts of users' units, and the level. Users and rows come with the nonzero numbers only.
        """
        from scipy.sparse import csc_array

        n, size = len(at), np.where(self.right > 0, self.right, 1.0)
        of = [
            (self.user, np.arange(len(self.user)), np.full(len(self.user), -1.0)),
            (np.arange(n), np.full(n, len(self.user)), speed),
            (n + self.row, self.column, self.value * self.unit[self.user[self.column]] / size[self.row]),
        ]
        row, column, value = (np.concatenate(parts) for parts in zip(*of, strict=True))
        matrix = csc_array((value, (row, column)), shape=(n + len(size), len(self.user) + 1))
        return matrix, np.concatenate([-at / self.unit, self.right / size])

    def part_that_fits(self, tasks: Float) -> float:
        """The largest part of tasks, at most 1, that fits."""
        if len(self.user) == len(tasks):
            use = np.bincount(self.row, self.value * tasks[self.column], len(self.right))
            return float(min([1.0, *(self.right[use > 0] / use[use > 0])]))
        if _placed(tasks, *self.on):
            return 1.0
        level, _ = self._highest(np.zeros(len(tasks)), np.minimum(tasks, self.limits))
        return 1.0 if level > 1 - 1e-9 else level


def _placed(tasks: Float, able: Bool, demands: Float, room: Float) -> bool:
    """Whether all tasks fit if each user's are spread over its classes of servers in proportion to the room there.

    False says nothing; True spares a program with a variable by user and class. Users who need most of what there is
    on their servers come first. CPU seconds of a whole reading without and with it, of pods that are all different on
    60, 120 and 240 servers: 1.0 and 0.8, 2.0 and 1.5, 6.4 and 5.2.
    """
    left, total = room.copy(), np.maximum(able.astype(np.float64) @ room, FULL)
    for k in np.argsort(-tasks * (demands / total).max(axis=1), kind="stable").tolist():
        needs, on = demands[k] > 0, able[k]
        fit = (left[on][:, needs] / demands[k, needs]).min(axis=1, initial=np.inf)
        if fit.sum() < tasks[k]:
            return False
        left[on] -= np.outer(fit * (tasks[k] / fit.sum()), demands[k])
        np.maximum(left, 0.0, out=left)
    return True


def _filled(start: Float, rates: Float, limits: Float, rows: Float, right: Float) -> Float:
    """Tasks that rise from a start at given rates until limits or rows, ``rows @ tasks <= right``, stop each."""
    tasks, right = start.copy(), np.maximum(right, rows @ start)
    while True:
        slack = right - rows @ tasks
        full = slack <= 1e-12 * np.maximum(right, 1.0)
        rising = (rates > 0) & (tasks < limits * (1 - 1e-12)) & ~(rows[full] > 0).any(axis=0)
        if not rising.any():
            return tasks
        speed = np.where(rising, rates, 0.0)
        use = rows @ speed
        steps = [*(slack[use > 0] / use[use > 0]), *((limits - tasks)[rising] / rates[rising])]
        tasks = np.minimum(tasks + min(steps) * speed, limits)
