"""What-ifs against two separate calls, and who gains and loses by hand."""

import json
from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.plots.gains import gains as picture
from fairopt.questions.changed import changed
from fairopt.report.what_if import certificates, what_if_page, what_if_tables
from tests.pictures import legible

POOL: dict[str, Any] = {
    "demands": [[40, 8, 8], [8, 5, 1]],
    "capacities": [200, 200, 200],
    "users": ["batch", "web"],
    "resources": ["bandwidth", "memory", "cpu"],
}
# HDRF: half of the 10 GPUs to each team, and all of parse, which needs none: 5, 10 and 5 tasks.
TEAMS: dict[str, Any] = {
    "demands": [[4, 1], [1, 0], [2, 1]],
    "capacities": [[30, 5], [30, 5], [40, 0]],
    "servers": ["g1", "g2", "c1"],
    "users": ["train", "parse", "tune"],
    "resources": ["cpu", "gpu"],
    "teams": {"team": ["vision", "vision", "nlp"]},
    "task_limits": [9, 10, 8],
    "guarantees": {"nlp": {"gpu": 2, "cpu": 3}},
}


def of(base: dict[str, Any], **others: Any) -> fo.Instance:
    return fo.Instance(**{**base, **others})


TEN: list[tuple[Any, dict[str, Any], dict[str, Any], fo.Instance]] = [
    (fo.DRF(), POOL, {"weights": {"web": 2}}, of(POOL, weights=[1, 2])),
    (fo.NashWelfare(), POOL, {"capacities": [200, 300, 200]}, of(POOL, capacities=[200, 300, 200])),
    (
        fo.KDF(2),
        POOL,
        {"drop_resources": "memory"},
        of(POOL, demands=[[40, 8], [8, 1]], capacities=[200, 200], resources=["bandwidth", "cpu"]),
    ),
    (fo.MostTasks(), POOL, {"without": "web"}, of(POOL, demands=[[40, 8, 8]], users=["batch"])),
    (
        fo.FDS(2),
        POOL,
        {"task_limits": {"web": 3}, "guarantees": {"batch": 4}},
        of(POOL, task_limits=[None, 3], guarantees=[4, 0]),
    ),
    (fo.HDRF(), TEAMS, {"add_servers": {"g2": 2}}, of(TEAMS, counts=[1, 3, 1])),
    (fo.HDRF(), TEAMS, {"weights": {"nlp": 3}}, of(TEAMS, weights={"nlp": 3})),
    (
        fo.HDRF(),
        TEAMS,
        {"guarantees": {"vision": {"gpu": 7}}},
        of(TEAMS, guarantees={"nlp": TEAMS["guarantees"]["nlp"], "vision": {"gpu": 7}}),
    ),
    (
        fo.DRF(),
        TEAMS,
        {"eligible": {"vision": ["g1"]}},
        of(TEAMS, eligible=[[True, False, False], [True, False, False], [True, True, False]]),
    ),
    (
        fo.HDRF(),
        TEAMS,
        {"drop_resources": ["gpu"], "add_servers": {"c1": 1, "g1": 1}, "without": ["parse"]},
        of(
            TEAMS,
            demands=[[4], [2]],
            capacities=[[30], [30], [40]],
            users=["train", "tune"],
            resources=["cpu"],
            teams={"team": ["vision", "nlp"]},
            task_limits=[9, 8],
            guarantees={"nlp": {"cpu": 3}},
            counts=[2, 1, 2],
            eligible=[[True, True, False]] * 2,  # where the GPUs are
        ),
    ),
]


@pytest.mark.parametrize(("policy", "base", "changes", "by_hand"), TEN)
def test_ten_what_ifs_are_two_separate_certified_calls(
    policy: Any, base: dict[str, Any], changes: dict[str, Any], by_hand: fo.Instance
) -> None:
    found = fo.what_if(policy, of(base), **changes)
    before, after = policy.allocate(of(base)), policy.allocate(by_hand)
    assert found.before.instance == of(base) and found.after.instance == by_hand
    np.testing.assert_allclose(found.before.tasks, before.tasks, rtol=1e-6)
    np.testing.assert_allclose(found.after.tasks, after.tasks, rtol=1e-6)
    assert found.before.certificate.ok and found.after.certificate.ok
    lines = certificates(found)
    assert [line.partition(": gap")[0] for line in lines] == ["before: certified", "after: certified"]
    was, now = (dict(zip(a.instance.users, a.tasks, strict=True)) for a in (before, after))
    for name, row in found.to_dict()["users"].items():
        assert row["tasks"]["before"] == pytest.approx(was[name], rel=1e-6)
        assert row["tasks"]["after"] == pytest.approx(now.get(name, 0.0), rel=1e-6)


