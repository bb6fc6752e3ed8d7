"""One pool with its users in shards: too many for one array, or on several computers.

* `solve`: all shards together, as the users that methods of one pool work on.
* `workers`: backends that evaluate shards, in this process or on a Dask cluster.
* `shards`: where the rows of a shard are, and how they are read and checked.
"""
