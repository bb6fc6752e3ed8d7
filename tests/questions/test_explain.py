"""What stops a user or team: sentences of each kind on instances that can be solved by hand."""

from typing import Any

import numpy as np
import pytest
from oracle.explained import check

import fairopt as fo
from fairopt.errors import InvalidInstance
from fairopt.questions.raised import SolvedAgain


def pool(**given: Any) -> fo.Instance:
    names = {"users": ["batch", "web"], "resources": ["net", "memory", "cpu"]}
    return fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], **names, **given)


def of_gpus(n: int, gpus: float, **given: Any) -> fo.Instance:
    """Users of one GPU per task each."""
    return fo.Instance([[1]] * n, [gpus], users=[*"abcdefgh"[:n]], resources=["gpu"], **given)


# -- a resource ------------------------------------------------------------------------------------------------------


def test_a_full_resource_stops_both_users_at_the_same_level() -> None:
    found = fo.DRF().allocate(pool()).explain("web")
    assert found.sentences[:2] == (
        "web stops at 12.5 tasks because net is full; batch stops there too, at the same level (0.5).",
        "One more net would give it 0.0625 tasks, and cost nobody anything.",
    )
    first = found.binding[0]  # the level rises by 1 / 400 per unit, and a task of web is 1 / 25 of the network
    assert (first.kind, first.name, first.servers, first.amount) == ("resource", "net", (), 200.0)
    assert first.gain == pytest.approx(25 / 400) and first.units == pytest.approx(0.5)
    assert first.others == pytest.approx({"batch": 5 / 400})
    assert found.beside == ("batch",) and found.level == pytest.approx(0.5)


def test_a_larger_weight_is_named_with_what_it_costs() -> None:
    found = fo.DRF().allocate(pool()).explain("web")
    weight = next(b for b in found.binding if b.kind == "weight")  # of 1 + 1.01 the user has 1.01
    assert weight.gain == pytest.approx((25 * 1.01 / 2.01 - 12.5) / 0.01)
    assert "A weight 1% larger would give it 0.06219 tasks, and take 0.01244 tasks from batch." in found.sentences


def test_a_resource_is_named_with_its_servers_and_unit() -> None:
    cluster = fo.Instance(
        [[1, 4], [2, 4]],
        [[8, 32], [8, 32], [16, 1]],
        users=["one", "two"],
        resources=["cpu", "memory"],
        servers=["n1", "n2", "m1"],
        units={"memory": "GiB"},
    )
    found = fo.DRF().allocate(cluster).explain("one")
    assert "because cpu is full on n[1-2] and memory is full on m1; two stops there too" in found.sentences[0]
    rows = {(b.name, b.servers): b.amount for b in found.binding if b.kind == "resource"}
    assert rows == {("cpu", ("n[1-2]",)): 16.0, ("memory", ("m1",)): 1.0}
    memory = fo.DRF().allocate(cluster.replace(demands=[[0.1, 4], [0.1, 8]])).explain("one")
    assert memory.sentences[1].startswith("One more GiB of memory on n[1-2] would give it ")


def test_many_full_capacities_of_one_resource_are_raised_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairopt.questions.explain.MOST_ROWS", 1)
    servers = fo.Instance([[1], [1]], [[4], [6]], users=["a", "b"], resources=["gpu"], servers=["m", "n"])
    (gpu,) = (b for b in fo.DRF().allocate(servers).explain("a").binding if b.kind == "resource")
    assert (gpu.servers, gpu.amount, gpu.gain) == (("m", "n"), 10.0, pytest.approx(0.5))


def test_what_moves_it_without_stopping_it_is_named() -> None:
    cluster = fo.Instance(
        [[1, 0], [1, 1]], [[4, 0], [4, 6]], users=["cpus", "gpus"], resources=["cpu", "gpu"], servers=["c", "g"]
    )
    found = fo.DRF().allocate(cluster).explain("gpus")  # cpus move from g to c if c has more
    assert [b.servers for b in found.binding if b.kind == "resource"] == [("g",)]
    assert [(b.name, b.servers) for b in found.also if b.kind == "resource"] == [("cpu", ("c",))]
    assert "What else moves it: cpu on c (+0.5% if 1% larger)." in found.sentences


