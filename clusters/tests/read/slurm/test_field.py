"""Files as centres have them: what was answered wrongly, or not at all, and what is right."""

import json

import fairopt_clusters as fc
import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import InvalidInstance

CONF = """ClusterName=hpc
PriorityFlags=MAX_TRES
NodeName=DEFAULT State=UNKNOWN
NodeName=c[1-4] CPUs=100 RealMemory=102400 Feature=zen
NodeName=g[1-4,7] CPUs=64 RealMemory=102400 Gres=gpu:4
PartitionName=DEFAULT MaxTime=3-00:00:00
PartitionName=batch Nodes=c[1-4] Default=YES
PartitionName=gpu Nodes=g[1-4,7] MaxNodes=2 {more}
"""
GRES = """AutoDetect=off
NodeName=g[1-4] Name=gpu Type=a100 File=/dev/nvidia[0-3]
NodeName=g7 Name=gpu Type=h100 Count=4
"""


def job(number, account, tres, **more):
    return {"job_id": number, "account": account, "job_state": ["PENDING"], "tres_req_str": tres} | more


def folder(path, jobs, **files):
    for name, text in files.items():
        (path / name.replace("_", ".")).write_text(text)
    (path / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    return path


def tasks_of(instance, policy=None):
    """Tasks by account, and the resources that they use by name of server."""
    answer = (policy or fo.DRF()).allocate(instance)
    assert answer.certificate.ok
    accounts = [user.partition("/")[0] for user in answer.instance.users]
    tasks, where = dict[str, float](), dict[str, set[str]]()
    for user, account in enumerate(accounts):
        tasks[account] = tasks.get(account, 0.0) + float(answer.tasks[user])
        on = [name for name, n in zip(answer.instance.servers, answer.tasks_by_server[user], strict=True) if n > 1e-9]
        where.setdefault(account, set()).update(on)
    return tasks, where


def said(instance, words):
    return any(words in note for note in instance.notes)


def test_types_of_gres_conf_and_the_default_partition_say_where_jobs_run(tmp_path):
    jobs = [
        job(1, "a", "cpu=8,mem=10G,node=1,gres/gpu=1", partition="gpu", array_task_string="1-99")
        | {"tres_per_node": "gres/gpu:a100:1"},
        job(2, "b", "cpu=8,mem=10G,node=1", array_task_string="1-99"),
        job(3, "b", "cpu=8,mem=10G,node=1", partition="batch", array_task_string="1-99"),
    ]
    read = fo.read(folder(tmp_path, jobs, slurm_conf=CONF.format(more=""), gres_conf=GRES, readme_txt="hello"))
    tasks, where = tasks_of(read)
    assert tasks == pytest.approx({"a": 16, "b": 40})
    assert where == {"a": {"g[1-4]"}, "b": {"c[1-4]"}}
    assert said(read, "1 file of the folder is not read (readme.txt)")
    wrong = GRES.replace("[0-3]", "[0-2]")
    assert said(fo.read(folder(tmp_path, jobs[1:], gres_conf=wrong)), "4 servers with other numbers in gres.conf")
    with pytest.raises(InvalidInstance, match=r"gres.conf, line 3: Count=four; give a whole number"):
        fo.read(folder(tmp_path, jobs, gres_conf=GRES.replace("Count=4", "Count=four")))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({"foo": 1}, "nodes.json has no list 'nodes' but foo"),
        ({"nodes": 5}, "nodes is 5; give a list"),
        ({"nodes": [5]}, r"nodes\[0\] is 5; give an object"),
        ({"nodes": [{"name": "n", "gres": 5}]}, r"nodes\[0\].*gres is 5"),
    ],
)
def test_wrong_nodes_beside_gres_conf_are_refused_by_their_place(nodes, message, tmp_path):
    made = folder(tmp_path, [job(1, "a", "cpu=1,node=1")], gres_conf="Name=gpu Type=a File=/dev/nvidia0\n")
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    with pytest.raises(InvalidInstance, match=message):
        fo.read(made)


