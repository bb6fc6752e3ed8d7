"""Settings of Kueue: of the ClusterQueues and Cohorts of the input, or new ones with their flavors.

The nominal quotas of an input are what its queues are owed, and are never changed. A limit of a moment on what a queue
may use is written as its borrowing limit, with an annotation (`LENT`) that holds the limit of its owners, which is what
counts when the objects are read again.
"""

from __future__ import annotations

import copy
import json
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io import Notes, checked, quantity
from fairopt.runtime import first_of
from fairopt_clusters.quotas.objects import as_applied, object_name, quantity_of, quota_of, resource_name, yaml_list
from fairopt_clusters.quotas.quota import Quota, by_team
from fairopt_clusters.quotas.work import Work
from fairopt_clusters.read.documents import DASH, documents_of, objects_of
from fairopt_clusters.read.kubernetes.cohorts import Cohorts
from fairopt_clusters.read.kubernetes.kueue import (
    COMMAND,
    LENT,
    LOCAL_QUEUE,
    ClusterQueue,
    Cohort,
    KueueObjects,
    Lent,
    lent_of,
    own_limit,
    read_kueue,
)
from fairopt_clusters.read.kubernetes.objects import listed, part, read_nodes
from fairopt_clusters.read.kubernetes.queues import Queues, Servers

Raw = Mapping[str, Any]
VERSIONS = ("v1beta2", "v1beta1")
_GROUP = "kueue.x-k8s.io"
_TYPE = "node.kubernetes.io/instance-type"  # the label from which types of servers are read
_ALL = "default-flavor"  # the flavor of all servers together
RECLAIM, _ANY = "reclaimWithinCohort", "Any"  # who borrows what a queue is owed gives it back, of any priority
_PARTS = ("nodes.json", "clusterqueues.json", "localqueues.json", "resourceflavors.json", "cohorts.json")
_PATCHES = "A patch that is refused ends the script: the object is another than was read. Read the cluster again."
_FIX = "rename it, or name the teams to write (--team)"


@dataclass(frozen=True)
class InputQueues:
    """The ClusterQueues and Cohorts of an input as given, by name, and the names of the servers of each flavor.

    ``places`` are those on which what a queue uses counts, by queue and by flavor and resource. ``has`` is what servers
    that take new pods have, by name, and ``unpromised`` what of their devices is in nobody's quota. No LocalQueue of
    the input leads to those that are ``unreached``.
    """

    raw: Mapping[str, Raw] = field(default_factory=dict)
    servers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    cohorts: Mapping[str, Raw] = field(default_factory=dict)
    places: Mapping[str, Mapping[tuple[str, str], frozenset[str]]] = field(default_factory=dict)
    has: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)
    unpromised: Sequence[str] = ()
    unreached: Sequence[str] = ()

    def flavors(self, queue: str, resource: str) -> list[str]:
        """The flavors of which a ClusterQueue has a quota of a resource, in its order."""
        return [flavor for flavor, entry in cells_of(self.raw[queue]) if entry["name"] == resource]

    @property
    def without_reclaim(self) -> list[str]:
        """The ClusterQueues in a cohort that preempt nobody who borrows what they are owed."""
        return sorted(name for name, queue in self.raw.items() if _never_reclaims(queue))

    @property
    def present(self) -> list[Quota]:
        """What each ClusterQueue may use now."""
        return may_use(self._objects)

    @cached_property
    def owed(self) -> dict[tuple[str, str, str], Quota]:
        """What each ClusterQueue is owed, and may use by the limits of its owners alone, by resource and flavor."""
        return {one.key: one for one in may_use(self._objects, of_owners=True)}

    @cached_property
    def promised(self) -> dict[tuple[str, str], float]:
        """The nominal quotas of all queues and cohorts together, by flavor and resource."""
        nominal = self._objects.nominal.items()
        return {(flavor, name): quota_of("", name, "", amount).amount for (flavor, name), amount in nominal}

    @property
    def _objects(self) -> KueueObjects:
        return KueueObjects(
            cluster_queues={name: ClusterQueue.model_validate(item) for name, item in self.raw.items()},
            cohorts={name: Cohort.model_validate(item) for name, item in self.cohorts.items()},
        )


