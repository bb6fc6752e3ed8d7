"""The text of quotas in each format, read back; names that a format cannot hold."""

import json
import shlex
import subprocess

import pytest
import yaml
from fairopt_clusters.quotas.accounts import to_sacctmgr
from fairopt_clusters.quotas.cluster_queues import Changes, InputQueues, new_queues
from fairopt_clusters.quotas.objects import yaml_list
from fairopt_clusters.quotas.present import quotas_of_input, read_quotas
from fairopt_clusters.quotas.quota import Quota, to_csv
from fairopt_clusters.quotas.resource_quotas import to_resource_quotas
from fairopt_clusters.read.kubernetes.kueue import APPLIED, LENT, lent_of, own_limit
from hypothesis import given
from hypothesis import strategies as st

from fairopt.errors import InvalidInstance

ROWS = [
    Quota("vision", "cpu", "", 1.5, "core"),
    Quota("vision", "memory", "", 2.5, "GiB"),
    Quota("vision", "gpu", "", 4.0),
    Quota("nlp", "cpu", "", 0.0, "core"),
    Quota("nlp", "memory", "", 3.0, "GiB"),
    Quota("nlp", "gpu", "", 0.0),
]


def in_kubernetes(rows):
    return [Quota(r.team, "nvidia.com/gpu" if r.resource == "gpu" else r.resource, *_rest(r)) for r in rows]


def _rest(row):
    return row.flavor, row.amount, row.unit


def test_a_table_has_a_line_for_each_quota(tmp_path):
    text = to_csv([*ROWS[:3], Quota("=nlp, b", "gpu", "a100", 2.0)])
    assert text == (
        "team,resource,flavor,amount,unit\nvision,cpu,,1.5,core\nvision,memory,,2.5,GiB\nvision,gpu,,4,\n"
        '"\'=nlp, b",gpu,a100,2,\n'
    )
    (tmp_path / "q.csv").write_text(text)
    assert read_quotas(tmp_path / "q.csv") == ([*ROWS[:3], Quota("=nlp, b", "gpu", "a100", 2.0)], "csv")


def test_resource_quotas_are_one_for_each_namespace(tmp_path):
    text, notes = to_resource_quotas(ROWS, [], ["why"])
    assert notes == []
    assert text == (
        "# why\n# Kubernetes then refuses pods there that request no cpu or no memory, where it is limited, "
        "and pods beyond these amounts, which then appear nowhere.\n"
        "apiVersion: v1\nkind: List\nitems:\n"
        "- apiVersion: v1\n  kind: ResourceQuota\n  metadata:\n    name: fairopt\n    namespace: vision\n"
        "  spec:\n    hard:\n      requests.cpu: '1500m'\n      requests.memory: '2560Mi'\n"
        "      requests.nvidia.com/gpu: '4'\n"
        "- apiVersion: v1\n  kind: ResourceQuota\n  metadata:\n    name: fairopt\n    namespace: nlp\n"
        "  spec:\n    hard:\n      requests.cpu: '0'\n      requests.memory: '3Gi'\n"
        "      requests.nvidia.com/gpu: '0'\n"
    )
    (tmp_path / "q.yaml").write_text(text)
    assert read_quotas(tmp_path / "q.yaml") == (in_kubernetes(ROWS), "kubernetes")


