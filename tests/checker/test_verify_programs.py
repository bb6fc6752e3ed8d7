"""`verify` on files of cone programs: what it proves, in exact arithmetic, and what it refuses."""

import json
import math
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import cone_programs
from oracle.cone_programs import drawn, written

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import verify_programs
from typer.testing import CliRunner

import fairopt as fo
from fairopt.checker import cones, verify
from fairopt.checker.__main__ import main
from fairopt.cli import app

NOTHING = (0.0, 0.0, 0.0)


def program(blocks, rows, right, cost, point, dual, value, sense="minimize", **ends):
    """A file of a program whose optimum is ``value``, at a point and a dual point."""
    n = len(cost)
    claims = {"value": value, "bound": value, "gap": 0.0, "violation": 0.0}
    held = [ends.get(key, [None] * n) for key in ("least", "most", "radius")]
    a, b, c, z, y = (np.array(x, dtype=float) for x in (rows, right, cost, point, dual))
    return written(a, b, c, 0.0, [(*block, None) for block in blocks], *held, z, y, sense, claims, "optimal")


# x + y where x + 2 y >= 2: 1 at (0, 1)
LINEAR = program([("nonneg", None)] * 3, [[-1, -2], [-1, 0], [0, -1]], [-2, 0, 0], [1, 1], [0, 1], [0.5, 0.5, 0], 1.0)
# 3 x + 4 y where |(x, y)| <= 5: 25 at (3, 4)
SECOND_ORDER = program(
    [("soc", 3)], [[0, 0], [-1, 0], [0, -1]], [5, 0, 0], [-3, -4], [3, 4], [5, -3, -4], 25.0, "maximize"
)
# w where exp(u) <= w and u = 0: 1
EXPONENTIAL = program(
    [("zero", None), ("exp", None)],
    [[1, 0], [-1, 0], [0, 0], [0, -1]],
    [0, 0, 1, 0],
    [0, 1],
    [0, 1],
    [-1, -1, -1, 1],
    1.0,
)
# w where u^(1/4) v^(3/4) >= w and u + 3 v <= 4: 1 at (1, 1)
POWER = program(
    [("nonneg", None), ("power", 0.25)],
    [[1, 3, 0], [-1, 0, 0], [0, -1, 0], [0, 0, -1]],
    [4, 0, 0, 0],
    [0, 0, -1],
    [1, 1, 1],
    [0.25, 0.25, 0.75, -1],
    1.0,
    "maximize",
)
# 2 a + b where [[a, sqrt 2], [sqrt 2, b]] is positive semidefinite: 4 at (1, 2)
MATRIX = program([("psd", 2)], [[-1, 0], [0, 0], [0, -1]], [0, 2, 0], [2, 1], [1, 2], [2, -2, 1], 4.0)
KNOWN = {"linear": LINEAR, "soc": SECOND_ORDER, "exp": EXPONENTIAL, "power": POWER, "psd": MATRIX}


def checked(data, folder):
    path = folder / "proof.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return verify(path)


def changed(data, **at):
    """A copy of a file with other values, each at a path such as ``claims__gap``."""
    copy = json.loads(json.dumps(data))
    for path, value in at.items():
        *names, last = path.split("__")
        held = copy
        for name in names:
            held = held[int(name) if isinstance(held, list) else name]
        held[int(last) if isinstance(held, list) else last] = value
    return copy


@pytest.mark.parametrize("name", KNOWN)
def test_known_optima_are_proved_without_tolerance(name, tmp_path):
    found = checked(KNOWN[name], tmp_path)
    assert found.ok and found.gap == 0.0 and "gap 0" in found.statement, str(found)
    assert found.policy == KNOWN[name]["source"]["text"] and "means" in found.not_proved["source"]


