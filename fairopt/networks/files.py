"""Graphs from files, and the demands in them: GML, GraphML, JSON of nodes and links, SNDlib, and lists of edges."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance, nearest
from fairopt.io import shown
from fairopt.io.text_files import is_path, read_text
from fairopt.networks.graph import BOTH_WAYS, ONE_WAY, capacity_of, check_capacity, networkx

if TYPE_CHECKING:
    import networkx as nx

ENDINGS = (".gml", ".graphml", ".json", ".txt")
SNDLIB = "?SNDlib"  # at the beginning of a network
_SECTION = re.compile(r"^(NODES|LINKS|DEMANDS)\s*\((.*?)^\s*\)\s*$", re.MULTILINE | re.DOTALL)
_NUMBER = r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)"
_NODE = re.compile(rf"([\w.-]+)\s*\(\s*{_NUMBER}\s+{_NUMBER}\s*\)")
_LINK = re.compile(rf"([\w.-]+)\s*\(\s*([\w.-]+)\s+([\w.-]+)\s*\)\s*{_NUMBER}(?:\s+\S+){{3}}\s*\(([^()]*)\)")
_DEMAND = re.compile(rf"\(\s*([\w.-]+)\s+([\w.-]+)\s*\)\s*{_NUMBER}\s+{_NUMBER}\s+\S+")
EXPECTED = (
    "expected a graph: .gml, .graphml, .json of nodes and links, or .txt with a line 'source target capacity' for each "
    "link"
)


def read(path: str | os.PathLike[str], *, capacity: str | float = "capacity") -> nx.Graph:
    r"""Read a graph from a file.

    Parameters
    ----------
    path : path-like
        ``.gml`` or ``.graphml``, as in the Internet Topology Zoo; ``.json`` of nodes and links, as networkx writes
        them, and perhaps ``demands`` with a ``source``, a ``target`` and a ``volume``; ``.txt``, a network of SNDlib in
        its native format, with its demands, or a line ``source target capacity`` for each directed link, as in NCFlow.
    capacity : str or float, default "capacity"
        The attribute of links with their capacities, which becomes ``capacity``. A number is that of links without one.

    Returns
    -------
    networkx.Graph or networkx.DiGraph
        As the file says. Parallel links are one, of their total capacity, and links from a node to itself are left
        out. Nodes of GML are named by their ids, as labels need not differ. Links of SNDlib have the ``capacity`` that
        is installed, if there is some, and that of their smallest ``module``.

    Raises
    ------
    InvalidInstance
        If it cannot be read, or is none of these.
    MissingExtra
        If networkx is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> file = pathlib.Path(tempfile.mkdtemp(), "ring.txt")
    >>> _ = file.write_text("a b 10\nb c 10\nc a 2.5\n")
    >>> graph = fo.networks.read(file)
    >>> fo.networks.instance(graph, [("a", "c")]).capacities
    array([[10. , 10. ,  2.5]])
    """
    nx = networkx()
    check_capacity(capacity)
    if not is_path(path):
        raise InvalidInstance(f"the path is {path!r}; give the name of a file")
    place = Path(path)
    readers: dict[str, Callable[[str], Any]] = {
        ".gml": _of_gml,
        ".graphml": nx.parse_graphml,
        ".json": _of_json,
        ".txt": _of_txt,
    }
    reader = readers.get(place.suffix.lower())
    if reader is None:
        raise InvalidInstance(f"{place} is no graph by its name; {EXPECTED}")
    text = read_text(place, EXPECTED)
    try:
        graph = reader(text)
    except Exception as error:  # networkx raises errors of many kinds
        words = " ".join(str(error).split())[:200]
        raise InvalidInstance(f"{place} cannot be read as a graph ({words}); {EXPECTED}") from error
    if not graph.number_of_edges():
        raise InvalidInstance(f"{place} has no links; {EXPECTED}")
    return _single(graph, capacity, place)


def _of_gml(text: str) -> Any:
    """A graph of GML, which may have parallel links though it does not say so."""
    several = text if "multigraph" in text else re.sub(r"graph\s*\[", "graph [ multigraph 1 ", text, count=1)
    return networkx().parse_gml(several.splitlines(), label="id")


def _of_json(text: str) -> Any:
    """A graph of nodes and links, under the names that networkx gives them now or gave them before."""
    data = json.loads(text)
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), list):
        raise InvalidInstance("it has no list of nodes")
    edges = "edges" if "edges" in data else "links"
    graph = networkx().node_link_graph(data, edges=edges)
    graph.graph |= {"demands": data["demands"]} if "demands" in data else {}
    return graph


def _of_txt(text: str) -> Any:
    """A network of SNDlib, or a list of directed links."""
    if text.startswith(SNDLIB):
        return _of_sndlib(text)
    nx = networkx()
    return nx.parse_edgelist(text.splitlines(), create_using=nx.MultiDiGraph, data=[("capacity", str)])


def _of_sndlib(text: str) -> Any:
    """A network in SNDlib's native format; links count in both directions together, as its undirected ones."""
    sections = dict(_SECTION.findall(re.sub("#.*", "", text)))
    graph = networkx().MultiGraph(demands=[])
    for name, x, y in _NODE.findall(sections.get("NODES", "")):
        graph.add_node(name, x=float(x), y=float(y))
    for name, source, target, installed, modules in _LINK.findall(sections.get("LINKS", "")):
        sizes = sorted(float(size) for size in modules.split()[::2])
        known = {"capacity": installed} if float(installed) else {}
        graph.add_edge(source, target, id=name, **known, **({"module": sizes[0]} if sizes else {}))
    for source, target, unit, value in _DEMAND.findall(sections.get("DEMANDS", "")):
        graph.graph["demands"].append({"source": source, "target": target, "volume": float(unit) * float(value)})
    return graph


