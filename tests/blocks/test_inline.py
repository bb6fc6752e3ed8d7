"""Functions in place of blocks: they are solved, certified, checked and named as blocks of a user's own."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks import InlineConstraint, InlineObjective
from fairopt.blocks.inline import text_of

POOL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
SHARE = fo.DominantShare()


def above(model: fo.Model, d: float = 0.2) -> Any:
    return cp.sum(cp.log(model.tasks - d))


class Above:
    """A function that is an object with a parameter."""

    def __init__(self, d: float) -> None:
        self.d = d

    def __call__(self, model: fo.Model) -> Any:
        return above(model, self.d)


MINE = fo.Policy(lambda model: cp.sum(cp.log(model.tasks - 0.2)), [lambda model: model.share(SHARE) >= 0.1])
# the first resource is full, and of what it has above 0.2 tasks each half goes to each user
BEST = np.array([0.2 + (200 - 0.2 * 48) / 2 / 40, 0.2 + (200 - 0.2 * 48) / 2 / 8])


@pytest.mark.parametrize("solver", [None, "CLARABEL", "SCS", "ECOS"])
def test_functions_are_solved_and_certified_by_every_cone_solver(solver: str | None) -> None:
    if solver is not None and solver not in cp.installed_solvers():
        pytest.skip(f"{solver} is not installed")
    answer = MINE.allocate(POOL, solver=solver)
    assert answer.certificate.ok
    np.testing.assert_allclose(answer.tasks, BEST, rtol=1e-3)  # a gap of 1e-6 is flat to its square root
    assert fo.check(answer)["sharing-incentive"].witness.worst == "web"


@pytest.mark.parametrize(
    "objective",
    [above, partial(above, d=0.2), Above(0.2), Above(0.2).__call__, lambda model: cp.hstack([above(model)])],
    ids=["a function", "a partial", "an object", "a method", "a vector of one"],
)
def test_any_function_of_the_model_is_an_objective(objective: Callable[[fo.Model], Any]) -> None:
    np.testing.assert_allclose(fo.Policy(objective).allocate(POOL).tasks, BEST, rtol=1e-3)


def test_functions_give_the_answers_of_blocks() -> None:
    cluster = fo.Instance([[1, 2], [2, 1], [1, 1]], [[4, 6], [6, 4]], counts=[1, 2], task_limits=[None, 3, None])
    floor = lambda model: model.share(SHARE) >= 0.2  # noqa: E731
    for objective, inline in (
        (fo.Total(fo.Tasks()), lambda model: cp.sum(model.tasks)),
        (fo.MaxMin(), lambda model: cp.min(model.share(SHARE))),
        (fo.AlphaFair(1), lambda model: cp.sum(cp.log(model.share(SHARE)))),
    ):
        want = fo.Policy(objective, fo.MinShare(0.2)).allocate(cluster)
        found = fo.Policy(inline, floor).allocate(cluster)
        assert found.certificate.ok and found.objective == pytest.approx(want.objective, rel=1e-5)
    whole = fo.DRF().with_constraints(lambda model: model.tasks[1] <= 2.5).allocate(cluster, integral=True)
    assert whole.tasks[1] == 2 and whole.certificate.ok


def test_functions_join_sums_and_tiers() -> None:
    logs = lambda model: cp.sum(cp.log(model.tasks))  # noqa: E731
    assert fo.Total() + logs == fo.Total() + InlineObjective(logs)
    assert logs + fo.Total() == fo.Total() + logs
    assert repr(fo.Total() + logs) == "Total() + InlineObjective(lambda model: cp.sum(cp.log(model.tasks)))"
    assert str(fo.Policy(fo.Total() + logs)) == "Policy(Total() + (lambda model: cp.sum(cp.log(model.tasks))))"
    both = fo.Policy(0.5 * InlineObjective(logs) + fo.Total(fo.Tasks())).allocate(POOL)
    want = fo.Policy(0.5 * fo.AlphaFair(1, fo.Tasks()) + fo.Total(fo.Tasks())).allocate(POOL)
    assert both.certificate.ok
    np.testing.assert_allclose(both.tasks, want.tasks, rtol=1e-3)
    limited = fo.Instance([[1, 0], [0, 1]], [4, 2], task_limits=[1, None])
    assert fo.Policy(fo.MaxMin().then(lambda m: cp.sum(m.tasks))).allocate(limited).tasks == pytest.approx([1, 2])
    level = InlineObjective(logs) >= 3
    assert str(level) == "(lambda model: cp.sum(cp.log(model.tasks))) >= 3.0"
    assert np.log(fo.Policy(fo.Total(), level).allocate(POOL).tasks).sum() >= 3 - 1e-6


def test_a_constraint_function_gives_one_constraint_or_a_list_or_a_dict() -> None:
    for write in (
        lambda model: model.tasks <= 3,
        lambda model: [model.tasks[0] <= 3, model.tasks[1] <= 3],
        lambda model: (model.tasks[0] <= 3, model.tasks[1] <= 3),
        lambda model: {"few of batch": model.tasks[0] <= 3, "few of web": model.tasks[1] <= 3},
    ):
        assert fo.DRF().with_constraints(write).allocate(POOL).tasks == pytest.approx([3, 3])
    assert fo.DRF().with_constraints(lambda model: []).allocate(POOL).tasks == pytest.approx([2.5, 12.5])


def test_blocks_are_given_one_by_one_or_in_lists() -> None:
    a, b = fo.SharingIncentive(), fo.MinShare(0.1)
    few = lambda model: model.tasks[0] <= 2  # noqa: E731
    for one in (a, [a], (one for one in [a])):
        assert fo.Policy(fo.Total(), one).constraints == (a,)
    held = fo.Policy(fo.Total(), [a, b, few])
    for given in ((a, b, few), ([a, b, few],), ([a], b, [few]), ((a, b), few)):
        assert fo.Policy(fo.Total()).with_constraints(*given) == held
    assert fo.DRF().with_constraints([]).name == "DRF"
    assert fo.DRF().with_constraints([a, b]).name == "DRF under SharingIncentive(), MinShare(0.1)"


def test_blocks_of_functions_are_equal_if_the_functions_are() -> None:
    f, g = (lambda model: cp.sum(model.tasks)), (lambda model: cp.sum(model.tasks))
    assert fo.Policy(f) == fo.Policy(f) and hash(fo.Policy(f)) == hash(fo.Policy(InlineObjective(f)))
    assert fo.Policy(f) != fo.Policy(g) and InlineConstraint(f) != InlineObjective(f)
    assert pickle.loads(pickle.dumps(fo.Policy(above))) == fo.Policy(above)


# -- text -----------------------------------------------------------------------------------------------------


def test_the_text_of_a_lambda_is_its_code_on_one_line() -> None:
    first, second = (lambda m: m.tasks[0] <= 1), (lambda m, k=(lambda: 3): m.tasks[k()] >= "é")
    inner = (lambda d: lambda model: model.tasks[0] <= d)(3)
    long = lambda model: [  # noqa: E731
        model.tasks[0] <= 0.5,  # half
        model.tasks[1] >= 2,
    ]
    assert text_of(first) == "lambda m: m.tasks[0] <= 1"
    assert text_of(second) == "lambda m, k=lambda: 3: m.tasks[k()] >= 'é'"
    assert text_of(inner) == "lambda model: model.tasks[0] <= d"
    assert text_of(long) == "lambda model: [model.tasks[0] <= 0.5, model.tasks[1] >= 2]"
    assert repr(InlineConstraint(first)) == "InlineConstraint(lambda m: m.tasks[0] <= 1)"


def test_functions_of_one_factory_are_told_apart_by_what_they_close_over() -> None:
    def soft(theta: float, of: Any = above) -> Callable[[fo.Model], Any]:
        def smallest(model: fo.Model) -> Any:
            return of(model) and smallest and -cp.log_sum_exp(-theta * model.share(SHARE)) / theta / len(cp.__name__)

        return smallest

    assert [fo.policy.label(fo.Policy(soft(theta))) for theta in (10, 50)] == [
        f"Policy(smallest with of=above, theta={theta})" for theta in (10, 50)
    ]
    assert str(InlineConstraint(lambda m, k=3: m.tasks[0] <= k)) == "lambda m, k=3: m.tasks[0] <= k"
    many = [(lambda m, d=d: m.tasks >= d) for d in (np.zeros(3), np.ones(300), object())]
    assert [str(InlineConstraint(f)).partition(" with ")[2] for f in many][::2] == ["d=[0.0, 0.0, 0.0]", "d=object"]
    assert len(str(InlineConstraint(many[1]))) <= 100
    assert str(InlineConstraint(soft(10))) == "smallest with of=above, theta=10"
    assert str(InlineConstraint(partial(many[2], d=2))).endswith("d=2)")
    assert repr(InlineConstraint(soft(10))) == "InlineConstraint(smallest)"


def test_the_text_of_other_functions_is_their_name() -> None:
    assert [text_of(f) for f in (above, Above(3), Above(3).__call__)] == ["above", "Above", "__call__"]
    assert text_of(partial(above, d=0.2)) == "partial(above, d=0.2)"
    assert (
        str(fo.Policy(above)) == "Policy(above with d=0.2)"
        and repr(fo.Policy(above)) == "Policy(InlineObjective(above))"
    )
    assert text_of(eval("lambda model, k=3: model.tasks[k]")) == "lambda model, k: ..."  # there is no source


def test_a_long_function_is_shortened_in_messages_and_kept_whole_in_files() -> None:
    many = lambda m: [m.tasks[0] <= 1000000, m.tasks[0] <= 2000000, m.tasks[0] <= 3000000, m.tasks[1] <= 4000000]  # noqa: E731
    block = InlineConstraint(many)
    assert "…" in str(block) and len(str(block)) <= 100 < len(repr(block))


# -- errors ---------------------------------------------------------------------------------------------------


def test_an_infeasible_model_names_the_functions_that_conflict() -> None:
    says = (
        r"`lambda m: m.tasks\[0\] >= 4` and `MaxShare.* together; at most 2 can be had for `lambda m: .*` of user 'bat"
    )
    with pytest.raises(fo.errors.Infeasible, match=says):
        fo.DRF().with_constraints(lambda m: m.tasks[0] >= 4, fo.MaxShare(0.4)).allocate(POOL)

    def floors(model: fo.Model) -> dict[str, Any]:
        return {"many": model.tasks[0] >= 4, "some": model.tasks[1] >= 8, "few": model.tasks[0] <= 9}

    with pytest.raises(fo.errors.Infeasible, match=r"'many' and 'some' of `floors` cannot hold together; at most 3.4"):
        fo.DRF().with_constraints(floors).allocate(POOL)
    listed = lambda model: [model.tasks[0] >= 4, model.tasks[1] >= 8]  # noqa: E731
    with pytest.raises(fo.errors.Infeasible, match=r"'condition 1' and 'condition 2' of `lambda model: \["):
        fo.DRF().with_constraints(listed).allocate(POOL)
    with pytest.raises(fo.errors.Infeasible, match=r"`lambda model: cp.Constant.1. <= 0` cannot hold, whatever"):
        fo.DRF().with_constraints(lambda model: cp.Constant(1) <= 0).allocate(POOL)
    with pytest.raises(fo.errors.Infeasible, match=r"the domain of `above with d=0.2` cannot hold"):
        fo.Policy(above).allocate(fo.Instance([[1], [1]], [0.3]))
    with pytest.raises(fo.errors.Infeasible, match=r"`lambda model: model.tasks\[0\] >= 30` cannot hold within"):
        fo.MLFDRS().with_constraints(lambda model: model.tasks[0] >= 30).allocate(POOL)


def test_what_is_not_concave_or_convex_is_named() -> None:
    with pytest.raises(fo.errors.NotConcave, match=r"lambda m: cp.sum.cp.square.m.tasks.. is not concave"):
        fo.Policy(lambda m: cp.sum(cp.square(m.tasks))).allocate(POOL)
    with pytest.raises(fo.errors.NotConcave, match=r"lambda m: cp.square.m.tasks. >= 2: its condition is not convex"):
        fo.Policy(fo.Total(), lambda m: cp.square(m.tasks) >= 2).allocate(POOL)


ONE_NUMBER = "give a CVXPY expression of one real number"
WANTED = r"give a CVXPY constraint, such as .*, a list of constraints, or a dict"


@pytest.mark.parametrize(
    "write, says",
    [
        (lambda m: 3.0, f"`lambda m: 3.0` gave 3.0; {ONE_NUMBER}"),
        (lambda m: cp.log(m.tasks), f"gave shape .2,.; {ONE_NUMBER}"),
        (lambda m: m.tasks[0] <= 1, f"gave Inequality.*; {ONE_NUMBER}"),
        (lambda m: fo.Total(), f"gave Total.*; {ONE_NUMBER}"),
        (lambda m: None, "`lambda m: None` returned None; is a `return` missing"),
        (lambda m: np.log(m.tasks).sum(), "use CVXPY's functions, such as cp.log"),
    ],
)
def test_an_objective_that_is_no_expression_is_refused_with_what_it_gave(write: Any, says: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=says):
        fo.Policy(write).allocate(POOL)


@pytest.mark.parametrize(
    "write, says",
    [
        (lambda m: True, f"`lambda m: True` gave True; {WANTED}"),
        (lambda m: m.tasks[0] - 1, f"gave Expression.*; {WANTED}"),
        (lambda m: fo.MinShare(0.1), f"gave MinShare.*; {WANTED}"),
        (lambda m: None, f"`lambda m: None` gave None; {WANTED}"),
        (lambda m: [m.tasks[0] <= 1, True], "gave True under 'condition 2'; give a cvxpy constraint"),
        (lambda m: {"a": m.tasks[0]}, "under 'a'; give a cvxpy constraint"),
        (lambda m: {1: m.tasks[0] <= 1}, "names a condition 1; give a name, as a text"),
        (lambda m: 0 <= m.tasks[0] <= 1, "`lambda m: .* chains such as .* give each constraint by itself"),
    ],
)
def test_a_constraint_that_is_none_is_refused_with_what_it_gave(write: Any, says: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=says):
        fo.Policy(fo.Total(), write).allocate(POOL)


@pytest.mark.parametrize(
    "given",
    [fo.KDF, fo.Leximin, cp.log, fo.DRF(), "drf", None, SHARE],
    ids=lambda given: re.sub(" at 0x.*?>", ">", str(given)),
)
def test_what_is_neither_an_objective_nor_a_function_of_the_model_is_refused(given: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"give an objective, such as Leximin.*or a function such as"):
        fo.Policy(given)


@pytest.mark.parametrize(
    "given",
    [fo.SharingIncentive, [3], 3, None, "x", {"a": above}, [[fo.MinShare(0.1)]]],
    ids=lambda given: re.sub(" at 0x.*?>", ">", str(given)),
)
def test_what_is_neither_a_constraint_nor_a_function_of_the_model_is_refused(given: Any) -> None:
    for make in (lambda: fo.Policy(fo.Total(), given), lambda: fo.DRF().with_constraints(given)):
        with pytest.raises(fo.errors.InvalidBlock, match=r"among the constraints is not a constraint; give blocks"):
            make()


def test_a_function_of_other_arguments_is_refused_when_it_is_given() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"`lambda m, k: m.tasks\[k\]` takes m, k; .* functools.partial"):
        fo.Policy(lambda m, k: m.tasks[k])
    with pytest.raises(fo.errors.InvalidBlock, match="`lambda: 1` takes no argument"):
        fo.Policy(fo.Total(), lambda: 1)
    with pytest.raises(fo.errors.InvalidBlock, match=r"InlineObjective.3.: give a function of the model"):
        InlineObjective(3)  # type: ignore[arg-type]


def test_other_errors_in_a_function_are_the_users_with_a_note_of_the_function() -> None:
    with pytest.raises(AttributeError, match="taks") as caught:
        fo.Policy(lambda m: cp.sum(m.taks)).allocate(POOL)
    assert caught.value.__notes__ == ["in `lambda m: cp.sum(m.taks)`"]


# -- what comes after -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, what",
    [
        (MINE, "InlineConstraint(lambda model: model.share(SHARE) >= 0.1)"),
        (fo.Policy(above), "InlineObjective(above)"),
        (fo.Policy(fo.MaxMin().then(above)), "InlineObjective(above)"),
    ],
    ids=["constraint", "objective", "tier"],
)
def test_a_saved_answer_is_proved_as_written_and_its_code_is_not_executed(
    policy: fo.Policy, what: str, tmp_path: Path
) -> None:
    path = policy.allocate(POOL).save(tmp_path / "a.json")
    assert json.loads(path.read_text())["policy"] == repr(policy)
    assert f"{what} as written in the file" in fo.verify(path).statement
    assert not fo.Allocation.load(path).certificate.ok  # nothing is executed
    if policy.constraints:
        assert fo.Allocation.load(path, policy=policy).certificate.ok
        with pytest.raises(fo.errors.InvalidInstance, match="give the policy that it was saved with"):
            fo.Allocation.load(path, policy=fo.Policy(above))


def test_a_frontier_of_functions_is_solved_and_other_processes_need_names(tmp_path: Path) -> None:
    def family(d: float) -> fo.Policy:
        return fo.Policy(lambda model: cp.sum(cp.log(model.tasks - d)))

    path = tmp_path / "f.json"
    found = fo.frontier(family, POOL, {"d": [0.1, 0.2]}, resume=path)
    np.testing.assert_allclose(found.tasks_by_user[1], BEST, rtol=1e-3)
    with pytest.raises(fo.errors.InvalidBlock, match="functions by name at the top of a module, or leave processes"):
        fo.frontier(family, POOL, {"d": [0.1, 0.2]}, processes=2)
    with pytest.raises(fo.errors.InvalidBlock, match="their code or data has changed"):
        fo.frontier(lambda d: family(d / 2), POOL, {"d": [0.1, 0.2]}, resume=path)


def test_an_explanation_names_the_function_that_binds() -> None:
    answer = fo.DRF().with_constraints(lambda m: m.tasks[1] <= 10).allocate(POOL)
    assert answer.explain("web").sentences[0] == "web stops at 10 tasks because lambda m: m.tasks[1] <= 10 binds."


def test_an_audit_solves_functions_on_drawn_instances() -> None:
    finding = fo.audit(fo.Policy(lambda m: cp.sum(cp.log(m.tasks))), ["pareto"], max_examples=3)["pareto"]
    assert (finding.instances, finding.refuted, finding.faults) == (3, False, ())
