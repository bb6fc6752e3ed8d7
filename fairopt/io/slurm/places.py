"""Whether the features of a node of Slurm satisfy a constraint."""

from __future__ import annotations

import re
from collections.abc import Callable


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
