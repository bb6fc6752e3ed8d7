"""Who stays at the base of a surplus, and leaves the objective.

Whom capacities hold at its base has nothing to compare: the Nash product (Nash 1950) and leximin are over those who can
rise. At prices pi of numbers z, ``sum_t pi_t z_t`` has a bound V (weak duality), so that z_t is at most ``V / pi_t``.

In fractions V is 0 for those who stay. In floats it is what rounding leaves of capacities, and whoever needs little of
these could rise by much: where guarantees left 5e-10 of a resource of which the second user needs 1e-12 a task, tasks
of (1, 999.999999) were once certified, and leximin gives (1, 5e-10). So the rise is compared with what the user could
have alone, at 1e-12, or at 1e-9 where it is also below 1e-6 of the level of everyone who rises. Between these nothing
is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .constraints import infeasible
from .instance import Cluster, check_keys
from .numbers import BLOCK_VIOLATION, GAP, ROUNDING, VIOLATION, ZERO, Rows, number, numbers
from .outcome import CannotCheck, Fault, short
from .policy import COMPOSED, Block, is_surplus
from .sums import Evidence, Goal, bound, value_of
from .teams import TeamNumbers


@contextmanager
def bases_kept(cluster: Cluster, objective: Block) -> Iterator[None]:
    """Inside the context the bases of an objective's surpluses are lower bounds on tasks."""
    before = list(cluster.low)
    keep_bases(cluster, objective)
    try:
        yield
    finally:
        cluster.low = before


def keep_bases(cluster: Cluster, objective: Block) -> None:
    """Make the bases of an objective's surpluses lower bounds on tasks."""
    for _, term in objective.terms:
        kept = TeamNumbers(cluster, term.share).kept if term.share.name in COMPOSED else {}
        for j, x in kept.items():
            if cluster.total(j) < x * (1 - BLOCK_VIOLATION):
                raise Fault(f"user {cluster.users[j]!r} is below its base")
            cluster.low[j] = max(cluster.low[j], min(x, cluster.total(j)))


def leave_at_base(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> None:
    """Let those leave an objective's surpluses whom its evidence proves to stay at their base (`Cluster.stays`)."""
    given = dict(entry.get("at_base") or {})
    shares = {term.share.text: term.share for _, term in objective.terms if is_surplus(term)}
    if given.keys() - shares.keys():
        raise Fault(f"at_base names {short(min(given.keys() - shares.keys()))}, of which the objective has no surplus")
    with bases_kept(cluster, objective):
        found = {text: who_stays(cluster, shares[text], rows, one) for text, one in given.items()}
    # those of earlier tiers stay in later ones too, and the levels of earlier tiers are of those who rise in them
    cluster.stays |= {text: some | cluster.stays.get(text, set()) for text, some in found.items()}


def who_stays(cluster: Cluster, share: Block, rows: Rows, given: Mapping[str, Any]) -> set[str]:
    """The users or teams that cannot rise above their base, but for rounding, by prices of what they have above it.

    At prices pi of these numbers, prices of capacities and multipliers of rows, ``sum_t pi_t z_t`` has a bound, which
    over ``pi_t`` bounds each of them. It is rounding beside what they could have alone, or tiny beside that and beside
    the level of all who rise.
    """
    check_keys(given, ("of_numbers", "prices", "rows"), "at_base")
    compared, goal = TeamNumbers(cluster, share), Goal(cluster)
    prices = {str(t): number(v, "of_numbers", 0) for t, v in given["of_numbers"].items()}
    if prices.keys() - compared.weights.keys() or not all(prices.values()):
        raise Fault("at_base has a price of 0, or of an unknown user or team")
    evidence = Evidence(cluster, given, rows)
    goal.constant = goal.constant.plus(-compared.add_slopes(goal.slopes, prices, compared.above))
    # the bound of the sum is one of each number, as all are at least 0
    top = max(bound(goal, evidence, evidence.right_hand_side(cluster.usable_units())), ZERO)
    best = {j: max(compared.above[j][s] for s in cluster.open[j]) * cluster.most_tasks(j) for j in compared.of_user}
    alone, w = {t: v + compared.base[t].high for t, v in compared.sums(best, above=True).items()}, compared.weights
    above = [z / w[t] for t, z in compared.values().items() if t not in prices and z > VIOLATION * alone[t]]
    for t, price in prices.items():
        rise = top / price
        tiny = rise <= VIOLATION * alone[t] and all(rise / w[t] <= GAP * z for z in above)
        if not tiny and rise > ROUNDING * len(prices) * alone[t]:  # rounding of all of them is in one bound
            raise Fault(f"at_base: {t!r} could rise above its base by {float(rise):.2g} of {share.text}")
    return {*prices}


def refuse_at_base(cluster: Cluster, share: Block, rows: Rows, rising: Mapping[str, Any]) -> None:
    """`CannotCheck` if a number is at its base, unless tasks are given at which all such are above it.

    A number that could not rise would have left the objective (`who_stays`).
    """
    compared = TeamNumbers(cluster, share, levelled=True)
    most = compared.sums({j: max(compared.above[j]) * cluster.most_tasks(j) for j in compared.of_user})
    at_base = [t for t, z in compared.values().items() if z <= VIOLATION * most[t]]
    if not at_base:
        return
    stays = f"{at_base[0]!r} is at its base, and nothing proves that it cannot rise above it"
    if share.text not in rising:
        raise CannotCheck(stays)
    with cluster.at(numbers(rising[share.text], "rising", cluster.n, cluster.servers)):
        if faults := infeasible(cluster, rows):
            raise Fault(f"the tasks at which {at_base[0]!r} is above its base: {faults[0]}")
        if any(value_of(cluster, other) < level - BLOCK_VIOLATION * unit for other, level, unit in cluster.kept_levels):
            raise Fault(f"the tasks at which {at_base[0]!r} is above its base do not keep an earlier level")
        above = compared.values()
    for t in at_base:
        if above[t] <= GAP * most[t]:
            raise Fault(f"{t!r} is at its base, and the tasks given do not raise it above it")


def of_those_who_rise(cluster: Cluster, objective: Block) -> Block:
    """An objective of which nobody can rise above the base is the total of shares that nobody changes."""
    for _, term in objective.terms:
        if term.share.name == "Surplus" and not TeamNumbers(cluster, term.share, levelled=True).weights:
            if len(objective.terms) > 1:
                raise CannotCheck(f"nobody can rise above the base of {term.share.text}")
            return Block("Total", {"share": term.share.share}, objective.text)
    return objective
