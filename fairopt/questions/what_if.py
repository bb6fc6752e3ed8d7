"""The answers of a policy before and after a change of the instance, and who gains and loses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, part_of_capacity, units_of
from fairopt.blocks.base import brief
from fairopt.blocks.shares import DominantShare
from fairopt.errors import FairoptError, InvalidBlock
from fairopt.instance import Instance
from fairopt.policies.registry import named_policy
from fairopt.policy import accepted, is_mechanism, label
from fairopt.questions.by_team import team_sums, teams_shown
from fairopt.questions.changed import changed, described
from fairopt.questions.held import apart, most_used
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shorter, tasks_in_words
from fairopt.runtime.lazy import later
from fairopt.runtime.progress import tell, within
from fairopt.runtime.tolerances import NOISE, SAME_TASKS

if TYPE_CHECKING:
    import pandas as pd

GAINS, LOSES, EVEN, LEFT_OUT, NEW = "gains", "loses", "even", "left out", "new"
NAMED = 2  # users or teams on each side in a sentence


@dataclass(frozen=True, eq=False)
class Gains:
    """What each user or team has before and after.

    ``before`` and ``after`` have a row for each of ``names``: the number of tasks, then units of each of the
    ``resources`` that both instances have. ``shares`` are dominant shares before and after. ``states`` are "gains",
    "loses", "even", "left out" or "new": of users by tasks; of a team by those of its members or, where some gain and
    some lose, by units of its ``judged`` resource, which is the ``scarcest`` unless the team uses none of it. The row
    of a team counts only members that it has before and after, if there are any.
    """

    names: tuple[str, ...]
    before: Float
    after: Float
    shares: Float
    states: tuple[str, ...]
    resources: tuple[str, ...]
    capacities: Float
    scarcest: int

    @cached_property
    def difference(self) -> Float:
        """What is gained, negative if it is lost; 0 within rounding."""
        return apart(self.before, self.after, self.capacities)

    @cached_property
    def judged(self) -> NDArray[np.intp]:
        """The scarcest resource or, where none of it is used, the one with the largest difference."""
        uses = (self.before + self.after)[:, 1 + self.scarcest] > 0
        return np.where(uses, self.scarcest, np.abs(self.of_capacity).argmax(axis=1))

    @cached_property
    def of_capacity(self) -> Float:
        """Differences in units as fractions of the capacities after the change; without capacity they are 0."""
        return self.difference[:, 1:] / np.where(self.capacities > 0, self.capacities, np.inf)

    @property
    def largest_first(self) -> list[int]:
        """Rows from the largest difference in the judged resource down."""
        judged = np.abs(self.of_capacity)[np.arange(len(self.names)), self.judged]
        return np.lexsort((-np.abs(self.difference[:, 0]), -judged)).tolist()

    def rows(self) -> dict[str, dict[str, Any]]:
        """Plain data by name."""
        keys, parts = ("before", "after", "difference"), (self.before, self.after, self.difference)
        out, numbers = {}, np.stack(parts, axis=2).tolist()
        for name, state, shares, rows in zip(self.names, self.states, self.shares.tolist(), numbers, strict=True):
            tasks, *units = [dict(zip(keys, row, strict=True)) for row in rows]
            out[name] = {
                "state": state,
                "tasks": tasks,
                "units": dict(zip(self.resources, units, strict=True)),
                "dominant_share": dict(zip(keys, shares, strict=False)),
            }
        return out


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """The certified answers of a policy before and after a change; made by `what_if`.

    Attributes
    ----------
    before, after : Allocation
        The two answers, each with its instance and certificate.
    all_members : bool, default False
        Whether the row of a team counts all its members before and all after, not only those that it has both times.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8], [8, 5]], [200, 200], users=["batch", "web"], resources=["cpu", "memory"])
    >>> found = fo.what_if("drf", cluster, weights={"web": 2})
    >>> found.before.tasks.round(3), found.after.tasks.round(3)
    (array([ 2.5, 12.5]), array([ 1.667, 16.667]))
    >>> found.changes
    ('weight of web 2 instead of 1',)
    >>> print(found.sentences[1])
    web gains 4.167 tasks (12.5 to 16.67); batch loses 0.8333 tasks (2.5 to 1.667)
    """

    before: Allocation
    after: Allocation
    all_members: bool = False

    @cached_property
    def changes(self) -> tuple[str, ...]:
        """What differs between the two instances, in a few words each."""
        return described(self.before.instance, self.after.instance)

    def gains(self, by: str | None = None, alone: bool = False) -> Gains:
        """What each user, or each team under a label, has before and after.

        Parameters
        ----------
        by : str, optional
            A label of teams. Default: users.
        alone : bool, default False
            Each user without a team has a row.

        Returns
        -------
        Gains
            ``names``, ``before``, ``after``, ``difference``, ``shares`` and ``states``.
        """
        return self._of_users if by is None else _of_teams(self, by, alone)

    @cached_property
    def _of_users(self) -> Gains:
        return _of_users(self)

    @cached_property
    def shown(self) -> tuple[str, Gains]:
        """The innermost label with a team of several users, and its `gains`; without such teams "user", and theirs."""
        by = teams_shown(self.before.instance)
        by = by if by in self.after.instance.teams else None
        return by or "user", self.gains(by, alone=True)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The resources that are shared before and after."""
        return tuple(r for r in self.before.instance.resources if r in self.after.instance.resources)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Numbers of tasks, who gains and loses, and who pays for guarantees inside other teams; then `warnings`.

        Who gains and loses are the innermost teams, or users.
        """
        return (_tasks(self), _who(self), *_paid(self), *self.warnings)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about dominant shares that change only because a total capacity changed, not the number of tasks."""
        return tuple(_only_totals(self))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data for ``json.dumps``.

        Returns
        -------
        dict
            ``format``, ``policy``, ``blocks``, ``changes``, ``sentences``, ``warnings``, ``before`` and ``after`` (each
            ``tasks``, ``objective``, ``metrics``, ``capacities`` and ``certificate``), ``scarcest``, ``users`` and
            ``teams`` by label, ``units`` by resource or None, and ``notes``.
        """
        return later("fairopt.report.what_if:described_what_if")(self)

    def to_frame(self, by: str = "user") -> pd.DataFrame:
        """A pandas frame with a row per user, or per team under a label.

        Parameters
        ----------
        by : str, default "user"
            "user", or a label of teams.

        Returns
        -------
        pandas.DataFrame
            ``state``; tasks, units of each resource and the dominant share, each before and after, and differences.

        Raises
        ------
        InvalidBlock
            If there is no such label.
        MissingExtra
            Without pandas.
        """
        return later("fairopt.report.what_if:frame")(self, by)

    def plot(self, kind: str = "gains", *, ax: Any = None) -> Any:
        """Draw what each team or user gains and loses; needs the extra ``plots``.

        Parameters
        ----------
        kind : {"gains"}
            The only picture.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        return later("fairopt.plots.gains:gains")(self, kind, ax)

    def __repr__(self) -> str:
        return f"<WhatIf of {label(self.before.policy)}: {'; '.join(self.changes)}>"

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.what_if:what_if_page")(self)


