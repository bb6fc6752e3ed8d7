"""Options and rankings of a survey: checked, and read from CSV files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.constraints import MinTasks
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import Share, Tasks
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.instance.labels import by_label, refuse_labels
from fairopt.instance.validation import as_floats, labels
from fairopt.io.tables import Column, read_table
from fairopt.policy import Policy
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import NOISE

Questions = dict[str, tuple[dict[str, dict[str, float]], dict[str, list[str]]]]
ENOUGH = 1e60  # capacity if no instance is given


def read(options: str | os.PathLike[str], rankings: str | os.PathLike[str]) -> Questions:
    r"""Read the options and rankings of a survey.

    Parameters
    ----------
    options : path-like
        A CSV file with the columns ``question`` and ``option``; every other column is a user, with its tasks.
    rankings : path-like
        A CSV file with the columns ``person``, ``question``, ``option`` and ``rank`` (1 is the best).

    Returns
    -------
    dict by question
        Options and rankings by person, as `Survey` takes them.

    Raises
    ------
    InvalidInstance
        If a file cannot be read, or columns, options or ranks are missing, unknown, repeated or tied.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "options.csv").write_text("question,option,web,batch\n1,even,3,3\n1,more,5,2")
    >>> _ = (folder / "rankings.csv").write_text("person,question,option,rank\nann,1,even,2\nann,1,more,1")
    >>> fo.tradeoff.preferences.read(folder / "options.csv", folder / "rankings.csv")
    {'1': ({'even': {'web': 3.0, 'batch': 3.0}, 'more': {'web': 5.0, 'batch': 2.0}}, {'ann': ['more', 'even']})}
    """
    table = read_table(options, ("question", "option"))
    users = [name for name in table.columns if name not in ("question", "option")]
    if not users or not len(table):
        raise InvalidInstance(
            f"{table.path} has no {'options' if users else 'users'}; give a line for each option, "
            "and a column with the tasks of each user"
        )
    tasks = np.column_stack([table.numbers(Column(user, fix="give tasks as a number >= 0")) for user in users]).tolist()
    out: Questions = {}
    for row, (question, option) in enumerate(zip(*map(table.texts, ("question", "option")), strict=True)):
        held = out.setdefault(question, ({}, {}))[0]
        if option in held:
            table.refuse(row, "option", f"question {question!r} has option {option!r} twice; labels must differ")
        held[option] = dict(zip(users, tasks[row], strict=True))

    table = read_table(rankings, ("person", "question", "option", "rank"))
    rank = Column("rank", fix="give 1 for the best option, 2 for the next, ...", positive=True)
    at = table.numbers(rank).tolist()
    ranks: dict[tuple[str, str], dict[float, str]] = {}
    columns = (table.texts(name) for name in ("person", "question", "option"))
    for row, (person, question, option) in enumerate(zip(*columns, strict=True)):
        if question not in out:
            table.refuse(row, "question", f"no question {question!r} in {os.fspath(options)}; {nearest(question, out)}")
        given = ranks.setdefault((question, person), {})
        if at[row] in given:
            both = f"options {given[at[row]]!r} and {option!r} alike"
            table.refuse(row, "rank", f"person {person!r} ranks {both}; give a strict ranking, or leave the person out")
        given[at[row]] = option
    for (question, person), given in ranks.items():
        ranking = [given[rank] for rank in sorted(given)]
        who = f"{table.path}, question {question!r}: person {person!r}"
        order_of([*out[question][0]], ranking, who)
        if sorted(given) != [*range(1, len(given) + 1)]:
            raise InvalidInstance(f"{who} has the ranks {sorted(given)}; give 1 to {len(given)}, each once")
        out[question][1][person] = ranking
    for question, (_, answers) in out.items():
        if not answers:
            raise InvalidInstance(f"{table.path} has no answer to question {question!r}; leave the question out")
    return out


class Options(NamedTuple):
    """Checked options: tasks and shares by option and user, and weights of users."""

    labels: tuple[str, ...]
    users: tuple[str, ...]
    tasks: Float
    shares: Float
    weights: Float


def checked_options(options: Any, share: Share, instance: Instance | None) -> Options:
    """Options in any form, checked, with tasks in the order of the instance's users."""
    if not isinstance(instance, Instance) and (instance is not None or share != Tasks()):
        raise InvalidBlock(
            f"instance is {instance!r}, and {share} depends on it; give an Instance (fairopt prefer: "
            "--instance), or measure tasks (gfj)"
        )
    if isinstance(options, (list, tuple)):
        options = dict(enumerate(options))
    elif not isinstance(options, Mapping):
        refuse_labels(options=options)
        options = dict(enumerate(np.atleast_1d(as_floats(options, "options"))))
    if not options:
        raise InvalidInstance("options are empty; give the tasks of each user under each of them")
    if instance is None:
        first = by_label(next(iter(options.values())))
        users = list(first) if isinstance(first, Mapping) else None
        instance = Instance(np.ones((len(users) if users else np.size(first), 1)), [ENOUGH], users=users)
    names = labels(options, len(options), "option") or ()
    tasks = np.array([instance.per_user(row, f"option {k!r}") for k, row in zip(names, options.values(), strict=True)])
    for i, j in np.argwhere(~(np.isfinite(tasks) & (tasks >= 0))):
        user = instance.users[j]
        raise InvalidInstance(f"option {names[i]!r} gives user {user!r} {tasks[i, j]} tasks; give a number >= 0")
    _check_fit(names, tasks, instance)
    per_task, part = share.coefficients(instance, levelled=True), instance.task_limits > 0
    if per_task.ndim == 2:
        raise InvalidInstance(f"{share} differs by server, and options are tasks in total; pool the servers")
    shares = (tasks * per_task)[:, part]
    for i in np.flatnonzero(shares.sum(axis=1) == 0):
        raise InvalidInstance(f"the shares of option {names[i]!r} add up to 0; leave it out")
    return Options(names, instance.users, tasks, shares, instance.weights[part])


