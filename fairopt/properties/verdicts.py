"""Verdicts: whether a property holds, by how much it fails, who shows it, and all that in a sentence."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairopt.accessor import later
from fairopt.errors import InvalidBlock
from fairopt.properties.names import ByProperty

__all__ = ["PropertyReport", "Verdict"]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a property holds, and what shows it.

    Attributes
    ----------
    name : str
        The property, by its canonical name.
    holds : bool
        Whether it holds within the tolerance that was asked for.
    margin : float
        How badly it fails, as a relative number without units that is positive where somebody loses: what it is
        relative to stands with each check. At most the tolerance where the property holds, and negative where there
        is room to spare.
    witness : object
        What shows it, kept also where the property holds: see each check.
    sentence : str
        All that in words, with labels; what ``str(verdict)`` gives.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.checks import check
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> verdict = check(fo.KDF(2).allocate(cluster))["sharing-incentive"]
    >>> verdict.holds, round(verdict.margin, 4), verdict.witness.worst
    (False, 0.2308, 'batch')
    """

    name: str
    holds: bool
    margin: float
    witness: Any
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def plot(self, ax: Any = None) -> Any:
        """The envy matrix, for a verdict on envy; needs the extra ``plots``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidBlock
            For another property, which has no picture.
        MissingExtra
            Without matplotlib.
        """
        if not hasattr(self.witness, "matrix"):
            raise InvalidBlock(f"a verdict on {self.name} has no picture; that on envy-free has")
        return later("Verdict.plot")(self.witness, ax=ax)


@dataclass(frozen=True, eq=False, repr=False)
class PropertyReport(ByProperty[Verdict]):
    """Verdicts by property; ``report["pareto"]`` and ``report["pe"]`` are the same.

    Attributes
    ----------
    about : str
        What was checked: a policy's name and the instance.
    verdicts : tuple of Verdict
        In the order of `fairopt.properties.names.PROPERTIES`.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.checks import check
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> report = check(fo.NoFairness().allocate(cluster), ["pe", "si"])
    >>> list(report), report["pe"].holds, report["si"].holds
    (['pareto', 'sharing-incentive'], True, False)
    >>> print(report["si"])
    user 'batch' runs 0 tasks, where its own slice would run 2.5: short by 100%
    """

    about: str
    verdicts: tuple[Verdict, ...]

    _done = "checked"

    def _entries(self) -> dict[str, Verdict]:
        return {v.name: v for v in self.verdicts}

    @property
    def holds(self) -> bool:
        """Whether all that was checked holds."""
        return all(v.holds for v in self.verdicts)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per verdict: ``property``, ``holds``, ``margin``, ``sentence``.

        Returns
        -------
        list of dict
        """
        return [
            {"property": v.name, "holds": v.holds, "margin": v.margin, "sentence": v.sentence} for v in self.verdicts
        ]

    def plot(self, ax: Any = None) -> Any:
        """The envy matrix; needs the extra ``plots``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidBlock
            If envy was not checked.
        MissingExtra
            Without matplotlib.
        """
        if "envy-free" not in self:
            raise InvalidBlock("envy was not checked, and the other verdicts have no picture; check 'envy-free' too")
        return self["envy-free"].plot(ax=ax)

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        lines = [f"  {'yes' if v.holds else 'NO ':<3} {v.name:<{width}}  {v.sentence}" for v in self.verdicts]
        return "\n".join([self.about, *lines])

    def __repr__(self) -> str:
        words = ", ".join(f"{v.name}: {'yes' if v.holds else 'no'}" for v in self.verdicts)
        return f"<PropertyReport of {self.about}; {words or 'nothing checked'}>"

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        yield Text(self.about, style="bold")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
        for header, fixed in (("property", True), ("holds", True), ("what shows it", False)):
            table.add_column(Text(header), no_wrap=fixed)
        for v in self.verdicts:
            table.add_row(Text(v.name), Text("yes") if v.holds else Text("NO", style="bold red"), Text(v.sentence))
        yield table

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><td>{v.name}</td><td>{'yes' if v.holds else '<b>no</b>'}</td><td>{html.escape(v.sentence)}</td></tr>"
            for v in self.verdicts
        )
        head = "<tr><th>property</th><th>holds</th><th>what shows it</th></tr>"
        return f"<b>{html.escape(self.about)}</b><table>{head}{body}</table>"
