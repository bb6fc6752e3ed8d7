"""No document and no bytes raise anything but our own errors."""

import json

import kube_fuzz
from fairopt_clusters import read_kubernetes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kube_cluster import container

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

fuzz = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(kube_fuzz.VALUES)
)
DATA = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(kube_fuzz.KEYS), inner, max_size=4),
    max_leaves=12,
)


def read(nodes, pods, **options):
    try:
        assert isinstance(read_kubernetes(nodes, pods, **options), Instance)
    except InvalidInstance as error:
        assert 0 < len(str(error)) < 2000


@fuzz
@given(draw=st.randoms(use_true_random=False), options=st.sampled_from(kube_fuzz.OPTIONS))
def test_no_change_of_a_valid_document_raises_anything_but_our_errors(draw, options):
    read(*kube_fuzz.mutated(kube_fuzz.small(), draw), **options)


@fuzz
@given(spec=DATA, resources=DATA, status=DATA, whole=DATA)
def test_no_data_raise_anything_but_our_errors(spec, resources, status, whole):
    nodes, pods = kube_fuzz.small()
    pods["items"][0]["spec"] = spec
    pods["items"][1]["spec"]["containers"] = [container(), {"resources": resources}]
    nodes["items"][0]["status"] = status
    read(nodes, pods)
    read(nodes, {"items": [whole]})
    if isinstance(whole, dict):
        read(whole, pods)


@fuzz
@given(draw=st.randoms(use_true_random=False), noise=st.binary(max_size=60), which=st.integers(0, 1))
def test_no_bytes_raise_anything_but_our_errors(tmp_path, draw, noise, which):
    documents = kube_fuzz.small()
    text = json.dumps(documents[which]).encode()
    for content in (kube_fuzz.damaged(text, draw), noise, b'{"items": [' + noise):
        file = tmp_path / "file.json"
        file.write_bytes(content)
        sources = list(documents)
        sources[which] = file
        read(*sources)


def test_what_the_fuzzing_starts_from_is_right():
    assert read_kubernetes(*kube_fuzz.small()).teams["team"] == ("ml", "web")
    outcomes = kube_fuzz.run(300, seed=5)
    assert min(outcomes["an instance"], outcomes["refused"]) > 30
