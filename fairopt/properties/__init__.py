"""Properties of allocations and mechanisms: checks with witnesses, profitable misreports, and the audit.

* `names`: the properties and what each says. `verdicts`: whether one holds, its margin and its witness.
* `checks`: the properties of one allocation. `pareto`: Pareto efficiency. `envy`: the envy matrix.
* `units`: the units of gains and losses.
* `monotone`: whether a user loses when another leaves, or when a capacity grows.
* `answers`: answers of a mechanism, on one instance or on many pools, measured on the data.
* `uncertainty`: by how much tasks may be off under the gap of a certificate.
* `misreports`: what a user can gain by reporting false demands.
* `audit`: the search for instances that break a property of a mechanism.
* `exact`: witnesses confirmed by an independent computation.
* `literature`: what papers claim of mechanisms, with verdicts.
"""

