"""Blocks from text: what repr prints is read back, anything else is refused, and nothing is ever executed."""

import contextlib
import os
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairopt as fo
from fairopt.policies.parse import mechanism_or_text, parse_policy

# -- round trip ------------------------------------------------------------------------------------------------------

NUMBER = st.floats(1e-6, 1e6)
RANKS = st.dictionaries(st.text(), st.lists(NUMBER, min_size=1, max_size=2), max_size=3)
FALLING = st.lists(NUMBER, min_size=1, max_size=4).map(lambda v: sorted(v, reverse=True))
SHARES = st.one_of(
    st.just(fo.Tasks()),
    st.just(fo.DominantShare()),
    st.just(fo.StandAloneShare()),
    st.builds(fo.KDominantShare, st.integers(1, 3), st.one_of(st.none(), st.lists(NUMBER, min_size=3, max_size=3))),
    st.builds(fo.KDominantShare, st.just(1), short=st.just("positive")),
    st.builds(fo.KDominantShare, st.just(1), RANKS),
    st.builds(fo.PNormShare, st.one_of(NUMBER, st.just(float("inf")), st.just(0))),
    st.builds(fo.ResourceShare, st.text()),
)
NUMBERS = st.one_of(
    st.builds(fo.Total, SHARES),
    st.builds(fo.MaxMin, SHARES),
    st.builds(fo.AlphaFair, NUMBER, SHARES),
    st.builds(fo.OrderedWeighted, FALLING, SHARES),
    st.builds(lambda b, e, s: fo.FairnessEfficiency(b, e if b <= 1 else -e, s), st.floats(0.1, 5), NUMBER, SHARES),
)
SUMS = st.recursive(NUMBERS, lambda inner: st.builds(lambda a, b, c: a + c * b, inner, inner, NUMBER), max_leaves=3)
OBJECTIVES = st.one_of(
    SUMS, st.builds(fo.Leximin, SHARES), st.builds(lambda a, b: a.then(b), SUMS, st.one_of(SUMS, st.builds(fo.Leximin)))
)
BY_USER = st.one_of(NUMBER, st.lists(NUMBER, min_size=1, max_size=3), st.dictionaries(st.text(), NUMBER, max_size=3))
CONSTRAINTS = st.one_of(
    st.builds(fo.MinTasks, BY_USER),
    st.builds(fo.MaxTasks, BY_USER),
    st.builds(fo.MinShare, BY_USER, SHARES),
    st.builds(fo.MaxShare, BY_USER, SHARES),
    st.just(fo.SharingIncentive()),
    st.just(fo.EnvyFree()),
    st.builds(fo.EqualShares, SHARES),
    st.builds(fo.Reserve, st.text(), st.floats(0, 1)),
    st.builds(lambda o, level: o >= level, SUMS, st.floats(-1e6, 1e6)),
)
POLICIES = st.builds(
    fo.Policy, OBJECTIVES, st.lists(CONSTRAINTS, max_size=3), st.one_of(st.none(), st.text(max_size=5))
)


@given(POLICIES)
def test_what_repr_prints_is_read_back(policy):
    again = parse_policy(repr(policy))
    assert again == policy
    assert again.name == policy.name
    assert repr(again) == repr(policy)


@given(POLICIES)
def test_what_repr_prints_can_be_pasted_into_python(policy):
    again = eval(repr(policy), {name: getattr(fo, name) for name in fo.__all__})
    assert again == policy
    assert again.name == policy.name


@pytest.mark.parametrize(
    "policy",
    [
        fo.DRF(),
        fo.KDF(3),
        fo.DRF(),
        fo.TSF(),
        fo.FDS(2),
        fo.FDS(beta=2, lam=-1),
        fo.GFJ(0.5),
        fo.PNormFairness(1, 2),
        fo.MostTasks(),
        fo.NashWelfare(),
        fo.PNormFairness(float("inf"), 1),
    ],
    ids=lambda p: p.name,
)
def test_named_notions_are_read_back_with_their_names(policy):
    again = parse_policy(repr(policy))
    assert (again, again.name) == (policy, policy.name)


# -- what is accepted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("Total()", fo.Policy(fo.Total())),
        (
            "  AlphaFair(1, KDominantShare(2)) + 0.1 * Total(Tasks())\n",
            fo.Policy(fo.AlphaFair(1, fo.KDominantShare(2)) + 0.1 * fo.Total(fo.Tasks())),
        ),
        ("fo.Total(fo.Tasks())", fo.Policy(fo.Total(fo.Tasks()))),
        ("MaxMin().then(Total(share=Tasks()))", fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks())))),
        (
            "Policy(Leximin(), [MinShare(0.1), Total() >= 2])",
            fo.Policy(fo.Leximin(), [fo.MinShare(0.1), fo.Total() >= 2]),
        ),
        (
            "Policy(Leximin(), constraints=[MinTasks({'a': 1})], name='x')",
            fo.Policy(fo.Leximin(), [fo.MinTasks({"a": 1})]),
        ),
        ("FairnessEfficiency(beta=2, lam=-0.5)", fo.Policy(fo.FairnessEfficiency(2, -0.5))),
        ("OrderedWeighted([2, 1])", fo.Policy(fo.OrderedWeighted((2, 1)))),
    ],
)
def test_blocks_and_their_algebra_are_read(text, policy):
    assert parse_policy(text) == policy


