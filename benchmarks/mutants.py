"""Mutation tests: does a package's own test suite notice one small change in the package?

For each package, ``--each`` places are drawn from all that cosmic-ray can change, and one change for each: another
operator or comparison, a number plus or minus 1, ``and`` for ``or``, a condition negated, a loop that does not run,
an exception that is not caught. Annotations are left out, as they are not evaluated; nothing else is. Each change is
tested in a copy of the checkout, up to the first test that fails, by the package's tests that run the changed
statement when nothing is changed, fast ones first; by all of the package's tests where none does, as for constants. A
test that takes a minute longer than before counts as failed. Changes that survived are listed below the table.

Run: python benchmarks/mutants.py [--packages proof,pool,properties --each 60 --seed 1]
     python benchmarks/mutants.py --again  (the changes that survived the last run, by all tests of the package)
     python benchmarks/mutants.py --answers 200 [--parts exact,hierarchy,gate --seed 1]

With ``--answers`` another question is asked: do the gate or the checker stop a wrong answer? Changes of what answers
(fairopt/exact, the hierarchy) and of the gate are drawn until so many change an answer to one of some 70 small cases,
or take it away. A case is a policy on an instance whose tasks, levels and value the oracles know in fractions; an
answer is changed if it differs by more than 1e-6, an exact one if it differs. For a change of the gate each case is
also asked with tasks moved or scaled by 1e-3 on their way to the gate. The worst that
a change does is counted, in this order:

same           no answer differs.
crashed        an error that is not fairopt's, which any use shows; not counted among those that change an answer.
raised         NotCertified, Infeasible or another error of fairopt.
not certified  a wrong answer, whose certificate is not ok.
refused        a wrong answer with a certificate, whose file the unchanged checker refuses in its own process.
accepted       a wrong answer that both accept; printed with its case. There should be none.

The tools are installed by ``pip install -e '.[measure]'``. The sources must not change between the two.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "proof": ("fairopt/proof", "tests/proof"),
    "pool": ("fairopt/solve/pool", "tests/solve/pool"),
    "properties": ("fairopt/properties", "tests/properties"),
}
PATIENCE = 60  # seconds of a test, at least
# By the process that tests are forked from. Not Hypothesis, which would import fairopt.
IMPORTED = ["cvxpy", "scipy.optimize", "scipy.sparse.linalg", "typer.testing", "pydantic", "pytest"]


def drawn(package: str, each: int, seed: int) -> list[dict[str, Any]]:
    """Changes at different places of a package, in the order of its files.

    Parameters
    ----------
    package : str
        A key of `PACKAGES`.
    each : int
        How many.
    seed : int
        Of the draw.

    Returns
    -------
    list of dict
        File, operator of cosmic-ray, which of its occurrences in the file, and place.
    """
    from cosmic_ray.commands import init
    from cosmic_ray.modules import find_modules
    from cosmic_ray.work_db import WorkDB, use_db

    places = defaultdict(list)
    files = sorted(find_modules([ROOT / PACKAGES[package][0]]))
    annotated = {file: _annotations(file) for file in files}
    with tempfile.TemporaryDirectory() as folder, use_db(Path(folder, "work"), WorkDB.Mode.create) as work:
        init(files, work, {})
        for item in work.work_items:
            (change,) = item.mutations
            if not any(start <= tuple(change.start_pos) < end for start, end in annotated[change.module_path]):
                places[change.module_path, tuple(change.start_pos)].append(change)
    chance = random.Random(f"{seed} {package}")
    chosen = []
    for place in sorted(chance.sample(sorted(places), min(each, len(places)))):
        change = chance.choice(sorted(places[place], key=lambda m: (m.operator_name, m.occurrence)))
        file, (line, column) = place
        found = {"package": package, "file": str(file.relative_to(ROOT)), "line": line, "column": column}
        chosen.append(found | {"operator": change.operator_name, "occurrence": change.occurrence})
    return chosen


def _annotations(file: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations start and end, in a file whose annotations are not evaluated."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    if not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        return []
    nodes = [getattr(node, key, None) for node in ast.walk(tree) for key in ("annotation", "returns")]
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in nodes if isinstance(n, ast.expr)]


class Watch:
    """What pytest calls while it runs tests: a plugin that sorts and times them, and ends those that take too long.

    Parameters
    ----------
    seconds : dict of str to float
        How long each test took when nothing was changed. These run first, fast ones before slow ones.
    measured : coverage.Coverage, optional
        What records lines, to be told which test runs.
    """

    def __init__(self, seconds: dict[str, float], measured: Any = None) -> None:
        self.seconds, self.measured = seconds, measured
        self.took: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Put fast tests first."""
        items.sort(key=lambda item: self.seconds.get(item.nodeid, float("inf")))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Start the clock."""
        signal.alarm(PATIENCE + int(10 * self.seconds.get(nodeid, 0.0)))
        self.took[nodeid] = -time.perf_counter()
        if self.measured:
            self.measured.switch_context(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Stop the clock; what comes between tests has another one."""
        signal.alarm(PATIENCE)
        self.took[nodeid] += time.perf_counter()


