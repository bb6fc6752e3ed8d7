"""Quantities of Kubernetes: exact values, and what is refused with which fix."""

import math
from fractions import Fraction

import pytest
from fairopt_clusters.read.amounts import Quantity
from hypothesis import given
from hypothesis import strategies as st

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import Part, checked


class One(Part):
    quantity: Quantity


def quantity(value):
    return checked(One, {"quantity": value}, "pod").quantity


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        ("500m", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+3", 3),
        ("-0", 0),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e+3", 1000),
        ("15E-1", Fraction(3, 2)),
        ("2Gi", 2**31),
        ("1Ki", 1024),
        ("1.5Mi", 3 * 2**19),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("7u", Fraction(7, 10**6)),
        ("7n", Fraction(7, 10**9)),
        ("62914560Ki", 60 * 2**30),
        (2, 2),
        (0, 0),
        (0.1, Fraction(1, 10)),
        (1e-7, Fraction(1, 10**7)),
        (2.0, 2),
        ("9223372036854775807", 2**63 - 1),
        ("000.100", Fraction(1, 10)),
    ],
)
def test_quantities_are_exact(value, exact):
    assert quantity(value) == exact


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2GiB", 'is "2GiB"; write 2Gi$'),
        ("2GB", "write 2G$"),
        ("2gb", "write 2G$"),
        ("512mb", "write 512M$"),
        ("512MB", "write 512M$"),
        ("1 Gi", "write 1Gi$"),
        ("1Gi\n", "write 1Gi$"),
        (" 1", "write 1$"),
        ("1K", "write 1k$"),
        ("1KB", "write 1k$"),
        ("1kib", "write 1Ki$"),
        ("-1", 'is "-1"; give a quantity >= 0'),
        (-1, "is -1; give"),
        (-0.5, "is -0.5; give"),
        ("1.5.2", "suffix"),
        ("", "as '500m'"),
        (" ", "as '500m'"),
        ("Inf", "suffix"),
        ("NaN", "suffix"),
        (math.nan, "is NaN"),
        (math.inf, "is Infinity"),
        ("0x10", "suffix"),
        ("1_000", "suffix"),
        ("1,5", "suffix"),
        ("\u0661", "suffix"),
        ("1e", "suffix"),
        ("1e1.5", "suffix"),
        ("e3", "suffix"),
        ("Gi", "suffix"),
        ("1e31", "exponent between -30 and 30"),
        ("1e999999999", "exponent"),
        ("1e-31", "exponent"),
        ("9" * 65, "shorter"),
        ("9223372036854775808", "2\\*\\*63"),
        ("8Ei", "2\\*\\*63"),
        (10**30, "2\\*\\*63"),
        pytest.param(10**5000, "of type int; give", id="long"),
        (1e300, "exponent"),
        (True, "is true; give a quantity"),
        (None, "is missing"),
        ([1], "is a list"),
        ({}, "is an object"),
        ("--1", "suffix"),
        ("+-1", "suffix"),
        (".", "suffix"),
    ],
)
def test_other_quantities_are_refused_with_value_and_fix(value, words):
    with pytest.raises(InvalidInstance, match=words) as caught:
        quantity(value)
    assert len(str(caught.value)) < 250


@given(value=st.text(alphabet="0123456789.eEimkKMGTPnu+- B", max_size=12) | st.text(max_size=8))
def test_any_text_is_a_quantity_or_refused(value):
    try:
        assert 0 <= quantity(value) < 2**63
    except InvalidInstance as error:
        assert str(error).startswith("pod: quantity is")


@given(
    number=st.integers(0, 2**40), power=st.sampled_from([("", 1), ("m", Fraction(1, 1000)), ("Ki", 1024), ("k", 1000)])
)
def test_a_suffix_multiplies(number, power):
    assert quantity(f"{number}{power[0]}") == number * power[1]


@pytest.mark.parametrize("text", ["1e3Gi", "1E3k", "2e-3Mi", "1e3m"])
def test_a_suffix_after_an_exponent_could_mean_two_things_and_neither_is_suggested(text):
    with pytest.raises(InvalidInstance, match="give a number with a suffix of") as error:
        quantity(text)
    assert "write" not in str(error.value)


def test_whole_numbers_of_very_many_digits_are_too_large_or_negative():
    with pytest.raises(InvalidInstance, match=r"give at most 2\*\*63 - 1"):
        quantity(10**400)
    with pytest.raises(InvalidInstance, match="give a quantity >= 0"):
        quantity(-(10**400))
