"""What is written by default stops nothing that could run, and depends on what is owed; caps, and past weeks."""

import json
import sys
from pathlib import Path

import fairopt_clusters as fc
import pytest
import yaml
from fairopt_clusters.read.queues.tree import Part, Queue, QueueTree, Workload
from fairopt_clusters.schedulers.course import Timed, course_of, entitlements, settled
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

sys.path.append(str(Path(__file__).parents[1] / "read" / "kubernetes"))

from kube_cluster import GPU
from test_kueue import flavor, listed, local, node, workload
from test_kueue_shares import cells

FIELD = Path(__file__).parents[4] / "shared" / "data" / "field"
FIELD = FIELD if FIELD.exists() else Path(__file__).parents[4].parent / "shared" / "data" / "field"
of_field = pytest.mark.skipif(not FIELD.exists(), reason="files from the field are not beside this checkout")


def run(*words, code=0, given=None):
    result = CliRunner().invoke(app, ["quotas", *words], input=given)
    assert result.exit_code == code, result.output
    return result


def cluster(*jobs, owned=(8, 8), gpus=16, limits=(None, None), rule=None):
    """Queues a and b that own GPUs in one cohort, with their borrowing limits and rule of preemption."""
    queues = []
    for name, nominal, limit in zip("ab", owned, limits, strict=True):
        quota = {"nominal": nominal} | ({} if limit is None else {"borrowing": limit})
        queues.append(cells(name, "lab", resources=(GPU,), pool=[quota]))
        queues[-1]["spec"] |= {} if rule is None else {"preemption": {"reclaimWithinCohort": rule}}
    locals_ = [local(name, "main", name) for name in "ab"]
    return listed(node("n", 640, gpus), flavor("pool"), *queues, *locals_, *jobs)


def job(queue, count, each, name="job"):
    """A Workload of equal pods without requests of cpu."""
    one = workload(queue, name, "main", (count, {"containers": [{"resources": {"requests": {GPU: str(each)}}}]}))
    one["metadata"]["creationTimestamp"] = "2026-03-02T00:00:00Z"
    return one


def made(document, tmp_path, **options):
    (tmp_path / "now.json").write_text(json.dumps(document))
    answer = fo.HDRF().allocate(fo.read(tmp_path / "now.json"))
    return fc.quotas(answer, "kueue", queues=document, **options)


def after(quotas, document):
    applied = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load(quotas.text())["items"]}
    items = [applied.get((one["kind"], one["metadata"]["name"]), one) for one in document["items"]]
    return {**document, "items": items}


def limits(document):
    return [
        entry.get("borrowingLimit")
        for one in document["items"]
        if one["kind"] == "ClusterQueue"
        for of in one["spec"]["resourceGroups"][0]["flavors"]
        for entry in of["resources"]
    ]


def test_what_is_written_does_not_depend_on_who_asks_today(tmp_path):
    """Monday a asks for 2 GPUs and b for none, Tuesday b for 40: the same settings, and the second run writes none."""
    monday, tuesday = cluster(job("a", 2, 1)), cluster(job("b", 40, 1), job("a", 1, 1, "one"))
    every = cluster(job("a", 8, 1)), monday
    texts = [made(one, tmp_path, reclaim=True).text().partition("items:")[2] for one in every]
    assert texts[0] == texts[1]
    first = made(monday, tmp_path, reclaim=True)
    assert first.changed == (
        "preemption.reclaimWithinCohort of a from Never to Any",
        "preemption.reclaimWithinCohort of b from Never to Any",
    )
    applied = after(first, monday)
    assert limits(applied) == [None, None]
    again = made(applied, tmp_path, reclaim=True)
    assert (
        again.changed == ()
        and again.notes[0].startswith("nothing to do")
        and "kubectl" not in again.text("kueue-patch")
    )
    owned = {(row.team, row.owed) for row in made(tuesday, tmp_path).rows}
    assert owned == {("a", 8.0), ("b", 8.0)}


