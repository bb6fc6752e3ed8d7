"""Proofs by SMT solvers that a property holds on all instances of a kind.

* `prove`: the search for a proof or a counterexample. `proof`: its results.
* `statements`: polynomial statements that a property fails. `assumptions`: whether blocks compute what they state.
* `provers`: z3 and cvc5. `prover_process`: the script that runs one of them on one statement.
"""
