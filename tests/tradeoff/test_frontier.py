"""Frontiers: measures by definition, bounds against worst cases, files to go on from, Ctrl-C, and bad input."""

import functools
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairopt as fo
from fairopt.errors import NotCertified
from fairopt.report.frontiers import frontier_table, remarks
from fairopt.runtime.clock import Clock
from fairopt.tradeoff import frontier as module
from fairopt.tradeoff import sweep
from fairopt.tradeoff.price_of_fairness import largest_price

SECTION_V = fo.Instance([[1, 4], [3, 1]], [9, 18], users=["batch", "web"], resources=["cpu", "ram"])
CROSSING = np.log(3) / np.log(1.5)
ALPHAS = [0, 0.5, 1, 2, 5]


@st.composite
def pools(draw: st.DrawFn) -> fo.Instance:
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 5), min_size=m, max_size=m).filter(any)
    demands = draw(st.lists(row, min_size=n, max_size=n))
    limits = draw(st.lists(st.sampled_from([np.inf, np.inf, 0, 2]), min_size=n, max_size=n))
    return fo.Instance(demands, draw(st.lists(st.integers(1, 9), min_size=m, max_size=m)), task_limits=limits)


# -- the measures ---------------------------------------------------------------------------------------------------


@given(pools())
@settings(max_examples=8, deadline=None)
def test_rows_are_the_measures_of_each_policy_solved_alone(instance: fo.Instance) -> None:
    found = fo.frontier(fo.FDS, instance, {"alpha": ALPHAS})
    part = instance.task_limits > 0
    least, most = [p.allocate(instance) for p in (fo.DRF(), fo.MostTasks())]
    level = (least.share(fo.DominantShare())[part]).min(initial=np.inf)
    largest = fo.Policy(fo.Total()).allocate(instance).shares.sum()
    assert (found["gap"] <= 1e-6).all()
    for k, alpha in enumerate(ALPHAS):
        alone = fo.FDS(alpha).allocate(instance)
        tasks, shares = alone.tasks, alone.share(fo.DominantShare())
        np.testing.assert_allclose(found["jain"][k], alone.metrics()["jain"], atol=2e-4)
        np.testing.assert_allclose(found["tasks"][k], tasks.sum(), rtol=1e-4, atol=1e-9)
        if not part.any():
            assert found["fairness"][k] == found["efficiency"][k] == 100
            continue
        np.testing.assert_allclose(found["fairness"][k], 100 * shares[part].min() / level, atol=0.05)
        np.testing.assert_allclose(found["efficiency"][k], 100 * tasks.sum() / most.tasks.sum(), rtol=1e-4)
        np.testing.assert_allclose(found["price_of_fairness"][k], 1 - shares.sum() / largest, atol=1e-4)
        if alpha == 2:  # Lan et al.: of n users, relative to equal shares
            plain = -np.sqrt((shares[part].sum() / shares[part]).sum()) / part.sum()
            np.testing.assert_allclose(found["f_beta"][k], plain, rtol=1e-3)


def test_gfj_reaches_drf_where_joe_wong_et_al_see_it_cross() -> None:
    found = fo.frontier(fo.GFJ, SECTION_V, {"alpha": [0.5 * CROSSING, CROSSING, 2 * CROSSING]})
    np.testing.assert_allclose(found.tasks_by_user[1], [3, 2], rtol=1e-9)
    np.testing.assert_allclose(found["fairness"][1], 100, rtol=1e-9)
    assert found["fairness"][0] < 99 and found["fairness"][2] < 99
    np.testing.assert_allclose(found.drf["tasks_by_user"], [3, 2])


def test_pareto_keeps_what_no_other_point_beats() -> None:
    found = fo.frontier(fo.GFJ, SECTION_V, {"alpha": np.linspace(0, 8, 33)})
    x, y = found["fairness"].round(4), found["efficiency"].round(4)
    dominated = [((x >= x[k]) & (y >= y[k]) & ((x > x[k]) | (y > y[k]))).any() for k in range(33)]
    assert sorted(found.pareto()) == np.flatnonzero(~np.array(dominated)).tolist() and 0 < sum(dominated) < 33
    assert (np.diff(x[found.pareto()]) >= 0).all()


