"""Leximin of teams and of what is above a base, against exact fractions, and the proof of its levels."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from oracle.exact_cluster import Cluster
from oracle.exact_lp import leximin
from oracle.instances import cluster

import fairopt as fo
from fairopt.blocks.rows import Rows
from fairopt.errors import InvalidBlock
from fairopt.proof import gate
from fairopt.proof.dual import Dual
from fairopt.proof.entries import Named
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.evidence.number_levels import NumberLevels
from fairopt.proof.number_level_bounds import bottleneck_duals, judge_number_levels
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program
from fairopt.solve.numbers import columns
from fairopt.solve.numbers import leximin as method
from fairopt.solve.settings import Settings

SEEDS = range(10)


def drawn(seed: int, servers: int) -> fo.Instance:
    """Small integers, teams within orgs, and limits for some users."""
    rng = np.random.default_rng(seed)
    instance = cluster(rng, int(rng.integers(2, 7)), servers, int(rng.integers(1, 4)))
    team = rng.integers(0, max(instance.n_users // 2, 1), instance.n_users)
    labels = {"team": [f"t{k}" for k in team], "org": [f"o{k % 2}" for k in team]}
    return instance.replace(teams=labels)


def exact_of(instance: fo.Instance) -> Cluster:
    return Cluster(
        instance.demands,
        instance.capacities,
        instance.weights,
        instance.task_limits.tolist(),
        instance.eligible,
        instance.counts,
    )


def summed(instance, exact, forms, by):
    """Forms of teams, the sums of those of their members."""
    teams = instance.teams.labelling(by)
    return [
        [
            sum(column, Fraction(0))
            for column in zip(*(forms[j] for j in np.flatnonzero(teams.of_user == t)), strict=True)
        ]
        for t in range(len(teams.names))
    ]


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_totals_of_teams_and_the_split_inside_are_exact(seed, servers):
    instance = drawn(seed, servers)
    exact = exact_of(instance)
    forms = exact.forms(exact.dominant(), per_weight=False)
    totals = summed(instance, exact, forms, "team")
    best = leximin(totals, exact.rows)
    answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(instance)
    np.testing.assert_allclose(answer.share(fo.OfTeam()), [float(v) for v in best], rtol=1e-8)
    assert "leximin of the members' DominantShare() given the totals" in answer.certificate.note
    inside = leximin(exact.forms(exact.dominant()), exact.rows, list(zip(totals, best, strict=True)))
    shares = answer.share(fo.DominantShare()) / instance.weights
    np.testing.assert_allclose(shares, [float(v) for v in inside], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_orgs_come_before_their_teams(seed, servers):
    instance = drawn(seed, servers)
    exact = exact_of(instance)
    forms = exact.forms(exact.dominant(), per_weight=False)
    orgs, teams = (summed(instance, exact, forms, by) for by in ("org", "team"))
    best = leximin(orgs, exact.rows)
    within = leximin(teams, exact.rows, list(zip(orgs, best, strict=True)))
    policy = fo.Policy(fo.Leximin(fo.OfTeam(by="org")).then(fo.Leximin(fo.OfTeam())))
    answer = policy.allocate(instance)
    np.testing.assert_allclose(answer.share(fo.OfTeam(by="org")), [float(v) for v in best], rtol=1e-6)
    np.testing.assert_allclose(answer.share(fo.OfTeam()), [float(v) for v in within], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_surplus_of_users_is_exact(seed, servers):
    instance = drawn(seed, servers)
    plain = fo.Policy(fo.MaxMin(fo.Tasks())).allocate(instance)
    base = np.minimum(np.floor(16 * plain.tasks / 3) / 16, instance.task_limits)  # a third fits, in few digits
    exact = exact_of(instance)
    forms = exact.forms(exact.dominant())
    at_base = [Fraction(float(b)) * Fraction(f) for b, f in zip(base, map(max, forms), strict=True)]
    kept = [([Fraction(-(k == j)) for k, _ in exact.pairs], -Fraction(float(b))) for j, b in enumerate(base) if b]
    longer = [[*form, -b] for form, b in zip(forms, at_base, strict=True)]  # one more unknown, equal to 1
    rows = [([*row, Fraction(0)], value) for row, value in [*exact.rows, *kept]]
    one = [([Fraction(0)] * len(exact.pairs) + [Fraction(1)], Fraction(1))]
    best = leximin(longer, rows, one)
    answer = fo.Policy(fo.Leximin(fo.Surplus(base=base))).allocate(instance)
    surplus = answer.share(fo.DominantShare()) / instance.weights - [float(b) for b in at_base]
    np.testing.assert_allclose(surplus, [float(v) for v in best], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_objectives_of_teams_are_the_flat_programs_written_by_hand(seed):
    instance = drawn(seed, 1 + 2 * (seed % 2))
    w = np.array([1.0 + t for t in range(len(instance.teams.labelling("team").names))])
    weights = dict(zip(instance.teams.labelling("team").names, w.tolist(), strict=True))
    x = cp.Variable(instance.eligible.shape, nonneg=True)
    conditions = [x[~instance.eligible] == 0] if not instance.eligible.all() else []
    for s, q in enumerate(instance.counts):
        conditions.append(x[:, s] @ instance.demands <= q * instance.capacities[s])
    tasks, limited = cp.sum(x, axis=1), np.flatnonzero(np.isfinite(instance.task_limits))
    if len(limited):
        conditions.append(tasks[limited] <= instance.task_limits[limited])
    member = np.equal.outer(np.arange(len(w)), instance.teams.labelling("team").of_user).astype(float)
    z = cp.multiply(1 / w, member @ cp.multiply(instance.dominant_shares, tasks))
    team, v = fo.OfTeam(weights=weights), [3.0, 2.0, 1.0][: len(w)]
    steps = [a - b for a, b in zip(v, [*v[1:], 0.0], strict=True)]
    ordered = steps[-1] * cp.sum(z) if len(v) == len(w) else steps[-1] * cp.sum_smallest(z, len(v))
    ordered += sum(step * cp.sum_smallest(z, k + 1) for k, step in enumerate(steps[:-1]))
    for objective, value in (
        (fo.AlphaFair(1, team), w @ cp.log(z)),
        (fo.AlphaFair(0.5, team), w @ cp.power(z, 0.5) / 0.5),
        (fo.MaxMin(team), cp.min(z)),
        (fo.Total(team), w @ z),
        (fo.OrderedWeighted(v, team), ordered),
    ):
        best = cp.Problem(cp.Maximize(value), conditions).solve(solver="CLARABEL")
        answer = fo.Policy(objective).allocate(instance)
        assert answer.certificate.ok
        assert answer.objective == pytest.approx(best, rel=1e-5, abs=1e-5)


def test_gaps_and_weights_of_over_quota_resources():
    queues = fo.Instance([[1], [1]], [8], weights=[1, 3], guarantees=[2, 2], task_limits=6)
    assert fo.Policy(fo.Leximin(fo.Surplus())).allocate(queues).tasks == pytest.approx([3, 5])
    assert fo.Policy(fo.Leximin()).allocate(queues).tasks == pytest.approx([2, 6])


def test_user_that_cannot_rise_above_its_base_stays_there_and_the_others_rise():
    base = [5, 0, 0]  # user 0 holds all of resource 0, which user 1 needs too
    full = fo.Instance([[1, 0], [1, 1], [0, 1]], [5, 6])
    answer = fo.Policy(fo.Leximin(fo.Surplus(base=base))).allocate(full)
    assert answer.tasks == pytest.approx([5, 0, 6])
    assert answer.certificate.ok


def test_members_share_a_total_by_their_weights():
    team = fo.Instance([[1], [1], [1]], [9], weights=[1, 3, 5], teams={"team": ["a", "a", "b"]})
    assert fo.Policy(fo.Leximin(fo.OfTeam())).allocate(team).tasks == pytest.approx([1.125, 3.375, 4.5])


def test_member_that_costs_more_gets_nothing():
    team = fo.Instance([[1, 1], [1, 0], [0, 1]], [6, 6], teams={"team": ["a", "a", "b"]})
    for objective in (fo.Leximin(fo.OfTeam()), fo.AlphaFair(2, fo.OfTeam())):
        answer = fo.Policy(objective).allocate(team)
        assert answer.tasks == pytest.approx([0, 6, 6], abs=1e-9)


def test_later_tier_decides_the_split():
    kinds = fo.Instance([[1, 1], [1, 0], [1, 0]], [8, 3], teams={"team": ["a", "a", "b"]})
    second = fo.Total(fo.ResourceShare("resource2"))
    answer = fo.Policy(fo.Leximin(fo.OfTeam(fo.Tasks())).then(second)).allocate(kinds)
    assert answer.tasks == pytest.approx([3, 1, 4], rel=1e-6)
    assert answer.certificate.note == ""


def test_leximin_of_teams_after_a_curved_tier_keeps_the_totals_of_that_tier():
    instance = drawn(5, 3)
    orgs = fo.AlphaFair(2, fo.OfTeam(by="org"))
    alone, then = (fo.Policy(o).allocate(instance) for o in (orgs, orgs.then(fo.Leximin(fo.OfTeam()))))
    assert then.certificate.ok
    np.testing.assert_allclose(then.share(fo.OfTeam(by="org")), alone.share(fo.OfTeam(by="org")), rtol=1e-5)
    assert min(then.share(fo.OfTeam())) >= min(alone.share(fo.OfTeam())) * (1 - 1e-5)


def test_columns_are_added_until_prices_prove_the_answer(monkeypatch):
    rng = np.random.default_rng(3)
    n = 400
    demands = rng.uniform(0.1, 2, (n, 3)) * (rng.random((n, 3)) < 0.7)
    demands[:, 0] += ~demands.any(axis=1)
    teams = {"team": [f"t{k}" for k in rng.integers(0, 12, n)]}
    limits = np.where(rng.random(n) < 0.7, rng.uniform(0.1, 2, n), np.inf)
    pool = fo.Instance(demands, [60, 60, 60], task_limits=limits, teams=teams)
    policy = fo.Policy(fo.Leximin(fo.OfTeam()))
    whole = policy.allocate(pool)
    monkeypatch.setattr(method, "MANY", 10)
    monkeypatch.setattr(columns, "SAMPLE", 50)
    by_columns = policy.allocate(pool)
    assert by_columns.certificate.gap < 1e-9
    np.testing.assert_allclose(by_columns.share(fo.OfTeam()), whole.share(fo.OfTeam()), rtol=1e-9)
    np.testing.assert_allclose(by_columns.tasks, whole.tasks, rtol=1e-6, atol=1e-7)


def proved(instance: fo.Instance):
    """A program, its optimal tasks by pair and the evidence."""
    program = Program(instance, fo.Leximin(fo.OfTeam()), ())
    (proposal,) = method.solve_leximin_of_numbers(program, Settings())
    assert isinstance(proposal.evidence, NumberLevels)
    return program, proposal.tasks, proposal.evidence


@pytest.mark.parametrize("seed", range(8))
def test_wrong_evidence_only_weakens(seed):
    program, tasks, evidence = proved(drawn(seed, 1 + 2 * (seed % 2)))
    rng = np.random.default_rng(seed)
    right = gate.judge(program, Proposal("levels", tasks, evidence)).gap
    assert right < 1e-9
    for _ in range(10):
        noise = [
            replace(
                dual,
                prices=dual.prices * rng.uniform(0.9, 1.1, dual.prices.shape),
                mixtures=[dual.of_numbers * rng.uniform(0.9, 1.1, dual.of_numbers.shape)],
            )
            for dual in evidence.duals
        ]
        for duals in (noise, evidence.duals[1:], [replace(d, prices=0 * d.prices) for d in evidence.duals]):
            worse = gate.judge(program, Proposal("levels", tasks, replace(evidence, duals=duals)))
            assert worse.gap >= right or worse.gap < 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_worse_points_are_not_proved_by_any_evidence(seed):
    program, tasks, evidence = proved(drawn(seed, 1 + 2 * (seed % 2)))
    for factor in (1 - 1e-4, 0.9):
        gap = judge_number_levels(program, evidence.duals, factor * tasks)[0]
        assert gap >= (1 - factor) * 0.99


def test_prices_of_a_capacity_that_a_number_does_not_need_do_not_excuse_its_rise():
    demands, names = [[1, 0], [1, 0], [0, 1], [0, 1]], ["a", "b", "c", "d"]
    apart = fo.Instance(demands, [8, 4], teams={"team": names})  # the first two could run four tasks each
    program = Program(apart, fo.Leximin(fo.OfTeam(fo.Tasks())), ())
    prices, paid = np.array([1.0, 1e9]), np.array([1 / 8, 1 / 8, 1e9 / 4, 1e9 / 4])
    lopsided = Dual(prices, mixtures=[paid], fixed=np.arange(4))
    assert judge_number_levels(program, [lopsided], np.full(4, 2.0))[0] >= 1
    (proposal,) = method.solve_leximin_of_numbers(program, Settings())
    assert proposal.tasks == pytest.approx([4, 4, 2, 2])


def test_evidence_survives_its_entry():
    program, tasks, evidence = proved(drawn(1, 3))
    again = restored(program, evidence.entry(program, tasks, Named()), None)
    gaps = [gate.judge(program, Proposal("levels", tasks, one)).gap for one in (evidence, again)]
    assert gaps[0] < 1e-9 and gaps[1] < 1e-9


def test_answers_are_saved_and_judged_again(tmp_path):
    answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(drawn(2, 3))
    answer.save(tmp_path / "answer.json")
    again = fo.Allocation.load(tmp_path / "answer.json")
    assert again.certificate.gap < 1e-9
    assert again.certificate.note == answer.certificate.note


def test_other_methods_and_curved_constraints_are_refused():
    instance = drawn(0, 1)
    for options in ({"method": "cone"}, {"solver": "CLARABEL"}):
        with pytest.raises(InvalidBlock, match="by levels in HiGHS only"):
            fo.Policy(fo.Leximin(fo.OfTeam())).allocate(instance, **options)
    curved = fo.AlphaFair(1) >= -100
    with pytest.raises(InvalidBlock, match=r"under linear constraints, and `AlphaFair.* is none"):
        fo.Policy(fo.Leximin(fo.OfTeam()), [curved]).allocate(instance)


@pytest.mark.parametrize("share", [fo.OfTeam(), fo.Surplus()], ids=str)
def test_an_earlier_tier_that_is_not_linear_is_named_with_what_to_use(share):
    """The fixes that the error names are solved."""
    instance = fo.Instance([[1], [1], [1]], [6], teams={"team": ["a", "a", "b"]})
    first = fo.OrderedWeighted((3, 2, 1), fo.Tasks())
    with pytest.raises(InvalidBlock, match=r"the earlier tier OrderedWeighted\(.*\) is none; instead use AlphaFair\(8"):
        fo.Policy(first.then(fo.Leximin(share))).allocate(instance)
    for then in (fo.AlphaFair(8, share), fo.MaxMin(share)):
        assert fo.Policy(first.then(then)).allocate(instance).certificate.ok


@pytest.mark.parametrize("first", [fo.AlphaFair(1), fo.AlphaFair(2), fo.AlphaFair(0.5)], ids=str)
def test_a_surplus_only_through_what_the_first_tier_may_lose_counts_as_none(first, tmp_path):
    """Two of three users have their guarantees in the first tier; the second may take 1e-7 of the third's for them."""
    guarantees = [0.3612270758055691, 0.9425025145111429, 9.41598632401097]
    able = [[True, True], [True, False], [True, True]]
    instance = fo.Instance([[5], [5], [2]], [[20], [7]], eligible=able, guarantees=guarantees)
    alone = fo.Policy(first).allocate(instance)
    answer = fo.Policy(first.then(fo.Leximin(fo.Surplus()))).allocate(instance)
    assert answer.tasks == pytest.approx(alone.tasks, rel=1e-6)
    assert answer.tasks[1:] == pytest.approx(guarantees[1:], rel=1e-6)
    assert fo.verify(answer.save(tmp_path / "answer.json")).ok


