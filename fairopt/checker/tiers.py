"""Which evidence proves which objective (`KINDS`), tier by tier.

A later tier is bounded under the levels that earlier ones reach (`keep_level`), so that a policy of several tiers is
proved by a chain of bounds: lexicographic optimisation with a tolerance for each level kept.

With f_k the objective of tier k and x^k its own tasks, the file's tasks x must have ``f_k(x) >= v_k`` for the stated
level v_k, itself at most ``f_k(x^k)``; tier k + 1 is bounded over all tasks with ``f_k >= v_k``. Where shares are
unique at the optimum, each share is kept up to 1e-7 and not the value: a strictly concave value that may fall by 1e-7
would let shares move by its root, 3e-4. The file's tasks may miss a level by 1e-7, the tolerance of constraints; what
they gain by that at its multiplier counts (`sums.worth_of_tiers`). See Proposition 7.5 in docs/methods/cone.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .constraints import _share_bounds, impose, infeasible
from .instance import PRICES, Cluster
from .levels import gap_by_levels, gap_by_number_levels
from .linear import gap_by_exact_levels
from .numbers import (
    BLOCK_VIOLATION,
    ONE,
    ROUNDING,
    VIOLATION,
    ZERO,
    Fraction,
    Rows,
    number,
    numbers,
)
from .outcome import CannotCheck, Fault, short
from .plane import gap_by_lines
from .policy import (
    COMPOSED,
    OBJECTIVES,
    PARAMETERS,
    Block,
    alpha_of,
    as_alpha_fair,
    as_max_min,
    is_levelled,
    is_linear,
    is_surplus,
)
from .pool import gap_by_bottlenecks, gap_by_envy
from .sums import gap_as_written, gap_by_prices, in_goal_units, value_of
from .surplus import bases_kept, keep_bases, leave_at_base, of_those_who_rise, refuse_at_base
from .teams import TeamNumbers


def _unique_share(cluster: Cluster, tier: Block) -> Block | None:
    """The share of which everybody has the same at all optima, if it determines the value too; else None.

    That of leximin and of strictly concave terms. In a sum the other terms are of the same share, or grow with the
    tasks that users have in total.
    """
    terms = [term for factor, term in tier.terms if factor]
    if tier.name == "Leximin" or (len(terms) == 1 and _is_strictly_concave(terms[0])):
        return terms[0].share

    def per_user(share: Block) -> bool:
        return share.name not in COMPOSED and cluster.same_on_servers(share)

    for term in terms if len(terms) > 1 else ():
        alike = (one.share == term.share or (per_user(one.share) and per_user(term.share)) for one in terms)
        if alpha_of(term) and all(alike):
            return term.share
    return None


def _is_strictly_concave(term: Block) -> bool:
    """Whether a term, or its logarithm, is a strictly concave function of the shares."""
    if term.name != "FairnessEfficiency":
        return alpha_of(term) > 0
    beta, lam = number(term.given["beta"], "beta"), number(term.given["lam"], "lam")
    emphasis = lam if beta < 1 else -lam
    return beta > 0 and beta != 1 and emphasis * beta >= abs(1 - beta) * (1 - ROUNDING)


def keep_level(cluster: Cluster, tier: Block, rows: Rows, entry: Mapping[str, Any], k: int) -> Rows:
    """Require of later tiers that they keep an earlier tier's level, and return the rows.

    It is the ``k``-th tier (from 0). Its level is the one that its own tasks reach (where shares are unique, each
    share up to 1e-7); without own tasks, that of the file's tasks. The file's tasks may miss it by the tolerance of
    constraints.
    """
    keep_bases(cluster, tier)
    place = f"tier {k}"
    if any(term.name not in PARAMETERS for _, term in tier.terms):
        return cluster.as_written.of(tier, place)
    tier = of_those_who_rise(cluster, tier)
    share = _unique_share(cluster, tier)
    leximin = tier.name == "Leximin"
    # before 0.3 the value of users' utilities was kept
    curved = share is not None and not leximin and (share.name in COMPOSED or "level" not in entry)
    in_levels, share = leximin or curved, share or tier.terms[0][1].share
    if not in_levels and [term.name for _, term in tier.terms] == ["FairnessEfficiency"]:
        tier = Block("Sum", {"terms": [(factor, as_alpha_fair(term)) for factor, term in tier.terms]}, tier.text)
    compared = TeamNumbers(cluster, share, curved or is_levelled(tier))
    own = entry.get("tasks") if in_levels or "level" in entry else None
    with cluster.at(numbers(own, "tasks", cluster.n, cluster.servers) if own else cluster.tasks):
        if own and (faults := infeasible(cluster, rows)):
            raise Fault(f"at the tasks of {tier.text}: {faults[0]}")
        z = compared.values()
        # scaled down to within capacities: the level must be reached by tasks that fit exactly
        value = ZERO if in_levels else value_of(cluster, tier, 1 - VIOLATION if own else ONE)
    if in_levels:
        part = 1 - BLOCK_VIOLATION if own else ONE
        if any(s < part * z[t] * (1 - BLOCK_VIOLATION) for t, s in compared.values().items()):
            raise Fault(f"a user or team is below its level of {tier.text}")
        cluster.given_earlier |= curved
        if share.name in COMPOSED:
            return compared.bounded({t: part * max(s, ZERO) for t, s in z.items()}, False, tier.text, place)
        at = [part * z.get(cluster.users[j], ZERO) for j in range(cluster.n)]
        return _share_bounds(cluster, Block("MinShare", {"level": at, "share": share}, tier.text), place)
    level, unit = value, abs(value) or ONE
    if own:
        level = number(entry["level"], "level")
        level, unit = in_goal_units(cluster, tier, level), abs(level) or ONE
        if not level <= value:
            raise Fault(f"the tasks of {tier.text} do not reach its level")
        if value_of(cluster, tier) < level - BLOCK_VIOLATION * unit:
            raise Fault(f"{tier.text} is below its level")
    if as_max_min(tier)[1].name == "MaxMin" or is_linear(tier):
        return impose(cluster, Block("AtLeast", {"objective": tier, "level": level}, tier.text), place)
    cluster.kept_levels.append((tier, level, unit))
    cluster.kept_places.append(place)
    return []


class Kind(NamedTuple):
    """A kind of evidence: the ``objectives`` it proves (alone, or with ``terms`` in sums), the constraint that it
    ``needs``, its ``keys``, and its gap.
    """

    objectives: tuple[str, ...]
    terms: bool
    needs: str
    keys: tuple[str, ...]
    gap: Callable[[Cluster, Block, Rows, Mapping[str, Any]], Fraction]


SUMS = ("Total", "AlphaFair", "MaxMin", "OrderedWeighted", "FairnessEfficiency")
KINDS = {
    "bottlenecks": Kind(("Leximin", "MaxMin"), False, "", ("order", "prices"), gap_by_bottlenecks),
    "pulled": Kind(("Leximin", "MaxMin"), False, "EnvyFree", ("pairs", "prices"), gap_by_envy),
    "levels": Kind(("Leximin", "MaxMin"), False, "", ("levels", "prices"), gap_by_levels),
    "number levels": Kind(("Leximin",), False, "", ("levels", "prices"), gap_by_number_levels),
    "exact levels": Kind(("Leximin",), False, "", ("point", "levels", "prices"), gap_by_exact_levels),
    "prices": Kind(SUMS, True, "", ("unit", "at", "written", *PRICES), gap_by_prices),
    "lines": Kind(("FairnessEfficiency",), True, "", ("lines", "largest", "smallest"), gap_by_lines),
}


def gap_of_tier(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of one objective under rows and kept levels, by its evidence."""
    if entry.get("why"):
        raise CannotCheck(entry["why"])
    leave_at_base(cluster, objective, rows, entry)
    given, objective = objective, of_those_who_rise(cluster, objective)
    _, levelled = as_max_min(objective)
    if entry.get("tasks") and levelled.name in ("Leximin", "MaxMin"):
        return gap_of_earlier(cluster, given, rows, entry)
    kind = KINDS.get(entry.get("kind", ""))
    names = {term.name for _, term in objective.terms}
    written = entry.get("written")
    if names - {*OBJECTIVES} and written is not None and written.objective and entry.get("kind") == "prices":
        return gap_as_written(cluster, rows, entry)
    if unknown := sorted(names - {*OBJECTIVES}):
        raise CannotCheck(f"{short(unknown[0])} is none of the objectives that this script knows")
    if kind is None:
        raise CannotCheck("the file has no evidence that this script can check")
    if written is not None and written.objective:
        raise Fault(f"a program as written states an objective beside {short(objective.text)}")
    if not kind.terms:
        objective, names = levelled, {levelled.name}
    if not names <= {*kind.objectives}:
        raise Fault(f"evidence of kind {entry['kind']!r} does not apply to {objective.text}")
    if kind.needs and kind.needs not in cluster.imposed:
        raise Fault(f"evidence of kind {entry['kind']!r} needs the constraint {kind.needs}, which the policy lacks")
    with bases_kept(cluster, given):
        for _, term in objective.terms:
            if is_surplus(term) and entry["kind"] != "number levels":  # these count what each number could rise by
                refuse_at_base(cluster, term.share, rows, entry.get("rising") or {})
        return kind.gap(cluster, objective, rows, entry)


def gap_of_earlier(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of a leximin or max-min tier at its own tasks, plus the relative fall of its levels in later tiers."""
    _, levelled = as_max_min(objective)
    compared = TeamNumbers(cluster, levelled.share, levelled=True)
    after = compared.values()
    with cluster.at(numbers(entry["tasks"], "tasks", cluster.n, cluster.servers)):
        gap, before = gap_of_tier(cluster, objective, rows, {**entry, "tasks": None}), compared.values(above=True)
    pairs = [(v / compared.weights[t], after[t] / compared.weights[t]) for t, v in before.items()]
    if levelled.name == "MaxMin":
        pairs = [(min(then for then, _ in pairs), min(now for _, now in pairs))]
    return gap + max((1 - now / then for then, now in pairs if then > now), default=ZERO)
