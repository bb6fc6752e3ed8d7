"""Allocations as files: JSON or Parquet, read back without executing anything, and measured again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, feasibility
from fairopt.blocks.bundle_model import BundlePoint, cut_at_limits, tasks_within
from fairopt.blocks.model import Point
from fairopt.certificate import VIOLATION_TOLERANCE, Certificate, Try
from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.instance import Instance
from fairopt.notions.parse import policy_or_text
from fairopt.policy import Policy
from fairopt.routes.closed import division

FORMAT = "fairopt.allocation/1"


def save(allocation: Allocation, path: Path) -> Path:
    """See `Allocation.save`."""
    if path.suffix not in (".json", ".parquet"):
        raise InvalidInstance(f"{path}: give a name that ends in .json or .parquet")
    data = {
        "format": FORMAT,
        "policy": repr(allocation.policy),
        "objective": allocation.objective,
        "certificate": asdict(allocation.certificate),
        "instance": allocation.instance.to_dict(),
        "tasks_by_server": allocation.tasks_by_server.tolist(),
        "prices": None if allocation.evidence_prices is None else allocation.evidence_prices.tolist(),
        "bundles": None if allocation.given_bundles is None else allocation.given_bundles.tolist(),
    }
    if path.suffix == ".parquet":
        arrow, parquet = arrow_modules()
        table = arrow.table({"part": list(data), "json": [json.dumps(v) for v in data.values()]})
        parquet.write_table(table, path)
    else:
        path.write_text(json.dumps(data), encoding="utf-8")
    return path


def load(path: Path) -> Allocation:
    """See `Allocation.load`."""
    data = _read_saved(path)
    policy: Any
    try:
        instance = Instance.from_dict(data["instance"])
        tasks = np.asarray(data["tasks_by_server"], dtype=float).reshape(-1, instance.n_servers)
        if np.shape(data["tasks_by_server"]) not in ((instance.n_users, instance.n_servers), (0,)):
            raise ValueError(f"tasks of shape {np.shape(data['tasks_by_server'])}")
        saved = dict(data["certificate"])
        saved["tried"] = tuple(Try(**t) for t in saved["tried"])
        saved["gaps"] = tuple(saved["gaps"])
        certificate = Certificate(**saved)
        if not all(isinstance(x, (int, float)) for x in (certificate.gap, certificate.violation, *certificate.gaps)):
            raise TypeError("a gap that is no number")
        prices = None if data["prices"] is None else np.asarray(data["prices"], dtype=float)
        bundles = None if data["bundles"] is None else np.asarray(data["bundles"], dtype=float)
        objective = float(data["objective"])
        policy = policy_or_text(str(data["policy"]))
        if prices is not None and prices.shape != instance.capacities.shape:
            raise ValueError(f"prices of shape {prices.shape}")
        if bundles is not None:
            shape = (*tasks.shape, instance.n_resources)
            bundles = bundles.reshape(shape) if bundles.size == 0 == np.prod(shape) else bundles
            if bundles.shape != shape:
                raise ValueError(f"bundles of shape {bundles.shape}")
        if not isinstance(certificate.method, str):
            raise TypeError(f"method {certificate.method!r}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInstance(f"{path}: not a whole allocation ({error}); save it again") from error
    for what, found in (("tasks", feasibility(instance, tasks)), ("bundles", _bundles_too_large(instance, bundles))):
        if certificate.violation <= VIOLATION_TOLERANCE < found:
            raise InvalidInstance(
                f"{path}: its {what} exceed a capacity, a limit or eligibility by {found:.2g} of it, though its "
                "certificate says otherwise; the file was changed after it was saved"
            )
    loaded = Allocation(instance, policy, tasks, certificate, objective, prices, bundles)
    if bundles is not None:
        needed = replace(loaded, given_bundles=None).bundles
        if (needed > bundles * (1 + VIOLATION_TOLERANCE)).any():
            raise InvalidInstance(f"{path}: tasks need more than bundles hold; the file was changed after it was saved")
        if _fewer_than_fit(loaded):
            raise InvalidInstance(f"{path}: bundles have room for more tasks; the file was changed after it was saved")
    worth = _value_again(loaded)
    if worth is not None and not np.isclose(worth, objective, rtol=1e-6, atol=1e-300):
        raise InvalidInstance(
            f"{path}: its tasks are worth {worth:.8g} by its policy, not {objective:.8g} as it says; "
            "the file was changed after it was saved"
        )
    return loaded


def _bundles_too_large(instance: Instance, bundles: NDArray[np.floating[Any]] | None) -> float:
    """Largest excess of what is held over the capacity of a server and resource, relative to that capacity.

    Infinity for what nobody can hold: less than nothing, anything where there is none, or where one may not run.
    """
    if bundles is None:
        return 0.0
    room = instance.capacities * instance.counts[:, None]
    misplaced = ~instance.eligible[:, :, None] | (room == 0)
    if not (np.isfinite(bundles).all() and (bundles >= 0).all()) or (bundles[misplaced] > 0).any():
        return float("inf")
    held = bundles.sum(axis=0)
    return float(np.divide(held - room, room, out=np.zeros_like(room), where=room > 0).max(initial=0.0))


def _fewer_than_fit(allocation: Allocation) -> bool:
    """Whether a policy that decides nothing but bundles has fewer tasks than fit in them."""
    policy, instance, bundles = allocation.policy, allocation.instance, allocation.given_bundles
    if not isinstance(policy, Policy) or bundles is None or instance.n_users == 0:
        return False
    if division(instance, policy.objective, policy.constraints) is None:
        return False
    fit = cut_at_limits(instance, tasks_within(instance, bundles))
    return bool((allocation.tasks_by_server < fit * (1 - VIOLATION_TOLERANCE)).any())


def _value_again(allocation: Allocation) -> float | None:
    """The objective at the tasks, where the policy is known and somebody takes part."""
    objective = getattr(allocation.policy, "objective", None)
    part = np.flatnonzero(allocation.instance.task_limits > 0)
    if objective is None or not len(part):
        return None
    instance, tasks, bundles = allocation.instance.taking_part(part), allocation.tasks_by_server[part], None
    if allocation.given_bundles is not None:
        bundles = allocation.given_bundles[part]
    with np.errstate(all="ignore"):
        point = Point(instance, tasks) if bundles is None else BundlePoint(instance, bundles, tasks)
        value = float(objective.value(point))
    return value if np.isfinite(value) else None


def _read_saved(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix == ".parquet":
            _, parquet = arrow_modules()
            table = parquet.read_table(path).to_pydict()
            data = {k: json.loads(v) for k, v in zip(table["part"], table["json"], strict=True)}
        else:
            data = json.loads(path.read_text(encoding="utf-8"))
    except MissingExtra:
        raise
    except FileNotFoundError as error:
        raise InvalidInstance(f"no file {path}; give one that Allocation.save wrote") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInstance(f"{path}: cannot be read as a saved allocation ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInstance(f"{path}: not a saved allocation (no format {FORMAT!r}); give one that save wrote")
    return data


def arrow_modules() -> tuple[Any, Any]:
    """pyarrow and its Parquet part, or `MissingExtra`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "Parquet files") from error
    return pyarrow, pyarrow.parquet
