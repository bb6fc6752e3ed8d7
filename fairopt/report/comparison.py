"""Several policies side by side on one instance: as data and as tables."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import FairoptError, InvalidBlock, MissingExtra
from fairopt.formulation import solvers
from fairopt.instance import Instance
from fairopt.report import layout
from fairopt.report.frames import FrameColumns, csv_text
from fairopt.report.outcomes import Outcome, ask_all, mechanisms
from fairopt.report.tables import Column, Table, both_ends, numbers, shortened, type_tables, users_column
from fairopt.server_sums import ByType, by_type, several_types

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "compare"]

FORMAT = "fairopt.comparison/1"
SAME = 1e-4  # optima are flat: a certified gap of 1e-11 leaves up to 1e-5 in the tasks


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Policies side by side on one instance; made by `compare`.

    Attributes
    ----------
    instance : Instance
        The question that all were asked.
    outcomes : tuple of Outcome
        One per policy, in the order asked for.
    unanswered : tuple of str
        The policies that Ctrl-C came before.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> comparison = fo.compare(["drf", "nash", "fds:alpha=1"], cluster)
    >>> list(comparison.allocations)
    ['DRF', 'Nash welfare', 'FDS(alpha=1)']
    >>> comparison.findings()
    ['Nash welfare and FDS(alpha=1) give every user the same tasks (to 4 digits)']
    """

    instance: Instance
    outcomes: tuple[Outcome, ...]
    unanswered: tuple[str, ...] = ()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped the comparison before all policies were asked."""
        return bool(self.unanswered)

    @property
    def allocations(self) -> dict[str, Allocation]:
        """The allocations by the policy's name; policies without an answer are left out."""
        return {o.policy: o.allocation for o in self.outcomes if o.allocation is not None}

    @property
    def errors(self) -> dict[str, FairoptError]:
        """The errors of policies without an answer, by the policy's name."""
        return {o.policy: o.error for o in self.outcomes if o.error is not None}

    def rows(self) -> list[dict[str, Any]]:
        """One dict per policy.

        Returns
        -------
        list of dict
            ``policy``, ``certified``, the keys of `Allocation.metrics` (``ntt``, ``aur``, ``jain``,
            ``smallest_dominant_share``, ``utilisation`` and ``utilisation_of_tasks``, dicts by resource), ``method``,
            ``solver``, ``gap``, ``whole``, ``violation``, ``seconds``, and ``error``: None, or the reason, with None
            for the numbers.
        """
        return [o.row() for o in self.outcomes]

    def by_server_type(self) -> list[dict[str, Any]]:
        """One dict per policy with an answer and type of server (`Instance.server_types`).

        Returns
        -------
        list of dict
            ``policy``, ``server_type`` (``all servers`` where the instance names none), ``servers`` (how many),
            ``tasks`` of all users that run there, ``utilisation`` (the part of the type's capacity that users hold) and
            ``utilisation_of_tasks`` (the part that tasks use), dicts by resource, with None where the type has none.

        Notes
        -----
        Placements with the same tasks for every user can differ: this is the one found.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[2, 3], [2, 1]], [[6, 4], [6, 4], [9, 0]], resources=["cpu", "gpu"],
        ...                       server_types=["T4", "T4", "no GPU"])
        >>> t4, none = fo.compare("drf", cluster).by_server_type()
        >>> t4["servers"], round(t4["tasks"], 4), none["tasks"], none["utilisation"]
        (2, 5.3333, 0.0, {'cpu': 0.0, 'gpu': None})
        """
        return self.by_type.rows()

    @cached_property
    def by_type(self) -> ByType:
        """Sums over the servers of each type."""
        return by_type(self.instance, self.allocations)

    def findings(self) -> list[str]:
        """Sentences on what the comparison shows at a glance: that everything fits, or which policies agree."""
        found = self.allocations
        if not found:
            return []
        limits = self.instance.task_limits
        limited = len(limits) > 0 and bool(np.isfinite(limits).all())
        if limited and all((a.tasks >= limits * (1 - 1e-6)).all() for a in found.values()):
            each = "each policy" if len(found) > 1 else "this policy"
            return [f"everything fits: every user runs all its tasks under {each}"]
        groups: list[list[str]] = []
        for name, allocation in found.items():
            tasks, zero = allocation.tasks, SAME * 1e-3 * float(allocation.tasks.max(initial=0.0))
            same = (g for g in groups if np.allclose(found[g[0]].tasks, tasks, rtol=SAME, atol=zero))
            if (group := next(same, None)) is None:
                groups.append([name])
            else:
                group.append(name)
        return [f"{layout.listed(g)} give every user the same tasks (to 4 digits)" for g in groups if len(g) > 1]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data for ``json.dumps``: the rows, each with ``tasks`` by user, and the findings.

        Where the instance names more than one type of server, `by_server_type` too, else an empty list. ``notes`` are
        those of the instance's reader, ``units`` by resource, or None; ``unanswered`` names the policies that were not
        asked before Ctrl-C.
        """
        instance = self.instance
        rows = self.rows()
        for row, made in zip(rows, self.outcomes, strict=True):
            tasks = None if made.allocation is None else made.allocation.tasks.tolist()
            row["tasks"] = None if tasks is None else dict(zip(instance.users, tasks, strict=True))
        return {
            "format": FORMAT,
            "instance": {
                "users": instance.n_users,
                "servers": int(instance.counts.sum()),
                "resources": dict(zip(instance.resources, instance.total_capacities.tolist(), strict=True)),
            },
            "units": None if instance.units is None else dict(zip(instance.resources, instance.units, strict=True)),
            "notes": list(instance.notes),
            "findings": self.findings(),
            "interrupted": self.interrupted,
            "unanswered": list(self.unanswered),
            "rows": rows,
            "by_server_type": self.by_server_type() if several_types(instance) else [],
        }

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame by policy, one column for each number, named as in `flat_rows`.

        Returns
        -------
        pandas.DataFrame
            For Polars: ``polars.DataFrame(comparison.flat_rows())``.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "parquet", "to_frame()") from error
        rows = self.flat_rows()
        return pd.DataFrame(rows, columns=None if rows else ["policy"]).set_index("policy")

    def to_csv(self) -> str:
        """`flat_rows` as CSV with a header, every number in full, and nothing where there is none."""
        return csv_text(self.flat_rows(), ["policy"])

    def flat_rows(self) -> list[dict[str, Any]]:
        """`rows` with a column for each utilisation, as tables want it.

        Returns
        -------
        list of dict
            ``used <resource>`` and ``used by tasks <resource>``; where there is more than one type of server
            ``tasks on <type>``, ``used <resource> on <type>`` and ``used by tasks <resource> on <type>`` too. Where a
            resource's name makes two names alike, as ``cpu on T4`` would, the second gets " (resource)" after it.
        """
        flat: list[dict[str, Any]] = []
        for row in self.rows():
            keys = (("utilisation", "used"), ("utilisation_of_tasks", "used by tasks"))
            parts = {words: row.pop(key) or dict.fromkeys(self.instance.resources) for key, words in keys}
            line = FrameColumns(row)
            for words, of in parts.items():
                for resource, part in of.items():
                    line.add(f"{words} {resource}", None if part is None or np.isnan(part) else part)
            for name, value in self.by_type.flat(row["policy"]).items() if several_types(self.instance) else ():
                line.add(name, value)
            flat.append(dict(line))
        return flat

    def to_markdown(self) -> str:
        """A table in Markdown, and under it the findings, errors, notes of the reader, and tables by type of server."""
        return layout.markdown(self)

    def to_latex(self) -> str:
        r"""A tabular with the rules of booktabs; findings, errors and notes are comments under it.

        Returns
        -------
        str
            For a preamble with ``\usepackage{booktabs}``, with a tabular more for each table by type of server. Letters
            beyond ASCII are kept, for an engine and a font that have them.

        Examples
        --------
        >>> import fairopt as fo
        >>> print(fo.compare("drf", fo.Instance([[2, 3], [2, 1]], [6, 4])).to_latex().splitlines()[1])
        \begin{tabular}{lrrrrrlrrr}
        """
        return layout.latex(self)

    def plot(self, axes: Any = None, kind: str = "shares", *, users: Any = None, resources: Any = None) -> Any:
        """One panel per policy with the same scales and colours; needs the extra ``plots``.

        Parameters
        ----------
        axes : sequence of matplotlib.axes.Axes, optional
            Where to draw, one per policy with an answer.
        kind : str, default "shares"
            As in `Allocation.plot`; a ``region`` of two users is one panel with a point per policy.
        users, resources : (str, str), optional
            The two at the axes of ``region`` and of ``demands``, where there are more.

        Returns
        -------
        list of matplotlib.axes.Axes
        """
        from fairopt import plots

        return plots.comparison(self, axes, kind, users, resources)

    def plot_server_types(self, axes: Any = None) -> Any:
        """Tasks and use of each resource by type of server, bars by policy; needs the extra ``plots``.

        Parameters
        ----------
        axes : sequence of matplotlib.axes.Axes, optional
            Where to draw: one for tasks, and one for each resource.

        Returns
        -------
        list of matplotlib.axes.Axes
        """
        from fairopt import plots

        return plots.server_types(self, axes=axes)

    def server_type_tables(self, whole_names: bool = False) -> list[Table]:
        """Tasks, and use of each resource, by policy and type of server, for `rich`.

        Parameters
        ----------
        whole_names : bool, default False
            Do not shorten names of policies and types.

        Returns
        -------
        list of Table
            Empty where the instance names fewer than two types, or no policy has an answer.
        """
        return type_tables(self.by_type, whole_names) if several_types(self.instance) and self.allocations else []

    def tasks_table(self) -> Table:
        """Tasks of each user under each policy, for `rich`."""
        tasks = np.array([a.tasks for a in self.allocations.values()])
        spread = np.ptp(tasks, axis=0) if len(tasks) else np.zeros(self.instance.n_users)
        names, chosen = shortened(list(self.allocations)), both_ends(spread)
        columns = [Column(n, numbers(a.tasks[chosen])) for n, a in zip(names, self.allocations.values(), strict=True)]
        return Table("Tasks of each user", users_column(self.instance, chosen), [columns])

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from layout.console(self)

    def __str__(self) -> str:
        """The table as text, as wide as the terminal and without colours."""
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, color_system=None).print(self)
        return text.getvalue().rstrip("\n")

    def __repr__(self) -> str:
        stopped = f", interrupted: {len(self.unanswered)} more not answered" if self.interrupted else ""
        return f"<Comparison of {layout.listed([o.policy for o in self.outcomes])} on {self.instance!r}{stopped}>"

    def _repr_html_(self) -> str:
        return layout.page(self)


def compare(
    policies: Any,
    instance: Instance,
    *,
    method: str = "auto",
    solver: str | None = None,
    solver_options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
    integral: bool | Literal["rounded"] = False,
) -> Comparison:
    """Ask several policies about one instance.

    Parameters
    ----------
    policies : iterable of Policy, mechanism or str, or dict of these by name
        Strings are read by `named_policy`.
    instance : Instance
        Users and servers.
    method, solver, solver_options, time_limit, verbose, integral
        For each ``allocate``; see `Policy.allocate`. What is left at its default is not passed on, so that any
        mechanism can be asked. ``time_limit`` holds for each policy, not for all together.

    Returns
    -------
    Comparison
        A policy without an answer (as 2-DF where a user needs one resource only) is a row with its error. Ctrl-C
        returns the answers so far: ``interrupted`` is True, and ``unanswered`` names the rest.

    Raises
    ------
    InvalidBlock, SolverUnavailable
        If a name is unknown; before anything is solved.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> c = compare(["drf", fo.KDF(2)], cluster)
    >>> [round(row["ntt"], 4) for row in c.rows()]
    [15.0, 17.3077]
    >>> c.allocations["2-DF"].tasks.round(4)
    array([ 1.9231, 15.3846])
    """
    if not isinstance(instance, Instance):
        raise InvalidBlock(f"compare(..., {type(instance).__name__}): give an Instance second, or fairopt.read(path)")
    if solver is not None:
        solvers.named(solver)
    options = {
        "method": method,
        "solver": solver,
        "solver_options": solver_options,
        "time_limit": time_limit,
        "verbose": verbose,
        "integral": integral,
    }
    outcomes: list[Outcome] = []
    left = ask_all(mechanisms(policies), instance, outcomes, **options)
    return Comparison(instance, tuple(outcomes), left)