def test_rounding_in_fairness_does_not_keep_a_less_efficient_point() -> None:
    found = fo.frontier(fo.FDS, SECTION_V, {"alpha": [1, 2, 3]})
    found["fairness"][:], found["efficiency"][:] = [100, 100 - 1e-9, 50], [80, 90, np.nan]
    assert found.pareto().tolist() == [1]


def test_f_beta_is_left_out_where_it_tells_nothing_apart() -> None:
    assert np.isnan(fo.frontier(fo.FDS, SECTION_V, {"alpha": [0, 0.5, 1, 2]})["f_beta"]).tolist() == [1, 0, 1, 0]


def test_rounding_is_shown_as_zero() -> None:
    found = fo.frontier(fo.GFJ, SECTION_V, {"beta": [1], "lam": [0.25, 0.5 - 1e-16, 1e-17 + 2]})
    assert found["price_of_fairness"].tolist() == [0, 0, 0]
    table = frontier_table(fo.frontier(lambda x: fo.DRF(), SECTION_V, {"x": [-1, 1e-16, np.inf, "word", True]}))
    assert list(table.first.cells) == ["-1", "1e-16", "inf", "word", "True"]
    table = frontier_table(fo.frontier(lambda x: fo.DRF(), SECTION_V, {"x": [-1, 1e-16, 0.5]}))
    assert list(table.first.cells) == ["-1", "0", "0.5"]


def test_weights_count_in_fairness() -> None:
    weighted = SECTION_V.replace(weights=[1, 3])
    assert fo.frontier(fo.KDF, weighted, {"k": [1]})["fairness"].tolist() == [100]


def test_a_limit_of_zero_does_not_make_all_points_unfair() -> None:
    found = fo.frontier("fds", SECTION_V.replace(task_limits=[0, np.inf]), {"alpha": [1, 3]})
    assert found["fairness"].tolist() == pytest.approx([100, 100]) and found["price_bound"].tolist() == [0, 0]


def test_no_user_at_all() -> None:
    found = fo.frontier("fds", fo.Instance(np.zeros((0, 2)), [1, 1]), {"alpha": [1]})
    assert found["fairness"].tolist() == [100] and found["tasks"].tolist() == [0] and found["error"].tolist() == [None]


# -- the price of fairness ------------------------------------------------------------------------------------------


def worst_case(common: np.ndarray) -> fo.Instance:
    """All have a largest dominant share of 1, by a resource of their own, and need ``common`` of a common one."""
    return fo.Instance(np.column_stack([common, np.eye(len(common))]), np.ones(len(common) + 1))


def price_by_hand(g: np.ndarray, alpha: float) -> float:
    """On ``g.u <= 1`` and ``u <= 1``, g rising: the fair point has ``z_j ~ g_j^(-1/alpha)``, the most is a knapsack."""
    z = g ** (-1 / alpha)
    most = np.clip((1 - (np.cumsum(g) - g)) / g, 0, 1).sum()
    return float(1 - z.sum() / (g @ z) / most)


@pytest.mark.fast_methods
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("alpha", [0.5, 1, 2, 8, np.inf])
def test_worst_cases_come_near_the_bound_and_not_above(n: int, alpha: float) -> None:
    tries = [np.r_[np.full(k, 1 / x), np.ones(n - k)] for k in range(1, n) for x in np.linspace(k, n, 200)]
    worst = max((g for g in tries), key=lambda g: price_by_hand(g, alpha))
    policy = fo.DRF() if np.isinf(alpha) else fo.FDS(alpha)
    found = fo.frontier(lambda only: policy, worst_case(worst), {"only": [0]})
    np.testing.assert_allclose(found["price_of_fairness"], price_by_hand(worst, alpha), atol=1e-6)
    assert 0.7 * largest_price(alpha, n) < found["price_of_fairness"][0] <= found["price_bound"][0] + 1e-9
    if (n, alpha) in ((4, 1), (3, np.inf), (5, np.inf)):  # where the best x is whole
        assert found["price_of_fairness"][0] == pytest.approx(found["price_bound"][0], abs=1e-7)


