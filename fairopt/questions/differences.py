"""What differs between two answers, and because of what: by answers to instances that change from one to the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.errors import FairoptError, Infeasible, InvalidBlock, InvalidInstance, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.limits import Limit, masks_of
from fairopt.policy import accepted, is_mechanism, label
from fairopt.questions.what_if import WhatIf, by_name
from fairopt.runtime.arrays import Float
from fairopt.runtime.hostlists import names_of
from fairopt.runtime.lazy import later
from fairopt.runtime.progress import tell, within

if TYPE_CHECKING:
    import pandas as pd

EQUAL = "nothing changed: the answers are equal"


@dataclass(frozen=True, eq=False, repr=False)
class Diff:
    """What changed between two answers, and because of what; made by `diff`.

    Attributes
    ----------
    whole : WhatIf
        The two answers, ``before`` and ``after``.
    steps : dict of WhatIf by name
        "jobs" (users, their tasks and where these run), "servers" (and limits on them), "weights" (with guarantees and
        other limits) and "policy", as far as they changed. Each starts from the answer in which the one before ends.

    Examples
    --------
    >>> import fairopt as fo
    >>> old = fo.Instance([[1], [1]], [12], users=["a", "b"], resources=["cpu"])
    >>> new = old.replace(capacities=[20], weights={"b": 3})
    >>> found = fo.questions.diff(fo.DRF().allocate(old), fo.DRF().allocate(new))
    >>> for sentence in found.sentences:
    ...     print(sentence)
    12 tasks before, 20 after
    b gains 9 tasks (6 to 15); a loses 1 task (6 to 5)
    because of servers (other capacities: in all cpu 20 instead of 12): a gains 4 tasks (6 to 10); b gains 4 tasks ...
    because of weights (weight of b 3 instead of 1): b gains 5 tasks (10 to 15); a loses 5 tasks (10 to 5)
    """

    whole: WhatIf
    steps: Mapping[str, WhatIf]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Numbers of tasks, who gains and loses, and the same because of each step."""
        if not self.steps:
            return (EQUAL,)
        why = []
        for name, step in self.steps.items():
            changes = f" ({'; '.join(step.changes)})" if step.changes else ""
            why.append(f"because of {name}{changes}: {step.sentences[1]}")
        return (*self.whole.sentences[:2], *why)

    @property
    def answers(self) -> dict[str, Allocation]:
        """The old answer, and that after each step; the last is the new one."""
        return {"old": self.whole.before} | {f"after {name}": step.after for name, step in self.steps.items()}

    def by_step(self, by: str | None = None, alone: bool = False) -> dict[str, Float]:
        """What each step adds, in the rows and columns of ``whole.gains(by)``; together it is ``after - before`` there.

        Parameters
        ----------
        by : str, optional
            A label of teams. Default: users.
        alone : bool, default False
            Each user without a team has a row.

        Returns
        -------
        dict of ndarray by step
            Tasks in the first column, then units of each resource of both answers.
        """
        whole, out = self.whole.gains(by, alone), {}
        for name, step in self.steps.items():
            gains = step.gains(by, alone)
            columns = [0, *(1 + gains.resources.index(r) for r in whole.resources)]
            out[name] = by_name(whole.names, gains.names, (gains.after - gains.before)[:, columns])
        return out

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data for ``json.dumps``.

        Returns
        -------
        dict
            ``format``, ``policies`` and ``sentences``; ``changes`` by step, none if the answers are equal;
            ``certificates`` of all answers; ``users``, and ``teams`` by label: tasks and units before, by each step and
            after.
        """
        return later("fairopt.report.differences:described_diff")(self)

    def to_frame(self, by: str = "user") -> pd.DataFrame:
        """A pandas frame with a row per user, or per team under a label.

        Parameters
        ----------
        by : str, default "user"
            "user", or a label of teams.

        Returns
        -------
        pandas.DataFrame
            ``state``; tasks and units of each resource before, by each step, and after.

        Raises
        ------
        InvalidBlock
            If there is no such label.
        MissingExtra
            Without pandas.
        """
        return later("fairopt.report.differences:frame")(self, by)

    def __repr__(self) -> str:
        return f"<Diff of {label(self.whole.before.policy)}: {', '.join(self.steps) or 'nothing changed'}>"

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.differences:diff_page")(self)


def diff(old: Allocation, new: Allocation, *, time_limit: float | None = None) -> Diff:
    """What changed between two answers, and because of what.

    Between them stand answers, each certified, of the old policy to the new jobs on the old servers, and then on the
    new servers with the old weights, guarantees and limits. Steps without a change are left out, and one whose instance
    the policy has no answer for is joined with the next. What is only in one of the instances keeps its values there.
    New users run on old servers where they do on the new one of the same name or, without one, of the same size and
    type; on others wherever their tasks fit.

    Parameters
    ----------
    old, new : Allocation
        Two certified answers, such as of `Allocation.load`.
    time_limit : float, optional
        Seconds for each answer between them.

    Returns
    -------
    Diff

    Raises
    ------
    InvalidBlock
        If one is no certified answer, the two have no resource in common, or different units of one.
    FairoptError
        If there is no certified answer between them.

    Examples
    --------
    >>> import fairopt as fo
    >>> old = fo.Instance([[1, 2], [3, 1]], [9, 18], users=["a", "b"], task_limits=[2, 9])
    >>> found = fo.questions.diff(fo.DRF().allocate(old), fo.DRF().allocate(old.replace(task_limits=9)))
    >>> found, found.by_step()["jobs"][:, 0].round(2)
    (<Diff of DRF: jobs>, array([ 2.5 , -0.83]))
    """
    for name, one in (("old", old), ("new", new)):
        _check(name, one)
    was, now, whole = old.instance, new.instance, WhatIf(old, new, all_members=True)
    whole.gains()  # raises without a common resource
    _check_units(was, now)
    changed_how = repr(old.policy) != repr(new.policy) or old.certificate.whole != new.certificate.whole
    rows = np.arange(now.n_servers)
    points = {"jobs": _with_jobs(was, now), "servers": _with_old_weights(now, was, now, rows), "weights": now}
    before, steps, names, there = old, dict[str, WhatIf](), list[str](), was
    how = "rounded" if old.certificate.method == "rounding" else old.certificate.whole
    options = {"time_limit": time_limit, "integral": how}
    for k, (name, instance) in enumerate(points.items()):
        if _alike(there, instance):
            continue
        there, names = instance, [*names, name]
        if _alike(there, now) and not changed_how:
            break
        tell(f"after {name}", k, len(points))
        try:
            with within(f"after {name}"):
                answer = old.policy.allocate(instance, **accepted(old.policy, **options))
        except (Infeasible, OutOfDomain, InvalidInstance):  # its change is one with the next
            continue
        except FairoptError as error:
            error.add_note(f"this is the answer of the old policy after the changes of {' and '.join(names)}")
            raise
        steps[" and ".join(names)] = WhatIf(before, answer, all_members=True)
        before, names = answer, []
    last = WhatIf(before, new, all_members=True)
    if changed_how or names or last.gains().difference[:, 0].any():
        steps[" and ".join([*names, *["policy"] * changed_how]) or "another optimum"] = last
    return Diff(whole, steps)


def _check(name: str, answer: Allocation) -> None:
    """Refuse what is no certified answer of a policy."""
    if not isinstance(answer, Allocation):
        raise InvalidBlock(f"{name} is {type(answer).__name__}; give an Allocation, such as Allocation.load(path)")
    if not (answer.certificate.ok and is_mechanism(answer.policy)):
        note = answer.certificate.note or str(answer.certificate)
        raise InvalidBlock(
            f"the {name} answer is not certified ({note}); solve it again, or give its policy: --policy, or "
            "Allocation.load(path, policy)"
        )


def _check_units(was: Instance, now: Instance) -> None:
    """Refuse a resource that is in different units."""
    units, others = (dict(zip(of.resources, of.units or (), strict=False)) for of in (was, now))
    for resource, unit in units.items():
        if others.get(resource, unit) != unit:
            raise InvalidBlock(
                f"{resource} is in {unit!r} in one answer, in {others[resource]!r} in the other; convert it"
            )


def _alike(one: Instance, other: Instance) -> bool:
    """Whether policies read the same of two instances."""
    return one.replace(held=None) == other.replace(held=None)


# -- instances between the two ----------------------------------------------------------------------------------------


def _with_jobs(was: Instance, now: Instance) -> Instance:
    """The new users on the old servers, with old weights, guarantees and limits; those who can run nowhere there are
    left out.
    """
    at = _rows(was, now)
    unknown = at < 0
    of_new = [was.resources.index(r) if r in was.resources else -1 for r in now.resources]
    of_old = np.column_stack([was.capacities, np.zeros(was.n_servers)])[:, of_new]
    capacities = np.where(np.array(of_new) < 0, np.where(unknown[:, None], 0.0, now.capacities[at]), of_old)
    demands = now.demands if now.demands.ndim == 2 else now.demands[:, at]
    if demands.ndim == 3:  # where a server is unknown, as on the first that may be used
        demands[:, unknown] = now.demands[np.arange(now.n_users), now.eligible.argmax(axis=1)][:, None]
    each = demands if demands.ndim == 3 else demands[:, None]
    known = {user: j for j, user in enumerate(was.users)}
    old_rows = np.array([known.get(user, -1) for user in now.users], dtype=np.intp)
    ran = np.vstack([was.eligible, np.zeros((1, was.n_servers), dtype=np.bool_)])[old_rows]
    there = np.where((old_rows >= 0)[:, None], ran, (each <= capacities).all(axis=2))
    lacking = unknown | ((now.capacities[at] == 0) & (each > 0)).any(axis=2)  # who is not eligible there for that
    eligible = np.where(lacking, there, now.eligible[:, at])
    rates = None if now.rates is None else np.where(unknown, now.rates.max(axis=1, keepdims=True), now.rates[:, at])
    runs = (eligible & ((capacities > 0) | (each == 0)).all(axis=2)).any(axis=1)
    held = now.held if was.servers == now.servers else now.held_tasks if demands.ndim == 2 else None
    made = now.select_users(np.flatnonzero(runs)).replace(
        demands=demands[runs],
        capacities=capacities,
        eligible=eligible[runs],
        rates=None if rates is None else rates[runs],
        held=None if held is None else held[runs],
        counts=was.counts,
        servers=was.servers,
        server_types=was.server_types,
        limits=(),
    )
    return _with_old_weights(made, was, now, at)


def _with_old_weights(made: Instance, was: Instance, now: Instance, at: NDArray[np.intp]) -> Instance:
    """An instance with the weights, guarantees and limits of the old one, and for users and teams that it has not
    with those of the new one, whose servers ``at`` are those of the instance.
    """
    values: dict[str, Any] = {}
    for name, own in (("weights", "own_weights"), ("guarantees", "guarantees")):
        of_users = [dict(zip(of.users, getattr(of, own).tolist(), strict=True)) for of in (now, was)]
        by_user = of_users[0] | of_users[1]
        given = {user: by_user[user] for user in made.users}
        for team in made.teams.names:
            of_teams = getattr(was if team in was.teams.names else now, f"team_{name}")
            if team in of_teams:
                value = of_teams[team]
                given[team] = value if name == "weights" else {r: u for r, u in value.items() if r in made.resources}
        values[name] = given
    new, known = {one.name: one for one in now.limits}, {*made.users, *made.teams.names}
    limits = {one.name: one for one in was.limits}
    if was.servers != made.servers:  # those on some servers change with these
        placed = {one.name for of in (was, now) for one in of.limits if masks_of([one])}
        limits = {name: one for name, one in limits.items() if name not in placed}
        limits |= {name: one for name, one in new.items() if name in placed}
    values["limits"] = [
        replace(one, of=of)
        for one in limits.values()
        if one.resource in made.resources
        and (of := tuple((who, where) for who, where in _counted(one, new.get(one.name), at) if who in known))
    ]
    return Instance(**{**made._arguments(), **values})


def _counted(limit: Limit, new: Limit | None, at: NDArray[np.intp]) -> Iterable[tuple[str, tuple[bool, ...] | None]]:
    """Whose use counts and where: as in the new limit of this name, on servers that are gone as in the old one."""
    if new is None:
        return limit.of
    before = np.any(masks_of([limit]) or [(True,)], axis=0)
    return (
        (who, None if where is None else tuple(np.where(at < 0, before, np.array(where)[at]).tolist()))
        for who, where in new.of
    )


def _rows(was: Instance, now: Instance) -> NDArray[np.intp]:
    """For each old row of servers the new one with most of its names or, without such, of the same size and type; else
    -1.
    """
    both = [r for r in was.resources if r in now.resources]

    def sizes(of: Instance) -> list[tuple[Any, ...]]:
        types = of.server_types or [None] * of.n_servers
        return [*zip(types, *(of.capacities[:, of.resources.index(r)].tolist() for r in both), strict=True)]

    named = {name: s for s, row in enumerate(now.servers) for name in names_of(row) or [row]}
    of_size = {size: s for s, size in reversed([*enumerate(sizes(now))])}
    out = []
    for row, size in zip(was.servers, sizes(was), strict=True):
        classes = Counter(named[name] for name in names_of(row) or [row] if name in named)
        out.append(classes.most_common(1)[0][0] if classes else of_size.get(size, -1))
    return np.array(out, dtype=np.intp)
