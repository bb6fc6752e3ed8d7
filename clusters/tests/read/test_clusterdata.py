"""Extracts of ClusterData 2019 as instances, from made-up files of the trace's format."""

import csv
import gzip
import io
import random
import sys

import numpy as np
import pytest
from fairopt_clusters import read_clusterdata2019
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fairopt.errors import FairoptError, InvalidInstance, MissingExtra
from fairopt.runtime.progress import progress

pa = pytest.importorskip("pyarrow", reason="pyarrow is in the extra parquet")
pytest.importorskip("pandas", reason="pandas is in the extra parquet")

AFTER = 2**63 - 1
EVENTS = [
    "SUBMIT",
    "QUEUE",
    "ENABLE",
    "SCHEDULE",
    "EVICT",
    "FAIL",
    "FINISH",
    "KILL",
    "LOST",
    "UPDATE_PENDING",
    "UPDATE_RUNNING",
]
INSTANCES = [
    "time",
    "type",
    "collection_id",
    "instance_index",
    "resource_request.cpus",
    "resource_request.memory",
    "priority",
    "collection_type",
    "alloc_collection_id",
    "machine_id",
    "constraint",
]
SERVERS = ["time", "machine_id", "type", "capacity.cpus", "capacity.memory", "platform_id"]
TWO = [[0, 1, "ADD", 0.5, 0.25, "hashone="], [0, 2, 1, 1, 0.5, "hashtwo="]]


def event(time, kind, collection=1, index=0, cpus=0.25, memory=0.125, **others):
    return [time, kind, collection, index, cpus, memory, *(others.get(name, "") for name in INSTANCES[6:])]


