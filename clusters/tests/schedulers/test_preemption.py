"""Whom Kueue preempts, the fewest that would do, and circles: published cases, and oracles that try everything."""

import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from pathlib import Path

import fairopt_clusters as fc
import numpy as np
import pytest
import yaml
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers import Kueue
from fairopt_clusters.schedulers.arrivals import arrivals, preemption_by_rules
from fairopt_clusters.schedulers.cohorts import exact, nodes_of
from fairopt_clusters.schedulers.draws import Case, legal, shrunk
from fairopt_clusters.schedulers.preemption import FINAL, INITIAL
from fairopt_clusters.schedulers.replay import Cycle, Replay
from fairopt_clusters.schedulers.search import trials_of
from fairopt_clusters.schedulers.smallest import by_rules
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

OWN = {"withinClusterQueue": "LowerOrNewerEqualPriority"}
LOOP = QueueTree("Kueue", (Queue("all"), *(Queue(name, "all", guarantee={"cpu": 10}, notes=OWN) for name in "ab")))
BELOW = {"borrowWithinCohort": "LowerPriority", "maxPriorityThreshold": "100", "reclaimWithinCohort": "LowerPriority"}


def queues(*rows: Queue) -> QueueTree:
    return QueueTree("Kueue", (Queue("all"), *rows))


def fewest(tree: QueueTree, queue: str, request: dict[str, float], running: list, priority: int = 1, created=0):
    nodes, runs = Kueue()._running(tree, queue, running)
    incoming = Workload(queue, exact(request), priority, created)
    return by_rules(nodes, incoming, runs, nodes[queue].lacks(incoming.uses), (FINAL, INITIAL))


def test_both_halves_of_issue_14543() -> None:
    """Commit 7e9aaf4 of pajakd/kueue, "fillBackWorkloads invalidates DRS": two workloads preempt each other."""
    base, incoming, target = ("a", {"cpu": 6}, 0, 1), ("a", {"cpu": 8}, 0, 0), ("b", {"cpu": 13}, 0, 1)
    assert Kueue().victims(LOOP, "a", {"cpu": 8}, [base, target], 0, 0) == [1]
    assert Kueue().victims(LOOP, "b", {"cpu": 13}, [base, incoming], 0, 1) == [1]
    # the first is against the rules: a borrows 4 of 20 then, b 3; with the base gone a borrows nothing
    assert fewest(LOOP, "a", {"cpu": 8}, [base, target], 0) == [1, 0]


@pytest.mark.parametrize("rules", [(FINAL, INITIAL), (FINAL,), (INITIAL,)])
def test_the_circle_of_issue_14543(rules: tuple[str, ...]) -> None:
    """Its integration test: the borrower, preempted for the third, has the smaller share, and is admitted again."""
    arrivals = [("a", {"cpu": 6}), ("b", {"cpu": 13}), ("a", {"cpu": 8}, 10)]
    ring = Kueue(rules).circle(LOOP, arrivals)
    assert sorted(ring) == [Cycle((), ((1, 2),)), Cycle((1,), ())]
    assert sorted(Kueue(rules).circle(LOOP, arrivals[2:], arrivals[:2])) == sorted(ring)
    alone = replace(LOOP, queues=tuple(replace(one, notes={}) for one in LOOP.queues))
    assert Kueue(rules).circle(alone, arrivals) == []  # it needs preemption inside a queue


def test_the_circle_of_issue_3779_which_is_gone() -> None:
    """150m, 150m and 0 of CPU: priorities let the second workload of A preempt though its share is larger."""
    a, b = (Queue(name, "all", guarantee={"cpu": 0.15}, notes=BELOW) for name in ("a", "b"))
    tree = queues(a, b, Queue("best effort", "all", guarantee={"cpu": 0}, notes={"reclaimWithinCohort": "Never"}))
    arrivals = [("a", {"cpu": 0.25}, 100), ("best effort", {"cpu": 0.05}, 10), ("a", {"cpu": 0.05}, 100)]
    assert sorted(Kueue(below_threshold=True).circle(tree, arrivals)) == [Cycle((), ((1, 2),)), Cycle((1,), ())]
    assert Kueue().circle(tree, arrivals) == []
    high = {**BELOW, "maxPriorityThreshold": "9"}
    tree = replace(tree, queues=tuple(replace(q, notes=high) if q.name == "a" else q for q in tree.queues))
    assert Kueue(below_threshold=True).circle(tree, arrivals) == []