def test_users_above_their_bases_by_one_tiny_level_are_all_fixed_by_a_full_resource():
    """The surpluses of the first two are equal, and 1e-7 of their shares, so that rounding is 1e-9 of them."""
    guarantees = [0.33800275832982585, 1.4390366475623644, 1.5897500987696769]
    pool = fo.Instance([[0, 6], [6, 2], [5, 1]], [77, 11], guarantees=guarantees)
    tasks = np.array([0.3380028091125362, 1.4390367999104956, 6.0939095455037915])
    kept = fo.MinTasks([0, 0, float(tasks[2])])
    (dual,) = bottleneck_duals(Program(pool, fo.Leximin(fo.Surplus(fo.StandAloneShare())), (kept,)), tasks)
    assert {0, 1} <= {*dual.fixed.tolist()}


@pytest.mark.parametrize("price", [1e-3, 1e-9, 1e-12])
@pytest.mark.parametrize("weight", [0.4, 0.5])
def test_noise_in_prices_proves_nothing_of_a_number_that_could_rise(price, weight):
    apart = fo.Instance([[1, 0], [0, 1]], [10, 10], teams={"team": ["a", "b"]})
    program = Program(apart, fo.Leximin(fo.OfTeam(weights={"b": weight})), ())
    dual = Dual(np.array([1, price]), mixtures=[np.array([1, price])], fixed=np.array([0, 1]))
    assert judge_number_levels(program, [dual], np.array([10.0, 5.0]))[0] > 0.1  # b could have 10