def test_nobody_is_preempted_by_what_is_written_unless_that_is_asked_for(tmp_path):
    """By hand: a runs 16 of 16 GPUs, of which b owns 8; what b is owed comes back as jobs of a end, or at once."""
    document = cluster(job("a", 8, 1), job("b", 8, 1))
    plain, reclaim = made(document, tmp_path), made(document, tmp_path, reclaim=True)
    assert plain.changed == () and len(reclaim.changed) == 2
    told = "comes back only as their jobs end, by reclaimWithinCohort of Never: a, b; --reclaim lets these preempt"
    assert told in str(plain.notes) and "--reclaim" not in str(reclaim.notes)
    assert "who borrows is preempted where its owner comes back" in str(reclaim.notes)
    (tmp_path / "now.json").write_text(json.dumps(document))
    for words in (["--caps", "--format", "kueue"], ["--format", "csv"]):
        found = run(str(tmp_path / "now.json"), "--reclaim", *words, code=2)
        assert "reclaim=True changes settings of ClusterQueues" in " ".join(found.stderr.split())


def test_limits_of_earlier_versions_are_taken_back_and_those_of_owners_stay(tmp_path):
    document = cluster(job("a", 30, 1), job("b", 30, 1), owned=(4, 4), limits=(6, None), gpus=8)
    capped = after(made(document, tmp_path, caps=True), document)
    assert limits(capped) == ["0", "0"]
    assert limits(after(made(capped, tmp_path), capped)) == ["6", None]


def test_a_gang_larger_than_its_quota_could_start_and_still_can(tmp_path):
    """Both want all 16 GPUs at once, and take turns: no limit, and nobody takes back what such a gang must borrow."""
    document = cluster(job("a", 4, 4), job("b", 4, 4))
    quotas = made(document, tmp_path, reclaim=True)
    assert quotas.changed == () and limits(after(quotas, document)) == [None, None]
    gives = {one.team: (one.owed, one.asked, one.gives, one.fair) for one in quotas.expected}
    assert gives == {"a": (8, 16, 16, pytest.approx(8)), "b": (8, 16, 0, pytest.approx(8))}
    assert quotas.first[0] == "nothing to do: no setting changes"
    assert "reclaimWithinCohort stays Never" in quotas.first[1] and quotas.first[1].endswith(": a/job in a")
    assert "Kueue does not reach what is fair now: b gets 0 of 8" in str(quotas.notes)
    caps = made(document, tmp_path, caps=True)
    assert caps.notes[0] == f"these limits idle now what could be used: 16 of 16 {GPU}"


def test_what_can_never_start_keeps_nobody_from_taking_back_what_they_own(tmp_path):
    """17 GPUs of 16; beside it 12, of which a owns 8, can start."""
    assert len(made(cluster(job("a", 17, 1)), tmp_path, reclaim=True).changed) == 2
    assert made(cluster(job("a", 17, 1), job("a", 12, 1, "two")), tmp_path, reclaim=True).changed == ()


def test_caps_are_never_written_where_nobody_waits(tmp_path):
    document = cluster(job("a", 2, 1))
    caps = made(document, tmp_path, caps=True)
    assert caps.changed == () and limits(after(caps, document)) == [None, None] and "idle" not in caps.notes[0]


def test_weights_of_the_command_are_set_at_every_level(tmp_path):
    pool = cells("lab", kind="Cohort", pool=[0], resources=(GPU,))
    document = cluster(job("a", 20, 1), job("b", 20, 1), rule="Any")
    document["items"].append(pool)
    (tmp_path / "now.json").write_text(json.dumps(document))
    result = run(str(tmp_path / "now.json"), "--format", "kueue", "--weight", "a=3")
    (written,) = yaml.safe_load(result.stdout)["items"]
    assert written["metadata"]["name"] == "a" and written["spec"]["fairSharing"] == {"weight": "3"}


