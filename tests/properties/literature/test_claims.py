"""The claims of the literature: every instance replayed exactly by other means, and what stands searched again."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.errors import InvalidBlock
from fairopt.properties.literature import claims as literature
from fairopt.properties.names import PROPERTIES

CASES = list(dict.fromkeys(case for claim in literature.claims() for case in claim.cases))
POOLS = [case for case in CASES if not isinstance(case.capacities[0], tuple)]
BY_F = [case for case in POOLS if "lam=" in case.mechanism and not case.mechanism.endswith("lam=0")]
ANSWERED = [case for case in POOLS if case not in BY_F]
SERVERS = {case.mechanism: case for case in CASES if case not in POOLS}


def name_of(case):
    return f"{case.mechanism}-{case.breaks}"


# -- mechanisms in fractions -----------------------------------------------------------------------------------------


def shares_of(mechanism, demands, capacities):
    """Share of one task, and alpha (None for leximin)."""
    ratios = [sorted((Fraction(d) / c for d, c in zip(row, capacities, strict=True)), reverse=True) for row in demands]
    kind, _, options = mechanism.partition(":")
    alpha = Fraction(options.split("alpha=")[1]) if "alpha=" in options else None
    if kind in ("drf", "drfh", "fds"):
        return [row[0] for row in ratios], alpha
    if kind == "2df":
        return [row[0] * row[1] for row in ratios], None
    if kind == "pnorm":
        assert "p=1," in options
        return [sum(row) for row in ratios], alpha
    assert kind in ("gfj", "nash")
    return [Fraction(1)] * len(demands), Fraction(1) if kind == "nash" else alpha


def leximin(demands, capacities, per_task):
    """Water-filling: all grow alike, until what they need is full."""
    left, active = [Fraction(c) for c in capacities], set(range(len(demands)))
    tasks = [Fraction(0)] * len(demands)
    while active:
        load = [sum(Fraction(demands[j][i]) / per_task[j] for j in active) for i in range(len(left))]
        step = min(room / need for room, need in zip(left, load, strict=True) if need)
        left = [room - step * need for room, need in zip(left, load, strict=True)]
        for j in active:
            tasks[j] += step / per_task[j]
        active = {j for j in active if all(left[i] or not d for i, d in enumerate(demands[j]))}
    return tuple(tasks)


def root(value):
    found = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    assert found**2 == value
    return found


def is_alpha_fair(tasks, demands, capacities, per_task, alpha):
    """The conditions of Karush, Kuhn and Tucker, up to a factor: marginal values are demands times prices >= 0."""
    used = [sum(x * row[i] for x, row in zip(tasks, demands, strict=True)) for i in range(len(capacities))]
    assert all(u <= c for u, c in zip(used, capacities, strict=True))
    full = [i for i, c in enumerate(capacities) if used[i] == c]
    if alpha == Fraction(1, 2):
        squared = [c / x for c, x in zip(per_task, tasks, strict=True)]
        value = [root(s / squared[0]) for s in squared]
    else:
        value = [c ** (1 - int(alpha)) * x ** -int(alpha) for c, x in zip(per_task, tasks, strict=True)]
    users = range(len(demands))
    for i in full:
        price = next(value[j] / demands[j][i] for j in users if demands[j][i])
        if all(value[j] == price * demands[j][i] for j in users):
            return True
    for i, k in itertools.combinations(full, 2):
        for a, b in itertools.combinations(users, 2):
            det = Fraction(demands[a][i] * demands[b][k] - demands[a][k] * demands[b][i])
            if det:
                p = (value[a] * demands[b][k] - value[b] * demands[a][k]) / det
                q = (demands[a][i] * value[b] - demands[b][i] * value[a]) / det
                return min(p, q) >= 0 and all(value[j] == p * demands[j][i] + q * demands[j][k] for j in users)
    return False


def bundles(mechanism, demands, capacities):
    """MLF-DRS, and FFMRA where no request is cut, on one server."""
    n, m = len(demands), len(capacities)
    ratios = [[Fraction(d) / c for d, c in zip(row, capacities, strict=True)] for row in demands]
    dominant = [row.index(max(row)) for row in ratios]
    fair = [Fraction(c, n) for c in capacities]
    base = [[(max if i == dominant[j] else min)(fair[i], Fraction(demands[j][i])) for i in range(m)] for j in range(n)]
    if mechanism == "mlf-drs":
        return [[base[j][i] / sum(b[i] for b in base) * capacities[i] for i in range(m)] for j in range(n)]
    high = sum(map(max, ratios))
    phi = high / sum(map(sum, ratios))
    held = [[Fraction(0)] * m for _ in range(n)]
    for i in range(m):
        groups = [[j for j in range(n) if (dominant[j] == i) is wanted] for wanted in (True, False)]
        parts = [phi, 1 - phi] if all(groups) else [Fraction(bool(g)) for g in groups]
        for group, part in zip(groups, parts, strict=True):
            for j in group:
                held[j][i] = part * capacities[i] * base[j][i] / sum(base[k][i] for k in group)
    return held


def runs(bundle, demands):
    return min(Fraction(b) / d for b, d in zip(bundle, demands, strict=True) if d)


def held_by(mechanism, demands, capacities, tasks):
    if mechanism in ("mlf-drs", "ffmra", "h-ffmra"):
        return bundles(mechanism, demands, capacities)
    return [[x * d for d in row] for x, row in zip(tasks, demands, strict=True)]


def one_after_the_other(demands, capacities):
    """Whole tasks on one pool, each to the user with the smallest share after it, of those for whom one fits."""
    tasks = [Fraction(0)] * len(demands)
    per_task = shares_of("drf", demands, capacities)[0]

    def with_one_more(j):
        return [x + (k == j) for k, x in enumerate(tasks)]

    while able := [j for j in range(len(tasks)) if fits(with_one_more(j), demands, capacities)]:
        tasks = with_one_more(min(able, key=lambda j: (per_task[j] * (tasks[j] + 1), j)))
    return tuple(tasks)


def confirm(mechanism, demands, capacities, tasks):
    """That these tasks are the mechanism's answer."""
    if mechanism in ("mlf-drs", "ffmra", "h-ffmra"):
        held = bundles(mechanism, demands, capacities)
        assert tuple(runs(b, d) for b, d in zip(held, demands, strict=True)) == tasks
    elif mechanism == "most-tasks":
        found = linprog(-np.ones(len(demands)), A_ub=np.array(demands).T, b_ub=capacities)
        assert sum(tasks) == pytest.approx(-found.fun)
    elif mechanism == "sequential-minmax":
        assert one_after_the_other(demands, capacities) == tasks
    elif mechanism == "gfj:beta=2,lam=0":  # the largest equal tasks
        level = min(Fraction(c, sum(row[i] for row in demands)) for i, c in enumerate(capacities))
        assert tasks == (level,) * len(demands)
    else:
        per_task, alpha = shares_of(mechanism, demands, capacities)
        if alpha is None:
            assert leximin(demands, capacities, per_task) == tasks
        else:
            assert is_alpha_fair(tasks, demands, capacities, per_task, alpha)