def test_resource_quotas_that_are_there_are_written_again_by_their_names(tmp_path):
    """After ``kubectl apply``, which replaces objects of the same name, the smallest limits are the new amounts."""
    gpus = quota("vision", {"requests.nvidia.com/gpu": "2", "pods": "50"})
    gpus["metadata"] |= {"name": "gpus", "labels": {"by": "ops"}, "uid": "u", "resourceVersion": "7"}
    cpus = quota("vision", {"cpu": "1", "limits.cpu": "9", "requests.nvidia.com/gpu": "3"})
    scoped, other = quota("vision", {"cpu": "1"}, scopes=["Terminating"]), quota("web", {"cpu": "1"})
    for one, name in ((cpus, "cpus"), (scoped, "best-effort"), (other, "web")):
        one["metadata"]["name"] = name
    present = [gpus, cpus, scoped, other]
    before = json.dumps(present)
    text, notes = to_resource_quotas(ROWS, present)
    assert json.dumps(present) == before
    (tmp_path / "q.yaml").write_text(text)
    written = yaml.safe_load(text)["items"]
    names = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in written]
    assert names == [("vision", "cpus"), ("vision", "gpus"), ("nlp", "fairopt")]
    assert written[1]["metadata"] == {"name": "gpus", "namespace": "vision", "labels": {"by": "ops"}}
    assert written[1]["spec"]["hard"] == {"requests.nvidia.com/gpu": "4", "pods": "50"}
    assert written[0]["spec"]["hard"] == {
        "cpu": "1500m",
        "limits.cpu": "9",
        "requests.nvidia.com/gpu": "4",
        "requests.memory": "2560Mi",
    }
    kept = [one for one in present if (one["metadata"]["namespace"], one["metadata"]["name"]) not in names]
    in_effect = of({"kind": "List", "items": [*written, *kept]}, tmp_path)
    assert {(row.key, row.amount) for row in in_kubernetes(ROWS)} <= {(row.key, row.amount) for row in in_effect}
    assert notes == [
        "vision: in effect after this is applied are these amounts, in its own ResourceQuota cpus, gpus; "
        "limited for the first time: requests.memory; beside them stay: limits.cpu 9, pods 50",
        "vision: limits of best-effort, which has scopes, stay in effect beside these",
    ]


def test_without_the_present_resource_quotas_a_note_says_that_smaller_ones_stay():
    text, notes = to_resource_quotas(ROWS, None)
    assert notes[0].startswith("present ResourceQuotas are not known: if a namespace has one, the smaller limit stays")
    assert f"# {notes[0]}" in text


def test_limits_of_accounts_are_a_line_each_below_the_settings_they_need(tmp_path):
    rows = [
        Quota("bio", "cpu", "", 32.0, "core"),
        Quota("bio", "memory", "", 2.5, "GiB"),
        Quota("bio", "gpu", "", 5.0),
        Quota("bio", "gpu", "a100", 3.0),
        Quota("c$d", "gpu", "", 0.0),
    ]
    text = to_sacctmgr(rows, ["why"])
    assert text == (
        "# why\n# These limits need in slurm.conf:\n#   AccountingStorageType=accounting_storage/slurmdbd\n"
        "#   AccountingStorageTRES=gres/gpu,gres/gpu:a100\n#   AccountingStorageEnforce=associations,limits,safe\n"
        "# They bound what the jobs of an account and of all accounts below it use at once. Jobs beyond them wait.\n"
        "# They are set on all clusters of the database: with several, add cluster=NAME to each line.\n"
        "# Jobs that ask for GPUs without a type may be counted as any type, or as none:\n"
        "# a job_submit plugin can require a type.\n"
        "sacctmgr -i modify account where name=bio set GrpTRES=cpu=32,mem=2560M,gres/gpu=5,gres/gpu:a100=3\n"
        "sacctmgr -i modify account where 'name=c$d' set GrpTRES=gres/gpu=0\n"
    )
    (tmp_path / "q.sh").write_text(text)
    assert read_quotas(tmp_path / "q.sh") == (rows, "slurm")
    of_one = to_sacctmgr(rows, cluster="big")
    assert "where name=bio cluster=big set GrpTRES=cpu=32" in of_one and "add cluster=NAME" not in of_one
    (tmp_path / "q.sh").write_text(of_one)
    assert read_quotas(tmp_path / "q.sh") == (rows, "slurm")


