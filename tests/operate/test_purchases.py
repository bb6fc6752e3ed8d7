"""What more of each resource and one more server bring, against exact numbers and what-ifs."""

from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.operate.purchases import purchases
from fairopt.runtime.clock import Clock

# HDRF: half of the 8 GPUs to each team; audio needs 1 a task and wants 6, nlp 2 a task and wants 20.
TEAMS: dict[str, Any] = {
    "demands": [[1, 1], [1, 2]],
    "capacities": [[60, 4], [30, 0]],
    "counts": [2, 3],
    "servers": ["big", "small"],
    "users": ["audio", "nlp"],
    "resources": ["cpu", "gpu"],
    "teams": {"team": ["audio", "nlp"]},
    "task_limits": [6, 20],
}


def of_teams(**others: Any) -> fo.Allocation:
    return fo.HDRF().allocate(fo.Instance(**{**TEAMS, **others}))


def test_a_mechanism_without_derivatives_is_priced_by_solving_again() -> None:
    found = purchases(of_teams())
    assert "does not maximise a single objective" in found.no_derivatives
    gpu, none = found.resources
    # A GPU more is 1/2 for audio, which is 1/2 task, and 1/2 for nlp, which is 1/4 task
    assert (gpu.name, gpu.rate_by, gpu.up_to_by) == ("gpu on big", "answers", "answers")
    assert gpu.tasks == pytest.approx(3 / 4) and gpu.tasks_per_percent == pytest.approx(0.08 * 3 / 4)
    # at 4 GPUs more audio runs all its tasks, and a GPU more is 1/2 task: 3 + (t - 4) / 2 = 0.99 * 3 t / 4
    exact = 1 / (0.99 * 3 / 4 - 1 / 2)
    assert exact / 1.03 <= gpu.up_to <= exact
    assert none.name == "gpu on small" and none.reason.startswith("the server has none of it")


def test_idle_resources_are_left_out_and_reserved_ones_are_not_idle() -> None:
    assert purchases(of_teams()).idle == {"cpu": pytest.approx(120 + 90 - 4 - 2)}
    pool = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"])
    assert list(purchases(fo.DRF().allocate(pool)).idle) == ["memory"]
    reserved = fo.Policy(fo.Leximin(), [fo.Reserve("cpu", 0.5)])
    found = purchases(reserved.allocate(pool))
    assert list(found.idle) == ["memory"] and [row.resource for row in found.resources] == ["cpu"]
    assert "has constraints" in found.no_derivatives
    few = purchases(fo.DRF().allocate(pool.with_task_limits(0.1)))
    assert few.resources == () and list(few.idle) == ["cpu", "memory"]


def test_one_more_server_is_a_what_if_and_costs_what_its_resources_cost() -> None:
    answer = of_teams()
    found = purchases(answer, {"gpu": 100, "cpu": 2})
    assert [row.server for row in found.servers] == ["big", "small"]
    for row in found.servers:
        after = fo.what_if(fo.HDRF(), answer.instance, add_servers={row.server: 1}).after
        gain = after.tasks.sum() - answer.tasks.sum()
        cost = {"big": 4 * 100 + 60 * 2, "small": 30 * 2}[row.server]
        assert row.tasks == pytest.approx(gain, abs=1e-9) and row.tasks_per_cost == pytest.approx(gain / cost, abs=1e-9)
    assert found.servers[0].tasks == pytest.approx(3) and found.servers[1].tasks == 0
    assert [row.tasks_per_cost for row in purchases(answer, {"gpu": 100}).servers] == [None, None]  # cpu has no cost


@pytest.mark.parametrize("policy", [fo.DRF(), fo.NashWelfare()], ids=str)
def test_ranges_on_several_servers_end_where_the_rate_does(policy: fo.Policy) -> None:
    instance = fo.Instance([[1, 1], [1, 2]], [[60, 4], [40, 2]], resources=["cpu", "gpu"], task_limits=[4, None])
    answer = policy.allocate(instance)
    found = [row for row in purchases(answer).resources if row.rate_by == "derivative"]
    assert len(found) == 2
    for row in found:
        s = instance.servers.index(row.server)

        def gain(units: float, s: int = s) -> float:
            capacities = np.array(instance.capacities)
            capacities[s, 1] += units
            return float(policy.allocate(instance.with_capacities(capacities)).tasks.sum() - answer.tasks.sum())

        assert row.up_to_by == "answers"
        assert gain(row.up_to) == pytest.approx(row.tasks * row.up_to, rel=0.011)
        assert gain(1.05 * row.up_to) != pytest.approx(1.05 * row.tasks * row.up_to, rel=0.01)


def test_by_solving_again_the_same_users_lose_at_the_same_rates() -> None:
    pool = fo.Instance([[0, 4, 2], [4, 0, 1], [2, 0, 1]], [12, 9, 8])
    exact = {row.name: row for row in fo.sensitivity(fo.DRF().allocate(pool)).purchases()}
    again = purchases(fo.Policy(fo.Leximin(), [fo.MaxTasks(49)]).allocate(pool)).resources
    assert len(again) == 2 and any(row.losers for row in again)
    for row in again:
        assert row.rate_by == "answers" and row.losers == exact[row.name].losers
        assert row.tasks == pytest.approx(exact[row.name].tasks, rel=0.02)


def test_without_time_rates_are_missing_and_ranges_unknown() -> None:
    over = Clock(1e-9)
    found = purchases(of_teams(), clock=over)
    assert all(row.reason for row in found.resources)
    assert {row.reason for row in found.servers} == {"the time limit was over"}
