"""Week after week: quotas are written from the fair answer, applied to the cluster, and read again."""

import json
import sys
from functools import partial
from pathlib import Path

import fairopt_clusters as fc
import numpy as np
import pytest
from fairopt_clusters.quotas.cluster_queues import InputQueues
from fairopt_clusters.read.documents import data_of_text

import fairopt as fo

sys.path.append(str(Path(__file__).parents[1] / "read" / "kubernetes"))

from kube_cluster import GPU, pod
from test_kueue import flavor, listed, local, node, spec
from test_kueue_shares import cells, waiting

caps = partial(fc.quotas, caps=True)  # of a moment


def shared(queues, asked, nodes, rest, policy, tmp_path):
    """The document of a week, the answer, and what queues get of GPUs."""
    names = [one["metadata"]["name"] for one in queues]
    jobs = [waiting(name, count, spec(1, 1)) for name, count in asked.items() if count]
    document = listed(*nodes, *rest, *queues, *(local(name, "main", name) for name in names), *jobs)
    (tmp_path / "now.json").write_text(json.dumps(document))
    answer = policy.allocate(fo.read(tmp_path / "now.json"))
    members = answer.instance.teams.names
    assert answer.certificate.ok
    got = {name: float(answer.tasks[members[name]].sum()) if name in members else 0.0 for name in names}
    return document, answer, got


def week(queues, asked, nodes, rest, policy, tmp_path):
    """What queues get of GPUs in a week, the quotas, and the queues as applied."""
    document, answer, got = shared(queues, asked, nodes, rest, policy, tmp_path)
    made = caps(answer, "kueue", queues=document)
    applied = {one["metadata"]["name"]: one for one in data_of_text(made.text(), "", "", True)["items"]}
    return got, made, [applied.get(one["metadata"]["name"], one) for one in queues]


def owed(queues):
    return {
        one["metadata"]["name"]: [
            entry["nominalQuota"] for of in one["spec"]["resourceGroups"][0]["flavors"] for entry in of["resources"]
        ]
        for one in queues
    }


@pytest.mark.parametrize("policy", [fo.HDRF(), fc.policies.Kueue()])
def test_what_is_lent_in_one_week_is_no_promise_in_the_next(policy, tmp_path):
    queues = [cells(name, "all", resources=("cpu", GPU), pool=[32, 16]) for name in "ab"]
    nodes, got = [node("n", 64, 32)], []
    for asked in ({"a": 32, "b": 2}, {"a": 32, "b": 32}, {"a": 32, "b": 32}, {"a": 32, "b": 0}, {"a": 2, "b": 32}):
        before = owed(queues)
        units, made, queues = week(queues, asked, nodes, [flavor("pool")], policy, tmp_path)
        got.append((units["a"], units["b"]))
        written = limits_of(queues)
        assert owed(queues) == before
        waits = sum(asked.values()) > 32  # else nobody does, and there is no limit
        assert {row.team for row in made.rows} == ({*asked} if waits else set())
        if not asked["b"]:  # idle: its owners gave no limit, and it may use what a leaves idle
            assert written["b", "pool", GPU] is written["a", "pool", GPU] is None
            assert "for what is idle: b cpu of pool, b nvidia.com/gpu of pool" in str(made.notes)
        assert "nominal quotas of all queues and cohorts are 64 of 64 cpu of pool, 32 of 32 " in str(made.notes)
    assert got == [pytest.approx(one) for one in ((30, 2), (16, 16), (16, 16), (32, 0), (2, 30))]


