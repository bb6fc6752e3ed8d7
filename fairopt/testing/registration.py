"""What ``st.from_type`` knows of fairopt.

A module of its own, since Hypothesis asks for it when it is imported, which may be by `fairopt.testing` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from fairopt.allocation import Allocation
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import Share
from fairopt.instance import Instance
from fairopt.policy import Policy


def register() -> None:
    """Tell ``st.from_type`` about fairopt's types: Hypothesis calls this when it is imported, by its entry point.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from hypothesis import strategies as st
    >>> find(st.from_type(fo.Share), lambda share: True)
    DominantShare()
    """
    everything = dict.fromkeys(("weights", "limits", "placement", "by_server", "counts"), True)
    st.register_type_strategy(Instance, _strategy("instances", n_servers=(1, 2), **everything))
    st.register_type_strategy(Policy, _strategy("policies"))
    st.register_type_strategy(Allocation, _strategy("allocations"))
    st.register_type_strategy(Share, _strategy("shares"))
    st.register_type_strategy(Objective, _strategy("objectives"))


def _strategy(name: str, **options: Any) -> Callable[[Any], Any]:
    """A strategy of `fairopt.testing` that is made when a test asks for the type, since imports may be half-way now."""

    def make(kind: Any) -> Any:
        import fairopt.testing

        return getattr(fairopt.testing, name)(**options)

    return make