def as_csv(header, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


@pytest.fixture
def read(tmp_path):
    """Write events as CSV and read them."""

    def make(events, servers=TWO, collections=None, header=INSTANCES, of_servers=SERVERS, **options):
        (tmp_path / "instance_events.csv").write_bytes(as_csv(header, events))
        (tmp_path / "machine_events.csv").write_bytes(as_csv(of_servers, servers))
        if collections is not None:
            (tmp_path / "collection_events.csv").write_bytes(as_csv(["collection_id", "user", "time"], collections))
            options["collections"] = tmp_path / "collection_events.csv"
        return read_clusterdata2019(tmp_path / "instance_events.csv", tmp_path / "machine_events.csv", **options)

    return make


def said(instance, words):
    return [note for note in instance.notes if words in note]


# -- the state at a time --------------------------------------------------------------------------------------


def test_instances_that_have_not_ended_count_by_collection(read):
    made = read(
        [
            event(0, "SUBMIT"),
            event(0, "SCHEDULE"),
            event(3, 0, index=1, cpus=0.5),
            event(1, 3, collection=2),
            event(2, "SUBMIT", collection=3),
            event(4, "FINISH", collection=3),
        ]
    )
    assert made.teams["team"] == ("1", "2")
    assert made.resources == ("cpu", "memory")
    assert made.units is None
    assert_array_equal(made.demands, [[0.375, 0.125], [0.25, 0.125]])
    assert_array_equal(made.task_limits, [2, 1])
    assert made.servers == ("1", "2")
    assert_array_equal(made.capacities, [[0.5, 0.25], [1, 0.5]])
    assert made.server_types == ("hashon", "hashtw")
    assert said(made, "the state is that at 4 microseconds, the last time in instance_events.csv")


@pytest.mark.parametrize(
    ("kind", "counts"), [(name, name not in ("EVICT", "FAIL", "FINISH", "KILL", "LOST")) for name in EVENTS]
)
def test_which_events_end_an_instance(read, kind, counts):
    for written in (kind, EVENTS.index(kind), kind.lower()):
        made = read([event(0, "SUBMIT", collection=9), event(0, "SUBMIT"), event(5, written)])
        assert ("1" in made.teams["team"]) == counts


def test_what_is_submitted_again_counts_again(read):
    events = [event(0, "SUBMIT"), event(3, "EVICT"), event(3, "SUBMIT", cpus=""), event(4, "SUBMIT", collection=2)]
    assert read(events).teams["team"] == ("1", "2")


def test_what_is_killed_when_it_is_submitted_does_not_count(read):
    assert read([event(0, "SUBMIT"), event(0, "KILL"), event(0, 0, collection=2)]).teams["team"] == ("2",)


def test_the_last_request_counts_even_if_later_events_have_none(read):
    made = read([event(0, "SUBMIT"), event(1, "UPDATE_PENDING", cpus=0.5), event(2, "SCHEDULE", cpus="", memory="")])
    assert_array_equal(made.demands, [[0.5, 0.125]])


def test_amounts_are_looked_up_each_by_itself(read):
    events = [event(0, "SUBMIT"), event(1, "UPDATE_PENDING", cpus=0.5, memory=""), event(2, "SCHEDULE", cpus="")]
    servers = [[0, 1, "ADD", 0.5, 0.25, ""], [1, 1, "UPDATE", 0.75, "", ""]]
    made = read(events, servers)
    assert_array_equal(made.demands, [[0.5, 0.125]])
    assert_array_equal(made.capacities, [[0.75, 0.25]])
    assert not said(made, "0 of it")


def test_instances_that_request_one_resource_only_count_and_are_told(read):
    made = read([event(0, 0, index=0, memory=""), event(0, 0, index=1, memory=""), event(0, 0, 2, cpus="", memory=1)])
    assert_array_equal(made.demands, [[0.25, 0], [0, 1]])
    assert said(made, "2 instances that request cpu but no memory count with 0 of it (such as 1/0)")
    assert said(made, "1 instance that requests memory but no cpu counts with 0 of it (2/0)")


@pytest.fixture
def read_in_parts(tmp_path, monkeypatch):
    """Read events from a folder of files of two, sorting after each."""

    def make(events, **options):
        monkeypatch.setattr("fairopt_clusters.read.clusterdata._ROWS", 1)
        folder = tmp_path / "instance_events"
        folder.mkdir()
        for k in range(0, len(events), 2):
            (folder / f"part-{k:05}.csv").write_bytes(as_csv(INSTANCES, events[k : k + 2]))
        (tmp_path / "m.csv").write_bytes(as_csv(SERVERS, TWO))
        return read_clusterdata2019(folder, tmp_path / "m.csv", **options)

    return make


def test_amounts_given_at_different_times_are_kept_over_many_batches(read_in_parts):
    events = [event(t, "SUBMIT", cpus=t + 1 if t == 0 else "", memory=0.5 if t == 1 else "") for t in range(9)]
    assert_array_equal(read_in_parts(events).demands, [[1, 0.5]])


def test_errors_name_the_whole_path(read, tmp_path):
    for options, words in (
        ({"events": [event(0, "KILL")]}, "instance_events.csv and "),
        ({"events": []}, "instance_events.csv has no ev"),
        ({"events": [event(0, 0)], "servers": [[0, 1, "REMOVE", 1, 1, ""]]}, "machine_events.csv leaves no server"),
    ):
        with pytest.raises(InvalidInstance) as error:
            read(**options)
        assert str(error.value).startswith(f"{tmp_path}/{words}")


@pytest.mark.parametrize("column", ["time", "instance_index", "cpus"])
@pytest.mark.parametrize("cell", ["1_0", "\u0661"])
def test_only_plain_decimal_numbers_are_numbers(read, column, cell):
    row = event(0, 0)
    row[{"time": 0, "instance_index": 3, "cpus": 4}[column]] = cell
    with pytest.raises(InvalidInstance, match=r"instance_events\.csv, row 1, column .*: the value is"):
        read([row])


def test_events_after_the_time_do_not_count(read):
    events = [event(0, "SUBMIT"), event(10, "SUBMIT", collection=2), event(20, "KILL")]
    assert read(events, at=5).teams["team"] == ("1",)
    assert read(events, at=10).teams["team"] == ("1", "2")
    assert read(events, at=20).teams["team"] == ("2",)
    assert not said(read(events, at=20), "microseconds")


def test_events_after_the_end_of_the_trace_do_not_count(read):
    made = read([event(7, "SUBMIT"), event(AFTER, "FINISH"), event("9.223372036854775807e18", "KILL")])
    assert said(made, "at 7 microseconds")


def test_servers_are_those_added_and_not_removed_with_their_last_capacity(read):
    servers = [
        [0, 1, "ADD", 0.5, 0.25, "a"],
        [3, 1, "UPDATE", 0.75, 0.5, "a"],
        [0, 2, "ADD", 0.5, 0.25, "a"],
        [2, 2, "REMOVE", "", "", ""],
        [4, 3, "ADD", 0.125, 0.25, ""],
        [0, 4, "ADD", "", 0.25, ""],
        [9, 5, "ADD", 1, 1, ""],
        [0, 6, "ADD", 0.5, 0.5, "a"],
        [4, 6, "REMOVE", "", "", "a"],
        [4, 6, "ADD", "", "", "a"],
        [0, 7, "ADD", "", "", ""],
    ]
    made = read([event(0, "SUBMIT"), event(4, "SCHEDULE")], servers, merge=False)
    assert made.servers == ("1", "3", "4", "6")
    assert_array_equal(made.capacities, [[0.75, 0.5], [0.125, 0.25], [0, 0.25], [0.5, 0.5]])
    assert made.server_types == ("a", "unnamed platform", "unnamed platform", "a")
    assert said(made, "1 server without any capacity was left out (7)")
    assert said(made, "1 server with memory but no cpu counts with 0 of it (4)")


def test_identical_servers_are_merged(read):
    made = read([event(0, 0)], [[0, 1, 1, 1, 1, "a"], [0, 2, 1, 1, 1, "b"], [0, 3, 1, 0.5, 1, "b"]])
    assert_array_equal(made.counts, [2, 1])
    assert made.server_types == ("a|b", "b")


# -- what does not count --------------------------------------------------------------------------------------


def test_rows_with_missing_data_are_left_out_and_counted(read):
    made = read(
        [
            event(0, 0),
            event("", 0, index=2),
            event(0, "", index=3),
            event(0, 0, "", 4),
            event(0, 0, index=""),
            event(0, 0, index=6, cpus="", memory=""),
            event(0, 0, index=7, cpus=0, memory=0),
            event(0, 0, index=8, machine_id=-1),
            event(0, 0, index=9, machine_id=0),
        ]
    )
    assert_array_equal(made.task_limits, [2])
    assert said(made, "4 rows of instance_events.csv without time, type or identity did not count")
    assert said(made, "1 instance without any request was left out (1/6)")
    assert said(made, "1 instance that requested nothing was left out (1/7)")
    assert said(made, "1 instance on dedicated servers was left out (1/8)")


def test_tasks_inside_an_alloc_set_do_not_count_besides_its_reservation(read):
    events = [
        event(0, 0, collection=5, collection_type="ALLOC_SET", cpus=0.5),
        event(0, 0, collection=1, alloc_collection_id=5),
        event(0, 0, collection=2, alloc_collection_id=0),
        event(0, 0, collection=3, alloc_collection_id=77),
    ]
    made = read(events)
    assert made.teams["team"] == ("2", "3", "5")
    assert said(made, "1 instance inside alloc sets, whose reservations count, was left out (1/0)")
    assert read([*events, event(1, "FINISH", collection=5)]).teams["team"] == ("1", "2", "3")


def test_constraints_are_said_to_be_not_modelled(read):
    made = read(
        [event(0, 0, constraint="[{'name': 'x'}]"), event(0, 0, index=1, constraint="[]"), event(0, 0, index=2)]
    )
    assert said(made, "1 instance with constraints may run anywhere: constraints are not modelled (1/0)")


# -- owners ---------------------------------------------------------------------------------------------------


def test_owners_may_be_priorities_and_tiers(read):
    events = [event(0, 0, index=k, priority=p) for k, p in enumerate((0, 99, 100, 115, 116, 120, 359, 360, 450, ""))]
    tiers = read(events, users="tier")
    assert tiers.teams["team"] == ("best-effort batch", "free", "mid", "monitoring", "production")
    assert_array_equal(tiers.task_limits, [2, 2, 1, 2, 2])
    assert said(tiers, "1 instance without priority was left out (1/9)")
    assert "priority 116" in read(events, users="priority").teams["team"]


def test_owners_may_be_the_users_of_collections(read):
    events = [event(0, 0), event(0, 0, collection=2), event(0, 0, collection=3), event(0, 0, collection=4)]
    made = read(events, collections=[[1, "eve", 0], [1, "", 1], [2, "eve", 0], [3, "bob", 0], [4, "", 0]], users="user")
    assert made.teams["team"] == ("bob", "eve")
    assert_array_equal(made.task_limits, [1, 2])
    assert said(made, "1 instance of collections that collection_events.csv gives no user was left out (4/0)")


def test_shapes_make_a_user_of_each_request(read):
    made = read([event(0, 0, cpus=1), event(0, 0, index=1), event(0, 0, index=2)], tasks="shapes")
    assert made.users == ("1/1 cpu 0.125 memory", "1/0.25 cpu 0.125 memory")
    assert_array_equal(made.task_limits, [1, 2])
    assert (made.teams["team"], made.team_weights) == (("1", "1"), {"1": 1})


def test_options_that_are_not_there_are_refused(read):
    for options, words in (
        ({"users": "tiers"}, "did you mean 'tier'"),
        ({"users": ["tier"]}, "users is"),
        ({"users": "user"}, "needs the users"),
        ({"at": -1}, "at is -1"),
        ({"at": 0.5}, "at is 0.5"),
        ({"at": True}, "at is True"),
        ({"tasks": "x"}, "tasks is"),
    ):
        with pytest.raises(InvalidInstance, match=words):
            read([event(0, 0)], **options)


# -- the order of rows ----------------------------------------------------------------------------------------


def naive(events, at):
    """Who counts, and with what, by going through the events in time one by one; all of them have memory."""
    alive, asked = {}, {}
    rank = ["EVICT", "FAIL", "SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "UPDATE_PENDING", "UPDATE_RUNNING", "FINISH"]
    for time, kind, collection, index, cpus, *_ in sorted(events, key=lambda e: (e[0], rank.index(e[1]))):
        if time <= at:
            alive[collection, index] = kind not in ("EVICT", "FAIL", "FINISH")
            if cpus != "":
                asked[collection, index] = cpus
    return {key: asked.get(key, 0) for key, on in alive.items() if on}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "UPDATE_RUNNING"]),
            st.integers(1, 3),
            st.integers(0, 2),
            st.sampled_from([0.25, 0.5, ""]),
        ),
        max_size=12,
        unique_by=lambda e: e[:4],
    ),
    st.integers(0, 4),
    st.randoms(use_true_random=False),
)
def test_the_state_is_that_of_the_last_events_in_any_order(tmp_path_factory, rows, at, shuffler):
    folder = tmp_path_factory.mktemp("events")
    (folder / "m.csv").write_bytes(as_csv(SERVERS, TWO))
    expected = naive([event(*row) for row in rows], at)
    results = []
    for _ in range(2):
        (folder / "i.csv").write_bytes(as_csv(INSTANCES, [event(*row) for row in rows]))
        try:
            results.append(read_clusterdata2019(folder / "i.csv", folder / "m.csv", at=at, tasks="shapes"))
        except InvalidInstance:
            results.append(None)
        shuffler.shuffle(rows)
    assert results[0] == results[1]
    if not expected:
        assert results[0] is None
    else:
        assert results[0].task_limits.sum() == len(expected)
        assert (results[0].task_limits * results[0].demands[:, 0]).sum() == pytest.approx(sum(expected.values()))