def test_blocks_as_text_are_named_by_themselves():
    assert parse_policy("Total() + MaxMin()").name == "Total() + MaxMin()"


def test_a_policy_of_foreign_blocks_stays_text():
    assert mechanism_or_text("Policy(TheirObjective(3))") == "Policy(TheirObjective(3))"


# -- what is refused, without being executed -------------------------------------------------------------------------

ATTACKS = [
    "__import__('os').system('touch {mark}')",
    "Total(__import__('os').system('touch {mark}'))",
    "Policy(Total(), constraints=[exec(\"open('{mark}', 'w')\")])",
    "open('{mark}', 'w')",
    "Total().__class__",
    "Total().__class__.__mro__[1].__subclasses__()",
    "Total.__init__.__globals__['cp']",
    "().__class__.__bases__[0].__subclasses__()",
    "(lambda: open('{mark}', 'w'))()",
    "[open('{mark}', 'w') for _ in (1,)]",
    "(x := open('{mark}', 'w'))",
    "f\"{{open('{mark}', 'w')}}\"",
    "Total() if open('{mark}', 'w') else MaxMin()",
    "Total() and open('{mark}', 'w')",
    "Policy(Total(), name=open('{mark}', 'w'))",
    "Policy(Total()).allocate(1)",
    "Policy(Total()).then(open('{mark}', 'w'))",
    "Total().expression(1)",
    "Total()[0]",
    "getattr(Total(), 'share')",
    "Model(1, 2)",
    "Instance([[1]], [1])",
    "Policy.certify(1)",
    "breakpoint()",
    "exit()",
    "quit()",
    "input()",
]


@pytest.mark.parametrize("text", ATTACKS)
@pytest.mark.parametrize("read", [parse_policy, fo.policies.named_policy], ids=["parse", "named"])
def test_code_is_refused_and_not_executed(tmp_path, text, read):
    mark = tmp_path / "mark"
    with pytest.raises(fo.errors.InvalidBlock):
        read(text.format(mark=mark))
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        "Total(",
        "Total()+",
        "Total() Total()",
        "import os",
        "x = 1",
        "",
        "   ",
        "\0",
        "Total()\x00",
        "é",
        "Total",
        "Tasks()",
        "Tasks() + Tasks()",
        "MinTasks(1)",
        "Total() >= 1",
        "3",
        "'Total()'",
        "[Total()]",
        "{}",
        "None",
        "True",
        "Total() - MaxMin()",
        "Total() / 2",
        "Total() ** 2",
        "Total() <= 3",
        "1 <= Total() <= 3",
        "not Total()",
        "~Total()",
        "Totl()",
        "Share()",
        "Objective()",
        "Constraint()",
        "Block()",
        "Sum(())",
        "Tiers(())",
        "AtLeast(Total(), 3)",
        "Total(1, 2, 3)",
        "Total(foo=1)",
        "Total(*[Tasks()])",
        "AlphaFair()",
        "AlphaFair(...)",
        "AlphaFair(b'1')",
        "AlphaFair(1j)",
        "Policy()",
        "Policy(3)",
        "Policy(Total(), constraints=5)",
        "Policy(Total(), constraints=[3])",
        "Policy(Total(), foo=1)",
        "Leximin() + Total()",
        "-1 * Total()",
        "Total() * 1e999",
        "nan * Total()",
        "Total() + 'a'",
        "'a' + Total()",
        "'a' * Total()",
        "Total() + 1",
        "1 + Total()",
        "Total() * Total()",
        "(1, 2) + (3,) + Total()",
        "3 >= Total()",
        "'a' >= Total()",
        "Tasks() >= 1",
        "MaxMin().then()",
        "MaxMin().then(Total(), Total())",
        "MaxMin().then(other=3)",
        "MaxMin().then(3)",
        "(3).then(Total())",
        "'a'.then(Total())",
        "Tasks().then(Total())",
        "5()",
        "('a' 'b')()",
        "Policy(Total(), [MinTasks({[1]: 2})])",
        "Policy(Total(), [MinTasks({'a': 1, **{'b': 2}})])",
        "Policy(Total(), [MinTasks({Total(): 1})])",
        "Total(**{1: 2})",
        "Total(**Tasks())",
    ],
)
def test_anything_else_is_an_error_of_ours(text):
    with pytest.raises(fo.FairoptError):
        parse_policy(text)


