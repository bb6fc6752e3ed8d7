"""Count the lines of the package that ask for the class of an objective or of evidence.

A line counts where it compares the class of something with one of these: by ``isinstance``, ``issubclass``,
``type(...)`` with ``is`` or ``in``, a ``case`` of ``match``, or a table whose keys are classes. Calls of methods that
all of them have do not count.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import fairopt
import fairopt.policies  # so that all are known
import fairopt.proof.evidence.bundles
import fairopt.proof.evidence.kinds
from fairopt.blocks.algebra import Objective
from fairopt.proof.proposal import Evidence

PACKAGE = Path(fairopt.__file__).parent


def subclasses(kind: type) -> Iterator[type]:
    """The classes of the package that are of a kind, without the kind itself."""
    for one in kind.__subclasses__():
        if one.__module__.startswith("fairopt."):
            yield one
        yield from subclasses(one)


def names() -> dict[str, set[str]]:
    """The names of classes, by what they are of."""
    return {
        "objective": {kind.__name__ for kind in subclasses(Objective)},
        "evidence": {kind.__name__ for kind in subclasses(Evidence)},
    }


def mentioned(node: ast.AST) -> set[str]:
    """The names in an expression, as ``Total`` of ``fo.Total``."""
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def asked(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Lines that ask for classes, with the names they compare with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass") and len(node.args) == 2:
                yield node.lineno, mentioned(node.args[1])
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):
            if isinstance(node.left.func, ast.Name) and node.left.func.id == "type":
                yield node.lineno, set().union(*map(mentioned, node.comparators))
        elif isinstance(node, ast.MatchClass):
            yield node.lineno, mentioned(node.cls)
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Name | ast.Attribute):
                    yield key.lineno, mentioned(key)


def count(package: Path = PACKAGE) -> dict[str, Counter[str]]:
    """Lines by file, for each kind."""
    kinds, found = names(), {kind: Counter[str]() for kind in names()}
    for path in sorted(package.rglob("*.py")):
        lines: dict[str, set[int]] = {kind: set() for kind in kinds}
        for line, classes in asked(ast.parse(path.read_text())):
            for kind, known in kinds.items():
                if classes & known:
                    lines[kind].add(line)
        for kind, where in lines.items():
            if where:
                found[kind][str(path.relative_to(package))] = len(where)
    return found


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the counts as JSON")
    parser.add_argument("--files", action="store_true", help="list the files")
    options = parser.parse_args()
    found = count()
    lines = sum(len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py"))
    for kind, by_file in found.items():
        print(f"{kind:10} {sum(by_file.values()):4} lines in {len(by_file):3} files")
        for name, number in by_file.most_common() if options.files else ():
            print(f"  {number:4} {name}")
    print(f"{'package':10} {lines:,} lines")
    if options.out:
        options.out.write_text(json.dumps({"asked": found, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