def _check_fit(names: Sequence[str], tasks: Float, instance: Instance) -> None:
    """`InvalidInstance` for options beyond task limits or capacities."""
    for i, j in np.argwhere(tasks > instance.task_limits * (1 + NOISE)):
        limit = f"{tasks[i, j]:g} tasks, beyond its limit of {instance.task_limits[j]:g}"
        raise InvalidInstance(f"option {names[i]!r} gives user {instance.users[j]!r} {limit}; give what it may run")
    used, there = tasks @ instance.per_server_demands.min(axis=1), instance.total_capacities
    for i, r in np.argwhere(used > there * (1 + NOISE)):
        raise InvalidInstance(
            f"option {names[i]!r} needs {used[i, r]:g} of {instance.resources[r]!r}, {used[i, r] - there[r]:g} more "
            f"than the capacity {there[r]:g}; give an option that fits, or the instance of this question"
        )
    for name, row in zip(names, tasks, strict=True) if instance.n_servers > 1 else ():
        try:
            Policy(Total(Tasks()), [MinTasks(row * (1 - NOISE))]).allocate(instance)
        except Infeasible as error:
            raise InvalidInstance(f"option {name!r} does not fit on the servers: {error}") from error


def order_of(names: Sequence[str], ranking: Any, who: str) -> list[int]:
    """Indices of the options in the order of a strict ranking; errors begin with ``who``."""
    if isinstance(ranking, (Mapping, str)) or not isinstance(ranking, Iterable):
        raise InvalidInstance(f"{who}: {ranking!r} is not a ranking; give a list of options, the best first")
    out: list[int] = []
    for entry in ranking:
        if isinstance(entry, (list, tuple, set, frozenset)):
            tied = " and ".join(repr(str(x)) for x in entry)
            raise InvalidInstance(f"{who} ranks options {tied} alike; give a strict ranking, or leave the person out")
        if str(entry) not in names:
            raise InvalidInstance(f"{who} ranks an unknown option {str(entry)!r}; {nearest(str(entry), names)}")
        out.append(names.index(str(entry)))
        if out[-1] in out[:-1]:
            raise InvalidInstance(f"{who} ranks option {str(entry)!r} twice; give each option once")
    for k, name in enumerate(names):
        if k not in out:
            raise InvalidInstance(f"{who} leaves out option {name!r}; rank all {len(names)} options")
    return out
