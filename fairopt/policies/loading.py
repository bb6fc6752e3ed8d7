"""Saves allocations as JSON or Parquet. Loading executes no code and certifies the allocation again."""

from __future__ import annotations

import ast
import json
import math
import re
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import TypeAdapter

from fairopt.allocation import CHANGED, Allocation, ChangedByHand, feasibility, holdings_violation
from fairopt.blocks.algebra import Objective, tiers_of
from fairopt.blocks.base import Block, blocks_within, is_ours
from fairopt.blocks.built_in import in_built_in
from fairopt.blocks.bundle_model import BundlePoint, cut_at_limits, tasks_in_bundles
from fairopt.blocks.bundles import WeightedLog
from fairopt.blocks.guarantees import least_share, team_floors
from fairopt.blocks.ideal import IdealGain
from fairopt.blocks.model import Point
from fairopt.blocks.shares import Share, coefficients_cached
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.certificate import Certificate
from fairopt.checker import answer as checker
from fairopt.checker.instance import differences
from fairopt.checker.outcome import Verification
from fairopt.checker.policy import PARAMETERS, USER_SHARES
from fairopt.errors import FairoptError, InvalidInstance
from fairopt.exact.allocate import as_array, prove_again, read_tasks
from fairopt.instance import Instance, entries_of
from fairopt.instance.parts import taking_part
from fairopt.io.json_text import json_parts, read_json_text
from fairopt.io.parquet import pyarrow_for
from fairopt.io.saving import write_whole
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.hierarchical import HDRF, of_classes, refilled, written
from fairopt.policies.parse import mechanism_or_text
from fairopt.policies.psdsf import PSDSF
from fairopt.policies.tradeoff import NashWelfare
from fairopt.policy import Policy, label
from fairopt.proof import gate
from fairopt.proof.as_written import blocks_as_written, in_full
from fairopt.runtime.tolerances import VIOLATION_TOLERANCE
from fairopt.solve.cluster.exact_hierarchy import is_filling
from fairopt.solve.form.division import division
from fairopt.solve.form.no_whole_task import number_of, whole_instance
from fairopt.solve.form.or_zero import searched
from fairopt.solve.form.program import Program
from fairopt.solve.judged_again import judged_again, searched_again, whole_again

FORMAT = "fairopt.allocation/4"
EARLIER = tuple(f"fairopt.allocation/{k}" for k in (3, 2, 1))  # 1 has no evidence, 2 none that `verify` reads
FORMATS = (FORMAT, *EARLIER)
PROBLEM_NOT_SAVED = "its problem was changed by hand, and the file does not contain the problem"
NO_EVIDENCE = {"why": "the answer has no evidence; allocate its instance by its policy for one that has"}
ONLY_TEXT = "the file holds only the text of its policy"
OF_BLOCKS = ("variables", "multipliers")
OF_POLICY = (
    "user_policy",
    "evidence",
    "given",
    "ideals",
    "floors",
    "as_written",
)  # what only a file's policy could make anew
CERTIFICATE = TypeAdapter(Certificate)


class PolicyText(str):
    """The text of a policy whose blocks are not at hand, with the parts of its file that only these could make anew."""

    parts: Mapping[str, Any] = {"evidence": [{"why": f"{ONLY_TEXT}; load it with the policy, and save it again"}]}