def read_queues(source: Any) -> InputQueues:
    """The ClusterQueues of an input (None: none), and the servers of their flavors where the input has nodes.

    A flavor without an object is one of all servers, as for the reader of instances. Other inputs have none.
    """
    raw, cohorts = dict[str, Raw](), dict[str, Raw]()
    if source is None or not (isinstance(source, Mapping) or os.fspath(source) == DASH or Path(source).exists()):
        return InputQueues()
    given = documents_of(source, _PARTS, f"expected the output of {COMMAND}")
    of_kubernetes = [(one, name) for one, name in given if "items" in one or "kind" in one]
    documents = [(objects_of([(one, "")], name), name) for one, name in of_kubernetes]
    for document, name in documents:
        for kind, item, place in listed(document, name, ("ClusterQueue", "Cohort"), COMMAND, mixed=True):
            if kind == "Cohort":
                cohorts[checked(Cohort, item, name, place).name] = item
            else:
                raw[checked(ClusterQueue, item, name, place).name] = {"kind": kind, **item}
    if not raw:
        return InputQueues()
    kueue = read_kueue(documents, mixed=True)
    nodes = {node.name: node for one in documents for node in read_nodes(*one, mixed=True)}
    if not nodes:
        return InputQueues(raw, {}, cohorts)
    named = {flavor for queue in raw.values() for flavor, _ in cells_of(queue)}
    queues, servers = Queues(kueue, {}, Notes(), lambda amount, resource: float(amount)), Servers([*nodes.values()])
    names = np.array([*nodes], dtype=object)
    return InputQueues(
        raw,
        {flavor: frozenset(names[queues.servers_of(flavor, servers)].tolist()) for flavor in named},
        cohorts,
        {
            queue: {cell: frozenset(names[on].tolist()) for cell, on in queues.places(queue, servers).items()}
            for queue in kueue.cluster_queues
        },
        {name: node.has for name, node in nodes.items() if not node.closed},
        queues.unpromised(Servers([node for node in nodes.values() if not node.closed])),
        sorted(raw.keys() - {one.cluster_queue for one in kueue.local_queues.values()}),
    )


def left_out(work: Work, queues: InputQueues, counted: Collection[str]) -> dict[str, dict[str, Fraction]]:
    """What servers beside those counted, where no pod of a queue may run, have left of what runs there, by name."""
    others: dict[str, dict[str, Fraction]] = {name: {**has} for name, has in queues.has.items() if name not in counted}
    for pod in work.pods_where(lambda item: part(item, "spec").get("nodeName") in others) if others else ():
        for resource, amount in pod.spec.request.items() if pod.runs_on in others else ():
            has = others[str(pod.runs_on)]
            has[resource] = max(has.get(resource, Fraction(0)) - amount, Fraction(0))
    return others


