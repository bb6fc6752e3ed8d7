"""Fairshares and limits of Slurm are written, applied to a model of its database, and read again, week after week."""

import json
from fractions import Fraction

import fairopt_clusters as fc
import numpy as np
import pytest
from fairopt_clusters.quotas.shares import raised
from hypothesis import given
from hypothesis import strategies as st
from sacctmgr import Database
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import InvalidInstance

FLAT = {"a": ("root", 1, {}), "b": ("root", 3, {}), "c": ("root", 2, {"cpu": 8})}
DEEP = {
    "science": ("root", 50, {}),
    "eng": ("root", 50, {}),
    "physics": ("science", 1, {}),
    "bio": ("science", 1, {"gres/gpu": 3, "gres/gpu:a100": 2}),
    "ml": ("eng", 7, {"cpu": 60, "mem": 2048}),
}
FOLDERS = [  # accounts, what shows them, contracts, and what their shares become
    (FLAT, "as_json", ["c,cpu,,8"], {}),
    (FLAT, "as_dump", ["c,cpu,,8", "a,cpu,50,"], {"a": 5}),
    (FLAT, "as_sshare", ["b,gpu,6,"], {"b": 9}),
    (DEEP, "as_json", ["physics,gpu,3.2,", "bio,gpu,,3"], {"physics": 4}),
    (DEEP, "as_dump", ["bio,gpu:a100,,2", "ml,memory,,2", "science,cpu,80,"], {"science": 200}),
    (DEEP, "as_sshare", ["physics,gpu,1,", "bio,gpu,1,"], {}),
]
NODES = [
    {"name": "n1", "cpus": 64, "real_memory": 65536, "gres": "gpu:a100:4"},
    {"name": "n2", "cpus": 36, "real_memory": 65536, "gres": "gpu:h100:4"},
]


def jobs_of(asked):
    """A job of each account for so many cores, with GPUs for some."""
    return [
        {"job_id": k, "account": name, "job_state": ["PENDING"], "array_task_string": f"1-{n}"}
        | {"tres_req_str": "cpu=2,mem=1G,node=1" + ",gres/gpu=1" * (k % 2)}
        for k, (name, n) in enumerate(asked.items())
        if n
    ]


def saved(folder, database, shown, asked, contracts=None):
    """Save what a command shows of the database, with nodes, jobs and contracts."""
    for file in folder.iterdir():
        file.unlink()
    name, text = getattr(database, shown)()
    (folder / name).write_text(text)
    (folder / "nodes.json").write_text(json.dumps({"nodes": NODES}))
    (folder / "jobs.json").write_text(json.dumps({"jobs": jobs_of(asked)}))
    if contracts is not None:
        (folder / "contracts.csv").write_text("\n".join(["account,resource,promised,limit", *contracts]))


def written(folder, database, shown, asked, contracts=None, caps=False):
    """The quotas of such a folder."""
    saved(folder, database, shown, asked, contracts)
    return fc.quotas(fair(folder), "slurm", queues=folder, full_demand=fo.read(folder, full_demand=True), caps=caps)


def fair(folder):
    """The answer of a folder by its tree."""
    now = fo.read(folder)
    return fo.HDRF(by=now.teams.outermost_first).allocate(now)


def members(answer):
    return [(name, users) for name, users in answer.instance.teams.names.items() if name in DEEP]


def kept(accounts, contracts):
    """The limits of contracts among those of accounts, as Slurm names them."""
    names = {"cpu": "cpu", "memory": "mem", "gpu": "gres/gpu", "gpu:a100": "gres/gpu:a100"}
    rows = [row.split(",") for row in contracts]
    keys = [(account, names[resource]) for account, resource, _, limit in rows if limit]
    return {key: accounts[key[0]][2].get(key[1]) for key in keys}


