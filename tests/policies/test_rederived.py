"""Numbers that were derived again by hand, by default and through the cone method with every solver."""

import dataclasses
import math
from fractions import Fraction

import cvxpy as cp
import pytest
from numpy.testing import assert_allclose

import fairopt as fo

TWO = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
FOUR = fo.Instance([[2, 0, 1], [1, 3, 0], [0, 2, 0], [0, 0, 1]], [12, 18, 10])
LIMITED = fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[1.5, None, 1])
INTRO = fo.Instance([[2, 3], [2, 1]], [6, 4])
FIFTH = fo.Instance([[1, 4], [3, 1]], [9, 18])
APART = fo.Instance([[1, 0], [0, 1]], [1, 4])
SERVERS = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])
RANKS = [(1, 2, 1), (Fraction(1, 2), 1, 3)]
R2, R3 = math.sqrt(2), math.sqrt(3)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    policy: fo.Policy
    instance: fo.Instance
    tasks: tuple
    linear: bool  # a linear program, or a sequence of them
    filled: bool = False  # water-filling is exact


ROWS = [
    Row("1 DRF", fo.DRF(), TWO, (5 / 2, 25 / 2), True, True),
    Row("1 2-DF", fo.KDF(2), TWO, (25 / 13, 200 / 13), True, True),
    Row("1 most tasks", fo.MostTasks(), TWO, (0, 25), True),
    Row("2 DRF", fo.DRF(), FOUR, (15 / 4, 3, 9 / 2, 25 / 4), True, True),
    Row("3 DRF", fo.DRF(), LIMITED, (3 / 2, 13 / 6, 1), True, True),
    Row("4 k=1", fo.KDF(1, RANKS), TWO, (5 / 3, 50 / 3), True, True),
    Row("4 k=2", fo.KDF(2, RANKS), TWO, (25 / 37, 800 / 37), True, True),
    Row("4 k=3", fo.KDF(3, RANKS), TWO, (75 / 271, 6400 / 271), True, True),
    Row("5 DRF", fo.DRF(), INTRO, (16 / 21, 12 / 7), True, True),
    Row("5 FDS 1/2", fo.FDS(0.5), INTRO, (4 / 7, 16 / 7), False),
    Row("5 FDS 1", fo.FDS(1), INTRO, (2 / 3, 2), False),
    Row("6 FDS 1", fo.FDS(1), FIFTH, (45 / 11, 18 / 11), False),
    Row("6 FDS 2", fo.FDS(2), FIFTH, (9 * (R2 - 1), 3 * (2 - R2)), False),
    Row("6 GFJ 2", fo.GFJ(2), FIFTH, (9 * (R3 - 1) / 2, 9 * (R3 - 1) / (2 * R3)), False),
    Row("6 GFJ ln3/ln1.5", fo.GFJ(math.log(3) / math.log(1.5)), FIFTH, (3, 2), False),
    Row("7 p-norm 1", fo.PNormFairness(1, 0.5), INTRO, (26 / 51, 42 / 17), False),
    Row("10 GFJ beta 2", fo.GFJ(beta=2, lam=-0.5), APART, (1, 4), False),
    Row("11 DRF", fo.DRF(), SERVERS, (10, 10), True),
    Row("11 DRFH", fo.DRF(), SERVERS, (10, 10), True),
    Row("11 TSF", fo.TSF(), SERVERS, (10, 10), True),
]
BY_NAME = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
INSTALLED = cp.installed_solvers()


def certified(allocation, row, rtol, atol):
    assert_allclose(allocation.tasks, row.tasks, rtol=rtol, atol=atol)
    assert allocation.certificate.ok
    assert allocation.certificate.gap < 1e-6
    assert allocation.certificate.violation <= 1e-9


@pytest.mark.fast_methods
@BY_NAME
def test_by_default(row):
    allocation = row.policy.allocate(row.instance)
    rtol = 1e-12 if row.filled else 1e-7 if row.linear else 1e-4
    certified(allocation, row, rtol, rtol)
    assert (allocation.certificate.method == "water-filling") == row.filled


