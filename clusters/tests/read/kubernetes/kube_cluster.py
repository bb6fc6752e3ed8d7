"""A Kubernetes cluster of our own making: 44 nodes, more than 500 pods of eight namespaces and five teams.

``python clusters/tests/read/kubernetes/kube_cluster.py FOLDER`` writes it as ``nodes.json`` and ``pods.json``, as
``kubectl get nodes -o json`` and ``kubectl get pods -A -o json`` would, where to try the reader by hand.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
GPU_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
TOLERATES_ALL = {"operator": "Exists"}
USUAL_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for what in ("not-ready", "unreachable")
]
MODELS = {  # type: number, cpu, memory, ephemeral storage, labels, extended resources, taints
    "control.4": (
        3,
        "3920m",
        "15Gi",
        "90Gi",
        {"node-role.kubernetes.io/control-plane": ""},
        {},
        [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
    ),
    "general.16": (21, "15890m", "62914560Ki", "180Gi", {"pool": "general", "generation": "5"}, {}, []),
    "memory.32": (10, "31850m", "253Gi", "370Gi", {"pool": "memory", "generation": "6"}, {}, []),
    "gpu-large.96": (
        6,
        "95690m",
        "755Gi",
        "3400Gi",
        {"pool": "gpu", "accelerator": "large", "generation": "7"},
        {GPU: "8", "hugepages-2Mi": "0"},
        [GPU_TAINT],
    ),
    "gpu-small.48": (
        4,
        "47810m",
        "184Gi",
        "900Gi",
        {"pool": "gpu", "accelerator": "small", "generation": "4"},
        {GPU: "4"},
        [GPU_TAINT, {"key": "slow", "effect": "PreferNoSchedule"}],
    ),
}


def node(name: str, model: str, zone: str) -> Object:
    """One node of a model."""
    _, cpu, memory, storage, labels, extended, taints = MODELS[model]
    own = {
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": model,
        "topology.kubernetes.io/zone": zone,
    }
    has = {"cpu": cpu, "memory": memory, "ephemeral-storage": storage, "pods": "110", **extended}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **labels}},
        "spec": {"taints": taints} if taints else {},
        "status": {"allocatable": has, "capacity": {**has, "cpu": cpu.replace("m", "1m")}},
    }


def container(requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    """One container."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": "main", "image": "example.org/main:1", "resources": resources, **more}


def pod(
    namespace: str, name: str, spec: Object, team: str | None = None, phase: str = "Running", **more: Any
) -> Object:
    """One pod."""
    labels = {"app": name.rsplit("-", 1)[0], **({"team": team} if team else {})}
    spec = {**spec, "tolerations": [*spec.get("tolerations", []), *USUAL_TOLERATIONS]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels, **more},
        "spec": spec,
        "status": {"phase": phase},
    }


def required(*terms: Object) -> Object:
    """Required node affinity."""
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": rule}


def daemon(namespace: str, name: str, where: str, requests: Object, bound: bool = True) -> Object:
    """A pod of a DaemonSet, bound to its node or still waiting."""
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    spec = {"containers": [container(requests)], "tolerations": [TOLERATES_ALL], "affinity": required(field)}
    owners = [{"kind": "DaemonSet", "name": name, "controller": True}]
    return pod(
        namespace,
        f"{name}-{where}",
        {**spec, **({"nodeName": where} if bound else {})},
        ownerReferences=owners,
        phase="Running" if bound else "Pending",
    )


def cluster(seed: int = 1) -> tuple[Object, Object]:
    """Lists of nodes and of pods.

    Parameters
    ----------
    seed : int
        Shuffles both lists and draws the sizes.

    Returns
    -------
    tuple of two dict
        40 nodes on which the pods may run, 3 of the control plane and 1 that is cordoned.
    """
    draw = random.Random(seed)
    nodes = [
        node(f"{model.split('.')[0]}-{k:02}", model, f"zone-{'abc'[k % 3]}")
        for model, (number, *_) in MODELS.items()
        for k in range(number)
    ]
    nodes[-11]["spec"] = {**nodes[-11]["spec"], "unschedulable": True}  # a server for memory
    names = [each["metadata"]["name"] for each in nodes]
    pods = [
        *(
            daemon("kube-system", "agent", where, {"cpu": "110m", "memory": "200Mi"}, k % 9 != 0)
            for k, where in enumerate(names)
        ),
        *(
            daemon("kube-system", "driver", where, {"cpu": "0.25", "memory": "1Gi"})
            for where in names
            if "gpu" in where
        ),
        daemon("kube-system", "agent", "gone-01", {"cpu": "110m"}),
        *static(names),
        *finished(draw),
        *ordinary(draw),
    ]
    draw.shuffle(nodes)
    draw.shuffle(pods)
    lists = [{"apiVersion": "v1", "kind": "List", "items": items, "metadata": {}} for items in (nodes, pods)]
    return lists[0], lists[1]


