"""The audit: what is false is refuted with a proof, what is true is never accused, what is broken is reported."""

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape
from oracle.work import Work
from rich.console import Console

import fairopt as fo
from fairopt.properties.audit import audit as module
from fairopt.properties.audit.audit import audit
from fairopt.properties.audit.replay import replay
from fairopt.properties.checks import check
from fairopt.properties.exact import confirm
from fairopt.properties.exact.confirm import Counterexample, verified
from fairopt.properties.misreports.teams import verified_team_lie
from fairopt.runtime.clock import Late
from fairopt.runtime.progress import progress

FOUR = ("pe", "si", "ef", "sp")


class Changed:
    """DRF, with something done to its answer or its question."""

    def __init__(self, name: str, change: Callable[[fo.Instance], fo.Allocation]) -> None:
        self.name, self.change = name, change

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        return replace(self.change(instance), instance=instance)


def scaled(factor: float) -> Callable[[fo.Instance], fo.Allocation]:
    def change(instance: fo.Instance) -> fo.Allocation:
        answer = fo.DRF().allocate(instance)
        return replace(answer, tasks_by_server=answer.tasks_by_server * factor)

    return change


def first_counts_twice(instance: fo.Instance) -> fo.Allocation:
    return fo.DRF().allocate(instance.with_weights([2.0] + [1.0] * (instance.n_users - 1)))


def first_two_swapped(instance: fo.Instance) -> fo.Allocation:
    answer = fo.DRF().allocate(instance)
    tasks = answer.tasks_by_server.copy()
    if len(tasks) > 1:
        tasks[[0, 1]] = tasks[[1, 0]]
    fits = (tasks.T @ instance.demands / instance.capacities).max()
    return replace(answer, tasks_by_server=tasks / max(1.0, fits))


def raises(instance: fo.Instance) -> fo.Allocation:
    raise RuntimeError("no idea")


PLANTED = {
    "a weight doubled": (first_counts_twice, {"sharing-incentive", "envy-free"}),
    "one per cent wasted": (scaled(0.99), {"pareto", "sharing-incentive"}),
    "two users swapped": (first_two_swapped, {"sharing-incentive", "envy-free", "strategy-proof"}),
}


