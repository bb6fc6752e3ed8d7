"""Demands over the paths of a network, as instances (the extra ``networks``).

A user is a path, a resource a link, a task a unit of flow, and a team the paths of one demand. Then
``Leximin(OfTeam(Tasks(), inside="any"))``, named `MAX_MIN`, is the max-min fairness of demands over several paths.

The names for users:

* `instance`: a networkx graph and a table of demands as an `Instance`.
* `read`: a graph from GML (as in the Internet Topology Zoo), GraphML, JSON of nodes and links, or a list of edges.
* `flows`: flows of an answer by path, by demand with its bottlenecks, or by link.
* `plot`: the graph with the use of its links.
* The policy `MAX_MIN`.

The files:

* `graph`: links of a graph, and k shortest paths. `demands`: tables of demands. `paths`: both as an instance.
* `files`: readers of graphs. `answers`: by path, demand and link. `picture`: `plot`.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
