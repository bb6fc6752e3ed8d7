"""Google's Borg: an instance from extracts of ClusterData 2019."""

from fairopt.io.clusterdata.reader import clusterdata2019

__all__ = ["clusterdata2019"]
