"""Constraints of a policy in rational numbers: bounds on tasks, usable capacities, rows, and levels of objectives.

The order of rows is that in which `fairopt verify` reads their multipliers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.base import as_given
from fairopt.blocks.constraints import (
    Constraint,
    MaxShare,
    MaxTasks,
    MinShare,
    MinTasks,
    Reserve,
    SharingIncentive,
)
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus
from fairopt.errors import OutOfDomain
from fairopt.exact.cluster import Cluster, Numbers, Row, Rows
from fairopt.exact.goals import Goal, is_linear, smallest
from fairopt.exact.rationals import Rational, as_rational, rational, total

Imposed = tuple[Rows, list[tuple[Goal, Rational]]]  # rows, and goals with their lower levels


def impose(cluster: Cluster, conditions: Sequence[Constraint]) -> Imposed:
    """Apply constraints: bounds and reserves change the cluster; rows and levels of objectives are returned."""
    rows, kept = Rows(), list[tuple[Goal, Rational]]()
    for condition in conditions:
        if isinstance(condition, AtLeast):
            found = _level(cluster, condition)
            if isinstance(found, list):
                rows += found
            else:
                kept.append(found)
        else:
            rows += _rows(cluster, condition)
    return rows, kept


def _rows(cluster: Cluster, condition: Constraint) -> Rows:
    """The rows of a constraint; bounds and reserves change the cluster."""
    if isinstance(condition, (MinTasks, MaxTasks)):
        most = isinstance(condition, MaxTasks)
        bounds = cluster.of_user(condition.tasks, type(condition).__name__, float("inf") if most else 0)
        for j in cluster.active:
            _bound(cluster, j, bounds[j], most)
    elif isinstance(condition, SharingIncentive):
        whole = as_rational(cluster.instance.in_fractions.total_weight)
        for j in cluster.active:
            alone = total(cluster.tasks_alone(j, s) or 0 for s in cluster.open[j])
            entitled, limit = cluster.weights[j] / whole * alone, cluster.limits[j]
            _bound(cluster, j, entitled if limit is None else min(entitled, limit), False)
    elif isinstance(condition, Reserve):
        i = cluster.instance.resource_index(condition.resource)
        cluster.usable[i] = min(cluster.usable[i], 1 - cluster.number(condition.fraction))
    elif isinstance(condition, (MinShare, MaxShare)):
        return _share_bounds(cluster, condition)
    elif (rows := condition._exact_rows(cluster)) is not None:
        return [Row(*row) for row in rows]
    else:
        raise OutOfDomain(f"the constraint {condition} is computed by code, in floats")
    return []


def _bound(cluster: Cluster, j: int, bound: Rational | None, most: bool) -> None:
    """Bound a user's tasks."""
    if bound is None:
        return
    if not most:
        cluster.low[j] = max(cluster.low[j], bound)
    elif cluster.high[j] is None or bound < cluster.high[j]:
        cluster.high[j] = bound


def _share_bounds(cluster: Cluster, condition: MinShare | MaxShare) -> Rows:
    """Bounds on shares: bounds on tasks if a task's share is the same on all servers, else rows.

    A bound that names a team is a row of the sum of its members' shares, after those of users.
    """
    share, most, level = condition.share, isinstance(condition, MaxShare), as_given(condition.level)
    name, of_teams = type(condition).__name__, dict[str, Any]()
    if not share._counts_teams:
        level, of_teams = cluster.instance.by_user_or_team(level, name)
        by_user = cluster.of_user(level, name, float("inf"))
    if share._is_plain:
        rows = bound_shares(cluster, share, by_user, most, name)
    else:
        numbers = Numbers(cluster, share)
        if share._counts_teams:
            names = share._names(cluster.instance)
            each = level if isinstance(level, Sequence) else [level] * len(names)
            given = level if isinstance(level, Mapping) else dict(zip(names, each, strict=True))
            levels = {
                t: None if given[t] == float("inf") else cluster.number(given[t]) for t in numbers.weights if t in given
            }
        else:
            levels = {str(cluster.users[j]): by_user[j] for j in cluster.active}
        rows = numbers.bounded(levels, most)
    for team, bound in of_teams.items():
        numbers = Numbers(cluster, share)
        mine = [j for j in cluster.members[team] if j in numbers.of_user]
        rows.append(numbers.bound(mine, [numbers.of_user[j] for j in mine], cluster.number(bound), most))
    return rows


def bound_shares(cluster: Cluster, share: Share, levels: Sequence[Rational | None], most: bool, name: str) -> Rows:
    """Bounds on the shares of users."""
    rows, alike = Rows(), cluster.same_on_servers(share)
    c, sign = cluster.between(share)[0 if most else 1], rational(1 if most else -1)
    for j in cluster.active:
        level, one = levels[j], c[j][cluster.open[j][0]]
        if level is None or (level == 0 and not most):
            continue
        if alike and one > 0:
            _bound(cluster, j, level / one, most)
        elif alike and not most:
            raise OutOfDomain(f"{name}: tasks of user {cluster.users[j]!r} have no such share")
        elif not alike and level == 0 and all(c[j][s] > 0 for s in cluster.open[j]):
            _bound(cluster, j, cluster.zero, True)
        elif not alike:
            row = {(j, s): sign * c[j][s] / (level or 1) for s in cluster.open[j]}
            rows.append(Row(row, sign if level else cluster.zero))
    return rows


def _level(cluster: Cluster, condition: AtLeast) -> Rows | tuple[Goal, Rational]:
    """A lower level of an objective: rows if it is a sum of shares or the smallest one, else a goal and its level."""
    objective, level = condition.objective, cluster.number(condition.level)
    if (found := smallest(objective)) is not None:
        factor, share = found
        least = level / factor if isinstance(share, Surplus) else max(level / factor, cluster.zero)
        if not share._is_plain:
            numbers = Numbers(cluster, share)
            return numbers.bounded({t: least * w for t, w in numbers.weights.items()}, False)
        if cluster.same_on_servers(share):
            return bound_shares(cluster, share, [least * w for w in cluster.weights], False, repr(condition))
    goal = Goal.of(cluster, objective)
    if not is_linear(objective):
        return goal, level
    return [Row({pair: -v for pair, v in goal.linear.items()}, goal.constant - level)]
