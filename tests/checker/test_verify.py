"""Files that look right: `verify` proves only what follows from them, whatever their evidence and policy say."""

import json
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairopt as fo
from fairopt.checker import levels as checked
from fairopt.checker.instance import Largest
from fairopt.checker.numbers import Fraction as Rational
from fairopt.checker.numbers import down, log, power, sum_of_boxcox, up
from fairopt.proof import gate

PRECISE = Context(prec=120)
POOL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
FILE: dict[str, Any] = {
    "format": "fairopt.allocation/4",
    "policy": "",
    "bundles": None,
    "given": {},
    "evidence": [],
    "instance": {
        "users": ["a", "b"],
        "resources": ["cpu"],
        "servers": ["pool"],
        "demands": [[1], [1]],
        "capacities": [[1]],
        "weights": [1, 1],
        "task_limits": [None, None],
        "eligible": None,
        "counts": [1],
    },
}


def verified(folder: Path, policy: str, tasks: list[list[float]], proof: dict[str, Any], **changed: Any) -> Any:
    """A file made up, with other arguments of its instance or other entries, verified."""
    instance = FILE["instance"] | {key: value for key, value in changed.items() if key in FILE["instance"]}
    more = {key: value for key, value in changed.items() if key not in instance}
    data = FILE | {"policy": policy, "tasks_by_server": tasks, "evidence": [proof], "instance": instance} | more
    path = folder / "file.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return fo.verify(path)


def prices(*rows: float, **more: Any) -> dict[str, Any]:
    """Evidence of one server."""
    return {"kind": "prices", "prices": [list(rows)]} | more


positive = st.floats(1e-300, 1e300)


@given(positive, st.floats(-13, 13), st.integers(-(10**40), 10**40), st.integers(1, 10**300))
def test_enclosures_hold_the_number(x: float, p: float, n: int, d: int) -> None:
    z, exact = Rational(x), Rational(n, d)
    ln = Fraction(PRECISE.ln(Decimal(x)))
    near = abs(ln) / 10**100
    low, high = log(z)
    assert low <= ln + near and ln - near <= high and high - low <= abs(ln) / 10**40 + Fraction(1, 10**399)
    root = PRECISE.exp(PRECISE.multiply(Decimal(p), PRECISE.ln(Decimal(x))))
    low, high = power(z, Rational(p))
    near = Fraction(root) / 10**90
    assert low <= Fraction(root) + near and Fraction(root) - near <= high
    assert down(exact) <= exact <= up(exact)
    assert up(exact) - down(exact) <= abs(exact) / 2**190


@given(st.lists(st.tuples(st.sampled_from([0.5, 1.0, 3.0]), positive), max_size=9), st.sampled_from([0.25, 1, 2, 2.5]))
def test_sums_of_utilities_are_bounded_from_below(pairs: list[tuple[float, float]], alpha: float) -> None:
    q, total, size = Fraction(1) - Fraction(alpha), Fraction(0), Fraction(0)
    for f, z in pairs:
        ln = PRECISE.ln(Decimal(z))
        root = Fraction(PRECISE.exp(PRECISE.multiply(Decimal(1 - alpha), ln)))
        utility = Fraction(f) * ((root - 1) / q if q else Fraction(ln))
        total, size = total + utility, size + abs(utility) + Fraction(f) * root
    low = sum_of_boxcox([(Rational(f), Rational(z)) for f, z in pairs], Rational(alpha))
    assert total - size / 10**38 <= low <= total + size / 10**80


@given(
    st.lists(st.tuples(st.fractions(0, 9), st.sampled_from([0, 0.1, 1, 3e200])), min_size=1, max_size=6), st.booleans()
)
def test_the_largest_ratio_is_that_of_fractions(pairs: list[tuple[Fraction, float]], alike: bool) -> None:
    d = [Rational(round(a * 8), 8) if alike else Rational(a) for a, _ in pairs]
    ratios = [Fraction(*one.as_integer_ratio()) / Fraction(c) for one, (_, c) in zip(d, pairs, strict=True) if c]
    found = Largest([Rational(c) for _, c in pairs]).of(d)
    assert Fraction(*found.as_integer_ratio()) == max(ratios, default=Fraction(0))


