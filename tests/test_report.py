"""Comparisons as data and as tables."""

import csv
import io
import json
import math
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import fairopt as fo
from fairopt.cli.commands import policy_rows, solver_rows
from fairopt.report import demonstration, files, pages
from fairopt.report.comparison import Comparison, compare, groups
from fairopt.report.frames import user_rows
from fairopt.report.markup import latex_text, markdown_text
from fairopt.report.outcomes import mechanisms, outcome
from fairopt.report.tables import Column, Table, allocation_tables, describe, numbers
from fairopt.runtime.display import short, shortened, visible

TWO = fo.Instance(
    [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"], resources=["bandwidth", "memory", "cpu"]
)
LIMITED = TWO.with_task_limits(1)
SPARSE = fo.Instance([[1, 0], [1, 1]], [2, 2])  # 2-DF is not defined for the first user
MANY = fo.datasets.log_uniform(150, 3, seed=3)
TYPED = fo.Instance(
    [[2, 1], [1, 0]],
    [[12, 4], [30, 0], [6, 8]],
    counts=[2, 1, 3],
    users=["a", "b"],
    resources=["cpu", "gpu"],
    server_types=["T4", "no GPU", "T4"],
)


def drawn(thing: Any, width: int = 80) -> list[str]:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(thing)
    return console.export_text().splitlines()


class Equal:
    """A mechanism that is not a policy: the same number of tasks for all, without any option."""

    name = "equal tasks"

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        x = float((instance.capacities[0] / instance.demands.sum(axis=0)).min())
        tasks = np.full((instance.n_users, 1), x)
        return fo.Allocation(instance, self, tasks, fo.Certificate(0.0, 0.0, "closed"), x)


class Bundles:
    """A mechanism that decides bundles: all of every server to the first user, whose tasks use a part of it."""

    name = "all to the first"

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        held = np.zeros((instance.n_users, instance.n_servers, instance.n_resources))
        held[0] = instance.capacities * instance.counts[:, None]
        tasks = np.zeros((instance.n_users, instance.n_servers))
        tasks[0] = (held[0] / instance.demands[0]).min(axis=1)
        return fo.Allocation(instance, self, tasks, fo.Certificate(0.0, 0.0, "closed"), 0.0, given_bundles=held)


# -- comparing ------------------------------------------------------------------------------------------------


def test_rows_hold_the_numbers_of_each_allocation() -> None:
    drf, two = compare(["drf", "2df"], TWO).rows()
    assert (drf["policy"], two["policy"]) == ("DRF", "2-DF")
    assert drf["ntt"] == pytest.approx(15, rel=1e-12)
    assert two["ntt"] == pytest.approx(25 / 13 + 200 / 13, rel=1e-12)
    assert drf["aur"] == pytest.approx(600 - 200 - 82.5 - 32.5)
    assert drf["jain"] == pytest.approx(1)
    assert drf["smallest_dominant_share"] == pytest.approx(0.5)
    assert drf["utilisation"] == pytest.approx({"bandwidth": 1, "memory": 82.5 / 200, "cpu": 32.5 / 200})
    assert drf["method"] == "water-filling"
    assert drf["certified"]
    assert drf["error"] is None
    assert 0 <= drf["gap"] <= 1e-6
    assert drf["seconds"] >= 0


def test_rows_keep_the_order_asked_for() -> None:
    names = ["most-tasks", "drf", "tsf", "2df"]
    assert [row["policy"] for row in compare(names, TWO).rows()] == ["most tasks", "DRF", "TSF", "2-DF"]


def test_a_policy_without_an_answer_is_a_row_with_the_reason() -> None:
    result = compare(["2df", "drf"], SPARSE)
    failed, drf = result.rows()
    assert failed["error"].startswith("OutOfDomain: user 'user1'")
    assert failed["certified"] is False
    assert failed["ntt"] is failed["gap"] is failed["utilisation"] is None
    assert drf["certified"]
    assert list(result.allocations) == ["DRF"]
    assert isinstance(result.errors["2-DF"], fo.errors.OutOfDomain)


def test_an_answer_that_cannot_be_certified_is_never_shown_as_one() -> None:
    class Fails:
        name = "fails"

        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            raise fo.errors.NotCertified("gap 0.3", best=fo.DRF().allocate(instance))

    result = compare([Fails(), "drf"], TWO)
    assert result.rows()[0]["ntt"] is None
    assert "fails" not in result.allocations
    assert "gap 0.3" in result.rows()[0]["error"]


def test_errors_that_are_not_of_fairopt_are_not_hidden() -> None:
    class Broken:
        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        compare([Broken()], TWO)


def test_a_mechanism_that_is_not_a_policy_can_be_compared() -> None:
    row = compare([Equal(), "drf"], TWO).rows()[0]
    assert (row["policy"], row["method"]) == ("equal tasks", "closed")
    assert row["ntt"] == pytest.approx(2 * 200 / 48)


def test_an_option_that_a_mechanism_does_not_take_is_its_reason() -> None:
    equal, drf = compare([Equal(), "drf"], TWO, solver="CLARABEL").rows()
    assert equal["error"] == "InvalidBlock: equal tasks takes no solver; leave it out"
    assert drf["solver"] == "CLARABEL"


def test_options_reach_every_policy() -> None:
    assert {row["solver"] for row in compare(["drf", "fds:alpha=2"], TWO, solver="SCS").rows()} == {"SCS"}


def test_names_can_be_given() -> None:
    assert list(mechanisms({"ours": fo.DRF(), "theirs": "2df"})) == ["ours", "theirs"]


def test_equal_names_get_numbers() -> None:
    assert list(mechanisms(["drf", "drf", fo.DRF()])) == ["DRF", "DRF (2)", "DRF (3)"]


def test_one_policy_needs_no_list() -> None:
    assert list(mechanisms("drf")) == ["DRF"]
    assert list(mechanisms(fo.DRF())) == ["DRF"]


def test_a_policy_without_a_name_is_called_by_its_blocks() -> None:
    assert list(mechanisms([fo.Policy(fo.AlphaFair(2))])) == [repr(fo.Policy(fo.AlphaFair(2)))]


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (["drf", "drff"], "no policy 'drff'; did you mean 'drf'"),
        (3, "not a list of policies"),
        ([fo.AlphaFair(1)], "AlphaFair.* has no allocate"),
        ([fo.Policy], "has no allocate"),
    ],
)
def test_what_is_not_a_policy_is_refused_before_anything_is_solved(policies: Any, words: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        compare(policies, TWO)


def test_an_unknown_solver_is_refused_before_anything_is_solved() -> None:
    with pytest.raises(fo.errors.SolverUnavailable, match="did you mean 'CLARABEL'"):
        compare(["drf"], TWO, solver="CLARABELL")


def test_something_else_than_an_instance_is_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="give an Instance second"):
        compare(["drf"], "cluster/")  # type: ignore[arg-type]


