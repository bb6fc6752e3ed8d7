"""The audit of a mechanism: a search for instances on which a property fails.

* `audit`: the function `audit`, and the search for one property, from random instances to a confirmed witness, or on
  one instance.
* `random_instances`: families of small pools, and small clusters.
* `measure`: by how much a property fails on each of thousands of pools.
* `shrink`: a smaller instance on which the property still fails.
* `findings`: the report, and its file. `replay`: the witnesses of a file, checked again.
"""
