"""What runs now beside what is fair, checked by hand: numbers, tables, sentences, JSON, frames and pictures."""

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.questions.held import held_now
from fairopt.report.held import held_sentence, held_sentences, held_tables
from fairopt.report.pages import allocation_page
from fairopt.report.tables import describe

INF = np.inf

# The fair answer of HDRF: half of the 10 GPUs to each team, and all of parse, which needs none: 5, 10 and 5 tasks.
TEAMS = fo.Instance(
    [[4, 1], [1, 0], [2, 1]],
    [60, 10],
    users=["train", "parse", "tune"],
    resources=["cpu", "gpu"],
    teams={"team": ["vision", "vision", "nlp"]},
    task_limits=[9, 10, 8],
    held=[8, 6, 2],
)


def of_teams(**changes):
    return fo.HDRF().allocate(TEAMS.replace(**changes))


def alike(limits, held, capacity=12.0, **others):
    """Users of one CPU a task under DRF."""
    n = len(held)
    return fo.DRF().allocate(
        fo.Instance(np.ones((n, 1)), [capacity], task_limits=limits, held=held, resources=["cpu"], **others)
    )


def shown(allocation, width=80):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for table in held_tables(allocation):
        console.print(table)
    return console.export_text()


# -- numbers ------------------------------------------------------------------------------------------------------


def test_fair_held_difference_and_waiting_of_users_are_tasks_and_units():
    found = held_now(of_teams())
    assert found.names == TEAMS.users and found.resources[found.scarcest] == "gpu"
    assert found.fair.tolist() == [[5, 20, 5], [10, 10, 0], [5, 10, 5]]
    assert found.held.tolist() == [[8, 32, 8], [6, 6, 0], [2, 4, 2]]
    assert found.difference.tolist() == [[3, 12, 3], [-4, -4, 0], [-3, -6, -3]]
    assert found.waiting.tolist() == [[1, 4, 1], [4, 4, 0], [6, 12, 6]]
    assert found.states == ("over", "under", "under")  # parse, which needs no GPU, by cpu
    assert found.largest_first == [0, 2, 1]


def test_teams_hold_and_wait_for_the_sums_of_their_members():
    found = held_now(of_teams(), "team")
    assert found.names == ("vision", "nlp") and found.states == ("over", "under")
    assert found.difference.tolist() == [[-1, 8, 3], [-3, -6, -3]]
    assert found.waiting.tolist() == [[5, 8, 1], [6, 12, 6]]  # train waits for one task though vision is over


def test_users_without_a_team_stand_alone_or_are_left_out():
    allocation = of_teams(teams={"team": ["vision", "vision", None]})
    assert held_now(allocation, "team").names == ("vision",)
    both = held_now(allocation, "team", alone=True)
    assert both.names == ("vision", "tune")
    assert both.held.sum(axis=0).tolist() == held_now(allocation).held.sum(axis=0).tolist()


def test_without_a_task_limit_what_waits_is_infinite_only_of_what_tasks_need():
    found = held_now(of_teams(task_limits=[9, None, 8]))
    assert found.waiting.tolist() == [[1, 4, 1], [INF, INF, 0], [6, 12, 6]]
    assert held_now(of_teams(task_limits=[9, None, 8]), "team").waiting.tolist() == [[INF, INF, 1], [6, 12, 6]]
    assert found.rows()["parse"]["units"]["cpu"]["waiting"] is None


def test_tasks_that_run_above_the_limit_are_held_above_a_fair_share_and_wait_for_nothing():
    found = held_now(alike([0, 20], [5, 7]))
    assert found.fair[:, 0].tolist() == [0, 12]
    assert (found.states, found.difference[:, 0].tolist()) == (("over", "under"), [5, -5])
    assert found.waiting[:, 0].tolist() == [0, 13]


def test_differences_within_rounding_are_none_and_larger_ones_are_shown():
    base = alike([9, 9], [6, 6])
    for factor, expected in ((1 + 1e-6, "even"), (1 - 1e-6, "even"), (1 + 1e-3, "under"), (1 - 1e-3, "over")):
        found = held_now(replace(base, tasks_by_server=base.tasks_by_server * factor))
        assert found.states == (expected,) * 2
        assert (found.difference == 0).all() == (expected == "even")
    nothing = held_now(replace(alike([9, 9], [6, 0]), tasks_by_server=np.array([[6.0], [1e-9]])))
    assert nothing.states == ("even", "even")  # 1e-9 of 12 units, whatever the ratio


