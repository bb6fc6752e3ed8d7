from fairopt_clusters.report.cluster import ClusterReport as ClusterReport
from fairopt_clusters.report.cluster import cluster_report as cluster_report
from fairopt_clusters.report.exposition import prometheus as prometheus
