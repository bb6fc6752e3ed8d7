"""Quotas as limits on accounts of Slurm (``GrpTRES``): lines for ``sacctmgr``, and what it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt_clusters.quotas.quota import Quota, by_team, is_memory
from fairopt_clusters.read.slurm.fields import Amounts, tres

_NAME = re.compile(r"[^\s,='\"\\]+")
_TRES = re.compile(r"[A-Za-z0-9_./:+-]+")
_COMMAND = ("sacctmgr", "-i", "modify", "account", "where")
_FIX = "give teams that are accounts, another format, or name the teams to write (--team)"


def to_sacctmgr(rows: Iterable[Quota], comments: Sequence[str] = (), cluster: str = "") -> str:
    """A line for each account, on a cluster if its name is known, below the settings on which the limits depend."""
    where = f"cluster={cluster}" if _NAME.fullmatch(cluster) and cluster.isprintable() else ""
    lines, tracked = [], dict[str, None]()
    for team, quotas in by_team(rows).items():
        if not _NAME.fullmatch(team) or team.startswith("-") or not team.isprintable():
            raise InvalidInstance(f"{team!r} cannot be the name of an account of Slurm; {_FIX}")
        limits = dict(map(_limit, quotas))
        tracked |= dict.fromkeys(name for name in limits if name not in ("cpu", "mem"))
        values = ",".join(f"{name}={amount}" for name, amount in limits.items())
        place = [shlex.quote(f"name={team}"), *([shlex.quote(where)] if where else [])]
        lines.append(" ".join([*_COMMAND, *place, "set", f"GrpTRES={values}"]))
    settings = [
        "These limits need in slurm.conf:",
        "  AccountingStorageType=accounting_storage/slurmdbd",
        *([f"  AccountingStorageTRES={','.join(tracked)}"] if tracked else []),
        "  AccountingStorageEnforce=associations,limits,safe",
        "They bound what the jobs of an account and of all accounts below it use at once. Jobs beyond them wait.",
        *(
            []
            if where
            else ["They are set on all clusters of the database: with several, add cluster=NAME to each line."]
        ),
    ]
    if any(":" in name for name in tracked):
        settings.append("Jobs that ask for GPUs without a type may be counted as any type, or as none:")
        settings.append("a job_submit plugin can require a type.")
    return "\n".join([*(f"# {line}" for line in (*comments, *settings)), *lines, ""])


def _limit(row: Quota) -> tuple[str, str]:
    """The name and the amount of a limit."""
    name = tres_name(row.resource) + (f":{row.flavor}" if row.flavor else "")
    if not _TRES.fullmatch(name):
        raise InvalidInstance(
            f"{name!r} cannot be the name of a resource of Slurm; rename it, or name the resources to write without it "
            "(--resource)"
        )
    if name == "mem":
        if not is_memory(row.unit):
            unit = repr(row.unit) if row.unit else "unknown"
            raise InvalidInstance(f"the unit of {row.resource!r} is {unit}; give it in GiB, as 'memory [GiB]'")
        return name, f"{row.steps}M"
    return name, str(round(row.amount))


def tres_name(resource: str) -> str:
    """The name of a resource in ``GrpTRES``: ``nvidia.com/gpu`` and ``gpu`` are ``gres/gpu``."""
    if resource in ("cpu", "memory"):
        return "mem" if resource == "memory" else resource
    return resource if resource.startswith("gres/") else f"gres/{resource.rpartition('/')[2]}"


def read_sacctmgr(text: str, name: str) -> list[Quota]:
    """The quotas in lines of `to_sacctmgr`; other lines are comments, empty or an error."""
    out: list[Quota] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = f"{name}, line {number}"
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise InvalidInstance(f"{place}: the line cannot be read ({error}); check its quotes") from None
        words = [word for k, word in enumerate(words) if k != len(_COMMAND) + 1 or not word.startswith("cluster=")]
        known = len(words) == len(_COMMAND) + 3 and tuple(words[: len(_COMMAND)]) == _COMMAND
        account, limits = (words[len(_COMMAND)], words[-1]) if known else ("", "")
        if not (account.startswith("name=") and limits.startswith("GrpTRES=")):
            raise InvalidInstance(f"{place}: give lines such as {' '.join(_COMMAND)} name=bio set GrpTRES=cpu=8")
        try:
            amounts = tres(limits.removeprefix("GrpTRES="))
        except InvalidInstance as error:
            raise InvalidInstance(f"{place}: {error}") from None
        out += _quotas(account.removeprefix("name="), amounts)
    return out


def _quotas(account: str, found: Amounts) -> list[Quota]:
    """The quotas in amounts such as those of ``cpu=8,mem=64G,gres/gpu:a100=2``."""
    out = []
    for resource, amount in found.plain.items():
        if resource == "cpu":
            out.append(Quota(account, "cpu", "", float(amount), "core"))
        elif resource == "mem":
            out.append(Quota(account, "memory", "", float(amount / 1024), "GiB"))
    for generic, amount in found.total.items():
        out.append(Quota(account, generic, "", float(amount)))
        out += [Quota(account, generic, kind, float(part)) for (of, kind), part in found.typed.items() if of == generic]
    return out


def cluster_of(document: Mapping[str, Any]) -> str:
    """The cluster of the associations in the output of sacctmgr; empty if they are of several or of none."""
    entries = document.get("associations")
    named = {entry.get("cluster") for entry in entries or () if isinstance(entry, Mapping)}
    names = [name for name in named if isinstance(name, str) and name]
    return names[0] if len(names) == 1 else ""


def read_associations(document: Mapping[str, Any], name: str) -> list[Quota]:
    """The limits (``GrpTRES``) of accounts in the output of ``sacctmgr show associations --json``."""
    from fairopt_clusters.read.slurm.accounts import (
        associations_in,  # models of pydantic, which other inputs do not need
    )

    accounts = (one for one in associations_in(document, name) if one.is_account)
    return [quota for one in accounts for quota in _quotas(one.account, one.limits)]
