"""Theorems by machine: verdicts, witnesses, what is never proved, files, limits of time, and what cannot be stated."""

import json
import re
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import cvxpy as cp
import forked
import numpy as np
import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.blocks.terms import all_of, product
from fairopt.cli.application import app, register
from fairopt.errors import InvalidBlock, MissingExtra, OutOfDomain
from fairopt.properties.audit.audit import PropertySearch
from fairopt.properties.literature.claims import claims
from fairopt.properties.prove import assumptions, provers, statements
from fairopt.properties.prove import prove as module
from fairopt.properties.prove.proof import Proof, ProofReport
from fairopt.properties.prove.provers import answers
from fairopt.properties.prove.statements import PROVABLE, Question, alike, lemma, queries
from fairopt.runtime.clock import Clock

pytest.importorskip("z3", reason="proofs need the extra prove")
pytest.importorskip("cvc5", reason="proofs are checked by cvc5, of the extra prove")

DRF, ASSET = fo.DRF(), fo.Policy(fo.Leximin(fo.PNormShare(1)))
EUCLID = fo.Policy(fo.Leximin(fo.PNormShare(2)))
START = provers._start


def verdicts(query, *names):
    """What provers say of a statement."""
    return [answer.answer for name in names for answer in answers([query], name, 30.0) if answer is not None]


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch):
    """Ask provers one at a time, as tests run side by side."""
    monkeypatch.setattr(provers, "PROCESSES", 1)


@pytest.fixture(autouse=True)
def forked_provers(monkeypatch):
    """Fork provers from a process that has imported them."""
    monkeypatch.setattr(provers, "_start", forked.prover)


@pytest.fixture
def started_provers(monkeypatch, forked_provers):
    """Start provers as the package does."""
    monkeypatch.setattr(provers, "_start", START)


@pytest.fixture(autouse=True)
def few_answers(monkeypatch):
    """Compare objectives of one's own on fewer wide pools, as some of these take several cone solvers."""
    monkeypatch.setattr(assumptions, "WIDE_ANSWERS", 3)


@pytest.fixture
def nothing_drawn(monkeypatch):
    """Leave out the search of audits, so that provers decide alone."""
    monkeypatch.setattr(module._Attempt, "_search", lambda self: None)


def test_the_statement_names_the_guarantees_and_teams_that_a_policy_reads():
    above = fo.prove(fo.Policy(fo.Leximin(fo.Surplus())), "si", resources=1)["si"]
    assert above.verdict == "refuted" and above.witness.instance.guarantees.any()
    assert above.statement.endswith("equal weights, no task limits and any guarantees that fit together")
    policy = fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam())))
    words = fo.prove(policy, "pareto", resources=1, limits=True, users=2, time_limit=0.1).about
    assert words.endswith("any positive task limits, any teams and any guarantees that fit together")
    assert fo.prove(DRF, "si", resources=1)["si"].statement.endswith("equal weights and no task limits")


# -- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "name", "resources", "options"),
    [
        (DRF, "sp", 4, {"weights": True}),
        (DRF, "si", 3, {"positive": False, "limits": True}),
        (DRF, "ef", 3, {"positive": False, "limits": True, "weights": True}),
        (DRF, "sp", 3, {"positive": False, "limits": True, "weights": True, "users": 3}),
        (DRF, "rm", 1, {}),
        (fo.KDF(3), "rm", 3, {"weights": True}),  # a product of all demands
        (ASSET, "sp", 3, {"weights": True}),
        (EUCLID, "sp", 3, {"weights": True}),
        (fo.KDF(2), "sp-boosting", 4, {"weights": True}),
        (fo.KDF(2), "pm", 3, {}),
        (fo.FDS(1), "si", 2, {"weights": True}),
        (fo.FDS(1), "bf", 2, {}),
        (fo.FDS(2), "ef", 3, {"weights": True}),
        (fo.FDS(1.5), "pe", 3, {"limits": True}),
        (fo.FDS(2), "sp", 1, {}),
        (fo.FDS(0.5), "ef", 1, {}),
        (fo.MostTasks(), "pe", 3, {}),
    ],
)
def test_theorems(policy, name, resources, options, nothing_drawn):
    found = fo.prove(policy, name, resources=resources, **options)[name]
    assert (found.verdict, found.provers) == ("proved", ("z3",))
    assert found.queries and found.witness is None
    assert f"{resources} resource" in found.statement


