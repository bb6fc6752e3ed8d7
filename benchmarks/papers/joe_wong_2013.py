"""Joe-Wong et al. (2013): FDS and GFJ, their examples and propositions. See `published` for what a row is.

Sections I to IV and VII; `joe_wong_2013_datacenter` has section V, `joe_wong_2013_survey` section VI.
Run: python benchmarks/papers/joe_wong_2013.py [--quick]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import joe_wong_2013_datacenter as datacenter
import joe_wong_2013_pictures as pictures
import joe_wong_2013_survey as survey
import numpy as np
from published import Paper, Row, Run, claim, main, number
from scipy.linalg import null_space

import fairopt as fo

EXAMPLE = fo.Instance([[2, 3], [2, 1]], [6, 4], resources=["memory", "CPU"])  # Fig. 1
SAME = 1e-6  # relative, as in `published`


def listed(values: Any) -> str:
    return ", ".join(f"{value:.5g}" for value in np.ravel(values))


def tasks(policy: fo.Policy, demands: Any, capacities: Any) -> Any:
    return policy.allocate(fo.Instance(demands, capacities)).tasks


def boundary(beta: Any) -> Any:
    return np.abs(1 - beta) / beta  # of Proposition 3


def f(shares: Any, beta: float, lam: float) -> float:
    """Equation 1."""
    s = np.asarray(shares, dtype=float)
    return float(np.sign(1 - beta) * np.sum((s / s.sum()) ** (1 - beta)) ** (1 / beta) * s.sum() ** lam)


def introduction(run: Run) -> Iterator[Row]:
    """The example of Fig. 1."""
    place, unequal = "Sec. I", np.array([0.17, 2.83])
    for what, printed, policy in (
        ("DRF", "0.76, 1.71, 2.47", fo.DRF()),
        ("alpha-fairness of dominant shares at 0.5", "0.57, 2.29, 2.86", fo.FDS(0.5)),
    ):
        x = policy.allocate(EXAMPLE).tasks
        yield number(place, f"{what}: tasks of users 1, 2, in total", printed, [*x, x.sum()])
    used, most = unequal @ EXAMPLE.demands, fo.MostTasks().allocate(EXAMPLE).tasks.sum()
    yield claim(
        place,
        "0.17 and 2.83 tasks are feasible, 3 in total",
        (used <= EXAMPLE.capacities[0] + 1e-9).all() and abs(unequal.sum() - 3) + abs(most - 3) < SAME,
        f"{listed(used)} of 6 GB and 4 CPUs; at most {most:.5g} tasks",
    )
    betas, lams = np.array([-4, -2, -0.5, 0.25, 0.5, 0.75, 1.5, 2, 5, 20]), np.linspace(-5, 5, 101)
    able = np.sign(1 - betas)[:, None] * lams >= 0
    worse = [
        fo.tradeoff.preferences.compatible(
            [(0.5, 2.5), unequal], [0, 1], family, betas=betas, lams=lams, instance=EXAMPLE
        )
        for family in ("fds", "gfj")
    ]
    yield claim(
        place,
        "0.17 and 2.83 tasks are a point of the trade-off",
        not all(p[able].all() for p in worse),
        f"(1/2, 5/2) has a larger f at all {able.sum()} points of FDS and GFJ",
        why="(1/2, 5/2) runs as many tasks and is more even.",
    )


def definitions(run: Run) -> Iterator[Row]:
    """Section III-B's example, and definition 4."""
    place, shares = "Sec. III-B", EXAMPLE.ratios[:, ::-1]
    for what, printed, values in (
        ("CPU and memory shares of a task of users 1, 2", "3/4, 1/3; 1/4, 1/3", shares),
        ("dominant shares of a task", "3/4, 1/3", shares.max(axis=1)),
    ):
        yield number(place, what, printed, [Fraction(share).limit_denominator(100) for share in values.ravel()])
    x = tasks(fo.DRF(), [[1, 4], [1, 4]], [9, 18])
    yield claim(
        "Def. 4",
        "users run max_i r_i / R_i tasks on r; without envy, more than on any other bundle",
        x[0] > x[1],
        f"identical users run {listed(x)} tasks under DRF and envy each other",
        why="It must be min for max, and >= for >.",
    )


