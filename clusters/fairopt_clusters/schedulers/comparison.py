"""What a scheduler gives queues beside a certified answer, one resource at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairopt import Instance
from fairopt.errors import Infeasible, InvalidInstance, NotCertified, OutOfDomain
from fairopt.io import Notes
from fairopt.runtime import first_of, pandas
from fairopt_clusters.policies.kueue import Kueue as Surplus
from fairopt_clusters.read.queues.teams import positive
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers.base import Deployed, Given, request_of, resources_of, usable_of

if TYPE_CHECKING:
    import pandas as pd


def beside(scheduler: Deployed, tree: QueueTree) -> tuple[pd.DataFrame, list[str]]:
    """What a scheduler gives each queue without queues below, and what leximin beyond guarantees does.

    Of each resource the smallest amount per weight beyond what is owed is as large as possible, then the next, level
    by level, exactly, in divisible amounts. A guarantee counts as far as the queue asks for so much.

    Parameters
    ----------
    scheduler : Deployed
        Such as ``KAI()``.
    tree : QueueTree
        Its queues, with a capacity.

    Returns
    -------
    pandas.DataFrame
        By queue and resource: ``gives``, ``fair`` (not a number where there is none), ``difference``; and ``asks``,
        infinite where that is not known, and ``holds``.
    list of str
        Why there is none, and what was changed for it.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> from fairopt_clusters import Queue, QueueTree
    >>> tree = QueueTree("KAI", tuple(Queue(name, request={"gpu": 0.6}) for name in "ab"), {"gpu": 1})
    >>> table, notes = fc.schedulers.beside(fc.schedulers.KAI(), tree)
    >>> table[["gives", "fair"]].values.tolist(), notes
    ([[1.0, 0.5], [0.0, 0.5]], [])
    """
    gives = scheduler.divide(tree).to_dict()
    given = scheduler.checked(tree)
    mine, asked, rows, notes = scheduler.as_owed(given), request_of(given), list[tuple[Any, ...]](), Notes()
    other = scheduler.divide(replace(tree, queues=tree.queues[::-1])).to_dict()
    differ = [one.name for one in mine.leaves if any(_apart(gives[r][one.name], other[r][one.name]) for r in gives)]
    notes.add("{queue} with another amount if the queues of the file come in another order, by ties", *differ)
    unread = [one.name for one in tree.queues if one.limit] if scheduler.scheduler == "Kueue" else []
    notes.add("the limits of {queue} count for nothing: Kueue has borrowing limits", *unread)
    for name in resources_of(mine):
        try:
            fair = _fair(scheduler, given, mine, name, notes)
        except (Infeasible, InvalidInstance, NotCertified, OutOfDomain) as error:
            notes.say(f"{name}: no certified answer: {error}")
            fair = {}
        for one in given.leaves:
            gets, due = gives[name][one.name], fair.get(one.name, math.nan)
            held = float(one.used.get(name, 0.0))
            rows.append((one.name, name, gets, due, gets - due, asked[one.name][name], held))
    columns = ["queue", "resource", "gives", "fair", "difference", "asks", "holds"]
    return pandas().DataFrame(rows, columns=columns), notes.sentences()


def standing(table: pd.DataFrame) -> list[str]:
    """Who waits for what is fair, and who holds more than that, in words; of the table of `beside`."""
    out = list[str]()
    for name, of in table.groupby("resource", sort=False):
        rows, resource = of[(of["asks"] < math.inf) & of["fair"].notna()], str(name).rpartition(":")[2]
        flavor = f" of {str(name).rpartition(':')[0]}" * (":" in str(name))
        fair, due = rows["fair"], rows[["fair", "asks"]].min(axis=1)
        kinds = {
            "waits for what is fair": rows[_more(due, rows["holds"])],
            "holds more than is fair": rows[_more(rows["holds"], fair)],
        }
        for words, some in kinds.items():
            named = [f"{one.queue} {_shown(one.holds)} of {_shown(one.fair)}" for one in some.itertuples()]
            out += [f"{resource}{flavor}: {words}: {first_of(named)}"] * bool(named)
    return out


def _more(one: Any, other: Any) -> Any:
    """Where amounts are above others by more than rounding."""
    return one - other > 1e-6 * one


def _shown(amount: Any) -> str:
    return f"{float(amount):,.6g}"


def _apart(one: float, other: float) -> bool:
    """Whether amounts differ by more than rounding."""
    return abs(one - other) > 1e-9 * max(one, other)


def _fair(scheduler: Deployed, given: QueueTree, tree: QueueTree, name: str, notes: Notes) -> dict[str, float]:
    """The certified amounts of one resource by queue; ``tree`` says what queues ``given`` are owed."""
    asked, usable = request_of(tree), usable_of(tree)
    leaves = [queue for queue in tree.leaves if asked[queue.name][name] > 0]
    if not leaves:
        return dict.fromkeys((queue.name for queue in tree.leaves), 0.0)
    paths = [[*reversed(tree.above(queue.name)), queue.name] for queue in leaves]
    teams: dict[str, Any] = {
        f"level{k}": [path[k] if k < len(path) else None for path in paths] for k in reversed(range(tree.levels))
    }
    here = {team for of in teams.values() for team in of if team is not None}
    what = "{queue} with a weight of 0 {counts} with a thousandth of the smallest other weight"
    weights = positive({one: weight_of(tree.by_name[one], name) for one in sorted(here)}, what, notes)
    most = {queue.name: usable[queue.name][name] for queue in leaves}
    flat = len(teams) == 1  # users are the queues then, which the methods for users solve faster
    owed = {
        one: amount if flat else {name: amount}
        for one in sorted(here)
        if (amount := owed_of(tree, one, name, usable)) > 0
    }
    limits = [
        {"name": f"limit {k} of {name}", "resource": name, "amount": amount, "of": [one for one in of if one in here]}
        for k, (of, amount) in enumerate(scheduler.sums(given, name, most), 1)
        if not here.isdisjoint(of)
    ]
    instance = Instance(
        [[1.0]] * len(leaves),
        [tree.total()[name]],
        users=[queue.name if flat else f"tasks of {queue.name}" for queue in leaves],
        resources=[name],
        teams={} if flat else teams,
        innermost_first=None if flat else list(teams),
        weights=weights,
        guarantees=owed or None,
        limits=limits or None,
        task_limits=[amount if math.isfinite(amount) else None for amount in most.values()],
    )
    tasks = Surplus().allocate(instance).tasks.tolist()
    return dict.fromkeys((queue.name for queue in tree.leaves), 0.0) | dict(zip(most, tasks, strict=True))


def weight_of(queue: Queue, name: str) -> float:
    """Its weight for a resource."""
    return queue.weights.get(name, queue.weight)


def owed_of(tree: QueueTree, one: str, name: str, usable: Given) -> float:
    """What a queue is owed, as far as it or the queues below it can use so much."""
    below = tree.children[one] or [tree.by_name[one]]
    return min(tree.by_name[one].guarantee.get(name, 0.0), sum(usable[queue.name][name] for queue in below))
