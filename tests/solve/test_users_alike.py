"""Users alike solved as one, against the same users solved one by one."""

import json

import numpy as np
import pytest
from oracle.instances import users_alike

import fairopt as fo
from fairopt.blocks.ideal import IdealGain
from fairopt.checker.instance import named_pairs
from fairopt.proof import gate
from fairopt.proof.evidence.alike import OfKinds
from fairopt.proof.proposal import Proposal
from fairopt.solve import table
from fairopt.solve.form import alike
from fairopt.solve.form.program import Program

OBJECTIVES = [
    fo.Leximin(),
    fo.MaxMin(),
    fo.AlphaFair(1),
    fo.AlphaFair(3, fo.Tasks()),
    fo.AlphaFair(0.5),
    fo.Total(fo.Tasks()),
    fo.FairnessEfficiency(2, -3),
    fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks()),
    fo.AlphaFair(1, fo.Surplus()),
    fo.AlphaFair(2, fo.OfTeam()),
    fo.AlphaFair(1, fo.Surplus(fo.Tasks(), base=0.01)),
    fo.Leximin(fo.StandAloneShare()),
    fo.Leximin(fo.OfTeam()),
    fo.Leximin(fo.Surplus()),
    fo.Leximin(fo.Surplus(fo.OfTeam())),
]


@pytest.fixture
def measured(monkeypatch):
    """The evidence of kinds that was measured."""
    found, original = [], OfKinds.measured
    monkeypatch.setattr(OfKinds, "measured", lambda self, *given: found.append(self) or original(self, *given))
    return found


@pytest.fixture
def always(monkeypatch):
    """Merge however few users that saves, and not, by turns."""

    def merge(some: bool) -> None:
        monkeypatch.setattr(alike, "FEWER", 1 if some else 10**9)
        monkeypatch.setattr(table, "FEWEST", 1)

    return merge


@pytest.mark.fast_methods
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_merged_users_get_what_they_get_one_by_one(objective, always):
    rng = np.random.default_rng(7)
    for _ in range(3):
        given, policy = users_alike(rng), fo.Policy(objective)
        always(True)
        merged = policy.allocate(given)
        always(False)
        alone = policy.allocate(given)
        assert merged.certificate.ok and merged.certificate.violation <= 1e-12
        assert merged.objective == pytest.approx(alone.objective, rel=2e-6, abs=2e-6 * abs(alone.objective))
        if objective.term.is_order:
            share = objective.term.share
            np.testing.assert_allclose(merged.share(share), alone.share(share), rtol=2e-6, atol=1e-12)
        always(True)
        kinds = alike.alike(Program(given, objective, ()))
        if kinds is not None:  # each has its part by weight
            per_weight = merged.tasks / given.weights
            for k in range(kinds.inner.given.n_users):
                np.testing.assert_allclose(per_weight[kinds.of_user == k], per_weight[kinds.of_user == k][0], rtol=1e-9)


@pytest.mark.fast_methods
@pytest.mark.parametrize(
    "objective",
    [
        fo.Leximin(),
        fo.Leximin(fo.Tasks()),
        fo.MaxMin(fo.Tasks()),
        fo.AlphaFair(1),
        fo.AlphaFair(0.5, fo.Tasks()),
        fo.Total(fo.Tasks()),
        fo.FairnessEfficiency(2, -3),
    ],
    ids=str,
)
def test_merged_users_get_what_they_get_one_by_one_without_envy(objective, always, measured):
    rng = np.random.default_rng(11)
    share = objective.share_blocks()[0]
    for _ in range(4):
        given = users_alike(rng, fewest=1).replace(guarantees=None)
        policy = fo.Policy(objective, [fo.EnvyFree()])
        always(True)
        merged = policy.allocate(given)
        assert measured
        always(False)
        measured.clear()
        alone = policy.allocate(given)
        assert not measured
        assert merged.certificate.ok and envy(given, merged.tasks_by_server) <= 1e-7
        assert merged.objective == pytest.approx(alone.objective, rel=2e-6, abs=2e-6 * abs(alone.objective))
        if objective.term.is_order:
            np.testing.assert_allclose(merged.share(share), alone.share(share), rtol=2e-6, atol=1e-12)


