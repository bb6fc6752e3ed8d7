"""Linear programs in rationals: values of the reference, from any basis, and proofs that there is none."""

import random
from fractions import Fraction

import pytest
from oracle import exact_lp

from fairopt.exact import linear
from fairopt.exact.linear import Factors, LinearProgram, _NoPoint, _Unlimited
from fairopt.exact.rationals import as_fraction, kind, rational

EITHER = [0, 0, 1, 2, 3, -1]


def drawn(seed: int):
    r = random.Random(seed)
    n, m, e = r.randint(1, 7), r.randint(1, 7), r.randint(0, 2)
    rows = [([r.choice(EITHER) for _ in range(n)], r.choice([0, 1, 2, 3, 5, -1])) for _ in range(m)]
    equal = [([r.choice(EITHER) for _ in range(n)], r.choice([0, 1, 2, 3])) for _ in range(e)]
    return [r.choice([0, 1, 2, -1, 3]) for _ in range(n)], rows, equal


def program(costs, rows, equal=()):
    made = LinearProgram()
    for c in costs:
        made.column(rational(c))
    for k, (row, right) in enumerate([*rows, *equal]):
        made.row({j: rational(v) for j, v in enumerate(row)}, rational(right), equal=k >= len(rows))
    return made


def outcome(solve):
    try:
        return solve()
    except (_NoPoint, exact_lp.NoPoint):
        return "no point"
    except (_Unlimited, exact_lp.NoEnd):
        return "no end"


@pytest.mark.parametrize("start", ["floats", "slacks", "random"])
def test_values_and_verdicts_are_those_of_the_reference_from_any_basis(start):
    verdicts = set()
    for seed in range(40):
        costs, rows, equal = drawn(seed)
        size, many = len(costs) + len(rows) + len(equal), len(rows) + len(equal)
        basis = {
            "floats": None,
            "slacks": frozenset(range(len(costs), size)),
            "random": frozenset(random.Random(seed).sample(range(size), many)),
        }[start]

        def exact(costs=costs, rows=rows, equal=equal, basis=basis):
            return as_fraction(program(costs, rows, equal).solve(basis).value)

        found = outcome(exact)
        assert found == outcome(lambda c=costs, r=rows, e=equal: exact_lp.maximise(c, r, e).value)
        verdicts.add(found if isinstance(found, str) else "value")
    assert verdicts == {"no point", "no end", "value"}


def test_the_program_on_which_the_simplex_method_can_cycle_ends():
    costs = [Fraction(3, 4), -20, Fraction(1, 2), -6]  # Beale
    rows = [([Fraction(1, 4), -8, -1, 9], 0), ([Fraction(1, 2), -12, Fraction(-1, 2), 3], 0), ([0, 0, 1, 0], 1)]
    made = LinearProgram()
    for c in costs:
        made.column(rational(*Fraction(c).as_integer_ratio()))
    for row, right in rows:
        made.row({j: rational(*Fraction(v).as_integer_ratio()) for j, v in enumerate(row)}, rational(right))
    assert made.solve(frozenset(range(4, 7))).value == rational(5, 4)


def test_multipliers_prove_the_value_and_belong_to_rows_that_bind():
    found = program([1, 1], [([1, 2], 4), ([3, 1], 6), ([1, 0], 9)]).solve()
    assert (found.value, found.point) == (rational(14, 5), [rational(8, 5), rational(6, 5)])
    assert found.multipliers == [rational(2, 5), rational(1, 5), rational(0)]


def test_large_programs_are_optimal_exactly_also_where_floats_tie():
    """The last column is the first, and earns more by less than any float tells."""
    r, n, m = random.Random(0), 80, 70
    made = LinearProgram()
    for _ in range(n):
        made.column(rational(r.randint(5, 9), 7))
    made.costs[0] = rational(1000)  # so that it is worth having
    rows = [{j: rational(r.randint(1, 5), 3) for j in r.sample(range(n), 4)} for _ in range(m)]
    last = made.column(made.costs[0] + rational(1, 10**40))
    for row in rows:
        made.row(row | ({last: row[0]} if 0 in row else {}), rational(r.randint(1, 9)))
    for j in range(n):  # no column is free of limits
        made.row({j: rational(1)}, rational(10))
    found = made.solve(frozenset(range(n + 1, n + 1 + len(made.right))))
    earned = [sum((found.multipliers[k] * v for k, v in column.items()), rational(0)) for column in made.columns]
    assert all(y >= 0 for y in found.multipliers) and all(e >= c for e, c in zip(earned, made.costs, strict=True))
    assert sum((y * b for y, b in zip(found.multipliers, made.right, strict=True)), rational(0)) == found.value
    assert sum((c * x for c, x in zip(made.costs, found.point, strict=True)), rational(0)) == found.value
    assert found.point[last] > 0


def test_numbers_beyond_floats_are_compared_exactly():
    big = rational(10) ** 400
    found = program([1, 1], [([big, 1], big), ([1, big], 2)]).solve()
    assert found.point == [1 - 1 / (big**2 - 1), big / (big**2 - 1)]


@pytest.mark.parametrize("size", [5, 40])  # without and with a dense kernel
def test_systems_are_solved_in_both_directions(size):
    r = random.Random(size)
    table = [[rational(r.randint(-9, 9), r.randint(1, 7)) for _ in range(size)] for _ in range(size)]
    columns = {j: {k: table[k][j] for k in range(size) if table[k][j]} for j in range(size)}
    factors = Factors(columns, range(size))
    assert (factors.kernel is not None) == (kind() is not Fraction and size > linear.DENSE)
    x = factors.solve({k: rational(k + 1) for k in range(size)})
    assert all(sum(table[k][j] * x[j] for j in range(size)) == k + 1 for k in range(size))
    y = factors.solve_transposed({j: rational(j - 2) for j in range(size)})
    assert all(sum(table[k][j] * y.get(k, 0) for k in range(size)) == j - 2 for j in range(size))


def test_columns_and_rows_that_depend_on_others_have_no_pivot():
    twice = {0: {0: rational(1), 1: rational(2)}, 1: {0: rational(2), 1: rational(4)}}
    columns, rows = Factors(twice, [0, 1]).dependent
    assert len(columns) == len(rows) == 1