def test_gains_are_differences_in_tasks_units_and_shares() -> None:
    found = fo.what_if("drf", of(POOL), weights={"web": 2})
    rows = found.gains()
    np.testing.assert_allclose(rows.before[:, 0], [2.5, 12.5])
    np.testing.assert_allclose(
        rows.difference, [[-5 / 6, -100 / 3, -20 / 3, -20 / 3], [25 / 6, 100 / 3, 125 / 6, 25 / 6]]
    )
    np.testing.assert_allclose(rows.shares, [[1 / 2, 1 / 3], [1 / 2, 2 / 3]])
    assert rows.states == ("loses", "gains") and rows.resources[rows.scarcest] == "bandwidth"
    assert found.sentences == (
        "15 tasks before, 18.3333 after",
        "web gains 4.167 tasks (12.5 to 16.67); batch loses 0.8333 tasks (2.5 to 1.667)",
    )
    assert found.warnings == ()


def test_a_team_whose_members_gain_and_lose_is_judged_by_the_scarcest_resource() -> None:
    few = of(TEAMS, capacities=[[12, 5], [12, 5], [3, 0]], guarantees=None)
    found = fo.what_if(fo.HDRF(), few, drop_resources="cpu", without=["parse"], weights={"vision": 2})
    assert found.gains("team").states == ("gains", "loses")
    mixed = fo.what_if("drf", few, task_limits={"train": 1, "parse": 20})
    assert mixed.gains().states[:2] == ("loses", "gains")
    assert mixed.gains("team").states[0] == "loses"  # by CPUs, though it runs more tasks
    tasks, cpus, _ = mixed.gains("team").difference[0]
    assert tasks > 0 > cpus and mixed.to_dict()["scarcest"] == "cpu"


def test_who_is_left_out_does_not_lose_and_others_are_counted() -> None:
    found = fo.what_if(fo.HDRF(), of(TEAMS), without=["vision"])
    assert found.changes == ("without team vision (2 users)",)
    assert found.gains().states == ("left out", "left out", "gains")
    assert found.gains("team").states == ("left out", "gains")
    assert found.to_frame("team").loc["vision", "gpu after"] == 0
    assert found.sentences[1] == "nlp gains 3 gpu (5 to 8)"


def test_a_team_without_one_of_its_members_is_compared_by_those_who_stay() -> None:
    # parse runs its 10 tasks before and after
    found = fo.what_if(fo.HDRF(), of(TEAMS), without="train")
    vision, parse = found.gains("team"), found.gains()
    assert found.gains().states == ("left out", "even", "gains")
    np.testing.assert_allclose(vision.before[0], parse.before[1])
    np.testing.assert_allclose(vision.after[0], parse.after[1])
    np.testing.assert_allclose(vision.shares[0], parse.shares[1])
    assert vision.states == ("even", "gains")
    few = fo.what_if("drf", of(TEAMS, task_limits=[9, None, 8]), without="train")  # parse gets the CPUs of train
    (row,) = [row for name, row in few.to_dict()["teams"]["team"].items() if name == "vision"]
    assert row["state"] == "gains" and row["units"]["cpu"]["difference"] > 0
    assert few.sentences[1].startswith(f"vision gains {row['units']['cpu']['difference']:.4g} cpu")


def test_a_team_with_other_members_only_is_compared_by_all_of_them() -> None:
    three = fo.Instance([[1]] * 3, [9], users=["a", "b", "c"], teams={"team": ["x", "x", "y"]})
    found = fo.what_if("drf", three, teams={"team": ["y", "y", "x"]})
    rows = found.gains("team").rows()
    assert {name: (row["state"], row["tasks"]["difference"]) for name, row in rows.items()} == {
        "x": ("loses", pytest.approx(-3)),
        "y": ("gains", pytest.approx(3)),
    }