@pytest.mark.parametrize(
    "text",
    [
        "Policy(Leximin(), **{'constraints': [MinTasks(9)]})",
        "Policy(Leximin(), conditions=[MinTasks(9)])",
        "Policy(Leximin(shares=Tasks()))",
        "Policy(Leximin(), [], constraints=[MinTasks(9)])",
        "Policy(Leximin(), constraints=[], constraints=[MinTasks(9)])",
        "Policy(Leximin(), [MinTasks({'nobody': 9})])",
        "Policy(Leximin(), [MinTasks(float('inf'))])",
        "Policy(Leximin(), [MinTasks(-1)])",
        "Policy(Leximin(), [MinTasks(True)])",
        "Policy(Leximin(), [MaxTasks({'user1': None})])",
        "Policy(Leximin(KDominantShare(1, (-1,))))",
        "Policy(Leximin(KDominantShare(1.5)))",
        "Policy(Leximin(KDominantShare(1, {'nobody': (2,)})))",
        "Policy(Leximin(PNormShare(-2)))",
        "Policy(Leximin(), [Reserve(0, -0.25)])",
        "Policy(Leximin(), [Reserve(True, 0)])",
    ],
)
def test_a_policy_that_fairopt_would_not_read_is_not_proved(text: str, tmp_path: Path) -> None:
    path = fo.DRF().allocate(POOL).save(tmp_path / "drf.json")
    data = json.loads(path.read_text())
    assert fo.verify(path).ok
    path.write_text(json.dumps(data | {"policy": text, "objective": None}))
    assert not fo.verify(path).ok


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("counts", [1.5]),
        ("counts", [0]),
        ("eligible", [["no"], ["no"]]),
        ("eligible", [[1.5], [1]]),
        ("users", ["a", "a"]),
        ("task_limits", [-1, None]),
        ("weights", [1, float("inf")]),
        ("capacities", [["200"] * 3]),
    ],
)
def test_an_instance_that_fairopt_would_not_read_is_not_proved(key: str, value: Any, tmp_path: Path) -> None:
    path = fo.DRF().allocate(POOL).save(tmp_path / "drf.json")
    data = json.loads(path.read_text()) | {"objective": None}
    data["instance"][key] = value
    path.write_text(json.dumps(data))
    assert not fo.verify(path).ok


RATES = fo.Instance([[1], [1], [1]], [[1], [1], [1]], task_limits=1, rates=[[3, 1, 1], [3, 2, 1], [3, 2, 1]])


@pytest.mark.parametrize(
    "objective",
    [fo.Leximin(fo.ThroughputShare()), fo.AlphaFair(2, fo.ThroughputShare()), fo.MaxMin(fo.ThroughputShare())],
)
def test_throughput_is_proved_at_the_rates_of_the_file_and_at_no_others(
    objective: fo.Objective, tmp_path: Path
) -> None:
    path = fo.Policy(objective).allocate(RATES).save(tmp_path / "gavel.json")
    assert fo.verify(path).ok and fo.verify(path, RATES).ok
    other = RATES.replace(rates=[[3, 1.1, 1], [3, 2, 1], [3, 2, 1]])
    assert "rate on 'server2' 1.0 in the file, 1.1 in the instance given" in str(fo.verify(path, other))
    data = json.loads(path.read_text())
    data["instance"]["rates"][0][1] = 1.1
    path.write_text(json.dumps(data))
    assert not fo.verify(path).ok
    data["instance"]["rates"] = [[1], [1], [1]]
    path.write_text(json.dumps(data))
    assert "rates" in str(fo.verify(path))


def test_objectives_that_are_not_concave_are_not_proved(tmp_path: Path) -> None:
    half = [[0.5], [0.5]]  # where (1, 0) is worth more
    assert verified(tmp_path, "Policy(OrderedWeighted((1, 1), Tasks()))", half, prices(1, mixtures=[[1, 1]])).ok
    for text, proof in (
        ("Policy(OrderedWeighted((0, 1), Tasks()))", prices(0.5, mixtures=[[0.5, 0.5]])),
        ("Policy(AlphaFair(-1, Tasks()))", prices(0.5)),
        ("Policy(-1 * AlphaFair(1, Tasks()))", prices(0)),
    ):
        assert not verified(tmp_path, text, half, proof).ok


