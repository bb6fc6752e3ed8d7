"""Limits that stop what is beyond them, of Kubernetes and Slurm: amounts with all that is left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.runtime import Bool, Float, first_of
from fairopt_clusters.quotas.accounts import to_sacctmgr
from fairopt_clusters.quotas.amounts import Amounts, Cell
from fairopt_clusters.quotas.gpu_types import GpuTypes, is_tres
from fairopt_clusters.quotas.objects import quota_of, resource_name
from fairopt_clusters.quotas.quota import Quota, same_unit, step_of
from fairopt_clusters.quotas.resource_quotas import present_amounts, to_resource_quotas
from fairopt_clusters.quotas.team_quotas import Quotas, QuotaSource, described
from fairopt_clusters.quotas.teams import Counted, of_all
from fairopt_clusters.read.amounts import matching
from fairopt_clusters.read.kinds import CONTRACTS

TEAM = "team"  # the label of namespaces, accounts and ClusterQueues


def spread(amounts: Float, capacity: Float | np.float64) -> Float:
    """Amounts by team of resources that teams use, raised in proportion until they add up to the capacity."""
    total = amounts.sum(axis=0)
    factor = np.divide(capacity, total, out=np.ones_like(total), where=(total > 0) & (total < capacity))
    made: Float = amounts * factor
    return made


class Bounding(Amounts):
    """Limits of Kubernetes and Slurm, which stop all tasks that are beyond them."""

    is_cap = True

    @cached_property
    def _in_all(self) -> Float:
        """What teams use, (n_teams + 1, n_resources), before what is left over is spread: the last row is of others.

        A team none of whose tasks fits whole has its fair part of cpu, memory and storage, as far as others leave it,
        for other tasks.
        """
        teams, servers = self.teams, self.teams.servers
        rest = np.setdiff1d(np.arange(servers.n_users), np.concatenate([np.empty(0, dtype=np.intp), *teams.members]))
        others = np.einsum("js,jsi->i", teams.whole.placement[rest], servers.per_server_demands[rest])
        amounts = teams.used.sum(axis=1)
        in_vain = ~(amounts > 0).any(axis=1)
        if in_vain.any():
            wanted = np.where([teams.is_plain(name) for name in servers.resources], teams.fair[in_vain], 0.0)
            left = np.maximum(servers.total_capacities - amounts.sum(axis=0) - others, 0.0)
            needed = wanted.sum(axis=0)
            amounts[in_vain] = wanted * np.divide(left, needed, out=np.ones_like(left), where=needed > left)
        return np.vstack([amounts, others])

    @cached_property
    def written(self) -> Bool:
        """The resources with a quota, (n_teams, n_resources).

        A limit on cpu or memory refuses tasks that do not request it, so that it is written where all tasks of a team
        request it. One on other resources is written where some task requests it.
        """
        teams, servers = self.teams, self.teams.servers
        asks = [servers.per_server_demands[rows].max(axis=1) > 0 for rows in teams.members]
        required = np.array([teams.is_required(name) for name in servers.resources])
        made = [np.where(required, of_team.all(axis=0), of_team.any(axis=0)) for of_team in asks]
        return np.array(made, dtype=np.bool_).reshape(len(made), servers.n_resources)

    @property
    def _limits_now(self) -> Sequence[Quota] | None:
        """The limits that there are, None if that is not known."""
        return self.given.accounts.limits

    _who, _staying_words = "accounts", "limits that stay in effect without a new one (an amount of -1 takes one off)"

    def _by_flavor(self, one: Counted, notes: list[str]) -> tuple[dict[Cell, float], dict[str, float]]:
        return self._together(one), {}

    def _used(self) -> Float:
        teams = self.teams
        everyone = np.einsum("js,jsi->si", teams.whole.placement, teams.servers.per_server_demands)
        return np.concatenate([teams.used, (everyone - teams.used.sum(axis=0))[None]])

    def _raised(self, units: Float, capacity: Float | np.float64) -> Float:
        return spread(units, capacity)

    def _written(self, t: int, one: Counted) -> bool:
        """Whether a team gets a quota of a resource, if there is some left for it."""
        return bool(self.written[t, list(one.requested)].any())

    def _row(self, t: int, one: Counted, flavor: str, amount: float) -> Quota | None:
        written = self._written(t, one) and (amount or not self.teams.is_plain(one.name))
        return super()._row(t, one, flavor, amount) if written else None

    def _held_on(self, row: Quota) -> NDArray[np.bool_] | None:
        return None  # flavors are types of GPUs

    def _finished(self, rows: list[Quota], notes: list[str]) -> list[Quota]:
        notes += self._left_over(rows)
        rows = self._with_more(rows, notes)
        notes += self._staying(rows)
        return rows

    def _with_more(self, rows: list[Quota], notes: list[str]) -> list[Quota]:
        """The rows with what is added at last; notes are added."""
        return rows

    @property
    def _of_servers(self) -> list[str]:
        """The teams that get no quota for the sake of pods of servers."""
        return []

    @property
    def _names_others(self) -> bool:
        return self._limits_now is None  # else _staying does

    def _left_over(self, rows: Sequence[Quota]) -> list[str]:
        """Notes on what is left over, and on what has no quota."""
        teams, written = self.teams, {(row.team, row.resource) for row in rows}
        left, without, none_left = list[str](), dict[str, list[str]](), dict[str, list[str]]()
        for one in self.resources:
            total, spare = float(one.of(teams.servers.total_capacities)), self._spread_of(one)
            if spare >= step_of(one.name, one.unit):
                left.append(of_all(spare, total, one.name, one.unit))
            for t, team in enumerate(teams.names):
                if (team, one.name) not in written and team not in self._of_servers:
                    of_kind = none_left if self._written(t, one) else without
                    of_kind.setdefault(one.name, []).append(team)
        notes = [f"left over, and added to quotas in proportion: {', '.join(left)}"] if left else []
        for what, of in (
            ("no quota of what a team's tasks do not request, or of cpu and memory not all of them", without),
            ("no quota, since others use all and a quota of 0 would stop every task", none_left),
        ):
            if of:
                notes.append(f"{what}: {'; '.join(f'{name} of {first_of(names)}' for name, names in of.items())}")
        return notes

    def _spread_of(self, one: Counted) -> float:
        """What is left over of a resource that somebody uses, or of types of GPUs where quotas are by type."""
        if one.gpus is not None and one.gpus.types and not self.types_unknown:
            used, _ = one.gpus.used(self._used())
            return sum(one.gpus.total(kind) - float(of.sum()) for kind, of in used.items() if of.any())
        total, in_use = float(one.of(self.teams.servers.total_capacities)), float(one.of(self._in_all).sum())
        return total - in_use if in_use > 0 else 0.0

    def _staying(self, rows: Sequence[Quota]) -> list[str]:
        """Notes on the present limits that stay; none if these are not known, which the text says."""
        return [] if self._limits_now is None else self._beside(rows, self._limits_now)

    def _beside(self, rows: Sequence[Quota], present: Sequence[Quota]) -> list[str]:
        """Present limits that stay beside the new ones, and what all of them add up to."""
        teams, written = self.teams, {(row.team, row.resource) for row in rows}
        there = teams.there(self.gpus)
        sums = dict.fromkeys(there, 0.0)
        for row in rows:
            if not row.flavor and row.resource in sums:
                sums[row.resource] += row.amount
        labels = teams.servers.teams
        outer = {name for label in labels if label != teams.by for name in labels.labelling(label).names}
        kinds: dict[str, list[str]] = {"idle": [], "above": [], "other": []}
        more = set[str]()
        for one in present:
            resource = matching(one.resource, there)
            if one.flavor or resource is None or (one.team, resource) in written:
                continue
            with_tasks = one.team in teams.labelling.names
            if with_tasks and one.team not in teams.names:
                continue  # another team than those chosen
            kind = "other" if with_tasks else "above" if one.team in outer else "idle"
            unit = teams.unit.get(resource, "")
            amount = same_unit(one, unit)
            kinds[kind].append(f"{one.team} {amount:,.6g} {described(resource, '', unit)}")
            if kind != "above" and one.team not in self.given.fixed:
                sums[resource] += amount
                more.add(resource)
        texts = {
            "idle": f"limits of {self._who} without tasks now stay in effect",
            "other": self._staying_words,
            "above": "limits of accounts above stay in effect for those below",
        }
        notes = [f"{texts[kind]}: {first_of(names)}" for kind, names in kinds.items() if names]
        parts = [of_all(sums[name], there[name], name, teams.unit.get(name, "")) for name in there if name in more]
        if parts and teams.every:
            notes.append(f"after applying, limits add up to {', '.join(parts)}")
        return notes


class Accounts(Bounding):
    """Limits of a moment on accounts of Slurm. Those of contracts stay, and others that are not written again end."""

    format = "slurm"
    whole_cores = True
    _staying_words = "limits of contracts stay"

    def _counts_types(self, gpus: GpuTypes) -> bool:
        return True

    @property
    def _above_others(self) -> str:
        return ", as jobs of an account above others" * (self.teams.by == TEAM)

    def _of_resource(self, one: Counted, amounts: Mapping[Cell, float]) -> list[Quota]:
        """The quotas; of GPUs by type also those in all."""
        rows = super()._of_resource(one, amounts)
        sums = {row.team: 0.0 for row in rows if row.flavor}
        for row in rows:
            if row.flavor:
                sums[row.team] += row.amount
        in_all = [Quota(team, one.name, "", amount) for team, amount in sums.items()]
        return [*in_all, *(row for row in rows if not row.flavor or is_tres(row.flavor))]

    def _first(self, rows: Sequence[Quota]) -> list[str]:
        return super()._first(rows) or ["these limits idle nothing now that could be used"]

    def _rows(self) -> tuple[list[Quota], list[str]]:
        now = self.given.accounts
        if now.limits and now.contracts is None:
            there = first_of(
                f"{row.team} {row.amount:g} {described(row.resource, row.flavor, '')}" for row in now.limits
            )
            raise InvalidInstance(
                f"there are limits ({there}), and nobody says which are a contract's; list these in a file "
                f"{CONTRACTS} of the folder, with the columns account, resource, limit (its header alone if none is): "
                "limits in it are never rewritten, and others are those of the last run"
            )
        return super()._rows()

    @property
    def _limits_kept(self) -> Sequence[Quota] | None:
        return [one for one in self._limits_now or () if self.given.accounts.is_contract(one)]

    def _with_more(self, rows: list[Quota], notes: list[str]) -> list[Quota]:
        kept = [self.given.accounts.with_promise(row) for row in rows if not self.given.accounts.is_contract(row)]
        written = {row.key for row in kept}
        self._ended = [
            one
            for one in self._limits_now or ()
            if one.key not in written and not self.given.accounts.is_contract(one) and self._chosen(one)
        ]
        ended = [f"{one.team} {described(one.resource, one.flavor, '')}" for one in self._ended]
        notes += [f"limits of the last run that end: {first_of(ended)}"] * bool(ended)
        return kept

    def _chosen(self, one: Quota) -> bool:
        """Whether quotas of a team and a resource are asked for."""
        every = {*self.teams.resources} == {*self.teams.servers.resources}
        of_resource = every or matching(one.resource, self.teams.resources) is not None
        return of_resource and (self.teams.every or one.team in self.teams.names)

    def _staying(self, rows: Sequence[Quota]) -> list[str]:
        ended = {one.key for one in self._ended}
        return self._beside(rows, [one for one in self._limits_now or () if one.key not in ended])

    def quotas(self, source: QuotaSource) -> Quotas:
        """The limits with their text: only of accounts with one that changes, where limits are known."""
        made = super().quotas(source)
        changed = self._changed(made.rows)
        words = dict.fromkeys(f"limits of {one.team}" for one in (*changed, *self._ended))
        return replace(made, changed=tuple(words) if self._limits_now is not None else ())

    def _changed(self, rows: Sequence[Quota]) -> list[Quota]:
        """The limits of accounts that have others now."""
        now = {one.key: one for one in self._limits_now or ()}
        same = {row.key for row in rows if row.key in now and same_unit(now[row.key], row.unit) == row.amount}
        others = {row.team for row in rows if row.key not in same} | {one.team for one in self._ended}
        return [row for row in rows if row.team in others]

    def _text(self, rows: Sequence[Quota], comments: Sequence[str]) -> tuple[str, list[str]]:
        return to_sacctmgr(self._changed(rows), comments, self.given.accounts.cluster, self._ended), []


class Namespaces(Bounding):
    """ResourceQuotas of namespaces."""

    format = "kubernetes"
    _who, _staying_words = "namespaces", "limits that stay in effect without a new one"
    types_unknown = "quotas know no types of GPUs, so they"

    @cached_property
    def _limits_now(self) -> Sequence[Quota] | None:
        known = self.given.resource_quotas
        return None if known is None else present_amounts(known)

    @cached_property
    def _of_servers(self) -> list[str]:
        """The namespaces with pods that belong to servers, unless they have ResourceQuotas or are named."""
        limited = {one.team for one in self._limits_now or ()}
        mine = [team for team in self.teams.names if self.given.fixed.get(team) and team not in limited]
        return mine if self.teams.every else []

    def _with_more(self, rows: list[Quota], notes: list[str]) -> list[Quota]:
        return self._beside_fixed(self._with_room(rows, notes), notes)

    def _text(self, rows: Sequence[Quota], comments: Sequence[str]) -> tuple[str, list[str]]:
        whole = self.teams.whole.placement.sum(axis=1)
        tasks = {
            team: round(float(whole[of].sum())) + len(self.given.fixed.get(team, ()))
            for team, of in zip(self.teams.names, self.teams.members, strict=True)
        }
        return to_resource_quotas(rows, self.given.resource_quotas, comments, tasks)

    def _with_room(self, rows: list[Quota], notes: list[str]) -> list[Quota]:
        """The quotas with room for one more task of each team all of whose tasks have a place.

        Without it pods beyond these tasks would be refused, and nobody would see that the team wants more.
        """
        teams, servers = self.teams, self.teams.servers
        whole, needed = teams.whole.placement.sum(axis=1), dict[tuple[str, str], float]()
        for t, (team, members) in enumerate(zip(teams.names, teams.members, strict=True)):
            if (whole[members] < servers.task_limits[members]).any():
                continue
            demands, used = servers.per_server_demands[members].max(axis=1), teams.used[t].sum(axis=0)
            units = {one.name: one.of(used) + one.of(demands).max(initial=0.0) for one in self.resources}
            needed |= {(team, name): float(amount) for name, amount in units.items()}
        out, raised, sums = list[Quota](), list[str](), dict[str, float]()
        for row in rows:
            step = step_of(row.resource, row.unit)
            least = float(-(-Fraction(needed.get((row.team, row.resource), 0.0)) // step) * step)
            out.append(replace(row, amount=max(row.amount, least)))
            if least > row.amount:
                raised.append(row.team)
                sums[row.resource] = 0.0
        for row in out:
            if row.resource in sums:
                sums[row.resource] += row.amount
        if raised:
            total, unit = teams.there(self.gpus), {row.resource: row.unit for row in rows}
            parts = [of_all(sums[name], total[name], name, unit[name]) for name in sums]
            what = "room for one more task, so that it is seen, though together quotas then are"
            notes.append(f"{what} {', '.join(parts)}: {first_of(dict.fromkeys(raised))}")
        return out

    def _beside_fixed(self, rows: Sequence[Quota], notes: list[str]) -> list[Quota]:
        """The quotas with the pods that belong to servers, which ResourceQuotas count.

        A namespace with such pods has a quota only where it has one already, or is named: a new one would refuse such
        pods on the next server.
        """
        without, out = self._of_servers, []
        for row in rows:
            specs = self.given.fixed.get(row.team, ())
            if row.team in without:
                continue
            name = resource_name(row.resource) if specs else ""
            if self.teams.is_required(row.resource) and not all(spec.request.get(name) for spec in specs):
                continue
            units = sum((spec.request.get(name, Fraction(0)) for spec in specs), Fraction(0))
            more = quota_of("", name, "", units)
            out.append(replace(row, amount=row.amount + same_unit(more, row.unit)) if specs else row)
        if without:
            what = "no quota, since pods of DaemonSets or static pods are there and would be refused"
            notes.append(f"{what}: {first_of(without)}")
        if added := [team for team in self.teams.names if self.given.fixed.get(team) and team not in without]:
            notes.append(f"with what pods of DaemonSets and static pods there request: {first_of(added)}")
        return out