@pytest.fixture
def hardly_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Witnesses that are solved one by one, and need not be small, are shrunk for a tenth of a second."""
    monkeypatch.setattr(module, "SHRINKING", 0.1)


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault: str, hardly_shrunk: None) -> None:
    change, broken = PLANTED[fault]
    report = audit(Changed(fault, change), sorted(broken | {"pareto"}), max_examples=16)
    assert broken <= {f.property for f in report.findings if f.refuted}
    for finding in report.findings:
        if finding.witness is not None and finding.property != "strategy-proof":
            answer = Changed(fault, change).allocate(finding.witness.instance)
            assert not check(answer, [finding.property])[finding.property].holds


@pytest.mark.parametrize("seed", range(6))
def test_drf_is_never_accused(seed: int) -> None:
    more = {"weights": seed % 2 == 1, "limits": seed % 3 == 0}
    report = audit(fo.DRF(), FOUR, max_examples=20, seed=seed, positive=seed % 5 == 0, **more)
    assert not any(f.refuted or f.n_faults for f in report.findings)
    assert all(f.instances == 20 and not f.skipped for f in report.findings)


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (fo.FDS(1), "pe"),
        (fo.FDS(1), "ef"),
        (fo.FDS(1), "bottleneck"),
        (fo.FDS(5), "si"),
        (fo.KDF(2), "sp-boosting"),
        (fo.MostTasks(), "pe"),
        (fo.BottleneckFairness(), "bottleneck"),
    ],
    ids=str,
)
def test_what_holds_is_not_refuted(policy: Any, name: str) -> None:
    size = 30 if isinstance(policy, fo.BottleneckFairness) else 100
    assert not audit(policy, [name], positive=True, max_examples=size)[name].refuted


FALSE = [
    (fo.KDF(2), "ef"),
    (fo.FDS(0.5), "si"),
    (fo.GFJ(2), "sp"),
    (fo.MostTasks(), "ef"),
    (fo.MLFDRS(), "pe"),
    (fo.HFFMRA(), "sp-boosting"),
    (fo.DRF(), "bf"),
    (fo.DRF(), "rm"),
    (fo.GFJ(2), "pm"),
]


@pytest.mark.parametrize(("policy", "name"), FALSE, ids=lambda v: getattr(v, "name", v))
def test_false_claims_fall_to_a_small_witness_that_is_proved(policy: fo.Policy, name: str, tmp_path: Path) -> None:
    report = audit(policy, [name], positive=True, max_examples=2000)
    finding = report[name]
    witness = finding.witness
    assert finding.refuted and witness is not None and finding.verdict == "refuted"
    small = witness.instance
    assert small.n_users <= 3 and max(small.demands.max(), small.capacities.max()) <= 8
    assert (small.demands > 0).all() and witness.margin > 1e-3
    assert witness.verified.startswith(("exact fractions", "optimality conditions"))
    assert witness.gain == (witness.margin if witness.misreport else None)
    user = small.users.index(witness.user)
    assert verified(policy, Counterexample(finding.property, small, user, witness.misreport, witness.changed)).confirmed
    (again,) = replay(report.save(tmp_path / "found.json"))
    assert again.refutes and again.margin == witness.margin and again.verdict == "still refutes"


def test_the_same_seed_gives_the_same_witness() -> None:
    one, two = (audit(fo.KDF(2), ["si"], max_examples=300, seed=4)["si"].witness for _ in range(2))
    assert one is not None and two is not None and one.instance == two.instance and one.margin == two.margin


def test_families_say_how_often_they_hit_and_when_first() -> None:
    finding = audit(fo.KDF(2), ["sp"], positive=True)["sp"]
    assert {*module.FAMILIES, "lies: scale", "lies: climb"} <= set(finding.hits)
    tried, hits, seconds = finding.hits["binding integers"]
    assert tried >= hits > 0 and seconds is not None and 0 <= seconds <= finding.seconds
    assert sum(finding.hits[f][0] for f in module.FAMILIES) == finding.instances


def test_instances_outside_the_domain_are_skipped_and_counted() -> None:
    finding = audit(fo.KDF(2), ["pe"], max_examples=300)["pe"]
    assert finding.skipped > 20 and finding.instances + finding.skipped == 300 and not finding.faults


def test_a_condition_that_saves_a_claim() -> None:
    assert audit(fo.KDF(2), ["ef"], positive=True)["ef"].refuted
    held = audit(fo.KDF(2), ["ef"], conditions="no completely dominant user", positive=True, max_examples=1000)
    assert held["ef"].verdict == "not refuted on 1,000 instances"
    assert held.conditions == ("positive demands", "no completely dominant user")


# -- one's own instances --------------------------------------------------------------------------------------


def test_given_pools_keep_their_teams_and_guarantees() -> None:
    pool = fo.Instance([[5, 4], [3, 2], [2, 1], [1, 1]], [11, 18], teams={"team": ["a", "a", "b", "b"]})
    finding = audit(fo.HDRF(), ["pe"], instances=[pool])["pe"]
    assert (finding.instances, finding.n_faults) == (1, 0)
    assert audit(fo.DRF(), ["si"], instances=[pool])["si"].refuted is False
    assert audit(fo.DRF(), ["si"], instances=[pool.replace(guarantees=[1, 0, 0, 0])])["si"].refuted


def test_given_instances_are_looked_at_as_they_are() -> None:
    mine = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    report = audit(fo.KDF(2), ["si", "sp", "pm", "rm", "pe"], [mine])
    witness = report["si"].witness
    assert witness is not None and witness.instance is mine and witness.user == "batch"
    assert "'batch'" in witness.sentence and report["sp"].refuted and not report["pe"].refuted
    assert report["si"].searched == "1 given instance" and report["pe"].instances == 1
    none = audit(fo.DRF(), ["pe", "sp", "pm"], [fo.Instance(np.zeros((0, 2)), [1, 1])])
    assert not any(f.refuted or f.n_faults for f in none.findings)


def test_given_instances_may_have_several_servers(tmp_path: Path) -> None:
    cluster = fo.Instance([[1, 2], [2, 1]], [[4, 2], [2, 6]], users=["a", "b"])
    report = audit(fo.MostTasks(), ["si", "ef", "pe", "pm"], [cluster, cluster.replace(task_limits=[0.1, 9])])
    assert report["si"].instances + report["pe"].instances > 2 and not report["pe"].refuted
    far = fo.Instance([[1, 1], [4, 4]], [[4, 4], [3, 8]])
    found = audit(fo.MostTasks(), ["si"], [far])
    assert found["si"].refuted and "agree" in found["si"].witness.verified
    assert replay(found.save(tmp_path / "far.json"))[0].refutes


def test_counted_servers_are_no_pool() -> None:
    twins = fo.Instance([[1, 2], [2, 1]], [[4, 4]], counts=[2])
    assert not audit(fo.DRF(), ["si", "pe"], [twins])["si"].refuted


def test_given_instances_beside_the_conditions_are_skipped_and_counted() -> None:
    zero, dominated = fo.Instance([[0, 1], [1, 2]], [4, 4]), fo.Instance([[1, 1], [2, 2]], [4, 4])
    one = audit(fo.MostTasks(), ["si"], [zero], positive=True)["si"]
    two = audit(fo.MostTasks(), ["si", "sp"], [dominated], conditions="no completely dominant user")["si"]
    assert (one.skipped, two.skipped) == (1, 1) and not one.refuted and not two.refuted
    assert one.verdict == "no instance was answered" and "excluded by the conditions" in str(one)
    by_server = fo.Instance([[[1, 0], [1, 1]], [[1, 1], [1, 1]]], [[4, 4], [4, 4]])
    assert audit(fo.MostTasks(), ["pe"], [by_server], positive=True)["pe"].skipped == 1


def test_solver_noise_is_no_envy() -> None:
    """CEEI is envy-free; of a user of a thousandth of the weight a gap of 1e-11 says little."""

    class Cone:
        name = "CEEI by cones"

        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            return fo.FDS(1).allocate(instance, solver="CLARABEL")

    pool = fo.Instance([[5.0], [4.0]], [8.0], weights=[1000, 1])
    report = audit(Cone(), ["ef", "si"], [pool, fo.Instance([[5.0], [4.0]], [[5.0], [3.0]], weights=[1000, 1])])
    assert not any(f.refuted for f in report.findings)


def test_a_doubled_weight_is_found_on_servers_too() -> None:
    cluster = fo.Instance([[1, 2]] * 3, [[4, 8], [4, 8.5]])
    favour = Changed("favour", lambda i: fo.DRF().allocate(i.with_weights([2.0] + [1.0] * (i.n_users - 1))))
    report = audit(favour, ["si", "ef"], [cluster])
    assert report["si"].refuted and report["ef"].refuted
    assert report["si"].witness is not None and report["si"].witness.margin == pytest.approx(1 / 4)


def test_drawn_clusters_find_what_pools_cannot_show(tmp_path: Path) -> None:
    """DRFH can leave a user below its own slices, and PS-DSF can waste: neither on one pool."""
    for policy, name in ((fo.DRF(), "si"), (fo.PSDSF(), "pe")):
        assert not audit(policy, [name], max_examples=20)[name].refuted
        report = audit(policy, [name], servers=3, max_examples=200, seed=1)
        witness = report[name].witness
        assert witness is not None and witness.margin > 1e-3
        assert witness.instance.n_servers <= 3 and witness.instance.n_users <= 3
        assert not check(policy.allocate(witness.instance), [name])[name].holds
        assert replay(report.save(tmp_path / "found.json"))[0].margin == pytest.approx(witness.margin)
    stands = audit(fo.DRF(), ["pe", "ef"], servers=3, max_examples=12)
    assert stands["ef"].verdict == "not refuted on 12 instances"
    assert "drawn clusters of 2 to 3 servers" in str(stands["ef"])


def test_a_cluster_that_shrinks_to_a_pool_is_proved_and_replayed_as_one(tmp_path: Path) -> None:
    """It once named no user, which a witness on a pool must, so that its file was refused."""
    report = audit(fo.MostTasks(), ["si", "ef"], servers=3, max_examples=60)
    pools = [f.witness for f in report.findings if f.witness is not None and f.witness.instance.n_servers == 1]
    assert len(pools) == 2 and all(w.user is not None and w.verified.startswith("exact") for w in pools)
    assert all(one.refutes and one.margin == one.saved for one in replay(report.save(tmp_path / "found.json")))


def test_a_witness_says_who_may_run_where() -> None:
    cluster = fo.Instance([[1, 1], [4, 4]], [[4, 4], [8, 8]], eligible={"user2": ["server2"]})
    words = str(audit(fo.MostTasks(), ["si"], [cluster])["si"].witness)
    assert "capacities (4, 4), (8, 8); 'user2' on server2 only (verified: two methods" in words


def test_what_was_searched_is_said_and_the_budget_is_spread() -> None:
    report = audit(fo.DRF(), ["pe"], max_examples=2000)
    assert "one pool, 2 to 5 users, 2 to 4 resources, equal weights, no task limits" in str(report)
    tried = {family: report["pe"].hits[family][0] for family in module.FAMILIES}
    assert min(tried.values()) > 400 and sum(tried.values()) == 2000


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_each_pool_is_tried_once_however_many_at_a_time(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    finding = audit(fo.DRF(), ["pe"], max_examples=640)["pe"]
    assert finding.instances == 640
    assert {finding.hits[family][0] for family in module.FAMILIES} == {160}


def test_a_slow_machine_finds_the_same_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each look at a clock takes a second; the time of shrinking is a limit that users are told."""
    quick = audit(fo.KDF(2), ["sp"], max_examples=100)["sp"]
    monkeypatch.setattr(module, "SHRINKING", np.inf)
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(time, "process_time", lambda: float(next(ticks)))
    slow = audit(fo.KDF(2), ["sp"], max_examples=100)["sp"]
    assert slow.witness is not None and quick.witness is not None
    assert slow.instances == quick.instances and slow.witness.sentence == quick.witness.sentence


