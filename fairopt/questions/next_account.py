"""Which account's jobs come next by Fair Tree, by what number, and what would change it.

Two accounts are compared where their paths from the root part, by the levels of `fairopt.online.accounts`: shares over
usage, each as a part of those of siblings. Of siblings p and q with shares s and usage u, q is first if
s_q / u_q > s_p / u_p. So p comes first once q has used more than s_q u_p / s_p, or with shares above s_q u_p / u_q.
That all usage decays by one half-life changes neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from fairopt.errors import InvalidInstance, nearest
from fairopt.online import Account
from fairopt.online.accounts import Accounts
from fairopt.questions.explanation import figure, listed
from fairopt.solve.whole.greedy import to_36_bits

HOUR = 3600.0


class NextAccounts:
    """The accounts whose jobs wait, the next one first."""

    def __init__(self, accounts: Sequence[Account], waiting: Iterable[str]) -> None:
        self.tree = Accounts(accounts)
        self.used, _ = self.tree.usage()
        self.levels = self.tree.levels().tolist()
        names = [name for name in dict.fromkeys(waiting) if name in self.tree.index]
        self.order = sorted(names, key=lambda name: (*(self._key(k) for k in self._path(name)), name))

    def _path(self, name: str) -> list[int]:
        """The numbers of an account and of those above it, from the top."""
        path = [self.tree.index[name]]
        while (above := int(self.tree.parent[path[0]])) >= 0:
            path.insert(0, above)
        return path

    def _key(self, k: int) -> tuple[float, str]:
        """Where an account is among its siblings; ties are in order of names, so that all below one stay together."""
        level = self.levels[k]
        return -(to_36_bits(level) if math.isfinite(level) else math.inf), self.tree.names[k]

    def parting(self, name: str, other: str) -> tuple[int, int] | None:
        """Where the paths of two accounts part: the two siblings; None if one is above the other."""
        pairs = zip(self._path(name), self._path(other), strict=False)
        return next(((p, q) for p, q in pairs if p != q), None)

    def sentences(self, name: str) -> list[str]:
        """What comes before an account, and what it would take to be first."""
        if name not in self.tree.index:
            raise InvalidInstance(f"there is no account {name!r}; {nearest(name, self.tree.index)}")
        before = [one for one in self.order if (at := self.parting(name, one)) and self._key(at[1]) < self._key(at[0])]
        seen, out = set[tuple[int, int]](), list[str]()
        for other in before:
            at = self.parting(name, other)
            assert at is not None
            if at not in seen:
                seen.add(at)
                out.append(self._reason(*at))
        if name in self.order and not before:
            out.append(f"{name} is next: no other account whose jobs wait has a higher level (shares over usage)")
        elif not any(self.tree.index[name] in self._path(one) for one in self.order):
            out.append(f"no jobs of {name} wait")
        return [f"{one}." for one in out]

    def _reason(self, p: int, q: int) -> str:
        """Why one of two siblings is before the other, and what would change it."""
        names, shares, used = self.tree.names, self.tree.shares, self.used
        mine, other = (self.levels[k] for k in (p, q))
        text = f"{names[q]} (level {_level(other)}) is before {names[p]} ({_level(mine)})"
        above = int(self.tree.parent[p])
        text += f" in {names[above]}" if above >= 0 else ""
        if self._key(p)[0] == self._key(q)[0]:
            return f"{text.replace(' is before ', ' ties with ')}: the order of priorities or of arrival decides"
        fixes = []
        if shares[p] > 0 and not math.isnan(shares[q]):
            more = float(shares[q] * used[p] / shares[p] - used[q])
            fixes.append(f"once {names[q]} has been billed for more than {figure(more / HOUR)} further hours")
        if used[q] > 0 and not math.isnan(shares[p] + shares[q]):
            enough = float(shares[q] * used[p] / used[q])
            fixes.append(f"with a fairshare above {figure(enough)} in place of {figure(float(shares[p]))}")
        if not fixes:
            return f"{text}, and stays so while {names[p]} has no shares" if not shares[p] else text
        return f"{text}: {names[p]} would be first {' or '.join(fixes)}"

    def in_order(self) -> str:
        """All of them in a sentence."""
        return f"Next by Fair Tree, of accounts whose jobs wait: {listed(self.order)}."

    def to_dict(self) -> dict[str, Any]:
        """The order, and the level of each account, None where it is infinite."""
        levels = dict(zip(self.tree.names, self.levels, strict=True))
        return {
            "order": self.order,
            "levels": {name: level if math.isfinite(level) else None for name, level in levels.items()},
        }


def _level(level: float) -> str:
    return "infinite, nothing used" if math.isinf(level) else figure(level)
