"""`prove`: whether a property holds on all instances of a kind, by SMT solvers.

A notion in polynomials comes from the `conditions` of its blocks, and the failure of a property from `statements`; the
solvers look for real numbers that satisfy both. An audit searches for counterexamples too. A solution is made an
instance and verified before the property is called refuted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.blocks.algebra import Objective
from fairopt.blocks.base import brief, is_ours
from fairopt.blocks.inline import Inline
from fairopt.blocks.shares import Tasks
from fairopt.blocks.terms import OutcomeSymbols, ShareSymbols, Symbols, conditions_of
from fairopt.errors import FairoptError, InvalidBlock, InvalidInstance, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.policy import Policy, is_mechanism, label
from fairopt.properties.audit.audit import AuditSettings, PropertySearch
from fairopt.properties.audit.findings import Witness
from fairopt.properties.exact.confirm import Counterexample, verified
from fairopt.properties.names import BY_NAME, MEANING, property_name, require_whole, texts, when_late
from fairopt.properties.prove.assumptions import degree_of, require_consistent, seems_alike
from fairopt.properties.prove.proof import Proof, ProofReport
from fairopt.properties.prove.provers import Reply, answers, require
from fairopt.properties.prove.statements import PROVABLE, Kind, Query, Question, alike, lemma, queries
from fairopt.properties.teams import labels_read, reads_guarantees
from fairopt.properties.within import WITHIN, judged
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import by_itself, tell

FIRST = 1.0  # seconds of the provers before instances are drawn too
LEMMA = 10.0  # seconds for the lemmas on a share
EXAMPLES, SEARCHING = 600, 5.0  # number of drawn instances, and seconds, beside a statement
ALONE = 2000  # number of drawn instances where there is no statement: as many as of an audit, in all the time
AUDITED, EACH = (1, 2, 3, 4), 10.0  # numbers of resources, and seconds for each, in audits
SEARCH = "search more instances by fo.audit(policy, max_examples=...)"
ORDERED = 5  # most users for a user-defined objective, which is stated for every order of users
DENOMINATORS = (10, 1_000, 10**6, 10**15)  # bounds on those of a witness, tried in turn


def prove(
    policy: Any,
    properties: str | Iterable[str] | None = None,
    *,
    resources: int,
    users: int | None = None,
    positive: bool = True,
    weights: bool = False,
    limits: bool = False,
    time_limit: float = 60.0,
    cross_check: bool = False,
    found: Callable[[Proof], None] | None = None,
) -> ProofReport:
    """Prove that properties hold on all pools of a kind, or find instances on which they fail.

    SMT solvers search for demands, answers and misreports for which the property fails; if there are none, it is a
    theorem for all real demands. On one pool all tasks of a user count alike, so properties by a share, as in `check`,
    are those in tasks. Needs the extra ``prove``.

    Parameters
    ----------
    policy : Policy or other mechanism
        Only policies of one share without constraints can be proved; others can be refuted.
    properties : str or iterable of str, optional
        Names or short forms; by default all: ``pareto``, ``sharing-incentive``, ``envy-free``, ``strategy-proof``,
        ``strategy-proof-boosting``, ``bottleneck``, ``population-monotone``, ``resource-monotone``.
    resources : int
        Number of resources.
    users : int, optional
        Number of users; by default any number.
    positive : bool, default True
        Positive demands only, in instances and in reports; otherwise demands may be zero.
    weights, limits : bool, default False
        Any weights, and any task limits, instead of equal weights and none. Users have teams, and guarantees that fit
        together, if the policy reads them (`OfTeam`, `Surplus`), and statements say so.
    time_limit : float, default 60
        Seconds for each property. Where a notion cannot be stated, up to 2,000 instances are searched in that time.
    cross_check : bool, default False
        Have cvc5 check the statements that z3 has proved.
    found : callable, optional
        Called with each `Proof` as soon as it is known.

    Returns
    -------
    ProofReport
        A `Proof` for each property: ``proved`` with the statement, ``refuted`` with a verified witness, or ``unknown``
        with what was tried. Ctrl-C returns the proofs so far.

    Raises
    ------
    MissingExtra
        If a prover is not installed.
    InvalidBlock
        If an argument is invalid, or a block's `conditions` contradict what it computes.

    Notes
    -----
    A proof rests on the conditions that blocks state (`Share.conditions`, `Objective.conditions`), on the encoding in
    :doc:`/methods/machine`, and on the prover. Conditions of user-defined blocks are compared with what the blocks
    compute on drawn pools; the statement names this assumption and the number of pools.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.prove(fo.KDF(2), "sp-boosting", resources=3, weights=True).ok
    True
    >>> fo.prove(fo.KDF(2), "si", resources=2)["si"].verdict
    'refuted'
    """
    if not is_mechanism(policy):
        raise InvalidBlock(f"prove({brief(policy)}): give a policy, such as DRF()")
    require_whole(resources, "resources")
    if users is not None:
        require_whole(users, "users")
    if isinstance(time_limit, bool) or not isinstance(time_limit, (int, float)) or not time_limit > 0:
        raise InvalidBlock(f"time_limit is {time_limit!r}; give a number of seconds > 0")
    names = tuple(dict.fromkeys(map(property_name, texts(properties, "properties", PROVABLE))))
    for name in names:
        if name not in PROVABLE:
            raise InvalidBlock(f"no proofs are made of {name}; {nearest(name, PROVABLE)}")
    if not names:
        raise InvalidBlock("no properties to prove; give some such as ['pe', 'ef']")
    for prover in ("z3", "cvc5") if cross_check else ("z3",):
        require(prover)
    kind = Kind(
        resources=int(resources),
        users=users,
        positive=bool(positive),
        weights=bool(weights),
        limits=bool(limits),
        teams=bool(labels_read(policy)),
        guarantees=reads_guarantees(policy),
    )
    clock, proofs = Clock(time_limit), list[Proof]()
    question = stated(policy, kind, clock)
    with by_itself() as report:
        for done, name in enumerate(names):
            report(f"{label(policy)}: {name}", done, len(names))
            proofs.append(_Attempt(policy, kind, question, name, clock, cross_check).proof())
            clock = Clock(time_limit)
            if found is not None:
                found(proofs[-1])
            if proofs[-1].interrupted:
                break
    return ProofReport.of(proofs)


def of_finding(setting: AuditSettings, name: str) -> str:
    """What is proved of a property that an audit has not refuted, in words; empty if nothing."""
    require("z3")
    if name not in PROVABLE or setting.servers > 1 or set(setting.conditions) - {"positive demands"}:
        return ""
    proved, assumed = [], set[str]()
    for resources in AUDITED:
        kind = Kind(resources=resources, positive=setting.positive, weights=setting.weights, limits=setting.limits)
        with contextlib.suppress(OutOfDomain):  # as for 3-DF on two resources
            clock = Clock(EACH)
            question = stated(setting.policy, kind, clock)
            if isinstance(question, str):  # the audit has searched
                continue
            proof = _Attempt(setting.policy, kind, question, name, clock, False).proof()
            if proof.verdict == "proved":
                proved.append(str(resources))
                assumed.add(proof.assumption)
            if proof.interrupted:
                raise KeyboardInterrupt
    if not proved:
        return ""
    words = f"proved for {', '.join(proved)} resource{'s' * (proved != ['1'])} and any number of users"
    words += ", of positive demands" * (setting.positive and BY_NAME[name].positive)
    return "; ".join([words, *sorted(filter(None, assumed))])


def stated(policy: Any, kind: Kind, clock: Clock) -> Question | str:
    """The question about a notion without the property, or why it cannot be stated."""
    if type(policy) is not Policy:
        return f"{label(policy)} is not a policy made of blocks with conditions"
    if policy.constraints:
        return f"{label(policy)} has constraints, which statements do not cover; prove it without them, or {SEARCH}"
    terms = [part for factor, part in policy.objective.summands() if factor > 0]
    objective = terms[0] if len(terms) == 1 else policy.objective
    if isinstance(objective, Inline):
        return f"{objective} is a function, of which no conditions are known; write a class with `conditions`"
    shares = objective.share_blocks()
    if len(shares) != 1 and type(objective).conditions is not Objective.conditions:
        shares = (Tasks(),)  # what its conditions call levels
    if len(shares) != 1 or objective.of_bundles:
        if not shares and not objective.of_bundles:
            write = f"write {type(objective).__name__}.conditions, or {SEARCH}"
            return f"a proof needs polynomials that hold at an optimum; {objective} states an expression only; {write}"
        what = "decides bundles" if objective.of_bundles else f"compares {len(shares)} shares"
        return f"a proof covers tasks counted by one share; {objective} {what}; {SEARCH}"
    if kind.users is not None and kind.users > ORDERED and not is_ours(objective):
        return f"{objective} is stated in every order of users, too many of {kind.users}; give users <= {ORDERED}"
    symbols = Symbols()
    user = ShareSymbols(symbols.row("ratio", kind.resources), symbols.new("share"), symbols)
    outcome = OutcomeSymbols([], symbols.row("slack", kind.resources), symbols)
    for block, stated_conditions in (
        (shares[0], conditions_of(shares[0], user)),
        (objective, conditions_of(objective, outcome)),
    ):
        if stated_conditions is None:
            hint = " in a user's own ratios" if is_ours(block) else f"; write {type(block).__name__}.conditions"
            return f"{block} has no polynomial conditions{hint}"
    question = Question(**asdict(kind), objective=objective, share=shares[0], name="pareto")
    assumption = require_consistent(question, clock)
    if assumption is None:
        return f"the comparison of its blocks' conditions with what they compute was not finished {when_late(clock)}"
    return replace(question, assumption=assumption)


@dataclass
class _Attempt:
    """The attempt to prove or refute one property."""

    policy: Any
    kind: Kind
    question: Question | str
    name: str
    clock: Clock
    cross_check: bool
    tried: list[str] = field(default_factory=list)
    used: list[Query] = field(default_factory=list)
    witness: Witness | None = None

    @property
    def left(self) -> float:
        """Seconds until the limit."""
        assert self.clock.time_limit is not None
        return self.clock.time_limit - self.clock.seconds

    def proof(self) -> Proof:
        """The verdict, also after Ctrl-C."""
        provers: tuple[str, ...] = ()
        interrupted = False
        try:
            if isinstance(self.question, str):
                self.tried.append(self.question)
                self._search()
            else:
                provers = self._ask(replace(self.question, name=self.name))
        except KeyboardInterrupt:
            interrupted = True
            self.tried.append("stopped by Ctrl-C")
        verdict = "refuted" if self.witness is not None else "proved" if provers else "unknown"
        meaning = (", " if self.name in WITHIN else "; ").join(
            filter(None, (MEANING[self.name], judged(self.name, self.policy)))
        )
        words = f"{meaning}: {self.kind.words}"
        if isinstance(self.question, Question) and self.question.levels and not self.question.objective.term.is_order:
            words += ", in the leximin answer"  # of max-min answers
        assumption = "" if isinstance(self.question, str) else self.question.assumption
        return Proof(
            label(self.policy),
            self.policy,
            self.name,
            verdict,
            ", ".join(filter(None, (words, assumption))),
            self.witness,
            tuple(self.tried),
            provers,
            self.clock.seconds,
            tuple(self.used) if provers else (),
            interrupted,
            assumption,
        )

    def _ask(self, question: Question) -> tuple[str, ...]:
        """The provers that proved the property; without any there may be a witness."""
        question = self._with_lemmas(question)
        begun, searched = time.perf_counter(), False
        with contextlib.closing(answers(queries(question), "z3", self.left, FIRST)) as found:
            for answer in found:
                if answer is not None and self._settles(answer, question):
                    return self._checked_again() if self.witness is None else ()
                if not searched and time.perf_counter() - begun > FIRST:
                    searched = True
                    self._search()
                    if self.witness is not None:
                        return ()
        if not searched:
            self._search()
        if self.left <= 0:
            self.tried.append(f"stopped after {self.clock.time_limit:g} seconds")
        return ()

    def _settles(self, answer: Reply, question: Question) -> bool:
        """Whether an answer proves the property or gives a witness."""
        query = answer.query
        if answer.answer == "unsat" and query.users in (None, question.users):
            self.used.append(query)
            return True
        result = {"unsat": "no solution", "sat": "a solution"}.get(answer.answer, f"unknown {answer.why}".strip())
        self.tried.append(f"{query.words}: {result}")
        return answer.answer == "sat" and query.exact and self._confirmed(_cases(question, query, answer.values))

    def _with_lemmas(self, question: Question) -> Question:
        """The question with lemmas on the share: its degree, monotonicity, and a common factor of growth."""
        if not question.objective.term.is_simple:
            return question
        guess = degree_of(question)
        lemmas = [lemma(question, degree) for degree in (None, guess)[: 1 + (guess is not None)]]
        of_degree = len(lemmas)
        if question.name == "resource-monotone" and question.resources > 1 and question.levels and question.positive:
            lemmas += [alike(question)] * seems_alike(question)
        new = [query for query in lemmas if query.text not in _LEMMAS]
        with contextlib.closing(answers(new, "z3", min(LEMMA, self.left / 2))) as found:
            for answer in found:
                if answer is not None and answer.answer != "unknown":
                    _LEMMAS[answer.query.text] = answer.answer == "unsat"
        holds = [_LEMMAS.get(query.text, False) for query in lemmas]
        self.used += [query for query, held in zip(lemmas, holds, strict=True) if held]
        degree = guess if all(holds[1:of_degree]) else None
        if degree is None:
            self.tried.append(f"{question.share}: not proved that multiples of demands have multiples of the share")
        return replace(question, degree=degree, grows=holds[0], alike=any(holds[of_degree:]))

    def _checked_again(self) -> tuple[str, ...]:
        """The provers that proved all statements, with ``cross_check`` also cvc5."""
        if not self.cross_check:
            return ("z3",)
        with contextlib.closing(answers(self.used, "cvc5", self.left)) as running:
            answered = [answer for answer in running if answer is not None]
        wrong = [answer.query.words for answer in answered if answer.answer == "sat"]
        if wrong:
            self.tried.append(f"z3 finds no solution and cvc5 one: {wrong[0]}")
            return ()
        agreed = sum(answer.answer == "unsat" for answer in answered)
        if agreed == len(self.used):
            return ("z3", "cvc5")
        self.tried.append(f"cvc5 proved {agreed} of {len(self.used)} statements of z3 and gave no answer to the others")
        return ("z3",)

    # -- instances ------------------------------------------------------------------------------------------------

    def _audit(self) -> PropertySearch:
        """An audit among instances of this kind only."""
        kind, alone = self.kind, isinstance(self.question, str)
        seconds = max(self.left, 0.0) if alone else min(max(self.left, 0.0), SEARCHING)
        shapes = tuple((n, kind.resources) for n in kind.concrete)
        setting = AuditSettings(
            self.policy,
            ("positive demands",) * kind.positive,
            weights=kind.weights,
            limits=kind.limits,
            servers=1,
            max_examples=ALONE if alone else EXAMPLES,
            seed=0,
            tell=tell,
            shapes=shapes,
            only=True,
            shrinking=min(seconds, SEARCHING),
        )
        return PropertySearch(setting, self.name, seconds=seconds)

    def _search(self) -> None:
        """Search drawn instances for a counterexample, if there is time."""
        if self.left <= 0:
            return
        search = self._audit()
        search.run(None)
        if search.interrupted:
            raise KeyboardInterrupt
        self.witness = search.witness
        if self.witness is None:
            self.tried.append(f"{search.tried:,} drawn instances: {search.finding().verdict}")

    def _confirmed(self, cases: Iterator[Counterexample]) -> bool:
        """Whether one of the cases is a counterexample, which is shrunk."""
        for case in cases:
            with contextlib.suppress(FairoptError):  # rounding may leave the domain
                if verified(self.policy, case).confirmed:
                    self.witness = self._audit().confirmed(case)
            if self.witness is not None:
                return True
        self.tried.append("the property does not fail there when the answer is recomputed")
        return False


_LEMMAS: dict[str, bool] = {}  # whether a lemma holds, by its text


def _cases(question: Question, query: Query, values: dict[str, Fraction]) -> Iterator[Counterexample]:
    """The instance of a solution, in fractions of increasing denominators."""
    assert query.users is not None
    one, resources = Fraction(1), range(1, question.resources + 1)

    def demands(user: object, top: int) -> list[Fraction]:
        """Demands per task, relative to capacities."""
        if f"ratio_{user}_1" in values:
            ratios = [values[f"ratio_{user}_{i}"] for i in resources]
        else:
            tasks = values.get(f"tasks_{user}", one)
            ratios = [values.get(f"bundle_{user}_{i}", one) / tasks for i in resources]
        return [v.limit_denominator(top) for v in ratios]

    for top in DENOMINATORS:
        users = range(1, query.users + 1)
        weights = [values.get(f"weight_{k if question.weights else 1}", one).limit_denominator(top) for k in users]
        limits = [values.get(f"limit_{k}") for k in users]
        try:
            instance = Instance(
                [[float(v) for v in demands(k, top)] for k in users],
                np.ones(question.resources),
                weights=[float(w) for w in weights],
                task_limits=[None if t is None else float(t * w) for t, w in zip(limits, weights, strict=True)],
            )
            lie, changed = None, None
            if question.name.startswith("strategy-proof"):
                lie = tuple(float(v) for v in demands("lie", top))
            elif question.name == "population-monotone":
                changed = instance.select_users(range(query.users - 1))
            elif question.name == "resource-monotone":
                parts = [values.get(f"part_{i}", one) for i in resources]
                changed = instance.with_capacities([[float(1 / part) for part in parts]])
            yield Counterexample(question.name, instance, 0, lie, changed)
        except InvalidInstance:  # a demand that is rounded to 0
            continue
