"""The methods of one pool where users are in shards: too many for one array, or on many computers.

* `solve`: `allocate_sharded`, and the users of all shards together, who answer the methods of `methods.pool`.
* `workers`: backends that evaluate shards, in this process or by the workers of a Dask cluster.
* `shards`: where rows are, and how one shard is read and checked.
* `answer`: what comes back, and the folder it is written to.
"""
