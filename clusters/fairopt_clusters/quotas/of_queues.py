"""The ClusterQueues of an input: their settings by what queues are owed, and limits of a moment on what they borrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.runtime import first_of, visible
from fairopt_clusters.quotas.amounts import Amounts, Cell, Input, Places, capacity_of
from fairopt_clusters.quotas.bounded import TEAM
from fairopt_clusters.quotas.cluster_queues import RECLAIM, Changes
from fairopt_clusters.quotas.gpu_types import GpuTypes
from fairopt_clusters.quotas.objects import quota_of, resource_name
from fairopt_clusters.quotas.quota import Quota, same_unit
from fairopt_clusters.quotas.team_quotas import ABOVE, RELATIVE, Expected, QuotaChanges, Quotas, QuotaSource, described
from fairopt_clusters.quotas.teams import Counted, Teams, of_all
from fairopt_clusters.read.amounts import matching
from fairopt_clusters.read.kubernetes.objects import PODS


class OfQueues(Amounts):
    """Quotas of ClusterQueues of the input."""

    format = "kueue"
    caps = False
    by_reclaim = ""  # how that can be changed

    def __init__(self, teams: Teams, given: Input, now: Teams | None = None) -> None:
        raw, every = given.queues.raw, teams.every and (teams.by == TEAM or not teams.names)
        kept = [team for team in teams.names if team in raw]
        if teams.names and not kept:
            raise InvalidInstance(
                f"{teams.names[0]!r} is no ClusterQueue of the input, and no other team is; give teams that are "
                "(--users queue), or leave the ClusterQueues out for new ones"
            )
        self.others = [team for team in teams.names if team not in raw]
        self.idle = [name for name in raw if name not in kept] if every else []
        super().__init__(teams.among([*kept, *self.idle]), given)

    def _changed(self, rows: Iterable[Quota]) -> Changes:
        """The objects that change."""
        untouched = {name for name in self.teams.servers.resources if name not in self.teams.resources}
        weights, queues, names = {**self.teams.servers.team_weights}, self.given.queues, self.teams.names
        options: dict[str, Any] = {"caps": self.caps, "weights": weights, "untouched": untouched}
        if self.given.reclaim:
            options |= {"reclaim": True, "kept": self.given.work.cohorts_with_larger}
        return Changes(queues, names, rows if self.caps else (), **options)

    def objects_after(self, rows: Sequence[Quota]) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The objects that change, as they are then, by kind and name."""
        return self._changed(rows).after

    def quotas(self, source: QuotaSource) -> Quotas:
        """The quotas with their text, and with what changes in the objects."""
        made = super().quotas(source)
        changes = self._changed(made.rows)
        to_do = f"to do: {first_of(changes.words)}" if changes.words else "nothing to do: no setting changes"
        first = (*made.first, to_do, *changes.notes)
        rest = [note for note in made.notes[len(made.first) :] if note not in changes.notes]
        made = replace(made, first=first, notes=(*first, *rest))
        script = changes.script(["Quotas by fairopt", *map(visible, made.notes)])
        return replace(made, changed=tuple(changes.words), _script=script)

    def _too_large(self, rows: Sequence[Quota]) -> tuple[list[str], list[str]]:
        """Gangs that Kueue could admit before, and not with what is written; and those that it never could."""
        before, after = self.given.work.too_large(), self.given.work.too_large(self._changed(rows).after)
        return [after[name] for name in after if name not in before], [*before.values()]

    def _text(self, rows: Sequence[Quota], comments: Sequence[str]) -> tuple[str, list[str]]:
        changes = self._changed(rows)
        return changes.yaml([*comments, *changes.notes]), changes.notes

    def _counts_types(self, gpus: GpuTypes) -> bool:
        return False

    def _places(self, team: str, resource: str) -> Places:
        """The servers of each flavor of a ClusterQueue: as its reader has them, else of the first that has them."""
        servers, name, out = self.teams.servers, resource_name(resource), dict[str, NDArray[np.bool_]]()
        flavors = [one for one in self.given.queues.flavors(team, name) if one not in self._empty_flavors]
        if (known := self.given.queues.places.get(team)) is not None:
            return {of: np.array([server in known[of, name] for server in servers.servers]) for of in flavors}
        free = np.ones(len(servers.servers), dtype=np.bool_)
        for flavor in flavors:
            mine = self._servers_of(flavor, alone=len(flavors) == 1)
            out[flavor], free = mine & free, free & ~mine
        return out

    @cached_property
    def _empty_flavors(self) -> list[str]:
        """The flavors of the input without a server that counts, as of a pool that is scaled to zero."""
        there = {*self.teams.servers.servers}
        return sorted(name for name, servers in self.given.queues.servers.items() if not servers & there)

    def _servers_of(self, flavor: str, alone: bool) -> NDArray[np.bool_]:
        servers = self.teams.servers
        if flavor in self.given.queues.servers:
            return np.array([name in self.given.queues.servers[flavor] for name in servers.servers])
        types = [name.lower() for name in servers.server_types or ()]
        if flavor in types and not alone:
            return np.array([name == flavor for name in types])
        return np.full(len(servers.servers), alone)

    def _held_on(self, row: Quota) -> NDArray[np.bool_] | None:
        places = self._places(row.team, row.resource)
        if (mask := places.get(row.flavor)) is None:  # of which it has no quota now, nor may borrow
            return None
        return mask | (~np.any([*places.values()], axis=0) & self._servers_of(row.flavor, alone=False))

    def changes(self, rows: Sequence[Quota], present: Sequence[Quota]) -> QuotaChanges:
        """New quotas beside present ones and what is held, also where there is no quota."""
        made = super().changes(rows, present)
        elsewhere = self._held_elsewhere(made)
        return QuotaChanges(made.rows, (*elsewhere, *made.notes))

    def _held_elsewhere(self, made: QuotaChanges) -> list[str]:
        """What queues hold on flavors of which they have no quota at all, not even of 0."""
        teams, shown = self.teams, dict[tuple[str, str], float]()
        for one in made.rows:
            if one.held is not None:
                shown[one.team, one.resource] = shown.get((one.team, one.resource), 0.0) + one.held
        return [
            f"{team} holds {more:,.6g} {resource} more, on servers of flavors of which it has no quota"
            for t, team in enumerate(teams.names if teams.held_in_all is not None else ())
            for i, resource in enumerate(teams.servers.resources)
            if teams.held_in_all is not None
            and (of := shown.get((team, resource))) is not None
            and (more := float(teams.held_in_all[t, i]) - of) > RELATIVE * max(of, 1.0)
        ]

    def _there(self, resources: Iterable[str]) -> dict[str, float]:
        total = super()._there(resources)
        for name in resources:
            flavors = {flavor for flavor, of in self.given.queues.promised if of == resource_name(name)}
            total[name] += self._left_out_of(flavors, name)
        return total

    def _left_out_of(self, flavors: Iterable[str], resource: str) -> float:
        """What servers of some flavors have on which no pod of the queues may run."""
        name = resource_name(resource)
        on = {server for flavor in flavors for server in self.given.queues.servers.get(flavor, ())}
        has = [of.get(name, Fraction(0)) for server, of in self.given.left_out.items() if server in on]
        return quota_of("", name, "", sum(has, Fraction(0))).amount

    def _of_objects(self) -> list[str]:
        """Notes on what the objects say, whatever tasks there are."""
        queues, servers, parts, over = self.given.queues, self.teams.servers, list[str](), list[str]()
        what = "in no ClusterQueue of the input, and so without a quota"
        notes = [f"{what}: {first_of(self.others)}"] * bool(self.others)
        for (flavor, name), amount in queues.promised.items():
            resource = matching(name, self.teams.resources)
            if resource is None or not queues.servers.get(flavor):  # without servers, limits stay and are said
                continue
            unit = self.teams.unit[resource]
            rows = [server in queues.servers[flavor] for server in servers.servers]
            there = float(servers.capacities[rows, servers.resource_index(resource)].sum())
            there += self._left_out_of([flavor], resource)
            text = of_all(amount, there, resource, unit, flavor)
            (over if amount > there * ABOVE else parts).append(text)
        notes += [f"nominal quotas of all queues and cohorts are {', '.join(parts)}"] if parts else []
        if over:
            notes.append(f"nominal quotas promise more than there is: {', '.join(over)}")
        if left := queues.unpromised:
            notes.append(f"in nobody's nominal quota, so that no queue may use them: {', '.join(left)}")
        if queues.unreached:
            named = first_of(queues.unreached)
            notes.append(f"no LocalQueue leads to these ClusterQueues, so that no job reaches them: {named}")
        if queues.without_reclaim and not self.given.reclaim:
            what = "what is lent to others comes back only as their jobs end, by reclaimWithinCohort of Never"
            notes.append(f"{what}: {first_of(queues.without_reclaim)}{self.by_reclaim}")
        return notes


