"""Texts of Slurm as the documents that its commands print with ``--json``: of ``slurm.conf`` and ``scontrol``.

``slurm.conf`` and ``scontrol show node`` have records such as ``NodeName=n[1-4] CPUs=64``; those of ``scontrol`` go on
in lines that are indented. Accounts are read by `accounts`, and tables and jobs by `listings`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import Notes, about, is_path, json_of_text, read_text, shown
from fairopt.runtime import names_of
from fairopt_clusters.read.documents import YAML, Document, document_of
from fairopt_clusters.read.slurm import accounts, listings
from fairopt_clusters.read.slurm.fields import gres, whole
from fairopt_clusters.read.slurm.partitions import limits_of

_SERVERS = {  # keys of records, in lower case, with those of the output in JSON
    "cputot": "cpus",
    "cpus": "cpus",
    "procs": "cpus",
    "cpuefctv": "effective_cpus",
    "corespeccount": "specialized_cores",
    "memspeclimit": "specialized_memory",
    "realmemory": "real_memory",
    "threadspercore": "threads",
    "gres": "gres",
    "gresdrain": "gres_drained",
    "state": "state",
    "partitions": "partitions",
    "availablefeatures": "features",
    "activefeatures": "active_features",
    "features": "features",
    "feature": "features",
}
_RECORD = re.compile(r"(NodeName|PartitionName|NodeSet|DownNodes)\s*=", re.IGNORECASE)
_FREE = re.compile(r"\b(Reason|Comment|Extra)=.*")  # of scontrol: text to the end of the line
_FILES = re.compile(r"\[[^\]]*\]")
_PAIR = re.compile(r"(\w+)\s*=\s*(\"[^\"]*\"|.*?)(?=\s+\w+\s*=|\s*$)")
_CONFIG = re.compile(
    r"^(Configuration data as of|ClusterName\s*=|SlurmctldHost\s*[=(\[])", re.MULTILINE | re.IGNORECASE
)
_ACCESS = ("allowaccounts", "denyaccounts", "allowqos", "denyqos")
_OPEN_TO_ALL = {"", "all", "none", "(null)"}
_Record = dict[str, str]


def slurm_document(source: Document, argument: str, expected: str) -> tuple[dict[str, Any], str]:
    """The data of a file, which may be a text of Slurm, or of a mapping, and their name for messages."""
    if not is_path(source):
        return document_of(source, argument, expected)
    if os.fspath(source).lower().endswith((".json", *YAML)):
        data, name = document_of(source, argument, expected)
        return accounts.of_shares_in_json(data) or data, name
    name, text = os.fspath(source), read_text(source, expected)
    document = document_of_text(text, name)
    return (json_of_text(text, name, expected) if document is None else document), name


def document_of_text(text: str, name: str) -> dict[str, Any] | None:
    """The document that a text of Slurm stands for, None for JSON and other texts."""
    if text.lstrip().startswith("{"):
        data = json_of_text(text, name, "expected output of Slurm")
        return accounts.of_shares_in_json(data) or data
    if accounts.is_dump(text):
        return accounts.of_dump(text, name)
    if accounts.is_shares(text):
        return accounts.of_shares(text, name)
    if (document := listings.listing_of(text, name)) is not None:
        return document
    lines = list(_lines(text))
    if not any(_RECORD.match(line) for line, _ in lines):
        if _CONFIG.search(text):
            raise InvalidInstance(
                f"{name} names no servers; give slurm.conf, or the output of scontrol show node, with NodeName=..."
            )
        return None
    return _servers(lines, name)


def settings_of(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The settings of ``slurm.conf``, and its partitions by name; keys are in lower case."""
    settings, partitions, usual = _Record(), dict[str, _Record](), _Record()
    for line, number in _lines(read_text(path, "expected slurm.conf")):
        fields = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        partition = fields.get("partitionname")
        if partition is None:
            settings |= {} if _RECORD.match(line) else fields
            continue
        with about(f"{os.fspath(path)}, line {number}, partition {shown(partition)}"):
            limits_of(fields)  # read again where they are used: here an error has the line
        if partition.upper() == "DEFAULT":
            usual |= fields
        else:
            partitions[partition] = usual | fields
    return settings, partitions


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines without comments, with their numbers; those that end in a backslash go on in the next."""
    start, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if start else number
        if line.endswith("\\"):
            start += line[:-1] + " "
            continue
        yield re.sub(r"(^|\s)#.*", "", start + line).rstrip(), first
        start = ""


def _servers(lines: Iterable[tuple[str, int]], name: str) -> dict[str, Any]:
    """The servers, with the partitions that they are in, and notes."""
    notes = Notes()
    kinds = ("nodename", "partitionname", "nodeset", "downnodes")
    records: dict[str, list[tuple[_Record, str]]] = {kind: [] for kind in kinds}
    defaults: dict[str, _Record] = {kind: {} for kind in records}
    open_record: _Record | None = None
    for line, number in lines:
        match = _RECORD.match(line)
        if line[:1].isspace() or " CPUTot=" in line:
            line = _FREE.sub("", line)
        if match:
            kind = match[1].lower()
            fields = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
            if fields[kind].upper() == "DEFAULT":
                defaults[kind] |= {key: value for key, value in fields.items() if key != kind}
                open_record = None
                continue
            open_record = {**defaults[kind], **fields}
            records[kind].append((open_record, f"{name}, line {number}"))
        elif line[:1].isspace() and open_record is not None:
            open_record |= {key.lower(): value for key, value in _PAIR.findall(line.strip())}
        elif line.strip():
            open_record = None
            notes.add("{file} that slurm.conf includes {is} not read", *([line.split()[-1]] * _includes(line)))
    servers: dict[str, dict[str, Any]] = {}
    for record, place in records["nodename"]:
        for host in _hosts(record["nodename"], place):
            if host in servers:
                raise InvalidInstance(f"{place}: the node {shown(host)} is there twice; give each node once")
            servers[host] = {"name": host, "place": place, **_entry(record, place)}
    if not servers:
        raise InvalidInstance(f"{name} names no servers; give the records NodeName=... too")
    for record, place in records["downnodes"]:
        for host in servers.keys() & {*_hosts(record["downnodes"], place)}:
            servers[host]["state"] = record.get("state", "DOWN")
    access = _put_in_partitions(servers, records["partitionname"], records["nodeset"], notes)
    return {"nodes": list(servers.values()), "notes": notes.sentences(), "access": access}


def with_gres(document: dict[str, Any], path: str | os.PathLike[str]) -> dict[str, Any]:
    """The servers of a document with the types of generic resources that ``gres.conf`` names, and notes."""
    types, notes, made = dict[str, dict[str, dict[str, int]]](), Notes(), list[dict[str, Any]]()
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(one, dict) for one in nodes):
        return document  # which the reader refuses
    names = [str(one.get("name")) for one in nodes]
    for line, number in _lines(read_text(path, "expected gres.conf")):
        of = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        place = f"{os.fspath(path)}, line {number}"
        if "name" not in of or not of.get("type"):
            continue
        files = names_of(of["file"]) if _FILES.search(of.get("file", "")) else of.get("file", "").split(",")
        try:
            count = int(whole(of.get("count", str(len(files) if files else 1))) or 0)
        except InvalidInstance as error:
            raise InvalidInstance(f"{place}: Count={of['count']}; {error}") from None
        for host in _hosts(of["nodename"], place) if "nodename" in of else names:
            kinds = types.setdefault(host, {}).setdefault(of["name"], {})
            kinds[of["type"]] = kinds.get(of["type"], 0) + count
    for one in nodes:
        given = one.get("gres")
        has = gres(given if isinstance(given, str) else "")
        for name, kinds in types.get(str(one.get("name")), {}).items():
            if any(of == name for of, _ in has.typed) or name not in has.total:
                continue  # the server says it
            if sum(kinds.values()) != has.total[name]:
                what = "{server} with other numbers in gres.conf: its generic resources have no types"
                notes.add(what, f"{one['name']}: {has.total[name]} {name}")
                continue
            typed = [f"{name}:{kind}:{count}" for kind, count in kinds.items()]
            others = [f"{other}:{n}" for other, n in has.total.items() if other != name]
            one = one | {"gres": ",".join([*typed, *others])}
        made.append(one)
    return document | {"nodes": made, "notes": [*document.get("notes", ()), *notes.sentences()]}


def _includes(line: str) -> bool:
    return line.strip().lower().startswith("include ")


def _hosts(text: str, place: str) -> list[str]:
    names = names_of(text)
    if not names:
        raise InvalidInstance(f"{place}: {shown(text)} is no list of nodes; give one as n[1-4],login1")
    return names


def _entry(record: _Record, place: str) -> dict[str, Any]:
    """A record of a server with the keys of the output in JSON."""
    out: dict[str, Any] = {_SERVERS[key]: value for key, value in record.items() if key in _SERVERS}

    def product(*names: str) -> int:
        try:
            return math.prod(int(whole(record.get(name, "1")) or 1) for name in names)
        except InvalidInstance as error:
            shown_values = ", ".join(f"{name}={record[name]}" for name in names if name in record)
            raise InvalidInstance(f"{place}: {shown_values}; {error}") from None

    if "cpus" not in out:
        sockets = "socketsperboard" if "socketsperboard" in record else "sockets"
        out["cpus"] = product("boards", sockets, "corespersocket", "threadspercore")
    out["cpus"] = product("cpus") if "cpus" in record else out["cpus"]
    if "CPUTot".lower() not in record:  # of slurm.conf, where UNKNOWN is the default, and memory is 1 MiB
        out["state"] = "IDLE" if record.get("state", "UNKNOWN").upper() == "UNKNOWN" else record["state"]
        out.setdefault("real_memory", "1")
    return out


def _put_in_partitions(
    servers: Mapping[str, dict[str, Any]],
    partitions: list[tuple[_Record, str]],
    sets: list[tuple[_Record, str]],
    notes: Notes,
) -> dict[str, dict[str, list[str]]]:
    """Add the partitions of servers, of those that give lists of nodes; who may use each, by keyword."""
    of_set: dict[str, list[str]] = {"all": [*servers]}
    for record, place in sets:
        wanted = {*filter(None, record.get("feature", "").split(","))}
        with_feature = [host for host, one in servers.items() if wanted & {*str(one.get("features", "")).split(",")}]
        named = _hosts(record["nodes"], place) if record.get("nodes") else []
        of_set[record["nodeset"].lower()] = [*with_feature, *named]
    closed, of_groups, access = list[str](), list[str](), dict[str, dict[str, list[str]]]()
    for record, place in partitions:
        name, members = record["partitionname"], set[str]()
        for part in re.split(r",(?![^\[]*\])", record.get("nodes", "")):
            known = of_set.get(part.strip().lower())
            members |= {*(known if known is not None else _hosts(part, place) if part.strip() else ())}
        missing = sorted(members - servers.keys())
        if missing:
            raise InvalidInstance(
                f"{place}: the partition {shown(name)} has the node {shown(missing[0])}, which is not there; correct "
                "Nodes="
            )
        if record.get("state", "UP").upper() in ("DOWN", "INACTIVE", "DRAIN"):
            closed.append(f"{name}: {record['state']}")
        rules = {key: record[key].split(",") for key in _ACCESS if record.get(key, "").lower() not in _OPEN_TO_ALL}
        if rules:
            access[name] = rules
        if record.get("allowgroups", "").lower() not in _OPEN_TO_ALL:
            of_groups.append(name)
        for host in members:
            servers[host].setdefault("partitions", [])
            if isinstance(servers[host]["partitions"], list):
                servers[host]["partitions"].append(name)
    for one in servers.values() if partitions else ():
        one.setdefault("partitions", [])
    notes.add("{partition} that {is} not up: its jobs count", *closed)
    notes.add("{partition} for some groups only: not modelled", *of_groups)
    return access
