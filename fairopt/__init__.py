"""fairopt: fairness notions as one line of blocks, solved exactly and proved right.

What the public names are made of, from the question to the pictures; a module imports from lines above its own.

* `errors`: all that is raised. `progress`: callbacks for long work. `display`: names as they may be shown. `accessor`:
  methods whose code stands in later modules.
* `instance`: the question; `validation`, `labels`: its arguments, checked and joined by label; `dominance`: which users
  are dominant where.
* `io`: files, data frames and what clusters say of themselves. `instances`: instances to try things on. `datasets`:
  `fairopt.datasets`, which makes instances of both.
* `allocation`: the answer. `certificate`: what was measured of it.
* `blocks`: the language: shares, objectives, constraints.
* `formulation`: blocks and an instance made ready to solve. `proofs`: the gate, the only maker of certificates, and its
  bounds. `methods`: how policies are solved, by kind of instance.
* `policy`: objective and constraints together. `policies`: the named notions.
* `metrics`, `server_sums`: what is measured of allocations, by user and by type of server. `properties`: checks, lies,
  exact answers, the audit, claims of the literature.
* `reading`: saved allocations. `testing`: strategies for Hypothesis. `plots`: pictures. `report`: tables and pages.
* `cli`: the command line.
"""

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
from fairopt.errors import (
    FairoptError,
    Infeasible,
    InvalidBlock,
    InvalidInstance,
    MissingExtra,
    NotCertified,
    NotConcave,
    OutOfDomain,
    SolverUnavailable,
    Unbounded,
)
from fairopt.instance import Instance
from fairopt.methods.batch.allocate_many import Allocations, allocate_many
from fairopt.methods.prepared import Prepared
from fairopt.methods.sharded.solve import ShardedAllocation, allocate_sharded
from fairopt.policies.bottleneck import BottleneckFairness, bottleneck_fairness
from fairopt.policies.bundles import FFMRA, HFFMRA, MLFDRS
from fairopt.policies.dominant import DRF, DRFH, KDF, TSF
from fairopt.policies.per_server import NaivePerServer
from fairopt.policies.psdsf import PSDSF
from fairopt.policies.registry import known_policies, named_policy
from fairopt.policies.tradeoff import FDS, GFJ, NashWelfare, NoFairness, PNormFairness
from fairopt.policy import Policy
from fairopt.progress import progress
from fairopt.properties.audit.audit import audit
from fairopt.properties.audit.findings import AuditReport, Finding, Witness
from fairopt.properties.audit.replay import replay
from fairopt.properties.checks import check
from fairopt.properties.misreports.best import Misreport, best_misreport
from fairopt.properties.monotone import population_monotone, resource_monotone
from fairopt.properties.verdicts import PropertyReport, Verdict
from fairopt.report import Comparison, compare

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
    "DominantShare",
    "EnvyFree",
    "EqualShares",
    "FairShareBase",
    "FairnessEfficiency",
    "FairoptError",
    "Finding",
    "GlobalAggregateResource",
    "Infeasible",
    "Instance",
    "InvalidBlock",
    "InvalidInstance",
    "KDominantShare",
    "Leximin",
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
    "PNormFairness",
    "PNormShare",
    "Policy",
    "Prepared",
    "PropertyReport",
    "Reserve",
    "ResourceShare",
    "ShardedAllocation",
    "Share",
    "SharingIncentive",
    "SolverUnavailable",
    "StandAloneShare",
    "Tasks",
    "Total",
    "Try",
    "Unbounded",
    "Verdict",
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
    "known_policies",
    "metrics",
    "named_policy",
    "population_monotone",
    "progress",
    "read",
    "replay",
    "resource_monotone",
]  # fmt: skip
