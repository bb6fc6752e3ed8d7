"""Cases of how deployed schedulers divide queues: one function from input to answer for each kind, in `KINDS`.

``python benchmarks/schedulers.py CASES`` runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import KAI, Kueue, Volcano, YuniKorn
from fairopt_clusters.schedulers.cohorts import DominantShare, nodes_of
from fairopt_clusters.schedulers.kai import Row, divide_one, divide_over
from fairopt_clusters.schedulers.preemption import Ordering, turns
from fairopt_clusters.schedulers.yunikorn import fair_share

Case = dict[str, Any]


def kai_division(case: Case) -> Case:
    """One step of KAI's division of one resource, in its own units."""
    rows = [
        Row(
            name, _unlimited(one["deserved"]), one["over_quota_weight"], min(one["request"], _unlimited(one["limit"])),
            one["priority"], one["usage"], one["created"], one["fair_share_before"],
        )
        for name, one in case["queues"].items()
    ]  # fmt: skip
    for row in rows:
        row.deserved = case["total"] if math.isinf(row.deserved) else row.deserved
    divide = divide_over if case["function"] == "divideOverQuotaResource" else divide_one
    left = divide(rows, case["total"], case["k"])
    return {"fair_share": {row.name: row.given for row in rows}, "remaining": left}


def _unlimited(value: Any) -> float:
    return math.inf if value is None or value == -1 else float(value)


def kai_all(case: Case) -> Case:
    """All resources of queues of one level."""
    queues = [_kai_queue(name, of) for name, of in case["queues"].items()]
    table = KAI(case["k"], {}).divide(QueueTree("KAI", tuple(queues), case["totals"]))
    return {"fair_share": table.to_dict("index")}


def kai_hierarchy(case: Case) -> Case:
    """One resource of queues in levels."""
    resource = case["resource"]
    queues = [_kai_queue(name, {resource: one}, one["parent"] or "") for name, one in case["queues"].items()]
    table = KAI(case["k"], {}).divide(QueueTree("KAI", tuple(queues), {resource: case["total"]}))
    return {"fair_share": table[resource].to_dict()}


def _kai_queue(name: str, of: Mapping[str, Case], parent: str = "") -> Queue:
    """A queue from its rows by resource."""
    first = next(iter(of.values()))
    return Queue(
        name,
        parent,
        guarantee={one: _unlimited(row["deserved"]) for one, row in of.items()},
        limit={one: _unlimited(row["limit"]) for one, row in of.items()},
        weights={one: row["over_quota_weight"] for one, row in of.items()},
        request={one: row["request"] for one, row in of.items()},
        past={one: row["usage"] for one, row in of.items()},
        priority=first["priority"],
        created=first["created"],
    )


def _flavored(quota: Case, key: str) -> dict[str, float]:
    """A number of each resource of each flavor, where it is given."""
    rows = ((f"{flavor}:{name}", of.get(key)) for flavor, one in (quota or {}).items() for name, of in one.items())
    return {name: float(value) for name, value in rows if value is not None}


def _uses(amounts: Case | None) -> dict[str, float]:
    return {f"{flavor}:{name}": float(value) for flavor, one in (amounts or {}).items() for name, value in one.items()}


def _kueue_node(name: str, one: Case, parent: Any, used: Case | None = None) -> Queue:
    quota = one.get("quota") or {}
    weight = 1.0 if one.get("weight") is None else float(one["weight"])
    return Queue(
        name, parent or "", weight, _flavored(quota, "nominal"), used=_uses(used),
        lending=_flavored(quota, "lending_limit"), borrowing=_flavored(quota, "borrowing_limit"),
    )  # fmt: skip


