"""Teams: labels that users share, and values that are given by the name of a team."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.instance.labels import by_label
from fairopt.runtime.arrays import Float, Indices


class Labelling(NamedTuple):
    """The teams under one label: their names, and the team of each user, shape (n_users,), -1 for none."""

    names: tuple[str, ...]
    of_user: Indices

    @property
    def mixed(self) -> bool:
        """Whether some team has several members."""
        return bool((np.bincount(self.of_user[self.of_user >= 0]) > 1).any())


class Teams(Mapping[str, "tuple[str | None, ...]"]):
    """The labels of users: a mapping such as ``{"team": ("vision", "nlp", None)}``, one label or None per user.

    Labels stand from the innermost out: a team under one lies within a team under the next.
    """

    def __init__(self, labellings: Mapping[str, Labelling]) -> None:
        self._labellings = dict(labellings)

    @classmethod
    def of(cls, given: Any, users: Sequence[str], order: Sequence[str] | None = None) -> Teams:
        """The labels given to an `Instance`, checked: lists, or dicts by user; and their order, the innermost first."""
        if isinstance(given, Teams):
            return given._fitting(len(users))._in_order(order)
        if given is None:
            return cls({})._in_order(order)
        if not isinstance(given, Mapping):
            raise InvalidInstance(
                f'teams is {given!r}; give a dict of labels for each user, such as {{"team": ["vision", "nlp", None]}}'
            )
        made = cls({str(by): _labelling(str(by), by_label(labels), users) for by, labels in given.items()})
        made._refuse_ambiguous(users)
        return made._in_order(innermost_first(made) if order is None else order)

    def _in_order(self, order: Sequence[str] | None) -> Teams:
        """These labels in a given order, the innermost first; `InvalidInstance` if their nesting contradicts it."""
        if order is None:
            return self
        if isinstance(order, str) or sorted(order) != sorted(self):
            raise InvalidInstance(f"innermost_first is {order!r}; name each label of teams once: {list(self)}")
        made = Teams({by: self._labellings[by] for by in order})
        nested = innermost_first(made)
        if nested != tuple(order):
            raise InvalidInstance(
                f"innermost_first is {list(order)}, but teams of {nested[0]!r} lie within those of another label; give "
                f"{list(nested)}"
            )
        return made

    def _fitting(self, n: int) -> Teams:
        """These labels, if they are of so many users."""
        for by, labelling in self._labellings.items():
            if len(labelling.of_user) != n:
                raise InvalidInstance(f"teams[{by!r}] has {len(labelling.of_user)} labels for {n} users; give one each")
        return self

    def _refuse_ambiguous(self, users: Sequence[str]) -> None:
        """Refuse a name of two teams, or of a team and a user other than its only member."""
        position: dict[str, tuple[str, int]] = {}
        for by, labelling in self._labellings.items():
            for t, name in enumerate(labelling.names):
                other = position.setdefault(name, (by, t))
                if other[0] != by:
                    raise InvalidInstance(f"{name!r} is both a label of {other[0]!r} and of {by!r}; rename one")
        if not position:
            return
        for j, user in enumerate(users):
            if user not in position:
                continue
            by, t = position[user]
            if np.flatnonzero(self._labellings[by].of_user == t).tolist() != [j]:
                raise InvalidInstance(f"{user!r} is both a user and a label of {by!r}; rename one")

    # -- the mapping --------------------------------------------------------------------------------------------

    def __getitem__(self, by: str) -> tuple[str | None, ...]:
        names, of_user = self.labelling(by)
        named = np.array([*names, None], dtype=object)
        return tuple(named[of_user])

    def __contains__(self, by: object) -> bool:
        return by in self._labellings

    def __iter__(self) -> Iterator[str]:
        return iter(self._labellings)

    def __len__(self) -> int:
        return len(self._labellings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        same_order = not isinstance(other, Teams) or list(self) == list(other)
        return same_order and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def __repr__(self) -> str:
        return f"Teams({dict(self)!r})"

    # -- teams --------------------------------------------------------------------------------------------------

    def labelling(self, by: str) -> Labelling:
        """The teams under a label; `InvalidInstance` if there is no such label."""
        if by not in self._labellings:
            known = nearest(by, self._labellings) if self._labellings else "give Instance(..., teams={...})"
            raise InvalidInstance(f"users have no label {by!r}; {known}")
        return self._labellings[by]

    @cached_property
    def names(self) -> dict[str, Indices]:
        """The members of each team, by its name; teams under inner labels come first."""
        out = {}
        for labelling in self._labellings.values():
            order = np.argsort(labelling.of_user, kind="stable")
            ends = np.searchsorted(labelling.of_user[order], np.arange(len(labelling.names) + 1))
            for t, name in enumerate(labelling.names):
                if ends[t] < ends[t + 1]:
                    out[name] = order[ends[t] : ends[t + 1]]
        return out

    @property
    def mixed(self) -> bool:
        """Whether some team has several members."""
        return any(labelling.mixed for labelling in self._labellings.values())

    @property
    def outermost_first(self) -> tuple[str, ...]:
        """The labels from the outermost in."""
        return tuple(reversed(self._labellings))

    def take(self, rows: Any) -> Teams:
        """The labels of some users; teams may be left without members."""
        return Teams({by: Labelling(names, of_user[rows]) for by, (names, of_user) in self._labellings.items()})

    def in_order_of_users(self) -> Teams:
        """The same labels with the names of teams in the order of their first users, as in a file; empty teams last."""
        out = {}
        for by, (names, of_user) in self._labellings.items():
            present, first = np.unique(of_user, return_index=True)
            order = [t for t in present[np.argsort(first)].tolist() if t >= 0]
            order += sorted({*range(len(names))} - {*order})
            place = np.empty(len(names) + 1, dtype=np.intp)
            place[[*order, -1]] = [*range(len(names)), -1]  # users without a team stay so
            out[by] = Labelling(tuple(names[t] for t in order), place[of_user])
        return Teams(out)

    def split(
        self, given: Mapping[Any, Any], users: Mapping[str, int], name: str
    ) -> tuple[dict[Any, Any], dict[str, Any]]:
        """Values by name as values by user and values by team; `InvalidInstance` for an unknown name."""
        teams = self.names if any(key not in users for key in given) else {}
        of_users, of_teams = {}, {}
        for key, value in given.items():
            if key in users:
                of_users[key] = value
            elif key in teams:
                of_teams[key] = value
            else:
                kind = "user or team" if self else "user"
                raise InvalidInstance(f"{name} names an unknown {kind} {key!r}; {nearest(key, [*users, *teams])}")
        return of_users, of_teams


def _labelling(by: str, given: Any, users: Sequence[str]) -> Labelling:
    """One label per user as indices of teams."""
    if isinstance(given, Mapping):
        position = set(users)
        for user in given:
            if user not in position:
                raise InvalidInstance(f"teams[{by!r}] names an unknown user {user!r}; {nearest(str(user), users)}")
        given = [given.get(user) for user in users]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInstance(f"teams[{by!r}] is {given!r}; give a list of {len(users)} labels, None for no team")
    labels = list(given)
    if len(labels) != len(users):
        raise InvalidInstance(f"teams[{by!r}] has {len(labels)} labels for {len(users)} users; give one each, or None")
    position_of: dict[str, int] = {}
    index = np.full(len(users), -1, dtype=np.intp)
    for j, label in enumerate(labels):
        if label is None or label != label:  # NaN in frames
            continue
        if not isinstance(label, str) or not label:
            raise InvalidInstance(f"teams[{by!r}] of user {users[j]!r} is {label!r}; give a name, or None")
        index[j] = position_of.setdefault(str(label), len(position_of))
    return Labelling(tuple(position_of), index)


def innermost_first(labels: Mapping[str, Sequence[str | None]]) -> tuple[str, ...]:
    """The names of labels: one whose teams lie within those of another before it, else in their order."""
    left, out = list(labels), list[str]()
    inside = {by: {one for one in left if one != by and _within(labels[one], labels[by])} for by in left}
    while left:
        by = next((by for by in left if not inside[by].intersection(left)), left[0])  # they may nest in a circle
        out.append(by)
        left.remove(by)
    return tuple(out)


def _within(inner: Sequence[str | None], outer: Sequence[str | None]) -> bool:
    """Whether each team under a label lies within one of another label, for users with both, and some are smaller."""
    of_inner, of_outer = Counter(inner), Counter(outer)
    pairs = [(a, b, number) for (a, b), number in Counter(zip(inner, outer, strict=True)).items() if None not in (a, b)]
    whole = all(number == of_inner[a] for a, _, number in pairs)
    return whole and any(of_inner[a] < of_outer[b] for a, b, _ in pairs)


def sums_by(group: Indices, values: Float, n_groups: int) -> Float:
    """Sums of values of shape (n,) or (n, k) by the group of each, shape (n_groups,) or (n_groups, k)."""
    if values.ndim == 2:
        return np.column_stack([sums_by(group, column, n_groups) for column in values.T])
    return np.bincount(group, values, n_groups).astype(float, copy=False)  # of no values it is of integers


def split_weights(weights: Float, team_weights: Mapping[str, float], members: Mapping[str, Indices]) -> Float:
    """Users' weights, with each team's weight divided among its members in proportion to theirs.

    Teams within teams come first, and of teams with the same members those that ``members`` has first, so that the
    members of a team always have its weight together.
    """
    if not team_weights:
        return weights
    out = np.array(weights, dtype=float)
    for name in sorted((team for team in members if team in team_weights), key=lambda team: len(members[team])):
        mine = members[name]
        out[mine] *= team_weights[name] / out[mine].sum()
    return out
