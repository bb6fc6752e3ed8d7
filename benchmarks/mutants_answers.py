"""What mutants.py --answers changes, asks and counts: small changes of the code that makes answers and certificates.

A change is one splice of the source: an operator, comparison, number, truth value, condition, order of two arguments,
``min`` for ``max``, or a statement left out. Only lines that run for the cases are changed, and a change meets the
cases that run it. Cases are answered in a copy of the package, forked from a process that has not imported it; judged
in a process of the unchanged package by `oracle`; and their files checked by a third, with the command alone.
"""

from __future__ import annotations

import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PARTS: dict[str, tuple[str, ...]] = {  # by part of the campaign its folders; the hierarchy is found by its content
    "exact": ("fairopt/exact",),
    "hierarchy": (),
    "gate": ("fairopt/proof",),
}
SECONDS, LATE = 5, 3  # of a case, and how many may take longer before a change is left
MEMORY = 4 << 30
PART = Fraction(1, 1000)  # by which tasks are spoilt
SPOILT = ("scaled", "exchanged")
TOLERANCE = 1e-6
# A change is counted by the worst that it does, the last of these.
WORDS = ("same", "crashed", "raised", "not certified", "refused", "accepted")
COUNTED = WORDS[2:]  # a change that does no more than crash is not counted: any test would notice


# -- cases ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A policy as code on an instance as arguments."""

    given: dict[str, Any]
    policy: str
    exact: bool

    def __str__(self) -> str:
        instance = ", ".join(f"{key}={value!r}" for key, value in self.given.items())
        return f"{self.policy}.allocate(Instance({instance}){', exact=True' * self.exact})"


POOL = {"demands": [[1, 2], [3, 1], [2, 0]], "capacities": [[10, 9]], "weights": [1, 2, 1]}
LIMITED = {
    "demands": [[4, 1, 0], [1, 1, 2], [0, 3, 1], [2, 2, 2]],
    "capacities": [[12, 10, 15]],
    "task_limits": [None, 1.5, 2.25, None],
}
SERVERS = {"demands": [[1, 2], [2, 1], [1, 1]], "capacities": [[7, 9], [10, 4]], "weights": [2, 1, 1]}
PLACED = {
    "demands": [[2, 1], [1, 3], [1, 0]],
    "capacities": [[6, 5], [3, 8], [9, 9]],
    "eligible": [[1, 1, 0], [0, 1, 1], [1, 0, 0]],
    "counts": [1, 2, 1],
    "task_limits": [None, None, 2.5],
}
TEAMS = {
    "demands": [[1, 2], [2, 1], [1, 0], [1, 1]],
    "capacities": [[12, 10]],
    "teams": {"team": ["a", "a", "b", "b"]},
    "task_limits": [1.25, None, None, None],
}
TREE = {
    "demands": [[1, 1], [1, 0], [0, 1], [2, 1], [1, 3]],
    "capacities": [[10, 12]],
    "weights": [1, 1, 2, 1, 1],
    "teams": {"org": ["x", "x", "x", "y", None], "team": ["x1", "x1", "x2", None, None]},
}
FOREST = {
    "demands": [[1, 2], [2, 1], [1, 0], [1, 1]],
    "capacities": [[10, 8], [6, 9]],
    "eligible": [[1, 1], [1, 0], [0, 1], [1, 1]],
    "teams": {"team": ["a", "a", "b", "b"]},
    "weights": [1, 1, 1, 3],
}
ALIKE = TEAMS | {"capacities": [[6, 5], [6, 5]]}
SECURED = POOL | {"guarantees": {"user1": 2.5, "user3": 1}}
SECURED_SERVERS = SERVERS | {"guarantees": {"user2": 3, "user3": 1}}
SECURED_TEAMS = TEAMS | {"guarantees": {"a": {"resource1": 6}, "user4": 1}}
RATES = SERVERS | {"rates": [[1, 2], [3, 1], [0, 1]]}
SPREAD = {"capacities": [[5, 4], [3, 6]], "demands": [[[1, 2], [2, 1]], [[2, 1], [1, 1]], [[1, 1], [1, 3]]]}

