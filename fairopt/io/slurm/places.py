"""Where a job of Slurm may run: lists of hosts, and constraints on features."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

_MOST_HOSTS = 65_536  # the longest range of Slurm


def hosts(text: str) -> frozenset[str] | None:
    """The hosts of a list such as ``n[001-003,7],login1``, or None if it is malformed or too long."""
    names: set[str] = set()
    for item in re.split(r",(?![^\[]*\])", text):
        pieces = re.split(r"\[([^\[\]]*)\]", item.strip())
        choices: list[list[str]] = []
        for k, piece in enumerate(pieces):
            numbers = _range(piece) if k % 2 else [piece]
            if not numbers or (not k % 2 and re.search(r"[\[\]\s]", piece)):
                return None
            choices.append(numbers)
        if math.prod(map(len, choices)) + len(names) > _MOST_HOSTS:
            return None
        names.update(map("".join, itertools.product(*choices)))
    return frozenset(names - {""})


def _range(text: str) -> list[str]:
    out: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip())
        if match is None:
            return []
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first + len(out) >= _MOST_HOSTS:
            return []
        out += [f"{k:0{len(match[1])}d}" for k in range(first, last + 1)]
    return out


def satisfies(constraint: str) -> Callable[[frozenset[str]], bool] | None:
    """Whether a set of features meets a constraint, as ``a100&(ib|roce)``.

    Features are joined by ``&`` (or a comma) and ``|``, read strictly from left to right as Slurm does, with
    parentheses. Brackets, which require the same feature on all servers of a job, are read as parentheses. None if the
    constraint is malformed or counts servers, as in ``rack1*2``.

    Examples
    --------
    >>> satisfies("a|b&c")({"a"}), satisfies("a&(b|c)")({"a", "c"})
    (False, True)
    """
    tokens = re.findall(r"[&|,()\[\]]|[^&|,()\[\]]+", constraint.replace(" ", ""))
    if "*" in constraint or _value(tokens, frozenset()) is None:
        return None
    return lambda features: bool(_value(tokens, features))


def _value(tokens: list[str], features: frozenset[str]) -> bool | None:
    """The value of a constraint for some features, None if it is not well formed."""
    outer: list[tuple[bool | None, str, str]] = []  # value, operator and closing mark of each open parenthesis
    value: bool | None = None  # of the part left of the operator, if any
    operator = "start"
    for token in tokens:
        if token in "([" and operator:
            outer.append((value, operator, ")" if token == "(" else "]"))
            value, operator = None, "start"
        elif token in "&|," and not operator:
            operator = token
        else:
            right: bool | None = token in features
            if token in ")]":
                if operator or not outer or outer[-1][2] != token:
                    return None
                right = value
                value, operator, _ = outer.pop()
            if not operator or token in "&|,([":
                return None
            value = right if operator == "start" else value or right if operator == "|" else value and right
            operator = ""
    return None if operator or outer else value
