"""The queues in a file of another scheduler, known by what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fairopt.errors import InvalidInstance
from fairopt.io import documents_of_yaml, read_text, shown
from fairopt_clusters.read.documents import data_of_file, data_of_text, documents_in_folder, objects_of
from fairopt_clusters.read.kinds import ACCOUNTS, SNAPSHOT
from fairopt_clusters.read.queues import kueue, yarn
from fairopt_clusters.read.queues.kubernetes_objects import LABELS, trees_of_objects
from fairopt_clusters.read.queues.pods import with_work
from fairopt_clusters.read.queues.tree import QueueTree
from fairopt_clusters.read.queues.yarn import place_of, root_of
from fairopt_clusters.read.slurm import accounts

_EXPECTED = "expected queues of KAI, Kueue, Volcano, YuniKorn or YARN, or accounts of Slurm"
_XML = "fair-scheduler.xml (<allocations>) or capacity-scheduler.xml (<configuration>)"


def tree_of_text(text: str, name: str) -> QueueTree | None:
    """The queues in a text that is neither JSON nor YAML, None if it holds none."""
    if text.lstrip().startswith("<"):
        root = root_of(text, name)
        if root.tag == "allocations":
            return yarn.tree_of(root, name)
        if root.tag == "configuration" and yarn.is_capacity_scheduler(root):
            return yarn.tree_of_capacities(root, name)
        raise InvalidInstance(f"{place_of(root, name)}: <{root.tag}> is not read; give YARN's {_XML}")
    if accounts.is_dump(text):
        return accounts.tree_of(accounts.of_dump(text, name), name)
    if accounts.is_shares(text):
        return accounts.tree_of(accounts.of_shares(text, name), name)
    return None


def tree_of_documents(documents: Iterable[tuple[Any, str]], of_kueue: bool = False) -> QueueTree | None:
    """The queues in documents of JSON or YAML, given with their places, None if they hold none.

    Those of Kueue, and accounts beside jobs, only if asked for, since instances have them from elsewhere.
    """
    objects = list[tuple[Mapping[str, Any], str]]()
    trees = list[QueueTree]()
    for data, place in documents:
        if not isinstance(data, Mapping):
            continue
        shares = data if "associations" in data else accounts.of_shares_in_json(data)
        if shares is not None and (of_kueue or "jobs" not in data):  # else they are an instance
            trees.append(accounts.tree_of(shares, place))
        else:
            items = objects_of([(data, "")], place)["items"]
            objects += [(one, f"{place}: {at}" if at else place) for one, at in zip(items, items.places, strict=True)]
    trees += trees_of_objects(objects)
    if of_kueue and (clusters := kueue.tree_of(objects)) is not None:
        trees.append(clusters)
    if len(trees) > 1:
        names = " and ".join(tree.scheduler for tree in trees)
        raise InvalidInstance(f"there are queues of {names}; give those of one scheduler")
    return trees[0] if trees else None


def tree_of_file(path: str | os.PathLike[str]) -> QueueTree:
    """The queues in a file of any format, or in the files of YAML and JSON in a folder.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "fair-scheduler.xml"
    >>> _ = file.write_text('<allocations><queue name="ml"><weight>2</weight></queue></allocations>')
    >>> [(queue.name, queue.weight) for queue in tree_of_file(file).queues]
    [('root.ml', 2.0)]
    """
    return tree_and_objects(path)[0]


def tree_and_objects(path: str | os.PathLike[str]) -> tuple[QueueTree, dict[str, Any]]:
    """The queues of `tree_of_file`, and the list of the objects in a file of JSON or YAML, which is read once."""
    name, between = os.fspath(path), "/" if os.path.isdir(path) else ", "
    documents = documents_at(path)
    if isinstance(documents, QueueTree):
        return documents, objects_of([], name)
    tree = tree_of_documents([(data, f"{name}{between * bool(at)}{at}") for data, at in documents], of_kueue=True)
    if tree is None:
        where = " in its files of YAML and JSON" if os.path.isdir(path) else ""
        raise InvalidInstance(f"{name} holds no queues{where}; {_EXPECTED}")
    objects = objects_of([one for one in documents if isinstance(one[0], Mapping)], name)
    return with_work(tree, objects, name) if tree.scheduler in LABELS else tree, objects


def documents_at(path: str | os.PathLike[str]) -> list[tuple[Any, str]] | QueueTree:
    """The documents of JSON or YAML in a file or a folder, with their places in it; or the queues of another format."""
    name = os.fspath(path)
    if os.path.isdir(path):
        of_slurm = next((file for one in ACCOUNTS if (file := Path(path) / one).exists()), None)
        return documents_in_folder(Path(path)) if of_slurm is None else documents_at(of_slurm)
    if name.lower().endswith(SNAPSHOT):
        return [(data_of_file(path, _EXPECTED), "")]
    text = read_text(path, _EXPECTED)
    tree = tree_of_text(text, name)
    return _documents(text, name) if tree is None else tree


def _documents(text: str, name: str) -> list[tuple[Any, str]]:
    """The documents of JSON or YAML in a text, with their places in it."""
    if text.lstrip().startswith("{"):
        return [(data_of_text(text, name, _EXPECTED, False), "")]
    documents = documents_of_yaml(text, name)
    return [(data, f"document {number}" if len(documents) > 1 else "") for data, number in documents]


def is_file_alone(path: Path, kinds: Sequence[str]) -> bool:
    """Whether a text holds queues, or servers of Slurm, without jobs."""
    return path.is_file() and _alone_in_file(path) is not None


def refuse_file(path: Path, **given: Any) -> NoReturn:
    """Say what a file of queues or servers alone holds, and what is missing."""
    raise _alone_in_file(path) or AssertionError(path)


def _alone_in_file(path: Path) -> InvalidInstance | None:
    from fairopt_clusters.read.slurm.texts import document_of_text

    name, text = os.fspath(path), read_text(path, _EXPECTED)
    if (tree := tree_of_text(text, name)) is not None:
        return without_jobs(tree, name, False)
    document = document_of_text(text, name)
    if document is None or "nodes" not in document:
        return None
    n = len(document["nodes"])
    return InvalidInstance(
        f"{name} holds {n:,} server{'s' * (n != 1)} of Slurm and no jobs; add jobs.json "
        "(squeue --json) in the same folder, and give the folder"
    )


def are_documents_alone(found: Sequence[tuple[Any, str]], options: Mapping[str, Any]) -> bool:
    """Whether a document of JSON or YAML that is no list of objects holds queues."""
    data = found[0][0]
    return len(found) == 1 and isinstance(data, dict) and "kind" not in data and tree_of_documents(found) is not None


def refuse_documents(found: Sequence[tuple[Any, str]], name: str, **given: Any) -> NoReturn:
    """Say what a document of queues alone holds, and what is missing."""
    tree = tree_of_documents([(data, name) for data, _ in found])
    raise without_jobs(tree, name, False) if tree is not None else AssertionError(name)


def without_jobs(tree: QueueTree, name: str, capacity: bool) -> InvalidInstance:
    """The error about queues without anything to share among them: what there is, and what is missing."""
    top = [queue.name for queue in tree.queues if not queue.parent]
    listed = ", ".join(top[:5]) + (", ..." if len(top) > 5 else "")
    pods = "the pods or jobs of the queues in the same list or folder"
    pods += "" if capacity or tree.total() else ", and servers (nodes, or --capacity cpu=64)"
    missing = {
        "Slurm": "jobs.json (squeue --json) and slurm.conf or nodes.json in the same folder, and give the folder",
        "YARN": "a folder with users.csv, whose column team names the queues, and servers.csv",
    }.get(tree.scheduler.partition(" ")[0], pods)
    if tree.scheduler == "KAI" and any(queue.request is not None for queue in tree.queues):
        missing += "; who waits and who borrows, by the status of the queues, says fairopt queues FILE --scheduler kai"
    return InvalidInstance(f"{name} holds {tree.described()} ({shown(listed)[1:-1]}) and no jobs; add {missing}")
