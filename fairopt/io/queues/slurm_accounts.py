"""Accounts of Slurm as queues: ``sacctmgr dump``, ``sshare -l -P``, ``sshare --json`` and associations in JSON.

The texts become the document of ``sacctmgr show associations --json``, which `fairopt.io.slurm.accounts` reads too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.queues.tree import Queue, QueueTree
from fairopt.io.slurm.fields import Trackable, tres, tres_of_list, whole

Entries = list[dict[str, Any]]
_ROOT = "root"
_LINE = re.compile(r"(Cluster|Parent|Account|User)\s*-\s*'?([^':]+)'?\s*(?::(.*))?")
_OPTION = re.compile(r"([A-Z][A-Za-z]*)=('[^']*'|.*?)(?=:[A-Z][A-Za-z]*=|$)")  # types such as gpu:a100 have colons too
_AS_PARENT = 0x7FFFFFFF
_NOT_MODELLED = re.compile("(Max|Grp(?!TRES$)|Min|Def|QOS|Priority)")  # options of accounts that are limits or rules


def is_dump(text: str) -> bool:
    """Whether a text is a dump of ``sacctmgr``."""
    return re.search(r"^Cluster\s*-\s*'?\w", text, re.MULTILINE) is not None


def is_shares(text: str) -> bool:
    """Whether a text is output of ``sshare`` with columns separated by ``|``."""
    header = text.lstrip().partition("\n")[0].split("|")
    return [cell.strip() for cell in header[:3]] == ["Account", "User", "RawShares"]


def of_dump(text: str, name: str) -> dict[str, Any]:
    """The associations in a dump."""
    above, entries, seen = _ROOT, Entries(), dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place, match = f"{name}, line {number}", _LINE.fullmatch(line.strip())
        if match is None:
            raise InvalidInstance(f"{place}: {shown(line.strip())} is no line of a dump; give lines as Account - 'bio'")
        kind, who, options = match[1], match[2].strip(), dict(_OPTION.findall(match[3] or ""))
        given = {key: value.strip("'") for key, value in options.items()}
        if kind == "Parent":
            if who != _ROOT and who not in seen:
                raise InvalidInstance(f"{place}: the parent {shown(who)} is no account above; correct it, or add it")
            above = who
        elif kind == "Account" and who in seen:
            raise InvalidInstance(f"{place}: the account {shown(who)} is also on line {seen[who]}; keep one")
        elif kind in ("Account", "User"):
            entry = _entry(given, place)
            account = who if kind == "Account" else above
            entry |= {"account": account, "user": "" if kind == "Account" else who, "partition": given.get("Partition")}
            entries.append(entry | {"parent_account": above if kind == "Account" else "", "place": place})
            seen |= {who: number} if kind == "Account" else {}
    return {"associations": entries, "limits": True}


def _entry(given: Mapping[str, str], place: str) -> dict[str, Any]:
    """The fairshare and the limits among the options of a line."""
    share = given.get("Fairshare", given.get("FairShare", "1"))
    try:
        raw = _AS_PARENT if share.lower() == "parent" else whole(share)
        amounts = tres(given.get("GrpTRES", ""))
    except InvalidInstance as error:
        raise InvalidInstance(
            f"{place}: {error}; the line has Fairshare={share}, GrpTRES={given.get('GrpTRES')}"
        ) from None
    rest = {key: value for key, value in given.items() if _NOT_MODELLED.match(key)}
    plain = [{"type": key, "count": int(amount)} for key, amount in amounts.plain.items()]
    typed = [{"type": "gres", "name": f"{of}:{kind}", "count": int(n)} for (of, kind), n in amounts.typed.items()]
    generic = [{"type": "gres", "name": key, "count": int(amount)} for key, amount in amounts.total.items()]
    return {"shares_raw": raw, "max": {"tres": {"total": [*plain, *generic, *typed]}}, "rest": rest}


def of_shares(text: str, name: str) -> dict[str, Any]:
    """The associations in output of ``sshare -P``, whose accounts are indented by their level."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    header = [cell.strip() for cell in lines[0][1].split("|")]
    path, entries, seen = list[str](), Entries(), dict[str, int]()
    for number, line in lines[1:]:
        cells, place = line.split("|"), f"{name}, line {number}"
        if len(cells) < len([one for one in header if one]):
            raise InvalidInstance(f"{place}: the row has {len(cells)} cells where the header has {len(header)}")
        row = dict(zip(header, cells, strict=False))
        level, account, user = len(cells[0]) - len(cells[0].lstrip()), cells[0].strip(), row["User"].strip()
        share = row["RawShares"].strip()
        try:
            raw = _AS_PARENT if share == "parent" else whole(share)
        except InvalidInstance as error:
            raise InvalidInstance(f"{place}: RawShares is {shown(share)}; {error}") from None
        entry = {"account": account, "user": user, "shares_raw": raw, "place": place}
        if user:
            entries.append(entry)
            continue
        if account in seen:
            raise InvalidInstance(f"{place}: the account {shown(account)} is also on line {seen[account]}; keep one")
        seen[account] = number
        path = [*path[:level], account]
        if account != _ROOT:
            entries.append(entry | {"parent_account": path[-2] if len(path) > 1 else _ROOT})
    return {"associations": entries}


def of_shares_in_json(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The associations in output of ``sshare --json``, None if it is none."""
    given = document.get("shares")
    listed = given.get("shares") if isinstance(given, Mapping) else given
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) and "name" in one for one in listed):
        return None
    entries = Entries()
    for k, one in enumerate(listed):
        of_user, parent = "USER" in (one.get("type") or ()), one.get("parent") or _ROOT
        account = parent if of_user else one["name"]
        try:
            raw = whole(one["shares"]) if one.get("shares") is not None else None
        except InvalidInstance as error:
            raise InvalidInstance(f"shares[{k}].shares is {shown(one['shares'])}; {error}") from None
        if account != _ROOT or of_user:
            of = {"user": one["name"]} if of_user else {"parent_account": parent}
            entries.append({"account": account, "shares_raw": raw, "place": f"shares[{k}]", **of})
    return {"associations": entries}


def tree_of(document: Mapping[str, Any], name: str) -> QueueTree:
    """The accounts among associations as queues; the root is none."""
    queues = list[Queue]()
    for k, entry in enumerate(document["associations"]):
        if entry.get("user") or entry.get("partition") or entry.get("account") in (None, "", _ROOT):
            continue
        above, raw = entry.get("parent_account") or _ROOT, whole(entry.get("shares_raw", 1) or 0)
        notes = dict(entry.get("rest") or {})
        if raw == _AS_PARENT:
            notes["the fairshare of the parent"] = "counts as 1"
        queues.append(
            Queue(
                entry["account"],
                "" if above == _ROOT else above,
                1.0 if raw in (None, _AS_PARENT) else float(raw or 0),
                limit=_limits(entry),
                notes=notes,
                place=str(entry.get("place") or f"{name}: associations[{k}]"),
            )
        )
    return QueueTree("Slurm", tuple(queues))


def _limits(entry: Mapping[str, Any]) -> dict[str, float]:
    """The limits of an account, in cores, GiB and pieces."""
    listed: Iterable[Any] = ((entry.get("max") or {}).get("tres") or {}).get("total") or ()
    found = tres_of_list([Trackable.model_validate(one) for one in listed])
    plain = {
        "memory" if key == "mem" else key: amount / (1024 if key == "mem" else 1) for key, amount in found.plain.items()
    }
    typed = {f"{of}:{kind}": amount for (of, kind), amount in found.typed.items()}
    return {key: float(amount) for key, amount in {**plain, **found.total, **typed}.items()}
