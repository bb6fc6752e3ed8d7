from fairopt.datasets import read as _read_any
from fairopt_clusters import policies as policies
from fairopt_clusters import schedulers as schedulers
from fairopt_clusters.quotas.owed import quotas as _quotas_of
from fairopt_clusters.read.instances import read_clusterdata2019 as read_clusterdata2019
from fairopt_clusters.read.instances import read_gavel_throughputs as read_gavel_throughputs
from fairopt_clusters.read.instances import read_kubernetes as read_kubernetes
from fairopt_clusters.read.instances import read_openb as read_openb
from fairopt_clusters.read.instances import read_queues as read_queues
from fairopt_clusters.read.instances import read_slurm as read_slurm
from fairopt_clusters.read.queues.tree import Queue as Queue
from fairopt_clusters.read.queues.tree import QueueTree as QueueTree
from fairopt_clusters.report.cluster import report as _report_on
from fairopt_clusters.report.exposition import prometheus as prometheus

__version__: str

# Packages that are also called. For mypy a module is never callable, so here they are objects; the names in them are
# those of their own stubs. In annotations write ``from fairopt_clusters.quotas import Quotas``.

class _Read:
    __call__ = staticmethod(_read_any)

class _Quotas:
    from fairopt_clusters.quotas.quota import Quota as Quota
    from fairopt_clusters.quotas.team_quotas import Change as Change
    from fairopt_clusters.quotas.team_quotas import Expected as Expected
    from fairopt_clusters.quotas.team_quotas import QuotaChanges as QuotaChanges
    from fairopt_clusters.quotas.team_quotas import Quotas as Quotas
    from fairopt_clusters.quotas.trial import Trial as Trial

    __call__ = staticmethod(_quotas_of)

class _Report:
    from fairopt_clusters.report.cluster import ClusterReport as ClusterReport

    prometheus = staticmethod(prometheus)
    __call__ = staticmethod(_report_on)

read: _Read
quotas: _Quotas
report: _Report