def test_of_contradictory_rows_the_one_with_the_most_memory_counts(read):
    servers = [[0, 1, "ADD", 0.5, 0.5, "b"], [0, 1, "ADD", 0.25, 1, "a"], [0, 1, "ADD", 1, 0.25, "c"]]
    for rows in (servers, servers[::-1]):
        made = read([event(0, 0)], servers=rows)
        assert_array_equal(made.capacities, [[0.25, 1]])
        assert made.server_types == ("a",)


def test_many_batches_give_the_same_as_one(read, read_in_parts):
    shuffler = random.Random(4)
    events = [event(t, shuffler.choice(EVENTS[:8]), shuffler.randrange(9), shuffler.randrange(3)) for t in range(200)]
    shuffler.shuffle(events)
    whole = read(events, at=190)
    assert read_in_parts(events, at=190) == whole


# -- files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def arrow():
    return pa


def nested(arrow, flat=False, name="resource_request", first=0):
    requests = [{"cpus": 0.25, "memory": 0.125}, None, {"cpus": 0.5, "memory": 0.125}]
    columns = {"time": [0, 1, 0], "type": [0, 3, 0], "collection_id": [1, 1, 2], "instance_index": [first, first, 0]}
    struct = arrow.array(requests, arrow.struct([("cpus", arrow.float32()), ("memory", arrow.float64())]))
    if flat:
        return arrow.table(columns | {f"{name}_cpus": struct.flatten()[0], f"{name}_memory": struct.flatten()[1]})
    constraint = arrow.array([[], None, [{"name": "x"}]], arrow.list_(arrow.struct([("name", arrow.string())])))
    return arrow.table(columns | {name: struct, "constraint": constraint})