@pytest.mark.parametrize("name", KNOWN)
def test_claims_that_are_better_than_what_is_proved_are_refused(name, tmp_path):
    data, sign = KNOWN[name], 1 if KNOWN[name]["sense"] == "minimize" else -1
    value = data["claims"]["value"]
    for other in ({"claims__bound": value + sign * 1e-9}, {"claims__value": value - sign * 1e-6}):
        found = checked(changed(data, **other), tmp_path)
        assert not found.ok and found.statement == "not proved:" and len(found.faults) == 1, str(found)


@pytest.mark.parametrize("name", KNOWN)
def test_points_outside_the_cone_are_refused_unless_the_violation_is_claimed(name, tmp_path):
    data = KNOWN[name]
    outward = [z - 1e-10 * c for z, c in zip(data["point"], dense_cost(data), strict=True)]
    sign = 1 if data["sense"] == "minimize" else -1
    value = sign * sum(c * z for c, z in zip(dense_cost(data), outward, strict=True))
    moved = changed(data, point=outward, claims__value=value, claims__gap=1e-6)
    found = checked(moved, tmp_path)
    assert not found.ok and "is broken by more than" in found.faults[0], str(found)
    found = checked(changed(moved, claims__violation=1e-6), tmp_path)
    assert found.ok and "beyond that, as the point breaks rows" in found.statement, str(found)


def dense_cost(data):
    c = [0.0] * data["program"]["columns"]
    for k, x in zip(data["program"]["cost"]["column"], data["program"]["cost"]["value"], strict=True):
        c[k] += x
    return c


@pytest.mark.parametrize("name", ["soc", "exp", "power", "psd"])
def test_a_dual_point_outside_its_cone_is_moved_and_charged_at_ranges(name, tmp_path):
    """Those that half-spaces around cones imply; of the others a radius is needed."""
    data = KNOWN[name]
    at, scale = {"soc": (1, 1 + 1e-9), "exp": (3, 1 - 1e-9), "power": (1, 1 - 1e-9), "psd": (0, 1 - 1e-9)}[name]
    outside = changed(data, **{f"dual__{at}": data["dual"][at] * scale}, claims__gap=1e-6)
    sign = 1 if data["sense"] == "minimize" else -1
    if name in ("exp", "psd"):
        assert "has no limit and no radius" in checked(outside, tmp_path).faults[0]
        outside = changed(outside, radius=[10.0] * data["program"]["columns"])
    assert not checked(outside, tmp_path).ok  # the bound is no longer the optimum
    found = checked(changed(outside, claims__bound=data["claims"]["value"] - sign * 1e-7), tmp_path)
    assert found.ok and ("within a radius" in found.statement) == (name in ("exp", "psd")), str(found)


def test_within_a_radius_only_is_said_and_the_point_must_be_within(tmp_path):
    data = program([("nonneg", None)], [[1.0]], [9.0], [1.0], [-2.0], [0.0], -2.0, radius=[2.0])
    found = checked(data, tmp_path)
    assert found.ok and found.statement.startswith(
        "proved: within a radius (x[0] is 2), beyond which nothing is proved: "
    )
    assert "no radius" in checked(changed(data, radius=None), tmp_path).faults[0]
    beyond = checked(changed(data, radius__0=1.0, claims__bound=-3.0, claims__gap=1.0), tmp_path)
    assert beyond.faults == ("x[0] is beyond its radius",)
    unused = changed(LINEAR, radius=[None, 0.5])  # by the bound, whose r is 0; the optimum within it is 1.5
    assert checked(unused, tmp_path).faults == ("x[1] is beyond its radius",)


def test_limits_are_part_of_the_problem(tmp_path):
    data = program([("nonneg", None)], [[1.0]], [9.0], [1.0], [-2.0], [0.0], -2.0, least=[-2.0])
    assert checked(data, tmp_path).ok
    below = changed(data, point=[-2.1], claims__value=-2.1, claims__gap=1.0)
    assert "x[0] is broken" in checked(below, tmp_path).faults[0]


