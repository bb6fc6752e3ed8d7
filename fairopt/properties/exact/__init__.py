"""Witnesses computed again, by other means than those that found them.

* `confirm`: whether a witness is believed. `pool`: one pool in fractions, or to fifty digits.
* `margins`: by how much a property fails when all errors are granted.
"""
