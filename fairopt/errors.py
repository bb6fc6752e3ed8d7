"""The errors of fairopt, in one tree, split by what the caller should do.

* Fix the input: `InvalidInstance`, `InvalidBlock`, `InvalidProblem`, `UnknownName`.
* Accept that there is no allocation: `OutOfDomain`, `Infeasible`, `Unbounded`, `NotConcave`.
* Try another way: `NotCertified` (another solver, more time), `SolverUnavailable`, `MissingExtra` (install it),
  `OutOfMemory` (a smaller problem, or a larger machine), `OutOfTime` (more time).
"""

from __future__ import annotations

import difflib
import errno
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from fairopt.runtime.display import visible

__all__ = [
    "FairoptError",
    "Infeasible",
    "InvalidBlock",
    "InvalidInstance",
    "InvalidProblem",
    "MissingExtra",
    "NotCertified",
    "NotConcave",
    "OutOfDomain",
    "OutOfMemory",
    "OutOfTime",
    "SolverUnavailable",
    "Unbounded",
    "UnknownName",
    "nearest",
    "optional",
]


class FairoptError(Exception):
    """Base of every error that fairopt raises on purpose.

    Examples
    --------
    >>> import fairopt as fo
    >>> try:
    ...     fo.Instance([[1, 0], [0, 0]], [4, 4])
    ... except fo.FairoptError as error:
    ...     print(type(error).__name__)
    InvalidInstance
    """

    def __str__(self) -> str:
        return visible(Exception.__str__(self))  # of labels and values from files too; `KeyError` would add quotes


class InvalidInput(FairoptError, ValueError):
    """Base of errors in the input; the message names the place, the value and the fix."""


class InvalidInstance(InvalidInput):
    """Invalid demands, capacities, labels or files; also a ``ValueError``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Instance([[1, 0], [-1, 1]], [4, 4])
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: demands of user 'user2' for resource 'resource1' is -1.0; give a finite number >= 0
    """


class InvalidBlock(InvalidInput):
    """A block or policy with invalid parameters, or an unknown name; also a ``ValueError``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.AlphaFair(-1)
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidBlock: alpha is -1; give a finite number >= 0; for alpha = infinity use Leximin
    """


class InvalidProblem(InvalidInput):
    """A CVXPY problem that `certify` cannot read, or invalid limits of its variables; also a ``ValueError``.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import fairopt as fo
    >>> x, price = cp.Variable(name="x"), cp.Parameter(name="price")
    >>> fo.certify(cp.Problem(cp.Minimize(price * x), [x >= 1]))
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidProblem: the parameter 'price' has no value; give it one, and solve the problem
    """


class UnknownName(InvalidInput, KeyError):
    """A name that a collection does not have; the message suggests near ones; also a ``KeyError``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.datasets.library()["ghodsi-2011-exampel"]
    Traceback (most recent call last):
        ...
    fairopt.errors.UnknownName: the library has no 'ghodsi-2011-exampel'; did you mean 'ghodsi-2011-example'...
    """


class NoAnswer(FairoptError):
    """Base of errors for valid input that has no allocation."""


class OutOfDomain(NoAnswer):
    """A notion that is undefined for the instance, such as 2-DF for a user who needs only one resource.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.KDF(2).allocate(fo.Instance([[1, 2], [1, 0]], [4, 4]))
    Traceback (most recent call last):
        ...
    fairopt.errors.OutOfDomain: user 'user2' has a zero KDominantShare(2): it demands fewer than k = 2 resources; ...
    """