# -- findings -------------------------------------------------------------------------------------------------


def test_it_is_said_when_everything_fits() -> None:
    finding = "everything fits: every user runs all its tasks under each policy"
    assert compare(["drf", "2df", "fds:alpha=2"], LIMITED).findings() == [finding]


def test_it_is_not_said_when_one_policy_leaves_a_user_short() -> None:
    assert compare(["drf", "most-tasks"], TWO.with_task_limits([3, 20])).findings() == []


def test_policies_that_agree_are_named() -> None:
    intro = fo.Instance([[2, 3], [2, 1]], [6, 4])  # of Joe-Wong et al. (2013)
    said = compare(["drf", "fds:alpha=1", "nash", "drfh", "fds:alpha=2"], intro).findings()
    assert said == [
        "DRF and DRFH give every user the same tasks (to 4 digits)",
        "FDS(alpha=1) and Nash welfare give every user the same tasks (to 4 digits)",
    ]


def test_nothing_is_found_where_nothing_was_answered() -> None:
    assert compare(["2df"], SPARSE).findings() == []


def test_no_users_are_compared_too() -> None:
    result = compare(["drf", "2df"], fo.Instance(np.zeros((0, 2)), [1, 1]))
    assert [row["ntt"] for row in result.rows()] == [0, 0]
    assert drawn(result)


# -- by type of server ----------------------------------------------------------------------------------------


def test_rows_by_type_hold_tasks_and_use_of_each_type() -> None:
    rows = compare({"ours": Bundles(), "DRF": "drf"}, TYPED).by_server_type()
    assert [(r["policy"], r["server_type"], r["servers"]) for r in rows] == [
        ("ours", "T4", 5),
        ("ours", "no GPU", 1),
        ("DRF", "T4", 5),
        ("DRF", "no GPU", 1),
    ]
    ours, none = rows[:2]
    assert ours["tasks"] == pytest.approx(2 * 4 + 3 * 3)
    assert ours["utilisation"] == {"cpu": 1, "gpu": 1}
    assert ours["utilisation_of_tasks"] == pytest.approx({"cpu": 34 / 42, "gpu": 17 / 32})
    assert none["tasks"] == 0
    assert none["utilisation"] == {"cpu": 1, "gpu": None}
    assert none["utilisation_of_tasks"] == {"cpu": 0, "gpu": None}


def test_rows_by_type_add_up_to_the_whole() -> None:
    result = compare(["drf", "most-tasks", "fds:alpha=2"], TYPED)
    capacity = {"T4": {"cpu": 42, "gpu": 32}, "no GPU": {"cpu": 30, "gpu": 0}}
    for name, allocation in result.allocations.items():
        rows = [r for r in result.by_server_type() if r["policy"] == name]
        assert sum(r["tasks"] for r in rows) == pytest.approx(allocation.tasks.sum())
        assert all(r["utilisation"] == r["utilisation_of_tasks"] for r in rows)
        for resource, total in zip(TYPED.resources, TYPED.total_capacities, strict=True):
            used = sum((r["utilisation"][resource] or 0) * capacity[r["server_type"]][resource] for r in rows)
            assert used / total == pytest.approx(allocation.metrics()["utilisation"][resource])


def test_the_order_of_servers_changes_nothing_by_type() -> None:
    order = [2, 0, 1]
    other = fo.Instance(
        TYPED.demands,
        TYPED.capacities[order],
        counts=TYPED.counts[order],
        users=TYPED.users,
        resources=TYPED.resources,
        server_types=[TYPED.server_types[s] for s in order],
    )
    one, two = (compare([fo.FDS(2), Bundles()], i).by_server_type() for i in (TYPED, other))
    for row, twin in zip(one, two, strict=True):
        assert row["server_type"] == twin["server_type"]
        assert row["tasks"] == pytest.approx(twin["tasks"], rel=1e-5, abs=1e-9)


def test_without_types_all_servers_are_of_one() -> None:
    rows = compare(["drf"], TYPED.replace(server_types=None)).by_server_type()
    assert [(r["server_type"], r["servers"]) for r in rows] == [("all servers", 6)]
    assert rows[0]["utilisation"] == pytest.approx(compare(["drf"], TYPED).rows()[0]["utilisation"])