def test_waiting_tasks_need_the_least_where_demands_differ_by_server():
    instance = fo.Instance(
        [[[2, 1], [1, 3]], [[1, 1], [1, 1]]], [[8, 8], [8, 8]], held=[[1, 2], [0, 4]], task_limits=[5, 4]
    )
    found = held_now(fo.DRF().allocate(instance))
    assert found.held.tolist() == [[3, 4, 7], [4, 4, 4]]
    assert found.waiting.tolist() == [[2, 2, 2], [0, 0, 0]]
    nowhere = instance.replace(eligible=[[True, False], [True, True]])
    assert held_now(fo.DRF().allocate(nowhere)).waiting.tolist() == [[2, 4, 2], [0, 0, 0]]


def test_where_bundles_are_decided_units_are_compared_with_them():
    instance = fo.Instance([[2, 1], [1, 2]], [12, 12], held=[4, 0])
    allocation = fo.HFFMRA().allocate(instance)
    found = held_now(allocation)
    assert found.fair[:, 1:] == pytest.approx(allocation.bundles.sum(axis=1))
    assert found.held.tolist() == [[4, 8, 4], [0, 0, 0]]


def test_what_is_not_known_is_shown_nowhere():
    unknown = fo.HDRF().allocate(TEAMS.replace(held=None))
    assert held_now(unknown) is None and describe(unknown)["held"] is None
    assert held_tables(unknown) == held_sentences(unknown) == []
    assert not {"held", "state", "gpu held"} & {*unknown.to_frame(), *unknown.to_frame("team")}


# -- tables and sentences -----------------------------------------------------------------------------------------


def test_tables_show_teams_then_users_with_the_scarcest_resource_first():
    assert shown(of_teams()).splitlines() == [
        "Held now beside what is fair, by team",
        "team    state  gpu: fair  held  +/-  waiting  tasks: fair  held  +/-  waiting",
        "─────────────────────────────────────────────────────────────────────────────",
        "vision  over           5     8   +3        1           15    14   -1        5",
        "nlp     under          5     2   -3        6            5     2   -3        6",
        "",
        "team    cpu: fair  held  +/-",
        "────────────────────────────",
        "vision         30    38   +8",
        "nlp            10     4   -6",
        "",
        "Held now beside what is fair, by user; *: by another resource than gpu",
        "user   state   gpu: fair  held  +/-  waiting  tasks: fair  held  +/-  waiting",
        "─────────────────────────────────────────────────────────────────────────────",
        "train  over            5     8   +3        1            5     8   +3        1",
        "tune   under           5     2   -3        6            5     2   -3        6",
        "parse  under*          0     0    0        0           10     6   -4        4",
        "",
        "user   cpu: fair  held  +/-",
        "───────────────────────────",
        "train         20    32  +12",
        "tune          10     4   -6",
        "parse         10     6   -4",
        "",
    ]


def test_of_several_labels_the_outermost_is_first():
    teams = {"team": ["vision", "vision", "nlp"], "org": ["ml", "ml", "ml"]}
    titles = [table.title.partition(", by ")[2].split(";")[0] for table in held_tables(of_teams(teams=teams))]
    assert titles == ["org", "team", "user"]
    one_each = of_teams(teams={"team": ["a", "b", "c"]})
    assert [table.first.header for table in held_tables(one_each)] == ["user"]
    both = of_teams(teams={"team": ["a", "b", "c"], "org": ["ml", "ml", "web"]})
    assert [table.first.header for table in held_tables(both)] == ["org", "team"]  # users are teams of one


