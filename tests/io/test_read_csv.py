"""Reading users.csv and servers.csv: what they may hold, and what is refused where."""

import forked
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fairopt.datasets import read
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.io.tables import read_table

SERVERS = "server,cpu,memory\ns1,10,20\ns2,30,10\n"


def test_two_tables_make_an_instance(tables):
    assert read(tables()) == Instance(
        [[1, 2], [4, 1]],
        [[10, 20], [30, 10]],
        users=["web", "batch"],
        resources=["cpu", "memory"],
        servers=["s1", "s2"],
    )


def test_a_path_may_be_text(tables):
    assert read(str(tables())).users == ("web", "batch")


def test_all_optional_columns_are_read(tables):
    folder = tables(
        "user,weight,task_limit,servers,cpu,memory\na,2,3.5,s2,1,2\nb,,,,1,2\nc,0.5,0,s1|s2,1,2\n",
        "server,count,type,cpu,memory\ns1,3,T4,10,20\ns2,,no GPU,30,10\n",
    )
    cluster = read(folder)
    assert_array_equal(cluster.weights, [2, 1, 0.5])
    assert_array_equal(cluster.task_limits, [3.5, np.inf, 0])
    assert cluster.eligible.tolist() == [[False, True], [True, True], [True, True]]
    assert_array_equal(cluster.counts, [3, 1])
    assert cluster.server_types == ("T4", "no GPU")
    assert cluster.resources == ("cpu", "memory")


def test_servers_without_a_column_of_types_have_none(tables):
    assert read(tables()).server_types is None


def test_resources_are_ordered_as_in_the_servers_table_whatever_the_order_of_users_columns(tables):
    cluster = read(tables("memory,user,cpu\n2,web,1\n"))
    assert cluster.resources == ("cpu", "memory")
    assert cluster.demands.tolist() == [[1, 2]]


def test_a_header_only_in_users_is_an_instance_without_users(tables):
    cluster = read(tables("user,weight,task_limit,servers,cpu,memory\n"))
    assert cluster.n_users == 0
    assert cluster.capacities.shape == (2, 2)


@pytest.mark.parametrize(
    "users",
    [
        b"\xef\xbb\xbfuser,cpu,memory\nweb,1,2\n",  # byte order mark
        b"user,cpu,memory\r\nweb,1,2\r\n",  # line ends of Windows
        b"user,cpu,memory\nweb,1,2",  # no end of the last line
        b"user , cpu,  memory\n web , 1,2 \n",  # blanks around cells
        b"\nuser,cpu,memory\n\nweb,1,2\n,,\n  \n",  # lines without content
        b'"user","cpu","memory"\n"web","1","2"\n',  # quotes
        b"user,cpu,memory\nweb,1e0,2.000\n",  # other ways to write numbers
    ],
)
def test_ways_to_write_the_same_table(tables, users):
    assert read(tables(users)) == read(tables("user,cpu,memory\nweb,1,2\n"))


def test_names_may_hold_commas_quotes_line_breaks_and_other_alphabets(tables):
    cluster = read(tables('user,cpu,memory\n"a, ""b""",1,2\n"two\nlines",1,2\n用户,1,2\n'))
    assert cluster.users == ('a, "b"', "two\nlines", "用户")


def test_the_line_of_an_error_counts_line_breaks_inside_cells(tables):
    with pytest.raises(InvalidInstance, match="line 5, column 'cpu'"):
        read(tables('user,cpu,memory\n"two\nlines",1,2\n\nb,x,2\n'))


def test_a_server_without_a_needed_resource_is_ineligible(tables):
    cluster = read(tables(servers="server,cpu,memory\ns1,10,0\ns2,10,10\n"))
    assert cluster.eligible.tolist() == [[False, True], [False, True]]


