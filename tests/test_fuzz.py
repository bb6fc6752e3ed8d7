"""The fuzzer of benchmarks/: a few draws of each category, and what it makes of faults that are planted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.errors import NotCertified
from fairopt.proof import gate

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import fuzz
from fuzz_blocks import NAMES, Draw, pasted, spoilt
from fuzz_constants import ATOMS, SHIFTED, OfAtoms, missed
from fuzz_draws import CATEGORIES, draw_of

SEED = 8
FEW = {"tiers": 2, "plane": 2, "conic-leximin": 4}
PAIR = {"demands": [[40, 8, 8], [8, 5, 1]], "capacities": [[200, 200, 200]]}


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_few_draws_of_each_category_are_answered_rightly(category: str) -> None:
    found = [fuzz.outcome(draw_of(category, SEED, k)) for k in range(FEW.get(category, 3))]
    assert not [what for word, what, _ in found if word in ("wrong", "crashed")]
    assert any(word == "ok" for word, _, _ in found)


def fewer(answer: Any, part: float = 0.5, says: float = 0.5) -> fo.Allocation:
    """A right answer with a part of its tasks, under the same certificate."""
    bundles = None if answer.bundles is None else answer.bundles * part
    tasks, value = answer.tasks_by_server * part, answer.objective * says
    return fo.Allocation(answer.instance, answer.policy, tasks, answer.certificate, value, answer.prices, bundles)


@pytest.mark.parametrize(
    "category",
    [
        "pools",
        "servers",
        "plane",
        "weights",
        "scales",
        "ties",
        "conic",
        "solvers",
        "prepared",
        "ps-dsf",
        "bottleneck",
        "shares",
        "alpha",
        "traces",
    ],
)
def test_two_tasks_in_a_hundred_thousand_less_are_wrong(category: str) -> None:
    draw = draw_of(category, SEED, 0)
    names = dict(NAMES)
    exec(draw.code, names)
    assert fuzz.judge(draw, names["answer"]) == ""
    assert fuzz.judge(draw, fewer(names["answer"], 1 - 2e-5, 1.0)).startswith("worse")


@pytest.mark.parametrize("atom", ATOMS)
def test_a_constant_added_to_any_atom_changes_no_answer(atom: str) -> None:
    instance = fo.Instance([[1, 2], [3, 1]], [7, 5])
    parts = (0.5, atom, 1.0, 0.0, 0.0), (3.0, "log1p", 1.0, 0.0, 0.0)
    policy = fo.Policy(OfAtoms(parts, -3e14, "vector"))
    draw = Draw({"demands": [[1, 2], [3, 1]], "capacities": [[7, 5]]}, policy)
    assert missed(draw, policy.allocate(instance)) == ""


def test_fewer_tasks_are_worse_whatever_the_constant() -> None:
    draw = Draw(PAIR, fo.Policy(OfAtoms(((1.0, "sqrt", 1.0, 0.0, 0.0),), 1e14, "after")), how=("constants",))
    answer = draw.policy.allocate(fo.Instance(**PAIR))
    assert fuzz.judge(draw, answer) == ""
    assert fuzz.judge(draw, fewer(answer, 1 - 2e-5, 1.0)).startswith("worse")


@pytest.mark.parametrize("atom", SHIFTED)
def test_what_a_constant_inside_an_atom_hides_is_refused_or_right(atom: str) -> None:
    given = {"demands": [[1], [2], [5]], "capacities": [[10]]}
    policy = fo.Policy(OfAtoms(((1e-3, atom, 1.0, -3e14, 0.0),), 0.0, "after"))
    word, what, _ = fuzz.outcome(Draw(given, policy, how=("constants",)))
    assert word in ("ok", "rightly"), what


def test_nothing_is_right_where_conditions_leave_nothing() -> None:
    blocks = [fo.EnvyFree(), fo.EqualShares(fo.Tasks())]
    draw = Draw({"demands": [[1], [2]], "capacities": [[6]]}, fo.Policy(fo.FairnessEfficiency(1, 1), blocks))
    assert fuzz.outcome(draw)[:2] == ("ok", "")


def test_a_base_that_is_not_kept_is_noticed() -> None:
    given = {"demands": [[1], [1], [1]], "capacities": [[6]], "teams": {"team": ["a", "b", "b"]}}
    draw = Draw(given, fo.Policy(fo.MaxMin(fo.Surplus(fo.OfTeam(), (1, 1, 1))).then(fo.Total(fo.Tasks()))))
    names = dict(NAMES)
    exec(draw.code, names)
    assert fuzz.judge(draw, names["answer"]) == ""
    answer = names["answer"]
    tasks = np.array([[answer.tasks[0]], [answer.tasks[1:].sum()], [0.0]])
    assert fuzz.judge(draw, replace(answer, tasks_by_server=tasks)).startswith("condition: broken")


def test_a_wrong_answer_under_a_certificate_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    made = gate.allocation

    def wrong(*given: Any, **more: Any) -> fo.Allocation:
        answer = made(*given, **more)
        return fewer(answer) if answer.instance.weights.max() > 1 else answer

    monkeypatch.setattr(gate, "allocation", wrong)
    k = next(k for k in range(100) if fuzz.outcome(draw_of("pools", SEED, k))[0] == "wrong")
    draw = draw_of("pools", SEED, k)
    small = fuzz.shrink("pools", SEED, k, *fuzz.outcome(draw)[:2], 5.0)
    assert small["word"] == "wrong" and len(small["code"]) < len(pasted(draw.code))
    names: dict[str, Any] = {}
    exec(small["code"], names)
    assert names["answer"].instance.n_users == 1 and names["answer"].instance.weights.tolist() == [2]


@pytest.mark.parametrize(
    ("policy", "part"),
    [
        (fo.DRF(), "worse"),
        (fo.FDS(2), "worse"),
        (fo.MostTasks(), "worse"),
        (fo.Policy(fo.MaxMin().then(fo.Total())), "worse"),
        (fo.Policy(fo.Leximin(), [fo.MinShare(0.4)]), "condition"),
        (fo.Policy(fo.AlphaFair(1) + fo.Total()), "worse"),
        (fo.MLFDRS(), "worse"),
        (fo.NaivePerServer(fo.DRF()), "worse"),
    ],
)
def test_half_of_the_tasks_is_wrong_for_each_kind_of_reference(policy: Any, part: str) -> None:
    draw = Draw(PAIR, policy)
    answer = policy.allocate(fo.Instance(**PAIR))
    assert fuzz.judge(draw, answer) == ""
    assert part in fuzz.judge(draw, fewer(answer))


@pytest.mark.parametrize(
    "given",
    [
        {"demands": [[4], [3]], "capacities": [[6], [5]]},
        {"demands": [[5, 6]], "capacities": [[36, 38]]},
        {**PAIR, "weights": [1, 2]},
    ],
    ids=["servers", "one user", "weights"],
)
def test_the_search_of_directions_leaves_open_what_it_does_not_cover(given: dict[str, Any]) -> None:
    policy = fo.Policy(fo.FairnessEfficiency(3, -0.1))
    assert fuzz.judge(Draw(given, policy), policy.allocate(fo.Instance(**given))) == fuzz.OPEN


def test_a_later_tier_that_loses_is_wrong_and_named() -> None:
    pair = PAIR | {"task_limits": [2, None]}
    draw = Draw(pair, fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks()))))
    answer = draw.policy.allocate(fo.Instance(**pair))
    assert fuzz.judge(draw, answer) == ""
    answer = fo.Allocation(answer.instance, answer.policy, np.array([[2], [14]]), answer.certificate, answer.objective)
    assert fuzz.judge(draw, answer).startswith("tier 2 worse: [16.0]")


def test_an_error_is_judged_by_what_it_states() -> None:
    possible = Draw(PAIR, fo.Policy(fo.Total(), [fo.MinTasks({"user1": 2})]))
    impossible = Draw(PAIR, fo.Policy(fo.Total(), [fo.MinTasks({"user1": 6})]))
    assert fuzz.outcome(impossible)[0] == "ok"
    assert fuzz.untrue(possible, fo.errors.Infeasible("")).startswith("tasks")
    assert fuzz.untrue(possible, fo.errors.OutOfDomain("")) and fuzz.untrue(possible, fo.errors.Unbounded(""))


def test_raw_errors_and_refusals_are_counted_apart() -> None:
    raw = Draw(PAIR, fo.DRF(), {"method": 3.5j})
    refused = Draw(PAIR, fo.MostTasks(), {"solver": "CLARABEL", "solver_options": {"max_iter": 1}})
    assert fuzz.outcome(raw)[0] == "crashed"
    assert fuzz.outcome(refused)[0] == "refused"
    worse = Draw(PAIR, fo.MostTasks(), {}, ("read", "CLARABEL", (), True))
    unsure = Draw(PAIR, fo.MostTasks(), {"solver": "SCS", "solver_options": {"max_iters": 1}})
    assert [fuzz.outcome(draw)[0] for draw in (worse, unsure)] == ["rightly", "rightly"]


def test_a_run_counts_each_draw_once_and_gives_each_category_its_number() -> None:
    tallies, bad = fuzz.run(["pools", "bundles"], 12, 0.0, SEED, 1, 0.0)
    assert {category: tally.words.total() for category, tally in tallies.items()} == {"pools": 12, "bundles": 12}
    assert not [one for one in bad if one["word"] == "wrong"]


def test_tasks_of_zero_are_refused_where_evenness_is_not_defined() -> None:
    with spoilt("tasks", 0.0, by_user=False), pytest.raises(NotCertified, match="gap inf"):
        fo.Policy(fo.FairnessEfficiency(2, -1)).allocate(fo.Instance([[1]], [1]))