def test_new_cluster_queues_have_a_flavor_for_each_type_of_server_and_zeros(tmp_path):
    rows = [
        Quota("vision", "gpu", "A100", 4.0),
        Quota("vision", "gpu", "t4", 1.0),
        Quota("nlp", "gpu", "t4", 2.0),
        Quota("nlp", "cpu", "t4", 2.5, "core"),
    ]
    rest = [Quota("all", "gpu", "t4", 1.0)]
    text, notes = new_queues([*rows, *rest], above={"vision": ["all"], "nlp": ["ml", "all"]}, weights={"ml": 2.0})
    assert notes == [
        "no namespace is known, and so no LocalQueue is written, through which jobs reach a ClusterQueue: vision, nlp"
    ]
    big, small, cohort, ml, vision, nlp = yaml.safe_load(text)["items"]
    assert big == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "a100"},
        "spec": {"nodeLabels": {"node.kubernetes.io/instance-type": "A100"}},
    }
    assert small["metadata"]["name"] == "t4"
    assert (cohort["kind"], cohort["metadata"]["name"], "parentName" in cohort["spec"]) == ("Cohort", "all", False)
    of = {one["name"]: one["resources"] for one in cohort["spec"]["resourceGroups"][0]["flavors"]}
    assert of["t4"][0] == {"name": "nvidia.com/gpu", "nominalQuota": "1"}  # what is in no queue's quota is lent too
    assert ml["spec"] == {"fairSharing": {"weight": "2"}, "parentName": "all"}
    assert vision["spec"]["namespaceSelector"] == {} and vision["spec"]["cohortName"] == "all"
    assert nlp["spec"]["cohortName"] == "ml" and nlp["spec"]["fairSharing"] == {"weight": "1"}
    assert nlp["spec"]["preemption"] == {"reclaimWithinCohort": "Any"}
    assert nlp["spec"]["resourceGroups"] == [
        {
            "coveredResources": ["nvidia.com/gpu", "cpu"],
            "flavors": [
                {
                    "name": name,
                    "resources": [
                        {"name": "nvidia.com/gpu", "nominalQuota": gpus},
                        {"name": "cpu", "nominalQuota": cpus},
                    ],
                }
                for name, gpus, cpus in (("a100", "0", "0"), ("t4", "2", "2500m"))
            ],
        }
    ]
    old, _ = new_queues(rows, "v1beta1", {"nlp": ["ml"]})
    assert yaml.safe_load(old)["items"][4]["spec"]["cohort"] == "ml"
    (tmp_path / "q.yaml").write_text(text)
    found, format = read_quotas(tmp_path / "q.yaml")
    assert format == "kueue" and ("nlp", "cpu", "t4", 2.5) in {
        (one.team, one.resource, one.flavor, one.owed) for one in found
    }


QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {
        "name": "vision",
        "uid": "1",
        "resourceVersion": "7",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "owner": "ann: é"},
    },
    "spec": {
        "cohort": "all",
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "fairSharing": {"weight": 2},
        "resourceGroups": [
            {
                "coveredResources": ["nvidia.com/gpu", "pods"],
                "flavors": [
                    {
                        "name": "a100",
                        "resources": [
                            {"name": "nvidia.com/gpu", "nominalQuota": 8, "lendingLimit": "6"},
                            {"name": "pods", "nominalQuota": "100"},
                        ],
                    }
                ],
            }
        ],
    },
    "status": {"pendingWorkloads": 3},
}


