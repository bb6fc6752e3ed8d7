"""Fairshares of accounts of Slurm, from what they are owed: weights, promises and the tree, not demand of now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

from fairopt import Instance
from fairopt.runtime import first_of
from fairopt_clusters.quotas.accounts import FAIRSHARE, to_sacctmgr
from fairopt_clusters.quotas.amounts import Amounts, Input
from fairopt_clusters.quotas.quota import Quota
from fairopt_clusters.quotas.team_quotas import Quotas, QuotaSource
from fairopt_clusters.quotas.teams import Teams
from fairopt_clusters.read.amounts import matching

_FINEST = 10_000  # shares of siblings are at most so many times those that they have
_CLOSE = Fraction(101, 100)  # of what is promised, and above it


class Shares(Amounts):
    """Fairshares. They idle nothing: who gets less than is owed goes first, and what it leaves goes to others.

    Weights are as they are or as asked for. A promise raises the fairshare of its account, and no other, until its part
    of the cluster is the largest part that is promised of any resource.
    """

    format = "slurm"

    def __init__(self, teams: Teams, given: Input, full: Instance) -> None:
        super().__init__(teams, given)
        self.full = full

    def quotas(self, source: QuotaSource) -> Quotas:
        """The fairshares with their text, which has lines for those that change."""
        made = super().quotas(source)
        return replace(made, changed=tuple(self._words(made.rows)))

    def _words(self, rows: Sequence[Quota]) -> list[str]:
        """What changes."""
        now = self.given.accounts.shares
        of = {row.team: f" in place of {share:g}" if (share := now.get(row.team)) is not None else "" for row in rows}
        return [f"Fairshare of {row.team} {row.amount:g}{of[row.team]}" for row in self._changed(rows)]

    def _first(self, rows: Sequence[Quota]) -> list[str]:
        words = self._words(rows)
        return [f"to do: {first_of(words)}" if words else "nothing to do: fairshares are what accounts are owed"]

    def _rows(self) -> tuple[list[Quota], list[str]]:
        shares, parts, notes = dict[str, int](), {"": Fraction(1)}, list[str]()
        now = self.given.accounts.shares
        for above, below in self._children.items():
            mine = [name for name in below if now.get(name, 0) is not None]
            made = raised([self._weight(name) for name in mine], [self._floor(name) for name in mine], parts[above])
            shares |= dict(zip(mine, made, strict=True))
            parts |= {name: parts[above] * Fraction(n, max(sum(made), 1)) for name, n in zip(mine, made, strict=True)}
            parts |= {name: parts[above] for name in below if name not in parts}  # with the share of its parent
        rows = [Quota(name, FAIRSHARE, "", float(n)) for name, n in shares.items()]
        rows = [row for row in rows if self.teams.every or row.team in self.teams.names]
        unknown = [
            f"{name} {resource}"
            for name, one in (self.given.accounts.contracts or {}).items()
            for resource in one.promised
            if matching(resource, self._on_all) is None
        ]
        notes += [f"promised of what no server has, which does not count: {first_of(unknown)}"] * bool(unknown)
        promised = [name for name in shares if self._own_floor(name)]
        if promised:
            said = first_of(f"{name} {100 * float(self._own_floor(name)):.3g}%" for name in promised)
            notes.append(f"promised, as the largest part of a resource of the cluster: {said}")
        if short := [name for name in promised if parts[name] < self._own_floor(name)]:
            said = first_of(f"{name} {100 * float(parts[name]):.3g}%" for name in short)
            notes.append(f"owed less than promised, as others keep a share: {said}")
        if (sums := sum(map(self._floor, self._children.get("", ())), Fraction(0))) > 1:
            notes.append(f"promises add up to {float(sums):.0%} of the cluster, and are kept in proportion")
        leaves = [f"{name} {float(parts[name]):.1%}" for name in shares if name not in self._children]
        notes += [f"owed of the cluster: {first_of(leaves)}"] * bool(leaves)
        if kept := [name for name, share in now.items() if share is None]:
            notes.append(f"with the fairshare of the parent, which stays: {first_of(kept)}")
        if among := [name for name in kept if self._own_floor(name)]:
            what = "promised without a fairshare of their own: the parent is owed it, and others in it may use it"
            notes.append(f"{what}: {first_of(among)}")
        notes.append("Slurm steers billed usage to these parts, as past usage decays; a fairshare stops nobody")
        return rows, notes

    def _text(self, rows: Sequence[Quota], comments: Sequence[str]) -> tuple[str, list[str]]:
        return to_sacctmgr(self._changed(rows), comments, self.given.accounts.cluster), []

    def _changed(self, rows: Sequence[Quota]) -> list[Quota]:
        """The rows that are not as they are now."""
        now = self.given.accounts.shares
        return [row for row in rows if now.get(row.team) != row.amount]

    # -- the tree -----------------------------------------------------------------------------------------------------

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        """The accounts below each, from the top down; "" is the root: of the input, else those with tasks."""
        labels, known = [*self.full.teams.outermost_first], self.given.accounts.above
        mine = labels if self.teams.by is None else labels[: labels.index(self.teams.by) + 1]
        found: dict[str, dict[str, None]] = {name: {} for name in ("", *known)}
        for name, parent in known.items():
            found[parent if parent in known else ""][name] = None
        for j, user in enumerate(self.full.users if not known else ()):
            path = [one for label in mine if (one := self.full.teams[label][j]) is not None] if mine else [user]
            for above, name in zip(("", *path), path, strict=False):
                found.setdefault(above, {})[name] = None
                found.setdefault(name, {})
        ordered, out = [""], dict[str, list[str]]()
        for name in ordered:  # grows
            ordered += found[name]
            out |= {name: [*found[name]]} if found[name] else {}
        return out

    @cached_property
    def _weights(self) -> dict[str, float]:
        """Weights by account: as they are, or as asked for."""
        full, now = self.full, self.given.accounts.shares
        own = {} if full.teams else dict(zip(full.users, full.own_weights.tolist(), strict=True))
        as_they_are = {name: share for name, share in now.items() if share is not None}
        return as_they_are | own | {name: full.team_weights.get(name, 1.0) for name in full.teams.names}

    def _weight(self, name: str) -> Fraction:
        return Fraction(self._weights.get(name, 1.0)).limit_denominator(1000)

    @cached_property
    def _on_all(self) -> dict[str, float]:
        """What all servers have."""
        total = dict(zip(self.full.resources, self.full.total_capacities.tolist(), strict=True))
        return total | {**self.given.accounts.there}

    def _own_floor(self, name: str) -> Fraction:
        """The largest part of what there is of a resource that an account is promised."""
        contract = (self.given.accounts.contracts or {}).get(name)
        total, floor = self._on_all, Fraction(0)
        for promised in (self.full.team_guarantees.get(name, {}), contract.promised if contract else {}):
            for resource, amount in promised.items():
                if (meant := matching(resource, total)) and total[meant] > 0:
                    floor = max(floor, Fraction(str(amount)) / Fraction(str(total[meant])))  # as they were written
        return min(floor, Fraction(1))

    def _floor(self, name: str) -> Fraction:
        """What an account is promised, or those below it together."""
        below = sum(map(self._floor, self._children.get(name, ())), Fraction(0))
        return max(self._own_floor(name), below)


def raised(weights: Sequence[Fraction], floors: Sequence[Fraction], part: Fraction) -> list[int]:
    """Whole shares of siblings by weights, raised until each has its floor of their part of all.

    Those that have it anyway keep their shares, or a multiple of them where whole numbers are too coarse. Shares that
    keep all floors are not changed. Floors that leave nothing for others are kept in proportion, and these keep
    their shares, a hundredth or less of any, as those with none are never first.
    """
    scale = math.lcm(*(one.denominator for one in weights))
    shares = [int(one * scale) for one in weights]
    if all(n * part >= floor * sum(shares) for n, floor in zip(shares, floors, strict=True)):
        return shares
    if sum(floors) >= part:
        scale = min(math.lcm(*(floor.denominator for floor in floors)), _FINEST)
        scale = scale if sum(floors) else 1
        made = [math.ceil(floor * scale) for floor in floors]
        made = [n // (math.gcd(*made) or 1) for n in made]
        others = sum(share for n, share in zip(made, shares, strict=True) if not n)
        return [n * 100 * others or share for n, share in zip(made, shares, strict=True)] if others else made
    bound, level = set[int](), Fraction(0)
    while True:  # by water-filling: level per share of those that no floor holds
        free, left = [k for k in range(len(shares)) if k not in bound], part - sum(floors[k] for k in bound)
        level = left / sum(shares[k] for k in free)
        if not (more := {k for k in free if shares[k] * level < floors[k]}):
            break
        bound |= more
    of_free = sum(shares[k] for k in free)
    for times in (1, 10, 100, 1000, _FINEST):
        for spare in (0, len(bound)):  # whole numbers need no more than one each
            total = math.ceil((times * of_free + spare) * part / left)
            made = [math.ceil(floors[k] * total / part) if k in bound else times * n for k, n in enumerate(shares)]
            if sum(made) <= total and all(made[k] * part <= floors[k] * sum(made) * _CLOSE for k in bound):
                return made
    return made