def test_an_empty_cluster_is_no_error(tmp_path):
    """With queues their settings are written all the same; without any there is nothing to do."""
    (tmp_path / "q.json").write_text(json.dumps(cluster()))
    text = run(str(tmp_path / "q.json"), "--format", "kueue", "--reclaim").stdout
    assert text.count("reclaimWithinCohort: Any") == 2
    (tmp_path / "n.json").write_text(json.dumps(listed(node("n", 8, 8))))
    result = run(str(tmp_path / "n.json"), "--format", "kubernetes", "--users", "namespace")
    assert yaml.safe_load(result.stdout)["items"] == [] and "nobody asks for anything" in result.stderr
    (tmp_path / "bad.json").write_text(json.dumps(listed(flavor("pool"))))
    run(str(tmp_path / "bad.json"), code=2)


def test_resource_quotas_are_entitlements_and_not_what_is_asked_for_today():
    """a asks for 1 of 8 GPUs and b for 20: each is entitled to 4; the moment would give a 2 and b 7."""
    pool = fo.Instance([[1], [1]], [8], task_limits=[1, 20], resources=["gpu"], teams={"team": ["a", "b"]})
    answer = fo.DRF().allocate(pool)
    owed, now = (fc.quotas(answer, "kubernetes", caps=caps) for caps in (False, True))
    assert [row.amount for row in owed.rows] == [4, 4] and "what teams are owed" in str(owed.notes)
    assert [row.amount for row in now.rows] == [2, 7]
    assert owed.notes[0] == "these limits idle now what could be used: 3 of 8 gpu"
    full = pool.full_demand({"c": {"gpu": 1}})
    assert {row.team for row in fc.quotas(answer, full_demand=full).rows} == {"a", "b", "c"}
    limits = fc.quotas(answer, "slurm", caps=True)
    assert [row.amount for row in limits.rows] == [1, 7] and "idle nothing" in limits.notes[0]
    shares = fc.quotas(answer, "slurm")
    assert [row.amount for row in shares.rows] == [1, 1] and shares.text().count("set Fairshare=1") == 2


def test_new_queues_can_use_all_that_there_is():
    """Nominal quotas are entitlements in one cohort, which has what no queue owns: all of it can be borrowed."""
    pool = fo.Instance(
        [[2, 1], [3, 1]], [64, 8], resources=["cpu", "gpu"], teams={"team": ["a", "b"]}, task_limits=[1, 9]
    )
    items = yaml.safe_load(fc.quotas(fo.DRF().allocate(pool), "kueue").text())["items"]
    owned = {}
    for one in items:
        for of in one.get("spec", {}).get("resourceGroups", [{"flavors": []}])[0]["flavors"]:
            for entry in of["resources"]:
                owned[entry["name"]] = owned.get(entry["name"], 0) + int(entry["nominalQuota"])
    assert owned == {"cpu": 64, GPU: 8}
    assert {one["spec"]["cohortName"] for one in items if one["kind"] == "ClusterQueue"} == {"all"}


# -- over time ------------------------------------------------------------------------------------------------


def tree(rule, gpus=(4.0, 4.0), **notes):
    queues = (
        Queue(name, "all", 1.0, {"gpu": n}, notes={"reclaimWithinCohort": rule})
        for name, n in zip("ab", gpus, strict=True)
    )
    return QueueTree("Kueue", (Queue("all"), *queues))


def jobs(*rows):
    return [
        Timed(Workload(queue, {"gpu": gpus}, 0, at, f"{k}"), at, lasts)
        for k, (queue, gpus, at, lasts) in enumerate(rows)
    ]


BORROWED = [("a", 4, 0.0, 10.0), ("a", 4, 0.0, 10.0), ("b", 4, 2.0, 4.0)]


