"""Exact answers: tasks in fractions, proved tier by tier without tolerances, with gap 0 (`linear`).

The tasks must satisfy every row exactly and reach the bound of the multipliers exactly; ``>`` is the only comparison.
Each tier leaves rows that keep what it reached at the tasks. All numbers are read anew, floats as the shortest decimals
or as the Fractions that the file names for them, which must round to the floats; what the float part of a file offers
as a short cut (pairs that bind, coefficients) is not used. The mathematics is that of Propositions 5.17 and 15.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .bundles import optimal_bundles, tasks_in
from .claims import check_objective, stored_objective
from .constraints import impose
from .hierarchy import prove_filling_exactly
from .instance import NUMBERS, Cluster, check_keys, floats_in
from .linear import (
    EXACT_PRICES,
    ExactGoal,
    KeptGoal,
    Number,
    broken_exactly,
    exact_numbers,
    kept_row,
    prove_goal,
    prove_levels,
    table_of,
)
from .numbers import (
    ONE,
    ZERO,
    Fraction,
    Rows,
    Table,
    exact_text,
    fraction,
    in_common,
    in_fractions,
    numbers,
    position,
    rounds_to,
    together,
    written,
)
from .outcome import CannotCheck, Clock, Fault, short
from .policy import (
    COMPOSED,
    Block,
    as_max_min,
    block,
    decides_bundles,
    is_surplus,
    tiers_of,
)
from .teams import TeamNumbers, guaranteed, limited


class ExactTier(NamedTuple):
    """A tier: the leximin of ``compared`` numbers, or else a goal, under rows and kept levels of other goals.

    Where nobody can rise above the base of a surplus the goal is a total that nobody changes, and the value 0.
    """

    rows: Rows
    kept: list[KeptGoal]
    compared: dict[str, Number] | None
    goal: ExactGoal
    of_nobody: bool = False

    def value(self, tasks: Table) -> Fraction:
        """The value of the goal at tasks, or the smallest number."""
        if self.of_nobody:
            return ZERO
        if self.compared is None:
            return self.goal.at(tasks)
        return min((one.at(tasks) for one in self.compared.values()), default=ZERO)


def exact_tiers(
    cluster: Cluster, policy: Block, settle: Callable[[int, Block, ExactTier], set[str]]
) -> Iterator[ExactTier]:
    """The tiers of a policy in rational numbers; each leaves its rows for the next, at `Cluster.tasks` by then.

    ``settle`` gives those numbers of a tier's surplus that cannot rise above their base.
    """
    rows, kept = guaranteed(cluster) + limited(cluster), list[KeptGoal]()
    for k, condition in enumerate(policy.given.get("constraints", [])):
        rows = rows + impose(cluster, condition, k)
    for objective, level, _ in cluster.kept_levels:  # of conditions such as OrderedWeighted(...) >= 1
        goal = ExactGoal(cluster)
        goal.add(objective, ONE)
        kept.append((goal, level))
    for k, objective in enumerate(tiers_of(policy.given["objective"])):
        for _, term in objective.terms:
            base = TeamNumbers(cluster, term.share).kept if term.share.name in COMPOSED else {}
            for j, x in base.items():
                cluster.low[j] = max(cluster.low[j], x)
        for _, term in objective.terms:
            if is_surplus(term):
                compared = exact_numbers(cluster, term.share, True)
                stays = settle(k, term.share, ExactTier(rows, kept, compared, ExactGoal(cluster)))
                cluster.stays.setdefault(term.share.text, set()).update(stays)
        of_nobody = len(objective.terms) == 1 and is_surplus(term) and not exact_numbers(cluster, term.share, True)
        if of_nobody:
            objective = Block("Total", {"share": term.share.share}, objective.text)  # as in `of_those_who_rise`
        goal, numbered = ExactGoal(cluster), None
        _, first = as_max_min(objective)
        if first.name == "Leximin":
            numbered = exact_numbers(cluster, first.share, True)
        else:
            goal.add(objective, ONE)
        yield ExactTier(rows, kept, numbered, goal, of_nobody)
        if numbered is not None:
            rows = rows + [kept_row(one, one.at(cluster.tasks)) for one in numbered.values()]
        elif first.name == "MaxMin":
            numbered = exact_numbers(cluster, first.share, True)
            level = min((one.at(cluster.tasks) for one in numbered.values()), default=ZERO)
            rows = rows + [kept_row(one, level) for one in numbered.values()]
        elif not goal.ranked:
            rows = [*rows, kept_row(whole := Number(goal.linear, ZERO), whole.at(cluster.tasks))]
        else:
            kept = [*kept, (goal, goal.at(cluster.tasks))]


def at_base(cluster: Cluster, objective: Block) -> dict[str, dict[str, Number]]:
    """The numbers of each surplus that an objective ranks, if some of them are at their base."""
    shares = {term.share.text: term.share for _, term in objective.terms if is_surplus(term)}
    ranked = {text: exact_numbers(cluster, share, True) for text, share in shares.items()}
    return {text: of for text, of in ranked.items() if not all(one.at(cluster.tasks) for one in of.values())}


def prove_rise(cluster: Cluster, objective: Block, tier: ExactTier, given: Mapping[str, Any]) -> None:
    """Prove that the numbers of an objective that are at their base could rise, by tasks at which all are above it."""
    for text, compared in at_base(cluster, objective).items():
        who = min(t for t, one in compared.items() if not one.at(cluster.tasks))
        with cluster.at(table_of(cluster, given.get(text) or ())):
            above = all(one.at(cluster.tasks) > 0 for one in compared.values())
            if not above or broken_exactly(cluster, tier.rows, tier.kept):
                raise Fault(f"{text}: {who!r} is at its base, and nothing proves that it can rise")


def exact_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The instance of a file and its tasks in fractions, and what proves floors.

    Nothing else of the answer in floats is used: neither `Cluster.binding`, which would leave out pairs of `EnvyFree`,
    nor coefficients that are given in floats.
    """
    given, floats = data["exact"], data["instance"]
    check_keys(given, ("read", "tasks", "proof", "floors"), "the exact part of the file")
    read = {key: dict(of) for key, of in (given.get("read") or {}).items()}
    for key, of in read.items():
        for printed, text in of.items():
            if not rounds_to(fraction(text), float(printed)):
                raise Fault(f"{key}: {printed} is read as {short(text)}, which rounds to another number")
    held = (*NUMBERS, "limits")
    instance = {key: in_fractions(v, read.get(key, {})) if key in held else v for key, v in floats.items()}
    tasks = [[fraction(x) for x in row] for row in given["tasks"]]
    return {"instance": instance, "tasks_by_server": tasks, "floors": exact_floors(given.get("floors") or {})}


