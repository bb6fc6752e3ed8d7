"""What follows from an answer for those who run the cluster.

The name for users, beside `fairopt.what_if`, which returns it: `WhatIf`.

The files:

* `what_if`: the answers before and after a change, and who gains and loses; `changed`: the changed instance.
* `purchases`: what more of each resource and one more of each server bring, by solving again.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
