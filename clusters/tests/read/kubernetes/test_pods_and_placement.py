"""Single pods: what one takes, and where it may run, each rule of Kubernetes by itself."""

from fractions import Fraction

import kube_oracle
import pytest
from fairopt_clusters.read.kubernetes.objects import PodSpec
from fairopt_clusters.read.kubernetes.placement import Taint
from hypothesis import given
from hypothesis import strategies as st
from kube_cluster import container, required

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import checked


def asked(**spec):
    return checked(PodSpec, spec, "spec").request


def cpu(amount, **more):
    return container({"cpu": amount}, **more)


def sidecar(amount):
    return cpu(amount, restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "amount"),
    [
        ({"containers": [cpu("1"), cpu("500m")]}, 1.5),
        ({"containers": [cpu(1)], "initContainers": [cpu(3), cpu(2)]}, 3),
        ({"containers": [cpu(2)], "initContainers": [sidecar(1)]}, 3),
        ({"containers": [cpu(1)], "initContainers": [sidecar(1), cpu(3)]}, 4),  # the sidecar runs beside
        ({"containers": [cpu(1)], "initContainers": [cpu(3), sidecar(1)]}, 3),  # it starts later
        ({"containers": [cpu(1)], "initContainers": [sidecar(1), cpu(3), sidecar(5), cpu(2)]}, 8),
        ({"containers": [cpu(1)], "overhead": {"cpu": "250m"}}, 1.25),
        ({"containers": [cpu(9)], "resources": {"requests": {"cpu": 4}}, "overhead": {"cpu": 1}}, 5),
        ({"containers": [cpu(9)], "resources": {"limits": {"cpu": 4}}}, 9),  # the containers say it already
        ({"containers": [container()], "resources": {"limits": {"cpu": 4}}}, 4),
        ({"containers": [container(None, {"cpu": 4})]}, 4),
        ({"containers": [container({"cpu": 1}, {"cpu": 4})]}, 1),
        ({"containers": [container({"cpu": 0}, {"cpu": 4})]}, 0),  # nothing was asked for on purpose
        ({"containers": []}, 0),
        ({}, 0),
    ],
)
def test_a_pods_request_is_the_most_that_it_takes_at_any_time(spec, amount):
    assert asked(**spec) == ({"cpu": Fraction(amount)} if amount else {})


def test_pods_as_a_whole_ask_for_cpu_memory_and_huge_pages_only():
    whole = {"requests": {"cpu": 1, "memory": 2, "hugepages-2Mi": 3, "nvidia.com/gpu": 4, "ephemeral-storage": 5}}
    assert asked(containers=[container({"nvidia.com/gpu": 1})], resources=whole) == {
        "cpu": 1,
        "memory": 2,
        "hugepages-2Mi": 3,
        "nvidia.com/gpu": 1,
    }


amount = st.sampled_from(["100m", "1", 2, "0.5", "3", 0])
containers = st.builds(
    lambda requests, limits, always: container(requests, limits, **({"restartPolicy": "Always"} if always else {})),
    st.dictionaries(st.sampled_from(["cpu", "memory"]), amount),
    st.dictionaries(st.just("cpu"), amount),
    st.booleans(),
)
specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, max_size=3), "initContainers": st.lists(containers, max_size=4)},
    optional={
        "overhead": st.fixed_dictionaries({"cpu": amount}),
        "resources": st.fixed_dictionaries({"requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), amount)}),
    },
)


@given(spec=specs)
def test_any_pods_request_is_what_the_oracle_finds_moment_by_moment(spec):
    found = checked(PodSpec, spec, "spec").request
    for resource in ("cpu", "memory"):
        assert found.get(resource, 0) == kube_oracle.request(spec, resource)


# -- taints and tolerations ---------------------------------------------------------------------------------------

TAINT = {"key": "gpu", "value": "a", "effect": "NoSchedule"}


def tolerated(taints, *tolerations):
    rules = checked(PodSpec, {"tolerations": list(tolerations)}, "spec")
    return rules.allows("n", {}, [checked(Taint, taint, "taint") for taint in taints])


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "a"}, True),
        ({"key": "gpu", "operator": "", "value": "a"}, True),
        ({"key": "gpu", "value": "b"}, False),
        ({"key": "gpu"}, False),
        ({"key": "tpu", "value": "a"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "value": "b"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "", "operator": "Exists", "effect": ""}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_a_taint_needs_a_toleration(toleration, covers):
    assert not tolerated([TAINT])
    assert tolerated([TAINT], toleration) is covers


@pytest.mark.parametrize(("operator", "value", "covers"), [("Gt", "4", True), ("Gt", "5", False), ("Lt", "6", True)])
def test_tolerations_may_compare_whole_numbers(operator, value, covers):
    assert tolerated([{**TAINT, "value": "5"}], {"key": "gpu", "operator": operator, "value": value}) is covers


def test_every_taint_needs_one_and_preferences_need_none():
    other = {"key": "slow", "effect": "NoExecute"}
    assert not tolerated([TAINT, other], {"key": "gpu", "operator": "Exists"})
    assert tolerated([TAINT, other], {"key": "gpu", "operator": "Exists"}, {"key": "slow"})
    assert tolerated([{**TAINT, "effect": "PreferNoSchedule"}])


# -- selectors and affinity ---------------------------------------------------------------------------------------

LABELS = {"zone": "a", "cores": "16", "empty": ""}


def allowed(spec):
    return checked(PodSpec, spec, "spec").allows("n1", LABELS, ())


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ({}, True),
        (None, True),
        ({"zone": "a"}, True),
        ({"zone": "b"}, False),
        ({"zone": "a", "x": "y"}, False),
        ({"empty": ""}, True),
        ({"x": ""}, False),
    ],
)
def test_a_server_has_all_labels_of_the_selector(selector, fits):
    assert allowed({"nodeSelector": selector}) is fits


