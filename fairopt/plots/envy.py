"""Who envies whom: the envy matrix as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock
from fairopt.plots.common import cut, matplotlib_or_missing, new_figure
from fairopt.properties.envy import Envy

__all__ = ["envy_matrix"]

NAMED = 30  # users up to whom each has its name at the axes, and 12 its number in the cell
NUMBERED = 12


def envy_matrix(envy: Envy, ax: Any = None) -> Any:
    """A cell for each pair of users: orange where the row's user would run more on what the column's holds.

    Parameters
    ----------
    envy : Envy
        The witness of a verdict on envy.
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
    >>> from fairopt.properties.checks import check
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> ax = check(fo.KDF(2).allocate(cluster), "envy-free").plot()
    >>> ax.get_ylabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('this user', ['batch', 'web'])
    """
    if envy.matrix is None or not envy.users:
        raise InvalidBlock(f"no envy matrix of {len(envy.users):,} users to draw; there is one of 1 to 5,000 users")
    n = len(envy.users)
    if ax is None:
        side = 1.2 + 0.32 * max(n, 5) if n <= NAMED else 5.5
        ax = new_figure(side + 1.4, side).subplots()
    else:
        matplotlib_or_missing()
    percent = 100 * envy.matrix
    widest = max(float(np.abs(np.clip(percent, -100, None)).max(initial=0.0)), 1e-4)
    # white at 0, orange above and purple below: told apart with any colour vision
    image = ax.imshow(percent, cmap="PuOr_r", vmin=-widest, vmax=widest, interpolation="nearest")
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("more tasks on\nthe other's bundle (%)", fontsize=8)
    if n <= NAMED:
        names = [cut(user, 14) for user in envy.users]
        ax.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=8)
        ax.set_yticks(range(n), names, fontsize=8)
    if n <= NUMBERED:
        for j, k in zip(*np.nonzero(~np.eye(n, dtype=bool)), strict=True):
            dark = abs(percent[j, k]) > 0.6 * widest
            ax.text(k, j, f"{percent[j, k]:+.0f}", ha="center", va="center", fontsize=7,
                    color="white" if dark else "black")  # fmt: skip
    ax.set_xlabel("on what this user holds")
    ax.set_ylabel("this user")
    ax.tick_params(length=2)
    return ax