class Changes:
    """The ClusterQueues and Cohorts of an input that get other settings, and notes.

    By default limits on borrowing become those of the owners again, and ``weights`` are those of queues and cohorts, by
    name. To ``reclaim``, who borrows gives it back (`_ANY`), but not to those that are ``kept``, which say why. With
    ``caps`` ``rows`` are limits of a moment, and nothing else changes: limits without a row are those of the owners.
    Only queues that are ``teams`` change, and of them no limits of resources that are ``untouched``.
    """

    def __init__(
        self,
        of: InputQueues,
        teams: Sequence[str],
        rows: Iterable[Quota] = (),
        *,
        caps: bool = False,
        weights: Mapping[str, float] = MappingProxyType({}),
        untouched: Collection[str] = (),
        reclaim: bool = False,
        kept: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.version, self.notes = _version(of.raw, None), list[str]()
        given, pairs = by_team(rows), list[tuple[dict[str, Any], dict[str, Any]]]()
        for name in teams:
            made = _limited(name, of.raw[name], given.get(name, ()), self.notes, untouched)
            if reclaim and name not in kept:
                made = _reclaiming(made)
            pairs.append(({**of.raw[name]}, made if caps else _weighted(made, weights.get(name))))
        if larger := {kept[name]: None for name in teams if reclaim and name in kept and name in of.without_reclaim}:
            what = "reclaimWithinCohort stays Never, since these are larger than what their queue owns"
            self.notes.append(f"{what}, and would be stopped whenever others take theirs back: {first_of(larger)}")
        for name, cohort in of.cohorts.items() if not caps else ():
            pairs.append(({**cohort}, _weighted(copy.deepcopy({**cohort}), weights.get(name))))
        for name in sorted(weights.keys() - of.raw.keys() - of.cohorts.keys()) if not caps else ():
            if weights[name] != 1:
                self.notes.append(f"{name} has no object, so that its weight of {weights[name]:g} is not set")
        head = {"apiVersion": f"{_GROUP}/{self.version}", "kind": "ClusterQueue"}
        self.pairs = [(head | before, head | after) for before, after in pairs if [*_steps(before, after, "")]]
        self.words = [text for before, after in self.pairs for text in _differences(before, after)]

    @property
    def after(self) -> dict[tuple[str, str], Raw]:
        """The objects that change, by kind and name."""
        return {(str(one["kind"]), str(one["metadata"]["name"])): one for _, one in self.pairs}

    def yaml(self, comments: Sequence[str] = ()) -> str:
        """The objects that change, whole."""
        return yaml_list([as_applied(after) for _, after in self.pairs], comments)

    def script(self, comments: Sequence[str] = ()) -> str:
        """A line of ``kubectl patch`` for each object that changes; the first that is refused ends the script.

        Each tests first that what it changes, and nominal quotas, are as in the input, and else changes nothing. To
        test for null is to test that nothing is there, for the library with which Kubernetes reads patches.
        """
        lines = [f"# {line}" for line in (*comments, _PATCHES)]
        lines += ["set -e"] * bool(self.pairs)
        for before, after in self.pairs:
            version, kind = str(before["apiVersion"]).rpartition("/")[2], str(before["kind"]).lower()
            command = ["kubectl", "patch", f"{kind}s.{version}.{_GROUP}", before["metadata"]["name"], "--type=json"]
            lines.append(" ".join(map(shlex.quote, [*command, "-p", json.dumps([*_patch(before, after)])])))
        return "\n".join([*lines, ""])


def _patch(before: Raw, after: Raw) -> Iterator[dict[str, Any]]:
    """The steps of a patch (RFC 6902) from one object to another."""
    steps = [*_steps(before, after, "")]
    if any("/resourceGroups/" in one["path"] for one in steps):
        entries = [*_entries(before)]
        known = {f"{path.rpartition('/resources/')[0]}/name": flavor for path, flavor, _ in entries}
        known |= {f"{path}/{key}": entry[key] for path, _, entry in entries for key in ("name", "nominalQuota")}
        yield from ({"op": "test", "path": path, "value": value} for path, value in known.items())
    yield from sorted(steps, key=lambda one: one["op"] != "test")


def _steps(before: Any, after: Any, path: str) -> Iterator[dict[str, Any]]:
    """The tests and edits where two values differ; what is missing in a mapping is None."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            place = str(key).replace("~", "~0").replace("/", "~1")
            yield from _steps(before.get(key), after.get(key), f"{path}/{place}")
    elif isinstance(before, list) and isinstance(after, list):
        for k, (one, other) in enumerate(zip(before, after, strict=True)):  # no entry is ever added
            yield from _steps(one, other, f"{path}/{k}")
    elif before != after:
        yield {"op": "test", "path": path, "value": before}
        yield {"op": "remove", "path": path} if after is None else {"op": "add", "path": path, "value": after}


def _differences(before: Raw, after: Raw) -> Iterator[str]:
    """What changes in an object, in words."""
    name, old, new = before["metadata"]["name"], before.get("spec") or {}, after.get("spec") or {}
    for (_, flavor, one), (_, _, other) in zip(_entries(before), _entries(after), strict=True):
        limits = [entry.get("borrowingLimit") for entry in (one, other)]
        if limits[0] != limits[1]:
            words = ["none" if limit is None else str(limit) for limit in limits]
            yield f"borrowingLimit of {name} for {one['name']} of {flavor} from {words[0]} to {words[1]}"
    for key, field_, default in (("preemption", RECLAIM, "Never"), ("fairSharing", "weight", "1")):
        words = [str((spec.get(key) or {}).get(field_, default)) for spec in (old, new)]
        if words[0] != words[1]:
            yield f"{key}.{field_} of {name} from {words[0]} to {words[1]}"


def _entries(queue: Raw) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The path, the flavor and the entry of each quota of a ClusterQueue."""
    for g, group in enumerate((queue.get("spec") or {}).get("resourceGroups") or ()):
        for f, flavor in enumerate(group.get("flavors") or ()):
            for r, entry in enumerate(flavor.get("resources") or ()):
                yield f"/spec/resourceGroups/{g}/flavors/{f}/resources/{r}", flavor["name"], entry


def _version(queues: Mapping[str, Raw], given: str | None) -> str:
    """The version of all objects: that of the input, else the one given, else the newest."""
    if given is not None and given not in VERSIONS:
        raise InvalidInstance(f"the API version is {given!r}; give {' or '.join(VERSIONS)}")
    versions = sorted(
        {str(queue["apiVersion"]).rpartition("/")[2] for queue in queues.values() if "apiVersion" in queue}
    )
    if len(versions) > 1 or (versions and versions[0] not in VERSIONS):
        raise InvalidInstance(
            f"the ClusterQueues are of version {' and '.join(map(repr, versions))}; give them in one of "
            f"{' and '.join(VERSIONS)}, as kubectl get clusterqueues.{VERSIONS[0]}.{_GROUP} -o json prints them"
        )
    if versions and given not in (None, versions[0]):
        raise InvalidInstance(
            f"the API version is {given!r}, but the ClusterQueues are of {versions[0]!r}; leave it out"
        )
    return versions[0] if versions else given or VERSIONS[0]


# -- ClusterQueues of the input -------------------------------------------------------------------------------


def cells_of(queue: Raw) -> Iterator[tuple[str, dict[str, Any]]]:
    """The flavor and the entry of each quota of a ClusterQueue."""
    return ((flavor, entry) for _, flavor, entry in _entries(queue))


def _reclaiming(queue: dict[str, Any]) -> dict[str, Any]:
    """A ClusterQueue that takes back what it is owed from all who borrow it, unless its owners said from whom."""
    if _never_reclaims(queue):
        queue["spec"]["preemption"] = {**(queue["spec"].get("preemption") or {}), RECLAIM: _ANY}
    return queue


def _never_reclaims(queue: Raw) -> bool:
    """Whether a ClusterQueue in a cohort preempts nobody who borrows what it is owed."""
    preemption = (queue.get("spec") or {}).get("preemption") or {}
    return bool(_cohort_of(queue)) and preemption.get(RECLAIM, "Never") == "Never"


def _weighted(item: dict[str, Any], weight: float | None) -> dict[str, Any]:
    """An object with a weight, unless it has it: 1 if it says none. None and a weight of 0 stay."""
    spec = {**(item.get("spec") or {})}
    sharing = {**(spec.get("fairSharing") or {})}
    now = float(quantity(sharing["weight"])) if sharing.get("weight") is not None else 1.0
    if weight is not None and now and now != weight:
        item["spec"] = spec | {"fairSharing": sharing | {"weight": f"{weight:.12g}"}}
    return item


def _cohort_of(queue: Raw) -> str:
    spec = queue.get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _limited(
    team: str, queue: Raw, quotas: Sequence[Quota], notes: list[str], untouched: Collection[str]
) -> dict[str, Any]:
    """A ClusterQueue with the borrowing limits of its owners, or those of quotas, which an annotation tells."""
    made = copy.deepcopy({**queue})
    metadata = made["metadata"]
    before, lent = lent_of(metadata), Lent()
    new = {(resource_name(row.resource), row.flavor): row for row in quotas}
    for flavor, entry in cells_of(made):
        if entry["name"] in untouched:
            if told_before := before.get(flavor, {}).get(entry["name"]):
                lent.setdefault(flavor, {})[entry["name"]] = told_before
            continue
        row, limit = new.pop((entry["name"], flavor), None), own_limit(before, flavor, entry)
        entry.pop("borrowingLimit", None)
        if limit is not None:
            entry["borrowingLimit"] = limit
        if row is None:
            continue
        fair, nominal = quantity(quantity_of(row)), quantity(entry["nominalQuota"])
        told: dict[str, Any] = {"fair": quantity_of(row), "borrowing": None, "before": limit}
        if _cohort_of(made):
            most = max(fair - nominal, Fraction(0))
            most = most if limit is None else min(most, limit if isinstance(limit, Fraction) else quantity(limit))
            beyond = quota_of(team, entry["name"], flavor, most)
            told["borrowing"] = entry["borrowingLimit"] = quantity_of(beyond)
        elif fair > nominal:
            notes.append(
                f"{team}: it is in no cohort, and has no more than its {entry['nominalQuota']} {entry['name']}"
            )
        lent.setdefault(flavor, {})[entry["name"]] = told
    missing = [
        f"{row.amount:g} {name} of {flavor or 'all servers'}" for (name, flavor), row in new.items() if row.amount
    ]
    if missing:
        notes.append(f"{team}: its ClusterQueue has no place for {', '.join(missing)}")
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LENT}
    annotations |= {LENT: json.dumps(lent, sort_keys=True)} if lent else {}
    made["metadata"] = metadata | ({"annotations": annotations} if annotations or metadata.get("annotations") else {})
    return made


