"""What limits leave idle, by reason, and servers that are not for sale."""

import numpy as np
import pytest

import fairopt as fo
from fairopt.questions import idle_sentence, purchases
from fairopt.questions.new_servers import closed, with_limits_raised
from fairopt.questions.waiting import idle_by_limits

NOBODY, LENT, OTHERS = "in nobody's quota", "by the lending limit of ads", "in other quotas"


def _pool(asked: float, amount: float = 10, **more: object) -> fo.Instance:
    """16 GPUs, of which users take ``amount`` at most: 3 are in no quota, ads keeps 2 for itself."""
    reasons = [(NOBODY, 13), (LENT, 11), (OTHERS, -np.inf)]
    limit = {"name": "quota", "resource": "gpu", "amount": amount, "of": ["a", "b"], "reasons": reasons}
    return fo.Instance([[1], [1]], [16], users=["a", "b"], resources=["gpu"], task_limits=asked, limits=[limit], **more)


def test_parts_add_up_to_what_is_idle():
    (found,) = idle_by_limits(fo.DRF().allocate(_pool(20)))
    assert found.parts == pytest.approx({NOBODY: 3, LENT: 2, OTHERS: 1})
    assert (found.units, found.there, found.waits) == pytest.approx((6, 16, 30))


def test_sentence_names_amounts_and_reasons():
    assert idle_sentence(fo.DRF().allocate(_pool(20))) == (
        f"6 of 16 gpu idle though 30 are waited for: 3 {NOBODY}, 2 {LENT}, 1 {OTHERS}"
    )


def test_nothing_is_said_where_nobody_waits():
    assert idle_sentence(fo.DRF().allocate(_pool(4))) == ""


def test_nothing_is_said_of_limits_that_do_not_bind():
    cluster = _pool(20).replace(task_limits=[4, 3])
    assert idle_by_limits(fo.DRF().allocate(cluster)) == []


def test_parts_are_never_more_than_is_idle():
    (found,) = idle_by_limits(fo.DRF().allocate(_pool(20, amount=14)))
    assert found.parts == pytest.approx({NOBODY: 2})


def test_limits_are_raised_with_the_capacity_of_their_servers():
    before = _pool(20)
    after = with_limits_raised(before, before.replace(capacities=[24]))
    assert after.limits[0].amount == 15
    assert after.limits[0].reasons[:2] == ((NOBODY, 19.5), (LENT, 16.5))


def test_limits_without_reasons_stay():
    limit = {"name": "cap", "resource": "gpu", "amount": 4, "of": ["a"]}
    before = fo.Instance([[1]], [16], users=["a"], resources=["gpu"], limits=[limit])
    assert with_limits_raised(before, before.replace(capacities=[32])).limits[0].amount == 4


def test_one_more_server_brings_nothing_until_quotas_are_raised():
    cluster = _pool(40, servers=["n"], counts=[2]).replace(capacities=[8])
    (row,) = purchases(fo.DRF().allocate(cluster), lead="gpu").servers
    assert row.lead_units == 0
    assert row.raised == pytest.approx(5)  # 10 of 16 become 15 of 24


def test_a_closed_server_is_not_for_sale():
    cluster = fo.Instance(
        [[1], [1]],
        [[8], [3]],
        users=["a", "b"],
        resources=["gpu"],
        servers=["open", "cordoned"],
        eligible=[[True, True], [True, False]],
        held=[[0, 3], [2, 0]],
        task_limits=20,
    )
    assert closed(cluster).tolist() == [False, True]
    assert [row.server for row in purchases(fo.DRF().allocate(cluster)).servers] == ["open"]


def test_a_full_server_that_others_may_use_is_for_sale():
    cluster = fo.Instance(
        [[1], [1]],
        [[8], [3]],
        users=["a", "b"],
        resources=["gpu"],
        servers=["open", "full"],
        held=[[0, 3], [2, 0]],
        task_limits=20,
    )
    assert not closed(cluster).any()
