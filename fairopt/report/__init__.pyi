from fairopt.report.cluster import ClusterReport as ClusterReport
from fairopt.report.cluster import cluster_report as cluster_report
from fairopt.report.comparison import Comparison as Comparison
from fairopt.report.files import schema as schema
from fairopt.report.prometheus import prometheus as prometheus