def test_a_total_that_only_changes_shares_is_named_as_that() -> None:
    found = fo.KDF(k=2).allocate(pool()).explain("web")  # memory is not full, but in the second largest share
    (total,) = (b for b in found.also if b.kind == "total")
    assert total.name == "memory" and total.gain is not None and total.gain > 0
    assert found.sentences[-1].endswith("would move it only because shares are fractions of the total.")
    assert not any(b.kind == "total" for b in fo.DRF().allocate(pool()).explain("web").also)


def test_two_resources_that_bind_together_are_named_together() -> None:
    two = fo.Instance([[1, 1], [1, 1]], [10, 10], users=["a", "b"], resources=["cpu", "memory"])
    found = fo.DRF().allocate(two).explain("a")
    assert [b.kind for b in found.binding[:2]] == ["together", "together"]
    assert found.sentences[0].startswith(
        "a stops at 5 tasks because cpu and memory bind together: it gains only if all of them are raised; b"
    )
    assert found.sentences[1] == "With 1% more of all of them it would have 0.05 tasks more, and cost nobody anything."


def test_an_effect_that_sets_in_later_is_said_to() -> None:
    given: dict[str, Any] = {"weights": [10, 1], "task_limits": [None, 5], "resources": ["cpu", "net"]}
    late = fo.Instance([[1, 1], [0, 1]], [4, 9.01], users=["first", "second"], **given)
    found = fo.DRF().allocate(late).explain("second")  # 0.01 of the network is free before first takes of second's
    (cpu,) = (b for b in found.also if b.kind == "resource")
    assert cpu.name == "cpu" and not cpu.steady and cpu.percent == pytest.approx(100 * -0.03 / 5)
    assert "The first 0.1% more of cpu has a different effect, or none." in found.sentences


def test_answers_that_could_not_be_certified_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = SolvedAgain._solve
    monkeypatch.setattr(SolvedAgain, "_solve", lambda self, changes: None if changes else solve(self, changes))
    found = fo.DRF().allocate(pool()).explain("web")
    assert found.binding[0].kind == "unknown"
    assert found.sentences == (
        "web has 12.5 tasks; what stops it is not known.",
        "Whether net would move it is not known: no answer was certified.",
    )


# -- limits ----------------------------------------------------------------------------------------------------------


def test_its_own_limit_stops_a_user() -> None:
    found = fo.DRF().allocate(pool(task_limits={"web": 10})).explain("web")
    assert found.sentences == (
        "web has 10 tasks: its own task limit stops it.",
        "One more task allowed would give it 1 task, and take 0.2 tasks from batch.",
    )


def test_a_limit_and_a_resource_that_are_reached_at_once_bind_together() -> None:
    answer = fo.DRF().allocate(of_gpus(2, 10, task_limits=[5, None]))
    assert "gpu and its own task limit bind together" in answer.explain("a").sentences[0]
    assert answer.explain("b").sentences[0] == "b stops at 5 tasks because gpu is full; a uses it too."


def test_a_limit_of_a_member_and_what_is_left_out_are_named_among_what_binds_together() -> None:
    cluster = of_gpus(2, 10, task_limits=[5, None], teams={"team": ["x", "y"]})
    found = fo.DRF().allocate(cluster).explain("x")
    assert "gpu and the task limit of a bind together: it gains only if all of them are raised" in found.sentences[0]
    rest = {"users": ["a", "b", "c"], "resources": ["cpu", "gpu"], "task_limits": [5, 20, None]}
    three = fo.Instance([[4, 1], [1, 0], [2, 1]], [60, 10], **rest)  # with more tasks than c, a would be envied by c
    fair = fo.DRF().with_constraints(fo.EnvyFree()).allocate(three).explain("a")
    assert (
        "gpu, its own task limit and EnvyFree() bind together: it gains only if all of them are raised or relaxed"
        in fair.sentences[0]
    )
    assert fair.sentences[1].startswith("With 1% more of the others and without EnvyFree() it would have 0.05 tasks")