def test_who_owns_waits_for_who_borrows_until_what_is_owed_comes_back():
    """By hand: a runs 8 of 8 GPUs for 10 s, of which b owns 4 and wants them from 2 s on, for 4 s."""
    never, again, goes_on = (
        course_of([(0.0, tree(rule))], jobs(*BORROWED), 14.0, resumes=resumes)
        for rule, resumes in (("Never", False), ("Any", False), ("Any", True))
    )
    assert (never.queues["b"].waits, never.queues["a"].preempted) == ([8.0], 0)
    assert never.queues["b"].short == 4 * 8 and never.queues["b"].owed == 4 * 12
    assert never.used == 1.0  # all that was asked for and there
    assert (again.queues["b"].waits, again.queues["a"].preempted, again.queues["b"].short) == ([0.0], 1, 0)
    assert again.queues["a"].lost == 4 * 2  # of the one that begins anew at 6 s, and ends at 16 s
    assert (goes_on.queues["a"].lost, goes_on.queues["a"].asked, goes_on.queues["a"].used) == (0, 4 * 24, 4 * 20)
    assert never.total("used") == 4 * (10 + 10 + 4) and again.total("used") == 4 * (10 + 4 + 2 + 8)


def test_settings_change_while_workloads_run():
    late = course_of([(0.0, tree("Never")), (5.0, tree("Any"))], jobs(*BORROWED), 14.0)
    assert late.queues["b"].waits == [3.0] and late.queues["a"].preempted == 1


def test_the_first_flavor_that_fits_is_taken_and_else_the_first_where_others_give_way():
    queues = [
        Queue(name, "all", 1.0, {"od:gpu": n, "spot:gpu": 2.0}, notes={"reclaimWithinCohort": "Any"})
        for name, n in (("a", 4.0), ("b", 0.0))
    ]
    two = QueueTree("Kueue", (Queue("all"), *queues))
    ways = lambda n: tuple({f"{of}:gpu": float(n)} for of in ("od", "spot"))  # noqa: E731

    def one(queue, n, at):
        return Timed(Workload(queue, ways(n)[0], 0, at, f"{queue}{at}", (Part(ways(n)),)), at, 9.0)

    assert settled(two, [], [one("b", 3, 0.0), one("b", 3, 1.0)]).used == {"b": {"gpu": 6.0}}
    assert settled(two, [Workload("b", {"od:gpu": 3.0})], [one("a", 4, 2.0)]).used == {
        "b": {"gpu": 3.0},
        "a": {"gpu": 4.0},
    }


def test_entitlements_are_what_each_gets_if_all_ask_for_all():
    assert entitlements(tree("Any", (6.0, 2.0))) == {"a": {"gpu": 6.0}, "b": {"gpu": 2.0}}
    pool = QueueTree(
        "Kueue",
        (
            Queue("all", guarantee={"gpu": 8.0}),
            Queue("a", "all", 3.0, {"gpu": 0.0}),
            Queue("b", "all", 1.0, {"gpu": 0.0}),
        ),
    )
    assert entitlements(pool) == {"a": {"gpu": 6.0}, "b": {"gpu": 2.0}}


def test_a_table_of_workloads_is_replayed_with_both_settings(tmp_path):
    (tmp_path / "now.json").write_text(json.dumps(cluster(job("a", 8, 1), owned=(4, 4), gpus=8)))
    rows = [
        "user,arrival,duration,tasks,nvidia.com/gpu",
        "a,0,36000,4,1",
        "a,0,36000,4,1",
        "b,7200,14400,4,1",
        "x,0,9,1,1",
    ]
    (tmp_path / "past.csv").write_text("\n".join(rows))
    words = [str(tmp_path / "now.json"), "--format", "kueue", "--reclaim", "--replay", str(tmp_path / "past.csv")]
    assert "a/job in a" in " ".join(run(*words).output.split())  # so that nothing changes, and both are alike
    (tmp_path / "now.json").write_text(json.dumps(cluster(job("a", 4, 1), owned=(4, 4), gpus=8)))
    told = json.loads(run(*words, "--json").stdout)["replay"]
    queues = {one["queue"]: one for one in told["queues"]}
    assert queues["b"]["wait before"] == 8 and queues["b"]["wait after"] == 0
    assert queues["a"]["preempted after"] == 1 and told["before"]["used"] == 1
    assert any(note.startswith("1 job of no queue was left out") for note in told["notes"])
    assert "1 workloads are preempted" in " ".join(run(*words).output.split())
    run(str(tmp_path / "now.json"), "--format", "csv", "--users", "namespace", "--replay", str(tmp_path), code=2)


