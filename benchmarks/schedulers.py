"""Recompute cases that deployed schedulers' own tests, proposals and manuals state.

A file of cases is a list of objects with ``source``, ``kind``, ``input`` and ``expected``. Each kind has one function
from the input to what is expected, with ``slack`` where the input is rounded; kinds without one are listed with
``agrees`` null. Run:

    python benchmarks/schedulers.py CASES --json OUT
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heapreplace
from pathlib import Path
from typing import Any

from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import Slurm
from fairopt_clusters.schedulers.slurm import BILLED
from schedulers_queues import KINDS as OF_QUEUES

from fairopt.online import memory

DIGITS = 5e-7  # of numbers that are printed to 6 digits
Case = dict[str, Any]


def slurm_classic(case: Case) -> Case:
    """What sshare prints of one user or account."""
    tree = case["tree"]
    accounts = [
        Queue(name, one["parent"] if one["parent"] in tree else "", one["shares"], used={BILLED: one["usage"] or 0.0})
        for name, one in tree.items()
    ]
    table = Slurm().factors(QueueTree("Slurm", tuple(accounts), {BILLED: 1.0}))
    return table.loc[case["node"]].to_dict()


def slurm_level_fs(case: Case) -> Case:
    """What sshare -l prints of one user of an account; raw usage is printed without its fraction."""
    raw, user, shares = case["raw_usage"], case["user"], 1 / case["siblings"]
    own, others = raw.get(user, 0), sum(raw.values()) - raw.get(user, 0)
    usage = own / (own + others) if own else 0.0
    most = (own + 1) / (own + 1 + others) if own else 0.0
    least = own / (own + others + len(raw) - 1) if own else 0.0
    levels = [shares / part if part else math.inf for part in (least, usage, most)]
    slack = {"effective_usage": max(most - usage, usage - least)}
    if own:
        slack["level_fs"] = max(levels[0] - levels[1], levels[1] - levels[2])
    return {"norm_shares": shares, "effective_usage": usage, "level_fs": levels[1], "slack": slack}


def afs_usage(case: Case) -> Case:
    """Kueue's usage of a LocalQueue; resources without a weight have 1, and queues without a weight are last."""
    consumed, penalty, weights = case["consumed"], case.get("penalty") or {}, case.get("resource_weights") or {}
    if case["queue_weight"] <= 0:
        return {"usage": math.inf}
    names = sorted({*consumed, *penalty})
    used = sum(weights.get(r, 1.0) * (consumed.get(r, 0.0) + penalty.get(r, 0.0)) for r in names)
    return {"usage": used / case["queue_weight"]}


def afs_decay(case: Case) -> Case:
    """Consumed resources after samples of constant usage; a half-life of 0 keeps what was consumed."""
    names, consumed = sorted({*case["start"], *case["usage"]}), {}
    for name in names:
        value = float(case["start"].get(name, 0.0))
        for _ in range(case["samples"] if case["half_life_s"] else 0):
            value = memory.decayed(value, case["usage"].get(name, 0.0), case["sample_s"], case["half_life_s"])
        consumed[name] = value
    return {"consumed": consumed}


