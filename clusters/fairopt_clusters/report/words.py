"""The sentences of a report on a cluster, for readers who do not know the theory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fairopt import HDRF, Allocation, Instance, Policy
from fairopt.blocks import tiers_of
from fairopt.networks import demands_met
from fairopt.policies import label
from fairopt.properties import Verdict
from fairopt.questions import (
    BY_ANSWERS,
    OVER,
    UNDER,
    Explanation,
    Purchases,
    figure,
    held_now,
    idle_sentence,
    listed,
    number,
    plural,
    server_kinds,
    server_names,
    tasks_of,
    team_members,
    team_sums,
    teams_shown,
    too_large,
    why_too_large,
)
from fairopt.report import amount, in_use
from fairopt.runtime import CORES, of_units, visible

NAMED = 3  # users, teams or resources named in a sentence
READABLE = 0.05  # tasks: of smaller gains per unit, 10, 100, ... units are named
MOST_UNITS = 1e6  # so named, if the gain has no end

Entitled: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]  # units by label or "user", name and resource


@dataclass(frozen=True, eq=False)
class Findings:
    """What follows from one answer; ``missing`` says what is not known, and why.

    ``entitled`` is what teams and users get at full demand, None if nobody has a task limit or if it is not known.
    """

    allocation: Allocation
    explanations: tuple[Explanation, ...]
    unexplained: int  # users left out of the explanations
    verdicts: tuple[Verdict, ...]
    purchases: Purchases | None
    missing: tuple[str, ...]
    entitled: Entitled | None = None


@dataclass(frozen=True)
class Advice:
    """One thing to do, and the words of a command that helps; ``kind`` is what it is about."""

    kind: str
    text: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """A team or user who gets less than it asks for; ``asks`` is None without a task limit."""

    name: str
    gets: float
    asks: float | None
    dominant_share: float
    weight: float


@dataclass(frozen=True)
class Worth:
    """What one more of something is worth, in words and numbers.

    ``gain`` is what leads: units more in use of a resource, or tasks. ``percent`` is the gain of 1% more, NaN for a
    server.
    """

    what: str
    text: str
    tasks: float
    gain: float
    percent: float
    up_to: float
    losers: tuple[str, ...]


# -- who ----------------------------------------------------------------------------------------------------------


def who(instance: Instance) -> tuple[str, list[str]]:
    """Whom the page is about: "team" or "user", and their names."""
    by = teams_shown(instance)
    return ("user", [*instance.users]) if by is None else ("team", [*team_members(instance, by)])


def counted(instance: Instance) -> str:
    """How many teams and users without a team, or users, the page is about."""
    kind, names = who(instance)
    alone = sum(name not in instance.teams.names for name in names) if kind == "team" else 0
    without = f" and {plural(alone, 'user')} without a team" if alone else ""
    return plural(len(names) - alone, kind) + without


def waiting(allocation: Allocation) -> list[Waiting]:
    """The teams or users who want more, the smallest dominant share per weight first."""
    instance = allocation.instance
    names, members, weights, _, shares = team_sums(allocation, teams_shown(instance), alone=True)
    met, out = demands_met(allocation), []  # volumes are limits of demands, not of their paths
    for t in np.argsort(shares / weights, kind="stable").tolist():
        rows = members[t]
        if names[t] not in met and (allocation.wanting_more & (instance.task_limits > 0))[rows].any():
            asks = float(instance.task_limits[rows].sum())
            gets = float(allocation.tasks[rows].sum())
            out.append(
                Waiting(names[t], gets, asks if np.isfinite(asks) else None, float(shares[t]), float(weights[t]))
            )
    return out


# -- the summary --------------------------------------------------------------------------------------------------


def in_plain_words(policy: Any) -> str:
    """What a policy does, without its theory.

    Examples
    --------
    >>> import fairopt as fo
    >>> in_plain_words(fo.MostTasks())
    'Runs as many tasks as possible, whoever they belong to; some may get nothing.'
    """
    if isinstance(policy, HDRF):
        return (
            "Teams first, then the users inside each team: all get the same part, by weight, of the resource that they "
            "use most, until they have what they ask for or something they need is full."
        )
    if not isinstance(policy, Policy):
        return "A procedure of its own, not the best answer for one goal."
    tiers = tiers_of(policy.objective)
    terms = tiers[0].terms()
    held = " The conditions that were added always hold." if policy.constraints else ""
    if len(tiers) > 1 or len(terms) != 1:
        return "Several goals together: see the definition under Proofs." + held
    term = terms[0]
    share = "tasks" if term.share is None or type(term.share).__name__ == "Tasks" else "shares"
    if term.is_order or term.is_smallest:
        text = f"Makes the smallest {share} as large as possible"
        text += ", then the next smallest, and so on" * term.is_order + _of_share(term.share)
    elif term.is_linear:
        text = (
            "Runs as many tasks as possible" if share == "tasks" else "Makes the sum of all shares as large as possible"
        )
        text += ", whoever they belong to; some may get nothing."
    elif term.alpha is not None:
        text = (
            f"A compromise: gives a user more where the others lose little by it (alpha = {term.alpha:g}; the larger, "
            f"the closer to equal {share})."
        )
    else:
        text = "A goal of its own: see the definition under Proofs."
    return text + held


def _of_share(share: Any) -> str:
    """The end of a sentence: what a share is, where it is not simply that of one resource."""
    kind = type(share).__name__
    if share is None or kind == "Tasks":
        return "."
    if kind == "DominantShare":
        return "; a share is the largest part of one resource that a user gets."
    return f"; a share is {share}."


def summary(allocation: Allocation) -> tuple[str, ...]:
    """What is divided, what is used up, and who waits."""
    instance, name = allocation.instance, label(allocation.policy)
    kind, names = who(instance)
    servers = plural(int(instance.counts.sum()), "server")
    among = counted(instance) + (f" ({plural(instance.n_users, 'user')})" if kind == "team" else "")
    idle = idle_sentence(allocation)
    out = [f"{idle}."] if idle else []
    out.append(f"{name} divides {servers} among {among} and runs {_tasks(float(allocation.tasks.sum()))}.")
    out.append(in_use(allocation))
    out.append(_who_waits(allocation, kind, len(names)))
    return tuple(filter(None, out))


def _who_waits(allocation: Allocation, kind: str, count: int) -> str:
    """How many get all that they ask for."""
    if not count:
        return "Nobody asks for anything."
    some, of = waiting(allocation), counted(allocation.instance)
    others = "" if of == plural(count, kind) else " and user without a team"
    every = f"The only {kind}" if count == 1 else f"Every {kind}{others}"
    if not some:
        return f"{every} gets all that it asks for: nobody waits."
    first = listed([one.name for one in some], NAMED)
    if len(some) == count:
        return f"{every} asks for more than it gets: {first}."
    done = count - len(some)
    asks = "gets all that it asks" if done == 1 else "get all that they ask"
    return f"{done:,} of {of} {asks} for; {first} {'waits' if len(some) == 1 else 'wait'} for more."


def to_do(findings: Mapping[str, Findings]) -> list[Advice]:
    """What follows for the operator from the first answer, the most urgent first."""
    name, first = next(iter(findings.items()))
    allocation, bought = first.allocation, first.purchases
    out = [*_from_held(allocation)]
    if waiting(allocation):
        if not out:
            out.append(
                Advice(
                    "quotas", "Let the scheduler share by what teams are owed, with no limits of today.", ("quotas",)
                )
            )
    elif allocation.instance.n_users and not out:
        out.append(Advice("fits", "Nothing has to be decided: everything that is asked for fits."))
    large = too_large(allocation.instance)
    if len(large):
        text = why_too_large(allocation.instance, large)
        out.append(Advice("size", f"{text[:1].upper()}{text[1:]}. Change the request, or add a larger server."))
    useful = [one for one in worths(bought) if one.gain > 0]
    if bought is not None and bought.lead is not None:  # GPUs are bought with their servers
        useful.sort(key=lambda one: not np.isnan(one.percent))
    best = useful[0] if useful else None
    if best is not None:
        out.append(Advice("buy", f"If you can add something: {best.text[:1].lower()}{best.text[1:]}", ("buy",)))
    # properties whose violation people who see the numbers could object to
    teams = allocation.instance.teams.mixed
    objections = ("team-sharing-incentive",) if teams else ("sharing-incentive", "envy-free")
    out += [
        Advice("questions", f"Expect questions under {name}: {v.sentence}.")
        for v in first.verdicts
        if v.holds is False and v.name in objections
    ]
    return out


def _from_held(allocation: Allocation) -> list[Advice]:
    """Who holds more and who less than is fair now."""
    held = held_now(allocation, teams_shown(allocation.instance), alone=True)
    if held is None or not held.names:
        return []
    titles = of_units(allocation.instance.resources, allocation.instance.units)
    sides: dict[str, list[str]] = {OVER: [], UNDER: []}
    for r in held.largest_first:
        if held.states[r] in sides:
            i = int(held.judged[r])
            apart = f"{amount(abs(held.difference[r, 1 + i]))} {titles[i]}"
            more = "more" if held.states[r] == OVER else "less"
            sides[held.states[r]].append(f"{held.names[r]} holds {apart} {more} than its fair share")
    if not any(sides.values()):
        return [Advice("held", "Nothing has to be moved: what runs now is what is fair.")]
    out = []
    if sides[OVER]:
        text = f"{listed(sides[OVER], NAMED)}: start no more of {'its' if len(sides[OVER]) == 1 else 'their'} tasks"
        out.append(Advice("held", f"{text} until the others have their shares.", ("quotas",)))
    if sides[UNDER]:
        text = (
            f"{listed(sides[UNDER], NAMED)}: start {'its' if len(sides[UNDER]) == 1 else 'their'} waiting tasks first."
        )
        out.append(Advice("held", text))
    return out


def _tasks(value: float) -> str:
    return tasks_of(value) if value < 1000 else f"{figure(value)} tasks"


# -- prices -------------------------------------------------------------------------------------------------------


def worths(found: Purchases | None) -> list[Worth]:
    """What one more of each resource is worth, and one more server like each, the best first."""
    if found is None:
        return []
    instance, out, lead = found.allocation.instance, list[Worth](), lead_title(found)
    names, titles = short_servers(instance), dict(zip(instance.resources, _more_of(instance), strict=True))
    for row in found.resources:
        if row.reason:
            continue
        where = f" on {names.get(row.server, row.server)}" if instance.n_servers > 1 else ""
        rate = row.tasks if row.lead_units is None else row.lead_units
        percent = row.tasks_per_percent if row.lead_per_percent is None else row.lead_per_percent
        units = _readable_units(rate, percent, row.up_to)
        what = f"{_units(units)} more {titles[row.resource][units > 1]}{where}"
        text = f"{what[:1].upper()}{what[1:]} {_worth(row.tasks * units, rate * units, units == 1, lead)}"
        if rate and np.isfinite(row.up_to) and row.up_to > 0:
            about = "about " * (row.up_to_by == BY_ANSWERS)
            text += f", up to {about}{figure(row.up_to)} more"
        text = f"{text}{_losers(row.losers)}."
        out.append(Worth(what, text, row.tasks * units, rate * units, percent, row.up_to, row.losers))
    kinds = dict(zip(instance.servers, server_kinds(instance), strict=True))
    for one in found.servers:
        if not one.reason:
            kind = f" ({kinds[one.server]})" if one.server in names and kinds[one.server] else ""
            what = f"one more server like {names.get(one.server, one.server)}{kind}"
            gain = one.tasks if one.lead_units is None else one.lead_units
            text = f"O{what[1:]} {_worth(one.tasks, gain, True, lead)}{_losers(one.losers)}."
            out.append(Worth(what, text, one.tasks, gain, np.nan, np.nan, one.losers))
    return out


def lead_title(found: Purchases) -> str | None:
    """What follows an amount of the resource that leads; None if none does."""
    if found.lead is None:
        return None
    instance = found.allocation.instance
    return of_units(instance.resources, instance.units)[instance.resource_index(found.lead)]


def _more_of(instance: Instance) -> list[tuple[str, str]]:
    """What follows "one more" and "10 more": cores of a CPU are named too."""
    titles = of_units(instance.resources, instance.units)
    units = instance.units or [""] * instance.n_resources
    return [
        (f"core of {title}", f"cores of {title}") if unit in CORES else (title, title)
        for title, unit in zip(titles, units, strict=True)
    ]


def _readable_units(rate: float, percent: float, up_to: float) -> float:
    """1, or a power of ten: less if not even 1 has this rate, and more if its gain would be a tiny number.

    If it is not known up to where the rate holds, at most the 1% from which it is computed.
    """
    if 0 < up_to < 1:
        return float(10.0 ** np.floor(np.log10(up_to)))
    most = percent / rate if np.isnan(up_to) and rate else min(up_to, MOST_UNITS)
    units = 1.0
    while 0 < abs(rate * units) < READABLE and units * 10 <= most:
        units *= 10
    return units


def _units(units: float) -> str:
    return "one" if units == 1 else f"{units:,.0f}" if units > 1 else f"{units:g}"


def _worth(tasks: float, gain: float, one: bool, lead: str | None) -> str:
    """A gain or loss in words: units in use of what leads and tasks, or tasks alone."""
    if lead is not None:
        amount = f"{number(abs(gain)) if gain else 'no'} {'fewer' if gain < 0 else 'more'} {lead}"
        more = f"{tasks_of(abs(tasks)) if tasks else 'no tasks'} {'fewer' if tasks < 0 else 'more'}"
        return f"{'puts' if one else 'put'} {amount} in use ({more})"
    if tasks < 0:
        return f"would cost {tasks_of(-tasks)}"
    return f"{'is' if one else 'are'} worth {tasks_of(tasks) if tasks else 'nothing'}"


def _losers(losers: Sequence[str]) -> str:
    return f"; {listed(losers)} {'runs' if len(losers) == 1 else 'run'} fewer tasks then" if losers else ""


# -- names --------------------------------------------------------------------------------------------------------


def short_servers(instance: Instance) -> dict[str, str]:
    """Short names of rows of many servers, by their long names, such as ``a100-01 and 8 like it``."""
    alike = instance.merged()
    return {
        label: f"{name} and {count - 1:,} like it"
        for label, name, count in zip(alike.servers, server_names(alike), alike.counts.tolist(), strict=True)
        if name != label and count > 1
    }


def with_short_servers(text: str, names: Mapping[str, str]) -> str:
    """A sentence in which servers have short names."""
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: names[found.group()], text)


def file_names(policies: Iterable[str]) -> dict[str, str]:
    """Names of JSON files by policy name, all different.

    Examples
    --------
    >>> file_names(["DRF", "FDS(alpha=1)", "drf"])
    {'DRF': 'drf.json', 'FDS(alpha=1)': 'fds-alpha-1.json', 'drf': 'drf-2.json'}
    """
    out: dict[str, str] = {}
    for name in policies:
        plain = re.sub(r"[^a-z0-9.]+", "-", visible(name).lower()).strip("-.")[:60] or "answer"
        tries = [plain, *(f"{plain}-{k}" for k in range(2, len(out) + 2))]
        out[name] = next(f"{one}.json" for one in tries if f"{one}.json" not in out.values())
    return out
