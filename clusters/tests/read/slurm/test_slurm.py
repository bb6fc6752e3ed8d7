"""A Slurm cluster as an instance, from made-up output of several versions of scontrol and squeue."""

import json

import fairopt_clusters as fc
import numpy as np
import pytest
from fairopt_clusters import read_slurm
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from slurm_jobs import numbered

import fairopt as fo
from fairopt.datasets import read
from fairopt.errors import FairoptError, InvalidInstance


def number(value, given=True):
    """A number as the data parser has written it since v0.0.39."""
    return {"set": given, "infinite": False, "number": value}


ONLY_RULE = ("Slurm's own rule is Fair Tree: equal usage per fairshare over time; --policy slurm is what it steers to",)


def node(name, **fields):
    return {
        "name": name,
        "cpus": 64,
        "real_memory": 262144,
        "gres": "",
        "state": ["IDLE"],
        "partitions": ["all"],
    } | fields


def job(**fields):
    return {"job_id": 7, "account": "bio", "job_state": ["PENDING"], "tres_req_str": "cpu=4,mem=16G,node=1"} | fields


def cluster(*jobs, nodes=None, **options):
    return read_slurm({"nodes": nodes or [node("n1"), node("n2")]}, {"jobs": numbered(jobs)}, **options)


def refusal(*jobs, **options):
    with pytest.raises(InvalidInstance) as error:
        cluster(*jobs, **options)
    return str(error.value)


def said(instance, words):
    return [note for note in instance.notes if words in note]


# -- owners and tasks -----------------------------------------------------------------------------------------


def test_accounts_are_users_with_the_mean_request_of_their_jobs():
    made = cluster(job(), job(tres_req_str="cpu=8,mem=32G,node=1"), job(account="cfd"), tasks="mean")
    assert made.teams["team"] == ("bio", "cfd")
    assert made.resources == ("cpu", "memory")
    assert made.resource_titles == ("cpu (core)", "memory (GiB)")
    assert_array_equal(made.demands, [[6, 24], [4, 16]])
    assert_array_equal(made.task_limits, [2, 1])
    assert_array_equal(made.counts, [2])
    assert_array_equal(made.capacities, [[64, 256]])


def test_shapes_make_a_user_of_each_request_in_one_team():
    made = cluster(job(), job(tres_req_str="cpu=8,mem=32G,node=1"), tasks="shapes", merge=False)
    assert made.users == ("bio/8 cpu 32 GiB memory", "bio/4 cpu 16 GiB memory")
    assert_array_equal(made.demands, [[8, 32], [4, 16]])
    assert (made.teams["team"], made.team_weights) == (("bio", "bio"), {"bio": 1})
    assert made.servers == ("n1", "n2")


@pytest.mark.parametrize(
    ("users", "names"), [("account", ("bio",)), ("user", ("eve",)), ("partition", ("all",)), ("qos", ("high",))]
)
def test_owners_may_be_accounts_users_partitions_or_qos(users, names):
    assert cluster(job(user_name="eve", partition="all,gpu", qos="high"), users=users).teams["team"] == names


def test_jobs_with_equal_requests_keep_their_owners_and_servers():
    runs = {"job_state": ["RUNNING"], "job_id": 8}
    jobs = [job(), job(account="cfd"), job(**runs, nodes="n1"), job(**runs, account="cfd", nodes="n2"), job(nodes=None)]
    made = cluster(*jobs, merge=False)
    assert made.users == ("bio/4 cpu", "cfd/4 cpu")
    assert_array_equal(made.task_limits, [3, 2])
    assert_array_equal(made.held, [[1, 0], [0, 1]])
    same = job(job_id=9, account=5)
    assert "jobs[1] (job 9).account is 5" in refusal(job(), same)


def test_jobs_without_an_account_have_an_owner_of_their_own():
    made = cluster(job(), job(job_id=5, account="(null)"), job(job_id=9, account=None))
    assert made.teams["team"] == ("bio", "no account")
    assert said(made, "2 jobs without an account count as those of 'no account' (such as 5)")


def test_a_user_without_a_name_has_a_number():
    assert cluster(job(user_name="", user_id=1000), users="user").teams["team"] == ("1000",)


def test_finished_held_and_empty_jobs_are_left_out_and_counted():
    made = cluster(
        job(),
        job(job_id=1, job_state=["CANCELLED", "COMPLETING"]),
        job(job_id=2, job_state="COMPLETED"),
        job(job_id=3, hold=True),
        job(job_id=4, state_reason="JobHeldAdmin"),
        job(job_id=5, tres_req_str="node=1"),
    )
    assert_array_equal(made.task_limits, [1])
    assert said(made, "2 jobs had finished and were left out (such as 1)")
    assert said(made, "2 jobs on hold were left out (such as 3)")
    assert said(made, "1 job that requests nothing was left out (5)")


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        ("PartitionTimeLimit", True),
        ("DependencyNeverSatisfied", True),
        ("AssocMaxWallDurationPerJobLimit", True),
        ("QOSMaxGRESPerJob", True),
        ("QOSMinGRES", True),
        ("AssocGrpGRES", False),
        ("QOSMaxGRESPerUser", False),
        ("PartitionNodeLimit", False),  # also where servers are down
        ("Resources", False),
    ],
)
def test_jobs_that_can_never_start_as_requested_are_no_demand(reason, never):
    made = cluster(job(), job(job_id=8, account="other", state_reason=reason))
    assert ("other" in made.teams["team"]) != never
    assert bool(said(made, f"1 job that Slurm never starts as requested was left out (8: {reason})")) == never
    running = cluster(job(job_id=8, state_reason=reason, job_state=["RUNNING"], nodes="n1"))
    assert running.n_users == 1