def envy(given, tasks):
    """The largest relative envy, pair by pair from the definition."""
    worst = 0.0
    for j in range(given.n_users):
        for k in range(given.n_users):
            runs = sum(
                tasks[k, s] * min(d / e for d, e in zip(given.demands[k], given.demands[j], strict=True) if e > 0)
                for s in np.flatnonzero(given.eligible[j])
            )
            runs *= given.weights[j] / given.weights[k]
            worst = max(worst, (runs - tasks[j].sum()) / max(runs, 1e-9))
    return worst


def test_envy_free_points_average_to_those_of_kinds_and_spread_to_those_of_users(always):
    always(True)
    rng, most = np.random.default_rng(3), 0
    for _ in range(30):
        given = users_alike(rng, fewest=1)
        block = fo.EnvyFree()
        kinds = alike.alike(Program(given, fo.Total(), [block]))
        if kinds is None or not kinds.inner.rows_of(block):  # nobody could envy another kind
            continue
        users, inner = kinds.program, kinds.inner
        (rows,), (of_kinds,) = users.rows_of(block), inner.rows_of(block)
        n, k = users.instance.n_users, inner.instance.n_users
        y, cost = rng.random(len(of_kinds.rows)), np.zeros((n, inner.instance.n_servers))
        for row, one in zip(of_kinds.rows.per_task.toarray(), y, strict=True):
            a, b = (int(inner.pairs.user[some][0]) for some in (row < 0, row > 0))
            chosen, times = kinds.envy_rows(a, b)
            assert len(chosen) <= (kinds.of_user == a).sum() + (kinds.of_user == b).sum() - 1
            cost += users.pairs.table(block.rows(users.pairs, chosen)["no envy"].cost(one * times))
        # each user's tasks cost as much as those of its kind, so that a bound for kinds is one for users
        np.testing.assert_allclose(cost, inner.pairs.table(of_kinds.rows.cost(y))[kinds.of_user], rtol=1e-9, atol=1e-12)
        # rows hold for users who have parts by weight if and only if they hold for kinds
        held = rng.random(len(inner.pairs))
        broken = of_kinds.rows.load(held).max(initial=-1.0), rows.rows.load(kinds.spread(held)).max()
        assert (broken[0] > 1e-12) == (broken[1] > 1e-12)
        most = max(most, k)
    assert most == 3


@pytest.mark.fast_methods
def test_envy_of_one_user_who_is_alike_with_others_is_seen(always, measured):
    always(True)
    given = fo.Instance([[1, 2]] * 3 + [[2, 1]] * 3, [6, 6])
    program = Program(given, fo.Leximin(), [fo.EnvyFree()])
    answer = fo.Policy(program.objective, program.constraints).allocate(given)
    evidence, tasks = measured[-1], program.gather(answer.tasks_by_server)
    program, found = evidence.kinds.program, evidence.found
    assert gate.judge(program, Proposal("saved", tasks, evidence)).ok

    class Envious(type(evidence.kinds)):
        def spread(self, of_kinds):
            return super().spread(of_kinds) * np.array([1.01, 0.99, 1, 1, 1, 1])

    kinds = Envious(program, evidence.kinds.inner, evidence.kinds.of_user, evidence.kinds.part)
    judged = gate.judge(program, Proposal("saved", tasks, OfKinds(kinds, found)))
    assert not judged.ok and judged.block_violation == pytest.approx(0.02 / 1.01, rel=1e-6)


@pytest.mark.fast_methods
@pytest.mark.parametrize(
    "objective",
    [fo.Leximin(fo.Tasks()), fo.Total(fo.Tasks()), fo.AlphaFair(0.5, fo.Tasks()), fo.FairnessEfficiency(2, -3)],
    ids=str,
)
@pytest.mark.parametrize("servers", [1, 3])
def test_saved_answers_of_users_alike_without_envy_are_verified_by_rows_of_users(
    objective, servers, tmp_path, measured
):
    rng = np.random.default_rng(5)
    kind, weights = rng.integers(0, 4, 60), rng.integers(1, 4, 60).astype(float)
    given = fo.Instance(
        rng.lognormal(0, 1, (4, 3))[kind], rng.lognormal(5, 1, (servers, 3)), weights=weights, task_limits=9 * weights
    )
    constraints = [fo.EnvyFree(), fo.Reserve("resource1", 0.1)]
    answer = fo.Policy(objective, constraints[:: 1 if servers == 1 else -1]).allocate(given)
    assert measured
    file = answer.save(tmp_path / "answer.json")
    assert fo.Allocation.load(file).certificate.ok
    assert fo.verify(file).ok
    held = json.loads(file.read_text())
    assert len(set(map(str, named_pairs(held["evidence"])))) < 60**2 / 4
    held["tasks_by_server"][7] = [0.99 * x for x in held["tasks_by_server"][7]]
    file.write_text(json.dumps(held))
    found = fo.verify(file)
    assert not found.ok and f"user '{given.users[7]}' envies" in str(found)


