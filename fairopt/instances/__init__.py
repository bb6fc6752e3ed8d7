"""Generators of instances, and the data of a small cluster (the folder ``demo``).

* `random`: random log-uniform demands.
* `cloud_data_centers`: the instances of Jiang and Wu (2021), and of Google's cluster as they describe it.
* `library`: named instances with sources and certified answers.
* `request_rounds`: rounds of random requests after Hamzeh et al. (2021).
"""
