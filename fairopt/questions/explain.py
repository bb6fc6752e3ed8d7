"""What stops a user or team at an answer, found by answers in which one thing is raised by 1%."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import tiers_of
from fairopt.blocks.guarantees import guaranteed_tasks, limited_units
from fairopt.blocks.teams import kept_bases
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.proof.gate import BY_LEXIMIN
from fairopt.questions.explained_answer import FULL, SAME, ExplainedAnswer, Place, Subject
from fairopt.questions.explanation import Binding, Explanation, listed
from fairopt.questions.raised import BY, UNKNOWN, Change, FilledAgain, SolvedAgain, relaxed
from fairopt.questions.words import sentences
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import label

# The least change of a level that counts, in parts of what was raised: answers are certified to 1e-6 of objectives.
LEAST = 2e-3
CLEAR = 1e-2  # the same of changes of which a tenth is compared
MOST_ROWS = 60  # full capacities that are raised one by one; of more, those of one resource together
MOST_LIMITS = 8  # the same of members at their limits


class Raisable(NamedTuple):
    """What may stop a user or team: the changes that raise it, and what is said of it.

    Gains are per unit of the part ``more`` that is raised, if there is one. Only what is ``usable`` can stop it; what
    else moves it is told unless that is ``minor``.
    """

    kind: str
    name: str
    changes: list[Change]
    more: float | None = None
    given: Mapping[str, Any] = {}
    usable: bool = True
    minor: bool = False


def explain(allocation: Allocation, name: str, time_limit: float | None = None) -> Explanation:
    """See `Allocation.explain`."""
    return Explainer(allocation, time_limit).explain(name)


class Explainer(ExplainedAnswer):
    """An answer and those after changes."""

    detail = True

    # -- who --------------------------------------------------------------------------------------------------------

    def worst_first(self) -> list[str]:
        """The teams under the innermost label, or all users, the lowest level first; last who has all it asks for."""
        instance = self.instance
        by = instance.teams.outermost_first[-1] if instance.teams.mixed else None
        if by is None:
            names = list(instance.users)
        else:
            without = np.flatnonzero(instance.teams.labelling(by).of_user < 0)
            names = [t for t in instance.teams.labelling(by).names if t in instance.teams.names]
            names += [instance.users[j] for j in without]
        return sorted(names, key=lambda name: (self._has_all(name), self._level(self.subject(name)) or 0.0, name))

    def _has_all(self, name: str) -> bool:
        """Whether a user or team runs all tasks that it asks for."""
        members = self.subject(name).members
        return bool((self.at_limit | (self.instance.task_limits == 0))[members].all())

    # -- what the policy compares -----------------------------------------------------------------------------------

    @property
    def equalises_all(self) -> bool:
        """Whether the policy decides everything that it compares, as leximin and alpha-fairness do."""
        terms = tiers_of(self.allocation.policy.objective)[0].terms()
        return any(term.is_order or term.is_curved for term in terms) or BY_LEXIMIN in self._note

    @cached_property
    def equalises(self) -> bool:
        """Whether the policy raises the smallest first, so that equal levels mean something."""
        objective = getattr(self.allocation.policy, "objective", None)
        if objective is None:
            return False
        return any(term.is_smallest or term.is_order for term in tiers_of(objective)[0].terms())

    # -- answers ----------------------------------------------------------------------------------------------------

    def moved(self, subject: Subject, changes: Sequence[Change]) -> float:
        """By how much the level changes with changes, relative to the level and to `BY`; NaN if it is not known."""
        assert self.again is not None
        table = self.again.after(*changes)
        return np.nan if table is None else self.moved_to(subject, table) * BY / changes[0].by

    def moved_to(self, subject: Subject, table: Float) -> float:
        """By how much the level differs at other tasks, relative to the level and to `BY`."""
        before = self.value(self.base, subject)
        return (self.value(table, subject) - before) / (BY * max(before, 1e-3 * self._alone(subject)))

    def gains(self, subject: Subject, changes: Sequence[Change]) -> bool:
        """Whether it has more after changes."""
        return self.moved(subject, changes) > LEAST

    def binding(self, subject: Subject, one: Raisable) -> Binding:
        """A record of what changes give."""
        assert self.again is not None
        kind, name, changes, more, given, *_ = one
        table = self.again.after(*changes)
        if table is None:
            return Binding(kind, name, **given)
        per = 1.0 if more is None else 1.0 / more
        change = (table - self.base).sum(axis=1) * per
        units = None
        if kind == "resource":
            i = self.instance.resource_index(name)
            units = float(((table - self.base) * self.demands[:, :, i])[subject.members].sum()) * per
        noise = LEAST * BY * np.maximum(self.base.sum(axis=1), 1e-3 * self.alone) * per
        others = {
            self.instance.users[j]: float(change[j])
            for j in np.flatnonzero(np.abs(change) > noise)
            if j not in subject.members
        }
        percent = self.moved_to(subject, table) * 100 * BY
        gain = float(change[subject.members].sum())
        shares = (self.per_task * (table - self.base)).sum(axis=1)
        mine = float(shares[subject.members].sum())
        lost = -float(np.minimum(np.delete(shares, subject.members), 0.0).sum()) / mine if mine > 0 else 0.0
        steady = not self.detail or self._is_steady(subject, changes)
        numbers: dict[str, Any] = {"gain": gain, "units": units, "others": others, "percent": percent, "lost": lost}
        return Binding(kind, name, **numbers, steady=steady, **given)

    def _is_steady(self, subject: Subject, changes: Sequence[Change]) -> bool:
        """Whether a tenth of the changes moves it in the same direction."""
        moved = self.moved(subject, changes)
        if abs(moved) < CLEAR or not {change.kind for change in changes} <= {"capacity", "limit", "weight"}:
            return True
        first = self.moved(subject, [change._replace(by=change.by / 10) for change in changes])
        return bool(np.isnan(first)) or first * moved > LEAST * abs(moved)

    # -- explaining -------------------------------------------------------------------------------------------------

    def explain(self, name: str, detail: bool = True) -> Explanation:
        """What stops a user or team; without ``detail`` weights, totals and members are left out."""
        subject, self.detail = self.subject(name), detail
        if not self.instance.task_limits[subject.members].any():
            return self._explanation(subject, [], [])
        if self.again is None or self._is_split(subject):
            return self._explanation(subject, self._facts(subject), [])
        if not self._decides(subject):
            policy = label(self.allocation.policy)
            return self._explanation(subject, [Binding("undecided", policy)], [])
        binding, also = self._found(subject)
        if detail:
            if subject.is_team or not any(b.kind == "limit" for b in binding):
                binding += self._weight(subject)
            named = {b.name for b in (*binding, *also)}
            also += [
                b for i, r in enumerate(self.instance.resources) if r not in named for b in self._total(subject, i)
            ]
        members: Iterable[Explanation] = ()
        if subject.is_team and detail:
            members = [self.explain(self.instance.users[j], False) for j in subject.members]
        return self._explanation(subject, binding, also, tuple(members))

    def _decides(self, subject: Subject) -> bool:
        """Whether all optimal answers give a user, or the members of a team together, as much."""
        assert self.again is not None
        if isinstance(self.again, FilledAgain) or self.again.is_strict or self._is_levelled(subject):
            return True
        value, alone = self.value(self.base, subject), self._alone(subject)
        return self.again.decides(subject.name, value, BY * max(value, BY * alone))

    def _is_levelled(self, subject: Subject) -> bool:
        """Whether some tier decides everything that it compares, and compares the subject, or teams that make it up."""
        compared = subject.name in self.levels if subject.is_team else BY_LEXIMIN in self._note
        if compared and self.equalises_all:
            return True
        mine = {*subject.members.tolist()}
        for tier in tiers_of(self.allocation.policy.objective):
            shares = tier.share_blocks()
            if shares and any(term.is_order or term.is_curved for term in tier.terms()):
                teams = [{*self.subject(name).members.tolist()} for name in shares[0]._names(self.some)]
                if set().union(*(team for team in teams if team <= mine)) == mine:
                    return True
        return False

    def _alone(self, subject: Subject) -> float:
        """The shares that its users could have if each were alone."""
        return float((self.per_task.max(axis=1) * self.alone)[subject.members].sum())

    def _full(self, subject: Subject) -> list[Raisable]:
        """Full capacities, of one resource together if they are many; the subject could use some of them."""
        mine = [any(self.touches(j, row) for j in subject.members.tolist()) for row in self.full]
        groups: dict[Any, list[Place]] = {}
        for row, used in zip(self.full, mine, strict=True):
            groups.setdefault((row if len(self.full) <= MOST_ROWS else row[1], used), []).append(row)
        out = list[Raisable]()
        for (_, used), rows in groups.items():
            i, servers = rows[0][1], [s for s, _ in rows]
            there = float(self.room[servers, i].sum())
            given = {"servers": self._servers(servers), "amount": there}
            changes = [Change("capacity", row) for row in rows]
            out.append(Raisable("resource", self.instance.resources[i], changes, BY * there, given, used))
        return out

    def _found(self, subject: Subject) -> tuple[list[Binding], list[Binding]]:
        """What stops it, and what else moves it."""
        binding, also, own = list[Binding](), list[Binding](), self._own_floor(subject)
        tried = [*self._full(subject), *self._limits(subject), *self._reached_together(subject)]
        blocks = self._blocks(minor=bool(own))
        for one in (*tried, *blocks):
            moved = self.moved(subject, one.changes)
            if one.usable and moved > LEAST:
                binding.append(self.binding(subject, one))
            elif not one.minor and not abs(moved) <= LEAST:
                also.append(self.binding(subject, one))
        if self.instance.derived.has_guarantees:
            changes = [Change("guarantees", tuple(subject.members.tolist()))]
            if self.gains(subject, changes):
                names = listed(self._guaranteed(subject))
                binding.append(self.binding(subject, Raisable("guarantee", names, changes)))
        binding += [b for b in own if b.gain is not None or not binding]  # one that cannot grow explains nothing else
        if not binding:
            unknown = any(b.gain is None for b in also)
            other = Binding("unknown" if unknown else "objective", label(self.allocation.policy))
            able = [one for one in tried if one.usable] + self._own_guarantees(subject) + blocks
            binding = self._together(subject, able) or [other]
        return binding, also

    def _blocks(self, minor: bool) -> list[Raisable]:
        """The policy's constraints."""
        if not isinstance(self.again, SolvedAgain):
            return []
        given, point = self.again.given.constraints, self.again.point
        return [
            Raisable("block", str(given[k]), [Change("block", k)], None, {"relaxed": can_relax}, minor=minor)
            for k, can_relax in enumerate(relaxed(held, point) is not None for held in self.constraints)
        ]

    def _limits(self, subject: Subject) -> list[Raisable]:
        """The limits that its users have reached."""
        reached = [j for j in subject.members.tolist() if self.at_limit[j]]
        out = list[Raisable]()
        for users in [[j] for j in reached] if len(reached) <= MOST_LIMITS else [reached]:
            there = float(self.instance.task_limits[users].sum())
            name = self.instance.users[users[0]] if len(users) == 1 else f"{len(users)} of its users"
            changes = [Change("limit", j) for j in users]
            out.append(Raisable("limit", name, changes, BY * there, {"amount": there}))
        return out

    def _reached_together(self, subject: Subject) -> list[Raisable]:
        """The limits on what users take together that are reached, and that its users are in."""
        out = list[Raisable]()
        for limit, units in zip(self.instance.limits, limited_units(self.instance), strict=True):
            full = float((units * self.base).sum()) >= limit.amount * (1 - FULL)
            if full and units[subject.members].any():
                changes, given = [Change("together", limit.name)], {"amount": limit.amount}
                out.append(Raisable("block", f"the limit on {limit.name}", changes, None, given, minor=True))
        return out

    def _guaranteed(self, subject: Subject) -> list[str]:
        """The other users and teams that get no more than their guarantee, or all that have one."""
        instance, tasks = self.instance, self.base.sum(axis=1)
        others = np.setdiff1d(np.flatnonzero(instance.guarantees > 0), subject.members)
        at = [instance.users[j] for j in others if tasks[j] <= instance.guarantees[j] * (1 + SAME)]
        mine = {*subject.members.tolist()}
        at += [team for team in instance.team_guarantees if not mine >= {*instance.teams.names.get(team, ())}]
        return at or [instance.users[j] for j in others]

    def _own_floor(self, subject: Subject) -> list[Binding]:
        """Its guarantee, or another lower bound at which it is."""
        if subject.is_team:
            return self._team_floor(subject)
        j = int(subject.members[0])
        for team in self.instance.team_guarantees:
            changes = [Change("guarantee", team)]
            if j in self.instance.teams.names.get(team, ()) and self._stops_at(subject, team, changes):
                return [self.binding(subject, Raisable("guarantee", team, changes))]
        tasks = float(self.base[j].sum())
        floor = float(guaranteed_tasks(self.instance)[j])
        assert self.again is not None
        if floor > 0 and tasks <= floor * (1 + SAME) and floor < self.instance.task_limits[j] * (1 - FULL):
            changes = [Change("guarantee", j)]
            if self.gains(subject, changes) or frozenset(changes) in self.again.unfit:
                own = Raisable("guarantee", subject.name, changes, BY * floor, {"amount": floor})
                return [self.binding(subject, own)]
        if isinstance(self.again, FilledAgain):
            return []
        at = np.flatnonzero(self.part == j)
        given = [*zip(map(str, self.again.given.constraints), self.constraints, strict=True)]
        given += [(str(one), one) for one in kept_bases(self.again.objective)]
        for name, constraint in given:
            bounds = constraint.bounds(self.some)
            low = 0.0 if bounds is None else float(bounds[0][at[0]])
            if low > 0 and tasks <= low * (1 + SAME) and low < self.instance.task_limits[j] * (1 - FULL):
                value = self.value(self.base, subject) * low / tasks
                changes = [Change("floor", (subject.name, value * (1 + BY)))]
                if self.gains(subject, changes) or frozenset(changes) in self.again.unfit:
                    bound = Raisable("guarantee", name, changes, BY * low, {"amount": low})
                    return [self.binding(subject, bound)]
        return []

    def _team_floor(self, subject: Subject) -> list[Binding]:
        """The guarantees of a team and of its users at which they are, if more would give it more, or does not fit."""
        out = list[Binding]()
        changes = [Change("guarantee", subject.name)]
        if subject.name in self.instance.team_guarantees and self._stops_at(subject, subject.name, changes):
            out.append(self.binding(subject, Raisable("guarantee", subject.name, changes)))
        for j in self._at_guarantee(subject)[:MOST_LIMITS]:
            changes, floor = [Change("guarantee", j)], float(self.instance.guarantees[j])
            if not self.at_limit[j] and self._moves_or_does_not_fit(subject, changes):
                one = Raisable("guarantee", self.instance.users[j], changes, BY * floor, {"amount": floor})
                out.append(self.binding(subject, one))
        return out

    def _stops_at(self, subject: Subject, team: str, changes: list[Change]) -> bool:
        """Whether the guarantee of a team, which holds no more of something, gives it what it has."""
        return bool(self.at_floor(team)) and self._moves_or_does_not_fit(subject, changes)

    def _moves_or_does_not_fit(self, subject: Subject, changes: list[Change]) -> bool:
        assert self.again is not None
        return self.gains(subject, changes) or frozenset(changes) in self.again.unfit

    def _at_guarantee(self, subject: Subject) -> list[int]:
        """Its users that run no more tasks than they are guaranteed."""
        rows, floors = subject.members, guaranteed_tasks(self.instance)[subject.members]
        return rows[(floors > 0) & (self.base[rows].sum(axis=1) <= floors * (1 + SAME))].tolist()

    def _own_guarantees(self, subject: Subject) -> list[Raisable]:
        """Its guarantees at which it and its users are, to be raised with other things."""
        users = self._at_guarantee(subject)
        of: dict[str, Any] = {self.instance.users[j]: j for j in users} if len(users) <= MOST_LIMITS else {}
        if subject.name in self.instance.team_guarantees and self.at_floor(subject.name):
            of[subject.name] = subject.name
        return [
            Raisable("guarantee", f"the guarantee of {name}", [Change("guarantee", one)], None, {"relaxed": True})
            for name, one in of.items()
        ]

    def _together(self, subject: Subject, able: list[Raisable]) -> list[Binding]:
        """A minimal set of limits that helps only if all are raised together; empty if even all do not help."""

        def all_of(some: Sequence[Raisable]) -> list[Change]:
            return [change for one in some for change in one.changes]

        if len(able) < 2 or not self.gains(subject, all_of(able)):
            return []
        kept = list(able)
        for one in able:
            fewer = [other for other in kept if other is not one]
            if fewer and self.gains(subject, all_of(fewer)):
                kept = fewer
        changes = all_of(kept)
        return [self.binding(subject, one._replace(kind="together", changes=changes, more=None)) for one in kept]

    def _weight(self, subject: Subject) -> list[Binding]:
        """Its weight, if a larger one gives it more."""
        changes = [Change("weight", subject.name)]
        assert self.again is not None
        if not self.again.weighs(subject.name) or not self.gains(subject, changes):
            return []
        amount = self.again.weight(subject.name)
        return [self.binding(subject, Raisable("weight", subject.name, changes, BY * amount, {"amount": amount}))]

    def _total(self, subject: Subject, i: int) -> list[Binding]:
        """A resource whose total capacity changes the answer although its capacity is not binding."""
        if not self.instance.total_capacities[i] > 0:
            return []
        capacities = np.array(self.instance.capacities, dtype=float)
        capacities[:, i] *= 1 + BY
        changed = self.instance.with_capacities(capacities)
        if self._same_shares(changed):
            return []
        assert self.again is not None
        try:
            table = self.allocation.policy.allocate(changed, time_limit=self.again.clock.left).tasks_by_server
        except UNKNOWN:
            return [Binding("total", self.instance.resources[i])]
        if abs(self.moved_to(subject, table)) <= LEAST:
            return []
        percent = self.moved_to(subject, table) * 100 * BY
        gain, there = float((table - self.base)[subject.members].sum()), float(self.room[:, i].sum())
        return [Binding("total", self.instance.resources[i], amount=there, gain=gain / (BY * there), percent=percent)]

    def _same_shares(self, changed: Instance) -> bool:
        """Whether shares have the same coefficients on a changed instance."""
        if isinstance(self.again, FilledAgain):
            return False
        other = taking_part(changed, self.part)
        every = [s._of_user for tier in (self.allocation.policy.objective,) for s in tier.share_blocks()]
        return all(np.array_equal(s.coefficients(other), s.coefficients(self.some)) for s in every) and (
            np.array_equal(changed.own_slices, self.instance.own_slices) or not self.constraints
        )

    # -- words ------------------------------------------------------------------------------------------------------

    def _explanation(
        self,
        subject: Subject,
        binding: list[Binding],
        also: list[Binding],
        members: tuple[Explanation, ...] = (),
    ) -> Explanation:
        rows = subject.members
        held = np.einsum("js,jsi->i", self.given[rows], self.demands[rows])
        if self.allocation.given_bundles is not None:
            held = self.allocation.bundles[rows].sum(axis=(0, 1))
        beside, sharing = self._beside(subject, binding)
        made = Explanation(
            subject.name,
            label(self.allocation.policy),
            float(self.given[rows].sum()),
            dict(zip(self.instance.resources, held.tolist(), strict=True)),
            self._level(subject),
            tuple(binding),
            tuple(also),
            beside,
            sharing,
            (),
            members,
        )
        return sentences(made, self)

    def _beside(self, subject: Subject, binding: list[Binding]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Who is at the same level on the resources that stop it, and who else uses them."""
        named = {(b.name, b.servers) for b in binding if b.kind in ("resource", "together", "fact")}
        rows = [r for r in self.full if any(self._is_of(r, name, servers) for name, servers in named)]
        if not rows:
            return (), ()
        used = np.zeros(self.instance.n_users)
        for s, i in rows:
            used += self.base[:, s] * self.demands[:, s, i] / self.room[s, i]
        used[subject.members] = 0.0
        of_teams = subject.is_team or (
            subject.name in self.levels and subject.name not in self.instance.derived.position
        )
        names = (
            self._team_uses(subject, used)
            if of_teams
            else {self.instance.users[j]: float(used[j]) for j in np.flatnonzero(used)}
        )
        order = sorted(names, key=lambda name: (-names[name], name))
        mine = self._level(subject)
        same: list[str] = []
        if isinstance(self.again, FilledAgain):
            same = self._same_event(subject, order)
        elif self.equalises and mine is not None:
            same = [name for name in order if abs(self.levels.get(name, np.inf) - mine) <= SAME * mine]
            same = [
                name
                for name in same
                if name not in self.instance.derived.position or not self.at_limit[self.instance.derived.position[name]]
            ]
        return tuple(same), tuple(name for name in order if name not in same)

    def _is_of(self, row: Place, name: str, servers: tuple[str, ...]) -> bool:
        s, i = row
        return self.instance.resources[i] == name and (not servers or self.instance.servers[s] in servers)

    def _team_uses(self, subject: Subject, used: Float) -> dict[str, float]:
        """How much of the rows other teams under the same label use."""
        for by in self.instance.teams:
            labelling = self.instance.teams.labelling(by)
            if subject.name in labelling.names:
                sums = np.bincount(labelling.of_user + 1, used, len(labelling.names) + 1)[1:]
                out = {name: float(v) for name, v in zip(labelling.names, sums, strict=True) if v > 0}
                alone = np.flatnonzero((labelling.of_user < 0) & (used > 0))
                return out | {self.instance.users[j]: float(used[j]) for j in alone}
        return {}

    def _same_event(self, subject: Subject, names: list[str]) -> list[str]:
        """The users and teams stopped by the same last event as the subject."""
        mine = {self.instance.users[j] for j in subject.members}
        events = self.allocation.evidence[0].get("events", ()) if self.allocation.evidence else ()
        stopped = [set(e["stopped"]) for e in events if e["cause"] != "limit" and mine & set(e["stopped"])]
        if not stopped:
            return []
        teams = self.instance.teams.names
        return [
            name
            for name in names
            if stopped[-1]
            & ({name} if name in self.instance.derived.position else {self.instance.users[j] for j in teams[name]})
        ]