def read_differently(data: Mapping[str, Any], instance: Any) -> list[str]:
    """The floats of a file's instance that its exact answer reads as other fractions than an instance."""
    read, own, out = data["exact"].get("read") or {}, instance.derived.exact_numbers(), list[str]()
    for name in NUMBERS:
        mine = read.get(name) or {}
        theirs = {repr(key): written(value) for key, value in own.get(name, {}).items() if value is not None}
        for key in sorted(floats_in(data["instance"].get(name)) & (mine.keys() | theirs.keys())):
            a, b = (in_fractions(float(key), of) for of in (mine, theirs))
            if a != b:
                out.append(f"{name}: {key} is {exact_text(a)} in the file, {exact_text(b)} in the instance given")
    return out


def exact_floors(floors: Mapping[str, Any]) -> dict[str, Any]:
    """Proofs of the floors of teams with their texts as fractions."""
    return {
        team: {
            of: {
                "tasks": [[position(j), position(s), fraction(x)] for j, s, x in use.get("tasks") or ()],
                "prices": [fraction(p) for p in use["prices"]],
            }
            for of, use in proofs.items()
        }
        for team, proofs in floors.items()
    }


def proved_exactly(data: Mapping[str, Any], clock: Clock) -> tuple[Fraction, str, list[str]]:
    """The gap of an exact answer, which is 0, how its numbers are read, and what it violates."""
    if data.get("placement") is not None:
        raise Fault("an exact answer has no placement of whole tasks")
    cluster = Cluster(exact_data(data), clock)
    for j, row in enumerate(numbers(data["tasks_by_server"], "tasks_by_server", cluster.n, cluster.servers)):
        if any(float(x) != float(exact) for x, exact in together(row, cluster.tasks[j])):
            raise Fault(f"the tasks of user {cluster.users[j]!r} are not those of the exact answer, rounded")
    proof = data["exact"]["proof"]
    if data.get("bundles") is not None:
        shape = cluster.n, cluster.servers, cluster.m
        pairs = together(numbers(data["bundles"], "bundles", *shape), proof[0]["bundles"])
        if any(
            [list(map(float, row)) for row in of_user] != [[float(fraction(a)) for a in row] for row in exact]
            for of_user, exact in pairs
        ):
            raise Fault("the bundles are not those of the exact answer, rounded")
    policy = block(str(data["policy"]), exactly=True)
    faults, value = prove_exactly(cluster, policy, proof)
    stored = stored_objective(data)
    if not faults and value is not None and stored is not None and stored != float(value):
        raise Fault(f"objective is {stored!r} in the file, but {float(value)!r} at its tasks")
    if not faults and decides_bundles(policy):
        check_objective(cluster, policy.given["objective"], data)
    held = [pair for of in (data["exact"].get("read") or {}).values() for pair in of.items()]
    single = sum(float(fraction(text)) != float(printed) for printed, text in held)
    in_32 = f" ({single:,} of them {'is' if single == 1 else 'are'} equal in 32 bits only)" if single else ""
    read = f"as the Fractions given{in_32}, others " if held else ""
    return ZERO, f", with numbers read {read}as the shortest decimals that print them", faults


