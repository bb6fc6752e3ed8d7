"""The league of solvers: what each column counts, of solvers that lie, lack a cone, crash, hang or are missing."""

import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import jsonschema
import numpy as np
import pytest
from cvxpy.reductions.solvers.conic_solvers.scs_conif import SCS

import fairopt as fo
from fairopt.instances.library.answers import Answer
from fairopt.report.files import as_json

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import league_attempts as attempts  # noqa: E402
import league_process  # noqa: E402
import league_solvers as league  # noqa: E402
from league_attempts import Claim, Optimum  # noqa: E402
from league_solvers import League, Match, bench_solver  # noqa: E402
from league_standings import league_markdown, league_tables, remarks  # noqa: E402

GHODSI = fo.Instance([[1, 4], [3, 1]], [9, 18], users=["a", "b"])  # DRF: (3, 2), each with a dominant share of 2/3
TWO_THIRDS = Optimum(2 / 3, 2 / 3)


def case(instance: fo.Instance, **answers: Any) -> Any:
    """A case as the library has them."""
    size = instance.n_users, instance.n_resources, instance.n_servers
    return SimpleNamespace(instance=instance, size=size, answers=answers)


def known(policy: str, value: Fraction | None, status: str = "optimal") -> Answer:
    return Answer("", policy, status, value=value)