@pytest.mark.parametrize(
    ("key", "operator", "values", "fits"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("x", "In", ["a"], False),
        ("zone", "NotIn", ["b"], True),
        ("zone", "NotIn", ["a"], False),
        ("x", "NotIn", ["a"], True),
        ("zone", "Exists", None, True),
        ("x", "Exists", [], False),
        ("x", "DoesNotExist", None, True),
        ("zone", "DoesNotExist", None, False),
        ("cores", "Gt", ["15"], True),
        ("cores", "Gt", ["16"], False),
        ("cores", "Lt", ["17"], True),
        ("cores", "Lt", ["16"], False),
        ("zone", "Gt", ["1"], False),
        ("zone", "Lt", ["1"], False),
        ("x", "Gt", ["1"], False),
        ("empty", "Lt", ["1"], False),
        ("cores", "Gt", ["-1"], True),
    ],
)
def test_expressions_hold_as_kubernetes_says(key, operator, values, fits):
    expression = {"key": key, "operator": operator, **({} if values is None else {"values": values})}
    assert allowed({"affinity": required({"matchExpressions": [expression]})}) is fits


AS_TEXT = {"key": "a", "operator": "Gt", "values": ["1.5"]}
YES = {"key": "zone", "operator": "Exists"}
NO = {"key": "zone", "operator": "DoesNotExist"}


def named(name, operator="In"):
    return {"key": "metadata.name", "operator": operator, "values": [name]}


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([{"matchExpressions": [YES]}], True),
        ([{"matchExpressions": [YES, NO]}], False),
        ([{"matchExpressions": [NO]}, {"matchExpressions": [YES]}], True),
        ([], False),
        ([{}], False),
        ([None], False),
        ([{}, {"matchExpressions": [YES]}], True),
        ([{"matchExpressions": []}], False),
        ([{"matchFields": [named("n1")]}], True),
        ([{"matchFields": [named("n2")]}], False),
        ([{"matchFields": [named("n2", "NotIn")]}], True),
        ([{"matchFields": [named("n1")], "matchExpressions": [NO]}], False),
    ],
)
def test_terms_are_alternatives_and_an_empty_one_matches_nothing(terms, fits):
    assert allowed({"affinity": required(*terms)}) is fits


def test_selector_and_affinity_must_both_hold():
    assert not allowed({"affinity": required({"matchExpressions": [YES]}), "nodeSelector": {"zone": "b"}})


def test_without_rules_everything_fits():
    for spec in ({}, {"affinity": None}, {"affinity": {"nodeAffinity": None}}, {"affinity": {"nodeAffinity": {}}}):
        assert checked(PodSpec, spec, "spec") == PodSpec()
    assert allowed(
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchExpressions": [NO]}}
                    ]
                }
            }
        }
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"tolerations": [{"operator": "Maybe"}]}, r'tolerations\[0\].operator is "Maybe"; give one of Equal, Exists'),
        ({"tolerations": [{"key": 3}]}, r"tolerations\[0\].key is 3; give text"),
        ({"tolerations": {}}, "give a list"),
        ({"nodeSelector": ["a"]}, "nodeSelector is a list; give an object"),
        ({"nodeSelector": {"a": True}}, "nodeSelector.a is true; give text"),
        ({"affinity": required({"matchExpressions": [{**YES, "operator": "in"}]})}, 'operator is "in"; give one of'),
        ({"affinity": required({"matchExpressions": [{"key": "a", "operator": "In"}]})}, "values is a list; give at"),
        ({"affinity": required({"matchExpressions": [{**YES, "values": ["a"]}]})}, "give no values with Exists"),
        ({"affinity": required({"matchExpressions": [AS_TEXT]})}, "whole number"),
        ({"affinity": required({"matchExpressions": [{"key": "a", "operator": "Gt", "values": []}]})}, "whole number"),
        ({"affinity": required({"matchExpressions": [{"operator": "Exists"}]})}, "key is missing"),
        ({"affinity": required({"matchFields": [{**named("a"), "key": "spec.x"}]})}, "give metadata.name"),
        ({"affinity": required({"matchFields": [{**named("a"), "values": ["a", "b"]}]})}, "and one value"),
        ({"affinity": required({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]})}, "In or NotIn"),
        ({"affinity": required("x")}, r'nodeSelectorTerms\[0\] is "x"; give an object'),
    ],
)
def test_rules_that_kubernetes_would_not_take_are_refused_with_place_and_fix(spec, words):
    with pytest.raises(InvalidInstance, match=words):
        checked(PodSpec, spec, "pods.json")


@pytest.mark.parametrize(
    ("taint", "words"), [({"key": "a"}, "effect is missing"), ({"effect": "NoSchedule"}, "key is missing")]
)
def test_taints_have_key_and_effect(taint, words):
    with pytest.raises(InvalidInstance, match=words):
        checked(Taint, taint, "nodes.json")
