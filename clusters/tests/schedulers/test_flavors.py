"""In which flavors a workload could start, beside the numbers of Kueue's own tests, and where flavors are equal."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fairopt_clusters.read.kubernetes.kueue import read_kueue
from fairopt_clusters.read.queues.kueue import is_plain, parts_in, sets_of, tree_of
from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers import Kueue, start
from fairopt_clusters.schedulers.cohorts import nodes_of

from fairopt.io.quantities import in_units, quantity

PUBLISHED = json.loads(Path(__file__).with_name("kueue_flavors.json").read_text())
API = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
MODES = {start.NO_FIT: "NoFit", start.FITS: "Fit"}
NOT_MODELLED = {  # why, by what a case needs
    "preemptWorkloadSlice": "slices of elastic jobs",
    "topologies": "a set of pods in flavors of two topologies",
    "featureGates": "a feature gate that is not at its default",
}


def modelled(row: dict[str, Any]) -> Any:
    why = next((NOT_MODELLED[need] for need in NOT_MODELLED if need in row.get("needs", ())), None)
    marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
    return pytest.param(row, marks=marks, id=f"{row['test']}: {row['case']}")


@pytest.mark.parametrize("row", [*map(modelled, PUBLISHED["cases"])])
def test_cases_of_kueue(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """From objects to what is used; what preemption would bring is stated by its tests, of workloads of the queue."""
    quotas = {
        of["name"] for queue in row["queues"] for group in queue["spec"]["resourceGroups"] for of in group["flavors"]
    }
    flavors = [one for one in PUBLISHED["flavors"] if one["metadata"]["name"] in quotas]
    given = {
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {"podSets": row["sets"]},
        "status": {"reclaimablePods": row.get("reclaimable", [])},
    }
    items = [{**API, **one} for one in (*row.get("cohorts", ()), *row["queues"], *flavors, given)]
    found = read_kueue([({"kind": "List", "items": items}, "x")], mixed=True)
    tree = tree_of([(one, "x") for one in items])
    assert tree is not None
    queue, plain = row["queues"][0]["metadata"]["name"], is_plain(found)

    def amounts(of: dict[str, str]) -> dict[str, float]:
        pairs = ((cell, in_units(quantity(amount), cell.partition(":")[2])) for cell, amount in of.items())
        return {cell.partition(":")[2] if plain else cell: amount for cell, amount in pairs if amount}

    simulated = {
        of: start.Need(*need) for cell, need in row.get("simulated", {}).items() for of in amounts({cell: "1"})
    }
    monkeypatch.setattr(
        start, "_with_others_gone", lambda nodes, one, *_: simulated.get(*one.uses, start.Need(start.OWN))
    )
    parts = tuple(part for _, part in parts_in(sets_of((), found.workloads["n/w"]), found, queue, plain))
    fair = row.get("fair", False)
    nodes = nodes_of((Kueue() if fair else Kueue(())).checked(tree))
    for name, used in row.get("used", {}).items():
        nodes[name].add(amounts(used))
    incoming = Workload(queue, {}, parts=parts)
    got = start._assigned(nodes, incoming, parts, (0,) * len(parts), [], lambda *_: [], fair)
    assert MODES.get(got.need.kind, "Preempt") == row["mode"]
    if "uses" in row and row["mode"] != "NoFit":
        assert {cell: amount for cell, amount in got.uses.items() if amount} == pytest.approx(amounts(row["uses"]))
        assert got.need.level == row["borrows"]
    if "in" in row:
        assert {cell.partition(":")[2]: cell.partition(":")[0] for cell in got.uses} == row["in"]


@pytest.mark.parametrize("row", PUBLISHED["preferred"], ids=lambda row: row["case"])
def test_what_kueue_prefers(row: dict[str, Any]) -> None:
    one, other = (start._rank(start.Need(*row[key]), row["preference"] == start.BORROWS_LAST) for key in "ab")
    assert (one > other) is row["better"]


def test_how_many_of_kueues_cases_there_are() -> None:
    counts = Counter(row["test"] for row in PUBLISHED["cases"])
    assert counts == {"TestAssignFlavors": 60, "TestReclaimBeforePriorityPreemption": 6, "TestHierarchical": 3}
    assert sum(bool(row.get("needs")) for row in PUBLISHED["cases"]) == 4 and len(PUBLISHED["preferred"]) == 10