def test_snapshots_of_past_days_are_replayed(tmp_path):
    """Started at 1:00 on the second and ended at 3:00 by its condition; the other is gone at the next snapshot."""

    def snapshot(name, *items):
        (tmp_path / "past").mkdir(exist_ok=True)
        (tmp_path / "past" / f"{name}.json").write_text(
            json.dumps({"kind": "List", "items": [*items, local("a", "main", "a")]})
        )

    def running(name, at, *conditions):
        one = job("a", 4, 1, name)
        flavors = {"name": "main", "count": 4, "flavors": {GPU: "pool"}}
        kinds = [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": at}, *conditions]
        return one | {
            "status": {"admission": {"clusterQueue": "a", "podSetAssignments": [flavors]}, "conditions": kinds}
        }

    ended = {"type": "Finished", "status": "True", "lastTransitionTime": "2026-03-02T03:00:00Z"}
    start = "2026-03-02T01:00:00Z"
    snapshot("1", running("one", start), running("two", start))
    late = job("a", 1, 1, "three")
    late["metadata"]["creationTimestamp"] = "2026-03-02T05:00:00Z"
    snapshot("2", running("one", start, ended), late)
    quotas = made(cluster(job("a", 2, 1), owned=(4, 4), gpus=8), tmp_path)
    trial = quotas.replay(tmp_path / "past")
    course = trial.before.queues["a"]
    assert trial.days * 24 == pytest.approx(8)  # from the first creation on; the last is as long as half of the others
    assert course.used == (2 * 4 + 4 * 4 + 3 * 1) * 3600 and course.waits == [0, 0, 0]
    assert list(trial.to_frame().columns)[:2] == ["short before", "short after"]
    assert any("1 workload of which no end is known counts as long" in note for note in trial.notes)
    with pytest.raises(fo.errors.InvalidInstance, match=r"no folder of snapshots, and no \.csv"):
        quotas.replay(tmp_path / "now.json")
    (tmp_path / "jobs.csv").write_text(f"user,arrival,duration,{GPU}\nz,0,10,1\n")
    with pytest.raises(fo.errors.InvalidInstance, match=r"no workloads of these queues.*1 job of no queue.*\(z\)"):
        quotas.replay(tmp_path / "jobs.csv")


# -- files from the field -------------------------------------------------------------------------------------


@of_field
def test_what_a_cohort_of_the_field_owns_of_a_flavor_is_kept():
    for policy in ("kueue", None):
        from fairopt.cli.commands import named

        instance = fo.read(FIELD / "kueue" / "k9466.json")
        answer = named(policy)(instance).allocate(instance)
        assert dict(zip(instance.users, answer.tasks.round(6).tolist(), strict=True)) == {
            "l1/1 cpu@tier=a": 20,
            "l1/1 cpu@tier=h": 6,
            "r1/1 cpu@tier=h": 4,
        }


@of_field
@pytest.mark.parametrize("name", ["gangs", "idle", "lending", "requests", "topology", "rj"])
def test_no_limit_is_written_for_clusters_of_the_field(name):
    text = run(str(FIELD / "kueue" / f"{name}.yaml"), "--format", "kueue").stdout
    assert "borrowingLimit" not in text and "fairopt/lent" not in text


@of_field
def test_a_rayjob_whose_submitter_is_too_much_is_left_out_of_what_is_shared():
    with pytest.raises(
        fo.errors.InvalidInstance, match=r"never admits whole were left out \(.*2\.5 cpu, and team may have 2\)"
    ):
        fo.datasets.read(FIELD / "kueue" / "rj.yaml")