@pytest.mark.parametrize(
    "state", ["RUNNING", ["SUSPENDED"], ["PENDING", "REQUEUED"], "CONFIGURING", ["NEW_STATE"], None]
)
def test_jobs_that_are_not_over_count(state):
    assert cluster(job(job_state=state, hold=state == "RUNNING")).n_users == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"tres_req_str": "cpu=8,mem=33G,node=2", "node_count": number(2)},
        {"tres_req_str": "cpu=8,mem=33G,node=2"},
        {"tres_req_str": "cpu=8,mem=33G", "tres_alloc_str": "cpu=9,mem=33G,node=2,billing=9"},
        {"tres_req_str": "cpu=8,mem=33G,node=1", "node_count": 2},
    ],
)
def test_a_job_of_two_servers_is_two_tasks_of_half_of_it(fields):
    made = cluster(job(**fields))
    assert_array_equal(made.demands, [[4, 16.5]])
    assert_array_equal(made.task_limits, [2])


def test_a_job_larger_than_each_server_that_it_may_use_is_noted():
    nodes = [node("n1"), node("n2", cpus=400, partitions=["other"])]
    one = cluster(job(tres_req_str="cpu=320,mem=64G", partition="all"), job(partition="all"), nodes=nodes)
    assert said(one, "1 job is larger than any eligible server (7: 320 of cpu)")


def test_a_job_on_several_servers_is_as_many_tasks_and_one_on_more_than_there_are_is_left_out():
    two = job(tres_req_str="cpu=80,mem=64G,node=2")
    made = cluster(two, job(job_id=8, tres_req_str="cpu=80,mem=64G,node=3"))
    assert made.task_limits.tolist() == [2]
    assert made.notes[:-1] == (
        "2 jobs on several servers count as a task on each: Slurm starts all of them or none (such as 7)",
        "1 job that needs more servers than it may use was left out (8)",
    )


def test_an_array_counts_the_tasks_that_wait():
    made = cluster(job(array_task_string="1-10,15,20-30:2"))
    assert_array_equal(made.task_limits, [17])
    cut = cluster(job(array_task_string="1-10,15,2..."))
    assert_array_equal(cut.task_limits, [12])
    assert said(cut, "1 job has more tasks of an array than Slurm shows")


@pytest.mark.parametrize(
    ("running", "count"), [((), 50), ((7, 7, 7), 50), ((7,) * 50, 50), ((7,) * 60, 60), ((8, 0, 0), 53)]
)
def test_of_an_array_with_a_limit_as_many_wait_as_may_start_beside_those_that_run(running, count):
    """Arrays of the running jobs; those of other arrays and those of none do not count against the limit."""
    waiting = job(array_job_id=7, array_task_string="1-400%50", array_max_tasks={"set": True, "number": 50})
    others = [job(job_id=100 + k, job_state="RUNNING", array_job_id=number) for k, number in enumerate(running)]
    made = cluster(waiting, *others)
    assert_array_equal(made.task_limits, [count])
    left_out = len(running) + 400 - count
    assert said(
        made, f"{left_out} waiting jobs of arrays beyond the limit on jobs at once were left out (such as 7: 400 wait"
    )


def test_a_limit_of_an_array_counts_without_a_number_of_the_array_and_per_server_of_its_jobs():
    made = cluster(job(array_task_string="1-400%50", node_count=2, tres_req_str="cpu=8,mem=32G,node=2"))
    assert_array_equal(made.task_limits, [100])
    assert_array_equal(cluster(job(array_job_id=7, array_task_string="1-3", array_max_tasks=2)).task_limits, [2])
    assert not said(cluster(job(array_task_string="1-3%5")), "beyond")


def test_licences_are_said_to_be_not_modelled():
    assert said(cluster(job(licenses="matlab:1")), "1 job that requests licences counts without them")


@pytest.mark.parametrize("fields", [{"exclusive": ["true"]}, {"shared": "none"}])
def test_jobs_that_take_whole_servers_count_with_all_cores_and_gres_and_the_memory_that_they_request(fields):
    nodes = [node("g1", cpus=96, gres="gpu:a100:8"), node("c1"), node("c2", cpus=128)]
    made = cluster(job(tres_req_str="cpu=1,mem=4G,node=1", **fields), nodes=nodes)
    assert made.demands.tolist() == [[64, 4]]
    assert said(made, "1 job that takes whole servers counts with all cores and GRES of the smallest server for it (7)")
    on_gpus = job(tres_req_str="cpu=1,mem=4G,node=1,gres/gpu=1", **fields)
    assert cluster(on_gpus, nodes=nodes).demands.tolist() == [[96, 4, 8]]
    assert cluster(job(exclusive=0, shared=1), nodes=nodes).demands.tolist() == [[4, 16]]


