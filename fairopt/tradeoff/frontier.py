"""Frontiers: what a family of notions gives up in efficiency for fairness, over one or two of its parameters."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import json
import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.accessor import later
from fairopt.errors import FairoptError, InvalidBlock, InvalidInstance, MissingExtra, nearest
from fairopt.instance import Instance
from fairopt.io.json_text import read_json_text
from fairopt.io.saving import replacing
from fairopt.policies.registry import named_family
from fairopt.policy import label
from fairopt.progress import by_itself
from fairopt.tradeoff.sweep import MEASURES, Point, Row, Standard, solve, solve_in_processes

__all__ = ["Frontier", "frontier"]

Float = NDArray[np.floating[Any]]

FORMAT = "fairopt.frontier/1"
SAME = 1e-4  # percentage points: the gap of a certificate
PATIENCE = 2.0  # seconds between two writings of a file, or ten times what one takes


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """A family of notions over a grid of parameters; made by `frontier`.

    ``frontier["efficiency"]`` is a column: an array of shape (n_points,) of a parameter or of

    * ``fairness``: the smallest dominant share per weight, in percent of that under DRF; users with a task limit of 0
      do not count;
    * ``efficiency``: the number of tasks, in percent of the largest possible;
    * ``tasks``, ``leftover``: number of tasks, and units left over, summed over all resources;
    * ``jain``: Jain's index of dominant shares per weight;
    * ``f_beta``: `metrics.f_beta` of the policy's own shares at its own beta (alpha, for `AlphaFair`);
    * ``price_of_fairness``: ``1 - sum of the policy's own shares / largest possible sum``, and ``price_bound``, what it
      can be at most, where that is known (see `notes`);
    * ``gap``: that of the certificate; ``method`` and ``error`` are tuples of texts.

    A point without an answer is a row of NaN with the error.

    Attributes
    ----------
    family : str
        Name of the family.
    instance : Instance
        The instance as given; users' labels are ``instance.users``.
    grid : dict of str to tuple
        The values of each parameter. Points are in the order of their product, the last parameter fastest.
    columns : dict of str to ndarray of shape (n_points,)
        The measures.
    tasks_by_user : ndarray of shape (n_points, n_users)
        Tasks of each user, NaN without an answer.
    method, error : tuple of str or None
        Method that answered, and the reason why there is no answer.
    asked : ndarray of bool of shape (n_points,)
        Points that were reached before Ctrl-C.
    notes : tuple of str
        Why points have no bound on the price of fairness.
    references : dict of str to tuple
        Percent fairness, percent efficiency and tasks by user of ``DRF`` and of ``most tasks``.

    Examples
    --------
    >>> import fairopt as fo
    >>> f = fo.frontier(fo.FDS, fo.Instance([[1, 4], [3, 1]], [9, 18]), {"alpha": [0, 1, 4]})
    >>> f["fairness"].round(1), f["efficiency"].round(1)
    (array([81.8, 81.8, 94.1]), array([100. , 100. ,  91.4]))
    """

    family: str
    instance: Instance
    grid: dict[str, tuple[Any, ...]]
    columns: dict[str, Float]
    tasks_by_user: Float
    method: tuple[str | None, ...]
    error: tuple[str | None, ...]
    asked: NDArray[np.bool_]
    notes: tuple[str, ...]
    references: dict[str, tuple[float, float, Float]]
    _note: tuple[str, ...]
    _policies: str

    def __len__(self) -> int:
        return len(self.asked)

    def __getitem__(self, name: str) -> Any:
        found = self.parameters.get(name, self.columns.get(name))
        if found is not None:
            return found
        if name in ("method", "error"):
            return getattr(self, name)
        raise KeyError(f"no column {name!r}; {nearest(name, [*self.grid, *self.columns, 'method', 'error'])}")

    @property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """The value of each parameter at each point, shape (n_points,)."""
        mesh = np.meshgrid(*(np.array(values) for values in self.grid.values()), indexing="ij")
        return {name: axis.ravel() for name, axis in zip(self.grid, mesh, strict=True)}

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C came before all points were reached."""
        return not bool(self.asked.all())

    def pareto(self) -> NDArray[np.int64]:
        """Points that no other beats in fairness or efficiency without losing in the other.

        Returns
        -------
        ndarray of int
            Positions, by rising fairness. Both are rounded to 1e-4 percentage points first.

        Examples
        --------
        >>> import fairopt as fo
        >>> f = fo.frontier(fo.GFJ, fo.Instance([[1, 4], [3, 1]], [9, 18]), {"alpha": [8, 3, 1]})
        >>> f.pareto()
        array([2, 1])
        """
        both = np.column_stack([self.columns["fairness"], self.columns["efficiency"]])
        places = np.flatnonzero(np.isfinite(both).all(axis=1))
        both, beaten = np.round(both[places] / SAME), np.zeros(len(places), dtype=bool)
        for one, other in ((0, 1), (1, 0)):  # most of the other measure among points with at least as much of the one
            order = np.lexsort((-both[:, other], -both[:, one]))
            best = np.maximum.accumulate(both[order, other])
            beaten[order] |= best > both[order, other]
        kept = places[~beaten]
        return kept[np.argsort(self.columns["fairness"][kept], kind="stable")]

    def rows(self) -> list[dict[str, Any]]:
        """One dict per point that was asked: parameters, measures (None for NaN), ``method`` and ``error``."""
        columns = {name: values.tolist() for name, values in {**self.parameters, **self.columns}.items()}
        return [
            {name: None if v[k] != v[k] else v[k] for name, v in columns.items()}
            | {"method": self.method[k], "error": self.error[k]}
            for k in np.flatnonzero(self.asked)
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data: the rows, each with ``tasks_by_user``, and the notes; see `save` for going on."""
        rows = self.rows()
        for row, tasks in zip(rows, self.tasks_by_user[self.asked].tolist(), strict=True):
            row["tasks_by_user"] = None if row["error"] else dict(zip(self.instance.users, tasks, strict=True))
        return {
            "family": self.family, "grid": {k: list(v) for k, v in self.grid.items()}, "rows": rows,
            "pareto": self.pareto().tolist(), "notes": list(self.notes), "interrupted": self.interrupted,
        }  # fmt: skip

    def to_frame(self, by: str = "point") -> Any:
        """A pandas frame with a row per point that was asked.

        Parameters
        ----------
        by : {"point", "user"}, default "point"
            Columns: measures, ``method`` and ``error``; or the tasks of each user, by label.

        Returns
        -------
        pandas.DataFrame
            By the parameters.

        Raises
        ------
        InvalidBlock
            If ``by`` is neither.
        MissingExtra
            Without pandas.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], users=["batch", "web"])
        >>> fo.frontier("fds", cluster, {"alpha": [1, 2]}).to_frame("user").round(4)
                batch     web
        alpha
        1      4.0909  1.6364
        2      3.7279  1.7574
        """
        if by not in ("point", "user"):
            raise InvalidBlock(f"no table by {by!r}; {nearest(by, ('point', 'user'))}")
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "parquet", "to_frame()") from error
        columns: dict[str, Any] = {**self.parameters, **self.columns, "method": self.method, "error": self.error}
        frame = pd.DataFrame(columns)[self.asked].set_index(list(self.grid))
        if by == "point":
            return frame
        return pd.DataFrame(self.tasks_by_user[self.asked], frame.index, list(self.instance.users))

    def plot(self, ax: Any = None, kind: str = "tradeoff", *, of: str = "fairness", users: Any = None) -> Any:
        """Draw the frontier; needs the extra ``plots``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. Several families on the same axes get a colour each.
        kind : {"tradeoff", "tasks", "map"}, default "tradeoff"
            Efficiency against fairness (Joe-Wong et al. 2013, Figs. 14 to 16); the tasks of users along the parameter,
            beside those of DRF (Fig. 13); the plane of two parameters.
        of : str, default "fairness"
            What the map shows: a column, as ``"efficiency"`` or ``"method"``.
        users : sequence of str, optional
            Users of the picture of tasks. By default all of up to seven, and of more the range of all.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidBlock
            If there is no such picture, column or user, or no point has an answer.
        """
        return later("Frontier.plot")(self, ax, kind, of, users)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the rows as JSON, from where ``frontier(..., resume=path)`` goes on; return the path.

        Raises
        ------
        InvalidInstance
            If it cannot be written there.
        """
        rows = {
            int(k): Row(
                tuple(float(c[k]) for c in self.columns.values()),
                self.tasks_by_user[k, : 0 if self.error[k] else None], self.method[k] or "", self.error[k],
                self._note[k],
            ) for k in np.flatnonzero(self.asked)
        }  # fmt: skip
        return _write(Path(path), _marks(self.instance, self.grid, self._policies), rows)

    def __repr__(self) -> str:
        axes = " x ".join(f"{len(values)} {name}" for name, values in self.grid.items())
        failed = sum(e is not None for e in self.error)
        words = [f"{failed} without an answer"] if failed else []
        words += [f"interrupted after {int(self.asked.sum())}"] if self.interrupted else []
        return f"<Frontier of {self.family} over {axes} on {self.instance!r}{''.join('; ' + w for w in words)}>"

    def _repr_html_(self) -> str:
        return later("Frontier._repr_html_")(self)