def test_a_user_that_asks_for_nothing() -> None:
    found = fo.DRF().allocate(of_gpus(2, 10, task_limits=[0, None])).explain("a")
    assert found.sentences == ("a gets no tasks: its task limit is 0.",) and found.binding == ()
    team = of_gpus(2, 10, task_limits=[0, 0], teams={"team": ["x", "x"]})
    assert fo.HDRF().allocate(team).explain("x").sentences[0].startswith("x gets no tasks: the task limits")
    large = fo.DRF().allocate(of_gpus(2, 4, task_limits=[0, None]).replace(demands=[[16], [1]])).explain("a")
    assert str(large).endswith("no server can run a task of a (16 gpu a task; the largest server has 4).")


def test_one_user_alone() -> None:
    found = fo.DRF().allocate(of_gpus(1, 4)).explain("a")
    assert str(found) == (
        "a stops at 4 tasks because gpu is full. One more gpu would give it 1 task, and cost nobody anything."
    )


# -- objectives and constraints --------------------------------------------------------------------------------------


def test_a_user_without_tasks_is_told_that_the_objective_prefers_others() -> None:
    found = fo.MostTasks().allocate(pool()).explain("batch")
    assert found.tasks == 0 and found.binding[0].kind == "objective"
    assert found.sentences[0].startswith("batch stops at 0 tasks because most tasks prefers others")


def test_a_user_whom_the_objective_does_not_decide() -> None:
    least = fo.Policy(fo.MaxMin(fo.Tasks()))
    free = fo.Instance([[1, 0], [0, 1]], [1, 10], users=["scarce", "plenty"], resources=["cpu", "gpu"])
    assert fo.Policy(fo.MaxMin(fo.Tasks())).allocate(free).explain("scarce").binding[0].name == "cpu"
    found = least.allocate(free).explain("plenty")
    assert [b.kind for b in found.binding] == ["undecided"] and "does not decide how much" in str(found)
    even = fo.MostTasks().allocate(of_gpus(2, 10))
    assert even.explain("a").binding[0].kind == even.explain("b").binding[0].kind == "undecided"


def test_a_block_that_binds_is_named_with_what_relaxing_it_gives() -> None:
    found = fo.DRF().with_constraints(fo.MaxShare(0.3)).allocate(pool()).explain("web")
    assert found.sentences[0] == "web stops at 7.5 tasks because MaxShare(0.3) binds."
    assert (
        found.sentences[1]
        == "With MaxShare(0.3) relaxed by 1% it would have 0.075 tasks more, and cost nobody anything."
    )
    fair = fo.MostTasks().with_constraints(fo.EnvyFree()).allocate(pool()).explain("web")
    (block,) = (b for b in fair.binding if b.kind == "block")  # alone it would have 25 tasks, with it 200 / 13
    assert block.name == "EnvyFree()" and not block.relaxed and block.gain == pytest.approx(25 - 200 / 13)


def test_guarantees_of_others_and_its_own() -> None:
    answer = fo.DRF().allocate(of_gpus(2, 10, guarantees={"a": 7}))
    own, other = answer.explain("a"), answer.explain("b")
    assert own.sentences == (
        "a stops at 7 tasks because it gets no more than its guarantee.",
        "One more task required would give it 1 task, and take 1 task from b.",
    )
    assert other.sentences[0] == (
        "b stops at 3 tasks because gpu is full and the guarantee of a comes first; a uses it too."
    )
    required = fo.DRF().with_constraints(fo.MinTasks({"a": 7})).allocate(of_gpus(2, 10)).explain("a")
    assert required.sentences[0] == "a stops at 7 tasks because it gets no more than MinTasks({'a': 7.0}) requires."


# -- teams -----------------------------------------------------------------------------------------------------------


def teams() -> fo.Instance:
    return fo.Instance(
        [[4, 2], [4, 2], [1, 0]],
        [1000, 100],
        task_limits=[None, None, 20],
        users=["train", "label", "parse"],
        resources=["cpu", "gpu"],
        teams={"team": ["nlp", "vision", "vision"]},
    )