BOTH = (True, False)
ASKED: tuple[tuple[dict[str, Any], str, tuple[bool, ...]], ...] = (
    *((given, "DRF()", BOTH) for given in (POOL, LIMITED, SERVERS, PLACED, SECURED, SECURED_SERVERS, SPREAD)),
    (POOL, "KDF(2, short='positive')", BOTH),
    (LIMITED, "KDF(2)", BOTH),
    (PLACED, "TSF()", BOTH),
    (SERVERS, "Policy(Leximin(PNormShare(1)))", BOTH),
    (RATES, "Policy(Leximin(ThroughputShare()))", BOTH),
    (LIMITED, "Policy(MaxMin())", BOTH),
    (SERVERS, "Policy(MaxMin(Tasks()))", BOTH),
    (POOL, "Policy(Total())", BOTH),
    (PLACED, "Policy(Total(Tasks()))", BOTH),
    (LIMITED, "Policy(OrderedWeighted((3, 2, 1)))", BOTH),
    (SERVERS, "Policy(OrderedWeighted((2, 1)))", BOTH),
    (POOL, "Policy(Leximin(), [SharingIncentive()])", BOTH),
    (SERVERS, "Policy(Total(Tasks()), [EnvyFree()])", BOTH),
    (POOL, "Policy(Total(Tasks()), [MinShare(0.25), MaxShare(0.625)])", BOTH),
    (LIMITED, "Policy(MaxMin().then(Total(Tasks())))", BOTH),
    (SERVERS, "Policy(Leximin().then(Total(Tasks())))", BOTH),
    (TEAMS, "Policy(Leximin(OfTeam(DominantShare(), weights={'a': 2})))", BOTH),
    (ALIKE, "Policy(Total(OfTeam(DominantShare())))", (True,)),
    (SECURED, "Policy(Leximin(Surplus()))", BOTH),
    (SECURED_SERVERS, "Policy(Total(Surplus(DominantShare())))", BOTH),
    (SECURED_TEAMS, "DRF()", BOTH),
    (TREE, "HDRF(by=('org', 'team'))", BOTH),
    (TREE, "HDRF(by=('org', 'team'), weights={'x': 2, 'x2': 3})", BOTH),
    (TEAMS, "HDRF()", BOTH),
    (FOREST, "HDRF(weights={'b': 2})", BOTH),
    (FOREST, "HDRF()", BOTH),
    (ALIKE, "HDRF()", BOTH),
    (SECURED_TEAMS, "HDRF()", (False,)),
    (POOL, "FDS(2)", (False,)),
    (SERVERS, "NashWelfare()", (False,)),
    (PLACED, "Policy(AlphaFair(0.5, Tasks()))", (False,)),
    (LIMITED | {"task_limits": None}, "MLFDRS()", BOTH),
)
CASES = tuple(Case(given, policy, exact) for given, policy, ways in ASKED for exact in ways)


# -- changes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A piece of a file, as bytes from ``start`` to ``end``, in whose place another is put."""

    file: str
    start: int
    end: int
    was: str
    becomes: str
    line: int
    first: int  # line of its statement
    how: str

    def made(self, source: bytes) -> bytes:
        """The changed file."""
        return source[: self.start] + self.becomes.encode() + source[self.end :]


OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
DROPPED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break)


