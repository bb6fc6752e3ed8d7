"""What queues of Kueue get: cases by hand, with the answers that Kueue's own rules give."""

import pytest
from fairopt_clusters.policies import Kueue
from kube_cluster import GPU, pod
from test_kueue import cohort, flavor, local, made, node, queue, said, spec, workload

import fairopt as fo
from fairopt.questions.changed import changed


def cells(name, cohort_name=None, *, kind="ClusterQueue", parent=None, resources=("cpu",), weight=None, **by_flavor):
    """A queue or a cohort with quotas by flavor: a number, or a dict of nominal, borrowing and lending, by resource."""

    def quota(resource, given):
        given = given if isinstance(given, dict) else {"nominal": given}
        names = {"nominal": "nominalQuota", "borrowing": "borrowingLimit", "lending": "lendingLimit"}
        return {"name": resource} | {names[key]: str(value) for key, value in given.items()}

    flavors = [
        {"name": of, "resources": [quota(r, v) for r, v in zip(resources, values, strict=True)]}
        for of, values in by_flavor.items()
    ]
    made_of = cohort(name, parent) if kind == "Cohort" else queue(name, cohort_name, weight=weight)
    made_of["spec"]["resourceGroups"] = [{"coveredResources": list(resources), "flavors": flavors}] if flavors else []
    if kind == "Cohort" and weight is not None:
        made_of["spec"]["fairSharing"] = {"weight": weight}
    return made_of


def waiting(name, count, one):
    return workload(name, "job", "main", (count, one))


def units(answer, resource):
    """What each queue gets of a resource."""
    instance = answer.instance
    i, out = instance.resource_index(resource), {}
    for name, rows in instance.teams.names.items():
        if name in instance.teams.labelling("team").names:
            out[name] = float(answer.tasks[rows] @ instance.demands[rows, i])
    return out


def shared(*objects, nodes, pods=(), policy=None):
    """The instance, and what queues get of CPUs and GPUs by a policy: a proved answer."""
    names = [item["metadata"]["name"] for item in objects if item["kind"] == "ClusterQueue"]
    instance = made(*objects, *(local(name, "main", name) for name in names), nodes=nodes, pods=list(pods))
    return instance, (policy or fo.HDRF(by=instance.teams.outermost_first)).allocate(instance)


BOTH = [fo.HDRF(), Kueue()]


@pytest.mark.parametrize("policy", BOTH)
def test_a_queue_without_a_cohort_has_its_nominal_quota_and_no_more(policy):
    _, answer = shared(
        cells("a", all=[9]), flavor("all"), waiting("a", 21, spec(1)), nodes=[node("n", 21)], policy=policy
    )
    assert units(answer, "cpu") == pytest.approx({"a": 9})


@pytest.mark.parametrize("policy", BOTH)
def test_the_quotas_of_a_cohort_are_its_capacity(policy):
    queues = [cells("a", "c", all=[3]), cells("b", "c", all=[3])]
    _, answer = shared(*queues, flavor("all"), waiting("a", 10, spec(1)), nodes=[node("n", 10)], policy=policy)
    assert units(answer, "cpu") == pytest.approx({"a": 6})


@pytest.mark.parametrize("policy", BOTH)
def test_borrowing_and_lending_limits_bound_what_queues_take_and_give(policy):
    limited = [cells("a", "c", all=[{"nominal": 3, "borrowing": 1}]), cells("b", "c", all=[3])]
    keeping = [cells("a", "c", all=[3]), cells("b", "c", all=[{"nominal": 3, "lending": 2}])]
    for queues, right in ((limited, 4), (keeping, 5)):
        _, answer = shared(*queues, flavor("all"), waiting("a", 10, spec(1)), nodes=[node("n", 10)], policy=policy)
        assert units(answer, "cpu") == pytest.approx({"a": right})