@pytest.mark.parametrize("limit", [1, 10, 1e3])
def test_number_that_can_be_little_is_not_judged_by_large_ones(limit):
    servers = fo.Instance([[1], [1]], [[5e10], [6e10]], task_limits=[np.inf, limit], teams={"team": ["a", "b"]})
    assert fo.Policy(fo.Leximin(fo.OfTeam(fo.Tasks()))).allocate(servers).tasks[1] == pytest.approx(limit)
    pool = Program(servers.pooled(), fo.Leximin(fo.OfTeam(fo.Tasks())), ())
    dual = Dual(np.array([1.0]), mixtures=[np.array([1 / 1.1e11, 0])], fixed=np.array([0]))
    assert judge_number_levels(pool, [dual], np.array([1.1e11 - limit, limit]))[0] < 1e-6
    assert judge_number_levels(pool, [dual], np.array([1.1e11, 0]))[0] > 0.1


@pytest.mark.parametrize("share", [fo.OfTeam(fo.Tasks()), fo.Surplus(fo.Tasks())], ids=str)
def test_zero_in_place_of_a_little_is_not_verified(tmp_path, share):
    apart = fo.Instance([[1, 0], [0, 1]], [1e11, 1], teams={"team": ["a", "b"]})
    file = fo.Policy(fo.Leximin(share)).allocate(apart).save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    spoiled = json.loads(file.read_text()) | {"tasks_by_server": [[1e11], [0.0]], "objective": 0.0}
    file.write_text(json.dumps(spoiled))
    assert not fo.verify(file).ok
    assert not fo.Allocation.load(file).certificate.ok


