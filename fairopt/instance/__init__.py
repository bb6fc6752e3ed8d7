"""The question: demands, capacities, weights, limits and teams, immutable and checked once.

* `data`: `Instance`, and what methods read of it, computed once
* `parts`: some of its users or servers, for solves
* `validation`: the checks of its arguments, with messages that name the user, the value and the fix
* `labels`: values joined by label, of dicts and data frames
* `teams`: labels of users from the innermost out, and their weights
* `limits`: the most that users take together of a resource
* `in_fractions`: the numbers as given, in fractions
* `dominance`: servers and users that cannot matter
"""

from fairopt.instance.data import Instance, entries_of
from fairopt.instance.labels import whole_name
from fairopt.instance.teams import Labelling

__all__ = ["Instance", "Labelling", "entries_of", "whole_name"]
