"""Quotas of teams from an answer: whole tasks, rounded units, and their difference from present quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt import Allocation
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Labelling, whole_name
from fairopt.io import quantity
from fairopt.runtime import Float, first_of, visible
from fairopt_clusters.quotas.accounts import to_sacctmgr
from fairopt_clusters.quotas.bounded import BOUNDING, Bounds, bounds_of, spread
from fairopt_clusters.quotas.cluster_queues import (
    InputQueues,
    cells_of,
    flavor_name,
    left_out,
    read_queues,
    to_cluster_queues,
    to_patches,
)
from fairopt_clusters.quotas.gangs import Gang, read_gangs
from fairopt_clusters.quotas.gpu_types import GpuTypes, gpu_types, is_tres
from fairopt_clusters.quotas.namespaces import local_queues_of, read_fixed
from fairopt_clusters.quotas.objects import quota_of, resource_name
from fairopt_clusters.quotas.present import limits_of, resource_quotas_of
from fairopt_clusters.quotas.quota import Quota, is_cpu, is_memory, same_unit, step_of, steps_in_words, to_csv
from fairopt_clusters.quotas.resource_quotas import present_amounts, to_resource_quotas
from fairopt_clusters.quotas.team_quotas import ABOVE, RELATIVE, Change, QuotaChanges, Quotas, described
from fairopt_clusters.quotas.whole_tasks import WholeAnswer, whole_answer
from fairopt_clusters.read.amounts import matching
from fairopt_clusters.read.kubernetes.objects import PODS, PodSpec
from fairopt_clusters.read.slurm.devices import is_slice

FORMATS = ("csv", "kubernetes", "kueue", "slurm")
TEAM = "team"  # the label of namespaces, accounts and ClusterQueues
MOST_CHOICES = 10_000  # of flavors for the parts of a gang
_NEAR = 1e-6  # of the smallest unit: a distance from a multiple that is rounding


def quotas(
    answer: Allocation,
    format: str = FORMATS[0],
    *,
    by: str | None = None,
    teams: Sequence[str] | None = None,
    resources: Sequence[str] | None = None,
    queues: Any = None,
    api_version: str | None = None,
    present: Any = None,
    integral: bool | str = "rounded",
    time_limit: float | None = None,
    users: str | None = None,
    source: Any = None,
) -> Quotas:
    """Quotas of teams: what their whole tasks use of each resource, and of each type of server.

    For ``kubernetes`` and ``slurm``, whose limits stop all that is beyond them, what is left over is added in
    proportion, and there is no quota of what a team's tasks do not request.

    The answer of a `Policy` is solved again in whole tasks. Answers of other mechanisms, and of policies that
    decide bundles, are rounded by largest remainder within each team, and placed on individual servers.

    Parameters
    ----------
    answer : Allocation
        A certified answer.
    format : {"csv", "kubernetes", "kueue", "slurm"}, default "csv"
        What `Quotas.text` writes: a CSV table, a YAML list of ResourceQuotas or of ClusterQueues for
        ``kubectl apply -f``, or lines of ``sacctmgr``.
    by : str, optional
        The label of the teams. Default: ``team``, or the only label; without labels each user has quotas.
    teams, resources : sequence of str, optional
        Those with quotas. Default: all.
    queues : path-like, dict or "-", optional
        The input of `fairopt.read`, or what ``kubectl`` prints. For ``kueue``, its ClusterQueues keep all but their
        borrowing limits; for ``kubernetes``, its ResourceQuotas their names and all but these amounts; for
        ``slurm``, its associations name the cluster, and limits that stay. Without any each team gets a new one.
        Notes name the gangs in it, of Slurm too, that the quotas can never admit.
    api_version : {"v1beta2", "v1beta1"}, optional
        For ``kueue`` without ``queues``. Default: the newest.
    present : path-like, dict or "-", optional
        Where ResourceQuotas and limits are that the cluster has now. Default: ``source``.
    integral : "rounded" or True, default "rounded"
        How policies are solved in whole tasks, as in `Policy.allocate`: rounded in about a second, or by integer
        programs level by level, which may take minutes. Where rounding breaks constraints, these are solved anyway.
    time_limit : float, optional
        Seconds for that.
    users : str, optional
        The option ``users`` with which the input was read.
    source : path-like, dict or "-", optional
        The input, if ``queues`` are elsewhere.

    Returns
    -------
    Quotas
        Notes, such as what whole tasks lose against this answer, are comments in its text, except in CSV.

    Raises
    ------
    InvalidBlock
        If the answer is not certified, or there is no such format, label, team or resource.
    InvalidInstance
        If the format cannot hold the name of a team or a resource.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> cluster = fo.Instance(
    ...     [[8, 2], [4, 1]], [[32, 4], [16, 3]], users=["train", "tune"], resources=["cpu", "gpu"],
    ...     teams={"team": ["vision", "nlp"]},
    ... )
    >>> print(fc.quotas(fo.DRF().allocate(cluster)).text(), end="")
    team,resource,flavor,amount,unit
    vision,cpu,,16,
    vision,gpu,,4,
    nlp,cpu,,12,
    nlp,gpu,,3,
    """
    instance = answer.instance
    _checked_format(format)
    label = _label(by, instance.teams)
    if label is None:
        labelling = Labelling(instance.users, np.arange(instance.n_users))
    else:
        labelling = instance.teams.labelling(label)
    with_users = [name for t, name in enumerate(labelling.names) if (labelling.of_user == t).any()]
    chosen = _chosen("team", teams, with_users)
    wanted = None if resources is None else [whole_name(name, instance.resources) for name in resources]
    kept = _chosen("resource", wanted, instance.resources)
    of_input = queues if isinstance(queues, InputQueues) else read_queues(queues)
    given = queues if source is None and not isinstance(queues, InputQueues) else source
    known = resource_quotas_of(given if present is None else present)
    limits, cluster = limits_of(given if present is None else present)
    whole = whole_answer(answer, labelling, integral, time_limit)
    made = _Source(
        whole,
        label,
        labelling,
        tuple(chosen),
        tuple(kept),
        of_input,
        api_version,
        known,
        every_team=teams is None,
        gangs=tuple(read_gangs(given, users)) if label == TEAM else (),
        limits=limits,
        cluster=cluster,
        fixed=read_fixed(given),
        left_out=left_out(given, of_input, whole.servers.servers),
        local_queues={} if of_input.raw or label != TEAM else local_queues_of(given, users, chosen),
    )
    return made.quotas(format)


def _checked_format(format: str) -> str:
    if format not in FORMATS:
        raise InvalidBlock(f"quotas are not written as {format!r}; {nearest(str(format), FORMATS)}")
    return format


def _label(by: str | None, known: Iterable[str]) -> str | None:
    """The label of teams: ``team`` or the only one; None if there are none."""
    labels = [*known]
    if by is not None:
        if by not in labels and labels:
            raise InvalidBlock(f"users have no label {by!r}; {nearest(by, labels)}")
        if not labels:
            raise InvalidBlock(
                f"users have no labels, so there are no quotas by {by!r}; leave it out for those of users"
            )
        return by
    if TEAM in labels or len(labels) < 2:
        return TEAM if TEAM in labels else next(iter(labels), None)
    raise InvalidBlock(f"users have the labels {', '.join(labels)}; name that of the teams with quotas (--by)")


def _chosen(kind: str, given: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The names given, in the order of those known; all by default."""
    for name in given or ():
        if name not in known:
            raise InvalidBlock(f"there is no {kind} {name!r}; {nearest(name, known)}")
    return [name for name in known if given is None or name in given]


