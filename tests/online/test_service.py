"""Service over time, deficit round robin, and traces of requests to language models."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairopt as fo
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.io.request_traces import _in_turn

COST = {"input": 1.0, "output": 2.0}
SLOTS = fo.Instance([], [[2, 1e12, 1e12, 1e12]], resources=["slot", "input", "output", "tokens"])
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.1805900,0,0
2023-11-16 18:15:56.6805900,100,10
"""
requests = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.integers(1, 20), st.integers(0, 30)),
    min_size=2,
    max_size=30,
)


def jobs_of(asked):
    rows = sorted(asked, key=lambda row: row[3])
    return [
        fo.Job(user, {"slot": 1, "input": read, "output": written}, written, arrival=at)
        for user, read, written, at in rows
    ]


def replay(asked, usage):
    return fo.simulate(SLOTS, jobs_of(asked), scheduler=fo.Scheduler(SLOTS, usage=usage))


@given(requests)
def test_service_of_all_windows_is_what_started(asked):
    run = replay(asked, fo.online.VTC())
    found = fo.online.service(run, COST, window=7)
    total = dict.fromkeys(found.users, 0.0)
    for user, read, written, _ in asked:
        total[user] += read + 2 * written
    assert found.total == pytest.approx(total)
    assert (found.gap, found.bound) == fo.online.service_gap(run, COST)


@given(requests, st.integers(1, 12))
def test_jain_compares_those_who_wait_at_both_ends_of_a_window(asked, window):
    run = replay(asked, fo.online.VTC())
    found = fo.online.service(run, COST, window=window)
    arrival, of = run.table.arrival[run.task_job], run.table.user_of_kind[run.table.kind[run.task_job]]
    for k, (low, high) in enumerate(zip(found.edges, found.edges[1:], strict=False)):
        both = [
            all(((arrival <= at) & (run.start > at) & (of == j)).any() for at in (low, high))
            for j in range(len(found.users))
        ]
        assert found.active[k].tolist() == both
        served = found.served[k][both]
        if sum(both) < 2:
            assert math.isnan(found.jain[k])
        elif served.any():
            assert found.jain[k] == pytest.approx(served.sum() ** 2 / (len(served) * (served**2).sum()))


@given(requests, st.sampled_from([20.0, 60.0]))
def test_deficit_round_robin_serves_users_who_wait_to_within_a_quantum_and_two_requests(asked, quantum):
    run = replay(asked, fo.online.DRR(quantum=quantum))
    gap, twice_the_largest = fo.online.service_gap(run, COST)
    assert gap <= quantum + twice_the_largest + 1e-6


def test_with_a_small_quantum_deficit_round_robin_is_vtc_and_with_a_large_one_first_come_first_served():
    asked = [("a", 10, 5, 0)] * 6 + [("b", 10, 5, 0)] * 3
    orders = {
        name: [run.table.jobs[k].user for k in run.task_job]
        for name, run in {
            "vtc": replay(asked, fo.online.VTC()),
            "small": replay(asked, fo.online.DRR(quantum=1e-3)),
            "40": replay(asked, fo.online.DRR(quantum=40)),
        }.items()
    }
    assert orders["small"] == orders["vtc"] == [*"ababab", *"aaa"]
    assert sorted(orders["40"][:4]) == ["a", "a", "b", "b"]  # two of cost 20 fill a quantum of 40


def test_a_trace_of_azure_is_read_with_tenants_in_turn(tmp_path):
    file = tmp_path / "azure.csv"
    file.write_text(AZURE)
    trace = fo.online.read_jobs(file, SLOTS, tenants={"chat": 1, "code": 2}, prefill_rate=100, decode_rate=10)
    assert [job.user for job in trace] == ["code", "chat", "code"]  # the third, of no tokens, was code's too
    assert trace[0].demands == (1.0, 374.0, 44.0, 418.0)
    assert trace[0].duration == pytest.approx(374 / 100 + 44 / 10)
    assert [job.arrival for job in trace] == pytest.approx([0, 4.314579, 10])
    assert trace.time_unit == "s"
    assert any("1 request without tokens left out" in note for note in trace.notes)
    assert any("names no tenants" in note and "chat 0.333" in note for note in trace.notes)


