"""Quotas from whole tasks: amounts by team, resource and type of server, rounded; the table, and new ClusterQueues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime import Float, first_of, visible
from fairopt_clusters.quotas.accounts import AccountsNow
from fairopt_clusters.quotas.changes import changes_of
from fairopt_clusters.quotas.cluster_queues import InputQueues, new_queues
from fairopt_clusters.quotas.gpu_types import GpuTypes
from fairopt_clusters.quotas.quota import Quota, same_unit, step_of, steps_in_words, to_csv
from fairopt_clusters.quotas.team_quotas import RELATIVE, QuotaChanges, Quotas, QuotaSource
from fairopt_clusters.quotas.teams import Counted, Teams, idled, limits_in_all, of_all, once
from fairopt_clusters.quotas.work import Work
from fairopt_clusters.read.amounts import matching
from fairopt_clusters.read.kubernetes.objects import PodSpec
from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.read.slurm.devices import is_slice
from fairopt_clusters.schedulers.start import lacking

NEAR = 1e-6  # of the smallest unit: a distance from a multiple that is rounding
COHORT = "all"  # of new ClusterQueues
Places = Mapping[str, NDArray[np.bool_]]  # the servers of each flavor
Cell = tuple[int, str]  # a team, or after these who has no quota, and a flavor


@dataclass(frozen=True)
class Input:
    """What an input says beside its tasks; what is not known is None."""

    queues: InputQueues = field(default_factory=InputQueues)
    api_version: str | None = None
    resource_quotas: Sequence[Mapping[str, Any]] | None = None
    accounts: AccountsNow = field(default_factory=AccountsNow)  # of Slurm
    gangs: Sequence[Workload] = ()
    work: Work = field(default_factory=Work)  # in ClusterQueues
    fixed: Mapping[str, Sequence[PodSpec]] = field(default_factory=dict)  # pods of servers by namespace
    left_out: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)  # servers, and what they have
    local_queues: Mapping[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)  # by team
    reclaim: bool = False  # whether ClusterQueues of the input are to take back what they own


class Amounts:
    """What whole tasks of teams use, as a table by type of server. Subclasses are other formats."""

    format = "csv"
    whole_cores = False
    is_cap = False  # whether what is written stops tasks that are beyond it
    types_unknown = ""  # why types of GPUs are never told apart, else empty

    def __init__(self, teams: Teams, given: Input, now: Teams | None = None) -> None:
        self.teams, self.given = teams, given
        self.now = teams if now is None else now  # with what they ask for now
        self.gpus = teams.gpus if teams.gpus is not None and self._counts_types(teams.gpus) else None
        self.resources = teams.chosen(self.gpus)

    # -- what formats differ in -----------------------------------------------------------------------------------

    def _counts_types(self, gpus: GpuTypes) -> bool:
        """Whether quotas of GPUs are by type: where several resources count GPUs."""
        return gpus.are_resources

    def _places(self, team: str, resource: str) -> Places:
        """The servers of each flavor in which a team's quota of a resource is given, disjoint."""
        teams, everywhere = self.teams, np.ones(len(self.teams.servers.servers), dtype=np.bool_)
        if not teams.types:
            return {"": everywhere}
        has = teams.servers.capacities[:, teams.servers.resource_index(resource)] > 0
        types = np.array(teams.types, dtype=object)
        found = {name: types == name for name in dict.fromkeys(teams.types) if (has & (types == name)).any()}
        return found or {"": everywhere}

    def _by_flavor(self, one: Counted, notes: list[str]) -> tuple[dict[Cell, float], dict[str, float]]:
        """What teams get of a resource, by team and flavor, and what there is by flavor; notes are added."""
        teams, capacity = self.teams, one.of(self.teams.servers.capacities)
        places, made = [self._places(team, one.name) for team in teams.names], dict[Cell, float]()
        for t, (team, of_team) in enumerate(zip(teams.names, places, strict=True)):
            made |= {(t, flavor): float(one.of(teams.used[t, mask]).sum()) for flavor, mask in of_team.items()}
            outside = one.of(teams.used[t]).sum() - sum(one.of(teams.used[t, mask]).sum() for mask in of_team.values())
            if outside > NEAR:
                where = "on servers of no flavor of its ClusterQueue" if of_team else "outside its ClusterQueue"
                notes.append(f"{outside:g} {one.name} of {team} are {where}, and have no quota")
        flavors = dict.fromkeys(flavor for _, flavor in made)
        return made, {name: float(capacity[capacity_of(name, places)].sum()) for name in flavors}

    def _together(self, one: Counted) -> dict[Cell, float]:
        """What teams get of a resource on all servers."""
        in_all = one.of(self._raised(self._in_all, self.teams.servers.total_capacities)).tolist()
        return {(t, ""): amount for t, amount in enumerate(in_all)}

    @cached_property
    def _in_all(self) -> Float:
        """Units by team and resource; the last rows may be of tasks without a quota."""
        return self.teams.used.sum(axis=1)

    def _used(self) -> Float:
        """Units by team, server and resource, with such rows."""
        return self.teams.used

    def _raised(self, units: Float, capacity: Float | np.float64) -> Float:
        """Units with what is left over, if that is in quotas too."""
        return units

    def _row(self, t: int, one: Counted, flavor: str, amount: float) -> Quota | None:
        """The quota of a team, None if it gets none."""
        return Quota(self.teams.names[t], one.name, flavor, amount, one.unit)

    def _finished(self, rows: list[Quota], notes: list[str]) -> list[Quota]:
        """The rows that are written; notes are added."""
        return rows

    def _text(self, rows: Sequence[Quota], comments: Sequence[str]) -> tuple[str, list[str]]:
        """The quotas as text below comments, and notes."""
        return to_csv(rows), []

    def _idle(self, rows: Sequence[Quota]) -> list[str]:
        """What limits leave idle now, in words."""
        return idled(self.now, limits_in_all(rows))

    def _first(self, rows: Sequence[Quota]) -> list[str]:
        """The notes to read first: what limits idle."""
        idle = self._idle(rows) if self.is_cap else []
        return [f"these limits idle now what could be used: {', '.join(idle)}"] * bool(idle)

    # -- rows -------------------------------------------------------------------------------------------------------

    def quotas(self, source: QuotaSource) -> Quotas:
        """The quotas with their text, which contains the notes as comments."""
        rows, notes = self._rows()
        stopped, never = self._too_large(rows)
        what = "started whole or not at all, and too large"
        large = [f"{what} for the new quotas of their teams: {first_of(stopped)}"] * bool(stopped)
        large += [f"{what} with or without this: {first_of(never)}"] * bool(never)
        notes = [*self.teams.whole.notes, *large, *notes]
        first = self._first(rows)
        notes = [*first, *notes]
        text, more = self._text(rows, ["Quotas by fairopt", *map(visible, notes)])
        made = Quotas(tuple(rows), (*notes, *more), self.teams.by or "user", self.format, source, text)
        stops = stopped if self.format != "csv" else ()  # which nobody applies
        return replace(made, first=tuple(first), stopped=tuple(stops))

    def changes(self, rows: Sequence[Quota], present: Sequence[Quota]) -> QuotaChanges:
        """New quotas beside present ones and what is held."""
        others, owed_alone = self._names_others, isinstance(self, NewQueues)
        return changes_of(self.teams, self.gpus, rows, present, self._held_on, others, owed_alone)

    @property
    def _names_others(self) -> bool:
        """Whether a difference names present quotas that stay."""
        return True

    def _held_on(self, row: Quota) -> NDArray[np.bool_] | None:
        """The servers on which what a team holds counts for a quota of a flavor."""
        return self._places(row.team, row.resource).get(row.flavor)

    def _rows(self) -> tuple[list[Quota], list[str]]:
        """The rounded quotas, and notes."""
        teams, servers, rows, notes = self.teams, self.teams.servers, list[Quota](), list[str]()
        for one in self.resources:
            step, there = step_of(one.name, one.unit, self.whole_cores), float(one.of(servers.total_capacities))
            made, room = (self._by_flavor if one.gpus is None else self._by_type)(one, notes)
            counts = rounded_within([*made.values()], [flavor for _, flavor in made], {"": there} | room, there, step)
            cells = zip(made, counts, strict=True)
            rows += self._of_resource(one, {(t, of): float(n * step) for (t, of), n in cells if t < len(teams.names)})
        ordered = [row for team in teams.names for row in rows if row.team == team]
        without = np.flatnonzero((teams.labelling.of_user < 0) & (teams.whole.placement.sum(axis=1) > 0))
        if len(without):
            user, more = servers.users[without[0]], f" and {len(without) - 1} more" * (len(without) > 1)
            notes.append(f"without a team, and so without a quota{self._above_others}: {user}{more}")
        if {teams.labelling.names[t] for t in {*teams.labelling.of_user.tolist()} - {-1}} <= {*teams.names}:
            notes += self._in_no_quota(once(rows))
        if teams.by is None:
            notes.append("users have no teams, so each user has quotas")
        ordered = self._finished(ordered, notes)
        given = [(row.resource, row.unit) for row in ordered]
        if given:
            notes.append(f"rounded up where capacities allow it, else down: {steps_in_words(given, self.whole_cores)}")
        return ordered, notes

    def _of_resource(self, one: Counted, amounts: Mapping[Cell, float]) -> list[Quota]:
        """The quotas of a resource, in rounded amounts."""
        made = (self._row(t, one, flavor, amount) for (t, flavor), amount in amounts.items())
        return [row for row in made if row is not None]

    def _by_type(self, one: Counted, notes: list[str]) -> tuple[dict[Cell, float], dict[str, float]]:
        """What teams get of GPUs by type, in all where types are not told apart; and what there is of each type."""
        gpus = one.gpus
        if gpus is None or not gpus.types or self.types_unknown:
            known = self.types_unknown or "types of GPUs by server are not known, so quotas"
            slices = gpus is not None and any(map(is_slice, gpus.typed))
            notes.append(f"{known} are in total{', slices too' * slices}")
            return self._together(one), {}
        used, chosen = gpus.used(self._used())
        room = {kind: gpus.total(kind) for kind in gpus.types}
        of_kinds = {kind: self._raised(used[kind], np.float64(room[kind])).tolist() for kind in gpus.types}
        if chosen:
            notes.append(
                "GPUs without a type, on servers with several, are counted as the type with the most left there: jobs "
                "that get another type wait once its limit is reached"
            )
        return {(t, kind): of_kinds[kind][t] for t in range(len(of_kinds[gpus.types[0]])) for kind in gpus.types}, room

    @property
    def _above_others(self) -> str:
        """Of whom tasks without a team may be."""
        return ""

    def _there(self, resources: Iterable[str]) -> dict[str, float]:
        """What there is of each resource."""
        return self.teams.there(self.gpus)

    def _in_no_quota(self, rows: Sequence[Quota]) -> list[str]:
        """How much of each resource no team's quota has."""
        total = self._there({row.resource for row in rows})
        left = total.copy()
        for row in rows:
            left[row.resource] -= row.amount
        parts = [
            of_all(left[name], total[name], name, unit)
            for name, unit in {row.resource: row.unit for row in rows}.items()
            if left[name] >= step_of(name, unit)
        ]
        return [f"in no quota: {', '.join(parts)}"] if parts else []

    @property
    def _limits_now(self) -> Sequence[Quota] | None:
        """The limits that there are, None if that is not known."""
        return None

    @property
    def _limits_kept(self) -> Sequence[Quota] | None:
        """Those that no run of fairopt wrote."""
        return self._limits_now

    def _too_large(self, rows: Sequence[Quota]) -> tuple[list[str], list[str]]:
        """Gangs that wait and that the quotas of their teams, of all flavors together, can never admit, and why.

        Those that could start before, within the limits that there are, on servers that are empty; and the others.
        """
        there, limits, most = self.teams.there(None), dict[str, dict[str, float]](), dict[str, dict[str, float]]()
        for one in self._limits_kept or ():
            if not one.flavor and (name := matching(one.resource, there)):
                limits.setdefault(one.team, {})[name] = same_unit(one, self.teams.unit.get(name, ""))
        for (team, resource), amount in limits_in_all(rows).items():
            most.setdefault(team, {})[resource] = amount
        out = list[str](), list[str]()
        for gang in self.given.gangs:
            if why := lacking(gang, most.get(gang.queue, {})):
                before = not any(lacking(gang, of) for of in (there, limits.get(gang.queue, {})))
                out[not before].append(f"{gang.name} of {gang.queue} {'; '.join(why)}")
        return out


