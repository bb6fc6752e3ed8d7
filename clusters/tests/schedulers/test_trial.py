"""Deployed schedulers on trial: what audits find, checked by hand and by judges of their own."""

import json
import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import KAI, Kueue, Slurm, Volcano, YuniKorn
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.draws import Case, drawn, legal, shrunk, size_of
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import InvalidBlock, InvalidInstance, UnknownName

ALL = (KAI(), Kueue(), YuniKorn(), Volcano(), Volcano("capacity"), Slurm())


def refuted(scheduler: Deployed, name: str, **options: Any) -> tuple[str, QueueTree]:
    """The sentence and the tree of a witness."""
    witness: Any = scheduler.audit(name, **options)[name].witness
    assert witness is not None and witness.margin > 1e-3
    return witness.sentence, witness.tree


def divided(scheduler: Deployed, tree: QueueTree) -> list[float]:
    """What queues without queues below are given of the only resource."""
    table: Any = scheduler.divide(tree)
    found: list[float] = table.iloc[:, 0][[one.name for one in tree.leaves]].tolist()
    return found


# -- KAI's findings, found again ------------------------------------------------------------------------------------


def test_one_gpu_for_two_that_ask_for_six_tenths_each() -> None:
    sentence, tree = refuted(KAI(), "non-wasteful")
    assert sentence == "queue 'a' asks for 0.6 gpu and gets 1"
    assert tree == QueueTree("KAI", tuple(Queue(name, request={"gpu": 0.6}) for name in "ab"), {"gpu": 1})
    assert divided(KAI(), tree) == [1, 0]


def test_a_queue_gets_less_of_a_larger_cluster() -> None:
    """As weights 5, 3 and 1 with 4 and 5 GPUs, in smaller numbers."""
    _, tree = refuted(KAI(), "resource-monotone", max_examples=1000)
    assert [queue.weight for queue in tree.queues] == [1, 3, 3] and tree.capacity == {"gpu": 3}
    assert divided(KAI(), tree) == [1, 1, 1]
    assert divided(KAI(), QueueTree("KAI", tree.queues, {"gpu": 4})) == [0, 2, 2]
    queues = Queue("a", weight=5), Queue("b", weight=3), Queue("c")
    given = QueueTree("KAI", queues, {"gpu": 4})
    sentence, same = refuted(KAI(), "resource-monotone", trees=[given])
    assert same is given and sentence == "when 4 gpu become 5, queue 'c' falls from 1 gpu to 0"


def test_asking_for_less_gives_more() -> None:
    sentence, tree = refuted(KAI(), "strategy-proof")
    assert sentence == "queue 'b', who needs all gpu there is, gets 0, and 0.5 of use to it when it asks for 0.5"
    assert tree == QueueTree("KAI", (Queue("a"), Queue("b")), {"gpu": 1})
    given = QueueTree("KAI", (Queue("a", weight=2), Queue("b", request={"gpu": 0.5})), {"gpu": 1})
    sentence, _ = refuted(KAI(), "strategy-proof", trees=[given])
    assert (
        sentence == "queue 'b', who needs 0.5 gpu, gets 0, and 0.3 of use to it when it asks for 0.3"
    )  # also with .25


def test_two_halves_get_two_of_three() -> None:
    sentence, tree = refuted(KAI(), "split-proof")
    assert sentence == "queue 'b' gets 1 gpu, and 2 as two halves of it"
    assert tree == QueueTree("KAI", (Queue("a"), Queue("b")), {"gpu": 3})
    halves = QueueTree("KAI", (Queue("a"), Queue("b1", weight=0.5), Queue("b2", weight=0.5)), {"gpu": 3})
    assert divided(KAI(), tree) == [2, 1] and divided(KAI(), halves) == [1, 1, 1]


# -- other findings, by hand ----------------------------------------------------------------------------------------


def test_kai_gives_lower_priority_what_higher_ones_cannot_have_in_whole() -> None:
    _, tree = refuted(KAI(), "keeps-priorities")
    assert sorted(queue.priority or 0 for queue in tree.queues) == [0, 1, 1] and tree.capacity == {"gpu": 1}
    assert divided(KAI(), tree) == [1.0 - (queue.priority or 0) for queue in tree.queues]


