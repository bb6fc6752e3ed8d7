"""Results, errors, certificates and tables speak the names of users, resources and servers, not their places."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import fairopt as fo
from fairopt.properties.audit.findings import numbers
from fairopt.properties.checks import check
from fairopt.report.frames import user_rows
from fairopt.report.tables import allocation_tables, describe

NAMED: dict[str, Any] = {"users": ["ann", "bob"], "resources": ["cores", "memory"], "servers": ["lion", "newt"]}
CLUSTER = fo.Instance([[1, 4], [3, 1]], [[9, 18], [12, 6]], units={"memory": "GiB"}, **NAMED)
POOL = fo.Instance(
    [[1, 4], [3, 1]],
    [9, 18],
    users=NAMED["users"],
    resources=NAMED["resources"],
    servers=["lion"],
    units={"memory": "GiB"},
)
PLACES = re.compile(r"\b(user|resource|server)s? ?#?\d|\b(row|column|index|pair) \d")


class Hands:
    """A mechanism that hands out what it is told to."""

    name = "hands"

    def __init__(self, tasks: Any, held: Any = None) -> None:
        self.tasks, self.held = np.array(tasks, dtype=float), held

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        held = None if self.held is None else np.array(self.held, dtype=float)
        proof = fo.Certificate(0.0, 0.0, "by hand")
        return fo.Allocation(instance, self, self.tasks, proof, 0.0, given_bundles=held)


def with_demands(demands: Any, **more: Any) -> Callable[[], Any]:
    return lambda: fo.Instance(demands, [[9, 18], [12, 6]], **NAMED, **more)


SPEAKS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    # what is wrong with data
    "a negative demand": (with_demands([[1, 4], [3, -1]]), ("bob", "memory")),
    "a demand by server": (with_demands([[[1, 4], [1, 4]], [[3, 1], [np.nan, 1]]]), ("bob", "cores", "newt")),
    "no demand": (with_demands([[1, 4], [0, 0]]), ("bob",)),
    "a weight": (with_demands([[1, 4], [3, 1]], weights=[1, 0]), ("bob",)),
    "a task limit": (with_demands([[1, 4], [3, 1]], task_limits=[1, -1]), ("bob",)),
    "a count": (with_demands([[1, 4], [3, 1]], counts=[1, 0]), ("newt",)),
    "nowhere to run": (with_demands([[1, 4], [3, 1]], eligible={"ann": ["lion"], "bob": []}), ("bob",)),
    "a capacity": (
        lambda: fo.Instance(
            [[1, 1]], [[1, 1], [1, -2]], users=["ann"], resources=NAMED["resources"], servers=NAMED["servers"]
        ),
        ("newt", "memory"),
    ),
    "a resource nobody has": (
        lambda: fo.Instance([[1, 1]], [[1, 0], [1, 0]], users=["ann"], resources=NAMED["resources"]),
        ("ann", "memory"),
    ),
    "a unit of another resource": (lambda: POOL.replace(units={"disk": "GB"}), ("disk", "cores", "memory")),
    # what a policy cannot do
    "a notion that is not defined": (lambda: fo.KDF(2).allocate(POOL.replace(demands=[[1, 4], [3, 0]])), ("bob",)),
    "constraints in conflict": (
        lambda: fo.Policy(fo.Leximin(), [fo.MinTasks({"ann": 4, "bob": 2})]).allocate(POOL),
        ("cores",),
    ),
    "a limit of nothing": (
        lambda: fo.Policy(fo.Leximin(), [fo.MinTasks(1)]).allocate(POOL.replace(task_limits=[0, 5])),
        ("ann",),
    ),
    "values by user": (lambda: fo.Policy(fo.Leximin(), [fo.MinTasks({"ann": 1, "eve": 1})]).allocate(POOL), ("eve",)),
    "one server of many": (
        lambda: fo.NaivePerServer(fo.KDF(2)).allocate(CLUSTER.replace(demands=[[[1, 4], [1, 4]], [[3, 1], [3, 0]]])),
        ("newt", "bob"),
    ),
    # what a mechanism of one's own does
    "more than there is": (lambda: check(Hands([[3, 3], [1, 1]]).allocate(CLUSTER)), ("memory", "newt")),
    "fewer than none": (lambda: check(Hands([[0, 0], [1, -1]]).allocate(CLUSTER)), ("bob", "newt")),
    "a bundle below zero": (
        lambda: check(Hands([[1, 0], [0, 0]], [[[1, 4], [0, 0]], [[0, 0], [0, -1]]]).allocate(CLUSTER)),
        ("bob", "memory", "newt"),
    ),
    "a lie of nobody": (lambda: fo.properties.best_misreport(fo.DRF(), POOL, "eve"), ("eve", "ann", "bob")),
}


@pytest.mark.parametrize("case", SPEAKS)
def test_errors_name_who_and_what_and_where(case: str) -> None:
    make, names = SPEAKS[case]
    with pytest.raises(fo.FairoptError) as caught:
        make()
    text = str(caught.value)
    assert all(name in text for name in names), text
    assert not PLACES.search(text), text


def test_a_user_of_no_label_has_the_label_of_its_place() -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=r"user 'user2' for resource 'resource1'"):
        fo.Instance([[1, 4], [-3, 1]], [9, 18])


def test_verdicts_name_users_and_resources() -> None:
    report = check(Hands([[1, 0], [0.5, 0]]).allocate(CLUSTER.replace(demands=[[1, 4], [3, 1]])))
    text = str(report)
    assert "user 'ann'" in text or "user 'bob'" in text
    assert not PLACES.search(text)
    bottleneck = check(Hands([[1], [0.5]]).allocate(POOL), ["bf"])
    assert not PLACES.search(str(bottleneck))


def test_a_lie_is_told_in_the_names_of_resources() -> None:
    cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["ann", "bob"], resources=["cores", "memory"])
    lie = fo.properties.best_misreport(fo.FDS(1), cluster, "bob")
    assert lie is not None
    assert str(lie).startswith("user 'bob' reports (cores 2, memory 3) and runs 0.444444 tasks instead of 0.333333")


def test_a_lie_by_server_is_told_in_the_names_of_servers() -> None:
    lie = fo.properties.Misreport.on(CLUSTER, 1, ((2.0, 1.0), (3.0, 0.5)), truthful=1.0, lying=1.5, family="near")
    assert str(lie) == (
        "user 'bob' reports (lion (cores 2, memory 1), newt (cores 3, memory 0.5)) and runs 1.5 tasks instead of 1 "
        "(+50.000%)"
    )


def test_without_names_a_lie_is_told_in_numbers() -> None:
    pool, tasks = fo.Instance([[1, 3], [3, 1]], [2, 4]), {"truthful": 1.0, "lying": 1.5}
    lie = fo.properties.Misreport.on(pool, 1, (2.0, 3.0), **tasks, family="near")
    assert str(lie).startswith("user 'user2' reports (2, 3) and runs")
    assert lie == fo.properties.Misreport.on(pool, 1, (2.0, 3.0), **tasks, gain=0.5, family="near")


def test_a_witness_of_a_given_instance_speaks_its_names() -> None:
    report = fo.audit(
        fo.FDS(1),
        ["sp"],
        instances=[fo.Instance([[1, 3], [3, 1]], [2, 4], users=["ann", "bob"], resources=["cores", "memory"])],
    )
    witness = report["sp"].witness
    assert witness is not None
    assert "cores " in witness.sentence and "memory " in witness.sentence
    assert not PLACES.search(witness.sentence)


def test_the_numbers_of_an_instance_stand_beside_its_names() -> None:
    assert numbers(CLUSTER) == (
        "resources (cores, memory); demands 'ann' (1, 4), 'bob' (3, 1); capacities 'lion' (9, 18), 'newt' (12, 6)"
    )
    assert numbers(fo.Instance([[1, 4]], [9, 18])) == "demands (1, 4); capacities (9, 18)"


def test_attempts_on_each_server_alone_name_the_server() -> None:
    tried = fo.NaivePerServer(fo.FDS(2)).allocate(CLUSTER, solver="CLARABEL").certificate.tried
    assert [attempt.message for attempt in tried] == ["on server 'lion'", "on server 'newt'"]
    assert "on server 'newt'" in str(tried[1])


def test_a_conflict_names_the_resource_in_its_parts_too() -> None:
    with pytest.raises(fo.errors.Infeasible) as caught:
        fo.Policy(fo.Leximin(), [fo.MinTasks({"ann": 4, "bob": 2})]).allocate(POOL)
    assert any("cores" in part for part in caught.value.conflict)


# -- units ----------------------------------------------------------------------------------------------------


def test_tables_of_an_allocation_have_units_of_amounts_and_of_prices() -> None:
    users, servers = allocation_tables(fo.DRF().allocate(CLUSTER))
    assert [c.header for c in users.groups[1]] == ["cores", "memory (GiB)"]
    assert [c.header for c in servers.groups[-1]] == ["price of cores", "price of memory (per GiB)"]
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(users, servers)
    assert "memory (GiB)" in console.export_text()


def test_prices_in_a_table_are_those_of_the_allocation() -> None:
    a = fo.FDS(1).allocate(CLUSTER)
    assert a.prices is not None
    shown = [[float(cell) for cell in column.cells] for column in allocation_tables(a)[1].groups[-1]]
    np.testing.assert_allclose(np.transpose(shown), a.prices, atol=5e-5)


def test_rows_by_user_carry_units() -> None:
    row = user_rows(fo.DRF().allocate(POOL))[0]
    assert row["memory (GiB)"] == pytest.approx(4 * row["tasks"])
    assert "memory" not in row


def test_a_description_carries_units_and_notes() -> None:
    told = describe(fo.DRF().allocate(POOL.replace(notes=["2 pods were left out"])))
    assert told["units"] == {"cores": "", "memory": "GiB"}
    assert told["notes"] == ["2 pods were left out"]
    assert describe(fo.DRF().allocate(POOL.replace(units=None)))["units"] is None