def prove_exactly(cluster: Cluster, policy: Block, proof: Sequence[Any]) -> tuple[list[str], Fraction | None]:
    """Prove that the tasks of a cluster read by `exact_data` are optimal; what they violate, and the objective's value.

    `Fault` if they are not proved. Of several tiers, the value is that of the first; None for bundles.
    """
    cluster.tie, flat = ZERO, [x for row in cluster.tasks for x in row]
    if cluster.together and cluster.active and (policy.name == "HDRF" or decides_bundles(policy)):
        raise CannotCheck(f"its instance has limits, which exact answers of {policy.name} do not keep")
    if policy.name == "HDRF":
        if faults := broken_exactly(cluster, []):
            return faults, None
        return [], prove_filling_exactly(cluster, policy, proof[0] if proof else {})
    if decides_bundles(policy):
        return prove_bundles_exactly(cluster, policy, proof[0]["bundles"]), None
    common = in_common(flat)
    if common and common[0].d.bit_length() <= 2 * max(x.d.bit_length() for x in flat):  # sums need no common divisors
        cluster.tasks = [common[k : k + cluster.servers] for k in range(0, len(flat), cluster.servers)]

    def settle(k: int, share: Block, tier: ExactTier) -> set[str]:
        levels = (proof[k].get("at_base") or {}).get(share.text) or ()
        fixed = prove_levels(cluster, tier.compared or {}, tier.rows, tier.kept, levels)
        if any(fixed.values()):
            raise Fault(f"{share.text}: a number that leaves is above its base")
        return {*fixed}

    value, objectives = ZERO, tiers_of(policy.given["objective"])
    if len(proof) != len(objectives):
        raise Fault("the exact proof has not one part per tier")
    for k, tier in enumerate(exact_tiers(cluster, policy, settle)):
        check_keys(proof[k], ("at_base", "rising", "levels", *EXACT_PRICES), f"tier {k} of the exact proof")
        if faults := broken_exactly(cluster, tier.rows, tier.kept):
            return faults, None
        value = value if k else tier.value(cluster.tasks)
        if tier.compared is None:
            prove_goal(cluster, tier.goal, tier.rows, tier.kept, proof[k])
            prove_rise(cluster, objectives[k], tier, proof[k].get("rising") or {})
            continue
        proved = prove_levels(cluster, tier.compared, tier.rows, tier.kept, proof[k]["levels"])
        if left := tier.compared.keys() - proved.keys():
            raise Fault(f"nothing proves the level of {min(left)!r}")
    return [], value


def prove_bundles_exactly(cluster: Cluster, policy: Block, given: Any) -> list[str]:
    """Compare bundles and tasks with the best ones, computed again; `Fault` if they differ."""
    objective, conditions = policy.given["objective"], policy.given.get("constraints", [])
    if any(cluster.guarantees) or cluster.team_guarantees:
        raise CannotCheck("its instance has guarantees")
    best = optimal_bundles(cluster, objective, conditions)
    bundles = [[[fraction(a) for a in row] for row in of_user] for of_user in given]
    runs = tasks_in(cluster, best)
    for user, own, other, tasks, fit in together(cluster.users, bundles, best, cluster.tasks, runs):
        if own != other or tasks != fit:
            raise Fault(f"user {user!r} does not have the best bundle, or not the tasks that fit in it")
    return broken_exactly(cluster, [])