def test_a_policy_without_an_answer_has_no_rows_by_type() -> None:
    result = compare(["2df", "drf"], TYPED)  # b needs no GPU
    assert {r["policy"] for r in result.by_server_type()} == {"DRF"}
    assert [t.first.cells for t in result.server_type_tables()] == [["DRF"]] * 3
    failed, drf = result.flat_rows()
    assert list(failed) == list(drf)
    assert failed["tasks on T4"] is failed["used cpu on T4"] is None
    assert compare(["2df"], TYPED).server_type_tables() == []


def test_without_users_there_are_no_tasks_on_any_type() -> None:
    rows = compare(["drf"], TYPED.select_users([False, False])).by_server_type()
    assert [r["tasks"] for r in rows] == [0, 0]


@pytest.mark.parametrize("types", [None, ["T4"] * 3])
def test_fewer_than_two_types_add_nothing_to_tables_and_files(types: Any) -> None:
    result = compare(["drf"], TYPED.replace(server_types=types))
    assert result.server_type_tables() == []
    assert result.to_dict()["by_server_type"] == []
    assert "type" not in result.to_markdown()
    assert not any(" on T4" in key for key in result.flat_rows()[0])


def test_a_table_of_tasks_and_one_of_each_resource_have_policies_down_and_types_across() -> None:
    tasks, cpu, gpu = compare({"ours": Bundles(), "DRF": "drf"}, TYPED).server_type_tables()
    assert tasks.title == "Tasks on each type of server: T4 x 5, no GPU x 1"
    assert [c.header for c in tasks.groups[0]] == ["T4", "no GPU"]
    assert tasks.first.cells == ["ours", "DRF"]
    assert tasks.groups[0][0].cells[0] == "17.000"
    assert cpu.title == "cpu: fraction used by tasks, and fraction allocated"
    assert gpu.first.cells == ["ours", "  allocated", "DRF"]
    assert gpu.groups[0][0].cells[:2] == ["53.1%", "100.0%"]
    assert gpu.groups[0][1].cells == ["-", "-", "-"]


def test_held_is_said_only_where_a_policy_decides_bundles() -> None:
    text = "\n".join(line for t in compare(["drf", "most-tasks"], TYPED).server_type_tables() for line in drawn(t))
    assert "held" not in text


def test_eight_policies_on_eight_types_fit_100_columns_in_a_table_each() -> None:
    rng = np.random.default_rng(1)
    names = ["no GPU", "A10", "P100", "V100M16", "V100M32", "T4", "G2", "G3"]
    many = fo.Instance(
        rng.integers(1, 9, (6, 3)),
        rng.integers(200, 90000, (24, 3)),
        resources=["cpu_milli", "memory_mib", "gpu_milli"],
        server_types=names * 3,
    )
    result = compare([*ALL, Bundles()], many)
    for table in result.server_type_tables():
        lines = drawn(table, 100)
        assert max(map(len, lines)) <= 100
        assert sum(line.startswith("policy") for line in lines) == 1
        assert not any("…" in line for line in lines)


def test_of_many_types_those_with_most_servers_are_shown() -> None:
    n = 45
    cluster = fo.Instance([[1]], np.ones((n, 1)), counts=np.arange(1, n + 1), server_types=[f"t{s}" for s in range(n)])
    tasks, _ = compare(["drf"], cluster).server_type_tables()
    assert "(20 largest of 45)" in tasks.title
    assert [c.header for c in tasks.groups[0]] == [f"t{s}" for s in range(25, 45)]
    assert len(compare(["drf"], cluster).by_server_type()) == 45


def test_tables_show_what_is_held_and_what_tasks_use_of_it() -> None:
    text = "\n".join(drawn(compare({"ours": Bundles(), "DRF": "drf"}, TYPED), 100))
    assert "gpu, by tasks" in text and "allocated to users" in text
    plain = "\n".join(drawn(compare(["drf"], TYPED), 100))
    assert "by tasks" not in plain and "allocated to users" not in plain
    servers = allocation_tables(Bundles().allocate(TYPED))[1]
    assert [[c.header for c in group] for group in servers.groups] == [
        ["cpu", "gpu"],
        ["cpu, by tasks", "gpu, by tasks"],
    ]
    assert servers.groups[1][1].cells == ["100.0%", "-", "37.5%"]


def test_flat_rows_have_a_column_for_each_number_by_type() -> None:
    ours = compare({"ours": Bundles()}, TYPED).flat_rows()[0]
    assert ours["used gpu"] == 1 and ours["used by tasks gpu"] == pytest.approx(17 / 32)
    assert ours["tasks on T4"] == pytest.approx(17)
    assert ours["used cpu on no GPU"] == 1 and ours["used by tasks cpu on no GPU"] == 0
    assert ours["used gpu on no GPU"] is None


def test_markdown_and_the_dict_hold_the_tables_by_type() -> None:
    result = compare(["drf", "drfh"], TYPED)
    lines = result.to_markdown().splitlines()
    finding = "DRF and DRFH give every user the same tasks (to 4 digits)"
    assert lines.index(finding) < lines.index("| policy | T4 | no GPU |")
    assert "gpu: fraction used by tasks" in lines
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["by_server_type"] == result.by_server_type()
    assert data["rows"][0]["utilisation_of_tasks"] == data["rows"][0]["utilisation"]


def test_names_of_types_are_escaped_in_markdown_and_no_markup() -> None:
    cluster = fo.Instance([[1]], [[1], [2]], server_types=["a|b", "[red]"])
    result = compare(["drf"], cluster)
    assert "| policy | a\\|b | \\[red\\] |" in result.to_markdown()
    assert any("[red]" in line for line in drawn(result.server_type_tables()[0]))


# -- forms ----------------------------------------------------------------------------------------------------