def test_levels_that_near_ties_of_costs_decide_are_not_certified_from_a_slightly_lower_level(tmp_path):
    """Demands differ by 1e-10 between servers: 5e-11 less for the lowest level would give a team 0.28, not 0.16."""
    some = [[0, 4, 5], [5, 1, 1], [4, 5, 0], [3, 0, 6]]
    ends = [
        [[0, 465661, 1164153], [0, 465661, 582077], [0, 465661, 1164153]],
        [[0, 116415, 232831], [1746230, 116415, 116415], [582077, 116415, 232831]],
        [[0, 582077, 0], [1396984, 582077, 0], [465661, 582077, 0]],
        [[0, 0, 1396984], [1047738, 0, 698492], [349246, 0, 1396984]],
    ]
    instance = fo.Instance(
        np.array(some, dtype=float)[:, None] + 1e-15 * np.array(ends),
        [[7, 2, 5], [4, 8, 9], [3, 8, 8]],
        teams={"team": list("abcd")},
    )
    share = fo.OfTeam(weights={"a": 2, "b": 1, "c": 3, "d": 3})
    try:
        answer = fo.Policy(fo.Leximin(share)).allocate(instance)
    except fo.errors.NotCertified as refused:
        refused.best.save(tmp_path / "best.json")
        assert not fo.verify(tmp_path / "best.json").ok
        return
    levels = np.sort(answer.share(share) / [2, 1, 3, 3])
    np.testing.assert_allclose(levels, [*[0.141149542218] * 3, 0.159975261290], rtol=1e-6)