def test_of_many_users_those_with_the_largest_differences_are_shown_and_fit_80_columns():
    users = [f"a-namespace-of-a-very-long-name-{k:03d}/shape" for k in range(60)]
    allocation = alike(None, np.arange(60.0), capacity=60.0, users=users)
    (table,) = held_tables(allocation)
    assert table.title.endswith("by user (the largest differences)")
    assert table.first.header == "user (20 of 60)" and len(table.first.cells) == 20
    assert "waiting" not in [column.header for column in table.columns]  # nobody says how much is asked for
    lines = shown(allocation).splitlines()
    assert max(map(len, lines)) <= 80
    state, fair, held, apart, *_ = lines[3].split()[1:]
    assert (state, float(fair), held, apart[0], float(apart)) == ("over", 1, "59", "+", 58)


def test_a_sentence_says_who_holds_more_and_less_and_waits():
    (sentence,) = held_sentences(of_teams())
    assert sentence == (
        "held now: vision holds 3 gpu more than its fair share and waits for 1; nlp holds 3 gpu less and waits for 6"
    )
    units = fo.HDRF().allocate(TEAMS.replace(units={"cpu": "core", "gpu": "card"}))
    assert held_sentences(units)[0].startswith("held now: vision holds 3 card of gpu more than its fair share")
    named = fo.HDRF().allocate(TEAMS.replace(resources=["cpu", "nvidia.com/gpu"], units={"cpu": "core"}))
    assert held_sentences(named) == [sentence]
    (many,) = held_sentences(alike(None, [0, 0, 0, 0, 12]))
    assert many == (
        "held now: user5 holds 9.6 cpu more than its fair share; user1 holds 2.4 cpu less; user2 holds 2.4 cpu less; "
        "2 others differ"
    )
    assert held_sentences(alike([9, 9], [6, 6])) == ["held now: each has its fair share"]
    assert held_sentences(fo.DRF().allocate(fo.Instance(np.zeros((0, 1)), [4], held=np.zeros(0)))) == []


def test_the_sentence_on_a_team_or_user_says_what_it_holds_and_waits_for():
    answer = of_teams()
    assert (
        held_sentence(answer, "vision") == "held now: vision holds 8 gpu, 3 more than its fair share, and waits for 1"
    )
    assert held_sentence(answer, "tune") == "held now: tune holds 2 gpu, 3 less than its fair share, and waits for 6"
    assert (
        held_sentence(alike([9, 9], [6, 6]), "user2") == "held now: user2 holds 6 cpu, its fair share, and waits for 3"
    )
    cores = of_teams(units={"cpu": "core", "gpu": ""})
    assert held_sentence(cores, "parse") == ("held now: parse holds 6 cpu, 4 less than its fair share, and waits for 4")
    assert held_sentence(of_teams(held=None), "vision") is None


def test_a_sentence_says_that_a_team_or_all_hold_more_than_there_is():
    assert held_sentences(of_teams(held=[30, 0, 0]))[1:] == [
        "held now: 120 cpu in all (vision 120), but the servers have 60; check what is held, and where",
        "held now: 30 gpu in all (vision 30), but the servers have 10; check what is held, and where",
    ]
    together = held_sentences(alike([9, 9], [7, 7]))
    assert together[1:] == ["held now: 14 cpu in all, but the servers have 12; check what is held, and where"]


# -- data ---------------------------------------------------------------------------------------------------------


def test_frames_have_what_is_held_beside_the_answer():
    users, teams = of_teams().to_frame(), of_teams().to_frame("team")
    names = ["state", "held", "difference", "waiting", "cpu held", "cpu difference", "gpu waiting"]
    assert users.loc["train", ["tasks", *names]].tolist() == [5, "over", 8, 3, 1, 32, 12, 1]
    assert teams.loc["vision", ["tasks", *names]].tolist() == [15, "over", 14, -1, 5, 38, 8, 1]
    named = fo.HDRF().allocate(TEAMS.replace(resources=["held", "gpu"])).to_frame()
    assert named.loc["train", ["held", "held (resource)", "held held"]].tolist() == [8, 20, 32]


