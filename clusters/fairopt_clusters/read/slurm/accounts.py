"""Slurm's accounts and their fairshares as a tree, from any output of ``sacctmgr`` and ``sshare``.

``sacctmgr dump``, ``sshare -l -P`` and ``sshare --json`` become the document of ``sacctmgr show associations --json``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import Field

import fairopt as fo
from fairopt.errors import InvalidInstance
from fairopt.io import Notes, Part, checked, shown
from fairopt_clusters.read.queues.teams import labels_of, note_rest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.read.slurm.contracts import Contract
from fairopt_clusters.read.slurm.fields import Amounts, Text, Trackable, Whole, Whole64, tres, tres_of_list, whole
from fairopt_clusters.read.slurm.tables import rows_of, titles_of

_ROOT = "root"
_LINE = re.compile(r"(Cluster|Parent|Account|User)\s*-\s*'?([^':]+)'?\s*(?::(.*))?")
_OPTION = re.compile(r"([A-Z][A-Za-z]*)=('[^']*'|.*?)(?=:[A-Z][A-Za-z]*=|$)")  # types such as gpu:a100 have colons too
_USED = "used"  # by all, among what is read of sshare
WITHOUT_LIMITS = "without limits"  # what is read of sshare: it does not show them
_AS_PARENT = 0x7FFFFFFF  # SLURMDB_FS_USE_PARENT of slurmdb.h: the account competes as part of its parent
_NOT_MODELLED = re.compile("(Max|Grp(?!TRES$)|Min|Def|QOS|Priority)")  # options of accounts that are limits or rules
OF_PARENT, _OF_USERS = "the fairshare of the parent", "different fairshares of users"  # among notes of queues
_Entries = list[dict[str, Any]]


class _Total(Part):
    total: list[Trackable] = Field(default_factory=list)


class _Limits(Part):
    tres: _Total = Field(default_factory=_Total)


class Association(Part):
    """An account, or a user or a partition within one."""

    account: Text = ""
    user: Text = ""
    partition: Text = ""
    cluster: Text = ""
    parent_account: Text = ""
    shares_raw: Whole = None
    usage: Whole64 = None
    max: _Limits = Field(default_factory=_Limits)
    rest: dict[str, str] = Field(default_factory=dict)  # of a dump: options that are not modelled
    place: str = ""

    @property
    def is_account(self) -> bool:
        """Whether it is a whole account."""
        return bool(self.account) and not self.user and not self.partition

    @property
    def limits(self) -> Amounts:
        """What all jobs of the account may use at once (``GrpTRES``)."""
        return tres_of_list(self.max.tres.total)

    def limits_not_in(self, contracts: Mapping[str, Contract] | None) -> dict[str, float]:
        """The limits that contracts, if there are any, do not list."""
        mine = {} if contracts is None else amounts_of(self.limits)
        listed = contracts.get(self.account, Contract()).limit if contracts else {}
        return {name: amount for name, amount in mine.items() if name not in listed}


def associations_in(document: Mapping[str, Any], name: str) -> Iterator[Association]:
    """The associations in the output of sacctmgr."""
    entries = document.get("associations")
    if not isinstance(entries, list):
        what = "is missing" if entries is None else f"is {shown(entries)}"
        raise InvalidInstance(f"{name}: associations {what}; give the output of sacctmgr show associations --json")
    for k, entry in enumerate(entries):
        of_text = str(entry.get("place") or "") if isinstance(entry, Mapping) else ""
        one = checked(Association, entry, name, of_text.removeprefix(f"{name}, ") or f"associations[{k}]")
        more = (
            {}
            if one.place
            else {"place": f"{name}: associations[{k}]", "rest": dict(_other_limits(entry.get("max"), "max"))}
        )
        yield one.model_copy(update=more)


def _other_limits(limits: object, name: str) -> Iterator[tuple[str, str]]:
    """The numbers among limits of sacctmgr --json by their path, but for those of `Association.limits`."""
    if isinstance(limits, Mapping) and not limits.keys() & {"number", "infinite"}:
        for key, value in limits.items():
            yield from _other_limits(value, f"{name}.{key}") if f"{name}.{key}" != "max.tres.total" else ()
    elif isinstance(limits, (Mapping, int)):
        with suppress(InvalidInstance):  # not a number
            if (number := whole(limits)) is not None:
                yield name, str(number)
    elif isinstance(limits, list) and limits:
        yield name, "set"


def user_names(document: Mapping[str, Any], name: str) -> dict[tuple[str, str], str]:
    """The names of users by account and user: ``account/user`` of those in several accounts, or named as an account."""
    found = dict.fromkeys((one.account, one.user) for one in associations_in(document, name) if one.account)
    accounts, times = {account for account, _ in found}, Counter(user for _, user in found)
    return {
        (account, user): f"{account}/{user}" if times[user] > 1 or user in accounts else user
        for account, user in found
        if user
    }


def tree_of(
    document: Mapping[str, Any], name: str, by_user: bool = False, contracts: Mapping[str, Contract] | None = None
) -> QueueTree:
    """The accounts among associations as queues, without the root; one that is only named as a parent is at the top.

    With ``by_user`` users are below their accounts. Limits and promises are those of ``contracts``; without any, each
    limit (``GrpTRES``) that is there counts.
    """
    known: dict[str, Association] = {}
    of_users: dict[str, set[int | None]] = {}  # fairshares by account
    queues = list[Queue]()
    for one in associations_in(document, name):
        if one.user:
            of_users.setdefault(one.account, set()).add(one.shares_raw)
        if not one.is_account or one.account == _ROOT:
            continue
        other = known.setdefault(one.account, one)
        if (other.parent_account, other.shares_raw) != (one.parent_account, one.shares_raw):
            raise InvalidInstance(
                f"{name}: the account {shown(one.account)} differs between the clusters {shown(other.cluster)} and "
                f"{shown(one.cluster)}; give the associations of one, as 'sacctmgr show associations cluster=NAME "
                "--json' prints them"
            )
    for account, one in known.items():
        notes = one.rest | ({OF_PARENT: "counts as 1"} if one.shares_raw == _AS_PARENT else {})
        notes |= {_OF_USERS: "they do not count"} if len(of_users.get(account, ())) > 1 else {}
        weight = 1.0 if one.shares_raw in (None, _AS_PARENT) else float(one.shares_raw or 0)
        parent = "" if one.parent_account == _ROOT else one.parent_account
        contract = Contract(limit=amounts_of(one.limits)) if contracts is None else contracts.get(account, Contract())
        amounts = contract.promised, contract.limit
        queues.append(Queue(account, parent, weight, *amounts, notes=notes, place=one.place))
    shares = {(one.account, one.user): one for one in associations_in(document, name) if by_user and one.user}
    for key, title in user_names(document, name).items() if by_user else ():
        one = shares[key]
        weight = 1.0 if one.shares_raw in (None, _AS_PARENT) else float(one.shares_raw or 0)
        notes = {OF_PARENT: "counts as 1"} if one.shares_raw == _AS_PARENT else {}
        parent = "" if one.account == _ROOT else one.account
        queues.append(Queue(title, parent, weight, notes=notes, place=one.place))
    missing = dict.fromkeys(one.parent for one in queues if one.parent not in ("", *known))
    return QueueTree("Slurm", (*(Queue(parent) for parent in missing), *queues))


def amounts_of(limits: Amounts) -> dict[str, float]:
    """Amounts in cores, GiB and pieces."""
    plain = {key: amount for key, amount in limits.plain.items() if key != "mem"}
    memory = {"memory": limits.plain["mem"] / 1024} if "mem" in limits.plain else {}
    typed = {f"{of}:{kind}": amount for (of, kind), amount in limits.typed.items()}
    return {key: float(amount) for key, amount in {**plain, **memory, **limits.total, **typed}.items()}


def accounts_of(document: Mapping[str, Any], name: str, by_user: bool) -> list[fo.online.Account]:
    """The accounts, and users as ``account/user``, with shares and past usage, for replays and for who is next."""
    tree, found = tree_of(document, name), dict[str, fo.online.Account]()
    used = dict[str, float]()
    for one in associations_in(document, name):
        label = f"{one.account}/{one.user}" if one.user else one.account
        used[label] = max(used.get(label, 0.0), float(one.usage or 0))  # of several partitions, or clusters, one counts
        if one.user and by_user:
            shares = None if one.shares_raw == _AS_PARENT else float(1 if one.shares_raw is None else one.shares_raw)
            parent = "" if one.account == _ROOT else one.account
            found.setdefault(label, fo.online.Account(label, parent, shares, used[label]))
    for queue in tree.queues:
        shares = None if OF_PARENT in queue.notes else queue.weight
        found[queue.name] = fo.online.Account(queue.name, queue.parent, shares, used.get(queue.name, 0.0))
    others = float(whole(document.get(_USED) or "", bits=64) or 0) - sum(
        u.usage for u in found.values() if not u.parent
    )
    if others > 0:  # of associations that are gone: it counts in what all used
        found[f"{_ROOT}/others"] = fo.online.Account(f"{_ROOT}/others", "", 0.0, others)
    missing = {one.parent for one in found.values()} - {"", *found}
    return [*found.values(), *(fo.online.Account(parent) for parent in sorted(missing))]


def without_share(tree: QueueTree, account: str) -> bool:
    """Whether the account or one above it has a fairshare of 0."""
    return any(one in tree.by_name and not tree.by_name[one].weight for one in (account, *tree.above(account)))


def teams_of(
    tree: QueueTree, owners: Collection[str], file: str, notes: Notes
) -> tuple[dict[str, dict[str, str | None]], dict[str, float]]:
    """The labels of owners (`labels_of`), and the weights of accounts."""
    paths = {owner: tree.above(owner) for owner in owners}
    inner = {account for path in paths.values() for account in path}
    listed = {one.name: one for one in tree.queues if one.place}  # not those that are only named as parents
    missing = sorted(set(owners) - listed.keys())
    notes.add("{account} that {is} not in {file} {counts} as right below the root", *missing, file=file)
    what = "{account} with tasks of its own and accounts below: these tasks are members beside those accounts"
    notes.add(what, *(owner for owner in owners if owner in inner))
    mine = [listed[one] for one in sorted({*owners, *inner}) if one in listed]
    note_rest(tree, notes)
    weights = {one.name: one.weight for one in mine if one.weight and OF_PARENT not in one.notes}
    return labels_of(paths, "account"), weights


# -- texts ----------------------------------------------------------------------------------------------------


def is_dump(text: str) -> bool:
    """Whether a text is a dump of ``sacctmgr``."""
    return re.search(r"^Cluster\s*-\s*'?\w", text, re.MULTILINE) is not None


def is_shares(text: str) -> bool:
    """Whether a text is output of ``sshare`` with columns separated by ``|``."""
    return titles_of(text)[:3] == ["Account", "User", "RawShares"]


def of_dump(text: str, name: str) -> dict[str, Any]:
    """The associations in a dump."""
    above, cluster, entries, seen = _ROOT, "", _Entries(), dict[str, int]()
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
        elif kind == "Cluster":
            cluster = who
        elif kind == "Account" and who in seen:
            raise InvalidInstance(f"{place}: the account {shown(who)} is also on line {seen[who]}; keep one")
        elif kind in ("Account", "User"):
            entry = entry_of(given, place) | {"cluster": cluster}
            account = who if kind == "Account" else above
            entry |= {"account": account, "user": "" if kind == "Account" else who, "partition": given.get("Partition")}
            entries.append(entry | {"parent_account": above if kind == "Account" else "", "place": place})
            seen |= {who: number} if kind == "Account" else {}
    return {"associations": entries}


def entry_of(given: Mapping[str, str], place: str) -> dict[str, Any]:
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
    path, entries, seen, used = list[str](), _Entries(), dict[str, str](), ""
    for row, place in rows_of(text, name, "sshare -l -P -a"):
        account, user = row["Account"].strip(), row["User"].strip()
        level = len(row["Account"]) - len(row["Account"].lstrip())
        share = row["RawShares"].strip()
        try:
            raw = _AS_PARENT if share == "parent" else whole(share)
        except InvalidInstance as error:
            raise InvalidInstance(f"{place}: RawShares is {shown(share)}; {error}") from None
        entry = {"account": account, "user": user, "shares_raw": raw, "usage": row.get("RawUsage"), "place": place}
        entry["cluster"] = row.get("Cluster", "")
        if user:
            entries.append(entry)
            continue
        if account in seen:
            raise InvalidInstance(f"{place}: the account {shown(account)} is also on {seen[account]}; keep one")
        seen[account] = place.removeprefix(f"{name}, ")
        path = [*path[:level], account]
        if account != _ROOT:
            entries.append(entry | {"parent_account": path[-2] if len(path) > 1 else _ROOT})
        else:
            used = row.get("RawUsage", "")
    return {"associations": entries, _USED: used, WITHOUT_LIMITS: True}


def of_shares_in_json(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The associations in output of ``sshare --json``, None if it is none."""
    given = document.get("shares")
    listed = given.get("shares") if isinstance(given, Mapping) else given
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) and "name" in one for one in listed):
        return None
    entries, used = _Entries(), None
    for k, one in enumerate(listed):
        of_user, parent = "USER" in (one.get("type") or ()), one.get("parent") or _ROOT
        account = parent if of_user else one["name"]
        try:
            raw = whole(one["shares"]) if one.get("shares") is not None else None
        except InvalidInstance as error:
            raise InvalidInstance(f"shares[{k}].shares is {shown(one['shares'])}; {error}") from None
        if account != _ROOT or of_user:
            of = {"user": one["name"]} if of_user else {"parent_account": parent}
            entry = {"account": account, "shares_raw": raw, "usage": one.get("usage"), "place": f"shares[{k}]", **of}
            entries.append(entry | {"cluster": one.get("cluster") or ""})
        else:
            used = one.get("usage")
    return {"associations": entries, _USED: used, WITHOUT_LIMITS: True}
