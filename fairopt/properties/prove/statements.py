"""Polynomial statements that a property fails; if one has no real solution, the property is a theorem.

Capacities are 1. A user has a bundle y (per weight), a level s (share per weight) and tasks u (per weight). For a share
of degree d, ``c(y) = s u^(d-1)``, so tasks drop out for degree 1. In a second outcome with the same demands all three
are multiplied by one number. Statements are relaxations: every failure of the property is a solution, but not every
solution is a failure (docs/methods/machine.md).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from fairopt.blocks.algebra import Objective
from fairopt.blocks.base import is_ours
from fairopt.blocks.shares import Share
from fairopt.blocks.terms import (
    FALSE,
    Condition,
    OutcomeSymbols,
    ShareSymbols,
    Symbols,
    Term,
    UserSymbols,
    all_of,
    any_of,
    conditions_of,
    number,
    total,
)

PROVABLE = (
    "pareto",
    "sharing-incentive",
    "envy-free",
    "strategy-proof",
    "strategy-proof-boosting",
    "bottleneck",
    "population-monotone",
    "resource-monotone",
)
LIES = ("strategy-proof", "strategy-proof-boosting")
OF_USERS = (*LIES, "population-monotone")  # one user misreports or leaves
TWO_OUTCOMES = (*OF_USERS, "resource-monotone")
CONCRETE = (2, 3, 4)  # numbers of users of statements whose solutions are instances
WIDTH = 118  # of comments

GLOSSARY = {  # meanings of symbols, by prefix; "A" is a user, "i" a resource
    "ratio": "ratio_A_i: what one task of user A needs of resource i, as a part of the capacity",
    "bundle": "bundle_A_i: what the tasks of user A need of resource i, as a part of the capacity, over A's weight",
    "tasks": "tasks_A: the number of tasks of user A, over its weight",
    "level": "level_A: the share of user A, over its weight",
    "coefficient": "coefficient_A: the share of one task of user A, or of one that needs the bundle of A",
    "weight": "weight_A: the weight of user A",
    "limit": "limit_A: the task limit of user A, over its weight",
    "slack": "slack_i: the part of resource i that is left",
    "price": "price_i: the price of all of resource i",
    "root": "root_k: a root, by what its power is",
    "others": "others_i: the load of all unnamed users on resource i, as a part of the capacity",
    "leaver": "leaver_i: the load of the user who leaves on resource i",
    "load": "load_i: the load of all users on resource i, as a part of the capacity",
    "part": "part_i: the smaller capacity of resource i, as a part of the larger",
    "times": "times, times_A: a factor, as from the first to the second outcome",
    "less": "less_i, share_of_less: what a task needs, and its share",
    "more": "more_i, share_of_more: the same of another task",
    "one": "one_i, one_before, one_after: what a task needs, its share, and its share with larger capacities",
    "other": "other_i, other_before, other_after: the same of another user",
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of instances; with ``teams`` and ``guarantees`` that fit if the policy reads them."""

    resources: int
    users: int | None = None  # None for any number
    positive: bool = True
    weights: bool = False
    limits: bool = False
    teams: bool = False
    guarantees: bool = False

    @property
    def words(self) -> str:
        """The instances, in words."""
        demands = "above 0" if self.positive else "of 0 or more (where the notion is defined)"
        many = "any number of users" if self.users is None else f"{self.users} user{'s' * (self.users != 1)}"
        limits = f"{'any positive' if self.limits else 'no'} task limits"
        *some, last = [limits, *["any teams"] * self.teams, *["any guarantees that fit together"] * self.guarantees]
        weights = f"{'any' if self.weights else 'equal'} weights"
        return (
            f"on every pool of {self.resources} resource{'s' * (self.resources != 1)} with {many}, demands {demands}, "
            f"{', '.join([weights, *some])} and {last}"
        )

    @property
    def concrete(self) -> tuple[int, ...]:
        """The numbers of users of statements whose solutions are instances."""
        return CONCRETE if self.users is None else (self.users,)