def test_refutations_come_with_witnesses_that_are_computed_again_and_replayed(tmp_path):
    for policy, name, how in ((fo.KDF(2), "si", "exact fractions"), (fo.FDS(1), "rm", "conditions to 30 digits")):
        proof = fo.prove(policy, name, resources=2)[name]
        assert proof.verdict == "refuted" and how in proof.witness.verified
        assert proof.witness.instance.n_resources == 2
        path = proof.export(tmp_path / "found.json")
        assert [replayed.refutes for replayed in fo.properties.replay(path)] == [True]


@pytest.mark.parametrize("options", [{}, {"positive": False, "limits": True}])
def test_one_user_shares_with_nobody(options, nothing_drawn):
    for name in ("sp", "pm", "ef", "si"):
        assert fo.prove(DRF, name, resources=2, users=1, **options)[name].verdict == "proved"


def test_max_min_is_proved_of_its_leximin_answer(nothing_drawn):
    found = fo.prove(fo.Policy(fo.MaxMin()), "pe", resources=2, positive=False)["pe"]
    assert found.verdict == "proved" and found.statement.endswith("no task limits, in the leximin answer")


def test_a_report_of_all_properties(nothing_drawn):
    report = fo.prove(DRF, resources=1, weights=True)
    assert list(report) == list(PROVABLE) and {proof.verdict for proof in report.values()} == {"proved"}
    assert report["sp"] is report["strategy-proof"]
    assert [row["provers"] for row in report.rows()] == ["z3"] * len(PROVABLE)
    assert "any number of users, demands above 0, any weights" in report._repr_html_()
    assert len(report.to_dict()["proofs"]) == len(PROVABLE)


@pytest.mark.parametrize(
    ("policy", "name", "options"),
    [
        (fo.KDF(2), "si", {"weights": True}),
        (fo.KDF(2), "sp", {}),
        (fo.GFJ(2), "ef", {}),
        (DRF, "pm", {"positive": False, "users": 3}),
        (DRF, "rm", {"users": 2}),
    ],
)
def test_solutions_of_provers_become_instances(policy, name, options, nothing_drawn):
    found = fo.prove(policy, name, resources=2, **options)[name]
    assert found.verdict == "refuted"
    assert found.witness.margin > 1e-9
    if "users" in options:
        assert found.witness.instance.n_users == options["users"]


# -- nothing false is proved -----------------------------------------------------------------------------------------


def question(policy, name, resources=2, users=None, degree=1, **options):
    objective = policy.objective
    (share,) = objective.share_blocks() or (fo.Tasks(),)
    return Question(
        objective=objective, share=share, name=name, resources=resources, users=users, degree=degree, **options
    )


@dataclass(frozen=True, repr=False)
class AllButTheLast(fo.Objective):
    """Leximin that ignores the last user, who need not be stopped by anything."""

    share: fo.Share = field(default_factory=fo.DominantShare)

    def conditions(self, symbols):
        return all_of(symbols.stopped(user) for user in symbols.users[:-1])


@pytest.mark.parametrize("name", ["sharing-incentive", "envy-free", "population-monotone"])
def test_leximin_that_ignores_a_user_is_not_proved(name):
    q = question(fo.Policy(AllButTheLast()), name, users=2 + (name[0] == "p"), degree=None)
    assert all(verdicts(query, "z3") == ["sat"] for query in queries(q) if query.exact)


@dataclass(frozen=True, repr=False)
class MostForOne(fo.Objective):
    """More than its part of everything for the first user; the second is at its limit, and something is left over."""

    share: fo.Share = field(default_factory=fo.DominantShare)

    def conditions(self, symbols):
        first, second = symbols.users
        rest = [*(2 * first.weight * part > 1 for part in first.bundle), *(left > 0 for left in symbols.slack)]
        return all_of([~second.below_limit, *rest])


def test_who_has_its_part_of_everything_may_still_complain_of_what_is_left_over():
    q = question(fo.Policy(MostForOne()), "bottleneck", users=2, degree=None, limits=True)
    found = [verdicts(query, "z3") for query in queries(q) if query.exact]
    assert found and all("sat" in verdict for verdict in found)