class Copy:
    """A copy of the checkout, in which the tests of one package meet one change after another.

    Parameters
    ----------
    folder : Path
        Where the copy goes.
    package : str
        A key of `PACKAGES`.
    """

    def __init__(self, folder: Path, package: str) -> None:
        self.folder, self.said, self.lines = folder / "checkout", folder / "said", folder / "lines"
        self.package, self.tests = PACKAGES[package]
        ignored = shutil.ignore_patterns(".*", "__pycache__", "out", "_build", "generated")
        shutil.copytree(ROOT, self.folder, ignore=ignored)
        start = time.perf_counter()
        if self._run([self.tests], record=True):
            raise RuntimeError(f"the tests of {package} fail without a change:\n{self.said.read_text()}")
        self.seconds = json.loads(self.lines.with_suffix(".json").read_text())
        print(f"{package}: {len(self.seconds)} tests, {time.perf_counter() - start:.0f} s", flush=True)

    def tested(self, change: dict[str, Any], all_tests: bool) -> dict[str, Any]:
        """What became of a change: what it reads like, whether it survived, and else which test failed.

        Parameters
        ----------
        change : dict
            One of `drawn`.
        all_tests : bool
            Whether to run the tests, too, that do not run the changed line: constants of modules, what is cached, and
            processes that tests start may bring it to them.
        """
        from cosmic_ray.mutating import use_mutation
        from cosmic_ray.plugins import get_operator

        file = self.folder / change["file"]
        tests = self._that_run(file, change["line"])
        start = time.perf_counter()
        with use_mutation(file, get_operator(change["operator"])(), change["occurrence"]) as (before, after):
            if after is None:
                raise RuntimeError(f"{change['file']} is not the file that the changes were drawn from")
            code = self._run([self.tests] if all_tests or not tests else sorted(tests), tests)
        became = {0: "survived", -signal.SIGALRM: "timeout"}.get(code, "killed")
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", self.said.read_text(), re.MULTILINE)
        pairs = zip(before.splitlines(), after.splitlines(), strict=True)
        lines = next((" ".join(a.split()), " ".join(b.split())) for a, b in pairs if a != b)
        result = {"was": lines[0], "becomes": lines[1], "result": became, "by": failed.group(1) if failed else ""}
        return change | result | {"tests": len(tests), "seconds": round(time.perf_counter() - start, 1)}

    def _that_run(self, file: Path, line: int) -> dict[str, float]:
        """Seconds of the tests that run the statement of a line when nothing is changed."""
        from coverage import CoverageData

        data = CoverageData(str(self.lines))
        data.read()
        tree = ast.parse(file.read_text(encoding="utf-8"))
        statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
        begins = [min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))]) for n in statements]
        around = [b for b, n in zip(begins, statements, strict=True) if b <= line <= (n.end_lineno or b)]
        ran = data.contexts_by_lineno(str(file))
        tests = {test for k in range(max(around), line + 1) for test in ran.get(k, ())}
        return {test: self.seconds[test] for test in tests if test in self.seconds}

    def _run(self, tests: list[str], seconds: dict[str, float] | None = None, record: bool = False) -> int:
        """The exit code of tests up to the first failure, run in a fork of this process, which has imported much."""
        import pytest
        from coverage import Coverage

        assert "fairopt" not in sys.modules
        child = os.fork()
        if not child:
            os.chdir(self.folder)
            sys.path[:0] = [str(self.folder)]
            os.environ["PYTHONPATH"] = str(self.folder)
            sys.dont_write_bytecode = not record  # two changes within a second would be taken for the same file
            output = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            signal.alarm(PATIENCE)
            measured = Coverage(str(self.lines), config_file=False, source=[self.package]) if record else None
            if measured:
                measured.start()
            watch = Watch(seconds or {}, measured)
            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=[watch])
            if measured:
                measured.stop()
                measured.save()
                self.lines.with_suffix(".json").write_text(json.dumps(watch.took))
            sys.stdout.flush()
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(packages: list[str], each: int, seed: int, again: bool) -> None:
    """Draw and test changes, and print what became of them.

    Parameters
    ----------
    packages : list of str
        Keys of `PACKAGES`.
    each : int
        Changes in a package.
    seed : int
        Of the draw.
    again : bool
        Whether to test those of the last run that survived, in place of new ones.
    """
    for module in IMPORTED:
        importlib.import_module(module)
    from common import OUT, show

    OUT.mkdir(exist_ok=True)
    rows = []
    for package in packages:
        kept = OUT / f"mutants_{package}.json"
        results = json.loads(kept.read_text()) if again else drawn(package, each, seed)
        kept.write_text(json.dumps(results, indent=1))
        with tempfile.TemporaryDirectory() as folder:
            copy = Copy(Path(folder), package)
            for k, change in enumerate(results):
                if change.get("result", "survived") == "survived":
                    results[k] = copy.tested(change, again)
                    print("{file}:{line} {result} in {seconds} s {by}".format(**results[k]), flush=True)
                    kept.write_text(json.dumps(results, indent=1))
        count = [change["result"] for change in results].count
        row = {"package": PACKAGES[package][0], "changes": len(results), "killed": count("killed")}
        rows.append(row | {"timeouts": count("timeout"), "survived": count("survived")})
        for change in results:
            if change["result"] == "survived":
                print("survived: {file}:{line}\n  {was}\n  {becomes}".format(**change))
    show(f"changes that the tests of a package notice, seed {seed}", rows, "mutants")


if __name__ == "__main__":
    import mutants_answers
    from common import arguments

    parts = [*mutants_answers.PARTS]
    options = arguments(str(__doc__), packages=[*PACKAGES], each=60, seed=1, again=False, answers=0, parts=parts)
    if options.answers:
        mutants_answers.run(options.answers, options.parts, options.seed)
    else:
        run(options.packages, options.each, options.seed, options.again)