def kueue_drs(case: Case) -> Case:
    """The share of each ClusterQueue and cohort."""
    cohorts, usage = case["cohorts"] or {}, case["usage"] or {}
    queues = [_kueue_node(name, one, one.get("parent")) for name, one in cohorts.items()]
    queues += [
        _kueue_node(name, one, one.get("cohort"), usage.get(name)) for name, one in case["cluster_queues"].items()
    ]
    missing = dict.fromkeys(one.parent for one in queues if one.parent and one.parent not in {q.name for q in queues})
    extra = (case.get("assumed_extra") or {}).get("all nodes")
    table = Kueue().shares(QueueTree("Kueue", (*map(Queue, missing), *queues)), _uses(extra))
    rows = table[["share", "resource"]].itertuples()
    return {
        name: {"value": "math.MaxInt" if math.isinf(value) else int(value), "resource": one}
        for name, value, one in rows
    }


def kueue_weighted_share(case: Case) -> Case:
    """The share by weight, as text."""
    share = DominantShare(float(case["unweighted_ratio"]), float(case["weight"])).weighted
    return {"share": share if math.isinf(share) else np.format_float_positional(share, trim="-")}


def kueue_borrowing(case: Case) -> Case:
    """Whether a queue borrows, and whether it borrows what is requested."""
    mine = Queue("mine", "all", guarantee=case["quota"], used=case["usage"])
    tree = QueueTree("Kueue", (Queue("all"), mine, Queue("lender", "all", guarantee=case["lender"])))
    share = nodes_of(tree)["mine"].share()
    return {"borrowing_on_requested": share.borrows_any(case["requested"]), "borrowing": bool(share.borrowed)}


def kueue_preemption_order(case: Case) -> Case:
    """In what order queues are asked for workloads; a candidate queue means all its workloads."""
    quotas = case["cpu_nominal_by_queue"].items()
    queues = [Queue(name, cohort or "", guarantee={"cpu": nominal}) for name, (nominal, cohort) in quotas]
    cohorts = [Queue(name, parent or "") for name, parent in (case["cohorts"] or {}).items()]
    missing = dict.fromkeys(one.parent for one in queues if one.parent and one.parent not in {q.name for q in cohorts})
    tree = QueueTree("Kueue", (*map(Queue, missing), *cohorts, *queues))
    running = [(name, {"cpu": amount}) for name, amount in case["admitted"]]
    chosen = [j for j, (name, _) in enumerate(running) if name in case["candidates"]]
    drops = [turn for turn, action in enumerate(case["actions"] or ()) if action == "drop"]
    preemptor = "preemptor" if "preemptor" in tree.by_name else next(iter(case["cpu_nominal_by_queue"]))
    return {"order": _asked(tree, preemptor, running, chosen, drops)}


def _asked(tree: QueueTree, preemptor: str, running: Any, chosen: list[int], drops: list[int]) -> list[str]:
    """The queues that are asked for workloads, each of which gives one and keeps its use; at ``drops`` one leaves."""
    nodes, runs = Kueue()._running(tree, preemptor, running)
    order, left, asked = turns(runs, preemptor), dict[str, list[int]](), list[str]()
    for j in order:
        if j in chosen:
            left.setdefault(runs[j].queue, []).append(j)
    ordering = Ordering(nodes, nodes[preemptor], left, order)
    for node in ordering:
        if len(asked) in drops:
            ordering.pruned.add(node)
        else:
            ordering.pop(node)
        asked.append(node.name)
    return asked


def kueue_kep(case: Case) -> Case:
    """What queues with endless backlog get where one queue lends all that it has."""
    tree, weights = case["tree"], case["weights"]
    nominal = float(next(word for word in tree["CS"][0].replace(",", "").split() if word.isdigit()))
    queues = [Queue("all"), Queue("CS", "all", guarantee={"gpu": nominal}, request={})]
    for cohort, below in tree.items():
        if cohort != "CS":
            queues.append(Queue(cohort, "all", weights.get(cohort, 1)))
            queues += [Queue(name, cohort, weights.get(name, 1), {"gpu": 0.0}) for name in below]
    return {"gpus": Kueue().divide(QueueTree("Kueue", tuple(queues)))["gpu"].to_dict()}


