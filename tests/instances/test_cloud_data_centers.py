"""The servers of Google's cluster, as Jiang and Wu (2021) print them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fairopt.datasets import google_servers
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance


def test_the_ratios_of_table_4_follow_from_the_counts_and_sum_to_1():
    counts = google_servers().counts
    printed = [0.5107, 0.2930, 0.0759, 0.0603, 0.0551, 0.0039, 0.0004, 0.0004, 0.0002, 0.0001]
    assert counts[4] == 726 and counts.sum() == 13_183
    assert_allclose(counts / counts.sum(), printed, atol=5e-5)
    assert_allclose(sum(printed), 1)


def test_50_servers_of_four_types_are_those_of_section_6_3():
    mix = google_servers(50, types=4, cpu=16, memory=128)
    assert mix.counts.tolist() == [27, 16, 4, 3]
    assert mix.capacities.tolist() == [[8, 64], [8, 32], [8, 96], [16, 128]]
    assert mix.servers == ("type0", "type1", "type2", "type3")


@pytest.mark.parametrize("n", [1, 2, 7, 100, 13_183, 1_000_000])
def test_any_number_of_servers_is_shared_out_completely_and_nearly_in_proportion(n):
    mix = google_servers(n)
    assert mix.counts.sum() == n and mix.counts.min() >= 1
    whole = google_servers().counts
    exact = whole / whole.sum() * n
    shared = np.zeros(10)
    shared[[int(name[4:]) for name in mix.servers]] = mix.counts
    assert (abs(shared - exact) < 1).all()


def test_the_printed_counts_come_back():
    assert_array_equal(google_servers(13_183).counts, google_servers().counts)


def test_users_on_googles_servers_are_an_instance():
    mix = google_servers(50, types=4, cpu=16, memory=128)
    cluster = Instance([[2.5, 3], [1, 15]], **mix._asdict(), users=["a", "b"], task_limits=[9, 5])
    assert cluster.total_capacities.tolist() == [27 * 8 + 16 * 8 + 4 * 8 + 3 * 16, 27 * 64 + 16 * 32 + 4 * 96 + 3 * 128]
    assert cluster.users == ("a", "b") and cluster.resources == ("cpu", "memory")
    assert cluster.task_limits.tolist() == [9, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": 0}, "types is 0"),
        ({"types": 11}, "types is 11; give a whole number between 1 and 10"),
        ({"n_servers": 0}, "n_servers is 0"),
        ({"n_servers": 2.5}, "n_servers is 2.5"),
        ({"cpu": 0}, "cpu is 0; give a finite number > 0"),
        ({"memory": float("inf")}, "memory is inf"),
    ],
)
def test_parameters_of_googles_servers_out_of_their_range_are_refused(options, message):
    with pytest.raises(InvalidInstance, match=message):
        google_servers(**options)
