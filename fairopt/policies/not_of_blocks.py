"""What mechanisms that are not made of blocks say to those who add constraints to them."""

from __future__ import annotations

from typing import Any, NoReturn

from fairopt.errors import InvalidBlock
from fairopt.runtime.display import label


class NotOfBlocks:
    """A mechanism that takes no constraints, such as `HDRF`."""

    def with_constraints(self, *constraints: Any) -> NoReturn:
        """Raise `InvalidBlock`, with what to use instead.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.HDRF().with_constraints(fo.MaxShare({"vision": 0.3}, fo.OfTeam()))
        Traceback (most recent call last):
            ...
        fairopt.errors.InvalidBlock: HDRF is not made of blocks, so constraints cannot be added to it; it keeps ...
        """
        raise InvalidBlock(no_constraints(self))


def no_constraints(mechanism: Any) -> str:
    """That a mechanism takes no constraints, and what to use instead."""
    keeps = (
        "it keeps limits of the instance on what users and teams take, as in instance.replace(limits=[{'resource': "
        "'gpu', 'amount': 16, 'of': ['vision']}]) or --limit vision=16gpu; or "
        if getattr(mechanism, "_keeps_limits", False)
        else ""
    )
    name = label(mechanism)
    return f"{name} is not made of blocks, so constraints cannot be added to it; {keeps}use a policy such as drf"
