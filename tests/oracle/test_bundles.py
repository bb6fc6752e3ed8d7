"""The oracle of bundles itself: printed and re-derived numbers, and what must hold of any answer."""

from __future__ import annotations

from fractions import Fraction as F  # noqa: N817

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.bundles import hffmra, mlf_drs, tasks

TABLE_I = [(3, 1), (5, 3), (1, 5), (2, 7)], (18, 36)
EXAMPLE = [[(1, 4), (2, 5)], [(3, 1), (4, 3)]], [(9, 18), (10, 20)]


def rounded(rows):
    return [[round(float(v), 1) for v in row] for row in rows]


def test_table_i_of_002_comes_out_but_for_the_ram_of_users_1_and_2():
    held = mlf_drs(*TABLE_I)
    assert rounded(held) == [[6.5, 1.6], [7.2, 4.9], [1.4, 14.7], [2.9, 14.7]]  # printed: 2.3 and 4.3 GB
    assert [sum(column) for column in zip(*held, strict=True)] == [18, 36]


def test_the_ram_of_table_i_is_what_equal_growth_gives():
    held = mlf_drs(*TABLE_I, growth="equal")
    assert [row[1] for row in rounded(held)] == [2.3, 4.3, 14.7, 14.7]
    assert [row[0] for row in rounded(held)] != [6.5, 7.2, 1.4, 2.9]
    assert [sum(column) for column in zip(*held, strict=True)] == [18, 36]


def test_the_example_of_004():
    held = hffmra(*EXAMPLE, units="raw")
    assert held == [
        [[F(63, 23), F(288, 23)], [F(70, 23), F(320, 23)]],
        [[F(144, 23), F(126, 23)], [F(160, 23), F(140, 23)]],
    ]
    totals = [sum(row) for row in tasks(EXAMPLE[0], held)]
    assert [round(float(x), 3) for x in totals] == [4.261, 3.826]


def test_memory_in_other_units_changes_shares_of_nothing_but_raw_sums():
    demands, capacities = EXAMPLE
    mb = [[(cpu, 1000 * gb) for cpu, gb in rows] for rows in demands], [(cpu, 1000 * gb) for cpu, gb in capacities]
    back = [[[cpu, v / 1000] for cpu, v in rows] for rows in hffmra(*mb)]
    assert back == hffmra(demands, capacities)
    assert [[[cpu, v / 1000] for cpu, v in rows] for rows in hffmra(*mb, units="raw")] != hffmra(*EXAMPLE, units="raw")


def test_an_empty_group_passes_its_part_on():
    held = hffmra([[(4, 1)], [(2, 1)]], [(8, 8)])  # no user is dominant in the second resource
    assert [row[0][1] for row in held] == [4, 4]
    assert sum(row[0][0] for row in held) == 8


def test_a_resource_that_nobody_needs_stays_unused():
    assert [row[0][1] for row in hffmra([[(4, 0)], [(2, 0)]], [(8, 8)])] == [0, 0]
    assert [row[1] for row in mlf_drs([(4, 0), (2, 0)], (8, 8))] == [0, 0]


def test_under_shortage_nobody_holds_more_than_it_requested():
    # 9 + 1 requested of 8; phi C = 8 * (9/8 + 2/8) / (9/8 + 2/8 + 1/8 + 1/8) = 88/13, and 8 - 88/13 > 1 is too much
    held = hffmra([[(9, 1)], [(1, 2)]], [(8, 8)])
    assert held[1][0][0] == 1 and held[0][0][0] == 7


def test_who_reaches_its_request_under_shortage_leaves_the_rest_to_its_group():
    held = hffmra([[(1, 0)], [(2, 0)], [(9, 0)]], [(6, 6)])  # bases 2, 2, 9 and requests 12 of 6
    assert [row[0][0] for row in held] == [F(12, 13), F(12, 13), F(54, 13)]
    held = hffmra([[(1, 0)], [(7, 0)], [(9, 0)]], [(15, 6)])  # bases 5, 7, 9: the first would get 15 * 5/21 > 1
    assert [row[0][0] for row in held] == [1, F(14 * 7, 16), F(14 * 9, 16)]


def test_ties_for_dominant_go_to_the_first_resource():
    assert hffmra([[(2, 2)], [(1, 2)]], [(4, 4)]) == [[[F(16, 7), F(12, 7)]], [[F(12, 7), F(16, 7)]]]
    assert hffmra([[(2, 2)], [(2, 1)]], [(4, 4)]) == [[[2, F(8, 3)]], [[2, F(4, 3)]]]  # no user dominant in the second


small = st.integers(0, 5)


@st.composite
def cases(draw):
    n, servers, m = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    row = st.lists(small, min_size=m, max_size=m).filter(any)
    demands = draw(st.lists(st.lists(row, min_size=servers, max_size=servers), min_size=n, max_size=n))
    capacities = draw(st.lists(st.lists(st.integers(1, 9), min_size=m, max_size=m), min_size=servers, max_size=servers))
    eligible = draw(st.lists(st.lists(st.booleans(), min_size=servers, max_size=servers), min_size=n, max_size=n))
    return demands, capacities, eligible


@given(cases(), st.sampled_from(["share", "raw"]))
def test_bundles_fill_what_somebody_needs_and_go_to_the_eligible(case, units):
    demands, capacities, eligible = case
    held = hffmra(demands, capacities, units, eligible)
    for s, row in enumerate(capacities):
        for i, capacity in enumerate(row):
            column = [held[j][s][i] for j in range(len(demands))]
            needed = any(eligible[j][s] and demands[j][s][i] for j in range(len(demands)))
            assert min(column) >= 0 and sum(column) == (capacity if needed else 0)
            assert not any(v and not eligible[j][s] for j, v in enumerate(column))


@given(cases(), st.sampled_from(["share", "raw"]))
def test_twins_are_the_same_as_a_count_of_two(case, units):
    demands, capacities, eligible = case
    twice = [[rows[0], *rows] for rows in demands], [capacities[0], *capacities]
    apart = hffmra(*twice, units, [[row[0], *row] for row in eligible])
    merged = hffmra(demands, capacities, units, eligible, [2] + [1] * (len(capacities) - 1))
    for one, other in zip(apart, merged, strict=True):
        assert [2 * v for v in one[0]] == other[0] and one[2:] == other[1:]


@pytest.mark.parametrize("growth", ["proportional", "equal"])
@given(cases())
def test_mlf_drs_fills_what_somebody_needs(growth, case):
    demands, capacities, eligible = case
    rows, here = [row[0] for row in demands], [row[0] for row in eligible]
    held = mlf_drs(rows, capacities[0], growth, here)
    for i, capacity in enumerate(capacities[0]):
        needed = any(ok and row[i] for ok, row in zip(here, rows, strict=True))
        assert sum(row[i] for row in held) == (capacity if needed else 0)
        assert all(row[i] >= 0 for row in held)