def test_a_partition_that_gives_whole_servers_and_limits_on_each_job_count(tmp_path):
    jobs = [
        job(1, "a", "cpu=8,mem=10G,node=1,gres/gpu=1", partition="gpu", array_task_string="1-99"),
        job(2, "b", "cpu=8,mem=10G,node=1", partition="batch", array_task_string="1-99"),
        job(3, "b", "cpu=24,node=3,gres/gpu=3", partition="gpu", node_count=3),
        job(4, "b", "cpu=1,node=1", time_limit={"set": True, "infinite": False, "number": 3 * 1440 + 1}),
        job(5, "b", "cpu=1,node=1", time_limit={"set": False, "infinite": True, "number": 0}, partition="batch"),
    ]
    read = fo.read(folder(tmp_path, jobs, slurm_conf=CONF.format(more="OverSubscribe=EXCLUSIVE")))
    tasks, _ = tasks_of(read.with_task_limits([99, 99, 0]))
    assert tasks == pytest.approx({"a": 5, "b": 40})
    assert said(read, "1 job of a partition that gives whole servers takes these (OverSubscribe=EXCLUSIVE) (1)")
    assert said(read, "2 jobs beyond a limit of its partition on each job were left out (such as 3: gpu: MaxNodes=2)")
    with pytest.raises(InvalidInstance, match=r"slurm.conf, line 8, partition .gpu.: MaxTime is .soon.; give a"):
        fo.read(folder(tmp_path, jobs, slurm_conf=CONF.format(more="MaxTime=soon")))


@pytest.mark.parametrize(("flags", "right"), [("MAX_TRES", (3.765, 14.118)), ("NONE", (3.721, 14.140))])
def test_accounts_are_compared_by_what_they_are_billed(flags, right, tmp_path):
    """GPU jobs of 2 cores, 8 GiB and a GPU are billed 15 or 2 + 2 + 15; others of 4 cores and 4 GiB 4 or 4 + 1."""
    conf = f"""ClusterName=c
NodeName=n[1-2] CPUs=32 RealMemory=131072 Gres=gpu:4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=15.0"
PriorityFlags={flags}
"""
    gpus = [job(k, "g", "cpu=2,mem=8G,node=1,gres/gpu=1") for k in range(8)]
    jobs = [*gpus, job(9, "c", "cpu=4,mem=4G,node=1", array_task_string="1-20")]
    place = folder(tmp_path, jobs, slurm_conf=conf)
    result = CliRunner().invoke(app, ["solve", str(place), "-p", "slurm", "--json"])
    found = {user.partition("/")[0]: n for user, n in json.loads(result.stdout)["tasks"].items()}
    level = 64 / (2 * 4 + 4 * 15) if flags == "MAX_TRES" else 64 / (2 * 5 + 4 * 19)
    bills = (15, 4) if flags == "MAX_TRES" else (19, 5)
    exact = {"g": level * bills[1], "c": level * bills[0]}  # 2 g + 4 c = 64 cores, and equal bills
    assert found == pytest.approx(exact, rel=1e-6)
    assert exact == pytest.approx(dict(zip("gc", right, strict=True)), abs=5e-4)
    weights = {"cpu": 1, "memory": 0.25, "gpu": 15}
    policy = fc.policies.FairTree(weights, largest=flags == "MAX_TRES")
    assert tasks_of(fo.read(place), policy)[0] == pytest.approx(exact, rel=1e-6)
    assert tasks_of(fo.read(place), fc.policies.FairTree())[0] == pytest.approx({"g": 8, "c": 12}, rel=1e-6)
    assert eval(repr(policy), {"FairTree": fc.policies.FairTree}) == policy and hash(policy)


def test_free_text_of_scontrol_holds_no_fields(tmp_path):
    nodes = """NodeName=g1 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=8 CPUEfctv=62 CPUTot=64 CPULoad=7.93
   Gres=gpu:a100:4(S:0-1)
   RealMemory=515000 Sockets=2 Boards=1
   State=MIXED+DRAIN ThreadsPerCore=1
   Partitions=gpu,all
   Comment=was CPUTot=128
   Reason=test: set State=IDLE Gres=gpu:a100:4  [root@2026-01-02T10:00:00]

NodeName=g2 CPUTot=64 Gres=gpu:a100:4 RealMemory=515000 State=IDLE Partitions=gpu,all Extra=State=DOWN Gres=gpu:1
"""
    jobs = [job(1, "a", "cpu=1,mem=1G,node=1,gres/gpu=1", partition="gpu", array_task_string="1-99")]
    read = fo.read(folder(tmp_path, jobs, nodes_txt=nodes))
    assert tasks_of(read)[0] == {"a": 4} and said(read, "1 server that can start no jobs was left out (g1: DRAIN)")