class Settings(OfQueues):
    """Nominal quotas stay, borrowing limits are those of the owners, and what is owed may be made to come back.

    None of this depends on who asks for what now.
    """

    by_reclaim = "; --reclaim lets these preempt who borrows from them, and --replay says what that costs"

    def _rows(self) -> tuple[list[Quota], list[str]]:
        """What each queue may use by the limits of its owners, and what it is owed."""
        queues, teams = self.given.queues, self.teams
        kept = None if {*teams.resources} == {*teams.servers.resources} else {*map(resource_name, teams.resources)}
        rows = [
            one for one in queues.owed.values() if one.team in teams.names and (kept is None or one.resource in kept)
        ]
        return rows, self._of_objects()

    def quotas(self, source: QuotaSource) -> Quotas:
        """The quotas with their text, and with what Kueue will then give beside what is fair."""
        made = super().quotas(source)
        expected, notes = self._expected()
        return replace(made, expected=tuple(expected), notes=(*made.notes, *notes))

    def _expected(self) -> tuple[list[Expected], list[str]]:
        """What queues own, hold, ask for and get, by resource over all flavors; and where that is not what is fair."""
        teams, work = self.teams, self.given.work
        if not teams.servers.n_users:
            return [], []
        gives, waiting = work.settled(self._changed(()).after)
        out, short = list[Expected](), dict[str, tuple[float, Expected]]()  # with the share of what there is
        most = teams.servers.per_server_demands.max(axis=1)
        for i, name in enumerate(teams.servers.resources):
            if name not in teams.resources:
                continue
            for t, team in enumerate(teams.names):
                cells = [one for of, one in self.given.queues.owed.items() if of[:2] == (team, resource_name(name))]
                owed = sum(same_unit(replace(one, amount=one.owed or 0.0), teams.unit[name]) for one in cells)
                held = None if teams.held_in_all is None else float(teams.held_in_all[t, i])
                asks, fair = float(teams.asked[t, i]), float(teams.fair[t, i])
                one = Expected(team, name, teams.unit[name], owed, held, asks, gives.get(team, {}).get(name, 0.0), fair)
                out.append(one)
                if fair - one.gives > float(most[teams.members[t], i].max(initial=0.0)) * ABOVE:
                    share = fair / float(teams.servers.total_capacities[i])
                    short[team] = max(short.get(team, (0.0, one)), (share, one), key=lambda of: of[0])
        told = [
            f"{team} gets {one.gives:,.6g} of {one.fair:,.6g} {described(one.resource, '', one.unit)} that are fair"
            + "".join(f": {gang}, which starts whole or not at all, waits" for gang in work.gangs_in(team, waiting)[:1])
            for team, (_, one) in short.items()
        ]
        notes = [
            "by Kueue: what its fair sharing, which its Configuration has to turn on, gives if no job ends",
            *[f"Kueue does not reach what is fair now: {first_of(told)}"] * bool(told),
        ]
        if any(RECLAIM in words for words in self._changed(()).words):
            what = "who borrows is preempted where its owner comes back: without checkpoints that work is done again"
            notes.append(f"{what}; --replay says what that costs")
        return out, notes


