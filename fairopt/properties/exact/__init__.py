"""Witnesses confirmed by an independent computation, mostly in fractions.

* `confirm`: whether a witness is confirmed, and its margin. Shares and mechanisms are computed a second time here, on
  purpose.
* `pool`: answers on one pool in fractions, or to fifty digits.
"""
