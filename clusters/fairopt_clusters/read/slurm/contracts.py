"""Contracts of Slurm's accounts, from ``contracts.csv``: what each is promised, and what it may use at most."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from fairopt.errors import nearest
from fairopt.io import Column, read_table


@dataclass(frozen=True)
class Contract:
    """Amounts by resource, in cores, GiB and pieces, of an account with all below it."""

    promised: dict[str, float] = field(default_factory=dict)
    limit: dict[str, float] = field(default_factory=dict)


def read_contracts(path: Path, accounts: Collection[str] = ()) -> dict[str, Contract]:
    """The contracts by account; an account that is none of ``accounts``, if these are known, is refused."""
    table, out = read_table(path, ("account", "resource"), ("promised", "limit")), dict[str, Contract]()
    names, resources = table.labels("account", unique=False), table.labels("resource", unique=False)
    promised, limits = (
        table.numbers(Column(name, blank=math.inf, infinite=True)) if name in table.columns else [math.inf] * len(table)
        for name in ("promised", "limit")
    )
    for row, (name, given_name) in enumerate(zip(names, resources, strict=True)):
        resource = "memory" if given_name == "mem" else given_name.removeprefix("gres/")  # as in GrpTRES
        if accounts and name not in accounts:
            table.refuse(row, "account", f"there is no account {name!r}; {nearest(name, accounts)}")
        one = out.setdefault(name, Contract())
        if resource in one.promised.keys() | one.limit.keys():
            table.refuse(row, "resource", f"{resource!r} of {name!r} is there twice; keep one")
        for given, amounts in ((promised[row], one.promised), (limits[row], one.limit)):
            amounts.update({resource: float(given)} if given < math.inf else {})
        if resource not in one.promised.keys() | one.limit.keys():
            table.refuse(row, "account", f"{name!r} has neither promised nor limit of {resource!r}; give one of them")
        if math.inf > promised[row] > limits[row]:
            table.refuse(row, "promised", f"{name!r} is promised more of {resource!r} than its limit; correct one")
    return out