@pytest.mark.parametrize(("accounts", "shown", "contracts", "becomes"), FOLDERS)
def test_shares_change_what_promises_need_and_nothing_else_and_the_second_run_writes_nothing(
    accounts, shown, contracts, becomes, tmp_path
):
    database = Database(accounts)
    first = written(tmp_path, database, shown, dict.fromkeys(accounts, 9), contracts)
    assert database.run(first.text()) == len(becomes) == len(first.changed)
    for name, (parent, shares, tres) in database.state().items():
        assert (parent, shares, tres) == (accounts[name][0], becomes.get(name, accounts[name][1]), accounts[name][2])
    assert database.state("other") == Database(accounts).state()
    for asked in ({"a": 1, "ml": 40}, {"b": 3, "bio": 2, "physics": 90}):  # whoever asks for what
        of_these = {name: n for name, n in asked.items() if name in accounts}
        again = written(tmp_path, database, shown, of_these, contracts)
        assert not database.run(again.text()) and not again.changed
        assert again.first == ("nothing to do: fairshares are what accounts are owed",)
    without = written(tmp_path, Database(accounts), shown, dict.fromkeys(accounts, 9))
    assert not without.changed and "sacctmgr" not in without.text()


def test_a_limit_of_a_moment_leaves_room_for_what_is_promised(tmp_path):
    accounts, shown = FOLDERS[0][:2]
    name, *others = [one for one in accounts if one not in {of[0] for of in accounts.values()}]
    asked = {name: 1} | dict.fromkeys(others, 99)
    without = written(tmp_path, Database(accounts), shown, asked, [], caps=True)
    promised = written(tmp_path, Database(accounts), shown, asked, [f"{name},cpu,20,"], caps=True)
    (before,), (after,) = (
        [one.amount for one in of.rows if one.key[:2] == (name, "cpu")] for of in (without, promised)
    )
    assert (before, after) == (2, 20)


@pytest.mark.parametrize(("accounts", "shown", "contracts"), [row[:3] for row in FOLDERS if row[1] != "as_sshare"])
def test_limits_of_a_moment_keep_those_of_contracts_and_end_and_are_the_same_from_a_dump(
    accounts, shown, contracts, tmp_path
):
    database, asked = Database(accounts), dict.fromkeys(accounts, 9)
    with pytest.raises(InvalidInstance, match=r"there are limits \(.*nobody says which are a contract's"):
        written(tmp_path, database, shown, asked, caps=True)
    of_contracts = kept(accounts, contracts)
    first = written(tmp_path, database, shown, asked, contracts, caps=True)
    texts = [written(tmp_path, database, one, asked, contracts, caps=True).text() for one in ("as_json", "as_dump")]
    assert texts == [first.text()] * 2 and first.first[0].startswith("these limits idle")
    assert database.run(first.text()) and kept(database.state(), contracts) == of_contracts
    assert {name: one[:2] for name, one in database.state().items()} == {
        name: one[:2] for name, one in accounts.items()
    }
    again = written(tmp_path, database, shown, asked, contracts, caps=True)
    assert not database.run(again.text()) and not again.changed
    only = next(name for name in accounts if name not in {row.split(",")[0] for row in contracts})
    later = written(tmp_path, database, shown, {only: 3}, contracts, caps=True)
    assert database.run(later.text()) and kept(database.state(), contracts) == of_contracts
    left = {(name, key) for name, (_, _, tres) in database.state().items() for key in tres if name != only}
    there = {(name, key) for name, (_, _, tres) in accounts.items() for key in tres}
    assert left == {(a, key) for a, key in there for b, listed in of_contracts if a == b and key.startswith(listed)}
    assert database.state("other") == Database(accounts).state()


def test_fairshares_are_written_where_no_job_waits_and_for_accounts_without_jobs(tmp_path, monkeypatch):
    database = Database(DEEP | {"guests": ("eng", 0, {}), "new": ("bio", 3, {})})
    for asked in ({}, {"ml": 5}):
        monkeypatch.chdir(tmp_path)
        saved(tmp_path, database, "as_dump", asked, ["physics,gpu,3.2,"])
        result = CliRunner().invoke(app, ["quotas", ".", "--format", "slurm"])
        assert result.exit_code == 0, result.output
        (line,) = [one for one in result.stdout.splitlines() if one.startswith("sacctmgr")]
        assert line.endswith("where name=physics cluster=hpc set Fairshare=4")