@pytest.mark.parametrize("name", ["sharing-incentive", "envy-free", "strategy-proof", "population-monotone"])
def test_the_contrary_of_a_theorem_is_not_proved(name, monkeypatch):
    """With the sign of the failure turned, statements have solutions: their other conditions contradict nothing."""
    less, more = statements.fails, statements.gains
    monkeypatch.setattr(statements, "fails", lambda *given: ~less(*given))
    monkeypatch.setattr(statements, "gains", lambda *given: ~more(*given))
    monkeypatch.setattr(statements, "fewer", lambda a, b: a >= b)
    for options in ({}, {"positive": False, "users": 3}):
        for query in queries(question(DRF, name, **options)):
            assert verdicts(query, "z3") == ["sat"], query.words


def test_totals_of_shares_that_are_zero_for_some_users(nothing_drawn):
    one = fo.Policy(fo.Total(fo.ResourceShare(0)))
    assert fo.prove(one, "pe", resources=2)["pe"].verdict == "proved"
    # who needs none of it may get nothing
    assert fo.prove(one, "pe", resources=2, positive=False, time_limit=3)["pe"].verdict != "proved"


def test_wrong_lemmas_are_not_proved():
    q = question(fo.KDF(2), "pareto", 3)
    assert verdicts(lemma(q, 2), "z3", "cvc5") == ["unsat", "unsat"]
    assert verdicts(lemma(q, 1), "z3") == ["sat"]
    assert verdicts(lemma(question(fo.GFJ(1), "pareto", 3), None), "z3") == ["sat"]  # the share of a task is always 1
    assert verdicts(alike(question(fo.KDF(3), "rm", 3)), "z3", "cvc5") == ["unsat", "unsat"]
    for other in (q, question(DRF, "rm", 2)):
        assert verdicts(alike(other), "z3") == ["sat"]


@dataclass(frozen=True, repr=False)
class Doubled(fo.Share):
    """The dominant share, of which the first user's is doubled: it does not say so."""

    def per_task(self, instance):
        return instance.dominant_shares * np.where(np.arange(instance.n_users) == 0, 2.0, 1.0)

    def conditions(self, symbols):
        return fo.DominantShare().conditions(symbols)


@dataclass(frozen=True, repr=False)
class AtMost(fo.Share):
    """What it says holds for more than what it computes."""

    def per_task(self, instance):
        return instance.dominant_shares

    def conditions(self, symbols):
        return all_of(symbols.coefficient >= ratio for ratio in symbols.ratios)


@dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    """The sum of the square roots of tasks; ``half`` of the price is said where ``wrong``."""

    wrong: bool = False

    def expression(self, model):
        import cvxpy as cp

        return cp.sum(cp.sqrt(model.tasks))

    def conditions(self, symbols):
        tasks = ((user, user.tasks * user.weight) for user in symbols.users)
        return all_of((1 + self.wrong) * 2 * symbols.root(x, 2) * symbols.task_price(user) == 1 for user, x in tasks)


@dataclass(frozen=True, repr=False)
class Excess(fo.Share):
    """What a user needs more of the first resource; of users who do not, the conditions know nothing."""

    def per_task(self, instance):
        return np.maximum(instance.ratios[:, 0] - instance.ratios[:, 1], 0)

    def conditions(self, symbols):
        return symbols.coefficient == symbols.ratios[0] - symbols.ratios[1]


@dataclass(frozen=True, repr=False)
class LogsAndLine(fo.Objective):
    """The logarithms of tasks, and a line that vanishes where all weights are 1, but not where they are 3."""

    def expression(self, model):
        import cvxpy as cp

        return cp.sum(cp.log(model.tasks)) + cp.sum(cp.multiply(model.weights - 1, model.tasks))

    def conditions(self, symbols):
        tasks = ((user, user.tasks * user.weight) for user in symbols.users)
        return all_of(1 + (user.weight - 1) * x == x * symbols.task_price(user) for user, x in tasks)


@dataclass(frozen=True, repr=False)
class NotSo(fo.Objective):
    """The least tasks, of which prices are not told; it says that it is Nash welfare."""

    def expression(self, model):
        import cvxpy as cp

        return cp.min(model.tasks)

    def conditions(self, symbols):
        return all_of(user.tasks * symbols.task_price(user) == 1 for user in symbols.users)


@dataclass(frozen=True, repr=False)
class SumOfSmall(fo.Share):
    """The dominant share, as it says, of tasks that need a thousandth of some capacity; of smaller ones the sum."""

    def per_task(self, instance):
        ratios = instance.ratios
        return np.where(ratios.max(axis=1) < 1e-3, ratios.sum(axis=1), ratios.max(axis=1))

    def conditions(self, symbols):
        return fo.DominantShare().conditions(symbols)


