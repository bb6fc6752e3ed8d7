"""The audit of a mechanism: a search for instances on which a property fails.

* `audit`: the search, from random instances to a verified witness. `random_instances`: small pools and clusters.
* `measure`: margins of a property on many pools. `shrink`: smaller instances on which it still fails.
* `findings`: the report and its file. `replay`: verification of a file's witnesses.
"""