def test_evidence_does_not_change_the_policy(tmp_path: Path) -> None:
    total = "Policy(Total(Tasks()))"
    wide: dict[str, Any] = {"demands": [[1], [2]], "capacities": [[2]]}
    assert verified(tmp_path, total, [[2], [0]], prices(1), **wide).ok
    assert not verified(tmp_path, total, [[0], [1]], prices(2.5), **wide, given={"Tasks()": [1, 5]}).ok
    equal, summed = [[1], [0.5]], "Policy(AlphaFair(1, Tasks()) + Total(Tasks()))"
    assert verified(tmp_path, "Policy(AlphaFair(1, Tasks()))", equal, prices(1), **wide).ok
    assert not verified(tmp_path, summed, equal, prices(1, unit=1e12), **wide).ok
    edge = "Policy(FairnessEfficiency(2, -0.5, Tasks()) + 1e-9 * Total(Tasks()))"
    assert not verified(tmp_path, edge, equal, prices(1), **wide).ok


def test_a_steep_sum_is_measured_by_its_slope(tmp_path: Path) -> None:
    text = "Policy(AlphaFair(40, Tasks()) + Total(Tasks()))"  # falls by 2^39 if tasks are halved
    for tasks, ok in (([[0.5], [0.5]], True), ([[0.4999], [0.4999]], False)):
        assert verified(tmp_path, text, tasks, prices(2.0**40 + 1)).ok == ok


def test_a_level_of_an_objective_is_kept_in_its_own_units(tmp_path: Path) -> None:
    text = "Policy(Total(Tasks()), [AlphaFair(2, Tasks()) >= -1e-9])"
    for tasks, ok in (([[5e9], [5e9]], True), ([[1e10 - 2e7], [2e7]], False)):
        assert verified(tmp_path, text, tasks, prices(1), capacities=[[1e10]]).ok == ok


def test_a_share_that_some_servers_do_not_count_may_be_bounded_by_zero(tmp_path: Path) -> None:
    change = {"servers": ["s", "t"], "capacities": [[1], [1]], "counts": [1, 1], "given": {"Mine()": [[0, 1], [0, 1]]}}
    proof = {"kind": "prices", "prices": [[1], [0]], "rows": [[0, "a", 1], [0, "b", 1]]}
    text = "Policy(Total(Tasks()), [MaxShare(0, Mine())])"
    assert verified(tmp_path, text, [[1, 0], [0, 0]], proof, **change).ok
    assert not verified(tmp_path, text, [[0, 0], [0, 0]], proof, **change).ok


def test_a_share_that_every_server_counts_is_zero_without_tasks_and_needs_no_multiplier(tmp_path: Path) -> None:
    change = {"servers": ["s", "t"], "capacities": [[1], [1]], "counts": [1, 1], "given": {"Mine()": [[2, 1], [2, 1]]}}
    change["demands"] = [[0.5], [1]]
    text, proof = "Policy(Total(Tasks()), [MaxShare({'a': 0}, Mine())])", {"kind": "prices", "prices": [[1], [1]]}
    assert verified(tmp_path, text, [[0, 0], [1, 1]], proof, **change).ok
    assert not verified(tmp_path, text, [[1, 0], [0, 1]], proof, **change).ok


def test_a_level_of_a_total_of_teams_is_none_of_each_team(tmp_path: Path) -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.Total(fo.OfTeam(fo.Tasks())) >= 1])
    a = policy.allocate(fo.Instance([[1], [2]], [4], users=["a", "b"], teams={"team": ["one", "two"]}))
    assert a.tasks.tolist() == [4, 0] and fo.verify(a.save(tmp_path / "a.json")).ok


