"""An instance as plain data, as data frames and as a picture, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairopt.accessor import later
from fairopt.derived import Derived
from fairopt.errors import InvalidInstance

if TYPE_CHECKING:
    from fairopt.instance import Instance

__all__ = ["Exchange"]


class Exchange(Derived):
    """The part of `fairopt.Instance` by which it comes from other forms and goes into them."""

    def to_dict(self) -> dict[str, Any]:
        """The instance as plain lists, numbers and strings, as `from_dict` and the JSON schema take it."""
        limits = [None if np.isinf(t) else float(t) for t in self.task_limits]
        return {
            "users": list(self.users), "resources": list(self.resources), "servers": list(self.servers),
            "server_types": None if self.server_types is None else list(self.server_types),
            "units": None if self.units is None else list(self.units),
            "demands": self.demands.tolist(), "capacities": self.capacities.tolist(),
            "weights": self.weights.tolist(), "task_limits": limits,
            "eligible": None if self.eligible.all() else self.eligible.tolist(), "counts": self.counts.tolist(),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """An instance from what `to_dict` gives."""
        try:
            return cls(**data)
        except TypeError as error:
            raise InvalidInstance(f"this is no instance as to_dict gives it: {error}") from error

    @classmethod
    def from_frames(cls, users: Any, servers: Any, demands: Any = None) -> Instance:
        """An instance from data frames of pandas, Polars or pyarrow, or of what else narwhals reads.

        Parameters
        ----------
        users : data frame
            A row per user: ``user``, optionally ``weight`` (null or NaN: 1), ``task_limit`` (null or NaN: none) and
            ``servers`` (names as a list or joined by ``|``, null: everywhere); every other column is a resource, in
            units per task. Names are text or whole numbers. Levels of an index of
            pandas that have a name count as columns.
        servers : data frame
            A row per server: ``server``, optionally ``count`` and ``type``; every other column is a resource, in units
            on each server. A column ``memory [GiB]`` is the resource ``memory`` in GiB, in both frames.
        demands : data frame, optional
            Where demands differ by server: a row for each user and server where it may run, with ``user``, ``server``
            and the resources, which ``users`` then has not.

        Returns
        -------
        Instance
            Demands in single precision where all columns of resources are, else in double; so are capacities.

        Raises
        ------
        InvalidInstance
            Names the frame, the row (counted from 0), the column, the value and the fix. Text is not taken for numbers.
        MissingExtra
            If narwhals is not installed.

        Examples
        --------
        >>> import pandas as pd
        >>> import fairopt as fo
        >>> users = pd.DataFrame({"user": ["batch", "web"], "cpu": [4, 1], "memory [GiB]": [8.0, 2.5]})
        >>> servers = pd.DataFrame({"server": ["small", "large"], "count": [10, 2], "cpu": 16, "memory [GiB]": 64})
        >>> cluster = fo.Instance.from_frames(users, servers)
        >>> cluster
        Instance(2 users x 2 resources on 12 servers in 2 rows)
        >>> cluster.resource_titles
        ('cpu', 'memory (GiB)')
        """
        return later("Instance.from_frames")(users, servers, demands)

    def to_frames(self, backend: str = "pandas") -> tuple[Any, ...]:
        """The instance as data frames, which `from_frames` turns into an equal one, to the last bit.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            Of what library.

        Returns
        -------
        tuple of data frames
            Users and servers, and demands if they differ by server. Columns that would say nothing are not there, as
            weights of 1; no task limit is infinity, servers are lists of names and None for everywhere. Numbers in
            single precision stay so.

        Raises
        ------
        InvalidInstance
            If a label cannot be in a table, as a resource called ``weight``.
        MissingExtra
            If the library is not installed.

        Examples
        --------
        >>> import fairopt as fo
        >>> users, servers = fo.Instance([[1, 2]], [4, 4], resources=["cpu", "memory"]).to_frames()
        >>> users
            user  cpu  memory
        0  user1  1.0     2.0
        """
        return later("Instance.to_frames")(self, backend)

    def plot(self, ax: Any = None, kind: str = "demands", *, users: Any = None, resources: Any = None) -> Any:
        """How much users differ, as in Fig. 2 of Joe-Wong et al. (2013); needs the extra ``plots``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw.
        kind : str, default "demands"
            ``demands`` as lines in the plane of two resources, or the ``region`` of what two users can run.
        users, resources : (str, str), optional
            The two at the axes, where there are more.

        Returns
        -------
        matplotlib.axes.Axes
        """
        return later("Instance.plot")(self, kind, ax, users, resources)
