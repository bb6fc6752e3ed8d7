"""Saves allocations as JSON or Parquet. Loading executes no code and certifies the allocation again."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import TypeAdapter

from fairopt.allocation import CHANGED, Allocation, ChangedByHand, feasibility, holdings_violation
from fairopt.blocks.algebra import tiers_of
from fairopt.blocks.bundle_model import BundlePoint, cut_at_limits, tasks_in_bundles
from fairopt.blocks.model import Point
from fairopt.certificate import Certificate
from fairopt.errors import FairoptError, InvalidInstance
from fairopt.formulation.division import division
from fairopt.formulation.program import Program
from fairopt.formulation.whole import number_of, whole_instance
from fairopt.instance import Instance, entries_of
from fairopt.io.json_text import json_parts
from fairopt.io.parquet import pyarrow_for
from fairopt.io.saving import write_whole
from fairopt.methods.portable import portable
from fairopt.methods.saved import judged_again, whole_again
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.hierarchical import HDRF, refilled, written
from fairopt.policies.parse import mechanism_or_text
from fairopt.policies.psdsf import PSDSF
from fairopt.policies.tradeoff import NashWelfare
from fairopt.policy import Policy, label
from fairopt.proofs import gate, verify
from fairopt.tolerances import VIOLATION_TOLERANCE

FORMAT = "fairopt.allocation/3"
FORMATS = (FORMAT, "fairopt.allocation/2", "fairopt.allocation/1")  # 1 has no evidence, 2 none that `verify` reads
PROBLEM_NOT_SAVED = "its problem was changed by hand, and the file does not contain the problem"
OF_BLOCKS = ("variables", "multipliers")
CERTIFICATE = TypeAdapter(Certificate)


def save(allocation: Allocation, path: Path, evidence: bool = True) -> Path:
    """See `Allocation.save`."""
    ending = path.suffix.lower()
    if ending not in (".json", ".parquet"):
        raise InvalidInstance(f"{path}: give a name that ends in .json or .parquet")
    arrow, parquet = pyarrow_for("Parquet files") if ending == ".parquet" else (None, cast(Any, None))
    data = {
        "format": FORMAT,
        "policy": repr(allocation.policy),
        "objective": allocation.objective,
        "certificate": asdict(allocation.certificate),
        "instance": entries_of(allocation.instance),
        "tasks_by_server": allocation.tasks_by_server,
        "prices": allocation.evidence_prices,
        "bundles": allocation.given_bundles,
        "evidence": list(allocation.evidence) if evidence else [],
        "placement": allocation.placement,
    }
    for name in OF_BLOCKS:
        if held := getattr(allocation, name):
            data[name] = {key: value.tolist() for key, value in held.items()}
    if isinstance(allocation.policy, ChangedByHand):
        data["proof"] = [{"why": PROBLEM_NOT_SAVED}]
        warnings.warn(
            f"{path}: {PROBLEM_NOT_SAVED}; `load` and `verify` can prove that the tasks fit, not that they are "
            "optimal. To keep a proof, write the change as a block of a policy",
            stacklevel=3,
        )
    elif allocation.exact_proof is not None and evidence:
        data |= {"evidence": [], "exact": allocation.exact_proof}
    elif isinstance(allocation.policy, HDRF) and evidence:
        data["proof"] = [written(allocation)]
    elif not isinstance(allocation.policy, Policy):
        why = f"{label(allocation.policy)} is a mechanism, not the optimum of one objective"
        data["proof"] = [{"why": why}]
    elif evidence:
        data |= portable(allocation)
    if arrow is not None:
        table = arrow.table({"part": list(data), "json": ["".join(json_parts(v)) for v in data.values()]})
        write_whole(path, lambda file: parquet.write_table(table, file))
    else:
        write_whole(path, lambda file: file.writelines(part.encode() for part in json_parts(data)))
    return path


def load(path: Path, policy: Any = None) -> Allocation:
    """See `Allocation.load`."""
    data = _read_saved(path)
    if policy is not None and repr(policy) != data.get("policy"):
        raise InvalidInstance(
            f"{path}: it is an answer of {_named(data.get('policy'))}, not of {_named(policy)}; give the policy "
            "that it was saved with"
        )
    try:
        instance = Instance.from_dict(data["instance"])
        tasks = np.asarray(data["tasks_by_server"], dtype=float).reshape(-1, instance.n_servers)
        if np.shape(data["tasks_by_server"]) not in ((instance.n_users, instance.n_servers), (0,)):
            raise ValueError(f"tasks of shape {np.shape(data['tasks_by_server'])}")
        claim = CERTIFICATE.validate_json(json.dumps(data["certificate"]))  # its gaps are recomputed below
        prices = None if data["prices"] is None else np.asarray(data["prices"], dtype=float)
        bundles = None if data["bundles"] is None else np.asarray(data["bundles"], dtype=float)
        of_blocks = {
            name: {str(key): np.asarray(held, dtype=float) for key, held in data.get(name, {}).items()}
            for name in OF_BLOCKS
        }
        placement = None if data.get("placement") is None else np.asarray(data["placement"], dtype=float)
        objective = float(data["objective"])
        policy = mechanism_or_text(str(data["policy"])) if policy is None else policy
        if prices is not None and prices.shape != instance.capacities.shape:
            raise ValueError(f"prices of shape {prices.shape}")
        if bundles is not None:
            shape = (*tasks.shape, instance.n_resources)
            bundles = bundles.reshape(shape) if bundles.size == 0 == np.prod(shape) else bundles
            if bundles.shape != shape:
                raise ValueError(f"bundles of shape {bundles.shape}")
        if placement is not None:
            placement = placement.reshape(len(tasks), int(instance.counts.sum()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInstance(f"{path}: not a complete allocation ({error}); save it again") from error
    known = {"value": objective, "prices": prices, "bundles": bundles, **of_blocks}
    loaded = gate.of_nothing(instance, tasks, policy, **known)
    if data.get("exact"):  # what follows is in floats
        return gate.as_saved(_exact(loaded, data, path), claim)
    bundle_violation = 0.0 if bundles is None else holdings_violation(instance, bundles)
    for what, found in (("tasks", feasibility(instance, tasks)), ("bundles", bundle_violation)):
        if claim.violation <= VIOLATION_TOLERANCE < found:
            raise InvalidInstance(
                f"{path}: its {what} exceed a capacity, a limit or eligibility by {found:.2g} of it, contrary to "
                "its certificate; the file was changed after it was saved"
            )
    if placement is not None and not np.array_equal(instance._by_row(placement), tasks):
        raise InvalidInstance(f"{path}: its placement has other tasks; the file was changed after it was saved")
    loaded = replace(loaded, placement=placement if claim.whole and isinstance(policy, Policy) else None)
    if bundles is not None:
        needed = replace(loaded, given_bundles=None).bundles
        if (needed > bundles * (1 + VIOLATION_TOLERANCE)).any():
            raise InvalidInstance(
                f"{path}: tasks need more than their bundles; the file was changed after it was saved"
            )
        if _bundles_unused(loaded):
            raise InvalidInstance(f"{path}: bundles have room for more tasks; the file was changed after it was saved")
    value, unit = _recomputed_objective(loaded)
    if value is not None and not abs(value - objective) <= 1e-6 * max(abs(value), unit):
        raise InvalidInstance(
            f"{path}: the objective at its tasks is {value:.8g}, not {objective:.8g}; "
            "the file was changed after it was saved"
        )
    loaded = _recertified(loaded, data.get("evidence"), claim)
    return gate.as_saved(loaded, claim)


def _exact(loaded: Allocation, data: Mapping[str, Any], path: Path) -> Allocation:
    """The allocation with its tasks in fractions, proved again."""
    try:
        verify.policy_of(data)
        faults = verify.proved_exactly(data, verify.Clock())[2]
    except (verify.Fault, verify.CannotCheck, LookupError, TypeError, ValueError, AttributeError) as error:
        faults = [str(error)]
    if faults:
        raise InvalidInstance(f"{path}: its exact answer is not proved ({faults[0]}); save it again")
    exact = data["exact"]
    tasks = np.array([[Fraction(*verify.fraction(x).as_integer_ratio()) for x in row] for row in exact["tasks"]])
    loaded.instance._read_as(
        {
            name: {float(key): Fraction(*verify.fraction(text).as_integer_ratio()) for key, text in of.items()}
            for name, of in (exact.get("read") or {}).items()
        }
    )
    tasks = tasks.reshape(loaded.tasks_by_server.shape)
    return gate.exact(loaded, tasks, exact, loaded.objective, "", time.perf_counter())


def _named(policy: Any) -> str:
    """A policy in a message."""
    return policy[:120] if isinstance(policy, str) else repr(policy)[:120]


def _recertified(loaded: Allocation, evidence: Any, claim: Certificate) -> Allocation:
    """The allocation with a new certificate, as far as it can be proved."""
    policy, instance, tasks = loaded.policy, loaded.instance, loaded.tasks_by_server
    if isinstance(policy, str):
        note = PROBLEM_NOT_SAVED if policy.endswith(CHANGED) else "the file holds only the text of its policy"
    elif not loaded.certificate.violation <= VIOLATION_TOLERANCE:
        note = "it is not feasible"
    elif isinstance(policy, Policy) and loaded.placement is not None:
        return whole_again(loaded, evidence, claim.method, claim.solver)
    elif isinstance(policy, Policy):
        return judged_again(loaded, evidence, claim.method, claim.solver)
    elif isinstance(policy, BottleneckFairness):
        welfare = replace(loaded, policy=NashWelfare())
        return replace(judged_again(welfare, evidence, claim.method, claim.solver), policy=policy)
    elif isinstance(policy, HDRF):
        entry = evidence[0] if evidence else {"kind": "filling"}
        if evidence and "states" not in entry:  # of 0.2
            try:
                return refilled(loaded)
            except FairoptError as error:
                return gate.of_nothing(instance, tasks, policy, note=f"it could not be certified again: {error}")
        return gate.of_filling(policy, instance, instance._sum_by_class(tasks), entry, time.perf_counter())
    elif isinstance(policy, PSDSF):
        return gate.of_equilibrium(policy, instance, tasks, time.perf_counter())
    else:
        note = "certificates of single servers or steps are not saved"
        try:
            again = policy.allocate(instance)
            if np.allclose(again.tasks_by_server, tasks, rtol=VIOLATION_TOLERANCE, atol=0.0):
                return again
        except FairoptError as error:
            note = f"it could not be certified again: {error}"
    known = {"value": loaded.objective, "prices": loaded.evidence_prices, "bundles": loaded.given_bundles}
    return gate.of_nothing(
        instance, tasks, policy, variables=loaded.variables, multipliers=loaded.multipliers, note=note, **known
    )


def _bundles_unused(allocation: Allocation) -> bool:
    """Whether a policy that decides only bundles leaves room for tasks in them."""
    policy, instance, bundles = allocation.policy, allocation.instance, allocation.given_bundles
    if not isinstance(policy, Policy) or bundles is None or instance.n_users == 0:
        return False
    if division(instance, policy.objective, policy.constraints) is None:
        return False
    fit = cut_at_limits(instance, tasks_in_bundles(instance, bundles))
    return bool((allocation.tasks_by_server < fit * (1 - VIOLATION_TOLERANCE)).any())


def _recomputed_objective(allocation: Allocation) -> tuple[float | None, float]:
    """The objective at the tasks, None if the policy is unknown, and the unit to compare it in."""
    objective = getattr(allocation.policy, "objective", None)
    if objective is None:
        return None, 0.0
    given, first, constraints = allocation.instance, tiers_of(objective)[0], allocation.policy.constraints
    try:
        if allocation.placement is not None:  # users for whom no whole task fits are inactive
            given = whole_instance(given, number_of(first), constraints)
        if not all(share._is_plain for share in first.share_blocks()):  # who cannot rise above a base leaves
            program = Program(given, first, constraints)
            if program.nobody_rises:
                return 0.0, 1.0
            objective = program.objective
    except FairoptError:  # reported on certification
        return None, 0.0
    part = np.flatnonzero(given.task_limits > 0)
    if not len(part):
        return None, 0.0
    instance, tasks, bundles = allocation.instance._taking_part(part), allocation.tasks_by_server[part], None
    if allocation.given_bundles is not None:
        bundles = allocation.given_bundles[part]
    with np.errstate(all="ignore"):
        held = (lambda: allocation.variables) if allocation.variables else None
        point = Point(instance, tasks, held) if bundles is None else BundlePoint(instance, bundles, tasks, held)
        value, unit = float(objective.value(point)), float(objective.drop(point))
    return (value, unit if np.isfinite(unit) else 0.0) if np.isfinite(value) else (None, 0.0)


def _read_saved(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix.lower() == ".parquet":
            table = pyarrow_for("Parquet files")[1].read_table(path).to_pydict()
            data = {k: json.loads(v) for k, v in zip(table["part"], table["json"], strict=True)}
        else:
            data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InvalidInstance(f"no file {path}; give one that Allocation.save wrote") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInstance(f"{path}: cannot be read as a saved allocation ({error})") from error
    if not isinstance(data, dict) or data.get("format") not in FORMATS:
        raise InvalidInstance(f"{path}: not a saved allocation (no format {FORMAT!r}); give one that save wrote")
    return data