@pytest.mark.parametrize(("beta", "lam"), [(2, -0.1), (0.5, 3), (0.5, 0.1), (-1, 0), (-3, 2)])
def test_no_lines_prove_shares_that_are_less_even_than_they_may_be(beta: float, lam: float, tmp_path: Path) -> None:
    text, rng = f"Policy(FairnessEfficiency({beta}, {lam}, Tasks()))", np.random.default_rng(0)
    right: dict[str, Any] = {"levels": [1, 1], "slope": 1, "prices": [[0]]}
    entry = {"kind": "lines", "lines": [right], "largest": prices(1)}
    assert verified(tmp_path, text, [[0.5], [0.5]], entry).ok
    for _ in range(20):
        entry["lines"] = [
            {"levels": rng.lognormal(0, 3, 2).tolist(), "slope": rng.normal(0, 2), "prices": [[rng.normal(0, 2)]]}
            for _ in range(3)
        ]
        entry["largest"] = prices(rng.normal(0, 2))
        found = verified(tmp_path, text, [[0.49], [0.51]], entry)
        assert not found.ok and not found.gap < 1e-6


@pytest.mark.parametrize("condition", ["", ", [MinTasks(0.001)]", ", [Total(Tasks()) >= 0.5]"])
def test_a_later_level_that_an_earlier_one_paid_for_is_not_proved(condition: str, tmp_path: Path) -> None:
    trace = 1e-9  # what b needs of what a fills: the exact answer is (1, 2)
    room = [[1, 1 + 2 * trace, 2.933]]
    change = {"resources": ["x", "y", "z"], "demands": [[1, 1, 0], [0, trace, 1]], "capacities": room}
    held = [{"users": [0], "prices": [[1, 0, 0]]}, {"users": [1], "prices": [[0, 0, 1]]}]
    text = f"Policy(Leximin(Tasks()){condition})"
    assert not verified(tmp_path, text, [[1 - trace], [2.933]], {"kind": "levels", "levels": held}, **change).ok


def test_nor_is_one_among_many_users(tmp_path: Path) -> None:
    trace, others = 1e-9, 600  # users on a server of their own, at a third level
    demands = [[1, 1, 0], [1, 1, 0], [0, trace, 1]] + [[0, 0, 1]] * others
    n = len(demands)
    change = {"users": [f"u{k}" for k in range(n)], "weights": [1] * n, "task_limits": [None] * n, "counts": [1, 1]}
    change |= {"resources": ["x", "y", "z"], "servers": ["s", "t"], "demands": demands}
    change |= {"capacities": [[2, 2 + 2 * trace, 2.933], [0, 0, 6 * others]]}
    change |= {"eligible": [[True, False]] * 3 + [[False, True]] * others}
    users = [[0, 0, 0, 1], [2], [*range(3, n)]]  # who is named three times counts once
    for first, second, price, ok in (
        (1, 2, [0, 1, 0], True),
        (1 - trace, 2.933, [0, 0, 1], False),
        (1 - trace / 4, 2.5, [0, 1, 0], False),
    ):
        held = [[[1, 0, 0], [0, 0, 0]], [price, [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]]
        levels = [{"users": u, "prices": p} for u, p in zip(users, held, strict=True)]
        tasks = [[first, 0], [first, 0], [second, 0], *[[0, 6.0]] * others]
        found = verified(tmp_path, "Policy(Leximin(Tasks()))", tasks, {"kind": "levels", "levels": levels}, **change)
        assert found.ok == ok, (first, str(found))


def test_what_a_lower_user_lacks_where_it_is_alone_it_takes_elsewhere(tmp_path: Path) -> None:
    instance = fo.Instance(
        [[3, 2, 2e-12], [6, 3, 0], [0, 2, 3]],
        [[9, 9, 5], [7, 8, 8]],
        weights=[2, 2, 3],
        task_limits=[1.5, None, None],
        eligible=[[True, True], [True, False], [False, True]],
    )
    path = fo.DRF().allocate(instance).save(tmp_path / "answer.json")
    assert fo.verify(path).ok
    data = json.loads(path.read_text())
    given_up = 1 - 3.333e-13  # by the third user, so that the first has 2e-12 of the third resource on its server
    tasks = [[0.16666666666661006, 1.3333333333328903], [1.4166666666661956, 0], [0, 8 / 3 * given_up]]
    prices = [[[0, 0, 0], [0, 0, 0.1]], [[0.125, 0, 0], [0, 0.1875, 0]]]
    levels = [{"users": [user], "prices": p} for user, p in zip((2, 1), prices, strict=True)]
    changed = {"tasks_by_server": tasks, "evidence": [{"kind": "levels", "levels": levels}], "objective": None}
    path.write_text(json.dumps(data | changed | {"prices": None}))
    assert "proves only a gap" in str(fo.verify(path))


@pytest.mark.parametrize(("room", "ok"), [(2e-7, True), (2e-6, False)])
def test_what_is_lacked_on_several_servers_adds_up_on_the_one_that_it_goes_to(
    room: float, ok: bool, tmp_path: Path
) -> None:
    many, trace = 20, 1e-6  # servers that the second user fills, and what a task of the lowest takes there
    instance = fo.Instance(
        [[1, trace, 1], [0, 1, 0], [1, 0, 0]],
        [[40, 40, 40], *[[1, 1, room]] * many],
        weights=[20, many, 1],
        task_limits=[10, None, None],
        eligible=[[True] * (many + 1), [False] + [True] * many, [True] + [False] * many],
    )
    path = fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance).save(tmp_path / "answer.json")
    assert fo.verify(path).ok
    moved = many * room  # to these servers from the first: the third user has all of it too much
    tasks = [[10 - moved] + [room] * many, [0] + [1 - trace * room] * many, [30 + moved] + [0] * many]
    prices = [[[0, 0, 0]] + [[0, 1, 0]] * many, [[1, 0, 0]] + [[0, 0, 1]] * many]
    levels = [{"users": [user], "prices": p} for user, p in zip((1, 2), prices, strict=True)]
    changed = {"tasks_by_server": tasks, "evidence": [{"kind": "levels", "levels": levels}], "objective": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed | {"prices": None}))
    found = fo.verify(path)
    assert found.ok == ok and found.gap == pytest.approx(moved / 30, rel=1e-3)