def what_if(
    policy: Any,
    instance: Instance,
    *,
    add_servers: Mapping[str, int] | None = None,
    drop_resources: str | Iterable[str] = (),
    without: str | Iterable[str] = (),
    method: str = "auto",
    solver: str | None = None,
    solver_options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
    integral: bool | Literal["rounded"] = False,
    **changes: Any,
) -> WhatIf:
    """Allocate an instance before and after a change, and compare the two answers.

    Parameters
    ----------
    policy : Policy, mechanism or str
        A string is read by `named_policy`.
    instance : Instance
        Users and servers before the change.
    add_servers : dict of int by server, optional
        How many servers more, such as ``{"a100-00": 4}`` for four more like ``a100-00``; one of the names of a row of
        identical servers is enough.
    drop_resources : str or sequence of str, default ()
        Resources that are not shared. Tasks that need them still run only where they are.
    without : str or sequence of str, default ()
        Users or teams to leave out.
    method, solver, solver_options, time_limit, verbose, integral
        Passed to both calls of ``allocate``, see `Policy.allocate`. Defaults are not passed, since a mechanism may not
        take them. ``time_limit`` is per call.
    **changes
        Arguments of `Instance`, as in `Instance.replace`: a dict, such as ``weights={"nlp": 2}``, changes only those it
        names.

    Returns
    -------
    WhatIf

    Raises
    ------
    InvalidInstance
        If a server, resource, user or team is unknown, or the changed instance is invalid.
    InvalidBlock
        If nothing changes.
    FairoptError
        If there is no certified answer, such as `Infeasible` for guarantees that do not fit. A note on the error says
        whether it is of the instance before or after the change.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance(
    ...     [[4, 1], [1, 0]], [[60, 8], [60, 8], [40, 0]], users=["train", "parse"], resources=["cpu", "gpu"],
    ...     servers=["a100-1", "a100-2", "cpu-1"],
    ... ).merged()
    >>> found = fo.what_if(fo.DRF(), cluster, add_servers={"a100-2": 2}, without=["parse"])
    >>> found.changes
    ('2 more servers like a100-[1-2]', 'without parse')
    >>> found.before.tasks.round(3), found.after.tasks.round(3), found.before.certificate.ok, found.after.certificate.ok
    (array([ 11.429, 114.286]), array([32.]), True, True)
    """
    if not isinstance(instance, Instance):
        raise InvalidBlock(f"what_if(..., {type(instance).__name__}): give an Instance second, or fairopt.read(path)")
    mechanism = named_policy(policy) if isinstance(policy, str) else policy
    if not is_mechanism(mechanism):
        raise InvalidBlock(f"{brief(mechanism)} has no allocate(instance); give a Policy, or a name such as 'drf'")
    if not (add_servers or drop_resources or without or changes):
        raise InvalidBlock(
            f"no change is given; give add_servers={{{instance.servers[0]!r}: 1}}, drop_resources=, without=, or "
            f"arguments of Instance, such as weights={{{(instance.users or ('web',))[0]!r}: 2}}"
        )
    after = changed(instance, add_servers, drop_resources, without, **changes)
    options = {
        "method": method,
        "solver": solver,
        "solver_options": solver_options,
        "time_limit": time_limit,
        "verbose": verbose,
        "integral": integral,
    }
    return answered(mechanism, instance, after, **options)


