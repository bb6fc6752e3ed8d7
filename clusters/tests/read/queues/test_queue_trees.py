"""Queues of other schedulers as one tree: their levels, weights, guarantees and limits, whatever file they are in."""

import json
import random

import pytest
from fairopt_clusters.read.queues.reader import tree_of_file
from fairopt_clusters.read.queues.teams import labels_of
from fairopt_clusters.read.queues.tree import Queue, QueueTree

from fairopt.errors import InvalidInstance

KAI = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: research}
spec: {resources: {gpu: {quota: 12, limit: -1, overQuotaWeight: 1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: vision}
spec:
  parentQueue: research
  priority: 200
  preemptMinRuntime: 5m
  resources:
    gpu: {quota: 8, limit: 10, overQuotaWeight: 3}
    cpu: {quota: 2500, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1}
"""
VOLCANO = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: lab-prod
  annotations: {volcano.sh/hierarchy: root/lab/prod, volcano.sh/hierarchy-weights: 1/4/8}
spec: {weight: 1, capability: {cpu: 20, memory: 64Gi}, reclaimable: false}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: web}
spec: {weight: 3, deserved: {cpu: 1500m}, guarantee: {resource: {nvidia.com/gpu: 2}}, priority: 5}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: shop}
spec: {weight: 2, parent: web}
"""
YUNIKORN = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        resources: {max: {vcore: 100}}
        queues:
          - name: tenants
            resources: {guaranteed: {memory: 2Gi, vcore: 2500m}, max: {memory: 4Gi}}
            queues: [{name: a, properties: {priority.offset: "20"}}, {name: b}]
"""
FAIR = """<?xml version="1.0"?>
<allocations>
  <queue name="sales">
    <weight>2.5</weight>
    <minResources>10240 mb, 8 vcores</minResources>
    <maxResources>vcores=40%, memory-mb=50%</maxResources>
    <queue name="web"><minResources>memory-mb=5120, yarn.io/gpu=1</minResources></queue>
  </queue>
  <queue name="root.lab" type="parent"><maxRunningApps>5</maxRunningApps></queue>
</allocations>
"""
SHARES = """Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare
root|||0.000000|0|1.0|
 root|root|1|0.1|0|0.0|1.0
 eng||30|0.3|0|0.0|
  cfd||2|0.6|0|0.0|
  cfd|ann|1|1.0|0|0.0|0.0
  lab||parent|0.6|0|0.0|
 bio||10|0.1|0|0.0|
"""
DUMP = """# a comment
Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':Fairshare=1
Account - 'eng':Description='x: y=z':Fairshare=30:MaxJobs=4
Account - 'bio':Fairshare=10:GrpTRES=cpu=128,mem=64G,gres/gpu:a100=6
Parent - 'eng'
Account - 'cfd':Fairshare=2
Account - 'lab':Fairshare=parent
"""
SHARES_JSON = """{"shares": {"shares": [
  {"name": "root", "parent": "", "type": [], "shares": {"set": false, "infinite": false, "number": 0}},
  {"name": "eng", "parent": "root", "type": [], "shares": {"set": true, "infinite": false, "number": 30}},
  {"name": "cfd", "parent": "eng", "type": [], "shares": {"set": true, "infinite": false, "number": 2}},
  {"name": "ann", "parent": "cfd", "type": ["USER"], "shares": {"set": true, "infinite": false, "number": 1}},
  {"name": "lab", "parent": "eng", "type": [], "shares": {"set": true, "infinite": false, "number": 2147483647}},
  {"name": "bio", "parent": "root", "type": [], "shares": {"set": true, "infinite": false, "number": 10}}
]}}"""


def capacities(**given):
    """A capacity-scheduler.xml with values by the path of a queue."""
    rows = [
        f"<property><name>yarn.scheduler.capacity.{key.replace('__', '.').replace('_', '-')}</name>"
        f"<value>{value}</value></property>"
        for key, value in given.items()
    ]
    return f"<configuration>{''.join(rows)}</configuration>"


def test_of_a_property_given_twice_the_last_counts_as_in_hadoop(read):
    text = capacities(root__queues="a,b", root__a__capacity=30, root__b__capacity=70)
    again = capacities(root__a__capacity=60, root__b__capacity=40)
    both = text.replace("</configuration>", "") + again.replace("<configuration>", "")
    assert read(both, "c.xml") == read(text.replace(">30<", ">60<").replace(">70<", ">40<"), "c.xml")


TWO_LEVELS = dict(
    root__queues="prod, dev",
    root__prod__capacity=60,
    root__dev__capacity=40.0,
    root__dev__maximum_capacity=75,
    root__dev__queues="x,y",
    root__dev__x__capacity=50,
    root__dev__y__capacity="50%",
    root__dev__y__maximum_capacity=60,
)


@pytest.fixture
def read(tmp_path):
    def of(text, name="queues.yaml"):
        (tmp_path / name).write_text(text)
        return tree_of_file(tmp_path / name)

    return of


def parents(tree):
    return {queue.name: queue.parent for queue in tree.queues}


def weights(tree):
    return {queue.name: queue.weight for queue in tree.queues}


def test_kai_counts_in_millicores_and_megabytes_and_minus_one_is_no_limit(read):
    tree = read(KAI)
    vision = tree.by_name["vision"]
    assert (tree.scheduler, parents(tree)) == ("KAI", {"research": "", "vision": "research"})
    assert vision.guarantee == {"gpu": 8, "cpu": 2.5} and vision.limit == {"gpu": 10}
    assert (vision.weight, vision.weights["cpu"], vision.priority) == (3, 1, 200)
    assert vision.notes == {"preemptMinRuntime": "5m", "an unlimited quota of memory": "-1"}


def test_a_missing_limit_of_kai_allows_nothing_beyond_the_quota(read):
    tree = read(KAI.replace("limit: 10, ", "").replace("quota: 2500, limit: -1", "quota: 2500, limit: 1000"))
    assert tree.by_name["vision"].limit == {"gpu": 8, "cpu": 2.5}


def test_megabytes_of_kai_are_powers_of_ten(read):
    tree = read(KAI.replace("memory: {quota: -1", "memory: {quota: 1073.741824"))
    assert tree.by_name["vision"].guarantee["memory"] == 1.0


def test_annotations_of_volcano_make_levels_with_their_weights(read):
    tree = read(VOLCANO)
    assert parents(tree) == {"lab": "", "lab-prod": "lab", "web": "", "shop": "web"}
    assert weights(tree) == {"lab": 4, "lab-prod": 8, "web": 3, "shop": 2}
    assert tree.by_name["lab-prod"].limit == {"cpu": 20, "memory": 64}
    assert tree.by_name["web"].guarantee == {"cpu": 1.5, "nvidia.com/gpu": 2}
    assert tree.by_name["lab-prod"].notes == {"reclaimable": "set"} and tree.by_name["web"].priority == 5


def test_a_queue_of_volcano_may_itself_be_above_others(read):
    inner = VOLCANO.replace(
        "name: web}", "name: l, annotations: {volcano.sh/hierarchy: root/lab, volcano.sh/hierarchy-weights: 1/4}}"
    ).replace("parent: web", "parent: l")
    assert parents(read(inner)) == {"lab-prod": "l", "l": "", "shop": "l"}


def test_queues_of_yunikorn_are_paths_alone_or_in_the_config_map(read):
    tree = read(YUNIKORN)
    text = "".join(f"    {line}\n" for line in YUNIKORN.splitlines())
    assert read(f"kind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  queues.yaml: |\n{text}") == tree
    assert parents(tree) == {
        "root.tenants": "",
        "root.tenants.a": "root.tenants",
        "root.tenants.b": "root.tenants",
    }
    tenants = tree.by_name["root.tenants"]
    assert (tenants.guarantee, tenants.limit) == ({"memory": 2, "cpu": 2.5}, {"memory": 4})
    assert tree.capacity == {"cpu": 100} and tree.by_name["root.tenants.a"].notes == {"priority.offset": "20"}


def test_fair_scheduler_has_amounts_in_each_form_and_parts_of_the_cluster(read):
    tree = read(FAIR, "fair-scheduler.xml").within({"cpu": 100, "memory": 400})
    assert weights(tree) == {"root.sales": 2.5, "root.sales.web": 1, "root.lab": 1}
    assert tree.by_name["root.sales"].guarantee == {"memory": 10, "cpu": 8}
    assert tree.by_name["root.sales"].limit == {"cpu": 40, "memory": 200}
    assert tree.by_name["root.sales.web"].guarantee == {"memory": 5, "yarn.io/gpu": 1}
    assert tree.by_name["root.lab"].notes == {"maxRunningApps": "5"}


def test_no_cores_among_the_most_of_a_queue_are_no_limit(read):
    tree = read(FAIR.replace("vcores=40%, memory-mb=50%", "90000 mb,0vcores"), "fair-scheduler.xml")
    assert tree.by_name["root.sales"].limit == {"memory": 90000 / 1024}
    assert tree.by_name["root.sales"].notes == {"maxResources of 0 cpu": "no limit"}


def test_the_usual_most_of_a_fair_scheduler_is_for_queues_that_give_none(read):
    usual = "<queueMaxResourcesDefault>40960 mb, 8 vcores</queueMaxResourcesDefault></allocations>"
    tree = read(FAIR.replace("</allocations>", usual), "fair-scheduler.xml").within({"cpu": 100, "memory": 400})
    assert tree.by_name["root.sales"].limit == {"cpu": 40, "memory": 200}
    assert {tree.by_name[name].limit["memory"] for name in ("root.sales.web", "root.lab")} == {40}
    no_cores = read(FAIR.replace("vcores=40%, memory-mb=50%", "0 vcores").replace("</allocations>", usual), "f.xml")
    assert no_cores.by_name["root.sales"].limit == {} and no_cores.by_name["root.lab"].limit == {"memory": 40, "cpu": 8}


def test_percentages_of_the_capacity_scheduler_are_parts_of_the_queue_above(read):
    tree = read(capacities(**TWO_LEVELS), "c.xml").within({"cpu": 100})
    found = {queue.name: (queue.weight, queue.guarantee, queue.limit) for queue in tree.queues}
    assert found == {
        "root.prod": (60, {"cpu": 60}, {}),
        "root.dev": (40, {"cpu": 40}, {"cpu": 75}),
        "root.dev.x": (50, {"cpu": 20}, {}),
        "root.dev.y": (50, {"cpu": 20}, {"cpu": 45}),
    }


def test_capacities_may_be_weights_or_amounts(read):
    given = dict(root__queues="a,b,c", root__a__capacity="2w", root__b__capacity="[memory=10240,vcores=12]")
    tree = read(capacities(**given, root__c__capacity="0.5w"), "c.xml")
    assert weights(tree) == {"root.a": 2, "root.b": 1, "root.c": 0.5}
    assert tree.by_name["root.b"].guarantee == {"memory": 10, "cpu": 12}


@pytest.mark.parametrize("name, text", [("sshare.txt", SHARES), ("cluster.cfg", DUMP), ("sshare.json", SHARES_JSON)])
def test_the_accounts_of_slurm_are_the_same_tree_in_each_format(read, name, text):
    tree = read(text, name)
    assert parents(tree) == {"eng": "", "cfd": "eng", "lab": "eng", "bio": ""}
    assert weights(tree) == {"eng": 30, "cfd": 2, "lab": 1, "bio": 10}


def test_a_dump_has_limits_of_accounts_with_types(read):
    tree = read(DUMP, "cluster.cfg")
    assert tree.by_name["bio"].limit == {"cpu": 128, "memory": 64, "gpu": 6, "gpu:a100": 6}
    assert tree.by_name["eng"].notes == {"MaxJobs": "4"}


ABSENT = KAI.replace("parentQueue: research", "parentQueue: reserch")
CIRCLE = KAI.replace("spec: {resources: {gpu: {quota: 12", "spec: {parentQueue: vision, resources: {gpu: {quota: 12")
TWICE = KAI.replace("name: vision", "name: research").replace("  parentQueue: research\n", "")


@pytest.mark.parametrize(
    "name, text, message",
    [
        (
            "q.yaml",
            ABSENT,
            r'document 2 \(vision\): the queue .vision. has the parent "reserch".*did you mean .research.',
        ),
        ("q.yaml", CIRCLE, r"document 1 \(research\).*circle of parents, research -> vision -> research; correct"),
        ("q.yaml", TWICE, r"document 2 \(research\).*is there twice; the other one is .*document 1.*; keep one"),
        (
            "q.yaml",
            KAI.replace("quota: 8", "quota: 8Gib"),
            r'\(vision\).spec.resources.gpu.quota is "8Gib"; give a number',
        ),
        ("q.yaml", KAI.replace("quota: 8", "quota: 1e300"), r"gpu.quota is 1e\+300; give at most 9.22337e\+18"),
        ("q.yaml", KAI.replace("quota: 8", "quota: -2"), r"gpu.quota is -2; give a number >= 0, or -1"),
        ("q.yaml", VOLCANO.replace("64Gi", "64Gib"), r'\(lab-prod\).spec.capability.memory is "64Gib"; write 64Gi'),
        ("q.yaml", VOLCANO.replace("1/4/8", "1/4"), r"hierarchy-weights is .1/4.; give as many weights as"),
        ("q.yaml", YUNIKORN.replace("2Gi,", "2Gib,"), r'\(tenants\).resources.guaranteed.memory is "2Gib"; write 2Gi'),
        ("q.yaml", YUNIKORN.replace("name: a,", "name: b,"), r"the queue .root.tenants.b. is there twice"),
        ("q.yaml", YUNIKORN.replace("name: a,", "title: a,"), r"queues\[0\] has the name null; give each queue a name"),
        (
            "f.xml",
            FAIR.replace("8 vcores", "8 vcors"),
            r'line 5: minResources of queue root.sales is "10240 mb, 8 vcors"',
        ),
        ("f.xml", FAIR.replace("2.5", "much"), r'line 4: weight of queue root.sales is "much"; give a number'),
        ("f.xml", FAIR.replace("</allocations>", ""), r"f.xml, line \d+: .*check the tags"),
        ("f.xml", "<a/>", r"<a> is not read; give YARN's fair-scheduler.xml"),
        (
            "c.xml",
            capacities(**TWO_LEVELS | {"root__prod__capacity": 50}),
            r"below .root. sum to 90%; make them sum to 100",
        ),
        ("c.xml", capacities(root__queues="a"), r"the queue .root.a. has no capacity; give yarn"),
        (
            "c.xml",
            capacities(root__queues="a", root__a__capacity="1Gib"),
            r'capacity of queue root.a is "1Gib"; give a perc',
        ),
        ("c.xml", capacities(root__queues="a,a", root__a__capacity="1"), r"name each queue once"),
        ("d.cfg", DUMP.replace("Parent - 'eng'", "Parent - 'egn'"), r'line 7: the parent "egn" is no account above'),
        ("d.cfg", DUMP.replace("'lab'", "'cfd'"), r'line 9: the account "cfd" is also on line 8; keep one'),
        ("d.cfg", DUMP.replace("Fairshare=10", "Fairshare=ten"), r"line 6: give a whole number.*Fairshare=ten"),
        ("d.cfg", DUMP.replace("mem=64G", "mem=64Gib"), r"line 6: .*64Gib"),
        ("s.txt", SHARES.replace("||30|", "||x|"), r'line 4: RawShares is "x"; give a whole number'),
        ("s.txt", SHARES.replace(" bio|", " eng|"), r'line 8: the account "eng" is also on line 4'),
    ],
)
def test_a_fault_is_named_with_its_place_value_and_fix(read, name, text, message):
    with pytest.raises(InvalidInstance, match=message):
        read(text, name)


def test_a_document_type_is_refused_before_its_entities_are_read(read):
    entities = "".join(f'<!ENTITY x{k} "{f"&x{k - 1};" * 9}">' for k in range(1, 12))
    bomb = f'<!DOCTYPE a [<!ENTITY x0 "lol">{entities}]><allocations>&x11;</allocations>'
    with pytest.raises(InvalidInstance, match=r"line 1: a document type \(DTD\) is not read; remove"):
        read(bomb, "fair-scheduler.xml")


def test_deep_nesting_is_refused(read):
    with pytest.raises(InvalidInstance, match="nested too deeply"):
        read("<allocations>" + "<queue name='a'>" * 5000, "fair-scheduler.xml")


def test_more_levels_than_a_hundred_are_refused():
    chain = [Queue(f"q{k}", f"q{k - 1}" if k else "") for k in range(20_000)]
    assert QueueTree("KAI", tuple(chain[:100])).levels == 100
    with pytest.raises(InvalidInstance, match="the queue 'q100' has 100 queues above it; give at most 100 levels"):
        QueueTree("KAI", tuple(chain))
    with pytest.raises(InvalidInstance, match="give at most 100 levels"):
        QueueTree("KAI", tuple(reversed(chain)))


def test_labels_go_from_the_top_and_tasks_of_inner_queues_are_beside_those_below():
    tree = QueueTree("KAI", (Queue("a"), Queue("b", "a"), Queue("c", "b"), Queue("d")))
    assert labels_of({name: tree.above(name) for name in ("b", "c", "d")}, "queue") == {
        "team": {"b": None, "c": "c", "d": "d"},
        "queue": {"b": "b", "c": "b"},
        "queue2": {"b": "a", "c": "a"},
    }


def drawn(seed):
    """A tree of accounts as rows of name, parent and weight; parents come first."""
    draw = random.Random(seed)
    rows = [("q0", "", draw.randint(1, 9))]
    for k in range(1, draw.randint(2, 12)):
        rows.append((f"q{k}", draw.choice(["", *(name for name, *_ in rows)]), draw.randint(1, 9)))
    return rows


def in_order(rows, above=""):
    """Rows with their levels, each followed by those below it."""
    for name, parent, weight in rows:
        if parent == above:
            yield name, parent, weight
            yield from in_order(rows, name)


def written(rows):
    """The same tree in seven formats, by the name of a file."""
    inner = {parent for _, parent, _ in rows}
    path = {"": ("root",)}
    for name, parent, _ in rows:
        path[name] = (*path[parent], name)
    weight = {"root": 1} | {name: of for name, _, of in rows}
    kai = [
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": {
            "parentQueue": parent, "resources": {"gpu": {"quota": -1, "limit": -1, "overQuotaWeight": of}}}}
        for name, parent, of in rows
    ]  # fmt: skip
    marks = {
        name: {
            "volcano.sh/hierarchy": "/".join(path[name]),
            "volcano.sh/hierarchy-weights": "/".join(str(weight[one]) for one in path[name]),
        }
        for name, *_ in rows
    }
    volcano = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": n, "annotations": of}}
        for n, of in marks.items()
        if n not in inner
    ]
    fair = "".join(f"<queue name='{'.'.join(path[name])}'><weight>{of}</weight></queue>" for name, _, of in rows)
    capacity = {"__".join(path[name]) + "__capacity": f"{of}w" for name, _, of in rows}
    capacity |= {"__".join(path[one]) + "__queues": ",".join(n for n, p, _ in rows if p == one) for one in inner}
    dump = "".join(
        f"Parent - '{one or 'root'}'\n" + "".join(f"Account - '{n}':Fairshare={of}\n" for n, p, of in rows if p == one)
        for one in ("", *(name for name, *_ in in_order(rows)))
        if one in inner
    )
    shares = "".join(f"{' ' * (len(path[n]) - 1)}{n}||{of}|\n" for n, _, of in in_order(rows))
    listed = [
        {"name": n, "parent": p or "root", "type": [], "shares": {"set": True, "number": of}} for n, p, of in rows
    ]
    return {
        "kai.json": json.dumps({"kind": "List", "items": kai}),
        "volcano.json": json.dumps({"kind": "List", "items": volcano}),
        "fair-scheduler.xml": f"<allocations>{fair}</allocations>",
        "capacity-scheduler.xml": capacities(**capacity),
        "cluster.cfg": f"Cluster - 'c':Fairshare=1\n{dump}",
        "sshare.txt": f"Account|User|RawShares|\nroot|||\n{shares}",
        "sshare.json": json.dumps({"shares": {"shares": listed}}),
    }


@pytest.mark.parametrize("seed", range(40))
def test_a_tree_is_the_same_in_each_format(read, seed):
    rows = drawn(seed)
    expected = {(name, parent, of) for name, parent, of in rows}
    for file, text in written(rows).items():
        found = {(*(name.rpartition(".")[2] for name in (q.name, q.parent)), q.weight) for q in read(text, file).queues}
        inner = {(name.rpartition("/")[2], parent.rpartition("/")[2], of) for name, parent, of in found}
        assert inner == expected, file
