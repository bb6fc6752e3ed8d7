"""The methods of one pool for users in shards: too many for one array, or on many computers.

* `solve`: `allocate_sharded`, and all shards together as the users that methods of `methods.pool` ask.
* `workers`: backends that evaluate shards, in this process or on a Dask cluster.
* `shards`: where the rows are, and how a shard is read and checked.
* `answer`: the result, and the folder that it is written to.
"""