def answered(mechanism: Any, before: Instance, after: Instance, **options: Any) -> WhatIf:
    """The answers to two instances; `InvalidBlock` if they are equal."""
    differences = described(before, after)
    if not differences:
        raise InvalidBlock("nothing changes: the instance is so already; give another number, or another change")
    given, answers = accepted(mechanism, **options), []
    for k, (when, instance) in enumerate({"before the change": before, "after the change": after}.items()):
        tell(when, k, 2)
        try:
            with within(when):
                answers.append(mechanism.allocate(instance, **given))
        except FairoptError as error:
            error.add_note(f"this is {when} ({'; '.join(differences)})" if k else f"this is {when}")
            raise
    return WhatIf(*answers)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _numbers(allocation: Allocation, resources: Sequence[str]) -> Float:
    """Tasks of each user, and units of some resources."""
    columns = [allocation.instance.resource_index(r) for r in resources]
    return np.column_stack([allocation.tasks, units_of(allocation)[:, columns]])


def by_name(names: Sequence[str], mine: Sequence[str], values: Float) -> Float:
    """Values in the order of other names, 0 for those that have none."""
    at, columns = {name: k for k, name in enumerate(mine)}, values[:, None] if values.ndim == 1 else values
    rows = [at.get(name, len(mine)) for name in names]
    return np.vstack([columns, np.zeros((1, columns.shape[1]))])[rows].reshape(len(names), columns.shape[1])


