"""Policies by short name: ``drf``, ``kdf:k=3``, ``gfj:beta=2,lam=-0.5``, ``package.module:NAME``, or blocks themselves."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from fairopt.errors import InvalidBlock, nearest
from fairopt.notions.dominant import DRF, DRFH, KDF, TSF
from fairopt.notions.parse import BLOCKS, parse_policy
from fairopt.notions.tradeoff import FDS, GFJ, NashWelfare, NoFairness, PNormFairness
from fairopt.policy import Policy

__all__ = ["Notion", "named_policy", "notions"]

GROUP = "fairopt.policies"


@dataclass(frozen=True)
class Notion:
    """An entry of the registry: short name, parameters, what it is, and how to make it."""

    name: str
    parameters: str
    summary: str
    make: Callable[..., Any]


def notions() -> dict[str, Notion]:
    """All policies known by short name: fairopt's own and those of installed packages.

    Returns
    -------
    dict of str to Notion
        Packages add theirs by entry points in the group ``fairopt.policies``.

    Examples
    --------
    >>> import fairopt as fo
    >>> "drf" in fo.notions()
    True
    """
    own: dict[str, Callable[..., Any]] = {
        "drf": DRF, "2df": lambda: KDF(2), "kdf": KDF, "drfh": DRFH, "tsf": TSF, "fds": FDS, "gfj": GFJ,
        "pnorm": PNormFairness, "nash": NashWelfare, "most-tasks": NoFairness,
    }  # fmt: skip
    described = {"2df": KDF}
    found = {name: _described(name, make, described.get(name, make)) for name, make in own.items()}
    for point in entry_points(group=GROUP):
        if point.name not in found:
            found[point.name] = Notion(point.name, "", f"from {point.value}", _loader(point))
    return found


def named_policy(text: str) -> Any:
    """A policy from a short name with parameters, a ``module:NAME``, or blocks as text.

    Parameters
    ----------
    text : str
        ``drf``; ``kdf:k=3``; ``fds:alpha=2``; ``my_package.notions:MINE``; ``path/to/file.py:MINE``; or blocks such
        as ``AlphaFair(1, KDominantShare(2)) + 0.1 * Total(Tasks())``.

    Returns
    -------
    Policy or other mechanism
        Anything with ``.allocate(instance)``.

    Raises
    ------
    InvalidBlock
        If the name is unknown (with the nearest names), or its parameters do not fit.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.named_policy("kdf:k=3")
    Policy(Leximin(KDominantShare(3)), name='3-DF')
    """
    text = str(text).strip()
    known = notions()
    name, _, rest = text.partition(":")
    key = name.strip().lower()
    if key in known:
        return _made(known[key], rest, text)
    if "(" in text:
        return parse_policy(text)
    if rest and (name.endswith(".py") or all(part.isidentifier() for part in name.split("."))):
        return _imported(name, rest.strip(), text, known)
    raise InvalidBlock(f"no policy {text!r}; {nearest(key, known)} (see `fairopt policies`)")


def _described(name: str, make: Callable[..., Any], documented: Callable[..., Any]) -> Notion:
    parameters = "" if make is not documented else ", ".join(
        p.name if p.default in (inspect.Parameter.empty, None) else f"{p.name}={p.default}"
        for p in inspect.signature(make).parameters.values()
    )  # fmt: skip
    summary = (inspect.getdoc(documented) or "").splitlines()[0]
    return Notion(name, parameters, summary, make)


def _loader(point: Any) -> Callable[..., Any]:
    def make(**parameters: Any) -> Any:
        found = point.load()
        return _as_policy(found(**parameters) if callable(found) and not hasattr(found, "allocate") else found, point.name)

    return make


def _made(notion: Notion, rest: str, text: str) -> Any:
    parameters: dict[str, Any] = {}
    for word in filter(None, (w.strip() for w in _split(rest))):
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidBlock(f"{text!r}: {word!r} is no parameter; write {notion.name}:name=value,name=value")
        parameters[key.strip()] = _number(value.strip())
    try:
        return notion.make(**parameters)
    except TypeError as error:
        takes = f"it takes {notion.parameters}" if notion.parameters else "it takes no parameters"
        raise InvalidBlock(f"{text!r}: {error}; {takes}") from error


def _split(rest: str) -> list[str]:
    """Split at commas outside brackets, so that ``rank_weights=(1,2)`` stays whole."""
    parts, depth = [""], 0
    for letter in rest:
        depth += letter in "(["
        depth -= letter in ")]"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _number(value: str) -> Any:
    if value[:1] in "([" and value[-1:] in ")]":
        return tuple(_number(v.strip()) for v in value[1:-1].split(",") if v.strip())
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _imported(module: str, name: str, text: str, known: dict[str, Notion]) -> Any:
    path = Path(module)
    folder = str(path.resolve().parent) if module.endswith(".py") else str(Path.cwd())
    sys.path.insert(0, folder)  # as `python -m` does: a notion in a file beside you is found
    try:
        loaded = importlib.import_module(path.stem if module.endswith(".py") else module)
    except ImportError as error:
        raise InvalidBlock(f"{text!r}: cannot import {module!r} ({error}); {nearest(module, known)}") from error
    finally:
        sys.path.remove(folder)
    if not hasattr(loaded, name):
        there = [k for k, v in vars(loaded).items() if hasattr(v, "allocate") or isinstance(v, Policy)]
        raise InvalidBlock(f"{text!r}: {module!r} has no {name!r}; {nearest(name, there)}")
    found = getattr(loaded, name)
    return _as_policy(found() if callable(found) and not hasattr(found, "allocate") else found, text)


def _as_policy(found: Any, text: str) -> Any:
    if hasattr(found, "allocate"):
        if isinstance(found, Policy) and found.name is None:
            return Policy(found.objective, found.constraints, name=text.rpartition(":")[2])
        return found
    if type(found).__name__ in BLOCKS or hasattr(found, "expression"):
        return Policy(found, name=text.rpartition(":")[2])
    raise InvalidBlock(f"{text!r} is {type(found).__name__}, no policy; give something with .allocate(instance)")