@dataclass(frozen=True, repr=False)
class ShareOfUsers(fo.Share):
    """The first ratio, as it says of three users; of others by their number."""

    def per_task(self, instance):
        return instance.ratios[:, 0] * instance.n_users / 3

    def conditions(self, symbols):
        return symbols.coefficient == symbols.ratios[0]


@dataclass(frozen=True, repr=False)
class Nothing(fo.Share):
    """A share that is defined nowhere."""

    def per_task(self, instance):
        raise OutOfDomain("nowhere")

    def conditions(self, symbols):
        return symbols.coefficient == 1


@dataclass(frozen=True, repr=False)
class LogsOfSmall(fo.Objective):
    """The square roots of tasks, as it says; the logarithms of tasks where some need less than a thousandth."""

    def expression(self, model):
        import cvxpy as cp

        small = model.instance.ratios.min() < 1e-3
        return cp.sum(cp.log(model.tasks) if small else cp.sqrt(model.tasks))

    def conditions(self, symbols):
        return Roots().conditions(symbols)


@dataclass(frozen=True, repr=False)
class Unweighted(Roots):
    """It states tasks per weight as if they were tasks."""

    def conditions(self, symbols):
        return all_of(2 * symbols.root(user.tasks, 2) * symbols.task_price(user) == 1 for user in symbols.users)


def test_conditions_of_tasks_need_no_field_and_a_refusal_shows_tasks_per_weight():
    assert fo.prove(fo.Policy(Roots()), "pe", resources=1, users=2).ok
    with pytest.raises(InvalidBlock) as refusal:
        fo.prove(fo.Policy(Unweighted()), "ef", resources=1)
    message = str(refusal.value)
    assert "and weights [3.0, 3.0, 3.0], whose tasks per weight are [" in message
    assert message.endswith("`tasks` and `level` of a user are per weight, and its tasks are user.tasks * user.weight")


def test_without_a_statement_all_the_time_is_for_the_search(monkeypatch):
    given = []

    class Search(PropertySearch):
        def run(self, instances):
            given.append((self.seconds, self.setting.max_examples))

    monkeypatch.setattr(module, "PropertySearch", Search)
    fo.prove(fo.Policy(lambda model: model.tasks[0]), ["pe", "ef"], resources=1, time_limit=60)
    assert len(given) == 2 and all(50 < seconds <= 60 and examples == 2000 for seconds, examples in given)


def test_objectives_that_differ_at_small_ratios_only_are_refused():
    with pytest.raises(InvalidBlock, match=r"LogsOfSmall\(\).conditions do not hold for its answer"):
        fo.prove(fo.Policy(LogsOfSmall()), "pe", resources=2, users=2)["pe"]


def test_answers_without_prices_to_compare_are_refused(monkeypatch):
    monkeypatch.setattr(assumptions, "WIDE_ANSWERS", 0)  # on wide pools its prices are known
    with pytest.raises(InvalidBlock, match=r"NotSo.*conditions use prices, and none of its answers on 8 drawn"):
        fo.prove(fo.Policy(NotSo()), "ef", resources=2)["ef"]


@dataclass(frozen=True, repr=False)
class Half(fo.Share):
    """Half a ratio, which is no fraction; or what is no condition."""

    said: object = 0.5

    def per_task(self, instance):
        return instance.ratios[:, 0] / 2

    def conditions(self, symbols):
        return symbols.coefficient == self.said * symbols.ratios[0] if self.said == 0.5 else self.said


def test_what_is_no_condition_is_refused_by_name():
    for given, words in ((0.5, "0.5 in a condition; give whole numbers"), ("c", "returned 'c'; give comparisons")):
        with pytest.raises(InvalidBlock, match=rf"Half.conditions:? {words}"):
            fo.prove(fo.Policy(fo.Leximin(Half(given))), "ef", resources=2)["ef"]