def save(allocation: Allocation, path: Path, evidence: bool = True) -> Path:
    """See `Allocation.save`."""
    ending = path.suffix.lower()
    if ending not in (".json", ".parquet"):
        raise InvalidInstance(f"{path}: give a name that ends in .json or .parquet")
    arrow, parquet = pyarrow_for("Parquet files") if ending == ".parquet" else (None, cast(Any, None))
    given = allocation.policy
    allocation = replace(allocation, policy=in_built_in(given))
    data = {
        "format": FORMAT,
        "policy": str(allocation.policy) if isinstance(allocation.policy, PolicyText) else _as_text(allocation.policy),
        "objective": allocation.objective,
        "certificate": asdict(allocation.certificate),
        "instance": entries_of(allocation.instance),
        "tasks_by_server": allocation.tasks_by_server,
        "prices": allocation.evidence_prices,
        "bundles": allocation.given_bundles,
        "evidence": list(allocation.evidence) if evidence else [],
        "placement": allocation.placement,
    }
    if data["policy"] != repr(given) and not isinstance(given, PolicyText):
        data["user_policy"] = repr(given)
    for name in OF_BLOCKS:
        if held := getattr(allocation, name):
            data[name] = {key: value.tolist() for key, value in held.items()}
    if isinstance(allocation.policy, ChangedByHand):
        data["evidence"] = [{"why": PROBLEM_NOT_SAVED}]
        warnings.warn(
            f"{path}: {PROBLEM_NOT_SAVED}; `load` and `verify` can prove that the tasks fit, not that they are "
            "optimal. To keep a proof, write the change as a block of a policy",
            stacklevel=3,
        )
    elif isinstance(allocation.policy, PolicyText):
        data |= allocation.policy.parts if evidence else {}
    elif allocation.exact_proof is not None and evidence:
        data |= {"evidence": [], "exact": allocation.exact_proof}
    elif isinstance(allocation.policy, HDRF) and evidence:
        data["evidence"] = [written(allocation)]
    elif not isinstance(allocation.policy, Policy):
        why = f"{label(allocation.policy)} is a mechanism, not the optimum of one objective"
        data["evidence"] = [{"why": why}]
    elif evidence:
        tiers = tiers_of(allocation.policy.objective)
        data["evidence"] = [
            in_full(held or NO_EVIDENCE, allocation, tier, tier is tiers[-1])
            for held, tier in zip(allocation.evidence or (None,), tiers, strict=False)
        ]
        data |= _beside_evidence(allocation)
    if arrow is not None:
        table = arrow.table({"part": list(data), "json": ["".join(json_parts(v)) for v in data.values()]})
        write_whole(path, lambda file: parquet.write_table(table, file))
    else:
        write_whole(path, lambda file: file.writelines(part.encode() for part in json_parts(data)))
    return path


def _as_text(policy: Any) -> str:
    """A policy as text that is read as what it is: users' blocks become quoted if their text is no Python, as of
    functions, or would be read as a block of fairopt's of the same name.
    """
    text = repr(policy)
    for block in (policy.objective, *policy.constraints) if hasattr(policy, "objective") else ():
        for one in blocks_within(block):
            own = repr(one)
            taken = type(one).__name__ in PARAMETERS
            if not is_ours(one) and not isinstance(one, Share) and (taken or not _is_python(own)):
                text = text.replace(own, f"{'Own' * taken}{type(one).__name__}({own!r})")
    return text