# -- new ones -------------------------------------------------------------------------------------------------


def flavor_name(flavor: str) -> str:
    """The name of the ResourceFlavor of a type of servers."""
    return object_name(flavor.lower() or _ALL, "ResourceFlavor", "rename the type of servers", dots=True)


def _flavor(flavor: str, version: str) -> dict[str, Any]:
    made = {"apiVersion": f"{_GROUP}/{version}", "kind": "ResourceFlavor", "metadata": {"name": flavor_name(flavor)}}
    return made | ({"spec": {"nodeLabels": {_TYPE: flavor}}} if flavor else {})


def _local(namespace: str, name: str, team: str, version: str) -> dict[str, Any]:
    fix = "rename it, or leave the queues out of the labels of its pods"
    made = {"name": object_name(name, "LocalQueue", fix, dots=True), "namespace": namespace}
    head = {"apiVersion": f"{_GROUP}/{version}", "kind": "LocalQueue"}
    return head | {"metadata": made, "spec": {"clusterQueue": team}}


def new_queues(
    rows: Iterable[Quota],
    api_version: str | None = None,
    above: Mapping[str, Sequence[str]] = MappingProxyType({}),
    weights: Mapping[str, float] = MappingProxyType({}),
    local_queues: Mapping[str, Mapping[tuple[str, str], str]] = MappingProxyType({}),
    comments: Sequence[str] = (),
) -> tuple[str, list[str]]:
    """A list with a ClusterQueue for each team, and notes.

    With it are a ResourceFlavor for each flavor, the cohorts ``above`` teams and each other, the nearest first, and the
    ``local_queues`` of teams (`local_queues_of`). Rows of a cohort are its own quotas.
    """
    version, given = _version({}, api_version), by_team(rows)
    flavors = dict.fromkeys(row.flavor for quotas in given.values() for row in quotas)
    names = dict.fromkeys(resource_name(row.resource) for quotas in given.values() for row in quotas)
    cohorts = dict.fromkeys(name for path in above.values() for name in path)
    items = [_flavor(flavor, version) for flavor in flavors]
    for name in (*cohorts, *(team for team in given if team not in cohorts)):
        parent = next((path[path.index(name) + 1 :][:1] for path in above.values() if name in path), above.get(name))
        items.append(
            _made(
                name,
                "Cohort" if name in cohorts else "ClusterQueue",
                given.get(name, ()),
                (flavors, names),
                version,
                [*(parent or ())][:1],
                weights.get(name, 1.0),
            )
        )
    notes, teams = list[str](), [team for team in given if team not in cohorts]
    for team in teams:
        places = local_queues.get(team, {})
        items += [_local(*place, team, version) for place, known in places.items() if not known]
        if elsewhere := [f"{'/'.join(place)} of {known}" for place, known in places.items() if known not in ("", team)]:
            notes.append(f"{team}: its jobs are in LocalQueues of other ClusterQueues: {', '.join(elsewhere)}")
    if missing := [team for team in teams if not local_queues.get(team)]:
        what = "no namespace is known, and so no LocalQueue is written, through which jobs reach a ClusterQueue"
        notes.append(f"{what}: {', '.join(missing)}")
    if any(local_queues.get(team) for team in teams):
        notes.append(f"jobs reach a LocalQueue by the label {LOCAL_QUEUE} with its name")
    return yaml_list(items, [*comments, *notes]), notes


