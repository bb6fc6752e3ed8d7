"""Google's Borg: extracts of ClusterData 2019.

* `reader`: the arguments of an instance from its tables.
* `rows`: rows of a table in batches of arrays, from CSV or Parquet.
* `state`: the state of the cluster at one time, from its events.
"""

from fairopt.io.clusterdata.reader import read_clusterdata

__all__ = ["read_clusterdata"]