def test_equal_weights_need_not_be_1_for_objectives_of_ones_own():
    found = fo.prove(fo.Policy(LogsAndLine()), "ef", resources=1, users=2)["ef"]
    weights = found.witness.instance.weights
    assert found.verdict == "refuted" and weights[0] == weights[1] != 1


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (fo.Leximin(Doubled()), "Doubled.*conditions do not hold for its coefficient"),
        (fo.Leximin(AtMost()), "AtMost.*conditions hold for .* as well as for its coefficient"),
        (fo.Total(Excess()), "Excess.*conditions do not hold for its coefficient 0"),
        (NotSo(), r"NotSo\(\).conditions do not hold for its answer"),
        (fo.Leximin(SumOfSmall()), r"SumOfSmall\(\).conditions do not hold for its coefficient"),
        (fo.Leximin(ShareOfUsers()), r"ShareOfUsers\(\).conditions do not hold for its coefficient"),
        (fo.Leximin(Nothing()), r"Nothing\(\) is defined on none of the drawn pools"),
        (Roots(wrong=True), "Roots.*conditions do not hold for its answer"),
    ],
)
def test_blocks_that_say_something_else_than_they_compute_are_refused(objective, words):
    with pytest.raises(InvalidBlock, match=words):
        fo.prove(fo.Policy(objective), "ef", resources=2)["ef"]


SHIPPED = (
    *(fo.Leximin(share) for share in (fo.DominantShare(), fo.KDominantShare(2), fo.PNormShare(1.5), fo.Tasks())),
    *(fo.Leximin(share) for share in (fo.ResourceShare(0), fo.StandAloneShare(), fo.PNormShare(0))),
    fo.MaxMin(),
    fo.Leximin(fo.KDominantShare(2, short="positive")),
    fo.Leximin(fo.KDominantShare(2, rank_weights=(1, 2))),
    fo.AlphaFair(0.5),
    fo.AlphaFair(1),
    fo.AlphaFair(1.5, fo.Tasks()),
    fo.AlphaFair(2),
    fo.AlphaFair(0),
    fo.Total(fo.Tasks()),
    fo.Total(fo.PNormShare(1)),
)


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("objective", [*SHIPPED, Roots()], ids=repr)
def test_blocks_are_what_they_say(objective, limits):
    for positive in (False,) if limits else (True, False):
        if not isinstance(objective, Roots) or not limits:
            q = question(fo.Policy(objective), "pareto", 2, positive=positive, limits=limits, weights=True)
            assert bool(assumptions.require_consistent(q, Clock(None))) == isinstance(objective, Roots)


@pytest.mark.parametrize("objective", SHIPPED, ids=repr)
def test_shipped_blocks_are_what_they_say_at_ratios_over_many_decades(objective, monkeypatch):
    """The draws to which blocks of one's own are held."""
    monkeypatch.setattr(assumptions, "is_ours", lambda block: False)
    monkeypatch.setattr(assumptions, "WIDE_SHARES", 15)
    monkeypatch.setattr(assumptions, "WIDE_ANSWERS", 9)
    monkeypatch.setattr(assumptions, "DRAWN", 0)
    for options in ({}, {"positive": False, "limits": True, "weights": True}):
        assert "on 15 drawn pools" in assumptions.require_consistent(
            question(fo.Policy(objective), "pareto", 3, **options), Clock(None)
        )


# -- a notion of one's own -------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    """The mean of the ratios."""

    def per_task(self, instance):
        return instance.ratios.mean(axis=-1)

    def conditions(self, symbols):
        return symbols.coefficient * len(symbols.ratios) == sum(symbols.ratios)


def test_a_notion_of_ones_own_is_proved_by_what_its_blocks_say(nothing_drawn):
    assert fo.prove(fo.Policy(fo.Leximin(MeanShare())), "sp", resources=3)["sp"].verdict == "proved"
    assert fo.prove(fo.Policy(Roots()), "pe", resources=2, users=2)["pe"].verdict == "proved"


def test_theorems_on_blocks_of_ones_own_say_what_they_assume_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AUDITED", (1,))
    policy = fo.Policy(fo.Leximin(MeanShare()))
    assumed = "for conditions as MeanShare() states, compared with per_task on 72 drawn pools"
    proof = fo.prove(policy, "pe", resources=1)["pe"]
    report = ProofReport.of([proof])
    assert proof.assumption == proof.to_dict()["assumption"] == assumed
    assert proof.statement.endswith(f"no task limits, {assumed}")
    text = " ".join(proof.export(tmp_path / "pe.smt2").read_text().replace("\n; ", " ").split())
    for told in (str(proof), str(report), report._repr_html_(), report.about, text):
        assert assumed in told
    assert assumed in fo.audit(policy, ["pe"], positive=True, max_examples=10, prove=True)["pe"].verdict
    assert fo.prove(DRF, "pe", resources=1)["pe"].assumption == ""