def test_a_team_of_a_hierarchy_and_each_of_its_users() -> None:
    found = fo.HDRF().allocate(teams()).explain("vision")
    assert found.sentences[:2] == (
        "vision stops at 50 gpu because gpu is full and parse has reached its task limit; nlp stops there too, "
        "at the same level (0.5).",
        "One more gpu would give it 0.5 gpu, and cost nobody anything.",
    )
    assert [m.name for m in found.members] == ["label", "parse"]
    assert [m.binding[0].kind for m in found.members] == ["resource", "limit"]


def test_a_team_of_one_is_explained_by_either_name() -> None:
    answer = fo.HDRF().allocate(teams())
    team, user = answer.explain("nlp"), answer.explain("train")
    assert team.tasks == user.tasks == pytest.approx(25) and team.members == ()
    assert team.sentences[0].startswith("nlp stops at 50 gpu because gpu is full; vision stops there too")
    assert user.sentences[0].startswith("train stops at 25 tasks because gpu is full; label stops there too")


def test_a_team_under_a_label_that_the_hierarchy_does_not_use() -> None:
    orgs = {"org": ["one", "two", "two"], "team": ["nlp", "vision", "vision"]}
    answer = fo.HDRF().allocate(teams().replace(teams=orgs, weights={"two": 2}))
    found = answer.explain("two")
    assert found.sentences == (
        "two stops at 50 gpu because gpu is full and parse has reached its task limit; one stops there too.",
        "One more gpu would give it 0.5 gpu, and cost nobody anything.",
    )
    assert found.units["gpu"] == pytest.approx(50) and not any(b.kind == "weight" for b in found.binding)
    assert any(b.kind == "weight" for b in answer.explain("vision").binding)


def test_a_sum_of_shares_of_a_team() -> None:
    answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(teams())  # parse adds 20 / 1000 to the sum of vision
    found = answer.explain("vision")
    assert found.level == pytest.approx(0.51) and found.beside == ("nlp",)
    assert found.binding[0].units == pytest.approx(0.5) and found.binding[1].kind == "limit"
    assert fo.DRF().allocate(teams()).explain("vision").units["gpu"] == pytest.approx(50)


def test_a_user_who_loses_within_a_team_that_does_not_is_named() -> None:
    names: dict[str, Any] = {"users": ["a", "b", "c"], "resources": ["cpu", "gpu"], "teams": {"team": ["t", "t", "u"]}}
    found = fo.DRF().allocate(fo.Instance([[1, 0], [0, 1], [1, 1]], [20, 2], **names)).explain("u")
    # half of one more gpu is of b and half of c, whose cpu is then missing for a: t has as many tasks as before
    assert found.sentences[1] == "One more gpu would give it 0.5 gpu, and take 0.5 tasks from a."


def test_a_split_inside_a_team_that_is_open_is_said_to_be() -> None:
    two = of_gpus(4, 12, teams={"team": ["x", "x", "y", "y"]})
    curved = fo.Policy(fo.AlphaFair(2, fo.OfTeam()), [fo.AlphaFair(1, fo.OfTeam()) >= -10.0])
    answer = curved.allocate(two)
    assert answer.explain("a").sentences[-1].endswith("compares teams: see x for what stops it.")
    assert answer.explain("x").sentences[0].startswith("x stops at 6 gpu because gpu is full; y")


def test_guarantees_of_teams() -> None:
    given = of_gpus(3, 12, teams={"team": ["x", "x", "y"]}, guarantees={"x": {"gpu": 10}})
    for policy in (fo.HDRF(), fo.DRF()):
        answer = policy.allocate(given)
        assert answer.explain("x").sentences[0] == (
            "x stops at 10 gpu because it gets no more than its guarantee of 10 gpu."
        )
        assert "the guarantee of x comes first" in answer.explain("y").sentences[0]
        assert answer.explain("a").sentences[0] == (
            "a stops at 5 tasks because x gets no more than its guarantee of 10 gpu."
        )


def test_a_long_name_of_a_resource_is_shortened() -> None:
    answer = fo.DRF().allocate(of_gpus(1, 4).replace(resources=["nvidia.com/gpu"]))
    found = answer.explain("a")
    assert found.sentences[0] == "a stops at 4 tasks because gpu is full." and found.binding[0].name == "nvidia.com/gpu"