def servers_table(arrow):
    capacity = arrow.array(
        [{"cpus": 1.0, "memory": 0.5}] * 2, arrow.struct([("cpus", arrow.float64()), ("memory", arrow.float64())])
    )
    return arrow.table(
        {"time": [0, 0], "machine_id": [1, 2], "type": [1, 1], "capacity": capacity, "platform_id": ["a", None]}
    )


@pytest.fixture
def parquet(tmp_path, arrow):
    import pyarrow.parquet as pq

    def write(table, name="i.parquet"):
        pq.write_table(table, tmp_path / name)
        pq.write_table(servers_table(arrow), tmp_path / "m.parquet")
        return read_clusterdata2019(tmp_path / name, tmp_path / "m.parquet")

    return write


def test_empty_lists_of_constraints_do_not_count_in_large_lists_either(parquet, arrow):
    table = nested(arrow)
    large = arrow.array([["x"], [], ["x"]], arrow.large_list(arrow.string()))
    made = parquet(table.set_column(table.column_names.index("constraint"), "constraint", large))
    assert said(made, "1 instance with constraints may run anywhere: constraints are not modelled (2/0)")


def test_parquet_gives_the_same_as_csv_nested_or_flat(parquet, arrow, read):
    made = parquet(nested(arrow))
    assert made == parquet(nested(arrow, flat=True))
    assert made.server_types == ("a|unnamed platform",)
    assert said(made, "1 instance with constraints may run anywhere: constraints are not modelled (2/0)")
    events = [event(0, 0), event(1, 3, cpus="", memory=""), event(0, 0, collection=2, cpus=0.5)]
    servers = [[0, 1, 1, 1, 0.5, "a"], [0, 2, 1, 1, 0.5, ""]]
    assert read(events, servers) == made