@pytest.mark.parametrize(("amount", "borrowing"), [(5.0, "0"), (11.0, "3")])
def test_a_cluster_queue_of_the_input_keeps_all_but_what_is_lent_to_it(amount, borrowing):
    changes = lent([Quota("vision", "gpu", "a100", amount)])
    made = yaml.safe_load(changes.yaml())["items"][0]
    expected = json.loads(json.dumps(QUEUE))
    expected["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = borrowing
    assert made["spec"] == expected["spec"] and made["apiVersion"] == QUEUE["apiVersion"]
    assert made["metadata"].keys() == {"name", "annotations"} and "status" not in made
    assert changes.words == [f"borrowingLimit of vision for nvidia.com/gpu of a100 from none to {borrowing}"]
    assert made["metadata"]["annotations"].keys() == {"owner", LENT}
    assert (
        "borrowingLimit" not in QUEUE["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    )  # not changed itself
    assert (
        "vision: its ClusterQueue has no place for 5 nvidia.com/gpu of t4"
        in lent([Quota("vision", "gpu", "t4", 5.0)]).notes
    )


def lent(rows, queue=QUEUE):
    """The changes by limits of a moment."""
    return Changes(InputQueues({"vision": queue}), ["vision"], rows, caps=True)


def lent_to(rows, queue):
    """The queue with limits of a moment; as it is if nothing changes."""
    return next(iter(lent(rows, queue).after.values()), queue)


def gpus(queue):
    return queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]


@pytest.mark.parametrize("own", [None, "4", 2])
def test_the_borrowing_limit_of_the_owners_outlives_what_is_written_over_it(own):
    queue = json.loads(json.dumps(QUEUE))
    if own is not None:
        gpus(queue)["borrowingLimit"] = own
    for amount, written in ((9.0, "1"), (10.0, "2"), (3.0, "0")):
        queue = lent_to([Quota("vision", "gpu", "a100", amount)], queue)
        assert gpus(queue)["borrowingLimit"] == written and gpus(queue)["nominalQuota"] == 8
        assert own_limit(lent_of(queue["metadata"]), "a100", gpus(queue)) == own
    back = lent_to([Quota("vision", "cpu", "a100", 0.0)], queue)
    assert gpus(back).get("borrowingLimit") == own and LENT not in back["metadata"].get("annotations", {})
    of_owners = json.loads(json.dumps(QUEUE))  # who set the limit that was written over theirs
    gpus(of_owners)["borrowingLimit"] = gpus(queue)["borrowingLimit"] = "0"
    annotations = queue["metadata"]["annotations"]
    annotations[APPLIED] = json.dumps(of_owners)
    assert own_limit(lent_of(queue["metadata"]), "a100", gpus(queue)) == "0"
    annotations[APPLIED] = json.dumps(queue)  # applied as it was written
    assert own_limit(lent_of(queue["metadata"]), "a100", gpus(queue)) == own
    gpus(queue)["borrowingLimit"] = "7"  # changed by its owners since
    assert own_limit(lent_of(queue["metadata"]), "a100", gpus(queue)) == "7"
    queue["metadata"]["annotations"][LENT] = "8"
    with pytest.raises(
        InvalidInstance, match='the annotation fairopt/lent of "vision" is not what fairopt writes; take'
    ):
        lent_of(queue["metadata"])


def patched(queue, text):
    """A queue after a line of ``kubectl patch``, by RFC 6902 with null for what is missing; None if it is refused."""
    first, line = [line for line in text.splitlines() if not line.startswith("#")]
    assert first == "set -e"
    *command, steps = shlex.split(line)
    assert command == ["kubectl", "patch", "clusterqueues.v1beta1.kueue.x-k8s.io", "vision", "--type=json", "-p"]
    out = json.loads(json.dumps(queue))
    for step in json.loads(steps):
        *path, last = [part.replace("~1", "/") for part in step["path"].split("/")[1:]]
        at = out
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if step["op"] == "test" and at.get(last) != step["value"]:
            return None
        if step["op"] == "remove":
            del at[last]
        if step["op"] == "add":
            at[last] = step["value"]
    return out


@pytest.mark.parametrize("own", [None, "4"])
@pytest.mark.parametrize("annotated", [True, False])
def test_a_patch_changes_limits_alone_and_is_refused_by_another_queue(own, annotated):
    queue = json.loads(json.dumps(QUEUE))
    queue["metadata"]["annotations"] = {"owner": "ann's"}
    if not annotated:
        del queue["metadata"]["annotations"]
    if own is not None:
        gpus(queue)["borrowingLimit"] = own
    of = {"vision": queue}
    for rows in ([Quota("vision", "gpu", "a100", 10.0)], []):  # what is lent, and taken back
        first, changes = of["vision"], lent(rows, of["vision"])
        text = changes.script()
        made, expected = patched(first, text), yaml.safe_load(changes.yaml())["items"][0]
        assert made["spec"] == expected["spec"] and made["status"] == QUEUE["status"]
        assert made["metadata"].get("annotations", {}) == expected["metadata"].get("annotations", {})
        assert gpus(made).get("borrowingLimit") == ("2" if rows else own)
        other = json.loads(json.dumps(first))  # changed by its owners since
        other["spec"]["preemption"] = {}
        assert patched(other, text)["spec"]["preemption"] == {}
        for key in ("nominalQuota", "borrowingLimit", "name"):
            other = json.loads(json.dumps(first))
            gpus(other)[key] = "3"
            assert patched(other, text) is None
        of = {"vision": made}
    assert lent([], of["vision"]).pairs == []
    assert [line for line in lent([], of["vision"]).script().splitlines() if not line.startswith("#")] == []


def test_settings_give_back_what_is_owed_and_take_back_limits_of_a_moment():
    """The second time nothing changes; weights of 0, and rules that owners gave, stay."""
    queue = lent_to([Quota("vision", "gpu", "a100", 10.0)], QUEUE)
    assert gpus(queue)["borrowingLimit"] == "2"
    pool = {"kind": "Cohort", "apiVersion": "kueue.x-k8s.io/v1beta1", "metadata": {"name": "all"}, "spec": {}}
    of = InputQueues({"vision": queue}, cohorts={"all": pool})
    changes = Changes(of, ["vision"], weights={"vision": 2.0, "all": 3.0, "gone": 2.0}, reclaim=True)
    made, cohort = changes.after["ClusterQueue", "vision"], changes.after["Cohort", "all"]
    assert "borrowingLimit" not in gpus(made) and LENT not in made["metadata"]["annotations"]
    assert made["spec"]["preemption"] == {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    assert made["spec"]["fairSharing"] == {"weight": 2} and cohort["spec"] == {"fairSharing": {"weight": "3"}}
    assert changes.notes == ["gone has no object, so that its weight of 2 is not set"]
    assert changes.words == [
        "borrowingLimit of vision for nvidia.com/gpu of a100 from 2 to none",
        "preemption.reclaimWithinCohort of vision from Never to Any",
        "fairSharing.weight of all from 1 to 3",
    ]
    lines = [line for line in changes.script().splitlines() if line.startswith("kubectl")]
    assert [line.split()[2] for line in lines] == [
        "clusterqueues.v1beta1.kueue.x-k8s.io",
        "cohorts.v1beta1.kueue.x-k8s.io",
    ]
    assert patched(queue, "\n".join(["set -e", lines[0]]))["spec"] == made["spec"]
    again = InputQueues({"vision": made}, cohorts={"all": cohort})
    assert Changes(again, ["vision"], weights={"vision": 2.0, "all": 3.0}, reclaim=True).pairs == []
    owners = {**QUEUE, "spec": {**QUEUE["spec"], "fairSharing": {"weight": 0}}}
    owners["spec"]["preemption"] = {"reclaimWithinCohort": "LowerPriority"}
    assert Changes(InputQueues({"vision": owners}), ["vision"], weights={"vision": 0.001}, reclaim=True).pairs == []


def test_the_script_ends_with_an_error_where_one_patch_is_refused(tmp_path):
    """With a kubectl that refuses the first of two patches, and would do the second."""
    other = {**QUEUE, "metadata": {"name": "nlp"}}
    script = Changes(InputQueues({"vision": QUEUE, "nlp": other}), ["vision", "nlp"], reclaim=True).script()
    (tmp_path / "kubectl").write_text('#!/bin/sh\necho "$3" >> "$0.log"\n[ "$3" = nlp ]\n')
    (tmp_path / "kubectl").chmod(0o755)
    ran = subprocess.run(["sh"], input=script, text=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert ran.returncode == 1 and (tmp_path / "kubectl.log").read_text() == "vision\n"


@pytest.mark.parametrize(
    ("queues", "version", "message"),
    [
        ({}, "v1", "the API version is 'v1'; give v1beta2 or v1beta1"),
        ({"vision": QUEUE, "b": {**QUEUE, "apiVersion": "kueue.x-k8s.io/v1beta2"}}, None, "give them in one"),
    ],
)
def test_versions_that_do_not_fit_are_refused(queues, version, message):
    with pytest.raises(InvalidInstance, match=message):
        new_queues([], version) if not queues else Changes(InputQueues(queues), [*queues])


def kueue(rows):
    return new_queues(rows)[0]


@pytest.mark.parametrize(
    ("write", "row", "message"),
    [
        (to_resource_quotas, Quota("Team A", "gpu", "", 1.0), "'Team A' cannot be the name of a namespace"),
        (to_resource_quotas, Quota("a.b", "gpu", "", 1.0), r"'a\.b' cannot be the name of a namespace"),
        (kueue, Quota("no_queue", "gpu", "", 1.0), "'no_queue' cannot be the name of a ClusterQueue"),
        (kueue, Quota("a", "gpu", "no GPU", 1.0), "'no gpu' cannot be the name of a ResourceFlavor"),
        (to_sacctmgr, Quota("a,b", "gpu", "", 1.0), "'a,b' cannot be the name of an account"),
        (to_sacctmgr, Quota("-a", "gpu", "", 1.0), "'-a' cannot be the name of an account"),
        (to_sacctmgr, Quota("a'b", "gpu", "", 1.0), "cannot be the name of an account"),
        (to_sacctmgr, Quota("a", "my gpu", "", 1.0), "'gres/my gpu' cannot be the name of a resource of Slurm"),
        (to_resource_quotas, Quota("a", "bandwidth", "", 1.0), "Kubernetes has no resource 'bandwidth'"),
        (to_resource_quotas, Quota("a", "memory", "", 1.0), "the unit of 'memory' is 'unknown'; give it in GiB"),
        (to_sacctmgr, Quota("a", "memory", "", 1.0, "GB"), "the unit of 'memory' is 'GB'; give it in GiB"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(write, row, message):
    with pytest.raises(InvalidInstance, match=message):
        write([row])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
        max_leaves=12,
    )
)
def test_any_object_is_written_as_yaml_that_reads_back_the_same(value):
    made = {"kind": "ClusterQueue", "spec": value}
    assert yaml.safe_load(yaml_list([made, {"a": [[1, [value]]]}], ["x"]))["items"] == [made, {"a": [[1, [value]]]}]


# -- present quotas -------------------------------------------------------------------------------------------


def of(document, tmp_path, name="present.json"):
    (tmp_path / name).write_text(json.dumps(document))
    return read_quotas(tmp_path / name)[0]


def quota(namespace, hard, **spec):
    return {"kind": "ResourceQuota", "metadata": {"namespace": namespace}, "spec": {"hard": hard, **spec}}


def test_of_several_resource_quotas_in_a_namespace_the_smallest_counts(tmp_path):
    items = [
        quota("web", {"requests.cpu": "4", "requests.nvidia.com/gpu": "2", "services": "3", "requests.storage": "1Ti"}),
        quota("web", {"cpu": "2500m", "memory": "512Mi", "limits.cpu": "1"}),
        quota("web", {"cpu": "1"}, scopes=["BestEffort"]),
        quota("web", {"cpu": "1"}, scopeSelector={"matchExpressions": []}),
    ]
    assert of({"kind": "List", "items": items}, tmp_path) == [
        Quota("web", "cpu", "", 2.5, "core"),
        Quota("web", "nvidia.com/gpu", "", 2.0),
        Quota("web", "memory", "", 0.5, "GiB"),
    ]


def test_limits_of_accounts_are_read_from_associations(tmp_path):
    tres = [{"type": "mem", "name": "", "count": 2048}, {"type": "gres", "name": "gpu:a100", "count": 4}]
    tres += [{"type": "cpu", "count": 8}, {"type": "gres", "name": "gpu", "count": 6}, {"type": "node", "count": 3}]
    entries = [
        {"account": "bio", "user": "", "max": {"tres": {"total": tres}}},
        {"account": "bio", "user": "ann", "max": {"tres": {"total": [{"type": "cpu", "count": 1}]}}},
        {"account": "cfd", "user": ""},
    ]
    found = of({"associations": entries}, tmp_path)
    assert [(q.team, q.amount) for q in found if q.resource == "fairshare"] == [("bio", 1.0), ("cfd", 1.0)]
    assert {(q.resource, q.flavor): (q.team, q.amount, q.unit) for q in found if q.resource != "fairshare"} == {
        ("cpu", ""): ("bio", 8.0, "core"),
        ("memory", ""): ("bio", 2.0, "GiB"),
        ("gpu", ""): ("bio", 6.0, ""),
        ("gpu", "a100"): ("bio", 4.0, ""),
    }


def test_the_present_quota_of_a_queue_is_what_it_may_use_today():
    """Of a cohort with 4 of its own, 8 that are lent by one queue but for 2, and 6 of another."""

    def queue(name, cohort, **numbers):
        entry = {"name": "cpu", "nominalQuota": 0} | numbers
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [entry]}]}
        kind = {"kind": "ClusterQueue"} if cohort is not None else {"kind": "Cohort"}
        return kind | {"metadata": {"name": name}, "spec": {"cohortName": cohort, "resourceGroups": [group]}}

    queues = [
        queue("lender", "c", nominalQuota=8, lendingLimit=6),
        queue("limited", "c", nominalQuota=6, borrowingLimit=3),
        queue("none", "c"),
        queue("alone", "", nominalQuota=5),
        queue("c", None, nominalQuota=4),
    ]
    told = {"f": {"cpu": {"fair": "9", "borrowing": "3", "before": None}}}
    queues[1]["metadata"]["annotations"] = {LENT: json.dumps(told)}  # a limit is one whoever wrote it
    found, _ = quotas_of_input({"kind": "List", "items": queues})
    right = {"lender": 8 + 6 + 4, "limited": 6 + 3, "none": 6 + 6 + 4, "alone": 5}
    assert {one.team: one.amount for one in found} == right


def test_an_input_has_its_own_present_quotas(tmp_path):
    for name, document in (
        ("resourcequotas.json", {"kind": "List", "items": [quota("web", {"cpu": "1"})]}),
        ("clusterqueues.json", {"kind": "List", "items": [QUEUE]}),
    ):
        (tmp_path / name).write_text(json.dumps(document))
    assert quotas_of_input(tmp_path) == ([Quota("web", "cpu", "", 1.0, "core")], "kubernetes")
    rows, format = quotas_of_input(tmp_path, "kueue")
    assert (format, rows[0]) == (
        "kueue",
        Quota("vision", "nvidia.com/gpu", "a100", 8.0, "", 8.0),
    )  # alone in its cohort
    assert quotas_of_input(tmp_path, "slurm") is None
    mixed = tmp_path / "all.json"
    mixed.write_text(json.dumps({"kind": "List", "items": [{"kind": "Node"}, QUEUE]}))
    assert quotas_of_input(mixed)[1] == "kueue" and quotas_of_input(mixed, "kubernetes") is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "q.csv",
            "team,resource,amount\na,gpu,1\na,gpu,2\n",
            "line 3, column 'team': 'a' has a quota of 'gpu' on line 2",
        ),
        ("q.csv", "team,resource,amount\na,gpu,-1\n", "column 'amount': the value is -1"),
        ("q.csv", "team,resource,amount,flavour\na,gpu,1,a100\n", "line 1: the column 'flavour' is not read"),
        (
            "q.sh",
            "sacctmgr show associations\n",
            "line 1: give lines such as sacctmgr -i modify account where name=bio",
        ),
        ("q.sh", "# x\nsacctmgr -i 'modify\n", "line 2: the line cannot be read"),
        ("q.sh", "sacctmgr -i modify account where name=a set GrpTRES=cpu=x\n", 'line 1: give a number for "cpu"'),
        ("q.json", '{"kind": "List", "items": [{"kind": "Pod"}]}', 'objects of kind "Pod"'),
        ("q.json", '{"kind": "List"}', "items is missing"),
        ("q.json", '{"kind": "List", "items": [3]}', r"items\[0\] is 3"),
        ("q.json", '{"associations": 1}', "associations is 1"),
        (
            "q.json",
            '{"items": [{"kind": "ResourceQuota", "spec": {"hard": {"cpu": "4x"}}}]}',
            r'items\[0\]\.spec\.hard\.cpu is "4x"',
        ),
        (
            "q.json",
            '{"items": [{"kind": "ClusterQueue", "metadata": {"name": "a"}, "spec": {"resourceGroups": [{"flavors": '
            '[{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4x"}]}]}]}}]}',
            r'items\[0\] \(a\)\.spec\.resourceGroups\[0\]\.flavors\[0\]\.resources\[0\]\.nominalQuota is "4x"',
        ),
        ("q.json", '{"items": [{"kind": "ClusterQueue", "metadata": 1}]}', r"items\[0\]\.metadata is 1"),
    ],
)
def test_files_without_readable_quotas_are_refused_with_their_place(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInstance, match=message):
        read_quotas(tmp_path / name)