@pytest.mark.parametrize("policy", [fo.HDRF(), fc.policies.Kueue()])
def test_twelve_weeks_of_random_demand_are_shared_as_if_each_were_the_first(policy, tmp_path):
    rng = np.random.default_rng(12)
    of = dict(resources=("cpu", GPU))
    first = [
        cells("a", "all", big=[40, 10], small=[40, 2], **of),
        cells("b", "all", big=[40, {"nominal": 6, "borrowing": 4}], small=[40, 4], **of),
        cells("c", "all", big=[40, {"nominal": 0, "lending": 0}], small=[40, 2], **of),
    ]
    pool = cells("all", kind="Cohort", big=[0, 8], small=[0, 0], **of)
    nodes = [
        *(node(f"b{k}", 64, 8, size="big") for k in range(3)),
        *(node(f"s{k}", 64, 4, size="small") for k in (0, 1)),
    ]
    rest = [flavor("big", size="big"), flavor("small", size="small"), pool]
    queues, given = first, []
    for _ in range(12):
        asked = {name: int(rng.integers(0, 2)) * int(rng.integers(1, 40)) for name in "abc"}
        asked["a"] = max(asked["a"], 1)
        units, _, queues = week(queues, asked, nodes, rest, policy, tmp_path)
        *_, alone = shared(first, asked, nodes, rest, policy, tmp_path)
        assert units == pytest.approx(alone, abs=1e-6) and owed(queues) == owed(first)
        for name, nominal in (("a", 12), ("b", 10), ("c", 2)):
            assert units[name] >= min(asked[name], nominal) - 1e-6
        given.append(units["a"])
    assert len({round(x, 3) for x in given}) > 4  # shares follow demand


def test_an_idle_queue_that_is_owed_nothing_is_not_shut_out(tmp_path):
    """Of 32 GPUs of a cohort a and b are owed none: a asks for 4, and b asks for nothing until tomorrow."""
    of, nodes = dict(resources=("cpu", GPU)), [node("n", 64, 32)]
    first = [cells("a", "all", pool=[0, 0], **of), cells("b", "all", pool=[0, {"nominal": 0, "borrowing": 20}], **of)]
    rest = [flavor("pool"), cells("all", kind="Cohort", pool=[64, 32], **of)]
    _, busy, queues = week(first, {"a": 4, "b": 4}, nodes, rest, fo.HDRF(), tmp_path)
    assert not busy.changed and "nobody waits for these, so that borrowing stays" in str(busy.notes)
    assert limits_of(queues)["b", "pool", GPU] == "20"
    _, made, queues = week(queues, {"a": 4, "b": 0}, nodes, rest, fo.HDRF(), tmp_path)
    written = limits_of(queues)
    assert not made.changed and written["a", "pool", GPU] is None
    assert written["b", "pool", GPU] == "20" and written["b", "pool", "cpu"] is None  # as its owners gave them
    now = InputQueues({one["metadata"]["name"]: one for one in queues}, cohorts={"all": rest[1]}).present
    assert {one.team: one.amount for one in now if one.resource == GPU} == {"a": 32, "b": 20}


def limits_of(queues):
    """The borrowing limits, by queue, flavor and resource."""
    return {
        (one["metadata"]["name"], of["name"], entry["name"]): entry.get("borrowingLimit")
        for one in queues
        if one["kind"] == "ClusterQueue"
        for of in one["spec"]["resourceGroups"][0]["flavors"]
        for entry in of["resources"]
    }


def after(made, document):
    """The objects of a document after what is written was applied."""
    applied = {one["metadata"]["name"]: one for one in data_of_text(made.text(), "", "", True)["items"]}
    return [applied.get(one["metadata"]["name"], one) if "spec" in one else one for one in document["items"]]


def two_pools():
    """Queues with the larger part of one pool, and a pool of spot servers that is scaled to zero."""
    of = dict(resources=("cpu", GPU))
    queues = [cells(q, "all", od=[8, 4], spot=[0, {"nominal": 0, "borrowing": 20}], **of) for q in "ab"]
    jobs = [waiting(q, 16, spec(1, 1)) for q in "ab"]
    rest = [flavor("od", size="od"), flavor("spot", size="spot"), cells("all", kind="Cohort", spot=[32, 32], **of)]
    return listed(node("n", 16, 8, size="od"), *rest, *queues, *(local(q, "main", q) for q in "ab"), *jobs)