@dataclass(frozen=True, kw_only=True)
class Question(Kind):
    """A property of a notion on a kind of instances."""

    objective: Objective
    share: Share
    name: str  # of the property
    degree: int | None = None  # of homogeneity of the share, if proved
    grows: bool = False  # whether the share is proved to increase with bundles
    assumption: str = ""  # on user-defined blocks, in words
    alike: bool = False  # whether larger capacities are proved to change the shares of all users by one factor

    @property
    def levels(self) -> bool:
        """Whether the answer is leximin."""
        return self.objective.term.is_smallest

    @property
    def by_bundles(self) -> bool:
        """Whether users are described by bundles, levels and tasks, not by ratios, coefficients and tasks."""
        return self.degree is not None and (self.levels or self.objective.term.is_curved)


@dataclass(frozen=True)
class Query:
    """Conditions for a prover."""

    words: str
    conditions: tuple[Condition, ...]
    users: int | None  # None for any number
    exact: bool = False  # whether a solution is an instance
    why: str = ""  # what is omitted, and why that is sound
    notes: tuple[tuple[int, str], ...] = ()  # comments before conditions, by index

    @property
    def symbols(self) -> list[str]:
        """The names of all symbols."""
        return sorted({name for condition in self.conditions for name in condition.symbols()})

    @property
    def text(self) -> str:
        """The statement in SMT-LIB, with comments."""
        logic = "QF_LRA" if all(condition.degree <= 1 for condition in self.conditions) else "QF_NRA"
        lines = [comment(f"Asked: {self.words}."), comment(self.why), f"(set-logic {logic})"]
        lines += [f"(declare-fun {name} () Real)" for name in self.symbols]
        for k, condition in enumerate(self.conditions):
            lines += [comment(note) for at, note in self.notes if at == k]
            lines.append(f"(assert {condition})")
        return "\n".join([*filter(None, lines), "(check-sat)", ""])


def comment(text: str) -> str:
    """A paragraph as comments of SMT-LIB; no text can end a comment."""
    return textwrap.fill(
        text, WIDTH, initial_indent="; ", subsequent_indent="; ", break_long_words=False, break_on_hyphens=False
    )


def glossary(queries: Iterable[Query]) -> str:
    """The meanings of the symbols of statements, as comments."""
    names = {name for query in queries for name in query.symbols}
    used = [words for start, words in GLOSSARY.items() if any(n == start or n.startswith(f"{start}_") for n in names)]
    then = ["..._then: the same in the second outcome"] * any("_then" in name for name in names)
    lie = ["A = lie: user 1 when it reports other demands"] * any("_lie" in name for name in names)
    return "\n".join(comment(f"  {words}") for words in (*used, *then, *lie))