def proposition_1(run: Run) -> Iterator[Row]:
    """Users alike up to size."""
    apart = []
    for n in (2, 10, 100, 1000, 10_000, 100_000):
        mu = np.random.default_rng(n).uniform(0.2, 2, n)
        instance = fo.Instance(np.outer(mu, [0.5, 1.25, 0.8]), [1.0] * 3)  # eta is 1.25
        wanted = [(policy, 1 / (1.25 * mu * n)) for policy in (fo.DRF(), fo.FDS(0.5), fo.FDS(beta=2, lam=-0.5))]
        wanted += [
            (fo.GFJ(beta=b, lam=(1 - b) / b), mu ** (-1 / b) / (1.25 * np.sum(mu ** (1 - 1 / b)))) for b in (0.5, 2.0)
        ]
        apart += [np.abs(policy.allocate(instance).tasks / printed - 1).max() for policy, printed in wanted]
    yield claim(
        "Prop. 1",
        "x_j of DRF, FDS, and GFJ on the boundary, for 2 to 100,000 users",
        max(apart) < SAME,
        f"{np.sum(np.less(apart, SAME))} of {len(apart)} allocations agree to a relative {SAME:g}",
    )
    best, formula = tasks(fo.GFJ(beta=0.5, lam=2), [[1], [4]], [1]), [4 / 5, 1 / 20]
    yield claim(
        "Prop. 1",
        "x_j of GFJ for any lambda, as on the boundary",
        np.abs(best - formula).max() < SAME,
        f"demands 1, 4, capacity 1, beta = 1/2, lambda = 2: f = {f(best, 0.5, 2):.5g}; formula: "
        f"f = {f(formula, 0.5, 2):.5g}",
        why="Right on the boundary only.",
    )


def corollary_1(run: Run) -> Iterator[Row]:
    """Derivatives of the number of tasks by dominant shares of a task, on one resource."""
    mu, step, beta = np.array([0.3, 0.5, 0.9]), 1e-4, 2.0

    def slopes(policy: fo.Policy) -> Any:
        moved = [[tasks(policy, (mu + way * unit)[:, None], [1]).sum() for way in (1, -1)] for unit in step * np.eye(3)]
        return -np.diff(moved, axis=1)[:, 0] / (2 * step)

    found = [slopes(policy) for policy in (fo.FDS(2), fo.DRF(), fo.GFJ(2))]
    yield claim(
        "Cor. 1",
        "DRF, FDS: dX / d mu_j = -1 / (n eta mu_j^2), largest for the smallest mu",
        np.allclose(found[:2], -1 / (3 * mu**2), rtol=1e-5),
        listed(found[0]),
    )
    first = -(mu ** (-1 - 1 / beta)) / (beta * np.sum(mu ** (1 - 1 / beta)))
    second = (1 - beta) * mu ** (-1 / beta) * np.sum(mu ** (-1 / beta)) / beta
    x = tasks(fo.GFJ(2), mu[:, None], [1])
    printed, meant = (first + second / np.sum(of ** (1 - 1 / beta)) ** 2 for of in (x, mu))
    yield claim(
        "Cor. 1",
        "GFJ: dX / d mu_j, with x in the last denominator",
        np.allclose(found[2], printed, rtol=1e-5),
        f"{listed(found[2])}; as printed {listed(printed)}; with mu {listed(meant)}",
        why="It must be mu for x.",
    )


