"""Instances to try things on.

* `random`: from a seed. `demo`: the small cluster that ships.
* `cloud_data_centers`: those of Jiang and Wu. `request_rounds`: random rounds in the manner of Hamzeh et al.
"""