@pytest.mark.parametrize("kueue", [Kueue(), Kueue(below_threshold=True)], ids=["now", "before"])
def test_an_audit_finds_circles_and_victims_against_the_rules(kueue: Kueue) -> None:
    report = kueue.audit(["preemption-ends", "preemption-by-rules"], max_examples=1000)
    for name in ("preemption-ends", "preemption-by-rules"):
        witness = report[name].witness
        assert len(witness.running) <= 3 and len(witness.tree.queues) <= 4 and "preempted for" in witness.sentence
        again = [*witness.running]
        if name == "preemption-ends":
            assert kueue.circle(witness.tree, again)
            assert bool(Kueue().circle(witness.tree, again)) != kueue.below_threshold  # what was repaired is gone


def test_drawing_finds_the_circle_of_issue_14543() -> None:
    """Circles of two cycles: one is preempted, and admitted again. Three workloads do, as in the issue."""

    def fails(case: Case) -> bool:
        return legal(Kueue(), case) and len(Kueue().circle(case.tree, case.running)) == 2

    rng = np.random.default_rng(0)
    case = next(filter(fails, (arrivals(rng, Kueue(), ()) for _ in range(3000))))
    case = shrunk(case, fails)
    first, second = Kueue().circle(case.tree, case.running)
    (gone,), ((again, preemptor),) = (first.admitted or second.admitted), (first.preempted or second.preempted)
    assert gone == again and case.running[gone].queue != case.running[preemptor].queue
    assert len(case.running) == 3 and len(case.tree.leaves) == 2
    assert [*preemption_by_rules(Kueue(), case)]  # the first time, too, no rule allows it


def test_a_circle_in_which_rules_allow_each_step() -> None:
    """Of 5 cores a is owed 2 and b 3: b takes from a, a takes back 2 in which it stays within its quota, and so on."""
    tree = queues(Queue("a", "all", guarantee={"cpu": 2}, notes=OWN), Queue("b", "all", guarantee={"cpu": 3}))
    arrivals_of = [Workload("a", {"cpu": 4}, 0, 0), Workload("b", {"cpu": 4}, 0, 1), Workload("a", {"cpu": 2}, 0, 2)]
    ring = Kueue().circle(tree, arrivals_of)
    assert {pair for cycle in ring for pair in cycle.preempted} == {(1, 2), (2, 0)}
    assert Kueue().circle(tree, [*arrivals_of[:2], ("a", {"cpu": 2}, 1, 2)]) == []  # a higher priority ends it
    for queue, request, age, running in (("a", 2, 2, arrivals_of[1:2]), ("a", 4, 0, arrivals_of[2:])):
        victims = Kueue().victims(tree, queue, {"cpu": request}, running, 0, age)
        assert victims == fewest(tree, queue, {"cpu": request}, running, 0, created=age) == [0]


def test_rules_of_queues() -> None:
    running = [("a", {"cpu": 5}, 1, 5), ("b", {"cpu": 15}, 1, 5)]

    def victims(priority: int, created: float, **notes: str) -> list[int]:
        tree = queues(*(Queue(name, "all", guarantee={"cpu": 10}, notes=notes) for name in "ab"))
        return Kueue().victims(tree, "a", {"cpu": 5}, running, priority, created)

    assert victims(0, 9) == [1]  # what a is owed
    assert victims(1, 9, reclaimWithinCohort="LowerPriority") == []
    assert victims(2, 9, reclaimWithinCohort="LowerPriority") == [1]
    never = {"reclaimWithinCohort": "Never"}
    assert victims(2, 9, **never) == []
    assert victims(2, 9, **never, withinClusterQueue="LowerPriority") == [0]
    assert victims(1, 4, **never, withinClusterQueue="LowerPriority") == []
    assert victims(1, 4, **never, **OWN) == [0]
    assert victims(1, 5, **never, **OWN) == []  # as old
    with pytest.raises(fo.errors.InvalidInstance, match=r"withinClusterQueue of 'a' is 'Lower'; .*LowerPriority"):
        victims(2, 9, withinClusterQueue="Lower")
    small = queues(*(Queue(name, "all", guarantee={"cpu": 4}, notes={**never, **OWN}) for name in "ab"))
    runs = [("a", {"cpu": 5})]
    assert Kueue().victims(small, "a", {"cpu": 4}, runs, 1) == [0]
    assert Kueue().victims(small, "a", {"cpu": 5}, runs, 1) == []  # more than its own quota, and it reclaims nothing