# -- what is allocated ----------------------------------------------------------------------------------------

PER_HOST = {
    "nodes": {
        "allocation": [
            {"name": "n1", "cpus": {"count": 64, "used": 0}, "memory": {"used": 0, "allocated": 131072}},
            {"name": "n2", "cpus": {"count": 64, "used": 0}, "memory": {"used": 0, "allocated": 65536}},
        ]
    }
}


@pytest.mark.parametrize(
    ("fields", "units"),
    [
        ({"job_resources": PER_HOST}, [128, 192]),
        ({"tres_alloc_str": "cpu=128,mem=192G,node=2"}, [128, 192]),
        ({"job_resources": {"allocated_nodes": [{"nodename": "n1", "memory_allocated": 2048}]}}, [2, 4]),
        ({"job_resources": {}}, [2, 4]),
        ({"job_resources": {"nodes": "n[1-2]", "allocated_nodes": None}}, [2, 4]),
    ],
)
def test_jobs_that_run_hold_what_is_allocated_on_each_server_beside_any_that_wait(fields, units):
    runs = job(job_state="RUNNING", nodes="n[1-2]", tres_req_str="cpu=2,mem=4G,node=2", node_count=2, **fields)
    waits = job(job_id=8, tres_req_str="cpu=3,mem=5G,node=1")
    made = cluster(runs, waits, tasks="shapes", merge=False)
    assert made.held_units.sum(axis=0).tolist() == units
    assert made.task_limits.sum() == 3
    other = "1 running job is allocated other amounts than requested, and counts with these (7)"
    assert (other in made.notes) == (units == [128, 192])


def test_held_by_an_account_is_what_runs_and_no_mean_with_what_waits(monkeypatch):
    """With too many different requests they are averaged, and a note says so."""
    runs = job(job_state="RUNNING", nodes="n1", tres_req_str="cpu=1,mem=1G,node=1")
    jobs = [runs, job(job_id=8, tres_req_str="cpu=63,mem=1G,node=1")]
    assert cluster(*jobs).held_units.sum(axis=0).tolist() == [1, 1]
    monkeypatch.setattr("fairopt_clusters.read.work.MOST_SHAPES", 1)
    averaged = cluster(*jobs)
    assert averaged.held_units.tolist() == [[32, 1]] and averaged == cluster(*jobs, tasks="mean")
    assert said(averaged, "of 1 owner with averaged requests, what runs counts with these means too (bio)")


def test_gpus_of_a_job_are_counted_by_server_and_of_whole_servers_all_of_them():
    nodes = [node("a", gres="gpu:a100:8"), node("b", gres="gpu:a100:8")]
    of = {"job_state": "RUNNING", "nodes": "a,b", "node_count": 2, "tres_req_str": "cpu=2,node=2,gres/gpu=4"}
    spread = job(**of, gres_detail=["gpu:a100:3(IDX:0-2)", "gpu:a100:1(IDX:0)"])
    made = cluster(spread, nodes=nodes, tasks="shapes", merge=False)
    assert sorted(made.demands[:, 1]) == [1, 3] and made.resources == ("cpu", "gpu")
    whole = job(**of, shared=["none"], tres_alloc_str="cpu=128,node=2,gres/gpu=16,gres/gpu:a100=16")
    assert cluster(whole, nodes=nodes).held_units.tolist() == [[128, 16]]


def test_a_server_that_starts_no_jobs_counts_with_what_runs_there_for_the_jobs_that_run_there():
    runs = job(job_state="RUNNING", nodes="n2", tres_req_str="cpu=8,mem=32G,node=1")
    made = cluster(runs, job(job_id=8), nodes=[node("n1"), node("n2", state=["MIXED", "DRAIN"])], merge=False)
    assert said(made, "1 server that can start no jobs counts with what runs there, for the jobs that run there (n2: ")
    assert made.servers == ("n1", "n2") and made.capacities.tolist() == [[64, 256], [8, 32]]
    assert made.held_units.sum(axis=0).tolist() == [8, 32]
    assert sorted(made.eligible.tolist()) == [[True, False], [True, True]]


@pytest.mark.parametrize("policy", [fo.HDRF(), fc.policies.FairTree()])
def test_what_runs_on_a_drained_server_counts_first_for_its_account(policy):
    """bio runs 7 GPUs on a drained server, which nobody else can use, and waits for more: 7 of 14 for each."""
    of = {"tres_req_str": "cpu=1,node=1,gres/gpu=1"}
    runs = [job(job_id=k, job_state="RUNNING", nodes="n2", **of) for k in range(7)]
    waits = [job(job_id=10, account=name, array_task_string="1-20", **of) for name in ("bio", "cfd")]
    made = cluster(*runs, *waits, nodes=[node("n1", gres="gpu:7"), node("n2", gres="gpu:7", state=["DRAIN", "MIXED"])])
    tasks = policy.allocate(made).tasks
    assert {team: tasks[made.teams.names[team]].sum() for team in ("bio", "cfd")} == pytest.approx({"bio": 7, "cfd": 7})