def proposition_2(run: Run) -> Iterator[Row]:
    """Many users whose needs are uniform, at beta = infinity and lambda = -1: max-min."""
    m, users, ratios = 4, (2, 10, 100, 1000, 10_000, 100_000), []

    def levels(n: int, m: int, seed: int) -> list[float]:
        crowd = fo.Instance(np.random.default_rng((n, seed)).uniform(0, 1, (n, m)), [1.0] * m)
        return [fo.Policy(fo.MaxMin(share)).allocate(crowd).shares.min() for share in (fo.DominantShare(), fo.Tasks())]

    for n in users:
        limits = [2 * m / (n * (m + 1)), 2 / (math.sqrt(m * n / 3) + n), 2 / n]
        ratios.append(np.array([levels(n, m, seed) for seed in range(20)])[:, [0, 1, 1]] / limits)
    means = np.array([ratio.mean(axis=0) for ratio in ratios])
    yield claim(
        "Prop. 2",
        "more users are closer to the limits: 10, 100, 1,000, 10,000, 100,000",
        (np.diff(abs(means - 1), axis=0) < 0).all(),
        f"dominant shares {listed(means[1:, 0])}; tasks {listed(means[1:, 1])}",
        reading="Means of 20 draws, relative to the limits.",
    )
    for k, equation in enumerate(("10", "11")):
        itself = float(np.mean(-1 / ratios[-1][:, k]))
        yield claim(
            f"Eq. {equation}",
            "(max f)^-1 times a scale tends to 1",
            abs(limits[k] ** 2 / itself - 1) < 0.1,
            f"it tends to 0; with max f it is {itself:.4f} for 100,000 users",
            why="It must be max f, and the limit is -1.",
        )
    by_m = 1000 * np.mean([[levels(1000, m, seed) for m in (2, 4, 8, 16)] for seed in range(5)], axis=0).T
    yield claim(
        "Prop. 2",
        "with more resources FDS increases and GFJ decreases",
        (np.diff(by_m[0]) > 0).all() and (np.diff(by_m[1]) < 0).all(),
        f"1,000 users on 2, 4, 8, 16: {listed(by_m[0])}; {listed(by_m[1])}",
    )
    if run.draws:
        run.save(
            pictures.proposition_2(users, ratios),
            "prop-2",
            "Prop. 2: distance of n users from the limits on 4 resources; it falls as 1 / sqrt(n).",
        )


def proposition_3(run: Run) -> Iterator[Row]:
    """Which points (beta, lambda) are Pareto-efficient: f rises with the tasks of one of n users."""
    betas, lams, least = np.delete(np.linspace(0.125, 5, 40), 7), np.linspace(-3, 3, 61), {}  # without beta = 1
    lower, upper = np.full(len(betas), -np.inf), np.full(len(betas), np.inf)
    for n in (2, 10, 100, 10_000):
        for t in (1.0, 2.0, 10.0, 100.0, 1e3, 1e4, 1e6):
            more, less = (np.append(np.ones(n - 1), end) for end in (1.1 * t, t))
            ends = fo.tradeoff.preferences.intervals([more, less], [0, 1], "gfj", betas=betas)
            lower, upper = np.maximum(lower, ends[0]), np.minimum(upper, ends[1])
        least[n] = np.where(betas < 1, lower, -upper) / boundary(betas)
    rises, side = (lower[:, None] < lams + SAME) & (lams < upper[:, None] + SAME), np.sign(1 - betas)[:, None]
    beyond, signed = (emphasis >= boundary(betas)[:, None] - 1e-9 for emphasis in (np.abs(lams), lams * side))
    yield claim(
        "Prop. 3",
        "f is Pareto-efficient if |lambda| >= |1 - beta| / beta",
        rises[beyond].all(),
        f"not at {(beyond & ~rises).sum()} of {beyond.sum()} points",
        why="The sign counts: if l = lambda sgn(1 - beta) < 0, f falls as all tasks grow.",
    )
    yield claim(
        "Prop. 3",
        "f is Pareto-efficient if lambda sgn(1 - beta) >= |1 - beta| / beta",
        rises[signed].all(),
        f"at all {signed.sum()} points, for 2 to 10,000 users",
    )
    parts = [float(np.interp(0.5, betas, least[n])) for n in least]
    yield claim(
        "Prop. 3",
        "f is Pareto-efficient only then",
        min(least[10_000][betas >= 0.5]) > 0.95,
        f"f may fall below {listed(parts)} of the boundary for 2, 10, 100, 10,000 users (beta = 1/2)",
        reading="For all n.",
    )
    below, at = (fo.GFJ(beta=2, lam=lam).allocate(fo.Instance(np.eye(2), [1, 4])) for lam in (-0.25, -0.5))
    yield claim(
        "Prop. 3",
        "an optimum below the boundary may be dominated, one on it is not",
        not fo.check(below)["pareto"].holds and fo.check(at)["pareto"].holds,
        f"GFJ at beta = 2, separate resources of 1 and 4: {listed(below.tasks)} at lambda = -1/4, {listed(at.tasks)} "
        "at -1/2",
    )
    if run.draws:
        run.save(
            pictures.proposition_3(betas, lams, rises, boundary),
            "prop-3",
            "Prop. 3: where f rises with every user's tasks, for 2 to 10,000 users; lines: the printed condition.",
        )


