"""Methods of early modules whose code stands in later ones, as `Allocation.plot`: one table says where.

`Instance`, `Allocation` and `Verdict` are known to nearly all modules, and have methods that draw them, write them or
prove something of them. As with the accessors of pandas, such a method has its signature and docstring with the class
and finds its function when it is called. No early module reaches a later one in another way.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["FUNCTIONS", "later"]

FUNCTIONS = {
    "Instance.from_frames": "fairopt.datasets:instance_of_frames",
    "Instance.to_frames": "fairopt.io.frames:to_frames",
    "Instance.plot": "fairopt.plots:draw",
    "Instance._repr_html_": "fairopt.report.layout:instance_page",
    "Allocation.prices": "fairopt.proofs.derivatives.prices:prices",
    "Allocation.level_prices": "fairopt.proofs.derivatives.prices:level_prices",
    "Allocation.share_prices": "fairopt.proofs.derivatives.prices:share_prices",
    "Allocation.to_frame": "fairopt.report.frames:frame",
    "Allocation.plot": "fairopt.plots:draw",
    "Allocation._repr_html_": "fairopt.report.layout:allocation_page",
    "Allocation.save": "fairopt.reading:save",
    "Allocation.load": "fairopt.reading:load",
    "Verdict.plot": "fairopt.plots:envy_matrix",
}


def later(method: str) -> Callable[..., Any]:
    """The function behind a method, from its module, which is imported now if it has not been yet.

    Examples
    --------
    >>> later("Allocation.save").__module__
    'fairopt.reading'
    """
    module, _, name = FUNCTIONS[method].partition(":")
    return getattr(import_module(module), name)
