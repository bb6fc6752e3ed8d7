"""Quotas as ClusterQueues of Kueue: those of the input with what is lent for now, or new ones with their flavors.

The nominal quotas of an input are what its queues are owed, and are never changed. What a queue may use beyond them is
written as its borrowing limit, with an annotation (`LENT`) that holds the limit of its owners, which is what counts
when the objects are read again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io import Notes, checked, quantity
from fairopt_clusters.quotas.namespaces import pods_where
from fairopt_clusters.quotas.objects import as_applied, object_name, quantity_of, quota_of, resource_name, yaml_list
from fairopt_clusters.quotas.quota import Quota, by_team
from fairopt_clusters.read.documents import documents_of
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
    read_cluster_queues,
    read_kueue,
)
from fairopt_clusters.read.kubernetes.objects import Node, listed, part, read_nodes
from fairopt_clusters.read.kubernetes.queues import Queues, Servers

Raw = Mapping[str, Any]
VERSIONS = ("v1beta2", "v1beta1")
_GROUP = "kueue.x-k8s.io"
_TYPE = "node.kubernetes.io/instance-type"  # the label from which types of servers are read
_ALL = "default-flavor"  # the flavor of all servers together
LIMITS_CHANGE = "limits on borrowing change"  # how the note of these begins
_SHOWN = 4  # changes of limits that are named
_PARTS = ("nodes.json", "clusterqueues.json", "resourceflavors.json", "cohorts.json")
_PATCHES = "A patch that is refused changes nothing: its queue is another than was read. Read the cluster again."
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
        specs = {name: queue.get("spec", {}) for name, queue in self.raw.items()}
        return sorted(
            name
            for name, spec in specs.items()
            if (spec.get("cohortName") or spec.get("cohort"))
            and (spec.get("preemption") or {}).get("reclaimWithinCohort", "Never") == "Never"
        )

    @property
    def present(self) -> list[Quota]:
        """What each ClusterQueue may use now."""
        return may_use(*self._objects)

    @property
    def most(self) -> list[Quota]:
        """What each ClusterQueue may use by the limits of the owners alone."""
        return may_use(*self._objects, of_owners=True)

    @property
    def _objects(self) -> tuple[list[ClusterQueue], list[Cohort]]:
        queues = [ClusterQueue.model_validate(item) for item in self.raw.values()]
        return queues, [Cohort.model_validate(item) for item in self.cohorts.values()]

    @property
    def promised(self) -> dict[tuple[str, str], Fraction]:
        """The nominal quotas of all queues and cohorts together, by flavor and resource."""
        queues, cohorts = self._objects
        objects = {one.name: one for one in queues}, {one.name: one for one in cohorts}
        return KueueObjects(cluster_queues=objects[0], cohorts=objects[1]).nominal


def read_queues(source: Any) -> InputQueues:
    """The ClusterQueues of an input (None: none), and the servers of their flavors where the input has nodes.

    A flavor without an object is one of all servers, as for the reader of instances.
    """
    raw = {} if source is None else read_cluster_queues(source)
    if not raw:
        return InputQueues()
    nodes: dict[str, Node] = {}
    cohorts: dict[str, Raw] = {}
    documents = documents_of(source, _PARTS, f"expected the output of {COMMAND}")
    kueue = read_kueue(documents, mixed=True)
    for document, name in documents:
        for _, item, place in listed(document, name, ("Cohort",), COMMAND, mixed=True):
            cohorts[checked(Cohort, item, name, place).name] = item
        nodes |= {node.name: node for node in read_nodes(document, name, mixed=True)}
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


def left_out(source: Any, queues: InputQueues, counted: Collection[str]) -> dict[str, dict[str, Fraction]]:
    """What servers beside those counted, where no pod of a queue may run, have left of what runs there, by name."""
    others: dict[str, dict[str, Fraction]] = {name: {**has} for name, has in queues.has.items() if name not in counted}
    for pod in pods_where(source, lambda item: part(item, "spec").get("nodeName") in others) if others else ():
        for resource, amount in pod.spec.request.items() if pod.runs_on in others else ():
            has = others[str(pod.runs_on)]
            has[resource] = max(has.get(resource, Fraction(0)) - amount, Fraction(0))
    return others


def to_cluster_queues(
    rows: Iterable[Quota],
    queues: Mapping[str, Raw],
    api_version: str | None = None,
    cohorts: Mapping[str, str] | None = None,
    comments: Sequence[str] = (),
    untouched: Collection[str] = (),
    teams: Sequence[str] = (),
    local_queues: Mapping[str, Mapping[tuple[str, str], str]] = MappingProxyType({}),
) -> tuple[str, list[str]]:
    """A list of ClusterQueues, and notes.

    ``queues`` are those of the input by name: of these, which must have all teams, only the numbers ``borrowingLimit``
    and an annotation change, and nothing of resources that are ``untouched``. Limits without a row are those of the
    owners; ``teams`` are written too if they have no row. Without any queue each team gets a new one, in its cohort,
    with a ResourceFlavor for each flavor, and its ``local_queues`` (`local_queues_of`).
    """
    version = _version(queues, api_version)
    if queues:
        items, notes = _changes(rows, queues, version, untouched, teams)
        return yaml_list(items, [*comments, *notes]), notes
    given = by_team(rows)
    flavors = dict.fromkeys(row.flavor for quotas in given.values() for row in quotas)
    names = dict.fromkeys(resource_name(row.resource) for quotas in given.values() for row in quotas)
    items = [_flavor(flavor, version) for flavor in flavors]
    for team, quotas in given.items():
        items.append(_made(team, quotas, [*flavors], [*names], version, (cohorts or {}).get(team)))
    notes = list[str]()
    for team in given:
        places = local_queues.get(team, {})
        items += [_local(*place, team, version) for place, known in places.items() if not known]
        if elsewhere := [f"{'/'.join(place)} of {known}" for place, known in places.items() if known not in ("", team)]:
            notes.append(f"{team}: its jobs are in LocalQueues of other ClusterQueues: {', '.join(elsewhere)}")
    if missing := [team for team in given if not local_queues.get(team)]:
        what = "no namespace is known, and so no LocalQueue is written, through which jobs reach a ClusterQueue"
        notes.append(f"{what}: {', '.join(missing)}")
    if any(local_queues.get(team) for team in given):
        notes.append(f"jobs reach a LocalQueue by the label {LOCAL_QUEUE} with its name")
    return yaml_list(items, [*comments, *notes]), notes


def to_patches(
    rows: Iterable[Quota],
    queues: Mapping[str, Raw],
    comments: Sequence[str] = (),
    untouched: Collection[str] = (),
    teams: Sequence[str] = (),
) -> str:
    """A line of ``kubectl patch`` for each ClusterQueue of the input whose limits or annotation change.

    Each tests first that these and the nominal quotas are still as in the input, and else changes nothing. To test for
    null is to test that nothing is there, for the library with which Kubernetes reads patches.
    """
    version = _version(queues, None)
    items, notes = _changes(rows, queues, version, untouched, teams)
    lines = [f"# {line}" for line in (*comments, *notes, _PATCHES)]
    for item in items:
        name = item["metadata"]["name"]
        if steps := [*_patch(queues[name], item)]:
            command = ["kubectl", "patch", f"clusterqueues.{version}.{_GROUP}", name, "--type=json", "-p"]
            lines.append(" ".join(map(shlex.quote, [*command, json.dumps(steps)])))
    return "\n".join([*lines, ""])


def _patch(before: Raw, after: Raw) -> Iterator[dict[str, Any]]:
    """The steps of a patch (RFC 6902) from one ClusterQueue to another with other limits and annotations."""
    olds, tests, edits = [*_entries(before)], list[dict[str, Any]](), list[dict[str, Any]]()
    for (path, flavor, old), (_, _, new) in zip(olds, _entries(after), strict=True):
        limits = [None if one.get("borrowingLimit") is None else str(one["borrowingLimit"]) for one in (old, new)]
        place = path.rpartition("/resources/")[0]
        tests.append({"op": "test", "path": f"{place}/name", "value": flavor})
        tests += [{"op": "test", "path": f"{path}/{key}", "value": old[key]} for key in ("name", "nominalQuota")]
        tests.append({"op": "test", "path": f"{path}/borrowingLimit", "value": limits[0]})
        if limits[0] != limits[1]:
            limit = {} if limits[1] is None else {"value": limits[1]}
            edits.append({"op": "add" if limit else "remove", "path": f"{path}/borrowingLimit", **limit})
    annotations = before["metadata"].get("annotations")
    told = [(one["metadata"].get("annotations") or {}).get(LENT) for one in (before, after)]
    if told[0] != told[1]:
        path = f"/metadata/annotations/{LENT.replace('/', '~1')}"
        if annotations is not None:
            tests.append({"op": "test", "path": path, "value": told[0]})
        else:
            tests.append({"op": "test", "path": "/metadata/annotations", "value": None})
            edits.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        edits.append(
            {"op": "remove", "path": path} if told[1] is None else {"op": "add", "path": path, "value": told[1]}
        )
    if edits:
        yield from tests
        yield from edits


def _entries(queue: Raw) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The path, the flavor and the entry of each quota of a ClusterQueue."""
    for g, group in enumerate(queue.get("spec", {}).get("resourceGroups") or ()):
        for f, flavor in enumerate(group.get("flavors") or ()):
            for r, entry in enumerate(flavor.get("resources") or ()):
                yield f"/spec/resourceGroups/{g}/flavors/{f}/resources/{r}", flavor["name"], entry


