"""Quotas of teams, and their difference from present ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol

from fairopt.errors import InvalidInstance
from fairopt.runtime import pandas, unit_shown
from fairopt_clusters.quotas.present import read_quotas
from fairopt_clusters.quotas.quota import Quota

if TYPE_CHECKING:
    import pandas as pd

    from fairopt_clusters.quotas.trial import Trial

PATCHES = "kueue-patch"  # a text of quotas for kueue
ABOVE = 1 + 1e-9  # held tasks are counted in floats
RELATIVE = 1e-9  # of an amount: a distance from a multiple of the smallest unit that is rounding


@dataclass(frozen=True)
class Change:
    """The present and the new quota of a team.

    Attributes
    ----------
    team, resource, flavor, unit : str
        As in `Quota`.
    present : float or None
        None without a present quota. Of Kueue what the queue may use now: its nominal quota and its borrowing limit,
        or what its cohort has.
    new : float
        The new quota. Of Kueue at least what the queue is owed.
    held : float or None
        What the team's tasks take now; None if it is not known.
    owed : float or None
        Of Kueue the nominal quota, which stays; None elsewhere.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> fc.quotas.Change("vision", "gpu", "", "", present=8.0, new=6.0, held=7.0).change
    -2.0
    """

    team: str
    resource: str
    flavor: str
    unit: str
    present: float | None
    new: float
    held: float | None
    owed: float | None = None

    @property
    def change(self) -> float | None:
        """New less present; None without a present quota."""
        return None if self.present is None else round(self.new - self.present, 9)

    @property
    def is_over(self) -> bool:
        """Whether the team holds more than the new quota, and than it is owed."""
        return self.held is not None and self.held > self.new * ABOVE + RELATIVE

    @property
    def is_change(self) -> bool:
        """Whether the new quota is not the present one."""
        return self.present is None or bool(self.change)

    @property
    def words(self) -> str:
        """The resource with its unit and flavor."""
        return described(self.resource, self.flavor, self.unit)


@dataclass(frozen=True)
class Expected:
    """What Kueue gives a queue of a resource with its new settings, beside what is fair.

    Attributes
    ----------
    team, resource, unit : str
        As in `Quota`.
    owed : float
        Its nominal quotas, of all flavors.
    held : float or None
        What its tasks take now; None if it is not known.
    asked : float
        What it asks for in all, infinite without task limits.
    gives : float
        What it uses once Kueue has admitted and preempted by its own rule, if no job ends.
    fair : float
        What is fair now, by the certified divisible answer.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> fc.quotas.Expected("vision", "gpu", "", owed=8, held=4, asked=16, gives=12, fair=12.5).fair
    12.5
    """

    team: str
    resource: str
    unit: str
    owed: float
    held: float | None
    asked: float
    gives: float
    fair: float


@dataclass(frozen=True)
class QuotaChanges:
    """New quotas beside present ones, and what teams hold.

    Attributes
    ----------
    rows : tuple of Change
        One for each new quota.
    notes : tuple of str
        Which teams hold more than their new quotas, and which present quotas stay as they are.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> pool = fo.Instance(
    ...     [[1]], [4], users=["train"], resources=["gpu"], teams={"team": ["vision"]}, task_limits=[3], held=[4],
    ... )
    >>> fc.quotas(fo.DRF().allocate(pool), caps=True).diff([fc.quotas.Quota("vision", "gpu", "", 4.0)]).notes
    ('vision holds 4 gpu, more than its new quota of 3',)
    """

    rows: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with a row for each new quota.

        Returns
        -------
        pandas.DataFrame
            With the columns of `Change`, and ``change``.

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> pool = fo.Instance([[1]], [4], resources=["gpu"])
        >>> fc.quotas(fo.DRF().allocate(pool)).diff([]).to_frame()[["team", "new"]]
            team  new
        0  user1  4.0
        """
        pd = pandas()
        rows = [asdict(row) | {"change": row.change} for row in self.rows]
        names = ["team", "resource", "flavor", "unit", "present", "new", "change", "held"]
        return pd.DataFrame(rows, columns=names + ["owed"] * any(row.owed is not None for row in self.rows))