@pytest.mark.parametrize("text", ["Total().Total()", "f().Total()", "MaxMin().then(Total()).Tasks()", "[].Total()"])
def test_a_block_is_no_attribute_of_a_value(text):
    with pytest.raises(fo.errors.InvalidBlock):
        parse_policy(text)


DEPTHS = [50, 150, 300, 500, 700, 900, 1500, 20_000]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "nest",
    [
        lambda k: "(" * k + "Total()" + ")" * k,
        lambda k: "Total()" + " + Total()" * k,
        lambda k: "Total()" + ".then(Total())" * k,
        lambda k: "Total().then(" * k + "Total()" + ")" * k,
        lambda k: "-" * k + "1 * Total()",
        lambda k: "Policy(Total(), [MinTasks(" + "[" * k + "]" * k + ")])",
        lambda k: "Total(share=" * k + "1" + ")" * k,
        lambda k: "a" + ".a" * k + "()",
        lambda k: "a" + "()" * k,
    ],
    ids=["brackets", "sum", "then", "nested then", "minus", "lists", "shares", "attributes", "calls"],
)
def test_huge_nesting_is_read_or_refused_but_never_crashes(nest, depth):
    limit = sys.getrecursionlimit()
    with contextlib.suppress(fo.FairoptError):
        parse_policy(nest(depth))
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    "text", ["(1,) * 10000000", "'a' * 100000000", "('a' * 50000000) * Total()", "[[1]] * 10000000"]
)
def test_a_short_text_cannot_take_much_memory(text):
    tracemalloc.start()
    try:
        with pytest.raises(fo.errors.InvalidBlock):
            parse_policy(text)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", ["1" + 400 * "0", hex(10**400), "0x" + 5000 * "f", "-1" + 400 * "0"])
@pytest.mark.parametrize(
    "text",
    [
        "AlphaFair({})",
        "AlphaFair(1, KDominantShare({}))",
        "{} * Total()",
        "Policy(Total(), [MaxShare({})])",
        "Policy(Total(), [MinTasks({{'a': {}}})])",
        "fds:alpha={}",
        "kdf:k=2,rank_weights=(1,{})",
    ],
)
def test_a_whole_number_beyond_all_floats_is_an_error_of_ours(text, number):
    with pytest.raises(fo.errors.InvalidBlock) as error:
        fo.policies.named_policy(text.format(number))
    assert len(str(error.value)) < 1000 or text.startswith(("fds", "kdf"))


@pytest.mark.parametrize("make", [fo.AlphaFair, fo.MaxShare, lambda n: fo.MinTasks({"a": n}), lambda n: n * fo.Total()])
def test_blocks_refuse_a_whole_number_beyond_all_floats(make):
    with pytest.raises(fo.errors.InvalidBlock, match="a whole number too large for a float; give a smaller one"):
        make(16**5000)


def test_a_long_text_is_not_repeated_whole_in_the_error():
    with pytest.raises(fo.errors.InvalidBlock) as caught:
        parse_policy("Total() + " * 10_000)
    assert len(str(caught.value)) < 1000


@given(st.text(max_size=60))
def test_any_text_is_a_policy_or_an_error_of_ours(text):
    before = os.getcwd()
    with contextlib.suppress(fo.FairoptError):
        assert isinstance(parse_policy(text), fo.Policy)
    assert os.getcwd() == before


TEXT = """Total MaxMin ( ) () + * >= .then 1 0.5 - 'a' , [ ] { } : Policy Tasks() Leximin() MinTasks name= None inf nan
AlphaFair KDominantShare ** lambda if"""
WORDS = st.sampled_from(TEXT.split())


@given(st.lists(WORDS, max_size=12).map("".join))
def test_any_words_are_a_policy_or_an_error_of_ours(text):
    with contextlib.suppress(fo.FairoptError):
        assert isinstance(parse_policy(text), fo.Policy)


@pytest.mark.parametrize(
    "mechanism",
    [
        fo.PSDSF(),
        fo.HDRF(),
        fo.HDRF(("org", "team"), {"a": 2}),
        fo.BottleneckFairness(),
        fo.NaivePerServer(fo.KDF(2)),
        fo.NaivePerServer(fo.HFFMRA()),
    ],
    ids=repr,
)
def test_mechanisms_are_read_back_from_their_repr(mechanism):
    assert mechanism_or_text(repr(mechanism)) == mechanism
    with pytest.raises(fo.errors.InvalidBlock, match="not an objective or a policy"):
        parse_policy(repr(mechanism))