@dataclass(frozen=True, eq=False)
class _Source:
    """What quotas of any format are made of."""

    whole: WholeAnswer
    by: str | None
    labelling: Labelling
    teams: tuple[str, ...]
    resources: tuple[str, ...]
    queues: InputQueues
    api_version: str | None
    resource_quotas: Sequence[Mapping[str, Any]] | None = None  # those there are, None if that is not known
    notes: tuple[str, ...] = ()
    every_team: bool = False  # whether no teams were chosen
    gangs: tuple[Gang, ...] = ()
    limits: Sequence[Quota] | None = None  # those of accounts of Slurm
    cluster: str = ""  # of Slurm
    fixed: Mapping[str, Sequence[PodSpec]] = field(default_factory=dict)  # pods of servers by namespace
    left_out: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)  # servers, and what they have
    local_queues: Mapping[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)  # by team

    # -- servers ------------------------------------------------------------------------------------------------

    @cached_property
    def _types(self) -> tuple[str, ...]:
        """The types of individual servers, empty if they have none or one."""
        types = self.whole.servers.server_types or ()
        return types if len(set(types)) > 1 else ()

    @cached_property
    def _units_of(self) -> dict[str, str]:
        instance = self.whole.servers
        return dict(zip(instance.resources, instance.units or ("",) * instance.n_resources, strict=True))

    @cached_property
    def _used(self) -> Float:
        """Units that whole tasks of each team use, shape (n_teams, n_servers, n_resources)."""
        return self._by_team(self.whole.placement)

    @cached_property
    def _held(self) -> Float | None:
        """Units that running tasks take, by team, server and resource; None unless the servers are known."""
        held = self.whole.servers.held
        return None if held is None or held.ndim == 1 else self._by_team(held)

    @cached_property
    def _held_in_all(self) -> Float | None:
        """Units that running tasks of each team take, shape (n_teams, n_resources)."""
        units = self.whole.servers.held_units
        if units is None:
            return None
        return np.array([units[rows].sum(axis=0) for rows in self._members]).reshape(len(self.teams), units.shape[1])

    def _by_team(self, tasks: Float) -> Float:
        demands = self.whole.servers.per_server_demands
        shape = (len(self.teams), *demands.shape[1:])
        return np.array([np.einsum("js,jsi->si", tasks[rows], demands[rows]) for rows in self._members]).reshape(shape)

    @cached_property
    def _members(self) -> list[NDArray[np.intp]]:
        index = {name: t for t, name in enumerate(self.labelling.names)}
        return [np.flatnonzero(self.labelling.of_user == index.get(name, -2)) for name in self.teams]

    @cached_property
    def _gpus(self) -> GpuTypes | None:
        """The types of GPUs; None without several types."""
        return gpu_types(self.whole.servers)

    def _gpus_for(self, format: str) -> GpuTypes | None:
        """The types of GPUs by which a format has quotas: Slurm's, and others where several resources count GPUs."""
        gpus = self._gpus if format != "kueue" else None
        return gpus if gpus is not None and (format == "slurm" or gpus.are_resources) else None

    def _places(self, team: str, resource: str, format: str) -> dict[str, NDArray[np.bool_]]:
        """The servers of each flavor in which a team's quota of a resource is given, disjoint."""
        everywhere = np.ones(len(self.whole.servers.servers), dtype=np.bool_)
        if format == "kueue" and team in self.queues.raw:
            return self._of_queue(team, resource)
        if format in ("kubernetes", "slurm") or not self._types:
            return {"": everywhere}
        i = self.whole.servers.resource_index(resource)
        has = self.whole.servers.capacities[:, i] > 0
        types = np.array(self._types, dtype=object)
        named = dict.fromkeys(self._types)
        return {name: types == name for name in named if (has & (types == name)).any()} or {"": everywhere}

    def _of_queue(self, team: str, resource: str) -> dict[str, NDArray[np.bool_]]:
        """The servers of each flavor of a ClusterQueue: as its reader has them, else of the first that has them."""
        out: dict[str, NDArray[np.bool_]] = {}
        free = np.ones(len(self.whole.servers.servers), dtype=np.bool_)
        flavors = self.queues.flavors(team, resource_name(resource))
        flavors = [name for name in flavors if name not in self._empty_flavors]
        if (known := self.queues.places.get(team)) is not None:
            servers, name = self.whole.servers.servers, resource_name(resource)
            return {of: np.array([server in known[of, name] for server in servers]) for of in flavors}
        for name in flavors:
            mine = self._servers_of(name, alone=len(flavors) == 1)
            out[name], free = mine & free, free & ~mine
        return out

    @cached_property
    def _empty_flavors(self) -> list[str]:
        """The flavors of the input without a server that counts, as of a pool that is scaled to zero."""
        there = {*self.whole.servers.servers}
        return sorted(name for name, servers in self.queues.servers.items() if not servers & there)

    def _servers_of(self, flavor: str, alone: bool) -> NDArray[np.bool_]:
        servers = self.whole.servers
        if flavor in self.queues.servers:
            return np.array([name in self.queues.servers[flavor] for name in servers.servers])
        types = [name.lower() for name in servers.server_types or ()]
        if flavor in types and not alone:
            return np.array([name == flavor for name in types])
        return np.full(len(servers.servers), alone)

    # -- quotas -------------------------------------------------------------------------------------------------

    def quotas(self, format: str) -> Quotas:
        """The quotas for a format, with their text."""
        _checked_format(format)
        if format == "kueue" and self.queues.raw and {*self.teams} != {*self._queues_to_write}:
            return self._of_cluster_queues()
        rows, notes = self._rows(format)
        notes = [*self.whole.notes, *self.notes, *self._too_large(rows), *notes]
        return _written(self, rows, notes, format)

    def patches(self) -> str:
        """The quotas for Kueue as patches of the ClusterQueues of the input."""
        if not self.queues.raw:
            raise InvalidInstance("the input has no ClusterQueues to patch; write new ones, as YAML")
        made = self.quotas("kueue")
        comments = ["Quotas by fairopt", *map(visible, made.notes)]
        return to_patches(made.rows, self.queues.raw, comments, self._untouched, made._source.teams)

    @property
    def _untouched(self) -> set[str]:
        """The resources of which no quotas are written."""
        return {name for name in self.whole.servers.resources if name not in self.resources}

    @property
    def _queues_to_write(self) -> tuple[str, ...]:
        """The ClusterQueues of the input that are teams, and unless teams are chosen those without tasks now."""
        kept = tuple(team for team in self.teams if team in self.queues.raw)
        whole = self.every_team and self.by == TEAM and kept
        return kept + (tuple(name for name in self.queues.raw if name not in kept) if whole else ())

    def _of_cluster_queues(self) -> Quotas:
        """The quotas for Kueue of ClusterQueues of the input."""
        kept = self._queues_to_write
        if not kept:
            raise InvalidInstance(
                f"{self.teams[0]!r} is no ClusterQueue of the input, and no other team is; give teams that are "
                "(--users queue), or leave the ClusterQueues out for new ones"
            )
        notes = []
        if others := [team for team in self.teams if team not in kept]:
            notes.append(f"in no ClusterQueue of the input, and so without a quota: {first_of(others)}")
        if idle := [name for name in kept if name not in self.teams]:
            notes.append(f"without tasks now, so that what they are owed is lent: {first_of(idle)}")
        return replace(self, teams=kept, every_team=False, notes=tuple(notes)).quotas("kueue")

    @cached_property
    def _most(self) -> dict[tuple[str, str, str], Quota]:
        """What ClusterQueues of the input may use by the limits of their owners."""
        return {one.key: one for one in self.queues.most}

    def _lent(
        self,
        resource: str,
        keys: Sequence[tuple[int, str]],
        amounts: Sequence[float],
        room: Mapping[str, float],
        places: Sequence[Mapping[str, NDArray[np.bool_]]],
    ) -> list[float]:
        """What teams use of a resource, by flavor, with what is left that nobody uses or is owed, in proportion.

        It goes to those that use all that they are owed, within what their owners and cohorts allow. Else their pods of
        another shape could not start though cpu or memory is idle.
        """
        i = self.whole.servers.resource_index(resource)
        out = list(amounts)
        for flavor, there in room.items():
            mine = [k for k, (_, of) in enumerate(keys) if of == flavor]
            owed = {k: self._owed(self.teams[keys[k][0]], resource, flavor) or 0.0 for k in mine}
            on = self._capacity_of(flavor, places)
            demands = self.whole.servers.per_server_demands[:, on, i]
            others = float((self.whole.placement[:, on] * demands).sum()) - sum(amounts[k] for k in mine)
            left = there - sum(max(amounts[k], owed[k]) for k in mine) - max(others, 0.0)
            takers = [k for k in mine if amounts[k] * ABOVE >= owed[k]]
            used = sum(amounts[k] for k in takers)
            for k in takers if left > 0 and used > 0 else ():
                most = self._most.get((self.teams[keys[k][0]], resource_name(resource), flavor))
                more = amounts[k] * (1 + left / used)
                out[k] = more if most is None else max(amounts[k], min(more, same_unit(most, self._units_of[resource])))
        return out

    def _wanted(self, team: int, resource: int, on: NDArray[np.bool_]) -> bool:
        """Whether some task of a team needs a resource and may run on some servers; on any if all count for others."""
        servers, rows = self.whole.servers, self._members[team]
        on = on if on.any() else np.ones_like(on)
        rows = rows[servers.task_limits[rows] > 0]
        return bool((servers.eligible[rows] & on & (servers.per_server_demands[rows][:, :, resource] > 0)).any())

    def _promised(self) -> list[str]:
        """The nominal quotas of all queues and cohorts beside what servers have, as they are after applying."""
        servers, parts, over = self.whole.servers, list[str](), list[str]()
        for (flavor, name), amount in self.queues.promised.items():
            resource = matching(name, self.resources)
            if resource is None or not self.queues.servers.get(flavor):  # without servers, limits stay and are said
                continue
            made = quota_of("", name, flavor, amount)
            rows = [server in self.queues.servers[flavor] for server in servers.servers]
            there = float(servers.capacities[rows, servers.resource_index(resource)].sum())
            there += self._left_out_of([flavor], resource)
            text = _of_all(made.amount, there, resource, made.unit, flavor)
            (over if made.amount > there * ABOVE else parts).append(text)
        notes = [f"after applying, nominal quotas of all queues and cohorts are {', '.join(parts)}"] if parts else []
        if over:
            notes.append(f"nominal quotas promise more than there is, before and after: {', '.join(over)}")
        if left := self.queues.unpromised:
            notes.append(f"in nobody's nominal quota, so that no queue may use them: {', '.join(left)}")
        return notes

    def _left_out_of(self, flavors: Iterable[str], resource: str) -> float:
        """What servers of some flavors have on which no pod of the queues may run."""
        name = resource_name(resource)
        on = {server for flavor in flavors for server in self.queues.servers.get(flavor, ())}
        units = sum((has.get(name, Fraction(0)) for server, has in self.left_out.items() if server in on), Fraction(0))
        return quota_of("", name, "", units).amount

    def _rows(self, format: str) -> tuple[list[Quota], list[str]]:
        """The rounded quotas, and notes."""
        rows: dict[tuple[str, str, str], Quota] = {}
        spare, unwanted = list[str](), dict[str, list[str]]()
        gpus, bounds = self._gpus_for(format), self._bounds if format in BOUNDING else None
        typed, notes = self._of_gpu_types(gpus, bounds, format) if gpus else ([], [])
        for resource in self.resources:
            if gpus and resource in gpus.resources:
                continue
            i = self.whole.servers.resource_index(resource)
            unit = self._units_of[resource]
            step = step_of(resource, unit, whole_cores=format == "slurm")
            places = [self._places(team, resource, format) for team in self.teams]
            keys = [(t, flavor) for t, of_team in enumerate(places) for flavor in of_team]
            flavors = [flavor for _, flavor in keys]
            amounts = [float(self._used[t, places[t][flavor], i].sum()) for t, flavor in keys]
            capacity = self.whole.servers.capacities[:, i]
            room = {name: float(capacity[self._capacity_of(name, places)].sum()) for name in dict.fromkeys(flavors)}
            if bounds is not None:
                amounts = spread(bounds.amounts[:, i], capacity.sum()).tolist()
                flavors = [*flavors, ""]  # of the users without a quota
            elif (
                format == "kueue"
                and self.queues.raw
                and (self._is_plain(resource) or resource == PODS)
                and {*self.queues.raw} <= {*self.teams}
            ):
                before = amounts
                amounts = self._lent(resource, keys, amounts, room, places)
                spare += [f"{sum(amounts) - sum(before):,.6g} {described(resource, '', unit)}"] * (amounts != before)
            counts = rounded_within(amounts, flavors, room, float(capacity.sum()), step)
            for (t, flavor), count in zip(keys, counts, strict=False):
                if format == "kueue" and self.teams[t] in self.queues.raw and not self._wanted(t, i, places[t][flavor]):
                    unwanted.setdefault(self.teams[t], []).append(described(resource, flavor, ""))
                    continue
                if bounds is not None and not (bounds.written[t, i] and (count or not self._is_plain(resource))):
                    continue
                owed = self._owed(self.teams[t], resource, flavor) if format == "kueue" else None
                rows[self.teams[t], resource, flavor] = Quota(
                    self.teams[t], resource, flavor, float(count * step), unit, owed
                )
            for t, team in enumerate(self.teams):
                outside = self._used[t, :, i].sum() - sum(self._used[t, mask, i].sum() for mask in places[t].values())
                if outside > _NEAR:
                    where = "on servers of no flavor of its ClusterQueue" if places[t] else "outside its ClusterQueue"
                    notes.append(f"{outside:g} {resource} of {team} are {where}, and have no quota")
        ordered = [row for team in self.teams for row in (*rows.values(), *typed) if row.team == team]
        if bounds is not None:
            notes += self._of_bounds(ordered, bounds, gpus)
        without = np.flatnonzero((self.labelling.of_user < 0) & (self.whole.placement.sum(axis=1) > 0))
        if len(without):
            user, more = self.whole.servers.users[without[0]], f" and {len(without) - 1} more" * (len(without) > 1)
            above = ", as jobs of an account above others" * (format == "slurm" and self.by == TEAM)
            notes.append(f"without a team, and so without a quota{above}: {user}{more}")
        if {self.labelling.names[t] for t in {*self.labelling.of_user.tolist()} - {-1}} <= {*self.teams}:
            once = typed if format == "csv" else [row for row in typed if not row.flavor]
            notes += self._in_no_quota([*rows.values(), *once], gpus, with_left_out=format == "kueue")
        if self.by is None:
            notes.append("users have no teams, so each user has quotas")
        if spare:
            notes.append(f"left over, owed to no queue, and lent too in proportion: {', '.join(spare)}")
        if format == "kueue" and self.queues.raw:
            notes += self._promised()
            if unwanted:
                what = "no task now for these, so that limits on borrowing stay as their owners gave them"
                texts = [f"{team} ({first_of(of)})" for team, of in unwanted.items()]
                notes.append(f"{what}, for what is idle: {first_of(texts)}")
            if self.queues.unreached:
                named = first_of(self.queues.unreached)
                notes.append(f"no LocalQueue leads to these ClusterQueues, so that no job reaches them: {named}")
            if waiting := self.queues.without_reclaim:
                notes.append(
                    "preemption.reclaimWithinCohort is Never, so that what they are owed comes back from others only "
                    f"as their jobs end: {first_of(waiting)}"
                )
            if self._empty_flavors:
                named = first_of(self._empty_flavors)
                notes.append(f"no servers that count now, so that limits stay as their owners gave them: {named}")
            notes.append(
                "nominal quotas stay; what is fair beyond them is lent, as borrowingLimit, until this runs again"
            )
        if format == "kubernetes":
            ordered, of_room = self._with_room(ordered, gpus)
            ordered, of_fixed = self._beside_fixed(ordered)
            notes += of_room + of_fixed
        if format in BOUNDING:
            notes += self._staying(ordered, gpus, format)
        given = [(row.resource, row.unit) for row in ordered]
        notes.append(f"rounded up where capacities allow it, else down: {steps_in_words(given, format == 'slurm')}")
        return ordered, notes

    # -- limits that stop what is beyond them -------------------------------------------------------------------

    @cached_property
    def _bounds(self) -> Bounds:
        """What limits of Kubernetes and Slurm bound."""
        servers, answer = self.whole.servers, self.whole.answer
        chosen = np.concatenate([np.empty(0, dtype=np.intp), *self._members])
        rest = np.setdiff1d(np.arange(servers.n_users), chosen)
        others = np.einsum("js,jsi->i", self.whole.placement[rest], servers.per_server_demands[rest])
        each = np.einsum("js,jsi->ji", answer.tasks_by_server, answer.instance.per_server_demands)
        fair = np.array([each[rows].sum(axis=0) for rows in self._members]).reshape(len(self.teams), each.shape[1])
        demands = [servers.per_server_demands[rows].max(axis=1) for rows in self._members]
        plain = np.array([self._is_plain(name) for name in servers.resources])
        required = np.array([self._is_required(name) for name in servers.resources])
        return bounds_of(self._used.sum(axis=1), others, fair, demands, servers.total_capacities, plain, required)

    def _is_plain(self, resource: str) -> bool:
        """Whether a resource is cpu, memory or storage, where smaller tasks can use any amount."""
        return self._is_required(resource) or is_memory(self._units_of.get(resource, ""))

    def _is_required(self, resource: str) -> bool:
        """Whether a resource is cpu or memory: a limit on these rejects tasks that do not request them."""
        return resource == "memory" or is_cpu(resource, self._units_of.get(resource, ""))

    def _of_bounds(self, rows: Sequence[Quota], bounds: Bounds, gpus: GpuTypes | None) -> list[str]:
        """Notes on what is left over, and on what has no quota."""
        servers, written = self.whole.servers, {(row.team, row.resource) for row in rows}
        left, without, none_left = [], dict[str, list[str]](), dict[str, list[str]]()
        of_gpus = gpus.resources if gpus is not None else set[str]()
        for resource in self.resources:
            if resource in of_gpus and gpus is not None:
                if resource != min(of_gpus & {*self.resources}):
                    continue
                resource, total = gpus.resource, float(gpus.devices(servers.total_capacities))
                used = float(gpus.devices(bounds.amounts).sum())
            else:
                i = servers.resource_index(resource)
                total, used = float(servers.total_capacities[i]), float(bounds.amounts[:, i].sum())
            unit = self._units_of.get(resource, "")
            if used > 0 and total - used >= step_of(resource, unit):
                left.append(_of_all(total - used, total, resource, unit))
            index = [servers.resource_index(resource)] if resource in servers.resources else []
            for t, team in enumerate(self.teams):
                if (team, resource) not in written and team not in self._of_servers:
                    (none_left if bounds.written[t, index].any() else without).setdefault(resource, []).append(team)
        notes = [f"left over, and added to quotas in proportion: {', '.join(left)}"] if left else []
        for what, teams in (
            ("no quota of what a team's tasks do not request, or of cpu and memory not all of them", without),
            ("no quota, since others use all and a quota of 0 would stop every task", none_left),
        ):
            if teams:
                notes.append(f"{what}: {'; '.join(f'{name} of {first_of(of)}' for name, of in teams.items())}")
        return notes

    def _with_room(self, rows: Sequence[Quota], gpus: GpuTypes | None) -> tuple[list[Quota], list[str]]:
        """The quotas with room for one more task of each team all of whose tasks have a place; and a note.

        Without it pods beyond these tasks would be refused, and nobody would see that the team wants more.
        """
        servers, whole = self.whole.servers, self.whole.placement.sum(axis=1)
        needed = dict[tuple[str, str], float]()
        for t, (team, members) in enumerate(zip(self.teams, self._members, strict=True)):
            if (whole[members] < servers.task_limits[members]).any():
                continue
            demands, used = servers.per_server_demands[members].max(axis=1), self._used[t].sum(axis=0)
            units = used + demands.max(axis=0)
            needed |= {(team, name): amount for name, amount in zip(servers.resources, units.tolist(), strict=True)}
            if gpus is not None:
                needed[team, gpus.resource] = float(gpus.devices(used) + gpus.devices(demands).max())
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
        if not raised:
            return out, []
        total, unit = self._there(gpus), {row.resource: row.unit for row in rows}
        parts = [_of_all(sums[name], total[name], name, unit[name]) for name in sums]
        what = "room for one more task, so that it is seen, though together quotas then are"
        return out, [f"{what} {', '.join(parts)}: {first_of(dict.fromkeys(raised))}"]

    @cached_property
    def _of_servers(self) -> list[str]:
        """The namespaces with pods that belong to servers, unless they have ResourceQuotas or are named."""
        limited = {one.team for one in present_amounts(self.resource_quotas or ())}
        mine = [team for team in self.teams if self.fixed.get(team) and team not in limited]
        return mine if self.every_team else []

    def _beside_fixed(self, rows: Sequence[Quota]) -> tuple[list[Quota], list[str]]:
        """The quotas with the pods that belong to servers, which ResourceQuotas count; and notes.

        A namespace with such pods has a quota only where it has one already, or is named: a new one would refuse such
        pods on the next server.
        """
        without, out = self._of_servers, []
        for row in rows:
            specs = self.fixed.get(row.team, ())
            if row.team in without:
                continue
            name = resource_name(row.resource) if specs else ""
            if self._is_required(row.resource) and not all(spec.request.get(name) for spec in specs):
                continue
            units = sum((spec.request.get(name, Fraction(0)) for spec in specs), Fraction(0))
            more = quota_of("", name, "", units)
            out.append(replace(row, amount=row.amount + same_unit(more, row.unit)) if specs else row)
        notes = []
        if without:
            what = "no quota, since pods of DaemonSets or static pods are there and would be refused"
            notes.append(f"{what}: {first_of(without)}")
        if added := [team for team in self.teams if self.fixed.get(team) and team not in without]:
            notes.append(f"with what pods of DaemonSets and static pods there request: {first_of(added)}")
        return out, notes

    def _staying(self, rows: Sequence[Quota], gpus: GpuTypes | None, format: str) -> list[str]:
        """Present limits that stay beside the new ones, and what all of them add up to."""
        known = self.resource_quotas
        present = self.limits if format == "slurm" else None if known is None else present_amounts(known)
        if present is None:
            return []  # which the text says
        servers, written = self.whole.servers, {(row.team, row.resource) for row in rows}
        there = self._there(gpus)
        if gpus is not None:  # as one resource
            there = {name: there[name] for name in there if name not in gpus.resources or name == gpus.resource}
        sums = dict.fromkeys(there, 0.0)
        for row in rows:
            if not row.flavor and row.resource in sums:
                sums[row.resource] += row.amount
        outer = {name for label in servers.teams if label != self.by for name in servers.teams.labelling(label).names}
        kinds: dict[str, list[str]] = {"idle": [], "above": [], "other": []}
        more = set[str]()
        for one in present:
            resource = matching(one.resource, there)
            if one.flavor or resource is None or (one.team, resource) in written:
                continue
            with_tasks = one.team in self.labelling.names
            if with_tasks and one.team not in self.teams:
                continue  # another team than those chosen
            kind = "other" if with_tasks else "above" if one.team in outer else "idle"
            unit = self._units_of.get(resource, "")
            amount = same_unit(one, unit)
            kinds[kind].append(f"{one.team} {amount:,.6g} {described(resource, '', unit)}")
            if kind != "above" and one.team not in self.fixed:
                sums[resource] += amount
                more.add(resource)
        of_accounts = format == "slurm"
        who = "accounts" if of_accounts else "namespaces"
        texts = {
            "idle": f"limits of {who} without tasks now stay in effect",
            "other": "limits that stay in effect without a new one" + " (an amount of -1 takes one off)" * of_accounts,
            "above": "limits of accounts above stay in effect for those below",
        }
        notes = [f"{texts[kind]}: {first_of(names)}" for kind, names in kinds.items() if names]
        parts = [_of_all(sums[name], there[name], name, self._units_of.get(name, "")) for name in there if name in more]
        if parts and self.every_team:
            notes.append(f"after applying, limits add up to {', '.join(parts)}")
        return notes

    def _too_large(self, rows: Sequence[Quota]) -> list[str]:
        """Gangs that wait and that the quotas of their teams can never admit, with what they need."""
        of_team: dict[str, dict[str, dict[str, float]]] = {}
        in_all = {(row.team, row.resource) for row in rows if not row.flavor}
        for row in rows:
            if not row.flavor or (row.team, row.resource) not in in_all:
                of_resource = of_team.setdefault(row.team, {}).setdefault(row.resource, {})
                of_resource[row.flavor] = max(row.amount, row.owed or 0.0)
        units = {row.resource: row.unit for row in rows}
        short = [text for gang in self.gangs if (text := _shortfall(gang, of_team.get(gang.team, {}), units))]
        what = "too large for the new quotas of their teams, and started whole or not at all"
        return [f"{what}: {first_of(short)}"] if short else []

    def _owed(self, team: str, resource: str, flavor: str) -> float | None:
        """The nominal quota of a ClusterQueue of the input."""
        for of, entry in cells_of(self.queues.raw.get(team, {})):
            if (of, entry["name"]) == (flavor, resource_name(resource)):
                return quota_of(team, entry["name"], flavor, quantity(entry["nominalQuota"])).amount
        return None

    def _in_no_quota(self, rows: Sequence[Quota], gpus: GpuTypes | None, with_left_out: bool) -> list[str]:
        """How much of each resource no team's quota has."""
        total = self._there(gpus)
        for name in {row.resource for row in rows} if with_left_out else ():
            total[name] += self._left_out_of(
                {flavor for flavor, of in self.queues.promised if of == resource_name(name)}, name
            )
        left = total.copy()
        for row in rows:
            left[row.resource] -= row.amount
        parts = [
            _of_all(left[name], total[name], name, unit)
            for name, unit in {row.resource: row.unit for row in rows}.items()
            if left[name] >= step_of(name, unit)
        ]
        return [f"in no quota: {', '.join(parts)}"] if parts else []

    def _there(self, gpus: GpuTypes | None) -> dict[str, float]:
        """The total capacity of each resource, and of all GPUs."""
        servers = self.whole.servers
        total = dict(zip(servers.resources, servers.total_capacities.tolist(), strict=True))
        return total if gpus is None else total | {gpus.resource: float(gpus.devices(servers.total_capacities))}

    def _capacity_of(self, flavor: str, places: Sequence[Mapping[str, NDArray[np.bool_]]]) -> NDArray[np.bool_]:
        """The servers that some team's flavor has."""
        return np.any([of_team[flavor] for of_team in places if flavor in of_team], axis=0)

    def _of_gpu_types(self, gpus: GpuTypes, bounds: Bounds | None, format: str) -> tuple[list[Quota], list[str]]:
        """The quotas of GPUs of each type, for Slurm also in all, for Kubernetes in all alone; and notes."""
        if not gpus.resources & {*self.resources}:
            return [], []
        there, n = float(gpus.devices(self.whole.servers.total_capacities)), len(self.teams)
        units: Float = self._used
        with_limit: list[bool] = [True] * n
        if bounds is not None:
            counts_gpus = [i for i, name in enumerate(self.whole.servers.resources) if name in gpus.resources]
            with_limit = [bool(mine.any()) for mine in bounds.written[:, counts_gpus]]
            everyone = np.einsum("js,jsi->si", self.whole.placement, self.whole.servers.per_server_demands)
            units = np.concatenate([units, (everyone - units.sum(axis=0))[None]])
        raised = spread if bounds is not None else _as_they_are
        if not gpus.types or format == "kubernetes":
            of_all = units.sum(axis=1) if bounds is None else bounds.amounts
            devices = gpus.devices(raised(of_all, self.whole.servers.total_capacities)).tolist()
            in_total = rounded_within(devices, [""] * len(devices), {"": there}, there, Fraction(1))
            rows = [Quota(team, gpus.resource, "", float(k)) for team, k in zip(self.teams, in_total, strict=False)]
            kept = [row for row, mine in zip(rows, with_limit, strict=True) if mine]
            counted = ", slices too" * any(map(is_slice, gpus.typed))
            known = (
                "quotas know no types of GPUs" if format == "kubernetes" else "types of GPUs by server are not known"
            )
            return kept, [f"{known}, so {'they' if format == 'kubernetes' else 'quotas'} are in total{counted}"]
        used, chosen = gpus.used(units)
        keys = [(t, kind) for t in range(len(units)) for kind in gpus.types]
        room = {kind: gpus.total(kind) for kind in gpus.types}
        of_kinds = {kind: raised(used[kind], np.float64(room[kind])) for kind in gpus.types}
        amounts = [float(of_kinds[kind][t]) for t, kind in keys]
        rounded = rounded_within(amounts, [kind for _, kind in keys], room, there, Fraction(1))
        counts = dict(zip(keys, rounded, strict=True))
        rows = []
        for t, team in enumerate(self.teams):
            if not with_limit[t]:
                continue
            in_all, of_team = format == "slurm", {kind: float(counts[t, kind]) for kind in gpus.types}
            rows += [Quota(team, gpus.resource, "", sum(of_team.values()))] if in_all else []
            rows += [Quota(team, gpus.resource, kind, k) for kind, k in of_team.items() if is_tres(kind) or not in_all]
        notes = [
            "GPUs without a type, on servers with several, are counted as the type with the most left there: jobs that "
            "get another type wait once its limit is reached"
        ]
        return rows, notes * chosen

    @property
    def number_of_tasks(self) -> dict[str, int]:
        """The whole tasks of each team, with the pods there that belong to servers."""
        whole = self.whole.placement.sum(axis=1)
        members = zip(self.teams, self._members, strict=True)
        return {team: round(float(whole[rows].sum())) + len(self.fixed.get(team, ())) for team, rows in members}

    # -- present quotas -----------------------------------------------------------------------------------------

    def changes(self, rows: Sequence[Quota], present: Sequence[Quota], format: str) -> QuotaChanges:
        """New quotas beside present ones and what is held."""
        gpus = self._gpus_for(format)
        held = {} if gpus is None or self._held is None else gpus.used(self._held)[0]
        known, notes = self._present(rows, present)
        made = [
            Change(
                row.team,
                row.resource,
                row.flavor,
                row.unit,
                known.get(row.key),
                max(row.amount, row.owed or 0.0),
                self._held_of(row, gpus, held),
                row.owed,
            )
            for row in rows
        ]
        over = [
            f"{one.team} holds {one.held:,.6g} {one.words}, more than its new quota of {one.new:,.6g}"
            for one in made
            if one.is_over
        ]
        said = format in BOUNDING and (self.limits if format == "slurm" else self.resource_quotas) is not None
        held_elsewhere = self._held_elsewhere(made) if format == "kueue" else []
        return QuotaChanges(tuple(made), (*over, *held_elsewhere, *self._beyond(), *([] if said else notes)))

    def _held_elsewhere(self, made: Sequence[Change]) -> list[str]:
        """What queues hold on flavors of which they have no quota at all, not even of 0."""
        if self._held_in_all is None:
            return []
        shown: dict[tuple[str, str], float] = {}
        for one in made:
            if one.held is not None:
                shown[one.team, one.resource] = shown.get((one.team, one.resource), 0.0) + one.held
        return [
            f"{team} holds {more:,.6g} {resource} more, on servers of flavors of which it has no quota"
            for t, team in enumerate(self.teams)
            for i, resource in enumerate(self.whole.servers.resources)
            if (of := shown.get((team, resource))) is not None
            and (more := float(self._held_in_all[t, i]) - of) > RELATIVE * max(of, 1.0)
        ]

    def _present(
        self, rows: Sequence[Quota], present: Sequence[Quota]
    ) -> tuple[dict[tuple[str, str, str], float], list[str]]:
        """Present amounts by the keys of new quotas, in their units, and notes on the others.

        Flavors are summed for a new quota of all servers together.
        """
        new = {row.key: row for row in rows}
        written = {(row.team, row.resource, row.flavor.lower()): row.flavor for row in rows}
        out: dict[tuple[str, str, str], float] = {}
        other_teams, other = dict[str, None](), dict[str, None]()
        whole = {(one.team, one.resource) for one in present if not one.flavor}
        for one in present:
            if one.team not in self.teams:
                other_teams[one.team] = None
                continue
            resource = matching(one.resource, {row.resource: None for row in rows})
            names = (one.flavor.lower(), *([flavor_name("")] if not one.flavor else []))
            flavors = (written.get((one.team, resource or "", name)) for name in names)
            flavor = next((name for name in flavors if name is not None), one.flavor)
            key = (one.team, resource or "", flavor)
            if resource is not None and key not in new and (one.team, one.resource) not in whole:
                key = (one.team, resource, "")
            if key not in new:
                other[one.resource + (f" of {one.flavor}" if one.flavor else "")] = None
                continue
            amount = same_unit(one, new[key].unit)
            out[key] = out.get(key, 0.0) + amount
        notes = []
        if other_teams:
            notes.append(f"quotas of others than these {self.by or 'user'}s stay as they are: {first_of(other_teams)}")
        if other:
            notes.append(f"present quotas without new ones stay as they are: {first_of(other)}")
        return out, notes

    def _held_of(self, row: Quota, gpus: GpuTypes | None, held: Mapping[str, Float]) -> float | None:
        """What tasks of a team that run now take of what a quota is for; None if it is not known."""
        t = self.teams.index(row.team)
        if gpus is not None and row.resource == gpus.resource:
            if row.flavor:
                return float(held[row.flavor][t]) if row.flavor in held else None
            return None if self._held_in_all is None else float(gpus.devices(self._held_in_all[t]))
        i = self.whole.servers.resource_index(row.resource)
        if not row.flavor:
            return None if self._held_in_all is None else float(self._held_in_all[t, i])
        if self._held is None:
            return None
        format = "kueue" if row.team in self.queues.raw else "csv"
        places = self._places(row.team, row.resource, format)
        if (mask := places.get(row.flavor)) is None:
            return None
        if format == "kueue":  # of which it has no quota now, nor may borrow
            mask = mask | (~np.any([*places.values()], axis=0) & self._servers_of(row.flavor, alone=False))
        return float(self._held[t, mask, i].sum())

    def _beyond(self) -> list[str]:
        """The teams that hold more than there is."""
        if self._held_in_all is None:
            return ["what teams hold now is not known: the input does not say where tasks run"]
        total = self.whole.servers.total_capacities
        return [
            f"{team} holds {self._held_in_all[t, i]:,.6g} {resource}, but there is {total[i]:,.6g}: check the input"
            for t, team in enumerate(self.teams)
            for i, resource in enumerate(self.whole.servers.resources)
            if resource in self.resources and self._held_in_all[t, i] > total[i] * ABOVE
        ]