def test_a_fault_in_large_shapes_only_is_found(hardly_shrunk: None) -> None:
    def change(instance: fo.Instance) -> fo.Allocation:
        return scaled(0.5 if instance.n_resources >= 4 else 1.0)(instance)

    assert audit(Changed("four", change), ["pe"], max_examples=100)["pe"].refuted


# -- teams ----------------------------------------------------------------------------------------------------


class Members:
    """DRF within equal teams, where each team's part is a fixed half of everything."""

    name, by = "fixed halves", ("team",)

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        answer = fo.HDRF().allocate(instance)
        return replace(answer, tasks_by_server=answer.tasks_by_server * 0.5, instance=instance)


def test_teams_are_drawn_for_policies_that_read_them() -> None:
    report = audit(fo.HDRF(("org", "team")), ["pe", "team-si"], max_examples=40, weights=True, limits=True)
    for finding in report.findings:
        assert finding.verdict == "not refuted on 40 instances" and finding.searched.endswith("teams")
        assert not finding.skipped and finding.ok
    two = fo.Instance([[1], [1]], [1], teams={"team": ["a", "b"]})
    assert list(audit(fo.HDRF(), instances=[two], time_limit=0.1)) == list(module.USUAL_OF_TEAMS)


@pytest.mark.parametrize("servers", [1, 2])
def test_witnesses_of_teams_are_small_and_replayed(servers: int, tmp_path: Path) -> None:
    report = audit(Members(), ["pe", "team-si"], max_examples=20, servers=servers)
    assert report["pe"].refuted and report["team-si"].refuted
    witness = report["team-si"].witness
    assert witness is not None and witness.instance.n_users <= 2 and "team (" in str(witness)
    again = replay(report.save(tmp_path / "found.json"), Members())
    assert all(one.refutes for one in again) and len(again) == 2


def test_a_user_of_a_team_gains_by_posing_as_two_under_hierarchical_drf(tmp_path: Path, hardly_shrunk: None) -> None:
    pool = fo.Instance([[1, 2], [1, 1]], [3, 4], teams={"team": [None, "a"]})
    witness = audit(fo.HDRF(), ["team-sp"], max_examples=60)["team-sp"].witness
    assert witness is not None and "poses as two" in witness.sentence and witness.margin > 1e-3
    report = audit(fo.HDRF(), ["team-sp"], [pool])
    witness = report["team-sp"].witness
    assert witness is not None and witness.margin == pytest.approx(1 / 6) and witness.user == "a"
    (again,) = replay(report.save(tmp_path / "found.json"))
    assert again.refutes and again.margin == witness.margin
    assert not audit(fo.HDRF(), ["team-sp"], [pool], positive=True)["team-sp"].refuted