def _is_python(text: str) -> bool:
    """Whether a text is an expression of Python."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


@coefficients_cached()
def _beside_evidence(allocation: Allocation) -> dict[str, Any]:
    """What readers of evidence need besides it: ``given``, coefficients of user-defined shares and bases, ``ideals`` of
    users, ``floors`` of teams, and ``prices`` in units of the objective.
    """
    policy, instance = allocation.policy, allocation.instance
    blocks = set(blocks_within((policy.objective, policy.constraints)))
    shares = [block for block in blocks if isinstance(block, Share) and block._is_plain and not _is_known(block)]
    given = {repr(share): share.per_task(instance).tolist() for share in shares} | _own_bases(instance, blocks)
    out: dict[str, Any] = ({"given": given} if given else {}) | blocks_as_written(policy, instance)
    ideals = {repr(share): share.proofs(instance) for share in blocks if isinstance(share, IdealGain)}
    if any(ideals.values()):
        out["ideals"] = ideals
    if floors := _floors(instance, blocks):
        out["floors"] = floors
    if allocation.evidence_prices is not None and allocation.evidence and allocation.evidence[0]:
        out |= _natural_prices(tiers_of(policy.objective)[0], allocation.evidence[0])
    return out


def _is_known(share: Share) -> bool:
    """Whether the checker always computes the coefficients of a share itself."""
    return is_ours(share) and type(share).__name__ in USER_SHARES


def _own_bases(instance: Instance, blocks: Iterable[Block]) -> dict[str, Any]:
    """Weights of user-defined bundle bases, 0 for users who take no part."""
    part, given = instance.task_limits > 0, {}
    for log in blocks:
        if isinstance(log, WeightedLog) and not is_ours(log.base):
            weights = np.zeros((*instance.eligible.shape, instance.n_resources))
            if part.any():
                weights[part] = log.bases(taking_part(instance, part))
            given[repr(log.base)] = weights.tolist()
    return given


def _floors(instance: Instance, blocks: Iterable[Block]) -> dict[str, Any]:
    """What proves the floors of teams, by resource, and what these are worth in shares of which a surplus is."""
    out: dict[str, Any] = {}
    shares = [block.share for block in blocks if isinstance(block, Surplus) and block.base is None]
    for team, floor in team_floors(instance).items():
        out[team] = {str(i): use.entry for i, use in floor.uses.items()}
        for share in shares:
            if isinstance(share, OfTeam) and team in share._names(instance):
                worth = least_share(instance, floor, share.share.coefficients(instance))
                out[team][repr(share.share)] = worth.entry
    return out


def _natural_prices(objective: Objective, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The prices of an entry in units of the objective; None if they exceed the range of floats."""
    if entry.get("kind") != "prices" or any(term.measure for term in objective.terms()):
        return {}
    alpha = objective.term.alpha or 0.0
    with np.errstate(all="ignore"):
        prices = np.maximum(entry["prices"], 0.0) * np.float64(entry.get("unit", 1.0)) ** (1.0 - alpha)
    return {"prices": prices.tolist() if np.isfinite(prices).all() else None}


def verify(
    path: str | Path,
    instance: Instance | None = None,
    *,
    tol: float = 1e-6,
    atol: float = 0.0,
    time_limit: float | None = None,
) -> Verification:
    """Prove a saved answer from its file alone, by code of the standard library that shares none with the methods.

    It may also hold a cone program with a point and a dual point: these prove the optimum of any CVXPY problem.

    A file of an earlier version is upgraded first (`upgrade`): its tasks are kept, and new evidence is found for them.

    Parameters
    ----------
    path : str or Path
        A JSON file that `Allocation.save` wrote.
    instance : Instance, optional
        The instance that the answer should be for. If the file holds another one, the answer is not proved, and
        ``faults`` lists the differences. The order of users, servers and resources, notes, units, server types and
        what is held do not count.
    tol : float, default 1e-6
        The largest gap that is proved; of a program also its largest violation.
    atol : float, default 0
        Of a program: the largest distance of value and bound that is proved whatever the gap is, for optima of 0.
    time_limit : float, optional
        Seconds; reading the file does not count. ``statement`` says what was proved within them.

    Returns
    -------
    Verification
        ``ok`` only if the answer is proved feasible and within ``tol`` of the optimum.

    Raises
    ------
    FileNotFoundError
        If there is no such file.

    Notes
    -----
    User-defined constraints and objectives are proved as the file writes them: as rows, cone programs or tangents;
    that these are what their code means is not. Coefficients of user-defined shares and bundle bases are taken as
    given. Not provable from a file are mechanisms other than `HDRF`, answers saved without evidence, and some
    combinations of user-defined blocks; ``statement`` says so. Capacities, limits and eligibility are always checked.

    Examples
    --------
    >>> import pathlib, tempfile, fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> file = fo.DRF().allocate(cluster).save(pathlib.Path(tempfile.mkdtemp()) / "drf.json")
    >>> fo.verify(file, cluster).ok
    True
    >>> print(fo.verify(file, cluster.with_weights([1, 2])))
    not proved: the file holds another instance than the one given:
      user 'user2': weight 1.0 in the file, 2.0 in the instance given
    """
    if _format_of(Path(path)) not in EARLIER:
        return checker.verify(path, instance, tol=tol, atol=atol, time_limit=time_limit)
    with tempfile.TemporaryDirectory() as folder:
        try:
            new = upgrade(Path(path), Path(folder) / "upgraded.json")
        except FairoptError as error:
            return Verification(False, math.inf, "not proved:", (str(error),))
        return checker.verify(new, instance, tol=tol, atol=atol, time_limit=time_limit)


