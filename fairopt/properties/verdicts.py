"""Verdicts on properties, and mappings by property that print as tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fairopt.errors import InvalidBlock, UnknownName
from fairopt.properties.names import canonical, property_name
from fairopt.runtime.lazy import later, pandas

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

WORDS = {True: "yes", False: "NO", None: "open"}


class ByProperty(Mapping[str, T]):
    """A mapping from properties, under any of their names; a table in notebooks and where Rich prints it."""

    _done: ClassVar[str]  # a participle for messages, as "checked"
    _columns: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _entries(self) -> dict[str, T]:
        """All entries by canonical name, in order."""

    @abstractmethod
    def _heading(self) -> str:
        """The title of the table."""

    @abstractmethod
    def _row(self, entry: T) -> tuple[bool, tuple[str, ...]]:
        """Whether an entry is a failure, and its cells; the second cell of a failure is highlighted."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """One dict per property."""

    def to_frame(self) -> pd.DataFrame:
        """`rows` as a pandas frame by property; `MissingExtra` without pandas."""
        return pandas().DataFrame(self.rows()).set_index("property")

    @cached_property
    def _by_name(self) -> dict[str, T]:
        return self._entries()

    def __getitem__(self, name: str) -> T:
        known = self._name_of(name)
        if known not in self._by_name:
            raise UnknownName(f"{known} was not {self._done}; this report has {', '.join(self._by_name) or 'nothing'}")
        return self._by_name[known]

    def _name_of(self, text: str) -> str:
        """The name of a property by what it is called."""
        return property_name(text)

    def __contains__(self, name: object) -> bool:
        return canonical(name) in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __str__(self) -> str:
        return "\n".join([self._heading(), *(f"  {entry}" for entry in self.values())])

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield later("fairopt.report.pages:property_report")(self)

    def __repr__(self) -> str:
        words = ", ".join(f"{name}: {self._row(entry)[1][1].lower()}" for name, entry in self.items())
        of = getattr(self, "mechanism", "") or self._heading()
        return f"<{type(self).__name__} of {of}; {words or f'nothing {self._done}'}>"

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.pages:property_page")(self)


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a property holds, and by how much.

    Attributes
    ----------
    name : str
        Canonical name of the property.
    holds : bool or None
        Whether it holds within the tolerance; None where the time limit left this open.
    margin : float
        The largest relative violation, positive where a user loses and negative where there is slack. It is at most
        the tolerance where the property holds. For an open verdict it is the largest that was found.
    details : object
        The measurements, also where the property holds; see `check`.
    sentence : str
        The verdict in words, with labels: ``str(verdict)``.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> verdict = fo.check(fo.KDF(2).allocate(cluster))["sharing-incentive"]
    >>> verdict.holds, round(verdict.margin, 4), verdict.witness.worst
    (False, 0.2308, 'batch')
    """

    name: str
    holds: bool | None
    margin: float
    details: Any
    sentence: str

    @property
    def ok(self) -> bool:
        """Whether the property is known to hold."""
        return self.holds is True

    @property
    def witness(self) -> Any:
        """The details where the property fails or is open, and None where it holds."""
        return None if self.holds else self.details

    def __str__(self) -> str:
        return self.sentence

    def plot(self, kind: str = "envy", *, ax: Any = None) -> Any:
        """Draw the envy matrix on ``ax`` or a new figure; `InvalidBlock` for other properties.

        Needs the extra ``plots``.
        """
        if kind != "envy":
            raise InvalidBlock(f"there is no picture {kind!r} of a verdict; the only one is 'envy'")
        if not hasattr(self.details, "matrix"):
            raise InvalidBlock(f"a verdict on {self.name} has no picture; that on envy-free has")
        return later("fairopt.plots:envy_matrix")(self.details, ax=ax)


@dataclass(frozen=True, eq=False, repr=False)
class PropertyReport(ByProperty[Verdict]):
    """Verdicts by property; ``report["pareto"]`` and ``report["pe"]`` are the same.

    Attributes
    ----------
    about : str
        The policy's name and the instance.
    verdicts : tuple of Verdict
        One for each property that was checked.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> report = fo.check(fo.MostTasks().allocate(cluster), ["pe", "si"])
    >>> list(report), report["pe"].holds, report["si"].holds
    (['pareto', 'sharing-incentive'], True, False)
    >>> print(report["si"])
    user 'batch' runs 0 tasks, where its own slice would run 2.5: short by 100%
    """

    about: str
    verdicts: tuple[Verdict, ...]

    _done = "checked"
    _columns = ("property", "holds", "what shows it")

    def _entries(self) -> dict[str, Verdict]:
        return {v.name: v for v in self.verdicts}

    def _heading(self) -> str:
        return self.about

    def _row(self, entry: Verdict) -> tuple[bool, tuple[str, ...]]:
        return entry.holds is False, (entry.name, WORDS[entry.holds], entry.sentence)

    @property
    def ok(self) -> bool:
        """Whether all properties that were checked are known to hold."""
        return self.holds is True

    @property
    def holds(self) -> bool | None:
        """Whether all properties that were checked hold; None where none fails and some are open."""
        known = [v.holds for v in self.verdicts]
        return False if False in known else None if None in known else True

    def rows(self) -> list[dict[str, Any]]:
        """One dict per verdict: ``property``, ``holds``, ``margin``, ``sentence``."""
        return [
            {"property": v.name, "holds": v.holds, "margin": v.margin, "sentence": v.sentence} for v in self.verdicts
        ]

    def plot(self, kind: str = "envy", *, ax: Any = None) -> Any:
        """Draw the envy matrix, on ``ax`` or a new figure; needs the extra ``plots``. `InvalidBlock` without envy."""
        if "envy-free" not in self:
            raise InvalidBlock("envy was not checked, and the other verdicts have no picture; check 'envy-free' too")
        return self["envy-free"].plot(kind, ax=ax)

    def __str__(self) -> str:
        width, first = max(map(len, self), default=0), 3 + (None in [v.holds for v in self.verdicts])
        lines = [f"  {WORDS[v.holds]:<{first}} {v.name:<{width}}  {v.sentence}" for v in self.verdicts]
        return "\n".join([self.about, *lines])