def test_numbers_may_be_texts_dictionaries_or_floats_in_parquet(parquet, arrow):
    table = nested(arrow)
    expected = parquet(table)
    for column, kind in (
        ("time", arrow.string()),
        ("type", arrow.float64()),
        ("collection_id", arrow.decimal128(20)),
        ("type", arrow.dictionary(arrow.int8(), arrow.string())),
        ("instance_index", arrow.uint64()),
    ):
        k = table.schema.get_field_index(column)
        values = [str(v) for v in table[column].to_pylist()]
        other = (
            arrow.array(values).cast(kind) if "dictionary" not in str(kind) else arrow.array(values).dictionary_encode()
        )
        assert parquet(table.set_column(k, column, other)) == expected


def test_a_folder_of_parts_is_read_as_one(tmp_path, arrow):
    import pyarrow.parquet as pq

    folder = tmp_path / "instance_events"
    folder.mkdir()
    pq.write_table(nested(arrow), folder / "part-0.parquet")
    pq.write_table(nested(arrow, first=5), folder / "part-1.parquet")
    (folder / "_SUCCESS").write_bytes(b"")
    pq.write_table(servers_table(arrow), tmp_path / "m.parquet")
    assert_array_equal(read_clusterdata2019(folder, tmp_path / "m.parquet").task_limits, [2, 1])
    for part in folder.iterdir():
        part.unlink()
    with pytest.raises(InvalidInstance, match="is a folder without files"):
        read_clusterdata2019(folder, tmp_path / "m.parquet")