def test_the_dict_is_json_with_tasks_by_user() -> None:
    data = json.loads(json.dumps(compare(["drf", "2df"], TWO).to_dict(), allow_nan=False))
    assert data["format"] == "fairopt.comparison/1"
    assert data["instance"] == {
        "users": 2,
        "servers": 1,
        "resources": {"bandwidth": 200.0, "memory": 200.0, "cpu": 200.0},
    }
    assert data["rows"][0]["tasks"] == pytest.approx({"batch": 2.5, "web": 12.5})


def test_the_dict_holds_nulls_for_a_failed_policy() -> None:
    row = json.loads(json.dumps(compare(["2df"], SPARSE).to_dict()))["rows"][0]
    assert row["tasks"] is row["ntt"] is None


def test_the_frame_has_a_column_per_resource() -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    frame = compare(["drf", "2df"], TWO).to_frame()
    assert list(frame.index) == ["DRF", "2-DF"]
    assert frame.loc["DRF", "used memory"] == pytest.approx(82.5 / 200)


def test_the_frame_holds_failed_policies_too() -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    frame = compare(["2df", "drf"], SPARSE).to_frame()
    assert math.isnan(frame.loc["2-DF", "used resource1"])


def test_a_frame_without_pandas_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fo.errors.MissingExtra, match=r"pip install 'fairopt\[parquet\]'"):
        compare(["drf"], TWO).to_frame()


def test_markdown_is_one_table_with_findings_under_it() -> None:
    lines = compare(["drf", "drfh", "2df"], TWO).to_markdown().splitlines()
    assert lines[0].startswith("| policy | tasks | Jain | least share | bandwidth | memory | cpu | solved by | gap |")
    assert lines[0].endswith("| AUR (units added) |")
    assert {line.count("|") for line in lines[:5]} == {12}
    assert lines[-1] == "DRF and DRFH give every user the same tasks (to 4 digits)"


def test_markdown_escapes_bars_in_names() -> None:
    assert "| a\\|b |" in compare({"a|b": "drf"}, TWO).to_markdown()


def test_html_escapes_names() -> None:
    page = compare({"<b>": "drf"}, TWO)._repr_html_() or ""
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_without_jinja2_notebooks_show_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pages._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = compare(["drf"], TWO)
    for shown in (result, TWO, result.allocations["DRF"], fo.check(result.allocations["DRF"])):
        assert shown._repr_html_() is None
    pages._template.cache_clear()


def test_repr_names_the_policies() -> None:
    assert repr(compare(["drf", "2df", "tsf"], TWO)) == (
        "<Comparison of DRF, 2-DF and TSF on Instance(2 users x 3 resources on 1 server)>"
    )


def test_aur_is_the_last_column_with_its_unit_or_that_units_are_added() -> None:
    for units, header, words in (
        (None, "AUR (units added)", "even if their units differ"),
        (["core", "GiB", "GPU"], "AUR (units added)", "(Jiang and Wu 2021), even if their units differ."),
        (["GiB"] * 3, "AUR (GiB)", "AUR: unused units, summed over resources."),
    ):
        result = compare(["drf"], TWO.replace(units=units))
        assert groups(result)[-1][-1].header == header
        assert words in " ".join(drawn(result, 400))
    assert result.rows()[0]["aur"] == pytest.approx(285)


def test_gaps_and_prices_that_are_rounding_are_zero() -> None:
    def allocate(instance: fo.Instance) -> fo.Allocation:
        right = fo.DRF().allocate(instance)
        return fo.Allocation(
            instance,
            SimpleNamespace(name="by hand"),
            right.tasks[:, None],
            fo.Certificate(0.0, 1.0e-14, "closed"),
            0.0,
            np.array([[0.25, 1e-14, 0.0]]),
        )

    a = allocate(TWO)
    gap = groups(compare([SimpleNamespace(name="by hand", allocate=allocate)], TWO))[-2][1]
    assert (gap.header, gap.cells) == ("gap", ["0"])
    servers = allocation_tables(a)[1]
    assert [c.cells for c in servers.groups[-1]] == [["0.2500"], ["0"], ["0"]]


# -- tables ---------------------------------------------------------------------------------------------------