def table_1(run: Run) -> Iterator[Row]:
    """Fig. 4 and Table I by region, on a few instances; `fairopt claims` has the proofs."""
    one, wants = ([[1], [4]], [1]), ("sharing-incentive", "envy-free")
    three = ([[1, 3], [2, 1]], [1, 2]), ([[1, 1], [1, 0], [0, 1]], [1, 1]), ([[1, 0], [1, 0], [1, 2]], [2, 2])
    for region, words, policy, *systems in (
        ("FDS, on the boundary, 0 < beta < 1", "may fail", fo.FDS(0.5), three[0]),
        ("FDS, on the boundary, beta > 1", "hold", fo.FDS(2), *three),
        ("FDS, lambda = 0", "hold", fo.FDS(beta=2, lam=0), *three),
        ("FDS, |lambda| large", "may fail", fo.FDS(beta=2, lam=-3), *three[1:]),
        ("GFJ, on the boundary, beta > 0, not 1", "may fail", fo.GFJ(2), one),
        ("GFJ, on the boundary, beta = 1 (limit)", "may fail", fo.GFJ(1), one),
        ("GFJ, beyond the boundary, 0 < beta < 1", "may fail", fo.GFJ(beta=0.5, lam=2), one),
        ("GFJ, below the boundary, beta > 1", "may fail", fo.GFJ(beta=2, lam=-0.25), one),
        ("GFJ, |lambda| large", "may fail", fo.GFJ(beta=2, lam=-2), one),
        ("GFJ, lambda = 0", "may fail", fo.GFJ(beta=2, lam=0), one),
    ):
        found = [policy.allocate(fo.Instance(*system)) for system in systems]
        fails = [any(not fo.check(a)[of].holds for a in found) for of in wants]
        holds = all(fails) if words == "may fail" else not any(fails)
        shares = "; ".join(listed(a.share(fo.DominantShare())) for a in found)
        yield claim(
            "Table I",
            f"{region}: SI, EF {words}",
            holds,
            shares,
            why="" if holds else "Both hold: the limit is Nash welfare.",
        )


