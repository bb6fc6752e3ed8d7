"""Strategies of small instances."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

Size = int | tuple[int, int]
Number = int | float

MOST_WEIGHT = 3
MOST_COUNT = 3
MOST_TEAMS = 3


def instances(
    n_users: Size = (1, 3),
    n_resources: Size = (1, 3),
    n_servers: Size = 1,
    *,
    max_value: int = 8,
    zeros: bool = True,
    weights: bool = False,
    limits: bool = False,
    placement: bool = False,
    by_server: bool = False,
    counts: bool = False,
    fractions: bool = False,
    rates: bool = False,
    guarantees: bool = False,
    teams: bool = False,
) -> st.SearchStrategy[Instance]:
    """Small instances, which shrink to few users, few resources and small numbers.

    Parameters
    ----------
    n_users, n_resources, n_servers : int or (int, int)
        An exact number, or the smallest and the largest.
    max_value : int, default 8
        The largest demand and the largest capacity.
    zeros : bool, default True
        Whether demands may be zero.
    weights, limits, placement, by_server, counts, rates : bool, default False
        Whether to draw weights (1 to 3), task limits (quarters from 0), ineligible servers, demands by server, counts
        of servers (1 to 3), and rates (0 to ``max_value``).
    fractions : bool, default False
        Whether demands and capacities may be quarters.
    guarantees : bool, default False
        Whether to draw guarantees of users: quarters of an equal part of a server, so that they fit together.
    teams : bool, default False
        Whether to draw a ``team`` of each user, and an ``org`` or none of each team; with ``weights`` also weights of
        some teams.

    Raises
    ------
    InvalidInstance
        If a size or ``max_value`` is invalid.

    Examples
    --------
    >>> from hypothesis import find
    >>> from fairopt.testing import instances
    >>> crowded = find(instances(n_users=2, n_resources=1), lambda i: i.demands.sum() > i.capacities.sum())
    >>> crowded.demands.tolist(), crowded.capacities.tolist()
    ([[1.0], [1.0]], [[1.0]])
    """
    users = _size("n_users", n_users, 0)
    resources, servers = _size("n_resources", n_resources, 1), _size("n_servers", n_servers, 1)
    if isinstance(max_value, bool) or not isinstance(max_value, int) or max_value < 1:
        raise InvalidInstance(f"max_value is {max_value!r}; give a whole number >= 1")
    columns, rows = resources[1], servers[1]
    needs = _exactly(columns, _numbers(0 if zeros else 1, max_value, fractions))
    user = st.tuples(  # drawn together for each user, so that shrinking can leave a user out
        _exactly(rows if by_server else 1, needs),
        st.integers(1, MOST_WEIGHT) if weights else st.just(1),
        st.none() | _numbers(0, 2, True) if limits else st.none(),
        _exactly(rows, st.booleans()) if placement else st.just([False] * rows),
        _exactly(rows, st.integers(0, max_value)) if rates else st.none(),
        st.integers(0, 4) if guarantees else st.just(0),
        st.integers(0, MOST_TEAMS - 1) if teams else st.none(),
    )
    outer = st.tuples(st.sampled_from([None, "org1", "org2"]), st.integers(1, MOST_WEIGHT) if weights else st.just(1))
    return _instances(
        st.integers(*resources),
        st.lists(_exactly(columns, _numbers(1, max_value, fractions)), min_size=servers[0], max_size=rows),
        st.lists(user, min_size=users[0], max_size=users[1]),
        st.booleans() if by_server else st.just(False),
        _exactly(rows, st.integers(1, MOST_COUNT)) if counts else st.just([1] * rows),
        _exactly(MOST_TEAMS, outer) if teams else st.just([]),
    )


@st.composite
def _instances(
    draw: st.DrawFn,
    columns: st.SearchStrategy[int],
    servers: st.SearchStrategy[list[Any]],
    users: st.SearchStrategy[list[Any]],
    differ: st.SearchStrategy[bool],
    copies: st.SearchStrategy[list[int]],
    outer: st.SearchStrategy[list[tuple[str | None, int]]],
) -> Instance:
    """Instances; rows are drawn in full and cut to size, so that other draws stay when a size shrinks."""
    m, capacities, drawn, by_server = draw(columns), draw(servers), draw(users), draw(differ)
    rows = len(capacities)
    capacities, counts = [row[:m] for row in capacities], draw(copies)[:rows]
    demands = [[row[:m] if any(row[:m]) else [1] + [0] * (m - 1) for row in needs[:rows]] for needs, *_ in drawn]
    weights = [w for _, w, *_ in drawn]
    limits = [limit for _, _, limit, *_ in drawn]
    parts, numbers = [part for *_, part, _ in drawn], [team for *_, team in drawn]
    banned = [places[:rows] if not all(places[:rows]) else [False] * rows for _, _, _, places, *_ in drawn]
    given: dict[str, Any] = {
        "demands": demands if by_server and drawn else [row for row, *_ in demands],
        "capacities": capacities if rows > 1 or by_server else capacities[0],
    }
    if any(w != 1 for w in weights):
        given["weights"] = weights
    if any(limit is not None for limit in limits):
        given["task_limits"] = limits
    if any(map(any, banned)):
        given["eligible"] = [[not b for b in places] for places in banned]
    if drawn and drawn[0][4] is not None:
        given["rates"] = [
            speeds[:rows] if any(r for r, b in zip(speeds, places, strict=False) if not b) else [1] * rows
            for (*_, speeds, _, _), places in zip(drawn, banned, strict=True)
        ]
    if max(counts) > 1:
        given["counts"] = counts
    if any(parts):
        alone = Instance(**given).tasks_alone.max(axis=1)
        given["guarantees"] = [part / 4 * tasks / len(parts) for part, tasks in zip(parts, alone.tolist(), strict=True)]
    orgs = draw(outer)
    if drawn and orgs:
        given["teams"] = {"team": [f"team{t + 1}" for t in numbers], "org": [orgs[t][0] for t in numbers]}
        of_teams = {f"team{t + 1}": orgs[t][1] for t in sorted({*numbers}) if orgs[t][1] != 1}
        if of_teams:
            given["weights"] = {**{f"user{j + 1}": w for j, w in enumerate(weights)}, **of_teams}
    # `builds` has Hypothesis print the call instead of the instance's repr, which shows no numbers
    made: Instance = draw(st.builds(Instance, **{name: st.just(value) for name, value in given.items()}))
    return made


def _exactly(size: int, element: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(element, min_size=size, max_size=size)


def _size(name: str, given: Size, least: int) -> tuple[int, int]:
    """The smallest and the largest size, checked."""
    pair = given if isinstance(given, tuple) else (given, given)
    all_whole = all(isinstance(k, int) and not isinstance(k, bool) for k in pair)
    if len(pair) != 2 or not all_whole or not least <= pair[0] <= pair[1]:
        raise InvalidInstance(f"{name} is {given!r}; give a whole number >= {least}, or a pair (least, most) of them")
    return pair[0], pair[1]


def _numbers(low: int, high: int, fractions: bool) -> st.SearchStrategy[Number]:
    """Integers, to which counterexamples shrink, or quarters."""
    integers = st.integers(low, high)
    return integers | st.integers(min(4 * low, 1), 4 * high).map(lambda k: whole(k / 4)) if fractions else integers


def whole(value: float) -> Number:
    """A number, as an integer if it is one."""
    return int(value) if float(value).is_integer() else float(value)