def test_gzipped_files_are_known_by_their_content(tmp_path):
    (tmp_path / "i").write_bytes(gzip.compress(b"\xef\xbb\xbf" + as_csv(INSTANCES, [event(0, 0)])))
    (tmp_path / "m").write_bytes(as_csv(SERVERS, TWO))
    assert read_clusterdata2019(tmp_path / "i", tmp_path / "m").teams["team"] == ("1",)
    (tmp_path / "i").write_bytes((tmp_path / "i").read_bytes()[:-9])
    with pytest.raises(InvalidInstance, match="cannot be read"):
        read_clusterdata2019(tmp_path / "i", tmp_path / "m")


@pytest.mark.parametrize(
    "header",
    [
        ["resource_request_cpus", "resource_request_memory"],
        ["cpus", "memory"],
        ["resource_request"],
    ],
)
def test_structs_in_csv_have_several_spellings(read, header):
    row = [0.5, 0.25] if len(header) == 2 else ["{'cpus': 0.5, 'memory': 0.25}"]
    made = read([[0, 0, 1, 0, *row]], header=[*INSTANCES[:4], *header])
    assert_array_equal(made.demands, [[0.5, 0.25]])


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, "soon", "row 2, column 'time': the value is 'soon'; give a whole number"),
        (0, "1.5", "column 'time': the value is '1.5'"),
        (1, "START", "column 'type': the value is 'START'; give a whole number, or one of SUBMIT, QUEUE"),
        (1, "11", "column 'type': the value is '11'"),
        (2, "1e17", "column 'collection_id': the value is '1e17'"),
        (2, str(2**63), "column 'collection_id'"),
        (2, "1e30", "column 'collection_id': the value is '1e30'"),
        (4, "-1", "column 'resource_request.cpus': the value is '-1.0'; give 0, or a number from 1e-12"),
        (4, "inf", "column 'resource_request.cpus': the value is 'inf'"),
        (4, "2GiB", "column 'resource_request.cpus': the value is '2GiB'"),
        (5, "1e300", "column 'resource_request.memory': the value is '1e\\+300'"),
    ],
)
def test_values_that_cannot_be_right_are_refused_with_row_and_column(read, place, value, words):
    bad = event(0, 0, index=1)
    bad[place] = value
    with pytest.raises(InvalidInstance, match=rf"instance_events\.csv.*{words}"):
        read([event(0, 0), bad])


def test_files_that_are_something_else_are_refused(read, tmp_path):
    with pytest.raises(
        InvalidInstance, match=r"there is no column 'resource_request\.cpus'.*table of InstanceEvent rows"
    ):
        read([[0, 0, 1, 0]], header=INSTANCES[:4])
    with pytest.raises(InvalidInstance, match="the column 'time' appears twice"):
        read([], header=[*INSTANCES, "time"])
    with pytest.raises(InvalidInstance, match=r"instance_events\.csv cannot be read .*Expected 11 columns, got 2"):
        read([[0, 0]])
    with pytest.raises(InvalidInstance, match=r"instance_events\.csv has no events \(it has no complete row\)"):
        read([])
    with pytest.raises(InvalidInstance, match=r"has no events up to the time 3 \(its times are from 5 to 5\)"):
        read([event(5, 0)], at=3)
    with pytest.raises(InvalidInstance, match=r"machine_events\.csv has no events"):
        read([event(0, 0)], servers=[])
    with pytest.raises(InvalidInstance, match="leaves no server"):
        read([event(0, 0)], servers=[[0, 1, "REMOVE", 1, 1, ""]])
    with pytest.raises(InvalidInstance, match="no instances to share servers among"):
        read([event(0, 6)])
    for raw, words in (
        (b"", "cannot be read .*Empty CSV file"),
        (b"\xff\xfe\x00", "i cannot be read|i: there is no column 'time'"),
        (b'time,"a\n', "i cannot be read|i: there is no column 'type'"),
        (b"PAR1x", "cannot be read"),
    ):
        (tmp_path / "i").write_bytes(raw)
        with pytest.raises(InvalidInstance, match=words):
            read_clusterdata2019(tmp_path / "i", tmp_path / "i")
    for path in (tmp_path / "nowhere", "a\0b"):
        with pytest.raises(InvalidInstance, match="cannot be read"):
            read_clusterdata2019(path, path)
    with pytest.raises(InvalidInstance, match="is not the name of a file"):
        read_clusterdata2019(None, None)