ALL = ["drf", "2df", "fds:alpha=1", "fds:alpha=2", "gfj:alpha=0.5", "tsf", "most-tasks", "kdf:k=3"]


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_no_number_is_ever_cut_or_wrapped(width: int) -> None:
    result = compare([*ALL, "AlphaFair(1, KDominantShare(2)) + 0.1 * Total(Tasks())"], fo.datasets.demo())
    lines = drawn(result, width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    for column in (column for group in groups(result) for column in group):
        if column.header != "policy":
            for cell in column.cells:
                assert cell in text
    digits_cut = [line for line in lines if any(f"{d}…" in line for d in "0123456789.,%")]
    assert digits_cut == []


def test_a_wide_terminal_shows_one_table() -> None:
    lines = drawn(compare(ALL, fo.datasets.demo()), 160)
    assert sum(line.startswith("policy") for line in lines) == 1


def test_80_columns_show_what_belongs_together_in_one_table() -> None:
    headers = [line.split() for line in drawn(compare(["drf", "2df"], TWO)) if line.startswith("policy")]
    assert headers == [
        ["policy", "tasks", "Jain", "least", "share", "bandwidth", "memory", "cpu"],
        ["policy", "solved", "by", "gap", "seconds", "AUR", "(units", "added)"],
    ]


def test_a_long_name_is_explained_below() -> None:
    name = "AlphaFair(1, KDominantShare(2)) + 0.1 * Total(Tasks())"
    text = " ".join(drawn(compare([name], TWO), 200))
    assert f"AlphaFair(1, KDo…asks()) is {name}" in text


def test_names_are_not_taken_for_markup() -> None:
    assert any("[red]x[/red]" in line for line in drawn(compare({"[red]x[/red]": "drf"}, TWO)))


def test_a_failed_policy_shows_dashes_and_its_reason() -> None:
    lines = drawn(compare(["2df", "drf"], SPARSE), 200)
    assert any(line.split()[:3] == ["2-DF", "-", "-"] for line in lines)
    assert any(line.startswith("2-DF: OutOfDomain: user 'user1'") for line in lines)


def test_tasks_by_user_stand_beside_units_of_the_most_used_resource() -> None:
    lines = drawn(compare(["drf", "2df"], TWO).tasks_table())
    assert lines[0] == f"Tasks and {TWO.resources[0]} of each user, the most used resource"
    assert re.split(r"\s{2,}", lines[1]) == ["user", "DRF: tasks", TWO.resources[0], "2-DF: tasks", TWO.resources[0]]
    assert lines[3].split() == ["batch", "2.500", "100", "1.923", "76.92"]


def test_of_many_users_both_ends_are_shown() -> None:
    table = allocation_tables(fo.TSF().allocate(MANY))[0]
    assert table.first.header == "user (20 of 150)"
    assert len(table.first.cells) == 20


def test_tables_of_an_allocation_say_who_runs_everything() -> None:
    users, servers = allocation_tables(fo.DRF().allocate(LIMITED))
    assert users.title.endswith("2 of 2 run all their tasks")
    assert servers.first.cells == ["pool"]


def test_servers_that_are_alike_share_a_row() -> None:
    instance = fo.Instance([[1, 2], [2, 1]], [[4, 4], [8, 2], [4, 4]])
    servers = allocation_tables(fo.DRF().allocate(instance))[1]
    assert servers.first.cells == ["server[1,3] x 2", "server2"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([2.5, 12.5], ["2.500", "12.500"]),
        ([0.07716, 0.0004], ["0.0772", "0.0004"]),
        ([560.27, 0.0098, 0], ["560.27", "9.8e-03", "0"]),
        ([1, 200, math.inf], ["1", "200", "-"]),
        ([1.188e8, 2.0], ["1.188e+08", "2.000e+00"]),
        ([15088.1, 21438.3], ["15,088", "21,438"]),
        ([math.nan], ["-"]),
        ([560.27, 1e-14], ["560.27", "0"]),
        ([3.0, -2e-10], ["3.0000", "0"]),
        ([], []),
    ],
)
def test_numbers_of_a_column_share_their_decimals(values: list[float], shown: list[str]) -> None:
    assert numbers(values) == shown


def test_columns_go_below_in_whole_groups() -> None:
    first = Column("policy", ["DRF"])
    a, b, c = (Column(name * 10, ["1"]) for name in "abc")
    headers = [[column.header[0] for column in table] for table in Table("t", first, [[a, b], [c]]).packed(40)]
    assert headers == [["p", "a", "b"], ["p", "c"]]
    headers = [[column.header[0] for column in table] for table in Table("t", first, [[a, b], [c]]).packed(20)]
    assert headers == [["p", "a"], ["p", "b"], ["p", "c"]]


# -- names that are none of the usual -------------------------------------------------------------------------

NASTY = [
    "50% of $x_1 & {y}~^\\",
    "a|b",
    "<script>alert('&')</script>",
    "two\nlines\ttab",
    "\x1b[31mred",
    "\u202eright to left",
    "[bold]b[/bold]",
    "*star* `code`",
    "東京都の部署",
    "👩\u200d💻 ops",
    "x" * 300,
    "",
    "=1+1",
]
STRANGE = fo.Instance(
    np.arange(1.0, 1 + 13 * 3).reshape(13, 3),
    [[90, 80, 70], [70, 90, 80]],
    users=NASTY,
    resources=["$_|&", "<b>\n", "記憶" * 30],
    servers=["s\n1", "<i>"],
    server_types=["T|4", "<u>"],
    units=["%", "GiB", "$_h"],
    notes=["12 pods were left out (as a|b/<i>_1)\nreally"],
)


def strange() -> Comparison:
    return compare({"DRF\n<b>_$|": "drfh", "FDS " + "y" * 90: "fds:alpha=2", "東京": "2df"}, STRANGE)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_strange_names_fit_every_terminal(width: int) -> None:
    result = strange()
    tables = [*allocation_tables(next(iter(result.allocations.values()))), result.tasks_table()]
    for thing in (result, *tables, *result.server_type_tables()):
        lines = drawn(thing, width)
        assert max(map(cell_len, lines)) <= width
        assert all(line.replace("\u200d", "").isprintable() for line in lines)  # which joins two emoji


@pytest.mark.parametrize("width", [40, 80])
def test_twelve_resources_fit_and_no_number_is_cut(width: int) -> None:
    rng = np.random.default_rng(0)
    cluster = fo.Instance(
        rng.uniform(1, 5, (4, 12)),
        np.full((3, 12), 1e6),
        units=["GiB"] * 12,
        resources=[f"a resource with a name that is very long {i}" for i in range(12)],
        users=[f"namespace-of-the-team-of-product-{j}" for j in range(4)],
    )
    users, servers = allocation_tables(fo.DRF().allocate(cluster))
    for table in (users, servers):
        lines = drawn(table, width)
        text = "\n".join(lines)
        assert max(map(cell_len, lines)) <= width
        assert all(cell in text for group in table.groups for column in group for cell in column.cells)
    headers = [
        word for line in drawn(users, width) if line.startswith("user") for word in re.split(r"\s{2,}", line)[1:]
    ]
    assert len(set(headers)) == len(headers) == 2 + 12


