from fairopt_clusters.read.instances import read_clusterdata2019 as read_clusterdata2019
from fairopt_clusters.read.instances import read_gavel_throughputs as read_gavel_throughputs
from fairopt_clusters.read.instances import read_kubernetes as read_kubernetes
from fairopt_clusters.read.instances import read_openb as read_openb
from fairopt_clusters.read.instances import read_queues as read_queues
from fairopt_clusters.read.instances import read_slurm as read_slurm
from fairopt_clusters.read.queues.tree import Queue as Queue
from fairopt_clusters.read.queues.tree import QueueTree as QueueTree

__version__: str