def test_kai_gives_queues_below_more_than_the_queue_above_has() -> None:
    _, tree = refuted(KAI(), "feasible")
    assert KAI().divide(tree)["gpu"].to_dict() == {"a": 1, "b": 2}


def test_kai_exceeds_limits() -> None:
    _, tree = refuted(KAI(), "within-limits")
    assert divided(KAI(), tree) == [1, 0] and tree.queues[0].limit == {"gpu": 0.6}


def test_yunikorn_guarantees_are_weights() -> None:
    _, tree = refuted(YuniKorn(), "keeps-guarantees")
    assert divided(YuniKorn(), tree) == [0.5, 0.5] and {"cpu": 1} in [queue.guarantee for queue in tree.queues]


@pytest.mark.parametrize("name", ["keeps-guarantees", "sharing-incentive", "split-proof"])
def test_yunikorn_in_steps(name: str) -> None:
    """The witnesses once more, a hundredth after the other for the queue that is first in order."""
    _, tree = refuted(YuniKorn(), name)
    steps, used = 600, {one.name: 0.0 for one in tree.queues}
    step = tree.capacity["cpu"] / steps
    for _ in range(steps):
        queues = [replace(one, used={"cpu": used[one.name]}) for one in tree.queues]
        used[YuniKorn().order(replace(tree, queues=tuple(queues)))[0]] += step
    assert [*used.values()] == pytest.approx(divided(YuniKorn(), tree), abs=3 * step)


def test_a_maximum_lowers_the_share_in_yunikorn() -> None:
    _, tree = refuted(YuniKorn(), "sharing-incentive")
    assert sorted(len(queue.limit) for queue in tree.queues) == [0, 1] and tree.capacity == {"cpu": 2}
    gets = dict(zip([1 in queue.limit.values() for queue in tree.queues], divided(YuniKorn(), tree), strict=True))
    assert gets == pytest.approx({True: 2 / 3, False: 4 / 3})


def test_yunikorn_shares_among_queues() -> None:
    sentence, _ = refuted(YuniKorn(), "split-proof")
    assert sentence == "queue 'a' gets 0.5 cpu, and 0.6667 as two halves of it"


def test_volcano_promises_more_than_there_is() -> None:
    _, tree = refuted(Volcano(), "feasible")
    assert tree.capacity == {"cpu": 2} and sorted(one.reserved.get("cpu", 0) for one in tree.queues) == [0, 0, 1]
    assert sorted(divided(Volcano(), tree)) == pytest.approx([2 / 3, 2 / 3, 1])


def test_a_guarantee_is_worth_less_in_a_larger_yunikorn_cluster() -> None:
    """a and b share as 1 to the size of the cluster, and so do c and d below a: c has 1/4 of 1, or 1/16 of 3."""
    queues = Queue("a", guarantee={"cpu": 1}), Queue("b"), Queue("c", "a", guarantee={"cpu": 1}), Queue("d", "a")
    found = [YuniKorn().divide(QueueTree("YuniKorn", queues, {"cpu": cpus}))["cpu"]["c"] for cpus in (1, 3)]
    assert found == pytest.approx([1 / 2 * 1 / 2, 3 * 1 / 4 * 1 / 4])
    given = QueueTree("YuniKorn", queues, {"cpu": 1})
    sentence, _ = refuted(YuniKorn(), "resource-monotone", trees=[given])
    assert sentence == "when 1 cpu become 3, queue 'c' falls from 0.25 cpu to 0.1875"


@pytest.mark.parametrize("name", ["equal-treatment", "order-independent", "sharing-incentive", "max-min-fair"])
def test_volcano_serves_queues_that_deserve_nothing_in_turn(name: str) -> None:
    _, tree = refuted(Volcano("capacity"), name, max_examples=100)
    assert tree == QueueTree("Volcano", (Queue("a"), Queue("b")), {"cpu": 1})
    assert divided(Volcano("capacity"), tree) == [1, 0]


def test_hierarchical_drf_gives_less_of_more() -> None:
    """As DRF itself: with two cores a task of b is half as large a part of the cores, and it runs more of them."""
    queues = Queue("a", request={"cpu": 0, "memory": 2}), Queue("b", request={"cpu": 1, "memory": 1})
    given = QueueTree("Volcano", queues, {"cpu": 1, "memory": 2})
    sentence, _ = refuted(Volcano("hdrf"), "resource-monotone", trees=[given])
    assert sentence == "when 1 cpu become 2, queue 'a' falls from 1.34 memory to 1"  # 4/3 in divisible tasks