def _as_they_are(amounts: Float, capacity: Float | np.float64) -> Float:
    return amounts


def _written(source: _Source, rows: Sequence[Quota], notes: list[str], format: str) -> Quotas:
    """The quotas with their text, which contains the notes as comments."""
    by = source.by or "user"
    comments = ["Quotas by fairopt", *map(visible, notes)]
    if format == "csv":
        text = to_csv(rows)
    elif format == "kueue":
        of_input, outer = source.queues.raw, _cohorts(source)
        text, more = to_cluster_queues(
            rows, of_input, source.api_version, outer, comments, source._untouched, source.teams, source.local_queues
        )
        notes += more
    elif format == "kubernetes":
        text, more = to_resource_quotas(rows, source.resource_quotas, comments, source.number_of_tasks)
        notes += more
    else:
        text = to_sacctmgr(rows, comments, source.cluster)
    if source.api_version is not None and format != "kueue":
        raise InvalidBlock(f"api_version is of ClusterQueues, and not of {format}; leave it out, or give 'kueue'")
    return Quotas(tuple(rows), tuple(notes), by, format, source, text)


def _shortfall(gang: Gang, quotas: Mapping[str, Mapping[str, float]], unit_of: Mapping[str, str]) -> str:
    """What a gang needs that the quotas of its team, by resource and flavor, do not have; empty if they have it.

    Kueue takes all pods of a part from one flavor. Quotas by type of server are added up.
    """
    needs = {name: units for given, units in gang.units.items() if (name := matching(given, quotas)) and units > 0}
    lacks = {name: units for name, units in needs.items() if units > sum(quotas[name].values()) * ABOVE}
    groups: dict[tuple[str, ...], dict[str, Mapping[str, float]]] = {}  # of resources with the same flavors
    for name in needs if gang.barred and not lacks else ():
        groups.setdefault(tuple(quotas[name]), {})[name] = quotas[name]
    for flavors, of_group in groups.items():
        able = [[flavor for flavor in flavors if flavor not in barred] for barred in gang.barred]
        if not any(_admits(gang, choice, of_group) for choice in islice(product(*able), MOST_CHOICES)):
            short = {name for name, of in of_group.items() if needs[name] > max(of.values()) * ABOVE}
            lacks |= {name: needs[name] for name in of_group if name in short or not short}
    if not lacks:
        return ""
    parts = []
    for name, units in lacks.items():
        given = {flavor: amount for flavor, amount in quotas[name].items() if amount > 0}
        there = [f"{amount:,.6g}" + f" of {flavor}" * bool(flavor) for flavor, amount in given.items()]
        parts.append(f"{units:,.6g} {described(name, '', unit_of[name])} (quota {', '.join(there) or '0'})")
    return f"{gang.name} of {gang.team} needs {' and '.join(parts)}"


