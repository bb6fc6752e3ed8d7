"""Theorems by machine: whether a property holds on every instance of a kind.

* `prove`: the proof of a property, with everything that is tried for it. `proof`: what it returns.
* `statements`: that a property fails, in polynomials. `said`: whether blocks are what they say of themselves.
* `provers`: z3 and cvc5. `prover_process`: the process in which one of them answers one question.
"""
