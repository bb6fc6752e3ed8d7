"""Names and messages shorten long parameters; `repr` and files keep them whole."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.base import brief
from fairopt.runtime.display import LONG, label

CLUSTER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
MATRIX = tuple(tuple(row) for row in np.random.default_rng(0).random((6, 6)).tolist())
SHORT = "Of((0.637, 0.2698, 0.04097, ... 36 numbers))"


@dataclass(frozen=True, repr=False)
class Of(fo.Share):
    """The dominant share times the sum of a matrix."""

    matrix: tuple

    def per_task(self, instance):
        return instance.ratios.max(axis=-1) * np.sum(self.matrix)


LEVELS = fo.Policy(fo.Leximin(Of(MATRIX)))


def test_repr_keeps_long_parameters_and_str_shortens_them():
    share = Of(MATRIX)
    assert eval(repr(share)) == share and len(repr(share)) > 600
    assert str(share) == SHORT
    assert str(fo.AlphaFair(2, share) + 0.5 * fo.Total(share)) == f"AlphaFair(2, {SHORT}) + 0.5 * Total({SHORT})"
    assert str(fo.MaxMin(share).then(fo.Total(share))) == f"MaxMin({SHORT}).then(Total({SHORT}))"
    assert str(fo.MaxMin(share) >= 0.1) == f"MaxMin({SHORT}) >= 0.1"
    assert label(LEVELS) == str(LEVELS) == f"Policy(Leximin({SHORT}))"
    floors = LEVELS.with_constraints(fo.MinTasks({f"user{k}": 0.1 for k in range(200)}))
    assert "constraints=[MinTasks({'user0': 0.1, ... 200 values})]" in str(floors)
    assert len(repr(floors)) > 3_000


@pytest.mark.parametrize("block", [fo.KDominantShare(2, rank_weights=(1, 2)), fo.Leximin(), fo.MinTasks([1, 2, 3])])
def test_what_is_short_is_written_whole(block):
    assert str(block) == repr(block)


def test_a_repr_of_ones_own_is_cut():
    @dataclass(frozen=True)
    class Generated(fo.Share):
        matrix: tuple

    text = str(Generated(MATRIX))
    assert len(text) == LONG and "Generated(" in text and "…" in text


def test_other_values_are_shortened():
    assert brief(np.ones((2, 2))) == "[[1.0, 1.0], [1.0, 1.0]]"
    assert brief([1, "a", None] * 30) == "[1, 'a', None, 1, 'a', ... 90 values]"
    assert brief("a\nb") == "'a\\nb'"
    assert brief((np.inf, -np.inf)) == "(float('inf'), float('-inf'))"
    assert len(brief("x" * 1_000)) <= 42


def of_error(call):
    with pytest.raises(fo.FairoptError) as raised:
        call()
    return str(raised.value)


@pytest.mark.fast_methods
def test_messages_names_and_tables_shorten_parameters(tmp_path):
    answer = LEVELS.allocate(CLUSTER)
    texts = {
        "zero": of_error(lambda: fo.Policy(fo.Leximin(Of(((0.0,) * 6,) * 6))).allocate(CLUSTER)),
        "infeasible": of_error(lambda: fo.Policy(fo.Leximin(), [fo.MinShare(99.0, Of(MATRIX))]).allocate(CLUSTER)),
        "method": of_error(lambda: LEVELS.allocate(CLUSTER, method="prices")),
        "policy": of_error(lambda: fo.Policy(Of(MATRIX))),
        "constraints": of_error(lambda: fo.Policy(fo.Leximin(), [[3.0] * 300])),
        "grow": of_error(lambda: fo.OrderedWeighted(tuple(range(300)))),
        "allocation": repr(answer),
        "check": str(fo.check(answer, ["pareto"])),
        "compare": str(fo.compare([LEVELS, fo.Policy(fo.Leximin(Of(MATRIX[:5])))], CLUSTER).to_frame().to_csv()),
        "audit": str(fo.audit(LEVELS, ["pareto"], max_examples=1)),
        "page": answer._repr_html_(),
        "named": str(fo.policies.named_policy(f"Leximin(KDominantShare(2, rank_weights={tuple(range(1, 301))}))")),
    }
    for name, text in texts.items():
        assert "0.5253543224757259" not in text and "... " in text, name
    path = answer.save(tmp_path / "a.json")
    assert repr(LEVELS) in json.dumps(json.loads(path.read_text())).replace('\\"', '"')