def test_the_command_prints_tables_and_sentences_and_the_same_numbers_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    fo.datasets.write(TEAMS.replace(task_limits=[9, 10, None]), "now")
    text = CliRunner().invoke(app, ["solve", "now"]).stdout
    assert "Held now beside what is fair, by team" in text
    assert "held now: vision holds 3 gpu more than its fair share" in " ".join(text.split())
    told = json.loads(CliRunner().invoke(app, ["solve", "now", "--json"]).stdout)["held"]
    assert told["scarcest"] == "gpu" and list(told["users"]) == ["train", "parse", "tune"]
    assert told["teams"]["team"]["nlp"] == {
        "state": "under",
        "tasks": {"fair": 5, "held": 2, "difference": -3, "waiting": None},
        "units": {
            "cpu": {"fair": 10, "held": 4, "difference": -6, "waiting": None},
            "gpu": {"fair": 5, "held": 2, "difference": -3, "waiting": None},
        },
    }
    assert told["users"]["train"]["units"]["gpu"] == {"fair": 5, "held": 8, "difference": 3, "waiting": 1}
    assert told["teams"]["team"]["vision"]["units"]["cpu"]["waiting"] == 8


def test_notebooks_show_the_tables_and_the_sentence():
    pytest.importorskip("jinja2")
    page = allocation_page(of_teams())
    assert "Held now beside what is fair, by team" in page and "vision holds 3 gpu more than its fair share" in page


# -- pictures -----------------------------------------------------------------------------------------------------


def bars(ax):
    """Ends of bars from the top down: of what is fair, what is held, and what waits beyond."""
    return [[bar.get_x() + bar.get_width() for bar in container] for container in ax.containers]


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_bars_are_percentages_of_the_capacity_of_each_resource():
    pytest.importorskip("matplotlib")
    figure = of_teams().plot("held")
    gpu, cpu = figure.axes
    assert (gpu.get_title(), cpu.get_title()) == ("gpu", "cpu")
    assert [label.get_text() for label in gpu.get_yticklabels()] == ["vision", "nlp"]
    assert bars(gpu) == [[50, 50], [80, 20], [90, 80]]
    assert np.ravel(bars(cpu)) == pytest.approx([50, 50 / 3, 38 / 0.6, 4 / 0.6, 46 / 0.6, 16 / 0.6])
    assert words(gpu) == ["50", "50", "80 + 10", "20 + 60"]
    assert "by team" in figure.get_suptitle()
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["fair: HDRF", "held now", "waiting (+)"]


def test_long_waiting_bars_are_cut_and_their_numbers_kept():
    pytest.importorskip("matplotlib")
    (ax,) = alike([1200, 6], [3, 3]).plot("held").axes
    assert bars(ax) == [[50, 50], [25, 25], [125, 50]]  # 2.5 times the longest bar of what is fair or held
    assert words(ax)[2:] == ["25 + 9,975", "25 + 25"]
    (unlimited,) = alike(None, [3, 3]).plot("held").axes
    assert words(unlimited)[2:] == ["25", "25"]


def test_comparisons_have_a_bar_for_each_policy_and_given_axes_are_used():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots(1, 2)
    assert fo.compare(["hdrf", "most-tasks"], TEAMS).plot("held", ax=axes) is figure
    assert [len(ax.containers) for ax in axes] == [4, 4]  # both policies, held, waiting
    assert all(len(ax.get_yticklabels()) == 2 for ax in axes)
    with pytest.raises(fo.errors.InvalidBlock, match="1 axes for 2 resources"):
        of_teams().plot("held", ax=axes[0])


def test_of_many_teams_20_are_drawn_and_strange_clusters_are_no_error():
    pytest.importorskip("matplotlib")
    figure = alike(None, np.arange(60.0)).plot("held")
    assert len(figure.axes[0].get_yticklabels()) == 20 and "20 of 60" in figure.get_suptitle()
    for odd in (
        fo.Instance(np.zeros((0, 1)), [4], held=np.zeros(0)),
        fo.Instance([[1, 0]], [4, 0], held=[0]),
        fo.Instance([[1, 1]], [4, 4], held=[900], task_limits=[0]),
    ):
        fo.DRF().allocate(odd).plot("held").draw_without_rendering()


def test_a_picture_of_what_is_not_known_is_refused_with_the_fix():
    with pytest.raises(fo.errors.InvalidBlock, match=r"not known which tasks run now; give Instance\(held=...\)"):
        fo.HDRF().allocate(TEAMS.replace(held=None)).plot("held")