@given(st.integers(2, 30), st.floats(0.05, 50), st.data())
@settings(max_examples=10, deadline=None)
def test_no_supporting_line_gives_a_price_above_the_bound(n: int, alpha: float, data: st.DataObject) -> None:
    """The fair point z of ``{u in [0,1]^n: g.u <= 1}`` has ``z_j = (g_j K)^(-1/alpha)``; the most is a knapsack."""
    g = np.sort(data.draw(st.lists(st.floats(0.01, 1), min_size=n, max_size=n)))
    z = (g * (g ** (1 - 1 / alpha)).sum() ** alpha) ** (-1 / alpha)
    if z.max() <= 1:
        most = np.clip((1 - (np.cumsum(g) - g)) / g, 0, 1).sum()
        assert 1 - z.sum() / most <= largest_price(alpha, n) + 1e-9


@given(pools(), st.sampled_from([0.3, 1, 3]))
@settings(max_examples=8, deadline=None)
def test_price_is_within_its_bound_wherever_there_is_one(instance: fo.Instance, alpha: float) -> None:
    for family in (fo.FDS, fo.GFJ):
        found = fo.frontier(family, instance, {"alpha": [alpha]})
        assert not found["price_of_fairness"][0] > found["price_bound"][0] + 1e-6


def test_bounds_are_those_of_the_papers() -> None:
    for n in (2, 5, 50):
        assert largest_price(1 + 1e-9, n) == pytest.approx(1 - (2 * np.sqrt(n) - 1) / n, abs=1e-7)
        assert largest_price(1e9, n) == pytest.approx(1 - 4 * n / (n + 1) ** 2, abs=1e-6)
    for alpha, n in ((1e-3, 10**6), (1e-6, 3)):  # below alpha = 1 the best x is near 1
        x = 1 + np.linspace(0, 30 * alpha, 10**5)
        others = (n - x) * x ** (-1 / alpha)
        assert largest_price(alpha, n) == pytest.approx(1 - ((1 + others / x) / (1 + others)).min(), rel=1e-5)
    assert largest_price(0, 9) == largest_price(2, 1) == 0
    with pytest.raises(fo.errors.InvalidBlock, match="alpha is nan"):
        largest_price(np.nan, 3)


def test_without_its_assumptions_there_is_no_bound_and_a_reason_once() -> None:
    servers = fo.Instance([[1, 4], [3, 1]], [[9, 18], [9, 1]])
    for family, instance, reason in (
        (fo.GFJ, SECTION_V, "different largest Tasks()"),
        (fo.FDS, SECTION_V.with_weights([1, 2]), "equal weights"),
        (fo.FDS, servers, "different largest DominantShare()"),
        (lambda alpha: fo.FDS(alpha).with_constraints(fo.SharingIncentive()), SECTION_V, "one share alone"),
    ):
        found = fo.frontier(family, instance, {"alpha": [0.5, 1, 2]})
        assert np.isnan(found["price_bound"]).all() and len(found.notes) == 1 and reason in found.notes[0]
    assert found.family == "<lambda> with SharingIncentive()"


# -- families and points without an answer --------------------------------------------------------------------------


def test_points_without_an_answer_are_rows_and_the_sweep_goes_on() -> None:
    found = fo.frontier(fo.FDS, SECTION_V, {"beta": [0, 2], "lam": [-0.5, 1]})
    assert [bool(e) for e in found["error"]] == [True, True, False, True]
    assert "beta is 0" in found["error"][0] and "no optimum" in found["error"][3]
    assert np.isnan(found["fairness"][[0, 1, 3]]).all() and np.isfinite(found["fairness"][2])
    assert found.rows()[0]["fairness"] is None and "3 without an answer" in repr(found)


def test_infeasible_points_say_so() -> None:
    found = fo.frontier(lambda least: fo.DRF().with_constraints(fo.MinTasks(least)), SECTION_V, {"least": [1, 100]})
    assert found["error"][0] is None and found["error"][1].startswith("Infeasible")