def test_units_of_teams_are_of_the_resource_that_is_used_most() -> None:
    teams = {"team": ["vision", "vision", "nlp"]}
    cluster = fo.Instance([[1, 2, 0], [1, 1, 0], [2, 1, 0]], [90, 8, 0], resources=["ram", "gpu", "none"], teams=teams)
    titles = [table.title for table in compare(["drf", "hdrf:by=team"], cluster).team_tables()]
    assert titles == ["Dominant share of each team (%)", "Tasks and gpu of each team, the most used resource"]


@pytest.mark.parametrize(
    ("words", "name", "cut"),
    [
        (["0", "1", "2"], "namespace-of-the-team-of-product-{}", "namespace-of-the-team-…{}"),
        (["berlin", "boston", "bern"], "vision-research-lab-{}/8 gpu", "vision-rese…{}/8 gpu"),
        (["berlin/8 gpu", "paris/8 gpu", "paris/4 cpu"], "vision-research-lab-{}", "vision-rese…{}"),
        (["2023", "2024"], "chemistry_group_{}_with_a_long_suffix", "chemistry…{}…ng_suffix"),
    ],
)
def test_long_names_keep_the_words_in_which_they_differ(words: list[str], name: str, cut: str) -> None:
    assert shortened([name.format(word) for word in words]) == [cut.format(word) for word in words]
    for text, word in zip(shortened([name.format(word) for word in words], 16), words, strict=True):
        assert word in text


def test_names_that_differ_in_the_middle_only_stay_different() -> None:
    names = ["x" * 40 + "y" * 40 * k + "z" * 40 for k in (1, 2, 3)]
    cut = shortened([*names, names[0]])
    assert len(set(cut)) == 3 and cut[3] == cut[0]
    assert max(map(len, cut)) <= 24


@given(st.lists(st.text(max_size=60), unique=True, max_size=12), st.integers(6, 30))
def test_names_cut_to_a_width_keep_to_it_and_apart(names: list[str], most: int) -> None:
    cut = shortened(names, most)
    assert all(cell_len(name) <= most for name in cut)
    spelt = [visible(name) for name in names]
    assert len(set(cut)) == len(names) or len(set(spelt)) < len(names)
    assert [short(name, most) for name, s in zip(names, spelt, strict=True) if cell_len(s) <= most] == [
        s for s in spelt if cell_len(s) <= most
    ]


@given(st.text(max_size=40))
def test_no_text_can_break_out_of_its_cell(text: str) -> None:
    assert "\n" not in visible(text) and "\x1b" not in visible(text)
    assert not re.search(r"(?<!\\)(\\\\)*\|", markdown_text(text))
    assert not re.search(r"[<>]", markdown_text(text))
    commands = (
        r"\\(textbackslash|textasciitilde|textasciicircum|textbar|textless|textgreater)\{\}|\\[&%$#_{}]|\{[\[*]\}"
    )
    assert not re.search(r"[\\&%$#_{}~^|<>\[*]", re.sub(commands, "", latex_text(text)))


def test_markdown_of_strange_names_is_a_table_still() -> None:
    lines = strange().to_markdown().splitlines()
    table = [line for line in lines if line.startswith("|")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table[:5]}
    assert len(bars) == 1
    assert "<" not in "".join(table)
    assert r"12 pods were left out (as a\|b/&lt;i&gt;\_1) really" in lines


def test_html_of_strange_names_holds_no_tag_of_theirs() -> None:
    result = strange()
    for page in (result._repr_html_(), next(iter(result.allocations.values()))._repr_html_()):
        assert not re.search(r"<(script|b>\\n|i>|u>)", page)
        tags = set(re.findall(r"</?(\w+)", page))
        assert tags <= {"table", "thead", "tbody", "tr", "th", "td", "p", "b"}


def test_latex_is_a_tabular_of_booktabs_with_as_many_cells_in_each_line() -> None:
    text = strange().to_latex()
    lines = text.splitlines()
    assert lines[1] == r"\begin{tabular}{lrrrrrrlrrr}"
    assert [lines[k] for k in (2, 4)] == [r"\toprule", r"\midrule"]
    assert text.count(r"\begin{tabular}") == text.count(r"\bottomrule") == text.count(r"\end{tabular}") == 5
    rows = [line for line in lines if line.endswith(r" \\")]
    head = lines[3]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows[:4]} == {len(re.findall(r"(?<!\\)&", head))} == {10}
    inside = [line for line in lines if not line.startswith(("\\", "%")) and line not in rows]
    assert inside == [""] * 4  # nothing of a name came out of its comment or cell


def test_numbers_of_latex_are_aligned_and_powers_are_set() -> None:
    big = fo.Instance([[1e-9, 1], [1, 1]], [1e3, 1e9])
    lines = compare(["drf", "most-tasks"], big).to_latex().splitlines()
    assert lines[5].index("&") == lines[6].index("&")
    assert re.search(r"\$\d\.\d+\\cdot 10\^\{\d+\}\$", lines[6])
    failed = compare(["2df"], SPARSE).to_latex().splitlines()
    assert failed[5].split("&")[1].strip() == "--"
    assert any(line.startswith("% 2-DF: OutOfDomain: user 'user1'") for line in failed)


def test_csv_gives_back_every_name_and_number() -> None:
    result = strange()
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    as_shown = [o.policy.replace("\n", r"\n") for o in result.outcomes]  # control characters as terminals show them
    assert "\n" in result.outcomes[0].policy and [row["policy"] for row in rows] == as_shown
    for row, flat in zip(rows, result.flat_rows(), strict=True):
        assert list(row) == [name.replace("\n", r"\n") for name in flat]
        assert float(row["ntt"]) == flat["ntt"]