@dataclass(frozen=True, repr=False)
class WithProduct(fo.Share):
    """A sum with a product, which grows and is of no degree."""

    def per_task(self, instance):
        return instance.ratios.sum(axis=-1) + instance.ratios.prod(axis=-1)

    def conditions(self, symbols):
        return symbols.coefficient == sum(symbols.ratios) + product(symbols.ratios)


def test_shares_without_a_degree_are_stated_by_ratios(nothing_drawn):
    for objective in (fo.Leximin(WithProduct()), fo.AlphaFair(1, WithProduct())):
        assert fo.prove(fo.Policy(objective), "pe", resources=2)["pe"].verdict == "proved"
        found = fo.prove(fo.Policy(objective), "ef", resources=2, users=2, time_limit=1)["ef"]
        assert "not proved that multiples of demands" in found.tried[0]


def test_a_lemma_that_was_not_settled_is_asked_again(monkeypatch, nothing_drawn):
    monkeypatch.setattr(module, "_LEMMAS", {})
    with monkeypatch.context() as hurried:
        hurried.setattr(module, "require_consistent", lambda question, clock: "")  # which takes of the time
        hurried.setattr(module, "LEMMA", 0.0)
        assert "not proved that multiples" in fo.prove(DRF, "sp", resources=2, time_limit=0.3)["sp"].tried[0]
    assert fo.prove(DRF, "sp", resources=2)["sp"].verdict == "proved"


@dataclass(frozen=True, repr=False)
class Smooth(fo.Objective):
    """A smooth minimum, of which a function is known and no share."""

    width: float

    def expression(self, model):
        return -cp.log_sum_exp(-model.share(fo.DominantShare()) / self.width)


def test_what_cannot_be_stated_is_unknown_in_one_line(nothing_drawn):
    mute = replace_conditions(MeanShare)
    found = fo.prove(fo.Policy(fo.Leximin(mute())), "pe", resources=2)["pe"]
    assert found.verdict == "unknown"
    assert "Mute() has no polynomial conditions; write Mute.conditions" in str(found)
    for policy, words in (
        (fo.Policy(fo.Leximin(), [fo.EnvyFree()]), "has constraints"),
        (fo.BottleneckFairness(), "is not a policy made of blocks"),
        (fo.FDS(0.1234567), "AlphaFair(0.1234567) has no polynomial"),
        (fo.Policy(fo.AlphaFair(1) + fo.Total(fo.Tasks())), "2 shares; search more instances by fo.audit("),
        (fo.Policy(Smooth(0.05)), "Smooth(0.05) states an expression only; write Smooth.conditions, or search"),
    ):
        found = fo.prove(policy, "pe", resources=2)["pe"]
        assert found.verdict == "unknown" and words in found.tried[0]


def test_objectives_of_ones_own_are_stated_for_few_users(nothing_drawn):
    found = fo.prove(fo.Policy(Roots()), "pe", resources=2, users=9)["pe"]
    assert found.verdict == "unknown" and "every order of users, too many of 9; give users <= 5" in found.tried[0]


def replace_conditions(kind):
    """A share without conditions."""

    @dataclass(frozen=True, repr=False)
    class Mute(fo.Share):
        def per_task(self, instance):
            return kind().per_task(instance)

    return Mute


# -- files, provers, limits ------------------------------------------------------------------------------------------


def test_saved_proofs_are_checked_by_both_provers(tmp_path, nothing_drawn):
    for policy, name in ((DRF, "sp"), (fo.KDF(2), "sp-boosting")):
        proof = fo.prove(policy, name, resources=2, weights=True, cross_check=True)[name]
        assert proof.provers == ("z3", "cvc5")
        text = proof.export(tmp_path / "proof.smt2").read_text()
        parts = text.split("(reset)\n")
        assert len(parts) == len(proof.queries)
        for part in parts:
            assert verdicts(SimpleNamespace(text=part), "z3", "cvc5") == ["unsat", "unsat"]


