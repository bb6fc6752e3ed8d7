"""Who envies whom: the envy matrix as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.plots.common import room_for
from fairopt.plots.panels import Inches, Picture, one
from fairopt.plots.words import inches, lines_high, shorter, ticks_below, ticks_beside
from fairopt.properties.envy import WHOLE, Envy, envy

__all__ = ["EnvyMatrix", "check_users", "envy_matrix"]

NAMED = 30  # users up to whom each has its name at the axes, and 12 its number in the cell
NUMBERED = 12
MOST = 100.0  # percent at an end of the scale: nobody can want another's bundle less, and some want it 60 times as much
NUMBERS = (7.0, 6.0, 5.0)  # points of numbers in cells
CELL = 0.32  # inches that a user takes


class EnvyMatrix(Picture):
    """A cell for each pair of users, with one scale for all panels."""

    scale_title = "more tasks on\nthe other's bundle (%)"

    def __init__(self, found: Sequence[Envy], allocations: Sequence[Allocation] = ()) -> None:
        users = found[0].users
        check_users(len(users))
        self._of = dict(zip(map(id, allocations), found, strict=False)) if allocations else {id(None): found[0]}
        percents = [100 * e.matrix for e in found if e.matrix is not None]
        if len(percents) < len(found):
            raise InvalidBlock(f"no envy matrix of {len(users):,} users to draw; who envies whom most is in .whom")
        self.n = len(users)
        largest = max(float(p.max(initial=0.0)) for p in percents)
        smallest = min(float(p.min(initial=0.0)) for p in percents)
        self.widest = max(min(max(largest, -smallest), MOST), 1e-4)
        self.scale_beyond = largest > MOST
        self.users = [shorter(user, 14) for user in users] if self.n <= NAMED else []
        side = CELL * max(self.n, 5) if self.users else 3.6
        self.size = (side, side)
        if self.users:
            self.names, self.below, self.left = self.users, 0.35, room_for(self.users)

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """White where there is no envy, orange above and purple below: told apart with any colour vision."""
        matrix = self._of[id(allocation)].matrix
        assert matrix is not None
        percent = 100 * matrix
        image = ax.imshow(percent, cmap="PuOr_r", vmin=-self.widest, vmax=self.widest, interpolation="nearest",
                          aspect="auto")  # fmt: skip
        if self.n <= NUMBERED:
            for j, k in zip(*np.nonzero(~np.eye(self.n, dtype=bool)), strict=True):
                dark = abs(percent[j, k]) > 0.6 * self.widest
                ax.text(k, j, _signed(percent[j, k]), ha="center", va="center", fontsize=NUMBERS[0],
                        color="white" if dark else "black", in_layout=False)  # fmt: skip
        ax.set_xlabel("on what this user holds", fontsize=9)
        ax.set_ylabel("this user", fontsize=9)
        ax.tick_params(length=2, labelsize=8)
        return image

    def fit(self, ax: Any, size: Inches, names: Inches) -> None:
        """Names of users, and numbers that have room in their cells."""
        if not self.users:
            for axis, room in zip("xy", size, strict=True):
                ax.locator_params(axis=axis, nbins=min(max(int(room / 0.5), 1), 5), integer=True)
            return
        wide, high = (room / self.n for room in size)
        shown = [text.get_text() for text in ax.texts]
        points = next((p for p in NUMBERS if lines_high(1, p) < high and all(inches(t, p) < wide for t in shown)), 0.0)
        for text in ax.texts:
            text.set_visible(points > 0)
            text.set_fontsize(points or NUMBERS[-1])
        ticks_beside(ax, self.users, size[1], names[0])
        ticks_below(ax, self.users, size[0], names[1])


def check_users(n_users: int) -> None:
    """Refuse a matrix of nobody, or of too many."""
    if not 1 <= n_users <= WHOLE:
        raise InvalidBlock(f"no envy matrix of {n_users:,} users to draw; there is one of 1 to {WHOLE:,} users")


def envy_matrix(subject: Allocation | Envy, ax: Any = None) -> Any:
    """A cell for each pair of users: orange where the row's user would run more on what the column's holds.

    Parameters
    ----------
    subject : Allocation or Envy
        Any allocation, or the witness of a verdict on envy. Up to 30 users have their names at the axes.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the scale goes beside it. Default: the only axes of a new figure, ``ax.figure``.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingExtra
        Without matplotlib.
    InvalidBlock
        If there is no matrix, since there are no users or too many.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> ax = envy_matrix(fo.KDF(2).allocate(cluster))
    >>> ax.get_ylabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('this user', ['batch', 'web'])
    """
    if isinstance(subject, Envy):
        return one(EnvyMatrix([subject]), None, ax)
    if not isinstance(subject, Allocation):
        raise InvalidBlock(f"envy_matrix({type(subject).__name__}): give an Allocation, or the witness of a verdict")
    check_users(subject.instance.n_users)
    return one(EnvyMatrix([envy(subject)], [subject]), subject, ax)


def _signed(percent: float) -> str:
    return "0" if abs(percent) < 0.5 else f"{percent:+.0f}"
