"""Limits on what users and teams take of a resource together on some servers, as data of an instance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.instance.labels import whole_name
from fairopt.instance.validation import NOT_NEGATIVE
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.ranges import fix_or_unit, in_range


@dataclass(frozen=True)
class Limit:
    """The most of a resource that users take together.

    ``of`` holds, by name of a user or team, the server rows on which its use counts, None for all. An amount
    of 0 closes these to those who need the resource, unless the limit ``closes`` nothing. ``reasons`` say what it
    leaves idle: all that the servers have beyond an amount, for each; with an amount of -inf all the rest. Files do
    not hold them.
    """

    name: str
    resource: str
    amount: float
    of: tuple[tuple[str, tuple[bool, ...] | None], ...]
    closes: bool = True
    reasons: tuple[tuple[str, float], ...] = field(default=(), compare=False)

    def counts(self, members: Mapping[str, Any], n_users: int, n_servers: int) -> Bool:
        """The (user, server) pairs whose use counts, shape (n_users, n_servers)."""
        out = np.zeros((n_users, n_servers), dtype=np.bool_)
        users, counted = self.counted(members, n_servers)
        out[users] = counted
        return out

    def counted(self, members: Mapping[str, Any], n_servers: int) -> tuple[Indices, Bool]:
        """The users whose use counts, and on which servers, shape (len(users), n_servers).

        A network has a limit for each demand: a table of all users for each would be demands times paths.
        """
        given = [(np.atleast_1d(members[who]), where) for who, where in self.of if who in members]
        users = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *(rows for rows, _ in given)]))
        out = np.zeros((len(users), n_servers), dtype=np.bool_)
        for rows, where in given:
            out[np.searchsorted(users, rows)] |= True if where is None else np.array(where, dtype=np.bool_)
        return users, out

    def entry(self, servers: Sequence[str], known: Collection[str]) -> dict[str, Any]:
        """The form in which files hold it, with the users and teams that are known."""
        of = {
            who: None if where is None else [name for name, some in zip(servers, where, strict=True) if some]
            for who, where in self.of
            if who in known
        }
        return {"name": self.name, "resource": self.resource, "amount": self.amount, "of": of}


def masks_of(limits: Iterable[Limit]) -> list[tuple[bool, ...]]:
    """The masks of servers in limits, each object once."""
    return list({id(where): where for one in limits for _, where in one.of if where is not None}.values())


def limits_on(limits: Sequence[Limit], rows: Any) -> tuple[Limit, ...]:
    """Limits on some server rows."""
    new = {id(where): tuple(np.array(where)[rows].tolist()) for where in masks_of(limits)}
    return tuple(
        replace(one, of=tuple((who, None if where is None else new[id(where)]) for who, where in one.of))
        for one in limits
    )


def implied(limit: Limit, room: Float) -> bool:
    """Whether the servers of a limit, which have ``room`` (n_servers,) of its resource in all, have no more than it."""
    masks = [where for _, where in limit.of]
    on = slice(None) if None in masks else np.any(np.array(masks, dtype=np.bool_), axis=0)
    return fsum(room[on].tolist()) <= limit.amount


def limits_on_classes(limits: Sequence[Limit], classes: NDArray[np.int64], first: Any) -> tuple[Limit, ...]:
    """Limits on one row for each class of servers, without those of a part of a class: its capacities imply them."""
    split = {id(where) for where in masks_of(limits) if (np.array(where) != np.array(where)[first][classes]).any()}
    return limits_on([one for one in limits if not split & {id(where) for _, where in one.of}], first)


def limits_of(
    given: Iterable[Any], known: Sequence[str], resources: Sequence[str], servers: Sequence[str]
) -> tuple[Limit, ...]:
    """The limits given to an `Instance`, checked; ``known`` are the names of users and teams."""
    names, out, members = set[str](), list[Limit](), dict.fromkeys(known)  # a network has a limit for each demand
    for one in given:
        limit = one if isinstance(one, Limit) else _limit(one, members, resources, servers)
        if limit.name in names:
            raise InvalidInstance(f"two limits are named {limit.name!r}; rename one")
        names.add(limit.name)
        out.append(limit)
    if any(len(where) != len(servers) for where in masks_of(out)):
        raise InvalidInstance("the limits are of other servers; give limits by names of servers too, or limits=()")
    return tuple(out)


def _limit(given: Any, known: Collection[str], resources: Sequence[str], servers: Sequence[str]) -> Limit:
    """A limit given as a dict."""
    if not isinstance(given, Mapping) or not {"resource", "amount", "of"} <= given.keys():
        raise InvalidInstance(
            f"limits hold {given!r}; give dicts such as "
            '{"name": "a100 of vision", "resource": "gpu", "amount": 8, "of": {"vision": ["a100-1"]}}'
        )
    amount, of = given["amount"], given["of"]
    of = of if isinstance(of, Mapping) else dict.fromkeys(of)
    resource = whole_name(given["resource"], resources)
    if resource not in resources:
        raise InvalidInstance(f"a limit names an unknown resource {resource!r}; {nearest(str(resource), resources)}")
    if isinstance(amount, bool) or not isinstance(amount, (int, float, np.number)) or not in_range(amount):
        fix = fix_or_unit(amount, NOT_NEGATIVE, resource)
        raise InvalidInstance(f"the amount of a limit on {resource!r} is {amount!r}; {fix}")
    for who in of:
        if who not in known:
            raise InvalidInstance(f"a limit names an unknown user or team {who!r}; {nearest(str(who), known)}")
    name = given.get("name") or f"{resource} of {', '.join(of)}"
    rows = tuple((who, _rows(of[who], servers)) for who in of)
    reasons = tuple((str(why), float(beyond)) for why, beyond in given.get("reasons") or ())
    return Limit(str(name), resource, float(amount), rows, reasons=reasons)


def _rows(names: Any, servers: Sequence[str]) -> tuple[bool, ...] | None:
    """Servers by name, or as a mask, as a mask; None for all."""
    if names is None or (isinstance(names, tuple) and names and isinstance(names[0], bool)):
        return names
    position = {name: s for s, name in enumerate(servers)}
    out = np.zeros(len(servers), dtype=np.bool_)
    for name in names:
        if name not in position:
            raise InvalidInstance(f"a limit names an unknown server {name!r}; {nearest(str(name), servers)}")
        out[position[name]] = True
    return tuple(out.tolist())