@pytest.mark.parametrize(
    ("users", "servers", "parts"),
    [
        # numbers
        (
            "user,cpu,memory\nweb,1,2\nbatch,four,1\n",
            SERVERS,
            ["users.csv, line 3, column 'cpu'", "'four' is not a number", "give a finite number >= 0"],
        ),
        ("user,cpu,memory\nweb,1,\n", SERVERS, ["users.csv, line 2, column 'memory'", "empty", "finite"]),
        ("user,cpu,memory\nweb,1,nan\n", SERVERS, ["users.csv, line 2, column 'memory'", "nan", "finite"]),
        ("user,cpu,memory\nweb,inf,1\n", SERVERS, ["users.csv, line 2, column 'cpu'", "inf", "finite"]),
        ("user,cpu,memory\nweb,-1,1\n", SERVERS, ["users.csv, line 2, column 'cpu'", "-1", ">= 0"]),
        ('user,cpu,memory\nweb,"1,5",1\n', SERVERS, ["users.csv, line 2, column 'cpu'", "'1,5' is not a number"]),
        ("user,cpu,memory\nweb,0,0\n", SERVERS, ["line 2, column 'user'", "'web' demands nothing", "remove"]),
        (None, "server,cpu,memory\ns1,10,20\ns2,much,10\n", ["servers.csv, line 3, column 'cpu'", "'much'"]),
        (None, "server,cpu,memory\ns1,10,-20\n", ["servers.csv, line 2, column 'memory'", "-20", ">= 0"]),
        (None, "server,cpu,memory\ns1,10,0\n", ["servers.csv", "user 'web' needs 'memory'", "capacity 0"]),
        # optional columns
        ("user,weight,cpu,memory\nweb,0,1,2\n", SERVERS, ["line 2, column 'weight'", "0", "> 0", "empty for 1"]),
        ("user,weight,cpu,memory\nweb,inf,1,2\n", SERVERS, ["line 2, column 'weight'", "inf"]),
        ("user,task_limit,cpu,memory\nweb,-3,1,2\n", SERVERS, ["line 2, column 'task_limit'", "-3", "no limit"]),
        ("user,task_limit,cpu,memory\nweb,nan,1,2\n", SERVERS, ["line 2, column 'task_limit'", "nan"]),
        ("user,task_limit,cpu,memory\nweb,none,1,2\n", SERVERS, ["line 2, column 'task_limit'", "'none'", "empty"]),
        (
            "user,servers,cpu,memory\nweb,s1|s3,1,2\n",
            SERVERS,
            ["line 2, column 'servers'", "servers.csv has no server 's3'", "did you mean"],
        ),
        ("user,servers,cpu,memory\nweb,s1||s2,1,2\n", SERVERS, ["line 2, column 'servers'", "no server ''"]),
        (None, "server,count,cpu,memory\ns1,1.5,10,20\n", ["line 2, column 'count'", "1.5", "whole number >= 1"]),
        (None, "server,count,cpu,memory\ns1,0,10,20\n", ["line 2, column 'count'", "0", "whole number >= 1"]),
        (
            None,
            "server,type,cpu,memory\ns1,T4,10,20\ns2,,10,20\n",
            ["servers.csv, line 3, column 'type'", "empty", "give every server one, or remove the column"],
        ),
        (
            "user,type,cpu,memory\nweb,3,1,2\n",
            "server,type,cpu,memory\ns1,3,10,20\n",
            ["users.csv", "'type' is not a resource of", "servers.csv"],
        ),
        (None, "server,count,cpu,memory\ns1,1e17,10,20\n", ["line 2, column 'count'", "1e17", "whole number"]),
        (
            "user,servers,cpu,memory\nweb,s1,1,2\n",
            "server,cpu,memory\ns1,10,0\ns2,1,1\n",
            ["users.csv", "servers.csv", "user 'web' is eligible on no server"],
        ),
        # columns
        ("user,cpu\nweb,1\n", SERVERS, ["users.csv", "no column 'memory'", "servers.csv", "with 0"]),
        ("user,cpu,memory,gpu\nweb,1,2,0\n", SERVERS, ["users.csv", "'gpu' is not a resource of", "servers.csv"]),
        ("user,weigth,cpu,memory\nweb,1,1,2\n", SERVERS, ["'weigth'", "did you mean 'weight'"]),
        ("name,cpu,memory\nweb,1,2\n", SERVERS, ["users.csv, line 1", "no column 'user'", "known: name, cpu, memory"]),
        (None, "sever,cpu,memory\ns1,1,2\n", ["servers.csv, line 1", "no column 'server'", "did you mean 'sever'"]),
        ("user;cpu;memory\nweb;1;2\n", SERVERS, ["users.csv, line 1", "with commas, not with ';'"]),
        ("user;cpu;memory\nweb;1,5;2\n", SERVERS, ["users.csv, line 1", "with commas, not with ';'"]),
        ("user\tcpu\tmemory\nweb\t1\t2\n", SERVERS, ["with commas, not with '\\t'"]),
        ("user,cpu,memory,cpu\nweb,1,2,3\n", SERVERS, ["users.csv, line 1", "'cpu' appears twice"]),
        ("user,cpu,memory,\nweb,1,2,\n", SERVERS, ["users.csv, line 1", "column 4 has no name"]),
        (None, "server,count\ns1,1\n", ["servers.csv", "no resource columns"]),
        # rows and names
        ("user,cpu,memory\nweb,1,2\nbatch,4\n", SERVERS, ["users.csv, line 3", "2 cells", "3 (user, cpu, memory)"]),
        ("user,cpu,memory\nweb,1,2,3\n", SERVERS, ["users.csv, line 2", "4 cells", "double quotes"]),
        ("user,cpu,memory\nweb,1,2\nweb,4,1\n", SERVERS, ["users.csv, line 3", "'web'", "line 2 too", "differ"]),
        ("user,cpu,memory\n,1,2\n", SERVERS, ["users.csv, line 2, column 'user'", "empty"]),
        (None, "server,cpu,memory\ns1,1,2\ns1,1,2\n", ["servers.csv, line 3, column 'server'", "'s1'", "line 2 too"]),
        (None, "server,cpu,memory\n", ["servers.csv has a header only", "at least one server"]),
        # files
        (b"", SERVERS, ["users.csv is empty", "header line", "user"]),
        (b"\n\n", SERVERS, ["users.csv is empty"]),
        (None, b"", ["servers.csv is empty", "header line", "server"]),
        ("user,cpu,memory\nw\xe9b,1,2\n".encode("latin-1"), SERVERS, ["users.csv, line 2", "UTF-8", "save"]),
        ("user,cpu,memory\nweb,1,2\n".encode("utf-16"), SERVERS, ["users.csv, line 1", "UTF-8"]),
        (b'user,cpu,memory\n"web,1,2\n', SERVERS, ["users.csv, line 2", "double quotes"]),
        (b'user,cpu,memory\nweb,1,2\n"a"b,1,2\n', SERVERS, ["users.csv, line 3", "double quotes"]),
    ],
)
def test_bad_tables_are_refused_with_file_line_column_value_and_fix(tables, users, servers, parts):
    folder = tables(servers=servers) if users is None else tables(users, servers)
    with pytest.raises(InvalidInstance) as caught:
        read(folder)
    missing = [part for part in parts if part not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("present", "words"),
    [
        ("users.csv", r"has users.csv, but no servers.csv \(for CSV tables\).*; add "),
        ("servers.csv", r"has servers.csv, but no users.csv \(for CSV tables\).*; add "),
        ("notes.txt", "has notes.txt, and no file that is read; give a folder with users.csv and servers.csv"),
    ],
)
def test_a_folder_without_one_of_the_files_says_which_and_what_is_expected(tmp_path, present, words):
    (tmp_path / present).write_text("x")
    with pytest.raises(InvalidInstance, match=words):
        read(tmp_path)


