from fairopt_clusters import policies as policies
from fairopt_clusters import quotas as quotas
from fairopt_clusters import read as read
from fairopt_clusters import report as report
from fairopt_clusters import schedulers as schedulers
from fairopt_clusters.quotas.owed import quotas_of as quotas_of
from fairopt_clusters.report.cluster import cluster_report as cluster_report
from fairopt_clusters.report.exposition import prometheus as prometheus

__version__: str
