"""The methods of one pool where users are in shards: too many for one array, or on many computers.

* `solve`: `allocate_sharded`. `answer`: what comes back, and the folder it is written to.
* `shards`: where rows are, and how one shard is read and checked.
* `workers`: who holds the shards, this process or the workers of a Dask cluster, and answers questions about them.
"""