@pytest.mark.parametrize("limits", [False, True])
def test_levels_of_a_thousand_users_are_proved_and_one_that_loses_more_than_a_millionth_is_not(
    limits: bool, tmp_path: Path
) -> None:
    many = {"n_servers": 9, "different_servers": True, "ineligible": 0.3, "limits": limits, "decades": 2.0}
    path = fo.DRF().allocate(fo.datasets.log_uniform(1000, 3, seed=3, **many)).save(tmp_path / "answer.json")
    found = fo.verify(path)
    assert found.ok, str(found)
    data = json.loads(path.read_text())
    for user in data["evidence"][0]["levels"][1]["users"]:
        data["tasks_by_server"][user] = [x * (1 - 2e-6) for x in data["tasks_by_server"][user]]
    path.write_text(json.dumps(data))
    assert "proves only a gap" in str(fo.verify(path))


def test_a_resource_that_is_nearly_full_does_not_stop_a_user_with_a_trace_of_it(tmp_path: Path) -> None:
    change = {"resources": ["x", "y"], "demands": [[1, 1], [0, 1e-14]], "capacities": [[1, 1 + 2.0**-43]]}
    for tasks, ok in ((2.0**-43 / 1e-14, True), (2.0, False)):
        found = verified(tmp_path, "Policy(Leximin(Tasks()))", [[1], [tasks]], {"kind": "bottlenecks"}, **change)
        assert found.ok == ok


@pytest.mark.parametrize(
    "text",
    [
        "Policy(AlphaFair(1e9, Tasks()))",
        "Policy(Total(KDominantShare(10000000000)))",
        "Policy(MaxMin(PNormShare(1e-200)))",
        "Policy(Total(Tasks()), [MinTasks('1e999999999')])",
        "Policy(Total(Tasks()), [MinTasks(1e999)])",
        "(" * 5000,
    ],
)
def test_huge_numbers_take_no_time(text: str, tmp_path: Path) -> None:
    assert not verified(tmp_path, text, [[0.3], [0.3]], prices(1, mixtures=[[1, 1]])).ok


