"""What the reader of Kubernetes computes, slow and obviously right: for the documents of `kube_cluster`."""

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

Object = dict[str, Any]
Amounts = dict[str, Fraction]

POWERS = {
    "n": "1e-9",
    "u": "1e-6",
    "m": "0.001",
    "k": "1e3",
    "M": "1e6",
    "G": "1e9",
    "T": "1e12",
    "Ki": "1024",
    "Mi": "1048576",
    "Gi": "1073741824",
    "Ti": "1099511627776",
}


def quantity(text: Any) -> Fraction:
    """A quantity in decimals: a suffix of two letters is looked for before one of one letter."""
    word = str(text)
    for length in (2, 1):
        if word[-length:] in POWERS:
            return Fraction(Decimal(word[:-length])) * Fraction(Decimal(POWERS[word[-length:]]))
    return Fraction(Decimal(word))


def asked(container: Object, resource: str) -> Fraction:
    """What one container asks for."""
    resources = container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    return quantity(requests.get(resource, limits.get(resource, 0)))


def request(spec: Object, resource: str) -> Fraction:
    """The most that runs at any time of a pod's life, step by step."""
    overhead = quantity(spec.get("overhead", {}).get(resource, 0))
    whole = spec.get("resources", {}).get("requests", {})
    if resource in whole:
        return quantity(whole[resource]) + overhead
    moments = []
    beside: list[Object] = []
    for container in spec.get("initContainers", []):
        moments.append([*beside, container])
        if container.get("restartPolicy") == "Always":
            beside.append(container)
    moments.append([*beside, *spec["containers"]])
    return max(sum((asked(c, resource) for c in now), Fraction(0)) for now in moments) + overhead


def may_run(spec: Object, node: Object) -> bool:
    """Whether no rule keeps a pod from a node."""
    labels = node["metadata"].get("labels", {})
    for taint in node["spec"].get("taints", []):
        if taint["effect"] == "PreferNoSchedule":
            continue
        for t in spec.get("tolerations", []):
            same_key = t.get("key") in (None, taint["key"])
            same_effect = t.get("effect") in (None, taint["effect"])
            if same_key and same_effect and (t.get("operator") == "Exists" or t.get("value") == taint.get("value")):
                break
        else:
            return False
    if not spec.get("nodeSelector", {}).items() <= labels.items():
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if affinity is None:
        return True
    return any(all(holds(e, labels) for e in term["matchExpressions"]) for term in affinity["nodeSelectorTerms"])


def holds(expression: Object, labels: dict[str, str]) -> bool:
    """Whether an expression is true of labels."""
    value, values = labels.get(expression["key"]), expression.get("values", [])
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": value is not None and value.isdigit() and int(value) > int((values or ["0"])[0]),
        "Lt": value is not None and value.isdigit() and int(value) < int((values or ["0"])[0]),
    }[expression["operator"]]


def is_part_of_server(pod: Object) -> bool:
    """Whether a pod belongs to a DaemonSet or is static."""
    return any(owner["kind"] in ("DaemonSet", "Node") for owner in pod["metadata"].get("ownerReferences", []))


def answer(nodes: Object, pods: Object, resources: list[str], owner_of: Any, by_shape: bool = False) -> Object:
    """Capacities by server, and of each owner the kinds of pods: mean request, number, servers; all exact.

    Memory-like resources are in bytes; servers where none of the pods may run are left out.
    """
    live = [pod for pod in pods["items"] if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    open_nodes = [node for node in nodes["items"] if not node["spec"].get("unschedulable")]
    capacities = {
        node["metadata"]["name"]: {r: quantity(node["status"]["allocatable"].get(r, 0)) for r in resources}
        for node in open_nodes
    }
    for pod in live:
        if is_part_of_server(pod):
            fields = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
            where = pod["spec"].get("nodeName")
            if where is None:
                term = fields["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
                where = term["matchFields"][0]["values"][0]
            for r in resources:
                if where in capacities:
                    capacities[where][r] = max(capacities[where][r] - request(pod["spec"], r), Fraction(0))
    kinds: dict[str, dict[Any, list[Amounts]]] = defaultdict(lambda: defaultdict(list))
    used = set()
    for pod in live:
        takes = {r: request(pod["spec"], r) for r in resources}
        if is_part_of_server(pod) or not any(takes.values()):
            continue
        allowed = [n["metadata"]["name"] for n in open_nodes if may_run(pod["spec"], n)]
        used.update(allowed)
        able = [name for name in allowed if all(capacities[name][r] > 0 for r in resources if takes[r])]
        if able:
            shape = tuple(takes.values()) if by_shape else tuple(r for r in resources if takes[r])
            kinds[owner_of(pod)][shape, tuple(sorted(allowed))].append(takes)
    servers = {name: row for name, row in capacities.items() if name in used}
    users = {
        owner: [
            ({r: sum(t[r] for t in members) / len(members) for r in resources}, len(members), set(allowed))
            for (_, allowed), members in of_owner.items()
        ]
        for owner, of_owner in kinds.items()
    }
    return {"capacities": servers, "users": users}
