"""The audit of a mechanism: a search for instances that break what is claimed of it.

* `audit`: the function. `hunt`: draws or takes instances, measures them, and proves what fails.
* `measure`: every property, on thousands of pools at once. `answers`: what the mechanism does on many small pools.
* `pools`, `clusters`: small instances, drawn. `own_instances`: those that a user brings.
* `shrink`: from a pool on which a property fails to the smallest one that can be found.
* `findings`: what was found. `replay`: witnesses as files, checked again.
"""
