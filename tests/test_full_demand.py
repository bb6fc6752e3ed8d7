"""What each gets if all have more work than fits, by hand."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import InvalidInstance


def test_tables_drop_their_task_limits_and_given_demands_make_users_of_idle_teams() -> None:
    pool = fo.Instance(
        [[1, 2], [2, 1]], [[12, 12]], users=["a", "b"], resources=["cpu", "gpu"], task_limits=[0, 3], weights=[1, 2],
        teams={"team": ["x", "x"]}, guarantees={"x": {"gpu": 1}}, held=[1, 1],
    )  # fmt: skip
    full = pool.full_demand({"audio": {"gpu": 3}})
    assert (
        bool((full.task_limits == float("inf")).all())
        and full.users == ("a", "b", "audio")
        and full.teams["team"] == ("x", "x", "audio")
    )
    assert full.demands.tolist() == [[1, 2], [2, 1], [0, 3]] and full.weights.tolist() == [1, 2, 1]
    assert full.team_guarantees == {"x": {"gpu": 1}} and full.held_tasks is not None
    assert full.held_tasks.tolist() == [1, 1, 0]
    assert pool.full_demand() == pool.with_task_limits(None) and pool.full_demand().full_demand().notes == (
        "full demand: task limits are left out, as if everybody had more work than fits",
    )
    with pytest.raises(InvalidInstance, match="'x', which has users"):
        pool.full_demand({"x": {"gpu": 1}})
    with pytest.raises(InvalidInstance, match="rates differ by server"):
        pool.replace(rates=[[1], [2]]).full_demand({"audio": {"gpu": 1}})


def test_commands_take_full_demand_and_keep_tasks_out_that_fit_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    large = fo.Instance([[1], [9]], [[8], [4]], users=["web", "huge"], task_limits=[3, 1])
    fo.datasets.write(large, "large.json")
    done = run(app, ["solve", "large.json", "--full-demand", "--json"])
    assert json.loads(done.stdout)["tasks"] == {"web": 12, "huge": 0}
