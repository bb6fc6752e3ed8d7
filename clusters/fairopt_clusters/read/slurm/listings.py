"""Texts of ``squeue``, ``scontrol show job`` and ``sacctmgr -P show assoc`` as the documents that ``--json`` prints.

Fields are those of Slurm's manuals; a column that is needed and not there is named with the command that prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import shown
from fairopt_clusters.read.slurm.accounts import entry_of
from fairopt_clusters.read.slurm.fields import amount_of, time_seconds
from fairopt_clusters.read.slurm.objects import JOB_ID
from fairopt_clusters.read.slurm.tables import rows_of, titles_of


def _table(text: str) -> dict[str, str]:
    """Names in a text of Slurm, and the keys of ``squeue --json``."""
    return dict(one.split("=") for one in text.split())


_OF_SQUEUE = _table("""
    JOBID=job_id PARTITION=partition USER=user_name ACCOUNT=account QOS=qos ST=job_state STATE=job_state
    REASON=state_reason NODES=node_count CPUS=cpus MIN_CPUS=minimum_cpus_per_node
    MIN_MEMORY=memory_per_node TRES_PER_NODE=tres_per_node TRES_PER_JOB=tres_per_job
    TRES_PER_TASK=tres_per_task FEATURES=features NODELIST=nodes REQ_NODES=required_nodes
    EXC_NODES=excluded_nodes RESERVATION=resv_name LICENSES=licenses TIME_LIMIT=time_limit
""")
_OF_SCONTROL = _table("""
    JobId=job_id ArrayJobId=array_job_id HetJobId=het_job_id Partition=partition UserId=user_name
    Account=account QOS=qos JobState=job_state Reason=state_reason NumNodes=node_count NumTasks=tasks
    NumCPUs=cpus MinCPUsNode=minimum_cpus_per_node MinMemoryNode=memory_per_node
    MinMemoryCPU=memory_per_cpu TRES=tres_req_str ReqTRES=tres_req_str AllocTRES=tres_alloc_str
    TresPerNode=tres_per_node TresPerJob=tres_per_job TresPerTask=tres_per_task Features=features
    NodeList=nodes ReqNodeList=required_nodes ExcNodeList=excluded_nodes Reservation=resv_name
    Licenses=licenses TimeLimit=time_limit
""")
_SQUEUE = "squeue -o '%i|%P|%u|%a|%q|%T|%D|%C|%m|%b|%l|%R'"
_SACCTMGR = "sacctmgr -P show assoc format=cluster,account,user,partition,parentname,share,grptres,maxjobs"
_ARRAY = re.compile(r"(\d+)_(?:\[(.*)\]|\d+)")
_FREE = re.compile(
    r"\b(JobName|\w*Comment|Command|WorkDir|StdErr|StdIn|StdOut|Extra)=.*"
)  # text to the end of the line
_PAIR = re.compile(r"(\w+)=(\S*)")
_ENDLESS = {"", "UNLIMITED", "INVALID", "NOT_SET", "Partition_Limit", "N/A"}


def listing_of(text: str, name: str) -> dict[str, Any] | None:
    """The document of one of these texts, None for others."""
    titles = titles_of(text)
    if re.match(r"JobId=\d", text.lstrip()):
        return {"jobs": list(_records(text, name))}
    if "JOBID" in titles:
        return {"jobs": list(_queue(text, name))}
    if {"Account", "User"} <= {*titles} and not {"RawShares", "JobID", "JobIDRaw"} & {*titles}:
        return {"associations": list(_associations(text, name))}
    return None


def _queue(text: str, name: str) -> Iterator[dict[str, Any]]:
    for row, place in rows_of(text, name, _SQUEUE):
        for needed in (("CPUS", "TRES_PER_NODE", "TRES_PER_JOB"), ("ST", "STATE"), ("ACCOUNT", "USER")):
            if not row.keys() & {*needed}:
                raise InvalidInstance(f"{name} has no column {needed[0]}; give {_SQUEUE}")
        of = {key: cell for title, cell in row.items() if (key := _OF_SQUEUE.get(title.strip()))}
        where = row.get("NODELIST(REASON)", "").strip()
        if where:
            of |= {"state_reason": where.strip("()")} if where.startswith("(") else {"nodes": where}
        yield _job(of, place)


def _records(text: str, name: str) -> Iterator[dict[str, Any]]:
    record, start = dict[str, str](), 1
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*JobId=", line):
            if record:
                yield _job(record, f"{name}, line {start}")
            record, start = {}, number
            if " JobState=" in line:
                raise InvalidInstance(
                    f"{name}, line {number}: a job on one line, where names may hold fields; give scontrol show job "
                    "without -o"
                )
        found = _PAIR.findall(_FREE.sub("", line))
        record |= {_OF_SCONTROL[key]: value for key, value in found if key in _OF_SCONTROL}
        tasks = dict(found).get("ArrayTaskId")
        record |= {"array_task_string": tasks} if tasks is not None else {}
    if record:
        yield _job(record, f"{name}, line {start}")


def _job(given: Mapping[str, str], place: str) -> dict[str, Any]:
    """A job with the values of squeue --json, and its JobID as it stands there."""
    of: dict[str, Any] = {key: value.strip() for key, value in given.items()}
    of[JOB_ID] = of["job_id"]
    if match := _ARRAY.fullmatch(of["job_id"]):
        of |= {"job_id": match[1], "array_job_id": match[1], "array_task_string": match[2] or ""}
    if of.get("job_state", "").upper() not in ("PENDING", "PD"):
        of.pop("array_task_string", None)
    number = re.match(r"\d+", of["job_id"])
    of |= {"job_id": int(number[0])} if number else {}
    of["user_name"] = re.sub(r"\(\d+\)$", "", of.get("user_name", ""))
    of |= {"node_count": of["node_count"].partition("-")[0]} if "node_count" in of else {}
    try:
        for key in ("memory_per_node", "memory_per_cpu"):
            if key in of:
                of[key] = int(amount_of(key, of[key], mebibytes=True))
        limit = of.pop("time_limit", "")
        if limit not in _ENDLESS:
            place = f"{place}: the time limit is {shown(limit)}"
            of["time_limit"] = int(time_seconds(limit) // 60)
    except InvalidInstance as error:
        raise InvalidInstance(f"{place}: {error}") from None
    return of


def _associations(text: str, name: str) -> Iterator[dict[str, Any]]:
    path = list[str]()
    for row, place in rows_of(text, name, _SACCTMGR):
        given = {title.replace(" ", "").lower(): cell for title, cell in row.items()}
        if "share" not in given:
            raise InvalidInstance(f"{name} has no column Share; give {_SACCTMGR}")
        account, user = given["account"].strip(), given["user"].strip()
        level = len(given["account"]) - len(given["account"].lstrip())
        if user:
            parent = ""
        elif "parentname" in given:
            parent = given["parentname"].strip()
        else:  # indented by ``tree``
            path = [*path[:level], account]
            parent = path[-2] if len(path) > 1 else ""
            if len(path) == 1 and account != "root":
                raise InvalidInstance(f"{name} does not say which accounts are above others; give {_SACCTMGR}")
        limits = {title: cell.strip() for title, cell in row.items() if cell.strip() and re.match("Max|Grp", title)}
        of = {"cluster": given.get("cluster", ""), "account": account, "user": user, "parent_account": parent}
        of |= {"place": place, "partition": given.get("partition", "")}
        yield entry_of(limits | {"Fairshare": given["share"].strip() or "1"}, place) | of
