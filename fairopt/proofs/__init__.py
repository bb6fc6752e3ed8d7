"""Proofs of answers, from the data as given, the final point and evidence; a solver's claims about itself are none.

* `derivatives`: prices as derivatives of what was optimised; `rises`: those of every level of a leximin.
* `optimum`: a policy at its answer; `system`: what multipliers satisfy there; `multipliers`: all that satisfy it.
"""