@pytest.mark.parametrize(
    ("policy", "name", "options", "words"),
    [
        (
            DRF,
            "envy-free",
            {"grows": True},
            r"All users but those named .*\(Proposition 16.4\).* its growth .*\(16.6\)",
        ),
        (DRF, "sharing-incentive", {}, "sum to 1, by their unit; .* at least the mean, .* user most_i"),
        (fo.FDS(1), "sharing-incentive", {}, "sum to 1, by their unit; .* at least the mean, .* user payer"),
        (DRF, "strategy-proof", {}, r"All users but user 1 are .*have one level .*\(Proposition 16.5\)"),
        (DRF, "population-monotone", {}, r"All users but user 1 and the one who leaves are .*\(Proposition 16.5\)"),
        (fo.FDS(2), "strategy-proof", {"resources": 1}, r"responds optimally to prices.*\(Proposition 16.8\)"),
        (fo.KDF(2), "resource-monotone", {"degree": 2, "alike": True}, "All users are .* by 16.9. Demands times t"),
        (DRF, "strategy-proof", {"positive": False, "users": 2}, r"grow, all fall or all stay.*\(Proposition 16.7\)"),
        (DRF, "pareto", {"users": 2}, "All 2 users are included and nothing is omitted"),
    ],
)
def test_statements_say_what_is_omitted_and_why(policy, name, options, words):
    for query in queries(question(policy, name, **options)):
        text = query.text.replace("\n; ", " ")
        if re.search(words, text):
            assert text.index("omitted") < text.index("(set-logic")
            assert "; the property fails\n(assert" in query.text
            return
    pytest.fail("no statement says so")


def test_saved_proofs_say_what_their_symbols_stand_for_and_hold_names_as_comments(tmp_path):
    proof = fo.prove(fo.Policy(fo.Leximin(), name="x\n(assert false)\n"), "ef", resources=1)["ef"]
    text = proof.export(tmp_path / "ef.smt2").read_text()
    assert "(assert false)" in text and "\n(assert false)" not in text
    for words in ("level_A: the share of user A, over its weight", "docs/methods/machine.md", "relaxation"):
        assert words in text.split("(set-logic")[0]
    symbols = set(re.findall(r"declare-fun ([a-z_]+?)(?:_\d|_lie|_then| )", text))
    assert all(re.search(rf";  .*\b{name}", text) for name in symbols), symbols


def test_what_cannot_be_saved(tmp_path, nothing_drawn):
    with pytest.raises(InvalidBlock, match=r"exported as SMT-LIB.*\.smt2"):
        fo.prove(DRF, "pe", resources=1)["pe"].export(tmp_path / "x.json")
    with pytest.raises(InvalidBlock, match="there is nothing to export"):
        fo.prove(fo.BottleneckFairness(), "pe", resources=1)["pe"].export(tmp_path / "x.json")


def test_a_limit_of_time_ends_in_unknown(monkeypatch, nothing_drawn):
    class Standing(Clock):
        """A clock that stands still until the prover has had all its time for what it cannot decide."""

        late, seconds = False, 0.0

    def asked(given, *rest):
        yield from answers(given, *rest)
        Standing.seconds = 0.3 if given is hard else 0.0

    hard = [statements._concrete(question(fo.GFJ(5), "population-monotone", 4), 4)]
    monkeypatch.setattr(module, "Clock", Standing)
    monkeypatch.setattr(module, "answers", asked)
    monkeypatch.setattr(module, "queries", lambda q: hard)
    found = fo.prove(DRF, "pm", resources=4, time_limit=0.3)["pm"]
    assert (found.verdict, found.tried[-1]) == ("unknown", "stopped after 0.3 seconds")


def test_ctrl_c_returns_what_is_known(monkeypatch):
    asked = []

    def interrupted(*given):
        asked.append(given)
        if len(asked) > 3:
            raise KeyboardInterrupt
        return queries(*given)

    monkeypatch.setattr(module, "queries", interrupted)
    report = fo.prove(DRF, resources=2)
    assert [proof.verdict for proof in report.proofs] == ["proved"] * 3 + ["unknown"]
    assert report.interrupted and report.proofs[-1].tried[-1] == "stopped by Ctrl-C"


def test_a_report_is_ok_only_if_all_is_proved_and_its_rows_show_witnesses():
    proved = Proof("DRF", DRF, "pareto", "proved", "it holds: on all pools")
    assert ProofReport.of([proved]).ok and not ProofReport.of([]).ok
    for other in ({"verdict": "unknown"}, {"interrupted": True}):
        assert not ProofReport.of([proved, replace(proved, **other)]).ok
    rows = ProofReport.of([proved, replace(proved, verdict="refuted", witness="a pool")]).rows()
    assert [row["witness"] for row in rows] == ["", "a pool"]


