"""Fairness notions as an objective over users' shares plus constraints, solved exactly and proved right.

The modules in the order of their imports: each imports only from those listed before it. A *pool* is one server, or
several without walls between them; a *tier* an objective that is maximised among the optima of those before it; a
*bundle* what a user holds of each resource on each server; a *witness* an instance or a pair of users that shows that a
property fails.

* `tolerances`: tolerances that modules share.
* `errors`: the exceptions (texts stand where they are raised; that of most `Infeasible` in `methods.infeasible`).
* `runtime`: progress, limits of time, subprocesses, imports on first use. `display`: text made safe for terminals.
* `io`: readers and writers of files, data frames, and output of ``kubectl`` and ``scontrol``.
* `validation`, `labels`: arguments of an `Instance`, checked, and joined by label.
* `dominance`: which users are dominant in which resource of each server.
* `instance`: the problem data. `certificate`: the record of what was measured (made in `proofs.gate`).
* `instances`: generators of instances. `datasets`: `fairopt.datasets`, instances from files and generators.
* `allocation`: the result: tasks, use, shares, prices, certificate.
* `blocks`: shares, objectives and constraints.
* `formulation`: blocks and an instance made ready to solve: what methods and proofs both read.
* `proofs`: the gate, which measures every answer and makes its certificate; bounds.
* `evidence`: the kinds of evidence that prove an answer, each with its bound and its numbers in files.
* `derivatives`: prices, tasks and levels by the numbers of the instance.
* `methods`: how policies are solved, by kind of instance.
* `scale`: many instances of one shape, and users in shards.
* `policy`: `Policy`, an objective with constraints. `policies`: the named notions.
* `metrics`: Jain's index, beta-fairness and utilisation. `server_sums`: sums by class and by type of server.
* `properties`: checks of allocations, misreports, the audit, claims of the literature.
* `tradeoff`: frontiers, whether there is a trade-off, and preferences.
* `online`: a scheduler of whole tasks, and a simulator.
* `reading`: allocations saved to files and loaded. `testing`: Hypothesis strategies. `plots`: pictures.
* `report`: comparisons and tables. `cli`: the command line.
"""

from fairopt.runtime import quiet_start  # noqa: F401  # Ctrl-C during all other imports

# isort: split
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fairopt.runtime.lazy import public_names, public_places
from fairopt.runtime.progress import progress  # noqa: F401

__version__ = "0.1.0"

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
        "proofs": "Verification",
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
