"""The audit of a mechanism: a search for instances that break what is claimed of it.

* `audit`: the function. `property_search`: the search for one property, from random instances to a verified witness.
* `random_instances`: families of small pools, and small clusters. `measure`: by how much a property fails on each of
  thousands of pools. `one_instance`: the same on one instance of several servers.
* `shrink`: from an instance on which a property fails to the smallest one that can be found.
* `findings`: the report, and what was found of each property. `saved`: its file. `replay`: the witnesses of a file,
  checked again.
"""
