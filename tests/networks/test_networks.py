"""Networks: paths of demands as users, links as resources, answers by path, demand and link."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import InvalidBlock, InvalidInstance

nx = pytest.importorskip("networkx", reason="networkx is in the extra networks")
from oracle.flows import levels_by_programs  # noqa: E402

from fairopt.networks.files import demands_in  # noqa: E402


def ring(*links: tuple[Any, Any, float], directed: bool = True) -> Any:
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_weighted_edges_from(links, weight="capacity")
    return graph


TRIANGLE = ring(("a", "b", 1), ("b", "c", 1), ("a", "c", 1))


def drawn(seed: int) -> tuple[Any, list[tuple[int, int, float, float]]]:
    """A connected random graph with capacities, and demands with volumes and weights."""
    rng = np.random.default_rng(seed)
    graph = nx.connected_watts_strogatz_graph(int(rng.integers(5, 12)), 3, 0.4, seed=seed)
    if rng.random() < 0.5:
        graph = graph.to_directed()
    for a, b in graph.edges:
        graph.edges[a, b]["capacity"] = float(rng.choice([1, 2, 5]))
    pairs = [(a, b) for a in graph for b in graph if a != b]
    chosen = rng.choice(len(pairs), int(rng.integers(2, 9)), replace=False)
    volumes = np.where(rng.random(len(chosen)) < 0.4, rng.integers(1, 9, len(chosen)) / 4, np.inf)
    weights = rng.choice([1, 2, 0.5], len(chosen))
    return graph, [(*pairs[k], float(v), float(w)) for k, v, w in zip(chosen, volumes, weights, strict=True)]


@pytest.mark.parametrize("seed", range(50))
def test_max_min_flows_are_those_of_a_sequence_of_linear_programs(seed: int) -> None:
    graph, demands = drawn(seed)
    network = fo.networks.instance(graph, demands, paths=3)
    answer = fo.networks.MAX_MIN.allocate(network)
    assert answer.certificate.ok
    expected = levels_by_programs(graph, demands, 3)
    found = fo.networks.flows(answer, by="demand").flow
    assert found.to_dict() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_users_are_paths_resources_links_and_teams_demands() -> None:
    network = fo.networks.instance(TRIANGLE, [("a", "c", 2, 3), ("b", "c")], paths=2)
    assert network.users == ("a->c/1", "a->c/2", "b->c/1")
    assert network.resources == ("a->b", "a->c", "b->c", "flow")
    assert network.demands.tolist() == [[0, 1, 0, 1], [1, 0, 1, 1], [0, 0, 1, 1]]
    assert network.teams["team"] == ("a->c", "a->c", "b->c")
    assert network.team_weights == {"a->c": 3, "b->c": 1}
    assert "1 of 2 demands have fewer than 2 paths" in network.notes


def test_both_directions_of_an_undirected_link_share_its_capacity() -> None:
    line = nx.path_graph(2)
    shared = fo.networks.MAX_MIN.allocate(fo.networks.instance(line, [(0, 1), (1, 0)], capacity=1))
    assert fo.networks.flows(shared, by="demand").flow.tolist() == pytest.approx([0.5, 0.5])
    apart = fo.networks.MAX_MIN.allocate(fo.networks.instance(line.to_directed(), [(0, 1), (1, 0)], capacity=1))
    assert fo.networks.flows(apart, by="demand").flow.tolist() == pytest.approx([1, 1])


def test_a_link_of_zero_capacity_is_down() -> None:
    graph = ring(("a", "c", 0), ("a", "b", 1), ("b", "c", 1))
    assert fo.networks.instance(graph, [("a", "c")]).users == ("a->c/1",)
    with pytest.raises(InvalidInstance, match="the demand a->c has no path over links with capacity"):
        fo.networks.instance(ring(("a", "c", 0)), [("a", "c")])


def test_flows_of_a_loaded_answer(tmp_path: Path) -> None:
    network = fo.networks.instance(TRIANGLE, [("a", "c"), ("b", "c", 0.25)])
    answer = fo.networks.MAX_MIN.allocate(network)
    answer.save(tmp_path / "answer.json")
    assert fo.verify(tmp_path / "answer.json").ok
    loaded = fo.Allocation.load(tmp_path / "answer.json")
    for by in ("path", "demand", "link"):
        assert fo.networks.flows(loaded, by).equals(fo.networks.flows(answer, by))
    demands = fo.networks.flows(loaded, "demand")
    assert demands.bottleneck.to_dict() == {"a->c": "b->c, a->c", "b->c": "volume"}
    assert demands.paths.tolist() == [2, 1]
    assert fo.networks.flows(loaded, "link").use.tolist() == pytest.approx([0.75, 1, 1])


def test_flows_need_an_answer_on_a_network() -> None:
    answer = fo.DRF().allocate(fo.Instance([[1, 2]], [3, 4]))
    for wrong in (answer, answer.instance):
        with pytest.raises(InvalidInstance, match="not on a network"):
            fo.networks.flows(wrong)
    network = fo.networks.MAX_MIN.allocate(fo.networks.instance(TRIANGLE, [("a", "c")]))
    with pytest.raises(InvalidBlock, match="by is 'links'"):
        fo.networks.flows(network, "links")


MULTI = nx.MultiDiGraph([("a", "b"), ("a", "b")])
ODD_DEMANDS = ring(("a", "x", 1), ("a->b", "x", 1), ("x", "b->c", 1), ("x", "c", 1))
ODD_NAMES = ring(("a", "b->c", 1), ("a->b", "c", 1))


@pytest.mark.parametrize(
    ("graph", "demands", "options", "message"),
    [
        (TRIANGLE, [("c", "a")], {}, "the demand c->a has no path"),
        (TRIANGLE, [("a", "a")], {}, "the demand a->a is from a node to itself"),
        (TRIANGLE, [("a", "c"), ("a", "c", 2)], {}, "the demand a->c is given twice"),
        (TRIANGLE, [("a", "d")], {}, "the graph has no node 'd'"),
        (TRIANGLE, [("a", "c", -1)], {}, "the value is -1; give a number >= 0"),
        (TRIANGLE, [("a", "c", None, 0)], {}, "give a finite number > 0"),
        (TRIANGLE, [("a", "c", "1Gib")], {}, "is text"),
        (TRIANGLE, [("a",)], {}, r"demands are rows .*; \('a',\) is none of them"),
        (TRIANGLE, [("a", "c"), "bc"], {}, "demands are rows .*; 'bc' is none of them"),
        (TRIANGLE, [], {}, "there are no demands"),
        (TRIANGLE, 3, {}, "demands are rows"),
        (TRIANGLE, {("a", "c"): 2}, {}, "demands are rows .*; dict is none of them"),
        (TRIANGLE, [("a", "c", float("nan"))], {}, "the value is nan; give a number >= 0, or nothing for no limit"),
        (nx.DiGraph(), [("a", "b")], {}, "the graph has no links"),
        (nx.empty_graph(2), [(0, 1)], {"capacity": 1}, "the graph has no links"),
        (TRIANGLE, [("a", "c")], {"paths": 0}, "paths is 0"),
        (TRIANGLE, [("a", "c")], {"capacity": "speed"}, "the link a->b has no 'speed'"),
        (TRIANGLE, [("a", "c")], {"capacity": True}, "capacity is True"),
        (ring(("a", "b", -1)), [("a", "b")], {}, "the link a->b has the capacity -1"),
        (ring(("a", "b", float("nan"))), [("a", "b")], {}, "the link a->b has the capacity nan"),
        (ring(("a", "a", 1)), [("a", "b")], {}, "from a node to itself"),
        (ring((1, "1", 1)), [("1", "1")], {}, "both written '1'"),
        (MULTI, [("a", "b")], {"capacity": 1}, "two links are named a->b"),
        (ODD_DEMANDS, [("a", "b->c"), ("a->b", "c")], {}, "the demand a->b->c has the name of another; rename nodes"),
        (ODD_NAMES, [("a", "b->c")], {}, "two links are named a->b->c"),
        ({"a": "b"}, [("a", "b")], {}, "the graph is of type dict"),
    ],
)
def test_bad_input(graph: Any, demands: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        fo.networks.instance(graph, demands, **options)


GML = """graph [ directed 0
  node [ id 0 label "Wien" Longitude 16.3 Latitude 48.2 ]
  node [ id 1 label "Graz" Longitude 15.4 Latitude 47.0 ]
  edge [ source 0 target 1 LinkSpeedRaw 10000000000.0 ]
  edge [ source 1 target 0 LinkSpeedRaw 2500000000.0 ]
]"""


def test_parallel_links_of_a_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "two.gml").write_text(GML)
    graph = fo.networks.read(tmp_path / "two.gml", capacity="LinkSpeedRaw")
    assert fo.networks.instance(graph, [(0, 1)]).capacities.tolist() == [[1.25e10]]
    usual = fo.networks.read(tmp_path / "two.gml", capacity=40)
    assert [data["capacity"] for *_, data in usual.edges(data=True)] == [80]


@pytest.mark.parametrize("known", [0, 1])
def test_parallel_links_have_no_capacity_if_one_of_them_has_none(known: int, tmp_path: Path) -> None:
    links = ["edge [ source 0 target 1 ]", "edge [ source 0 target 1 ]"]
    links[known] = "edge [ source 0 target 1 capacity 10 ]"
    (tmp_path / "two.gml").write_text(f"graph [ node [ id 0 ] node [ id 1 ] {links[0]} {links[1]} ]")
    with pytest.raises(InvalidInstance, match="the link 0--1 has no 'capacity'"):
        fo.networks.instance(fo.networks.read(tmp_path / "two.gml"), [(0, 1)])


def test_volumes_are_the_least_limits_on_single_demands() -> None:
    network = fo.networks.instance(TRIANGLE, [("a", "c", 2), ("b", "c", 1)])
    more: list[dict[str, Any]] = [
        {"resource": "flow", "amount": 0.25, "of": ["a->c/1"]},
        {"resource": "flow", "amount": 1.5, "of": ["a->c", "b->c"]},
        {"resource": "flow", "amount": 0.5, "of": ["b->c"]},
        {"name": "more than its volume", "resource": "flow", "amount": 3, "of": ["b->c"]},
    ]
    limited = network.replace(limits=[*network.limits, *more])
    demands = fo.networks.flows(fo.networks.MAX_MIN.allocate(limited), "demand")
    assert demands.volume.tolist() == [2, 0.5]
    assert demands.flow.tolist() == pytest.approx([0.75, 0.5])
    assert demands.bottleneck["b->c"] == "volume"


def test_a_demand_of_volume_0_gets_nothing_and_takes_no_part(tmp_path: Path) -> None:
    network = fo.networks.instance(TRIANGLE, [("a", "c", 0), ("b", "c", None)])
    answer = fo.networks.MAX_MIN.allocate(network)
    demands = fo.networks.flows(answer, "demand")
    assert demands.flow.tolist() == pytest.approx([0, 1]) and demands.bottleneck["a->c"] == "volume"
    assert fo.verify(answer.save(tmp_path / "answer.json")).ok


def test_graphs_of_each_format_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a b 1\nb c 1\na c 1\n")
    (tmp_path / "g.json").write_text(json.dumps(nx.node_link_data(TRIANGLE, edges="links")))
    nx.write_graphml(TRIANGLE, tmp_path / "g.graphml")
    made = [
        fo.networks.instance(fo.networks.read(tmp_path / f"g.{end}"), [("a", "c")])
        for end in ("txt", "json", "graphml")
    ]
    expected = fo.networks.instance(TRIANGLE, [("a", "c")])
    for one in made:
        order = [one.resources.index(name) for name in expected.resources]
        assert np.array_equal(one.demands[:, order], expected.demands)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.gml", "graph [ node [ id 0", "cannot be read as a graph"),
        ("g.gml", "nodes: a, b", "cannot be read as a graph"),
        ("g.json", '{"nodes": 3}', "it has no list of nodes"),
        ("g.json", '{"users": []}', "it has no list of nodes"),
        ("g.json", "[", "cannot be read as a graph"),
        ("g.graphml", "<html/>", "cannot be read as a graph"),
        ("g.csv", "a,b", "is no graph by its name"),
        ("g.txt", "", "has no links"),
        ("g.txt", "a,b,3", "has no links"),
        ("g.gml", "graph [ node [ id 0 ] ]", "has no links"),
    ],
)
def test_a_file_that_is_no_graph(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInstance, match=message):
        fo.networks.read(tmp_path / name)


def test_a_capacity_of_a_file_that_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a b fast\n")
    with pytest.raises(InvalidInstance, match="the link a->b has the capacity 'fast'"):
        fo.networks.read(tmp_path / "g.txt")


def test_numbers_of_numpy_are_numbers() -> None:
    network = fo.networks.instance(TRIANGLE, [("a", "c")], paths=np.int64(1), capacity=np.int64(3))
    assert (network.users, network.capacities.tolist()) == (("a->c/1",), [[3, 3, 3]])


@pytest.mark.parametrize("capacity", [True, None])
def test_a_capacity_of_links_of_a_file_is_a_name_or_a_number(capacity: Any, tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a b")
    with pytest.raises(InvalidInstance, match=f"capacity is {capacity}; give the name of an attribute"):
        fo.networks.read(tmp_path / "g.txt", capacity=capacity)


def test_a_column_of_demands_that_means_nothing_is_named() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is in the extra networks")
    rows = pd.DataFrame({"source": ["a"], "target": ["c"], "demand": [0.5]})
    with pytest.raises(InvalidInstance, match="the column 'demand' is none of source, target, volume, weight"):
        fo.networks.instance(TRIANGLE, rows)


def test_an_attribute_that_no_link_has_is_named(tmp_path: Path) -> None:
    (tmp_path / "two.gml").write_text(GML)
    with pytest.raises(InvalidInstance, match="no link has 'LinkSpeed'; did you mean 'LinkSpeedRaw'"):
        fo.networks.read(tmp_path / "two.gml", capacity="LinkSpeed")


def test_a_link_without_the_attribute_of_others_is_named(tmp_path: Path) -> None:
    (tmp_path / "two.gml").write_text(GML.replace("LinkSpeedRaw 2500000000.0", 'LinkSpeedName "2.5"'))
    with pytest.raises(InvalidInstance, match=r"the link 0<?-+>?1 has no 'LinkSpeedRaw'; did you mean 'LinkSpeedName'"):
        fo.networks.read(tmp_path / "two.gml", capacity="LinkSpeedRaw")


def test_labels_of_nodes_are_not_their_names(tmp_path: Path) -> None:
    (tmp_path / "two.gml").write_text(GML)
    graph = fo.networks.read(tmp_path / "two.gml", capacity=1)
    with pytest.raises(
        InvalidInstance, match="no node 'Wien'; nodes are named by their ids; 'Wien' is the label of '0'"
    ):
        fo.networks.instance(graph, [("Wien", 1)])


def test_checks_are_of_demands() -> None:
    answer = fo.networks.MAX_MIN.allocate(fo.networks.instance(TRIANGLE, [("a", "c"), ("b", "c", 0.25)]))
    assert str(fo.check(answer)).splitlines() == [
        f"max-min flow on {answer.instance!r}; envy is not checked, as users are paths of demands",
        "  yes team-pareto  within the limits of the instance, no team's total Tasks() can grow unless another's falls",
    ]
    named = fo.check(answer, "envy-free")
    assert named.about == f"max-min flow on {answer.instance!r}"
    assert named["envy-free"].sentence.endswith("(of users, whose parts of their team's total the policy leaves open)")


def test_policies_of_users_divide_the_weight_of_a_demand_among_its_paths() -> None:
    """The demand c->d has a link of its own, but under DRF also half of its weight on the link of b->d."""
    graph = ring(("c", "b", 1), ("b", "d", 1), ("c", "d", 1))
    network = fo.networks.instance(graph, [("b", "d"), ("c", "d")])
    assert network.weights.tolist() == [1, 0.5, 0.5]
    of_paths = fo.networks.flows(fo.DRF().allocate(network), by="demand")
    assert of_paths.flow.tolist() == pytest.approx([2 / 3, 4 / 3])
    of_demands = fo.networks.flows(fo.networks.MAX_MIN.allocate(network), by="demand")
    assert of_demands.flow.tolist() == pytest.approx([1, 1])


def test_envy_between_paths_is_checked_by_name_only() -> None:
    """At equal weights b->c would run 8 on the links of a->c/2, far beyond its volume."""
    graph = ring(("a", "b", 10), ("b", "c", 10), ("a", "c", 4))
    answer = fo.Policy(fo.Total(fo.Tasks())).allocate(fo.networks.instance(graph, [("a", "c"), ("b", "c", 2)]))
    assert [*fo.check(answer)] == ["sharing-incentive"]
    assert str(fo.check(answer)).splitlines()[0].endswith("; envy is not checked, as users are paths of demands")
    assert [*fo.check(answer, "ef")] == ["envy-free"]


def test_envy_between_parts_of_open_totals_is_not_checked() -> None:
    cluster = fo.Instance([[1], [1], [1]], [6], teams={"team": ["a", "a", "b"]})
    answer = fo.Policy(fo.Leximin(fo.OfTeam(fo.Tasks(), inside="any"))).allocate(cluster)
    why = "envy is not checked, as the policy leaves open how teams divide totals"
    assert str(fo.check(answer)).splitlines()[0].endswith(f"; {why}")


def test_a_picture_shows_use_and_needs_the_nodes() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    answer = fo.networks.MAX_MIN.allocate(fo.networks.instance(TRIANGLE, [("a", "c"), ("b", "c", 0.25)]))
    ax = fo.networks.plot(answer)
    idle, used = ax.collections[:2]
    assert len(idle.get_paths()) == 0
    assert used.get_array().tolist() == pytest.approx([75, 100, 100])
    assert {text.get_text() for text in ax.texts} == {"a", "b", "c"}
    with pytest.raises(InvalidInstance, match="the graph has no node"):
        fo.networks.plot(answer, nx.path_graph(3))
    with pytest.raises(InvalidInstance, match="the graph is of type list; give a networkx Graph"):
        fo.networks.plot(answer, [("a", "b")])


@pytest.mark.parametrize(
    ("links", "with_graph"), [([("x->y", "z"), ("z", "u")], False), ([("x->y", "z--w")], True), ([("x", "y")], True)]
)
def test_nodes_may_have_the_sign_of_the_other_kind_of_link(links: list[tuple[str, str]], with_graph: bool) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    graph = nx.Graph(links)
    answer = fo.networks.MAX_MIN.allocate(fo.networks.instance(graph, [links[0]], capacity=1))
    ax = fo.networks.plot(answer, graph if with_graph else None)
    assert {text.get_text() for text in ax.texts} == {*graph}


@pytest.mark.parametrize(
    ("links", "demands", "message"),
    [
        ("a b 1", "b,a", "the demand b->a has no path over links with capacity"),
        ("a b -1", "a,b", "the link a->b has the capacity '-1'; give a finite number >= 0"),
        ("x->y z 1\nx y->z 1", "x,y->z", "two links are named x->y->z; rename nodes"),
        ("a b 1", "a,a", "line 2, column 'target': the demand a->a is from a node to itself"),
    ],
)
def test_bad_input_of_the_command_line(tmp_path: Path, links: str, demands: str, message: str) -> None:
    (tmp_path / "g.txt").write_text(links)
    (tmp_path / "d.csv").write_text(f"source,target\n{demands}\n")
    code, out = command("solve", str(tmp_path / "g.txt"), "--demands", str(tmp_path / "d.csv"))
    assert code == 2
    assert message in " ".join(out.split())


def test_a_limit_on_flow_is_a_volume_also_of_a_demand_without_one(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a b 10\nb c 10\na c 4\nc a 2.5\n")
    (tmp_path / "d.csv").write_text("source,target,volume\nb,c,3\nc,b,\n")
    code, out = command("solve", str(tmp_path / "g.txt"), "--demands", str(tmp_path / "d.csv"), "--limit", "c->b=1flow")
    assert code == 0, out
    assert ["c->b", "1", "1", "1", "volume"] in [line.split() for line in out.splitlines()]


def command(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, [*words])
    return found.exit_code, found.output


def test_the_command_line_compares_demands(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a b 1\nb c 1\na c 1\n")
    (tmp_path / "d.csv").write_text("source,target,volume\na,c,\nb,c,0.25\n")
    code, out = command("solve", str(tmp_path / "g.txt"), "--demands", str(tmp_path / "d.csv"))
    assert code == 0, out
    assert "max-min flow" in out
    demands = out.partition("Use of links")[0]
    assert "a->c    1.7500       -      2  b->c, a->c" in demands
    assert "b->c    0.2500  0.2500      1  volume" in demands
    code, out = command("solve", str(tmp_path / "g.txt"), "--demands", str(tmp_path / "d.csv"), "-p", "drf")
    assert (
        "drf compares the 3 users, and not their teams; without --policy demands are compared"
        in " ".join(out.split()).lower()
    )


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("g.gml", (), "this is a graph and needs demands"),
        ("g.json", (), "this is a graph and needs demands"),
        ("c.json", ("--paths", "3"), "--paths is for graphs and needs"),
    ],
)
def test_a_graph_on_the_command_line_needs_demands(
    tmp_path: Path, name: str, option: tuple[str, ...], message: str
) -> None:
    graph = '{"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "a", "target": "b", "capacity": 1}]}'
    texts = {"g.gml": GML, "g.json": graph, "c.json": '{"demands": [[1]], "capacities": [1]}'}
    (tmp_path / name).write_text(texts[name])
    code, out = command("solve", str(tmp_path / name), *option)
    assert code == 2
    assert message in " ".join(out.split())


@pytest.mark.parametrize("demands", [[("a", "b", 5), ("b", "a", 2)], [("a", "b", 2), ("b", "a", 5)]])
def test_a_link_a_hundred_thousand_times_another_leaves_levels_certified(demands: Any) -> None:
    graph = ring(("a", "b", 2), ("b", "a", 1e5))
    answer = fo.networks.MAX_MIN.allocate(fo.networks.instance(graph, demands))
    assert answer.certificate.ok and answer.tasks.round(9).tolist() == [2, min(demands[1][2], 1e5)]


@pytest.mark.parametrize("seed", [79, 126, 517, 678])
def test_links_over_six_decades_have_the_flows_of_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(int(rng.integers(2, 6)), 0.6, seed=seed, directed=True)
    for a, b in graph.edges:
        graph.edges[a, b]["capacity"] = float(10 ** rng.uniform(0, 6))
    pairs = [(a, b) for a in graph for b in graph if a != b and nx.has_path(graph, a, b)]
    chosen = rng.choice(len(pairs), min(5, len(pairs)), replace=False).tolist()
    network = fo.networks.instance(graph, [(*pairs[k], float(10 ** rng.uniform(0, 6))) for k in chosen], paths=2)
    flows = [
        fo.networks.MAX_MIN.allocate(network, exact=exact).share(fo.OfTeam(fo.Tasks())).astype(float)
        for exact in (False, True)
    ]
    np.testing.assert_allclose(*flows, rtol=1e-7)


SNDLIB = """?SNDlib native format; type: network; version: 1.0
# a triangle
NODES (
  A ( 13.4 52.5 )
  B ( -1.0 2.0e1 ) () ()
  C ( 0 0 )
)
LINKS (
  L1 ( A B ) 40.00 0.00 0.00 156.00 ( 155.00 1.00 622.00 3.00 )
  L2 ( B C ) 0.00 0.00 0.00 21.00 ( 155.00 1.00 )
  L3 ( A C ) 10.00 0.00 0.00 21.00 ( )
)
DEMANDS (
  D1 ( A B ) 2 15.00 UNLIMITED
  D2 ( A B ) 1 5.00 3
  D3 ( B C ) 1 7.00 UNLIMITED  # after L2
)
"""


def test_a_network_of_sndlib_has_its_links_and_demands(tmp_path: Path) -> None:
    file = tmp_path / "net.txt"
    file.write_text(SNDLIB)
    graph = fo.networks.read(file)
    assert sorted(graph.nodes) == ["A", "B", "C"] and not graph.is_directed()
    assert {(a, b): data.get("capacity") for a, b, data in graph.edges(data=True)} == {
        ("A", "B"): 40.0,
        ("A", "C"): 10.0,
        ("B", "C"): None,
    }
    assert {data.get("module") for *_, data in graph.edges(data=True)} == {155.0, None}
    assert demands_in(graph) == [("A", "B", 35.0), ("B", "C", 7.0)]


def test_the_command_line_takes_the_demands_of_a_graph(tmp_path: Path) -> None:
    file = tmp_path / "net.txt"
    file.write_text(SNDLIB)
    given = ["solve", str(file), "--link-capacity", "100", "--json", "-p", "most-tasks"]
    made = CliRunner().invoke(app, given)
    assert made.exit_code == 0, made.output
    assert sum(json.loads(made.stdout)["tasks"].values()) == pytest.approx(42)  # all of 35 and 7


def test_demands_in_json_are_taken_unless_others_are_given(tmp_path: Path) -> None:
    links = [{"source": "a", "target": "b", "capacity": 4}, {"source": "b", "target": "c", "capacity": 3}]
    graph = {"directed": True, "nodes": [{"id": name} for name in "abc"], "links": links}
    file = tmp_path / "net.json"
    file.write_text(json.dumps(graph | {"demands": [{"source": "a", "target": "c", "volume": 2}]}))
    assert demands_in(fo.networks.read(file)) == [("a", "c", 2)]
    solved = CliRunner().invoke(app, ["solve", str(file), "--json"])
    assert sum(json.loads(solved.stdout)["tasks"].values()) == pytest.approx(2)
    (tmp_path / "others.csv").write_text("source,target\na,b\n")
    solved = CliRunner().invoke(app, ["solve", str(file), "--json", "--demands", str(tmp_path / "others.csv")])
    assert sum(json.loads(solved.stdout)["tasks"].values()) == pytest.approx(4)


@pytest.mark.parametrize(
    ("demands", "message"),
    [([{"source": "a"}], "give a source"), ([{"source": "a", "target": "b", "volume": "x"}], ">= 0")],
)
def test_demands_of_a_graph_that_are_none_are_named(demands: Any, message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        demands_in(nx.Graph(demands=demands))