def _made(
    name: str,
    kind: str,
    quotas: Sequence[Quota],
    cells: tuple[Iterable[str], Iterable[str]],
    version: str,
    above: Sequence[str],
    weight: float,
) -> dict[str, Any]:
    """A ClusterQueue or a Cohort with one group, which has all resources of all flavors, or without quotas none."""
    amounts = {(resource_name(row.resource), row.flavor): quantity_of(row) for row in quotas}
    listed = [
        {
            "name": flavor_name(flavor),
            "resources": [{"name": one, "nominalQuota": amounts.get((one, flavor), "0")} for one in cells[1]],
        }
        for flavor in cells[0]
    ]
    spec: dict[str, Any] = {"fairSharing": {"weight": f"{weight:.12g}"}}
    if kind == "ClusterQueue":
        spec = {"namespaceSelector": {}, "preemption": {RECLAIM: _ANY}} | spec
    for parent in above:
        key = "parentName" if kind == "Cohort" else "cohortName" if version == VERSIONS[0] else "cohort"
        spec[key] = object_name(parent, "Cohort", _FIX, dots=True)
    spec |= {"resourceGroups": [{"coveredResources": [*cells[1]], "flavors": listed}]} if quotas else {}
    metadata = {"name": object_name(name, kind, _FIX, dots=True)}
    return {"apiVersion": f"{_GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


# -- reading --------------------------------------------------------------------------------------------------


def may_use(found: KueueObjects, of_owners: bool = False) -> list[Quota]:
    """What each queue may use: its nominal quota, which it is owed, and its borrowing limit, or what its cohort has.

    ``of_owners`` takes the limits of the owners instead of those that were written over theirs.
    """
    out = list[Quota]()
    for name, branch in Cohorts(found, lambda amount, resource: float(amount), not of_owners).queues.items():
        for (flavor, resource), nominal in branch.nominal.items():
            owed = quota_of(name, resource, flavor, Fraction(nominal))
            most = quota_of(name, resource, flavor, Fraction(branch.potential((flavor, resource))))
            out.append(replace(most, owed=owed.amount))
    return out


def read_cluster_queue_quotas(items: Iterable[tuple[Raw, str]], name: str) -> list[Quota]:
    """What ClusterQueues may use; given with their places in the file ``name``, and with Cohorts."""
    found = KueueObjects()
    for item, place in items:
        if item.get("kind") == "Cohort":
            cohort = checked(Cohort, item, name, place)
            found.cohorts[cohort.name] = cohort
        else:
            queue = checked(ClusterQueue, item, name, place)
            found.cluster_queues[queue.name] = queue
    return may_use(found)