def test_a_lie_of_a_team_changes_nothing_but_its_own_users() -> None:
    pool = fo.Instance([[1, 2], [1, 1], [1, 1]], [3, 4], teams={"team": ["b", "a", "a"]})
    others = pool.with_demands([[9, 9], [1, 1], [1, 1]])
    assert verified_team_lie(fo.DRF(), pool, "a", others) is None
    assert verified_team_lie(fo.DRF(), pool, "a", pool.with_weights([1, 3, 3])) is None


def test_policies_of_surplus_are_audited_with_guarantees() -> None:
    finding = audit(fo.Policy(fo.Leximin(fo.Surplus())), ["pe", "si"], max_examples=20)
    assert finding["pe"].ok and finding["pe"].searched.endswith("guarantees")
    witness = finding["si"].witness
    assert witness is not None and witness.instance.guarantees.any() and "guarantees (" in str(witness)


def test_alpha_fairness_of_teams_is_audited(hardly_shrunk: None) -> None:
    report = audit(fo.Policy(fo.AlphaFair(2, fo.OfTeam(fo.Tasks()))), ["pe", "team-si"], max_examples=8)
    assert not report["pe"].refuted and not report["pe"].n_faults and report["team-si"].refuted
    witness = report["team-si"].witness
    assert witness is not None and None not in witness.instance.teams["team"]


def test_properties_of_teams_are_searched_for_policies_that_know_none(hardly_shrunk: None) -> None:
    witness = audit(fo.DRF(), ["team-sp"], max_examples=8)["team-sp"].witness
    assert witness is not None and "poses as two" in witness.sentence


