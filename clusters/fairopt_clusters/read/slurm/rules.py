"""What a folder of Slurm says of a replay: accounts with past usage, weights of ``slurm.conf``, partitions, limits.

``slurm.conf`` may lie beside ``nodes.json``. ``qos.txt`` is the output of ``sacctmgr -P show qos``. What is stated and
not modelled is in notes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import fairopt as fo
from fairopt.errors import InvalidInstance
from fairopt.io import Notes, read_text, shown
from fairopt_clusters.read.documents import Document
from fairopt_clusters.read.slurm.accounts import accounts_of, amounts_of, associations_in
from fairopt_clusters.read.slurm.fields import Amounts, time_seconds, tres
from fairopt_clusters.read.slurm.objects import read_servers
from fairopt_clusters.read.slurm.tables import rows_of
from fairopt_clusters.read.slurm.texts import settings_of, slurm_document

_WEIGHTS = {  # of `fairopt.online.Priority`
    "fairshare": "priorityweightfairshare",
    "age": "priorityweightage",
    "size": "priorityweightjobsize",
    "partition": "priorityweightpartition",
    "qos": "priorityweightqos",
    "damping": "fairsharedampeningfactor",
}
_NOTHING = {"", "0", "NONE", "NO"}
_NOT_MODELLED = {  # settings, and the values that say nothing
    "PriorityWeightAssoc": _NOTHING,
    "PriorityWeightTRES": _NOTHING,
    "PriorityUsageResetPeriod": _NOTHING,
    "PreemptMode": {*_NOTHING, "OFF"},
}
_FLAGS = {
    "MAX_TRES",
    "FAIR_TREE",
    "NO_FAIR_TREE",
    "ACCRUE_ALWAYS",
    "CALCULATE_RUNNING",
}  # those that count, or need not
_IN_GIB = {"": 1024.0, "K": 1048576.0, "M": 1024.0, "G": 1.0, "T": 1 / 1024, "P": 1 / 1048576}
_JOBS = {"GrpJobs": False, "MaxJobs": True, "MaxJobsPU": True, "MaxJobsPerUser": True}  # limits, and whether by user
_TRES = {"GrpTRES": False, "MaxTRESPU": True, "MaxTRESPerUser": True}
_QOS = "sacctmgr -P show qos"
_OTHER = re.compile(r"(Grp|Max|Min)\w+|max[.].+|UsageFactor|UsageThres|Preempt")


def rules_of_slurm(
    nodes: Document | None,
    _jobs: Document | None,
    associations: Document | None,
    settings: Path | None,
    qos: Path | None,
    _contracts: Path | None = None,
    _gres: Path | None = None,
    *,
    servers: fo.Instance,
    users: str | None = None,
) -> fo.online.SlurmRules | None:
    """The rules for replays on some servers; None without accounts and without ``slurm.conf``."""
    if associations is None and settings is None:
        return None
    notes, resources, limits = Notes(), servers.resources, list[fo.online.RunningLimit]()
    accounts = list[fo.online.Account]()
    if associations is not None:
        document, name = slurm_document(associations, "associations", "expected accounts of Slurm")
        accounts = accounts_of(document, name, users != "account")
        if not any(one.usage for one in accounts):
            notes.say(f"{name} has no past usage: replays by Slurm's rules begin without (sshare has it)")
        for one in associations_in(document, name):
            label = f"{one.account}/{one.user}" if one.user else one.account
            stated = dict(one.rest) | ({"GrpTRES": one.limits} if one.limits.plain or one.limits.total else {})
            if not (one.user and users == "account"):
                limits += _limits("" if label == "root" else label, stated, resources, notes)
    priority, partitions = fo.online.Priority(), dict[str, fo.online.Partition]()
    if settings is not None:
        priority, partitions = _of_settings(settings, resources, notes)
    of_qos = dict[str, float]()
    table = "" if qos is None else read_text(qos, f"expected output of {_QOS}")
    for row, _ in rows_of(table, str(qos), _QOS, ["Name"]) if qos is not None else ():
        name, rank = row.pop("Name", ""), row.pop("Priority", "")
        of_qos[name] = _number(rank or "0", f"{qos}: the priority of {name}")
        limits += _limits(f"qos={name}", row, resources, notes)
    places = dict[str, tuple[str, ...]]()
    if nodes is not None:
        listed, name = slurm_document(nodes, "nodes", "expected nodes of Slurm")
        for server in read_servers(listed["nodes"], name, Notes())[0]:
            for partition in server.partitions or ():
                places[partition] = (*places.get(partition, ()), server.name)
    return fo.online.SlurmRules(accounts, priority, partitions, of_qos, limits, places, notes.sentences())


def _of_settings(
    path: Path, resources: Collection[str], notes: Notes
) -> tuple[fo.online.Priority, dict[str, fo.online.Partition]]:
    """What ``slurm.conf`` says of priorities, and of partitions."""
    name, (given, partitions) = str(path), settings_of(path)
    flags = {flag.strip().upper() for flag in given.get("priorityflags", "").split(",")} - {""}
    left = [key for key, nothing in _NOT_MODELLED.items() if given.get(key.lower(), "").upper() not in nothing]
    left += [f"PriorityFlags={flag}" for flag in sorted(flags - _FLAGS)]
    if left:
        notes.say(f"{name}: {', '.join(left)} {'is' if len(left) == 1 else 'are'} not modelled")
    weights = {key: _number(given[of], f"{name}: {of}") for key, of in _WEIGHTS.items() if of in given}
    how: dict[str, Any] = weights
    if given.get("prioritytype", "").lower() == "priority/basic":
        how = {"fairshare": 0.0}
        notes.say(f"{name}: PriorityType=priority/basic: jobs are in order of arrival")
    elif not {"fairshare", "age", "size", "partition", "qos"} & weights.keys():
        notes.say(f"{name} has no weights of priority: the fair-share factor alone counts")
    else:
        how = {"fairshare": 0.0} | weights
    if "prioritymaxage" in given:
        how["max_age"] = _seconds(given["prioritymaxage"], f"{name}: PriorityMaxAge")
    if "prioritydecayhalflife" in given:
        how["half_life"] = _seconds(given["prioritydecayhalflife"], f"{name}: PriorityDecayHalfLife") or None
    how["formula"] = "classic" if "NO_FAIR_TREE" in flags else "fair-tree"
    how |= {"largest": "MAX_TRES" in flags, "favor_small": given.get("priorityfavorsmall", "").upper() in ("YES", "1")}
    out = dict[str, fo.online.Partition]()
    for partition, fields in partitions.items():
        place, billing = f"{name}: partition {partition}", fields.get("tresbillingweights")
        rank = fields.get("priority", "1")
        out[partition] = fo.online.Partition(
            _number(fields.get("priorityjobfactor", rank), place),
            _number(fields.get("prioritytier", rank), place),
            None if billing is None else _billing(billing, place, resources, notes),
        )
    return fo.online.Priority(**how), out


def _billing(text: str, place: str, resources: Collection[str], notes: Notes) -> dict[str, float]:
    """``TRESBillingWeights`` by resource; of memory by GiB."""
    out = dict[str, float]()
    for word in filter(None, map(str.strip, text.split(","))):
        key, _, amount = word.partition("=")
        name = key.strip().lower().removeprefix("gres/")
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([KMGTP]?)", amount.strip().upper())
        if match is None or (match[2] and name != "mem"):
            raise InvalidInstance(f"{place}: TRESBillingWeights has {shown(word)}; give such as CPU=1.0,Mem=0.25G")
        factor, name = (_IN_GIB[match[2]], "memory") if name == "mem" else (1.0, name)
        if name in resources:
            out[name] = float(match[1]) * factor
        else:
            notes.add("{weight} of billing for what the servers do not have {is} left out", f"{place}: {word}")
    return out


def _limits(
    of: str, stated: Mapping[str, Any], resources: Collection[str], notes: Notes
) -> Iterator[fo.online.RunningLimit]:
    """The limits on what runs among the options of an account, a user or a QOS."""
    for key, value in stated.items():
        if key in _JOBS and value not in ("", "-1"):
            yield fo.online.RunningLimit(of, {"jobs": _number(str(value), f"{key} of {of}")}, _JOBS[key])
        elif key in _TRES and value not in ("", "-1"):
            try:
                amounts = amounts_of(value if isinstance(value, Amounts) else tres(value))
            except InvalidInstance as error:
                raise InvalidInstance(f"{key} of {of} is {shown(value)}; {error}") from None
            known = {name: amount for name, amount in amounts.items() if name in resources}
            notes.add(
                "{limit} on what the servers do not have {is} left out",
                *(f"{of}: {name}" for name in amounts.keys() - known.keys()),
            )
            if known:
                yield fo.online.RunningLimit(of, known, _TRES[key])
        elif _OTHER.fullmatch(key) and value not in ("", "-1", "cluster", "1.000000"):
            notes.add("{limit} that {is} not modelled in replays", f"{of}: {key}={value}")


def _number(text: str, place: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text.strip()) is None:
        raise InvalidInstance(f"{place} is {shown(text)}; give a number >= 0")
    return float(text)


def _seconds(text: str, place: str) -> float:
    try:
        return time_seconds(text)
    except InvalidInstance as error:
        raise InvalidInstance(f"{place} is {shown(text)}; {error}") from None