class Infeasible(NoAnswer):
    """Constraints that no allocation satisfies together.

    Attributes
    ----------
    conflict : tuple of str
        An irreducible set of constraints that cannot hold together: if any one is removed, the others can. The domain
        of a user-defined objective, such as of a logarithm, counts as a constraint.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8], [8, 5]], [200, 200], users=["batch", "web"], resources=["cpu", "memory"])
    >>> try:
    ...     fo.Policy(fo.Total(), [fo.MinTasks({"batch": 4}), fo.MinTasks({"web": 10})]).allocate(cluster)
    ... except fo.errors.Infeasible as error:
    ...     error.conflict
    ('the capacity of cpu', "`MinTasks({'batch': 4.0})`", "`MinTasks({'web': 10.0})`")
    """

    def __init__(self, message: str, conflict: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.conflict = conflict


class Unbounded(NoAnswer):
    """An objective without a maximum: one with an unbounded variable of its own, as tasks are always bounded.

    Examples
    --------
    >>> import cvxpy as cp, fairopt as fo
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Free(fo.Objective):
    ...     def expression(self, model):
    ...         return cp.sum(model.tasks) + model.variable()
    >>> fo.Policy(Free()).allocate(fo.Instance([[1]], [4]))
    Traceback (most recent call last):
        ...
    fairopt.errors.Unbounded: Free() grows without bound in variables of its own; bound them by lower or upper
    """


class NotConcave(NoAnswer):
    """An objective that is not concave, or a constraint that is not convex, so that no optimum can be proved.

    Examples
    --------
    >>> import fairopt as fo
    >>> uneven = fo.FairnessEfficiency(beta=2, lam=-0.1)
    >>> fo.Policy(uneven + fo.Total()).allocate(fo.Instance([[2, 3], [2, 1]], [6, 4]))
    Traceback (most recent call last):
        ...
    fairopt.errors.NotConcave: FairnessEfficiency(beta=2, lam=-0.1) is not concave, so it can only stand alone, for ...
    """


class TryAnother(FairoptError):
    """Base of errors for answers that exist but were not found in this way."""


class NotCertified(TryAnother):
    """An answer that could not be certified within the tolerance.

    Attributes
    ----------
    best : Allocation or None
        The best allocation found, for inspection only.
    tried : tuple of Try
        The attempts, in order.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> try:
    ...     fo.MostTasks().allocate(cluster, solver="CLARABEL", solver_options={"max_iter": 1})
    ... except fo.errors.NotCertified as error:
    ...     print(error.best.certificate.ok, error.tried[0].solver)
    False CLARABEL
    """

    def __init__(self, message: str, best: Any = None, tried: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.best = best
        self.tried = tried


class SolverUnavailable(TryAnother):
    """A solver that is unknown, not installed, or unable to solve this kind of problem.

    Parameters
    ----------
    message : str
        The message.
    lacks : tuple of str
        Cones of the problem that the solver does not take, such as ``exponential``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.DRF().allocate(fo.Instance([[2, 3], [2, 1]], [6, 4]), solver="CLARABLE")
    Traceback (most recent call last):
        ...
    fairopt.errors.SolverUnavailable: no solver 'CLARABLE'; did you mean 'CLARABEL'?
    """

    def __init__(self, message: str = "", *, lacks: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.lacks = lacks


class MissingExtra(TryAnother, ImportError):
    """An optional package that is not installed; the message holds the exact ``pip install`` line.

    Parameters
    ----------
    package : str
        The missing package.
    extra : str
        The extra of fairopt that installs it.
    purpose : str
        The feature that needs it.
    install : str, optional
        The command that installs it, where no extra does.

    Examples
    --------
    >>> import fairopt as fo
    >>> print(fo.errors.MissingExtra("matplotlib", "plots", "a picture"))
    a picture needs matplotlib, which is not installed: pip install 'fairopt[plots]'
    """

    def __init__(self, package: str, extra: str, purpose: str, install: str = "") -> None:
        install = install or f"pip install 'fairopt[{extra}]'"
        super().__init__(f"{purpose} needs {package}, which is not installed: {install}")
        self.package, self.extra, self.purpose, self.install = package, extra, purpose, install

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra, self.purpose, self.install)


def optional(module: str, extra: str, purpose: str, package: str = "") -> Any:
    """Import a module of an optional package; raise `MissingExtra` if it is not installed.

    Parameters
    ----------
    module : str
        Its name.
    extra : str
        The extra of fairopt that installs it.
    purpose : str
        What needs it, for the message.
    package : str, optional
        The name of the distribution. Default: the first part of the module's.

    Examples
    --------
    >>> from fairopt.errors import optional
    >>> optional("no_such_module", "parquet", "a table")
    Traceback (most recent call last):
        ...
    fairopt.errors.MissingExtra: a table needs no_such_module, which is not installed: pip install 'fairopt[parquet]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(package or module.partition(".")[0], extra, purpose) from error


class OutOfMemory(MemoryError, TryAnother):
    """A problem that does not fit into memory; also a ``MemoryError``.

    Examples
    --------
    >>> import fairopt as fo
    >>> with fo.errors.within_memory("a table", "make it smaller"):
    ...     raise MemoryError("Unable to allocate 2 TiB")
    Traceback (most recent call last):
        ...
    fairopt.errors.OutOfMemory: a table does not fit into memory (Unable to allocate 2 TiB); make it smaller
    """


class OutOfTime(TryAnother):
    """Work that was not done within its time limit and has no partial result, such as reading a file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "demo.json"
    >>> fo.datasets.write(fo.datasets.demo(), file)
    >>> try:
    ...     fo.read(file, time_limit=1e-9)
    ... except fo.errors.OutOfTime as error:
    ...     print(str(error).removeprefix(str(file)).partition(";")[0])
     was not read within the time limit of 1e-09 s, which ended at: reading demo.json
    """


@contextmanager
def within_memory(what: object | Callable[[], object], fix: str) -> Iterator[None]:
    """Raise `OutOfMemory` if the block runs out of memory, even if another error was raised from that.

    A function gives ``what`` only for the message.
    """
    try:
        yield
    except OutOfMemory:
        raise
    except (FairoptError, OSError, MemoryError) as error:
        first: BaseException = error
        while not isinstance(first, MemoryError) and getattr(first, "errno", None) != errno.ENOMEM:
            if first.__cause__ is None:
                raise
            first = first.__cause__
        why = " ".join(str(first).split())[:200] or "none is free"
        what = what() if callable(what) else what
        raise OutOfMemory(f"{what} does not fit into memory ({why}); {fix}") from error


LONGEST_NAME = 120  # characters of a name in a message


def nearest(name: object, known: Iterable[object]) -> str:
    """The end of an error message: the known names nearest to ``name``, or all of them.

    Parameters
    ----------
    name : object
        What was given.
    known : iterable
        What there is.

    Examples
    --------
    >>> from fairopt.errors import nearest
    >>> nearest("cpus", ["cpu", "memory"]), nearest("gpu", ["disk", "memory"])
    ("did you mean 'cpu'?", 'known: disk, memory')
    """
    names = [str(k) for k in known]
    close = [k for k in names if str(name) in re.split("[/-]", k)][:3] or difflib.get_close_matches(
        str(name), names, n=3, cutoff=0.5
    )
    if close:
        return "did you mean " + " or ".join(repr(_short(c)) for c in close) + "?"
    return "known: " + ", ".join(map(_short, names[:30])) + (", ..." if len(names) > 30 else "")


def _short(name: str) -> str:
    """A name, cut if it is very long."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)\n +(.*)')  # of a printed traceback


def own_lines(error: BaseException) -> list[str]:
    """The lines of an error's traceback in the user's own files, outermost first, also from another process."""
    frames = [(f.filename, f.lineno, f.name, f.line) for f in traceback.extract_tb(error.__traceback__)]
    if type(error.__cause__).__name__ == "_RemoteTraceback":  # of concurrent.futures, which keeps it as text
        frames += [(file, int(line), name, code) for file, line, name, code in _FRAME.findall(str(error.__cause__))]
    others = [Path(__file__).parent, *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))]
    lines = []
    for file, line, name, code in frames:
        path = Path(file)
        if path.is_file() and not any(path.resolve().is_relative_to(other.resolve()) for other in others):
            shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            lines.append(f"{shown}, line {line}, in {name}: {code}")
    return list(dict.fromkeys(lines))  # once each, where a function calls itself
