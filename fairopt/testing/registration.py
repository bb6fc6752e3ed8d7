"""The strategies of ``st.from_type`` for fairopt's types.

A separate module, since Hypothesis imports it when it is imported itself, possibly by `fairopt.testing`.
"""

from __future__ import annotations

from hypothesis import strategies as st

from fairopt.allocation import Allocation
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import Share
from fairopt.instance import Instance
from fairopt.policy import Policy
from fairopt.testing.allocations import allocations
from fairopt.testing.blocks import objectives, policies, shares
from fairopt.testing.instances import instances


def register() -> None:
    """Register fairopt's types with ``st.from_type``; Hypothesis calls this by its entry point when it is imported.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from hypothesis import strategies as st
    >>> find(st.from_type(fo.Share), lambda share: True)
    DominantShare()
    """
    everything = dict.fromkeys(("weights", "limits", "placement", "by_server", "counts"), True)
    st.register_type_strategy(Instance, lambda _: instances(n_servers=(1, 2), **everything))
    st.register_type_strategy(Policy, lambda _: policies())
    st.register_type_strategy(Allocation, lambda _: allocations())
    st.register_type_strategy(Share, lambda _: shares())
    st.register_type_strategy(Objective, lambda _: objectives())