def static(names: list[str]) -> list[Object]:
    """Static pods of the control plane."""
    return [
        pod(
            "kube-system",
            f"{what}-{name}",
            {"containers": [container({"cpu": cpu})], "nodeName": name, "tolerations": [TOLERATES_ALL]},
            annotations={"kubernetes.io/config.mirror": "f00d"},
            ownerReferences=[{"kind": "Node", "name": name}],
        )
        for name in names
        if name.startswith("control")
        for what, cpu in (("apiserver", "250m"), ("scheduler", "100m"))
    ]


def finished(draw: random.Random) -> list[Object]:
    """Pods that ran already: nothing of them counts."""
    return [
        pod(
            "ci",
            f"build-{k}",
            {"containers": [container({"cpu": "64"})]},
            "platform",
            draw.choice(["Succeeded", "Failed"]),
        )
        for k in range(1000, 1045)
    ]


def ordinary(draw: random.Random) -> list[Object]:
    """The pods that share the cluster: 520."""

    def asks(cpu: str, memory: str, **more: str) -> Object:
        return {"cpu": cpu, "memory": memory, **more}

    def some(
        number: int, namespace: str, name: str, team: str | None, make: Any, phase: str = "Running"
    ) -> list[Object]:
        return [pod(namespace, f"{name}-{k}", make(), team, phase) for k in range(number)]

    proxy = container(asks("100m", "128Mi"), restartPolicy="Always", name="proxy")
    migrate = container(asks("2", "512Mi"), name="migrate")
    not_gpu = {"matchExpressions": [{"key": "accelerator", "operator": "DoesNotExist"}]}
    in_zone = {
        "matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a", "zone-b"]}]
    }
    recent = {
        "matchExpressions": [
            {"key": "generation", "operator": "Gt", "values": ["5"]},
            {"key": "accelerator", "operator": "NotIn", "values": ["small"]},
        ]
    }

    def website() -> Object:
        return {
            "containers": [container(asks(f"{draw.choice([1500, 2000, 3000])}m", "4Gi"))],
            "initContainers": [proxy],
        }

    def service() -> Object:  # its database is migrated first, which takes more than serving does
        return {
            "containers": [container(asks("500m", "6G"))],
            "initContainers": [proxy, migrate],
            "affinity": required(not_gpu),
        }

    def training() -> Object:
        gpus = draw.choice([4, 8])
        return {
            "containers": [container(asks(str(8 * gpus), f"{48 * gpus}Gi"), {GPU: str(gpus)})],
            "tolerations": [GPU_TOLERATION],
            "nodeSelector": {"accelerator": "large"},
        }

    def inference() -> Object:
        return {
            "containers": [container({"cpu": "4", "memory": "16Gi", GPU: 1}, {GPU: 1})],
            "tolerations": [GPU_TOLERATION],
        }

    def query() -> Object:
        return {
            "containers": [container(asks(str(draw.choice([4, 6, 8])), f"{draw.choice([48, 64, 96])}Gi"))],
            "affinity": required(recent, in_zone),
            "tolerations": [GPU_TOLERATION],
        }

    def build() -> Object:
        return {"containers": [container(None, asks("3", "6Gi", **{"ephemeral-storage": "20Gi"}))]}

    def sandbox() -> Object:
        return {"containers": [container(asks("1", "2Gi"))], "overhead": asks("250m", "120Mi")}

    def stream() -> Object:
        return {"containers": [container({"cpu": "10"}), container()], "resources": {"requests": asks("4", "24Gi")}}

    def silent() -> Object:
        return {"containers": [container()]}

    def impossible() -> Object:
        return {"containers": [container(asks("1", "1Gi"))], "nodeSelector": {"accelerator": "quantum"}}

    return [
        *some(120, "web", "website", "frontend", website),
        *some(90, "api", "service", "platform", service),
        *some(30, "ml-training", "training", "research", training, "Pending"),
        *some(50, "ml-serving", "inference", "research", inference),
        *some(60, "analytics", "query", "insight", query),
        *some(70, "ci", "build", "platform", build),
        *some(40, "ci", "sandbox", None, sandbox),
        *some(36, "streams", "stream", "insight", stream),
        *some(10, "web", "toy", "frontend", silent),
        *some(10, "default", "toy", None, silent),
        *some(4, "ml-serving", "dream", "research", impossible, "Pending"),
    ]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file, document in zip(("nodes.json", "pods.json"), cluster(), strict=True):
        (folder / file).write_text(json.dumps(document, indent=4) + "\n", encoding="utf-8")