def test_decimals_are_added_exactly() -> None:
    tree = queues(*(Queue(name, "all", guarantee={"cpu": 0.3}) for name in "ab"))
    running = [("a", {"cpu": 0.1}), ("a", {"cpu": 0.1}), ("b", {"cpu": 0.3})]
    assert fewest(tree, "a", {"cpu": 0.1}, running) == []  # 0.1 + 0.1 + 0.1 is not more than 0.3
    assert Kueue().admitted(tree, {"a": {"cpu": 0.1}, "b": {"cpu": 0.3}}) == ["a", "b"]


def drawn(seed: int, flat: bool) -> tuple[QueueTree, list[Workload]]:
    """Queues in one or two levels, and what fits in them one after the other."""
    r, names = random.Random(seed), "abcd"[: 2 + seed % 3]
    limits = [{}, {"cpu": r.randint(0, 4)}] if not flat else [{}]
    made = [Queue("root", guarantee={"cpu": r.randint(0, 3)})]
    if not flat:
        inner = {"cpu": r.randint(0, 2)}
        made.append(
            Queue("left", "root", r.choice([1, 2]), inner, lending=r.choice(limits), borrowing=r.choice(limits))
        )
    for name in names:
        parent, quota = (
            r.choice(made[:2]).name if not flat else "root",
            {"cpu": r.randint(0, 5), "gpu": r.randint(0, 3)},
        )
        lending, borrowing = r.choice(limits), r.choice(limits)
        notes = {"withinClusterQueue": r.choice(["Never", "LowerPriority"])}
        made.append(Queue(name, parent, r.choice([1, 2]), quota, lending=lending, borrowing=borrowing, notes=notes))
    tree = QueueTree("Kueue", tuple(made))
    nodes, running = nodes_of(Kueue().checked(tree), exact), list[Workload]()
    for _ in range(7):
        uses = exact({"cpu": r.randint(1, 30) / 10, "gpu": r.randint(0, 2)})
        one = Workload(r.choice(names), uses, r.randint(0, 2))
        if nodes[one.queue].fits(one.uses):
            nodes[one.queue].add(one.uses)
            running.append(one)
    return tree, running[:6]


def _fits(tree: QueueTree, queue: str, request: dict[str, float], running: list[Workload]) -> bool:
    nodes, _ = Kueue()._running(tree, queue, running)
    return nodes[queue].fits(exact(request))


def test_the_fewest_by_rules_are_those_that_trying_all_orders_finds() -> None:
    preempting = 0
    for seed in range(60):
        tree, running = drawn(seed, flat=True)
        queue, request = "a", {"cpu": 2.5, "gpu": 0}
        if _fits(tree, queue, request, running) or sum(one.guarantee.get("cpu", 0) for one in tree.queues) < 2.5:
            continue
        sizes = [
            size
            for size in range(1, len(running) + 1)
            for rows in combinations(range(len(running)), size)
            if _fits(tree, queue, request, [one for j, one in enumerate(running) if j not in rows])
            and any(_in_order(tree, request, running, order) for order in permutations(rows))
        ]
        best = fewest(tree, queue, request, running)
        assert len(best) == min(sizes, default=0), seed
        preempting += len(best) > 0
    assert preempting > 15


def _in_order(tree: QueueTree, request: dict[str, float], running: list[Workload], order: tuple[int, ...]) -> bool:
    """Whether each in turn is one that the rules let a queue 'a' of a flat cohort preempt."""
    left, asks = dict(enumerate(running)), exact(request)
    quota, own = tree.by_name["a"].guarantee, tree.by_name["a"].notes["withinClusterQueue"]
    within = asks["cpu"] + sum(one.uses["cpu"] for one in running if one.queue == "a") <= quota["cpu"]
    borrowed = {one.queue: sum(w.uses["cpu"] for w in running if w.queue == one.queue) for one in running}
    for j in order:
        one = left[j]
        if one.queue == "a":
            if own == "Never" or one.priority >= 1:
                return False
        else:
            before, after = _shares(tree, asks, left), _shares(tree, asks, {k: w for k, w in left.items() if k != j})
            (mine, _), (other, borrows) = before["a"], before[one.queue]
            legal = within or mine <= after[one.queue][0] or mine < other
            if not (legal and borrows and borrowed[one.queue] > tree.by_name[one.queue].guarantee["cpu"]):
                return False
        del left[j]
    return True