def test_notes_of_the_reader_are_in_the_dict_and_below_tables() -> None:
    result = strange()
    assert result.to_dict()["notes"] == list(STRANGE.notes)
    assert result.to_dict()["units"] == dict(zip(STRANGE.resources, ["%", "GiB", "$_h"], strict=True))
    assert any(line.startswith("% 12 pods were left out") for line in result.to_latex().splitlines())


@pytest.mark.parametrize("name", ["t.json", "t.csv", "t.md", "t.tex"])
def test_files_of_strange_names_are_utf8(tmp_path: Any, name: str) -> None:
    files.write_comparison(strange(), tmp_path / name)
    assert "東京" in (tmp_path / name).read_bytes().decode("utf-8")


# -- frames ---------------------------------------------------------------------------------------------------

UNITS = TYPED.replace(units={"cpu": "cores"})


def test_the_frame_by_user_has_units_in_its_columns() -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    frame = fo.DRF().allocate(UNITS).to_frame()
    assert list(frame)[-4:] == ["cpu (cores)", "gpu", "share of cpu", "share of gpu"]
    np.testing.assert_allclose(frame["cpu (cores)"], frame["share of cpu"] * 72)
    assert frame.loc["b", "gpu"] == 0


def test_the_frame_by_server_has_what_is_held_of_what_and_prices() -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    a = fo.DRF().allocate(UNITS)
    frame = a.to_frame("server")
    assert list(frame) == [
        "type",
        "servers",
        "tasks",
        "cpu (cores)",
        "gpu",
        "capacity of cpu (cores)",
        "capacity of gpu",
        "used cpu",
        "used gpu",
        "price of cpu (per cores)",
        "price of gpu",
    ]
    assert frame["servers"].tolist() == [2, 1, 3]
    assert frame["capacity of cpu (cores)"].tolist() == [24, 30, 18]
    assert frame["tasks"].sum() == pytest.approx(a.tasks.sum())
    np.testing.assert_allclose(frame["cpu (cores)"], frame["used cpu"] * [24, 30, 18])
    assert math.isnan(frame.loc["server2", "used gpu"])
    assert "price of gpu" not in Bundles().allocate(UNITS).to_frame("server")


def test_the_frame_of_placement_has_a_line_where_a_user_has_something() -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    a = fo.DRF().allocate(UNITS)
    frame = a.to_frame(by="placement")
    assert frame.index.names == ["user", "server"]
    assert ("a", "server2") not in frame.index  # which has no gpu
    np.testing.assert_allclose(frame.groupby("user")["tasks"].sum().loc[["a", "b"]], a.tasks)
    np.testing.assert_allclose(frame["cpu (cores)"].sum(), a.usage[:, 0].sum())


def test_frames_tell_what_is_held_from_what_tasks_use_of_it() -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    a = Bundles().allocate(UNITS)
    for by in ("user", "server", "placement"):
        frame = a.to_frame(by)
        assert frame["cpu (cores)"].sum() == pytest.approx(72)
        assert frame["cpu (cores) of tasks"].sum() == pytest.approx(34)
        assert frame["gpu"].sum() == pytest.approx(32)


def test_resources_named_like_columns_hide_none() -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    names = ["user", "server", "tasks", "servers", "share of user"]
    a = fo.DRF().allocate(fo.Instance(np.eye(5) + 1, np.full((2, 5), 9), resources=names))
    for by in ("user", "server", "placement"):
        frame = a.to_frame(by)
        assert frame.columns.is_unique
        assert sum(column.startswith(tuple(names)) for column in frame.columns) >= 5
    assert len(user_rows(a)[0]) == 1 + len(a.to_frame().columns)


@pytest.mark.parametrize("by", ["user", "server", "placement"])
def test_frames_without_users_are_empty(by: str) -> None:
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    frame = fo.DRF().allocate(fo.Instance(np.zeros((0, 2)), [1, 1])).to_frame(by)
    assert len(frame) == (by == "server")


def test_a_frame_by_something_else_is_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"no table by 'users'; did you mean 'user'"):
        fo.DRF().allocate(TWO).to_frame("users")


# -- plain data and files -------------------------------------------------------------------------------------


@pytest.mark.fast_methods
def test_user_rows_hold_what_each_user_holds() -> None:
    batch, web = user_rows(fo.DRF().allocate(TWO))
    assert batch == pytest.approx(
        {
            "user": "batch",
            "weight": 1,
            "task limit": math.inf,
            "tasks": 2.5,
            "share": 0.5,
            "dominant share": 0.5,
            "bandwidth": 100,
            "memory": 20,
            "cpu": 20,
            "share of bandwidth": 0.5,
            "share of memory": 0.1,
            "share of cpu": 0.1,
        }
    )
    assert web["tasks"] == pytest.approx(12.5)


def test_a_description_names_users_and_servers() -> None:
    instance = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]], users=["a", "b"], servers=["s", "t"])
    told = describe(fo.DRF().allocate(instance))
    assert told["tasks"] == pytest.approx({"a": 10, "b": 10})
    assert sum(told["placement"]["a"].values()) == pytest.approx(10)
    assert set(told["placement"]["a"]) <= {"s", "t"}
    assert told["certificate"]["ok"] is True
    assert json.loads(files.as_json(told))["policy"] == "DRF"


def test_json_has_no_infinity() -> None:
    assert json.loads(files.as_json({"a": [math.inf, math.nan, 1.5, "x", None, True]})) == {
        "a": [None, None, 1.5, "x", None, True]
    }


def test_outcome_keeps_the_seconds_of_a_failure() -> None:
    failed = outcome("2-DF", fo.KDF(2), SPARSE)
    assert failed.allocation is None
    assert failed.seconds >= 0


