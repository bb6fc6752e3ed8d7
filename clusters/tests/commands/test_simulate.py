"""``fairopt simulate`` with output of sacct and the openb trace."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with a cluster and a table of jobs."""
    monkeypatch.chdir(tmp_path)
    units = {"cpu": "core", "memory": "GiB"}
    fo.datasets.write(fo.Instance([], [[8, 64]], resources=["cpu", "memory"], units=units), "cluster.json")
    Path("jobs.csv").write_text("user,arrival,duration,cpu [core]\na,0,10,1\n")

    def invoke(*arguments: str, servers: bool = True) -> Result:
        return CliRunner().invoke(app, ["simulate", *arguments, *(["--servers", "cluster.json"] * servers)])

    return invoke


def numbers_of(done: Result) -> dict[str, dict[str, Any]]:
    """The policies of ``--json``."""
    assert done.exit_code == 0, done.output
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)["policies"]
    return found


def test_output_of_sacct_is_replayed(run: Any) -> None:
    Path("sacct.txt").write_text(
        "JobID|User|Account|State|Submit|Elapsed|Timelimit|ReqTRES\n"
        "1|ann|bio|COMPLETED|2026-03-01T08:00:00|01:00:00|02:00:00|cpu=8,mem=8G,node=1\n"
    )
    done = run("sacct.txt", "-p", "easy", "--users", "account", "--json")
    assert list(numbers_of(done)["EASY"]["users"]) == ["bio"]