def frontier(
    family: Callable[..., Any] | str, instance: Instance, grid: Mapping[str, Sequence[Any]], *, processes: int = 1,
    resume: str | os.PathLike[str] | None = None,
) -> Frontier:  # fmt: skip
    """Sweep over one or two parameters of a family of notions, and measure fairness and efficiency of each point.

    Parameters
    ----------
    family : callable or str
        Makes a policy (or anything with ``allocate``) from keyword parameters, as ``fo.FDS``, or a function of your
        own; or a name, as ``"fds"`` or ``"pnorm:p=2"``.
    instance : Instance
        Users and servers.
    grid : dict of str to sequence
        Values of one or two parameters: numbers, True and False, or texts. Two give all pairs.
    processes : int, default 1
        Processes that share the points; mechanisms are sent to them, so that they must be picklable.
    resume : str or path, optional
        A file that keeps the rows as they come. If it exists, its points are not solved again.

    Returns
    -------
    Frontier
        Ctrl-C returns the rows so far: `Frontier.interrupted`, and ``asked`` is False for the rest.

    Raises
    ------
    InvalidBlock
        If the grid is empty, has more than two parameters, a value that is NaN, or a parameter that the family does not
        take; if the family makes no mechanism; if the file is of another family or grid.
    InvalidInstance
        If the file is of another instance, or not of a frontier.

    Notes
    -----
    Each answer is certified as that of ``Policy.allocate``. Points along the last parameter start from the prices of
    their neighbours, which saves time and proves nothing. Errors of fairopt (no optimum, not certified, infeasible) are
    rows; others end the sweep, and the file keeps what is done.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18])
    >>> plane = fo.frontier(fo.GFJ, cluster, {"beta": [0, 2], "lam": [-0.5, 0.5]})
    >>> [row["error"] and row["error"][:32] for row in plane.rows()]
    ['InvalidBlock: beta is 0, where t', 'InvalidBlock: beta is 0, where t', None, 'InvalidBlock: (beta, lam) = (2, ']
    """
    if not isinstance(instance, Instance):
        raise InvalidBlock(f"frontier(..., {type(instance).__name__}): give an Instance second, or fairopt.read(path)")
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise InvalidBlock(f"processes is {processes!r}; give a whole number, 1 or more")
    make, name = _family(family)
    axes = _checked_grid(grid, make, name)
    made = [_made(make, name, dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())]
    policies = _digest([m.error if isinstance(m, Row) else _text(m) for m in made])
    path = None if resume is None else Path(resume)
    marks = {} if path is None else _marks(instance, axes, policies)
    rows = {} if path is None else _read(path, marks)
    rows |= {k: m for k, m in enumerate(made) if isinstance(m, Row)}
    *_, last = axes.values()
    at = [float(v) if isinstance(v, (int, float)) else None for v in last]
    points = [Point(k, k // len(last), at[k % len(last)], m) for k, m in enumerate(made) if k not in rows]
    if processes > 1:
        _check_picklable([p.mechanism for p in points], name)
    standard = Standard(instance)
    with by_itself() as tell:
        try:
            written = time.perf_counter()
            patience = PATIENCE
            found = solve_in_processes(standard, points, processes) if processes > 1 else solve(standard, points)
            tell(name, len(rows), len(made))
            for place, row in found if points else ():
                rows[place] = row
                tell(name, len(rows), len(made))
                if path is not None and time.perf_counter() - written > patience:
                    begun = time.perf_counter()
                    _write(path, marks, rows)
                    written = time.perf_counter()
                    patience = max(PATIENCE, 10 * (written - begun))
        except KeyboardInterrupt:
            pass
        finally:
            if path is not None:
                _write(path, marks, rows)
    return _frontier(name, axes, [rows.get(k) for k in range(len(made))], standard, policies)


def _frontier(
    name: str, axes: dict[str, tuple[Any, ...]], rows: list[Row | None], standard: Standard, policies: str
) -> Frontier:
    """The rows as columns."""
    tasks = np.full((len(rows), standard.instance.n_users), np.nan)
    for k, row in enumerate(rows):
        if row is not None and row.error is None:
            tasks[k] = row.tasks
    numbers = np.array([(np.nan,) * len(MEASURES) if r is None else r.numbers for r in rows])
    note = tuple("" if r is None else r.note for r in rows)
    return Frontier(
        name, standard.instance, axes, dict(zip(MEASURES, numbers.T, strict=True)), tasks,
        tuple(None if r is None or r.error else r.method for r in rows), tuple(r and r.error for r in rows),
        np.array([r is not None for r in rows]), tuple(dict.fromkeys(filter(None, note))), standard.references(),
        note, policies,
    )  # fmt: skip


def _family(family: Any) -> tuple[Callable[..., Any], str]:
    """The function that makes mechanisms, and its name."""
    if isinstance(family, str):
        return named_family(family), family
    if not callable(family) or (hasattr(family, "allocate") and not isinstance(family, type)):
        raise InvalidBlock(f"the family is {family!r}; give a function of parameters that makes a policy, as fo.FDS")
    plain: Any = family
    fixed: dict[str, Any] = {}
    while isinstance(plain, functools.partial):
        fixed, plain = {**plain.keywords, **fixed}, plain.func
    name = getattr(plain, "__name__", type(plain).__name__).replace("<lambda>", "own family")
    return family, name + (f"({', '.join(f'{k}={v!r}' for k, v in fixed.items())})" if fixed else "")


def _checked_grid(grid: Any, make: Callable[..., Any], name: str) -> dict[str, tuple[Any, ...]]:
    """The values of each parameter; `InvalidBlock` for what cannot be swept."""
    example = 'as {"alpha": [0, 0.5, 1]}'
    if not isinstance(grid, Mapping) or not grid:
        raise InvalidBlock(f"grid is {grid!r}; give the values of one or two parameters, {example}")
    if len(grid) > 2:
        names = ", ".join(map(str, grid))
        raise InvalidBlock(f"grid has {len(grid)} parameters ({names}); give one or two, and fix the others")
    try:
        takes = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # of a function in C
        takes = None
    named = [p.name for p in takes or () if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    out: dict[str, tuple[Any, ...]] = {}
    for key, values in grid.items():
        if takes is not None and key not in named and not any(p.kind is p.VAR_KEYWORD for p in takes):
            words = nearest(key, named) if named else "it takes none"
            raise InvalidBlock(f"{name} takes no parameter {key!r}; {words}")
        if key in (*MEASURES, "method", "error"):
            raise InvalidBlock(f"{key!r} is the name of a column, so a parameter cannot have it; give it another name")
        listed = () if isinstance(values, str) or not hasattr(values, "__iter__") else tuple(values)
        if not listed:
            raise InvalidBlock(f"grid[{key!r}] is {values!r}; give some values, {example}")
        out[key] = tuple(v.item() if isinstance(v, np.generic) else v for v in listed)
        for value in out[key]:
            if not isinstance(value, (bool, int, float, str)) or value != value:
                raise InvalidBlock(f"grid[{key!r}] has {value!r}; give numbers, True and False, or texts")
    missing = [p.name for p in takes or () if p.name in named and p.default is p.empty and p.name not in grid]
    if missing:
        how = f"functools.partial, or in a name as 'pnorm:{missing[0]}=2'"
        raise InvalidBlock(f"{name} needs {missing[0]} too; give it in the grid, or fix it by {how}")
    return out


def _made(make: Callable[..., Any], name: str, point: dict[str, Any]) -> Any:
    """The mechanism of a point, or the row of the error."""
    try:
        mechanism = make(**point)
    except FairoptError as error:
        return Row.failed(error)
    if not hasattr(mechanism, "allocate") or isinstance(mechanism, type):
        raise InvalidBlock(f"{name} makes {mechanism!r} of {point}, which has no allocate(instance); return a policy")
    return mechanism


def _check_picklable(mechanisms: list[Any], name: str) -> None:
    try:
        pickle.dumps(mechanisms)
    except Exception as error:  # whatever a class of the user's raises
        fix = "define their classes at the top of a module, or leave processes at 1"
        raise InvalidBlock(f"the mechanisms of {name} cannot be sent to other processes ({error}); {fix}") from error


# -- the file ---------------------------------------------------------------------------------------------------------


def _marks(instance: Instance, grid: Mapping[str, Sequence[Any]], policies: str) -> dict[str, Any]:
    """What a file is of."""
    listed = {name: list(values) for name, values in grid.items()}
    return {"format": FORMAT, "instance": _digest(instance.to_dict()), "grid": listed, "family": policies}


def _write(path: Path, marks: dict[str, Any], rows: dict[int, Row]) -> Path:
    listed = [{"point": k, **r._asdict(), "tasks": r.tasks.tolist()} for k, r in sorted(rows.items())]
    data = {**marks, "rows": listed, "digest": _digest(listed)}
    with replacing([path]) as (part,):
        part.write_text(json.dumps(data) + "\n", encoding="utf-8")
    return path


def _read(path: Path, marks: dict[str, Any]) -> dict[int, Row]:
    """The rows in a file of the same sweep; none if there is no file yet, which is then made."""
    if not path.exists():
        _write(path, marks, {})  # before anything is solved, in case it cannot be written
        return {}
    expected = "expected a file that frontier(..., resume=) or Frontier.save made"
    data = read_json_text(path, expected)
    if data.get("format") != FORMAT:
        raise InvalidInstance(f"{path}: not a frontier (no format {FORMAT!r}); {expected}")
    for key, wrong in (("instance", InvalidInstance), ("grid", InvalidBlock), ("family", InvalidBlock)):
        if data.get(key) != marks[key]:
            raise wrong(f"{path} is of another {key}; give what it was made with, or the name of a new file")
    if data.get("digest") != _digest(data.get("rows")):
        raise InvalidInstance(f"{path}: its rows were changed after they were written; give the name of a new file")
    return {
        row.pop("point"): Row(**{**row, "numbers": tuple(row["numbers"]), "tasks": np.array(row["tasks"])})
        for row in data["rows"]
    }


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _text(mechanism: Any) -> str:
    """The repr of a mechanism, or its class where the repr is an address."""
    text = repr(mechanism)
    return f"{type(mechanism).__module__}:{label(mechanism)}" if text == object.__repr__(mechanism) else text