DRF = known("drf", Fraction(2, 3))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run attempts in this process."""
    monkeypatch.setattr(league_process, "within", lambda seconds, function, **given: function(**given))


def answering(tasks: Any, status: str = "optimal") -> Any:
    """A `cvxpy.Problem.solve` that leaves these tasks."""

    def solve(problem: cp.Problem, **options: Any) -> None:
        for variable in problem.variables():
            variable.save_value(np.array(tasks, dtype=float) if variable.name() == "tasks" else 0.0)
        problem._status = status

    return solve


def bench(*solver: str, **options: Any) -> dict[str, Match]:
    """The matches of solvers on the example, by solver."""
    found = bench_solver(solver, **{"cases": {"example": case(GHODSI, drf=DRF)}, **options})
    return {match.solver: match for match in found.matches}


@pytest.mark.parametrize(
    ("tasks", "claim", "gap"),
    [
        ([3, 2], "right", 0.0),
        ([3 * (1 - 1e-5), 2 * (1 - 1e-5)], "right", 1e-5),
        ([1.5, 1], "wrong", 0.5),
        ([6, 4], "right", 0.0),  # cut to the capacities, it is the optimum
        ([6, 2], "wrong", 4 / 13),  # cut to 9/13 of it, where the smallest dominant share is 6/13
        ([0, 2], "wrong", 1.0),
    ],
)
def test_a_claim_is_wrong_by_the_true_value_of_its_tasks_on_the_capacities(
    monkeypatch: pytest.MonkeyPatch, tasks: list[float], claim: str, gap: float
) -> None:
    monkeypatch.setattr(cp.Problem, "solve", answering(tasks))
    found = attempts.claimed("drf", GHODSI, "CLARABEL", TWO_THIRDS, 1e-4)
    assert found.claim == claim and found.status == "optimal"
    assert found.gap == pytest.approx(gap, abs=1e-9)


def test_an_answer_that_violates_a_constraint_is_wrong_by_the_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Policy(Total(Tasks()), constraints=[MinTasks({'a': 3})])"
    monkeypatch.setattr(cp.Problem, "solve", answering([2.7, 2]))
    found = attempts.claimed(text, GHODSI, "CLARABEL", Optimum(4.7, 4.7), 1e-4)
    assert found.claim == "wrong" and found.gap is not None and 0.02 < found.gap < 0.2


@pytest.mark.parametrize(
    ("status", "claim"),
    [("infeasible", "wrong"), ("unbounded", "wrong"), ("optimal_inaccurate", "none"), ("user_limit", "none")],
)
def test_without_an_optimum_only_certain_statuses_are_claims(
    monkeypatch: pytest.MonkeyPatch, status: str, claim: str
) -> None:
    monkeypatch.setattr(cp.Problem, "solve", answering([3, 2], status))
    found = attempts.claimed("drf", GHODSI, "CLARABEL", TWO_THIRDS, 1e-4)
    assert (found.claim, found.status, found.gap) == (claim, status, None)


def test_an_optimum_without_tasks_is_a_wrong_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp.Problem, "solve", lambda problem, **options: setattr(problem, "_status", "optimal"))
    found = attempts.claimed("drf", GHODSI, "CLARABEL", TWO_THIRDS, 1e-4)
    assert (found.claim, found.gap) == ("wrong", None) and "has no value" in str(found.reason)


def test_a_solver_that_lies_is_counted_as_wrong_and_named(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = attempts.claimed

    def lying(policy: str, instance: fo.Instance, solver: str, optimum: Optimum, wrong_above: float) -> Claim:
        with monkeypatch.context() as patch:
            if solver == "SCS":
                patch.setattr(cp.Problem, "solve", answering([1.5, 1]))
            return honest(policy, instance, solver, optimum, wrong_above)

    monkeypatch.setattr(attempts, "claimed", lying)
    found = bench_solver(["SCS", "CLARABEL"], cases={"example": case(GHODSI, drf=DRF)})
    counts = {one.solver: (one.certified, one.claims, one.wrong, one.worst_claim_gap) for one in found.standings}
    assert counts["SCS"] == (1, 1, 1, pytest.approx(0.5)) and counts["CLARABEL"][:3] == (1, 1, 0)
    assert counts["auto"] == (1, None, None, None)
    assert [(match.solver, match.case) for match in found.wrong] == [("SCS", "example")]
    assert "SCS says 'optimal' of drf on example, with a true gap of 0.5" in "\n".join(remarks(found))


def test_a_solver_that_lacks_a_cone_is_not_applicable_and_the_cone_is_named(here: None) -> None:
    found = bench("HIGHS", notions=["nash"], cases={"example": GHODSI})
    assert (found["HIGHS"].outcome, found["HIGHS"].claim) == ("not applicable", "not applicable")
    assert found["HIGHS"].lacks == ("exponential",)
    assert found["auto"].outcome == "certified"
    with pytest.raises(fo.errors.SolverUnavailable, match=r"problem \(it has exponential cones\); try"):
        fo.NashWelfare().allocate(GHODSI, solver="HIGHS")


@pytest.mark.fast_methods
def test_a_method_that_is_not_exact_for_a_notion_is_not_applicable_and_makes_no_claim(here: None) -> None:
    found = bench("prices", "water-filling")
    assert (found["prices"].outcome, found["water-filling"].outcome) == ("not applicable", "certified")
    assert {match.claim for match in found.values()} == {None}
    assert "prices is exact for AlphaFair" in str(found["prices"].reason)


def test_a_solver_that_crashes_is_refused_and_the_others_run(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: Any = league_process.within

    def crashing(seconds: float, function: Any, **given: Any) -> Any:
        if given.get("options") == {"solver": "SCS"} or given.get("solver") == "SCS":
            raise RuntimeError("the process of the solver ended with exit code -6")
        return inside(seconds, function, **given)

    monkeypatch.setattr(league_process, "within", crashing)
    found = bench("SCS", "CLARABEL")
    assert (found["SCS"].outcome, found["SCS"].claim) == ("refused", "none")
    assert "exit code -6" in str(found["SCS"].reason) and "exit code -6" in str(found["SCS"].claim_reason)
    assert found["CLARABEL"].outcome == "certified"


def test_a_solver_that_fails_is_refused(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any, **options: Any) -> Any:
        raise ArithmeticError("numbers went wrong")

    monkeypatch.setattr(SCS, "solve_via_data", failing)
    found = bench("SCS")["SCS"]
    assert (found.outcome, found.claim, found.status) == ("refused", "none", "solver_error")
    assert "numbers went wrong" in str(found.claim_reason)


def test_a_solver_that_hangs_is_stopped_in_its_process(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sleeping.py"
    file.write_text(
        "import time\nimport fairopt as fo\n"
        "from cvxpy.reductions.solvers.conic_solvers.scs_conif import SCS\n"
        "SCS.solve_via_data = lambda *given, **options: time.sleep(600)\n"
        "MINE = fo.DRF()\n"
    )
    given = {"policy": f"{file}:MINE", "instance": GHODSI, "solver": "SCS", "optimum": TWO_THIRDS, "wrong_above": 1e-4}
    said = league._within(0.2, 0.0, attempts.claimed, **given)
    monkeypatch.setattr(league, "_within", lambda *times, **given: said)
    hung = league._match("example", "mine", "SCS", "drf", GHODSI, TWO_THIRDS, 1e-4, 0.2)
    assert (hung.outcome, hung.claim) == ("refused", "none")
    assert hung.reason == hung.claim_reason == "time limit of 0.2 s"


@pytest.mark.fast_methods
def test_missing_and_unknown_solvers_are_errors_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(league_process, "within", None)
    with pytest.raises(fo.errors.SolverUnavailable, match="solver GUROBI is not installed; installed: "):
        bench("CLARABEL", "gurobi")
    with pytest.raises(fo.errors.SolverUnavailable, match="no solver or method 'waterfilling'; did you mean 'water-f"):
        bench("waterfilling")
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit is 0"):
        bench("SCS", time_limit=0)
    with pytest.raises(fo.errors.InvalidBlock, match="wrong_above is -1"):
        bench("SCS", wrong_above=-1)
    with pytest.raises(fo.errors.InvalidBlock, match="ps-dsf is not made of blocks"):
        bench("SCS", notions=["ps-dsf"])
    with pytest.raises(fo.errors.InvalidBlock, match="no policy 'drff'"):
        bench("SCS", notions=["drff"])


def test_all_are_the_installed_solvers_without_their_variants_for_integers() -> None:
    found = league._contestants("all")
    assert {"CLARABEL", "HIGHS", "SCS"} <= set(found) and found[-1] == "auto"
    assert "ECOS_BB" not in found or "ECOS" not in found


def test_problems_are_the_notions_with_an_optimum_and_an_objective_of_small_cases() -> None:
    infeasible = known("Policy(MaxMin(), constraints=[MinTasks(99)])", None, "infeasible")
    cases = {
        "small": case(GHODSI, drf=DRF, psdsf=known("ps-dsf", None), much=infeasible),
        "large": case(fo.datasets.demo(), drf=DRF),
    }
    assert list(league._problems(cases, None, 5)) == [("small", "drf", "drf")]
    asked = list(league._problems({**cases, "mine": GHODSI}, ["drf", "nash"], None))
    assert [(name, notion) for name, notion, _ in asked] == [
        ("small", "drf"),
        ("small", "nash"),
        ("large", "drf"),
        ("large", "nash"),
        ("mine", "drf"),
        ("mine", "nash"),
    ]


def test_a_policy_of_the_users_own_by_the_name_of_a_notion_of_the_library_is_not_replaced(here: None) -> None:
    asked = league._problems({"small": case(GHODSI, drf=DRF, nash=known("nash", None))}, {"drf": "nash"}, None)
    assert list(asked) == [("small", "drf", "nash")]
    assert bench("CLARABEL", notions={"drf": "nash"})["CLARABEL"].true_gap == pytest.approx(0, abs=1e-9)
    with pytest.raises(fo.errors.InvalidBlock, match="no policy 'drff'"):
        bench("SCS", notions={"mine": "drff"})


def test_problems_without_a_known_optimum_are_left_out_with_the_reason(here: None) -> None:
    cases = {"example": case(GHODSI, none=known("Policy(MaxMin(), constraints=[MinTasks(99)])", None))}
    found = bench_solver("CLARABEL", cases=cases)
    nobody = case(GHODSI.replace(task_limits=0), drf=known("drf", Fraction(0)))
    assert "no user takes part" in bench_solver("SCS", cases={"none": nobody}).left_out["none, drf"]
    zero = known("drf", Fraction(0))
    assert "the optimum is 0" in bench_solver("SCS", cases={"z": case(GHODSI, drf=zero)}).left_out["z, drf"]
    assert not found.matches and "Infeasible" in found.left_out["example, none"]
    assert list(league_tables(found)) == [] and league_markdown(found.standings) == ""
    assert "no problem was tried" in list(remarks(found))


@pytest.mark.parametrize("policy", ["most-tasks", "nash", "fds:alpha=2", "fds:alpha=0.5", "ffmra", "drf"])
def test_the_gap_of_the_optimum_itself_is_zero_and_of_a_share_of_it_is_that_share(policy: str) -> None:
    mechanism = attempts.policy_of(policy)
    answer = mechanism.allocate(GHODSI)
    optimum = attempts.optimum_of(mechanism, answer)
    bundles = answer.given_bundles
    for left, gap in ((1.0, 0.0), (0.999, 1e-3)):
        value = attempts.value_of(
            mechanism, GHODSI, left * answer.tasks_by_server, None if bundles is None else left * bundles
        )
        assert optimum.shortfall(value) == pytest.approx(gap, rel=2e-3, abs=1e-9)


def of(solver: str, case: str, seconds: float, **more: Any) -> Match:
    return Match(case, "drf", solver, **{"outcome": "certified", "true_gap": 1e-9, "seconds": seconds, **more})


def test_times_are_medians_of_ratios_to_the_fastest_certified_answer() -> None:
    matches = (
        of("A", "one", 1.0),
        of("B", "one", 3.0),
        of("C", "one", 0.1, outcome="refused", true_gap=None),
        of("A", "two", 8.0),
        of("B", "two", 4.0),
        of("A", "three", 1.0),
        of("B", "three", 5.0),
    )
    table = League(matches, 1e-4, 10.0, {}, {}, "2026-01-01").standings
    assert {one.solver: one.time for one in table} == {"A": 1.0, "B": 3.0, "C": None}
    assert {one.solver: (one.problems, one.certified, one.refused) for one in table}["C"] == (1, 0, 1)


def test_a_certified_answer_off_the_known_optimum_contradicts_it_in_both_directions() -> None:
    matches = (of("A", "one", 1.0), of("B", "one", 1.0, true_gap=1e-5), of("C", "one", 1.0, true_gap=-1e-5))
    found = League(matches, 1e-4, 10.0, {}, {}, "2026-01-01")
    assert [match.solver for match in found.contradictions] == ["B", "C"]


def test_ctrl_c_keeps_the_problems_that_are_done(here: None) -> None:
    seen = []

    def stop(what: str, done: int | None, total: int | None) -> None:
        seen.append(what)
        if done == 1:
            raise KeyboardInterrupt

    with fo.progress(stop):
        found = bench_solver("HIGHS", cases={name: case(GHODSI, drf=DRF) for name in ("one", "two")})
    assert found.interrupted and {match.case for match in found.matches} == {"one"}
    assert seen[:2] == ["one, drf", "one, drf, HIGHS"] and "interrupted" in repr(found)


def test_frames_have_a_row_per_solver_or_match() -> None:
    found = League((of("A", "one", 1.0), of("B", "one", 2.0)), 1e-4, 10.0, {}, {}, "2026-01-01")
    assert found.to_frame().loc[("drf", "B"), "time"] == 2
    assert found.to_frame("match").loc[("one", "drf", "A"), "seconds"] == 1
    with pytest.raises(fo.errors.InvalidBlock, match="no table by 'case'"):
        found.to_frame("case")


def test_a_league_as_json_holds_each_match_under_its_schema(here: None) -> None:
    found = bench_solver("HIGHS", cases={"example": case(GHODSI, drf=DRF)})
    data = json.loads(as_json(found.to_dict()))
    jsonschema.validate(data, json.loads((BENCHMARKS / "league-1.json").read_text(encoding="utf-8")))
    assert {match["solver"] for match in data["matches"]} == {"HIGHS", "auto"}


def test_a_process_that_ends_is_an_error_with_its_exit_code_and_the_next_call_has_another() -> None:
    with pytest.raises(RuntimeError, match="ended with exit code 3"):
        league_process.within(60.0, os._exit, status=3)
    assert league_process.within(60.0, os.path.basename, p="a/b") == "b"
