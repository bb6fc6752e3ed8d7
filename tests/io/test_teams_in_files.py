"""Teams, guarantees and rates in tables, frames, JSON and YAML; `test_write` has random round trips."""

import json

import numpy as np
import pytest

import fairopt as fo
from fairopt.datasets import read, write
from fairopt.errors import InvalidInstance

USERS = "user,team,org [team],guarantee,cpu,gpu\ntrain,vision,ml,,4,2\nparse,vision,ml,3,1,0\nsite,,,,2,0\n"
SERVERS = "server,cpu,gpu\nlarge,100,10\nsmall,50,0\n"
FULL = fo.Instance(
    [[4, 2], [1, 0], [2, 0]],
    [[100, 10], [50, 0]],
    users=["train", "parse", "site"],
    resources=["cpu", "gpu"],
    servers=["large", "small"],
    teams={"team": ["vision", "vision", None], "org": ["ml", "ml", None]},
    weights={"vision": 2, "ml": 5},
    guarantees={"parse": 3, "vision": {"gpu": 4}},
    rates=[[1, 0], [2, 1], [0, 3]],
)


@pytest.fixture
def folder(tmp_path):
    def made(**tables):
        for name, text in ({"users": USERS, "servers": SERVERS} | tables).items():
            (tmp_path / f"{name}.csv").write_text(text)
        return tmp_path

    return made


def test_labels_guarantees_rates_and_the_table_of_teams_are_read(folder):
    teams = "team,weight,gpu\nvision,2,4\nml,5,\n"
    rates = "user,server,rate\ntrain,large,1\nparse,large,2\nparse,small,\nsite,small,3\n"
    assert read(folder(teams=teams, demands=rates)) == FULL


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_give_the_instance_back(backend):
    pytest.importorskip(backend)
    assert fo.Instance.from_frames(*FULL.to_frames(backend)) == FULL
    without_rates = FULL.replace(rates=None)
    frames = without_rates.to_frames(backend)
    assert frames[2] is None and len(frames) == 4
    assert fo.Instance.from_frames(*frames) == without_rates


@pytest.mark.parametrize(("name", "kind"), [("x.json", None), ("x.yaml", None), ("x", "csv"), ("x", "parquet")])
def test_every_kind_of_file_gives_the_instance_back(tmp_path, name, kind):
    write(FULL, tmp_path / name, kind)
    assert read(tmp_path / name) == FULL


def test_rates_stand_beside_demands_by_server(tmp_path):
    by_server = FULL.replace(demands=FULL.per_server_demands * np.array([1, 2])[:, None])
    write(by_server, tmp_path)
    assert (tmp_path / "demands.csv").read_text().splitlines()[:2] == ["user,server,rate,cpu,gpu", "train,large,1,4,2"]
    assert read(tmp_path) == by_server


def test_columns_named_as_labels_are_labels(folder):
    path = folder(users=USERS.replace("org [team]", "org"))
    assert list(read(path, labels=["org"]).teams) == ["team", "org"]
    frame = pytest.importorskip("pandas").read_csv(path / "users.csv").drop(columns="guarantee")
    servers = pytest.importorskip("pandas").read_csv(path / "servers.csv")
    found = fo.Instance.from_frames(frame, servers, labels=["team", "org"])
    assert dict(found.teams) == {"team": ("vision", "vision", None), "org": ("ml", "ml", None)}


