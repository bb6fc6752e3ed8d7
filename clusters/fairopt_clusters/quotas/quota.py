"""One quota: an amount of a resource for a team, its smallest unit, the names of resources; and quotas as a table."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fairopt.errors import InvalidInstance
from fairopt.io import Column, escaped, read_table

_MEBIBYTES = {"KiB": Fraction(1, 1024), "MiB": Fraction(1), "GiB": Fraction(1024), "TiB": Fraction(1024**2)}


@dataclass(frozen=True)
class Quota:
    """What a team may use of a resource.

    Attributes
    ----------
    team, resource : str
        Their names.
    flavor : str
        The kind of servers, ``""`` for all servers together.
    amount : float
        The amount in ``unit``, a multiple of the smallest unit of its format.
    unit : str
        The unit, such as ``core`` or ``GiB``; ``""`` for pieces.
    owed : float or None
        Of Kueue the nominal quota, which the queue may always use; None elsewhere.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> pool = fo.Instance([[4, 1]], [16, 2], users=["train"], resources=["cpu", "gpu"], teams={"team": ["vision"]})
    >>> fc.quotas(fo.DRF().allocate(pool)).rows[1]
    Quota(team='vision', resource='gpu', flavor='', amount=2.0, unit='', owed=None)
    """

    team: str
    resource: str
    flavor: str
    amount: float
    unit: str = ""
    owed: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Team, resource and flavor."""
        return self.team, self.resource, self.flavor

    @property
    def most(self) -> float:
        """What the team may use: what it is owed, if that is more than the amount."""
        return max(self.amount, self.owed or 0.0)

    @property
    def is_cpu(self) -> bool:
        """Whether it counts processor cores."""
        return is_cpu(self.resource, self.unit)

    @property
    def steps(self) -> int:
        """The amount in millicores, MiB or pieces."""
        return round(Fraction(self.amount) / step_of(self.resource, self.unit))


def is_cpu(resource: str, unit: str) -> bool:
    """Whether a resource in a unit counts processor cores."""
    return unit == "core" or (resource == "cpu" and not unit)


def is_memory(unit: str) -> bool:
    """Whether a unit is one of memory that is a multiple of a KiB."""
    return unit in _MEBIBYTES


def step_of(resource: str, unit: str, whole_cores: bool = False) -> Fraction:
    """The smallest amount of a quota, in the unit: a millicore (or a core), a MiB, else one."""
    if is_cpu(resource, unit):
        return Fraction(1) if whole_cores else Fraction(1, 1000)
    return 1 / _MEBIBYTES[unit] if unit in _MEBIBYTES else Fraction(1)


def steps_in_words(resources: Sequence[tuple[str, str]], whole_cores: bool = False) -> str:
    """What quotas of some resources, given with their units, are multiples of."""
    cpu, memory = "whole cores" if whole_cores else "millicores", "whole MiB"
    words = {
        name: cpu if is_cpu(name, unit) else memory if is_memory(unit) else "whole units" for name, unit in resources
    }
    parts = [f"{', '.join(name for name in words if words[name] == word)} in {word}" for word in (*{*words.values()},)]
    return ", ".join(sorted(parts))


def same_unit(quota: Quota, unit: str) -> float:
    """The amount of a quota in another unit; a missing unit is taken as the same."""
    if unit in ("", quota.unit) or not quota.unit:
        return quota.amount
    if unit in _MEBIBYTES and quota.unit in _MEBIBYTES:
        return float(Fraction(quota.amount) * _MEBIBYTES[quota.unit] / _MEBIBYTES[unit])
    raise InvalidInstance(
        f"the present quota of {quota.resource!r} of {quota.team!r} is in {quota.unit}, the new one in {unit}; give "
        "both in one unit"
    )


def by_team(rows: Iterable[Quota]) -> Mapping[str, list[Quota]]:
    """The quotas of each team, teams in order."""
    out: dict[str, list[Quota]] = {}
    for row in rows:
        out.setdefault(row.team, []).append(row)
    return out


# -- as a CSV table -------------------------------------------------------------------------------------------


COLUMNS = ("team", "resource", "flavor", "amount", "unit")


def to_csv(rows: Iterable[Quota]) -> str:
    """The table as text; names that a spreadsheet would execute get an apostrophe, which the reader removes."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        amount = int(row.amount) if row.amount.is_integer() else row.amount
        writer.writerow([*map(escaped, row.key), amount, escaped(row.unit)])
    return file.getvalue()


def read_csv(path: str | os.PathLike[str]) -> list[Quota]:
    """The quotas in a table; the columns ``flavor`` and ``unit`` may be missing."""
    table = read_table(path, ("team", "resource", "amount"), ("flavor", "unit"))
    teams, resources = table.labels("team", unique=False), table.labels("resource", unique=False)
    flavors, units = (table.texts(name) if name in table.columns else [""] * len(table) for name in ("flavor", "unit"))
    amounts = table.numbers(Column("amount")).tolist()
    seen: dict[tuple[str, str, str], int] = {}
    out = []
    for row, quota in enumerate(map(Quota, teams, resources, flavors, amounts, units)):
        if seen.setdefault(quota.key, row) != row:
            there = table.place(seen[quota.key])
            table.refuse(row, "team", f"{quota.team!r} has a quota of {quota.resource!r} on {there} too; keep one")
        out.append(quota)
    return out