# -- requests of several versions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "demands"),
    [
        ({"cpus": 8, "memory_per_node": 2048}, [8, 2]),
        ({"cpus": number(8), "memory_per_node": number(0, False), "memory_per_cpu": number(1024)}, [8, 8]),
        ({"cpus": None, "minimum_cpus_per_node": 2, "memory_per_cpu": 1024, "memory_per_node": None}, [2, 2]),
        ({"cpus": "8", "memory_per_node": 4294967294, "memory_per_cpu": 2**64 - 2}, [8]),
        ({"cpus": {"set": True, "infinite": True, "number": 5}, "minimum_cpus_per_node": 3}, [3]),
        ({"tres_req_str": "cpu=2,mem=1.50T,node=1,billing=7", "cpus": 99}, [2, 1536]),
        ({"tres_req_str": "cpu=2,mem=1500M"}, [2, 1500 / 1024]),
        ({"tres_req_str": "cpu=2,mem=2048", "memory_per_node": 77}, [2, 2]),
        ({"tres_req_str": "cpu=2,mem=1048576K"}, [2, 1]),
    ],
)
def test_requests_are_read_in_the_documented_order(fields, demands):
    made = cluster(job(**{"tres_req_str": "(null)"} | fields))
    assert_array_equal(made.demands, [demands])


GPUS = [node("a", gres="gpu:a100:8(S:0-1)"), node("v", gres="gpu:v100:4(S:0,1),gpu:t4:2"), node("c", gres="(null)")]


def test_gpus_of_any_type_are_one_resource():
    made = cluster(job(tres_req_str="cpu=1,gres/gpu=2"), nodes=GPUS, merge=False)
    assert made.resources == ("cpu", "gpu")
    assert_array_equal(made.capacities[:, 1], [8, 6, 0])
    assert_array_equal(made.eligible, [[True, True, False]])
    assert made.server_types == ("a100", "t4:2|v100:4", "no GPU")


@pytest.mark.parametrize(
    "fields",
    [
        {"tres_req_str": "cpu=1,gres/gpu=2,gres/gpu:v100=2"},
        {"tres_req_str": "cpu=1,gres/gpu:v100=2"},
        {"tres_req_str": "cpu=1,gres/gpu=2", "tres_per_node": "gres:gpu:v100:2"},
        {"tres_req_str": "cpu=1", "tres_per_node": "gres/gpu:v100:2"},
        {"tres_req_str": "cpu=1", "tres_per_job": "gpu:v100:2"},
        {"tres_req_str": "cpu=1", "tres_per_task": "cpu:1,gres/gpu:v100=1", "tasks": number(2)},
        {"tres_req_str": "cpu=1", "tres_per_socket": "gres/gpu:v100:1", "sockets_per_node": number(2)},
        {"tres_req_str": "cpu=1", "tres_per_node": "gpu:v100:2", "tres_per_job": "gpu:v100:2"},
    ],
)
def test_gpus_of_a_type_are_a_resource_besides(fields):
    made = cluster(job(**fields), job(account="cfd", tres_req_str="gres/gpu=1"), nodes=GPUS, merge=False)
    assert made.resources == ("cpu", "gpu", "gpu:v100")
    assert_array_equal(made.demands, [[1, 2, 2], [0, 1, 0]])
    assert_array_equal(made.capacities[:, 1:], [[8, 16], [6, 4], [0, 0]])  # 20 of a type, no fewer than all 14
    assert said(made, "gpu:v100 only limits what fits on servers with several types, and does not bind on others")
    assert_array_equal(made.eligible[0], [False, True, False])


def test_a_type_without_a_number_is_one_of_it():
    made = cluster(job(tres_per_job="gres:gpu:v100"), nodes=GPUS)
    assert_array_equal(made.demands[0, 2:], [1, 1])


def test_the_only_type_is_no_resource_of_its_own():
    made = cluster(job(tres_req_str="cpu=1,gres/gpu=2,gres/gpu:a100=2"), nodes=[GPUS[0], GPUS[2]])
    assert made.resources == ("cpu", "gpu")


def test_a_job_that_needs_a_type_of_no_server_is_left_out():
    made = cluster(job(), job(job_id=9, tres_per_node="gpu:h100:1"), nodes=GPUS)
    assert made.n_users == 1
    assert said(made, "1 job ")[0].endswith("left out (9)")


def test_requests_by_job_and_by_task_are_spread_over_its_servers():
    made = cluster(
        job(tres_req_str="cpu=4,node=2", node_count=2, tres_per_job="gpu:4"),
        job(account="cfd", tres_req_str="cpu=4,node=2", node_count=2, tres_per_task="gres/gpu:1", tasks=6),
        nodes=GPUS,
    )
    assert_array_equal(made.demands, [[2, 2], [2, 3]])