def test_an_error_outside_fairopt_is_raised_and_what_is_done_stays_in_the_file(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Broken:
        number: int

        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            if self.number == 2:
                raise ZeroDivisionError("mine")
            return fo.DRF().allocate(instance)

    with pytest.raises(ZeroDivisionError, match="mine") as raised:
        fo.frontier(Broken, SECTION_V, {"number": [0, 1, 2]}, resume=tmp_path / "f.json")
    assert raised.value.__notes__ == ["at the point {'number': 2} of the frontier"]
    with pytest.raises(ZeroDivisionError) as raised:
        fo.frontier(lambda number: fo.FDS(1 // number), SECTION_V, {"number": [1, 0]})
    assert raised.value.__notes__ == ["at the point {'number': 0} of the frontier"]
    assert answered(tmp_path / "f.json") == 2


def test_gar_on_and_off_and_several_servers() -> None:
    def family(gar: bool) -> fo.Policy:
        return fo.Policy(fo.WeightedLog(), [fo.GlobalAggregateResource()] * gar + [fo.AtMostRequested()])

    cluster = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
    found = fo.frontier(family, cluster, {"gar": [True, False]})
    np.testing.assert_allclose(found.tasks_by_user[0], fo.HFFMRA().allocate(cluster).tasks)
    assert found["tasks"][0] != found["tasks"][1] and set(found["method"]) == {"closed"}


def test_families_by_name_partial_and_mechanisms_without_blocks() -> None:
    named = fo.frontier("pnorm:p=2", SECTION_V, {"alpha": [1.0]})
    partial = fo.frontier(functools.partial(fo.PNormFairness, 2), SECTION_V, {"alpha": [1.0]})
    assert named.family == "pnorm:p=2" and partial.family == "PNormFairness(2)"
    np.testing.assert_array_equal(named.tasks_by_user, partial.tasks_by_user)
    norms = fo.frontier(fo.PNormFairness, SECTION_V, {"p": [0, np.inf], "alpha": [1, 2]})
    np.testing.assert_allclose(norms.tasks_by_user[3], fo.FDS(2).allocate(SECTION_V).tasks, rtol=1e-6)
    other = fo.frontier("per-server", SECTION_V, {"policy": ["drf", "2df"]})
    assert other["policy"].tolist() == ["drf", "2df"] and not other["error"].any()


def test_starting_from_neighbours_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    pool = fo.Instance(10 ** rng.uniform(-1, 1, (30, 3)), [20, 10, 15])
    grid = {"alpha": np.r_[np.linspace(0.05, 9, 30), 0.05, 300.0, 0.5]}  # also far from the neighbour
    warm = fo.frontier(fo.FDS, pool, grid)
    starts: list[Any] = []
    solve = sweep.dispatch.allocate

    def without(policy: fo.Policy, instance: fo.Instance, **options: Any) -> fo.Allocation:
        starts.extend([options.pop("start")] if "start" in options else [])
        return solve(policy, instance, **options)

    monkeypatch.setattr(sweep.dispatch, "allocate", without)
    cold = fo.frontier(fo.FDS, pool, grid)
    assert [start is None for start in starts] == [True] + 32 * [False]
    assert set(warm["method"]) == {"prices"} and warm["gap"].max() <= 1e-6
    np.testing.assert_allclose(warm["tasks"], cold["tasks"], rtol=1e-6)


def test_processes_give_the_same_rows() -> None:
    grid = {"beta": [0.5, 2], "lam": [-0.5, 1]}
    one, two = (fo.frontier(fo.GFJ, SECTION_V, grid, processes=k) for k in (1, 2))
    assert two["error"].tolist() == one["error"].tolist()
    np.testing.assert_allclose(two.tasks_by_user, one.tasks_by_user, rtol=1e-9)


# -- files and Ctrl-C -----------------------------------------------------------------------------------------------


def answered(path: Path) -> int:
    """The number of answers in a file."""
    return sum(row["method"] is not None for row in json.loads(path.read_text())["rows"])


def test_ctrl_c_keeps_the_part_done_and_the_same_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, grid = tmp_path / "f.json", {"alpha": [0.5, 1, 2, 3]}

    def stop(what: str, done: int | None, total: int | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with fo.progress(stop):
        part = fo.frontier(fo.FDS, SECTION_V, grid, resume=path)
    assert part.interrupted and "interrupted after 2" in repr(part)
    assert part.asked.tolist() == [True, True, False, False]
    assert [row["method"] for row in part.rows()][2:] == [None, None] and np.isnan(part["tasks"][2:]).all()
    solved = []
    solve = sweep.solve
    monkeypatch.setattr(module, "solve", lambda s, points: solved.extend(k for k, *_ in points) or solve(s, points))
    whole = fo.frontier(fo.FDS, SECTION_V, grid, resume=path)
    again = fo.frontier(fo.FDS, SECTION_V, grid, resume=path)
    assert solved == [2, 3] and not whole.interrupted
    fresh = fo.frontier(fo.FDS, SECTION_V, grid)
    for name in sweep.MEASURES:
        np.testing.assert_allclose(whole[name], fresh[name], rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(again[name], whole[name])
    for name in sweep.TEXTS:
        assert again[name].tolist() == whole[name].tolist() == fresh[name].tolist()
    copy = whole.save(tmp_path / "copy.json")
    assert copy.read_text() == path.read_text()


def test_points_are_written_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    path = tmp_path / "f.json"
    seen = []
    with fo.progress(lambda what, done, total: seen.append(answered(path))):
        fo.frontier(fo.KDF, SECTION_V, {"k": [1, 2, 1]}, resume=path)
    assert seen[0] == 0 and seen[-1] >= 1


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"instance": SECTION_V.replace(capacities=[9, 19])}, fo.errors.InvalidInstance, "another instance"),
        ({"instance": SECTION_V.with_weights([1, 2])}, fo.errors.InvalidInstance, "another instance"),
        ({"grid": {"alpha": [1, 3]}}, fo.errors.InvalidBlock, "another grid"),
        ({"family": fo.GFJ}, fo.errors.InvalidBlock, "another family"),
        (
            {"family": lambda alpha: fo.FDS(alpha).with_constraints(fo.SharingIncentive())},
            fo.errors.InvalidBlock,
            "constr",
        ),
    ],
)
def test_a_file_of_another_sweep_is_refused(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], words: str
) -> None:
    asked: dict[str, Any] = {"family": fo.FDS, "instance": SECTION_V, "grid": {"alpha": [1, 2]}}
    path = fo.frontier(**asked).save(tmp_path / "f.json")
    before = path.read_bytes()
    with pytest.raises(error, match=words):
        fo.frontier(**{**asked, **change}, resume=path)
    assert path.read_bytes() == before