def test_a_missing_prover(monkeypatch):
    monkeypatch.setattr(provers, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"fairopt\[prove\]"):
        fo.prove(DRF, "pareto", resources=2)["pe"]


def test_provers_in_processes_of_their_own_prove_and_find_witnesses(started_provers, nothing_drawn):
    proof = fo.prove(DRF, "si", resources=2, cross_check=True)["si"]
    assert (proof.verdict, proof.provers) == ("proved", ("z3", "cvc5"))
    assert fo.prove(fo.KDF(2), "sp", resources=2)["sp"].verdict == "refuted"


def test_processes_of_provers_end_with_the_question(monkeypatch, started_provers):
    started = []

    def start(query, prover, running, done):
        START(query, prover, running, done)
        started.extend(running)

    monkeypatch.setattr(provers, "_start", start)
    hard = statements._concrete(question(fo.GFJ(5), "population-monotone", 4), 4)
    asked = answers([hard], "z3", 30.0, pause=0.0)
    assert next(asked) is None
    asked.close()
    assert [process.wait(timeout=20) == 0 for process in started] == [False]


def test_a_prover_that_fails_is_no_proof(monkeypatch, started_provers):
    monkeypatch.setattr(provers, "PROCESS", provers.PROCESS.with_name("nothing_there.py"))
    [answer] = answers([next(queries(question(DRF, "pareto")))], "z3", 30.0)
    assert answer.answer == "unknown" and "nothing_there" in answer.why


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resources": 0}, "resources is 0"),
        ({"users": True}, "users is True"),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"properties": "ef1"}, "no proofs are made of ef1"),
        ({"properties": "fair"}, "no property 'fair'"),
        ({"properties": []}, "no properties to prove"),
        ({"policy": 3}, r"prove\(3\)"),
    ],
)
def test_errors(change, words):
    with pytest.raises(InvalidBlock, match=words):
        fo.prove(**({"policy": DRF, "properties": "pe", "resources": 2} | change))


def test_outside_its_domain():
    with pytest.raises(OutOfDomain, match="give k <= 1"):
        fo.prove(fo.KDF(2), "pe", resources=1)["pe"]


# -- where it is used ------------------------------------------------------------------------------------------------


def test_audits_prove_what_they_do_not_refute():
    report = fo.audit(fo.KDF(2), ["pe", "si"], positive=True, max_examples=40, prove=True)
    assert report["pe"].verdict == ("proved for 2, 3, 4 resources and any number of users; not refuted on 40 instances")
    assert report["si"].refuted and report["si"].proved == ""


def test_the_command(tmp_path):
    register(["prove"])
    where = tmp_path / "ef.smt2"
    words = ["prove", "-p", "drf", "--property", "ef", "--resources", "2", "--save", str(where), "--time-limit", "600"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0 and "proved by z3" in found.output and where.exists(), found.output
    found = CliRunner().invoke(app, ["prove", "-p", "2df", "--property", "si", "--resources", "2", "--json"])
    (proof,) = json.loads(found.output)["proofs"]
    assert proof["verdict"] == "refuted"


def test_claims_and_proofs_agree():
    """What is claimed of all instances and proved by hand is nowhere refuted by machine, and the other way round."""
    stated = [claim for claim in claims() if claim.machine and claim.says in ("satisfies", "violates")]
    assert len(stated) > 20
    for claim in stated:
        holds = (claim.says == "satisfies") == (claim.verdict == "proved")
        proved, refuted = "proved" in claim.machine, "refuted" in claim.machine
        if claim.conditions == "" and holds:
            assert not refuted, claim
        if not holds:
            assert refuted or not proved, claim


@pytest.mark.parametrize("looks", [0, 1, 3])  # within users, before an answer, between pools
def test_blocks_not_compared_in_time_prove_nothing(monkeypatch, looks):
    late = iter([False] * looks)
    monkeypatch.setattr(Clock, "late", property(lambda self: next(late, True)))
    proof = fo.prove(fo.DRF(), "pe", resources=1, users=2, time_limit=60)["pe"]
    assert proof.verdict == "unknown" and "was not finished when the time" in proof.tried[0]