class NewQueues(Amounts):
    """New ClusterQueues: what teams are owed as nominal quotas, below a cohort that has what is in no quota."""

    format = "kueue"
    lends = True

    def _counts_types(self, gpus: GpuTypes) -> bool:
        """Flavors are types of servers."""
        return False

    def _row(self, t: int, one: Counted, flavor: str, amount: float) -> Quota | None:
        return Quota(self.teams.names[t], one.name, flavor, amount, one.unit, amount)

    def _text(self, rows: Sequence[Quota], comments: Sequence[str]) -> tuple[str, list[str]]:
        teams, root = self.teams, COHORT
        above = {team: self.teams.above.get(team, []) for team in dict.fromkeys(row.team for row in rows)}
        while root in above or any(root in path for path in above.values()):
            root += "-teams"
        rest, left = list[Quota](), dict[tuple[str, str], float]()
        for row in rows:
            left[row.resource, row.flavor] = left.get((row.resource, row.flavor), 0.0) - row.amount
        for resource, flavor in left if self.lends else ():
            places = [self._places(team, resource) for team in teams.names]
            i, step = teams.servers.resource_index(resource), step_of(resource, teams.unit[resource])
            there = float(teams.servers.capacities[capacity_of(flavor, places), i].sum())
            count = max(int(np.floor((there + left[resource, flavor]) / float(step) + NEAR)), 0)
            rest.append(Quota(root, resource, flavor, float(count * step), teams.unit[resource]))
        return new_queues(
            [*rows, *rest],
            self.given.api_version,
            {team: [*path, *[root] * self.lends] for team, path in above.items()},
            teams.weights,
            self.given.local_queues,
            comments,
        )


