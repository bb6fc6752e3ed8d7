"""Several policies on one instance: as data, tables, Markdown and LaTeX."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairopt.allocation import Allocation, units_of
from fairopt.errors import FairoptError, InvalidBlock
from fairopt.instance import Instance
from fairopt.questions.by_server import ByType, by_type, several_types
from fairopt.questions.by_team import team_sums
from fairopt.questions.held import most_used
from fairopt.report import markup
from fairopt.report.frames import FrameColumns, csv_text
from fairopt.report.outcomes import Outcome, ask_all, mechanisms
from fairopt.report.tables import (
    PLACEMENT,
    Column,
    Table,
    both_ends,
    described_instance,
    described_teams,
    numbers,
    percents,
    tasks_and_units,
    team_tables,
    type_tables,
    users_column,
)
from fairopt.runtime.display import sentence, short, shortened, visible
from fairopt.runtime.lazy import pandas
from fairopt.runtime.tolerances import ROUNDING, SAME_TASKS
from fairopt.solve.form import solvers

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "fairopt.comparison/1"
LEGEND = (
    "tasks: total of all users (NTT). Jain, least share: Jain's index and the smallest of the dominant shares per "
    "weight of users who have fewer tasks than their limit. Percentages: used part of each resource"
)
LOST = ". gap of whole tasks: distance to the divisible optimum, at most"
HELD = " (allocated to users; by tasks: used by their tasks)"
AUR = "AUR: unused units, summed over resources"
MIXED = " (Jiang and Wu 2021), even if their units differ"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several policies on one instance; made by `compare`.

    Attributes
    ----------
    instance : Instance
        Users and servers.
    outcomes : tuple of Outcome
        One per policy, in the given order.
    unanswered : tuple of str
        The policies that were not solved because Ctrl-C stopped the comparison.

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
        """Whether Ctrl-C stopped the comparison."""
        return bool(self.unanswered)

    @property
    def allocations(self) -> dict[str, Allocation]:
        """The allocations by policy name, without policies that failed."""
        return {o.policy: o.allocation for o in self.outcomes if o.allocation is not None}

    @property
    def errors(self) -> dict[str, FairoptError]:
        """The errors of policies that failed, by policy name."""
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
        """One dict per policy that was solved and type of server (`Instance.server_types`).

        Returns
        -------
        list of dict
            ``policy``, ``server_type`` (``all servers`` if the instance has no types), ``servers`` (their number),
            ``tasks`` (total on this type), ``utilisation`` (fraction of the capacity allocated to users) and
            ``utilisation_of_tasks`` (fraction used by tasks), dicts by resource, with None if the type lacks it.

        Notes
        -----
        Several placements may give every user the same tasks; the rows describe the one found.

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
        """Sentences that say whether all tasks fit and which policies agree."""
        answers = self.allocations
        if not answers:
            return []
        limits = self.instance.task_limits
        limited = len(limits) > 0 and bool(np.isfinite(limits).all())
        if limited and all((a.tasks >= limits * (1 - 1e-6)).all() for a in answers.values()):
            each = "each policy" if len(answers) > 1 else "this policy"
            return [f"everything fits: every user runs all its tasks under {each}"]
        groups: list[list[str]] = []
        for name, allocation in answers.items():
            tasks, zero = allocation.tasks, SAME_TASKS * 1e-3 * float(allocation.tasks.max(initial=0.0))
            same = (g for g in groups if np.allclose(answers[g[0]].tasks, tasks, rtol=SAME_TASKS, atol=zero))
            if (group := next(same, None)) is None:
                groups.append([name])
            else:
                group.append(name)
        return [f"{listed(g)} give every user the same tasks (to 4 digits)" for g in groups if len(g) > 1]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data for ``json.dumps``.

        ``rows`` also hold ``tasks`` by user and ``teams`` (weight, dominant share and units by label and team);
        ``by_server_type`` is empty for a single type; ``units`` is a dict by resource or None.
        """
        instance = self.instance
        rows = self.rows()
        for row, made in zip(rows, self.outcomes, strict=True):
            tasks = None if made.allocation is None else made.allocation.tasks.tolist()
            row["tasks"] = None if tasks is None else dict(zip(instance.users, tasks, strict=True))
            row["teams"] = None if made.allocation is None else described_teams(made.allocation)
        return {
            "format": FORMAT,
            **described_instance(instance),
            "findings": self.findings(),
            "interrupted": self.interrupted,
            "unanswered": list(self.unanswered),
            "rows": rows,
            "by_server_type": self.by_server_type() if several_types(instance) else [],
        }

    def to_frame(self) -> pd.DataFrame:
        """`flat_rows` as a pandas frame by policy.

        Returns
        -------
        pandas.DataFrame
            For Polars: ``polars.DataFrame(comparison.flat_rows())``.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        pd = pandas()
        rows = self.flat_rows()
        return pd.DataFrame(rows, columns=None if rows else ["policy"]).set_index("policy")

    def to_csv(self) -> str:
        """`flat_rows` as CSV with a header, numbers in full precision, and empty cells for missing ones."""
        return csv_text(self.flat_rows(), ["policy"])

    def flat_rows(self) -> list[dict[str, Any]]:
        """`rows` without nesting: one entry per number, for tables.

        Returns
        -------
        list of dict
            Utilisations are ``used <resource>`` and ``used by tasks <resource>``. If a team has several users, there
            are ``dominant share of <team>``. Several types of server add
            ``tasks on <type>``, ``used <resource> on <type>`` and ``used by tasks <resource> on <type>``. If a name is
            taken, as with a resource called ``cpu on T4``, " (resource)" is appended.
        """
        flat: list[dict[str, Any]] = []
        for row, made in zip(self.rows(), self.outcomes, strict=True):
            keys = (("utilisation", "used"), ("utilisation_of_tasks", "used by tasks"))
            parts = {words: row.pop(key) or dict.fromkeys(self.instance.resources) for key, words in keys}
            line = FrameColumns(row)
            for words, of in parts.items():
                for resource, part in of.items():
                    line.add(f"{words} {resource}", None if part is None or np.isnan(part) else part)
            for name, share in self._shares_of_teams(made.allocation).items():
                line.add(f"dominant share of {name}", share)
            for name, value in self.by_type.flat(row["policy"]).items() if several_types(self.instance) else ():
                line.add(name, value)
            flat.append(dict(line))
        return flat

    def _shares_of_teams(self, allocation: Allocation | None) -> dict[str, float | None]:
        """The dominant share of each team, if a team has several users; None if the policy failed."""
        teams = self.instance.teams
        if not teams.mixed:
            return {}
        if allocation is None:
            return dict.fromkeys(name for by in teams for name in teams.labelling(by).names)
        sums = [team_sums(allocation, by) for by in teams]
        return {name: share for of in sums for name, share in zip(of.names, of.dominant.tolist(), strict=True)}

    def to_markdown(self) -> str:
        """A Markdown table, followed by findings, errors, notes, and tables by team and by type of server."""
        lines = markup.markdown_table(_all(self))
        for line in _sentences(self):
            lines += ["", markup.markdown_text(line)]
        types = self.server_type_tables(whole_names=True)
        for table in [*self.team_tables(whole_names=True), *types]:
            lines += ["", markup.markdown_text(table.title), "", *markup.markdown_table(table.columns)]
        return "\n".join([*lines, "", PLACEMENT] if types else lines)

    def to_latex(self) -> str:
        r"""A LaTeX tabular with booktabs rules, followed by findings, errors and notes as comments.

        Returns
        -------
        str
            Needs ``\usepackage{booktabs}``. Tables by team and by type of server are further tabulars. Characters
            beyond ASCII are kept.

        Examples
        --------
        >>> import fairopt as fo
        >>> print(fo.compare("drf", fo.Instance([[2, 3], [2, 1]], [6, 4])).to_latex().splitlines()[1])
        \begin{tabular}{lrrrrrlrrr}
        """
        (first,), *others = groups(self, whole_names=True)
        types = self.server_type_tables(whole_names=True)
        tables = [Table("", first, others), *self.team_tables(whole_names=True), *types]
        return markup.latex(repr(self), tables, [*_sentences(self), *[PLACEMENT] * bool(types)])

    def plot(self, kind: str = "shares", *, ax: Any = None, users: Any = None, resources: Any = None) -> Any:
        """Draw one panel per policy, with common scales and colours; needs the extra ``plots``.

        Parameters
        ----------
        kind : str, default "shares"
            As in `Allocation.plot`. ``region`` is one panel with a point per policy; ``held`` and ``types`` have
            bars by policy.
        ax : sequence of matplotlib.axes.Axes, optional
            Axes to draw on, one per panel. Default: a new figure.
        users, resources : (str, str), optional
            The two users of ``region`` or the two resources of ``demands``, if there are more.

        Returns
        -------
        matplotlib.figure.Figure
            Its ``axes`` are the panels, followed by the colour bar if there is one.
        """
        from fairopt import plots

        return plots.comparison(self, kind, ax, users, resources)

    def server_type_tables(self, whole_names: bool = False) -> list[Table]:
        """Tasks and use of each resource by policy and type of server, for `rich`.

        Parameters
        ----------
        whole_names : bool, default False
            Do not shorten names of policies and types.

        Returns
        -------
        list of Table
            Empty if there are fewer than two types, or no policy was solved.
        """
        return type_tables(self.by_type, whole_names) if several_types(self.instance) and self.allocations else []

    def team_tables(self, whole_names: bool = False) -> list[Table]:
        """Dominant share of each team under each policy, and its tasks and units of the most used resource, for `rich`.

        `to_dict` has the units of all resources.

        Parameters
        ----------
        whole_names : bool, default False
            Do not shorten names of policies and teams.

        Returns
        -------
        list of Table
            Empty if no team has several users, or no policy was solved.
        """
        return team_tables(self.instance, self.allocations, whole_names)

    def tasks_table(self) -> Table:
        """Tasks of each user under each policy, and units of the most used resource, for `rich`."""
        answers = [*self.allocations.values()]
        tasks = np.array([a.tasks for a in answers])
        spread = np.ptp(tasks, axis=0) if len(tasks) else np.zeros(self.instance.n_users)
        names, chosen = shortened(list(self.allocations)), both_ends(spread)
        if not answers or self.instance.n_resources == 0:
            return Table("Tasks of each user", users_column(self.instance, chosen), [])
        i = most_used(answers)
        units = [units_of(a, chosen)[:, i] for a in answers]
        groups = tasks_and_units(names, [a.tasks[chosen] for a in answers], units, self.instance.resources[i])
        said = ", the most used resource" if self.instance.n_resources > 1 else ""
        title = f"Tasks and {self.instance.resource_titles[i]} of each user{said}"
        return Table(title, users_column(self.instance, chosen), groups)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        first, *others = groups(self)
        done, asked = len(self.outcomes), len(self.outcomes) + len(self.unanswered)
        count = f"{done} {'policy' if asked == 1 else 'policies'}" if done == asked else f"{done} of {asked} policies"
        yield Table(f"{count} on {self.instance!r}", first[0], others)
        yield from (Text(sentence(finding), style="bold") for finding in self.findings())
        yield from (Text(sentence(line), style="red") for line in _failures(self))
        names = zip(first[0].cells, (o.policy for o in self.outcomes), strict=True)
        yield from (Text(f"{cut} is {visible(name)}", style="dim") for cut, name in names if cut != name)
        held, unit = self.by_type.bundles, _unit(self.instance)
        whole = any(row["whole"] for row in self.rows())
        legend = LEGEND + (HELD if held else "") + (LOST if whole else "")
        yield Text(f"{legend}. {AUR}{'' if unit else MIXED}.", style="dim")

    def __str__(self) -> str:
        """The tables as plain text, as wide as the terminal."""
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, color_system=None).print(self)
        return text.getvalue().rstrip("\n")

    def __repr__(self) -> str:
        stopped = f", interrupted: {len(self.unanswered)} more not solved" if self.interrupted else ""
        return f"<Comparison of {listed([o.policy for o in self.outcomes])} on {self.instance!r}{stopped}>"

    def _repr_html_(self) -> str | None:
        from fairopt.report.pages import page  # imports frontiers too

        columns = _all(self)
        further = [*self.team_tables(whole_names=True), *self.server_type_tables(whole_names=True)]
        tables = [Table("", columns[0], [columns[1:]]), *further]
        return page(tables, _sentences(self))


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
    """Allocate one instance by several policies.

    Parameters
    ----------
    policies : iterable of Policy, mechanism or str, or dict of these by name
        Strings are read by `named_policy`.
    instance : Instance
        Users and servers.
    method, solver, solver_options, time_limit, verbose, integral
        Passed to each ``allocate``, see `Policy.allocate`. Defaults are not passed, since a mechanism may not take
        them. ``time_limit`` is per policy.

    Returns
    -------
    Comparison
        A policy that fails, such as 2-DF if a user needs only one resource, is a row with its error. Ctrl-C returns
        the answers so far; ``interrupted`` is then True, and ``unanswered`` names the rest.

    Raises
    ------
    InvalidBlock, SolverUnavailable
        If a name is unknown; raised before anything is solved.

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


def groups(comparison: Comparison, whole_names: bool = False) -> list[list[Column]]:
    """The columns in groups that are kept together; the first group holds the policy names."""
    rows, instance = comparison.rows(), comparison.instance
    resources = instance.resources if whole_names else shortened(instance.resources)
    names = [r["policy"] for r in rows]

    def used(key: str, words: str = "") -> list[Column]:
        none = dict.fromkeys(instance.resources)
        return [
            Column(name + words, percents((r[key] or none)[i] for r in rows))
            for i, name in zip(instance.resources, resources, strict=True)
        ]

    return [
        [Column("policy", names if whole_names else shortened(names), right=False)],
        measured(rows),
        used("utilisation"),
        used("utilisation_of_tasks", ", by tasks") if comparison.by_type.bundles else [],
        [*proved(rows), _column("seconds", rows, "seconds")],
        [_column(f"AUR ({_unit(instance) or 'units added'})", rows, "aur")],
    ]


def _column(header: str, rows: Sequence[Mapping[str, Any]], key: str) -> Column:
    return Column(header, numbers([np.nan if r[key] is None else r[key] for r in rows]))


def measured(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Totals of outcomes (`Outcome.row`)."""
    keys = {"tasks": "ntt", "Jain": "jain", "least share": "smallest_dominant_share"}
    return [_column(header, rows, key) for header, key in keys.items()]