@dataclass(frozen=True, repr=False)
class Quotas:
    """Quotas of teams in whole tasks: units of each resource, and of each kind of servers where the format can say so.

    Amounts are rounded up to the smallest unit of the format where capacities allow it, else down, the smallest
    remainders first: to millicores of cpu (whole cores for Slurm), to MiB of memory, and to whole GPUs and other
    pieces. Together they are never more than there is, but that for ``kubernetes`` a team all of whose tasks have a
    place has room for one more; notes count this, and what stays beside them.

    Attributes
    ----------
    rows : tuple of Quota
        By team, resource and flavor. A quota of 0 is a quota; what has no row is not limited.
    notes : tuple of str
        How whole tasks were found, what that loses, what could not be placed, and how amounts are rounded.
    by : str
        The label whose teams have quotas; ``user`` if users have no labels.
    format : {"csv", "kubernetes", "kueue", "slurm"}
        The format for which they are made: ``csv`` and ``kueue`` by type of server, ``kubernetes`` in total, ``slurm``
        in total and for each type of GPU.
    changed : tuple of str
        For ``kueue``, what changes in ClusterQueues and Cohorts of the input, in words.
    expected : tuple of Expected
        For ``kueue`` without ``caps``, what queues of the input then get beside what is fair.
    first : tuple of str
        The notes to read first: what limits idle now, and what to do.
    stopped : tuple of str
        Pods that start together or not at all, which could start before, and could not with these quotas. They are a
        reason not to apply them.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> cluster = fo.Instance(
    ...     [[8, 2], [4, 1]], [[32, 4], [16, 3]], users=["train", "tune"], resources=["cpu", "gpu"],
    ...     servers=["a100-1", "t4-1"], server_types=["a100", "t4"], teams={"team": ["vision", "nlp"]},
    ...     eligible={"vision": ["a100-1"], "nlp": ["t4-1"]},
    ... )
    >>> quotas = fc.quotas(fo.DRF().allocate(cluster))
    >>> quotas
    <Quotas by team for csv: vision 16 cpu of a100, 0 cpu of t4, ...>
    >>> print(quotas.text("slurm").splitlines()[-1])
    sacctmgr -i modify account where name=nlp set Fairshare=1
    """

    rows: tuple[Quota, ...]
    notes: tuple[str, ...]
    by: str
    format: str
    _source: QuotaSource = field(repr=False, compare=False)
    _text: str = field(repr=False, compare=False)
    _script: str = field(default="", repr=False, compare=False)
    changed: tuple[str, ...] = ()
    expected: tuple[Expected, ...] = ()
    first: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()

    def text(self, format: str | None = None) -> str:
        """The quotas as text.

        Parameters
        ----------
        format : {"csv", "kubernetes", "kueue", "slurm", "kueue-patch"}, optional
            By default that for which they are made. ``kueue-patch`` changes the ClusterQueues of the input.

        Returns
        -------
        str
            A CSV table; a YAML list of ResourceQuotas, or of ClusterQueues with new ResourceFlavors, for ``kubectl
            apply -f``; or lines of ``kubectl patch`` or ``sacctmgr``. Except in CSV the notes are comments.

        Raises
        ------
        InvalidInstance
            If the format cannot hold the name of a team or a resource.

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> pool = fo.Instance([[4, 1]], [16, 2], resources=["cpu", "gpu"], teams={"team": ["vision"]})
        >>> print(fc.quotas(fo.DRF().allocate(pool)).text("csv"), end="")
        team,resource,flavor,amount,unit
        vision,cpu,,8,
        vision,gpu,,2,
        """
        if format == PATCHES:
            made = self if self.format == "kueue" else self._source.quotas("kueue")
            if not made._script:
                raise InvalidInstance("the input has no ClusterQueues to patch; write new ones, as YAML")
            return made._script
        return (self if format in (None, self.format) else self._source.quotas(str(format)))._text

    def diff(self, present: str | os.PathLike[str] | Iterable[Quota] | Quotas) -> QuotaChanges:
        """The quotas beside present ones.

        Parameters
        ----------
        present : path-like, Quotas or iterable of Quota
            A file that `text` wrote, or the output of ``kubectl get resourcequotas -A -o json``, ``kubectl get
            clusterqueues -o json`` or ``sacctmgr show associations --json``.

        Returns
        -------
        QuotaChanges

        Raises
        ------
        InvalidInstance
            If the file cannot be read, or a present quota is in a unit that does not fit.

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> pool = fo.Instance([[1]], [4], resources=["gpu"], teams={"team": ["vision"]})
        >>> fc.quotas(fo.DRF().allocate(pool)).diff([fc.quotas.Quota("vision", "gpu", "", 6.0)]).rows[0].change
        -2.0
        """
        if isinstance(present, Quotas):
            known = list(present.rows)
        else:
            known = read_quotas(present)[0] if isinstance(present, (str, os.PathLike)) else list(present)
        return self._source.changes(self, known)

    def replay(self, past: str | os.PathLike[str], *, resumes: bool = False) -> Trial:
        """What past weeks would have been with the settings of Kueue as they are, and with these.

        Parameters
        ----------
        past : path-like
            A folder of snapshots, each a file or a folder as the input, with the Workloads of that time; or a table of
            jobs as for `fairopt.online.read_jobs`, whose users or teams are the queues, each line a Workload.
        resumes : bool, default False
            Whether a workload that is preempted goes on where it was, as from a checkpoint; else it begins anew.

        Returns
        -------
        Trial

        Raises
        ------
        InvalidInstance
            If there are no ClusterQueues or no workloads, or a file cannot be read.
        """
        return self._source.tried(self, past, resumes)

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with a row for each quota, and the columns of `Quota`.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> fc.quotas(fo.DRF().allocate(fo.Instance([[1]], [4], resources=["gpu"]))).to_frame()
            team resource flavor  amount unit
        0  user1      gpu            4.0
        """
        pd = pandas()
        names = ["team", "resource", "flavor", "amount", "unit"]
        names += ["owed"] * any(row.owed is not None for row in self.rows)
        return pd.DataFrame([asdict(row) for row in self.rows], columns=names)

    def __repr__(self) -> str:
        shown = [f"{self.rows[0].team} " if self.rows else "no quotas"]
        of_first = [row for row in self.rows if row.team == self.rows[0].team][:2]
        shown.append(", ".join(f"{row.amount:g} {described(row.resource, row.flavor, row.unit)}" for row in of_first))
        more = ", ..." if len(self.rows) > len(of_first) else ""
        return f"<Quotas by {self.by} for {self.format}: {''.join(shown)}{more}>"


class QuotaSource(Protocol):
    """The answer from which quotas are made, for any format and beside any present ones."""

    def quotas(self, format: str) -> Quotas:
        """The quotas for a format, with their text."""

    def changes(self, made: Quotas, present: Sequence[Quota]) -> QuotaChanges:
        """Quotas beside present ones and what is held."""

    def tried(self, made: Quotas, past: str | os.PathLike[str], resumes: bool) -> Trial:
        """What past weeks would have been."""


def described(resource: str, flavor: str, unit: str) -> str:
    """A resource with its unit and flavor, as ``GiB memory of a100``."""
    return " ".join(filter(None, (unit_shown(unit), resource, f"of {flavor}" if flavor else "")))
