"""Exact answers: tasks in fractions, proved without tolerances.

All objectives here are piecewise linear and concave, so that an optimum is a linear program's: by strong duality there
are rational multipliers whose bound is the value, and with them the gap is 0. Levels of leximin are proved from the
lowest up (`prove_levels`): prices fix the numbers that are at their level at every optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .bundles import optimal_bundles, tasks_in
from .constraints import impose
from .hierarchy import prove_filling_exactly
from .instance import NUMBERS, Cluster, check_keys, floats_in
from .numbers import (
    ONE,
    ZERO,
    Fraction,
    Pair,
    Row,
    RowName,
    Rows,
    Table,
    exact_sum,
    exact_text,
    fraction,
    in_common,
    in_fractions,
    numbers,
    rational,
    rounds_to,
    together,
    written,
)
from .outcome import CannotCheck, Clock, Fault, short
from .policy import (
    COMPOSED,
    Block,
    as_alpha_fair,
    as_max_min,
    block,
    decides_bundles,
    is_surplus,
    rank_weights,
    tiers_of,
)
from .teams import Numbers, guaranteed
from .tiers import check_objective, stored_objective


class Number(NamedTuple):
    """What an exact objective compares: ``sum c x - base`` per weight, of a user or a team."""

    row: dict[Pair, Fraction]
    base: Fraction

    def at(self, tasks: Table) -> Fraction:
        """The number at tasks."""
        return exact_sum(v * tasks[j][s] for (j, s), v in self.row.items()) - self.base


def exact_coefficients(cluster: Cluster, share: Block) -> Table:
    """The share of one task by user and server, where it is rational."""
    below, above = cluster.coefficients(share)
    for j in cluster.active:
        for s in cluster.open[j]:
            rational(below[j][s], above[j][s], f"{share.text} of user {cluster.users[j]!r}")
    return below


def exact_numbers(cluster: Cluster, share: Block, levelled: bool) -> dict[str, Number]:
    """The numbers of a share by label, per weight if they are ``levelled``; without those in `Cluster.stays`."""
    c, out = exact_coefficients(cluster, share.of_user), dict[str, Number]()
    if share.name not in COMPOSED:
        for j in cluster.active:
            w = cluster.weights[j] if levelled else ONE
            out[str(cluster.users[j])] = Number({(j, s): c[j][s] / w for s in cluster.open[j]}, ZERO)
        return out
    compared = Numbers(cluster, share)
    for t, weight in compared.weights.items():
        w, base = weight if levelled else ONE, rational(*compared.base[t], f"what {share.text} of {t!r} is above")
        out[t] = Number({}, base / w)
    for j, t in compared.of_user.items():
        w = compared.weights[t] if levelled else ONE
        out[t].row.update({(j, s): c[j][s] / w for s in cluster.open[j]})
    stay = cluster.stays.get(share.text, set()) if levelled and share.name == "Surplus" else set()
    return {t: one for t, one in out.items() if t not in stay}


class ExactRanked(NamedTuple):
    """``factor`` times sorted numbers weighted by the decreasing v, the largest weight on the smallest number."""

    factor: Fraction
    v: list[Fraction]
    numbers: dict[str, Number]


class ExactGoal:
    """A piecewise linear concave function of the tasks: ``linear`` by pair, ``constant``, and ranked terms."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.constant = cluster, ZERO
        self.linear: dict[Pair, Fraction] = {}
        self.ranked: list[ExactRanked] = []

    def add(self, objective: Block, times: Fraction) -> None:
        """Add a multiple of an objective; `CannotCheck` for objectives with irrational optima."""
        cluster = self.cluster
        for factor, term in objective.terms:
            factor = factor * times
            if not factor:
                continue
            if term.name == "FairnessEfficiency" and term.given["beta"] == 1 and len(objective.terms) == 1:
                term = as_alpha_fair(term)
            if term.name in ("MaxMin", "OrderedWeighted"):
                compared = exact_numbers(cluster, term.share, True)
                if compared:
                    self.ranked.append(ExactRanked(factor, rank_weights(term, len(compared)), compared))
            elif term.name == "Total" or (term.name == "AlphaFair" and term.given["alpha"] == 0):
                for one in exact_numbers(cluster, term.share, False).values():
                    self.constant -= factor * one.base
                    for pair, v in one.row.items():
                        self.linear[pair] = self.linear.get(pair, ZERO) + factor * v
            else:
                raise CannotCheck(f"the optimum of {term.text} is not rational")

    def at(self, tasks: Table) -> Fraction:
        """The value at tasks."""
        total = self.constant + exact_sum(v * tasks[j][s] for (j, s), v in self.linear.items())
        for term in self.ranked:
            ordered = sorted(one.at(tasks) for one in term.numbers.values())
            total += term.factor * exact_sum(v * z for v, z in together(term.v, ordered))
        return total