def test_the_rule_of_kueue_shares_what_is_borrowed():
    objects = [
        cells("a", "c", all=[6]),
        cells("b", "c", all=[2]),
        cells("c", kind="Cohort", all=[4]),
        flavor("all"),
        waiting("a", 12, spec(1)),
        waiting("b", 12, spec(1)),
    ]
    instance, answer = shared(*objects, nodes=[node("n", 12)], policy=Kueue())
    assert units(answer, "cpu") == pytest.approx({"a": 8, "b": 4})
    assert said(instance, "fair sharing in Kueue compares what is borrowed: -p kueue")
    _, answer = shared(*objects, nodes=[node("n", 12)])
    assert units(answer, "cpu") == pytest.approx({"a": 6, "b": 6})


@pytest.mark.parametrize("policy", BOTH)
def test_nominal_quotas_hold_by_flavor(policy):
    """A asks for 1 H100 and 2 A10, C for 2 H100; A and C are owed 1 H100 each."""
    nodes = [node("h", 8, 2, gpu="h100"), node("a", 8, 2, gpu="a10")]
    flavors = [flavor("h100", gpu="h100"), flavor("a10", gpu="a10")]
    of = dict(resources=("cpu", GPU))
    queues = [
        cells("a", "all", h100=[4, 1], a10=[4, 0], **of),
        cells("c", "all", h100=[4, 1], a10=[4, 0], **of),
        cells("rest", "all", h100=[0, 0], a10=[0, 2], **of),
    ]
    asked = workload(
        "a", "job", "main", (1, spec(1, 1, nodeSelector={"gpu": "h100"})), (2, spec(1, 1, nodeSelector={"gpu": "a10"}))
    )
    wants = waiting("c", 2, spec(1, 1, nodeSelector={"gpu": "h100"}))
    _, answer = shared(*queues, *flavors, asked, wants, nodes=nodes, policy=policy)
    on_h100 = answer.tasks_by_server[:, answer.instance.servers.index("h")]
    by_team = {name: on_h100[rows].sum() for name, rows in answer.instance.teams.names.items()}
    assert (by_team["a"], by_team["c"]) == pytest.approx((1, 1))


@pytest.mark.parametrize("policy", BOTH)
def test_three_queues_with_5_of_15_gpus_of_a_kind_get_5_each(policy):
    nodes = [*(node(f"h{k}", 64, 5, gpu="h100") for k in range(3)), node("t", 64, 10, gpu="t4")]
    flavors, of = [flavor("h100", gpu="h100"), flavor("t4", gpu="t4")], dict(resources=("cpu", GPU))
    queues = [cells(q, "all", h100=[64, 5], t4=[32, 5 * (q != "c")], **of) for q in "abc"]
    jobs = [workload(q, "h", "main", (15, spec(1, 1, nodeSelector={"gpu": "h100"}))) for q in "abc"]
    more = [workload(q, "t", "main", (5, spec(1, 1, nodeSelector={"gpu": "t4"}))) for q in "ab"]
    _, answer = shared(*queues, *flavors, *jobs, *more, nodes=nodes, policy=policy)
    rows = [s for s, name in enumerate(answer.instance.servers) if name.startswith("h")]
    on = answer.tasks_by_server[:, rows].sum(axis=1)
    members = answer.instance.teams.names
    assert [on[members[q]].sum() for q in "abc"] == pytest.approx([5, 5, 5])


def test_labels_that_kueue_adds_to_admitted_pods_are_not_what_was_asked_for():
    nodes = [*(node(f"a{k}", 64, 8, gpu="a100") for k in (1, 2)), *(node(f"h{k}", 64, 8, gpu="h100") for k in (1, 2))]
    flavors, of = [flavor("a100", gpu="a100"), flavor("h100", gpu="h100")], dict(resources=("cpu", GPU))
    queues = [cells(q, "all", a100=[64, 8], h100=[64, 8], **of) for q in "xy"]
    pinned = {"gpu": "a100"}
    runs = [
        pod(
            "x",
            f"job-{k}",
            spec(1, 1, nodeName=f"a{1 + k // 8}", nodeSelector=pinned),
            ownerReferences=[{"kind": "Job", "uid": "u"}],
        )
        for k in range(16)
    ]
    running = workload("x", "job", "main", (16, spec(1, 1)), admitted="x", uid="u", conditions=["Admitted"])
    waits = workload("x", "more", "main", (16, spec(1, 1)))
    other = workload("y", "job", "main", (16, spec(1, 1, nodeSelector=pinned)))
    instance, answer = shared(*queues, *flavors, running, waits, other, nodes=nodes, pods=runs)
    assert len(instance.users) == 2 and units(answer, GPU) == pytest.approx({"x": 16, "y": 16})
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    for one in runs:
        one["metadata"]["labels"] = labels
        one["metadata"]["ownerReferences"] = []
    instance, answer = shared(*queues, *flavors, waits, other, nodes=nodes, pods=runs)
    assert said(instance, "labels of flavors in the node selectors of 16 pods count as added by Kueue")
    assert units(answer, GPU) == pytest.approx({"x": 16, "y": 16})


