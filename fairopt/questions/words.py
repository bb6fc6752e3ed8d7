"""An explanation in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fairopt.blocks.guarantees import limited_units
from fairopt.questions.explained_answer import SAME, ExplainedAnswer
from fairopt.questions.explanation import Binding, Explanation, listed, losses, number, percent, tasks_of
from fairopt.questions.fitting import too_large, why_too_large
from fairopt.runtime.display import of_units, without_vendor

TINY = 1e-12
MANY = 0.05  # of what it gains: losses of others, each too small to be told from rounding, that are named


def sentences(found: Explanation, about: ExplainedAnswer) -> Explanation:
    """The explanation with its sentences."""
    lines = _Words(found, about)
    return replace(found, sentences=tuple(filter(None, lines.all())))


class _Words:
    """The sentences of one explanation."""

    def __init__(self, found: Explanation, about: ExplainedAnswer) -> None:
        self.found, self.about, self.instance = found, about, about.instance
        self.subject = about.subject(found.name)
        self.of_team = self.subject.is_team or found.name not in self.instance.derived.position
        names = self.instance.resources
        self.short = dict(zip(names, without_vendor(names), strict=True))
        self.title = dict(zip(names, of_units(names, self.instance.units), strict=True))

    def all(self) -> list[str]:
        """The sentences in order."""
        found = self.found
        if not self.instance.task_limits[self.subject.members].any():
            return [self._nothing()]
        if any(b.kind == "undecided" for b in found.binding):
            return [
                f"{found.name} has {self._amount()}, but {found.policy} does not decide how much: other answers, in "
                "which it has more or less, are equally good."
            ]
        if self.about.again is None or self.about._is_split(self.subject):
            return self._facts()
        if any(b.kind == "unknown" for b in found.binding):
            return [f"{found.name} has {self._amount()}; what stops it is not known.", self._also()]
        return [self._stops(), self._gain(), self._weight(), self._also(), self._unsteady(), self._totals()]

    def _amount(self) -> str:
        """What it has."""
        found = self.found
        if not self.of_team:
            return tasks_of(found.tasks)
        total = self.instance.total_capacities
        held = np.array([found.units[name] for name in self.instance.resources])
        i = int(np.argmax(np.divide(held, total, out=np.zeros(len(held)), where=total > 0)))
        return f"{number(held[i])} {self.title[self.instance.resources[i]]}"

    def _nothing(self) -> str:
        """Of who asks for no tasks, or for such that no server can run, or that limits of 0 rule out."""
        instance, members = self.instance, self.subject.members
        if instance.derived.given("task_limits")[members].any():
            pairs = zip(instance.limits, limited_units(instance), strict=True)
            none = listed([one.name for one, units in pairs if one.amount == 0 and units[members].any()])
            return f"{self.found.name} gets no tasks: the limit on {none} is 0."
        whose = "the task limits of its users are" if self.subject.is_team else "its task limit is"
        large = np.intersect1d(too_large(self.about.whole), self.subject.members)
        why = f"; {why_too_large(self.about.whole, large)}" if len(large) else ""
        return f"{self.found.name} gets no tasks: {whose} 0{why}."

    def _facts(self) -> list[str]:
        """Only what is known without answers to changes."""
        found, about = self.found, self.about
        limits = [b for b in found.binding if b.kind == "limit"]
        full = [b for b in found.binding if b.kind == "fact"]
        text = f"{found.name} has {self._amount()}"
        if limits and not self.subject.is_team:
            text += ", all that it asks for"
        elif limits:
            text += f", all that {listed([b.name for b in limits])} ask{'s' * (len(limits) == 1)} for"
        if full:
            text += f"; where it runs, {self._are_full(full)}"
        if about.again is not None:
            team = next(t for t in self.about.levels if self.subject.members[0] in self.instance.teams.names[t])
            return [f"{text}.", f"{found.policy} compares teams: see {team} for what stops it."]
        where = "in whole tasks" if about.allocation.certificate.whole else f"under {found.policy}"
        return [f"{text}.", f"What would give it more {where} is not known."]

    def _name(self, b: Binding) -> str:
        """The short name of a resource, or the name of another cause."""
        return self.short.get(b.name, b.name)

    def _where(self, b: Binding) -> str:
        """On which servers a resource is full."""
        if not b.servers:
            return ""
        i = self.instance.resource_index(b.name)
        have = {self.instance.servers[s] for s in np.flatnonzero(self.about.room[:, i] > 0)}
        return " on all servers" if have <= {*b.servers} and len(have) > 1 else f" on {listed(b.servers)}"

    def _are_full(self, some: list[Binding]) -> str:
        """Which resources are full, and where: servers of one resource together."""
        merged: dict[str, Binding] = {}
        for b in some:
            before = merged.get(b.name)
            merged[b.name] = b if before is None else replace(before, servers=(*before.servers, *b.servers))
        by_place: dict[str, list[str]] = {}
        for b in merged.values():
            by_place.setdefault(self._where(b), []).append(self.short[b.name])
        return listed([f"{listed(r)} {'is' if len(r) == 1 else 'are'} full{place}" for place, r in by_place.items()])

    def _stops(self) -> str:
        """What stops it, and beside whom."""
        found, parts = self.found, list[str]()
        by: dict[str, list[Binding]] = {}
        for b in found.binding:
            by.setdefault(b.kind, []).append(b)
        head = f"{found.name} stops at {self._amount()} because "
        if "resource" in by:
            parts.append(self._are_full(by["resource"]))
        if "limit" in by and not self.subject.is_team:
            head = f"{found.name} has {self._amount()}: "
            parts.append("its own task limit stops it")
        elif "limit" in by:
            one = len(by["limit"]) == 1 and by["limit"][0].name in self.instance.users
            has, its = ("has", "its task limit") if one else ("have", "their task limits")
            parts.append(f"{listed([b.name for b in by['limit']])} {has} reached {its}")
        if "block" in by:
            parts.append(f"{listed([b.name for b in by['block']])} bind{'s' * (len(by['block']) == 1)}")
        for b in by.get("guarantee", ()):
            if b.name == found.name:
                parts.append(f"it gets no more than its guarantee{self._guaranteed(b)}")
            elif self._is_mine(b.name):
                parts.append(f"{b.name} gets no more than its guarantee{self._guaranteed(b)}")
            elif b.amount is None:
                parts.append(
                    f"the guarantees of {b.name} come first"
                    if " and " in b.name
                    else f"the guarantee of {b.name} comes first"
                )
            else:
                parts.append(f"it gets no more than {b.name} requires")
        if "together" in by:
            parts.append(self._jointly(by["together"]))
        if "objective" in by:
            full = [b for b in self.about._facts(self.subject) if b.kind == "fact"]
            parts.append(
                f"{found.policy} prefers others"
                + (f" where {self._are_full(full)}" if full else "")
                + ", and 1% more of any one resource would give it nothing"
            )
        if not parts:  # only its weight
            parts.append("of its weight")
        return head + listed(parts) + self._who() + "."

    def _is_mine(self, name: str) -> bool:
        """Whether it is the subject, one of its users, or a team with a guarantee that has all its users."""
        mine = {*self.subject.members.tolist()}
        if name == self.found.name or self.instance.derived.position.get(name, -1) in mine:
            return True
        return name in self.instance.team_guarantees and mine <= {*self.instance.teams.names.get(name, ())}

    def _guaranteed(self, b: Binding) -> str:
        """Of how much the guarantee is that is all that it, one of its users or its team gets."""
        if b.amount is not None:
            return f" of {tasks_of(b.amount)}" if self.of_team else ""
        return f" of {listed([f'{number(x)} {self.title[name]}' for name, x in self.about.at_floor(b.name).items()])}"

    def _jointly(self, some: list[Binding]) -> str:
        """What binds together."""
        words = [f"{self.short[b.name]}{self._where(b)}" for b in some if b.name in self.title]
        words += [self._limit_or_block(b) for b in some if b.name not in self.title]
        change = "raised" if all(b.amount is not None for b in some) else "raised or relaxed"
        return f"{listed(words)} bind together: it gains only if all of them are {change}"

    def _limit_or_block(self, b: Binding) -> str:
        """What binds together with others: the task limit of a user or of a team's users, a limit or a constraint."""
        if b.amount is None or (b.name not in self.instance.users and b.name not in self.instance.teams.names):
            return b.name
        if b.name == self.found.name:
            return "its own task limit"
        return f"the task limit{'' if b.name in self.instance.users else 's'} of {b.name}"

    def _who(self) -> str:
        """Who stops there too."""
        found = self.found
        if found.beside:
            stop = "stop" if len(found.beside) > 1 else "stops"
            mine, levels = found.level, self.about.levels
            same = mine is not None and all(
                abs(levels.get(name, np.inf) - mine) <= SAME * mine for name in found.beside
            )
            level = f", at the same level ({number(mine or 0.0)})" if same else ""
            return f"; {listed(found.beside)} {stop} there too{level}"
        if found.sharing:
            use = "use" if len(found.sharing) > 1 else "uses"
            resources = {b.name for b in found.binding if b.kind in ("resource", "together")}
            return f"; {listed(found.sharing)} {use} {'it' if len(resources) == 1 else 'them'} too"
        return ""

    def _cost(self, b: Binding) -> str:
        """What a change costs others."""
        base = self.about.base.sum(axis=1)
        least = TINY * float(base.max(initial=1.0))
        lost = losses(self._grouped(b.others), least)
        if not lost and b.lost > MANY:  # of users in teams that lose nothing
            lost = losses(b.others, least)
        if lost:
            return f"and take {listed(lost)}"
        return "and take a little from many others" if b.lost > MANY else "and cost nobody anything"

    def _grouped(self, changes: Mapping[str, float]) -> Mapping[str, float]:
        """Changes of users; for a team, summed by the teams beside it."""
        if not self.of_team:
            return changes
        out: dict[str, float] = {}
        by = next(
            (by for by in self.instance.teams if self.found.name in self.instance.teams.labelling(by).names), None
        )
        labels = self.instance.teams[by] if by else [None] * self.instance.n_users
        for user, change in changes.items():
            name = labels[self.instance.user_index(user)] or user
            out[name] = out.get(name, 0.0) + change
        return out

    def _gain(self) -> str:
        """What more of what stops it would give."""
        able = [b for b in self.found.binding if b.gain is not None and b.kind != "weight"]
        if not able:
            return ""
        b = max(able, key=lambda one: (one.kind == "resource", one.percent or 0.0))
        if b.kind == "resource":
            of, alone = self.title[b.name], len([o for o in able if o.name == b.name]) == 1
            where = "" if alone or not b.servers else f" on {listed(b.servers)}"
            if self._in_shares(b):
                return self._of_one_percent(f"1% more {of}{where}", b)
            what = f"{number(b.units or 0.0)} {of}" if self.of_team else tasks_of(b.gain or 0.0)
            return f"One more {of}{where} would give it {what}, {self._cost(b)}."
        if b.kind == "limit" or (b.kind == "guarantee" and b.amount is not None):
            what = "allowed" if b.kind == "limit" else "required"
            if self._in_shares(b):
                return self._of_one_percent(f"1% more tasks {what}", b)
            return f"One more task {what} would give it {tasks_of(b.gain or 0.0)}, {self._cost(b)}."
        if b.kind == "together":
            without = [one.name for one in self.found.binding if one.kind == b.kind and self._is_left_out(one)]
            how = (
                f"With 1% more of the others and without {listed(without)}"
                if without
                else "With 1% more of all of them"
            )
        elif b.kind == "guarantee":
            own = self._is_mine(b.name)
            how = "With a guarantee 1% larger" if own else f"If what is guaranteed to {b.name} were 1% smaller,"
        else:
            how = f"With {b.name} relaxed by 1%" if b.relaxed else f"Without {b.name}"
        more = f"it would have {tasks_of(b.gain or 0.0)} more"
        if self._in_shares(b):
            more = f"its share would be {number(b.percent or 0.0)}% larger"
        return f"{how} {more}, {self._cost(b)}."

    def _is_left_out(self, b: Binding) -> bool:
        """Whether it is a constraint without a number, which is left out rather than relaxed."""
        return b.amount is None and not b.relaxed

    def _in_shares(self, b: Binding) -> bool:
        """Whether a gain is reported in shares: tasks count differently, or only some kinds of a team's tasks gain."""
        units = b.units if self.of_team and b.kind == "resource" else b.gain
        return self.about.per_task.shape[1] > 1 or not (units or 0.0) > 0

    def _of_one_percent(self, how: str, b: Binding) -> str:
        """What 1% more gives, in shares."""
        return f"{how} would raise its share by {number(b.percent or 0.0)}%, {self._cost_of_one_percent(b)}."

    def _cost_of_one_percent(self, b: Binding) -> str:
        scaled = {name: change * (b.amount or 1.0) * 0.01 for name, change in b.others.items()}
        return self._cost(replace(b, others=scaled))

    def _weight(self) -> str:
        """What a larger weight would give."""
        for b in self.found.binding:
            if b.kind == "weight" and b.gain is not None and b.amount is not None:
                if self.of_team or self._in_shares(b):
                    return self._of_one_percent("A weight 1% larger", b)
                more = tasks_of(b.gain * b.amount * 0.01)
                return f"A weight 1% larger would give it {more}, {self._cost_of_one_percent(b)}."
        return ""

    def _also(self) -> str:
        """What else moves it, and of what that is not known."""
        parts, unknown = list[str](), list[str]()
        for b in self.found.also:
            what = f"the limit of {b.name}" if b.kind == "limit" else f"{self._name(b)}{self._where(b)}"
            if b.percent is None:
                unknown.append(f"more {self._name(b)}" if b.kind == "total" else what)
            elif b.kind == "block" and not b.relaxed:
                parts.append(f"{b.name} ({percent(b.percent)} if left out)")
            elif b.kind != "total":
                raised = "relaxed by 1%" if b.kind == "block" else "1% larger"
                parts.append(f"{what} ({percent(b.percent)} if {raised})")
        also = f"What else moves it: {listed(parts)}." if parts else ""
        missing = f"Whether {listed(unknown)} would move it is not known: no answer was certified." if unknown else ""
        return " ".join(filter(None, (also, missing)))

    def _unsteady(self) -> str:
        """What moves it otherwise in the beginning."""
        some = [b for b in (*self.found.binding, *self.found.also) if not b.steady]
        names = ["its weight" if b.kind == "weight" else f"{self._name(b)}{self._where(b)}" for b in some]
        return f"The first 0.1% more of {listed(names)} has a different effect, or none." if names else ""

    def _totals(self) -> str:
        """What moves it only because a total grows."""
        known = [b for b in self.found.also if b.kind == "total" and b.percent is not None]
        parts = [f"{self._name(b)} ({percent(b.percent or 0.0)})" for b in known]
        if not parts:
            return ""
        return f"1% more {listed(parts)} would move it only because shares are fractions of the total."
