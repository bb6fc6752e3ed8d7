"""Values as Slurm writes them, against independent readings."""

import pytest
from fairopt_clusters.read.slurm.fields import array_tasks, satisfies
from hypothesis import given
from hypothesis import strategies as st

from fairopt.errors import InvalidInstance

RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 7)), min_size=1, max_size=5)


@given(RANGES, st.booleans())
def test_tasks_of_an_array_are_those_of_its_ranges(ranges, throttled):
    parts = [f"{a}-{a + n}:{step}" if n else str(a) for a, n, step in ranges]
    text = ",".join(parts) + ("%5" if throttled else "")
    waiting = sum(len(range(a, a + n + 1, step)) if n else 1 for a, n, step in ranges)
    assert array_tasks(text) == (waiting, False, 5 if throttled else None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1-3,...", (3, True, None)),
        ("1-3,4-...", (4, True, None)),
        ("1-3,4-...%5", (4, True, 5)),
        ("0xFF", (8, False, None)),
        ("0xFF%3", (8, False, 3)),
        ("[3]", (1, False, None)),
        ("[1-400%50]", (400, False, 50)),
        ("1-400%0", (400, False, None)),
    ],
)
def test_cut_and_hexadecimal_arrays_and_limits_are_read(text, found):
    assert array_tasks(text) == found


@pytest.mark.parametrize("text", ["1-9%", "1-9%x", "1-9%-1", "1-9%5%5"])
def test_a_limit_that_is_no_number_is_refused(text):
    with pytest.raises(InvalidInstance, match="give a number of tasks at once after %, as 1-400%50"):
        array_tasks(text)


@pytest.mark.parametrize("text", ["a", "3-1", "1-5:0", "1--3", "\u0663", "1,,2", "-1", "0x", "9999999999"])
def test_other_texts_are_no_arrays(text):
    with pytest.raises(InvalidInstance, match="give ranges of tasks"):
        array_tasks(text)


NAMES = "abc"
EXPRESSIONS = st.recursive(
    st.sampled_from(NAMES),
    lambda inner: st.lists(st.tuples(st.sampled_from("&|,"), inner), min_size=2, max_size=4),
    max_leaves=8,
)


def written(expression):
    if isinstance(expression, str):
        return expression
    first, *others = expression
    return "(" + written(first[1]) + "".join(op + written(part) for op, part in others) + ")"


def true_for(expression, features):
    if isinstance(expression, str):
        return expression in features
    value = true_for(expression[0][1], features)
    for op, part in expression[1:]:
        right = true_for(part, features)
        value = (value or right) if op == "|" else (value and right)
    return value


@given(EXPRESSIONS, st.sets(st.sampled_from(NAMES)))
def test_constraints_are_read_from_left_to_right(expression, features):
    meets = satisfies(written(expression))
    assert meets is not None
    assert meets(frozenset(features)) == true_for(expression, features)


@pytest.mark.parametrize("text", ["", "a&", "&a", "(a", "a)", "a(b)", "(a]", "a*2", "()", "(a)(b)", "a&&b"])
def test_other_texts_are_no_constraints(text):
    assert satisfies(text) is None


def test_deep_parentheses_are_no_trouble():
    assert satisfies("(" * 10_000 + "a" + ")" * 10_000)(frozenset("a"))
