"""The envy matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.plots.common import Inches, number_in_cell
from fairopt.plots.panels import Picture, one
from fairopt.properties.envy import WHOLE, Envy
from fairopt.runtime.display import shortened
from fairopt.runtime.tolerances import GAP_TOLERANCE

NAMED = 30  # most users with names at the axes
NUMBERED = 12  # most users with numbers in the cells
NONE = "no user envies another"
MAX_PERCENT = 100.0  # largest percentage on the scale; entries are at least -100 and have reached 6,000
SHADES = ((0.0, "#DCE6EE"), (0.5, "#FFFFFF"), (0.6, "#FDD0A2"), (0.8, "#E6700F"), (1.0, "#8C2D04"))


class EnvyMatrix(Picture):
    """A cell for each pair of users, with one scale for all panels.

    A cell is orange if the row's user would run more tasks on the bundle of the column's user, white if equally many,
    and pale blue if fewer.
    """

    what = "envy"
    scale_title = "more tasks on\nthe other's bundle (%)"

    def __init__(self, found: Sequence[Envy], allocations: Sequence[Allocation] = ()) -> None:
        self.users = found[0].users
        check_users(len(self.users))
        self._of = dict(zip(map(id, allocations) if allocations else [id(None)], found, strict=True))
        percents = [100 * e.matrix for e in found if e.matrix is not None]
        if len(percents) < len(found):
            raise InvalidBlock(f"no envy matrix of {len(self.users):,} users to draw; who envies whom most is in .whom")
        largest = max(float(p.max(initial=0.0)) for p in percents)
        smallest = min(float(p.min(initial=0.0)) for p in percents)
        widest = max(largest, -smallest)
        self.widest = min(widest, MAX_PERCENT) if widest > 100 * GAP_TOLERANCE else 1.0
        self.scale_beyond = largest > MAX_PERCENT
        n = len(self.users)
        side = 0.32 * max(n, 5) if n <= NUMBERED else 0.2 * n if n <= NAMED else 3.6
        self.size = (side, side)
        if n <= NAMED:
            self.below = self.beside = shortened(self.users, 24)

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Draw the cells, with numbers for up to 12 users."""
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.ticker import MaxNLocator

        matrix = self._of[id(allocation)].matrix
        assert matrix is not None
        percent = 100 * matrix
        shades = LinearSegmentedColormap.from_list("envy", SHADES)
        image = ax.imshow(
            percent, cmap=shades, vmin=-self.widest, vmax=self.widest, interpolation="nearest", aspect="auto"
        )
        if len(percent) <= NUMBERED:
            for (j, k), value in np.ndenumerate(percent):
                if j != k:
                    words = "0" if abs(value) < 0.5 else f"{value:+.0f}"
                    number_in_cell(ax, k, j, words, on_dark=bool(value > 0.5 * self.widest))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set_xlabel("on what this user holds")
        ax.set_ylabel("this user")
        ax.tick_params(length=2, labelsize=8)
        return image

    def finding(self, allocation: Allocation | None) -> str:
        """The number of users that envy another."""
        number = len(self._of[id(allocation)].pairs(GAP_TOLERANCE))
        return f"{number:,} of {len(self.users):,} users env{'ies' if number == 1 else 'y'} another" if number else NONE

    def room(self, size: Inches) -> Inches:
        """The size of a cell."""
        return size[0] / len(self.users), size[1] / len(self.users)


def check_users(n_users: int) -> None:
    """Raise `InvalidBlock` for no users, or for too many."""
    if not 1 <= n_users <= WHOLE:
        raise InvalidBlock(f"no envy matrix of {n_users:,} users to draw; give an instance with 1 to {WHOLE:,} users")


def envy_matrix(found: Envy, ax: Any = None) -> Any:
    """Draw the witness of a verdict on envy; see `Verdict.plot`.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> ax = envy_matrix(fo.check(fo.KDF(2).allocate(cluster))["envy-free"].details)
    >>> ax.get_ylabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('this user', ['batch', 'web'])
    """
    return one(EnvyMatrix([found]), None, ax)