# -- faults ---------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
BROKEN = {
    "raises": (raises, "RuntimeError: no idea"),
    "answers NaN": (scaled(np.nan), "nan tasks"),
    "takes too much": (scaled(1.5), "tasks use"),
    "random": (lambda i: scaled(RNG.random())(i), "non-deterministic: two calls differ"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_mechanism_is_reported_with_the_instance(fault: str) -> None:
    change, words = BROKEN[fault]
    for finding in audit(Changed(fault, change), ["pe", "sp"], max_examples=20).findings:
        assert not finding.refuted and finding.n_faults > 0 and finding.instances == 0
        assert finding.verdict == "no instance was answered"
        assert words in str(finding.faults[0]) and finding.faults[0].instance.n_users > 0


def test_a_random_mechanism_is_told_on_given_instances_and_large_pools() -> None:
    pool = fo.Instance([[1, 2], [2, 1]], [4, 4])
    finding = audit(Changed("dice", lambda i: scaled(RNG.uniform(0.5, 1))(i)), ["pe"], [pool])["pe"]
    assert finding.n_faults == 1 and "two calls differ" in str(finding) and not finding.instances
    late = Changed("late", lambda i: scaled(RNG.uniform(0.5, 1) if i.n_users >= 4 else 1.0)(i))
    assert audit(late, ["pe"], max_examples=30)["pe"].n_faults > 0


def test_what_could_not_be_verified_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "verified", lambda *_: module.Verified(-1.0, "no"))
    pool = fo.Instance([[1, 1], [2, 2]], [4, 4])
    report = audit(fo.MostTasks(), ["si"], [pool])
    finding = report["si"]
    seen = check(fo.MostTasks().allocate(pool), "si")["si"].sentence
    assert finding.unverified == 1 and finding.unconfirmed[0].instance is pool
    assert f"1 instance seemed to be a counterexample, but could not be verified: {seen}; demands" in str(finding)
    assert "capacities (4, 4) (no; no margin is left after errors are deducted)" in str(finding)
    assert report.to_dict()["findings"][0]["unconfirmed"][0]["sentence"] == seen
    assert replay(report.save(tmp_path / "found.json")) == ()


@dataclass(frozen=True, repr=False)
class First(fo.Objective):
    """As many tasks of the first user as fit: the others may run any number, so optima are tied."""

    def expression(self, model: Any) -> Any:
        return model.tasks[0]


APART = fo.Instance([[1, 0], [0, 1]], [1, 4])
APART_ON_SERVERS = fo.Instance([[1, 0], [0, 1]], [[1, 4], [1, 2]])
TIED = fo.Policy(First(), name="the first user")


def test_an_inefficiency_of_tied_optima_that_a_check_shows_is_shown_by_the_audit(
    tmp_path: Path, hardly_shrunk: None
) -> None:
    verdict = check(TIED.allocate(APART), "pe")["pe"]
    assert not verdict.holds
    report = audit(TIED, ["pe"], [APART])
    witness = report["pe"].witness
    assert report["pe"].refuted and witness is not None and witness.sentence == verdict.sentence
    assert witness.margin == pytest.approx(verdict.margin, rel=1e-4)
    assert witness.verified.startswith("its own answer, run again") and "two methods differ by" in witness.verified
    assert replay(report.save(tmp_path / "found.json"), TIED)[0].refutes
    drawn = audit(TIED, ["pe"], max_examples=40)["pe"].witness
    assert drawn is not None and not check(TIED.allocate(drawn.instance), "pe")["pe"].holds


@pytest.mark.parametrize(("waste", "weight"), [(3e-6, 1.0), (0.5, 1e-8)])
def test_gains_too_small_to_be_proved_are_shown(waste: float, weight: float) -> None:
    def change(instance: fo.Instance) -> fo.Allocation:
        answer = fo.DRF().allocate(instance)
        return replace(answer, tasks_by_server=answer.tasks_by_server * [[1 - waste], [1]])

    pool = fo.Instance([[1], [1]], [1], weights=[weight, 1])
    verdict = check(Changed("short", change).allocate(pool), "pe")["pe"]
    finding = audit(Changed("short", change), ["pe"], [pool])["pe"]
    assert verdict.margin == pytest.approx(waste / (1 - waste), rel=1e-4) and f": {verdict}; demands" in str(finding)
    right = audit(fo.FDS(1), ["pe"], [pool.with_weights([1, 3])])["pe"]
    assert not right.refuted and not right.unverified


def test_on_servers_too_the_answer_that_is_given_counts_where_optima_are_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "two methods (a, b) agree"
    monkeypatch.setattr(module, "second_answer", lambda _, a: (fo.DRF().allocate(a.instance), told))
    verdict = check(TIED.allocate(APART_ON_SERVERS), "pe")["pe"]
    witness = audit(TIED, ["pe"], [APART_ON_SERVERS])["pe"].witness
    assert not verdict.holds and witness is not None and witness.sentence == verdict.sentence
    assert witness.verified == "its own answer, run again; two methods (a, b) differ, measured in fractions"
    envy = audit(TIED, ["ef"], [APART_ON_SERVERS.replace(demands=[[1, 1], [1, 1]])])["ef"]
    assert not envy.refuted and "on what 'user1' holds" in str(envy) and "(two methods (a, b) differ; " in str(envy)


@pytest.mark.parametrize("error", [ValueError("bad shape"), ArithmeticError("singular")], ids=repr)
@pytest.mark.parametrize("instance", [APART, APART_ON_SERVERS], ids=["pool", "servers"])
def test_an_error_of_another_library_while_a_witness_is_confirmed_is_told_and_the_audit_goes_on(
    instance: fo.Instance, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(confirm, "second_answer", fails)
    monkeypatch.setattr(module, "second_answer", fails)
    report = audit(TIED, ["pe", "si"], [instance])
    assert list(report) == ["pareto", "sharing-incentive"] and not report.interrupted
    for name, finding in report.items():
        seen = check(TIED.allocate(instance), name)[name].sentence
        assert not finding.refuted and finding.unverified == finding.instances == 1 and not finding.n_faults
        assert f": {seen}; demands" in str(finding)
        assert f"(could not be confirmed: {type(error).__name__}: {error})" in str(finding)


def test_a_mechanism_that_raises_when_it_is_asked_again_does_not_end_the_audit() -> None:
    asked: list[int] = []

    def change(instance: fo.Instance) -> fo.Allocation:
        asked.append(instance.n_users)
        if len(asked) > 3:  # twice to see whether it is random, once to measure it
            raise ZeroDivisionError("float division by zero")
        return scaled(0.5)(instance)

    (finding,) = audit(Changed("once", change), ["pe"], [fo.Instance([[1, 2], [2, 1]], [4, 4])]).findings
    assert finding.unverified == 1
    assert "could not be confirmed: ZeroDivisionError: float division by zero" in str(finding)


def test_findings_are_told_as_soon_as_they_are_known() -> None:
    heard: list[str] = []
    audit(fo.DRF(), ["si", "pe"], max_examples=20, found=lambda f: heard.append(f.property))
    assert heard == ["sharing-incentive", "pareto"]


def test_ctrl_c_before_the_first_property_is_an_interruption() -> None:
    def change(instance: fo.Instance) -> fo.Allocation:
        raise KeyboardInterrupt

    report = audit(Changed("stopped", change), ["pe"])
    assert report.interrupted and len(report) == 0


def test_a_mechanism_that_fails_now_and_then_is_held_to_the_rest() -> None:
    def change(instance: fo.Instance) -> fo.Allocation:
        return raises(instance) if instance.n_users == 3 else scaled(0.9)(instance)

    finding = audit(Changed("moody", change), ["pe"], max_examples=80)["pe"]
    assert finding.refuted and finding.n_faults > 0 and finding.instances + finding.n_faults <= 80


class OfItsOwn:
    """A mechanism for which instances are not drawn here."""

    def __repr__(self):
        return "OfItsOwn()"

    def allocate(self, instance):
        raise AssertionError

    def audit(self):
        raise AssertionError


WRONG = {
    "unknown property": (lambda: audit(fo.DRF(), ["strategy-prof"]), "strategy-proof"),
    "no property": (lambda: audit(fo.DRF(), []), "no properties"),
    "no examples": (lambda: audit(fo.DRF(), max_examples=0), "max_examples is 0"),
    "half an example": (lambda: audit(fo.DRF(), max_examples=2.5), "max_examples is 2.5"),
    "no mechanism": (lambda: audit("drf"), "give a policy"),
    "a class": (lambda: audit(fo.BottleneckFairness), "give a policy"),
    "one with an audit of its own": (lambda: audit(OfItsOwn()), r"an audit of its own: call OfItsOwn\(\)\.audit\(\)"),
    "unknown condition": (lambda: audit(fo.DRF(), conditions="positive demand"), "positive demands"),
    "no instances": (lambda: audit(fo.DRF(), instances=[1]), "fairopt.Instance"),
    "no time": (lambda: audit(fo.DRF(), time_limit=0), "time_limit is 0"),
    "another ending": (lambda: audit(fo.DRF(), ["pe"], max_examples=4).save("x.parquet"), "ends in .json"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case: str) -> None:
    ask, words = WRONG[case]
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        ask()


def test_ctrl_c_returns_what_is_known() -> None:
    def stop(what: str, done: int | None, of: int | None) -> None:
        if what == "sharing-incentive, instances":
            raise KeyboardInterrupt

    with progress(stop):
        report = audit(fo.KDF(2), ["pe", "si", "ef"], max_examples=500)
    assert list(report) == ["pareto", "sharing-incentive"] and report.interrupted
    assert report["pe"].instances + report["pe"].skipped == 500 and not report["pe"].interrupted
    assert report["si"].refuted and report["si"].witness.margin > 0  # as it was found, verified, not shrunk


def test_ctrl_c_pressed_twice_returns_what_is_known_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "verified", stop)
    with progress(stop):
        report = audit(fo.KDF(2), ["si"], max_examples=500)
    assert report.interrupted and report["si"].instances > 0 and not report["si"].refuted


class Slow:
    """DRF, which takes a while for each answer."""

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        self.asked += 1
        time.sleep(0.01)
        return fo.MostTasks().allocate(instance)

    asked = 0


@pytest.mark.parametrize("options", [{}, {"servers": 3}], ids=["pools", "clusters"])
@pytest.mark.parametrize("name", ["sp", "pm", "ef"])
def test_a_time_limit_ends_a_search_within_an_answer_or_a_few(name: str, options: dict[str, int]) -> None:
    slow, begun = Slow(), time.perf_counter()
    report = audit(slow, [name], max_examples=10**7, time_limit=0.1, **options)
    assert (report.late and report[name].late) or report[name].refuted
    assert slow.asked <= 10 + 8  # each takes a hundredth of a second; those that confirm a witness may come later
    assert time.perf_counter() - begun < 60


def test_a_time_limit_is_shared_by_the_properties_and_what_was_done_is_kept() -> None:
    report = audit(fo.DRF(), ["sp", "pe", "si"], max_examples=10**7, time_limit=0.6)
    assert list(report) == ["strategy-proof", "pareto", "sharing-incentive"] and report.late
    assert all(report[name].instances < 10**7 for name in report)
    assert "(time limit)" in str(report) and report.to_dict()["findings"][0]["late"] is True
    assert not report.interrupted


def test_a_witness_found_in_time_is_verified_though_the_time_does_not_suffice_to_shrink_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*_: Any) -> Any:
        raise Late

    monkeypatch.setattr(module.Shrinker, "_smallest", late)
    finding = audit(fo.MostTasks(), ["si"], max_examples=500, time_limit=60)["si"]
    assert finding.refuted and finding.late and finding.witness.margin > 0


def test_a_report_reads_well() -> None:
    report = audit(fo.KDF(2), ["si", "pe"], max_examples=200)
    assert report["si"] is report["sharing-incentive"] and "si" in report and "sp" not in report and len(report) == 2
    with pytest.raises(KeyError, match="was not audited"):
        report["sp"]
    assert report.rows()[0]["verdict"] == "refuted" and report.rows()[1]["witness"] == ""
    console = Console(width=150, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report)
    text = console.export_text()
    assert "2-DF" in text and "refuted" in text and "exact fractions" in text and "outside its domain" in text
    assert json.loads(json.dumps(report.to_dict()))["findings"][0]["refuted"] is True
    assert "demands" in str(report) and "refuted" in repr(report)


# -- files ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    report = audit(fo.KDF(2), ["sp", "si", "pe"], positive=True, max_examples=100)
    return report.save(tmp_path_factory.mktemp("audit") / "found.json").read_text()


@pytest.fixture
def saved(text: str, tmp_path: Path) -> Any:
    path = tmp_path / "found.json"
    path.write_text(text)

    def changed(change: Callable[[dict[str, Any]], Any]) -> Path:
        data = json.loads(path.read_text())
        if change(data) != "with its digest":
            data.pop("digest")
        path.write_text(json.dumps(data))
        return path

    return changed


def test_a_file_that_was_changed_is_told_by_its_digest(saved: Any) -> None:
    def changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], str]:
        def edit(data: dict[str, Any]) -> str:
            change(data)
            return "with its digest"

        return edit

    assert replay(saved(changed(lambda d: None)))[0].refutes  # another layout, but the same
    for change in (
        lambda d: first(d).update(margin="inf", gain="inf"),
        lambda d: d.update(mechanism="DRF"),
        lambda d: first(d).update(sentence="nothing"),
        lambda d: d.update(findings=[]),
        lambda d: d.pop("seed"),
    ):
        with pytest.raises(fo.errors.InvalidInstance, match="changed after it was saved"):
            replay(saved(changed(change)))