def upgrade(old: Path, new: Path) -> Path:
    """Write a file of an earlier version in the current format, with the same instance, policy and tasks.

    `InvalidInstance` if the new file would state something else; it is then not written.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / new.name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of problems that were changed by hand
            save(load(old), made)
        before, after = _read_saved(old), _read_saved(made)
        if not all(_is_numbers(before.get(name)) for name in ("objective", "tasks_by_server", "prices", "bundles")):
            raise InvalidInstance(f"{old}: a text or a truth value stands for a number; allocate it again")
        names = ("policy", "tasks_by_server", "bundles", "placement")
        same = {name: before.get(name) == after.get(name) for name in names}
        same["instance"] = not differences(before["instance"], after["instance"])
        if before.get("exact") is not None:
            same["exact"] = before["exact"] == after.get("exact")
        if wrong := [name for name, is_same in same.items() if not is_same]:
            raise InvalidInstance(f"{old}: {' and '.join(wrong)} would change when it is upgraded; allocate it again")
        content = made.read_bytes()
        write_whole(new, lambda file: file.write(content))
    return new


def _is_numbers(value: Any) -> bool:
    """Whether there are only numbers and nulls in lists."""
    if isinstance(value, list):
        return all(map(_is_numbers, value))
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


_FIRST = re.compile(r'\s*\{\s*"format"\s*:\s*"([^"\\]*)"')


def _format_of(path: Path) -> str:
    """The format that a JSON file states; empty if it states none."""
    try:
        text = path.read_text(encoding="utf-8")
        if first := _FIRST.match(text):  # as `save` writes it: a file of 100,000 users takes 0.3 s to parse
            return first[1]
        return str(json.loads(text)["format"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""


def load(path: Path, policy: Any = None) -> Allocation:
    """See `Allocation.load`."""
    data = _read_saved(path)
    if policy is not None and repr(policy) not in (data.get("policy"), data.get("user_policy")):
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
        policy = _policy_of(data) if policy is None else policy
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
    if placement is not None and not np.array_equal(instance.derived.by_row(placement), tasks):
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
    kept, earlier = data.get("evidence"), data["format"] in EARLIER
    if earlier and kept and not isinstance(policy, HDRF):
        kept = [_of_earlier(held) for held in kept]
    loaded = _recertified(loaded, kept, claim, keep=not earlier)
    return gate.as_saved(loaded, claim)


def _policy_of(data: Mapping[str, Any]) -> Any:
    """The policy of a file; its text if that is not made of fairopt's blocks only."""
    policy = mechanism_or_text(str(data["policy"]))
    if not isinstance(policy, str):
        return policy
    text = PolicyText(policy)
    if data["format"] == FORMAT:
        text.parts = {name: data[name] for name in OF_POLICY if name in data}
    return text


def _of_earlier(held: Any) -> dict[str, Any] | None:
    """Evidence of an earlier version, numbers as its methods left them; None for kinds that are read no more."""
    kind = held.get("kind") if isinstance(held, dict) else None
    if kind == "levels" and "holdings" in held:
        return {**held, "kind": "level duals"}
    if kind == "rows":
        rows = _of_earlier(held.get("found"))
        return rows and {**held, "found": rows}
    return held if kind == "duals" else None