def hidden(k: float) -> type[fo.Share]:
    """A share that prints alike for every parameter, by its own repr, and another that holds its factor elsewhere."""

    @dataclass(frozen=True, repr=False)
    class Scaled(fo.Share):
        power: float

        def per_task(self, instance: fo.Instance) -> np.ndarray:
            return instance.dominant_shares ** (self.power * k)

        def __repr__(self) -> str:
            return "Scaled()"

    return Scaled


class Told:
    """A mechanism whose repr leaves its parameter out."""

    def __init__(self, alpha: float, share: fo.Share) -> None:
        self.policy = fo.Policy(fo.AlphaFair(alpha, share))

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        return self.policy.allocate(instance)

    def __repr__(self) -> str:
        return "Told()"


@pytest.mark.parametrize(
    "one, other, words",
    [
        (hidden(1.0)(1.0), hidden(1.0)(3.0), "another family"),
        (hidden(1.0)(1.0), hidden(3.0)(1.0), "other values at the same tasks"),
    ],
)
def test_a_file_of_a_notion_that_prints_alike_but_says_something_else_is_refused(
    tmp_path: Path, one: fo.Share, other: fo.Share, words: str
) -> None:
    grid, path = {"alpha": [0.5, 2]}, tmp_path / "f.json"
    assert repr(one) == repr(other)
    first = fo.frontier(lambda alpha: fo.Policy(fo.AlphaFair(alpha, one)), SECTION_V, grid, resume=path)
    again = fo.frontier(lambda alpha: fo.Policy(fo.AlphaFair(alpha, one)), SECTION_V, grid, resume=path)
    np.testing.assert_array_equal(first["tasks"], again["tasks"])
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        fo.frontier(lambda alpha: fo.Policy(fo.AlphaFair(alpha, other)), SECTION_V, grid, resume=path)