@pytest.mark.parametrize("policy", BOTH)
def test_pods_that_no_quota_of_their_queue_covers_are_left_out_and_named(policy):
    queues = [cells("cpus", "all", all=[16]), cells("gpus", "all", resources=("cpu", GPU), all=[16, 8])]
    jobs = [waiting("cpus", 8, spec(1, 1)), waiting("gpus", 8, spec(1, 1))]
    instance, answer = shared(*queues, flavor("all"), *jobs, nodes=[node("n", 32, 8)], policy=policy)
    assert units(answer, GPU) == pytest.approx({"gpus": 8})
    what = "8 pods that Kueue can never admit, for want of a quota in cpus, were left out (cpus/job: nvidia.com/gpu)"
    assert said(instance, what.replace("(", "(such as "))


def test_a_nominal_quota_of_0_is_a_quota():
    of = dict(resources=("cpu", GPU))
    queues = [
        cells("owner", "all", all=[32, 8], **of),
        cells("other", "all", all=[32, 8], **of),
        cells("borrower", "all", all=[64, 0], **of),
        cells("all", kind="Cohort", all=[0, 16], **of),
    ]
    jobs = [waiting(name, 32, spec(4, 1)) for name in ("owner", "other", "borrower")]
    _, answer = shared(*queues, flavor("all"), *jobs, nodes=[node("n", 128, 32)])
    assert units(answer, GPU) == pytest.approx({"owner": 32 / 3, "other": 32 / 3, "borrower": 32 / 3})
    _, answer = shared(*queues, flavor("all"), *jobs, nodes=[node("n", 128, 32)], policy=Kueue())
    third = 16 / 3
    assert units(answer, GPU) == pytest.approx({"owner": 8 + third, "other": 8 + third, "borrower": third})


def test_weights_of_cohorts_apply_between_cohorts():
    """The example of Kueue's page on cohorts: weights of .75 and .25."""
    objects = [
        cells("a", "important", all=[0]),
        cells("b", "regular", all=[0]),
        cells("root", kind="Cohort", all=[12]),
        cells("important", kind="Cohort", parent="root", weight="0.75"),
        cells("regular", kind="Cohort", parent="root", weight="0.25"),
        flavor("all"),
        waiting("a", 12, spec(1)),
        waiting("b", 12, spec(1)),
    ]
    _, answer = shared(*objects, nodes=[node("n", 12)], policy=Kueue(by=("cohort2", "cohort", "team")))
    assert units(answer, "cpu") == pytest.approx({"a": 9, "b": 3})


def test_a_cohort_within_a_cohort_is_owed_the_quotas_below_it():
    objects = [
        cells("a", "inner", all=[2]),
        cells("idle", "inner", all=[4]),
        cells("b", "root", all=[2]),
        cells("root", kind="Cohort", all=[4]),
        cells("inner", kind="Cohort", parent="root"),
        flavor("all"),
        waiting("a", 12, spec(1)),
        waiting("b", 12, spec(1)),
    ]
    instance, answer = shared(*objects, nodes=[node("n", 12)], policy=Kueue(by=("cohort2", "cohort", "team")))
    assert instance.team_guarantees == {"inner": {"cpu": pytest.approx(6)}}
    assert units(answer, "cpu") == pytest.approx({"a": 6 + 2, "b": 2 + 2})


def test_the_limit_that_stops_a_queue_is_named():
    queues = [cells("a", "c", all=[{"nominal": 3, "borrowing": 1}]), cells("b", "c", all=[9])]
    for policy in BOTH:
        _, answer = shared(*queues, flavor("all"), waiting("a", 10, spec(1)), nodes=[node("n", 12)], policy=policy)
        told = str(answer.explain("a"))
        assert "the limit on cpu of all in queue a binds" in told


