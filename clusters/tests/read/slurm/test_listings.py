"""Texts of squeue, scontrol and sacctmgr give what their output in JSON gives."""

import json

import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance

NODES = [{"name": f"n{k}", "cpus": 64, "real_memory": 131072, "gres": "gpu:4", "partitions": ["all"]} for k in (1, 2)]
JOBS = [
    {"job_id": 101, "array_job_id": 101, "account": "bio", "user_name": "ann", "job_state": ["PENDING"]}
    | {"qos": "normal", "partition": "all"}
    | {"cpus": 8, "memory_per_node": 4096, "tres_per_node": "gres/gpu:1", "node_count": 1}
    | {"array_task_string": "1-40%8", "time_limit": 60},
    {"job_id": 102, "account": "cfd", "user_name": "bob", "job_state": ["RUNNING"], "nodes": "n[1-2]", "qos": "normal"}
    | {"partition": "all", "cpus": 64, "memory_per_node": 8192, "node_count": 2, "time_limit": 1440},
    {"job_id": 103, "account": "cfd", "user_name": "bob", "job_state": ["PENDING"], "state_reason": "JobHeldUser"}
    | {"partition": "all", "cpus": 1, "node_count": 1, "qos": "normal"},
]  # fmt: skip
SQUEUE = """JOBID|PARTITION|NAME|USER|ACCOUNT|QOS|STATE|NODES|CPUS|MIN_MEMORY|TRES_PER_NODE|TIME_LIMIT|NODELIST(REASON)
101_[1-40%8]|all|a=b|ann|bio|normal|PENDING|1|8|4G|gres/gpu:1|1:00:00|(Priority)
102|all|x y|bob|cfd|normal|RUNNING|2|64|8G|N/A|1-00:00:00|n[1-2]
103|all|y|bob|cfd|normal|PENDING|1|1|0|N/A|UNLIMITED|(JobHeldUser)
"""
SCONTROL = """JobId=101 ArrayJobId=101 ArrayTaskId=1-40%8 ArrayTaskThrottle=8 JobName=a Account=none
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=100 Nice=0 Account=bio QOS=normal
   JobState=PENDING Reason=Priority Dependency=(null)
   RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A
   Partition=all AllocNode:Sid=login1:1
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=(null)
   NumNodes=1-1 NumCPUs=8 NumTasks=1 CPUs/Task=8 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=8,mem=4G,node=1,billing=8,gres/gpu=1
   AllocTRES=(null)
   MinCPUsNode=8 MinMemoryNode=4G MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   Comment=wants Account=vip JobState=RUNNING
   Command=run.sh Partition=other
   TresPerNode=gres/gpu:1

JobId=102 JobName=x
   UserId=bob(1001) Account=cfd QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   TimeLimit=1-00:00:00
   Partition=all
   NodeList=n[1-2]
   NumNodes=2 NumCPUs=64 NumTasks=2
   ReqTRES=cpu=64,mem=16G,node=2
   AllocTRES=cpu=64,mem=16G,node=2

JobId=103 JobName=y
   UserId=bob(1001) Account=cfd QOS=normal
   JobState=PENDING Reason=JobHeldUser Dependency=(null)
   Partition=all NumNodes=1 NumCPUs=1
   ReqTRES=cpu=1,node=1
"""
ASSOC = """Cluster|Account|User|Partition|ParentName|Share|GrpTRES|MaxJobs
hpc|root||||1||
hpc|bio||| root|3||5
hpc|bio|ann|||1||
hpc|cfd|||root|parent|cpu=48|
"""
TREE = """Cluster|Account|User|Partition|Share|GrpTRES|MaxJobs
hpc|root|||1||
hpc| bio|||3||5
hpc| bio|ann||1||
hpc| cfd|||parent|cpu=48|
"""


def read(tmp_path, jobs, name, accounts=None, of="associations.txt"):
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": NODES}))
    (tmp_path / name).write_text(jobs)
    if accounts is not None:
        (tmp_path / of).write_text(accounts)
    made = fo.read(tmp_path)
    for file in (name, of):
        (tmp_path / file).unlink(missing_ok=True)
    return made