def _shares(tree: QueueTree, asks: dict[str, float], left: dict[int, Workload]) -> dict[str, tuple[float, bool]]:
    """By queue of a flat cohort: its share over its weight, and whether it borrows anything."""
    out = {}
    for queue in tree.leaves:
        uses = {one: sum(w.uses[one] for w in left.values() if w.queue == queue.name) for one in ("cpu", "gpu")}
        over = {one: uses[one] + asks[one] * (queue.name == "a") - queue.guarantee[one] for one in uses}
        total = {one: sum(each.guarantee.get(one, 0) for each in tree.queues) for one in uses}
        part = max(max(0.0, float(over[one])) / total[one] for one in over if total[one])
        out[queue.name] = part / queue.weight, max(over.values()) > 0
    return out


def test_who_asks_for_nothing_preempts_nobody() -> None:
    tree = queues(Queue("a", "all", guarantee={"cpu": 1}), Queue("b", "all"))
    table = Kueue().preemptions(tree, [("a", {})], [("b", {"cpu": 1})])
    assert table.values.tolist() == [["a", True, (), 0, (), ()]]


def test_heads_that_want_the_same_victim() -> None:
    """a and c are owed 4 each, of which b runs 8: the second finds what the first freed, and waits for it."""
    tree = queues(*(Queue(name, "all", guarantee={"cpu": amount}) for name, amount in (("a", 4), ("b", 0), ("c", 4))))
    every = [Workload("b", {"cpu": 8}, 0, 0), Workload("a", {"cpu": 4}, 0, 1), Workload("c", {"cpu": 4}, 0, 2)]
    kueue, nodes = Kueue(), nodes_of(Kueue().checked(tree), exact)
    nodes["b"].add(every[0].uses)
    replay = Replay(nodes, every, [0], partial(kueue._start, nodes), kueue._order)
    replay.waits.add(1)
    assert replay.settle(2) == []
    assert (replay.runs, replay.waits, replay.aside) == ([1, 2], {0}, {0})
    assert {name: node.used.get("cpu", 0) for name, node in nodes.items()} == {"all": 8, "a": 4, "b": 0, "c": 4}


OBJECTS = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  cohortName: loop
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any, borrowWithinCohort: {policy: Never}}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: default, resources: [{name: cpu, nominalQuota: 10}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: of-%s, namespace: ns}
spec: {clusterQueue: %s}
"""
WORKLOAD = """apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: %s, namespace: ns, creationTimestamp: "2026-08-13T12:00:0%sZ"}
spec:
  queueName: of-%s
  priority: %s
  podSets: [{name: main, count: %s, template: {spec: {containers: [{name: c, resources: {requests: {%s: 1}}}]}}}]
"""
ADMITTED = """status:
  admission: {clusterQueue: %s, podSetAssignments: [{name: main, flavors: {cpu: default}, resourceUsage: {cpu: %s}}]}
  conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-08-13T12:00:0%sZ"}]
