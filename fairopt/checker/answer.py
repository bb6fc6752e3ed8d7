"""A file as a whole: what it claims, whether it is feasible, and the sentence that says what is proved.

A file is refused if it holds an unknown or a repeated key, a truth value for a number, or an instance that
`fairopt.Instance` refuses: what nobody reads could otherwise mislead a reader. ``objective`` and ``prices`` are no
evidence, and must agree with those computed again. What cannot be proved this way is checked for feasibility.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import proof_file
from .as_written import AsWritten, user_defined
from .bundles import gap_of_bundles
from .claims import check_objective, check_prices, stated_prices
from .constraints import impose
from .exact import proved_exactly, read_differently
from .hierarchy import gap_of_filling
from .instance import Cluster, check_keys, differences, digest
from .numbers import ZERO, Fraction, Tolerances, at_least, numbers, together
from .outcome import UNREAD, CannotCheck, Clock, Fault, Late, Verification, rounded_up, short
from .policy import OBJECTIVES, PARAMETERS, USER_SHARES, Block, block, tiers_of
from .teams import guaranteed, limited
from .tiers import KINDS, gap_of_tier, keep_level
from .whole import leave_out_small_users, loss_of_whole_tasks, violations

OF_BLOCKS = ("variables", "multipliers")  # what a file says of blocks, and the checker does not look at
# keys of a file, and of its instance
FILE = (
    "format",
    "policy",
    "objective",
    "certificate",
    "instance",
    "tasks_by_server",
    "prices",
    "bundles",
    "evidence",
    "placement",
    *OF_BLOCKS,
    "user_policy",
    "given",
    "ideals",
    "floors",
    "exact",
    "as_written",
)
INSTANCE = (
    "users",
    "resources",
    "servers",
    "server_types",
    "units",
    "demands",
    "capacities",
    "weights",
    "task_limits",
    "eligible",
    "counts",
    "rates",
    "teams",
    "innermost_first",
    "guarantees",
    "held",  # read by no policy
    "limits",
)
LOADED = {  # keys of evidence for `Allocation.load` only, by kind
    "duals": ("duals", "stands_in", "unit", "variables", "units"),
    "level duals": ("holdings", "prices", "variables", "units"),
    "rows": ("made", "found"),
    "branches": ("tree",),
}
FORMAT = "fairopt.allocation/4"
EARLIER = tuple(f"fairopt.allocation/{k}" for k in (3, 2, 1))

NOT_JSON = "not JSON; load a Parquet file with Allocation.load and save it as .json"


class Claim(NamedTuple):
    """What a file claims to solve: an objective, an instance, and coefficients taken as given."""

    of: str
    size: dict[str, int]
    digest: str
    given: tuple[str, ...]
    own: tuple[str, ...] = ()  # blocks of which rows and programs are written

    @classmethod
    def made(cls, data: Mapping[str, Any], policy: Block | None) -> Claim:
        """The claim of a file whose instance was checked."""
        instance, of = data["instance"], short(str(data["policy"]))
        if policy is not None and policy.name == "Policy":
            conditions = [short(condition.text) for condition in policy.given.get("constraints", [])]
            of = short(policy.given["objective"].text) + " under " * bool(conditions) + ", ".join(conditions)
        size = {
            "users": len(instance["users"]),
            "servers": int(sum(instance["counts"])),
            "resources": len(instance["resources"]),
        }
        own = () if policy is None or policy.name != "Policy" else tuple(user_defined(policy))
        return cls(of, size, digest(instance), tuple(data.get("given") or ()), own)

    def text(self, how: str = "", beside: str = "") -> str:
        """The claim in words, with ``how`` after the objective, and what is taken as given ``beside`` programs."""
        sizes = ", ".join(f"{count:,} {what[: -1 if count == 1 else None]}" for what, count in self.size.items())
        assumed = f"; the coefficients of {', '.join(map(short, self.given))} are taken as given" if self.given else ""
        assumed += f"; {', '.join(map(short, self.own))} as written in the file{beside}" if self.own else ""
        return f"{self.of}{how}, for {sizes} (SHA-256 {self.digest[:16]}){assumed}"


def policy_of(data: Mapping[str, Any]) -> Block | None:
    """The policy of a file; None for mechanisms and unknown blocks. Unknown keys are refused."""
    text, given = str(data["policy"]), data.get("given") or {}
    check_keys(data, FILE, "the file")
    check_keys(data["instance"], INSTANCE, "the instance")
    try:
        policy = block(text)
    except CannotCheck:
        return None
    if isinstance(policy, Block) and policy.name == "HDRF":
        for k, entry in enumerate(data.get("evidence") or []):
            known = ("kind", "rows", "placements", "floors", "states", "why")
            check_keys(entry, known, f"entry {k} of the evidence")
        return policy
    if not isinstance(policy, Block) or policy.name != "Policy":
        return None
    tiers = tiers_of(policy.given["objective"])
    for k, entry in enumerate(data.get("evidence") or []):
        kind = KINDS.get(entry.get("kind", ""))
        keys = LOADED.get(entry.get("kind", ""), ()) if kind is None else (*kind.keys, "loaded")
        earlier = ("tasks", "level") if k < len(tiers) - 1 and data.get("placement") is None else ()
        whole = ("divisible",) if data.get("placement") is not None else ()
        check_keys(entry, ("kind", "why", "at_base", "rising", *earlier, *whole, *keys), f"entry {k} of the evidence")
    foreign = [share for share in given if share not in text]
    if foreign:
        raise Fault(f"coefficients are given for {short(foreign[0])}, which the policy does not use")
    if data.get("bundles") is not None and data.get("placement") is not None:
        raise Fault("the file has both bundles and a placement of whole tasks")
    return policy


def prove(data: Mapping[str, Any], cluster: Cluster, policy: Block | None) -> tuple[Fraction | None, str, list[str]]:
    """The gap of a saved allocation (of whole tasks, their loss), a remark on it, and the violations."""
    if policy is None:
        why = "; ".join(str(entry["why"]) for entry in data.get("evidence") or () if entry.get("why"))
        if not why:
            block(str(data["policy"]))  # raises if a block is unknown
        raise CannotCheck(why or f"{short(str(data['policy']))} is a mechanism, not the optimum of one objective")
    if policy.name == "HDRF":
        if not data.get("evidence"):
            raise CannotCheck("it was saved without evidence")
        (proof,) = data["evidence"]
        if data.get("placement") is not None:
            raise Fault("HDRF gives no whole tasks")
        faults = violations(cluster, data, limited(cluster))
        gap, how = (ZERO, "") if faults else gap_of_filling(cluster, policy, proof, data.get("objective"))
        return gap, how, faults
    has_guarantees = any(cluster.guarantees) or cluster.team_guarantees
    if has_guarantees and (data.get("bundles") or data.get("placement")) is not None:
        raise CannotCheck("its instance has guarantees")
    if cluster.together and data.get("bundles") is not None:
        raise CannotCheck("its instance has limits")
    objective, conditions = policy.given["objective"], policy.given.get("constraints", [])
    if data.get("bundles") is not None:
        bundles = numbers(data["bundles"], "bundles", cluster.n, cluster.servers, cluster.m)
        gap, faults = gap_of_bundles(cluster, objective, conditions, bundles)
        return gap, "", violations(cluster, data, [], exactly=True) + faults
    cluster.as_written = AsWritten(data, cluster.tasks, cluster.open, cluster.clock)
    if cluster.as_written.parts and data.get("placement") is not None:
        raise CannotCheck("programs are written of divisible tasks, and these are whole")
    rows = guaranteed(cluster) + limited(cluster)
    for k, condition in enumerate(conditions):
        rows += impose(cluster, condition, k)
    cluster.as_written.check_places(policy)
    faults = violations(cluster, data, rows) + cluster.as_written.faults()
    tiers = tiers_of(objective)
    terms = [term for tier in tiers for _, term in tier.terms]
    if faults or (not cluster.active and data.get("placement") is None):
        if unknown := [
            part.text
            for term in terms
            for part in (term, term.share.of_user)
            if part.name not in PARAMETERS and not (part is term and cluster.as_written.parts)
        ]:
            raise CannotCheck(f"{short(unknown[0])} is user-defined, and its code is not in the file")
        return ZERO, "", faults
    cluster.clock.done.append("capacities, limits, eligibility and constraints hold")
    known: list[tuple[str, tuple[str, ...]]] = [(term.name, OBJECTIVES) for term in terms]
    known += [(term.share.of_user.name, USER_SHARES) for term in terms]
    if any(name in PARAMETERS and name not in kind for name, kind in known):
        raise Fault(f"{objective.text} is not an objective of a share")
    evidence = data.get("evidence")
    if data.get("placement") is not None:
        without = leave_out_small_users(cluster, conditions)
        loss, remark = loss_of_whole_tasks(cluster, tiers[0], rows, evidence[0] if evidence else {})
        return loss, remark + without, []
    if not evidence:
        raise CannotCheck("it was saved without evidence")
    gap, stays = ZERO, dict[str, set[str]]()
    for k, (tier, entry) in enumerate(together(tiers, evidence)):
        gap = max(gap, gap_of_tier(cluster, tier, rows, entry))
        stays = dict(cluster.stays) if tier is tiers[0] else stays
        cluster.clock.done.append(f"{short(tier.text)} has a gap of at most {rounded_up(at_least(gap))}")
        rows = rows + (keep_level(cluster, tier, rows, entry, k) if tier is not tiers[-1] else [])
    cluster.stays = stays  # of the objective that the file states
    return gap, ", each level given those before it" * cluster.given_earlier, faults


def verify(
    path: str | Path, instance: Any = None, *, tol: float = 1e-6, atol: float = 0.0, time_limit: float | None = None
) -> Verification:
    """Prove a saved allocation, or a saved proof of any program, from its file alone, without a solver.

    Parameters
    ----------
    path : str or Path
        A JSON file that `Allocation.save` or `fo.certify(problem).save` wrote.
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
    tolerances, clock, collects = Tolerances.of(tol, atol), Clock(time_limit), gc.isenabled()
    gc.disable()  # a sixth of the time: many small numbers, and no cycles
    try:
        return _verified(path, instance, clock, tolerances)
    finally:
        if collects:
            gc.enable()


