"""The instance of a file, its shares of tasks, and its digest.

What `fairopt.Instance` refuses is refused here, by code of its own, but for numbers beyond 1e60 or below 1e-60: floats
need these ends, fractions do not. Coefficients of shares come from `blocks`, those of ideals (Kalai and Smorodinsky
1975) from here. Those of shares of a user's own are taken as given, and the statement says so.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple

from .blocks import SHARES
from .numbers import (
    ONE,
    ZERO,
    Between,
    Fraction,
    LinearRow,
    Pair,
    Place,
    Table,
    exact_sum,
    in_common,
    number,
    numbers,
    sum_of_products,
    together,
    up,
)
from .outcome import CannotCheck, Clock, Fault
from .policy import COMPOSED, PARAMETERS, Block

NUMBERS = ("demands", "capacities", "weights", "task_limits", "guarantees", "rates")  # of an instance
AT_ONCE = 1000  # entries that a digest writes


class Together(NamedTuple):
    """A limit on what tasks of some users on some servers, ``pairs``, take of a resource."""

    name: str
    resource: int
    amount: Fraction
    pairs: frozenset[Pair]


class Cluster:
    """The instance of a file, with its numbers as fractions.

    ``active`` are the users who take part, and ``open`` the servers of each user. ``room`` (n_servers, n_resources) are
    the capacities of whole server rows, ``usable`` the usable part of each resource. ``tasks`` are those of the file;
    ``low`` and ``high`` bound each user's total tasks (None: no limit).
    """

    def __init__(self, data: Mapping[str, Any], clock: Clock | None = None) -> None:
        instance, self.clock, self.tie = data["instance"], clock or Clock(), TIE
        check_names(instance)
        self.users, self.resources = list(instance["users"]), list(instance["resources"])
        self.n, self.m, self.servers = len(self.users), len(self.resources), len(instance["servers"])
        n, m, servers = self.n, self.m, self.servers
        self.by_server = n > 0 and isinstance(instance["demands"][0][0], list)
        shape = (n, servers, m) if self.by_server else (n, m)
        given = numbers(instance["demands"], "demands", *shape)
        self.demands = given if self.by_server else [[row] * servers for row in given]
        self.capacities = numbers(instance["capacities"], "capacities", servers, m)
        self.counts = [math.ceil(number(q, "counts", 1)) for q in instance["counts"]]
        self.room = [[c * q for c in row] for row, q in together(self.capacities, self.counts)]
        self.teams: dict[str, list[str | None]] = {by: instance["teams"][by] for by in innermost_first(instance)}
        given_to = [0.0] * n if instance.get("guarantees") is None else instance["guarantees"]
        self.own_weights, self.team_weights = self._with_teams(instance["weights"], "weights")
        self.guarantees, self.team_guarantees = self._with_teams(given_to, "guarantees")
        self.weights = self._divided()
        self.limits = [None if t is None else number(t, "task_limits", 0) for t in instance["task_limits"]]
        self._refuse_negative_amounts(instance)
        rates = instance.get("rates")
        self.rates: Table | None = None if rates is None else numbers(rates, "rates", n, servers)
        self.tasks: Table = numbers(data["tasks_by_server"], "tasks_by_server", n, servers)
        self.tangents_at = self.tasks  # where tangents are taken
        rows = chain.from_iterable(instance["demands"]) if self.by_server else instance["demands"]
        for what, table in {"demands": rows, "capacities": instance["capacities"], "rates": rates or ()}.items():
            if min(chain.from_iterable(table), default=0) < 0:
                raise Fault(f"{what} hold a negative number")
        if len(self.limits) != n or any(w == 0 for w in self.weights) or self.counts != instance["counts"]:
            raise Fault("task_limits are missing, a weight is 0, or a count is not a whole number")
        if max(self.counts, default=1) > 1 << 53:
            raise Fault("a count exceeds 2^53; no instance has these")
        everyone = [[True] * servers]
        allowed = everyone * n if instance["eligible"] is None else instance["eligible"]
        if [len(row) for row in allowed] != [servers] * n or any(v not in (0, 1) for row in allowed for v in row):
            raise Fault("eligible is not true or false for each user on each server")
        lacks, everywhere = [[i for i, c in enumerate(row) if not c] for row in self.capacities], [*range(servers)]
        self.open: list[list[int]] = []
        for j, user in enumerate(self.users):
            self.clock.check()
            may, needs = everywhere, self.demands[j]
            if allowed[j] is not everyone[0] or self.rates is not None or any(lacks):
                may = [
                    s
                    for s in everywhere
                    if allowed[j][s]
                    and not any(needs[s][i] for i in lacks[s])
                    and (self.rates is None or self.rates[j][s])
                ]
            if not may or not all([any([d.n for d in needs[s]]) for s in (may if self.by_server else may[:1])]):
                raise Fault(f"user {user!r} may run nowhere, or has no demands where it may")
            self.open.append(everywhere if len(may) == servers else may)
        self.given_limits, self.given_open = list(self.limits), list(self.open)  # before limits of 0 count
        self.together = self._limits_of_several(instance)
        self.active = [j for j in range(n) if self.limits[j] != 0]
        least = together(self.guarantees, self.given_limits)
        self.low: list[Fraction] = [g if t is None else min(g, t) for g, t in least]
        for j in range(n):
            if self.limits[j] == 0 and self.low[j]:
                raise Fault(f"user {self.users[j]!r} is guaranteed tasks, of which limits of 0 leave it none")
        self.high = list(self.limits)
        self._whole = [ONE] * m
        self.usable = [*self._whole]
        self.capacity = [exact_sum(row[i] for row in self.room) for i in range(m)]
        self.part_of_all, self._part_of = Largest(self.capacity), [Largest(row) for row in self.room]
        self.as_written: Any = None  # `as_written.AsWritten`, of users' blocks
        self.given = data.get("given") or {}
        if any(text.partition("(")[0] in PARAMETERS for text in self.given):
            raise Fault("coefficients are given for a share of fairopt, which are computed instead")
        self._most_tasks: dict[int, Fraction] = {}  # cleared where a constraint is imposed
        self._coefficients: dict[str, tuple[Table, Table]] = {}
        self.given_earlier = False  # whether leximin levels are proved only given the earlier ones
        # objectives with lower levels, in the units of `Goal`, and the size to which each tolerance is relative
        self.kept_levels: list[tuple[Block, Fraction, Fraction]] = []
        self.kept_places: list[int | str] = []  # of their constraints
        self.ideal_proofs = dict(data.get("ideals") or {})
        self.floor_proofs = dict(data.get("floors") or {})
        self.floors: dict[str, dict[int, Fraction]] = {}  # of teams, by resource
        self.worths: dict[tuple[str, str], Between] = {}  # of floors, by team and share
        self.stays: dict[str, set[str]] = {}  # users and teams that cannot rise above the base of a surplus, by share
        self.binding = None if "evidence" not in data else self.pairs_named(data["evidence"])
        self.imposed, self.envied = (
            set[str](),
            dict[tuple[int, int], LinearRow](),
        )  # constraints by name; rows of `EnvyFree`

    def _limits_of_several(self, instance: Mapping[str, Any]) -> list[Together]:
        """The limits on what users take together; those of 0 close servers, and limit to 0 who can run nowhere."""
        if not instance.get("limits"):
            return []
        out, members = list[Together](), self.members | {user: [j] for j, user in enumerate(self.users)}
        for given in instance["limits"]:
            check_keys(given, ("name", "resource", "amount", "of"), "a limit")
            name, amount = str(given["name"]), number(given["amount"], "the amount of a limit", 0)
            pairs = set[Pair]()
            for who, where in given["of"].items():
                if who not in members or (where is not None and {*where} - {*instance["servers"]}):
                    raise Fault(f"the limit {name!r} names an unknown user, team or server")
                rows = [s for s, server in enumerate(instance["servers"]) if where is None or server in where]
                pairs |= {(j, s) for j in members[who] for s in rows}
            out.append(Together(name, self.resource(given["resource"]), amount, frozenset(pairs)))
        closed = {(j, s) for one in out if not one.amount for j, s in one.pairs if self.demands[j][s][one.resource]}
        for j in sorted({j for j, _ in closed}):
            left = [s for s in self.open[j] if (j, s) not in closed]
            self.open[j], self.limits[j] = (left, self.limits[j]) if left else (self.open[j], ZERO)
        runs = {(j, s) for j, servers in enumerate(self.open) if self.limits[j] != 0 for s in servers}
        out = [one._replace(pairs=one.pairs & runs) for one in out]
        if len({one.name for one in out}) < len(out):
            raise Fault("two limits have one name")
        return out

    def _refuse_negative_amounts(self, instance: Mapping[str, Any]) -> None:
        """Refuse negative weights and guarantees, and held tasks that are no amounts."""
        for what, by_team in (("weights", self.team_weights), ("guarantees", self.team_guarantees)):
            for team, value in by_team.items():
                amounts = value.values() if isinstance(value, dict) else [value]
                if isinstance(value, dict) == (what == "weights"):
                    raise Fault(f"{what} of team {team!r} are not given as an instance has them")
                for amount in amounts:
                    number(amount, f"{what} of team {team!r}", 0)
        if min([v.n for v in (*self.own_weights, *self.guarantees)], default=0) < 0:
            raise Fault("weights or guarantees hold a negative number")
        if (held := instance.get("held")) is not None:
            by_server = bool(held) and isinstance(held[0], list)
            amounts = numbers(held, "held", self.n, self.servers) if by_server else numbers(held, "held", self.n)
            if any(v < 0 for row in amounts for v in (row if by_server else [row])):
                raise Fault("held holds a negative number")

    @property
    def members(self) -> dict[str, list[int]]:
        """The users of each team, those under inner labels first."""
        out: dict[str, list[int]] = {}
        for labels in self.teams.values():
            for j, name in enumerate(labels):
                if name is not None:
                    out.setdefault(str(name), []).append(j)
        return out

    def _with_teams(self, given: Any, what: str) -> tuple[list[Fraction], dict[str, Any]]:
        """Numbers by user, and what is given by team."""
        if not isinstance(given, dict):
            return numbers(given, what, self.n), {}
        users = {*self.users}
        by_team = {name: value for name, value in given.items() if name not in users}
        if by_team.keys() - self.members.keys() or len(given) - len(by_team) != self.n:
            raise Fault(f"{what} name unknown users or teams, or not all users")
        return numbers([given[user] for user in self.users], what, self.n), by_team

    def _divided(self) -> list[Fraction]:
        """The weights of users, with those of teams divided in proportion to them, outer teams last."""
        out, members = list(self.own_weights), self.members
        given = [team for team in members if team in self.team_weights]
        for name in sorted(given, key=lambda team: len(members[team])):
            weight = number(self.team_weights[name], "weights", 0)
            total = exact_sum(out[j] for j in members[name])
            for j in members[name]:
                out[j] = out[j] * weight / total
        return out

    def pairs_named(self, evidence: Any) -> list[tuple[int, int]]:
        """The pairs of users that evidence names, by index: of whom one may not envy the other."""
        index, found = {str(user): j for j, user in enumerate(self.users)}, dict[tuple[int, int], None]()
        for pair in named_pairs(evidence):
            if isinstance(pair, list) and len(pair) == 2 and all(isinstance(user, str) for user in pair):
                j, k = (index.get(user, -1) for user in pair)
                found |= {(j, k): None} if j != k and min(j, k) >= 0 else {}
        return list(found)

    @contextmanager
    def at(self, tasks: Table) -> Iterator[None]:
        """Evaluate at other tasks inside the context."""
        stored, self.tasks = self.tasks, tasks
        try:
            yield
        finally:
            self.tasks = stored

    def total(self, j: int) -> Fraction:
        """A user's tasks on all servers."""
        return self.tasks[j][0] if self.servers == 1 else exact_sum(self.tasks[j])

    def tasks_alone(self, j: int, s: int, usable: Sequence[Fraction] | None = None) -> Fraction | None:
        """Tasks that a user could run alone on a server row; None if it needs nothing there."""
        part, room, needs = usable or self._whole, self.room[s], self.demands[j][s]
        if all(room) and part == self._whole:
            largest = self._part_of[s].of(needs)
            return 1 / largest if largest else None
        return min((part[i] * room[i] / d for i, d in enumerate(needs) if d), default=None)

    def most_tasks(self, j: int) -> Fraction:
        """An upper bound on a user's total tasks."""
        if j not in self._most_tasks:
            self._most_tasks[j] = self._largest(j)
        return self._most_tasks[j]

    def _largest(self, j: int) -> Fraction:
        alone = [self.tasks_alone(j, s, self.usable) for s in self.open[j]]
        bounds = [self.high[j]] if any(a is None for a in alone) else [self.high[j], exact_sum(filter(None, alone))]
        most = min((b for b in bounds if b is not None), default=None)
        if most is None:
            raise Fault(f"user {self.users[j]!r} has no demands and no task limit")
        return up(most)

    def of_user(self, value: Any, what: str, most: bool) -> list[Fraction | None]:
        """A bound by user, given as a number, a list or a dict by label; None for an infinite upper bound or a missing
        label.
        """
        if not isinstance(value, dict):
            values = value if isinstance(value, list) else [value] * self.n
            value = dict(together(self.users, values))
        if value.keys() - {*self.users}:
            raise Fault(f"{what} names an unknown user")
        found = {user: None if most and v == math.inf else number(v, what, 0) for user, v in value.items()}
        return [found.get(user) for user in self.users]

    def resource(self, name: Any) -> int:
        """The index of a resource, given by label, by a label without the vendor's prefix, or by index."""
        if name in self.resources:
            return self.resources.index(name)
        found = [i for i, label in enumerate(self.resources) if label.rpartition("/")[2] == name]
        if len(found) == 1:
            return found[0]
        if type(name) is int and -self.m <= name < self.m:
            return name
        raise Fault(f"the policy names an unknown resource {name!r}")

    # -- shares

    def coefficients(self, share: Block) -> tuple[Table, Table]:
        """The share of one task by user and server, from below and from above; they differ for norms only."""
        if share.text not in self._coefficients:
            self._coefficients[share.text] = self._computed(share)
        return self._coefficients[share.text]

    def _computed(self, share: Block) -> tuple[Table, Table]:
        if share.name == "IdealGain":
            of_users = [1 / gain if isinstance(gain, Fraction) else gain.inverse() for gain in self.ideal_gains(share)]
            return self._enclosed([[c] * self.servers for c in of_users])
        if share.text in self.given:
            c = self.given[share.text]
            wide = bool(c) and isinstance(c[0], list)
            c = numbers(c, share.text, self.n, self.servers) if wide else numbers(c, share.text, self.n)
            exact: Table = c if wide else [[v] * self.servers for v in c]
            if any(v < 0 for row in exact for v in row):
                raise Fault(f"{share.text} holds a negative number")
            return exact, exact
        if share.name not in PARAMETERS:
            raise CannotCheck(f"the coefficients of {share.text} are not in the file")
        if share.name in COMPOSED:
            raise CannotCheck(f"{share.text} is checked in Leximin and in sums of objectives only")
        one = SHARES[share.name]
        rows = range(self.servers if self.by_server or one.by_server else 1)
        found = [[one.of(self, share, j, s) for s in rows] * (self.servers // len(rows)) for j in range(self.n)]
        return self._enclosed(found)

    @staticmethod
    def _enclosed(found: list[list[Fraction | Between]]) -> tuple[Table, Table]:
        """Numbers from below and from above; the same table if all are known exactly."""
        if Between not in {*map(type, chain.from_iterable(found))}:
            exact: Any = found
            return exact, exact
        below = [[c.low if isinstance(c, Between) else c for c in row] for row in found]
        return below, [[c.high if isinstance(c, Between) else c for c in row] for row in found]

    def ideal_gains(self, share: Block) -> list[Fraction | Between]:
        """What each user could have above its base when all others are at theirs (Kalai and Smorodinsky 1975); 1 for
        those who could have nothing, and leave.

        Closed forms on one pool and without bases; else each is the optimum of a linear program, proved by the file.
        """
        given, gains = share.given.get("base"), list[Between]()
        base = self.guarantees if given is None else [b or ZERO for b in self.of_user(given, share.text, False)]
        base = [b if t is None else min(b, t) for b, t in together(base, self.limits)]
        if not any(base):
            alone = (exact_sum(self.tasks_alone(j, s) or ZERO for s in self.open[j]) for j in range(self.n))
            gains = [Between(gain, gain) for gain in alone]
        elif self.servers == 1:
            used = [exact_sum(row[0][i] * b for row, b in together(self.demands, base)) for i in range(self.m)]
            left = [max(room - u, ZERO) for room, u in together(self.room[0], used)]
            alone = (min(r / d for r, d in together(left, row[0]) if d) for row in self.demands)
            gains = [Between(gain, gain) for gain in alone]
        else:
            proofs = self.ideal_proofs.get(share.text)
            if proofs is None:
                raise CannotCheck(f"the ideals of {share.text} were saved without a proof")
            gains = [self._ideal_gain(j, base, proof) for j, (proof, _) in enumerate(together(proofs, base))]
        out: list[Fraction | Between] = []
        for gain, t, b in zip(gains, self.limits, base):
            low, high = gain if t is None else (min(end, t - b) for end in gain)
            out.append(ONE if high <= 0 else low if low == high else Between(low, high))
        return out

    def _ideal_gain(self, j: int, base: Sequence[Fraction], proof: Mapping[str, Any]) -> Between:
        """The most tasks of a user above its base while others are at theirs: between those of a placement, up to the
        tolerance of capacities, and the bound of prices p, by weak duality.

        It is ``(p'C - sum_k b_k min_s p'd_ks) / min_s p'd_js``, over other users k.
        """
        self.clock.check()
        check_keys(proof, ("prices", "tasks"), f"the ideal of user {self.users[j]!r}")
        prices = [[max(p, ZERO) for p in row] for row in numbers(proof["prices"], "prices", self.servers, self.m)]
        units = exact_sum(p * r for row, room in zip(prices, self.room) for p, r in zip(row, room))

        def cost(k: int) -> Fraction:
            return min(exact_sum(p * d for p, d in zip(prices[s], self.demands[k][s]) if d) for s in self.open[k])

        left = units - exact_sum(cost(k) * b for k, b in enumerate(base) if k != j and b)
        tasks = [[ZERO] * self.servers for _ in range(self.n)]
        for k, s, x in proof["tasks"]:
            if s not in self.open[k]:
                raise Fault(f"tasks of the ideal of user {self.users[j]!r} are where they may not run")
            tasks[k][s] += number(x, "tasks of an ideal", 0)
        with self.at(tasks):
            over = any(self.load(s, i) > r * (1 + TIE) for s, row in enumerate(self.room) for i, r in enumerate(row))
            short = any(self.total(k) < b * (1 - TIE) for k, b in enumerate(base) if k != j)
            least = self.total(j)
        if over or short or not cost(j):
            raise Fault(f"the ideal of user {self.users[j]!r} is not proved: its placement or its prices do not fit")
        most = max(up(left / cost(j)), base[j])
        if most - base[j] <= TIE * most:
            return Between(ZERO, ZERO)
        if most - least > IDEAL * (most - base[j]):
            raise Fault(f"the ideal of user {self.users[j]!r} is not proved: it is at most {float(most):.9g}")
        return Between(min(least, most) - base[j], most - base[j])

    def same_on_servers(self, share: Block) -> bool:
        """Whether each user's share of a task is the same on all of its servers."""
        c, _ = self.coefficients(share)
        return self.servers == 1 or all(len({c[j][s] for s in self.open[j]}) == 1 for j in self.active)

    def shares(self, c: Table) -> dict[int, Fraction]:
        """Shares of the active users at the current tasks."""
        if self.servers == 1:
            pairs = ((j, c[j][0], self.tasks[j][0]) for j in self.active)
            return {j: Fraction(a.n * x.n, a.d * x.d) for j, a, x in pairs}
        return {j: exact_sum(c[j][s] * self.tasks[j][s] for s in self.open[j]) for j in self.active}

    def level_per_task(self, c: Table) -> dict[int, dict[int, Fraction]]:
        """The share per weight of one task by user and server, where it is positive."""
        return {j: {s: c[j][s] / self.weights[j] for s in self.open[j] if c[j][s] > 0} for j in self.active}

    # -- constraints

    def usable_units(self) -> dict[Place, Fraction]:
        """The usable units of each resource on each server row."""
        return {
            (s, i): r * part
            for s, row in enumerate(self.room)
            for i, (r, part) in enumerate(together(row, self.usable))
        }

    def load(self, s: int, i: int) -> Fraction:
        """The units of a resource that the tasks use on a server row."""
        return sum_of_products((of_user[s][i], x[s]) for of_user, x in zip(self.demands, self.tasks) if x[s].n)


def check_names(instance: Mapping[str, Any]) -> None:
    """Refuse labels, types, units and teams that no instance has: all are texts, and names differ."""
    users, resources, servers = (texts(instance[what], what) for what in ("users", "resources", "servers"))
    for what, names in (("user", users), ("resource", resources), ("server", servers)):
        if len({*names}) < len(names):
            raise Fault(f"two {what}s have the same label")
    types, units, teams = (instance.get(what) for what in ("server_types", "units", "teams"))
    if types is not None and (len(texts(types, "server_types")) != len(servers) or not all(types)):
        raise Fault("server_types has not one type per server")
    if units is not None:
        strange = [unit for unit in texts(units, "units") if unit != unit.strip() or {*unit} & {*"[]"}]
        titles = {f"{name} ({unit})" if unit else name for name, unit in zip(resources, units)}
        if strange or not all(map(str.isprintable, units)) or len(units) != len(titles) or len(units) != len(resources):
            raise Fault("units has not one short text per resource, or two resources have one title")
    if teams is not None and not isinstance(teams, dict):
        raise Fault("teams is not labels by kind")
    label_of: dict[str, str] = {}
    for by, labels in (teams or {}).items():
        if not isinstance(labels, list) or len(labels) != len(users):
            raise Fault(f"teams: {by!r} has not one label per user")
        for name in dict.fromkeys(texts([name for name in labels if name is not None], "teams")):
            if not name or label_of.setdefault(name, by) != by:
                raise Fault(f"teams: {name!r} is no name, or a label of two kinds")
    for j, user in enumerate(users):
        if user in label_of and [k for k, name in enumerate((teams or {})[label_of[user]]) if name == user] != [j]:
            raise Fault(f"{user!r} is both a user and a team")


def innermost_first(instance: Mapping[str, Any]) -> list[str]:
    """The labels of users from the innermost out: as given, or, in older files, in the file's order and nested.

    Of two labels that one is inner whose teams are all within teams of the other, and some smaller.
    """
    teams, given = instance.get("teams") or {}, instance.get("innermost_first")
    if given is not None:
        if sorted(texts(given, "innermost_first")) != sorted(teams):
            raise Fault("innermost_first does not name each label of teams once")
        return list(given)
    out: list[str] = []
    for by in teams:
        around = [k for k, other in enumerate(out) if _lies_within(teams[by], teams[other])]
        out.insert(min(around, default=len(out)), by)
    return out


def _lies_within(inner: list[str | None], outer: list[str | None]) -> bool:
    """Whether all teams of a label are parts of teams of another, as far as users have both, and some not the whole."""
    users_of: dict[tuple[int, str], set[int]] = {}
    for k, labels in enumerate((inner, outer)):
        for j, name in enumerate(labels):
            if name is not None:
                users_of.setdefault((k, name), set()).add(j)
    both = {(a, b) for a, b in together(inner, outer) if a is not None and b is not None}
    pairs = [(users_of[0, a], users_of[1, b]) for a, b in both]
    return all(small <= large for small, large in pairs) and any(small < large for small, large in pairs)


def texts(given: Any, what: str) -> list[str]:
    """A list of texts, in which each character can be written."""
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise Fault(f"{what} is not a list of texts")
    "".join(given).encode()
    return given


class Largest:
    """The largest of the ratios ``d / c``, of c > 0, for demands d of many users."""

    def __init__(self, c: Sequence[Fraction]) -> None:
        self.c, self.inverse = c, [one.n for one in in_common(1 / one if one.n else ZERO for one in c)]

    def of(self, d: Sequence[Fraction]) -> Fraction:
        """The largest ratio; those of demands with one denominator are compared as integers."""
        first = d[0].d
        if [one.d for one in d].count(first) == len(d):
            sizes = [one.n * inverse for one, inverse in zip(d, self.inverse)]
            i = sizes.index(max(sizes))
            return d[i] / self.c[i] if sizes[i] else ZERO
        return max((one / c for one, c in zip(d, self.c) if c.n), default=ZERO)


def named_pairs(evidence: Any) -> Iterator[list[Any]]:
    """The pairs in evidence: labels of rows, and those of ``pairs``."""
    for one in evidence if isinstance(evidence, list) else ():
        yield from named_pairs(one)
    for key, held in evidence.items() if isinstance(evidence, dict) else ():
        if key == "rows":
            yield from (row[1] for row in held or () if isinstance(row, list) and len(row) == 3)
        elif key == "pairs":
            yield from held or ()
        elif key not in ("loaded", "written"):
            yield from named_pairs(held)


def entries(instance: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The instance of `Instance.to_dict` in a canonical form: an entry per resource, server and user, sorted by label,
    and per team with a weight or a guarantee.

    A user's eligible servers are those that offer all it needs; rates are those on them. Demands that are equal on all
    of them appear once.
    """
    names, servers = instance["resources"], instance["servers"]
    demand_of = [f"demand of {name!r}" for name in names]
    lacks = [[i for i, c in enumerate(row) if not c] for row in instance["capacities"]]
    in_order = sorted(range(len(servers)), key=servers.__getitem__)
    eligible, rates, teams = instance["eligible"], instance.get("rates"), instance.get("teams") or {}
    weights, guarantees = instance["weights"], instance.get("guarantees") or {}
    labels = {f"label {by!r}": of for by, of in teams.items()}

    def plain(v: Any) -> Any:  # 1 and 1.0, 0.0 and -0.0 are one number
        return v + 0.0 if type(v) is float or (v is not None and float(v) == v) else v

    for name in sorted(names):
        yield f"resource {name!r}", {}
    for s in in_order:
        capacities = {f"capacity of {name!r}": plain(c) for name, c in together(names, instance["capacities"][s])}
        yield f"server {servers[s]!r}", {"count": plain(instance["counts"][s])} | capacities
    for j in sorted(range(len(instance["users"])), key=instance["users"].__getitem__):
        row, runs = instance["demands"][j], in_order
        alike = not (row and isinstance(row[0], list))
        by_server = [row] * len(servers) if alike else row
        if eligible is not None or any(lacks):
            may = [True] * len(servers) if eligible is None else eligible[j]
            runs = [s for s in in_order if may[s] and not any(by_server[s][i] for i in lacks[s])]
        user = instance["users"][j]
        of_user = weights[user] if isinstance(weights, dict) else weights[j]
        fields = {"weight": plain(of_user), "task limit": plain(instance["task_limits"][j])}
        least = guarantees.get(user) if isinstance(guarantees, dict) else guarantees[j]
        if least:
            fields["guarantee"] = plain(least)
        if labels:
            fields |= {label: of[j] for label, of in labels.items() if of[j] is not None}
        fields["servers"] = None if len(runs) == len(servers) else [servers[s] for s in runs]
        same = alike or all(by_server[s] == by_server[runs[0]] for s in runs)
        for s in runs[:1] if same else runs:
            where = demand_of if same else [f"{what} on {servers[s]!r}" for what in demand_of]
            fields.update(zip(where, [d + 0.0 if type(d) is float else plain(d) for d in by_server[s]]))
        if rates is not None:
            fields |= {f"rate on {servers[s]!r}": plain(rates[j][s]) for s in runs}
        yield f"user {user!r}", fields
    if len(order := innermost_first(instance)) > 1:
        yield "labels", {"innermost first": order}
    users = {*instance["users"]}
    by_team = [
        {k: v for k, v in of.items() if k not in users} if isinstance(of, dict) else {} for of in (weights, guarantees)
    ]
    for limit in sorted(instance.get("limits") or (), key=lambda one: str(one["name"])):
        served = {f"servers of {who!r}": None if of is None else sorted(of) for who, of in limit["of"].items()}
        yield f"limit {limit['name']!r}", {"resource": limit["resource"], "amount": plain(limit["amount"])} | served
    for team in sorted({*by_team[0], *by_team[1]}):
        floors = by_team[1].get(team) or {}
        of_team = {f"guarantee of {name!r}": plain(v) for name, v in floors.items()}
        yield f"team {team!r}", of_team | ({"weight": plain(by_team[0][team])} if team in by_team[0] else {})


def digest(instance: Mapping[str, Any]) -> str:
    """The SHA-256 of the `entries`, each a line of JSON with sorted keys.

    Entries are written many at a time. Between parts stands a line feed, which is in no text of JSON and, between two
    lists, only where an entry ends.
    """
    found, rest = hashlib.sha256(), entries(instance)
    written = json.JSONEncoder(sort_keys=True, separators=("\n", ": ")).encode
    while some := [*islice(rest, AT_ONCE)]:
        lines = written(some)[1:-1].replace("}]\n[", "}]\0[").replace("\n", ", ").replace("\0", "\n")
        found.update(lines.encode() + b"\n")
    return found.hexdigest()


def differences(instance: Mapping[str, Any], other: Mapping[str, Any], most: int = 20) -> list[str]:
    """Differences between two instances by user, server, resource and field; at most ``most`` are listed."""
    mine, theirs = dict(entries(instance)), dict(entries(other))
    out = [f"{one} is only in the file" for one in mine if one not in theirs]
    out += [f"{one} is not in the file" for one in theirs if one not in mine]
    for one in mine.keys() & theirs.keys():
        a, b = mine[one], theirs[one]
        out += [
            f"{one}: {name} {a.get(name)} in the file, {b.get(name)} in the instance given"
            for name in sorted(a.keys() | b.keys())
            if a.get(name) != b.get(name)
        ]
    out.sort()
    return out[:most] + [f"and {len(out) - most:,} more"] * (len(out) > most)


IDEAL = Fraction(1, 10**7)  # relative: how well an ideal is known; the gap counts what is not
TIE = Fraction(1, 10**9)  # relative: levels and limits this close are reached together


def floats_in(values: Any) -> set[str]:
    """The floats of nested lists and dicts, by repr."""
    if isinstance(values, (list, dict)):
        return set[str]().union(*map(floats_in, values.values() if isinstance(values, dict) else values))
    return {repr(values)} if isinstance(values, float) else set()


PRICES = ("prices", "rows", "kept", "mixtures")
LEVEL = ("users", *PRICES, "costs")
NUMBER_LEVEL = ("numbers", "of_numbers", "prices", "rows")
LINE = ("levels", "slope", "kind", "unit", *PRICES)


def check_keys(entry: Mapping[str, Any], keys: Iterable[str], what: str) -> None:
    """Refuse unknown keys."""
    more = entry.keys() - {*keys}
    if more:
        raise Fault(f"{what} has an unknown key {min(more)!r}")
