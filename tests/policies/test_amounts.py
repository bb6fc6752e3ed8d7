"""Bounds in units of resources, and resources named without the vendor's prefix."""

from typing import Any

import pytest

import fairopt as fo
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.policies.amounts import Amounts, amount_of
from fairopt.policies.registry import named_constraint

GPU = fo.ResourceShare("nvidia.com/gpu")


def cluster(*resources: str) -> fo.Instance:
    """Two servers, users train and tune of the team vision, and web."""
    return fo.Instance(
        [[4, 1], [1, 0], [2, 1]],
        [[32, 2], [32, 6]],
        users=["train", "web", "tune"],
        resources=resources or ("cpu", "nvidia.com/gpu"),
        teams={"team": ["vision", None, "vision"]},
    )


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("MaxShare('vision=2gpu')", (fo.MaxShare({"vision": 0.25}, GPU),)),
        ("MaxShare('vision = 2 nvidia.com/gpu')", (fo.MaxShare({"vision": 0.25}, GPU),)),
        ("MaxShare('2gpu')", (fo.MaxShare(0.25, GPU),)),
        ("MaxShare({'vision': '2gpu', 'web': 0.2})", (fo.MaxShare({"web": 0.2}), fo.MaxShare({"vision": 0.25}, GPU))),
        (
            "MinShare('web=16cpu, vision=.2')",
            (fo.MinShare({"vision": 0.2}), fo.MinShare({"web": 0.25}, fo.ResourceShare("cpu"))),
        ),
        ("MinShare('web=0.2', Tasks())", (fo.MinShare({"web": 0.2}, fo.Tasks()),)),
        ("MinTasks('web=3')", (fo.MinTasks({"web": 3}),)),
        ("MinTasks('vision=2e0gpu')", (fo.MinShare({"vision": 0.25}, GPU),)),
        ("MaxTasks('train=2gpu')", (fo.MaxShare({"train": 0.25}, GPU),)),
        ("Reserve('2gpu')", (fo.Reserve("nvidia.com/gpu", 0.25),)),
    ],
)
def test_amounts_in_units_are_fractions_of_the_total_capacity(text: str, blocks: tuple[Any, ...]) -> None:
    found = named_constraint(text)
    assert isinstance(found, Amounts)
    assert found.on(cluster()) == blocks


def test_a_team_with_at_most_or_at_least_two_gpus_has_two() -> None:
    for text, policy in (("MaxShare('vision=2gpu')", fo.DRF()), ("MinTasks('vision=2gpu')", fo.MostTasks())):
        found = named_constraint(text)
        assert isinstance(found, Amounts)
        answer = policy.with_constraints(*found.on(cluster())).allocate(cluster())
        assert answer.certificate.ok
        assert answer.tasks[[0, 2]].sum() == pytest.approx(2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MaxShare('vision')", "'vision' is not a number, nor units of a resource; write"),
        ("MaxShare('vision=gpu')", "'gpu' is not a number"),
        ("MaxShare('vision=2gpu, vision=0.2')", "name each user or team once"),
        ("MaxShare('2gpu, web=0.2')", "or give one amount for all"),
        ("MaxShare('2gpu', Tasks())", "leave out Tasks()"),
        ("Reserve('2')", "give Reserve('gpu', 0.2) or Reserve('16gpu')"),
        ("Policy(Leximin(), [MaxShare('2gpu')])", "needs a cluster; give it by --constraint"),
    ],
)
def test_errors_of_amounts_come_before_a_cluster_is_read(text: str, message: str) -> None:
    with pytest.raises(InvalidBlock) as error:
        named_constraint(text)
    assert message in str(error.value)


def test_what_cannot_be_reserved_or_is_unknown_is_refused() -> None:
    with pytest.raises(InvalidBlock, match=r"the cluster has only 8 nvidia.com/gpu; give less"):
        Amounts(fo.Reserve, "9gpu").on(cluster())
    with pytest.raises(InvalidInstance, match="no resource 'gpus'"):
        Amounts(fo.MaxShare, "9gpus").on(cluster())


def test_text_that_is_no_amount_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not a number"):
        amount_of("-1gpu")


def test_a_resource_may_be_named_without_its_prefix_where_one_fits() -> None:
    whole, plain = fo.Reserve("nvidia.com/gpu", 0.5), fo.Reserve("gpu", 0.5)
    answers = [fo.DRF().with_constraints(block).allocate(cluster()) for block in (whole, plain)]
    assert answers[0].tasks.tolist() == answers[1].tasks.tolist()
    floors = cluster().replace(guarantees={"vision": {"gpu": 3}}).team_guarantees
    assert floors == {"vision": {"nvidia.com/gpu": 3.0}}


def test_a_saved_answer_whose_block_leaves_the_prefix_out_is_verified(tmp_path: Any) -> None:
    answer = fo.MostTasks().with_constraints(fo.MinShare({"tune": 0.25}, fo.ResourceShare("gpu"))).allocate(cluster())
    answer.save(tmp_path / "a.json")
    assert fo.verify(tmp_path / "a.json").ok


def test_a_short_name_that_fits_two_resources_is_refused() -> None:
    two = cluster("nvidia.com/gpu", "amd.com/gpu")
    message = r"'gpu' is short for the resources 'nvidia.com/gpu', 'amd.com/gpu'; give the whole name of one"
    with pytest.raises(InvalidInstance, match=message):
        two.resource_index("gpu")
    assert cluster("gpu", "amd.com/gpu").resource_index("gpu") == 0