def _verified(path: str | Path, instance: Any, clock: Clock, tolerances: Tolerances) -> Verification:
    what = "allocation"
    try:
        text = read(path)
        data = parsed(text)
        if data["format"] == proof_file.FORMAT:
            what = "proof"
            if instance is not None:
                raise Fault("the file holds a program, not an instance to compare with the one given")
            return proof_file.verified(data, clock, tolerances)
        policy, cluster = policy_of(data), Cluster(data, clock)
        claim, unchecked, left_out = Claim.made(data, policy), "", dict(UNREAD)
        others = [] if instance is None else differences(data["instance"], instance.to_dict())
        if instance is not None and data.get("exact"):
            others += read_differently(data, instance)
        if others:
            statement = "not proved: the file holds another instance than the one given:"
            return Verification(
                False, math.inf, statement, tuple(others), str(data["policy"]), claim.size, claim.digest
            )
        if not data.get("exact"):  # a tenth of the memory
            del data["instance"], data["tasks_by_server"]
        gap: Fraction | None
        try:
            if data.get("exact"):
                gap, how, faults = proved_exactly(data, clock)
                left_out |= {
                    key: "of the answer in floats" for key in ("prices", "evidence", "ideals") if data.get(key)
                }
            else:
                gap, how, faults = prove(data, cluster, policy)
            if stated_prices(cluster, data) and policy is not None and policy.name == "HDRF" and not data.get("exact"):
                left_out["prices"] = "the levels of a filling have no prices to compare with"
            if data.get("as_written"):
                left_out["as_written"] = "that rows and programs are what its text means; its SHA-256 is checked"
            if data.get("user_policy"):
                left_out["user_policy"] = "its code is not in the file; what is proved is of the built-in blocks"
            left_out |= {key: "they are of blocks, and no part of the proof" for key in OF_BLOCKS if data.get(key)}
            close = gap is not None and (gap < 1 if data.get("placement") is not None else gap <= tolerances.tol)
            if not data.get("exact") and policy is not None and policy.name == "Policy" and close and not faults:
                first = tiers_of(policy.given["objective"])[0]
                check_objective(cluster, first, data)
                if why := check_prices(cluster, first, data):
                    left_out["prices"] = why
        except CannotCheck as reason:
            unchecked, gap, how = str(reason), None, ""
            again = Cluster(parsed(text), clock)
            faults = violations(again, data, (guaranteed(again) if again.floor_proofs else []) + limited(again))
        shown = math.inf if gap is None else at_least(gap)
        beside = cluster.as_written.remark() if cluster.as_written is not None else ""
    except FileNotFoundError:
        raise
    except Late:
        so_far = "; ".join(clock.done) or "nothing is proved yet"
        return Verification(False, math.inf, f"not proved in {clock.seconds:g} s: {so_far}")
    except MemoryError:
        return Verification(False, math.inf, "not proved:", ("the file is too large for this machine's memory",))
    except (Fault, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as e:
        statement = str(e) if isinstance(e, (Fault, OSError)) else f"not a complete {what} ({short(repr(e))})"
        return Verification(False, math.inf, "not proved:", (statement,))
    about = (str(data["policy"]), claim.size, claim.digest)
    if faults:
        count = f"{len(faults)} fault{'s' * (len(faults) > 1)}"
        return Verification(False, math.inf, f"not feasible, {count}:", tuple(faults), *about)
    if unchecked:
        statement = f"cannot be checked this way: {unchecked}; capacities, limits and eligibility hold"
        return Verification(False, math.inf, statement, (), *about)
    if data.get("placement") is not None and shown >= 1:
        return Verification(False, shown, "not proved:", (f"whole tasks fit, but {how}; {claim.text()}",), *about)
    if data.get("placement") is not None:
        statement = f"proved: whole tasks that fit; {how}; {claim.text()}"
        return Verification(True, shown, statement, (), *about, left_out)
    if gap is None or gap > tolerances.tol:
        what = f"the evidence proves only a gap of {shown:.1e} of {claim.text(how, beside)}"
        return Verification(False, shown, "not proved:", (what,), *about)
    gap_is = "gap 0" if data.get("exact") else f"gap <= {rounded_up(shown)}"
    statement = f"proved: {gap_is} of {claim.text(how, beside)}"
    return Verification(True, shown, statement, (), *about, left_out)


def read(path: str | Path) -> str:
    """The text of a file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"no file {path}; give one that Allocation.save wrote") from error
    except UnicodeDecodeError as error:
        raise Fault(NOT_JSON) from error


def parsed(text: str) -> dict[str, Any]:
    """A saved allocation as JSON, without repeated keys."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise Fault("a key occurs twice")
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        fix = "the file seems to be truncated; save the answer again" if cut else "give what Allocation.save wrote"
        raise Fault(f"not JSON (line {error.lineno}: {error.msg}); {fix}") from error
    held = data.get("format") if isinstance(data, dict) else None
    if held in EARLIER:
        raise Fault(f"written by fairopt 0.2 or before (format {held}); upgrade it with fairopt verify --upgrade")
    if held not in (FORMAT, proof_file.FORMAT):
        raise Fault("not a file that Allocation.save or fo.certify(problem).save wrote as JSON")
    return data
