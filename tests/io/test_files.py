"""What `read` finds in files and folders, and that `write` and `read` keep every bit, for every kind."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairopt.datasets import demo, read, write
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.io.files import files_to_write
from fairopt.testing import instances

ARRAYS = ("demands", "capacities", "weights", "task_limits", "eligible", "counts")
PATHS = {"csv": "folder", "parquet": "folder", "json": "x.json", "yaml": "x.yaml"}
RESERVED = {"user", "weight", "task_limit", "servers", "server", "count", "type"}
PLAIN = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="|]"), min_size=1, max_size=6
).filter(lambda name: name == name.strip() and name not in RESERVED)
ANY = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="]"), min_size=1, max_size=6).filter(
    lambda name: name not in RESERVED
)
SCALES = st.floats(min_value=1e-30, max_value=1e30)


@st.composite
def decorated(draw, names):
    """Instances with everything there is: weights, limits, placement, counts, names, types, units, odd floats."""
    made = draw(
        instances(
            (0, 3),
            (1, 3),
            (1, 3),
            weights=True,
            limits=True,
            placement=True,
            by_server=True,
            counts=True,
            fractions=True,
        )
    )

    def labels(size):
        return draw(st.none() | st.lists(names, min_size=size, max_size=size, unique=True))

    demands = made.demands * np.reshape(
        draw(st.lists(SCALES, min_size=made.demands.size, max_size=made.demands.size)), made.demands.shape
    )
    units = st.sampled_from(["", "GiB", "cores", "µs", "a (b)"])
    servers, resources = labels(made.n_servers), labels(made.n_resources)
    return made.replace(
        demands=demands,
        users=labels(made.n_users),
        servers=servers,
        resources=resources,
        server_types=draw(st.none() | st.lists(names, min_size=made.n_servers, max_size=made.n_servers)),
        units=draw(st.none() | st.lists(units, min_size=made.n_resources, max_size=made.n_resources)),
    )


def same(a: Instance, b: Instance) -> bool:
    assert a == b
    assert a.units == b.units
    for name in ARRAYS:
        first, second = getattr(a, name), getattr(b, name)
        assert np.asarray(first, float).tobytes() == np.asarray(second, float).tobytes(), name
    return True


often = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@often
@given(instance=decorated(PLAIN))
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_give_the_instance_back_to_the_last_bit(tmp_path, kind, instance):
    write(instance, tmp_path / kind, kind)
    assert same(read(tmp_path / kind), instance)


@often
@given(instance=decorated(ANY))
@pytest.mark.parametrize("kind", ["json", "yaml", "pandas", "polars", "pyarrow"])
def test_any_names_are_given_back_by_all_kinds_but_csv(tmp_path, kind, instance):
    if kind in PATHS:
        write(instance, tmp_path / PATHS[kind], kind)
        assert same(read(tmp_path / PATHS[kind]), instance)
    else:
        assert same(Instance.from_frames(*instance.to_frames(kind)), instance)


@pytest.mark.parametrize("kind", PATHS)
def test_negative_zeros_and_the_ends_of_the_range_are_kept(tmp_path, kind):
    numbers = [[1e-60, -0.0], [1e60, 0.1], [2.0**53 + 2, 1 / 3]]
    instance = Instance(numbers, [1e60, 7.0], task_limits=[0.0, np.inf, 1e-60])
    write(instance, tmp_path / PATHS[kind], kind)
    assert same(read(tmp_path / PATHS[kind]), instance)


@pytest.mark.parametrize("kind", PATHS)
def test_demands_by_server_are_kept_where_no_user_may_run_too(tmp_path, kind):
    instance = Instance(
        [[[1, 2], [0, 0], [3, 4]], [[1, 1], [-0.0, 2], [-0.0, -0.0]]],
        [[1, 2], [3, 4], [5, 6]],
        eligible=[[True, False, False], [True, True, False]],
    )
    write(instance, tmp_path / PATHS[kind], kind)
    assert same(read(tmp_path / PATHS[kind]), instance)


def test_a_table_of_two_takes_away_the_third_of_before(tmp_path):
    write(Instance([[[1], [2]]], [[5], [5]]), tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"users.csv", "servers.csv", "demands.csv"}
    write(demo(), tmp_path)
    assert read(tmp_path) == demo()


# -- the third table, and how much is read --------------------------------------------------------------------

DIFFER = ("user,servers\na,\nb,t\n", "server,cpu [x]\ns,9\nt,9\n")


def test_users_run_where_the_third_table_has_a_line_for_them(tables):
    folder = tables(*DIFFER)
    (folder / "demands.csv").write_text("server,user,cpu [x]\nt,a,2\nt,b,3\ns,b,4\n")
    cluster = read(folder)
    assert cluster.per_server_demands[:, :, 0].tolist() == [[0, 2], [4, 3]]
    assert cluster.eligible.tolist() == [[False, True], [False, True]]
    assert cluster.units == ("x",)


@pytest.mark.parametrize(
    ("demands", "parts"),
    [
        ("user,server,cpu [x]\na,s,1\n", ["demands.csv has no line for user 'b'", "every server it may run on"]),
        (
            "user,server,cpu [x]\na,s,1\nb,s,1\n",
            ["lets user 'b' run on 't', for which", "has no line", "from the list"],
        ),
        ("user,server,cpu [x]\na,s,1\nb,t,1\na,s,2\n", ["line 4, column 'server': 'a' on 's' is given on line 2 too"]),
        ("user,server,cpu [x]\nc,s,1\n", ["line 2, column 'user'", "users.csv has no user 'c'"]),
        ("user,server,cpu [x]\na,u,1\n", ["line 2, column 'server'", "servers.csv has no server 'u'"]),
        ("user,server,cpu [x]\na,s,0\nb,t,1\n", ["line 2, column 'user'", "'a' demands nothing at all on 's'"]),
        ("user,server,cpu\na,s,0\n", ["demands.csv has the column 'cpu' where", "'cpu [x]'", "the same unit"]),
        ("user,cpu [x]\na,1\n", ["demands.csv, line 1: there is no column 'server'"]),
        ("user,server,cpu [x],weight\na,s,1,1\n", ["demands.csv: the column 'weight' is not a resource of"]),
        ("", ["demands.csv is empty"]),
    ],
)
def test_a_bad_third_table_is_refused_with_line_column_and_fix(tables, demands, parts):
    folder = tables(*DIFFER)
    (folder / "demands.csv").write_text(demands)
    with pytest.raises(InvalidInstance) as caught:
        read(folder)
    assert not [part for part in parts if part not in str(caught.value)], caught.value


def test_demands_stand_in_one_table_only(tables):
    folder = tables()
    (folder / "demands.csv").write_text("user,server,cpu,memory\nweb,s1,1,2\n")
    with pytest.raises(InvalidInstance, match=r"users\.csv: the column 'cpu' is none of .* remove one of the two"):
        read(folder)


def test_users_times_servers_are_bounded(tables, monkeypatch):
    monkeypatch.setattr("fairopt.io.assemble._MAX_ENTRIES", 3)
    assert read(tables()).n_users == 2
    with pytest.raises(InvalidInstance, match="2 users on 2 servers are too many to list who may run where"):
        read(tables("user,servers,cpu,memory\nweb,s1,1,2\nbatch,,4,1\n"))


# -- kinds ----------------------------------------------------------------------------------------------------


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "is empty; give a folder with users.csv and servers.csv"),
        (["users.parquet"], "has users.parquet, but no servers.parquet .for Parquet tables.; add it"),
        (
            ["users.csv", "servers.parquet"],
            r"has servers.parquet and users.csv, but no servers.csv \(for CSV tables\) and no users.parquet \(for",
        ),
        (["users.csv", "servers.csv", "users.parquet", "servers.parquet"], r"\(of CSV tables\) and .* \(of Parquet"),
        (["users.csv", "servers.csv", "demands.parquet"], r"demands.parquet \(of Parquet tables\), so it could be"),
    ],
)
def test_a_folder_that_is_not_one_kind_says_what_is_there_and_what_is_missing(tmp_path, names, message):
    with pytest.raises(InvalidInstance, match=message):
        read(fill(tmp_path, *names))


@pytest.mark.parametrize("name", ["users.parquet", "demands.csv"])
def test_one_of_several_files_points_to_the_folder(tmp_path, name):
    with pytest.raises(InvalidInstance, match="give the folder that it is in"):
        read(fill(tmp_path, name) / name)


# -- where write writes ---------------------------------------------------------------------------------------


def test_an_unknown_kind_names_the_nearest(tmp_path):
    with pytest.raises(InvalidInstance, match="kind is 'parket'; did you mean 'parquet'"):
        write(demo(), tmp_path / "x", "parket")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("x", "json", "is not a name for a json file; give one that ends in .json"),
        ("x.json", "yaml", "give one that ends in .yaml"),
        ("x.yaml", "csv", "would be one file, but tables are several; give a folder, as x"),
        ("x.csv", None, "would be one file"),
        ("x.parquet", "parquet", "would be one file"),
    ],
)
def test_a_name_that_read_would_take_for_another_kind_is_refused(tmp_path, name, kind, message):
    with pytest.raises(InvalidInstance, match=message):
        write(demo(), tmp_path / name, kind)
    assert not list(tmp_path.iterdir())


def test_two_kinds_are_not_written_to_one_folder(tmp_path):
    write(demo(), tmp_path)
    with pytest.raises(InvalidInstance, match=r"has servers.csv and users.csv, so it could be read as either"):
        write(demo(), tmp_path, "parquet")
    assert read(tmp_path) == demo()


def test_the_files_that_would_be_replaced_are_told(tmp_path):
    kind, files = files_to_write(tmp_path / "x", "parquet")
    assert (kind, [f.name for f in files]) == (
        "parquet",
        [f"{t}.parquet" for t in ("users", "servers", "demands", "teams")],
    )
    assert files_to_write(tmp_path / "a.yml") == ("yaml", [tmp_path / "a.yml"])
    assert files_to_write(tmp_path / "a.JSON") == ("json", [tmp_path / "a.JSON"])


def test_what_is_no_instance_and_nothing_else_is_named_by_its_keys(tmp_path):
    (tmp_path / "values.yaml").write_text("resources: [a.yaml]\nimages: {}\n")
    with pytest.raises(InvalidInstance, match=r"values.yaml is none of .*: its keys are 'resources', 'images'; "):
        read(tmp_path / "values.yaml")
    (tmp_path / "users.yaml").write_text("users: [a, b]\n")
    with pytest.raises(InvalidInstance, match="demands is missing"):
        read(tmp_path / "users.yaml")
