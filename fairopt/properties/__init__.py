"""Properties of allocations and mechanisms: checks with witnesses, profitable misreports, and the audit.

The names for users, beside `fairopt.check`, `fairopt.audit` and `fairopt.prove`:

* `PropertyReport` of `Verdict`: what `check` returns. `population_monotone`, `resource_monotone`: whether a user loses
  when another leaves, or when a capacity grows.
* `AuditReport` of `Finding` with `Witness`: what `audit` returns. `replay` checks the witnesses of a saved one again.
* `best_misreport` finds the `Misreport` by which one user gains most.
* `ProofReport` of `Proof`: what `prove` returns.

The files:

* `names`: names of properties, numbers in sentences. `verdicts`: `Verdict`, and tables by property.
* `checks`: properties of one allocation. `pareto`: Pareto efficiency. `envy`: the envy matrix. `feasible`: whether an
  allocation keeps capacities and limits.
* `margins`: violations of properties, of many pools in floats and of one answer in fractions.
* `teams`: labels that policies read, and slices of teams. `team_pareto`: gains of teams' totals.
* `within`: the constraints of a policy in judgements of its answers.
* `work`: tasks counted by a share that differs by server. `units`: what margins are relative to.
* `uncertainty`: errors of tasks, from certified gaps.
* `monotone`: population and resource monotonicity.
* `answers`: answers of a mechanism, checked against the data.
* `misreports`: profitable false reports. `audit`: the search for counterexamples.
* `exact`: independent computations that confirm witnesses. `prove`: proofs by SMT solvers.
* `literature`: claims of papers, with verdicts.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