class NewCapped(NewQueues):
    """New ClusterQueues for what whole tasks use now: what is in no quota is lent to nobody."""

    lends = False


def capacity_of(flavor: str, places: Sequence[Places]) -> NDArray[np.bool_]:
    """The servers that some team's flavor has."""
    return np.any([of_team[flavor] for of_team in places if flavor in of_team], axis=0)


def rounded_within(
    amounts: Sequence[float], flavors: Sequence[str], room: Mapping[str, float], total: float, step: Fraction
) -> list[int]:
    """Amounts in steps: rounded up by their remainders while they fit into flavors and the total, else down."""
    per = float(1 / step)
    values = np.asarray(amounts, dtype=float) * per
    near = np.rint(values)
    exact = np.abs(values - near) <= np.maximum(NEAR, RELATIVE * values)
    values = np.where(exact, near, values)
    counts = np.floor(values).astype(np.int64).tolist()
    left = {name: _whole(most * per) for name, most in room.items()}
    for count, flavor in zip(counts, flavors, strict=True):
        left[flavor] -= count
    left_in_all = _whole(total * per) - sum(counts)
    rest = values - np.floor(values)
    for k in np.argsort(-rest.round(9), kind="stable").tolist():
        if rest[k] > 0 and left[flavors[k]] > 0 and left_in_all > 0:
            counts[k] += 1
            left[flavors[k]] -= 1
            left_in_all -= 1
    return counts


def _whole(value: float) -> int:
    return int(np.floor(value * (1 + RELATIVE) + NEAR))