@BY_NAME
@pytest.mark.parametrize("solver", ["CLARABEL", "ECOS", "SCS", "HIGHS"])
def test_through_the_cone_route(row, solver):
    if solver not in INSTALLED:
        pytest.skip(f"{solver} is not installed")
    if solver == "HIGHS" and not row.linear:
        with pytest.raises(fo.errors.SolverUnavailable, match="HIGHS cannot take this kind of problem"):
            row.policy.allocate(row.instance, solver=solver)
        return
    allocation = row.policy.allocate(row.instance, solver=solver)
    tolerance = 1e-7 if row.linear else 1e-4
    certified(allocation, row, tolerance, tolerance)
    assert allocation.certificate.method == "cone"
    assert allocation.certificate.solver == solver


@BY_NAME
def test_the_cone_route_can_be_forced_by_method(row):
    allocation = row.policy.allocate(row.instance, method="cone")
    tolerance = 1e-7 if row.linear else 1e-4
    certified(allocation, row, tolerance, tolerance)
    assert allocation.certificate.method == "cone"


@pytest.mark.fast_methods
@pytest.mark.parametrize("row", [r for r in ROWS if r.filled], ids=lambda row: row.name)
def test_water_filling_can_be_forced_by_method(row):
    certified(row.policy.allocate(row.instance, method="water-filling"), row, 1e-12, 1e-12)


@pytest.mark.fast_methods
@pytest.mark.parametrize("row", [r for r in ROWS if not r.filled], ids=lambda row: row.name)
def test_water_filling_is_refused_where_it_is_not_exact(row):
    with pytest.raises(fo.errors.OutOfDomain, match="water-filling is exact for"):
        row.policy.allocate(row.instance, method="water-filling")


def test_row_11_the_dominant_share_is_5_sevenths():
    allocation = fo.DRF().allocate(SERVERS)
    assert_allclose(allocation.shares, [5 / 7, 5 / 7], rtol=1e-7)
    assert allocation.objective == pytest.approx(5 / 7, rel=1e-7)


def test_row_11_the_task_share_is_5_sixths():
    allocation = fo.TSF().allocate(SERVERS)
    assert_allclose(allocation.shares, [5 / 6, 5 / 6], rtol=1e-7)


def test_row_11_pooled_DRF():
    # one pool of (14, 14): both need 1.2 of each resource for a task of either
    assert_allclose(fo.DRF().allocate(SERVERS.pooled()).tasks, [14 / 1.2, 14 / 1.2], rtol=1e-12)


def test_row_4_weights_of_a_user_can_be_given_by_name():
    by_name = fo.KDF(2, {"batch": (1, 2, 1), "web": (0.5, 1, 3)})
    assert_allclose(by_name.allocate(TWO).tasks, [25 / 37, 800 / 37], rtol=1e-12)


def test_row_4_only_products_matter_so_entitlements_say_the_same():
    # s_j / w_j with w_j = 1 / (product of the rank weights)
    assert_allclose(fo.KDF(2).allocate(TWO.with_weights([1 / 2, 2])).tasks, [25 / 37, 800 / 37], rtol=1e-12)


@pytest.mark.parametrize(
    ("beta", "lam", "tasks", "measure"),
    [
        (2, -0.25, [(9 * 13**0.5 - 27) / 2, (15 - 3 * 13**0.5) / 2], -1.3618537),  # row 8
        (-1, 1, [18 / 5, 9 / 5], 243 / 25),  # row 9
    ],
)
def test_rows_8_and_9_are_not_concave_and_solved(beta, lam, tasks, measure):
    a = fo.GFJ(beta=beta, lam=lam).allocate(FIFTH)
    assert_allclose(a.tasks, tasks, rtol=1e-5)
    assert a.objective == pytest.approx(measure, rel=1e-7)


def test_row_10_outside_the_concave_region_a_user_is_held_back():
    assert_allclose(fo.GFJ(beta=2, lam=-0.25).allocate(APART).tasks, [1, 2], rtol=1e-5)


@pytest.mark.parametrize("lam", [-0.5, -0.75, -1, -5])
def test_row_10_inside_it_nobody_is_held_back(lam):
    assert_allclose(fo.GFJ(beta=2, lam=lam).allocate(APART).tasks, [1, 4], rtol=1e-4)