class Builder:
    """A statement under construction: symbols of users and outcomes, and conditions."""

    def __init__(self, question: Question) -> None:
        self.question, self.symbols, self.notes = question, Symbols(), list[tuple[int, str]]()

    @property
    def resources(self) -> range:
        """Indices of the resources."""
        return range(self.question.resources)

    def add(self, *conditions: Condition) -> None:
        """Add conditions to the statement."""
        self.symbols.known += conditions

    def note(self, words: str) -> None:
        """Add a comment before the conditions that follow."""
        self.notes.append((len(self.symbols.known), words))

    def user(
        self, name: str, weight: Term | None = None, limit: Term | None = None, with_share: bool = True
    ) -> UserSymbols:
        """A user with new demands; without ``with_share`` its share is not tied to them."""
        q, new = self.question, self.symbols.new
        self.note(f"user {name}" if with_share else f"user {name}, whose share is not tied to its demands yet")
        w = weight if weight is not None else new(f"weight_{name}") if q.weights else number(1)
        by_bundle = q.by_bundles or not with_share
        u = new(f"tasks_{name}", zero=not by_bundle)
        t = limit if limit is not None or not q.limits else new(f"limit_{name}")
        if t is not None:
            self.add(u <= t)
        if by_bundle:
            y, s = self.symbols.row(f"bundle_{name}", q.resources, not q.positive), new(f"level_{name}")
            made = UserSymbols(u, s, y, w, t, y, (), s, q.positive)
            if with_share:
                self.add(self.share(y, s if q.degree == 1 else self._coefficient(made, name)))
        else:
            g, c = self.symbols.row(f"ratio_{name}", q.resources, not q.positive), self._of_task(name)
            self.add(self.share(g, c))
            made = UserSymbols(u, u * c, [u * r for r in g], w, t, g, g, c, q.positive)
        if not q.positive:
            self.add(any_of(r > 0 for r in made.pattern))
        return made

    def _of_task(self, name: str) -> Term:
        """The share of one task, which may be zero if users are not levelled."""
        return self.symbols.new(f"coefficient_{name}", zero=not self.question.objective.levels_users)

    def _coefficient(self, user: UserSymbols, name: str) -> Term:
        """The share of a task that needs the bundle: ``c(y) = s u^(d-1)``, for degree 0 ``c u = s``."""
        degree, c = self.question.degree, self.symbols.new(f"coefficient_{name}")
        assert degree is not None
        self.add(user.level * user.tasks ** (degree - 1) == c if degree else user.level == c * user.tasks)
        return c

    def share(self, ratios: Sequence[Term], c: Term) -> Condition:
        """The condition that ``c`` is the share of a task with these ratios."""
        self.note(f"its share, as {self.question.share}.conditions states it")
        stated = conditions_of(self.question.share, ShareSymbols(ratios, c, self.symbols))
        assert stated is not None
        return stated

    def again(self, user: UserSymbols, name: str, parts: list[Term] | None = None) -> UserSymbols:
        """A user in another outcome, with the same demands, or with ratios multiplied by ``parts``."""
        self.note(f"user {name}: the same user in the second outcome")
        g, y, c, s = user.ratios, user.bundle, user.coefficient, user.level
        if parts is not None and g:
            g, c = [r * part for r, part in zip(g, parts, strict=True)], self._of_task(name)
            self.add(self.share(g, c))
        elif parts is not None:
            y, s = [r * part for r, part in zip(y, parts, strict=True)], self.symbols.new(f"level_{name}")
            as_demands = replace(user, level=s)
            self.add(self.share(y, s if self.question.degree == 1 else self._coefficient(as_demands, name)))
        if not g:
            made = scaled(replace(user, bundle=y, level=s), self.symbols.new(f"times_{name}"))
        else:
            u = self.symbols.new(f"tasks_{name}", zero=True)
            made = replace(user, tasks=u, level=u * c, ratios=g, coefficient=c, bundle=[u * r for r in g])
        if made.limit is not None:
            self.add(made.tasks <= made.limit)
        return made

    def moved(self, user: UserSymbols, name: str) -> UserSymbols:
        """A user in another outcome, whose numbers are all larger, all the same or all smaller."""
        other = self.user(name, weight=user.weight, limit=user.limit, with_share=False)

        def together(compare: Callable[[Term, Term], Condition]) -> Condition:
            moves = (
                any_of(
                    [
                        all_of([user.needs(i), other.needs(i), compare(other.bundle[i], user.bundle[i])]),
                        all_of([~user.needs(i), ~other.needs(i)]),
                    ]
                )
                for i in self.resources
            )
            return all_of([compare(other.tasks, user.tasks), compare(other.level, user.level), *moves])

        self.note("its bundle, tasks and level are all larger than in the first outcome, or the same, or smaller")
        self.add(any_of([together(Term.__gt__), together(lambda a, b: a == b), together(Term.__lt__)]))
        return other

    def outcome(self, name: str, users: list[UserSymbols], loads: list[Term] | None = None) -> OutcomeSymbols:
        """An outcome of these users, with these loads, or among unnamed others."""
        self.note(f"the {'second' if name else 'first'} outcome: what is left" + ", and used" * (loads is not None))
        slack = self.symbols.row(f"slack{name}", self.question.resources, zero=True)
        if loads is not None:
            self.add(*(load + left == 1 for load, left in zip(loads, slack, strict=True)))
        return OutcomeSymbols(users, slack, self.symbols, name)

    def answers(self, *outcomes: OutcomeSymbols) -> None:
        """Require that these outcomes are answers; a user-defined objective may see the users in any order."""
        objective, first = self.question.objective, range(len(outcomes[0].users))

        def optimal(outcome: OutcomeSymbols, order: Iterable[int]) -> Condition:
            ordered = [outcome.users[k] for k in order if k < len(outcome.users)]
            conditions = conditions_of(objective, replace(outcome, users=ordered))
            assert conditions is not None
            return conditions

        self.note(f"outcomes are answers, as {objective}.conditions states it" + " (16.3)" * is_ours(objective))
        orders = [tuple(first)] if is_ours(objective) else permutations(first)
        self.add(any_of(all_of(optimal(outcome, order) for outcome in outcomes) for order in orders))

    def closed(self, name: str, users: list[UserSymbols]) -> OutcomeSymbols:
        """An outcome of these users alone."""
        return self.outcome(name, users, [total(u.weight * u.bundle[i] for u in users) for i in self.resources])

    def fails(self, condition: Condition, words: str = "the property fails") -> None:
        """Require a condition that the property rules out."""
        self.note(words)
        self.add(condition)

    def query(self, words: str, users: int | None, why: str, exact: bool = False) -> Query:
        """The statement; ``why`` says what is omitted and why that is sound."""
        q = self.question
        if q.by_bundles:
            why += (
                f" Demands times t have a share times t^{q.degree}, as a statement of this file proves. So a user is "
                "given by its bundle, level and tasks instead of by its demands (Proposition 16.2)."
            )
        return Query(words, tuple(self.symbols.known), users, exact, why, tuple(self.notes))