def paths(n_demands: int, seed: int) -> fo.Instance:
    """Demands with two paths each over the links of a ring; a unit takes one of each link of its path."""
    rng, n_nodes = np.random.default_rng(seed), 12
    rows, names = [], []
    for d in range(n_demands):
        source, target = rng.choice(n_nodes, 2, replace=False)
        for clockwise in (True, False):
            step, at, path = (1 if clockwise else -1), source, np.zeros(n_nodes)
            while at != target:
                path[at if clockwise else (at - 1) % n_nodes] = 1
                at = (at + step) % n_nodes
            rows.append(path)
            names.append(f"d{d}")
    capacities = rng.integers(5, 50, n_nodes).astype(float)
    used = np.array(rows).any(axis=0)
    return fo.Instance(np.array(rows)[:, used], capacities[used], teams={"team": names})


@pytest.mark.parametrize("seed", range(4))
def test_levels_of_paths_are_those_of_programs_that_freeze_by_multipliers(seed):
    instance = paths(60, seed)
    answer = fo.Policy(fo.Leximin(fo.OfTeam(fo.Tasks(), inside="any"))).allocate(instance)
    assert "is one of several" in answer.certificate.note
    demand = np.array(instance.teams.labelling("team").of_user)
    free, floor = np.ones(demand.max() + 1, dtype=bool), np.zeros(demand.max() + 1)
    while free.any():
        x, z = cp.Variable(instance.n_users, nonneg=True), cp.Variable()
        totals = np.eye(len(free))[:, demand] @ x
        rows = totals >= cp.multiply(free, z) + floor
        cp.Problem(cp.Maximize(z), [instance.demands.T @ x <= instance.capacities[0], rows]).solve("HIGHS")
        frozen = free & (rows.dual_value > 1e-9)
        floor[frozen], free = z.value, free & ~frozen
    np.testing.assert_allclose(answer.share(fo.OfTeam(fo.Tasks())), floor, rtol=1e-6)


