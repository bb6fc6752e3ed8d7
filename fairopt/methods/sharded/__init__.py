"""Fair sharing of one pool among users in shards: too many for one array, or on many computers.

* `solve`: all shards together, as the users that the methods of one pool ask.
* `workers`: backends that evaluate shards, in this process or on a Dask cluster.
* `waiting`: time limits, and clusters whose workers may be missing, die or stop.
* `shards`: where the rows are, and how a shard is read and checked.
"""
