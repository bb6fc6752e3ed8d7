"""Tasks that are 0 or at least so many: against brute force, proofs that fail when tampered with, and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.or_zero import OBJECTIVES, best, draw
from settings import THOROUGH

import fairopt as fo
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, NotCertified, NotConcave, OutOfDomain
from fairopt.proof import gate
from fairopt.proof.or_zero import Node, losses
from fairopt.runtime.clock import Clock
from fairopt.solve.dispatch import checked_settings
from fairopt.solve.or_zero import Search

CHARGER = fo.Instance([[1], [1], [1]], [12], users=["ann", "bob", "cleo"], resources=["ampere"])
SIX = fo.MinTasks(6, or_zero=True)


def searched(policy: fo.Policy, instance: fo.Instance) -> Search:
    search = Search(policy, instance, checked_settings(instance, "auto", None, None, Clock(None), False))
    search.run()
    return search


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10 if THOROUGH else 3))
def test_answers_are_those_of_brute_force_on_50_draws(part: int) -> None:
    for seed in range(50 * part, 50 * part + 50):
        kind = [*OBJECTIVES][seed % 4]
        drawn = draw(np.random.default_rng(seed), pool=seed // 4 % 2 == 0)
        takes_part = drawn.instance.task_limits > 0
        if not takes_part.any():
            continue
        policy, want = fo.Policy(OBJECTIVES[kind], drawn.constraints), best(drawn, kind)
        if want is None:
            with pytest.raises(Infeasible):
                policy.allocate(drawn.instance)
            continue
        a = policy.allocate(drawn.instance)
        has: Any = a.objective
        if kind == "leximin":
            has, want = np.sort((a.shares / drawn.instance.weights)[takes_part]), [float(level) for level in want]
        np.testing.assert_allclose(has, np.array(want, dtype=float), rtol=1e-6, atol=1e-12, err_msg=str(seed))
        tasks = a.tasks if drawn.least.ndim == 1 else a.tasks_by_server
        assert a.certificate.ok and ((tasks == 0) | (tasks >= drawn.least * (1 - 1e-7))).all(), seed


@pytest.mark.parametrize("objective", [*OBJECTIVES.values(), fo.MaxMin() + 0.1 * fo.Total(fo.Tasks())])
def test_charger_of_12_ampere_serves_two_of_three_cars(objective: fo.Objective) -> None:
    a = fo.Policy(objective, [SIX]).allocate(CHARGER)
    assert a.certificate.ok and a.tasks.sum() == pytest.approx(12) and a.tasks[2] == 0
    assert "the last by order" in a.certificate.note and "'cleo'" in a.certificate.note
    assert a.prices is None and a.level_prices is None


def test_order_of_users_alike_says_who_has_0() -> None:
    order = CHARGER.replace(users=["cleo", "ann", "bob"])
    a = fo.Policy(fo.Leximin(), [SIX]).allocate(order)
    assert dict(zip(a.instance.users, a.tasks, strict=True)) == {"cleo": 6, "ann": 6, "bob": 0}


def test_of_users_who_differ_in_weight_the_largest_waits_unless_it_is_promised_tasks() -> None:
    heavy = CHARGER.with_weights({"ann": 2})
    policy = fo.Policy(fo.Leximin(fo.Tasks()), [SIX])
    np.testing.assert_allclose(policy.allocate(heavy).tasks, [0, 6, 6])
    promised = policy.with_constraints(fo.MinTasks({"ann": 6})).allocate(heavy)
    assert promised.certificate.ok and promised.tasks[0] >= 6 * (1 - 1e-9)


def test_sixty_unequal_cars_at_a_charger_need_no_branch() -> None:
    rng = np.random.default_rng(0)
    depot = fo.Instance(np.ones((60, 1)), [180], weights=rng.uniform(0.5, 2, 60))
    search = searched(fo.Policy(fo.Leximin(), [SIX]), depot)
    assert search.root.split < 0 and (search.answer().tasks > 0).sum() == 30


def test_equal_users_are_exchanged_instead_of_tried() -> None:
    depot = fo.Instance(np.ones((40, 2)), [130, 140])
    search = searched(fo.Policy(fo.OrderedWeighted(range(40, 0, -1)), [SIX]), depot)
    assert search.answer().certificate.ok and search.solved < 100


def test_gang_starts_whole_or_not_at_all() -> None:
    gangs = fo.Instance([[1], [1], [1]], [12], task_limits=[4, 6, 8])
    for objective, tasks in ((fo.Total(fo.Tasks()), [4, 0, 8]), (fo.Leximin(fo.Tasks()), [4, 0, 8])):
        a = fo.Policy(objective, [fo.MinTasks([4, 6, 8], or_zero=True)]).allocate(gangs)
        np.testing.assert_allclose(a.tasks, tasks)


def test_bound_by_server_holds_on_each() -> None:
    hours = fo.Instance([[1], [1]], [[8], [8]], servers=["8h", "9h"], task_limits=[10, 10])
    a = fo.Policy(fo.Total(fo.Tasks()), [fo.MinTasks(np.full((2, 2), 6), or_zero=True)]).allocate(hours)
    assert a.certificate.ok and a.tasks.sum() == pytest.approx(16)
    assert ((a.tasks_by_server == 0) | (a.tasks_by_server >= 6 * (1 - 1e-9))).all()


def test_bound_by_server_keeps_identical_servers_apart() -> None:
    hours = fo.Instance([[1]], [[4], [4]])  # merged they would have room for 6
    a = fo.Policy(fo.Total(fo.Tasks()), [fo.MinTasks([[6, 6]], or_zero=True)]).allocate(hours)
    assert a.certificate.ok and a.tasks[0] == 0
    with pytest.raises(InvalidInstance, match="has several"):
        fo.Policy(fo.Total(), [fo.MinTasks([[6]], or_zero=True)]).allocate(fo.Instance([[1]], [[4]], counts=[2]))


def test_leximin_by_server_keeps_identical_servers_apart() -> None:
    hours = fo.Instance([[1], [1]], [[8], [8]], weights=[1, 2])
    a = fo.Policy(fo.Leximin(fo.Tasks()), [fo.MinTasks([[6, 6], [6, 6]], or_zero=True)]).allocate(hours)
    assert a.certificate.ok and sorted(a.tasks_by_server.ravel()) == pytest.approx([0, 0, 8, 8])


def test_leaf_that_no_solver_certifies_is_closed_by_an_answer_found_later() -> None:
    # both users may run tasks of at least 1 on all servers, but then user1 has 0
    cluster = fo.Instance([[[0, 3], [4, 0]], [[3, 4], [0, 4]]], [[12, 4], [6, 5]], task_limits=[1, np.inf])
    cluster = cluster.replace(eligible=[[True, False], [True, True]])
    a = fo.Policy(fo.Leximin(), [fo.MinTasks([[0, 1], [1, 1]], or_zero=True)]).allocate(cluster)
    assert a.certificate.ok
    np.testing.assert_allclose(a.shares, [1 / 3, 5 / 9], rtol=1e-6)


def test_servers_that_are_closed_to_some_do_not_close_nodes() -> None:
    # all of gpu is reserved, so that user1 runs on the second server only, where it needs none
    demands = [[[1, 1], [1, 0]], [[1, 0], [1, 0]], [[1, 0], [1, 0]]]
    cluster = fo.Instance(demands, [[10, 4], [10, 4]], resources=["cpu", "gpu"])
    for least, levels in (({"user2": 9, "user3": 12}, [0, 0.5, 0.5]), ({"user2": 8, "user3": 4}, [0.3, 0.3, 0.4])):
        policy = fo.Policy(fo.Leximin(), [fo.MinTasks(least, or_zero=True), fo.Reserve("gpu", 1)])
        a = policy.allocate(cluster)
        assert a.certificate.ok
        np.testing.assert_allclose(np.sort(a.shares), levels, atol=1e-6)


# -- proofs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_tree_proves_its_answer_and_no_other(kind: str) -> None:
    rng = np.random.default_rng(3)
    cluster = fo.Instance(rng.uniform(0.5, 2, (5, 2)), [20, 20])
    policy = fo.Policy(OBJECTIVES[kind], [SIX])
    search = searched(policy, cluster)
    assert search.table is not None and losses(search.choices, search.root, search.table) <= 1e-6
    worse = np.where(search.table > 0, np.maximum(6.0, search.table * 0.9), 0.0)
    if kind == "max-min":  # of which every answer is 0
        assert search.answer().objective == 0
    else:
        assert losses(search.choices, search.root, worse) > 1e-3
    between = gate.of_branches(policy, search.choices, search.root, search.table * 0.5, 0.0)
    assert not between.certificate.ok and between.certificate.block_violation > 0.1


def test_tree_with_a_branch_cut_off_proves_nothing() -> None:
    rng = np.random.default_rng(0)
    cluster = fo.Instance(rng.uniform(0.5, 2, (8, 2)), [30, 30])
    search = searched(fo.Policy(fo.OrderedWeighted(range(8, 0, -1)), [SIX]), cluster)
    assert search.table is not None
    root = search.root
    assert root.none is not None and root.runs is not None
    stolen = replace(root.none, fixed=root.runs.fixed)  # a leaf of another node, or none at all
    for cut in (replace(root, runs=None), replace(root, runs=stolen), replace(root, runs=root.none), Node(root.fixed)):
        assert losses(search.choices, cut, search.table) == np.inf
    assert losses(search.choices, root, search.table) <= 1e-6


def test_time_limit_leaves_the_gap_that_is_proved() -> None:
    rng = np.random.default_rng(1)
    cluster = fo.Instance(rng.uniform(0.5, 2, (30, 2)), [60, 60])
    policy = fo.Policy(fo.OrderedWeighted(range(30, 0, -1)), [SIX])
    search = Search(policy, cluster, checked_settings(cluster, "auto", None, None, Clock(None), False))
    search._bound(search.root)
    with pytest.raises(NotCertified, match=r"gap of .*the answer in \.best has .*the optimum is at most") as stopped:
        search.answer()
    best_found = stopped.value.best
    assert best_found is not None and not best_found.certificate.ok and 1e-6 < best_found.certificate.gap < 1
    relaxed = fo.Policy(policy.objective).allocate(cluster).objective
    assert best_found.objective / (1 - best_found.certificate.gap) == pytest.approx(relaxed, rel=1e-6)
    with pytest.raises(NotCertified):
        policy.allocate(cluster, time_limit=0.3)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_saved_answer_is_proved_again_by_its_tree(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    cluster = fo.Instance(rng.uniform(0.5, 2, (4, 2)), rng.uniform(9, 15, (2 if kind == "total" else 1, 2)))
    a = fo.Policy(OBJECTIVES[kind], [fo.MinTasks(3, or_zero=True)]).allocate(cluster)
    file = a.save(tmp_path / "a.json")
    again = fo.Allocation.load(file)
    assert again.certificate.ok and again.policy == a.policy and np.array_equal(again.tasks, a.tasks)
    assert again.evidence == a.evidence
    found = fo.verify(file)
    assert not found.ok and "0 or at least so many" in found.statement and "capacities" in found.statement
    data = json.loads(file.read_text())
    between = data | {"tasks_by_server": [[x / 10 for x in row] for row in data["tasks_by_server"]]}
    file.write_text(json.dumps(between))
    assert any("neither 0 nor 3 or more" in fault for fault in fo.verify(file).faults)
    for tree in ([], [0], [0, -1], [9, -1, -1], "x"):
        data["evidence"][0]["tree"] = tree
        file.write_text(json.dumps(data))
        assert not fo.Allocation.load(file).certificate.ok


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective",
    [
        fo.AlphaFair(1),
        fo.AlphaFair(0.5),
        fo.FairnessEfficiency(0.5, 0.3),
        fo.Leximin().then(fo.Total()),
        fo.Leximin(fo.Surplus()),
        fo.MaxMin(fo.OfTeam()),
    ],
)
def test_objectives_that_are_not_defined_at_0_are_refused(objective: fo.Objective) -> None:
    with pytest.raises(OutOfDomain, match="Leximin, MaxMin, OrderedWeighted or Total"):
        fo.Policy(objective, [SIX]).allocate(CHARGER)


@pytest.mark.parametrize(
    ("least", "words"),
    [
        (-1, "holds -1.0"),
        (np.nan, "holds nan"),
        ({"bob": np.nan}, "holds nan for 'bob'"),
        ([6, -2, 6], "holds -2.0 for user number 2"),
        ([[6], [np.nan], [6]], "holds nan for user number 2 on server number 1"),
        ([[6], [6, 6], [6]], "different lengths"),
        ([[6, 6]] * 3, r"has shape \(3, 2\); give a scalar"),
        ({"dan": 6}, "unknown user 'dan'"),
    ],
)
def test_wrong_numbers_are_named(least: Any, words: str) -> None:
    with pytest.raises((InvalidBlock, InvalidInstance), match=words):
        fo.Policy(fo.Leximin(), [fo.MinTasks(least, or_zero=True)]).allocate(CHARGER)


def test_bound_above_a_limit_is_named() -> None:
    limited = CHARGER.replace(task_limits=[9, 4, 0])
    with pytest.raises(InvalidInstance, match=r"is 6 for user 'bob', above its task limit of 4.*raise the limit"):
        fo.Policy(fo.Leximin(), [SIX]).allocate(limited)
    a = fo.Policy(fo.Leximin(), [fo.MinTasks({"ann": 6, "cleo": 6}, or_zero=True)]).allocate(limited)
    np.testing.assert_allclose(a.tasks, [8, 4, 0])  # who takes no part has no bound


def test_conflict_is_infeasible() -> None:
    with pytest.raises(Infeasible, match="no choice of whose tasks are 0") as found:
        fo.Policy(fo.Leximin(), [SIX, fo.MinTasks(1)]).allocate(CHARGER)
    assert found.value.conflict == ("`MinTasks(6, or_zero=True)`", "`MinTasks(1)`")


def test_what_needs_convexity_refuses_it_by_name() -> None:
    policy = fo.Policy(fo.Leximin(), [SIX])
    for call in (
        lambda: policy.problem(CHARGER),
        lambda: policy.prepare(CHARGER).allocate(),
        lambda: SIX.bounds(CHARGER),
    ):
        with pytest.raises(NotConcave, match=r"MinTasks\(6, or_zero=True\) is not convex"):
            call()
    for options in ({"exact": True}, {"integral": True}, {"integral": "rounded"}):
        with pytest.raises(OutOfDomain, match=f"leave {next(iter(options))} out"):
            policy.allocate(CHARGER, **options)  # type: ignore[arg-type]
    with pytest.raises(OutOfDomain, match="no derivatives"):
        fo.sensitivity(policy.allocate(CHARGER))


def test_text_of_the_block_makes_it_again() -> None:
    assert repr(SIX) == "MinTasks(6, or_zero=True)" and repr(fo.MinTasks(6)) == "MinTasks(6)"
    assert fo.MinTasks(6) != SIX == fo.MinTasks(6, or_zero=True)
    with pytest.raises(InvalidBlock, match="or_zero of MinTasks is 2"):
        fo.MinTasks(6, or_zero=2)  # type: ignore[arg-type]


def test_batches_and_audits_take_it() -> None:
    policy = fo.Policy(fo.Leximin(), [SIX])
    many = fo.allocate_many(policy, demands=np.ones((2, 3, 1)), capacities=[[12.0], [20.0]])
    assert many.ok.all() and many.tasks.tolist() == [[6, 6, 0], [pytest.approx(20 / 3)] * 3]
    assert fo.check(policy.allocate(CHARGER))["pareto"].ok