def _changes(
    rows: Iterable[Quota], queues: Mapping[str, Raw], version: str, untouched: Collection[str], teams: Sequence[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The ClusterQueues of the input with other limits, and notes."""
    notes, given = list[str](), {team: list[Quota]() for team in teams if team in queues} | dict(by_team(rows))
    head = {"apiVersion": f"{_GROUP}/{version}", "kind": "ClusterQueue"}
    items = [_changed(team, head | dict(queues[team]), quotas, notes, untouched) for team, quotas in given.items()]
    present = {(team, *key): limit for team in given for key, limit in _limits(queues[team]).items()}
    made = {(item["metadata"]["name"], *key): limit for item in items for key, limit in _limits(item).items()}
    changes = [
        f"{team} {name} of {flavor} from {present[key] or 'none'} to {limit or 'none'}"
        for key, limit in made.items()
        if present[key] != limit
        for team, flavor, name in [key]
    ]
    if changes:
        more = f", and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        notes.append(f"{LIMITS_CHANGE}: {', '.join(changes[:_SHOWN])}{more}")
    return items, notes


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


def _limits(queue: Raw) -> dict[tuple[str, str], str | None]:
    """The limit on borrowing of each quota of a ClusterQueue, as text, by flavor and resource."""
    borrowing = {(flavor, entry["name"]): entry.get("borrowingLimit") for flavor, entry in cells_of(queue)}
    return {cell: None if limit is None else str(limit) for cell, limit in borrowing.items()}


def _changed(
    team: str, queue: Raw, quotas: Sequence[Quota], notes: list[str], untouched: Collection[str]
) -> dict[str, Any]:
    """A ClusterQueue with other borrowing limits, without what the server of Kubernetes writes."""
    made = as_applied(queue)
    metadata = made["metadata"]
    before, lent = lent_of(metadata), Lent()
    own = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LENT}
    new = {(resource_name(row.resource), row.flavor): row for row in quotas}
    has_cohort = bool(made.get("spec", {}).get("cohortName") or made.get("spec", {}).get("cohort"))
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
        if has_cohort:
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
    annotations = own | ({LENT: json.dumps(lent, sort_keys=True)} if lent else {})
    made["metadata"] = metadata | ({"annotations": annotations} if annotations else {})
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


def _made(
    team: str,
    quotas: Sequence[Quota],
    flavors: Sequence[str],
    resources: Sequence[str],
    version: str,
    above: str | None,
) -> dict[str, Any]:
    """A ClusterQueue with one group, which has all resources of all flavors."""
    amounts = {(resource_name(row.resource), row.flavor): quantity_of(row) for row in quotas}
    listed = [
        {
            "name": flavor_name(flavor),
            "resources": [{"name": name, "nominalQuota": amounts.get((name, flavor), "0")} for name in resources],
        }
        for flavor in flavors
    ]
    cohort = {"cohortName" if version == VERSIONS[0] else "cohort": above} if above else {}
    spec = {
        "namespaceSelector": {},
        **cohort,
        "resourceGroups": [{"coveredResources": list(resources), "flavors": listed}],
    }
    metadata = {"name": object_name(team, "ClusterQueue", _FIX, dots=True)}
    return {"apiVersion": f"{_GROUP}/{version}", "kind": "ClusterQueue", "metadata": metadata, "spec": spec}


# -- reading --------------------------------------------------------------------------------------------------


def may_use(queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort], of_owners: bool = False) -> list[Quota]:
    """What each queue may use: its nominal quota and its borrowing limit as it is, or what its cohort has.

    ``of_owners`` takes the limits of the owners instead of those that were written over theirs.
    """
    without_note: dict[str, Any] = {} if of_owners else {"metadata": {}}
    objects = KueueObjects(
        cluster_queues={one.name: one.model_copy(update=without_note) for one in queues},
        cohorts={one.name: one.model_copy(update=without_note) for one in cohorts},
    )
    return [
        quota_of(name, resource, flavor, Fraction(branch.potential((flavor, resource))))
        for name, branch in Cohorts(objects, lambda amount, resource: float(amount)).queues.items()
        for flavor, resource in branch.nominal
    ]


def read_cluster_queue_quotas(items: Iterable[tuple[Raw, str]], name: str) -> list[Quota]:
    """What ClusterQueues may use; given with their places in the file ``name``, and with Cohorts."""
    of_kind: dict[type[ClusterQueue] | type[Cohort], list[Any]] = {ClusterQueue: [], Cohort: []}
    for item, place in items:
        kind = Cohort if item.get("kind") == "Cohort" else ClusterQueue
        of_kind[kind].append(checked(kind, item, name, place))
    return may_use(of_kind[ClusterQueue], of_kind[Cohort])