@pytest.mark.parametrize(
    ("cone", "row"), [("nonneg", 0), ("soc", 0), ("exp", 1), ("exp", 2), ("power", 0), ("power", 1), ("psd", 0)]
)
def test_rows_that_bound_a_column_need_not_be_repeated_as_limits(cone, row, tmp_path):
    # minimise x, of which some row of a cone says x >= 2, with a dual point that does not use it
    rows, extra = {"nonneg": (1, None), "soc": (2, 2), "power": (3, 0.5), "psd": (1, 1)}.get(cone, (3, None))
    a = np.zeros((rows, 1))
    a[row], right = -1.0, [0.0 if (cone, i) == ("exp", 0) else 1.0 for i in range(rows)]
    right[row] = -2.0
    if cone == "power":
        right[2] = 0.0
    point = 2.0 + {"nonneg": 0.0, "soc": 1.0, "psd": 0.0}.get(cone, 1.0)
    claims = {"claims__value": point, "claims__bound": 2.0, "claims__gap": 1.0}
    data = program([(cone, extra)], a, right, [1.0], [point], [0.0] * rows, 0.0)
    found = checked(changed(data, **claims), tmp_path)
    assert found.ok or "the optimum at least 2;" in found.faults[0], str(found)


@pytest.mark.parametrize("status", ["optimal", "infeasible", "unbounded"])
def test_true_files_of_all_cones_are_proved(status, tmp_path):
    for seed in range(60):
        found = checked(drawn(np.random.default_rng(seed), status), tmp_path)
        assert found.ok and found.gap == 0.0, (seed, str(found))


def test_no_changed_file_is_proved_that_is_false(tmp_path):
    assert not list(wrong_words(tmp_path, range(150), 4))


# 0 where the sum of four of eight variables is at most that of the others
EIGHT = program([("nonneg", None)], [[1] * 4 + [-1] * 4], [0], [0] * 8, [1] * 8, [0], 0.0)


def test_the_oracle_measures_a_row_by_its_largest_term_and_not_as_the_checker_does(tmp_path):
    for by, accepted, larger, false in ((0.9e-6, 1, 0, 0), (4e-6, 1, 1, 0), (9e-6, 0, 0, 1)):
        data = changed(EIGHT, point=[1.0 + by, *[1.0] * 7], claims__violation=1e-6)
        assert cone_programs.Reference(data).violation() == pytest.approx((by, by / 8), rel=1e-5)
        assert checked(data, tmp_path).ok == accepted
        assert (cone_programs.differs(data) > 0) == larger
        assert bool(cone_programs.false(data)) == false
    assert verify_programs.verdict(json.dumps(EIGHT), tmp_path / "proof.json") == ("right", "")


