"""Quotas of teams from an answer: what they are owed, in the settings of a cluster, or limits of a moment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairopt import Allocation, Instance
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Labelling, whole_name
from fairopt.policies import accepted
from fairopt.runtime import Clock
from fairopt_clusters.quotas.accounts import FAIRSHARE
from fairopt_clusters.quotas.amounts import Amounts, Input, NewCapped, NewQueues
from fairopt_clusters.quotas.bounded import TEAM, Accounts, Namespaces
from fairopt_clusters.quotas.cluster_queues import InputQueues, left_out, read_queues
from fairopt_clusters.quotas.gangs import read_gangs
from fairopt_clusters.quotas.namespaces import local_queues_of, read_fixed
from fairopt_clusters.quotas.of_queues import LentNow, OfQueues, Settings
from fairopt_clusters.quotas.present import accounts_of, resource_quotas_of
from fairopt_clusters.quotas.quota import Quota
from fairopt_clusters.quotas.shares import Shares
from fairopt_clusters.quotas.team_quotas import QuotaChanges, Quotas
from fairopt_clusters.quotas.teams import Teams
from fairopt_clusters.quotas.trial import Trial, tried
from fairopt_clusters.quotas.whole_tasks import WholeAnswer, as_divided, whole_answer
from fairopt_clusters.quotas.work import Work

_MAKERS: dict[str, type[Amounts]] = {
    "csv": Amounts,
    "kubernetes": Namespaces,
    "kueue": NewQueues,
    "slurm": Accounts,
}
FORMATS = tuple(_MAKERS)


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
    caps: bool = False,
    reclaim: bool = False,
    full_demand: Instance | None = None,
) -> Quotas:
    """Quotas of teams: what they are owed of each resource, and of each type of server.

    By default they do not depend on who asks for what now: they are what whole tasks use if everybody has more work
    than fits; for ClusterQueues of the input (``queues``) their nominal quotas, with settings by which each borrows
    what is free and, with ``reclaim``, takes back what it owns; and for accounts of Slurm fairshares. With ``caps``
    they are what whole tasks of this answer use, as limits of a moment; the first note then says what they leave idle
    though tasks wait.

    For ``kubernetes`` and limits of Slurm, which stop all that is beyond them, what is left over is added in
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
        The input of `fairopt.read`, or what ``kubectl`` prints. For ``kueue``, its ClusterQueues and Cohorts keep all
        but weights and limits that ``caps`` wrote, and with ``reclaim`` ``Never``; for ``kubernetes``, its
        ResourceQuotas their names and all but these amounts; for ``slurm``, its associations name the cluster, the
        fairshares that there are, and limits; those in ``contracts.csv`` of a folder stay. Without any each team gets a
        new one.
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
    caps : bool, default False
        Limits of a moment: what this answer uses.
    reclaim : bool, default False
        Whether ClusterQueues of the input preempt who borrows what they own, with ``reclaimWithinCohort`` of ``Any`` in
        place of ``Never``. What is preempted loses what it has done, unless it goes on from a checkpoint.
    full_demand : Instance, optional
        The same cluster at full demand, as ``fo.read(path, full_demand=True)`` has it, with teams that have no tasks
        now. Default: the answer's, without task limits.

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
    if api_version is not None and format != "kueue":
        raise InvalidBlock(f"api_version is of ClusterQueues, and not of {format}; leave it out, or give 'kueue'")
    if reclaim and (caps or format != "kueue"):
        other = "caps=True" if caps else f"the format {format!r}"
        raise InvalidBlock(f"reclaim=True changes settings of ClusterQueues, and {other} writes none; leave one out")
    label = _label(by, instance.teams)
    wanted = None if resources is None else [whole_name(name, instance.resources) for name in resources]
    of_input = queues if isinstance(queues, InputQueues) else read_queues(queues)
    objects = queues if source is None and not isinstance(queues, InputQueues) else source
    known = resource_quotas_of(objects if present is None else present)
    servers, of_teams = instance.individual().servers, label == TEAM
    work = Work.of(objects)
    given = Input(
        of_input,
        api_version,
        known,
        accounts_of(objects, present),
        gangs=read_gangs(objects, users, work.inside.waits if work.inside else ()) if of_teams else (),
        work=work,
        fixed=read_fixed(work),
        left_out=left_out(work, of_input, servers),
        local_queues=local_queues_of(work, users, instance.teams.names) if of_teams and not of_input.raw else {},
        reclaim=reclaim,
    )
    made = _Source(answer, full_demand, caps, label, teams, wanted, given, integral, Clock(time_limit))
    return made.quotas(format)