def test_a_file_of_a_mechanism_that_prints_alike_but_holds_something_else_is_refused(tmp_path: Path) -> None:
    grid, path = {"alpha": [0.5, 2]}, tmp_path / "f.json"
    fo.frontier(functools.partial(Told, share=fo.DominantShare()), SECTION_V, grid, resume=path)
    fo.frontier(functools.partial(Told, share=fo.DominantShare()), SECTION_V, grid, resume=path)
    with pytest.raises(fo.errors.InvalidBlock, match="another family"):
        fo.frontier(functools.partial(Told, share=fo.Tasks()), SECTION_V, grid, resume=path)


def test_a_file_of_an_earlier_version_is_refused_by_name(tmp_path: Path) -> None:
    path = fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}).save(tmp_path / "f.json")
    data = json.loads(path.read_text())
    del data["of"]["values"], data["digest"]
    data["digest"] = hashlib.sha256(json.dumps(data).encode()).hexdigest()
    path.write_text(json.dumps(data))
    with pytest.raises(fo.errors.InvalidBlock, match="earlier version of fairopt"):
        fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}, resume=path)


def test_a_file_of_the_parameters_in_another_order_is_refused(tmp_path: Path) -> None:
    grid = {"p": [0, 1], "alpha": [1, 2]}
    path = fo.frontier(fo.PNormFairness, SECTION_V, grid).save(tmp_path / "f.json")
    with pytest.raises(fo.errors.InvalidBlock, match="another grid"):
        fo.frontier(fo.PNormFairness, SECTION_V, dict(reversed(grid.items())), resume=path)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "fairopt.frontier/1"}', '{"format": "x"}', "{", "\x00"])
def test_a_file_that_is_not_a_frontier_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(fo.errors.InvalidInstance, match=r"f\.json"):
        fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}, resume=path)
    assert path.read_text() == text


def test_an_edited_row_is_refused(tmp_path: Path) -> None:
    path = fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}).save(tmp_path / "f.json")
    data = json.loads(path.read_text())
    data["rows"][0]["fairness"] = 100.0
    path.write_text(json.dumps(data))
    with pytest.raises(fo.errors.InvalidInstance, match="changed after"):
        fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}, resume=path)


# -- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "grid", "words"),
    [
        (fo.FDS, {}, "grid is {}"),
        (fo.FDS, None, "grid is None"),
        (fo.FDS, {"alpha": []}, "give some values"),
        (fo.FDS, {"alpha": 2}, "give some values"),
        (fo.FDS, {"alpha": "12"}, "give some values"),
        (fo.FDS, {"alpha": [1, np.nan]}, "has nan"),
        (fo.FDS, {"alpha": [None]}, "has None"),
        (fo.FDS, {"alfa": [1]}, "'alfa'; it takes alpha, beta, lam"),
        (fo.DRF, {"alpha": [1]}, "it takes no parameter"),
        (fo.FDS, {"alpha": [1], "beta": [1], "lam": [1]}, "one or two parameters"),
        (fo.PNormFairness, {"alpha": [1]}, "'p'; it takes p, alpha"),
        (fo.DRF(), {"alpha": [1]}, "function of parameters"),
        ("fdz", {"alpha": [1]}, "did you mean 'fds'"),
        ("fds:alpha=2", {"alpha": [1]}, "alpha is 2 in fds:alpha=2, and in the grid too"),
        (functools.partial(fo.FDS, beta=2), {"beta": [1], "lam": [1]}, "beta is 2"),
        (lambda alpha: alpha, {"alpha": [1]}, "has no allocate"),
        (lambda tasks: fo.DRF(), {"tasks": [1]}, "name of a column"),
    ],
)
def test_bad_families_and_grids_are_refused_before_anything_is_solved(family: Any, grid: Any, words: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        fo.frontier(family, SECTION_V, grid)


def test_other_bad_arguments() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="not an instance"):
        fo.frontier(fo.FDS, [[1]], {"alpha": [1]})  # type: ignore[arg-type]
    for wrong in (0, True, 1.5):
        with pytest.raises(fo.errors.InvalidBlock, match="processes is"):
            fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}, processes=wrong)  # type: ignore[arg-type]

    class Local:
        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            return fo.DRF().allocate(instance)

    with pytest.raises(fo.errors.InvalidBlock, match="cannot be sent to other processes"):
        fo.frontier(lambda k: Local(), SECTION_V, {"k": [1]}, processes=2)
    for name in ("points.csv", "points"):
        with pytest.raises(fo.errors.InvalidInstance, match=r"ends in \.json"):
            fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}, resume=name)
    with pytest.raises(FileNotFoundError, match="no/folder"):
        fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}, resume="no/folder/f.json")
    with pytest.raises(KeyError, match="did you mean 'fairness'"):
        fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]})["fairnes"]