def test_a_trace_of_mooncake_has_milliseconds_and_may_have_a_column_of_tenants(tmp_path):
    file = tmp_path / "moon.jsonl"
    rows = [
        {"timestamp": 0, "input_length": 10, "output_length": 5, "hash_ids": [1], "tenant": "a"},
        {"timestamp": 1500, "input_length": 20, "output_length": 5, "hash_ids": [1, 2], "tenant": "b"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    trace = fo.online.read_jobs(file, SLOTS, tenant_column="tenant")
    assert [(job.user, job.arrival, job.demands[1]) for job in trace] == [("a", 0, 10), ("b", 1.5, 20)]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 60))
def test_two_tenants_have_their_parts_of_requests_to_within_one_at_all_times(one, other, n):
    share = np.array([one, other]) / (one + other)
    first = np.cumsum(_in_turn(share, n) == 0)
    assert (np.abs(first - share[0] * np.arange(1, n + 1)) < 1).all()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (AZURE, {}, "names no tenants; give tenants"),
        (AZURE, {"tenants": {"a": 1}, "tenant_column": "x"}, "not both"),
        (AZURE, {"tenant_column": "Tenant"}, "has no column 'Tenant'"),
        (AZURE, {"tenants": {"a": 0}}, "give each a finite part > 0"),
        (AZURE, {"tenants": {"a": "many"}}, "give each a finite part > 0"),
        (AZURE, {"tenants": {"a": 1}, "decode_rate": 0.0}, "decode_rate is 0.0; give tokens a second"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", {"tenants": {"a": 1}}, "has no requests; give a line for each"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n0,0,0\n", {"tenants": {"a": 1}}, "nothing to serve"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n0,x,1\n", {"tenants": {"a": 1}}, "line 2, column 'ContextTokens'"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n0,-5,1\n", {"tenants": {"a": 1}}, "give a finite number >= 0"),
    ],
)
def test_what_is_wrong_with_a_trace_is_said(tmp_path, text, options, message):
    file = tmp_path / "azure.csv"
    file.write_text(text)
    with pytest.raises(InvalidInstance, match=message):
        fo.online.read_jobs(file, SLOTS, **options)


def test_a_line_that_is_no_json_is_named(tmp_path):
    file = tmp_path / "moon.jsonl"
    file.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1}\n{"timestamp"\n')
    with pytest.raises(InvalidInstance, match=r"line 2: .*give an object of JSON on each line"):
        fo.online.read_jobs(file, SLOTS, tenants={"a": 1})
    file.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1}\n[1]\n')
    with pytest.raises(InvalidInstance, match=r"line 2: .* is no object of JSON"):
        fo.online.read_jobs(file, SLOTS, tenants={"a": 1})


def test_servers_without_a_resource_of_requests_are_refused(tmp_path):
    file = tmp_path / "azure.csv"
    file.write_text(AZURE)
    with pytest.raises(InvalidInstance, match="needs none of the resources cpu; give one or more of slot"):
        fo.online.read_jobs(file, fo.Instance([], [4], resources=["cpu"]), tenants={"a": 1})


@pytest.mark.parametrize("window", [0, -1, math.nan, math.inf, "60", True])
def test_a_window_is_a_positive_number(window):
    run = fo.simulate([1], [fo.Job("a", [1], 1, tasks=2)])
    with pytest.raises(InvalidBlock, match="window is"):
        fo.online.service(run, window=window)


def test_windows_that_are_far_too_short_are_refused():
    run = fo.simulate([1], [fo.Job("a", [1], 1, tasks=2)])
    with pytest.raises(InvalidBlock, match="give a longer one"):
        fo.online.service(run, window=1e-9)


def test_a_quantum_is_positive():
    with pytest.raises(InvalidBlock, match="quantum is 0; give a finite cost > 0"):
        fo.online.DRR(quantum=0)