def scaled(user: UserSymbols, by: Term) -> UserSymbols:
    """A user whose tasks, level and bundle are multiplied by a number."""
    return replace(user, tasks=by * user.tasks, level=by * user.level, bundle=[by * r for r in user.bundle])


# -- failures of properties ------------------------------------------------------------------------------------------


def has_less(user: UserSymbols, than: Callable[[int], Condition], size: int) -> Condition:
    """The condition that a user is below its limit, and ``than`` holds for every resource that it needs."""
    return all_of([user.below_limit, *(any_of([~user.needs(i), than(i)]) for i in range(size))])


def fails(b: Builder, outcome: OutcomeSymbols, weight: Term, other: UserSymbols | None) -> Condition:
    """The condition that a property of one outcome fails for the first user; ``weight`` is that of all users."""
    q, user = b.question, outcome.users[0]
    if q.name == "pareto":
        return has_less(user, lambda i: outcome.slack[i] > 0, q.resources)
    if q.name == "sharing-incentive":
        return has_less(user, lambda i: weight * user.bundle[i] < 1, q.resources)
    if q.name == "bottleneck":
        short = (any_of([outcome.slack[i] > 0, weight * user.bundle[i] < 1]) for i in b.resources)
        return all_of([user.below_limit, *short])
    if q.name != "envy-free":
        raise NotImplementedError(f"{q.name} has no statement; write when it fails in {__name__}.fails")
    if other is None:
        return FALSE
    return has_less(user, lambda i: user.bundle[i] < other.bundle[i], q.resources)


def fewer(then: Term, before: Term) -> Condition:
    """The condition that a user runs fewer tasks."""
    return then < before


def gains(b: Builder, user: UserSymbols, liar: UserSymbols) -> Condition:
    """The condition that a user gains by a misreport, of larger demands for ``strategy-proof-boosting``."""
    q = b.question
    more = has_less(user, lambda i: liar.bundle[i] > user.bundle[i], q.resources)
    if q.name == "strategy-proof":
        return more
    if user.ratios:
        return all_of([more, *(r >= t for r, t in zip(liar.ratios, user.ratios, strict=True))])
    larger = (r * user.tasks >= t * liar.tasks for r, t in zip(liar.bundle, user.bundle, strict=True))
    return all_of([more, *larger])


BY_GROWTH = " Of the share only its growth with bundles is kept, which a statement of this file proves (16.6)."
_ALL_BUT_ONE = [
    f"All users but {who} are omitted: their number, demands and weights; only their load is kept."
    for who in ("user 1 and the one who leaves", "user 1")
]

# -- statements ------------------------------------------------------------------------------------------------------