@pytest.mark.fast_methods
def test_jobs_of_few_kinds_are_solved_as_these(measured):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 26, 2048)
    given = fo.Instance(rng.lognormal(0, 1, (26, 3))[kind], rng.lognormal(5, 1, (9, 3)), weights=1.0 + (kind % 3))
    kinds = alike.alike(Program(given, fo.AlphaFair(1), ()))
    assert kinds is not None and kinds.inner.instance.n_users == 26
    answer = fo.NashWelfare().allocate(given)
    assert measured and answer.certificate.gap < 1e-8


@pytest.mark.parametrize(
    "changed",
    [
        {"task_limits": lambda n: 1.0 + np.arange(n)},
        {"guarantees": lambda n: 1e-3 * np.arange(n)},
        {"teams": lambda n: {"team": [f"t{j}" for j in range(n)]}},
        {"eligible": lambda n: [[True, j % 2 == 0] for j in range(n)]},
        {"rates": lambda n: [[1.0, 1.0 + j] for j in range(n)]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_users_who_differ_in_any_number_per_weight_are_kept_apart(changed, always):
    always(True)
    n = 4
    alone = {name: make(n) for name, make in changed.items()}
    given = fo.Instance(np.ones((n, 2)), [[9, 9], [5, 7]], **alone)
    kinds = alike.alike(Program(given, fo.AlphaFair(1), ()))
    assert kinds is None or kinds.inner.instance.n_users == (2 if "eligible" in changed else n)


@pytest.mark.parametrize(
    "policy",
    [
        fo.Policy(fo.OrderedWeighted((2, 1))),
        fo.Policy(fo.OrderedWeighted((2, 1)), [fo.EnvyFree()]),
        fo.Policy(fo.Leximin(), [fo.EnvyFree(), fo.EqualShares()]),
        fo.Policy(fo.AlphaFair(1, fo.Surplus(IdealGain(0.1), 0.1))),
        fo.Policy(fo.Total(), [fo.MinShare(0.1, fo.OfTeam())]),
    ],
    ids=str,
)
def test_what_counts_users_or_has_other_constraints_is_not_merged(policy, always):
    always(True)
    given = fo.Instance(np.ones((4, 2)), [[9, 9], [5, 7]], teams={"team": list("aabb")})
    assert alike.alike(Program(given, policy.objective, policy.constraints)) is None


@pytest.mark.fast_methods
def test_a_point_that_treats_users_alike_differently_is_not_proved(always, measured):
    always(True)
    given = fo.Instance(np.ones((4, 2)), [[9, 9], [5, 7]])
    program = Program(given, fo.AlphaFair(1), ())
    answer = fo.NashWelfare().allocate(given)
    kinds = alike.alike(program)
    evidence = measured[-1]
    program = evidence.kinds.program
    assert evidence.kinds.inner.instance.n_users == kinds.inner.instance.n_users == 1
    tasks = program.gather(answer.tasks_by_server)
    assert gate.judge(program, Proposal("saved", tasks, evidence)).gap < 1e-9
    moved = tasks.copy()
    moved[0] *= 0.9  # and nobody gets more
    assert gate.judge(program, Proposal("saved", moved, evidence)).gap > 0.05


@pytest.mark.fast_methods
def test_saved_answers_are_proved_again_and_verified(always, tmp_path, measured):
    always(True)
    given = fo.Instance(np.repeat([[1.0, 2.0], [3.0, 1.0]], 3, axis=0), [[9, 9], [5, 7]], weights=[1, 2, 3] * 2)
    for policy in (fo.DRF(), fo.NashWelfare(), fo.Policy(fo.MaxMin()), fo.MostTasks()):
        answer = policy.allocate(given)
        assert measured
        answer.save(tmp_path / "answer.json")
        again = fo.Allocation.load(tmp_path / "answer.json")
        assert again.certificate.ok and again.certificate.gap < 1e-8
        assert fo.verify(tmp_path / "answer.json").ok
