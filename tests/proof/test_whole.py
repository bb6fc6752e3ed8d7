"""What the gate says of whole tasks: of any placement, any evidence and any file only what is true."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import whole

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.pool import PoolPrices
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.no_whole_task import whole_instance
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import Program

PAIR = fo.Instance([[2], [3]], [[4], [5]], counts=[2, 1], users=["a", "b"], servers=["small", "large"])
ONE = fo.Instance([[2, 3], [2, 1]], [6, 4])


def judged(policy: fo.Policy, instance: fo.Instance, placement: Any, prices: float | None = None) -> fo.Allocation:
    """Whole tasks by the gate, beside a divisible answer with prices that are right, or made up."""
    program = Program(instance, policy.objective, policy.constraints)
    tasks = program.gather(policy.allocate(instance).tasks_by_server)
    share = policy.objective.share_blocks()[0]
    dual = Dual(np.full(instance.n_resources, 1e3 if prices is None else prices))
    evidence = PoolPrices(Pool(program, share), dual)
    answer = gate.judge(program, Proposal("made up", tasks, evidence))
    placed = np.array(placement, dtype=float)
    return gate.whole(policy, instance, [(program, answer)], placed, 0.0, method="by hand")


@pytest.mark.parametrize("prices", [0.0, 1.0, 2.0, 2.9, 3.1, 50.0])
def test_made_up_prices_claim_no_loss_that_is_too_small(prices: float) -> None:
    """The divisible optimum is 3 tasks; half of a pool of 6 is used by 1 and 1."""
    policy = fo.Policy(fo.Total(fo.Tasks()))
    pool = fo.Instance([[2], [2]], [6])
    proof = judged(policy, pool, [[1], [1]], prices).certificate
    assert proof.ok and proof.whole and proof.gap >= 1 / 3 - 1e-12
    fair = Program(pool, fo.AlphaFair(1), ())
    made_up = PoolPrices(Pool(fair, fo.DominantShare()), Dual(np.array([0.1 + prices]), unit=0.5))
    answer = gate.judge(fair, Proposal("x", np.array([1.5, 1.5]), made_up))
    said = gate.whole(fo.NashWelfare(), pool, [(fair, answer)], np.ones((2, 1)), 0.0, method="x").certificate
    assert said.gap >= 1 / 3 - 1e-12


def test_an_answer_of_nothing_proves_no_loss_below_all() -> None:
    program = Program(ONE, fo.Total(fo.Tasks()), ())
    proof = gate.whole(fo.MostTasks(), ONE, [(program, gate.nothing(program))], np.ones((2, 1)), 0.0, method="x")
    assert proof.certificate.gap == 1.0


def test_a_divisible_answer_of_another_instance_is_refused() -> None:
    program = Program(ONE, fo.Total(fo.Tasks()), ())
    with pytest.raises(ValueError, match="another instance"):
        gate.whole(fo.MostTasks(), PAIR, [(program, gate.nothing(program))], np.ones((2, 3)), 0.0, method="x")


def test_the_point_is_neither_repaired_nor_rounded() -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()))
    pool = fo.Instance([[2], [2]], [6])
    a = judged(policy, pool, [[1.5], [1.0]])
    assert not a.certificate.whole and not a.certificate.ok and a.tasks_by_server[0, 0] == 1.5
    b = judged(policy, pool, [[3], [1]])
    assert b.certificate.whole and not b.certificate.ok and b.certificate.violation == pytest.approx(1 / 3)


def test_capacities_hold_on_each_of_the_servers_of_a_row() -> None:
    """Two tasks of 3 are 6 of the 8 units of two servers, and more than one server of 4 has."""
    policy = fo.Policy(fo.Total(fo.Tasks()))
    program = Program(PAIR, policy.objective, ())
    good = policy.allocate(PAIR, integral=True)
    for placement, ok in (([[0, 0, 0], [1, 1, 0]], True), ([[0, 0, 0], [2, 0, 0]], False)):
        answer = gate.judge(program, Proposal("x", program.gather(policy.allocate(PAIR).tasks_by_server), None))
        a = gate.whole(policy, PAIR, [(program, answer)], np.array(placement, dtype=float), 0.0, method="x")
        assert a.certificate.ok is ok and a.certificate.whole
        np.testing.assert_array_equal(a.tasks_by_server, [[0, 0], [2, 0]])
    assert good.certificate.ok and good.placement is not None and not good.placement.flags.writeable


@pytest.mark.parametrize(
    "constraint", [fo.MinTasks({"a": 2}), fo.MaxTasks({"b": 0}), fo.EqualShares(fo.Tasks())], ids=repr
)
def test_constraints_are_measured_at_the_whole_tasks(constraint: fo.Constraint) -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [constraint])
    part = whole_instance(PAIR, policy.objective, policy.constraints)  # without b, where it may have no tasks
    program = Program(part, policy.objective, policy.constraints)
    answer = gate.nothing(program)
    a = gate.whole(policy, PAIR, [(program, answer)], np.array([[1.0, 0, 0], [0, 1, 1]]), 0.0, method="x")
    assert not a.certificate.ok and a.certificate.violation == 0 and a.certificate.block_violation >= 0.49


@pytest.mark.parametrize(("fraction", "broken"), [(0.25, 1 / 3), (1.0, np.inf)])
def test_a_reserve_holds_on_each_of_the_servers_of_a_row(fraction: float, broken: float) -> None:
    """The first of two servers is full, the second empty: their sum leaves half."""
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.Reserve(0, fraction)])
    pool = fo.Instance([[2]], [[4]], counts=[2])
    part = whole_instance(pool, policy.objective, policy.constraints)
    answer = gate.nothing(program := Program(part, policy.objective, policy.constraints))
    a = gate.whole(policy, pool, [(program, answer)], np.array([[2.0, 0]]), 0.0, method="x")
    assert not a.certificate.ok and a.certificate.block_violation == pytest.approx(broken)


@pytest.mark.parametrize("policy", [fo.DRF(), fo.MostTasks(), fo.NashWelfare(), fo.FDS(2)], ids=lambda p: p.name)
@pytest.mark.parametrize("seed", range(4))
def test_the_loss_is_never_less_than_what_is_lost(policy: fo.Policy, seed: int) -> None:
    instance = whole.small(np.random.default_rng(seed + 70))
    best, a = policy.allocate(instance), policy.allocate(instance, integral="rounded")
    part = (instance.task_limits > 0) & np.array([whole.able(instance, j) for j in range(instance.n_users)])
    if not part.all():
        best = policy.allocate(instance.with_task_limits(np.where(part, instance.task_limits, 0)))
    if policy == fo.MostTasks():
        lost = 1 - a.tasks.sum() / best.tasks.sum()
    elif policy == fo.DRF():
        lost = 1 - (a.shares / instance.weights)[part].min() / (best.shares / instance.weights)[part].min()
    else:
        power = -1.0 if policy == fo.FDS(2) else 1e-9
        weights = instance.weights[part] / instance.weights[part].sum()
        with np.errstate(divide="ignore"):
            mean = [(weights @ (q.shares / instance.weights)[part] ** power) ** (1 / power) for q in (a, best)]
        lost = 1 - mean[0] / mean[1]
    assert a.certificate.gap >= lost - 1e-6


# -- certificates and files --------------------------------------------------------------------------------------------


def test_the_certificate_says_what_is_lost_and_whose_word_the_rest_is() -> None:
    a = fo.DRF().allocate(PAIR, integral=True)
    said = str(a.certificate)
    assert said.startswith("certified whole: loses at most ") and "% of the divisible optimum, " in said
    assert a.certificate.note == "optimality in whole tasks rests on HiGHS"
    assert a.prices is None and a.prices_left is None and a.level_prices is None and a.share_prices is None
    assert not fo.DRF().allocate(PAIR).certificate.whole
    beyond = replace(a.certificate, violation=1e-6)
    assert not beyond.ok and str(beyond).startswith("NOT certified whole: loses")


@pytest.mark.parametrize(
    "policy",
    [
        fo.DRF(),
        fo.MostTasks(),
        fo.NashWelfare(),
        fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks()))),
        fo.Policy(fo.Total(), [fo.EnvyFree()]),
        fo.GFJ(beta=2, lam=-0.25),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_saved_whole_tasks_load_as_whole_with_their_loss_made_again(
    policy: fo.Policy, name: str, tmp_path: Path
) -> None:
    instance = fo.Instance([[1, 3], [2, 1], [9, 9]], [[4, 4], [3, 6]], counts=[2, 1], task_limits=[None, 3, None])
    a = pickle.loads(pickle.dumps(policy.allocate(instance, integral=True)))
    b = fo.Allocation.load(a.save(tmp_path / name))
    assert b.certificate.whole and b.certificate.ok and b.certificate.note == a.certificate.note
    assert b.certificate.gap == pytest.approx(a.certificate.gap, abs=1e-6) and b.objective == a.objective
    np.testing.assert_array_equal(b.placement, a.placement)
    assert b.evidence == a.evidence


def forged(a: fo.Allocation, path: Path, **changes: Any) -> fo.Allocation:
    """What a file says after it was changed."""
    data = json.loads(a.save(path).read_text(encoding="utf-8"))
    certificate = {**data["certificate"], **changes.pop("certificate", {})}
    path.write_text(json.dumps({**data, "certificate": certificate, **changes}), encoding="utf-8")
    return fo.Allocation.load(path)


def test_files_that_were_changed_prove_nothing_untrue(tmp_path: Path) -> None:
    path, a = tmp_path / "a.json", fo.MostTasks().allocate(PAIR, integral=True)
    assert forged(a, path, certificate={"gap": 0.0}).certificate.gap == pytest.approx(a.certificate.gap, abs=1e-9)
    for evidence in ([], [{"kind": "total prices", "prices": [0.0], "divisible": [0.0]}], [{"divisible": ["x"]}], None):
        again = forged(a, path, evidence=evidence).certificate
        assert again.whole and again.ok and again.gap == pytest.approx(a.certificate.gap, abs=1e-6)
    assert not forged(a, path, placement=None).certificate.ok
    divisible = fo.MostTasks().allocate(fo.Instance([[2]], [3]))
    assert not forged(divisible, path, placement=[[1.5]], certificate={"whole": True}).certificate.whole
    moved = np.array(a.placement)[:, ::-1].tolist()
    with pytest.raises(fo.errors.InvalidInstance, match="placement has other tasks"):
        forged(a, path, placement=moved if moved != np.array(a.placement).tolist() else [[0, 0, 0], [0, 0, 0]])
    with pytest.raises(fo.errors.InvalidInstance, match="not a complete allocation"):
        forged(a, path, placement=[[1.0]])
    loaded = forged(a, path, policy="Mine()")
    assert not loaded.certificate.ok and "only the text of its policy" in loaded.certificate.note


def test_one_server_that_a_file_fills_twice_is_not_certified(tmp_path: Path) -> None:
    a = fo.Policy(fo.Total(fo.Tasks()), [fo.MaxTasks({"a": 0})]).allocate(PAIR, integral=True)
    np.testing.assert_array_equal(a.placement, [[0, 0, 0], [1, 1, 1]])
    b = forged(a, tmp_path / "a.json", placement=[[0, 0, 0], [2, 0, 1]])
    assert b.certificate.violation == pytest.approx(0.5) and not b.certificate.ok


# -- who reads certificates --------------------------------------------------------------------------------------------


def test_checks_of_whole_tasks_say_that_they_ask_of_divisible_ones() -> None:
    a = fo.DRF().allocate(fo.Instance([[2], [2]], [7], users=["a", "b"]), integral=True)
    said = str(fo.check(a)["pareto"])
    assert "could run" in said and said.endswith(" (in divisible tasks)")
    assert fo.check(a)["pareto"].margin >= 0.25
    full = fo.DRF().allocate(fo.Instance([[2], [2]], [8]), integral=True)
    assert fo.check(full)["pareto"].holds and "(in" not in str(fo.check(full)["pareto"])


def test_tables_tell_the_part_that_is_lost_and_each_server() -> None:
    table = fo.compare(["drf", "nash", "ps-dsf"], PAIR, integral="rounded")
    assert [row["whole"] for row in table.rows()] == [True, True, None]
    a = fo.DRF().allocate(PAIR, integral=True)
    frame = a.to_frame("placement")
    assert {server for _, server in frame.index} <= {"small #1", "small #2", "large"}
    assert frame["tasks"].sum() == a.tasks.sum()


def test_levels_have_a_loss_each_and_a_total_has_one() -> None:
    levels = fo.DRF().allocate(PAIR, integral=True).certificate
    assert len(levels.gaps) == 2 and levels.gap == max(levels.gaps)
    assert fo.MostTasks().allocate(PAIR, integral=True).certificate.gaps == ()


NEARLY = fo.Instance([[1e12], [100.4534]], [1e12])  # beside the first, no task of the second fits


@pytest.mark.parametrize("integral", [True, "rounded"])
def test_whole_tasks_fit_without_a_tolerance(integral: object, tmp_path: Path) -> None:
    assert fo.DRF().allocate(NEARLY, integral=integral).tasks.tolist() == [1, 0]
    close = fo.Instance([[5e11], [5e11 + 100.4534]], [1e12])
    assert fo.DRF().allocate(close, integral=integral).tasks.tolist() == [2, 0]  # levels 1 and 0; one each does not fit
    tenths = fo.Instance([[0.1], [0.3], [5 / 7]], [[1], [5]], eligible=[[1, 0], [1, 0], [0, 1]])
    for counts in ([4, 2, 7], [7, 1, 7]):  # fill both servers, up to the rounding of 5/7
        limited = tenths.with_task_limits(counts)
        assert fo.MostTasks().allocate(limited, integral=integral).tasks.tolist() == counts


def test_one_after_the_other_fills_no_server_beyond_its_capacity() -> None:
    assert fo.SequentialMinMax().allocate(NEARLY.with_task_limits([1, 9])).tasks.tolist() in ([1, 0], [0, 9])


def test_a_file_whose_whole_tasks_exceed_a_capacity_by_less_than_the_tolerance_is_refused(tmp_path: Path) -> None:
    pair = fo.Instance([[5e11], [5e11]], [1e12])
    file = fo.DRF().allocate(pair, integral=True).save(tmp_path / "a.json")
    assert fo.verify(file).ok
    data = json.loads(file.read_text())
    data["instance"]["demands"][1] = [5e11 + 100.4534]
    file.write_text(json.dumps(data))
    assert "exceed what may be used" in str(fo.verify(file))
    assert fo.Allocation.load(file).certificate.violation == np.inf