def queries(question: Question) -> Iterator[Query]:
    """Relaxations, each a proof if unsatisfiable; then statements whose solutions are instances."""
    q = question
    if q.objective.term.is_simple and q.name not in TWO_OUTCOMES:
        yield _one_outcome(q)
    if q.by_bundles and not q.levels and q.name in OF_USERS:
        yield _market(q)
    if q.levels and q.by_bundles and q.positive and not q.limits:
        yield from _common_level(q)
    together = q.resources == 1 or (q.alike and q.levels and q.positive)
    if q.by_bundles and q.name == "resource-monotone" and together and not q.limits:
        yield _one_factor(q)
    if q.levels and q.by_bundles and q.name in OF_USERS and not (q.users is None and q.positive):
        yield from (_moving(q, n) for n in q.concrete)
    yield from (_concrete(q, n) for n in q.concrete)


def _one_outcome(q: Question) -> Query:
    """Named users among any number of others, whose conditions among themselves still hold."""
    b = Builder(q)
    # for several resources growth of the share suffices; for one, alpha below 1 needs more
    with_share = q.resources == 1 or not (q.grows and q.by_bundles and q.positive and q.name == "envy-free")
    user = b.user("1", with_share=with_share)
    other = b.user("2", with_share=with_share) if q.name == "envy-free" else None
    if other is not None and not with_share:
        b.add(*_growth(b, user, other))
    named, weight = [user] if other is None else [user, other], number(1)
    why = (
        "All users but those named below are omitted: their number, demands, weights and tasks, and that loads are "
        "sums over users. The definition of an answer compares users pairwise, so its conditions on the named ones "
        "hold in every answer that they are part of (Proposition 16.4)."
    )
    if q.name in ("sharing-incentive", "bottleneck"):
        # some user has at least the weighted mean of each resource, or of the costs
        named += [b.user(f"most_{i + 1}") for i in b.resources] if q.levels else [b.user("payer")]
        mean = "bundle of resource i: user most_i" if q.levels else "cost of a bundle: user payer"
        why += f" All weights sum to 1, by their unit; so some user has at least the mean, by weight, {mean}."
    outcome = b.outcome("", named)
    b.answers(outcome)
    if len(named) > 1 and other is None:
        b.note("these users have at least the mean, which is the load, or the sum of the prices")
        if q.levels:
            b.add(*(named[i + 1].bundle[i] >= 1 - outcome.slack[i] for i in b.resources))
        else:
            b.add(outcome.cost(named[1]) >= total(outcome.prices))
    b.fails(fails(b, outcome, weight, other))
    return b.query("named users among any number of others", None, why + BY_GROWTH * (not with_share))


def _common_level(q: Question) -> Iterator[Query]:
    """Leximin if all need everything: all have one level, to which the others' load is proportional."""
    b = Builder(q)
    user = b.user("1", weight=number(1), with_share=not q.grows)  # the unit of weights
    b.note("the load of the others")
    others = b.symbols.row("others", q.resources, zero=True)
    first = [y + r for y, r in zip(user.bundle, others, strict=True)]
    if q.name in LIES:
        liar = b.user("lie", weight=number(1), with_share=not q.grows)
        t = b.symbols.new("times")
        b.fails(liar.level == t * user.level, "all users have one level, which is so many times as high with the lie")
        b.fails(gains(b, user, liar))
        second = [y + t * r for y, r in zip(liar.bundle, others, strict=True)]
        if q.grows:
            b.add(*_growth(b, user, liar))
    elif q.name == "population-monotone":
        leaver, t = b.symbols.row("leaver", q.resources), b.symbols.new("times")
        b.fails(fewer(t, number(1)))
        second, first = [t * r for r in first], [r + y for r, y in zip(first, leaver, strict=True)]
    else:
        return
    for loads, which in ((first, "first"), (second, "second")):
        b.note(f"the loads of the {which} outcome: some resource is full")
        b.add(*(load <= 1 for load in loads), any_of(load == 1 for load in loads))
    why = (
        f"{_ALL_BUT_ONE[q.name in LIES]} All need every resource and have no limits, so in an answer all have one "
        "level and some resource is full; a level t times as high multiplies the load of users with the same reports "
        "by t (Proposition 16.5)."
    )
    words = "one user, and the load of any number of others, who all have the same level"
    yield b.query(words, None, why + BY_GROWTH * q.grows)