def test_other_generic_resources_are_read_too():
    nodes = [node("n1", gres="tmp:2K,cpu:24,gpu:no_consume:4", gres_drained="tmp:24")]
    made = cluster(job(tres_per_node="gres/tmp:1K,gres:cpu:2,gpu:1"), job(), nodes=nodes)
    assert made.n_users == 1
    made = cluster(job(tres_per_node="gres/tmp:1K,gres:cpu:2"), nodes=nodes)
    assert made.resources == ("cpu", "memory", "gres/cpu", "tmp")
    assert_array_equal(made.demands, [[4, 16, 2, 1024]])
    assert_array_equal(made.capacities, [[64, 256, 24, 2024]])


# -- servers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "cpu", "memory"),
    [
        ({"effective_cpus": 60, "specialized_cores": 2, "threads": 2}, 60, 256),
        ({"specialized_cores": 2, "threads": 2, "specialized_memory": 2048}, 60, 254),
        ({"cpus": number(64), "real_memory": number(1024)}, 64, 1),
        ({"real_memory": 100, "specialized_memory": 200}, 64, 0),
    ],
)
def test_servers_have_what_is_not_set_aside(fields, cpu, memory):
    made = cluster(job(tres_req_str="cpu=1"), job(), nodes=[node("n1", **fields), node("n2")], merge=False)
    assert_array_equal(made.capacities[0], [cpu, memory])
    aside = "1 server with cores or memory set aside for the system counts without them (n1)"
    assert (aside in made.notes) == ((cpu, memory) not in ((64, 256), (64, 1)))


@pytest.mark.parametrize(
    "state",
    [["DOWN", "NOT_RESPONDING"], ["IDLE", "DRAIN"], "idle+drain", "drained*", "MIXED*+DRAIN", "MAINT", "FUTURE"],
)
def test_servers_that_can_start_no_jobs_are_left_out(state):
    made = cluster(job(), nodes=[node("n1"), node("n2", state=state)], merge=False)
    assert made.servers == ("n1",)
    assert said(made, "1 server that can start no jobs was left out (n2: ")


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("down*", "DOWN"),
        (["idle*"], "NOT_RESPONDING"),
        ("IDLE$", "MAINTENANCE"),
        ("drng", "DRAINING"),
        ("inval", "INVALID_REG"),
        (["unk"], "UNKNOWN"),
        ("mix$,unk", "MAINTENANCE"),
        ("futr", "FUTURE"),
        ("drain@", "DRAIN"),
        ("npc", "PERFCTRS"),
    ],
)
def test_states_may_be_written_as_sinfo_shortens_them(state, shown):
    made = cluster(job(), nodes=[node("n1"), node("n2", state=state)], merge=False)
    assert made.servers == ("n1",)
    assert said(made, f"1 server that can start no jobs was left out (n2: {shown})")


@pytest.mark.parametrize("state", ["alloc", "idle~", "mix#", "resv", "plnd", "idle@", "comp", "mix-"])
def test_short_states_of_servers_in_use_count(state):
    made = cluster(job(), nodes=[node("n1", state=state)])
    words = {"idle~": "powered down", "resv": "in a reservation counts as open to all"}
    assert said(made, words[state]) if state in words else made.notes == ONLY_RULE


def test_states_that_are_not_known_count_and_are_told():
    made = cluster(job(), nodes=[node("n1"), node("n2", state=["IDLE", "WEIRD"])])
    assert made.counts.tolist() == [2]
    assert said(made, "1 server in an unknown state counts as usable (n2: WEIRD)")


@pytest.mark.parametrize("state", [["PENDING", "REVOKED"], ["REVOKED"], "RV"])
def test_jobs_that_another_cluster_runs_are_left_out(state):
    made = cluster(job(), job(job_id=8, job_state=state))
    assert_array_equal(made.task_limits, [1])
    assert said(made, "1 job that another cluster of the federation runs was left out (8)")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"set": True}, "node_count is an object; give 'number' as a whole number >= 0, or 'set' as false"),
        ({"set": True, "infinite": False, "number": None}, "give 'number' as a whole number"),
        ({"set": "no", "number": 1}, "node_count is an object; give true or false as 'set', not \"no\""),
        ({"infinite": 1, "number": 1}, "node_count is an object; give true or false as 'infinite', not 1"),
    ],
)
def test_a_number_that_is_set_must_be_there(value, words):
    assert words in refusal(job(node_count=value))


@pytest.mark.parametrize(
    "fields",
    [{"memory_per_node": number(0)}, {"memory_per_node": 0}, {"tres_req_str": "cpu=4,mem=0,node=1"}],
)
def test_all_memory_of_a_server_is_said_not_to_count(fields):
    made = cluster(job(), job(job_id=9, account="cfd", **({"tres_req_str": "cpu=4"} | fields)))
    assert_array_equal(made.demands, [[4, 16], [4, 0]])
    what = "1 job that requests all the memory of a server, as --mem=0 does, counts without memory (9)"
    assert said(made, what)
    assert not said(cluster(job(), job(tres_req_str="cpu=4", memory_per_node=number(0, False))), "all the memory")