def test_every_named_policy_is_listed() -> None:
    assert [row["name"] for row in policy_rows()] == list(fo.policies.known_policies())
    assert all(row["summary"] for row in policy_rows())


def test_every_installed_solver_is_listed_first_and_others_after() -> None:
    import cvxpy

    rows = solver_rows()
    here = [row["name"] for row in rows if row["installed"]]
    assert set(here) == set(cvxpy.installed_solvers())
    assert [row["name"] for row in rows][: len(here)] == here
    by_name = {row["name"]: row for row in rows}
    assert by_name["CLARABEL"]["power"]
    assert not by_name["HIGHS"]["exponential"]
    assert "ECOS" in by_name
    assert by_name["MOSEK"]["exponential"]


# -- the demonstration ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown() -> Comparison:
    return compare(demonstration.POLICIES, fo.datasets.demo())


def test_the_demonstration_is_certified_throughout(shown: Comparison) -> None:
    assert all(row["certified"] for row in shown.rows())


def test_what_the_demonstration_says_of_drf_is_true(shown: Comparison) -> None:
    cluster, drf = shown.instance, shown.allocations["DRF"]
    wanting = drf.tasks < cluster.task_limits * (1 - 1e-6)
    levels = (drf.share(fo.DominantShare()) / cluster.weights)[wanting]
    assert np.ptp(levels) / levels.min() < 1e-6
    assert f"{100 * levels.min():.1f}%" in demonstration.findings(shown)[1]


def test_what_the_demonstration_says_of_most_tasks_is_true(shown: Comparison) -> None:
    rows = {row["policy"]: row for row in shown.rows()}
    assert max(rows.values(), key=lambda row: row["ntt"])["policy"] == "most tasks"
    nothing = [u for u, x in zip(shown.instance.users, shown.allocations["most tasks"].tasks, strict=True) if x < 1e-6]
    assert ", ".join(nothing) in demonstration.findings(shown)[0]
    assert len(nothing) > 0


def test_what_the_demonstration_says_of_gpus_is_true(shown: Comparison) -> None:
    gpu = {row["policy"]: row["utilisation"]["gpu"] for row in shown.rows()}
    assert gpu["2-DF"] < gpu["DRF"] < gpu["FDS(alpha=1)"]


def test_the_story_fits_80_columns(shown: Comparison) -> None:
    lines = [line for part in demonstration.story(shown) for line in drawn(part)]
    assert max(map(len, lines)) <= 80
    assert any("Why trust this answer?" in line for line in lines)


def test_columns_of_resources_with_confusing_names_are_all_there():
    """A resource called as another's use on a type of server once took its place."""
    cluster = fo.Instance(
        [[1, 2], [2, 1]], [[10, 4], [6, 10]], resources=["cpu", "cpu on T4"], server_types=["T4", "x"]
    )
    (row,) = fo.compare("nash", cluster).flat_rows()
    part = fo.NashWelfare().allocate(cluster).metrics()["utilisation"]
    assert row["used cpu on T4"] == pytest.approx(part["cpu on T4"])
    assert "used cpu on T4 (resource)" in row
    bundles = fo.compare("h-ffmra", cluster.replace(resources=["cpu", "by tasks cpu"], server_types=None)).flat_rows()
    assert len([name for name in bundles[0] if name.startswith("used ")]) == 4


def test_a_part_of_nothing_is_no_number_everywhere():
    result = fo.compare("drf", fo.Instance([[2, 0], [1, 0]], [400, 0], resources=["cpu", "gpu"]))
    assert result.flat_rows()[0]["used gpu"] is None
    assert "100.0% | -" in result.to_markdown().replace("  ", " ")
    assert json.loads(files.as_json(result.to_dict()))["rows"][0]["utilisation"] == {"cpu": 1.0, "gpu": None}


@pytest.mark.fast_methods
def test_what_is_left_over_by_rounding_is_nothing():
    cluster = fo.Instance([[0.1, 0.3], [0.3, 0.1]], [[0.7, 0.7], [0.9, 1.1]])
    assert fo.HFFMRA().allocate(cluster).metrics()["aur"] == 0


# -- as text and in notebooks ----------------------------------------------------------------------------------------


def test_a_printed_comparison_shows_its_table():
    instance = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    shown = str(fo.compare([fo.DRF(), fo.MostTasks()], instance))
    assert "policy" in shown and "least share" in shown and "most tasks     25  0.5000" in shown and "\x1b" not in shown


def test_an_instance_in_a_notebook_shows_users_and_servers_with_names_escaped():
    instance = fo.Instance(
        [[1, 4], [2, 2]],
        [[10, 16], [10, 16], [4, 64]],
        weights=[1, 3],
        task_limits=[None, 5],
        users=["<i>", "web"],
        eligible=[[True, True, True], [False, True, True]],
        server_types=["T4", "T4", "A10"],
        units=["core", "GiB"],
        notes=["1 & 2"],
    )
    page = instance._repr_html_()
    for word in ("&lt;i&gt;", "(GiB)", "weight", "limit", "servers", "T4", "A10", "One task of each user", "1 &amp; 2"):
        assert word in page
    assert "<i>" not in page


def test_an_instance_of_many_users_and_servers_shows_the_first_of_them():
    page = fo.datasets.log_uniform(5_000, 3, n_servers=100, different_servers=True, seed=1)._repr_html_()
    assert "(the first 20 of 5,000)" in page and "(the first 20 of 100 classes)" in page and len(page) < 12_000


def test_an_instance_without_users_or_with_demands_by_server_has_a_page():
    assert "0 users" in fo.Instance([], [3])._repr_html_()
    assert "on its first server" in fo.Instance([[[1, 2], [2, 1]]], [[3, 4], [5, 6]])._repr_html_()