def test_a_saved_lie_on_servers_is_the_one_that_is_checked(tmp_path: Path, hardly_shrunk: None) -> None:
    cluster = fo.Instance([[1, 3], [3, 1]], [[2, 4], [1, 1]])
    path = audit(fo.MLFDRS(), ["sp"], [cluster]).save(tmp_path / "found.json")
    (again,) = replay(path)
    assert again.refutes and again.margin == pytest.approx(again.saved, rel=1e-9)
    data = json.loads(path.read_text())
    del data["digest"]
    witness = first(data)
    truth = cluster.demands[cluster.users.index(witness["user"])].tolist()
    path.write_text(
        json.dumps({**data, "findings": [{**data["findings"][0], "witness": {**witness, "misreport": truth}}]})
    )
    assert not replay(path)[0].refutes
    witness.update(margin=1e6, gain=1e6)
    path.write_text(json.dumps(data))
    assert "the file says" in replay(path)[0].verified


def test_a_user_who_may_run_nothing_loses_nothing(saved: Any) -> None:
    path = saved(lambda d: first(d)["instance"].update(task_limits=[0] * len(first(d)["instance"]["users"])))
    again = replay(path)[0]
    assert not again.refutes and "may run no tasks" in again.verified


def test_replay_holds_a_file_against_the_numbers(saved: Any) -> None:
    found = replay(saved(lambda data: None))
    assert [one.property for one in found] == ["strategy-proof", "sharing-incentive"] and all(o.refutes for o in found)
    assert "still refutes by 33.3%" in str(found[0])


def test_numbers_that_no_longer_refute_are_told(saved: Any) -> None:
    found = replay(saved(lambda data: data["findings"][0]["witness"].update(misreport=[1.0, 1.0])))
    assert not found[0].refutes and found[0].verdict == "no longer refutes" and found[1].refutes