def test_limits_of_a_pool_that_is_scaled_to_zero_stay(tmp_path):
    document = two_pools()
    (tmp_path / "now.json").write_text(json.dumps(document))
    made = caps(fo.HDRF().allocate(fo.read(tmp_path / "now.json")), "kueue", queues=document)
    limits = limits_of(after(made, document))
    assert limits["a", "od", GPU] == "0" and limits["a", "spot", GPU] == "20" and limits["a", "spot", "cpu"] is None
    assert "no servers that count now, so that limits stay as their owners gave them: spot" in made.notes


def test_quotas_of_one_resource_leave_the_limits_of_others(tmp_path):
    document = two_pools()
    (tmp_path / "now.json").write_text(json.dumps(document))
    answer = fo.HDRF().allocate(fo.read(tmp_path / "now.json"))
    first = data_of_text(caps(answer, "kueue", queues=document).text(), "", "", True)["items"]
    names = {one["metadata"]["name"]: one for one in first}
    document["items"] = [
        names.get(one["metadata"]["name"], one) if one["kind"] == "ClusterQueue" else one for one in document["items"]
    ]
    again = caps(answer, "kueue", queues=document, resources=[GPU])
    assert limits_of(after(again, document))["a", "od", "cpu"] == "0" and not again.changed


def test_quotas_add_up_to_what_pods_outside_kueue_leave(tmp_path):
    """Of 32 GPUs a Deployment runs 24: 4 each, though their cohort owes them 32; nothing of it is in what is held."""
    queues = [cells(name, "all", resources=("cpu", GPU), pool=[0, 0]) for name in "ab"]
    rest = [flavor("pool"), cells("all", kind="Cohort", resources=("cpu", GPU), pool=[64, 32])]
    rest += [pod("serving", f"srv-{k}", spec(1, 6, nodeName=f"n{k}")) for k in range(4)]
    nodes = [node(f"n{k}", 16, 8) for k in range(4)]
    got, made, queues = week(queues, {"a": 20, "b": 20}, nodes, rest, fo.HDRF(), tmp_path)
    assert got == pytest.approx({"a": 4, "b": 4})
    assert sum(row.amount for row in made.rows if row.resource == GPU) == 8
    assert {limits_of(queues)[name, "pool", GPU] for name in "ab"} == {"4"}
    promised = [note for note in made.notes if note.startswith("nominal quotas promise more than there is")]
    assert len(promised) == 1 and "32 of 8 nvidia.com/gpu of pool" in promised[0]


def test_servers_where_no_pod_of_a_queue_may_run_are_there_all_the_same(tmp_path):
    """Of 96 cores 32 are on a server without GPUs, of which a pod outside Kueue takes 2: 94 beside quotas of 80."""
    queues = [cells(name, "all", resources=("cpu", GPU), pool=[40, 4]) for name in "ab"]
    nodes = [node("n1", 64, 8), node("n2", 32)]
    rest = [flavor("pool"), pod("serving", "srv", spec(2, nodeName="n2"))]
    _, made, _ = week(queues, {"a": 8, "b": 8}, nodes, rest, fo.HDRF(), tmp_path)
    told = "nominal quotas of all queues and cohorts are 80 of 94 cpu of pool, 8 of 8 nvidia.com/gpu"
    assert any(note.startswith(told) for note in made.notes)
    used = sum(row.amount for row in made.rows if row.resource == "cpu")
    assert f"in no quota: {94 - used:g} of 94 cpu" in made.notes


def test_present_amounts_of_a_flavor_with_the_default_name_are_found(tmp_path):
    queues = [cells(name, "all", resources=("cpu", GPU), **{"default-flavor": [32, 4]}) for name in "ab"]
    _, made, _ = week(queues, {"a": 8, "b": 8}, [node("n", 64, 8)], [flavor("default-flavor")], fo.HDRF(), tmp_path)
    (tmp_path / "queues.json").write_text(json.dumps(listed(*queues)))
    changes = made.diff(tmp_path / "queues.json")
    assert {(row.resource, row.present) for row in changes.rows} == {("cpu", 64), (GPU, 8)}  # what the cohort has