def test_a_type_that_is_a_number_is_a_count_as_in_slurm_and_told_if_no_server_has_so_many():
    nodes = [node("n1", gres="gpu:4090:8")]
    made = cluster(job(tres_req_str="cpu=1", tres_per_node="gpu:4090"), nodes=nodes)
    assert_array_equal(made.demands, [[1, 4090]])
    assert said(made, "1 job is larger than any eligible server (7: 4090 of gpu)")
    made = cluster(job(tres_req_str="cpu=1", tres_per_node="gpu:4090:1"), nodes=nodes)
    assert_array_equal(made.demands, [[1, 1]])
    assert made.notes == ONLY_RULE


def test_numbers_of_16_bits_that_say_nothing_are_not_set():
    fields = {"tres_req_str": "cpu=1", "tres_per_socket": "gpu:2"}
    for value in (65534, 65535, 4294967294, number(65534)):
        made = cluster(job(**fields, sockets_per_node=value), nodes=[node("n1", gres="gpu:8", effective_cpus=value)])
        assert_array_equal(made.demands, [[1, 2]])
        assert_array_equal(made.capacities, [[64, 8]])
    made = cluster(job(tres_req_str="", cpus=1, memory_per_node=65534))
    assert_array_equal(made.demands, [[1, 65534 / 1024]])


@pytest.mark.parametrize("state", [["ALLOCATED"], "mixed", ["IDLE", "PLANNED"], None, "idle"])
def test_servers_in_use_count(state):
    assert cluster(job(), nodes=[node("n1", state=state)]).notes == ONLY_RULE


def test_older_versions_have_flags_of_states_in_a_list_of_their_own():
    made = cluster(job(), nodes=[node("n1"), node("n2", state="idle", state_flags=["DRAIN"])], merge=False)
    assert made.servers == ("n1",)


def test_servers_that_sleep_count():
    made = cluster(job(), nodes=[node("n1", state=["IDLE", "CLOUD", "POWERED_DOWN"])])
    assert said(made, "1 server is powered down and counts as available")


def test_identical_servers_are_merged_and_of_different_partitions_not():
    made = cluster(
        job(partition="gpu"), job(account="cfd"), nodes=[node("n1"), node("n2"), node("n3", partitions="gpu")]
    )
    assert made.servers == ("n[1-2]", "n3")
    assert_array_equal(made.counts, [2, 1])
    assert_array_equal(made.eligible, [[False, True], [True, True]])


# -- placement ------------------------------------------------------------------------------------------------

PLACES = [
    node("n01", features=["ib", "a100"], active_features=["ib"]),
    node("n02", features="roce,v100"),
    node("n03", features=["ib", "v100"]),
    node("x", partitions=["other"], features=[]),
]


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({}, "1111"),
        ({"partition": "all"}, "1110"),
        ({"partition": "all,other"}, "1111"),
        ({"features": "ib"}, "1010"),
        ({"features": "a100"}, "0000"),
        ({"features": "ib&v100"}, "0010"),
        ({"features": "ib,v100"}, "0010"),
        ({"features": "ib|roce&v100"}, "0110"),
        ({"features": "ib|(roce&v100)"}, "1110"),
        ({"features": "[ib|roce]", "partition": "all"}, "1110"),
        ({"required_nodes": "n[01-02]"}, "1100"),
        ({"required_nodes": "n01,x"}, "1001"),
        ({"excluded_nodes": "n[01-02],x"}, "0010"),
        ({"required_nodes": ["n01", "n03"]}, "1010"),
    ],
)
def test_placement_follows_from_partitions_constraints_and_lists(fields, allowed):
    made = cluster(job(account="free"), job(**fields), nodes=PLACES, merge=False)
    if allowed == "0000":
        assert made.teams["team"] == ("free",)
    else:
        assert_array_equal(made.eligible[made.teams["team"].index("bio")], [c == "1" for c in allowed])
    assert not said(made, "constraint")


@pytest.mark.parametrize(
    "fields",
    [
        {"features": "ib*2"},
        {"features": "ib&"},
        {"features": "(ib"},
        {"excluded_nodes": "n[1-"},
        {"required_nodes": "n01", "node_count": 2},
        {"excluded_nodes": "n[1-999999]"},
    ],
)
def test_what_is_not_understood_of_a_placement_restricts_nothing_and_is_said(fields):
    made = cluster(job(**fields), nodes=PLACES, merge=False)
    assert made.eligible.all()
    assert said(made, "1 job with a constraint or list of servers that is not modelled may run more widely (7)")


def test_servers_of_an_old_version_have_no_partitions_and_count_as_in_all():
    old = node("n1")
    del old["partitions"]
    made = cluster(job(partition="gpu"), nodes=[old, node("n2")], merge=False)
    assert_array_equal(made.eligible, [[True, False]])
    assert said(made, "1 server without a list of partitions counts as in all of them")


# -- files and errors -----------------------------------------------------------------------------------------