def _market(q: Question) -> Query:
    """Alpha-fairness: the others' load falls as prices rise, in sum over resources (the law of demand)."""
    b = Builder(q)
    b.note("the load of the others, in both outcomes")
    first, then = (b.symbols.row(f"others{name}", q.resources, zero=True) for name in ("", "_then"))
    user = b.user("1", weight=number(1))  # the unit of weights
    if q.name in LIES:
        after, leaver = b.user("lie", weight=number(1), limit=user.limit), [number(0)] * q.resources
        b.fails(gains(b, user, after))
    else:
        after, leaver = b.again(user, "1_then"), b.symbols.row("leaver", q.resources, zero=True)
        b.fails(fewer(after.tasks, user.tasks))
    one = b.outcome("", [user], [total(loads) for loads in zip(user.bundle, first, leaver, strict=True)])
    two = b.outcome("_then", [after], [y + r for y, r in zip(after.bundle, then, strict=True)])
    b.answers(one, two)
    b.note("the law of demand")
    b.add(total((p - r) * (x - y) for p, r, x, y in zip(two.prices, one.prices, then, first, strict=True)) <= 0)
    why = (
        f"{_ALL_BUT_ONE[q.name in LIES]} Each of the others responds optimally to prices, so the change of their load "
        "times the change of prices, summed over resources, is at most 0 (Proposition 16.8)."
    )
    return b.query("one user, and the load of any number of others, which falls where prices rise", None, why)


def _one_factor(q: Question) -> Query:
    """If larger capacities change all shares by one factor, they change all tasks by one factor."""
    b = Builder(q)
    loads, parts = (b.symbols.row(name, q.resources, zero=name == "load") for name in ("load", "part"))
    t = b.symbols.new("times")
    b.add(*(part <= 1 for part in parts))
    b.fails(fewer(t, number(1)))
    for used in (loads, [t * part * load for part, load in zip(parts, loads, strict=True)]):
        b.note("the loads of an outcome: some resource is full")
        b.add(*(load <= 1 for load in used), any_of(load == 1 for load in used))
    why = (
        "All users are omitted; only their load is kept. Larger capacities change the shares of all by one factor: "
        "with one resource always, with several by a statement of this file. Then the tasks of all change by one "
        "factor: with one resource by Proposition 16.8, with several, where all have one level, by 16.9."
    )
    return b.query("the load of users who all run more tasks by one factor, or all fewer", None, why)


def _growth(b: Builder, one: UserSymbols, two: UserSymbols) -> Iterator[Condition]:
    """Consequences of the share's growth and degree for two users: for their bundles and, with lies, their demands."""
    d = b.question.degree
    assert d is not None
    b.note("the share grows with bundles")

    def share(user: UserSymbols) -> Term:
        return user.level * user.tasks ** (d - 1) if d > 1 else user.level

    def all_of_bundles(a: UserSymbols, c: UserSymbols, compare: Callable[[Term, Term], Condition]) -> Condition:
        return all_of(compare(x, y) for x, y in zip(a.bundle, c.bundle, strict=True))

    if d:
        yield ~all_of_bundles(one, two, Term.__lt__) | (share(one) < share(two))
        yield ~all_of_bundles(two, one, Term.__lt__) | (share(two) < share(one))
        if b.question.name not in LIES:
            return
        tasks = [a * two.tasks <= c * one.tasks for a, c in zip(one.bundle, two.bundle, strict=True)]
        yield ~all_of(tasks) | (one.level * two.tasks <= two.level * one.tasks)


def _moving(q: Question, n: int) -> Query:
    """Leximin of n users: bundle, tasks and level of each other user all grow, all fall or all stay."""
    b = Builder(q)
    # the first user's weight is 1, and the others' bundles include their weights
    users = [b.user("1", weight=number(1)), *(b.user(str(k + 1), number(1), with_share=False) for k in range(1, n))]
    if q.name in LIES:
        liar = b.user("lie", weight=number(1), limit=users[0].limit)
        b.fails(gains(b, users[0], liar))
        after = [liar, *(b.moved(user, f"{k + 2}_then") for k, user in enumerate(users[1:]))]
    else:
        after = [b.moved(user, f"{k + 1}_then") for k, user in enumerate(users[:-1])]
        b.fails(fewer(after[0].tasks, users[0].tasks) if after else FALSE)
    b.answers(b.closed("", users), b.closed("_then", after))
    why = (
        f"All {n} users are included. Bundle, tasks and level of a user with the same reports change by one factor; "
        "only that all grow, all fall or all stay is kept. The relation of the others' shares to their demands is "
        "omitted, and so are their weights, which are in their bundles (Proposition 16.7)."
    )
    return b.query(f"{n} users whose bundles, tasks and levels grow or fall together", n, why)