"""


def test_preemption_in_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "loop.yaml"
    clusters = [OBJECTS % ((name,) * 3) for name in "ab"]
    file.write_text("---\n".join(clusters))
    without = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "kueue"])
    assert without.exit_code == 0, without.output
    assert "Preemption" not in without.stdout
    workloads = [
        WORKLOAD % ("incoming", 3, "a", 10, 8, "cpu"),
        WORKLOAD % ("borrower", 2, "b", 0, 13, "cpu") + ADMITTED % ("b", 13, 2),
        WORKLOAD % ("base", 1, "a", 0, 6, "cpu") + ADMITTED % ("a", 6, 1),
        WORKLOAD % ("lost", 4, "c", 0, 1, "cpu"),
        WORKLOAD % ("odd", 4, "a", 0, 1, "nvidia.com/gpu"),
        WORKLOAD % ("small", 5, "a", 0, 1, "cpu"),
    ]
    file.write_text("---\n".join([*clusters, *workloads]))
    shown = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "kueue"])
    words = " ".join(shown.output.split())
    for name in ("loop", "loop.txt"):  # whose ending says nothing
        copy = tmp_path / name
        copy.write_text(file.read_text())
        assert CliRunner().invoke(app, ["queues", str(copy), "--scheduler", "kueue"]).output == shown.output
    assert shown.exit_code == 0 and "Preemption" in words and "1 workload that can never start was left out" in words
    assert "no flavor of a for its nvidia.com/gpu" in words and "in no queue that is there" in words
    assert "for ever: ns/borrower is admitted; ns/borrower is preempted for ns/incoming" in words
    found = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "kueue", "--json"])
    data = json.loads(found.stdout)
    assert data["preemption"] == [
        {
            "workload": "ns/incoming", "queue": "a", "fits": False, "flavors": [], "borrows": 1,
            "victims": ["ns/borrower"], "fewest": ["ns/borrower", "ns/base"],
        },
        {
            "workload": "ns/small", "queue": "a", "fits": True, "flavors": [], "borrows": 0, "victims": [],
            "fewest": [],
        },
    ]  # fmt: skip
    assert data["circle"] == ["ns/borrower is admitted", "ns/borrower is preempted for ns/incoming"]


def test_a_witness_as_jobs() -> None:
    tree = queues(Queue("a", "all", guarantee={"cpu": 0.15}, notes=BELOW), Queue("b", "all", guarantee={"cpu": 2}))
    text = fc.schedulers.manifest(tree, [Workload("b", {"cpu": 1}), Workload("a", {"cpu": 0.5}, 7)])
    found = [*yaml.safe_load_all(text)]
    kinds = ["ResourceFlavor", "Cohort", *["ClusterQueue"] * 2, *["LocalQueue"] * 2, *["WorkloadPriorityClass"] * 2]
    assert [one["kind"] for one in found] == [*kinds, "Job", "Job"]
    assert found[2]["spec"]["preemption"] == {
        "reclaimWithinCohort": "LowerPriority",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
    }
    job, name = found[-1], "kueue.x-k8s.io/"
    assert job["metadata"]["labels"] == {f"{name}queue-name": "a", f"{name}priority-class": "priority-7"}
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}


def test_kept_witnesses_refute_still() -> None:
    kept = Path(__file__).parents[3] / "benchmarks" / "trial.json"
    rows = [row for row in json.loads(kept.read_text())["findings"] if row.get("running")]
    assert {row["property"] for row in rows} == {"preemption-by-rules", "preemption-ends"}
    for row in rows:
        tree = QueueTree("Kueue", tuple(Queue(**one) for one in row["tree"]["queues"]))
        case = Case(tree, tuple(Workload(**one) for one in row["running"]))
        breach = trials_of(Kueue())[row["property"]].breach(Kueue(), case)
        assert legal(Kueue(), case) and breach is not None and breach.sentence == row["sentence"]


PUBLISHED = json.loads(Path(__file__).with_name("kueue_preemptions.json").read_text())["cases"]


def modelled(row: dict) -> pytest.param:
    marks = [pytest.mark.xfail(reason="what is evicted already goes first", strict=True)] * ("evicted" in row)
    return pytest.param(row, marks=marks, id=f"{row['test']}: {row['case']}")


@pytest.mark.parametrize("row", [*map(modelled, PUBLISHED)])
def test_cases_of_kueue(row: dict) -> None:
    """All of its tables; workloads are in the order of names, where they are admitted at the same moment."""
    tree = QueueTree("Kueue", tuple(Queue(**one) for one in row["queues"]))
    victims = Kueue(row["strategies"]).victims(tree, *row["incoming"][:2], row["running"], *row["incoming"][2:])
    assert sorted(row["running"][j][4] for j in victims) == row["preempted"]


def test_how_many_of_kueues_cases_there_are() -> None:
    counts = Counter(row["test"] for row in PUBLISHED)
    assert counts == {"TestFairPreemptions": 35, "TestPreemption": 36, "TestHierarchicalPreemptions": 15}