def proposition_6(run: Run) -> Iterator[Row]:
    """How the number of tasks changes with alpha, and with capacities."""
    rng, step, alpha, found = np.random.default_rng(0), 1e-4, 0.5, []
    systems = [EXAMPLE, *(fo.Instance(rng.integers(1, 9, (4, 2)), [20, 20]) for _ in range(40))]
    for system in systems:
        a, c = fo.FDS(alpha).allocate(system), system.ratios.max(axis=1)
        s = null_space(system.demands[:, a.leftover[0] < SAME].T)
        curved = s.T * (alpha * c ** (1 - alpha) * a.tasks ** (-1 - alpha)) @ s  # A
        v, row = -s.T @ (c ** (1 - alpha) * a.tasks**-alpha * np.log(c * a.tasks)), np.arange(s.shape[1])[:, None]
        ends = [fo.FDS(alpha + way * step).allocate(system).tasks.sum() for way in (1, -1)]
        eq_14 = sum(x * np.linalg.det(np.where(row == i, -s.sum(axis=0), curved)) for i, x in enumerate(v))
        found.append(((ends[0] - ends[1]) / (2 * step), s.sum(axis=0) @ np.linalg.solve(curved, v), eq_14))
    slope, eq_12, eq_14 = np.array(found).T
    yield claim(
        "Eq. 12",
        "derivative of the number of tasks by alpha",
        np.allclose(slope, eq_12, 1e-3, SAME),
        f"equal to finite differences on {len(systems)} systems",
    )
    signs = (slope * eq_14)[np.abs(slope) > SAME]
    yield claim(
        "Eq. 14",
        "tasks increase with alpha if and only if a sum is nonnegative",
        signs.min() > 0,
        f"opposite sign on {(signs < 0).sum()} of {len(signs)} systems",
        why="The sign is wrong: by Cramer's rule eq. 12 is minus the sum over det A > 0.",
    )
    totals = [tasks(fo.FDS(at), [[2, 1], [4, 3]], [6, 4]).sum() for at in (0.5, 1, 2)]
    yield claim(
        "Prop. 6",
        "tasks may increase with alpha",
        (np.diff(totals) > 0).all(),
        f"FDS, demands (2, 1), (4, 3), capacities (6, 4): {listed(totals)} at alpha = 1/2, 1, 2",
    )
    three, seven = [[4, 2], [7, 7], [2, 1]], [[3, 1], [9, 8]]
    inverse, r = tasks(fo.GFJ(2), three, [7, 5]) ** 3 / 2, np.transpose(three)  # of D; both resources are full
    eq_13 = inverse @ r.T @ np.linalg.inv(r * inverse @ r.T)
    slope = [
        np.subtract(*(tasks(fo.GFJ(2), three, [7, 5] + way * step * unit).sum() for way in (1, -1))) / (2 * step)
        for unit in np.eye(2)
    ]
    yield claim(
        "Eq. 13",
        "derivative of GFJ by capacities",
        np.allclose(slope, eq_13, rtol=1e-3),
        f"{listed(slope)} by finite differences and by eq. 13",
    )
    fds, drf = ([tasks(policy, seven, size).sum() for size in ([8, 6], [8, 7])] for policy in (fo.FDS(4), fo.DRF()))
    told = "demands (3, 1), (9, 8), capacities (8, 6) and (8, 7)"
    yield claim(
        "Eq. 13",
        "derivative of FDS by capacities",
        abs(fds[1] - fds[0]) < SAME,
        f"{told}: {listed(fds)}",
        why="Dominant shares are relative to capacity; eq. 13 gives 0.",
    )
    yield claim(
        "Prop. 6",
        "with one tight constraint tasks increase with capacity",
        drf[1] >= drf[0],
        f"{told}: {listed(drf)}",
        why="Only with share coefficients held constant.",
    )
    totals = [tasks(fo.GFJ(2), three, [7, size]).sum() for size in (5, 5.5)]
    yield claim(
        "Prop. 6",
        "tasks may decrease as capacity grows",
        totals[1] < totals[0],
        f"GFJ at alpha = 2, demands (4, 2), (7, 7), (2, 1), capacities (7, 5), (7, 5.5): {listed(totals)}",
    )
    grown = [
        np.divide(*(tasks(policy, three, [7 * k, 5 * k]).sum() for k in (1.1, 1)))
        for policy in (fo.DRF(), fo.FDS(2), fo.GFJ(2))
    ]
    yield claim(
        "Prop. 6",
        "tasks do not fall if all capacities grow in proportion",
        min(grown) >= 1,
        f"{listed(grown)} times under DRF, FDS, GFJ with 1.1 times the capacity",
    )


def propositions_7_and_8(run: Run) -> Iterator[Row]:
    """Where the most tasks and equal shares go together."""
    rng, many = np.random.default_rng(0), 150 if run.full else 12
    for share, name, equation in ((fo.DominantShare(), "dominant shares", 15), (fo.Tasks(), "numbers of tasks", 16)):
        tried = [([[1, 2], [2, 1]], [3, 3])]
        tried += [(rng.integers(1, 4, (2, 2)), rng.integers(3, 6, 2)) for _ in range(many)]
        found = [fo.tradeoff.no_tradeoff(fo.Instance(*s), share) for s in tried if np.linalg.matrix_rank(s[0]) == 2]
        held, even = np.array([(a.condition, np.ptp(a.most_tasks.share(share)) < SAME) for a in found if a.square]).T
        words = "if" if equation == 16 else "if and only if"
        yield claim(
            "Prop. 7",
            f"most tasks: equal {name} {words} the sums of eq. {equation} are equal",
            (held == even).all(),
            f"on {len(held)} systems of 2 users; both equal on {(held & even).sum()}",
            sampled=True,
        )
    a = fo.tradeoff.no_tradeoff(fo.Instance([[1, 1], [2, 2]], [1, 1]))
    yield claim(
        "Prop. 7",
        "equal shares if the sums of eq. 15 are equal, for dependent tight constraints",
        a.holds == a.condition,
        f"demands (1, 1), (2, 2), capacities (1, 1): most tasks {listed(a.most_tasks.tasks)}; equal shares run "
        f"{a.equal.tasks.sum():g}",
        why="Constraints must be independent.",
    )
    for words, demands, capacities in (
        ("two resources: equal tasks most efficient if all sigma_j are equal", [[4, 4], [1, 1]], [5, 5]),
        ("two users: equal tasks most efficient if sum tau_i R_i2 = sum R_i2", [[1, 4], [3, 2]], [6, 6]),
    ):
        a = fo.tradeoff.no_tradeoff(fo.Instance(demands, capacities), fo.Tasks())
        yield claim(
            "After Prop. 7",
            words,
            a.holds,
            f"demands {demands}, capacities {capacities}: {listed(a.most_tasks.tasks)} tasks",
            why="By eq. 16 the sums over users must be equal.",
        )
    demands = rng.uniform(1, 9, (1000, 4, 2))
    x = fo.allocate_many(fo.MostTasks(), demands, [20, 20]).tasks
    yield claim(
        "Prop. 8",
        "with fewer than n tight constraints and one optimum, a user runs no tasks",
        x.min(axis=1).max() < SAME,
        "on 1,000 of 1,000 random systems",
    )
    above = (demands[:, :, None] > demands[:, None]).all(axis=3).any(axis=2)
    yield claim(
        "Cor. 5",
        "a user who needs more of everything than another runs no tasks",
        x[above].max() < SAME,
        f"{above.sum():,} such users",
        sampled=True,
    )
    alike, apart = (fo.tradeoff.no_tradeoff(fo.Instance(needs, [2])) for needs in ([[1], [1]], [[1], [2]]))
    yield claim(
        "Cor. 6",
        "one resource: most tasks have equal shares if and only if demands are equal",
        alike.always and not apart.holds,
        f"equal demands: equal shares run {alike.equal.tasks.sum():g} tasks, as do {listed(alike.most_tasks.tasks)}",
        why="Other allocations run as many.",
    )


