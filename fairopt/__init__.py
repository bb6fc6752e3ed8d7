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
from typing import TYPE_CHECKING

from fairopt.runtime.lazy import public
from fairopt.runtime.progress import progress

if TYPE_CHECKING:
    from fairopt import datasets, metrics
    from fairopt.allocation import Allocation
    from fairopt.blocks.bundles import AtMostRequested, BundleBase, FairShareBase, GlobalAggregateResource, WeightedLog
    from fairopt.blocks.constraints import (
        Constraint,
        EnvyFree,
        EqualShares,
        MaxShare,
        MaxTasks,
        MinShare,
        MinTasks,
        Reserve,
        SharingIncentive,
    )
    from fairopt.blocks.efficiency import FairnessEfficiency
    from fairopt.blocks.marginal import Marginal
    from fairopt.blocks.model import Model
    from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective, OrderedWeighted, Total
    from fairopt.blocks.shares import (
        DominantShare,
        KDominantShare,
        PNormShare,
        ResourceShare,
        Share,
        StandAloneShare,
        Tasks,
    )
    from fairopt.certificate import Certificate, Try
    from fairopt.datasets import read
    from fairopt.derivatives.analysis import Derivatives
    from fairopt.derivatives.sensitivity import Purchase, Sensitivity, sensitivity
    from fairopt.errors import (
        FairoptError,
        Infeasible,
        InvalidBlock,
        InvalidInstance,
        MissingExtra,
        NotCertified,
        NotConcave,
        OutOfDomain,
        OutOfMemory,
        OutOfTime,
        SolverUnavailable,
        Unbounded,
    )
    from fairopt.instance import Instance
    from fairopt.methods.prepared import Prepared
    from fairopt.online.files import Trace, read_jobs
    from fairopt.online.jobs import Job
    from fairopt.online.scheduler import Scheduler, Task
    from fairopt.online.simulation import simulate
    from fairopt.online.timeline import Timeline
    from fairopt.policies.bottleneck import BottleneckFairness, bottleneck_fairness
    from fairopt.policies.bundles import FFMRA, HFFMRA, MLFDRS
    from fairopt.policies.dominant import DRF, DRFH, KDF, TSF
    from fairopt.policies.dynamic import DynamicDRF
    from fairopt.policies.per_server import NaivePerServer
    from fairopt.policies.psdsf import PSDSF
    from fairopt.policies.registry import known_policies, named_policy
    from fairopt.policies.sequential import SequentialMinMax
    from fairopt.policies.tradeoff import FDS, GFJ, NashWelfare, NoFairness, PNormFairness
    from fairopt.policy import Policy
    from fairopt.proofs.verify import Verification, verify
    from fairopt.properties.audit.audit import audit
    from fairopt.properties.audit.findings import AuditReport, Finding, Witness
    from fairopt.properties.audit.replay import replay
    from fairopt.properties.checks import check
    from fairopt.properties.misreports.best import Misreport, best_misreport
    from fairopt.properties.monotone import population_monotone, resource_monotone
    from fairopt.properties.prove.proof import Proof, ProofReport
    from fairopt.properties.prove.prove import prove
    from fairopt.properties.verdicts import PropertyReport, Verdict
    from fairopt.report import Comparison, compare
    from fairopt.scale import Allocations, ShardedAllocation, allocate_many, allocate_sharded
    from fairopt.tradeoff import preferences
    from fairopt.tradeoff.agreement import Agreement, Heterogeneity, heterogeneity, no_tradeoff
    from fairopt.tradeoff.frontier import Frontier, frontier

__version__ = "0.1.0"