def test_a_label_of_nobody_has_no_rows() -> None:
    found = fo.what_if(fo.HDRF(), of(TEAMS, teams={"org": [None] * 3, **TEAMS["teams"]}), without="tune")
    assert found.to_dict()["teams"]["org"] == {} and len(what_if_tables(found)) == 4


def test_a_share_that_falls_only_because_a_total_grew_is_warned_of() -> None:
    limited = of(POOL, task_limits=[None, 5])  # web runs all its 5 tasks: 40 of bandwidth, a fifth of it
    found = fo.what_if("drf", limited, capacities=[400, 200, 200])
    (warning,) = found.warnings
    assert warning == (
        "dominant shares of web (20 to 12.5 %) fall although their tasks do not, only because the total of bandwidth "
        "grew: compare tasks and units"
    )
    assert found.gains().states == ("gains", "even")
    back = fo.what_if("drf", limited.with_capacities([400, 200, 200]), capacities=[200, 200, 200])
    (warning,) = back.warnings
    assert "web (12.5 to 20 %) rise although" in warning and "the total of bandwidth shrank" in warning
    assert fo.what_if("drf", of(POOL), capacities=[400, 400, 400]).warnings == ()  # shares are as before


def test_tasks_of_users_who_lose_are_no_reason_to_warn() -> None:
    found = fo.what_if("drf", of(POOL), capacities=[200, 200, 400], weights={"web": 9})
    assert found.gains().states[0] == "loses" and not found.warnings


def test_a_change_without_effect_on_the_answer_is_said() -> None:
    found = fo.what_if("drf", of(POOL), capacities=[200, 200, 300], task_limits={"batch": 90})
    assert found.sentences == ("15 tasks before, 15 after", "no user gains or loses")
    assert found.changes == (
        "other capacities: in all cpu 300 instead of 200",
        "task limit of batch 90 instead of none",
    )
    found = fo.what_if(fo.HDRF(), of(TEAMS, held=[1, 1, 1]), held=[2, 2, 2])
    assert found.changes == ("other tasks that run now, which no policy reads",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "no change is given; give add_servers={'g1': 1}"),
        ({"weights": {"nlp": 1}}, "nothing changes: the instance is so already"),
        ({"add_servers": {}}, "no change is given"),
        ({"add_servers": {"g3": 1}}, "no server 'g3'; did you mean"),
        ({"add_servers": {"g1": 1.5}}, r"add_servers\['g1'\] is 1.5; give a whole number of at least 1"),
        ({"add_servers": {"g1": -1}}, "is -1; give a whole number"),
        ({"add_servers": {"g1": 1e300}}, "is 1e\\+300; give a whole number of at most"),
        ({"add_servers": ["g1"]}, r"add_servers is \['g1'\]; give a dict such as {'g1': 4}"),
        ({"drop_resources": "gpus"}, "no resource 'gpus'; did you mean 'gpu'"),
        ({"drop_resources": ["gpu", "cpu"]}, "no user|no resource is left"),
        ({"drop_resources": "cpu"}, "user 'parse' needs nothing but cpu; leave it out too"),
        ({"without": "visio"}, "without names an unknown user or team 'visio'; did you mean 'vision'"),
        ({"without": ["vision", "nlp"]}, "no user is left"),
        ({"without": 3}, "without is 3, and 3 is no name; give a name or a list"),
        ({"drop_resources": [["gpu"]]}, r"drop_resources is \[\['gpu'\]\], and \['gpu'\] is no name"),
        ({"weights": {"nlp": -2}}, "give a positive"),
        ({"waits": {"nlp": 2}}, "no 'waits'; did you mean 'weights'"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(fo.errors.FairoptError, match=words):
        fo.what_if(fo.HDRF(), of(TEAMS), **changes)


def test_other_arguments_are_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="give an Instance second"):
        fo.what_if("drf", POOL, without="web")  # type: ignore[arg-type]
    with pytest.raises(fo.errors.InvalidBlock, match="has no allocate"):
        fo.what_if(fo.DRF, of(POOL), without="web")
    found = fo.what_if("drf", of(POOL), without="web")
    with pytest.raises(fo.errors.InvalidBlock, match="no table by 'team'"):
        found.to_frame("team")
    with pytest.raises(fo.errors.InvalidBlock, match="there is no picture"):
        picture(found, "bars")


