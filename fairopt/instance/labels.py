"""Labels of data frames and series: values are joined by label, never by position.

Frames of pandas, Polars and pyarrow are recognised by their attributes, without imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance

AXES = {
    "demands": ("user", "resource"),
    "capacities": ("server", "resource"),
    "weights": ("user",),
    "task_limits": ("user",),
    "eligible": ("user", "server"),
    "guarantees": ("user",),
    "rates": ("user", "server"),
    "held": ("user", "server"),
    "counts": ("server",),
    "server_types": ("server",),
    "units": ("resource",),
}
_SHOWN = 5  # labels listed in a message


def axes_of(value: Any) -> tuple[Any, ...] | None:
    """The labels along each axis of a data frame or series, None for an unlabelled axis; None for other values."""
    if hasattr(value, "column_names"):  # pyarrow, whose `columns` are arrays
        return None, value.column_names
    if not hasattr(value, "to_numpy"):
        return None
    if hasattr(value, "index"):
        return (value.index, value.columns) if value.ndim == 2 else (value.index,)
    return (None, value.columns) if hasattr(value, "columns") else None


def joined(values: Mapping[str, Any], labels: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of `Instance` as arrays in a common order, and its labels by ``user``, ``server`` and ``resource``.

    Missing labels come from ``demands`` and ``capacities``; `InvalidInstance` if labels contradict each other.
    """
    arrays = dict(values)
    axes: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if value is None or type(value) is np.ndarray:
            continue
        _refuse_parts(name, value)
        if name == "capacities" and isinstance(value, Mapping):
            _refuse_parts(name, [*value.values()])
            arrays[name], axes[name] = _by_resource(value), {"resource": tuple(value)}
        elif (named := axes_of(value)) is not None:
            arrays[name] = np.asarray(value)
            kinds = AXES[name][-len(named) :] if name == "capacities" else AXES[name]
            if len(kinds) == len(named):  # wrong shapes are refused later
                axes[name] = {kind: axis for kind, axis in zip(kinds, named, strict=True) if axis is not None}
            _refuse_table(name, named[-1])
    if not axes:
        return arrays, dict(labels)
    known, source = dict(labels), {kind: f"{kind}s" for kind in labels}
    for kind, given in labels.items():
        if isinstance(given, Iterable) and not isinstance(given, str):
            known[kind] = tuple(map(str, given))
    for name in ("demands", "capacities"):  # their labels are the default ones
        for kind, axis in axes.get(name, {}).items():
            if known[kind] is None and not _is_default(axis):
                known[kind], source[kind] = _names(axis, name, kind), name
    for name, along in axes.items():
        for kind, axis in along.items():
            order = _order(name, kind, axis, known[kind], source[kind])
            if order is not None:
                arrays[name] = np.take(arrays[name], order, axis=[*along].index(kind) - len(along))
    return arrays, known


def by_label(value: Any) -> Any:
    """A labelled series as a dict; other values unchanged."""
    axes = axes_of(value)
    if axes is None or len(axes) > 1 or _is_default(axes[0]):
        return value
    return dict(zip(_names(axes[0], "a series", "user"), np.asarray(value).tolist(), strict=True))


def whole_name(name: Any, resources: Iterable[str]) -> Any:
    """The resource that a name without its vendor's prefix means; other names and indices as they are."""
    known = list(resources)
    if name in known:
        return name
    meant = [resource for resource in known if resource.rpartition("/")[2] == name]
    if len(meant) > 1:
        raise InvalidInstance(f"{name!r} is short for the resources {_some(meant)}; give the whole name of one")
    return meant[0] if meant else name


def refuse_labels(**values: Any) -> None:
    """Refuse labelled frames and series where values are taken by position."""
    for name, value in values.items():
        _refuse_parts(name, value)
        axes = axes_of(value)
        if axes is not None and not all(axis is None or _is_default(axis) for axis in axes):
            raise InvalidInstance(
                f"{name} is a {type(value).__name__} with labels, but values are taken by position here; "
                "bring it into the order of the others and give .to_numpy()"
            )


def _by_resource(value: Mapping[Any, Any]) -> NDArray[Any]:
    """A dict by resource as an array: numbers for one pool, or lists by server row."""
    try:
        return np.array([*value.values()]).T
    except ValueError as error:
        raise InvalidInstance(
            f"capacities cannot be read by resource ({error}); give a number for each, or equally long lists by server"
        ) from error


def _refuse_parts(name: str, value: Any) -> None:
    """Refuse a list of series or frames, whose labels would be ignored."""
    if isinstance(value, (list, tuple)) and value and axes_of(value[0]) is not None:
        raise InvalidInstance(
            f"{name} is a list of {type(value[0]).__name__}, whose labels would be ignored; make one frame of them"
        )


def _refuse_table(name: str, columns: Any) -> None:
    """Refuse a frame with names in a column."""
    column = {"demands": "user", "capacities": "server"}.get(name)
    if column is not None and column in map(str, columns):
        raise InvalidInstance(
            f"{name} is a table with a column {column!r}; give it to Instance.from_frames(users, servers), or, in "
            f"pandas, .set_index({column!r})"
        )


def _is_default(axis: Any) -> bool:
    """Whether an index only counts rows, as the default index of pandas does."""
    return bool((getattr(axis, "start", None), getattr(axis, "step", None)) == (0, 1))


def _names(axis: Any, name: str, kind: str) -> tuple[str, ...]:
    if getattr(axis, "nlevels", 1) > 1:
        raise InvalidInstance(f"{name} has several levels of labels by {kind}; give one level, or an array")
    names = tuple(map(str, axis))
    if len(set(names)) < len(names):
        twice = next(one for k, one in enumerate(names) if one in names[:k])
        raise InvalidInstance(f"{name} has the {kind} label {twice!r} twice; labels must differ")
    return names


def _order(name: str, kind: str, axis: Any, known: Any, source: str) -> list[int] | None:
    """Positions of the known labels; None if the order is the same, or the axis has no labels."""
    names = _names(axis, name, kind)
    default = known is None
    if default:  # default labels
        known = ("pool",) if kind == "server" and len(names) == 1 else [f"{kind}{k + 1}" for k in range(len(names))]
    place = {label: k for k, label in enumerate(names)}
    if place.keys() == set(known):
        return None if names == tuple(known) else [place[label] for label in known]
    if _is_default(axis):
        return None
    if default:
        raise InvalidInstance(
            f"{name} has labels by {kind} ({_some(names)}), but the {kind}s have no labels; give "
            f"{kind}s=[...] as well, or .to_numpy() to take values by position"
        )
    parts = [(name, [x for x in names if x not in set(known)]), (source, [x for x in known if x not in place])]
    words = " and ".join(f"{_some(found)} only in {where}" for where, found in parts if found)
    some = "a dict for some of them only, " if name in ("weights", "task_limits", "guarantees") else ""
    raise InvalidInstance(
        f"{name} and {source} do not name the same {kind}s: {words}; give the same in both, {some}or .to_numpy() to "
        "take values by position"
    )


def _some(labels: Iterable[str]) -> str:
    texts = [*map(repr, labels)]
    return ", ".join(texts[:_SHOWN]) + (f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "")
