"""Exact answers in fractions, proved in fractions, of policies whose optimum is rational.

* `reading`: a policy and an instance in rational numbers, as `verify` reads them
"""
