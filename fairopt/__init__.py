"""Fairness notions as an objective over users' shares plus constraints, solved exactly and proved correct.

For users, the names at the top are the language and the verbs; results, errors and helpers are public in the packages
below. For maintainers, modules import only from those listed before them:

* `errors`, `runtime`: exceptions; progress, time limits, solvers in subprocesses, imports on first use, text for
  terminals, shared tolerances.
* `checker`: `fairopt verify`, proofs of saved files by the standard library alone; it shares no code with the rest.
* `io`: readers and writers of files and data frames; they return the arguments of an `Instance`.
* `certificate`: the record of what was measured: gap, violation and how they were computed.
* `instance`: the question, checked once: data by label, teams, limits on what users take together, fractions.
* `instances`, `datasets`, `allocation`: generators and the library; instances from files; the answer.
* `blocks`: the language: shares, objectives, constraints, bundle bases, and the `Model` passed to them.
* `proof`: the gate, which makes every certificate, bounds, and the kinds of evidence. It reads programs (`solve.form`)
  and calls no method.
* `derivatives`: prices, tasks and levels differentiated by the numbers of the instance.
* `exact`, `solve`: exact answers in fractions, and intervals; programs, and the methods that solve them.
* `policy`, `scale`: `Policy`; many instances of one shape at once, and users in shards.
* `policies`: named notions and mechanisms; saved answers, certified again.
* `metrics`, `properties`: measures; checks, misreports, audit, proofs, claims.
* `tradeoff`: frontiers, tests for a trade-off, preferences from surveys.
* `online`: the scheduler of whole tasks, and the simulator.
* `questions`: what runs now beside what is fair; what stops a user or team; answers before and after a change; what to
  buy; sums by team and by class of servers.
* `testing`, `plots`: Hypothesis strategies; pictures.
* `networks`: demands over the paths of a network; their flows, bottlenecks and picture.
* `report`, `cli`: comparisons, tables and schemas; the command line, the only package that prints (but for the checker
  when it is run by itself).
"""

from fairopt.runtime import quiet_start  # noqa: F401  # Ctrl-C during all other imports

# isort: split
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fairopt.runtime.extensions import moved
from fairopt.runtime.lazy import public_names, public_places
from fairopt.runtime.progress import progress  # noqa: F401

__version__ = "0.2.0"

_public, _ = public_names(__name__)


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package, imported now."""
    if name in public_places(__name__) or name == "__all__":
        return _public(name)
    # an updated checkout may keep folders of caches of packages that moved, which would be found
    if name.startswith("_") or moved(f"fairopt.{name}") or find_spec(f"fairopt.{name}") is None:
        raise AttributeError(f"module 'fairopt' has no attribute {name!r}{moved(f'fairopt.{name}')}")
    return import_module(f"fairopt.{name}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*public_places(__name__), "__all__", "__doc__", "__version__"])
