"""Differences of two answers against answers to instances made by hand, and steps that add up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.instance.limits import Limit
from fairopt.questions.differences import EQUAL, _with_jobs, _with_old_weights

POOL = fo.Instance([[1], [1]], [12], users=["a", "b"], resources=["cpu"])
CLUSTER: dict[str, Any] = {
    "demands": [[4, 1], [1, 0], [2, 1]],
    "capacities": [[30, 5], [40, 0]],
    "servers": ["g[1-2]", "c1"],
    "counts": [2, 1],
    "users": ["train", "parse", "tune"],
    "resources": ["cpu", "gpu"],
    "teams": {"team": ["vision", "vision", "nlp"]},
    "task_limits": [9, 10, 8],
}


def of(**others: Any) -> fo.Instance:
    return fo.Instance(**{**CLUSTER, **others})


def diff(old: fo.Instance, new: fo.Instance, policy: Any = None, other: Any = None) -> Any:
    policy = policy or fo.DRF()
    return fo.questions.diff(policy.allocate(old), (other or policy).allocate(new))


def added(found: Any, by: str | None = None) -> dict[str, dict[str, float]]:
    """Tasks that each step adds, by name."""
    names = found.whole.gains(by).names
    return {
        step: dict(zip(names, rows[:, 0].round(6).tolist(), strict=True)) for step, rows in found.by_step(by).items()
    }


# -- steps against numbers by hand ------------------------------------------------------------------------------------


def test_jobs_servers_and_weights_are_the_answers_by_hand() -> None:
    new = fo.Instance([[1]] * 3, [18], users=["a", "b", "c"], resources=["cpu"], weights={"b": 4})
    found = diff(POOL, new)
    assert added(found) == {
        "jobs": {"a": -2, "b": -2, "c": 4},  # 6, 6 -> 4, 4, 4
        "servers": {"a": 2, "b": 2, "c": 2},  # 6, 6, 6
        "weights": {"a": -3, "b": 6, "c": -3},  # 3, 12, 3
    }
    assert [list(step.changes) for step in found.steps.values()] == [
        ["with c"],
        ["other capacities: in all cpu 18 instead of 12"],
        ["weight of b 4 instead of 1"],
    ]
    assert found.sentences[:3] == (
        "12 tasks before, 18 after",
        "b gains 6 tasks (6 to 12); a loses 3 tasks (6 to 3)",
        "because of jobs (with c): a loses 2 tasks (6 to 4); b loses 2 tasks (6 to 4)",
    )
    assert [answer.certificate.ok for answer in found.answers.values()] == [True] * 4
    assert [*found.answers] == ["old", "after jobs", "after servers", "after weights"]


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("jobs", {"task_limits": {"tune": 3}}),
    ("jobs", {"demands": [[4, 2], [1, 0], [2, 1]]}),
    ("jobs", {"eligible": {"tune": ["c1", "g[1-2]"], "parse": ["c1"]}}),
    ("servers", {"counts": [3, 1]}),
    ("servers", {"capacities": [[30, 4], [50, 0]]}),
    ("weights", {"weights": {"nlp": 3}}),
    ("weights", {"guarantees": {"vision": {"gpu": 7}}}),
    ("weights", {"limits": [{"name": "most", "resource": "gpu", "amount": 2, "of": {"nlp": None}}]}),
]


@pytest.mark.parametrize(("step", "changes"), CHANGES)
def test_one_change_is_one_step_and_what_what_if_says(step: str, changes: dict[str, Any]) -> None:
    found, by_hand = diff(of(), of().replace(**changes), fo.HDRF()), fo.what_if(fo.HDRF(), of(), **changes)
    assert [*found.steps] == [step]
    np.testing.assert_allclose(found.by_step()[step], by_hand.gains().after - by_hand.gains().before, atol=1e-9)
    assert found.steps[step].changes == found.whole.changes == by_hand.changes
    back = diff(of().replace(**changes), of(), fo.HDRF())
    np.testing.assert_allclose(back.by_step()[step], -found.by_step()[step], atol=1e-9)


def test_a_change_of_policy_is_a_step_of_its_own() -> None:
    found = diff(of(), of(task_limits=[9, 10, 3]), fo.DRF(), fo.MostTasks())
    assert [*found.steps] == ["jobs", "policy"]
    mid = found.answers["after jobs"]
    assert mid.policy == fo.DRF() and mid.instance == of(task_limits=[9, 10, 3])
    whole = fo.questions.diff(fo.DRF().allocate(of()), fo.DRF().allocate(of(), integral=True))
    assert [*whole.steps] == ["policy"]  # whole tasks


def test_teams_count_all_members_on_both_sides() -> None:
    new = of(users=["train", "parse", "tune-2"], task_limits=[9, 10, 4])
    found = diff(of(), new, fo.HDRF())
    assert added(found, "team") == {"jobs": {"vision": 1, "nlp": -1}}  # 5 GPUs each of 10; then 6 and 4
    assert found.steps["jobs"].changes == ("without tune", "with tune-2")  # nlp is in both
    assert found.whole.gains("team").states == ("gains", "loses")


def test_users_who_come_and_go_are_neither_gains_nor_losses() -> None:
    found = diff(POOL, POOL.replace(users=["c", "d"]))
    assert found.sentences[1] == "no user that is in both gains or loses"
    assert found.steps["jobs"].changes == ("without a", "without b", "with c", "with d")


def test_a_resource_of_one_answer_comes_with_the_jobs() -> None:
    old = fo.Instance([[1], [1]], [[10], [4]], users=["a", "b"], resources=["cpu"], servers=["s", "t"])
    new = fo.Instance(
        [[1, 0], [1, 1]], [[10, 2], [4, 0]], users=["a", "b"], resources=["cpu", "efa"], servers=["s", "t"]
    )
    found = diff(old, new)
    assert [*found.steps] == ["jobs"] and "efa is shared too" in found.steps["jobs"].changes
    # a 7 and b 7 of 14 CPUs; then a 12.25 and b 1.75, of the two efa: shares of 7/8
    assert added(found) == {"jobs": {"a": 5.25, "b": -5.25}} and found.whole.resources == ("cpu",)
    assert [*diff(new, old).steps] == ["jobs"]


def test_new_users_run_on_old_servers_as_on_the_new_ones_of_their_name_or_size() -> None:
    new = of(
        servers=["g[2-4]", "d1"],
        counts=[3, 1],
        users=["train", "video", "tune"],
        eligible={"train": ["d1"], "video": ["g[2-4]"], "tune": ["g[2-4]"]},
        demands=[[4, 0], [1, 0], [2, 1]],
    )
    made = _with_jobs(of(), new)
    assert made.servers == ("g[1-2]", "c1") and made.counts.tolist() == [2, 1]
    assert made.eligible.tolist() == [[False, True], [True, False], [True, False]]  # d1 is of the size of c1
    gone = new.replace(servers=["x", "y"], capacities=[[31, 6], [41, 0]])
    # as before, or where tasks fit
    assert _with_jobs(of(), gone).eligible.tolist() == [[True, False], [True, True], [True, False]]


def test_users_that_run_nowhere_on_the_old_servers_come_with_the_new_ones() -> None:
    old = fo.Instance([[1, 0]], [[8, 0]], users=["a"], resources=["cpu", "gpu"], servers=["c"])
    new = fo.Instance(
        [[1, 0], [1, 1]], [[8, 0], [8, 2]], users=["a", "b"], resources=["cpu", "gpu"], servers=["c", "g"]
    )
    found = diff(old, new)
    assert [*found.steps] == ["servers"] and found.steps["servers"].changes[-1] == "with b"


def test_weights_guarantees_and_limits_stay_the_old_ones_until_their_step() -> None:
    on_g: dict[str, Any] = {"name": "on g", "resource": "gpu", "amount": 3, "of": {"vision": ["g[1-2]"]}}
    anywhere: dict[str, Any] = {"name": "cpu", "resource": "cpu", "amount": 20, "of": {"tune": None, "parse": None}}
    old = of(weights={"vision": 2, "tune": 5}, guarantees={"nlp": {"gpu": 1}}, limits=[on_g, anywhere])
    later = {"users": ["train", "video", "tune"], "teams": {"team": ["vision", "nlp", "nlp"]}}
    more: dict[str, Any] = {**on_g, "amount": 4, "of": {"vision": ["g[1-2]"], "video": ["g[1-2]"]}}
    now: dict[str, Any] = {
        "weights": {"vision": 3, "video": 7, "nlp": 9},
        "limits": [more, {**anywhere, "of": ["tune"]}],
    }
    new = of(**later, **now)
    made = _with_jobs(old, new)
    assert made.own_weights.tolist() == [1, 7, 5] and made.team_weights == {"vision": 2}
    assert made.team_guarantees == {"nlp": {"gpu": 1}}
    where = (True, False)
    assert made.limits == (
        Limit("on g", "gpu", 3, (("vision", where), ("video", where))),
        Limit("cpu", "cpu", 20, (("tune", None),)),
    )
    assert _with_old_weights(new, old, new, np.arange(2)).limits == made.limits
    other = new.replace(servers=["h1", "c1"], counts=[2, 1], limits=[{**on_g, "amount": 5, "of": {"vision": ["h1"]}}])
    limits = _with_old_weights(other, old, other, np.arange(2)).limits  # those on servers change with the servers
    assert limits == (Limit("cpu", "cpu", 20, (("tune", None),)), Limit("on g", "gpu", 5, (("vision", where),)))


def test_a_step_without_an_answer_is_joined_with_the_next() -> None:
    old = of(guarantees={"train": 8})
    assert [*diff(old, of(counts=[1, 1])).steps] == ["servers and weights"]  # 8 of 5 GPUs
    assert [*diff(of(counts=[1, 1]), old).steps] == ["servers", "weights"]


def test_equal_answers_say_so() -> None:
    held = of(held=[1, 2, 3])
    for new in (of(), held, of(notes=["read again"])):
        found = diff(of(), new)
        assert not found.steps and found.sentences == (EQUAL,) and repr(found) == "<Diff of DRF: nothing changed>"
        assert found.by_step() == {} and found.to_dict()["changes"] == {}


@pytest.mark.parametrize("size", [12.0, 12e-9])
def test_another_optimum_of_the_same_instance_is_named(size: float) -> None:
    answer = fo.MostTasks().allocate(POOL.replace(capacities=[size]))
    one, other = (replace(answer, tasks_by_server=np.array(tasks)) for tasks in ([[size], [0.0]], [[0.0], [size]]))
    found = fo.questions.diff(one, other)
    assert [*found.steps] == ["another optimum"]
    assert found.by_step()["another optimum"][:, 0].tolist() == [-size, size]
    assert found.sentences[2].startswith("because of another optimum: b gains")


# -- steps that add up ------------------------------------------------------------------------------------------------


def draw(rng: np.random.Generator) -> fo.Instance:
    """Users of teams on servers, of which others come and go."""
    n, s = rng.integers(1, 6), rng.integers(1, 4)
    resources = ["cpu", "gpu", "memory"][: rng.integers(1, 4)]
    m = len(resources)
    demands = rng.integers(0, 4, (n, s, m) if rng.random() < 0.2 else (n, m))
    demands[..., 0] += 1
    capacities = rng.integers(0, 3, (s, m)) * rng.integers(5, 30)
    capacities[0] += 10
    users = rng.choice([f"u{k}" for k in range(7)], n, replace=False).tolist()
    teams = rng.choice(["A", "B", "C"], n).tolist()
    servers = rng.choice([f"n{k}" for k in range(5)], s, replace=False).tolist()
    eligible = rng.random((n, s)) < 0.8
    eligible[:, 0] = True
    limit = {"name": "L", "resource": "cpu", "amount": 9, "of": {teams[0]: None if s == 1 else servers[:1]}}
    return fo.Instance(
        demands,
        capacities.astype(float),
        users=users,
        resources=resources,
        servers=servers,
        counts=rng.integers(1, 4, s),
        eligible=eligible,
        teams={"team": teams},
        task_limits=rng.integers(1, 9, n),
        weights={teams[0]: 2, users[-1]: 3},
        guarantees=rng.integers(0, 2, n) * (rng.random() < 0.3),
        rates=rng.integers(1, 4, (n, s)) if rng.random() < 0.2 else None,
        limits=[limit] if rng.random() < 0.3 else None,
    )


@pytest.mark.parametrize("seed", range(12))
def test_steps_add_up_and_in_swapped_order_the_whole_is_minus(seed: int) -> None:
    rng = np.random.default_rng(seed)
    policies: list[Any] = [fo.DRF(), fo.HDRF(), fo.NashWelfare()]
    old, new = (policies[rng.integers(3)] for _ in range(2))
    try:
        answers = old.allocate(draw(rng)), new.allocate(draw(rng))
    except fo.errors.Infeasible:
        pytest.skip("guarantees that do not fit")
    found, back = fo.questions.diff(*answers), fo.questions.diff(*reversed(answers))
    assert all(answer.certificate.ok for answer in found.answers.values())
    for by, alone in ((None, False), ("team", False), ("team", True)):
        gains, minus = found.whole.gains(by, alone), back.whole.gains(by, alone)
        whole = gains.after - gains.before
        np.testing.assert_allclose(sum(found.by_step(by, alone).values()), whole, atol=1e-9)
        rows = [minus.names.index(name) for name in gains.names]
        columns = [0, *(1 + minus.resources.index(r) for r in gains.resources)]
        np.testing.assert_allclose((minus.after - minus.before)[rows][:, columns], -whole, atol=1e-9)
    last = answers[0]
    for step in found.steps.values():
        assert step.before is last
        last = step.after
    assert last is answers[1]


# -- results and the command ------------------------------------------------------------------------------------------


def test_dict_frame_and_page_have_the_same_numbers() -> None:
    found = diff(of(), of(counts=[3, 1], weights={"nlp": 2}), fo.HDRF())
    nlp = found.to_dict()["teams"]["team"]["nlp"]
    assert nlp["state"] == "gains" and nlp["tasks"] == pytest.approx(
        {"before": 5, "servers": 2.5, "weights": 0.5, "after": 8}
    )
    assert nlp["units"]["gpu"] == nlp["tasks"]
    frame = found.to_frame("team")
    assert frame.loc["nlp", "gpu by servers"] == 2.5 and [*frame.columns][:5] == [
        *("state", "tasks before", "tasks by servers", "tasks by weights", "tasks after")
    ]
    assert "What changed, and because of what" in found._repr_html_() and "+2.5" in found._repr_html_()
    with pytest.raises(fo.errors.InvalidBlock, match=r"no table by 'teams'; did you mean 'team'"):
        found.to_frame("teams")


def test_what_cannot_be_compared_is_refused() -> None:
    answer = fo.DRF().allocate(POOL)
    with pytest.raises(fo.errors.InvalidBlock, match=r"old is Instance; give an Allocation, such as"):
        fo.questions.diff(POOL, answer)  # type: ignore[arg-type]
    with pytest.raises(fo.errors.InvalidBlock, match="the two instances have no resource in common"):
        fo.questions.diff(answer, fo.DRF().allocate(POOL.replace(resources=["gpu"])))
    one, other = (fo.DRF().allocate(POOL.replace(units={"cpu": unit})) for unit in ("core", "thread"))
    with pytest.raises(fo.errors.InvalidBlock, match="cpu is in 'core' in one answer, in 'thread' in the other"):
        fo.questions.diff(one, other)
    far = replace(answer, certificate=replace(answer.certificate, gap=0.5))
    with pytest.raises(fo.errors.InvalidBlock, match=r"the new answer is not certified .* solve it again, or give"):
        fo.questions.diff(answer, far)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    fo.HDRF().allocate(of()).save("old.json")
    fo.HDRF().allocate(of(counts=[3, 1])).save("new.json")
    return lambda *words: CliRunner().invoke(app, ["diff", *words], env={"COLUMNS": "100"})


def test_the_command_shows_steps_certificates_and_sentences(run: Any) -> None:
    result = run("old.json", "new.json")
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "What changed because of what, by team" in words and "gpu: before servers after" in words
    assert "after servers: certified: gap" in words and "because of servers (1 more server like g[1-2])" in words
    assert "nothing changed" in run("old.json", "old.json").stdout
    data = json.loads(run("old.json", "new.json", "--json").stdout)
    assert data["changes"] == {"servers": ["1 more server like g[1-2]"]} and data["certificates"]["old"]["ok"]


def test_the_command_reads_answers_of_a_policy_of_ones_own(run: Any) -> None:
    Path("mine.py").write_text(
        "from dataclasses import dataclass\nimport fairopt as fo\n@dataclass(frozen=True)\nclass Half(fo.Share):\n"
        "    def per_task(self, instance):\n        return instance.dominant_shares / 2\n"
        "MINE = fo.Policy(fo.Leximin(Half()))\n"
    )
    fo.datasets.write(of(), "cluster.json")
    fo.datasets.write(of(counts=[3, 1]), "more.json")
    for source, out in (("cluster.json", "a.json"), ("more.json", "b.json")):
        assert CliRunner().invoke(app, ["solve", source, "-p", "mine.py:MINE", "--out", out]).exit_code == 0
    assert run("a.json", "b.json", "--policy", "mine.py:MINE").exit_code == 0
    assert "the old answer is not certified" in (result := run("a.json", "b.json")).stderr and result.exit_code == 2
    assert "none.json cannot be read" in run("none.json", "b.json").stderr
