"""Users alike solved as one, against the same users solved one by one."""

import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.ideal import IdealGain
from fairopt.evidence.alike import OfKinds
from fairopt.formulation import alike
from fairopt.formulation.program import Program
from fairopt.proofs import gate
from fairopt.proofs.proposal import Proposal

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
def always(monkeypatch):
    """Merge however few users that saves, and not, by turns."""
    return lambda some: monkeypatch.setattr(alike, "FEWER", 1 if some else 10**9)


def drawn(rng):
    kinds, n, m, servers = rng.integers(1, 4), rng.integers(4, 9), rng.integers(1, 4), rng.integers(2, 4)
    demands = rng.lognormal(0, 1, (kinds, m)) * (rng.random((kinds, m)) < 0.8)
    demands[demands.sum(axis=1) == 0, 0] = 1
    eligible = rng.random((kinds, servers)) < 0.8
    eligible[:, 0] = True
    limits = np.where(rng.random(kinds) < 0.3, rng.lognormal(0, 1, kinds), np.inf)
    kind, weights = rng.integers(0, kinds, n), rng.integers(1, 4, n).astype(float)
    capacities = rng.lognormal(3, 1, (servers, m))
    base = 0.3 * rng.random(kinds) * (capacities[0] / np.maximum(demands, 1e-9)).min(axis=1) / weights.sum()
    teams = {"team": [f"t{k % 2}" for k in kind]}
    return fo.Instance(
        demands[kind],
        capacities,
        eligible=eligible[kind],
        task_limits=limits[kind] * weights,
        guarantees=base[kind] * weights,
        weights=weights,
        teams=teams,
    )


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_merged_users_get_what_they_get_one_by_one(objective, always):
    rng = np.random.default_rng(7)
    for _ in range(5):
        given, policy = drawn(rng), fo.Policy(objective)
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


def test_jobs_of_few_kinds_are_solved_as_these():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 26, 2048)
    given = fo.Instance(rng.lognormal(0, 1, (26, 3))[kind], rng.lognormal(5, 1, (9, 3)), weights=1.0 + (kind % 3))
    kinds = alike.alike(Program(given, fo.AlphaFair(1), ()))
    assert kinds is not None and kinds.inner.instance.n_users == 26
    answer = fo.NashWelfare().allocate(given)
    assert answer.evidence[0]["kind"] == OfKinds.kind and answer.certificate.gap < 1e-8


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
        fo.Policy(fo.Leximin(), [fo.EnvyFree()]),
        fo.Policy(fo.AlphaFair(1, fo.Surplus(IdealGain(0.1), 0.1))),
        fo.Policy(fo.Total(), [fo.MinShare(0.1, fo.OfTeam())]),
    ],
    ids=str,
)
def test_what_counts_users_or_has_other_constraints_is_not_merged(policy, always):
    always(True)
    given = fo.Instance(np.ones((4, 2)), [[9, 9], [5, 7]], teams={"team": list("aabb")})
    assert alike.alike(Program(given, policy.objective, policy.constraints)) is None


def test_a_point_that_treats_users_alike_differently_is_not_proved(always):
    always(True)
    given = fo.Instance(np.ones((4, 2)), [[9, 9], [5, 7]])
    program = Program(given, fo.AlphaFair(1), ())
    answer = fo.NashWelfare().allocate(given)
    kinds = alike.alike(program)
    evidence = OfKinds.restored(program, answer.evidence[0], lambda p, held: kind_of(held).restored(p, held, None))
    assert evidence.kinds.inner.instance.n_users == kinds.inner.instance.n_users == 1
    tasks = program.gather(answer.tasks_by_server)
    assert gate.judge(program, Proposal("saved", tasks, evidence)).gap < 1e-9
    moved = tasks.copy()
    moved[0] *= 0.9  # and nobody gets more
    assert gate.judge(program, Proposal("saved", moved, evidence)).gap > 0.05


def kind_of(held):
    from fairopt.evidence.kinds import KINDS

    return KINDS[held["kind"]]


def test_saved_answers_are_proved_again_and_verified(always, tmp_path):
    always(True)
    given = fo.Instance(np.repeat([[1.0, 2.0], [3.0, 1.0]], 3, axis=0), [[9, 9], [5, 7]], weights=[1, 2, 3] * 2)
    for policy in (fo.DRF(), fo.NashWelfare(), fo.Policy(fo.MaxMin()), fo.MostTasks()):
        answer = policy.allocate(given)
        assert answer.evidence[0]["kind"] == OfKinds.kind
        answer.save(tmp_path / "answer.json")
        again = fo.Allocation.load(tmp_path / "answer.json")
        assert again.certificate.ok and again.certificate.gap < 1e-8
        assert fo.verify(tmp_path / "answer.json").ok