def _concrete(q: Question, n: int) -> Query:
    """All of n users."""
    b = Builder(q)
    # the first weight is the unit, unless a user-defined objective may depend on the scale of weights
    unit = number(1) if is_ours(q.objective) else b.symbols.new("weight_1")
    users = [b.user(str(k + 1), unit if k == 0 or not q.weights else None) for k in range(n)]
    first, after = b.closed("", users), list[UserSymbols]()
    if q.name in LIES:
        liar = b.user("lie", unit, users[0].limit)
        b.fails(gains(b, users[0], liar))
        after = [liar, *(b.again(user, f"{k + 2}_then") for k, user in enumerate(users[1:]))]
    elif q.name == "population-monotone":
        after = [b.again(user, f"{k + 1}_then") for k, user in enumerate(users[:-1])]
        b.fails(fewer(after[0].tasks, users[0].tasks) if after else FALSE)
    elif q.name == "resource-monotone":
        parts = b.symbols.row("part", q.resources)  # of the grown capacities, that the first ones were
        b.add(*(part <= 1 for part in parts))
        after = [b.again(user, f"{k + 1}_then", parts) for k, user in enumerate(users)]
        b.fails(fewer(after[0].tasks, users[0].tasks))
    else:
        b.fails(fails(b, first, total(user.weight for user in users), users[1] if n > 1 else None))
    b.answers(first, *([b.closed("_then", after)] if after else []))
    why = f"All {n} users are included and nothing is omitted: a solution is an instance (Propositions 16.2 and 16.3)."
    return b.query(f"{n} users", n, why, exact=True)


# -- lemmas ----------------------------------------------------------------------------------------------------------


def lemma(question: Question, degree: int | None) -> Query:
    """The statement that a share lacks this degree or, without one, that it does not grow with bundles."""
    b = Builder(question)
    zero = degree is not None and not question.positive
    less, more = (b.symbols.row(name, question.resources, zero) for name in ("less", "more"))
    few, many = b.symbols.new("share_of_less"), b.symbols.new("share_of_more")
    if degree is None:
        b.note("what a task needs, and more of it")
        b.add(*(x <= y for x, y in zip(less, more, strict=True)))
        same = all_of([few == many, *(x < y for x, y in zip(less, more, strict=True))])
        b.fails(any_of([few > many, same]), "the share falls, or stays where all demands are larger")
        words = "the share grows with demands"
    else:
        t = b.symbols.new("times")
        more = [t * x for x in less]
        b.fails(any_of([many < t**degree * few, many > t**degree * few]), "the share is not so many times as large")
        words = f"demands times t have a share times t^{degree}"
    b.add(b.share(less, few))
    b.add(b.share(more, many))
    return b.query(words, None, "A lemma on the share that other statements use; nothing is omitted.")


def alike(question: Question) -> Query:
    """The statement that larger capacities change the shares of two users by different factors."""
    b = Builder(question)
    parts, rates = b.symbols.row("part", question.resources), []
    for name in ("one", "other"):
        demands = b.symbols.row(name, question.resources)
        before, after = b.symbols.new(f"{name}_before"), b.symbols.new(f"{name}_after")
        b.add(b.share(demands, before))
        b.add(b.share([p * r for p, r in zip(parts, demands, strict=True)], after))
        rates.append((before, after))
    (one, one_then), (other, other_then) = rates
    b.fails(~(one * other_then == other * one_then), "the factors differ")
    why = "A lemma on the share that other statements use; nothing is omitted."
    return b.query("capacities change the shares of all users by one factor", None, why)