def yunikorn_fair_share(case: Case) -> Case:
    """The fair share of one queue."""
    return {"share": fair_share(case["allocated"] or {}, case["guaranteed"] or {}, case["fair_max"] or {})}


def yunikorn_compare(case: Case) -> Case:
    """Which of two queues has the larger fair share."""
    left, right = (yunikorn_fair_share(case[side])["share"] for side in ("left", "right"))
    return {"sign": (left > right) - (left < right)}


def yunikorn_dominant(case: Case) -> Case:
    """The resource with the largest part of its capacity in use, the last of equals; any use of 0 is full use."""
    capacity = case["capacity"] or {}
    parts = [
        (amount / capacity[name] if capacity[name] else float(amount != 0), place, name)
        for place, (name, amount) in enumerate((case["used"] or {}).items())
        if name in capacity
    ]
    return {"dominant": max(parts)[2] if parts else ""}


def yunikorn_shares(case: Case) -> Case:
    """Use over the total by resource, in increasing order; of what the total lacks the use itself."""
    used, total = case["used"] or {}, case["total"] or {}
    return {"sorted_shares": sorted(use / total[name] if total.get(name) else float(use) for name, use in used.items())}


def yunikorn_order(case: Case) -> Case:
    """The order of queues by fair share, with and without priority first."""

    def amounts(value: Any) -> dict[str, float]:
        memory, vcore = value if isinstance(value, list) else (value, value)
        return {"memory": memory, "vcore": vcore}

    queues = [
        Queue(
            name, guarantee=amounts(case["guaranteed"][name]), used=amounts(case["allocated"][name]),
            priority=case["priority"][name],
        )
        for name in case["order_before"]
    ]  # fmt: skip
    tree = QueueTree("YuniKorn", tuple(queues), {"memory": 1.0, "vcore": 1.0})
    return {"fair": YuniKorn(by_priority=False).order(tree), "fair_with_priority": YuniKorn().order(tree)}


def hdrf(case: Case) -> Case:
    """Whole tasks of jobs in a hierarchy, started one by one."""
    queues, counts = dict[str, Queue](), {n for _, _, _, n in case["tree"].values()}
    for job, (path, weights, demand, count) in case["tree"].items():
        names = path.split("/")
        weights = weights if isinstance(weights, list) else [weights]
        for j, weight in enumerate(weights):
            name, above = "/".join(names[: j + 1]), "/".join(names[:j])
            queues[name] = Queue(name, above, float(weight))
        queues[f"job {job}"] = Queue(f"job {job}", path, request={one: value * count for one, value in demand.items()})
    table = Volcano("hdrf", counts.pop()).divide(QueueTree("Volcano", tuple(queues.values()), case["capacity"]))
    tasks = {}
    for job, (_, _, demand, _) in case["tree"].items():
        resource = max(demand, key=demand.__getitem__)
        tasks[job] = table.loc[f"job {job}", resource] / demand[resource]
    return {"tasks": tasks}


KINDS: dict[str, Callable[[Case], Case]] = {
    "kai-division": kai_division,
    "kai-division-all": kai_all,
    "kai-hierarchy": kai_hierarchy,
    "kai-division-hierarchy": kai_hierarchy,
    "kueue-drs": kueue_drs,
    "kueue-weighted-share": kueue_weighted_share,
    "kueue-borrowing": kueue_borrowing,
    "kueue-preemption-order": kueue_preemption_order,
    "kueue-kep-example": kueue_kep,
    "yunikorn-fair-share": yunikorn_fair_share,
    "yunikorn-compare": yunikorn_compare,
    "yunikorn-dominant": yunikorn_dominant,
    "yunikorn-shares": yunikorn_shares,
    "yunikorn-queue-order": yunikorn_order,
    "hdrf": hdrf,
}