def test_a_margin_that_was_changed_is_told(saved: Any) -> None:
    found = replay(saved(lambda data: data["findings"][0]["witness"].update(margin=9.0, gain=9.0)))
    assert found[0].refutes and "the file says 900%" in found[0].verified


def test_another_mechanism_can_be_held_against_a_file(saved: Any) -> None:
    assert not any(one.refutes for one in replay(saved(lambda data: None), fo.DRF()))


def first(data: dict[str, Any]) -> dict[str, Any]:
    return data["findings"][0]["witness"]


EDITED = {
    "format": lambda d: d.update(format="other"),
    "no findings": lambda d: d.pop("findings"),
    "unknown property": lambda d: d["findings"][0].update(property="sp2"),
    "refuted without witness": lambda d: d["findings"][0].update(witness=None),
    "gain and margin differ": lambda d: first(d).update(gain=5.0),
    "nobody": lambda d: first(d).update(user="nobody"),
    "no user": lambda d: first(d).update(user=None),
    "a lie of another length": lambda d: first(d).update(misreport=[1.0]),
    "a negative lie": lambda d: first(d).update(misreport=[-1.0, 1.0]),
    "a lie for another property": lambda d: d["findings"][0].update(property="envy-free"),
    "no instance": lambda d: first(d)["instance"].update(demands=[[-1, 1], [1, 1]]),
    "code": lambda d: d.update(policy="__import__('os').system('true')"),
    "a module": lambda d: d.update(policy="os:system"),
}


@pytest.mark.parametrize("case", EDITED)
def test_an_edited_file_is_refused(case: str, saved: Any) -> None:
    path = saved(EDITED[case])
    with pytest.raises(fo.errors.InvalidInstance, match=r"found\.json"):
        replay(path)


def test_what_is_no_file_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(fo.errors.InvalidInstance, match="No such file"):
        replay(path)
    for text in ("", "[1", "[]", '{"format": 1}', "\x00"):
        path.write_text(text)
        with pytest.raises(fo.errors.InvalidInstance, match=r"x\.json"):
            replay(path)


def test_monotonicity_is_audited_with_positive_demands_as_it_is_stated() -> None:
    found = audit(fo.DRF(), ["pm", "si"], max_examples=200)
    assert not found["pm"].refuted and "positive demands by default" in str(found["pm"])
    assert "positive" not in str(found["si"]) and found.conditions == ()
    zeros = audit(fo.DRF(), "pm", positive=False, max_examples=200)["pm"]
    assert zeros.refuted and (zeros.witness.instance.demands == 0).any()
    given = audit(fo.DRF(), "pm", [zeros.witness.instance])["pm"]  # none of which is left out
    assert given.refuted and not given.skipped
    assert (audit(fo.DRF(), "rm", max_examples=200)["rm"].witness.instance.demands > 0).all()


@pytest.mark.parametrize(("name", "demands"), [("pm", [[0, 1], [1, 0], [1, 1]]), ("rm", [[1, 3], [1, 0]])])
def test_a_change_that_does_not_follow_is_refused(name: str, demands: list[list[int]], tmp_path: Path) -> None:
    path = audit(fo.FDS(0.5), [name], [fo.Instance(demands, [1, 1])]).save(tmp_path / "x.json")
    assert replay(path)[0].refutes
    data = json.loads(path.read_text())
    first(data)["changed"]["demands"][0][0] += 1
    del data["digest"]
    path.write_text(json.dumps(data))
    with pytest.raises(fo.errors.InvalidInstance, match="does not follow"):
        replay(path)


def test_mechanisms_of_ones_own_are_given_again(tmp_path: Path, hardly_shrunk: None) -> None:
    mine = Changed("mine", scaled(0.5))
    path = audit(mine, ["pe"], max_examples=8).save(tmp_path / "x.json")
    with pytest.raises(fo.errors.InvalidInstance, match=r"--policy file\.py:NAME .*replay\(path, policy="):
        replay(path)
    assert replay(path, mine)[0].refutes
    falls = fo.Instance([[1, 7], [2, 0]], [1, 2])  # with twice as much of the second
    path = audit(fo.BottleneckFairness(), ["rm"], [falls]).save(tmp_path / "y.json")
    assert replay(path)[0].refutes and replay(path)[0].mechanism == "bottleneck fairness"


def test_a_notion_of_three_resources_is_tried_where_it_is_defined() -> None:
    """3-DF has no answer on pools of two resources, which come first; a few of them tell, and the others are left."""
    report = fo.audit(fo.KDF(3), ["pe", "ef"], positive=True, max_examples=300)
    assert report["pe"].instances >= 150 and not report["pe"].refuted
    assert report["ef"].refuted


def test_a_notion_that_is_defined_nowhere_was_not_tried() -> None:
    finding = fo.audit(fo.KDF(9), "pe", max_examples=1000)["pe"]
    assert finding.instances == 0 and not finding.refuted
    assert finding.verdict == "no instance was answered"
    assert finding.skipped < 500  # it is given up, shape by shape


def test_an_audit_in_a_notebook_shows_what_it_found_with_names_escaped():
    report = audit(fo.KDF(2), ["ef", "pe"], max_examples=60)
    page = report._repr_html_()
    assert "<b>refuted</b>" in page and "envy-free" in page and "pareto" in page
    assert escape(report["ef"].witness.sentence) in page


# -- by a share ---------------------------------------------------------------------------------------------------

HOURS = fo.Policy(fo.Leximin(fo.Tasks()))


@dataclass(frozen=True, repr=False)
class Wide(fo.Share):
    """A share with coefficients of another shape."""

    def per_task(self, instance: fo.Instance) -> Any:
        return np.ones(1)