@pytest.mark.parametrize("policy", BOTH)
def test_quotas_that_promise_more_than_there_is_are_kept_in_proportion_or_in_an_order(policy):
    nodes = [node("g1", 64, 8), node("g2", 64, 4)]
    queues = [cells(q, "all", resources=("cpu", GPU), all=[64, 8]) for q in "AB"]
    jobs = [workload(q, "job", "main", (20, spec(1, 1))) for q in "AB"]
    given = [*queues, flavor("all"), *jobs, *(local(q, "main", q) for q in "AB")]
    scaled = made(*given, nodes=nodes, pods=[])
    assert units(policy.allocate(scaled), GPU) == pytest.approx({"A": 6, "B": 6})
    assert said(scaled, "1 quota beyond what the servers of their flavors have")
    assert scaled.fit_guarantees(["A"]) == scaled
    unscaled = made(*given, nodes=nodes, pods=[], scale_quotas=False)
    assert unscaled.guarantees.tolist() == [8, 8]
    for order, gpus in ((None, (6, 6)), (["A", "B"], (8, 4)), (["B"], (4, 8))):
        answer = policy.allocate(unscaled.fit_guarantees(order))
        assert units(answer, GPU) == pytest.approx(dict(zip("AB", gpus, strict=True)))


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("plain_first", [True, False])
def test_a_flavor_of_all_servers_does_not_hide_the_gpus_of_another(policy, plain_first):
    """Kueue takes the first flavor with quotas of all that a pod requests: of GPUs the plain one has none."""
    nodes = [node("g", 64, 16, gpu="a100"), node("c", 64)]
    quotas = {"plain": [32, 0], "a100": [32, 8]}
    quotas = {name: quotas[name] for name in sorted(quotas, reverse=plain_first)}
    queues = [cells(q, "all", resources=("cpu", GPU), **quotas) for q in "xy"]
    jobs = [waiting("x", 12, spec(1, 1)), waiting("y", 12, spec(1, 1))]
    instance, answer = shared(*queues, flavor("plain"), flavor("a100", gpu="a100"), *jobs, nodes=nodes, policy=policy)
    assert units(answer, GPU) == pytest.approx({"x": 8, "y": 8})
    assert said(instance, "2 flavors with servers of another flavor of its queue: each counts for that with quotas of")