def karma(
    demands: Mapping[str, int], credits: Mapping[str, int], slices: int, alpha: float
) -> tuple[dict[str, int], dict[str, int]]:
    """Slices and credits of users after one quantum of Karma, of which the fraction ``alpha`` is public.

    Each user is guaranteed an equal part of the rest, and is given an equal part of the public slices as credits. A
    slice above the guarantee costs a credit, and goes to the user with most credits. Who demands less than its
    guarantee earns a credit for each slice that others borrow, the poorest first. Equals are ordered by what they still
    want (or offer), then as given.
    """
    public, users = int(alpha * slices), list(demands)
    if not users:
        return {}, {}
    guaranteed = (slices - public) // len(users)
    left = {user: credits[user] + public // len(users) for user in users}
    slices_of = {user: min(demands[user], guaranteed) for user in users}
    wants = {user: min(demands[user] - guaranteed, left[user]) for user in users if demands[user] > guaranteed}
    offers = {user: guaranteed - demands[user] for user in users if demands[user] < guaranteed}
    lent = min(sum(wants.values()), public + sum(offers.values()))
    for user, many in _in_turn(wants, {user: -left[user] for user in wants}, lent).items():
        slices_of[user] += many
        left[user] -= many
    for user, many in _in_turn(offers, {user: left[user] for user in offers}, lent).items():
        left[user] += many
    return slices_of, left


def _in_turn(most: Mapping[str, int], level: Mapping[str, int], units: int) -> dict[str, int]:
    """Units one by one to the user at the lowest level, which rises by one, up to the most of each."""
    number = {user: k for k, user in enumerate(most)}
    heap = [(level[user], most[user], number[user], user) for user in most if most[user]]
    heapify(heap)
    taken = dict.fromkeys(most, 0)
    while heap and units:
        at, room, k, user = heap[0]
        taken[user] += 1
        units -= 1
        if room > 1:
            heapreplace(heap, (at + 1, room - 1, k, user))
        else:
            heappop(heap)
    return taken


def karma_credits(case: Case) -> Case:
    """Slices, and credits, after the last of some quanta; all users start with the credits of the authors' code."""
    users = case["demands_so_far"][0]
    credits, slices = dict.fromkeys(users, case.get("credits", 999_999_999_999)), dict.fromkeys(users, 0)
    for demands in case["demands_so_far"]:
        slices, credits = karma(demands, credits, case["slices"], case["alpha"])
    return {"allocation": slices, "credits": credits}


def vtc_tokens(case: Case) -> Case:
    """AIBrix's estimate of a request from its characters, weighted."""
    read = math.ceil(case["message_chars"] / case["chars_per_token"])
    written = math.ceil(read * case["output_ratio"])
    return {"tokens": case["input_weight"] * read + case["output_weight"] * written}


def condor_decay(case: Case) -> Case:
    """HTCondor's real user priority after a time."""
    numbers = (case["priority"], case["cores_in_use"], case["elapsed_s"], case["half_life_s"])
    return {"real_user_priority": max(memory.LEAST_PRIORITY, memory.decayed(*numbers))}


KINDS: dict[str, Callable[[Case], Case]] = {
    "slurm-classic-fairshare": slurm_classic,
    "slurm-level-fs": slurm_level_fs,
    "kueue-afs-usage": afs_usage,
    "kueue-afs-decay": afs_decay,
    "karma-credits": karma_credits,
    "vtc-tokens": vtc_tokens,
    "htcondor-priority-decay": condor_decay,
    **OF_QUEUES,
}


def agrees(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether all that is expected was found; None is not stated."""
    if expected is None:
        return True
    if isinstance(expected, dict):
        return all(key in got and agrees(got[key], value, tolerance) for key, value in expected.items())
    if isinstance(expected, list):
        return len(got) == len(expected) and all(agrees(a, b, tolerance) for a, b in zip(got, expected, strict=True))
    if isinstance(expected, str) and expected.lower() in ("inf", "+inf", "-inf"):
        expected = float(expected)
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        return bool(got == expected or abs(got - expected) <= max(tolerance, 1e-12 * abs(expected)))
    return bool(got == expected)


def shown(value: Any) -> Any:
    """A result for JSON, which has no infinity."""
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    return f"{value:+}".replace("inf", "Inf") if isinstance(value, float) and math.isinf(value) else value


def recomputed(case: Case) -> Case:
    """One case beside what the rule gives."""
    found: Case = {"source": case["source"], "kind": case["kind"], "agrees": None, "got": None}
    expected = case["expected"]
    if (rule := KINDS.get(case["kind"])) is not None:
        wanted = {key: value for key, value in expected.items() if key != "tolerance"}
        try:
            got = rule(case["input"])
        except (KeyError, TypeError, ValueError) as error:  # one case stops no others
            return found | {"agrees": False, "got": f"{type(error).__name__}: {error}", "expected": expected}
        slack, tolerance = got.pop("slack", {}), expected.get("tolerance", DIGITS)
        found["agrees"] = all(
            key in got and agrees(got[key], value, tolerance + slack.get(key, 0.0)) for key, value in wanted.items()
        )
        found["got"] = shown({key: got.get(key) for key in wanted})
    return found | {"expected": expected}


def main() -> None:
    """A line for each kind, and the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--json", type=Path, metavar="OUT")
    options = parser.parse_args()
    results = [recomputed(case) for case in json.loads(options.cases.read_text())]
    counts = Counter((one["kind"], one["agrees"]) for one in results)
    for kind in dict.fromkeys(one["kind"] for one in results):
        many = counts[kind, True] + counts[kind, False]
        print(f"{kind}: " + (f"{counts[kind, True]} of {many} agree" if many else f"{counts[kind, None]} not built"))
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