@pytest.mark.parametrize("one", [Kueue(), Slurm(), Volcano()], ids=lambda one: one.name)
def test_water_filling_is_max_min_fair(one: Deployed) -> None:
    finding = one.audit("max-min-fair", max_examples=15, seed=1)["max-min-fair"]
    assert finding.verdict == "not refuted on 15 instances" and finding.ok


# -- the search -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_what_is_drawn_divides(one: Deployed) -> None:
    """All that is drawn is legal, and given amounts are finite and not negative."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        case = drawn(rng, one)
        assert legal(one, case) and len(case.tree.leaves) <= 5
        assert all(0 <= amount < math.inf for amount in divided(one, case.tree))


def test_shrinking_ends_at_a_case_that_fails() -> None:
    rng = np.random.default_rng(1)
    case = next(one for one in iter(lambda: drawn(rng, Slurm()), None) if len(one.tree.queues) > 3)
    least = shrunk(case, lambda one: len(one.tree.queues) > 1 and legal(Slurm(), one))
    assert size_of(least) < size_of(case)
    assert [(q.name, q.parent, q.weight, q.request) for q in least.tree.queues] == [
        ("a", "", 1, None), ("b", "", 1, None)
    ]  # fmt: skip


def test_the_same_seed_finds_the_same() -> None:
    assert refuted(KAI(), "merge-proof", seed=5) == refuted(KAI(), "merge-proof", seed=5)


def test_given_trees_are_tried_as_they_are() -> None:
    fine = QueueTree("KAI", (Queue("a"),), {"gpu": 2})
    report = KAI().audit(["feasible", "split-proof"], trees=[fine])
    assert [finding.verdict for finding in report.findings] == ["not refuted on 1 instance"] * 2
    with pytest.raises(InvalidBlock, match="give a list of QueueTree"):
        KAI().audit(trees=fine)  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="give queues of KAI"):
        KAI().audit(trees=[QueueTree("Slurm", (Queue("a"),), {"cpu": 1})])
    with pytest.raises(InvalidBlock, match="instances is empty"):
        KAI().audit(trees=[])


def test_given_trees_with_what_a_property_leaves_out_are_skipped() -> None:
    """A slice is one without guarantees, and max-min fairness knows no priorities."""
    owed = QueueTree("KAI", (Queue("a", guarantee={"gpu": 2}), Queue("b")), {"gpu": 2})
    ranked = QueueTree("KAI", (Queue("a", priority=1), Queue("b")), {"gpu": 2})
    fine = QueueTree("Kueue", (Queue("all", guarantee={"cpu": 2}), Queue("a", "all", guarantee={"cpu": 0})))
    report = KAI().audit(["sharing-incentive", "max-min-fair"], trees=[owed, ranked])
    assert [(one.instances, one.skipped) for one in report.findings] == [(0, 2), (1, 1)]
    assert report["sharing-incentive"].verdict == "no instance was answered"
    assert Kueue().audit("sharing-incentive", trees=[fine]).findings[0].instances == 1


def test_weights_by_resource_are_halved_and_added() -> None:
    """As `test_two_halves_get_two_of_three`, with weights as KAI's files give them; a sum of 1 and 1 is 2 of 3."""
    queues = Queue("a", weights={"gpu": 1}), Queue("b", weights={"gpu": 1})
    tree = QueueTree("KAI", queues, {"gpu": 3})
    sentence, _ = refuted(KAI(), "split-proof", trees=[tree])
    assert sentence == "queue 'b' gets 1 gpu, and 2 as two halves of it"
    three = QueueTree("KAI", (*queues, Queue("c", weights={"gpu": 1})), {"gpu": 1})
    sentence, _ = refuted(KAI(), "merge-proof", trees=[three])
    assert sentence == "queues 'b' and 'c' get 0 gpu together, and 1 as one queue"


def test_the_report() -> None:
    report = KAI().audit(["Split_Proof", "order-independent"], max_examples=60)
    assert list(report) == ["split-proof", "order-independent"] and "split proof" in report and not report.ok
    assert "3 gpu; 'a'; 'b'" in str(report) and report.rows()[0]["where"] == "3 gpu; 'a'; 'b'"
    assert (
        json.loads(json.dumps(report.to_dict(), allow_nan=False))["findings"][0]["witness"]["tree"]["scheduler"]
        == "KAI"
    )
    with pytest.raises(UnknownName, match="feasible was not audited"):
        report["feasible"]
    with pytest.raises(InvalidBlock, match="not saved"):
        report.save("a.json")