def _of_users(found: WhatIf) -> Gains:
    """What users have before and after."""
    sides, resources = (found.before, found.after), found.resources
    if not resources:
        raise InvalidBlock("the two instances have no resource in common, so their answers cannot be compared")
    was, now = (a.instance.users for a in sides)
    names = tuple(dict.fromkeys([*was, *now]))
    before, after = (by_name(names, a.instance.users, _numbers(a, resources)) for a in sides)
    shares = np.hstack([by_name(names, a.instance.users, a.share(DominantShare())) for a in sides])
    capacities = _capacities(found.after, resources)
    signs = np.sign(apart(before, after, capacities)[:, 0]).tolist()
    old, new = set(was), set(now)
    states = tuple(
        LEFT_OUT if name not in new else NEW if name not in old else _state(sign)
        for name, sign in zip(names, signs, strict=True)
    )
    return Gains(names, before, after, shares, states, resources, capacities, most_used(sides, resources))


def _of_teams(found: WhatIf, by: str, alone: bool) -> Gains:
    """What the members of teams have together before and after; of a team in both, the members that are in both."""
    users, position = found.gains(), {name: j for j, name in enumerate(found.gains().names)}
    sides = (found.before, found.after)
    members = [
        {
            name: {position[a.instance.users[j]]: j for j in rows.tolist()}
            for name, rows in zip(of.names, of.members, strict=True)
        }
        for a, of in ((a, team_sums(a, by, alone)) for a in sides)
    ]
    names = tuple(dict.fromkeys([*members[0], *members[1]]))
    both = {
        name: [] if found.all_members else sorted({*members[0].get(name, ())} & {*members[1].get(name, ())})
        for name in names
    }
    parts, shares = [], []
    for a, of, part in zip(sides, members, (users.before, users.after), strict=True):
        rows = {name: both[name] or [*of.get(name, ())] for name in names}
        parts.append(np.array([part[rows[name]].sum(axis=0) for name in names]).reshape(len(names), part.shape[1]))
        units, capacities = units_of(a), a.instance.total_capacities
        sums = np.zeros((len(names), len(capacities)))
        for k, name in enumerate(names):
            sums[k] = units[[of[name][row] for row in rows[name]]].sum(axis=0)
        shares.append(part_of_capacity(sums, np.broadcast_to(capacities, sums.shape), 0.0).max(axis=1))
    before, after = parts
    made = Gains(names, before, after, np.column_stack(shares), (), users.resources, users.capacities, users.scarcest)
    states = []
    signs = np.sign(users.difference[:, 0])
    for k, (name, i) in enumerate(zip(names, made.judged.tolist(), strict=True)):
        was, now = (name in of for of in members)
        if not (was and now):
            states.append(NEW if now else LEFT_OUT)
            continue
        if not both[name]:  # others under the same name, or all that there are
            states.append(_state(np.sign(made.difference[k, 1 + i])))
            continue
        those = {*signs[both[name]].tolist()} - {0.0}
        mixed = len(those) > 1
        states.append(_state(np.sign(users.difference[both[name], 1 + i].sum()) if mixed else sum(those)))
    return replace(made, states=tuple(states))


def _capacities(allocation: Allocation, resources: Sequence[str]) -> Float:
    """Total capacities of some resources."""
    return allocation.instance.total_capacities[[allocation.instance.resource_index(r) for r in resources]]


def _state(sign: float) -> str:
    return GAINS if sign > 0 else LOSES if sign < 0 else EVEN


# -- sentences --------------------------------------------------------------------------------------------------------


def _tasks(found: WhatIf) -> str:
    """The number of tasks before and after."""
    was, now = (float(a.tasks.sum()) for a in (found.before, found.after))
    return f"{tasks_in_words(f'{was:,.6g}')} before, {now:,.6g} after"


def _who(found: WhatIf) -> str:
    """The largest gains and losses."""
    by, gains = found.shown
    sides = [[r for r in gains.largest_first if gains.states[r] == state] for state in (GAINS, LOSES)]
    if not any(sides):
        of_both = {GAINS, LOSES, EVEN}.issuperset(gains.states)
        return f"no {by} gains or loses" if of_both else f"no {by} that is in both gains or loses"
    parts = []
    for verb, rows in zip((GAINS, LOSES), sides, strict=True):
        some = [f"{shorter(gains.names[r])} {verb} {_amount(gains, r, by)}" for r in rows[:NAMED]]
        others = len(rows) - len(some)
        end = [f"{others:,} other{'s' * (others > 1)} {verb if others == 1 else verb[:-1]}"] if others else []
        parts += some + end
    even = gains.states.count(EVEN)
    return "; ".join([*parts, *([f"the other {even:,} neither gain nor lose"] if even > 1 else [])])


