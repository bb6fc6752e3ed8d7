"""Limits on what users and teams take of a resource together on some servers, as data of an instance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.labels import whole_name

__all__ = ["Limit", "limits_of", "restricted"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Limit:
    """The most of a resource that users take together.

    ``of`` holds, by name of a user or team, the server rows on which its use counts, None for all.
    """

    name: str
    resource: str
    amount: float
    of: tuple[tuple[str, tuple[bool, ...] | None], ...]

    def on(self, rows: Any) -> Limit:
        """The limit on some server rows."""
        return Limit(
            self.name,
            self.resource,
            self.amount,
            tuple((who, None if where is None else tuple(np.array(where)[rows].tolist())) for who, where in self.of),
        )

    def counts(self, members: Mapping[str, Any], n_users: int, n_servers: int) -> Mask:
        """The (user, server) pairs whose use counts, shape (n_users, n_servers)."""
        out = np.zeros((n_users, n_servers), dtype=np.bool_)
        for who, where in self.of:
            rows = members.get(who)
            if rows is not None:
                out[rows] |= True if where is None else np.array(where, dtype=np.bool_)
        return out

    def names(self, known: Collection[str]) -> list[str]:
        """Whom of some users and teams it names."""
        return [who for who, _ in self.of if who in known]

    def entry(self, servers: Sequence[str], known: Collection[str]) -> dict[str, Any]:
        """The form in which files hold it."""
        of = {
            who: None if where is None else [name for name, some in zip(servers, where, strict=True) if some]
            for who, where in self.of
            if who in known
        }
        return {"name": self.name, "resource": self.resource, "amount": self.amount, "of": of}


def limits_of(
    given: Iterable[Any] | None, known: Sequence[str], resources: Sequence[str], servers: Sequence[str]
) -> tuple[Limit, ...]:
    """The limits given to an `Instance`, checked; ``known`` are the names of users and teams."""
    out = tuple(_limit(one, known, resources, servers) for one in given or ())
    twice = [name for name in (one.name for one in out) if sum(one.name == name for one in out) > 1]
    if twice:
        raise InvalidInstance(f"two limits are named {twice[0]!r}; rename one")
    return out


def _limit(given: Any, known: Sequence[str], resources: Sequence[str], servers: Sequence[str]) -> Limit:
    if isinstance(given, Limit):
        if any(where is not None and len(where) != len(servers) for _, where in given.of):
            raise InvalidInstance(
                f"the limit {given.name!r} is of some of other servers; give limits=() or limits by names of servers too"
            )
        return given
    if not isinstance(given, Mapping) or not {"resource", "amount", "of"} <= given.keys():
        raise InvalidInstance(
            f"limits hold {given!r}; give dicts such as "
            '{"name": "a100 of vision", "resource": "gpu", "amount": 8, "of": {"vision": ["a100-1"]}}'
        )
    amount, of = given["amount"], given["of"]
    of = of if isinstance(of, Mapping) else dict.fromkeys(of)
    if isinstance(amount, bool) or not isinstance(amount, (int, float, np.number)) or not 0 < amount < np.inf:
        fix = "give a finite number above 0; to leave nothing, make users not eligible on the servers"
        raise InvalidInstance(f"the amount of a limit on {given['resource']!r} is {amount!r}; {fix}")
    for who in of:
        if who not in known:
            raise InvalidInstance(f"a limit names an unknown user or team {who!r}; {nearest(str(who), known)}")
    resource = whole_name(given["resource"], resources)
    if resource not in resources:
        raise InvalidInstance(f"a limit names an unknown resource {resource!r}; {nearest(str(resource), resources)}")
    name = given.get("name") or f"{resource} of {', '.join(of)}"
    return Limit(str(name), resource, float(amount), tuple((who, _rows(of[who], servers)) for who in of))


def _rows(names: Sequence[str] | None, servers: Sequence[str]) -> tuple[bool, ...] | None:
    """Servers by name as a mask, None for all."""
    if names is None:
        return None
    position = {name: s for s, name in enumerate(servers)}
    out = np.zeros(len(servers), dtype=np.bool_)
    for name in names:
        if name not in position:
            raise InvalidInstance(f"a limit names an unknown server {name!r}; {nearest(str(name), servers)}")
        out[position[name]] = True
    return tuple(out.tolist())


def restricted(limits: Iterable[Limit]) -> Iterator[tuple[bool, ...]]:
    """The masks of servers in limits, each once."""
    yield from dict.fromkeys(where for one in limits for _, where in one.of if where is not None)