def test_what_was_written_counts_as_present_and_the_cluster_is_that_of_the_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "now").mkdir()
    saved(tmp_path / "now", Database(DEEP), "as_json", {"ml": 5}, ["physics,gpu,3.2,"])
    words = ["quotas", "now", "--format", "slurm", "--out", "first.sh"]
    assert CliRunner().invoke(app, words).exit_code == 0
    again = CliRunner().invoke(app, [*words[:4], "--present", "first.sh", "--weight", "ml=9"])
    (line,) = [one for one in again.stdout.splitlines() if one.startswith("sacctmgr")]
    assert line.endswith("where name=ml cluster=hpc set Fairshare=9")
    told = CliRunner().invoke(app, ["quotas", "now", "--format", "slurm", "--present", "first.sh", "--diff", "--json"])
    changes = {one["team"]: one["change"] for one in json.loads(told.stdout)["changes"]}
    assert changes["physics"] == 0 and told.exit_code == 4  # of others no quota is in the file


def test_contracts_may_name_resources_as_slurm_does_and_unknown_ones_are_said(tmp_path):
    contracts = ["physics,gres/gpu,3.2,", "ml,mem,,2", "bio,fpga,1,", "bio,gpu,,3"]
    made = written(tmp_path, Database(DEEP), "as_json", {"ml": 5}, contracts)
    assert made.changed == ("Fairshare of physics 4 in place of 1",)
    assert "promised of what no server has, which does not count: bio fpga" in made.notes
    limits = written(tmp_path, Database(DEEP), "as_json", {"ml": 5}, contracts, caps=True)
    assert {row.resource for row in limits.rows if row.team == "ml"} == {"cpu"}  # memory is that of the contract
    for wrong, message in (
        ("ml,mem,,2", "line 6, column 'resource': 'memory' of 'ml' is there twice"),
        ("ml,cpu,,", "line 6, column 'account': 'ml' has neither promised nor limit of 'cpu'"),
        ("ml,cpu,9,5", "line 6, column 'promised': 'ml' is promised more of 'cpu' than its limit"),
    ):
        with pytest.raises(InvalidInstance, match=message):
            written(tmp_path, Database(DEEP), "as_json", {"ml": 5}, [*contracts, wrong])


def test_an_unknown_column_of_contracts_is_named_with_its_line_and_those_that_are_read(tmp_path):
    saved(tmp_path, Database(DEEP), "as_json", {"ml": 5})
    (tmp_path / "contracts.csv").write_text("\naccount,resource,limits\nml,cpu,5\n")
    message = r"contracts.csv, line 2: the column 'limits' is not read; rename it to one of account, resource, promised"
    with pytest.raises(InvalidInstance, match=message):
        fo.read(tmp_path)


def test_a_promise_that_takes_all_of_the_parent_is_missed_by_what_siblings_keep_which_is_said(tmp_path):
    """Of 60% for science, all promised to physics, bio keeps a hundredth."""
    made = written(tmp_path, Database(DEEP), "as_json", {"ml": 5}, ["physics,cpu,60,"])
    assert made.changed == ("Fairshare of science 75 in place of 50", "Fairshare of physics 100 in place of 1")
    assert "owed less than promised, as others keep a share: physics 59.4%" in made.notes
    kept = written(tmp_path, Database(DEEP), "as_json", {"ml": 5}, ["physics,cpu,40,"])
    assert not any("owed less" in note for note in kept.notes)


def test_a_promise_to_an_account_that_competes_as_its_parent_is_said_to_be_the_parents(tmp_path):
    tree = {"science": ("root", 1, {}), "eng": ("root", 1, {}), "physics": ("science", 0x7FFFFFFF, {})}
    made = written(tmp_path, Database(tree), "as_json", {"physics": 9, "eng": 9}, ["physics,cpu,80,"])
    assert made.changed == ("Fairshare of science 4 in place of 1",)
    assert any(one.startswith("promised without a fairshare") and one.endswith(": physics") for one in made.notes)


