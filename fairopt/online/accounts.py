"""A tree of accounts and users with shares and usage, and their fair-share factors: Fair Tree and the classic formula.

Of a node with raw shares s among siblings with S in sum, which used u of what the node above used, U:

* its *level* is (s / S) / (u / U): 0 without shares, infinite without usage. Fair Tree orders siblings by it, the
  largest first, from the root down; a user's factor is its rank from below over the number of users. Siblings that tie
  are one: users have one rank, the children of accounts are compared as siblings, and a user has the rank of the first
  user below an account that it ties with.
* its *classic* factor is 2^(-E / N / d). N is the product of s / S from the root down, and
  E = u / R + (E' - u / R) s / S, where R is the usage of all and E' is that of the node above.

Usage is what was billed, and a half-life ago counts half: at a constant rate r it goes from u to
u q + r (1 - q) h / ln 2 in a time t, with q = 2^(-t / h). Equal levels are found after rounding to 36 bits, so that
ties do not depend on the last digit of a power. All of it is in arrays, as it is computed at each event of a replay.

SchedMD, *Fair Tree Fairshare Algorithm* and *Classic Fairshare Algorithm* of Slurm's manual.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import pandas
from fairopt.solve.whole.greedy import to_36_bits

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Account:
    """An account, or a user in one, with its fairshare.

    Parameters
    ----------
    name : str
        The label; of a user that of its jobs, such as ``"bio/ann"``.
    parent : str, default ""
        The account above; "" at the top.
    shares : float or None, default 1
        Raw shares, which count among siblings alone. None are those of the parent: the children of such an account
        compete as children of the account above it, and such a user is the first of its account.
    usage : float, default 0
        What it was billed so far, with all below it, as ``RawUsage`` of ``sshare``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.Account("bio", shares=3, usage=3600)
    Account(name='bio', parent='', shares=3, usage=3600)
    """

    name: str
    parent: str = ""
    shares: float | None = 1.0
    usage: float = 0.0

    def __post_init__(self) -> None:
        for label, value in (("shares", self.shares), ("usage", self.usage)):
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not (number and 0 <= float(value or 0) < math.inf) and not (label == "shares" and value is None):
                raise InvalidInstance(f"{label} of {self.name!r} is {value!r}; give a finite number >= 0")


class Accounts:
    """The tree, its usage over time, and the factors of its users."""

    def __init__(self, accounts: Iterable[Account] = (), half_life: float | None = None) -> None:
        given = [*accounts]
        self.half_life, self.since = half_life, -math.inf
        self._by_name = {one.name: one for one in given}
        if twice := [name for name, number in Counter(one.name for one in given).items() if number > 1]:
            raise InvalidInstance(f"the account {twice[0]!r} is there twice; keep one")
        self.index: dict[str, int] = {}  # of those that compete
        self.names: list[str] = []
        self.parent, self.depth = np.zeros(0, dtype=int), np.zeros(0, dtype=int)  # -1: the root
        self.shares, self.own, self.rate = np.zeros(0), np.zeros(0), np.zeros(0)  # own: beside what children used
        below = dict.fromkeys(self._by_name, 0.0)
        for one in given:
            if one.parent and one.parent not in below:
                raise InvalidInstance(f"the parent of {one.name!r} is {one.parent!r}; {nearest(one.parent, below)}")
            if one.parent:
                below[one.parent] += one.usage
        self._inner = {one.parent for one in given}
        self._made: _Shape | None = None
        self._at_root = 0.0  # usage of accounts at the top whose children compete there
        for one in given:
            self._place(one.name, ())
        for one in given:
            left = max(0.0, one.usage - below[one.name])
            k = self._competing(one.name)
            if k < 0:
                self._at_root += left
            else:
                self.own[k] += left

    def _adopted(self, one: Account) -> bool:
        """Whether an account has the shares of its parent, so that its children compete as those of the parent."""
        return one.shares is None and one.name in self._inner

    def _competing(self, name: str) -> int:
        """The number of a node, or of the first above it that competes; -1 is the root."""
        while name and self._adopted(self._by_name[name]):
            name = self._by_name[name].parent
        return self.index[name] if name else -1

    def _place(self, name: str, path: tuple[str, ...]) -> None:
        """Add a node after those above it."""
        if name in self.index or (self._adopted(one := self._by_name[name]) and not one.parent):
            return
        if name in path:
            raise InvalidInstance(f"the account {name!r} is above itself; correct its parent")
        if one.parent:
            self._place(one.parent, (*path, name))
        if not self._adopted(one):
            above = self._competing(one.parent) if one.parent else -1
            self._append(name, above, math.nan if one.shares is None else float(one.shares))

    def _append(self, name: str, above: int, shares: float) -> int:
        k = self.index[name] = len(self.names)
        self.names.append(name)
        self.parent = np.append(self.parent, above)
        self.depth = np.append(self.depth, 0 if above < 0 else self.depth[above] + 1)
        self.shares = np.append(self.shares, shares)
        self.own, self.rate = np.append(self.own, 0.0), np.append(self.rate, 0.0)
        self._made = None
        return k

    def leaf(self, user: str, team: str | None, weight: float) -> int:
        """The number of the leaf whose usage is that of a user; one that is not in the tree is added.

        A user in no account of the tree is at the top, in its team if it has one; an account with accounts below it
        that has jobs of its own gets a user of one share.
        """
        if user in self.index and user not in self._inner:
            return self.index[user]
        if user in self._by_name:  # an account with others below
            above, name = user, f"{user}/"
        elif team is not None:
            above, name = team, user
            if team not in self._by_name:
                self._by_name[team] = Account(team)
                self._append(team, -1, 1.0)
        else:
            above, name = "", user
        if name not in self.index:
            self._by_name[name] = Account(name, above)
            self._inner.add(above)
            self._append(name, self._competing(above) if above else -1, weight)
        return self.index[name]

    def parent_of(self, name: str) -> str:
        """The account above one; "" at the top."""
        return self._by_name[name].parent if name in self._by_name else ""

    @property
    def leaves(self) -> Indices:
        """The users, and accounts without any, by number."""
        return self._shape.leaves

    @property
    def _shape(self) -> _Shape:
        """What follows from the tree alone, made again when it grows."""
        if self._made is None:
            self._made = _Shape(self.parent, self.depth, self.shares)
        return self._made

    # -- usage --------------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Bring usage to a time."""
        elapsed = now - self.since
        if 0 < elapsed < math.inf:
            if self.half_life is None:
                self.own += self.rate * elapsed
            else:
                kept = 2.0 ** (-elapsed / self.half_life)
                self.own = self.own * kept + self.rate * ((1 - kept) * self.half_life / math.log(2))
                self._at_root *= kept
        self.since = now

    def usage(self) -> tuple[Float, float]:
        """What each node used with all below it, and what all used."""
        used, shape = self.own.copy(), self._shape
        for at in shape.by_depth[:0:-1]:
            np.add.at(used, self.parent[at], used[at])
        return used, float(used[self.depth == 0].sum()) + self._at_root

    # -- factors ------------------------------------------------------------------------------------------------------

    def levels(self) -> Float:
        """The level of each node; those with the shares of the parent are infinite."""
        used, total = self.usage()
        above = np.append(used, total)[self.parent]
        with np.errstate(divide="ignore", invalid="ignore"):
            level = self._shape.part * above / used
        level = np.where((used > 0) & ~self._shape.as_parent, level, math.inf)
        return np.where(self._shape.part > 0, level, 0.0)

    def ranked(self) -> tuple[Indices, Indices]:
        """The leaves in Fair Tree's order, and their ranks, the first as many as there are leaves."""
        level, shape = self.levels(), self._shape
        finite = np.isfinite(level)
        key = np.full(len(level) + 1, -np.finfo(float).max)
        key[:-1][finite] = -to_36_bits(level[finite])
        key[-1] = -math.inf  # where a path has ended: a user comes before accounts
        paths = key[shape.paths]
        order = np.lexsort(paths.T[::-1])
        sorted_paths = paths[order]
        same = sorted_paths[1:] == sorted_paths[:-1]
        # tied with the one before: the same path, or one that goes on from its end
        tied = (same | (sorted_paths[:-1] == -math.inf)).all(axis=1)
        place = np.arange(len(order))
        place[1:][tied] = 0
        return shape.leaves[order], len(order) - np.maximum.accumulate(place)

    def fair_tree(self) -> Float:
        """The factor of each node by Fair Tree; NaN for accounts."""
        out = np.full(len(self.names), math.nan)
        order, rank = self.ranked()
        out[order] = rank / len(order)
        return out

    def classic(self, damping: float = 1.0) -> Float:
        """The classic factor of each node, between 0 and 1."""
        norm, _, effective = self.classic_parts()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(norm > 0, 2.0 ** (-effective / norm / damping), 0.0)

    def classic_parts(self) -> tuple[Float, Float, Float]:
        """Of each node the normalised shares, the part of all usage, and the effective usage."""
        used, total = self.usage()
        part, siblings, as_parent = self._shape.part, self._shape.siblings, self._shape.as_parent
        usage = used / total if total else np.zeros(len(used))
        norm, effective = part.copy(), usage.copy()
        for level, k in enumerate(self._shape.by_depth):
            above = self.parent[k]
            if level:
                norm[k] *= norm[above]
                of_level = np.where(siblings[k] > 0, part[k], 1.0)
                effective[k] += (effective[above] - effective[k]) * of_level
            for j in k[as_parent[k]].tolist():
                up = self.parent[j]
                norm[j], effective[j] = (1.0, 1.0) if up < 0 else (norm[up], effective[up])
        return norm, usage, effective