KeptGoal = tuple[ExactGoal, Fraction]  # a goal, and the level that it keeps
EXACT_PRICES = ("prices", "rows", "kept", "mixtures")


class ExactProof:
    """Prices by server and resource, and multipliers of rows, as a file gives them: ``[[s, i, "5/11"], ...]``."""

    def __init__(self, cluster: Cluster, entry: Mapping[str, Any], rows: Rows) -> None:
        self.cluster, self.rows_given = cluster, rows
        prices = {(s, i): fraction(p) for s, i, p in entry.get("prices") or ()}
        multipliers = {k: fraction(y) for k, y in entry.get("rows") or ()}
        places = cluster.usable_units()
        if prices.keys() - places.keys() or multipliers.keys() - {*range(len(rows))}:
            raise Fault("prices or multipliers are of unknown places or rows")
        if any(p < 0 for p in prices.values()) or any(y < 0 and not rows[k][2] for k, y in multipliers.items()):
            raise Fault("a price or a multiplier is negative")
        common = iter(in_common([*prices.values(), *multipliers.values()]))
        self.prices = {place: next(common) for place in prices}
        self.multipliers = {k: next(common) for k in multipliers}

    def bound(self, slopes: Mapping[Pair, Fraction]) -> Fraction:
        """The largest value of a linear function over all feasible tasks, at most, by weak duality."""
        cluster, rows = self.cluster, self.rows_given
        total = exact_sum(p * cluster.usable_units()[place] for place, p in self.prices.items())
        total += exact_sum(y * rows[k][1] for k, y in self.multipliers.items())
        of_rows: dict[Pair, Fraction] = {}
        for k, y in self.multipliers.items():
            for pair, v in rows[k][0].items():
                of_rows[pair] = of_rows.get(pair, ZERO) + y * v
        at_server: dict[int, list[tuple[int, Fraction]]] = {}
        for (s, i), p in self.prices.items():
            at_server.setdefault(s, []).append((i, p))
        for j in cluster.active:
            cluster.clock.check()
            nets = []
            for s in cluster.open[j]:
                need = cluster.demands[j][s]
                cost = exact_sum(p * need[i] for i, p in at_server.get(s, ()) if need[i])
                nets.append(slopes.get((j, s), ZERO) - cost - of_rows.get((j, s), ZERO))
            net = max(nets)
            if net > 0:
                high = cluster.high[j]
                alone = [cluster.tasks_alone(j, s, cluster.usable) for s in cluster.open[j]]
                most = high if high is not None or None in alone else exact_sum(filter(None, alone))
                if most is None:
                    raise Fault(f"the prices give no bound for user {cluster.users[j]!r}")
                total += net * most
            elif net < 0:
                total += net * cluster.low[j]
        return total


def slopes_of(weights: Mapping[str, Fraction], compared: Mapping[str, Number]) -> tuple[dict[Pair, Fraction], Fraction]:
    """A weighted sum of numbers as slopes by pair, and the weighted sum of bases."""
    slopes: dict[Pair, Fraction] = {}
    for t, weight in weights.items():
        for pair, v in compared[t].row.items():
            slopes[pair] = slopes.get(pair, ZERO) + weight * v
    return slopes, exact_sum(weight * compared[t].base for t, weight in weights.items())