def test_a_pod_may_stay_where_it_runs_whatever_its_template_tolerates():
    nodes = [node("g", 8, 8), node("h", 8)]
    nodes[0]["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    running = workload("a", "job", "main", (8, spec(1, 1)), admitted="a", uid="u", conditions=["Admitted"])
    pods = [
        pod("a", f"job-{k}", spec(1, 1, nodeName="g"), ownerReferences=[{"kind": "Job", "uid": "u"}]) for k in range(8)
    ]
    queue_of = cells("a", resources=("cpu", GPU), all=[8, 8])
    instance, answer = shared(queue_of, flavor("all"), running, nodes=nodes, pods=pods)
    assert units(answer, GPU) == pytest.approx({"a": 8}) and instance.held.sum() == 8


@pytest.mark.parametrize("policy", BOTH)
def test_limits_hold_for_more_tasks_than_there_are_now(policy):
    """Of 32 CPUs a is owed 8 and borrows nothing; b is owed 24 and wants 4."""
    queues = [cells("a", "c", all=[{"nominal": 8, "borrowing": 0}]), cells("b", "c", all=[24])]
    jobs = [waiting("a", 8, spec(1)), waiting("b", 4, spec(1))]
    instance, answer = shared(*queues, flavor("all"), *jobs, nodes=[node("n", 32)], policy=policy)
    assert units(answer, "cpu") == pytest.approx({"a": 8, "b": 4})
    more = policy.allocate(instance.replace(task_limits={"a/1 cpu": 20}))
    assert units(more, "cpu") == pytest.approx({"a": 8, "b": 4})


@pytest.mark.parametrize("policy", BOTH)
def test_quotas_that_are_all_that_servers_have_hold_for_more_servers(policy):
    """Quotas are 16 and 16 of 32 CPUs: 32 more servers add nothing until somebody raises a quota."""
    queues = [cells("a", "c", all=[16]), cells("b", "c", all=[16])]
    jobs = [waiting("a", 64, spec(1)), waiting("b", 64, spec(1))]
    instance, answer = shared(*queues, flavor("all"), *jobs, nodes=[node("n", 32)], policy=policy)
    assert units(answer, "cpu") == pytest.approx({"a": 16, "b": 16})
    more = changed(instance, {"n": 1})
    assert more.total_capacities[0] == 64
    assert units(policy.allocate(more), "cpu") == pytest.approx({"a": 16, "b": 16})


@pytest.mark.parametrize(("number", "ahead"), [(6, True), (7, False)])
def test_of_many_lending_limits_a_note_says_that_they_are_those_of_now(number, ahead):
    """Each queue wants 1 of the 2 CPUs of its own, of which it lends 1: today no limit stops any of them."""
    queues = [cells(f"q{k}", "c", all=[{"nominal": 2, "lending": 1}]) for k in range(number)]
    jobs = [waiting(f"q{k}", 1, spec(1)) for k in range(number)]
    instance, _ = shared(*queues, flavor("all"), *jobs, nodes=[node("n", 32)])
    assert len(instance.limits) == (2**number - 1 if ahead else 0)
    assert bool(said(instance, "limits of 1 cohort with more than 6 lending limits are those of the tasks")) != ahead


@pytest.mark.parametrize("policy", BOTH)
def test_quotas_of_pods_count_pods(policy):
    """Of 16 CPUs each queue is owed 8 and wants 16 in pods of 1, and may run 2 and 3 of 5 pods."""
    queues = [cells(q, "c", all=[8, pods], resources=("cpu", "pods")) for q, pods in (("a", 2), ("b", 3))]
    jobs = [waiting(q, 16, spec(1)) for q in "ab"]
    nodes = [node("n", 16)]
    nodes[0]["status"]["allocatable"]["pods"] = "110"
    instance, answer = shared(*queues, flavor("all"), *jobs, nodes=nodes, policy=policy)
    assert units(answer, "cpu") == pytest.approx({"a": 2, "b": 3})
    assert said(instance, "the number of pods counts as a resource, of which there are quotas")
    del nodes[0]["status"]["allocatable"]["pods"]
    instance, _ = shared(*queues, flavor("all"), *jobs, nodes=nodes)
    assert "pods" not in instance.resources and said(instance, "quotas of pods are left out: servers do not say")


@pytest.mark.parametrize("policy", [None, Kueue()])
@pytest.mark.parametrize("whole", [True, False])
def test_what_a_cohort_owns_of_one_flavor_is_not_paid_in_another(policy, whole):
    """North owns 5 of 8 reserved cores and south 3; both want 8 of them, and north has 12 of the spot cores too."""
    objects = [
        cells("top", kind="Cohort", spot=[12]),
        cells("north", kind="Cohort", parent="top", res=[5]),
        cells("south", kind="Cohort", parent="top", res=[3]),
        cells("n", "north", res=[0], spot=[0]),
        cells("s", "south", res=[0], spot=[0]),
        flavor("res", size="res"),
        flavor("spot", size="spot"),
        waiting("n", 8, spec(1, nodeSelector={"size": "res"})),
        waiting("s", 8, spec(1, nodeSelector={"size": "res"})),
    ]
    if whole:
        objects.append(workload("n", "more", "main", (12, spec(1, nodeSelector={"size": "spot"}))))
    instance, answer = shared(*objects, nodes=[node("r", 8, size="res"), node("o", 12, size="spot")], policy=policy)
    res = instance.servers.index("r") if whole else 0
    on_res = answer.tasks_by_server[:, res]
    by_team = {name: float(on_res[rows].sum()) for name, rows in instance.teams.names.items() if name in "ns"}
    assert by_team == pytest.approx({"n": 5, "s": 3})
    assert units(answer, "cpu") == pytest.approx({"n": 5 + 12 * whole, "s": 3})