def test_frames_have_a_row_per_point() -> None:
    pytest.importorskip("pandas")
    found = fo.frontier(fo.FDS, SECTION_V, {"beta": [0, 2], "lam": [-0.5]})
    frame = found.to_frame()
    assert list(frame.index.names) == ["beta", "lam"] and list(frame)[:2] == ["fairness", "efficiency"]
    assert frame.loc[(0, -0.5), "error"].startswith("InvalidBlock")


def test_a_notebook_shows_the_table_with_names_escaped() -> None:
    page = fo.frontier(lambda word: fo.DRF(), SECTION_V, {"word": ["<b>", "c"]})._repr_html_()
    assert "&lt;b&gt;" in page and "<b>c" not in page and page.count("<tr>") == 3


def test_not_certified_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise NotCertified("no proof")

    monkeypatch.setattr(sweep.dispatch, "allocate", refuse)
    found = fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]})
    assert found["error"].tolist() == ["NotCertified: no proof"] and found.drf == {}


def test_an_answer_without_a_standard_to_measure_it_by_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def allocate(self, instance: fo.Instance, **_: Any) -> fo.Allocation:
            raise NotCertified("no proof")

    monkeypatch.setattr(sweep, "DRF", Refused)
    found = fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]})
    np.testing.assert_allclose(found.tasks_by_user, [[45 / 11, 18 / 11]])
    assert np.isnan(found["fairness"][0]) and found["efficiency"][0] > 99 and found["error"].tolist() == [None]


def test_missing_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fo.errors.MissingExtra, match=r"pip install 'fairopt\[parquet\]'"):
        fo.frontier(fo.FDS, SECTION_V, {"alpha": [1]}).to_frame()


def test_a_dominated_answer_keeps_the_note_of_its_certificate(tmp_path: Path) -> None:
    apart = fo.Instance([[1, 0], [0, 1]], [1, 4], users=["A", "B"])
    grid = {"beta": [2], "lam": [-0.25, -0.5]}
    found = fo.frontier(fo.GFJ, apart, grid, resume=tmp_path / "f.json")
    assert found["dominated"][0] == fo.GFJ(beta=2, lam=-0.25).allocate(apart).certificate.note
    assert "user 'B'" in found["dominated"][0] and found["dominated"][1] is None
    lines = [line for line in remarks(found) if line.startswith("Pareto-dominated")]
    assert len(lines) == 1 and ": 1 points; the first, beta = 2, lam = -0.25: user 'B' could run" in lines[0]
    again = fo.frontier(fo.GFJ, apart, grid, resume=tmp_path / "f.json")
    assert again["dominated"].tolist() == found["dominated"].tolist()


def test_measures_without_their_standard_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: fo.Policy, instance: fo.Instance, **options: object) -> fo.Allocation:
        if self.name == "DRF":
            raise fo.errors.NotCertified("no proof")
        return solved(self, instance, **options)

    solved = fo.Policy.allocate
    monkeypatch.setattr(fo.Policy, "allocate", refuse)
    found = fo.frontier(fo.FDS, fo.Instance([[1, 4], [3, 1]], [9, 18]), {"alpha": [1]})
    assert np.isnan(found["fairness"]).all() and found["efficiency"][0] == pytest.approx(100)
    assert "relative to DRF are NaN: NotCertified: no proof" in found.notes[0]


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.01, 0.1, 0.5, 1, 2, 20])
def test_the_best_x_of_the_price_bound_is_never_beyond_where_it_is_looked_for(alpha: float) -> None:
    power = 1 / alpha
    for n in (2, 3, 10, 1_000, 10**6, 10**9):
        log_x = np.concatenate([[0.0], np.geomspace(1e-9, 1, 20_000)]) * np.log(n)  # all of [1, n]
        others = (n - np.exp(log_x)) * np.exp(-power * log_x)
        anywhere = 1 - ((1 + others * np.exp(-log_x)) / (1 + others)).min()
        assert largest_price(alpha, n) >= anywhere - 1e-9