def _paid(found: WhatIf) -> list[str]:
    """Of guarantees of teams inside others that were raised: what their siblings pay, and what all others do."""
    was, now, out = found.before.instance, found.after.instance, list[str]()
    if was.users != now.users or was.resources != now.resources or not now.team_guarantees:
        return out
    gains = found.gains()
    change, before = gains.difference[:, 1:], gains.before[:, 1:]
    for team, amounts in now.team_guarantees.items():
        mine, above = now.teams.names[team], _team_above(now, team)
        for name, amount in amounts.items():
            i = now.resource_index(name)
            gained = float(change[mine, i].sum())
            if above is None or amount <= was.team_guarantees.get(team, {}).get(name, 0.0) or gained <= 0:
                continue
            inside = now.teams.names[above]
            beside, whole = -float(change[np.setdiff1d(inside, mine), i].sum()), float(before[inside, i].sum())
            others = max(0.0, gained - beside)
            others *= others > NOISE * float(now.total_capacities[i])
            text = (
                f"{gained:,.4g} {name} more for {team}: {above} without it pays {beside:,.4g}, all others {others:,.4g}"
            )
            if others:
                text += f"; a limit of {whole:,.4g} {name} on {above} makes it pay all"
            out.append(text)
    return out


def _team_above(instance: Instance, team: str) -> str | None:
    """The innermost team that a team is in, with members of its own."""
    mine = {*instance.teams.names[team].tolist()}
    outer = [(len(of), name) for name, of in instance.teams.names.items() if mine < {*of.tolist()}]
    return min(outer)[1] if outer else None


def _amount(gains: Gains, r: int, by: str) -> str:
    """A user's tasks, or a team's units of the resource by which it is judged."""
    k = 0 if by == "user" or not gains.difference[r, 1 + gains.judged[r]] else 1 + int(gains.judged[r])
    gained = f"{abs(gains.difference[r, k]):,.4g}"
    what = f"{gained} {gains.resources[k - 1]}" if k else tasks_in_words(gained)
    both = [[f"{float(x):,.{digits}g}" for x in (gains.before[r, k], gains.after[r, k])] for digits in (4, 7)]
    was, now = both[both[0][0] == both[0][1]]
    return f"{what} ({was} to {now})"


def _only_totals(found: WhatIf) -> list[str]:
    """See `WhatIf.warnings`."""
    capacities = np.column_stack([_capacities(a, found.resources) for a in (found.before, found.after)])
    out = []
    for way, moves, totals, other in ((-1, "fall", "grew", LOSES), (1, "rise", "shrank", GAINS)):
        moved = np.flatnonzero(way * (capacities[:, 1] - capacities[:, 0]) < -NOISE * capacities[:, 0]).tolist()
        for gains in (found.shown[1], found.gains()) if moved else ():
            change = gains.shares[:, 1] - gains.shares[:, 0]
            alike = [state not in (other, LEFT_OUT, NEW) for state in gains.states]
            rows = np.flatnonzero((way * change > SAME_TASKS * gains.shares.max(axis=1, initial=0.0)) & alike)
            if len(rows):
                of = ", ".join(found.resources[i] for i in moved[:3]) + (", ..." if len(moved) > 3 else "")
                some = _moved(gains, rows[np.argsort(-np.abs(change[rows]), kind="stable")].tolist())
                out.append(
                    f"dominant shares of {some} {moves} although their tasks do not, only because the total of {of} "
                    f"{totals}: compare tasks and units"
                )
                break
    return out


def _moved(gains: Gains, rows: Sequence[int]) -> str:
    """Names with their dominant shares before and after."""
    some = [
        f"{shorter(gains.names[r])} ({100 * gains.shares[r, 0]:.4g} to {100 * gains.shares[r, 1]:.4g} %)"
        for r in rows[:NAMED]
    ]
    others = len(rows) - len(some)
    return ", ".join(some) + (f" and {others:,} other{'s' * (others > 1)}" if others else "")
