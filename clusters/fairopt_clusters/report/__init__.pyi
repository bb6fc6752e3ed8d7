from fairopt_clusters.report.cluster import ClusterReport as ClusterReport
from fairopt_clusters.report.exposition import prometheus as prometheus
