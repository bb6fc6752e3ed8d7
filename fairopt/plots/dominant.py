"""Dominant shares of users, or of teams, sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.shares import DominantShare
from fairopt.instance import Instance
from fairopt.plots.common import COLOURS, NUMBER, Inches, plain
from fairopt.plots.panels import Picture
from fairopt.questions.by_team import team_sums, teams_shown
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.display import shortened
from fairopt.runtime.tolerances import GAP_TOLERANCE

NAMED = 30  # most users with a bar and a name each
DECADES = 100.0  # ratio of the largest to the smallest positive share above which the axis is logarithmic
TITLE = "dominant share per weight (%)"


class DominantShares(Picture):
    """Bars by user for up to 30 users, in the order of the first allocation; a curve for more.

    If a team has several users, bars show the dominant shares of what teams hold together.
    """

    what = "dominant shares"

    def __init__(self, instance: Instance, allocations: Sequence[Allocation]) -> None:
        self.instance = instance
        self.by = teams_shown(instance)
        shares = [self._shares(a) for a in allocations]
        names = instance.users if self.by is None else team_sums(allocations[0], self.by, alone=True).names
        self.few = len(names) <= NAMED
        self.order = np.argsort(shares[0], kind="stable")
        self.largest = max(float(s.max(initial=0.0)) for s in shares)
        smallest = min(float(s[s > GAP_TOLERANCE * self.largest].min(initial=np.inf)) for s in shares)
        self.from_log = smallest if self.largest > DECADES * smallest else None
        self.limited = any(self._done(a).any() for a in allocations)
        self.size = (2.6, 0.2 * max(len(names), 4)) if self.few else (2.9, 2.7)
        self.beside = shortened([names[j] for j in self.order], 40) if self.few else ()

    def draw(self, ax: Any, allocation: Allocation | None) -> None:
        """Draw the bars with their numbers, or the curve."""
        assert allocation is not None
        shares = self._shares(allocation)
        shares[shares <= GAP_TOLERANCE * self.largest] = 0.0
        order = self.order if self.few else np.argsort(shares, kind="stable")
        colours = np.where(self._done(allocation)[order], COLOURS[4], COLOURS[0])
        at = np.arange(len(shares))
        if self.few:
            bars = ax.barh(at, shares[order], color=colours, height=0.75)
            ax.bar_label(bars, self._numbers(shares[order]), padding=2, fontsize=7, color="#404040", gid=NUMBER)
            ax.set_xlabel(TITLE)
            ax.set_xlim(0, 1.2 * self.largest or 1.0)  # leaves space for the numbers
            ax.set_ylim(-0.6, max(len(at), 1) - 0.4)
        else:
            ax.scatter(at, shares[order], c=colours, s=5, linewidths=0)
            ax.set_xlabel(f"{len(at):,} {'users' if self.by is None else 'teams'}, smallest first")
            ax.set_ylabel(TITLE)
            ax.margins(x=0.01)
            if self.from_log is not None:  # shows zeros, unlike a "log" scale
                ax.set_yscale("symlog", linthresh=self.from_log)
                ax.yaxis.set_major_formatter("{x:g}")
            ax.set_ylim(bottom=0 if self.from_log is None else -self.from_log / 4)
            ax.set_ylim(top=self.largest * (1.05 if self.from_log is None else 1.5) or 1.0)
        plain(ax)

    def _numbers(self, shares: Float) -> list[str]:
        """Format shares with the decimals that give the largest one three digits, at most four decimals."""
        decimals = int(np.clip(2 - np.floor(np.log10(self.largest or 1.0)), 0, 4))
        least = 10.0**-decimals
        return [f"<{least:g}" if 0 < x < least / 2 else f"{x:.{decimals}f}" if x else "0" for x in shares.tolist()]

    def room(self, size: Inches) -> Inches:
        """The space beside each bar."""
        return size[0], size[1] / max(len(self.beside), 1)

    def handles(self) -> list[Any]:
        """The two colours, if some user runs all its tasks."""
        from matplotlib.patches import Patch

        words = ("wants more", "runs all its tasks")
        made = [Patch(color=c, label=w) for c, w in zip((COLOURS[0], COLOURS[4]), words, strict=True)]
        return made if self.limited else []

    def _shares(self, allocation: Allocation) -> Float:
        if self.by is not None:
            sums = team_sums(allocation, self.by, alone=True)
            return np.array(100 * sums.dominant / sums.weights)
        return np.array(100 * allocation.share(DominantShare()) / allocation.instance.weights)

    def _done(self, allocation: Allocation) -> Bool:
        if self.by is not None:
            return team_sums(allocation, self.by, alone=True).done(allocation, GAP_TOLERANCE)
        return np.asarray(allocation.tasks >= allocation.instance.task_limits * (1 - GAP_TOLERANCE))