@pytest.mark.fast_methods
def test_an_audit_by_throughput_refutes_equal_hours_as_fractions_confirm() -> None:
    report = audit(HOURS, ["pe", "si", "ef"], share=fo.ThroughputShare(), servers=2, limits=True, max_examples=60)
    assert str(report).startswith("Policy(Leximin(Tasks())), by ThroughputShare()")
    for name, exactly in (("pe", "gain"), ("si", "short"), ("ef", "envy")):
        witness = report[name].witness
        if name != "ef":  # tasks are envied too, so that a pool without rates may be the smallest
            assert witness.instance.rates is not None and "ThroughputShare()" in witness.sentence
            assert witness.instance.n_servers == 2
        exact = Work(HOURS.allocate(witness.instance))
        margins = [getattr(exact, exactly)(j) for j in range(exact.n)]
        assert witness.margin == pytest.approx(float(max(margins)), rel=1e-4)
        assert not check(HOURS.allocate(witness.instance), name, share=fo.ThroughputShare()).ok
        assert len(witness.instance.demands) <= 2
    assert audit(HOURS, ["pe"], servers=2, limits=True, max_examples=20).ok  # in tasks, which are hours


def test_without_limits_throughput_is_efficient_and_no_worse_than_own_slices() -> None:
    policy = fo.Policy(fo.Leximin(fo.ThroughputShare()))
    report = audit(policy, ["pe", "si"], servers=3, max_examples=12)
    assert report.ok and report["pe"].instances == 12


@pytest.mark.fast_methods
def test_given_instances_are_judged_by_the_share_and_left_out_where_a_user_has_none() -> None:
    rates = fo.Instance([[1], [1]], [[1], [1]], task_limits=2, rates=[[1, 10], [1, 1.1]])
    found = audit(HOURS, ["pe"], [rates], share=fo.ThroughputShare())["pe"].witness
    assert found.margin == pytest.approx(10 * (1 - 0.05 / 1.1) / 5.5 - 1, rel=1e-6)
    pool = fo.Instance([[1, 0], [1, 1]], [2, 2])
    report = audit(HOURS, ["pe"], [pool, pool.with_demands([[1, 1], [1, 2]])], share=fo.ResourceShare(1))
    assert report["pe"].skipped == 1 and report["pe"].instances == 1


def test_pools_on_which_a_user_has_nothing_of_the_share_are_not_drawn() -> None:
    seen: list[fo.Instance] = []

    def look(instance: fo.Instance) -> fo.Allocation:
        seen.append(instance)
        return fo.DRF().allocate(instance)

    assert audit(Changed("looked", look), ["si"], share=fo.ResourceShare(0), max_examples=60)["si"].instances == 60
    drawn = [instance for instance in seen if instance.n_users > 2]
    assert len(drawn) > 20 and all((instance.demands[:, 0] > 0).all() for instance in drawn[20:])


def test_misreports_and_monotonicity_are_judged_by_true_work() -> None:
    rates = fo.Instance([[1]], [[1], [3]], task_limits=[0.75], rates=[[4, 3]])
    lie = fo.properties.best_misreport(HOURS, rates, 0, share=fo.ThroughputShare())
    assert lie is not None and "has a ThroughputShare() of" in str(lie)
    lied = HOURS.allocate(rates.with_demands([lie.demands]))
    fits = lied.bundles[0, :, 0]
    most = 4 * min(fits[0], 0.75) + 3 * min(fits[1], 0.75 - min(fits[0], 0.75))
    truly = (HOURS.allocate(rates).tasks_by_server * rates.rates).sum()
    assert lie.gain == pytest.approx(most / truly - 1)
    assert fo.properties.best_misreport(HOURS, rates, 0) is None
    three = fo.Instance([[1]] * 3, [[1], [1]], task_limits=[0.75, np.inf, 1 / 32], rates=[[1, 2], [1, 1], [1, 1]])
    policy = fo.Policy(fo.Leximin(fo.ThroughputShare()))
    fell = fo.properties.population_monotone(policy, three)
    work = [(policy.allocate(i).tasks_by_server[0] * [1, 2]).sum() for i in (three, three.select_users([0, 1]))]
    assert not fell.holds and fell.margin == pytest.approx(1 - work[1] / work[0], rel=1e-5)
    grows = fo.properties.resource_monotone(policy, three, factors=[2])
    assert "ThroughputShare()" in grows.sentence


def test_an_audit_by_a_share_is_saved_and_replayed(tmp_path: Path, hardly_shrunk: None) -> None:
    report = audit(HOURS, ["pe"], share=fo.ThroughputShare(), servers=2, limits=True, max_examples=60)
    path = report.save(tmp_path / "audit.json")
    assert fo.properties.AuditReport.load(path).share == fo.ThroughputShare()
    (again,) = replay(path)
    assert again.refutes and again.margin == pytest.approx(report["pe"].witness.margin)
    assert not replay(path, share=fo.Tasks())[0].refutes


def test_a_share_of_the_objective_that_fails_is_a_fault_and_one_that_is_given_is_an_error() -> None:
    pair = fo.Instance([[1], [1]], [[1], [1]], rates=[[1, 2], [2, 1]])
    report = audit(fo.Policy(fo.Leximin(Wide())), ["pe"], [pair])
    assert report["pe"].n_faults == 1 and "Wide" in report["pe"].faults[0].message
    with pytest.raises(fo.errors.InvalidBlock, match=r"Wide\(\).per_task gave shape \(1,\)"):
        audit(HOURS, ["pe"], [pair], share=Wide())


@pytest.mark.parametrize("share", ["tasks", fo.Tasks])
def test_what_is_no_share_is_refused(share: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"the share of an audit is .*; give one such as"):
        audit(fo.DRF(), share=share)