def others(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """How a node may be changed, and what it becomes."""

    def copy(**fields: Any) -> Any:
        made = deepcopy(node)
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    if isinstance(node, ast.BinOp):
        yield from (("operator", copy(op=op())) for op in OPERATORS.get(type(node.op), ()))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield "operator", node.operand
    elif isinstance(node, ast.Compare):
        for k, one in enumerate(node.ops):
            for op in COMPARISONS[type(one)]:
                yield "comparison", copy(ops=[*node.ops[:k], op(), *node.ops[k + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield "and, or", copy(op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        yield from (("part left out", part) for part in node.values[:-1])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "number", copy(value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield from (("number", copy(value=v)) for v in (node.value + 1, node.value - 1))
    elif isinstance(node, ast.IfExp):
        yield "condition", copy(body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Call):
        if len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
            yield "arguments", copy(args=[node.args[1], node.args[0], *node.args[2:]])
        if isinstance(node.func, ast.Name) and node.func.id in TWINS:
            yield "function", copy(func=ast.Name(TWINS[node.func.id], ast.Load()))
        if isinstance(node.func, ast.Attribute) and node.func.attr in TWINS:
            yield "function", copy(func=ast.Attribute(node.func.value, TWINS[node.func.attr], ast.Load()))


def changes(file: Path) -> list[Change]:
    """All changes of a file, but of annotations, of texts, and of what is only for type checkers."""
    source = file.read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    found: list[Change] = []

    def add(how: str, node: Any, becomes: str, first: int) -> None:
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        was = source[start:end].decode()
        found.append(Change(str(file.relative_to(ROOT)), start, end, was, becomes, node.lineno, first, how))

    def visit(node: ast.AST, first: int) -> None:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            return
        if isinstance(node, ast.stmt):
            first = node.lineno
            text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, DROPPED) and not text:
                add("statement left out", node, "pass", first)
        if isinstance(node, (ast.If, ast.While)):
            add("condition", node.test, f"(not ({ast.unparse(node.test)}))", first)
        if isinstance(node, ast.expr):
            for how, other in others(node):
                add(how, node, f"({ast.unparse(other)})", first)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, first)

    visit(ast.parse(source), 0)
    return found


def files_of(part: str) -> list[Path]:
    """The files of a part: what defines a filling, wherever it lives but in the checker, is of the hierarchy."""
    everything = sorted((ROOT / "fairopt").rglob("*.py"))
    filling = {file for file in everything if "\nclass Filling" in file.read_text(encoding="utf-8")}
    tree = {file for file in everything if file.name == "hierarchy.py" or file in filling}
    tree = {file for file in tree if ROOT / "fairopt/checker" not in file.parents}
    inside = {file for file in everything for folder in PARTS[part] if ROOT / folder in file.parents}
    return sorted(inside | tree if part == "hierarchy" else inside - tree)


# -- answering, in a process that forks one for every change -------------------------------------------------------


class TooLong(BaseException):
    """A case that takes too long; not an `Exception`, which a changed package may catch."""


def serve() -> None:
    """Answer what is asked line by line on the standard input; see `Answers.of`."""
    from mutants import IMPORTED

    for module in IMPORTED:
        __import__(module)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            try:
                _answer(**asked)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        print("done", flush=True)


def _answer(root: str, jobs: list[tuple[int, str]], folder: str, record: str | None) -> None:
    """Answer cases by the package in ``root``, into ``folder``: a line of results.jsonl for each."""
    assert "fairopt" not in sys.modules
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(quiet, stream)
    sys.path[:0] = [root]
    sys.dont_write_bytecode = not record
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    ran: dict[str, dict[str, set[int]]] = {}  # lines by case and file; those at import by no case
    if record:
        _trace(str(Path(root, "fairopt")), ran.setdefault("", {}))
        __import__("fairopt")
    late = 0
    with Path(folder, "results.jsonl").open("w", encoding="utf-8") as results:
        for k, how in jobs:
            if record:
                _trace(str(Path(root, "fairopt")), ran.setdefault(str(k), {}))
            path = Path(folder, f"{k}{how}.json")
            signal.alarm(60 if record or (k, how) == tuple(jobs[0]) else SECONDS)  # tracing and imports take long
            try:
                found = _one(CASES[k], how, path)
            except BaseException as error:
                ours = any(one.__name__ == "FairoptError" for one in type(error).__mro__)
                found = {"error": type(error).__name__, "ours": ours, "text": str(error)[:200]}
            finally:
                signal.alarm(0)
            late += found.get("error") == TooLong.__name__
            results.write(json.dumps({"case": k, "how": how} | found) + "\n")
            results.flush()
            if late == LATE:
                break
    if record:
        sys.settrace(None)
        lists = {case: {file: sorted(lines) for file, lines in files.items()} for case, files in ran.items()}
        Path(record).write_text(json.dumps(lists), encoding="utf-8")


def _trace(under: str, ran: dict[str, set[int]]) -> None:
    """Note from now on which lines of the package run."""

    def line(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            ran.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return line

    sys.settrace(lambda frame, event, _: line if frame.f_code.co_filename.startswith(under) else None)


def _too_long(*_: Any) -> None:
    raise TooLong(f"no answer in {SECONDS} s")


def _one(case: Case, how: str, path: Path) -> dict[str, Any]:
    """The answer to a case, as numbers, and saved."""
    import numpy as np

    import fairopt as fo

    policy = eval(case.policy, {name: getattr(fo, name) for name in fo.__all__})
    options = {"exact": True} if case.exact else {}
    with _spoilt(how):
        answer = policy.allocate(fo.Instance(**case.given), **options)
    try:
        answer.save(path)
        saved = True
    except Exception:
        saved = False
    fractions = None if answer.exact_tasks is None else np.vectorize(str, otypes=[object])(answer.exact_tasks).tolist()
    return {
        "ok": bool(answer.certificate.ok),
        "tasks": np.asarray(answer.tasks_by_server, dtype=float).tolist(),
        "exact": fractions,
        "bundles": None if answer.given_bundles is None else np.asarray(answer.given_bundles, dtype=float).tolist(),
        "objective": float(answer.objective),
        "saved": saved,
    }


@contextmanager
def _spoilt(how: str) -> Iterator[None]:
    """Tasks that methods propose are changed by `PART` before the gate sees them: scaled, or moved to another user."""
    if not how:
        yield
        return
    import numpy as np

    from fairopt.proof import gate

    def wrong(values: Any) -> Any:
        if not isinstance(values, np.ndarray) or not values.size:
            return values
        part = PART if values.dtype == object else float(PART)
        out = values.copy()
        if how == "scaled":
            return out * (1 - part)
        flat = out.reshape(-1)
        some = np.flatnonzero(flat != 0)
        if len(some) > 1:
            moved = flat[some[0]] * part
            flat[some[0]] -= moved
            flat[some[-1]] += moved
        return out

    def through(name: str, position: int) -> None:
        whole = getattr(gate, name)

        def changed(*args: Any, **options: Any) -> Any:
            given = list(args)
            if len(given) > position:
                given[position] = wrong(given[position])
            return whole(*given, **options)

        setattr(gate, name, changed)

    honest = gate.judge

    def judge(program: Any, proposal: Any) -> Any:
        evidence = proposal.evidence
        if getattr(evidence, "settle", None) is not None:
            evidence.pool.each(evidence.settle)
            evidence.settle = None
        proposal = replace(proposal, tasks=wrong(proposal.tasks), bundles=wrong(proposal.bundles))
        return honest(program, proposal)

    gate.judge = judge
    for name, position in (("of_filling", 2), ("exact", 2)):
        if hasattr(gate, name):
            through(name, position)
    yield


class Answers:
    """Answers of copies of the package, by a process that forks one for each.

    Parameters
    ----------
    folder : Path
        Where files go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-c", "import mutants_answers; mutants_answers.serve()"]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        self.server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        )

    def of(self, root: Path, jobs: Sequence[tuple[int, str]], record: Path | None = None) -> list[dict[str, Any]]:
        """What became of cases, each as it is asked or with tasks spoilt."""
        asked = {"root": str(root), "jobs": list(jobs), "folder": str(self.folder)}
        assert self.server.stdin and self.server.stdout
        (self.folder / "results.jsonl").write_text("", encoding="utf-8")
        self.server.stdin.write(json.dumps(asked | {"record": record and str(record)}) + "\n")
        self.server.stdin.flush()
        self.server.stdout.readline()
        lines = (self.folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        lost = {"error": "killed", "ours": False, "text": "the process ended"}
        return found + [{"case": k, "how": how} | lost for k, how in jobs[len(found) :]]


# -- judging, by the unchanged package ------------------------------------------------------------------------------


@cache
def _policy(case_number: int) -> Any:
    import fairopt as fo

    return eval(CASES[case_number].policy, {name: getattr(fo, name) for name in fo.__all__})


@cache
def _truth(k: int) -> list[Any]:
    """What a case determines, exactly: by the oracles, which share no code with fairopt; None where that is a float."""
    import verify_truth as truth

    case = CASES[k]
    return truth.determined(truth.given_of(case.given), _policy(k))


def changed(k: int, found: dict[str, Any], reference: dict[str, Any]) -> str:
    """In what an answer differs from what is right: nothing if in nothing beyond tolerances, of exact answers 0."""
    import verify_truth as truth

    case, given = CASES[k], truth.given_of(CASES[k].given)
    exact = case.exact and found["exact"] is not None
    if case.exact and not exact and found["bundles"] is None:
        return "no exact tasks"
    table = [[Fraction(v) for v in row] for row in (found["exact"] if exact else found["tasks"])]
    over = truth.excess(given, _policy(k), table)
    if over > (0 if exact else 2e-7):
        return f"infeasible by {float(over):.1e}"
    mine, right = truth.values(given, _policy(k), table, found["bundles"]), _truth(k)
    theirs = [r if r is not None else v for r, v in zip(right, truth_floats(k, reference), strict=True)]
    size = max(map(abs, map(float, theirs)), default=0.0)
    for one, other in zip(mine, theirs, strict=True):
        if one != other and (exact or abs(float(one) - float(other)) > TOLERANCE * max(abs(float(other)), 1e-3 * size)):
            return f"{float(one):.9g} for {float(other):.9g}"
    objective, known = found["objective"], reference["objective"]
    if not abs(objective - known) <= TOLERANCE * abs(known):
        return f"objective {objective:.9g} for {known:.9g}"
    if exact:
        rows = zip(found["tasks"], table, strict=True)
        if any(abs(x - float(y)) > 1e-12 * abs(x) for row, right in rows for x, y in zip(row, right, strict=True)):
            return "tasks are not the rounded exact ones"
    return ""


def truth_floats(k: int, reference: dict[str, Any]) -> list[Any]:
    """What the answer of the unchanged package is worth."""
    import verify_truth as truth

    table = [[Fraction(v) for v in row] for row in (reference["exact"] or reference["tasks"])]
    return truth.values(truth.given_of(CASES[k].given), _policy(k), table, reference["bundles"])


class Campaign:
    """Copies of the checkout, one of which is changed, and what the cases answer.

    Parameters
    ----------
    folder : Path
        Where the copies go.
    """

    def __init__(self, folder: Path) -> None:
        self.clean, self.mutated = folder / "clean", folder / "mutated"
        ignored = shutil.ignore_patterns("__pycache__")
        for copy in (self.clean, self.mutated):
            shutil.copytree(ROOT / "fairopt", copy / "fairopt", ignore=ignored)
        (folder / "answers").mkdir()
        self.answers = Answers(folder / "answers")
        everything = [(k, "") for k in range(len(CASES))]
        self.lines = folder / "lines"
        self.reference = self.answers.of(self.mutated, everything, self.lines)
        for found in self.reference:
            k = found["case"]
            if "error" in found:
                raise RuntimeError(f"{CASES[k]}: {found['error']}: {found['text']}")
            if wrong := changed(k, found, found) or ("" if found["ok"] else "not certified"):
                raise RuntimeError(f"{CASES[k]} is wrong without a change: {wrong}")
            if not self.accepted(self.answers.folder / f"{k}.json"):
                raise RuntimeError(f"{CASES[k]} is refused by the checker without a change")

    def accepted(self, file: Path) -> bool:
        """Whether the checker of the unchanged package accepts a file: in a process of its own, from the file alone."""
        command = [sys.executable, "-m", "fairopt.checker", str(file)]
        environment = os.environ | {"PYTHONPATH": str(self.clean)}
        try:
            done = subprocess.run(command, env=environment, cwd=file.parent, capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def candidates(self, part: str) -> list[tuple[Change, list[int]]]:
        """Changes of a part, with the cases that run the statement; all where it only runs at import."""
        ran = json.loads(self.lines.read_text(encoding="utf-8"))
        out = []
        for file in files_of(part):
            there = str(self.mutated / file.relative_to(ROOT))
            by_case = {case: {*files.get(there, ())} for case, files in ran.items()}
            for change in changes(file):
                lines = {*range(change.first, change.line + 1)}
                cases = sorted(int(case) for case, of_case in by_case.items() if case and of_case & lines)
                imported = not cases and by_case[""] & lines
                if cases or imported:
                    out.append((change, cases or list(range(len(CASES)))))
        return out

    def tried(self, change: Change, cases: list[int], part: str) -> dict[str, Any]:
        """The worst that a change does, and where."""
        file, begun = self.mutated / change.file, time.perf_counter()
        source = file.read_bytes()
        jobs = [(k, how) for k in cases for how in ("", *(SPOILT if part == "gate" else ()))]
        file.write_bytes(change.made(source))
        try:
            results = self.answers.of(self.mutated, jobs)
        finally:
            file.write_bytes(source)
        worst, where, what = "same", "", ""
        for found in results:
            word, why = self.judged(found)
            if WORDS.index(word) > WORDS.index(worst):
                worst, what = word, why
                where = f"{CASES[found['case']]}{found['how'] and ', tasks ' + found['how']}"
        change_as = {"file": change.file, "line": change.line, "how": change.how}
        text = {"was": " ".join(change.was.split()), "becomes": " ".join(change.becomes.split())}
        seconds = round(time.perf_counter() - begun, 1)
        return {"part": part} | change_as | text | {"word": worst, "what": what, "case": where, "seconds": seconds}

    def judged(self, found: dict[str, Any]) -> tuple[str, str]:
        """A word of `WORDS` for a result, and what is wrong with it."""
        if "error" in found:
            if found["how"] and found["ours"]:
                return "same", ""  # as it should be
            return "raised" if found["ours"] else "crashed", f"{found['error']}: {found['text']}"
        try:
            wrong = changed(found["case"], found, self.reference[found["case"]])
        except (ValueError, OverflowError) as error:  # not finite, or of another shape
            wrong = f"not an answer: {error}"
        if not wrong:
            return "same", ""
        if not found["ok"]:
            return ("same", "") if found["how"] else ("not certified", wrong)
        if not found["saved"]:
            return "refused", f"{wrong}, which cannot be saved"
        file = self.answers.folder / f"{found['case']}{found['how']}.json"
        return ("accepted" if self.accepted(file) else "refused"), wrong


def run(many: int, parts: list[str], seed: int) -> None:
    """Draw changes until so many change an answer, and print what became of them.

    Parameters
    ----------
    many : int
        Changes that change an answer, over all parts.
    parts : list of str
        Keys of `PARTS`.
    seed : int
        Of the draw.
    """
    from common import OUT, show

    begun, results = time.process_time(), list[dict[str, Any]]()
    counts: dict[str, Counter[str]] = {part: Counter() for part in parts}
    with tempfile.TemporaryDirectory() as name:
        campaign = Campaign(Path(name))
        print(f"{len(CASES)} cases, {time.process_time() - begun:.0f} s", flush=True)
        drawn = {part: campaign.candidates(part) for part in parts}
        for part, found in drawn.items():
            print(f"{part}: {len(found)} changes in {len({c.file for c, _ in found})} files", flush=True)
            random.Random(f"{seed} {part}").shuffle(found)
        OUT.mkdir(exist_ok=True)
        with suppress(KeyboardInterrupt):  # prints what was done
            while any(drawn.values()):
                effective = {part: sum(count[word] for word in COUNTED) for part, count in counts.items()}
                if sum(effective.values()) >= many:
                    break
                part = min((part for part in parts if drawn[part]), key=lambda name: effective[name])
                change, cases = drawn[part].pop()
                result = campaign.tried(change, cases, part)
                results.append(result)
                counts[part][result["word"]] += 1
                print("{part} {file}:{line} {how}: {word} in {seconds} s {what}".format(**result)[:200], flush=True)
                (OUT / "mutants-answers-all.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
        campaign.answers.server.kill()
    rows = [{"part": p, "changes": c.total(), **{w: c[w] for w in WORDS}} for p, c in counts.items()]
    rows.append({"part": "all", **{key: sum(row[key] for row in rows) for key in ("changes", *WORDS)}})
    for result in results:
        if result["word"] == "accepted":
            print("accepted: {file}:{line} ({how})\n  {was}\n  {becomes}\n  {case}\n  {what}".format(**result))
    show(f"changes that change an answer, seed {seed}", rows, "mutants-answers")