def test_capacities_by_node_label_of_yarn_are_named(tmp_path):
    of = "yarn.scheduler.capacity.root"
    given = {"queues": "a,b", "a.capacity": "60", "b.capacity": "40", "accessible-node-labels": "gpu"}
    given |= {"accessible-node-labels.gpu.capacity": "100", "a.accessible-node-labels.gpu.capacity": "100"}
    given |= {"b.default-node-label-expression": "gpu"}
    text = "".join(
        f"<property><name>{of}.{key}</name><value>{value}</value></property>" for key, value in given.items()
    )
    (tmp_path / "capacity-scheduler.xml").write_text(f"<configuration>{text}</configuration>")
    tree = fc.read_queues(tmp_path / "capacity-scheduler.xml")
    labels = [note for note in tree.notes if "node labels" in note]
    assert labels == [
        "node labels and capacities by label are not modelled, as if all servers had none: gpu (root), gpu (root.a), "
        "gpu (root.b)"
    ]
    assert not any("label" in key for queue in tree.queues for key in queue.notes)


def test_an_account_at_the_top_stands_beside_its_siblings_under_its_name(tmp_path):
    jobs = [job(k, name, "cpu=1,node=1", array_task_string="1-999") for k, name in enumerate(("hep", "astro", "ml"))]
    accounts = {"physics": ("root", 60), "hep": ("physics", 1), "astro": ("physics", 1), "ml": ("root", 40)}
    tree = [{"account": name, "parent_account": above, "shares_raw": n} for name, (above, n) in accounts.items()]
    place = folder(
        tmp_path, jobs, slurm_conf=CONF.format(more=""), associations_json=json.dumps({"associations": tree})
    )
    answer = fo.HDRF(by=("account", "team")).allocate(fo.read(place))
    sums = fo.questions.team_sums(answer, "account", alone=True)
    assert (sums.names, sums.weights.tolist()) == (("physics", "ml"), [60, 40])
    assert sums.units[0, 0] / sums.units[1, 0] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("field", "value", "line", "words"),
    [
        ("MaxTime=3-00:00:00", "MaxTime=three", 6, 'partition "DEFAULT": MaxTime is "three"; give a time such as'),
        ("MaxNodes=2", "MaxNodes=-2", 8, 'partition "gpu": MaxNodes is "-2"; give a whole number'),
    ],
)
def test_a_limit_of_a_partition_that_is_none_names_the_line_of_slurm_conf(field, value, line, words, tmp_path):
    conf = CONF.format(more="").replace(field, value)
    place = folder(tmp_path, [job(1, "a", "cpu=1,node=1")], slurm_conf=conf)
    with pytest.raises(InvalidInstance) as error:
        fo.read(place)
    assert str(error.value).startswith(f"{place / 'slurm.conf'}, line {line}, {words}")


@pytest.mark.parametrize(
    ("conf", "nodes", "contracts", "words"),
    [
        (CONF.replace("RealMemory=102400 Feature", "RealMemory=nan Feature"), None, None,
         'slurm.conf: line 4 (c1).real_memory is "nan"; give a whole number >= 0'),
        (None, [{"name": "n", "cpus": 1e300}], None, "(n).cpus is 1e+300; give a whole number >= 0 below 2**64"),
        (CONF, None, "account,resource,limit\na,cpu,1e300\n",
         "contracts.csv, line 2, column 'limit': the value is 1e300; numbers other than 0 lie between 1e-60 and 1e60"),
    ],
)  # fmt: skip
def test_numbers_that_no_cluster_has_are_refused_by_file_place_and_value(conf, nodes, contracts, words, tmp_path):
    accounts = {"associations": [{"account": "a", "parent_account": "root", "shares_raw": 1}]}
    files = {"associations_json": json.dumps(accounts)}
    files |= {} if conf is None else {"slurm_conf": conf.format(more="")}
    files |= {} if nodes is None else {"nodes_json": json.dumps({"nodes": nodes})}
    files |= {} if contracts is None else {"contracts_csv": contracts}
    with pytest.raises(InvalidInstance) as error:
        fo.read(folder(tmp_path, [job(1, "a", "cpu=1,node=1")], **files))
    assert words in str(error.value)