__all__ = [
    "DRF",
    "DRFH",
    "FDS",
    "FFMRA",
    "GFJ",
    "HFFMRA",
    "KDF",
    "MLFDRS",
    "PSDSF",
    "TSF",
    "Agreement",
    "Allocation",
    "Allocations",
    "AlphaFair",
    "AtMostRequested",
    "AuditReport",
    "BottleneckFairness",
    "BundleBase",
    "Certificate",
    "Comparison",
    "Constraint",
    "Derivatives",
    "DominantShare",
    "DynamicDRF",
    "EnvyFree",
    "EqualShares",
    "FairShareBase",
    "FairnessEfficiency",
    "FairoptError",
    "Finding",
    "Frontier",
    "GlobalAggregateResource",
    "Heterogeneity",
    "Infeasible",
    "Instance",
    "InvalidBlock",
    "InvalidInstance",
    "Job",
    "KDominantShare",
    "Leximin",
    "Marginal",
    "MaxMin",
    "MaxShare",
    "MaxTasks",
    "MinShare",
    "MinTasks",
    "Misreport",
    "MissingExtra",
    "Model",
    "NaivePerServer",
    "NashWelfare",
    "NoFairness",
    "NotCertified",
    "NotConcave",
    "Objective",
    "OrderedWeighted",
    "OutOfDomain",
    "OutOfMemory",
    "OutOfTime",
    "PNormFairness",
    "PNormShare",
    "Policy",
    "Prepared",
    "Proof",
    "ProofReport",
    "PropertyReport",
    "Purchase",
    "Reserve",
    "ResourceShare",
    "Scheduler",
    "Sensitivity",
    "SequentialMinMax",
    "ShardedAllocation",
    "Share",
    "SharingIncentive",
    "SolverUnavailable",
    "StandAloneShare",
    "Task",
    "Tasks",
    "Timeline",
    "Total",
    "Trace",
    "Try",
    "Unbounded",
    "Verdict",
    "Verification",
    "WeightedLog",
    "Witness",
    "allocate_many",
    "allocate_sharded",
    "audit",
    "best_misreport",
    "bottleneck_fairness",
    "check",
    "compare",
    "datasets",
    "frontier",
    "heterogeneity",
    "known_policies",
    "metrics",
    "named_policy",
    "no_tradeoff",
    "population_monotone",
    "preferences",
    "progress",
    "prove",
    "read",
    "read_jobs",
    "replay",
    "resource_monotone",
    "sensitivity",
    "simulate",
    "verify",
]


# Public names by the module that defines them, which is imported when one of them is first used. A name that its module
# does not define, as `datasets`, is the module itself.
_NAMES = {
    "allocation": "Allocation",
    "blocks.bundles": "AtMostRequested BundleBase FairShareBase GlobalAggregateResource WeightedLog",
    "blocks.constraints": "Constraint EnvyFree EqualShares MaxShare MaxTasks MinShare MinTasks Reserve "
    "SharingIncentive",
    "blocks.efficiency": "FairnessEfficiency",
    "blocks.marginal": "Marginal",
    "blocks.model": "Model",
    "blocks.objectives": "AlphaFair Leximin MaxMin Objective OrderedWeighted Total",
    "blocks.shares": "DominantShare KDominantShare PNormShare ResourceShare Share StandAloneShare Tasks",
    "certificate": "Certificate Try",
    "datasets": "datasets read",
    "derivatives.analysis": "Derivatives",
    "derivatives.sensitivity": "Purchase Sensitivity sensitivity",
    "errors": "FairoptError Infeasible InvalidBlock InvalidInstance MissingExtra NotCertified NotConcave OutOfDomain "
    "OutOfMemory OutOfTime SolverUnavailable Unbounded",
    "instance": "Instance",
    "methods.prepared": "Prepared",
    "metrics": "metrics",
    "online.files": "Trace read_jobs",
    "online.jobs": "Job",
    "online.scheduler": "Scheduler Task",
    "online.simulation": "simulate",
    "online.timeline": "Timeline",
    "policies.bottleneck": "BottleneckFairness bottleneck_fairness",
    "policies.bundles": "FFMRA HFFMRA MLFDRS",
    "policies.dominant": "DRF DRFH KDF TSF",
    "policies.dynamic": "DynamicDRF",
    "policies.per_server": "NaivePerServer",
    "policies.psdsf": "PSDSF",
    "policies.registry": "known_policies named_policy",
    "policies.sequential": "SequentialMinMax",
    "policies.tradeoff": "FDS GFJ NashWelfare NoFairness PNormFairness",
    "policy": "Policy",
    "proofs.verify": "Verification verify",
    "properties.audit.audit": "audit",
    "properties.audit.findings": "AuditReport Finding Witness",
    "properties.audit.replay": "replay",
    "properties.checks": "check",
    "properties.misreports.best": "Misreport best_misreport",
    "properties.monotone": "population_monotone resource_monotone",
    "properties.prove.proof": "Proof ProofReport",
    "properties.prove.prove": "prove",
    "properties.verdicts": "PropertyReport Verdict",
    "scale": "Allocations ShardedAllocation allocate_many allocate_sharded",
    "report": "Comparison compare",
    "tradeoff.agreement": "Agreement Heterogeneity heterogeneity no_tradeoff",
    "tradeoff.frontier": "Frontier frontier",
    "tradeoff.preferences": "preferences",
}

if not TYPE_CHECKING:  # type checkers would take every name for one of the package
    __getattr__, __dir__ = public(__name__, _NAMES)