def weights_given(entry: Any, compared: Mapping[str, Number]) -> dict[str, Fraction]:
    """Weights of numbers as a file gives them, in a common denominator."""
    found = {str(t): fraction(v) for t, v in dict(entry).items()}
    if found.keys() - compared.keys() or any(v < 0 for v in found.values()):
        raise Fault("a weight is negative, or of an unknown user or team")
    return dict(together(found, in_common(found.values())))


def prove_levels(
    cluster: Cluster, compared: Mapping[str, Number], rows: Rows, kept: Sequence[KeptGoal], entries: Any
) -> dict[str, Fraction]:
    """The levels of numbers at every leximin optimum, by prices for each level from the lowest up.

    At prices of a level, ``sum_t pi_t z_t`` has a bound. Numbers of earlier levels are fixed, so the smallest of the
    others is at most what the bound leaves, per price. The tasks reach it; so does every optimum, in which all others
    with a price are at that level too.
    """
    fixed: dict[str, Fraction] = {}
    at = {t: one.at(cluster.tasks) for t, one in compared.items()}
    for k, entry in enumerate(entries):
        check_keys(entry, ("of_numbers", *EXACT_PRICES), f"level {k} of the exact proof")
        pi, others = weights_given(entry["of_numbers"], compared), compared.keys() - fixed.keys()
        new = {t: p for t, p in pi.items() if t in others and p}
        if not new:
            raise Fault(f"level {k} of the exact proof has no price of a number that it fixes")
        slopes, base = slopes_of(pi, compared)
        left = exact_bound(cluster, slopes, [], rows, kept, entry) - base
        left -= exact_sum(p * fixed[t] for t, p in pi.items() if t in fixed)
        level = min(at[t] for t in others)
        if left > level * exact_sum(new.values()):
            raise Fault(f"level {k} of the exact proof: the prices do not prove {exact_text(level)}")
        if any(at[t] != level for t in new):
            raise Fault(f"level {k} of the exact proof: not all numbers that it fixes are at it")
        fixed |= dict.fromkeys(new, level)
    return fixed


def prove_goal(cluster: Cluster, goal: ExactGoal, rows: Rows, kept: Sequence[KeptGoal], entry: Any) -> None:
    """Prove that the tasks maximise a goal, by prices, multipliers and mixtures of ranked terms."""
    top = exact_bound(cluster, goal.linear, goal.ranked, rows, kept, entry) + goal.constant
    value = goal.at(cluster.tasks)
    if top > value:
        raise Fault(f"the prices prove at most {exact_text(top)}, and the tasks reach {exact_text(value)}")


def exact_bound(
    cluster: Cluster,
    linear: Mapping[Pair, Fraction],
    ranked: Sequence[ExactRanked],
    rows: Rows,
    kept: Sequence[KeptGoal],
    entry: Any,
) -> Fraction:
    """The largest value of a linear function plus ranked terms, at most, where goals are ``kept`` above levels."""
    times = [fraction(y) for y in entry.get("kept") or ["0"] * len(kept)]
    if len(times) != len(kept) or any(y < 0 for y in times):
        raise Fault("multipliers of kept levels are missing or negative")
    slopes, constant, terms = dict(linear), ZERO, [(ONE, term) for term in ranked]
    for y, (other, level) in together(times, kept):
        constant += y * (other.constant - level)
        for pair, v in other.linear.items():
            slopes[pair] = slopes.get(pair, ZERO) + y * v
        terms += [(y, term) for term in other.ranked]
    mixtures = entry.get("mixtures") or [{}] * len(terms)
    if len(mixtures) != len(terms):
        raise Fault(f"mixtures: there are {len(mixtures)}, not {len(terms)}")
    for (y, term), given in together(terms, mixtures):
        weights = dict.fromkeys(term.numbers, ZERO) | weights_given(given, term.numbers)
        mine = theirs = ZERO
        for a, b in together(sorted(weights.values()), sorted(term.v)):
            mine, theirs = mine + a, theirs + b * term.factor * y
            if mine < theirs:
                raise Fault("mixtures: the weights do not bound sorted numbers")
        some, base = slopes_of(weights, term.numbers)
        constant -= base
        for pair, v in some.items():
            slopes[pair] = slopes.get(pair, ZERO) + v
    return ExactProof(cluster, entry, rows).bound(slopes) + constant