def test_nested_columns_of_another_kind_are_refused(parquet, arrow):
    table = nested(arrow)
    with pytest.raises(InvalidInstance, match=r"column 'resource_request.cpus' is of type struct<a.*; export it"):
        parquet(table.set_column(4, "resource_request", arrow.array([{"a": 1}] * 3)))
    with pytest.raises(
        InvalidInstance, match=r"column 'resource_request.cpus' is of type list.*; export it as numbers"
    ):
        parquet(table.set_column(4, "resource_request", arrow.array([[1.0]] * 3)))
    with pytest.raises(InvalidInstance, match=r"row 1, column 'time': the value is '1970.*; give a whole number"):
        parquet(table.set_column(0, "time", table["time"].cast(arrow.timestamp("us"))))
    with pytest.raises(InvalidInstance, match=r"i\.parquet, row 2, column 'collection_id': the value is '1.5'"):
        parquet(table.set_column(2, "collection_id", arrow.array([1.0, 1.5, 2.0])))


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_without_a_library_the_extra_is_named(read, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"needs {library}.*pip install 'fairopt\[parquet\]'"):
        read([event(0, 0)])


def test_reading_says_how_many_rows_it_has(read):
    heard = []
    with progress(lambda *told: heard.append(told)):
        read([event(0, 0), event(1, 3)])
    assert ("reading instance_events.csv", 2, None) in heard


# -- fuzz -----------------------------------------------------------------------------------------------------

CELLS = st.one_of(
    st.sampled_from(["", "0", "1", "-1", "0.5", "nan", "inf", "1e300", "SUBMIT", "{'cpus': 1}", str(AFTER)]),
    st.text(max_size=5),
)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10), CELLS), max_size=3),
    st.sampled_from(["collection", "tier"]),
)
def test_any_cells_give_an_instance_or_an_error_of_ours(tmp_path_factory, changes, users):
    rows = [event(k, k, index=k, priority=k) for k in range(4)]
    for row, column, cell in changes:
        rows[row][column] = cell
    folder = tmp_path_factory.mktemp("cells")
    (folder / "i").write_bytes(as_csv(INSTANCES, [[str(c).encode(errors="replace").decode() for c in r] for r in rows]))
    (folder / "m").write_bytes(as_csv(SERVERS, TWO))
    try:
        made = read_clusterdata2019(folder / "i", folder / "m", users=users)
    except FairoptError as error:
        assert len(str(error)) < 2000
    else:
        assert np.isfinite(made.demands).all()


@given(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 200))
def test_any_bytes_give_an_instance_or_an_error_of_ours(tmp_path_factory, rubbish, start, stop):
    raw = as_csv(INSTANCES, [event(0, 0), event(1, 3)])
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "i").write_bytes(raw[:start] + rubbish + raw[max(start, stop) :])
    (folder / "m").write_bytes(as_csv(SERVERS, TWO))
    try:
        read_clusterdata2019(folder / "i", folder / "m")
    except FairoptError as error:
        assert str(error)


def test_collections_without_any_row_leave_no_user(read):
    with pytest.raises(InvalidInstance, match="no user"):
        read([event(0, "SUBMIT")], collections=[], users="user")
