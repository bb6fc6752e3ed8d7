"""Selects a picture of an allocation, an instance or several policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.plots.common import check_kind
from fairopt.plots.demands import DemandLines
from fairopt.plots.dominant import DominantShares
from fairopt.plots.envy import EnvyMatrix, check_users
from fairopt.plots.held import check_held, held_bars
from fairopt.plots.panels import Picture, Size, Two, many, one, two_of
from fairopt.plots.price_bars import PriceBars
from fairopt.plots.region import Region
from fairopt.plots.servers import server_types
from fairopt.plots.shares import StackedShares
from fairopt.plots.use_bars import UseBars
from fairopt.policy import label
from fairopt.properties.envy import envy

KINDS = {
    "shares": "shares of each resource by user or team, stacked",
    "dominant": "dominant shares of users or teams, sorted",
    "utilisation": "use of each resource, by class of servers",
    "prices": "the price of the whole capacity of each resource, in % of the highest",
    "demands": "two resources: users' demands as lines, and how the allocation fills the capacities",
    "region": "two users: the feasible region of their tasks, and the answers of the policies",
    "envy": "how many more tasks each user could run with the resources of each other user",
    "held": "what is held now, and what waits, beside what is fair, by team or user",
    "types": "tasks and use of each resource, by server type",
}
FIGURES: dict[str, Callable[..., Any]] = {"held": held_bars, "types": server_types}  # with several panels
PLANES = {"demands": "resources", "region": "users"}  # what the axes stand for


def check(
    instance: Instance,
    kind: str,
    users: Two = None,
    resources: Two = None,
    how: Callable[[str, str], str] | None = None,
) -> None:
    """Raise `InvalidBlock` if `draw` could not draw this kind of picture; nothing is solved.

    ``how`` formats an example of a choice of two names for error messages.
    """
    check_kind(kind, KINDS)
    chosen = {"users": users, "resources": resources}
    for what, names in chosen.items():
        if names is not None and PLANES.get(kind) != what:
            right = next(k for k, w in PLANES.items() if w == what)
            raise InvalidBlock(f"kind={kind!r} takes no {what}=, which goes with kind={right!r}; leave it out")
    if kind in PLANES:
        what = PLANES[kind]
        two_of(instance.users if what == "users" else instance.resources, chosen[what], what, how)
    if kind == "envy":
        check_users(instance.n_users)
    if kind == "held":
        check_held(instance)


def draw(
    subject: Allocation | Instance, kind: str = "shares", ax: Any = None, users: Two = None, resources: Two = None
) -> Any:
    """A picture of an allocation or, for ``demands`` and ``region``, of an instance; see `Allocation.plot`."""
    if isinstance(subject, Instance):
        check(subject, kind, users, resources)
        if kind not in PLANES:
            raise InvalidBlock(f"{kind!r} is a picture of an allocation; those of an instance are {', '.join(PLANES)}")
        return one(_picture(subject, kind, {}, users, resources), None, ax)
    check(subject.instance, kind, users, resources)
    answers = {label(subject.policy): subject}
    if kind in FIGURES:
        return FIGURES[kind](subject.instance, answers, ax)
    return one(_picture(subject.instance, kind, answers, users, resources), subject, ax)


def comparison(
    comparison: Any,
    kind: str = "shares",
    axes: Any = None,
    users: Two = None,
    resources: Two = None,
    size: Size | None = None,
) -> Any:
    r"""A panel for each policy, with shared scales, colours and legend; see `Comparison.plot`.

    ``size`` is that of a new figure in inches, (width, height); None fits the panels.
    """
    check(comparison.instance, kind, users, resources)
    answers = comparison.allocations
    if not answers:
        raise InvalidBlock("no policy gave an answer, so there is nothing to draw; see .errors for why")
    if kind in FIGURES:
        return FIGURES[kind](comparison.instance, answers, axes, size)
    return many(_picture(comparison.instance, kind, answers, users, resources), answers, axes, size)[0].figure


def _picture(instance: Instance, kind: str, found: Mapping[str, Allocation], users: Two, resources: Two) -> Picture:
    allocations = list(found.values())
    if kind == "demands":
        return DemandLines(instance, allocations, resources)
    if kind == "region":
        return Region(instance, found, users)
    if kind == "envy":
        return EnvyMatrix([envy(a) for a in allocations], allocations)
    usual: dict[str, Callable[[Instance, Sequence[Allocation]], Picture]] = {
        "shares": StackedShares,
        "dominant": DominantShares,
        "utilisation": UseBars,
        "prices": PriceBars,
    }
    return usual[kind](instance, allocations)