def test_writing_removes_the_table_of_teams_of_an_older_instance(tmp_path):
    write(FULL, tmp_path)
    write(fo.Instance([[1]], [1]), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["servers.csv", "users.csv"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"teams": "team,weight\nvisio,2\n"}, "names an unknown user or team 'visio'; did you mean 'vision'"),
        (
            {"teams": "team,weight\nvision,2\nvision,3\n"},
            r"teams.csv, line 3, column 'team': 'vision' is given on line 2",
        ),
        ({"teams": "team,weight\n,2\n"}, r"teams.csv, line 2, column 'team': the name is empty"),
        (
            {"teams": "team,weight\nvision,0\n"},
            r"teams.csv, line 2, column 'weight': the value is 0; give a number > 0",
        ),
        ({"teams": "team,gpu\nvision,-1\n"}, r"teams.csv, line 2, column 'gpu': the value is -1; give a finite number"),
        ({"teams": "team,tpu\nvision,1\n"}, r"teams.csv: the column 'tpu' is not a resource of .*servers.csv; did you"),
        ({"teams": "team,gpu [x]\nvision,1\n"}, r"teams.csv has the column 'gpu \[x\]' where .*servers.csv has 'gpu'"),
        ({"teams": "team,gpu\nsite,1\n"}, r"guarantees of user 'site' is {'gpu': 1.0}; give a number of tasks"),
        ({"users": USERS.replace(",3,1,0", ",-3,1,0")}, r"users.csv, line 3, column 'guarantee': the value is -3"),
        (
            {"users": USERS.replace("org [team]", "team [team]")},
            r"users.csv: the columns 'team' and 'team \[team\]' are the same label; keep one",
        ),
        (
            {"users": USERS.replace("org [team]", "org")},
            r"users.csv: the column 'org' is not a resource .*; if it is a label of users, call it 'org \[team\]'",
        ),
        (
            {"users": USERS.replace("train,vision", "train,site")},
            "'site' is both a user and a label of 'team'; rename one",
        ),
        ({"demands": "user,server,rate\ntrain,large,-1\n"}, r"demands.csv, line 2, column 'rate': the value is -1"),
        ({"demands": "user,server,rate\ntrain,large,1\n"}, r"demands.csv has no line for user 'parse'; add one for"),
        (
            {"demands": "user,server,rate\ntrain,huge,1\n"},
            r"demands.csv, line 2, column 'server': .*has no server 'huge'",
        ),
    ],
)
def test_wrong_tables_are_refused_with_the_place(folder, tables, message):
    with pytest.raises(InvalidInstance, match=message):
        read(folder(**tables))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teams": {"team": ["vision"]}}, r"teams\['team'\] has 1 labels for 3 users"),
        ({"teams": {"team": "vision"}}, r'teams.team is "vision"; give a list'),
        ({"teams": {"team": [1, 2, 3]}}, r"teams.team\[0\] is 1; give text"),
        ({"guarantees": {"vision": {"gpu": -1}}}, r"guarantees.vision.gpu is -1; give a number >= 0"),
        ({"guarantees": {"visio": {"gpu": 1}}}, "guarantees names an unknown user or team 'visio'"),
        ({"rates": [[1, 1], [1], [1, 1]]}, r"rates\[1\] has 1 entries where rates\[0\] has 2"),
        ({"rates": {"train": {"huge": 1}}}, "no server 'huge'"),
    ],
)
def test_wrong_keys_of_json_are_refused_with_the_place(tmp_path, changes, message):
    data = FULL.to_dict() | {"weights": None, "guarantees": None, "innermost_first": None} | changes
    (tmp_path / "x.json").write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    with pytest.raises(InvalidInstance, match=message):
        read(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("instance", "column"),
    [
        (FULL.replace(rates=None, weights=1, guarantees=None, servers=None).pooled(), "team"),
        (fo.Instance([[1]], [1], guarantees=[1]), "guarantee"),
    ],
)
def test_shards_refuse_columns_that_they_cannot_keep(tmp_path, instance, column):
    write(instance, tmp_path)
    with pytest.raises(InvalidInstance, match=f"'{column}' without a capacity; remove it: shards have no teams"):
        fo.allocate_sharded(fo.DRF(), tmp_path)


def test_labels_are_ordered_from_the_outermost_in():
    teams = {"org": ["x", "x", "y", "y"], "team": ["a", "b", "c", None], "group": ["g", "h", "i", None]}
    labels = fo.Instance([[1]] * 4, [1], teams=teams).teams.outermost_first
    assert labels == ("org", "group", "team")  # the group is around the team that it equals, as they are given


ALIKE = {
    "teams": {"team": ["a", "a", "b"], "org": ["eng", "eng", "sci"]},
    "weights": {"eng": 3},
    "users": ["x", "x2", "y"],
}


