from fairopt.report.cluster import ClusterReport as ClusterReport
from fairopt.report.cluster import cluster_report as cluster_report
from fairopt.report.comparison import Comparison as Comparison
from fairopt.report.exposition import prometheus as prometheus
from fairopt.report.files import schema as schema
