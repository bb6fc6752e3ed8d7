"""Fairshares and limits (``GrpTRES``) of accounts of Slurm: lines for ``sacctmgr``, and what it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance
from fairopt_clusters.quotas.quota import Quota, by_team, is_memory
from fairopt_clusters.read.slurm.fields import Amounts, tres

if TYPE_CHECKING:
    from fairopt_clusters.read.slurm.contracts import Contract

FAIRSHARE = "fairshare"  # the resource of a quota that is one
_NAME = re.compile(r"[^\s,='\"\\]+")
_TRES = re.compile(r"[A-Za-z0-9_./:+-]+")
_COMMAND = ("sacctmgr", "-i", "modify", "account", "where")
_FIX = "give teams that are accounts, another format, or name the teams to write (--team)"


@dataclass(frozen=True)
class AccountsNow:
    """What an input says of accounts: raw fairshares, None for that of the parent, and what is above, "" at the top.

    Limits and contracts are None if they are not known.
    """

    shares: Mapping[str, float | None] = field(default_factory=dict)
    above: Mapping[str, str] = field(default_factory=dict)
    limits: Sequence[Quota] | None = None
    cluster: str = ""
    contracts: Mapping[str, Contract] | None = None
    # on all nodes, whatever their states and what jobs ask for
    there: Mapping[str, float] = field(default_factory=dict)

    @property
    def quotas(self) -> list[Quota]:
        """Limits and fairshares."""
        shares = (Quota(name, FAIRSHARE, "", raw) for name, raw in self.shares.items() if raw is not None)
        return [*(self.limits or ()), *shares]

    def is_contract(self, row: Quota) -> bool:
        """Whether a limit is listed in a contract, with all flavors of a resource that is."""
        contract = (self.contracts or {}).get(row.team)
        return contract is not None and not {row.resource, f"{row.resource}:{row.flavor}"}.isdisjoint(contract.limit)

    def with_promise(self, row: Quota) -> Quota:
        """A limit that leaves room for what its account is promised."""
        contract = (self.contracts or {}).get(row.team)
        name = f"{row.resource}:{row.flavor}" if row.flavor else row.resource
        promised = 0.0 if contract is None else contract.promised.get(name, 0.0)
        return row if promised <= row.amount else replace(row, amount=promised)


def to_sacctmgr(
    rows: Iterable[Quota], comments: Sequence[str] = (), cluster: str = "", ended: Iterable[Quota] = ()
) -> str:
    """A line for each account, on a cluster if its name is known, below the settings on which they depend.

    Limits that are ``ended`` are taken off.
    """
    where = f"cluster={cluster}" if _NAME.fullmatch(cluster) and cluster.isprintable() else ""
    lines, tracked, rows, ended = [], dict[str, None](), [*rows], [*ended]
    for team, quotas in by_team([*rows, *ended]).items():
        if not _NAME.fullmatch(team) or team.startswith("-") or not team.isprintable():
            raise InvalidInstance(f"{team!r} cannot be the name of an account of Slurm; {_FIX}")
        values = dict(map(_limit, quotas)) | {_limit(row)[0]: "-1" for row in ended if row.team == team}
        tracked |= dict.fromkeys(name for name in values if name not in ("cpu", "mem", FAIRSHARE))
        shares = values.pop(FAIRSHARE, None)
        limits = ",".join(f"{name}={amount}" for name, amount in values.items())
        place = [shlex.quote(f"name={team}"), *([shlex.quote(where)] if where else [])]
        lines.append(" ".join([*_COMMAND, *place, "set", f"GrpTRES={limits}" if limits else f"Fairshare={shares}"]))
    settings = []
    if any(row.resource == FAIRSHARE for row in rows):
        settings = ["These need in slurm.conf PriorityType=priority/multifactor and a PriorityWeightFairshare above 0."]
    elif lines:
        settings = [
            "These limits need in slurm.conf:",
            "  AccountingStorageType=accounting_storage/slurmdbd",
            *([f"  AccountingStorageTRES={','.join(tracked)}"] if tracked else []),
            "  AccountingStorageEnforce=associations,limits,safe",
            "They bound what the jobs of an account and of all accounts below it use at once. Jobs beyond them wait.",
        ]
    if lines and not where:
        settings.append("They are set on all clusters of the database: with several, add cluster=NAME to each line.")
    if any(":" in name for name in tracked):
        settings.append("Jobs that ask for GPUs without a type may be counted as any type, or as none:")
        settings.append("a job_submit plugin can require a type.")
    return "\n".join([*(f"# {line}" for line in (*comments, *settings)), *lines, ""])


def _limit(row: Quota) -> tuple[str, str]:
    """The name and the amount of a limit, or of a fairshare."""
    if row.resource == FAIRSHARE:
        return FAIRSHARE, str(round(row.amount))
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
        if not (account.startswith("name=") and re.match("GrpTRES=|Fairshare=[0-9]+$", limits)):
            raise InvalidInstance(f"{place}: give lines such as {' '.join(_COMMAND)} name=bio set GrpTRES=cpu=8")
        if limits.startswith("Fairshare"):
            out.append(Quota(account.removeprefix("name="), FAIRSHARE, "", float(limits.partition("=")[2])))
            continue
        limits = re.sub(r"[^=,]+=-1(?=,|$),?", "", limits.removeprefix("GrpTRES="))  # which are taken off
        try:
            amounts = tres(limits)
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


def read_associations(document: Mapping[str, Any], name: str) -> AccountsNow:
    """What the output of ``sacctmgr`` or ``sshare`` says of accounts; a cluster if they are of one."""
    from fairopt_clusters.read.slurm.accounts import (  # models of pydantic, which other inputs do not need
        OF_PARENT,
        WITHOUT_LIMITS,
        associations_in,
        of_shares_in_json,
        tree_of,
    )

    document = of_shares_in_json(document) or document
    known = [*associations_in(document, name)]
    clusters = {one.cluster for one in known} - {""}
    of_accounts = [quota for one in known if one.is_account for quota in _quotas(one.account, one.limits)]
    queues = [one for one in (tree_of(document, name).queues if len(clusters) < 2 else ()) if one.place]
    return AccountsNow(
        {one.name: None if OF_PARENT in one.notes else one.weight for one in queues},
        {one.name: one.parent for one in queues},
        None if document.get(WITHOUT_LIMITS) else of_accounts,
        clusters.pop() if len(clusters) == 1 else "",
    )