def proved(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """How outcomes were found, and their gaps."""
    by = ["-" if r["method"] is None else " ".join(filter(None, (r["method"], r["solver"]))) for r in rows]
    gaps = [
        "-" if r["gap"] is None else "0" if r["gap"] < ROUNDING else f"{r['gap']:.{'1%' if r['whole'] else '1e'}}"
        for r in rows
    ]
    return [Column("solved by", by, right=False), Column("gap", gaps)]


def listed(names: Sequence[str]) -> str:
    """Names joined by commas and "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "nothing"


def _unit(instance: Instance) -> str | None:
    """The unit of all resources, if it is the same."""
    units = set(instance.units or ())
    return units.pop() if len(units) == 1 else None


def _all(comparison: Comparison) -> list[Column]:
    return [column for group in groups(comparison, whole_names=True) for column in group]


def _failures(comparison: Comparison) -> list[str]:
    """Lines about policies that failed or were not solved."""
    lines = [f"{short(name)}: {type(error).__name__}: {error}" for name, error in comparison.errors.items()]
    if comparison.interrupted:
        lines.append(f"interrupted: {len(comparison.unanswered)} more policies were not solved")
    return lines


def _sentences(comparison: Comparison) -> list[str]:
    """The sentences below a table."""
    lines = [*comparison.findings(), *_failures(comparison), *comparison.instance.notes]
    return [" ".join(line.split()) for line in lines]
