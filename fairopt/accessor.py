"""The table of methods whose code stands in later modules, as `Allocation.plot`.

`Instance`, `Allocation` and `Verdict` are imported by nearly all modules, and have methods that draw, write or prove.
Such a method has its signature and docstring in the class, and imports its function from here when it is called. Early
modules reach later ones in no other way.
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
    "Allocation.prices": "fairopt.derivatives.prices:prices",
    "Allocation.level_prices": "fairopt.derivatives.prices:level_prices",
    "Allocation.share_prices": "fairopt.derivatives.prices:share_prices",
    "Allocation.to_frame": "fairopt.report.frames:frame",
    "Allocation.plot": "fairopt.plots:draw",
    "Allocation._repr_html_": "fairopt.report.layout:allocation_page",
    "Allocation.save": "fairopt.reading:save",
    "Allocation.load": "fairopt.reading:load",
    "Sensitivity.plot": "fairopt.plots.purchase_bars:purchases",
    "Verdict.plot": "fairopt.plots:envy_matrix",
    "AuditReport.load": "fairopt.properties.audit.replay:load",
    "PropertySearch.proved": "fairopt.properties.prove.prove:of_finding",
    "Frontier.plot": "fairopt.plots.tradeoff:draw_frontier",
    "Frontier._repr_html_": "fairopt.report.frontiers:frontier_page",
    "Timeline.with_fair_at": "fairopt.online.fair:with_fair_at",
    "Timeline.to_frame": "fairopt.online.frames:frame",
    "Timeline.plot": "fairopt.plots.timeline:draw_timeline",
    "Timeline.save": "fairopt.online.saved:save",
    "Timeline.load": "fairopt.online.saved:load",
    "Survey.plot": "fairopt.plots:preferences",
}


def later(method: str) -> Callable[..., Any]:
    """The function of a method, from its module, imported on first use.

    Examples
    --------
    >>> later("Allocation.save").__module__
    'fairopt.reading'
    """
    module, _, name = FUNCTIONS[method].partition(":")
    return getattr(import_module(module), name)