def same(one, other):
    assert one.users == other.users and one.resources == other.resources and one.teams == other.teams
    assert one.demands.tolist() == other.demands.tolist() and one.task_limits.tolist() == other.task_limits.tolist()
    assert one.held.tolist() == other.held.tolist() and one.team_weights == other.team_weights


@pytest.mark.parametrize(("text", "name"), [(SQUEUE, "squeue.txt"), (SCONTROL, "jobs.txt"), (SQUEUE, "jobs.txt")])
def test_texts_of_jobs_are_read_as_their_json(text, name, tmp_path):
    expected = read(tmp_path, json.dumps({"jobs": JOBS}), "jobs.json")
    assert expected.users == ("bio/1 gpu", "cfd/32 cpu") and expected.task_limits.tolist() == [8, 2]
    same(read(tmp_path, text, name), expected)


def test_squeue_separated_by_blanks_is_read_if_no_cell_has_one(tmp_path):
    blanks = "\n".join("  ".join(line.split("|")) for line in SQUEUE.replace("x y", "x").splitlines())
    same(read(tmp_path, blanks, "squeue.txt"), read(tmp_path, SQUEUE, "squeue.txt"))
    with pytest.raises(
        InvalidInstance, match=r"squeue.txt, line 3: the row has 14 cells where the header has 13; give sq"
    ):
        read(tmp_path, blanks.replace("  x  ", "  x y  "), "squeue.txt")


def test_a_job_that_is_listed_for_each_partition_counts_once(tmp_path):
    """As squeue -P does."""
    again = SQUEUE.splitlines()[1].replace("|all|", "|other|")
    found = read(tmp_path, f"{SQUEUE}{again}\n", "squeue.txt")
    same(found, read(tmp_path, SQUEUE, "squeue.txt"))
    assert "1 JobID is there several times, and counts once, as at first (101_[1-40%8])" in found.notes


@pytest.mark.parametrize("accounts", [ASSOC, TREE])
def test_associations_of_sacctmgr_are_a_tree_with_shares_and_limits(accounts, tmp_path):
    entries = [
        {"account": "root", "user": "", "parent_account": "", "cluster": "hpc", "shares_raw": 1},
        {"account": "bio", "user": "", "parent_account": "root", "cluster": "hpc", "shares_raw": 3},
        {"account": "bio", "user": "ann", "parent_account": "", "cluster": "hpc", "shares_raw": 1},
        {"account": "cfd", "user": "", "parent_account": "root", "cluster": "hpc", "shares_raw": 0x7FFFFFFF}
        | {"max": {"tres": {"total": [{"type": "cpu", "count": 48}]}}},
    ]
    document = json.dumps({"associations": entries})
    expected = read(tmp_path, SQUEUE, "squeue.txt", document, "associations.json")
    found = read(tmp_path, SQUEUE, "squeue.txt", accounts)
    same(found, expected)
    assert found.limits == expected.limits != () and found.team_weights == {"bio": 3}
    assert any("1 queue with MaxJobs, which is not modelled (bio: 5)" in note for note in found.notes)


@pytest.mark.parametrize(
    ("jobs", "accounts", "message"),
    [
        ("JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n1 p n u PD 0 1 (P)\n", None, "has no column CPUS"),
        (SQUEUE.replace("|4G|", "|much|"), None, "squeue.txt, line 2: give a number for"),
        (SQUEUE.replace("|1:00:00|", "|soon|"), None,
         'squeue.txt, line 2: the time limit is "soon": give a time such as 14-0'),
        ("JobId=7 JobName=x Account=vip JobState=PENDING NumCPUs=4\n", None, "line 1: a job on one line, where names"),
        (SQUEUE, ASSOC.replace("|ParentName|", "|Parent|"), "does not say which accounts are above others"),
        (SQUEUE, ASSOC.replace("|Share|", "|Weight|"), "has no column Share; give sacctmgr -P show assoc"),
        (SQUEUE, ASSOC.replace("|3|", "|many|"), "associations.txt, line 3: give a whole number"),
    ],
)  # fmt: skip
def test_what_texts_do_not_say_is_asked_for_by_name(jobs, accounts, message, tmp_path):
    with pytest.raises(InvalidInstance) as caught:
        read(tmp_path, jobs, "squeue.txt", accounts)
    assert message in str(caught.value)