@dataclass(frozen=True, eq=False)
class _Source:
    """An answer, and what quotas of it in any format are made of."""

    answer: Allocation
    full_demand: Instance | None
    caps: bool
    by: str | None
    chosen: Sequence[str] | None
    resources: Sequence[str] | None
    given: Input
    integral: bool | str
    clock: Clock

    def quotas(self, format: str) -> Quotas:
        """The quotas for a format, with their text."""
        return self._maker(_checked_format(format)).quotas(self)

    def changes(self, made: Quotas, present: Sequence[Quota]) -> QuotaChanges:
        """Quotas beside present ones and what is held."""
        shares = any(row.resource == FAIRSHARE for row in made.rows)
        of_kind = [one for one in present if (one.resource == FAIRSHARE) == shares]
        return self._maker(made.format).changes(made.rows, of_kind)

    def tried(self, made: Quotas, past: str | os.PathLike[str], resumes: bool) -> Trial:
        """What past weeks would have been."""
        maker = self._maker(made.format)
        if not isinstance(maker, OfQueues):
            raise InvalidInstance("settings are tried on ClusterQueues of the input alone; leave out --replay")
        after = maker.objects_after(made.rows)
        return tried(self.given.work, after, past, self.answer.instance, resumes)

    def _maker(self, format: str) -> Amounts:
        """What makes the quotas of a format: by default of what is owed."""
        if format == Accounts.format and not self.caps:
            full = self.answer.instance.full_demand() if self.full_demand is None else self.full_demand
            return Shares(self._teams(as_divided(self.answer), full.teams.names), self.given, full)
        raw = self.given.queues.raw if format == "kueue" else {}
        if raw and not self.caps:
            return Settings(self._teams(as_divided(self.answer), raw), self.given)
        made = self.whole if self.caps else self._owed
        by_format = _MAKERS | {"kueue": LentNow if raw else NewCapped} if self.caps else _MAKERS
        return by_format[format](self._teams(made, raw), self.given, self._teams(as_divided(self.answer), raw))

    @cached_property
    def whole(self) -> WholeAnswer:
        """The answer of now in whole tasks."""
        return whole_answer(self.answer, self._labelling(self.answer.instance), self.integral, self.clock.left)

    @cached_property
    def _owed(self) -> WholeAnswer:
        """The answer as if everybody had more work than fits."""
        full, policy = self.full_demand, self.answer.policy
        if full is None and np.isinf(self.answer.instance.task_limits).all():
            return self.whole
        if not hasattr(policy, "allocate"):
            fix = "give an answer at full demand, with caps=True"
            raise InvalidBlock(
                f"the policy {policy} is known as text only, so that nobody's entitlement is known; {fix}"
            )
        full = self.answer.instance.full_demand() if full is None else full
        answer = policy.allocate(full, **accepted(policy, time_limit=self.clock.left))
        made = whole_answer(answer, self._labelling(full), self.integral, self.clock.left)
        note = "what teams are owed: the fair answer as if everybody had more work than fits, whoever asks for what now"
        return WholeAnswer(answer, made.servers, made.placement, (note, *made.notes))

    def _labelling(self, instance: Instance) -> Labelling:
        if self.by is None:
            return Labelling(instance.users, np.arange(instance.n_users))
        return instance.teams.labelling(self.by)

    def _teams(self, whole: WholeAnswer, queues: Iterable[str]) -> Teams:
        labelling = self._labelling(whole.answer.instance)
        with_users = [name for t, name in enumerate(labelling.names) if (labelling.of_user == t).any()]
        known = with_users if self.chosen is None else list(dict.fromkeys([*with_users, *queues]))
        names = _chosen("team", self.chosen, known)
        kept = _chosen("resource", self.resources, whole.servers.resources)
        return Teams(whole, self.by, labelling, tuple(names), tuple(kept), every=self.chosen is None)


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
