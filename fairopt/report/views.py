"""One allocation as a pandas frame and as a page of a notebook."""

from __future__ import annotations

import html
from typing import Any

from fairopt.allocation import Allocation
from fairopt.blocks.shares import DominantShare
from fairopt.errors import MissingExtra
from fairopt.report.tables import held_units

__all__ = ["frame", "page"]

MOST = 20  # users on a page


def frame(allocation: Allocation) -> Any:
    """See `Allocation.to_frame`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra("pandas", "parquet", "to_frame()") from error
    instance = allocation.instance
    columns: dict[str, Any] = {
        "weight": instance.weights, "task limit": instance.task_limits, "tasks": allocation.tasks,
        "share": allocation.shares, "dominant share": allocation.share(DominantShare()),
    }  # fmt: skip
    units = held_units(allocation)
    for i, r in enumerate(instance.resources):
        columns[f"{r} (resource)" if r in columns else r] = units[:, i]
    return pd.DataFrame(columns, index=pd.Index(instance.users, name="user"))


def page(allocation: Allocation) -> str:
    """An allocation as HTML: the first users, what is in use, and the certificate.

    Parameters
    ----------
    allocation : Allocation
        Any.

    Returns
    -------
    str
    """
    instance, shares = allocation.instance, allocation.shares
    name = html.escape(str(getattr(allocation.policy, "name", None) or repr(allocation.policy)))
    rows = "".join(
        f"<tr><td>{html.escape(instance.users[j])}</td><td>{allocation.tasks[j]:.6g}</td><td>{shares[j]:.4g}</td></tr>"
        for j in range(min(instance.n_users, MOST))
    )
    more = f"<tr><td colspan=3>and {instance.n_users - MOST} more</td></tr>" if instance.n_users > MOST else ""
    numbers = allocation.metrics()
    used = "in use: " + _percents(numbers["utilisation"])
    if allocation.given_bundles is not None:
        used += "<br>by tasks: " + _percents(numbers["utilisation_of_tasks"])
    return (
        f"<b>{name}</b> on {html.escape(repr(instance))}<table><tr><th>user</th><th>tasks</th><th>share</th></tr>"
        f"{rows}{more}</table>{used}<br>{html.escape(str(allocation.certificate))}"
    )


def _percents(parts: dict[str, float]) -> str:
    return ", ".join(f"{html.escape(r)} {100 * u:.1f}%" for r, u in parts.items())