def _exact(loaded: Allocation, data: Mapping[str, Any], path: Path) -> Allocation:
    """The allocation with its tasks in fractions, proved again."""
    exact = data["exact"]
    try:
        read = {
            name: {float(key): Fraction(text) for key, text in of.items()} for name, of in exact.get("read", {}).items()
        }
        loaded.instance.derived.read_as(read)
        table = read_tasks(loaded.instance, exact["tasks"])
        if isinstance(loaded.policy, str):
            raise ValueError(ONLY_TEXT)
        prove_again(loaded.policy, loaded.instance, table, exact["proof"])
        if isinstance(loaded.policy, HDRF) and not is_filling(loaded.policy, loaded.instance, table):
            raise ValueError("its tasks are not those of the filling")
        tasks = as_array(table, loaded.instance)
        if not np.array_equal(tasks.astype(float), loaded.tasks_by_server):
            raise ValueError("its tasks are not those of the exact answer, rounded")
        return gate.exact(loaded, (), tasks, exact, loaded.objective, "", time.perf_counter())
    except (FairoptError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InvalidInstance(f"{path}: its exact answer is not proved ({error}); save it again") from error


def _named(policy: Any) -> str:
    """A policy in a message."""
    return policy[:120] if isinstance(policy, str) else repr(policy)[:120]


def _recertified(loaded: Allocation, evidence: Any, claim: Certificate, keep: bool) -> Allocation:
    """The allocation with a new certificate, as far as it can be proved; evidence that proves it is kept with
    ``keep``.
    """
    policy, instance, tasks = loaded.policy, loaded.instance, loaded.tasks_by_server
    if isinstance(policy, str):
        note = PROBLEM_NOT_SAVED if policy.endswith(CHANGED) else ONLY_TEXT
    elif not loaded.certificate.violation <= VIOLATION_TOLERANCE:
        note = "it is not feasible"
    elif isinstance(policy, Policy) and searched(policy.constraints):
        return searched_again(loaded, evidence)
    elif isinstance(policy, Policy) and loaded.placement is not None:
        return whole_again(loaded, evidence, claim.method, claim.solver, keep)
    elif isinstance(policy, Policy):
        return judged_again(loaded, evidence, claim.method, claim.solver, keep)
    elif isinstance(policy, BottleneckFairness):
        welfare = replace(loaded, policy=NashWelfare())
        return replace(judged_again(welfare, evidence, claim.method, claim.solver, keep), policy=policy)
    elif isinstance(policy, HDRF):
        entry = evidence[0] if evidence else {"kind": "filling"}
        if evidence and "states" not in entry:  # of 0.2
            try:
                return refilled(loaded)
            except FairoptError as error:
                return gate.of_nothing(instance, tasks, policy, note=f"it could not be certified again: {error}")
        by_class = of_classes(instance, entry)
        return gate.of_filling(policy, instance, instance.derived.sum_by_class(tasks), by_class, time.perf_counter())
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
    instance, tasks, bundles = taking_part(allocation.instance, part), allocation.tasks_by_server[part], None
    if allocation.given_bundles is not None:
        bundles = allocation.given_bundles[part]
    with np.errstate(all="ignore"):
        held = (lambda: allocation.variables) if allocation.variables else None
        point = Point(instance, tasks, held) if bundles is None else BundlePoint(instance, bundles, tasks, held)
        value, unit = float(objective.value(point)), float(objective.drop(point))
    return (value, unit if np.isfinite(unit) else 0.0) if np.isfinite(value) else (None, 0.0)


def _read_saved(path: Path) -> Mapping[str, Any]:
    """The parts of a saved allocation: JSON without keys given twice, or Parquet."""
    if path.suffix.lower() == ".parquet":
        data = _parts_of_parquet(path)
    else:
        data = read_json_text(path, "give one that Allocation.save wrote")
    if data.get("format") not in FORMATS:
        raise InvalidInstance(f"{path}: not a saved allocation (no format {FORMAT!r}); give one that save wrote")
    return data


def _parts_of_parquet(path: Path) -> dict[str, Any]:
    """The columns ``part`` and ``json`` of a Parquet file."""
    try:
        table = pyarrow_for("Parquet files")[1].read_table(path).to_pydict()
        return {k: json.loads(v) for k, v in zip(table["part"], table["json"], strict=True)}
    except FileNotFoundError as error:
        raise InvalidInstance(f"no file {path}; give one that Allocation.save wrote") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInstance(f"{path}: cannot be read as a saved allocation ({error})") from error
