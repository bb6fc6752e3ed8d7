"""MLF-DRS, FFMRA and H-FFMRA in exact fractions, one user at a time: slow, and obviously right."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Number = Fraction | int | float
Row = list[Fraction]


def mlf_drs(
    demands: Sequence[Sequence[Number]],
    capacities: Sequence[Number],
    growth: str = "proportional",
    eligible: Sequence[bool] | None = None,
) -> list[Row]:
    """What each user holds of each resource of one server."""
    d, c = [_fractions(row) for row in demands], _fractions(capacities)
    here = _who_can_run(d, c, eligible)
    dominant = {j: _dominant(d[j], c) for j in here}
    held = [[Fraction(0)] * len(c) for _ in d]
    for i in range(len(c)):
        base = {j: _base(d[j][i], dominant[j] == i, c[i] / len(here)) for j in here}
        whole = sum(base.values())
        if whole == 0:
            continue
        left = c[i] - whole
        for j in here:
            if growth == "proportional" or left < 0:
                held[j][i] = base[j] * c[i] / whole
            elif base[j] > 0:
                group = [base[k] for k in here if (dominant[k] == i) == (dominant[j] == i) and base[k] > 0]
                held[j][i] = base[j] + left * sum(group) / whole / len(group)
    return held


def hffmra(
    demands: Sequence[Sequence[Sequence[Number]]],
    capacities: Sequence[Sequence[Number]],
    units: str = "share",
    eligible: Sequence[Sequence[bool]] | None = None,
    counts: Sequence[int] | None = None,
) -> list[list[Row]]:
    """What each user holds of each resource on each server row: a count times what it holds on one such server."""
    servers, users = range(len(capacities)), range(len(demands))
    many = list(counts) if counts is not None else [1] * len(capacities)
    d = [[_fractions(demands[j][s]) for j in users] for s in servers]
    c = [_fractions(row) for row in capacities]
    here = [_who_can_run(d[s], c[s], None if eligible is None else [eligible[j][s] for j in users]) for s in servers]
    dominant = [{j: _dominant(d[s][j], c[s]) for j in here[s]} for s in servers]
    part = _part_of_dominant(d, c, here, dominant, many, units)
    held = [[[Fraction(0)] * len(c[s]) for s in servers] for _ in users]
    for s in servers:
        for i in range(len(c[s])):
            asked = {j: d[s][j][i] for j in here[s]}
            base = {j: _base(asked[j], dominant[s][j] == i, c[s][i] / len(here[s])) for j in here[s]}
            groups = [{j for j in here[s] if dominant[s][j] == i}, {j for j in here[s] if dominant[s][j] != i}]
            parts = [part * c[s][i], (1 - part) * c[s][i]]
            for mine, other in ((0, 1), (1, 0)):
                if not any(base[j] > 0 for j in groups[mine]):
                    parts[mine], parts[other] = Fraction(0), c[s][i]
            short = sum(asked.values()) > c[s][i]
            if short:
                wanted = [sum((asked[j] for j in group), Fraction(0)) for group in groups]
                parts = [min(max(parts[a], c[s][i] - wanted[b]), wanted[a]) for a, b in ((0, 1), (1, 0))]
            for group, amount in zip(groups, parts, strict=True):
                top = {j: asked[j] if short else None for j in group}
                for j, one in _split(amount, {j: base[j] for j in group}, top).items():
                    held[j][s][i] = many[s] * one
    return held


def tasks(demands: Sequence[Sequence[Sequence[Number]]], bundles: list[list[Row]]) -> list[Row]:
    """Tasks that the bundles can run, by user and server row; none where the bundle is empty."""
    return [
        [
            min((b / Fraction(r) for b, r in zip(held, row, strict=True) if r), default=Fraction(0))
            for held, row in zip(mine, rows, strict=True)
        ]
        for mine, rows in zip(bundles, demands, strict=True)
    ]


def _part_of_dominant(
    d: list[list[Row]], c: list[Row], here: list[list[int]], dominant: list[dict[int, int]], many: list[int], units: str
) -> Fraction:
    """``phi``: dominant demands over all demands, of all users on all servers."""
    sigma = {True: Fraction(0), False: Fraction(0)}
    for s, users in enumerate(here):
        for j in users:
            for i, capacity in enumerate(c[s]):
                if d[s][j][i] > 0:
                    size = d[s][j][i] / capacity if units == "share" else d[s][j][i]
                    sigma[dominant[s][j] == i] += many[s] * size
    whole = sigma[True] + sigma[False]
    return sigma[True] / whole if whole else Fraction(1)


def _split(amount: Fraction, base: dict[int, Fraction], top: dict[int, Fraction | None]) -> dict[int, Fraction]:
    """The amount in proportion to the bases; a user stops at its top, and the rest goes on."""
    out = {j: Fraction(0) for j in base}
    open_users = {j for j in base if base[j] > 0}
    while open_users and amount > 0:
        rate = amount / sum(base[j] for j in open_users)
        full = {j for j in open_users if (limit := top[j]) is not None and rate * base[j] >= limit}
        for j in full or open_users:
            limit = top[j]
            out[j] = limit if j in full and limit is not None else rate * base[j]
            amount -= out[j]
        open_users -= full or open_users
    return out


def _who_can_run(d: list[Row], c: Row, eligible: Sequence[bool] | None) -> list[int]:
    allowed = eligible if eligible is not None else [True] * len(d)
    return [j for j in range(len(d)) if allowed[j] and all(c[i] > 0 for i in range(len(c)) if d[j][i] > 0)]


def _dominant(row: Row, c: Row) -> int:
    ratios = [v / capacity if capacity > 0 else Fraction(0) for v, capacity in zip(row, c, strict=True)]
    return ratios.index(max(ratios))


def _base(asked: Fraction, is_dominant: bool, fair_share: Fraction) -> Fraction:
    return max(fair_share, asked) if is_dominant else min(fair_share, asked)


def _fractions(row: Sequence[Number]) -> Row:
    return [Fraction(v) for v in row]
