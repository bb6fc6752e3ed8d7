"""Commands on instances with teams: the default policy, options that take names of teams, and totals."""

import csv
import io
import json

import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

USERS = """user,team,org,task_limit,cpu,gpu
train,vision,ml,,4,2
parse,vision,ml,20,1,0
tune,nlp,ml,,4,2
site,web,shop,,2,0
"""
SERVERS = "server,cpu,gpu\npool,1000,100\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "users.csv").write_text(USERS)
    (folder / "servers.csv").write_text(SERVERS)

    def command(*words):
        return CliRunner().invoke(app, list(words))

    return command


def solved(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_hdrf_over_all_labels_is_the_default_where_a_team_has_several_users(run):
    told = solved(run("solve", "c", "--teams", "org,team", "--json"))
    assert told["blocks"] == repr(fo.HDRF(by=("org", "team")))
    assert told == told | {"policy": "HDRF"}
    explicit = solved(run("solve", "c", "--teams", "org,team", "--json", "-p", "hdrf"))
    assert explicit["blocks"] == told["blocks"]
    one = solved(run("solve", "c", "--teams", "team,org", "--json"))  # labels are nested, whatever their order
    assert one["blocks"] == told["blocks"]


def test_drf_is_the_default_where_each_team_has_one_user(run, tmp_path):
    (tmp_path / "c" / "users.csv").write_text("user,team,cpu,gpu\na,x,1,0\nb,y,1,1\n")
    result = run("solve", "c", "--json")
    assert solved(result)["policy"] == "DRF"
    assert "compares" not in result.stderr


def test_policies_of_users_say_so_where_a_team_has_several(run):
    teams = ("-p", "hdrf", "-p", "MaxMin(Surplus(OfTeam(by='org')))")
    result = run("compare", "c", "--teams", "org,team", "-p", "drf", *teams, "-p", "most-tasks")
    note = "note: DRF compares the 4 users, and not their teams; --policy hdrf compares teams"
    assert note in result.stderr and result.stderr.count("compares the") == 1


def test_totals_of_teams_are_printed_and_in_json(run):
    shown = run("solve", "c", "--teams", "org,team").stdout
    assert "Sum of each org" in shown and "Sum of each team" in shown
    told = solved(run("solve", "c", "--teams", "org,team", "--json"))
    instance = fo.read("c", labels=["org", "team"])
    answer = fo.HDRF(by=("org", "team")).allocate(instance)
    held = answer.to_frame("team").loc["vision"]
    assert told["teams"]["team"]["vision"] == {
        "users": ["train", "parse"],
        "weight": 1.0,
        "guarantee": {},
        "tasks": answer.tasks[:2].sum(),
        "dominant_share": held["dominant share"],
        "units": {"cpu": held["cpu"], "gpu": held["gpu"]},
    }


def test_comparisons_have_totals_of_teams_in_every_format(run, tmp_path):
    words = ("compare", "c", "--teams", "org,team", "-p", "hdrf", "-p", "drf")
    told = solved(run(*words, "--json"))
    instance = fo.read("c", labels=["org", "team"])
    sums = fo.HDRF(by=("org", "team")).allocate(instance).to_frame("org").loc["ml"]
    assert told["rows"][0]["teams"]["org"]["ml"]["units"] == {"cpu": sums["cpu"], "gpu": sums["gpu"]}
    shown = run(*words).stdout
    assert "Dominant share of each org (%)" in shown and "cpu of each team, the most used resource" in shown
    assert "gpu of each" not in shown
    for name, words_in in (("t.md", "Dominant share of each team"), ("t.tex", "Dominant share of each team")):
        assert run(*words, "--out", name).exit_code == 0
        assert words_in in (tmp_path / name).read_text()
    assert run(*words, "--out", "t.csv").exit_code == 0
    rows = [*csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text()))]
    assert float(rows[0]["dominant share of ml"]) == sums["dominant share"]


def test_weights_and_guarantees_take_names_of_teams(run):
    told = solved(run("solve", "c", "--json", "--teams", "org,team", "--weight", "vision=3"))
    gpus = {name: team["units"]["gpu"] for name, team in told["teams"]["team"].items()}
    assert gpus["vision"] == pytest.approx(3 * gpus["nlp"], rel=1e-6)
    given = (
        "--guarantee",
        "vision=gpu:16",
        "--guarantee",
        "vision=cpu:8",
        "--guarantee",
        "site=10",
        "--limit",
        "site=50",
    )
    assert run("convert", "c", "out.json", "--teams", "org,team", "--weight", "ml=2", *given).exit_code == 0
    instance = fo.read("out.json")
    assert instance.team_guarantees == {"vision": {"gpu": 16, "cpu": 8}}
    assert instance.team_weights == {"ml": 2}
    assert (instance.guarantees[3], instance.task_limits[3]) == (10, 50)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--limit", "vision=3"), "task_limits names the team 'vision', of 'train', 'parse': kinds of tasks differ"),
        (("--weight", "visio=3"), "weights names an unknown user or team 'visio'; did you mean 'vision'"),
        (("--guarantee", "vision=16"), "guarantees of team 'vision' is 16.0; give units by resource"),
        (("--guarantee", "site=gpu:16"), "guarantees of user 'site' is {'gpu': 16.0}; give a number of tasks"),
        (("--guarantee", "vision=gpu:many"), "give the tasks of a user, such as web=10, or units of a team"),
        (("--guarantee", "vision=tpu:16"), "no resource 'tpu'"),
    ],
)
def test_what_makes_no_sense_for_a_team_is_refused(run, words, message):
    result = run("solve", "c", "--teams", "org,team", "-p", "drf", *words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_label_that_is_no_column_is_refused(run):
    result = run("solve", "c", "--teams", "team,depart")
    assert result.exit_code == 2
    assert "there is no column 'depart' of labels" in " ".join(result.stderr.split())


def test_a_column_that_may_be_a_label_is_refused_with_the_fix(run):
    result = run("solve", "c")
    assert result.exit_code == 2
    assert "if it is a label of users, call it 'org [team]'" in " ".join(result.stderr.split())


def test_constraints_cannot_be_added_to_the_default_of_teams(run):
    result = run("solve", "c", "--teams", "org,team", "-c", "MaxShare(0.5)")
    assert result.exit_code == 2
    assert "HDRF is not made of blocks" in result.stderr


def test_pictures_of_policies_show_teams(run, tmp_path):
    pytest.importorskip("matplotlib")
    for kind in ("shares", "dominant"):
        result = run("plot", "c", "--teams", "team,org", "--kind", kind, "--out", f"{kind}.svg")
        assert result.exit_code == 0, result.output
        assert "vision" in (tmp_path / f"{kind}.svg").read_text()
        assert "parse" not in (tmp_path / f"{kind}.svg").read_text()


@pytest.mark.parametrize("policy", ["Leximin(OfTeam())", "Leximin(Surplus(OfTeam(by='org')))", "kalai-smorodinsky"])
def test_policies_of_teams_and_surpluses_are_solved(run, policy):
    assert solved(run("solve", "c", "--teams", "org,team", "-p", policy, "--json"))["prices"] is None