def test_files_and_parsed_data_give_the_same(tmp_path):
    nodes, jobs = {"nodes": GPUS}, {"jobs": [job(tres_per_node="gpu:a100:1"), job(account="cfd")]}
    (tmp_path / "nodes.json").write_text("\ufeff" + json.dumps(nodes), encoding="utf-8")
    (tmp_path / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    assert read_slurm(tmp_path / "nodes.json", str(tmp_path / "jobs.json")) == read_slurm(nodes, jobs)


def test_the_order_of_jobs_makes_no_difference():
    jobs = [job(account=a, tres_req_str=f"cpu={c},mem={m}M") for a, c, m in (("x", 1, 3), ("y", 2, 7), ("x", 5, 10))]
    assert cluster(*jobs) == cluster(*reversed(jobs))


def test_errors_name_file_place_value_and_fix(tmp_path):
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": [node("n1", cpus=-1)]}))
    with pytest.raises(InvalidInstance, match=r"nodes\.json: nodes\[0\] \(n1\)\.cpus is -1; give a whole number >= 0"):
        read_slurm(tmp_path / "nodes.json", {"jobs": []})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tres_req_str": "cpu=4,mem=16GiB"}, 'jobs[0] (job 7).tres_req_str is "cpu=4,mem=16GiB"; give a number for'),
        ({"tres_req_str": "cpu=\u0664"}, "tres_req_str"),
        ({"tres_req_str": "cpu=1,mem=4\u212a"}, "tres_req_str"),
        ({"tres_req_str": 5}, "jobs[0] (job 7).tres_req_str is 5; give text"),
        ({"node_count": 1.5}, "jobs[0] (job 7).node_count is 1.5; give a whole number"),
        ({"node_count": True}, "jobs[0] (job 7).node_count is true"),
        ({"tres_req_str": "", "cpus": number(float("nan"))}, "jobs[0] (job 7).cpus is an object; give a whole"),
        ({"array_task_string": "5-1"}, 'jobs[0] (job 7).array_task_string is "5-1"; give ranges'),
        ({"account": "a\nb"}, 'jobs: the account of job 7 is "a\\nb"; give a name'),
        ({"account": ["a", 1]}, "jobs[0] (job 7).account is a list; give text"),
    ],
)
def test_values_that_cannot_be_read_are_refused_with_their_place(fields, words):
    assert words in refusal(job(**fields))


def test_other_documents_are_refused():
    with pytest.raises(InvalidInstance, match="nodes has no list 'nodes' but sinfo; expected the output of scontrol"):
        read_slurm({"sinfo": []}, {"jobs": []})
    with pytest.raises(InvalidInstance, match="jobs has no list 'jobs' but nothing; expected the output of squeue"):
        read_slurm({"nodes": [node("n1")]}, {})
    with pytest.raises(InvalidInstance, match=r"nodes\[0\] is 5; give an object"):
        read_slurm({"nodes": [5]}, {"jobs": []})
    with pytest.raises(InvalidInstance, match=r"cannot be read"):
        read_slurm("nowhere/nodes.json", {"jobs": []})


def test_an_empty_cluster_and_an_empty_queue_are_refused_and_say_why():
    with pytest.raises(InvalidInstance, match="the list of nodes is empty"):
        read_slurm({"nodes": []}, {"jobs": []})
    with pytest.raises(InvalidInstance, match="no servers to share; 1 server that can start no jobs"):
        read_slurm({"nodes": [node("n1", state="DOWN")]}, {"jobs": []})
    assert "no jobs to share servers among; 1 job had finished" in refusal(job(job_state="FAILED"))


def test_a_server_twice_is_refused():
    assert 'nodes[1] (n1).name is "n1"; give each node once' in refusal(job(), nodes=[node("n1"), node("n1")])


def test_options_that_are_not_there_are_refused():
    assert "did you mean 'account'?" in refusal(job(), users="acount")
    assert "tasks is 'means'" in refusal(job(), tasks="means")
    with pytest.raises(InvalidInstance, match="users is"):
        cluster(job(), users=["account"])


# -- fuzz -----------------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["cpu=1,mem=2G", "gpu:a100:2(S:0)", "gres/gpu=1", "n[1-3]", "a&(b|c)", "1-5%2", "PENDING"]),
)
VALUES = st.recursive(
    LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3), max_leaves=6
)
NODE_KEYS = ["name", "cpus", "effective_cpus", "real_memory", "gres", "gres_drained", "state", "partitions", "features"]
JOB_KEYS = [
    "job_id",
    "account",
    "partition",
    "job_state",
    "hold",
    "tres_req_str",
    "tres_per_node",
    "tres_per_task",
    "tasks",
    "node_count",
    "cpus",
    "memory_per_node",
    "array_task_string",
    "features",
    "required_nodes",
    "excluded_nodes",
    "exclusive",
    "shared",
    "licenses",
]


