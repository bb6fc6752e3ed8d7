"""The table of properties and their names; formatting of numbers in sentences about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.runtime.clock import Clock
from fairopt.runtime.tolerances import NOISE


@dataclass(frozen=True)
class Property:
    """A property: its name, what it means, and other names.

    ``check`` is a function as in `checks`, by module and name, and ``margins`` its `Margins`; a property of mechanisms
    has neither. `check` judges ``usual`` ones by default. Papers state ``positive`` ones for positive demands;
    `audit` draws no others by default.
    """

    name: str
    meaning: str
    aliases: str = ""
    check: str = ""
    margins: str = ""
    usual: bool = False
    of_teams: bool = False
    positive: bool = False


TABLE = (  # in the order of reports
    Property(
        "pareto",
        "no feasible allocation gives every user at least as many tasks and some user more",
        "pe pareto-efficiency pareto-efficient",
        "checks:pareto",
        "margins:pareto",
        usual=True,
    ),
    Property(
        "sharing-incentive",
        "no user would run more tasks on its own slice of every server",
        "si",
        "checks:sharing_incentive",
        "margins:sharing_incentive",
        usual=True,
    ),
    Property(
        "sharing-incentive-within",
        "no user would run more tasks on its own slice of every server, where all run on their slices",
        "si-within",
        "checks:sharing_incentive_within",
        "margins:sharing_incentive",
    ),
    Property(
        "team-sharing-incentive",
        "no team, and no user in its team, would hold a larger dominant share with one member's tasks on its slice of "
        "every server",
        "team-si",
        "checks:team_sharing_incentive",
        of_teams=True,
    ),
    Property(
        "team-pareto",
        "no feasible allocation gives every team at least as much in total and some team more",
        "team-pe",
        "checks:team_pareto",
        of_teams=True,
    ),
    Property(
        "envy-free",
        "no user would run more tasks on what another user holds, at its own weight",
        "ef envy-freeness",
        "checks:envy_free",
        "margins:envy_free",
        usual=True,
    ),
    Property(
        "ef1",
        "no user could run more whole tasks than it has on what another user holds less one of the other's tasks",
        "envy-free-up-to-one-task",
        "checks:ef1",
        "margins:ef1",
    ),
    Property(
        "ef1-own",
        "no user could run two whole tasks more than it has on what another user holds",
        "",
        "checks:ef1_own",
        "margins:ef1_own",
    ),
    Property("strategy-proof", "no user runs more tasks by reporting other demands", "sp strategy-proofness"),
    Property("strategy-proof-boosting", "no user runs more tasks by reporting larger demands", "sp-boosting"),
    Property(
        "team-strategy-proof",
        "no team has a member run more tasks, and none fewer, by its members' reports, of whom one may pose as two "
        "users",
        "team-sp team-strategy-proofness",
        of_teams=True,
    ),
    Property(
        "bottleneck",
        "no user has a justified complaint: each has all it asked for, or its entitlement of some full resource",
        "bf bottleneck-fairness bottleneck-fair no-justified-complaints",
        "checks:bottleneck",
        "margins:bottleneck",
        usual=True,
    ),
    Property(
        "population-monotone",
        "when a user leaves, no other user runs fewer tasks",
        "pm population-monotonicity",
        positive=True,
    ),
    Property(
        "resource-monotone",
        "when a capacity grows, no user runs fewer tasks",
        "rm resource-monotonicity",
        positive=True,
    ),
)
BY_NAME = {one.name: one for one in TABLE}
MEANING = {one.name: one.meaning for one in TABLE}
PROPERTIES = tuple(MEANING)
USUAL_CHECKS = tuple(one.name for one in TABLE if one.usual)
OF_TEAMS = tuple(one.name for one in TABLE if one.of_teams)
OF_ALLOCATIONS = (*USUAL_CHECKS, *(one.name for one in TABLE if one.check and not one.usual))  # else of mechanisms
ALIASES = {alias: one.name for one in TABLE for alias in one.aliases.split()}


def spelled(text: object) -> str:
    """A name as properties are spelled, whether there is such a property or not; a short form in full."""
    name = "-".join(str(text).lower().replace("_", " ").replace("-", " ").split())
    return ALIASES.get(name, name)


def canonical(text: object) -> str | None:
    """The canonical name of a property given by name or short form, or None if there is no such property."""
    return name if isinstance(text, str) and (name := spelled(text)) in MEANING else None


def property_name(text: object) -> str:
    """The canonical name of a property; capitals, spaces and underscores do not matter.

    Examples
    --------
    >>> property_name("PE"), property_name("envy_free"), property_name("sp-boosting")
    ('pareto', 'envy-free', 'strategy-proof-boosting')
    """
    name = canonical(text)
    if name is None:
        raise InvalidBlock(f"no property {text!r}; {nearest(text, (*PROPERTIES, *ALIASES))}")
    return name


def texts(given: Any, what: str, usual: Iterable[str] = ()) -> list[str]:
    """Names given as one text or several; the usual ones for None."""
    if given is None:
        return list(usual)
    if not isinstance(given, (str, Iterable)):
        raise InvalidBlock(f"{what} are {given!r}; give a name or a list of names")
    return [given] if isinstance(given, str) else list(given)


def require_whole(value: Any, name: str, least: int = 1) -> None:
    """`InvalidBlock` unless a value is a whole number, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidBlock(f"{name} is {value!r}; give a whole number, {least} or more")


def given_labels(labels: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """Labels of an instance's users, resources or servers; empty for default labels."""
    default = tuple(f"{kind}{k + 1}" for k in range(len(labels)))
    return () if labels == default or (kind == "server" and labels == ("pool",)) else labels


def labelled(words: Iterable[str], labels: Iterable[str]) -> str:
    """Words joined by commas, each after its label if there are labels."""
    names = tuple(labels)
    return ", ".join(map(" ".join, zip(names, words, strict=True)) if names else words)


def zero_if_noise(value: float, beside: float) -> float:
    """A number for a sentence; 0 where it is rounding relative to another.

    Examples
    --------
    >>> zero_if_noise(3e-17, 2.0), zero_if_noise(1e-6, 2.0)
    (0.0, 1e-06)
    """
    return 0.0 if abs(value) <= NOISE * abs(beside) else value


def percent(value: float) -> str:
    """A ratio as a percentage of three digits; "from none" for a gain over zero or rounding.

    Examples
    --------
    >>> percent(0.23456), percent(9.999), percent(float("inf")), percent(1e-17)
    ('23.5%', '1,000%', 'from none', '0%')
    """
    if value >= 1 / NOISE:
        return "from none"
    hundredths = 100 * zero_if_noise(value, 1.0)
    return f"{hundredths:.3g}%" if abs(hundredths) < 999.5 else f"{hundredths:,.0f}%"


def when_late(clock: Clock) -> str:
    """A clause for sentences about unfinished work.

    Examples
    --------
    >>> when_late(Clock(2.5))
    'when the time limit of 2.5 s was over'
    """
    return f"when the time limit of {clock.time_limit or 0.0:g} s was over"
