"""Sets of pods that must lie in one domain of a topology, such as a rack, and whether one has room for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairopt_clusters.read.kubernetes.kueue import ResourceFlavor, Workload
from fairopt_clusters.read.kubernetes.objects import Node


def fits_nowhere(workload: Workload, nodes: Sequence[Node], flavors: Mapping[str, ResourceFlavor]) -> str:
    """Why a set of pods fits in no domain that its Workload requires, if nothing else ran; empty if one does.

    A domain is the servers with one value of a label. Without servers nothing is known.
    """
    for part in workload.pod_sets if nodes else ():
        level, spec = part.topologyRequest.required, part.template.spec
        if level is None or not part.least:
            continue
        domains = dict[str, int]()
        for node in nodes:
            value = node.labels.get(level)
            known = [of for of in flavors.values() if of.node_labels.items() <= node.labels.items()]
            more = [one for of in known for one in of.tolerations]
            if value is None or node.closed or not spec.allows(node.name, node.labels, node.taints, more):
                continue
            room = min((int(node.has.get(of, 0) // amount) for of, amount in spec.request.items()), default=part.least)
            domains[value] = domains.get(value, 0) + room
        most, short = max(domains.values(), default=0), level.rpartition("/")[2]
        if not domains:
            return f"{part.least:,} pods must lie in one {short}, and no server for them has the label {level}"
        if most < part.least:
            return f"{part.least:,} pods must lie in one {short}, and at most {most:,} fit in any"
    return ""
