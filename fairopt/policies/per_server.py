"""Any policy on separate servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.base import ByUser, blocks_within, brief, is_ours
from fairopt.blocks.bundle_model import BundlePoint, cut_at_limits
from fairopt.blocks.model import Point
from fairopt.blocks.shares import Share
from fairopt.certificate import Certificate, Try
from fairopt.errors import FairoptError, InvalidBlock, InvalidInstance, NotCertified, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.policies.mechanism import BySolvers
from fairopt.policy import accepted, is_mechanism, label
from fairopt.proof import gate
from fairopt.proof.gate import MeasuredPart
from fairopt.runtime.arrays import Bool, Float, Ints
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import by_itself, tell, within
from fairopt.scale.many import allocate_together
from fairopt.solve.form.many_instances import Batch


class _Answers(NamedTuple):
    """Tasks, (n_users, n_classes), of one server of each class, with certificates and attempts."""

    tasks: Float
    parts: Sequence[Certificate | MeasuredPart]
    tried: tuple[Try, ...]
    failed: int | None  # the first class without a certified answer
    bundles: Float | None = None  # (n_users, n_classes, n_resources), if the policy decides them


@dataclass(frozen=True)
class NaivePerServer(BySolvers):
    """A policy applied to each server separately; tasks are added up.

    Each server is divided among its eligible users, by their weights, without task limits, in shares of its own
    capacity. Tasks above a user's limit are then removed, in proportion on all servers, and the capacity stays free.
    Users with a task limit of 0 do not take part. Weights in constraints (`SharingIncentive`) are relative to all
    users.

    Identical servers are solved once, and all of them in a batch unless options of solvers are given. An error of the
    policy names the server. The objective is the policy's at total tasks (the number of tasks for other mechanisms),
    the gap is the largest of all servers, and violations are measured on the whole. There are no prices.

    Parameters
    ----------
    policy : Policy or other mechanism
        The policy of each server; `InvalidBlock` for anything else.

    Examples
    --------
    The example of Hamzeh et al. (2021):

    >>> import fairopt as fo
    >>> cluster = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
    >>> fo.NaivePerServer(fo.DRF()).allocate(cluster).tasks.round(3)
    array([5.222, 3.389])
    """

    policy: Any

    def __post_init__(self) -> None:
        if not is_mechanism(self.policy):
            raise InvalidBlock(f"NaivePerServer({brief(self.policy)}): give a policy, such as DRF()")

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return f"{label(self.policy)} per server"

    def _solved(self, instance: Instance, clock: Clock, **options: Any) -> Allocation:
        """The answers of all servers together."""
        given = accepted(self.policy, **options)
        # user-defined blocks may distinguish servers of equal numbers
        alike = all(map(is_ours, blocks_within(tuple(vars(self.policy).values())))) and is_ours(self.policy)
        classes = instance.derived.server_classes if alike else np.arange(instance.n_servers)
        first = np.unique(classes, return_index=True)[1]
        takes_part = (instance.eligible[:, first] & (instance.task_limits > 0)[:, None]).T
        answers = None if given else self._in_step(instance, first, takes_part, clock)
        if answers is None:
            answers = self._one_by_one(instance, first, takes_part, clock, given)
        tasks = cut_at_limits(instance, answers.tasks[:, classes] * instance.counts)
        bundles = answers.bundles
        if bundles is not None:
            bundles = bundles[:, classes] * instance.counts[:, None]
        value = self._value(instance, tasks, bundles)
        parts = answers.parts if takes_part.any() else ()
        allocation = gate.of_parts(self, instance, tasks, bundles, value, parts, clock.begun, answers.tried)
        certificate = allocation.certificate
        if not certificate.ok:
            fix = f"give it more time_limit: {clock}" if clock.late else "see .best for the best found"
            where = "" if answers.failed is None else f" of server {instance.servers[first[answers.failed]]!r}"
            raise NotCertified(
                f"no answer{where} could be certified: gap {certificate.gap:.2g} (tolerance 1e-6), violation "
                f"{certificate.violation:.2g} (1e-9). Fix: {fix}",
                best=allocation,
                tried=certificate.tried,
            )
        return allocation

    def _in_step(self, instance: Instance, first: Ints, takes_part: Bool, clock: Clock) -> _Answers | None:
        """All servers in a batch; None for policies that a batch does not take."""
        objective = getattr(self.policy, "objective", None)
        shares = () if objective is None else objective.share_blocks()
        if not shares or not all(map(is_ours, shares)) or any(map(_by_label, shares)):
            return None  # a batch has no labels

        demands = instance.demands
        if demands.ndim == 3:
            demands = demands[:, first].swapaxes(0, 1)
        else:
            demands = np.broadcast_to(demands, (len(first), *demands.shape))
        limits = np.where(takes_part, np.inf, 0.0)
        try:
            with within("classes of servers"):
                batch = Batch.of(demands, instance.capacities[first], instance.weights, limits)
                answers = allocate_together(self.policy, batch, clock)
        except (InvalidInstance, OutOfDomain):
            return None  # one by one, errors name the user and the server
        if answers is None:
            return None
        failed = np.flatnonzero(~answers.ok)
        part = MeasuredPart(float(answers.gap.max()), float(answers.violation.max()), answers.method)
        return _Answers(answers.tasks.T, [part], (), int(failed[0]) if len(failed) else None)

    def _one_by_one(
        self, instance: Instance, first: Ints, takes_part: Bool, clock: Clock, given: dict[str, Any]
    ) -> _Answers:
        """One server after the other."""
        tasks = np.zeros((instance.n_users, len(first)))
        bundles: Float | None = None
        proofs: list[Certificate] = []
        tried: list[Try] = []
        for c, s in enumerate(first):
            users = np.flatnonzero(takes_part[c])
            if len(users) == 0:
                continue
            if clock.left is not None:
                given |= accepted(self.policy, time_limit=clock.left)
            failed = None
            tell("classes of servers", c, len(first))
            try:
                with by_itself():
                    answer = self.policy.allocate(_alone(instance, int(s), users), **given)
            except NotCertified as error:
                failed, answer = c, error.best
                if answer is None or answer.certificate.ok:  # nothing found, or refused for what a gap does not tell
                    raise _on_server(error, instance, int(s)) from None
            except FairoptError as error:
                raise _on_server(error, instance, int(s)) from None
            tasks[users, c] = answer.tasks
            if answer.given_bundles is not None:
                bundles = np.zeros((*tasks.shape, instance.n_resources)) if bundles is None else bundles
                bundles[users, c] = answer.bundles[:, 0]
            proofs.append(answer.certificate)
            tried += [_on(attempt, instance.servers[s]) for attempt in answer.certificate.tried]
            if failed is not None:
                break
        return _Answers(tasks, proofs, tuple(tried), failed if proofs else None, bundles)

    def _value(self, instance: Instance, tasks: Float, bundles: Float | None) -> float:
        """The policy's objective at all tasks."""
        part = instance.task_limits > 0
        objective = getattr(self.policy, "objective", None)
        if objective is None or not part.any():
            return float(tasks.sum())
        some = instance if part.all() else taking_part(instance, part)
        point = Point(some, tasks[part]) if bundles is None else BundlePoint(some, bundles[part], tasks[part])
        with np.errstate(divide="ignore"):
            return float(objective.value(point))


def _by_label(share: Share) -> bool:
    """Whether a share has parameters by users' labels."""
    return any(isinstance(value, ByUser) for value in vars(share).values())


def _alone(instance: Instance, s: int, users: Ints) -> Instance:
    """One server of a row with chosen users and their teams, without limits; parameters by user still apply."""
    demands = instance.demands[users] if instance.demands.ndim == 2 else instance.demands[users, s]
    alone = Instance(
        demands,
        instance.capacities[s],
        weights=instance.own_weights[users],
        resources=instance.resources,
        servers=[instance.servers[s]],
        teams=instance.teams.take(users),
    )
    alone.__dict__["taken_from"] = instance, users
    alone.__dict__.update(team_weights=instance.team_weights, weights=instance.weights[users])
    return alone


def _on(attempt: Try, server: str) -> Try:
    """The same attempt, with the server in its message."""
    where = f"on server {server!r}"
    return replace(attempt, message=f"{attempt.message}, {where}" if attempt.message else where)


def _on_server(error: FairoptError, instance: Instance, s: int) -> FairoptError:
    """The same error, with the server in its message."""
    error.args = (f"on server {instance.servers[s]!r} alone: {error}", *error.args[1:])
    return error
