"""An instance with more servers, fewer resources or users, or other numbers, and sentences on what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance

MOST_SERVERS = 2**53  # whole numbers up to here are exact as floats
NAMED = 3  # users, teams or servers in a sentence
OTHERS = {
    "demands": "other demands per task",
    "eligible": "users run on other servers",
    "rates": "other rates",
    "teams": "other teams",
    "held_tasks": "other tasks that run now, which no policy reads",
    "servers": "other names of servers",
    "server_types": "other types of servers",
    "units": "other units",
}


def changed(
    instance: Instance,
    add_servers: Mapping[str, float] | None = None,
    drop_resources: str | Iterable[str] = (),
    without: str | Iterable[str] = (),
    **changes: Any,
) -> Instance:
    """The instance with changes of `Instance.replace`, then more servers, and without some resources and users.

    Users remain ineligible where a dropped resource that they need is missing.
    """
    dropped, names = _names("drop_resources", drop_resources), _names("without", without)
    made = instance.replace(**changes) if changes else instance
    if add_servers is not None:
        made = _with_servers(made, add_servers)
    made = _without_users(made, names) if names else made  # first, since they may need only the dropped resources
    return _without_resources(made, dropped) if dropped else made


def _names(argument: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """One name or several."""
    names = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise InvalidBlock(f"{argument} is {given!r}, and {name!r} is no name; give a name or a list of names")
    return names


def _with_servers(instance: Instance, added: Mapping[str, float]) -> Instance:
    """More servers in rows given by any name of theirs."""
    if not isinstance(added, Mapping):
        raise InvalidBlock(f"add_servers is {added!r}; give a dict such as {{{instance.servers[0]!r}: 4}}")
    counts = np.array(instance.counts)
    for server, number in added.items():
        whole = isinstance(number, (int, float, np.number)) and float(number).is_integer() and number >= 1
        if not whole or isinstance(number, bool) or number > MOST_SERVERS:
            fix = "at least 1" if not whole or isinstance(number, bool) else "at most 2**53"
            raise InvalidBlock(f"add_servers[{server!r}] is {number!r}; give a whole number of {fix}")
        counts[instance.server_index(server)] += int(number)
    return instance.replace(counts=counts)


def _without_users(instance: Instance, names: Sequence[str]) -> Instance:
    """The instance without users given by name, or by that of a team of theirs."""
    teams, users = instance.teams.names, {user: j for j, user in enumerate(instance.users)}
    kept = np.ones(instance.n_users, dtype=bool)
    for name in names:
        if name not in users and name not in teams:
            kind = "user or team" if instance.teams else "user"
            raise InvalidInstance(f"without names an unknown {kind} {name!r}; {nearest(name, [*users, *teams])}")
        kept[users[name] if name in users else teams[name]] = False
    if not kept.any():
        raise InvalidInstance(f"without {', '.join(map(repr, names))} no user is left; keep at least one")
    return instance.select_users(np.flatnonzero(kept))


def _without_resources(instance: Instance, names: Sequence[str]) -> Instance:
    """The instance without some resources, with the same eligibility."""
    dropped = {instance.resource_index(name) for name in names}
    kept = [i for i in range(instance.n_resources) if i not in dropped]
    if not kept:
        raise InvalidInstance(f"without {', '.join(map(repr, names))} no resource is left; keep at least one")
    demands = instance.demands[..., kept]
    nothing = np.flatnonzero(~demands.reshape(instance.n_users, -1).any(axis=1))
    if len(nothing):
        user = instance.users[int(nothing[0])]
        raise InvalidInstance(
            f"user {user!r} needs nothing but {', '.join(sorted(instance.resources[i] for i in dropped))}; leave it "
            "out too, by without"
        )
    made = instance.replace(
        demands=demands,
        capacities=instance.capacities[:, kept],
        resources=[instance.resources[i] for i in kept],
        units=None if instance.units is None else [instance.units[i] for i in kept],
        guarantees=instance.guarantees,
    )
    floors = {
        team: {resource: units for resource, units in of.items() if resource in made.resources}
        for team, of in instance.team_guarantees.items()
    }
    made.derived.give_teams(instance.team_weights, {team: of for team, of in floors.items() if of})
    return made


# -- sentences --------------------------------------------------------------------------------------------------------


def described(before: Instance, after: Instance) -> tuple[str, ...]:
    """What differs between two instances, in a few words each."""
    return (*_servers(before, after), *_resources(before, after), *_numbers(before, after), *_others(before, after))


def _servers(before: Instance, after: Instance) -> list[str]:
    """Numbers of servers, or the total capacities if rows are others."""
    if before.servers != after.servers:
        return _totals(before, after, "other servers")
    more = after.counts - before.counts
    out = [
        f"{abs(k):,} {'more' if k > 0 else 'fewer'} server{'s' * (abs(k) != 1)} like {before.servers[s]}"
        for s, k in enumerate(more.tolist())
        if k
    ]
    both = [r for r in before.resources if r in after.resources]
    here, there = (of.capacities[:, [of.resources.index(r) for r in both]] for of in (before, after))
    return _some(out) + (_totals(before, after, "other capacities") if (here != there).any() else [])


def _totals(before: Instance, after: Instance, what: str) -> list[str]:
    """Total capacities that differ."""
    now = dict(zip(after.resources, after.total_capacities.tolist(), strict=True))
    totals = zip(before.resources, before.total_capacities.tolist(), strict=True)
    parts = [f"{r} {now[r]:,.6g} instead of {total:,.6g}" for r, total in totals if now.get(r, total) != total]
    return [f"{what}: in all {', '.join(parts)}"] if parts else [what]


def _resources(before: Instance, after: Instance) -> list[str]:
    """Resources and users that are in one of the two only."""
    gone = [r for r in before.resources if r not in after.resources]
    new = [r for r in after.resources if r not in before.resources]
    out = [f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not shared"] if gone else []
    out += [f"{', '.join(new)} {'is' if len(new) == 1 else 'are'} shared too"] if new else []
    return out + _users(before, after, "without") + _users(after, before, "with")


def _users(there: Instance, elsewhere: Instance, word: str) -> list[str]:
    """Teams and users that are in the first instance only."""
    rest, out = set(elsewhere.users), list[str]()
    left = dict.fromkeys(user for user in there.users if user not in rest)
    for by in there.teams.outermost_first if left else ():
        for name in there.teams.labelling(by).names:
            members = [there.users[j] for j in there.teams.names.get(name, ())]
            whole = name not in elsewhere.teams.names and all(user in left for user in members)
            if members and [name] != members and whole:
                out.append(f"{word} {by} {name}" + f" ({len(members)} users)" * (len(members) > 1))
                for user in members:
                    del left[user]
    return out + _some([f"{word} {user}" for user in left])


def _numbers(before: Instance, after: Instance) -> list[str]:
    """Weights, task limits and guarantees of those who are in both."""
    out: list[str] = []
    for what, values in (("weight", "own_weights"), ("task limit", "task_limits"), ("guarantee", "guarantees")):
        was = dict(zip(before.users, before.derived.given(values).tolist(), strict=True))
        now = dict(zip(after.users, after.derived.given(values).tolist(), strict=True))
        of_teams = {"weight": "team_weights", "guarantee": "team_guarantees"}.get(what)
        if of_teams:
            given = [getattr(of, of_teams) for of in (before, after)]
            for name in dict.fromkeys([*given[0], *given[1]]):
                if name in before.teams.names and name in after.teams.names:
                    alone = len(before.teams.names[name]) == 1  # the weight of its member, by default
                    none: Any = {} if what == "guarantee" else 1.0 if alone else np.inf
                    was[name], now[name] = (of.get(name, none) for of in given)
                    if what == "guarantee":  # those of dropped resources are gone with them
                        was[name] = {r: units for r, units in was[name].items() if r in after.resources}
        both_have = (name for name in now if name in was and now[name] != was[name])
        out += _some([f"{what} of {name} {_value(now[name])} instead of {_value(was[name])}" for name in both_have])
    return out + _limits(before, after)


def _limits(before: Instance, after: Instance) -> list[str]:
    """Limits on what users take together."""
    was, now = ({one.name: one for one in of.limits} for of in (before, after))
    out = []
    for name in dict.fromkeys([*was, *now]):
        amounts = [_value(of[name].amount if name in of else np.inf) for of in (now, was)]
        if amounts[0] != amounts[1]:
            out.append(f"limit on {name} {amounts[0]} instead of {amounts[1]}")
        elif before.servers == after.servers and was[name] != now[name]:
            out.append(f"limit on {name} of others")
    return _some(out)


def _others(before: Instance, after: Instance) -> list[str]:
    """Other arguments, unless the numbers of users or resources explain it."""
    if before.users != after.users:
        both = [user for user in before.users if user in after.derived.position]
        before, after = (of.select_users([of.derived.position[user] for user in both]) for of in (before, after))
    same = [*OTHERS]
    if before.resources != after.resources:
        same = [name for name in same if name not in ("demands", "units")]
    if before.servers != after.servers:
        same = [name for name in same if name not in ("eligible", "rates", "held_tasks", "servers", "server_types")]
    return [OTHERS[name] for name in same if not _equal(before.derived.given(name), after.derived.given(name))]


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays too."""
    arrays = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
    return np.array_equal(one, other) if arrays else bool(one == other)


def _value(value: Any) -> str:
    """A number, or units by resource."""
    if isinstance(value, Mapping):
        return " and ".join(f"{units:,.6g} {resource}" for resource, units in value.items()) or "nothing"
    return "none" if value == np.inf else f"{value:,.6g}"


def _some(parts: Sequence[str]) -> list[str]:
    """At most `NAMED` of some parts."""
    others = len(parts) - NAMED
    return [*parts[:NAMED], *([f"{others:,} more like these"] if others > 0 else [])]
