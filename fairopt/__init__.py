"""Fairness notions as an objective over users' shares plus constraints, solved exactly and proved correct.

For users, the names at the top are the language and the verbs; results, errors and helpers are public in the packages
below. For maintainers, modules import only from those listed before them:

* `tolerances`, `errors`, `hostlists`: tolerances that modules share; exceptions; lists such as ``n[1-3]``.
* `runtime`: progress, time limits, subprocesses, imports on first use. `display`: text made safe for terminals.
* `io`: readers and writers of files, data frames, Kubernetes, Slurm and traces.
* `validation`, `labels`, `teams`, `limits`, `dominance`, `fitting`: arguments of an `Instance`; dominant users of each
  resource; tasks that fit on no server. `in_fractions`: the numbers of an instance as fractions.
* `checker`: proves saved answers; shares no code with the rest.
* `instance`, `certificate`: the question; the record of what was measured.
* `instances`, `datasets`, `allocation`: generators; instances from files; the answer.
* `blocks`: shares, objectives, constraints and bundle bases.
* `formulation`: a policy on an instance as numbers, read by methods and proofs.
* `proofs`, `evidence`: the gate, which makes every certificate; kinds of evidence.
* `derivatives`: prices, tasks and levels differentiated by the numbers of the instance.
* `exact`, `methods`, `scale`: exact answers in fractions; solution methods; many instances of one shape, users in
  shards.
* `policy`, `policies`: `Policy`; named notions and mechanisms.
* `metrics`, `server_sums`, `server_names`, `team_sums`, `properties`: measures; sums by class of server and by team;
  short names of servers; checks, audit, proofs, claims.
* `tradeoff`: frontiers, tests for a trade-off, preferences.
* `online`: the scheduler of whole tasks, and the simulator.
* `operate`: what runs now beside what is fair; what stops a user or team; quotas of teams; answers before and after a
  change; what to buy.
* `checker`: proofs of saved answers, by the standard library alone.
* `reading`, `testing`, `plots`: saving, loading and verifying answers; Hypothesis strategies; pictures.
* `report`, `cli`: comparisons and tables; the command line.
"""

from fairopt.runtime import quiet_start  # noqa: F401  # Ctrl-C during all other imports

# isort: split
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fairopt.runtime.lazy import public_names, public_places
from fairopt.runtime.progress import progress  # noqa: F401

__version__ = "0.2.0"

# Names that left the top in 0.1, by their new place: they work for one version.
_MOVED = {
    "Agreement": "tradeoff.TradeoffReport",
    "DRFH": "DRF",
    "NoFairness": "MostTasks",
    "Task": "online.PlacedTask",
    "Trace": "online.JobTrace",
    "preferences": "tradeoff.preferences",
} | {
    name: f"{room}.{name}"
    for room, names in {
        "blocks": "Marginal",
        "certificate": "Try",
        "derivatives": "Derivatives Purchase Sensitivity",
        "errors": "Infeasible InvalidBlock InvalidInstance MissingExtra NotCertified NotConcave OutOfDomain "
        "OutOfMemory OutOfTime SolverUnavailable Unbounded",
        "online": "Timeline read_jobs",
        "policies": "bottleneck_fairness known_policies named_policy",
        "checker": "Verification",
        "properties": "AuditReport Finding Misreport Proof ProofReport PropertyReport Verdict Witness best_misreport "
        "population_monotone replay resource_monotone",
        "report": "Comparison",
        "scale": "Allocations Prepared ShardedAllocation",
        "tradeoff": "Frontier Heterogeneity heterogeneity no_tradeoff",
    }.items()
    for name in names.split()
}

_public, _ = public_names(__name__)


def __getattr__(name: str) -> Any:
    """A public name, one that has moved, or a module of the package, imported now."""
    if name in _MOVED:
        import warnings

        room, _, new = _MOVED[name].rpartition(".")
        place = f"fairopt.{room}".rstrip(".")
        warnings.warn(f"fairopt.{name} is now {place}.{new}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(place), new)
    if name in public_places(__name__) or name == "__all__":
        return _public(name)
    if name.startswith("_") or find_spec(f"fairopt.{name}") is None:
        raise AttributeError(f"module 'fairopt' has no attribute {name!r}")
    return import_module(f"fairopt.{name}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*public_places(__name__), "__all__", "__doc__", "__version__"])