@pytest.mark.parametrize("case", ANSWERED, ids=name_of)
def test_answer_of_a_case_is_what_the_mechanism_gives_in_fractions(case):
    confirm(case.mechanism, case.demands, case.capacities, case.tasks)


@pytest.mark.parametrize("case", [c for c in ANSWERED if "lam=0" not in c.mechanism], ids=name_of)
def test_package_gives_the_same_answer(case):
    tasks = fo.policies.named_policy(case.mechanism).allocate(case.instance).tasks
    np.testing.assert_allclose(tasks, np.array(case.tasks, dtype=float), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("case", [c for c in ANSWERED if c.breaks in PROPERTIES], ids=name_of)
def test_property_fails_in_fractions(case):
    demands, capacities, tasks, user = case.demands, case.capacities, case.tasks, case.user
    n, held = len(demands), held_by(case.mechanism, demands, capacities, tasks)
    if case.breaks == "sharing-incentive":
        assert tasks[user] < runs([Fraction(c, n) for c in capacities], demands[user])
    elif case.breaks == "envy-free":
        assert any(tasks[user] < runs(other, demands[user]) for other in held)
    elif case.breaks == "ef1":
        rest = [[b - d for b, d in zip(b_k, row, strict=True)] for b_k, row in zip(held, demands, strict=True)]
        assert any(tasks[user] < math.floor(runs(other, demands[user])) for k, other in enumerate(rest) if k != user)
    elif case.breaks == "pareto":
        assert all(new >= old for new, old in zip(case.instead, tasks, strict=True)) and case.instead != tasks
        assert fits(case.instead, demands, capacities)
    elif case.breaks == "strategy-proof":
        lied = [case.misreport if j == user else row for j, row in enumerate(demands)]
        per_task, alpha = shares_of(case.mechanism, lied, capacities) if "mlf" not in case.mechanism else (None, None)
        if alpha is not None:  # the liar's tasks follow from the others': both resources are full
            assert is_alpha_fair((Fraction(1, 3), Fraction(1, 3)), lied, capacities, per_task, alpha)
            received = [Fraction(d, 3) for d in case.misreport]
        elif per_task is not None:
            x = leximin(lied, capacities, per_task)[user]
            received = [x * d for d in case.misreport]
        else:
            received = bundles(case.mechanism, lied, capacities)[user]
        assert (runs(received, demands[user]),) == case.after
        assert case.after[0] > tasks[user]
    elif case.breaks == "bottleneck":
        used = [sum(b[i] for b in held) for i in range(len(capacities))]
        assert all(held[user][i] < Fraction(c, n) for i, c in enumerate(capacities) if used[i] == c)
    elif case.breaks == "resource-monotone":
        confirm(case.mechanism, demands, case.more, case.after)
        assert case.after[user] < tasks[user] and min(np.subtract(case.more, capacities)) >= 0
    else:
        assert case.breaks == "population-monotone"
        kept = [j for j in range(n) if j != case.leaves]
        confirm(case.mechanism, [demands[j] for j in kept], capacities, case.after)
        assert case.after[kept.index(user)] < tasks[user]


def fits(tasks, demands, capacities):
    return all(sum(x * row[i] for x, row in zip(tasks, demands, strict=True)) <= c for i, c in enumerate(capacities))


@pytest.mark.parametrize("case", [c for c in ANSWERED if c.breaks == "full-use"], ids=name_of)
def test_tasks_leave_some_of_a_resource(case):
    used = [sum(x * d[i] for x, d in zip(case.tasks, case.demands, strict=True)) for i in range(len(case.capacities))]
    assert any(u < c for u, c in zip(used, case.capacities, strict=True))
    if case.mechanism != "drf":
        held = bundles(case.mechanism, case.demands, case.capacities)
        assert [sum(b[i] for b in held) for i in range(len(used))] == list(case.capacities)


# -- fairness and efficiency by beta and lambda ----------------------------------------------------------------------


def value(mechanism, shares):
    """An increasing transform of eq. 3, rational for beta = 2, and for beta = 1/2 and two suitable shares."""
    beta, lam = (Fraction(part.split("=")[1]) for part in mechanism.split(":")[1].split(","))
    if min(shares) <= 0:
        return Fraction(0)
    if beta == 2:  # f = - (S sum 1/s)^(1/2) S^lam, so f^-4 rises with f
        return (1 / (sum(shares) * sum(1 / s for s in shares))) ** 2 * sum(shares) ** int(-4 * lam)
    total = sum(shares)  # beta = 1/2: f = (sum (s/S)^(1/2))^2 S^lam
    a, b = shares
    try:
        cross = root(a * b)
    except AssertionError:
        cross = Fraction(math.sqrt(a * b))
    return (total + 2 * cross) / total * total ** int(lam)


def in_shares(case, tasks):
    per_task = shares_of("fds" if case.mechanism.startswith("fds") else "gfj", case.demands, case.capacities)[0]
    return [c * x for c, x in zip(per_task, tasks, strict=True)]


@pytest.mark.parametrize("case", [c for c in BY_F if c.breaks != "pareto"], ids=name_of)
def test_best_answer_is_better_than_any_with_the_property(case):
    assert fits(case.tasks, case.demands, case.capacities) and fits(case.instead, case.demands, case.capacities)
    best = value(case.mechanism, in_shares(case, case.tasks))
    assert value(case.mechanism, in_shares(case, case.instead)) > best
    if case.breaks == "answer":
        return
    alone = [runs(case.capacities, row) for row in case.demands]
    n, tried = len(alone), 0
    for parts in itertools.product(range(1, 13), repeat=n):
        tasks = [Fraction(k, 12) * x for k, x in zip(parts, alone, strict=True)]
        held = [[x * d for d in row] for x, row in zip(tasks, case.demands, strict=True)]
        slices = all(k * n >= 12 for k in parts)
        calm = all(x >= runs(other, row) for x, row in zip(tasks, case.demands, strict=True) for other in held)
        if fits(tasks, case.demands, case.capacities) and (slices if case.breaks == "sharing-incentive" else calm):
            assert value(case.mechanism, in_shares(case, tasks)) <= best
            tried += 1
    assert tried


@pytest.mark.parametrize("case", [c for c in BY_F if c.breaks == "pareto"], ids=name_of)
def test_dominated_point_has_the_larger_f(case):
    assert fits(case.instead, case.demands, case.capacities)
    assert all(new >= old for new, old in zip(case.instead, case.tasks, strict=True)) and case.instead != case.tasks
    assert value(case.mechanism, case.tasks) > value(case.mechanism, case.instead)


def test_concave_cases_are_unfair_in_the_package_too():
    large = next(c for c in BY_F if c.mechanism == "fds:beta=2,lam=-3" and c.breaks == "sharing-incentive")
    assert fo.policies.named_policy(large.mechanism).allocate(large.instance).tasks[0] < 1 / 3
    envy = next(c for c in BY_F if c.mechanism == "fds:beta=2,lam=-3" and c.breaks == "envy-free")
    np.testing.assert_allclose(
        fo.policies.named_policy(envy.mechanism).allocate(envy.instance).tasks, [0.5, 0.5, 1], atol=1e-6
    )


def test_sign_of_equation_14_is_wrong():
    case = next(c for c in CASES if "eq. 14" in c.why)
    confirm("fds:alpha=1", case.demands, case.capacities, case.after)
    s = [float(x) for x in in_shares(case, case.tasks)]
    b = [-float(c) * z**-0.5 * math.log(z) for c, z in zip(in_shares(case, [1, 1]), s, strict=True)]
    null = (1, -3)  # of the one full resource, (3, 1)
    printed = sum(x * y for x, y in zip(null, b, strict=True)) * -sum(null)  # v times det of the row -1's
    assert printed == pytest.approx(1.318, abs=1e-3)
    assert sum(case.after) < sum(case.tasks)


def test_total_falls_though_capacity_grows():
    case = next(c for c in CASES if c.breaks == "efficiency" and c.more)
    confirm(case.mechanism, case.demands, case.more, case.after)
    assert sum(case.after) < sum(case.tasks)


def test_coinciding_constraints_meet_the_sums_of_prop_7_and_are_not_equal():
    case = next(c for c in CASES if c.mechanism == "most-tasks")
    ratios = [[Fraction(d, c) for d, c in zip(row, case.capacities, strict=True)] for row in case.demands]
    assert len({sum(row[i] / max(row) for row in ratios) for i in range(2)}) == 1
    assert len({sum(row[i] for row in ratios) for i in range(2)}) == 1
    used = [sum(x * row[i] for x, row in zip(case.tasks, ratios, strict=True)) for i in range(2)]
    assert used == [1, 1] and case.tasks[0] != case.tasks[1]


# -- several servers -------------------------------------------------------------------------------------------------


def feasible_on(case, placed):
    return all(
        fits([row[s] for row in placed], case.demands, capacities) for s, capacities in enumerate(case.capacities)
    )


def test_drfh_gives_less_than_a_slice():
    case = SERVERS["drfh"]
    share = [Fraction(1, 3), Fraction(2, 3)]  # of the totals (3, 3)
    placed = [[Fraction(1, 3), Fraction(1)], [Fraction(2, 3), Fraction(0)]]
    assert feasible_on(case, placed) and tuple(map(sum, placed)) == case.tasks
    assert share[0] * case.tasks[0] == share[1] * case.tasks[1]
    # Both users' tasks take at least one unit of the two scarce ones together: resource 1 there, 2 here.
    scarce = [min(row) for row in case.demands]
    assert sum(s * x for s, x in zip(scarce, case.tasks, strict=True)) == case.capacities[0][0] + case.capacities[1][1]
    own = sum(runs([Fraction(c, 2) for c in capacities], case.demands[1]) for capacities in case.capacities)
    assert case.tasks[case.user] < own
    np.testing.assert_allclose(fo.DRF().allocate(case.instance).tasks, np.array(case.tasks, float), rtol=1e-6)


def test_drf_on_each_server_is_dominated():
    case = SERVERS["per-server:policy=drf"]
    answers = [leximin(case.demands, c, shares_of("drf", case.demands, c)[0]) for c in case.capacities]
    assert tuple(map(sum, zip(*answers, strict=True))) == case.tasks
    placed = [[Fraction(1), Fraction(1, 4)], [Fraction(0), Fraction(3, 4)]]
    assert feasible_on(case, placed) and tuple(map(sum, placed)) == case.instead
    assert all(map(Fraction.__ge__, case.instead, case.tasks)) and case.instead != case.tasks
    np.testing.assert_allclose(
        fo.policies.named_policy(case.mechanism).allocate(case.instance).tasks, np.array(case.tasks, float), rtol=1e-6
    )


def test_ps_dsf_is_dominated():
    case = SERVERS["ps-dsf"]
    placed = [[Fraction(1, 2), Fraction(0)], [Fraction(0), Fraction(2, 3)]]
    assert feasible_on(case, placed) and tuple(map(sum, placed)) == case.tasks
    for s, capacities in enumerate(case.capacities):  # every user meets a full resource, on which no share is larger
        virtual = [x / runs(capacities, row) for x, row in zip(case.tasks, case.demands, strict=True)]
        used = [sum(row[s] * d[i] for row, d in zip(placed, case.demands, strict=True)) for i in range(2)]
        assert any(map(Fraction.__eq__, used, map(Fraction, capacities)))  # which all need, since demands are positive
        assert all(virtual[k] <= v for v in virtual for k in range(2) if placed[k][s])
    better = [[Fraction(2, 5), Fraction(1, 5)], [Fraction(1, 5), Fraction(3, 5)]]
    assert feasible_on(case, better) and tuple(map(sum, better)) == case.instead
    assert all(map(Fraction.__gt__, case.instead, case.tasks))
    np.testing.assert_allclose(
        fo.policies.named_policy(case.mechanism).allocate(case.instance).tasks, np.array(case.tasks, float), rtol=1e-6
    )


# -- what stands, searched again: tests do a little, the numbers in the table were made by the same code -------------


def pools(seed, count, n, m, zeros):
    """Small integers, with or without zeros (every user needs something)."""
    rng = np.random.default_rng(seed)
    demands = rng.integers(1, 9, (count, n, m)).astype(float)
    if zeros:  # four in ten, but not a user's last one
        demands *= (rng.random((count, n, m)) < 0.6) | (np.arange(m) == rng.integers(m, size=(count, n, 1)))
    return demands, rng.integers(1, 13, (count, m)).astype(float)


def tasks_of(policy, demands, capacities, weights=None):
    return fo.allocate_many(policy, demands, capacities, weights=weights).tasks


def most(bundle, demands):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(demands > 0, bundle / demands, np.inf).min(axis=-1)


def wasteful(tasks, demands, capacities, weights):
    """How far a user is from a full resource: Pareto efficient exactly if every user meets one."""
    full = np.einsum("bj,bji->bi", tasks, demands) / capacities
    return 1 - np.where(demands > 0, full[:, None], 0).max(axis=2).min(axis=1)


def short(tasks, demands, capacities, weights):
    slices = weights / weights.sum(axis=1, keepdims=True)
    return 1 - (tasks / (slices * most(capacities[:, None], demands))).min(axis=1)


def envy(tasks, demands, capacities, weights):
    held = tasks[..., None] * demands / weights[..., None]
    return (most(held[:, None], demands[:, :, None]) / (tasks / weights)[..., None]).max(axis=(1, 2)) - 1


def lies(rng, truth, boost):
    """Reports of user 1, one of each family of lies."""
    count, m = truth.shape
    one = np.arange(m) == rng.integers(m, size=(count, 1))
    yield truth * (rng.uniform(1, 4, (count, 1)) if boost else rng.uniform(0.05, 4, (count, 1)))
    yield np.where(one, truth + rng.integers(1, 9, (count, 1)), truth)
    yield truth * rng.uniform(1, 1.5, (count, m))
    if not boost:
        yield np.where(one & (truth > 0), truth * rng.uniform(0.2, 1, (count, 1)), truth)
        yield rng.integers(1, 9, (count, m)).astype(float)
        yield truth * np.exp(rng.normal(0, 0.3, (count, m)))


def gain(policy, demands, capacities, weights, tasks, seed, boost):
    worst = np.full(len(demands), -np.inf)
    for report in lies(np.random.default_rng(seed), demands[:, 0], boost):
        lied = demands.copy()
        lied[:, 0] = report
        received = tasks_of(policy, lied, capacities, weights)[:, :1] * report
        worst = np.maximum(worst, most(received, demands[:, 0]) / tasks[:, 0] - 1)
    return worst


def below_bottleneck(tasks, demands, capacities, weights):
    """Where all have the same dominant resource: how much of it a user lacks."""
    ratios = demands / capacities[:, None]
    dominant = ratios.argmax(axis=2)
    lacks = 1 - (tasks * ratios.max(axis=2) / (weights / weights.sum(axis=1, keepdims=True))).min(axis=1)
    return np.where((dominant == dominant[:, :1]).all(axis=1), lacks, -np.inf)


def few_tasks(tasks, demands, capacities, weights):
    """Cor. 2 of Joe-Wong et al. 2013: at least 1 / max mu tasks."""
    return 1 - tasks.sum(axis=1) * (demands / capacities[:, None]).max(axis=(1, 2))


def runs_though_larger(tasks, demands, capacities, weights):
    """Cor. 5 of Joe-Wong et al. 2013: a user who needs more of everything than another runs nothing."""
    larger = (demands[:, :, None] > demands[:, None]).all(axis=3).any(axis=2)
    return np.where(larger, tasks, 0).max(axis=1)


MEASURES = {
    "pareto": wasteful,
    "sharing-incentive": short,
    "envy-free": envy,
    "bottleneck": below_bottleneck,
    "efficiency": few_tasks,
    "answer": runs_though_larger,
}


def undominated(demands, capacities, k):
    """Eq. 7, Jiang and Wu 2021: of two users each has, without one of its k ratios, a product at least the other's."""
    ratios = -np.sort(-demands / capacities[:, None], axis=2)[..., :k]
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = ratios.prod(axis=2, keepdims=True) / ratios
    pairs = itertools.permutations(range(demands.shape[1]), 2)
    return np.all([(rest[:, i] <= rest[:, j]).any(axis=1) for i, j in pairs], axis=0)


def worst(spec, name, count, seed, weighted=False, k=1):
    """The largest violation of a property on ``count`` instances, half of them with zeros; and how many they were."""
    policy, found, tried = fo.policies.named_policy(spec), -np.inf, 0
    shapes = [(2, 3), (3, 3)] if k > 1 and name == "envy-free" else [(2, 2), (3, 2), (3, 3), (4, 3)]
    for index, (n, m) in enumerate(shapes):
        for zeros in (False, True):
            demands, capacities = pools([seed, index, zeros], count // (2 * len(shapes)), n, m, zeros)
            if k > 1:  # users of fewer than k resources are refused
                kept = ((demands > 0).sum(axis=2) >= k).all(axis=1)
                kept &= undominated(demands, capacities, k) if name == "envy-free" else True
                demands, capacities = demands[kept], capacities[kept]
            weights = np.random.default_rng(seed).integers(1, 5, demands.shape[:2]) ** float(weighted)
            tasks = tasks_of(policy, demands, capacities, weights)
            if name.startswith("strategy-proof"):
                margin = gain(policy, demands, capacities, weights, tasks, seed, name.endswith("boosting"))
            elif name == "population-monotone":
                fewer = tasks_of(policy, demands[:, 1:], capacities, weights[:, 1:])
                alone = (demands > 0).all(axis=(1, 2))
                margin = np.where(alone, 1 - (fewer / tasks[:, 1:]).min(axis=1), -np.inf)
            else:
                margin = MEASURES[name](tasks, demands, capacities, weights)
            found, tried = max(found, margin.max(initial=-np.inf)), tried + int((margin > -np.inf).sum())
    return found, tried


FLAT = 1e-4  # what a certified gap of 1e-6 leaves open in tasks, where an optimum is flat
STANDING = [
    *(
        (spec, name, weighted, 1, 1e-9)
        for spec in ("drf",)
        for weighted in (False, True)
        for name in ("pareto", "sharing-incentive", "envy-free", "strategy-proof")
    ),
    ("drf", "population-monotone", False, 1, 1e-9),
    ("drf", "bottleneck", False, 1, 1e-9),
    ("gfj:alpha=2", "pareto", False, 1, FLAT),
    ("fds:alpha=0.5", "efficiency", False, 1, FLAT),
    ("most-tasks", "answer", False, 1, 1e-9),
    *((spec, name, False, k, 1e-9) for spec, k in (("kdf:k=2", 2), ("kdf:k=3", 3)) for name in ("pareto", "envy-free")),
    ("kdf:k=2", "strategy-proof-boosting", False, 2, 1e-9),
    *(
        (f"fds:alpha={alpha}", name, False, 1, FLAT)
        for alpha in (1, 1.1, 2, 5)
        for name in ("sharing-incentive", "envy-free")
    ),
    *((f"pnorm:p={p},alpha={alpha}", "envy-free", False, 1, FLAT) for p in (0.5, 1, 3) for alpha in (1, 2, 5)),
    *(("nash", name, False, 1, FLAT) for name in ("sharing-incentive", "envy-free", "pareto")),
]


@pytest.mark.parametrize(("spec", "name", "weighted", "k", "noise"), STANDING)
def test_what_stands_has_no_counterexample_in_a_short_search(spec, name, weighted, k, noise):
    found, tried = worst(spec, name, 500, seed=1, weighted=weighted, k=k)
    assert tried > 50
    assert found <= noise


REFUTED = [
    ("drf", "sharing-incentive", "fds:alpha=0.5"),
    ("drf", "envy-free", "fds:alpha=0.5"),
    ("drf", "strategy-proof", "nash"),
    ("nash", "sharing-incentive", "pnorm:p=1,alpha=2"),
    ("nash", "envy-free", "gfj:alpha=2"),
]


@pytest.mark.parametrize(("stands", "name", "falls"), REFUTED)
def test_the_same_search_finds_what_is_refuted(stands, name, falls):
    assert worst(stands, name, 2000, seed=2)[0] <= FLAT
    assert worst(falls, name, 2000, seed=2)[0] > 0.01


def drfh(demands, capacities):
    """Equal global dominant shares as a linear program: right for positive demands."""
    (n, m), servers = demands.shape, len(capacities)
    per_task = (demands / capacities.sum(axis=0)).max(axis=1)
    load = np.zeros((servers * m, n * servers + 1))
    equal = np.zeros((n, n * servers + 1))
    equal[:, -1] = -1
    for j, s in itertools.product(range(n), range(servers)):
        load[s * m : (s + 1) * m, j * servers + s] = demands[j]
        equal[j, j * servers + s] = per_task[j]
    found = linprog(-np.eye(n * servers + 1)[-1], load, capacities.ravel(), equal, np.zeros(n))
    return found.x[-1] / per_task


def best_lie_under_drfh(count, seed):
    rng, found = np.random.default_rng(seed), -np.inf
    for _ in range(count):
        demands, capacities = rng.integers(1, 9, (2, 2)).astype(float), rng.integers(1, 9, (2, 2)).astype(float)
        truth = drfh(demands, capacities)[0]
        for report in lies(rng, demands[:1], boost=False):
            tasks = drfh(np.vstack([report, demands[1:]]), capacities)[0]
            found = max(found, tasks * (report[0] / demands[0]).min() / truth - 1)
    return found


def test_no_lie_pays_under_drfh():
    demands, capacities = np.array([[1.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    np.testing.assert_allclose(drfh(demands, capacities), fo.DRF().allocate(fo.Instance(demands, capacities)).tasks)
    assert best_lie_under_drfh(40, seed=1) <= 1e-7


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_refutation_has_an_instance_or_an_argument():
    for claim in literature.claims():
        assert claim.cases or claim.argument, claim
        if claim.verdict == "refuted" and not claim.cases:
            assert "beta = 1" in claim.conditions, claim


def test_claims_that_must_be_there_are():
    listed = {(claim.paper, claim.where) for claim in literature.claims()}
    for paper, names in {
        "Jiang and Wu 2021": [f"Theorem {k}" for k in range(1, 5)],
        "Hamzeh et al. 2019": [f"Theorem {k}" for k in range(1, 5)],
        "Joe-Wong et al. 2013": [
            *(f"Prop. {k}" for k in (1, 3, 4, 5, 6, 7, 8)),
            *(f"Cor. {k}" for k in range(2, 7)),
            "Table I",
            "sec. VII",
        ],
        "Jiang and Wu 2018": ["slide"],
        "Hamzeh et al. 2021": ["sec. I"],
        "Ghodsi et al. 2011": ["sec. 3"],
        "Wang et al. 2014": ["abstract"],
    }.items():
        for name in names:
            assert any(p == paper and name in where for p, where in listed), (paper, name)


def test_verdicts_of_the_theorems():
    verdict = {(c.paper, c.where, c.property): c.verdict for c in literature.claims()}
    assert {
        verdict["Hamzeh et al. 2019", f"Theorem {k}", p]
        for k, p in enumerate(("envy-free", "sharing-incentive", "pareto", "strategy-proof"), 1)
    } == {"refuted"}
    assert verdict["Jiang and Wu 2021", "Theorem 2", "strategy-proof-boosting"] == "proved"
    assert verdict["Jiang and Wu 2021", "sec. 1.2, Def. 4, sec. 7", "strategy-proof"] == "refuted"


def test_instances_are_small():
    for case in CASES:
        flat = [*itertools.chain(*case.demands), *np.ravel(case.capacities)]
        assert len(case.demands) <= 3 and max(flat) <= 8, case


def test_every_mechanism_can_be_made_where_there_is_an_optimum():
    for claim in literature.claims():
        if claim.mechanism == "gfj:beta=2,lam=0.5":  # Prop. 3 as printed
            with pytest.raises(InvalidBlock, match="no optimum"):
                claim.make()
        else:
            assert hasattr(claim.make(), "allocate")


def test_claims_of_one_paper_by_key_in_any_case():
    assert {claim.paper for claim in literature.claims("drfh")} == {"Wang et al. 2014"}
    assert len(literature.claims()) == sum(len(literature.claims(paper)) for paper in literature.PAPERS)


def test_unknown_paper_is_refused_with_the_known_ones():
    with pytest.raises(InvalidBlock, match=r"'005'.*did you mean|'005'.*known"):
        literature.claims("005")


def test_a_claim_of_an_unknown_property_paper_or_verdict_is_refused():
    good = literature.claims("k-DF")[0]
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    for wrong in ({"paper": "005"}, {"property": "nice"}, {"verdict": "maybe"}):
        with pytest.raises(ValueError, match="unknown"):
            literature.Claim(**(fields | wrong))


def test_command_prints_tables_of_80_columns(run):
    code, out = run("claims")
    assert code == 0 and "Theorem 3" in out and "refuted" in out
    assert max(map(len, out.splitlines())) <= 80


def test_command_gives_reasons_for_one_paper(run):
    code, out = run("claims", "--paper", "slides")
    assert code == 0 and "slides" in out and "MLF-DRS" not in out and "No counterexample" in " ".join(out.split())


def test_command_gives_json(run):
    code, out = run("claims", "--paper", "k-DF", "--json")
    rows = json.loads(out)["claims"]
    lie = next(row for row in rows if row["property"] == "strategy-proof" and row["verdict"] == "refuted")
    assert code == 0
    assert lie["cases"][0]["misreport"] == [1, 1] and lie["cases"][0]["after"] == ["1/4"]


def test_command_refuses_an_unknown_paper(run):
    assert run("claims", "--paper", "999")[0] == 2


@pytest.fixture
def run(monkeypatch):
    from typer.testing import CliRunner

    import fairopt.cli.claims  # noqa: F401  (registers the command)
    from fairopt.cli.commands import app

    monkeypatch.setenv("COLUMNS", "80")

    def invoke(*arguments):
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.stdout

    return invoke