def demands_in(graph: nx.Graph) -> list[tuple[str, str, float]] | None:
    """The demands that a file of a graph has, added up where two have the same ends; None without any."""
    given = graph.graph.get("demands")
    if not isinstance(given, list) or not given:
        return None
    out = dict[tuple[str, str], float]()
    for k, one in enumerate(given):
        if not isinstance(one, dict) or not {"source", "target"} <= one.keys():
            raise InvalidInstance(f"demands[{k}] of the graph is {shown(one)}; give a source, a target and a volume")
        volume = one.get("volume", inf)
        if isinstance(volume, bool) or not isinstance(volume, (int, float)):
            raise InvalidInstance(f"demands[{k}].volume of the graph is {shown(volume)}; give a number >= 0")
        ends = str(one["source"]), str(one["target"])
        out[ends] = out.get(ends, 0.0) + volume
    return [(*ends, volume) for ends, volume in out.items()]


def is_graph(path: Path) -> bool:
    """Whether a file is JSON of nodes and links, or a network of SNDlib."""
    try:
        text = read_text(path, EXPECTED)
        data = {} if text.startswith(SNDLIB) else json.loads(text)
    except (InvalidInstance, ValueError):
        return False
    if text.startswith(SNDLIB):
        return True
    return isinstance(data, dict) and "nodes" in data and ("links" in data or "edges" in data)


def _single(graph: Any, capacity: str | float, place: Path) -> Any:
    """A graph in which parallel links are one, of their total capacity, or without one if one of them has none."""
    nx = networkx()
    made = (nx.DiGraph if graph.is_directed() else nx.Graph)()
    made.graph.update(graph.graph)
    made.add_nodes_from(graph.nodes(data=True))
    attribute, usual = (capacity, None) if isinstance(capacity, str) else ("capacity", capacity)
    known = {name for *_, data in graph.edges(data=True) for name in data}
    if attribute != "capacity" and attribute not in known:
        raise InvalidInstance(f"{place}: no link has {attribute!r}; {nearest(attribute, known)}")
    for a, b, data in graph.edges(data=True):
        if a == b:
            continue
        given, name = data.get(attribute, usual), f"{a}{ONE_WAY if graph.is_directed() else BOTH_WAYS}{b}"
        if given is None and attribute != "capacity":
            raise InvalidInstance(f"{place}: the link {name} has no {attribute!r}; {nearest(attribute, data)}")
        room = None if given is None else capacity_of(name, given)
        before = made.edges[a, b].pop("capacity", None) if made.has_edge(a, b) else 0.0
        joined = {} if room is None or before is None else {"capacity": before + room}
        made.add_edge(a, b, **{name: value for name, value in data.items() if name != "capacity"}, **joined)
    return made