def _admits(gang: Gang, flavors: Sequence[str], quotas: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether quotas admit a gang with a flavor for each part."""
    used: dict[tuple[str, str], float] = {}
    for part, flavor in zip(gang.parts, flavors, strict=True):
        for given, units in part.items():
            if (name := matching(given, quotas)) is not None:
                used[name, flavor] = used.get((name, flavor), 0.0) + units
    return all(units <= quotas[name].get(flavor, 0.0) * ABOVE for (name, flavor), units in used.items() if units > 0)


def _cohorts(source: _Source) -> dict[str, str]:
    """The team outside each team, under the next label."""
    teams = source.whole.servers.teams
    order = [*teams.outermost_first]
    if source.by is None or order.index(source.by) == 0:
        return {}
    names, of_user = teams.labelling(order[order.index(source.by) - 1])
    outer = {team: of_user[rows[0]] for team, rows in zip(source.teams, source._members, strict=True) if len(rows)}
    return {team: names[t] for team, t in outer.items() if t >= 0}


def rounded_within(
    amounts: Sequence[float], flavors: Sequence[str], room: Mapping[str, float], total: float, step: Fraction
) -> list[int]:
    """Amounts in steps: rounded up by their remainders while they fit into flavors and the total, else down."""
    per = float(1 / step)
    values = np.asarray(amounts, dtype=float) * per
    near = np.rint(values)
    exact = np.abs(values - near) <= np.maximum(_NEAR, RELATIVE * values)
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
    return int(np.floor(value * (1 + RELATIVE) + _NEAR))


def _of_all(amount: float, total: float, resource: str, unit: str, flavor: str = "") -> str:
    """An amount of what there is, in words."""
    return f"{amount:,.6g} of {total:,.6g} {described(resource, flavor, unit)}"