def fair_shares(accounts: Iterable[Account], *, damping: float = 1.0) -> pd.DataFrame:
    """The factors of accounts and users by what they used, as ``sshare`` shows them.

    Parameters
    ----------
    accounts : iterable of Account
        The tree, with usage.
    damping : float, default 1
        ``FairShareDampeningFactor``.

    Returns
    -------
    pandas.DataFrame
        By name: ``norm_shares``, ``norm_usage``, ``effective_usage`` and ``fairshare`` of the classic algorithm, and
        ``level_fs`` of Fair Tree.

    Examples
    --------
    >>> import fairopt as fo
    >>> accounts = [fo.online.Account("a", usage=30), fo.online.Account("b", shares=3, usage=30)]
    >>> fo.online.fair_shares(accounts)[["fairshare", "level_fs"]].round(6).values.tolist()
    [[0.25, 0.5], [0.629961, 1.5]]
    """
    tree = Accounts(accounts)
    columns = dict(zip(("norm_shares", "norm_usage", "effective_usage"), tree.classic_parts(), strict=True))
    columns |= {"fairshare": tree.classic(damping), "level_fs": tree.levels()}
    return pandas().DataFrame(columns, index=tree.names).rename_axis(index="account")


class _Shape:
    """What follows from a tree without usage."""

    def __init__(self, parent: Indices, depth: Indices, shares: Float) -> None:
        n, deepest = len(parent), int(depth.max(initial=0))
        self.by_depth = [np.flatnonzero(depth == level) for level in range(deepest + 1)]
        inner = np.zeros(n + 1, dtype=bool)
        inner[parent] = True
        self.leaves: Indices = np.flatnonzero(~inner[:-1])
        self.as_parent = np.isnan(shares)
        own, sums = np.nan_to_num(shares), np.zeros(n + 1)
        np.add.at(sums, parent, own)
        self.siblings = sums[parent]  # raw shares of a node and its siblings
        self.part = np.divide(own, self.siblings, out=np.zeros(n), where=self.siblings > 0)
        self.part[self.as_parent] = 1.0
        self.paths = np.full((len(self.leaves), deepest + 1), n)  # the nodes from the top to each leaf, then n
        at, row = self.leaves.copy(), np.arange(len(self.leaves))
        while len(at):
            self.paths[row, depth[at]] = at
            up = parent[at]
            at, row = up[up >= 0], row[up >= 0]
