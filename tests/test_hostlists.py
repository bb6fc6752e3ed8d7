"""Lists of hosts: the names in a list, and the list of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairopt.runtime.hostlists import hostlist, hosts

RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 7)), min_size=1, max_size=5)


@given(st.lists(st.tuples(st.text("nab", max_size=2), st.integers(1, 3), RANGES), min_size=1, max_size=3))
def test_a_list_of_hosts_stands_for_its_names(items):
    texts, names = [], set()
    for prefix, width, ranges in items:
        texts.append(f"{prefix}[{','.join(f'{a:0{width}d}-{a + n}' for a, n, _ in ranges)}]")
        names |= {prefix + str(k).rjust(width, "0") for a, n, _ in ranges for k in range(a, a + n + 1)}
    assert hosts(",".join([*texts, "login"])) == names | {"login"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rack[1-2]n[08-09]", {"rack1n08", "rack1n09", "rack2n08", "rack2n09"}),
        ("a[1]b", {"a1b"}),
        ("a, b", {"a", "b"}),
        ("", set()),
        ("n[9-10]", {"n9", "n10"}),
    ],
)
def test_hosts_of_several_dimensions(text, names):
    assert hosts(text) == names


@pytest.mark.parametrize(
    "text", ["n[", "n]", "n[]", "n[3-1]", "n[a]", "n[[1]]", "n[0-99999]", "n[1-999][1-999]", "a b", "n[1-\u0663]"]
)
def test_lists_that_are_wrong_or_too_long_are_not_understood(text):
    assert hosts(text) is None


NAMES = st.builds(
    "".join, st.tuples(st.sampled_from(["a", "", "r1-n"]), st.text("019", max_size=4), st.text("xy", max_size=1))
)


@given(st.sets(NAMES.filter(bool), min_size=1, max_size=12))
def test_a_list_of_names_is_read_back_as_these_names(names):
    assert hosts(hostlist(names)) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n8", "n9", "n10"], "n[8-10]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n1", "n01"], "n01,n1"),
        (["gpu-a.site", "gpu-b.site"], "gpu-a.site,gpu-b.site"),
        (["ip-10-0-1-23.x", "ip-10-0-1-24.x"], "ip-10-0-1-[23-24].x"),
        (["n[1]", "n2"], "n[1]"),
    ],
)
def test_names_that_differ_in_their_last_number_are_ranges(names, text):
    assert hostlist(names) == text
