"""What `verify` says of bundles, whole tasks and mechanisms, from their files alone."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import bundles as oracle
from oracle.instances import cluster
from oracle.whole import small

import fairopt as fo
from fairopt.checker.bundles import Dominance
from fairopt.checker.instance import Cluster
from fairopt.checker.policy import block
from fairopt.instance.parts import taking_part
from fairopt.solve.form.no_whole_task import number_of, whole_instance

EXAMPLE = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]], counts=[2, 1], task_limits=[6, None])
SHORT = fo.Instance([[6, 4], [5, 7], [2, 0]], [9, 10])  # one task of each user asks for more than there is


@dataclass(frozen=True, repr=False)
class Alike(fo.BundleBase):
    """The same base for all users who demand a resource."""

    k: float = 1.0
    growth: str = ""  # a name that FairShareBase has too

    def weights(self, instance: fo.Instance) -> np.ndarray:
        return (instance.per_server_demands > 0) * self.k


NOTIONS = [
    fo.MLFDRS(),
    fo.MLFDRS("equal"),
    fo.FFMRA(),
    fo.FFMRA("raw"),
    fo.HFFMRA(),
    fo.HFFMRA("raw"),
    fo.Policy(2 * fo.WeightedLog(Alike(2.0)) + fo.WeightedLog(Alike(2.0)), [fo.AtMostRequested()]),
    fo.Policy(fo.WeightedLog(), [fo.AtMostRequested()]),
    fo.Policy(fo.WeightedLog(Alike(growth="equal"))),
]


def read(answer: fo.Allocation, folder: Path) -> Any:
    return json.loads(answer.save(folder / "answer.json").read_text())


def checked(data: Any, folder: Path) -> fo.checker.Verification:
    (folder / "changed.json").write_text(json.dumps(data | {"objective": None}))
    return fo.verify(folder / "changed.json")


@pytest.mark.parametrize("policy", NOTIONS, ids=repr)
def test_bundles_are_proved_from_the_instance_alone(policy: fo.Policy, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    drawn = [cluster(rng, 4, 3, 3, by_server).replace(weights=None) for by_server in (False, True)]
    units = 10.0 ** rng.uniform(-12, 12, size=3)
    apart = drawn[0].replace(demands=drawn[0].demands * units, capacities=drawn[0].capacities * units)
    for instance in (EXAMPLE, SHORT, *drawn, apart, EXAMPLE.with_task_limits([0, 3])):
        proof = fo.verify(policy.allocate(instance).save(tmp_path / "answer.json"))
        assert proof.ok and proof.gap <= 1e-14, proof
    assert ("taken as given" in proof.statement) == ("Alike" in repr(policy))


@pytest.mark.parametrize("units", ["share", "raw"])
def test_parts_and_bases_recomputed_are_those_of_the_oracle(units: str, tmp_path: Path) -> None:
    """Without requests as limits the sum over a group is its part, and bundles inside it are in proportion to bases."""
    for seed in range(12):
        instance = cluster(np.random.default_rng(seed), 4, 2, 3, seed % 2 == 1).replace(weights=None)
        users = Dominance(Cluster(read(fo.HFFMRA(units).allocate(instance), tmp_path)))
        demands, eligible = instance.per_server_demands.tolist(), instance.eligible.tolist()
        counts = instance.counts.tolist()
        exact = oracle.hffmra(demands, instance.capacities.tolist(), units, eligible, counts)
        fractions = users.fractions(block(f"GlobalAggregateResource('{units}')"))
        for s in range(2):
            for i in range(3):
                if users.short(s, i):
                    continue
                bases = users.bases(block("FairShareBase()"), s, i)
                groups = zip(users.split(s, i), users.parts(s, i, fractions[s]), strict=True)
                for members, part in groups:
                    base = sum(bases.get(j, 0) for j in members)
                    for j in members if base else ():
                        expected = exact[j][s][i] / counts[s]
                        assert abs(part * bases.get(j, 0) / base - expected) <= 1e-25 * expected


@pytest.mark.parametrize("policy", NOTIONS[:6], ids=repr)
def test_bundles_of_solvers_are_proved_to_the_gap_of_their_certificate(policy: fo.Policy, tmp_path: Path) -> None:
    answer = policy.allocate(EXAMPLE, solver="CLARABEL")
    proof = fo.verify(answer.save(tmp_path / "answer.json"))
    assert proof.ok and proof.gap == pytest.approx(answer.certificate.gap, rel=1e-3, abs=1e-13)


def scaled(*place: Any, by: float) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        *path, last = place
        for key in path:
            data = data[key]
        data[last] *= by

    return change


def with_entry(key: str, value: Any) -> Callable[[Any], None]:
    return lambda data: data["instance"].update({key: value})


def renamed(data: Any) -> None:
    data["policy"] = repr(fo.MLFDRS())


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (scaled("bundles", 0, 0, 1, by=1 + 3e-9), "more than its part"),
        (scaled("bundles", 0, 0, 1, by=0.999), "gap of 1.4e-03"),
        (scaled("bundles", 0, 1, 0, by=0.999), "not those that fit"),
        (scaled("bundles", 1, 1, 0, by=-1), "has nothing"),
        (scaled("tasks_by_server", 1, 0, by=1 + 3e-9), "not those that fit"),
        (scaled("tasks_by_server", 1, 0, by=1 - 3e-9), "not those that fit"),
        (scaled("instance", "capacities", 0, 0, by=1 - 3e-9), "bundles exceed the capacity"),
        (scaled("instance", "capacities", 0, 0, by=1.01), "more than its part"),
        (scaled("instance", "demands", 0, 0, 1, by=1.01), "more than its part"),
        (scaled("instance", "task_limits", 0, by=0.9), "more than its limit"),
        (scaled("instance", "task_limits", 0, by=1.1), "not those that fit"),
        (with_entry("weights", [1, 2]), "unequal weights"),
        (with_entry("eligible", [[True, True], [False, True]]), "where it may not run"),
        (with_entry("counts", [3, 1]), "more than its part"),
        (renamed, "gap of "),
        (lambda data: data.update(policy=data["policy"].replace("Resource()", "Resource('sum')")), "parameter"),
    ],
)
def test_changed_bundles_are_refused(change: Callable[[Any], None], fault: str, tmp_path: Path) -> None:
    data = read(fo.HFFMRA().allocate(EXAMPLE), tmp_path)
    assert checked(data, tmp_path).ok
    change(data)
    proof = checked(data, tmp_path)
    assert not proof.ok and fault in str(proof)


@pytest.mark.fast_methods
def test_a_user_may_not_hold_more_than_its_request_where_resources_are_short(tmp_path: Path) -> None:
    data = read(fo.Policy(fo.WeightedLog(), [fo.AtMostRequested()]).allocate(SHORT), tmp_path)
    asked, held = SHORT.demands, np.array(data["bundles"])[:, 0]
    user, resource = np.argwhere((held == asked) & (asked > 0))[0]
    others = [j for j in range(3) if j != user and held[j, resource] > 0]
    data["bundles"][user][0][resource] *= 1.01
    for j in others:  # so that the capacity holds
        data["bundles"][j][0][resource] -= 0.01 * asked[user, resource] / len(others)
    assert "more than its request" in str(checked(data, tmp_path))


def test_what_is_no_division_is_not_proved_and_its_feasibility_is_checked(tmp_path: Path) -> None:
    beside = fo.Policy(fo.WeightedLog() + fo.Total(fo.Tasks())).allocate(EXAMPLE)
    per_server = fo.NaivePerServer(fo.FFMRA()).allocate(EXAMPLE)
    mechanisms = [fo.PSDSF().allocate(EXAMPLE), fo.SequentialMinMax().allocate(SHORT), fo.DynamicDRF().allocate(SHORT)]
    for answer in (beside, per_server, fo.BottleneckFairness().allocate(SHORT), *mechanisms):
        data = read(answer, tmp_path)
        proof = checked(data, tmp_path)
        assert not proof.ok and proof.gap == math.inf and not proof.faults
        assert proof.statement.startswith("cannot be checked this way") and "capacities, limits" in proof.statement
        data["tasks_by_server"] = [[1.5 * x for x in row] for row in data["tasks_by_server"]]
        assert checked(data, tmp_path).faults


WHOLE = [
    fo.DRF(),
    fo.Policy(fo.MaxMin(fo.Tasks())),
    fo.Policy(fo.Total(fo.Tasks())),
    fo.FDS(0.5),
    fo.NashWelfare(),
    fo.FDS(3),
    fo.Policy(fo.Leximin(), [fo.Reserve(0, 0.3)]),
    fo.Policy(fo.AlphaFair(2), [fo.EnvyFree()]),
    fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks()))),
]


@pytest.mark.parametrize("policy", WHOLE, ids=repr)
def test_whole_tasks_lose_what_the_divisible_optimum_says(policy: fo.Policy, tmp_path: Path) -> None:
    bounded = 0
    for seed in range(5):
        instance, first = small(np.random.default_rng(seed)), number_of(fo.blocks.algebra.tiers_of(policy.objective)[0])
        try:
            answer = policy.allocate(instance, integral="rounded")
        except (fo.errors.Infeasible, fo.errors.NotCertified):
            continue
        proof = fo.verify(answer.save(tmp_path / "answer.json"))
        assert proof.ok is (proof.gap < 1), proof  # a loss of all proves nothing
        assert str(proof).startswith("proved: whole tasks that fit" if proof.ok else "not proved:"), proof
        part = whole_instance(instance, first, policy.constraints)
        active = part.task_limits > 0
        if not active.any():
            continue
        best = fo.Policy(first, policy.constraints).allocate(part)
        divisible, found = (
            fo.blocks.model.Point(taking_part(part, active), a.tasks_by_server[active]) for a in (best, answer)
        )
        loss = first.loss(divisible, 0.0, found)
        assert proof.gap == pytest.approx(loss, abs=2e-6) or (proof.gap == math.inf and loss == 1)
        bounded += proof.gap < math.inf
    assert bounded


def test_the_share_is_read_where_no_whole_task_fits_too(tmp_path: Path) -> None:
    data = read(fo.Policy(fo.Total(fo.Tasks())).allocate(fo.Instance([[2]], [[1]]), integral=True), tmp_path)
    assert checked(data, tmp_path).ok
    assert not checked(data | {"policy": "Policy(Total(Leximin()))"}, tmp_path).ok


def moved(data: Any) -> None:
    data["placement"][0] = [4.0, 0.0, 0.0]
    data["tasks_by_server"][0] = [4.0, 0.0]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (scaled("placement", 0, 0, by=0.3), "not whole"),
        (scaled("placement", 0, 0, by=2), "other tasks on server 0"),
        (scaled("instance", "capacities", 0, 0, by=0.4), "on individual server 0"),
        (moved, "on individual server 0"),  # the row holds four tasks, no server of it more than two
        (with_entry("task_limits", [0.5, None]), "more than its limit"),
    ],
)
def test_changed_whole_tasks_are_refused(change: Callable[[Any], None], fault: str, tmp_path: Path) -> None:
    instance = fo.Instance([[2], [3]], [[4], [5]], counts=[2, 1])
    data = read(fo.DRF().allocate(instance, integral=True), tmp_path)
    assert data["placement"][0][0] > 0 and checked(data, tmp_path).ok
    change(data)
    proof = checked(data, tmp_path)
    assert not proof.ok and fault in str(proof)


def test_users_of_whom_no_whole_task_fits_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    proof = fo.verify(fo.NashWelfare().allocate(fo.Instance([[5], [2]], [4]), integral=True).save(tmp_path / "a.json"))
    assert proof.ok and proof.gap <= 1e-9 and "users left out because no whole task fits: 1" in proof.statement


def test_prices_made_up_for_whole_tasks_claim_no_smaller_loss(tmp_path: Path) -> None:
    """Three tasks are divisible, of a pool of 6; one task of each user leaves out a third."""
    data = read(fo.MostTasks().allocate(fo.Instance([[2], [2]], [6]), integral=True), tmp_path)
    data["placement"] = data["tasks_by_server"] = [[1.0], [1.0]]
    for price in (0.0, 0.1, 0.5, 3.0):
        data["evidence"][0]["prices"] = [[price]]
        proof = checked(data, tmp_path)
        assert proof.ok and proof.gap >= 1 / 3