# -- time limits and Ctrl-C -----------------------------------------------------------------------------------


class Waits:
    """DRF, which for some parameters never answers."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        time.sleep(self.seconds)
        return fo.DRF().allocate(instance)


def test_at_the_time_limit_processes_end_and_the_points_reached_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    late = False

    def hear(what: str, done: int | None, total: int | None) -> None:
        nonlocal late
        late = done == 1

    monkeypatch.setattr(Clock, "late", property(lambda self: late))
    with fo.progress(hear):
        found = fo.frontier(Waits, SECTION_V, {"seconds": [0, 3600, 3600]}, processes=2, time_limit=60)
    assert found.late and not found.interrupted and found.asked.tolist() == [True, False, False]
    assert found["fairness"][0] == pytest.approx(100)
    assert "2 not reached before the time limit" in repr(found)
    assert "stopped by the time limit after 1 of 3 points" in remarks(found)


def test_a_point_that_the_time_limit_stops_is_no_error_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve, alphas = sweep.dispatch.allocate, {"alpha": [0, 0.5, 1]}
    late = False

    def slow(policy: Any, instance: fo.Instance, **options: Any) -> fo.Allocation:
        nonlocal late
        if late := policy == fo.FDS(0.5):
            raise fo.errors.NotCertified("the time limit was over")
        return solve(policy, instance, **options)

    monkeypatch.setattr(Clock, "late", property(lambda self: late))
    monkeypatch.setattr(sweep.dispatch, "allocate", slow)
    first = fo.frontier(fo.FDS, SECTION_V, alphas, resume=tmp_path / "kept.json", time_limit=60)
    assert first.late and first.asked.tolist() == [True, False, False] and not any(first["error"])
    monkeypatch.undo()
    again = fo.frontier(fo.FDS, SECTION_V, alphas, resume=tmp_path / "kept.json")
    assert again.asked.all() and not again.late and not any(again["error"])


def test_a_time_limit_that_ends_before_the_first_point_leaves_all_points_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(policy: Any, instance: fo.Instance, **options: Any) -> fo.Allocation:
        if policy == fo.DRF():
            return solve(policy, instance, **options)
        raise fo.errors.NotCertified("the time limit was over")

    solve = fo.Policy.allocate
    monkeypatch.setattr(fo.Policy, "allocate", slow)
    monkeypatch.setattr(Clock, "late", True)
    found = fo.frontier(fo.FDS, SECTION_V, {"alpha": [0, 1]}, time_limit=60)
    assert found.late and not found.asked.any()


INTERRUPTED = """
import multiprocessing, time
import fairopt as fo
from fairopt.tradeoff import sweep

def solve(standard, points, solve=sweep.solve):
    yield from solve(standard, points)
    time.sleep(3600)

multiprocessing.set_start_method("fork", force=True)
sweep.solve = solve
with fo.progress(lambda what, done, total: print("done", done, flush=True)):
    found = fo.frontier(fo.FDS, fo.Instance([[1, 4], [3, 1]], [9, 18]), {"alpha": [0, 1, 2]}, processes=2)
print(found.asked.tolist(), found.interrupted)
"""


@pytest.mark.skipif("fork" not in forked.METHODS, reason="only a forked process has what the program changed")
def test_ctrl_c_ends_processes_that_are_at_work_and_keeps_the_points_reached() -> None:
    program = forked.Program("-c", INTERRUPTED)
    program.wait_for("done 2", program.out)
    program.interrupt()
    assert program.done().stdout.endswith("[True, True, False] True\n")
