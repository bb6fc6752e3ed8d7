"""What follows from an answer for those who run the cluster.

* `explain`: what stops a user or team, by answers after small changes (`raised`); `explanation`: the result, and its
  `words`.
"""
