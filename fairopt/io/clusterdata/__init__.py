"""Google's Borg: extracts of ClusterData 2019.

* `reader`: from its tables to the arguments of an instance.
* `rows`: rows of a table in batches of arrays, from CSV or Parquet. `state`: the last event of each thing at a time.
"""

from fairopt.io.clusterdata.reader import read_clusterdata

__all__ = ["read_clusterdata"]
