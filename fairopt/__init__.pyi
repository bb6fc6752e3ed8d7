# The public names, which `fairopt/runtime/lazy.py` reads. What is imported from "." are rooms: not listed.
from fairopt import datasets as datasets
from fairopt import metrics as metrics
from fairopt.allocation import Allocation as Allocation
from fairopt.blocks.bundles import AtMostRequested as AtMostRequested
from fairopt.blocks.bundles import BundleBase as BundleBase
from fairopt.blocks.bundles import FairShareBase as FairShareBase
from fairopt.blocks.bundles import GlobalAggregateResource as GlobalAggregateResource
from fairopt.blocks.bundles import WeightedLog as WeightedLog
from fairopt.blocks.constraints import *
from fairopt.blocks.efficiency import FairnessEfficiency as FairnessEfficiency
from fairopt.blocks.model import Model as Model
from fairopt.blocks.objectives import *
from fairopt.blocks.shares import *
from fairopt.blocks.teams import OfTeam as OfTeam
from fairopt.blocks.teams import Surplus as Surplus
from fairopt.certificate import Certificate as Certificate
from fairopt.datasets import read as read
from fairopt.derivatives.sensitivity import sensitivity as sensitivity
from fairopt.errors import FairoptError as FairoptError
from fairopt.instance import Instance as Instance
from fairopt.online.jobs import Job as Job
from fairopt.online.scheduler import Scheduler as Scheduler
from fairopt.online.simulation import simulate as simulate
from fairopt.policies.bargaining import KalaiSmorodinsky as KalaiSmorodinsky
from fairopt.policies.bargaining import NashBargaining as NashBargaining
from fairopt.policies.bottleneck import BottleneckFairness as BottleneckFairness
from fairopt.policies.bundles import FFMRA as FFMRA
from fairopt.policies.bundles import HFFMRA as HFFMRA
from fairopt.policies.bundles import MLFDRS as MLFDRS
from fairopt.policies.dominant import DRF as DRF
from fairopt.policies.dominant import KDF as KDF
from fairopt.policies.dominant import TSF as TSF
from fairopt.policies.dynamic import DynamicDRF as DynamicDRF
from fairopt.policies.hierarchical import HDRF as HDRF
from fairopt.policies.loading import verify as verify
from fairopt.policies.per_server import NaivePerServer as NaivePerServer
from fairopt.policies.psdsf import PSDSF as PSDSF
from fairopt.policies.sequential import SequentialMinMax as SequentialMinMax
from fairopt.policies.tradeoff import FDS as FDS
from fairopt.policies.tradeoff import GFJ as GFJ
from fairopt.policies.tradeoff import MostTasks as MostTasks
from fairopt.policies.tradeoff import NashWelfare as NashWelfare
from fairopt.policies.tradeoff import PNormFairness as PNormFairness
from fairopt.policy import Policy as Policy
from fairopt.proof.certify import certify as certify
from fairopt.properties.audit.audit import audit as audit
from fairopt.properties.checks import check as check
from fairopt.properties.prove.prove import prove as prove
from fairopt.questions.what_if import what_if as what_if
from fairopt.report.comparison import compare as compare
from fairopt.runtime.progress import progress as progress
from fairopt.scale.many import allocate_many as allocate_many
from fairopt.scale.sharded import allocate_sharded as allocate_sharded
from fairopt.tradeoff.frontier import frontier as frontier

from . import blocks as blocks
from . import certificate as certificate
from . import checker as checker
from . import cli as cli
from . import derivatives as derivatives
from . import errors as errors
from . import exact as exact
from . import networks as networks
from . import online as online
from . import plots as plots
from . import policies as policies
from . import properties as properties
from . import questions as questions
from . import report as report
from . import runtime as runtime
from . import scale as scale
from . import tradeoff as tradeoff

__version__: str