def test_anything_but_a_file_of_an_allocation_is_a_fault(tmp_path: Path) -> None:
    text = fo.DRF().allocate(POOL).save(tmp_path / "drf.json").read_text()
    changes: list[Callable[[str], str]] = [
        lambda t: t[: len(t) // 2],
        lambda t: "[]",
        lambda t: t.replace("200.0", "NaN"),
        lambda t: "[" * 10**5,
    ]
    for change in changes:
        (tmp_path / "file.json").write_text(change(text))
        found = fo.verify(tmp_path / "file.json")
        assert not found.ok and found.faults


def test_a_file_that_was_cut_is_called_truncated(tmp_path: Path) -> None:
    text = fo.DRF().allocate(POOL).save(tmp_path / "drf.json").read_text()
    for cut in (text[:5], text[: len(text) // 2], text[:-1]):
        (tmp_path / "drf.json").write_text(cut)
        (fault,) = fo.verify(tmp_path / "drf.json").faults
        assert "truncated" in fault and "Parquet" not in fault


@pytest.mark.parametrize("policy", [fo.DRF(), fo.NashWelfare(), fo.FDS(0.5), fo.MostTasks(), fo.KDF(2)])
def test_whole_tasks_of_zero_are_not_proved(policy: Any, tmp_path: Path) -> None:
    path = policy.allocate(fo.Instance([[4, 1], [1, 3]], [20, 20]), integral=True).save(tmp_path / "a.json")
    assert fo.verify(path).ok
    data = json.loads(path.read_text())
    for key in ("placement", "tasks_by_server"):
        data[key] = [[0.0], [0.0]]
    path.write_text(json.dumps(data))
    found = fo.verify(path)
    assert not found.ok and found.gap >= 1 and "whole tasks fit, but" in str(found)


def test_less_than_no_task_is_no_whole_task(tmp_path: Path) -> None:
    path = fo.DRF().allocate(fo.Instance([[4, 1], [1, 3]], [20, 20]), integral=True).save(tmp_path / "a.json")
    data = json.loads(path.read_text())
    data["placement"][0] = [-1.0]
    path.write_text(json.dumps(data))
    assert "tasks are not whole" in str(fo.verify(path))


def test_rounding_of_a_level_does_not_grow_along_a_chain_of_servers(tmp_path: Path) -> None:
    chain = fo.datasets.library().family("chain", n_users=40, seed=1).instance
    sizes = chain.capacities[:, 0]
    answer = fo.DRF().allocate(chain)
    path = answer.save(tmp_path / "a.json")
    np.testing.assert_allclose(answer.tasks, [sizes[0] + sizes[1], *sizes[2:]], rtol=1e-14)  # each fills the next
    found = fo.verify(path)
    assert found.ok and found.gap < 1e-14  # slack of 1e-16 that doubles 40 times is 1e-4
    data = json.loads(path.read_text())
    data["tasks_by_server"][4][5] *= 1 - 1e-5
    path.write_text(json.dumps(data))
    assert not fo.verify(path).ok


def test_a_file_that_does_not_fit_into_memory_is_not_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fo.DRF().allocate(fo.Instance([[4, 1], [1, 3]], [20, 20])).save(tmp_path / "a.json")

    def exhausted(*given: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("fairopt.checker.answer.violations", exhausted)
    assert not fo.verify(path).ok and "memory" in str(fo.verify(path))


def test_a_hierarchy_is_confirmed_by_the_levels_at_its_events(tmp_path: Path) -> None:
    instance = fo.Instance([[1, 2], [2, 1]], [6, 6], teams={"team": ["one", "two"]})
    found = fo.verify(fo.HDRF().allocate(instance).save(tmp_path / "a.json"))
    assert found.ok and "by the levels at 1 event" in str(found)


def test_who_a_guarantee_leaves_nothing_is_stopped_by_prices_of_what_the_team_holds(tmp_path: Path) -> None:
    """On the second server the first team holds all CPUs, and the second team's last user half of the memory."""
    instance = fo.Instance(
        [[1, 3], [2, 0], [2, 1], [0, 1], [3, 0]],
        [[5, 6], [3, 4]],
        resources=["cpu", "memory"],
        teams={"team": ["one", "one", "two", "two", "three"]},
        eligible=[[0, 1], [0, 1], [0, 1], [0, 1], [1, 1]],
        guarantees={"one": {"cpu": 3}, "two": {"memory": 2}},
    )
    a = fo.HDRF().allocate(instance)
    data = json.loads(a.save(path := tmp_path / "a.json").read_text())
    assert any(isinstance(where, str) for row in data["evidence"][0]["rows"] for where, *_ in row)
    found = fo.verify(path)
    assert found.ok and found.gap <= 1e-12
    assert a.tasks == pytest.approx([2 / 3, 7 / 6, 0, 2, 5 / 3])


def test_what_a_file_says_cannot_forge_lines_or_move_the_cursor(tmp_path: Path) -> None:
    path = fo.DRF().allocate(fo.Instance([[4, 1], [1, 3]], [20, 20])).save(tmp_path / "a.json")
    data = json.loads(path.read_text())
    for bad in ("\nproved: gap <= 0", "\x1b[2K\x1b[31m", "\u202eend", "\0"):
        data["evidence"] = [{"why": f"no reason{bad}"}]
        path.write_text(json.dumps(data))
        said = str(fo.verify(path))
        assert said.isprintable() and said.startswith("cannot be checked this way: no reason\\")


def test_envy_of_many_users_is_answered_quickly(tmp_path: Path) -> None:
    n = 1_000
    users = {"users": [str(j) for j in range(n)], "demands": [[1 + j, n - j] for j in range(n)]}
    held = {"kind": "prices", "prices": [[0, 0]], "mixtures": [[1] * n], "rows": [[0, ["0", "1"], 1]]}
    change = {
        **users,
        "resources": ["x", "y"],
        "capacities": [[n * n, n * n]],
        "weights": [1] * n,
        "task_limits": [None] * n,
    }
    found = verified(tmp_path, "Policy(MaxMin(), [EnvyFree()])", [[0.5]] * n, held, **change)
    assert not found.ok and "proves only a gap of 1.0e+00" in str(found)
    del held["rows"]
    assert not verified(tmp_path, "Policy(MaxMin(), [EnvyFree()])", [[0.5]] * n, held, **change).ok


def test_too_many_levels_are_refused_before_they_are_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = fo.Instance([[40, 8, 8], [8, 5, 1]], [[200, 200, 200], [50, 90, 70]])
    file = fo.DRF().allocate(servers).save(tmp_path / "a.json")
    assert fo.verify(file).ok
    assert gate.LEVEL_PAIRS == checked.LEVEL_PAIRS
    monkeypatch.setattr(checked, "LEVEL_PAIRS", 0)
    monkeypatch.setattr(gate, "LEVEL_PAIRS", 0)
    assert "pairs of users and servers take too long in fractions" in str(fo.verify(file))
    for answer in (fo.DRF().allocate(servers), fo.Allocation.load(file)):
        assert answer.certificate.ok and "`fairopt verify` takes up to" in answer.certificate.note


def test_a_count_that_no_instance_has_is_not_proved(tmp_path: Path) -> None:
    path = fo.DRF().allocate(fo.Instance([[1], [1]], [10], task_limits=[1, 1])).save(tmp_path / "answer.json")
    data = json.loads(path.read_text())
    data["instance"]["counts"] = [1e300]
    path.write_text(json.dumps(data))
    found = fo.verify(path)
    assert not found.ok
    assert "no instance has" in found.faults[0]


@pytest.mark.parametrize("unit", [2.0**-300, 2.0**300])
def test_numbers_beyond_those_of_an_instance_are_judged_in_fractions(unit: float, tmp_path: Path) -> None:
    path = fo.DRF().allocate(fo.Instance([[1], [2]], [12])).save(tmp_path / "answer.json")
    data = json.loads(path.read_text())
    data["instance"] |= {"demands": [[unit], [2 * unit]], "capacities": [[12 * unit]]}
    path.write_text(json.dumps(data))
    assert fo.verify(path).ok
    data["instance"]["demands"][0][0] *= 1.01
    path.write_text(json.dumps(data))
    assert not fo.verify(path).ok
