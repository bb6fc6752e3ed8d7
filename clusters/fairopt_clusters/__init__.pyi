from fairopt_clusters import policies as policies
from fairopt_clusters import quotas as quotas
from fairopt_clusters import read as read
from fairopt_clusters import report as report
from fairopt_clusters import schedulers as schedulers
from fairopt_clusters.quotas.owed import quotas_of as quotas_of
from fairopt_clusters.read.instances import read_clusterdata2019 as read_clusterdata2019
from fairopt_clusters.read.instances import read_gavel_throughputs as read_gavel_throughputs
from fairopt_clusters.read.instances import read_kubernetes as read_kubernetes
from fairopt_clusters.read.instances import read_openb as read_openb
from fairopt_clusters.read.instances import read_queues as read_queues
from fairopt_clusters.read.instances import read_slurm as read_slurm
from fairopt_clusters.read.queues.tree import Queue as Queue
from fairopt_clusters.read.queues.tree import QueueTree as QueueTree
from fairopt_clusters.report.cluster import cluster_report as cluster_report
from fairopt_clusters.report.exposition import prometheus as prometheus

__version__: str