def test_unknown_properties_and_options() -> None:
    with pytest.raises(InvalidBlock, match="no property 'envy-free' of this scheduler; it has max-min-fair, feasible"):
        KAI().audit("envy-free")
    with pytest.raises(InvalidBlock, match="no property 'keeps-priorities' of this scheduler"):
        Slurm().audit("keeps-priorities")
    with pytest.raises(InvalidBlock, match=r"KAI as deployed has an audit of its own: call KAI\(.*\)\.audit\(\)"):
        fo.audit(KAI())


def test_the_command() -> None:
    run = CliRunner().invoke(app, ["audit", "--scheduler", "kai", "--property", "split-proof"])
    assert run.exit_code == 0 and "2 as two halves of it" in run.output
    as_json = CliRunner().invoke(app, ["audit", "--scheduler", "kai", "--property", "feasible", "--json"])
    assert json.loads(as_json.stdout)["findings"][0]["refuted"] is True
    for wrong, words in (([], "either a policy"), (["--scheduler", "kay"], "did you mean 'kai'")):
        failed = CliRunner().invoke(app, ["audit", "--seed", "1", *wrong])
        assert failed.exit_code == 2 and words in " ".join(failed.output.split())


# -- what is kept for the documentation -----------------------------------------------------------------------------


def test_kept_findings_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kept witness refutes its property still, and has a cause; a judge in fractions agrees where it is simple."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    trial: Any = __import__("trial")
    rows = json.loads(trial.KEPT.read_text())["findings"]
    of_trees = [row for row in rows if row["refuted"] and not row["running"]]
    assert len(of_trees) >= 20
    assert {*trial.CAUSES} == {*trial.READ} == {(one["scheduler"], one["property"]) for one in rows if one["refuted"]}
    for row in of_trees:
        scheduler, tree = trial.ON_TRIAL[row["scheduler"]], trial.tree_of(row)
        assert legal(scheduler, Case(tree)), row
        sentence, _ = refuted(scheduler, row["property"], trees=[tree])
        assert sentence == row["sentence"] and trial.CAUSES[row["scheduler"], row["property"]], row
        judge = JUDGES.get(row["property"])
        assert judge is None or judge(scheduler, tree), row
    text = trial.markdown()
    assert text.count("**not ") == len([row for row in rows if row["refuted"]])
    assert text.count("```yaml") == len({(row["scheduler"], row["where"]) for row in rows if row["refuted"]})
    sys.modules.pop("trial")


def exact(scheduler: Deployed, tree: QueueTree) -> dict[str, dict[str, Fraction]]:
    """The division in fractions of small denominators."""
    of: Any = scheduler.divide(tree).to_dict()
    return {name: {queue: Fraction(x).limit_denominator(10_000) for queue, x in by.items()} for name, by in of.items()}


def too_much(scheduler: Deployed, tree: QueueTree) -> bool:
    """Whether queues below one, or at the top, have more together than there is."""
    of = exact(scheduler, tree)
    return any(
        sum(by[one.name] for one in below) > (by[above] if above else Fraction(tree.capacity[name]))
        for name, by in of.items()
        for above, below in tree.children.items()
        if below
    )


def alike_and_not_equal(scheduler: Deployed, tree: QueueTree) -> bool:
    """Whether two queues that say the same get different amounts."""
    said = {one.name: repr((one.parent, one.weight, one.guarantee, one.limit, one.request)) for one in tree.leaves}
    return any(
        by[one] != by[other]
        for by in exact(scheduler, tree).values()
        for one in said
        for other in said
        if said[one] == said[other]
    )


def beyond_a_limit(scheduler: Deployed, tree: QueueTree) -> bool:
    """Whether a queue has more than its limit."""
    return any(
        by[one.name] > Fraction(one.limit[name]).limit_denominator(100)
        for name, by in exact(scheduler, tree).items()
        for one in tree.queues
        if name in one.limit
    )


JUDGES = {"feasible": too_much, "equal-treatment": alike_and_not_equal, "within-limits": beyond_a_limit}