def test_without_a_tree_contracts_count_in_fairshares_alone_which_a_note_says(tmp_path):
    saved(tmp_path, Database(FLAT), "as_json", {"a": 9, "b": 9}, ["a,cpu,90,"])
    (tmp_path / "associations.json").unlink()
    cluster = fo.read(tmp_path)
    assert not cluster.team_guarantees and "does not count in answers; fairshares keep" in str(cluster.notes)
    found = CliRunner().invoke(app, ["quotas", str(tmp_path), "--format", "slurm"])
    assert "name=a set Fairshare=9\n" in found.stdout and "name=b set Fairshare=1\n" in found.stdout  # 90 of 100
    assert "promised, as the largest part of a resource of the cluster: a 90%" in found.stdout
    shown = CliRunner().invoke(app, ["quotas", str(tmp_path), "--format", "slurm", "--diff"]).stdout
    assert "Fairshares\n" in shown and "Quotas of" not in shown


def test_promises_of_more_than_there_is_are_kept_in_proportion_and_nobody_is_shut_out(tmp_path):
    database, contracts = Database(FLAT), ["a,cpu,90,", "b,gpu,4.8,"]
    made = written(tmp_path, database, "as_json", {"a": 9}, contracts)
    assert "promises add up to 150% of the cluster, and are kept in proportion" in made.notes
    assert database.run(made.text()) == 2
    assert {name: one[1] for name, one in database.state().items()} == {"a": 600, "b": 400, "c": 2}
    assert not written(tmp_path, database, "as_json", {"a": 9}, contracts).changed


def test_sshare_shows_no_limits_so_that_all_new_ones_are_written_with_the_cluster(tmp_path):
    made = written(tmp_path, Database(FLAT), "as_sshare", {"a": 5, "b": 5}, caps=True)
    assert made.text().count(" cluster=hpc set GrpTRES=") == 2 and not made.changed


@pytest.mark.parametrize("caps", [False, True])
def test_twelve_weeks_of_random_demand_leave_no_trace_and_keep_contracts(caps, tmp_path):
    rng, contracts = np.random.default_rng(72), ["bio,gpu,,3", "ml,cpu,20,60", "physics,gpu,3.2,"]
    database, fresh = Database(DEEP), Database(DEEP)
    of_contracts, seen = kept(DEEP, contracts), set()
    for week in range(12):
        asked = {name: int(rng.integers(0, 2) * rng.integers(1, 60)) for name in ("physics", "bio", "ml")}
        asked["physics"] += not any(asked.values())
        made = written(tmp_path, database, "as_json" if week % 2 else "as_dump", asked, contracts, caps)
        database.run(made.text())
        alone = Database(DEEP)
        alone.run(written(tmp_path, alone, "as_json", asked, contracts, caps).text())
        assert database.state() == alone.state()  # as if each week were the first
        assert kept(database.state(), contracts) == of_contracts
        seen.add(json.dumps(database.state()))
        if caps:
            answer = fair(tmp_path)
            got = {
                name: float(answer.tasks[users] @ answer.instance.demands[users, 0]) for name, users in members(answer)
            }
            assert got.get("ml", 0) >= min(20, 2 * asked["ml"]) - 1e-6 and got.get("ml", 0) <= 60 + 1e-6
            assert database.state()["eng"][2] == {}
        else:
            assert database.state()["physics"][1] == 4
    assert len(seen) > 6 if caps else len(seen) == 1 and fresh.state() != database.state()


@given(
    st.lists(st.tuples(st.integers(0, 99), st.fractions(0, 1, max_denominator=99)), min_size=1, max_size=6), st.data()
)
def test_shares_are_raised_to_floors_and_no_further(rows, data):
    weights, floors = [Fraction(weight) for weight, _ in rows], [floor for _, floor in rows]
    part = data.draw(st.fractions(Fraction(1, 50), 1, max_denominator=99))
    made = raised(weights, floors, part)
    if sum(floors) < part and any(w for w, f in zip(weights, floors, strict=True) if not f):
        assert all(n * part >= floor * sum(made) for n, floor in zip(made, floors, strict=True))
        assert raised([Fraction(n) for n in made], floors, part) == made
    assert all(n for n, (weight, _) in zip(made, rows, strict=True) if weight)  # nobody is shut out
    if not any(floors):
        assert made == [int(weight) for weight in weights]
    free = [k for k in range(len(made)) if not floors[k] and weights[k]]
    assert len({Fraction(made[k]) / weights[k] for k in free}) <= 1  # in proportion