def equation_19(run: Run) -> Iterator[Row]:
    """FDS and GFJ as the ends of p-norms, at alpha = 2."""
    ends = {p: fo.PNormFairness(p, 2).allocate(EXAMPLE) for p in (0.01, 1, 200, np.inf)}
    fds, gfj = (family(2).allocate(EXAMPLE).tasks for family in (fo.FDS, fo.GFJ))
    yield claim(
        "Eq. 19",
        "p = infinity is FDS",
        all(np.allclose(ends[p].tasks, fds, rtol=1e-2) for p in (200, np.inf)),
        f"{listed(ends[np.inf].tasks)} and {listed(fds)} tasks",
    )
    raw = fo.Instance(EXAMPLE.demands, [6, 4], weights=EXAMPLE.demands.max(axis=1) ** -0.5)
    x = fo.GFJ(2).allocate(raw).tasks  # 2-fairness of c x is that of x with weights c^(-1/2)
    yield claim(
        "Eq. 19",
        "p = infinity is FDS, with R as printed",
        np.allclose(x, fds),
        f"{listed(x)} and {listed(fds)} tasks",
        why="FDS uses shares of capacity, not units.",
    )
    yield claim(
        "Eq. 19",
        "p = 0 is GFJ",
        np.allclose(ends[0.01].tasks, gfj, rtol=1e-2),
        f"{listed(ends[0.01].tasks)} tasks at p = 0.01, {listed(gfj)} under GFJ",
        why="As p falls to 0 norms tend to geometric means, which differ by user.",
    )
    parts = [ends[1].shares.sum(), (ends[1].tasks @ EXAMPLE.ratios).sum()]
    yield claim(
        "Eq. 19",
        "p = 1 is the total use of resources",
        abs(parts[0] - parts[1]) < SAME,
        f"shares and use both add up to {parts[0]:.5g}",
    )


EXPERIMENTS = (
    introduction,
    definitions,
    proposition_1,
    corollary_1,
    proposition_2,
    proposition_3,
    table_1,
    proposition_6,
    propositions_7_and_8,
    *datacenter.EXPERIMENTS,
    *survey.EXPERIMENTS,
    equation_19,
)
NOTE = (
    "The paper calls tasks jobs. The *boundary* is lambda = (1 - beta) / beta, where f is alpha-fairness; points above "
    "and below it are ordered by the *emphasis* on efficiency, lambda sgn(1 - beta). SI is sharing incentive, EF "
    "envy-freeness; Table I is checked by dominant shares on small systems."
)
PAPER = Paper("joe-wong-2013", "Joe-Wong et al. (2013)", "FDS and GFJ", EXPERIMENTS, NOTE)

if __name__ == "__main__":
    main(PAPER)