def test_a_split_that_is_open_is_no_leximin_and_is_said(tmp_path):
    instance = fo.Instance([[1], [1], [1]], [4], teams={"team": ["a", "a", "b"]})
    fair, open_ = (fo.Policy(fo.Leximin(fo.OfTeam(inside=i))).allocate(instance) for i in ("fair", "any"))
    np.testing.assert_allclose(fair.tasks, [1, 1, 2])
    np.testing.assert_allclose(open_.share(fo.OfTeam()), [0.5, 0.5])
    assert "proved when found" in fair.certificate.note
    assert "is one of several" in open_.certificate.note
    assert fo.verify(open_.save(tmp_path / "answer.json")).ok
    with pytest.raises(InvalidBlock, match="'fair' or 'any'"):
        fo.OfTeam(inside="all")


def test_numbers_of_one_level_share_its_slack(tmp_path):
    """200 teams lie 1e-9 below their level, which together costs the last one 1e-7, as its price says, and no 2e-5."""
    n = 200
    demands = [[1, 0.5]] * n + [[0, 1]]
    instance = fo.Instance(demands, [n, 0.5 * n + 5], teams={"team": [f"t{k}" for k in range(n + 1)]})
    program = Program(instance, fo.Leximin(fo.OfTeam(fo.Tasks())), ())
    some, last = np.arange(n), np.array([n])
    of_some, of_all = (some < n).astype(float), np.append(np.full(n, 0.5), 1.0)
    first = Dual(np.array([float(n), 0.0]), mixtures=[np.append(of_some, 0.0)], fixed=some)
    second = Dual(np.array([0.0, 0.5 * n + 5]), mixtures=[of_all], fixed=last)
    tasks = np.append(np.full(n, 1 - 1e-9), 5.0)
    gap, gaps, _ = judge_number_levels(program, [first, second], tasks)
    assert gaps[1] == pytest.approx(0.5 * n * 1e-9 / 5, rel=1e-3)
    assert gap < 1e-6
    tasks[:n] -= 1e-4  # which one of them could have n times
    assert judge_number_levels(program, [first, second], tasks)[0] > 1e-2


def test_affine_conditions_of_a_function_are_rows():
    instance = fo.Instance([[1, 2], [3, 1], [2, 2]], [6, 5], teams={"team": ["a", "b", "b"]}, task_limits=[9, 9, 0.5])
    policy = fo.Policy(fo.Leximin(fo.OfTeam(fo.Tasks())))

    class Twice(fo.Constraint):
        def rows(self, pairs):
            return {
                "twice": Rows(pairs.totals[[0]] - 2 * pairs.totals[[1]]),
                "even": Rows(pairs.totals[[1]], 1.2, True),
            }

    rows = policy.with_constraints(dataclass(frozen=True, repr=False)(Twice)()).allocate(instance)
    for written in (
        lambda m: [m.tasks[0] <= 2 * m.tasks[1], m.tasks[1] == 1.2],
        lambda m: {"a": 2 * m.tasks[1] >= m.tasks[0], "b": cp.hstack([m.tasks[1] + 0 * m.tasks[0]]) == np.array([1.2])},
    ):
        answer = policy.with_constraints(written).allocate(instance)
        assert answer.certificate.ok
        assert answer.tasks == pytest.approx(rows.tasks, abs=1e-9)
    with pytest.raises(InvalidBlock, match="under linear constraints"):
        policy.with_constraints(lambda m: cp.square(m.tasks[0]) <= 4).allocate(instance)
