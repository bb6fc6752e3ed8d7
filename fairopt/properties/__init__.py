"""Properties of allocations and mechanisms: checks with witnesses, profitable misreports, and the audit.

The names for users, beside `fairopt.check`, `fairopt.audit` and `fairopt.prove`:

* `PropertyReport` of `Verdict`: what `check` returns. `population_monotone`, `resource_monotone`: whether a user loses
  when another leaves, or when a capacity grows.
* `AuditReport` of `Finding` with `Witness`: what `audit` returns. `replay` checks the witnesses of a saved one again.
* `best_misreport` finds the `Misreport` by which one user gains most.
* `ProofReport` of `Proof`: what `prove` returns.

The files:

* `names`: the properties by name, and numbers in sentences. `verdicts`: verdicts, and reports of many.
* `checks`: the properties of one allocation. `pareto`: Pareto efficiency. `envy`: the envy matrix.
* `margins`: how badly properties of allocations fail, of many pools in floats and of one answer in fractions.
* `units`: the units in which gains and losses are measured.
* `monotone`: whether a user loses when another leaves, or when a capacity grows.
* `answers`: answers of a mechanism, on one instance or on many pools, measured on the data.
* `uncertainty`: how far off tasks may be, judging by the gap of a certificate.
* `misreports`: what a user can gain by reporting false demands.
* `audit`: the search for instances that break a property of a mechanism.
* `prove`: theorems by machine, for every instance of a kind.
* `exact`: witnesses confirmed by an independent computation.
* `literature`: what papers claim of mechanisms, with verdicts.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