def broken_exactly(cluster: Cluster, rows: Rows, kept: Sequence[KeptGoal] = ()) -> list[str]:
    """What tasks violate, without any tolerance."""
    tasks, faults = cluster.tasks, list[str]()
    for (s, i), usable in cluster.usable_units().items():
        if cluster.load(s, i) > usable:
            faults.append(f"{cluster.resources[i]!r} on server {s}: tasks exceed the capacity")
    for j, user in enumerate(cluster.users):
        total, high, limit = cluster.total(j), cluster.high[j], cluster.limits[j]
        if min(tasks[j], default=ZERO) < 0 or any(
            tasks[j][s] for s in range(cluster.servers) if s not in cluster.open[j]
        ):
            faults.append(f"user {user!r} has negative tasks, or tasks where it may not run")
        if (limit is not None and total > limit) or (high is not None and total > high) or total < cluster.low[j]:
            faults.append(f"user {user!r} runs {exact_text(total)} tasks, outside its bounds")
    for k, (of_pairs, bound, equal, _) in enumerate(rows):
        excess = exact_sum(v * tasks[j][s] for (j, s), v in of_pairs.items()) - bound
        if excess > 0 or (equal and excess):
            faults.append(f"row {k} of the policy's constraints is violated")
    return faults + ["a level is not kept" for goal, level in kept if goal.at(tasks) < level]


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
    rows, kept = guaranteed(cluster), list[KeptGoal]()
    for k, condition in enumerate(policy.given.get("constraints", [])):
        rows = rows + impose(cluster, condition, k)
    for objective, level, _ in cluster.kept_levels:  # of conditions such as OrderedWeighted(...) >= 1
        limited = ExactGoal(cluster)
        limited.add(objective, ONE)
        kept.append((limited, level))
    for k, objective in enumerate(tiers_of(policy.given["objective"])):
        for _, term in objective.terms:
            base = Numbers(cluster, term.share).kept if term.share.name in COMPOSED else {}
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


def table_of(cluster: Cluster, tasks: Iterable[tuple[int, int, str]]) -> Table:
    """Tasks by user and server from a list of those that are not 0."""
    table = [[ZERO] * cluster.servers for _ in range(cluster.n)]
    for j, s, x in tasks:
        table[j][s] += fraction(x)
    return table


def kept_row(one: Number, level: Fraction) -> Row:
    """A row that keeps a number at a level or above it."""
    return Row({pair: -v for pair, v in one.row.items()}, -(level + one.base), False, RowName("tier"))


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
    instance = {key: in_fractions(v, read.get(key, {})) if key in NUMBERS else v for key, v in floats.items()}
    tasks = [[fraction(x) for x in row] for row in given["tasks"]]
    return {"instance": instance, "tasks_by_server": tasks, "floors": exact_floors(given.get("floors") or {})}


def read_differently(data: Mapping[str, Any], instance: Any) -> list[str]:
    """The floats of a file's instance that its exact answer reads as other fractions than an instance."""
    read, own, out = data["exact"].get("read") or {}, instance._exact_numbers(), list[str]()
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
                "tasks": [[j, s, fraction(x)] for j, s, x in use.get("tasks") or ()],
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
    if cluster.together:
        raise CannotCheck("its instance has limits, which exact answers do not keep")
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
    read = "as the Fractions given, others " if data["exact"].get("read") else ""
    return ZERO, f", with numbers read {read}as the shortest decimals that print them", faults


def prove_exactly(cluster: Cluster, policy: Block, proof: Sequence[Any]) -> tuple[list[str], Fraction | None]:
    """Prove that the tasks of a cluster read by `exact_data` are optimal; what they violate, and the objective's value.

    `Fault` if they are not proved. Of several tiers, the value is that of the first; None for bundles.
    """
    cluster.tie, flat = ZERO, [x for row in cluster.tasks for x in row]
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
