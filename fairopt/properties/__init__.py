"""Properties of allocations and mechanisms: checks with witnesses, profitable lies, and the audit.

* `names`: what the properties are called, and what each says. `verdicts`: whether one holds, by how much it fails, and
  what shows it.
* `checks`: the properties of one allocation. `pareto`: Pareto efficiency. `envy`: the envy matrix. `units`: what
  gains and losses are relative to.
* `monotone`: whether a user loses when another leaves, or when a capacity grows.
* `answers`: what a mechanism answers, on one instance or on many pools at once, measured on the data. `uncertainty`:
  how far off an answer may be under its certificate.
* `misreports`: what a user could gain by reporting other demands than its own.
* `audit`: the search for instances that break a property of a mechanism.
* `exact`: witnesses computed again, by other means. `literature`: what papers claim of mechanisms, and what is so.
"""
