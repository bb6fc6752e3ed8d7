"""The tree of Slurm's accounts and their fairshares, from ``sacctmgr show associations --json``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import Part, checked, shown
from fairopt.io.notes import Notes
from fairopt.io.queues.teams import labels_of
from fairopt.io.slurm.fields import Text, Whole

_ROOT = ("", "root")
_AS_PARENT = 0x7FFFFFFF  # SLURMDB_FS_USE_PARENT of slurmdb.h: the account competes as part of its parent


class _Total(Part):
    total: list[Any] = Field(default_factory=list)


class _Limits(Part):
    tres: _Total = Field(default_factory=_Total)


class _Association(Part):
    account: Text = ""
    user: Text = ""
    partition: Text = ""
    cluster: Text = ""
    parent_account: Text = ""
    shares_raw: Whole = None
    max: _Limits = Field(default_factory=_Limits)


class Accounts:
    """The parents and the fairshares of accounts."""

    def __init__(self, entries: list[Any], document: str, limits_count: bool = False) -> None:
        self._limits_count = limits_count
        self._known: dict[str, _Association] = {}
        self._users: dict[str, set[int | None]] = {}  # fairshares of users by account
        for k, entry in enumerate(entries):
            found = checked(_Association, entry, document, f"associations[{k}]")
            if found.user and found.account:
                self._users.setdefault(found.account, set()).add(found.shares_raw)
            if found.user or found.partition or not found.account:  # of a user within an account
                continue
            other = self._known.setdefault(found.account, found)
            if (other.parent_account, other.shares_raw) != (found.parent_account, found.shares_raw):
                raise InvalidInstance(
                    f"{document}: the account {shown(found.account)} differs between the clusters "
                    f"{shown(other.cluster)} and {shown(found.cluster)}; give the associations of one, as "
                    "'sacctmgr show associations cluster=NAME --json' prints them"
                )
        self._document = document

    def above(self, account: str) -> list[str]:
        """The accounts above one, the nearest first, without the root."""
        out: list[str] = []
        one = account
        while one in self._known and (one := self._known[one].parent_account) not in _ROOT:
            if one in (account, *out):
                raise InvalidInstance(f"{self._document}: the account {shown(one)} is above itself; correct its parent")
            out.append(one)
        return out

    def without_share(self, account: str) -> bool:
        """Whether the account or one above it has a fairshare of 0."""
        return any(one in self._known and self._known[one].shares_raw == 0 for one in (account, *self.above(account)))

    def idle(self, owners: Collection[str]) -> list[str]:
        """The accounts with a fairshare, without accounts below them, that are not among the owners of jobs."""
        inner = {one.parent_account for one in self._known.values()}
        others = sorted(self._known.keys() - inner - {*owners, *_ROOT})
        return [one for one in others if not self.without_share(one)]

    def teams(self, owners: Collection[str], notes: Notes) -> tuple[dict[str, dict[str, str | None]], dict[str, float]]:
        """The labels of owners (`labels_of`), and the weights of accounts."""
        paths = {owner: self.above(owner) for owner in owners}
        inner = {account for path in paths.values() for account in path}
        labels = labels_of(paths)
        missing = sorted(set(owners) - self._known.keys())
        notes.add("{account} that {is} not in {file} {counts} as right below the root", *missing, file=self._document)
        notes.add(
            "{account} with tasks of its own and accounts below: these tasks are members beside those accounts",
            *(owner for owner in owners if owner in inner),
        )
        limited = [one for one in sorted({*owners, *inner}) if one in self._known and self._known[one].max.tres.total]
        limited = [] if self._limits_count else limited
        notes.add("{account} with limits (GrpTRES): not modelled, so that quotas do not repeat themselves", *limited)
        apart = [owner for owner in owners if len(self._users.get(owner, ())) > 1]
        notes.add("{account} whose users have different fairshares: they do not count", *apart)
        weights = {}
        for account in sorted({*owners, *inner}):
            share = self._known[account].shares_raw if account in self._known else None
            if share == _AS_PARENT:
                notes.add("{account} with the fairshare of the parent {counts} with a fairshare of 1", account)
            elif share:
                weights[account] = float(share)
        return labels, weights


def read_accounts(document: Mapping[str, Any], name: str) -> Accounts:
    """The accounts in the output of sacctmgr."""
    entries = document.get("associations")
    if not isinstance(entries, list):
        what = "is missing" if entries is None else f"is {shown(entries)}"
        fix = "give the output of sacctmgr show associations --json"
        raise InvalidInstance(f"{name}: associations {what}; {fix}")
    return Accounts(entries, name, bool(document.get("limits")))