# -- what is not known, and mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [fo.PSDSF(), fo.NaivePerServer(fo.DRF()), fo.HFFMRA()],
    ids=lambda one: one.name,
)
def test_other_mechanisms_are_told_by_what_is_full_only(mechanism: Any) -> None:
    found = mechanism.allocate(pool()).explain("web")
    assert {b.kind for b in found.binding} == {"fact"} and all(b.gain is None for b in found.binding)
    assert "where it runs, " in found.sentences[0] and found.sentences[1].endswith("is not known.")


def test_whole_tasks_are_told_by_what_is_full_only() -> None:
    found = fo.DRF().allocate(of_gpus(2, 4), integral=True).explain("a")
    assert str(found) == (
        "a has 2 tasks; where it runs, gpu is full. What would give it more in whole tasks is not known."
    )


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInstance, match="there is no user 'wed'; did you mean 'web'"):
        fo.DRF().allocate(pool()).explain("wed")
    with pytest.raises(InvalidInstance, match=r"there is no user \['web'\]; "):
        fo.DRF().allocate(pool()).explain(["web"])  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="there is no user or team 'visoin'; did you mean 'vision'"):
        fo.HDRF().allocate(teams()).explain("visoin")


def test_an_explanation_is_plain_data_too() -> None:
    found = fo.HDRF().allocate(teams()).explain("vision")
    data = found.to_dict()
    assert data["format"] == "fairopt.explanation/1" and data["sentences"] == found.sentences
    assert [m["name"] for m in data["members"]] == ["label", "parse"] and repr(found) == str(found)
    page = found._repr_html_()
    assert page is None or "Users of vision" in page


# -- every statement, by changes of random instances -----------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_what_a_sentence_names_gives_more_and_what_it_does_not_name_changes_nothing(part: int) -> None:
    for seed in range(2000 + part, 2012, 4):
        found = check(seed)
        assert found is None or not found.faults, (seed, found)


def test_shares_are_held_at_their_coefficients() -> None:
    cluster = pool(task_limits={"web": 30})
    answer = fo.DRF().allocate(cluster)
    more = cluster.with_capacities([202.0, 200.0, 200.0])
    gained = answer.explain("web").binding[0].gain or 0.0
    level = 202 / (40 * 5 + 8 * 25)  # tasks of web are 25 times the level, whatever the total
    assert 12.5 + 2 * gained == pytest.approx(25 * level)
    assert np.allclose(fo.DRF().allocate(more).tasks, [5 * level, 25 * level])  # here the ratio of shares is the same


def test_what_a_team_is_guaranteed_is_named_in_units_of_what_it_gets_no_more_of():
    pool = fo.Instance(
        [[8, 1], [8, 0], [1, 1]],
        [640, 64],
        resources=["cpu", "gpu"],
        users=["train", "parse", "other"],
        teams={"team": ["v", "v", "n"]},
        guarantees={"v": {"cpu": 400, "gpu": 20}},
    )
    answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(pool)
    assert (
        answer.explain("v")
        .sentences[0]
        .startswith("v stops at 596 cpu because cpu is full and it gets no more than its guarantee of 20 gpu")
    )


def test_a_team_at_a_guarantee_that_cannot_grow_is_said_to_be_there():
    pool = of_gpus(2, 12, teams={"team": ["A", "B"]}, guarantees={"A": {"gpu": 4}, "B": {"gpu": 8}})
    for policy in (fo.HDRF(), fo.DRF()):
        told = policy.allocate(pool).explain("B").sentences[0]
        assert told == "B stops at 8 gpu because it gets no more than its guarantee of 8 gpu."


def test_a_limit_that_is_guaranteed_in_full_binds_together_with_the_guarantee():
    pool = of_gpus(3, 64, task_limits=[30, None, None], guarantees=[30, 16, 16])
    told = fo.DRF().allocate(pool).explain("a")
    assert {b.name for b in told.binding if b.kind == "together"} == {"a", "the guarantee of a"}
    assert "its own task limit and the guarantee of a bind together" in told.sentences[0]