@pytest.mark.parametrize("name", ["nothing", "nothing.csv", "no\0thing"])
def test_a_path_that_does_not_exist_says_so_and_what_is_expected(tmp_path, name):
    with pytest.raises(InvalidInstance, match=r"does not exist; give a folder with users\.csv .* a \.json file"):
        read(tmp_path / name)


def test_one_of_the_two_files_alone_points_to_the_folder(tables):
    with pytest.raises(InvalidInstance, match="give the folder that it is in"):
        read(tables() / "users.csv")


def test_another_kind_of_file_is_refused(tmp_path):
    (tmp_path / "cluster.xlsx").write_text("x")
    with pytest.raises(InvalidInstance, match="not a kind of file that can be read; give a folder"):
        read(tmp_path / "cluster.xlsx")


def test_a_table_that_is_a_folder_cannot_be_read(tmp_path):
    (tmp_path / "users.csv").mkdir()
    with pytest.raises(InvalidInstance, match=r"users\.csv cannot be read"):
        read_table(tmp_path / "users.csv", required=("user",))


def test_the_line_of_a_wrong_byte_is_found_in_a_large_file(tables):
    good = "user,cpu,memory\n" + "".join(f"é{j},1,2\n" for j in range(200_000))
    with pytest.raises(InvalidInstance, match=r"users\.csv, line 200002: this is not UTF-8"):
        read(tables(good.encode() + b"w\xe9b,1,2\n" + b"x,1,2\n" * 10))
    with pytest.raises(InvalidInstance, match=r"users\.csv, line 200002: this is not UTF-8"):
        read(tables(good.encode() + b"w\xc3"))