def test_the_folder_of_openb_has_jobs_and_servers(run: Any) -> None:
    Path("openb").mkdir()
    Path("openb/openb_node_list_all_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,8192,2,T4\n")
    Path("openb/openb_pod_list_typed.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time\n"
        "p0,4000,1024,1,1000,T4,LS,0,60,10\np1,2000,1024,1,500,,BE,10,100,20\np2,2000,1024,1,500,,BE,10,,\n"
    )
    words = ("openb", "--pods", "typed", "--users", "qos", "--capacity-scale", "0.5", "--compress", "10")
    done = run(*words, "--json", "--fair", "0", servers=False)
    shown = numbers_of(done)["DRF"]
    assert (shown["tasks"], shown["makespan"], shown["waiting"]["mean"]) == (2, 130, 24.5)  # 0 to 50, 1 waits, to 130
    assert "1 pod was left out: never scheduled" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["jobs.csv", "--users", "account"],
            "'users' is an option for a folder of the openb trace and a .swf",
        ),
        (["jobs.csv", "--capacity-scale", "0.5"], "'capacity_scale' is an option for folders of the openb trace"),
        (["cluster.json"], "cluster.json has no list 'jobs'; expected the output of sacct --json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Any, words: list[str], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1 and message in lines[0] and done.stdout == "", done.output


# -- replays by Slurm's rules -----------------------------------------------------------------------------------------

SACCT = "JobID|User|Account|Partition|State|Submit|Elapsed|Timelimit|NNodes|ReqTRES\n"


def sacct(rows: list[tuple[Any, ...]], name: str = "sacct.txt") -> str:
    """Rows of account, arrival in seconds and requested cores, each for 10 minutes, as output of sacct."""
    text = SACCT
    for k, (account, arrival, cores) in enumerate(rows):
        at = f"2026-01-01T00:00:{arrival:02d}"
        text += f"{k + 1}|u{account}|{account}|x|COMPLETED|{at}|00:10:00|01:00:00|1|cpu={cores},mem=1G,node=1\n"
    Path(name).write_text(text)
    return name


def slurm_folder(associations: list[dict[str, Any]], cores: int = 1, **texts: str) -> str:
    """A folder of Slurm with one node."""
    Path("slurm").mkdir(exist_ok=True)
    wanted = {"job_state": ["PENDING"], "tres_req_str": "cpu=1,mem=1G,node=1"}
    jobs = [{"job_id": k + 1, "account": one["account"], **wanted} for k, one in enumerate(associations)]
    root = {"account": "root", "parent_account": "", "user": ""}
    documents: dict[str, Any] = {
        "nodes": {"nodes": [{"name": "n1", "cpus": cores, "real_memory": 65536, "state": ["IDLE"]}]},
        "jobs": {"jobs": jobs},
        "associations": {"associations": [root, *associations]},
    }
    for name, document in documents.items():
        Path(f"slurm/{name}.json").write_text(json.dumps(document))
    for name, text in texts.items():
        Path(f"slurm/{name.replace('_', '.')}").write_text(text)
    return "slurm"


def account(name: str, shares: int = 1, parent: str = "root", **more: Any) -> dict[str, Any]:
    return {"account": name, "parent_account": parent, "user": "", "shares_raw": shares, **more}


def started(run: Any, *words: str) -> list[str]:
    """The accounts in the order in which their jobs start."""
    done = run(*words, "--fair", "0", "--out", "tasks.csv", servers=False)
    assert done.exit_code == 0, done.output
    rows = [line.split(",") for line in Path("tasks.csv").read_text().splitlines()]
    start, user = rows[0].index("start"), rows[0].index("user")
    return [row[user].split("/")[0] for row in sorted(rows[1:], key=lambda row: float(row[start]))]


@pytest.mark.parametrize("users", ["user", "account"])
def test_fair_tree_compares_accounts_first(run: Any, users: str) -> None:
    jobs, there = (
        sacct([(who, 0, 1) for _ in range(40) for who in "abbb"]),
        slurm_folder([account("a", 3), account("b")]),
    )
    for words in (("-p", "drf", "--usage", "fair-tree"), ("-p", "slurm"), ("-p", "fair-tree:half_life=604800")):
        first = started(run, jobs, "--servers", there, *words, "--users", users)[:40]
        assert (first.count("a"), first.count("b")) == (30, 10), words


def test_memory_counts_with_a_policy_or_is_refused(run: Any) -> None:
    rows = [("a", 0, 1)] * 30 + [("b", 1, 1)] * 60 + [("a", 1, 1)] * 60
    there = slurm_folder([account("a", 3), account("b")])
    jobs = sacct(rows)
    text = Path(jobs).read_text().replace("2026-01-01T00:00:01", "2026-01-01T05:00:00")  # when 30 jobs of a have ended
    Path(jobs).write_text(text)
    for words in (
        ("-p", "slurm"),
        ("-p", "drf", "--usage", "slurm"),
        ("-p", "drf", "--usage", "slurm", "--half-life", "604800"),
    ):
        order = started(run, jobs, "--servers", there, *words)[30:]
        assert order[:10] == ["b"] * 10 and order[10:50].count("a") == 30, words
    for policy in ("hdrf", "easy", "fcfs", "vtc"):
        for option in (("--usage", "slurm"), ("--half-life", "604800")):
            done = run(jobs, "-p", policy, *option, "--servers", there, servers=False)
            assert done.exit_code == 2 and "--usage and --half-life do not go with" in done.stderr
    done = run(
        jobs, "-p", "drf", "--usage", "slurm:half_life=60", "--half-life", "60", "--servers", there, servers=False
    )
    assert done.exit_code == 2 and "leave one of the two out" in done.stderr
    done = run(jobs, "-p", "slurm:sampling=60", "--servers", there, servers=False)
    assert done.exit_code == 2 and "leave sampling out" in done.stderr


def test_raw_shares_count_among_siblings_alone_in_hdrf_and_fair_tree(run: Any) -> None:
    tree = [account("science"), account("industry"), account("astro", 50, "science"), account("acme", 1, "industry")]
    jobs, there = sacct([(who, 0, 1) for _ in range(60) for who in ("astro", "acme")]), slurm_folder(tree)
    for policy in ("hdrf", "slurm"):
        first = started(run, jobs, "--servers", there, "-p", policy)[:102]
        assert (first.count("astro"), first.count("acme")) == (51, 51), policy


def test_jobs_without_a_limit_have_no_planned_end(run: Any) -> None:
    Path("unl.txt").write_text(
        SACCT
        + "1|u|A|x|COMPLETED|2026-01-01T00:00:00|01:00:00|UNLIMITED|1|cpu=1,node=1\n"
        + "2|u|B|x|COMPLETED|2026-01-01T00:00:01|00:10:00|00:20:00|1|cpu=2,node=1\n"
        + "3|u|C|x|COMPLETED|2026-01-01T00:00:02|02:00:00|03:00:00|1|cpu=1,node=1\n"
    )
    assert started(run, "unl.txt", "--capacity", "cpu=2", "-p", "easy") == ["A", "C", "B"]
    assert started(run, "unl.txt", "--capacity", "cpu=2", "-p", "easy", "--limit-default", "3600") == ["A", "B", "C"]
    done = run("unl.txt", "--capacity", "cpu=2", "-p", "easy", servers=False)
    assert "1 job without a limit has no planned end (--limit-default gives one)" in done.stderr
    for wrong in ("nan", "-1", "inf"):
        refused = run("unl.txt", "--capacity", "cpu=2", "--limit-default", wrong, servers=False)
        assert refused.exit_code == 2 and f"(--limit-default) is {wrong}; give seconds" in refused.stderr
    refused = run("unl.txt", "--servers", "cpu=2", servers=False)
    assert "cpu=2 does not exist; --capacity cpu=2 says what there is of a resource" in refused.stderr


def test_parts_of_a_heterogeneous_job_start_together_or_are_left_out(run: Any) -> None:
    Path("het.txt").write_text(
        SACCT
        + "10+0|u|A|x|COMPLETED|2026-01-01T00:00:00|01:00:00|02:00:00|1|cpu=1,node=1\n"
        + "10+1|u|A|y|COMPLETED|2026-01-01T00:00:00|01:00:00|02:00:00|1|cpu=2,node=1\n"
        + "11|u|B|x|COMPLETED|2026-01-01T00:00:01|00:10:00|00:20:00|1|cpu=2,node=1\n"
    )
    done = run("het.txt", "--capacity", "cpu=2", "-p", "easy", servers=False)
    assert "parts do not fit on the servers together was left out (10: 3 cpu of 2)" in done.stderr
    for policy in ("drf", "hdrf", "fcfs", "easy"):
        assert started(run, "het.txt", "--capacity", "cpu=3", "-p", policy) == ["A", "A", "B"]
        starts = [line.split(",")[5] for line in Path("tasks.csv").read_text().splitlines()[1:]]
        assert starts[:2] == ["0.0", "0.0"], policy


CONF = """ClusterName=hpc
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityWeightFairshare=1000
PriorityWeightPartition=100000
PriorityWeightTRES=cpu=10
PriorityFlags=MAX_TRES
NodeName=n1 CPUs=4 RealMemory=8192
NodeName=n2 CPUs=4 RealMemory=8192 Gres=gpu:1
PartitionName=DEFAULT MaxTime=1-0
PartitionName=x Nodes=n1 PriorityJobFactor=1
PartitionName=y Nodes=n2 PriorityJobFactor=10 TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=8"
"""


def test_slurm_conf_gives_weights_partitions_and_billing_beside_nodes(run: Any) -> None:
    there = slurm_folder([account("a", 3, usage=10**6), account("b")], 4, slurm_conf=CONF)
    Path(there, "nodes.json").unlink()
    jobs = sacct([("a", 0, 4), ("b", 0, 4), ("a", 0, 4)])
    text = Path(jobs).read_text().splitlines()
    Path(jobs).write_text("\n".join([*text[:3], text[3].replace("|x|", "|y|")]) + "\n")
    done = run(jobs, "--servers", there, "-p", "slurm", "--fair", "0", "--out", "tasks.csv", servers=False)
    assert done.exit_code == 0 and "PriorityWeightTRES is not modelled" in done.stderr, done.output
    rows = [line.split(",") for line in Path("tasks.csv").read_text().splitlines()]
    assert [(row[2], row[3], float(row[5])) for row in rows[1:]] == [
        ("a/ua", "n2", 0.0), ("b/ub", "n1", 0.0), ("a/ua", "n1", 600.0),
    ]  # fmt: skip


def test_limits_of_a_qos_hold_jobs_back(run: Any) -> None:
    qos = "Name|Priority|GrpTRES|MaxJobsPU|MaxWall\nnormal|0||1|\ndebug|10|cpu=1||1-0\n"
    there = slurm_folder([account("a"), account("b")], 8, qos_txt=qos)
    jobs = sacct([("a", 0, 1)] * 3 + [("b", 0, 1)] * 2)
    lines = Path(jobs).read_text().splitlines()
    Path(jobs).write_text(
        "\n".join([lines[0] + "|QOS", *(f"{one}|{'normal' if '|a|' in one else ''}" for one in lines[1:])])
    )
    done = run(jobs, "--servers", there, "-p", "slurm", "--fair", "0", "--out", "tasks.csv", servers=False)
    assert done.exit_code == 0 and "debug: MaxWall=1-0" in done.stderr.replace("\n", " "), done.output
    rows = [line.split(",") for line in Path("tasks.csv").read_text().splitlines()]
    assert sorted(float(row[5]) for row in rows[1:] if row[2] == "a/ua") == [0.0, 600.0, 1200.0]
    assert [float(row[5]) for row in rows[1:] if row[2] == "b/ub"] == [0.0, 0.0]
    Path(there, "qos.txt").write_text("Name|Priority|MaxTRESPU\ndebug|1|cpu=x\n")
    done = run(jobs, "--servers", there, "-p", "slurm", servers=False)
    assert done.exit_code == 2 and 'MaxTRESPU of qos=debug is "cpu=x"; give a number' in " ".join(done.stderr.split())


SSHARE = """Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS
root||||1000000||1.000000||
 root|root|1|0.009901|0|0.000000|0.000000|1.000000|inf
 physics||60|0.594059|900000|0.900000|0.900000||0.660066
  hep||70|0.700000|890000|0.890000|0.988889||0.707865
   hep|ann|1|1.000000|890000|0.890000|1.000000|0.250000|1.000000
  astro||30|0.300000|10000|0.010000|0.011111||27.000000
   astro|bob|parent|0.300000|10000|0.010000|0.011111|0.500000|27.000000
 ml||40|0.396040|100000|0.100000|0.100000||3.960396
  ml|cid|1|1.000000|100000|0.100000|1.000000|0.750000|1.000000
"""


def sshare_folder() -> str:
    there = slurm_folder([account(name) for name in ("hep", "astro", "ml")], 100, sshare_txt=SSHARE)
    Path(there, "associations.json").unlink()
    return there


def test_why_says_which_account_is_before_which_by_what_number_and_what_it_would_take(run: Any) -> None:
    there = sshare_folder()
    done = CliRunner().invoke(app, ["why", there, "hep", "--json"])
    found = json.loads(done.stdout)["next"]
    assert found["order"] == ["ml", "astro", "hep"]
    levels = {name: found["levels"][name] for name in ("physics", "hep", "astro", "ml")}
    assert levels == pytest.approx({"physics": 0.660066, "hep": 0.707865, "astro": 27.0, "ml": 3.960396}, rel=1e-5)
    first, second = found["sentences"]["hep"]
    assert first.startswith(
        "ml (level 3.96) is before physics (0.6601): physics would be first once ml has been billed"
    )
    assert "138.9 further hours" in first and "a fairshare above 360 in place of 60" in first
    assert second.startswith("astro (level 27) is before hep (0.7079) in physics") and "2,670 in place of 70" in second
    shown = " ".join(CliRunner().invoke(app, ["why", there, "hep"]).stdout.split())
    assert "ml, astro and hep" in shown and "cpu is full" not in shown
    assert "ml is next" in CliRunner().invoke(app, ["why", there, "ml"]).stdout
    assert "its own task limit stops it" in CliRunner().invoke(app, ["why", there, "hep", "-p", "drf"]).stdout


def test_usage_of_associations_that_are_gone_counts_in_what_all_used(run: Any) -> None:
    there = sshare_folder()
    Path(there, "sshare.txt").write_text(SSHARE.replace("root||||1000000|", "root||||1500000|"))
    levels = json.loads(CliRunner().invoke(app, ["why", there, "--json"]).stdout)["next"]["levels"]
    assert levels["physics"] == pytest.approx(60 / 101 / (9 / 15)) and levels["hep"] == pytest.approx(
        0.707865, rel=1e-5
    )


@pytest.mark.parametrize("more", ["ml", "physics"])
def test_what_it_would_take_is_where_the_order_turns(run: Any, more: str) -> None:
    there = sshare_folder()
    for beyond, order in ((-1000, ["ml", "astro", "hep"]), (1000, ["astro", "hep", "ml"])):
        used, shares = (100_000 + 500_000 + beyond, 60) if more == "ml" else (100_000, 360 + beyond // 1000)
        text = SSHARE.replace("| ml||40|0.396040|100000|", "").replace(
            "ml||40|0.396040|100000", f"ml||40|0.396040|{used}"
        )
        Path(there, "sshare.txt").write_text(text.replace("physics||60", f"physics||{shares}"))
        found = json.loads(CliRunner().invoke(app, ["why", there, "--json"]).stdout)["next"]["order"]
        assert found == order, (more, beyond)


def test_past_usage_of_sshare_is_where_a_replay_begins(run: Any) -> None:
    there = sshare_folder()
    Path(there, "nodes.json").write_text(
        json.dumps({"nodes": [{"name": "n1", "cpus": 1, "real_memory": 65536, "state": ["IDLE"]}]})
    )
    jobs = sacct([(who, 0, 1) for _ in range(4) for who in ("hep", "astro", "ml")])
    assert started(run, jobs, "--servers", there, "-p", "slurm") == ["ml"] * 4 + ["astro"] * 4 + ["hep"] * 4