def wrong_words(folder, seeds, times, kinds=()):
    """Words for changed files that are false or crash the checker, by a few changes of each kind."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        text = json.dumps(drawn(rng, verify_programs.STATUSES[seed % 4], kinds))
        for _ in range(times):
            data, kind = verify_programs.mutated(rng, text, verify_programs.KINDS)
            word, what = verify_programs.verdict(json.dumps(data), folder / "proof.json")
            if word in ("WRONG", "crashed"):
                yield seed, kind, word, what


@pytest.mark.parametrize(
    ("kind", "cone"),
    [("soc", cones.SecondOrder), ("exp", cones.Exponential), ("power", cones.Power), ("psd", cones.Semidefinite)],
)
@pytest.mark.parametrize("part", ["inside", "into_dual"])
def test_the_judge_of_changed_files_finds_a_checker_that_trusts_them(kind, cone, part, tmp_path, monkeypatch):
    monkeypatch.setattr(cone, part, (lambda self, s: True) if part == "inside" else lambda self, y: y)
    assert any(wrong_words(tmp_path, range(80), 6, (kind,)))


SPOILT = {
    "no JSON": (lambda data: json.dumps(data)[:-40], "not JSON"),
    "NaN": (lambda data: json.dumps(changed(data, point__0=math.nan)), "point[0] is nan, not a finite number"),
    "too large": (lambda data: json.dumps(data).replace("-2.0", "1e400"), "not a finite number"),
    "many digits": (lambda data: json.dumps(changed(data, dual__0=10**400)), "not a finite number"),
    "text": (lambda data: changed(data, dual__0="0.5"), "dual[0] is '0.5', not a finite number"),
    "truth value": (lambda data: changed(data, program__right__0=True), "program.right[0] is True"),
    "nested": (lambda data: changed(data, program__right__0=[1.0]), "program.right[0] is [1.0]"),
    "deep": (lambda data: "[" * 100_000 + "]" * 100_000, ""),
    "length": (lambda data: changed(data, point=[0.0]), "point has 1 numbers, and should have 2"),
    "place": (lambda data: changed(data, program__matrix__row__0=-1), "program.matrix.row has -1"),
    "float place": (lambda data: changed(data, program__matrix__row__0=0.0), "program.matrix.row has 0.0"),
    "negative size": (lambda data: changed(data, program__cones__soc=[-1]), "-1, not a whole number"),
    "many cones": (lambda data: changed(data, program__cones__exp=10**15), "the cones have"),
    "no rows": (lambda data: changed(data, program__cones__psd=[0]), "a cone without rows"),
    "exponent": (lambda data: changed(data, program__cones__power=[1.0]), "not between 0 and 1"),
    "no key": (lambda data: {k: v for k, v in data.items() if k != "dual"}, "the file has no 'dual'"),
    "unknown key": (lambda data: changed(data, claims__seconds=1.0), "claims has an unknown key 'seconds'"),
    "twice": (lambda data: json.dumps(data).replace('"offset"', '"columns"'), "a key occurs twice"),
    "status": (lambda data: changed(data, claims__status=["optimal"]), "claims.status is ['optimal']"),
    "no claim": (lambda data: changed(data, claims__gap=None), "claims.gap is None"),
    "no point": (lambda data: changed(data, point=None), "point is missing"),
    "sense": (lambda data: changed(data, sense="min"), "sense is 'min'"),
    "hash": (lambda data: changed(data, source__text="maximize x"), "another SHA-256"),
    "overlap": (
        lambda data: changed(data, constraints=[{"name": n, "start": 0, "size": 2} for n in "ab"]),
        "constraints[1] is out of order",
    ),
    "beyond": (lambda data: changed(data, constraints__0__size=9), "ends beyond 3"),
    "list": (lambda data: [data], "not a file that"),
    "number": (lambda data: changed(data, program=1.0), "program is 1.0, not an object"),
    "negative radius": (lambda data: changed(data, radius=[-1.0, None]), "radius has a negative number"),
    "violation": (lambda data: changed(data, claims__violation=1e-3), "a violation of 1.0e-03 is claimed"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_is_no_file_is_refused_in_one_sentence(kind, tmp_path, capsys):
    change, says = SPOILT[kind]
    found = checked(change(LINEAR), tmp_path)
    assert not found.ok and math.isinf(found.gap) and len(found.faults) == 1 and says in found.faults[0], str(found)
    assert main([str(tmp_path / "proof.json")]) == 1 and len(capsys.readouterr().out.splitlines()) == 2


def test_entries_at_one_place_add_up_also_where_they_are_large(tmp_path):
    def with_two(by):
        data = changed(LINEAR)
        for key, more in (("row", [0, 0]), ("column", [0, 0]), ("value", [by, -by])):
            data["program"]["matrix"][key] += more
        return data

    assert checked(with_two(2.0**60), tmp_path).ok
    short = changed(with_two(2.0**60), point=[0.0, 0.999], claims__value=0.999, claims__gap=1.0, claims__violation=1e-6)
    assert "all[0] is broken" in checked(short, tmp_path).faults[0]  # though tiny beside 2^60


def test_exact_where_numbers_differ_by_600_decades(tmp_path):
    # x + 1e300 y - 1e300 w where x >= 1, w <= y <= 1e-300: floats lose x
    data = program(
        [("nonneg", None)] * 3,
        [[-1, 0, 0], [0, -1, 1], [0, 1, 0]],
        [-1, 0, 1e-300],
        [1, 1e300, -1e300],
        [1, 1e-300, 1e-300],
        [1, 1e300, 0],
        1.0,
    )
    assert checked(data, tmp_path).ok
    assert not checked(changed(data, claims__bound=math.nextafter(1.0, 2.0)), tmp_path).ok


def test_an_infeasible_file_names_the_constraints_that_take_part(tmp_path):
    data = changed(LINEAR, point=None, claims=dict.fromkeys(("value", "bound", "gap", "violation")))
    data = changed(data, claims__status="infeasible", program__right=[-2.0, 0.0, -1.0], dual=[1.0, 0.0, 0.0])
    data = changed(data, limits={"least": [None, None], "most": [0.5, 0.5]})
    data["constraints"] = [{"name": "cover", "start": 0, "size": 1}]
    found = checked(data, tmp_path)
    assert found.ok and found.gap == 0.0 and "no point satisfies" in found.statement and "cover take" in found.statement
    feasible = checked(changed(data, limits__most=[0.5, 0.75]), tmp_path)
    assert feasible.faults == ("the dual point does not prove that the program is infeasible",)


def test_unbounded_directions_are_checked_without_tolerance(tmp_path):
    data = drawn(np.random.default_rng(1), "unbounded", ("zero", "nonneg"))
    assert checked(data, tmp_path).ok
    for k, x in enumerate(data["dual"]):
        if x:
            off = changed(data, **{f"dual__{k}": math.nextafter(x, 0.0)})
            assert not checked(off, tmp_path).ok


def test_the_command_and_fo_verify_prove_programs_too(tmp_path):
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(SECOND_ORDER), encoding="utf-8")
    assert fo.verify(path) == verify(path) and fo.verify(path).size == {"columns": 2, "rows": 3, "entries": 2}
    made = CliRunner().invoke(app, ["verify", str(path)])
    assert made.exit_code == 0 and "proved: gap 0 of the program as written" in made.output
    cluster = fo.Instance([[1]], [1])
    assert "holds a program" in fo.verify(path, cluster).faults[0]
    assert "not a saved allocation" in CliRunner().invoke(app, ["verify", str(path), "--upgrade", "x.json"]).output


# -- cones ------------------------------------------------------------------------------------------------------------

SMALL = st.integers(-40, 40)
EXPONENTS = st.sampled_from([0.5, 0.25, 0.875, 0.3, 1 / 3, 1e-3])


def orthogonal_enough(cone, members, y):
    """A dual point, moved into the dual cone, has no negative product with any point of the cone."""
    y = [x << 60 for x in y]
    moved = cone.into_dual(y)
    for s in members:
        if cone.inside(s):
            assert sum(a * b for a, b in zip(s, moved, strict=True)) >= 0
    assert moved == y or not cone.inside_dual(y)


@given(st.lists(SMALL, min_size=3, max_size=3), st.lists(st.lists(SMALL, min_size=3, max_size=3), max_size=6))
def test_second_order_dual_points_are_moved_into_the_cone(y, members):
    orthogonal_enough(cones.SecondOrder(3), [[max(map(abs, s)) * 2, *s[1:]] for s in members] + members, y)


@given(st.lists(SMALL, min_size=3, max_size=3), st.lists(st.tuples(SMALL, st.integers(1, 30)), max_size=8))
def test_exponential_dual_points_are_moved_into_the_cone(y, members):
    boundary = []
    for u, v in members:
        with localcontext() as context:
            context.prec = 80
            boundary.append([u << 140, v << 140, int(v * (Decimal(u) / v).exp() * 2**140) + 2])
    assert all(cones.Exponential().inside(s) for s in boundary)
    assert not any(cones.Exponential().inside([u, v, w - 4]) for u, v, w in boundary if u)
    orthogonal_enough(cones.Exponential(), [*boundary, [-1, 0, 0], [0, 0, 1]], y)


@given(EXPONENTS, st.lists(SMALL, min_size=3, max_size=3), st.lists(st.tuples(*[st.integers(1, 50)] * 2), max_size=8))
def test_power_dual_points_are_moved_into_the_cone(a, y, members):
    cone, boundary = cones.Power(a), []
    for u, v in members:
        with localcontext() as context:
            context.prec = 80
            w = int(((Decimal(u).ln() * Decimal(a) + Decimal(v).ln() * (1 - Decimal(a))).exp()) * 2**60) - 2**8
            boundary.append([u << 60, v << 60, w * (1 if (u + v) % 2 else -1)])
    assert all(cone.inside(s) for s in boundary)
    assert not any(cone.inside([u, v, w + 2**10 * (1 if w > 0 else -1)]) for u, v, w in boundary)
    orthogonal_enough(cone, [*boundary, [1, 0, 0], [0, 1, 0]], y)


@given(st.integers(1, 4), st.data())
def test_matrices_are_moved_until_they_are_positive_semidefinite(order, data):
    y = [data.draw(SMALL) for _ in range(order * (order + 1) // 2)]
    cone = cones.Semidefinite(order, lambda: None)
    moved = cone.into_dual([x << 60 for x in y])
    assert eigenvalue(moved, order) >= -1e-12 * 40 * order * 2.0**60
    assume(abs(eigenvalue(y, order)) > 1e-6)
    assert cone.inside(y) == (eigenvalue(y, order) > 0)


def eigenvalue(s, order):
    """The least eigenvalue of a matrix."""
    matrix = np.zeros((order, order))
    for j in range(order):
        for i in range(j + 1):
            matrix[i, j] = matrix[j, i] = float(s[j * (j + 1) // 2 + i]) / (1.0 if i == j else math.sqrt(2))
    return float(np.linalg.eigvalsh(matrix)[0])


@pytest.mark.parametrize("margin", [1e-9, 1e-14, 1e-30])
def test_a_matrix_is_judged_right_however_close_to_singular(margin):
    # I - (1 - margin) v v' with |v| = 1: the least eigenvalue is the margin; sqrt 2 times the entries, in 300 bits
    order = 5
    scale = 1 << 300
    with localcontext() as context:
        context.prec = 120
        part, root = (1 - Decimal(margin)) / order, Decimal(2).sqrt()
        s = [int(((i == j) - part) * (1 if i == j else root) * scale) for j in range(order) for i in range(j + 1)]
    cone = cones.Semidefinite(order, lambda: None)
    assert cone.inside(s)
    assert not cone.inside(cone.raised(s, -int(Decimal(margin) * 2 * scale)))
    assert not cones.Semidefinite(order, lambda: None).inside([-x for x in s])


@pytest.mark.parametrize(
    "cone",
    [cones.SecondOrder(4), cones.Exponential(), cones.Power(0.3), cones.Semidefinite(3, lambda: None)],
    ids=lambda cone: type(cone).__name__,
)
def test_cones_are_within_the_half_spaces_by_which_ranges_spread(cone):
    rng, inside = np.random.default_rng(1), 0
    for _ in range(2000):
        s = [int(x) for x in rng.normal(scale=10.0 ** rng.uniform(1, 4), size=cone.rows)]
        s = cone.raised(s, int(10.0 ** rng.uniform(0, 4))) if rng.random() < 0.7 else s
        if cone.inside(s):
            inside += 1
            assert all(sum(float(a) * s[i] for i, a in half.items()) >= 0 for half in cone.halves()), s
    assert inside > 100