def test_a_cell_without_end_is_refused(tables):
    with pytest.raises(InvalidInstance, match=r"users\.csv, line 2.*field larger than"):
        read(tables("user,cpu,memory\n" + "x" * 200_000 + ",1,2\n"))


fuzz = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SNIPPETS = st.sampled_from(["user", "cpu", "memory", "servers", ",", "\n", "1", "-1", "1e999", '"', "s1", "|"])


@fuzz
@given(content=st.binary(max_size=200) | st.lists(SNIPPETS, max_size=40).map("".join).map(str.encode))
def test_no_content_of_a_table_raises_anything_but_invalid_instance(tables, content):
    for folder in (tables(content, SERVERS), tables(b"user,cpu,memory\nweb,1,2\n", content)):
        try:
            assert isinstance(read(folder), Instance)
        except InvalidInstance as error:
            assert "users.csv" in str(error) or "servers.csv" in str(error)


def test_reading_needs_no_pandas():
    code = (
        "import sys, fairopt.datasets as d\nassert 'pandas' not in sys.modules\nsys.modules['pandas'] = None\nd.demo()"
    )
    done = forked.run("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cell", ["1_000", "\u0661", "\uff11", "1_0.5", "1e1_0"])
def test_only_plain_decimal_numbers_are_numbers(tables, cell):
    with pytest.raises(InvalidInstance, match=r"users\.csv, line 3, column 'cpu': .* is not a number"):
        read(tables(users=f"user,cpu,memory\nweb,1,2\nbatch,{cell},1\n"))


def test_a_name_with_nul_is_refused_with_its_line(tables):
    with pytest.raises(InvalidInstance, match=r"users\.csv, line 3 holds a NUL character"):
        read(tables(users="user,cpu,memory\nweb,1,2\nba\0tch,1,1\n"))


def test_a_table_without_users_is_told(tables):
    made = read(tables(users="user,cpu,memory\n"))
    assert made.n_users == 0
    assert [note for note in made.notes if "there are no users" in note and "users.csv has no rows" in note]


def closed(instance):
    return [note for note in instance.notes if "names the server" in note]


LARGE = "server,cpu,memory\ns1,9,9\ns2,9,9\nnew,9,9\nnewer,9,9\n"


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        (["s1", "s2"], "the servers 'new', 'newer', so no user may use them"),
        (["s1|s2", ""], "the servers 'new', 'newer', so only users without a list may use them"),
        (["s1|s2", "newer"], "the server 'new', so no user may use it"),
    ],
)
def test_a_new_server_that_no_list_names_is_told(tables, lists, words):
    rows = "".join(f"u{k},{cell},1,2\n" for k, cell in enumerate(lists))
    made = read(tables(f"user,servers,cpu,memory\n{rows}", LARGE))
    (note,) = closed(made)
    assert note == f"no list of servers in {tables(None, None) / 'users.csv'} names {words}"


def test_without_lists_of_servers_a_new_one_is_open_to_all(tables):
    made = read(tables("user,servers,cpu,memory\na,,1,2\n", LARGE))
    assert made.eligible.all() and not closed(made)


def test_a_new_server_without_a_line_of_demands_is_told(tables):
    folder = tables("user\na\n", LARGE)
    (folder / "demands.csv").write_text("user,server,cpu,memory\na,s1,1,1\na,s2,1,1\na,newer,1,1\n")
    assert closed(read(folder)) == [
        f"no line of {folder / 'demands.csv'} names the server 'new', so no user may use it"
    ]


def test_a_list_as_python_writes_it_is_refused_with_the_fix(tables):
    with pytest.raises(
        InvalidInstance, match=r"line 2, column 'servers': .*a list in Python's notation; join the names with"
    ):
        read(tables(users="user,servers,cpu,memory\nweb,\"['s1', 's2']\",1,2\n"))