def test_an_error_says_of_which_of_the_two_instances_it_is() -> None:
    with pytest.raises(fo.errors.Infeasible) as caught:
        fo.what_if(fo.HDRF(), of(TEAMS), guarantees={"vision": {"gpu": 9}})
    assert caught.value.__notes__ == ["this is after the change (guarantee of vision 9 gpu instead of nothing)"]
    with pytest.raises(fo.errors.OutOfDomain) as domain:
        fo.what_if(fo.KDF(3), of(TEAMS), without="nlp")
    assert domain.value.__notes__ == ["this is before the change"]


def test_a_name_in_a_row_of_identical_servers_is_enough() -> None:
    merged = of(TEAMS).merged()
    assert merged.servers == ("g[1-2]", "c1")
    assert changed(merged, {"g2": 1, "g1": 2}).counts.tolist() == [5, 1]


def test_tables_plain_data_frames_pages_and_pictures() -> None:
    found = fo.what_if(fo.HDRF(), of(TEAMS), add_servers={"g1": 1})
    first, teams, users = what_if_tables(found)
    assert first.first.cells == ["before", "after"] and [c.header for c in first.groups[1]] == ["cpu", "gpu"]
    assert (teams.first.header, users.first.header) == ("team", "user")
    assert [c.header for c in teams.groups[0]] == ["state", "gpu: before", "after", "+/-"]
    data = json.loads(json.dumps(found.to_dict()))
    assert data["format"] == "fairopt.what-if/1" and data["scarcest"] == "gpu"
    assert data["before"]["certificate"]["ok"] and data["after"]["capacities"] == {"cpu": 130, "gpu": 15}
    assert data["teams"]["team"]["vision"]["units"]["gpu"] == {"before": 5, "after": 7.5, "difference": 2.5}
    pandas = pytest.importorskip("pandas")
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame) and frame.loc["train", "tasks difference"] == pytest.approx(2.5)
    page = what_if_page(found)
    assert page is None or ("after: certified" in page and "1 more server like g1" in page)
    assert repr(found) == "<WhatIf of HDRF: 1 more server like g1>"


def test_the_picture_names_what_each_team_gains_and_loses() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    ax = fo.what_if(fo.HDRF(), of(TEAMS), weights={"nlp": 4}).plot()
    assert [text.get_text() for text in ax.texts] == ["-3 gpu (5 to 2)", "+3 gpu (5 to 8)"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([-30, 30])
    assert legible(ax.figure)
    n = 30
    many = fo.Instance(np.ones((n, 1)), [n], users=[f"{'user with a long name ' * 3}{k}" for k in range(n)])
    ax = fo.what_if("drf", many, weights={many.users[0]: 5}).plot()
    assert len(ax.patches) == 20 and "20 of 30" in ax.figure.get_suptitle().replace("\n", " ")
    assert legible(ax.figure)


def test_who_pays_for_a_guarantee_inside_a_team_is_said_and_a_limit_lets_siblings_pay_all():
    cluster = fo.Instance(
        [[1], [1], [1]],
        [100],
        users=["hep", "bio", "ml"],
        resources=["gpu"],
        teams={"account": ["physics", "bios", "mls"], "top": ["science", "science", "eng"]},
    )
    policy = fo.HDRF(by=("top", "account"))
    found = fo.what_if(policy, cluster, guarantees={"physics": {"gpu": 40}})
    assert found.after.tasks == pytest.approx([40, 20, 40])
    paid = "15 gpu more for physics: science without it pays 5, all others 10"
    assert found.sentences[2] == f"{paid}; a limit of 50 gpu on science makes it pay all"
    limit = {"name": "science", "resource": "gpu", "amount": 50, "of": ["science"]}
    found = fo.what_if(policy, cluster, guarantees={"physics": {"gpu": 40}}, limits=[limit])
    assert found.after.tasks == pytest.approx([40, 10, 50])
    assert found.sentences[2] == "15 gpu more for physics: science without it pays 15, all others 0"
    assert len(fo.what_if(policy, cluster, guarantees={"science": {"gpu": 60}}).sentences) == 2