class LentNow(OfQueues):
    """What whole tasks use, as limits on what queues may borrow until the next run."""

    caps = is_cap = True

    def _idle(self, rows: Sequence[Quota]) -> list[str]:
        """What Kueue would use, by its own rule, without these limits and not with them."""
        queues, teams = self.given.queues, self.teams
        free = self.given.work.settled(Changes(queues, teams.names, caps=True).after).used
        now, out = self.given.work.settled(self._changed(rows).after).used, list[str]()
        for name, there in teams.there(None).items():
            idle = sum(of.get(name, 0.0) for of in free.values()) - sum(of.get(name, 0.0) for of in now.values())
            out += [of_all(idle, there, name, teams.unit[name])] * (idle > (ABOVE - 1) * there)
        return out

    def _by_flavor(self, one: Counted, notes: list[str]) -> tuple[dict[Cell, float], dict[str, float]]:
        """What teams use, with what is left that nobody uses or is owed, in proportion.

        It goes to those that use all that they are owed, within what their owners and cohorts allow. Else their pods of
        another shape could not start though cpu or memory is idle.
        """
        teams, servers, resource = self.teams, self.teams.servers, one.name
        amounts, room = super()._by_flavor(one, notes)
        if not (teams.is_plain(resource) or resource == PODS) or self.given.queues.raw.keys() - {*teams.names}:
            return amounts, room
        out, places = dict(amounts), [self._places(team, resource) for team in teams.names]
        for flavor, there in room.items():
            mine = [cell for cell in amounts if cell[1] == flavor]
            keys = {cell: (teams.names[cell[0]], resource_name(resource), flavor) for cell in mine}
            owed = {cell: self.given.queues.owed[key].owed or 0.0 for cell, key in keys.items()}
            on = capacity_of(flavor, places)
            demands = one.of(servers.per_server_demands[:, on])
            others = float((teams.whole.placement[:, on] * demands).sum()) - sum(amounts[cell] for cell in mine)
            left = there - sum(max(amounts[cell], owed[cell]) for cell in mine) - max(others, 0.0)
            takers = [cell for cell in mine if amounts[cell] * ABOVE >= owed[cell]]
            used = sum(amounts[cell] for cell in takers)
            for cell in takers if left > 0 and used > 0 else ():
                most = self.given.queues.owed.get(keys[cell])
                more = amounts[cell] * (1 + left / used)
                out[cell] = more if most is None else max(amounts[cell], min(more, same_unit(most, one.unit)))
        if out != amounts:
            self._spare.append(f"{sum(out.values()) - sum(amounts.values()):,.6g} {described(resource, '', one.unit)}")
        return out, room

    @cached_property
    def _spare(self) -> list[str]:
        """What is lent though nobody uses it, in words."""
        return []

    @cached_property
    def _free(self) -> dict[str, list[str]]:
        """Of what queues get no limit, by why."""
        return {}

    def _row(self, t: int, one: Counted, flavor: str, amount: float) -> Quota | None:
        """The limit of a queue, None where it has no task that may use it, or nobody waits for it."""
        teams, team, resource = self.teams, self.teams.names[t], one.name
        i, on = teams.servers.resource_index(resource), self._places(team, resource)[flavor]
        why = "" if teams.waits(i, on) else "nobody waits for these, so that borrowing stays as its owners limit it"
        if not teams.wanted(t, i, on):
            why = "no task now for these, so that limits on borrowing stay as their owners gave them, for what is idle"
        if why:
            self._free.setdefault(why, []).append(f"{team} {described(resource, flavor, '')}")
            return None
        owed = self.given.queues.owed[team, resource_name(resource), flavor].owed
        return Quota(team, resource, flavor, amount, one.unit, owed)

    def _finished(self, rows: list[Quota], notes: list[str]) -> list[Quota]:
        notes += [f"without tasks now, so that what they are owed is lent: {first_of(self.idle)}"] * bool(self.idle)
        if self._spare:
            notes.append(f"left over, owed to no queue, and lent too in proportion: {', '.join(self._spare)}")
        notes += [*self._of_objects(), *(f"{why}: {first_of(names)}" for why, names in self._free.items())]
        if self._empty_flavors:
            named = first_of(self._empty_flavors)
            notes.append(f"no servers that count now, so that limits stay as their owners gave them: {named}")
        notes.append("nominal quotas stay; what is fair beyond them is lent, as borrowingLimit, until this runs again")
        return rows
