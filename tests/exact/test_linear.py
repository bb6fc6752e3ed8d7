"""Linear programs in rationals: values of the reference, from any basis, and proofs that there is none."""

import random
from fractions import Fraction

import pytest
from oracle import exact_lp

pytest.importorskip("flint")
from flint import fmpq

from fairopt.exact import linear
from fairopt.exact.linear import Factors, LinearProgram, NoPoint, Unlimited

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
        made.column(fmpq(c))
    for k, (row, right) in enumerate([*rows, *equal]):
        made.row({j: fmpq(v) for j, v in enumerate(row)}, fmpq(right), equal=k >= len(rows))
    return made


def outcome(solve):
    try:
        return solve()
    except (NoPoint, exact_lp.NoPoint):
        return "no point"
    except (Unlimited, exact_lp.NoEnd):
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
            value = program(costs, rows, equal).solve(basis).value
            return Fraction(int(value.p), int(value.q))

        found = outcome(exact)
        assert found == outcome(lambda c=costs, r=rows, e=equal: exact_lp.maximise(c, r, e).value)
        verdicts.add(found if isinstance(found, str) else "value")
    assert verdicts == {"no point", "no end", "value"}


def test_the_program_on_which_the_simplex_method_can_cycle_ends():
    costs = [Fraction(3, 4), -20, Fraction(1, 2), -6]  # Beale
    rows = [([Fraction(1, 4), -8, -1, 9], 0), ([Fraction(1, 2), -12, Fraction(-1, 2), 3], 0), ([0, 0, 1, 0], 1)]
    made = LinearProgram()
    for c in costs:
        made.column(fmpq(Fraction(c).numerator, Fraction(c).denominator))
    for row, right in rows:
        made.row({j: fmpq(Fraction(v).numerator, Fraction(v).denominator) for j, v in enumerate(row)}, fmpq(right))
    assert made.solve(frozenset(range(4, 7))).value == fmpq(5, 4)


def test_multipliers_prove_the_value_and_belong_to_rows_that_bind():
    found = program([1, 1], [([1, 2], 4), ([3, 1], 6), ([1, 0], 9)]).solve()
    assert (found.value, found.point) == (fmpq(14, 5), [fmpq(8, 5), fmpq(6, 5)])
    assert found.multipliers == [fmpq(2, 5), fmpq(1, 5), fmpq(0)]


@pytest.mark.parametrize("size", [5, 40])  # without and with a dense kernel
def test_systems_are_solved_in_both_directions(size):
    r = random.Random(size)
    table = [[fmpq(r.randint(-9, 9), r.randint(1, 7)) for _ in range(size)] for _ in range(size)]
    columns = {j: {k: table[k][j] for k in range(size) if table[k][j]} for j in range(size)}
    factors = Factors(columns, range(size))
    assert (factors.kernel is not None) == (size > linear.DENSE)
    x = factors.solve({k: fmpq(k + 1) for k in range(size)})
    assert all(sum(table[k][j] * x[j] for j in range(size)) == k + 1 for k in range(size))
    y = factors.solve_transposed({j: fmpq(j - 2) for j in range(size)})
    assert all(sum(table[k][j] * y.get(k, 0) for k in range(size)) == j - 2 for j in range(size))


def test_columns_and_rows_that_depend_on_others_have_no_pivot():
    twice = {0: {0: fmpq(1), 1: fmpq(2)}, 1: {0: fmpq(2), 1: fmpq(4)}}
    columns, rows = Factors(twice, [0, 1]).dependent
    assert len(columns) == len(rows) == 1
