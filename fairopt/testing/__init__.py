"""Hypothesis strategies for test suites that use fairopt.

* `instances`: small instances. `blocks`: shares, objectives, constraints and policies.
* `allocations`: feasible allocations, misreports, and tasks under misreports.
* `registration`: ``st.from_type``.

Numbers are small integers, or quarters, so that counterexamples are small. They are printed as code, to paste after
``from fairopt import *``.

``st.from_type`` knows `fairopt.Instance`, `fairopt.Policy`, `fairopt.Allocation`, `fairopt.Share` and
`fairopt.Objective` by an entry point. ``HYPOTHESIS_NO_PLUGINS=1`` turns it off, and saves the import of fairopt.

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