@given(
    st.dictionaries(st.sampled_from(NODE_KEYS), VALUES, max_size=3),
    st.dictionaries(st.sampled_from(JOB_KEYS), VALUES, max_size=3),
)
def test_any_values_give_an_instance_or_an_error_of_ours(of_node, of_job):
    try:
        made = cluster(job(), job(**of_job), nodes=[node("n1"), node("n2") | of_node])
    except FairoptError as error:
        assert len(str(error)) < 2000
    else:
        assert np.isfinite(made.demands).all()
        assert made.weights.sum() == pytest.approx(len(set(made.teams["team"])))


@given(VALUES, VALUES)
def test_any_documents_give_an_instance_or_an_error_of_ours(nodes, jobs):
    for given_nodes, given_jobs in ((nodes, jobs), ({"nodes": nodes}, {"jobs": jobs})):
        with pytest.raises(FairoptError):
            read_slurm(given_nodes, given_jobs)


@given(st.binary(max_size=60), st.integers(0, 300), st.integers(0, 300))
def test_any_bytes_give_an_instance_or_an_error_of_ours(tmp_path_factory, rubbish, start, stop):
    raw = json.dumps({"jobs": [job(), job(account="cfd", features="a|b")]}).encode()
    file = tmp_path_factory.mktemp("slurm") / "jobs.json"
    file.write_bytes(raw[:start] + rubbish + raw[max(start, stop) :])
    try:
        read_slurm({"nodes": [node("n1")]}, file)
    except FairoptError as error:
        assert str(error)


def test_running_jobs_are_held_on_their_nodes():
    running = job(job_state=["RUNNING"], node_count=number(2), nodes="n[1-2]", tres_req_str="cpu=8,mem=32G,node=2")
    made = cluster(running, job(), job(job_id=9, job_state=["SUSPENDED"], nodes="n1"), merge=False)
    assert (made.held.tolist(), made.task_limits.tolist()) == ([[1, 1]], [4])
    assert cluster(running, job()).held.tolist() == [[2]]
    assert cluster(job()).held.tolist() == [[0]]  # and not unknown


def test_running_jobs_on_unknown_servers_count_as_waiting():
    gone = job(job_state=["RUNNING"], nodes="n7")
    made = cluster(gone, job(job_id=8, job_state="R", nodes="n1"), job(job_id=9, job_state="R"), merge=False)
    assert made.held.tolist() == [[1, 0]]
    assert said(made, "on servers that are not listed: tasks there count as waiting (7)")
    assert said(made, "1 running job without a list of its servers counts as waiting (9)")


# -- what is not modelled is said -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"resv_name": "class"}, "1 job in a reservation may run on any server (7)"),
        ({"state_reason": "Dependency"}, "1 job that waits for another job or for a time counts (7)"),
        (
            {"tres_per_node": "gres/shard:2"},
            "1 job that requests parts of GPUs (shard, mps): not counted as GPUs (7)",
        ),
        (
            {"tres_req_str": "cpu=4,node=1", "memory_per_tres": "gres/gpu:16384"},
            "1 job that requests memory by GPU counts without memory (7)",
        ),
    ],
)
def test_what_a_job_asks_for_and_is_not_modelled_is_said(fields, sentence):
    has = node("n1", gres="gpu:4,shard:16")
    assert sentence in cluster(job(**fields), nodes=[has]).notes
    assert cluster(job(), nodes=[has]).notes == ONLY_RULE


def test_nodes_jobs_and_associations_in_one_document_are_the_same_as_apart(tmp_path):
    nodes, jobs = [node("n1"), node("n2")], [job(), job(account="cfd")]
    tree = [{"account": "root", "shares_raw": 1}, {"account": "cfd", "parent_account": "root", "shares_raw": 5}]
    path = tmp_path / "all.json"
    for parts, more in (({}, {}), ({"associations": tree}, {"associations": {"associations": tree}})):
        path.write_text(json.dumps({"nodes": nodes, "jobs": jobs, **parts}))
        assert read(path) == read_slurm({"nodes": nodes}, {"jobs": jobs}, **more)
    assert read(path, users="partition", tasks="shapes") == read_slurm(
        {"nodes": nodes}, {"jobs": jobs}, users="partition", tasks="shapes"
    )


@pytest.mark.parametrize("again", [{}, {"job_state": ["RUNNING"], "nodes": "n1"}])
def test_a_job_that_is_there_twice_counts_once_and_is_said(again):
    made = read_slurm({"nodes": [node("n1")]}, {"jobs": [job(), job(**again), job(job_id=8)]})
    assert_array_equal(made.task_limits, [2])
    assert said(made, "1 JobID is there several times, and counts once, as at first (7)")


@pytest.mark.parametrize(
    "other",
    [
        {"array_task_id": number(2)},  # a task of an array beside those that wait
        {"array_task_string": "3-9"},
        {"het_job_offset": number(1)},
        {"cluster": "west"},  # of squeue -M
    ],
)
def test_arrays_parts_and_other_clusters_are_jobs_of_their_own(other):
    made = read_slurm({"nodes": [node("n1")]}, {"jobs": [job(), job(**other)]})
    assert_array_equal(made.task_limits, [1 + (7 if "array_task_string" in other else 1)])
    assert not said(made, "several times")
