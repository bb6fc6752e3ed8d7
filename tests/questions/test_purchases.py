"""What more of each resource and one more server bring, against exact numbers and what-ifs."""

from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.questions.buying import purchases
from fairopt.questions.new_servers import NewServer, with_new_server
from fairopt.questions.waiting import leading, waited_for
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


def test_a_gain_in_the_objective_within_rounding_is_zero() -> None:
    cluster = fo.Instance(
        [[4, 1], [1, 0], [2, 1]], [[60, 8], [30, 0]], counts=[2, 3], resources=["cpu", "gpu"], servers=["big", "small"]
    )
    found = purchases(fo.DRF().allocate(cluster))
    big = next(row for row in found.servers if row.server == "big")  # the least share stays 1/2, tasks grow by 44
    assert big.tasks == pytest.approx(44) and big.welfare == 0


# Spark has CPU servers of its own, and training waits for GPUs, of which a task needs all 8 of a server.
WAITING: dict[str, Any] = {
    "demands": [[1, 0], [8, 8]],
    "capacities": [[64, 0], [64, 8]],
    "counts": [3, 2],
    "eligible": [[True, False], [False, True]],
    "users": ["spark", "train"],
    "servers": ["small", "big"],
    "resources": ["cpu", "nvidia.com/gpu"],
    "task_limits": [500, 20],
}


def test_what_leads_decides_the_order_and_not_the_number_of_tasks() -> None:
    answer = fo.DRF().allocate(fo.Instance(**WAITING))
    assert leading(answer) == "nvidia.com/gpu" and waited_for(answer).tolist() == pytest.approx([452, 144])
    by_tasks, by_gpu = purchases(answer), purchases(answer, lead="gpu")
    assert [(row.server, round(row.tasks, 6)) for row in by_tasks.servers] == [("small", 64), ("big", 1)]
    assert [(row.server, row.lead_units) for row in by_gpu.servers] == [("big", pytest.approx(8)), ("small", 0)]
    assert by_tasks.resources[0].name == "cpu on small" and by_tasks.servers[0].lead_units is None
    best = by_gpu.resources[0]  # 1 % of 16 GPUs
    assert (best.name, best.lead_units, best.lead_per_percent) == (
        "nvidia.com/gpu on big",
        pytest.approx(1),
        pytest.approx(0.16),
    )
    assert best.up_to == pytest.approx(16 * 7, rel=0.03)  # until the cores, 128 of 8 a task, are used up
    done = fo.DRF().allocate(fo.Instance(**{**WAITING, "task_limits": [500, 2]}))
    assert leading(done) is None


def test_derivatives_of_what_leads_are_those_found_by_solving_again() -> None:
    pool = fo.Instance([[4, 1], [1, 0], [2, 1]], [60, 9], resources=["cpu", "gpu"])
    exact = {row.name: row for row in fo.sensitivity(fo.DRF().allocate(pool)).purchases({"cpu": 2, "gpu": 9}, "gpu")}
    again = purchases(fo.Policy(fo.Leximin(), [fo.MaxTasks(490)]).allocate(pool), {"cpu": 2, "gpu": 9}, lead="gpu")
    # the GPUs are used up by users 1 and 3 at half of them each, and user 2 has the rest of the cores
    assert [row.name for row in again.resources] == ["gpu", "cpu"]
    assert (exact["gpu"].lead_units, exact["cpu"].lead_units) == (pytest.approx(1), 0)
    for row in again.resources:
        assert (row.rate_by, exact[row.name].rate_by) == ("answers", "derivative")
        assert row.lead_units == pytest.approx(exact[row.name].lead_units, rel=0.02)
        assert row.lead_per_cost == pytest.approx(row.lead_units / {"cpu": 2, "gpu": 9}[row.name])


def test_a_new_type_equal_to_a_server_that_is_there_is_one_more_of_it() -> None:
    answer = fo.DRF().allocate(fo.Instance(**WAITING))
    new = [
        NewServer({"cpu": 64, "gpu": 8}, "alike", like="big", cost=200),
        NewServer({"cpu": 64, "gpu": 8}, "free"),
        NewServer({"cpu": 640}, "cores", cost=100),
        NewServer({"gpu": 8}, "bare"),
    ]
    found = {row.server: row for row in purchases(answer, lead="gpu", new=new, prices={"big": 400}).servers}
    assert [*found] == ["alike", "big", "cores", "free", "small", "bare"]  # those with a cost first
    assert found["alike"].tasks == pytest.approx(found["big"].tasks) and found["alike"].servers == 0
    assert found["alike"].lead_per_cost == pytest.approx(8 / 200) and found["big"].lead_per_cost == pytest.approx(0.02)
    # training may run on all servers with GPUs, so on a new one too, and spark on those without
    assert found["free"].lead_units == pytest.approx(8) and found["free"].tasks == pytest.approx(1)
    assert found["cores"].lead_units == 0 and found["cores"].tasks == pytest.approx(500 - 192)
    assert found["bare"].reason.startswith("no task of those who may run there fits on it")


def test_on_a_new_type_limits_count_rates_need_a_likeness_and_unknown_names_are_refused() -> None:
    limit = {"name": "gpu of train", "resource": "nvidia.com/gpu", "amount": 16, "of": {"train": ["big"]}}
    bound = fo.DRF().allocate(fo.Instance(**WAITING, limits=[limit]))
    (row,) = (r for r in purchases(bound, new=[NewServer({"cpu": 64, "gpu": 8})], lead="gpu").servers if not r.servers)
    assert row.lead_units == 0  # train has its 16 GPUs
    rated = fo.Instance(**WAITING, rates=[[1, 1], [1, 2]])
    with pytest.raises(OutOfDomain, match="rates differ by server; name one that new server is like"):
        with_new_server(rated, NewServer({"cpu": 64, "gpu": 8}))
    made = with_new_server(rated, NewServer({"cpu": 64, "gpu": 8}, like="big"))
    assert made.rates is not None and made.rates[:, -1].tolist() == rated.rates[:, 1].tolist()
    for wrong in ({"gpus": 8}, {"gpu": -1}, {}):
        with pytest.raises(InvalidBlock):
            NewServer(wrong).check(rated)


def test_a_new_server_that_is_large_enough_runs_tasks_that_fit_on_no_other() -> None:
    asked = np.array([500.0, 20.0, 1.0])
    sizes = {**WAITING, "demands": [[1, 0], [8, 8], [8, 16]], "users": ["spark", "train", "huge"]}
    sizes |= {"eligible": [[True, False], [False, True], [False, True]], "task_limits": [500, 20, 0]}
    answer = fo.DRF().allocate(fo.Instance(**sizes))
    new = [NewServer({"cpu": 64, "gpu": 16}, "double"), NewServer({"cpu": 64, "gpu": 8}, "same", like="big")]
    found = {row.server: row for row in purchases(answer, new=new, asked=asked, lead="gpu").servers}
    made = with_new_server(answer.instance, new[0], asked)
    assert made.task_limits.tolist() == [500, 20, 1] and made.eligible[:, -1].tolist() == [False, True, True]
    assert with_new_server(answer.instance, new[1], asked).task_limits.tolist() == [500, 20, 0]
    assert found["double"].lead_units == pytest.approx(16) and found["same"].lead_units == pytest.approx(8)
