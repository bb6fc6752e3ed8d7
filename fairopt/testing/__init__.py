"""Hypothesis strategies: instances, blocks, policies, misreports and allocations, for test suites that use fairopt.

* `instances`: small instances. `blocks`: shares, objectives, constraints and policies.
* `allocations`: allocations, good and bad; misreports, and the tasks that users truly run.
* `registration`: ``st.from_type``.

Numbers are small and whole (quarters where asked for, which floats hold exactly), so that counterexamples are small;
they are printed as code: paste them after ``from fairopt import *``.

Where fairopt and Hypothesis are both installed, `fairopt.Instance`, `fairopt.Policy`, `fairopt.Allocation`,
`fairopt.Share` and `fairopt.Objective` are known to ``st.from_type``, so that a test can ask for them by annotation.
Hypothesis finds them by an entry point, for which it imports fairopt (about a second); ``HYPOTHESIS_NO_PLUGINS=1``
turns this off.

Examples
--------
>>> import fairopt as fo
>>> from hypothesis import given
>>> from fairopt.testing import instances
>>> @given(instances(weights=True))
... def test_every_user_has_at_least_an_equal_share(instance):
...     shares = fo.DRF().allocate(instance).shares
...     assert (shares >= instance.weights / instance.weights.sum() - 1e-9).all()
>>> test_every_user_has_at_least_an_equal_share()
"""

from fairopt.errors import MissingExtra

try:
    import hypothesis as _  # noqa: F401
except ImportError as missing:
    raise MissingExtra("hypothesis", "testing", "fairopt.testing") from missing

from fairopt.testing.allocations import allocation_of, allocations, misreports, tasks_received
from fairopt.testing.blocks import notions, objectives, policies, shares
from fairopt.testing.instances import instances

__all__ = [
    "allocation_of",
    "allocations",
    "instances",
    "misreports",
    "notions",
    "objectives",
    "policies",
    "shares",
    "tasks_received",
]
