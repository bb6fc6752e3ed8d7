"""Generators of instances, and the data of a small cluster (the folder ``demo``).

* `random`: random log-uniform demands.
* `cloud_data_centers`: the servers of Google's cluster.
* `library`: named instances with sources and certified answers.
"""
