"""The tiers of a policy in rational numbers, one under what the others leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fairopt.blocks.algebra import Objective, tiers_of
from fairopt.blocks.objectives import Leximin, Total
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus
from fairopt.exact.cluster import Cluster, Number, Numbers, Row, Rows, Table, text
from fairopt.exact.conditions import impose
from fairopt.exact.goals import Goal, is_surplus, share_of, smallest, terms_of
from fairopt.exact.rationals import Rational, as_rational, rational

KeptGoal = tuple[Goal, Rational]  # a goal, and the level that it keeps


class Tier(NamedTuple):
    """A tier: the leximin of ``compared`` numbers, or else a goal, under rows and kept levels of other goals.

    Where nobody can rise above the base of a surplus the goal is a total that nobody changes, and the value 0.
    """

    rows: Rows
    kept: list[KeptGoal]
    compared: dict[str, Number] | None
    goal: Goal
    of_nobody: bool = False

    def value(self, tasks: Table) -> Rational:
        """The value of the goal at tasks, or the smallest number."""
        if self.of_nobody:
            return rational(0)
        if self.compared is None:
            return self.goal.at(tasks)
        return min((one.at(tasks) for one in self.compared.values()), default=rational(0))


Settle = Callable[[int, Share, Tier], set[str]]


def tiers(cluster: Cluster, policy: Any, settle: Settle, tasks: Callable[[], Table]) -> Iterator[Tier]:
    """The tiers of a policy; each leaves its rows for the next, at the ``tasks`` by then.

    ``settle`` gives those numbers of a tier's surplus that cannot rise above their base.
    """
    imposed, kept = impose(cluster, policy.constraints)
    rows = guaranteed(cluster) + limited(cluster) + imposed
    for k, objective in enumerate(tiers_of(policy.objective)):
        keep_bases(cluster, objective)
        for _, term in terms_of(objective):
            if is_surplus(term):
                share = share_of(term)
                tier = Tier(rows, kept, Numbers(cluster, share).exactly(True), Goal())
                cluster.stays.setdefault(text(share), set()).update(settle(k, share, tier))
        objective, of_nobody = of_those_who_rise(cluster, objective)
        compared, first = None, smallest(objective)
        if isinstance(objective, Leximin):
            compared, goal = Numbers(cluster, objective.share).exactly(True), Goal()
        else:
            goal = Goal.of(cluster, objective)
        yield Tier(rows, kept, compared, goal, of_nobody)
        point = tasks()
        if compared is not None:
            rows = rows + [kept_row(one, one.at(point)) for one in compared.values()]
        elif first is not None:
            compared = Numbers(cluster, first[1]).exactly(True)
            level = min((one.at(point) for one in compared.values()), default=rational(0))
            rows = rows + [kept_row(one, level) for one in compared.values()]
        elif not goal.ranked:
            rows = [*rows, kept_row(whole := Number(goal.linear, rational(0)), whole.at(point))]
        else:
            kept = [*kept, (goal, goal.at(point))]


def keep_bases(cluster: Cluster, objective: Objective) -> None:
    """Make the bases of an objective's surpluses lower bounds on tasks."""
    for _, term in objective.summands():
        if isinstance(share := share_of(term), Surplus):
            for j, x in Numbers(cluster, share).kept.items():
                cluster.low[j] = max(cluster.low[j], x)


def of_those_who_rise(cluster: Cluster, objective: Objective) -> tuple[Objective, bool]:
    """A term of which nobody can rise above the base is the total of shares that nobody changes; and whether it is."""
    ((_, term), *others) = objective.summands()
    share = share_of(term)
    if others or not is_surplus(term) or not isinstance(share, Surplus) or Numbers(cluster, share).exactly(True):
        return objective, False
    return Total(share.share), True


def guaranteed(cluster: Cluster) -> Rows:
    """The floors of teams as rows."""
    rows = Rows()
    active = {*cluster.active}
    for team, floor in cluster.floors.items():
        members = sorted({*cluster.members[team]} & active)
        for i, v in floor.items():
            held = {(j, s): -d for j in members for s in cluster.open[j] if (d := cluster.demands[j][s][i])}
            rows.append(Row(held, -v))
    return rows


def limited(cluster: Cluster) -> Rows:
    """The limits of the instance on what users take together, as rows."""
    instance, rows = cluster.instance, Rows()
    members = {user: j for j, user in enumerate(cluster.users)} | dict(instance.teams.names)
    for limit in instance.limits:
        i, counts = instance.resource_index(limit.resource), limit.counts(members, cluster.n, cluster.servers)
        pairs = [(j, s) for j in cluster.active for s in cluster.open[j] if counts[j, s]]
        if use := {(j, s): d for j, s in pairs if (d := cluster.demands[j][s][i])}:
            rows.append(Row(use, as_rational(instance.in_fractions.parameter(limit.amount))))
    return rows


def at_base(cluster: Cluster, objective: Objective, tasks: Table) -> dict[str, dict[str, Number]]:
    """The numbers of each surplus that an objective ranks, if some of them are at their base."""
    shares = {text(share_of(term)): share_of(term) for _, term in objective.summands() if is_surplus(term)}
    ranked = {name: Numbers(cluster, share).exactly(True) for name, share in shares.items()}
    return {name: of for name, of in ranked.items() if not all(one.at(tasks) for one in of.values())}


def kept_row(one: Number, level: Rational) -> Row:
    """A row that keeps a number at a level or above it."""
    return Row({pair: -v for pair, v in one.row.items()}, -(level + one.base))