def test_the_weight_of_an_outer_team_counts_where_it_has_the_members_of_an_inner_one(tmp_path, folder):
    """Org eng has 9 of 12 by its weight of 3, and its only team divides it; sci has 3."""
    users = "user,{},cpu\nx,{},1\nx2,{},1\ny,{},1\n"
    tables = {"servers": "server,cpu\none,12\n", "teams": "team,weight\neng,3\n"}
    columns = users.format("team,org [team]", "a,eng", "a,eng", "b,sci")
    named = users.format("org,team", "eng,a", "eng,a", "sci,b")
    made = fo.Instance([[1]] * 3, [12], **ALIKE)
    outside_first = ALIKE | {"teams": dict(reversed(ALIKE["teams"].items())), "innermost_first": ["team", "org"]}
    write(made, tmp_path / "x.json")
    write(made, tmp_path / "tables")
    found = [
        made,
        fo.Instance([[1]] * 3, [12], **outside_first),
        read(tmp_path / "x.json"),
        read(tmp_path / "tables"),
        fo.Instance.from_frames(*made.to_frames()),
        read(folder(users=columns, **tables)),
        read(folder(users=named, **tables), labels=["org", "team"]),
    ]
    for instance in found:
        assert instance.teams.outermost_first == ("org", "team")
        assert fo.HDRF(by=("org", "team")).allocate(instance).tasks.tolist() == [4.5, 4.5, 3]
        assert instance.weights.tolist() == [1.5, 1.5, 1]
        answer = fo.DRF().allocate(instance)
        answer.save(tmp_path / "answer.json")
        assert fo.verify(tmp_path / "answer.json").ok
    assert fo.DRF().allocate(found[0]).tasks == pytest.approx([4.5, 4.5, 3])
    both = [{**ALIKE, "weights": weights} for weights in ({"eng": 3, "a": 5}, {"a": 5, "eng": 3})]
    assert [fo.Instance([[1]] * 3, [12], **given).weights.tolist() for given in both] == [[1.5, 1.5, 1]] * 2


def test_the_order_of_labels_is_kept_in_files_and_nesting_is_not_contradicted(tmp_path):
    teams = {"team": ["a", "b", "c"], "org": ["x", "x", "y"]}
    with pytest.raises(InvalidInstance, match=r"innermost_first is \['org', 'team'\], but teams of 'team' lie within"):
        fo.Instance([[1]] * 3, [1], teams=teams, innermost_first=["org", "team"])
    with pytest.raises(InvalidInstance, match=r"name each label of teams once: \['team', 'org'\]"):
        fo.Instance([[1]] * 3, [1], teams=teams, innermost_first=["team"])
    alike = fo.Instance([[1]] * 3, [12], **ALIKE)
    other = alike.replace(innermost_first=["org", "team"])
    assert other != alike and fo.HDRF(by=other.teams.outermost_first).allocate(other).tasks.tolist() == [3, 3, 6]
    data = json.loads(json.dumps(other.to_dict(), sort_keys=True))  # as other tools may write it
    assert fo.Instance.from_dict(data) == other
    before = {key: value for key, value in alike.to_dict().items() if key != "innermost_first"}
    (tmp_path / "old.json").write_text(json.dumps({key: v for key, v in before.items() if v is not None}))
    assert read(tmp_path / "old.json") == alike  # the order of the file, innermost first


def test_sums_of_teams_are_those_of_their_members():
    by_server = FULL.replace(demands=FULL.per_server_demands * np.array([1, 2])[:, None], guarantees=None)
    for instance in (FULL.replace(guarantees=None), by_server):
        answer = fo.DRF().allocate(instance)
        held = answer.bundles.sum(axis=1)
        team = answer.to_frame("team").loc["vision"]
        np.testing.assert_allclose([team["cpu"], team["gpu"]], held[:2].sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(
            team["dominant share"], (held[:2].sum(axis=0) / instance.total_capacities).max(), rtol=1e-12
        )
        assert (team["users"], team["weight"]) == (2, 2)
        assert answer.to_frame()["org"].tolist()[:2] == ["ml", "ml"]
