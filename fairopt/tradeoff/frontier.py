"""Frontiers: fairness and efficiency of a family of notions over one or two of its parameters."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import blocks_within, brief, is_ours
from fairopt.errors import FairoptError, InvalidBlock, InvalidInstance, UnknownName, nearest
from fairopt.instance import Instance
from fairopt.io.saving import write_whole
from fairopt.policies.registry import named_family
from fairopt.policy import Policy, is_mechanism
from fairopt.properties.names import require_whole
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import begin
from fairopt.runtime.display import LONG, shorter
from fairopt.runtime.lazy import later, pandas
from fairopt.runtime.progress import by_itself
from fairopt.solve.form.problem import natural_problem
from fairopt.solve.form.program import require_instance
from fairopt.tradeoff.sweep import MEASURES, TEXTS, Row, Standard, failed, solve, solve_in_processes

if TYPE_CHECKING:
    import pandas as pd


FORMAT = "fairopt.frontier/1"
SAME = 1e-4  # percentage points: the tolerance of certificates
PATIENCE = 2.0  # seconds between two writes of a file, or ten times what one takes


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """A family of notions over a grid of parameters; made by `frontier`.

    ``frontier["efficiency"]`` is a column, an array of shape (n_points,): a parameter, or

    * ``fairness``: the smallest dominant share per weight of users who want more (`Allocation.wanting_more`), in
      percent of that under DRF;
    * ``efficiency``: the number of tasks, in percent of the largest possible;
    * ``tasks``: the number of tasks; ``jain``: Jain's index of their dominant shares per weight;
    * ``f_beta``: `metrics.f_beta` of the policy's own shares at its beta (alpha for `AlphaFair`), of the same users;
      NaN at 1;
    * ``price_of_fairness``: ``1 - sum of the policy's own shares / largest possible sum``, and ``price_bound``, an
      upper bound, NaN where none is known (``note`` says why);
    * ``dominated``: the certificate's note if the answer is Pareto-dominated, else None;
    * ``gap`` and ``method`` of the certificate, and ``error``, the reason for NaN in a point without an answer.

    Attributes
    ----------
    family : str
        Name of the family, with the constraints that all its policies have.
    instance : Instance
        The instance.
    grid : dict of str to tuple
        The values of each parameter. Points are in the order of their product, the last parameter fastest.
    columns : dict of str to ndarray of shape (n_points,)
        All columns by name.
    tasks_by_user : ndarray of shape (n_points, n_users)
        Tasks of each user, NaN without an answer.
    drf : dict
        The measures of DRF by name, with ``tasks_by_user``.
    late : bool
        Whether the time limit came before all points were solved.

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
    columns: dict[str, NDArray[Any]]
    tasks_by_user: Float
    drf: dict[str, Any]
    _of: dict[str, Any]
    late: bool = False

    def __len__(self) -> int:
        return len(self.tasks_by_user)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise UnknownName(f"no column {name!r}; {nearest(name, self.columns)}")
        return self.columns[name]

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Whether each point was reached before Ctrl-C or the time limit, shape (n_points,)."""
        return np.array([m is not None or e is not None for m, e in zip(self["method"], self["error"], strict=True)])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C came before all points were solved."""
        return not self.late and not bool(self.asked.all())

    @property
    def notes(self) -> tuple[str, ...]:
        """The distinct texts of the column ``note``."""
        return tuple(dict.fromkeys(filter(None, self["note"])))

    def pareto(self) -> NDArray[np.int64]:
        """Points that are Pareto-efficient in fairness and efficiency, rounded to 1e-4 percentage points.

        Returns
        -------
        ndarray of int
            Indices of points, by increasing fairness.

        Examples
        --------
        >>> import fairopt as fo
        >>> f = fo.frontier(fo.GFJ, fo.Instance([[1, 4], [3, 1]], [9, 18]), {"alpha": [8, 3, 1]})
        >>> f.pareto()
        array([2, 1])
        """
        both = np.round(self["fairness"] / SAME) + 1j * np.round(self["efficiency"] / SAME)
        places = np.flatnonzero(np.isfinite(both))
        pairs, pair_of = np.unique(both[places], return_inverse=True)  # sorted by fairness, then efficiency
        beyond = np.append(np.maximum.accumulate(pairs.imag[::-1])[::-1], -np.inf)[1:]
        kept = np.flatnonzero((pairs.imag > beyond)[pair_of])
        return places[kept[np.argsort(pair_of[kept], kind="stable")]]

    def rows(self) -> list[dict[str, Any]]:
        """One dict per point, with all columns; None for what is not finite."""
        columns = [[_plain(v) for v in values.tolist()] for values in self.columns.values()]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """The frontier as plain data for ``json.dumps``."""
        rows = self.rows()
        for row, tasks in zip(rows, self.tasks_by_user.tolist(), strict=True):
            row["tasks_by_user"] = dict(zip(self.instance.users, tasks, strict=True)) if row["method"] else None
        return {
            "format": FORMAT,
            "family": self.family,
            "grid": {k: list(map(_plain, v)) for k, v in self.grid.items()},
            "rows": rows,
            "pareto": self.pareto().tolist(),
            "notes": list(self.notes),
            "interrupted": self.interrupted,
            "late": self.late,
        }

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with a row per point and all columns, by the parameters.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        MissingExtra
            Without pandas.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18])
        >>> fo.frontier("fds", cluster, {"alpha": [1, 2]}).to_frame()[["tasks", "jain"]].round(3)
               tasks   jain
        alpha
        1      5.727  0.941
        2      5.485  0.971
        """
        return pandas().DataFrame(self.columns).set_index(list(self.grid))

    def plot(self, kind: str = "tradeoff", *, ax: Any = None, of: str = "fairness", users: Any = None) -> Any:
        """Draw the frontier; needs the extra ``plots``.

        Parameters
        ----------
        kind : {"tradeoff", "tasks", "map"}, default "tradeoff"
            Efficiency against fairness (Joe-Wong et al. 2013, Figs. 14 to 16); tasks of users over the parameter, with
            those of DRF (Fig. 13); the plane of two parameters.
        ax : matplotlib.axes.Axes, optional
            Where to draw. Several families on the same axes get different colours.
        of : str, default "fairness"
            The column that the map shows, as ``"efficiency"`` or ``"method"``.
        users : sequence of str, optional
            Users in the picture of tasks. Default: all up to seven, else the range of all.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidBlock
            If there is no such picture, column or user, or no point has an answer.
        """
        return later("fairopt.plots.tradeoff:draw_frontier")(self, kind, ax, of, users)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the frontier as JSON, which ``frontier(..., resume=path)`` continues; return the path.

        `InvalidInstance` if the name does not end in ``.json``.
        """
        if Path(path).suffix.lower() != ".json":
            raise InvalidInstance(f"cannot write {path}; give a name that ends in .json, or use to_frame().to_csv()")
        drf = {k: v.tolist() if isinstance(v, np.ndarray) else _plain(v) for k, v in self.drf.items()}
        data = {**self.to_dict(), "grid": self.grid, "instance": self.instance.to_dict(), "drf": drf, "of": self._of}
        write_whole(Path(path), json.dumps({**data, "digest": _digest(data)}) + "\n")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Frontier:
        """Read a file of `save`; `InvalidInstance` if it is not one.

        Examples
        --------
        >>> import pathlib, tempfile, fairopt as fo
        >>> f = fo.frontier("fds", fo.Instance([[1, 4], [3, 1]], [9, 18]), {"alpha": [1, 2]})
        >>> fo.tradeoff.Frontier.load(f.save(pathlib.Path(tempfile.mkdtemp()) / "fds.json"))["tasks"].round(3)
        array([5.727, 5.485])
        """
        data = _data(Path(path))
        if "instance" not in data:
            fix = "give it to frontier(..., resume=), which writes it anew"
            raise InvalidInstance(f"{path} is of an earlier version of fairopt, without the instance; {fix}")
        instance, axes = Instance.from_dict(data["instance"]), {k: tuple(v) for k, v in data["grid"].items()}
        drf = {k: np.array(v) if isinstance(v, list) else np.nan if v is None else v for k, v in data["drf"].items()}
        columns, tasks = _columns(axes, _rows(data), instance)
        return cls(data["family"], instance, axes, columns, tasks, drf, data["of"], data["late"])

    def __repr__(self) -> str:
        axes = " x ".join(f"{len(values)} {name}" for name, values in self.grid.items())
        failed, asked = sum(e is not None for e in self["error"]), int(self.asked.sum())
        without = f"; {failed} without an answer" if failed else ""
        stopped = f"; interrupted after {asked}" if self.interrupted else ""
        stopped = f"; {len(self) - asked} not reached before the time limit" if self.late else stopped
        return f"<Frontier of {shorter(self.family, LONG)} over {axes} on {self.instance!r}{without}{stopped}>"

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.pages:frontier_page")(self)


def frontier(
    family: Callable[..., Any] | str,
    instance: Instance,
    grid: Mapping[str, Sequence[Any]],
    *,
    processes: int = 1,
    resume: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
) -> Frontier:
    """Sweep over one or two parameters of a family of notions; measure fairness and efficiency of each point.

    Parameters
    ----------
    family : callable or str
        A function that makes a policy (or anything with ``allocate``) from keyword parameters, as ``fo.FDS``, or its
        name, as ``"fds"`` or ``"pnorm:p=2"``.
    instance : Instance
        Users and servers.
    grid : dict of str to sequence
        Values of one or two parameters: numbers, booleans or texts. Two give all pairs.
    processes : int, default 1
        Number of processes. Mechanisms must be picklable if there are several.
    resume : str or path, optional
        A ``.json`` file to which rows are saved as they come. Points in it are not solved again.
    time_limit : float, optional
        Seconds for the call. ``resume`` continues with the points left.

    Returns
    -------
    Frontier
        After Ctrl-C or the time limit, `Frontier.asked` is False for the points left.

    Raises
    ------
    InvalidBlock
        If the grid is empty, has more than two parameters, NaN, or a parameter that the family does not take; if the
        family makes no mechanism; if the file is of another family or grid.
    InvalidInstance
        If the file is of another instance, or not of a frontier.

    Notes
    -----
    Each answer is certified as by ``Policy.allocate``. Errors of fairopt are recorded in the column ``error``; other
    exceptions end the sweep, and the file keeps the rows so far.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18])
    >>> plane = fo.frontier(fo.GFJ, cluster, {"beta": [0, 2], "lam": [-0.5, 0.5]})
    >>> [row["error"] and row["error"][:32] for row in plane.rows()]
    ['InvalidBlock: beta is 0, where t', 'InvalidBlock: beta is 0, where t', None, 'InvalidBlock: (beta, lam) = (2, ']
    """
    require_instance(instance)
    require_whole(processes, "processes")
    make, name = _family(family)
    axes = _checked_grid(grid, make, name)
    grid_points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    made = [_made(make, name, point) for point in grid_points]
    under = {tuple(map(repr, m.constraints)) if isinstance(m, Policy) else () for m in made if not isinstance(m, dict)}
    if len(under) == 1 and (constraints := ", ".join(*under)):
        name += f" with {constraints}"
    path = None if resume is None else Path(resume)
    of: dict[str, Any] = {"instance": _digest(instance.to_dict()), "grid": _digest(axes)}
    of["family"] = _digest([_identity(mechanism) for mechanism in made])
    of["values"] = [_values(mechanism, instance) for mechanism in made]
    rows: list[Row] = _read(path, of) if path is not None and path.exists() else [{} for _ in made]
    rows = [mechanism if isinstance(mechanism, dict) else row for mechanism, row in zip(made, rows, strict=True)]
    points = [(k, grid_points[k], made[k]) for k, row in enumerate(rows) if not row.keys() & {"method", "error"}]

    def so_far() -> Frontier:
        columns, tasks = _columns(axes, rows, instance)
        late = clock.late and any(not row.keys() & {"method", "error"} for row in rows)
        return Frontier(name, instance, axes, columns, tasks, standard.drf, of, late)

    clock = begin(time_limit)
    with by_itself() as tell:
        standard = Standard(instance, clock)
        if path is not None:
            so_far().save(path)  # before points are solved, in case it cannot be written
        try:
            answers = solve_in_processes(standard, points, processes) if processes > 1 else solve(standard, points)
            due = time.perf_counter() + PATIENCE
            tell(shorter(name, LONG), len(made) - len(points), len(made))
            for done, (place, row) in enumerate(answers, len(made) - len(points) + 1):
                rows[place] = row
                tell(shorter(name, LONG), done, len(made))
                if path is not None and (begun := time.perf_counter()) > due:
                    so_far().save(path)
                    due = time.perf_counter() + max(PATIENCE, 10 * (time.perf_counter() - begun))
        except KeyboardInterrupt:
            pass
        finally:
            result = so_far()
            if path is not None:
                result.save(path)
    return result


def _family(family: Any) -> tuple[Callable[..., Any], str]:
    """The function that makes mechanisms, and its name."""
    if isinstance(family, str):
        return named_family(family), family
    if not callable(family) or is_mechanism(family):
        fix = "give a function of parameters that makes a policy, as fo.FDS"
        raise InvalidBlock(f"the family is {brief(family)}; {fix}")
    parts = functools.partial(family)  # a partial of a partial is one
    fixed = ", ".join([*map(repr, parts.args), *(f"{k}={v!r}" for k, v in parts.keywords.items())])
    return family, getattr(parts.func, "__name__", type(parts.func).__name__) + (f"({fixed})" if fixed else "")


def _checked_grid(grid: Any, make: Callable[..., Any], name: str) -> dict[str, tuple[Any, ...]]:
    """The values of each parameter; `InvalidBlock` for an invalid grid."""
    if not isinstance(grid, Mapping) or not 1 <= len(grid) <= 2:
        fix = 'give the values of one or two parameters, as {"alpha": [0, 0.5, 1]}'
        raise InvalidBlock(f"grid is {brief(grid)}; {fix}")
    signature = inspect.signature(make)
    try:
        signature.bind(**grid)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "no parameter"
        fix = "fix what is not in the grid by functools.partial, or in a name as 'pnorm:p=2'"
        raise InvalidBlock(f"{name} over {', '.join(map(str, grid))}: {error}; it takes {takes}; {fix}") from None
    out: dict[str, tuple[Any, ...]] = {}
    fixed = getattr(inspect.unwrap(make), "keywords", {})  # of a partial
    for key, values in grid.items():
        if key in fixed:
            raise InvalidBlock(f"{key} is {fixed[key]!r} in {name}, and in the grid too; leave one of them out")
        if key in (*MEASURES, *TEXTS):
            raise InvalidBlock(f"{key!r} is the name of a column, so a parameter cannot have it; give it another name")
        listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else ()
        if not listed:
            raise InvalidBlock(f"grid[{key!r}] is {brief(values)}; give some values, as [0, 0.5, 1]")
        out[key] = tuple(v.item() if isinstance(v, np.generic) else v for v in listed)
        for value in out[key]:
            if not isinstance(value, (bool, int, float, str)) or value != value:
                raise InvalidBlock(f"grid[{key!r}] has {value!r}; give numbers, True and False, or texts")
    return out


def _made(make: Callable[..., Any], name: str, point: dict[str, Any]) -> Any:
    """The mechanism of a point, or an error row."""
    try:
        mechanism = make(**point)
    except FairoptError as error:
        return failed(error)
    except Exception as error:  # of a user's function
        error.add_note(f"at the point {point} of the frontier")
        raise
    if not is_mechanism(mechanism):
        fix = "which has no allocate(instance); return a policy"
        raise InvalidBlock(f"{name} makes {brief(mechanism)} of {point}, {fix}")
    return mechanism


def _columns(axes: dict[str, tuple[Any, ...]], rows: list[Row], instance: Instance) -> tuple[dict[str, Any], Float]:
    """The columns of a grid's points, and tasks by user."""
    points = list(itertools.product(*axes.values()))
    columns = {key: np.array([point[k] for point in points]) for k, key in enumerate(axes)}
    columns |= {key: np.array([row.get(key, np.nan) for row in rows], dtype=float) for key in MEASURES}
    columns |= {key: np.array([row.get(key) for row in rows], dtype=object) for key in TEXTS}
    nothing = np.full(instance.n_users, np.nan)
    return columns, np.array([row.get("tasks_by_user", nothing) for row in rows])


def _data(path: Path) -> dict[str, Any]:
    """The data of a file that `Frontier.save` wrote."""
    from fairopt.io.json_text import read_json_text  # which needs pydantic

    expected = "expected a file that frontier(..., resume=) or Frontier.save made"
    data = read_json_text(path, expected)
    if data.pop("digest", None) != _digest(data) or data["format"] != FORMAT:  # else `save` made all of it
        raise InvalidInstance(f"{path}: not a frontier, or changed after it was written; {expected}")
    return data


def _rows(data: dict[str, Any]) -> list[Row]:
    """The rows of a file."""
    for row in data["rows"]:
        row["tasks_by_user"] = list((row["tasks_by_user"] or {}).values()) or None
    return [{key: value for key, value in row.items() if value is not None} for row in data["rows"]]


def _read(path: Path, of: dict[str, Any]) -> list[Row]:
    """The rows of a file, which must be of the same sweep."""
    data = _data(path)
    if "values" not in data["of"]:
        raise InvalidBlock(
            f"{path} is of an earlier version of fairopt, which did not save enough to identify the notions; give the "
            "name of a new file"
        )
    for key, wrong in (("instance", InvalidInstance), ("grid", InvalidBlock), ("family", InvalidBlock)):
        if data["of"][key] != of[key]:
            more = " (or other constraints)" if key == "family" else ""
            raise wrong(f"{path} is of another {key}{more}; give what it was made with, or the name of a new file")
    if not all(map(_same, data["of"]["values"], of["values"])):
        raise InvalidBlock(
            f"{path} was made with user-defined blocks that had other values at the same tasks: their code or data "
            "has changed; give the name of a new file"
        )
    return _rows(data)


def _identity(part: Any, within: tuple[Any, ...] = ()) -> Any:
    """A mechanism's classes and all their attributes, for a digest; a repr may leave some out."""
    if any(part is outer for outer in within):
        return "itself"
    if isinstance(part, np.ndarray):
        return [repr(part.dtype), part.tolist()]
    if isinstance(part, Mapping):
        part = [*part.items()]
    elif hasattr(part, "__dict__") and not callable(part):
        part = [type(part).__qualname__, vars(part)]
    if isinstance(part, (list, tuple)):
        return [_identity(inner, (*within, part)) for inner in part]
    return getattr(part, "__qualname__", None) or repr(part)


@np.errstate(all="ignore")
def _values(mechanism: Any, instance: Instance) -> list[float | None]:
    """Values of a policy's problem at random tasks, by which changes to the code of user-defined blocks are noticed."""
    blocks = (mechanism.objective, mechanism.constraints) if isinstance(mechanism, Policy) else ()
    if all(map(is_ours, blocks_within(blocks))):
        return []
    try:
        problem = natural_problem(mechanism, instance)
    except FairoptError:  # the row reports it
        return []
    draw = np.random.default_rng(0)
    even = instance.tasks_alone.sum(axis=1) / instance.n_users
    for variable in problem.variables():
        part = draw.uniform(0.5, 1.0, variable.shape)
        of_users = variable.shape[:1] == even.shape
        variable.save_value(part * even.reshape(-1, *[1] * (variable.ndim - 1)) if of_users else part)
    parts = [problem.objective.expr, *(argument for condition in problem.constraints for argument in condition.args)]
    values = [np.nan if part.value is None else part.value for part in parts]
    return [_plain(float(np.sum(value * draw.uniform(1.0, 2.0, np.shape(value))))) for value in values]


def _same(held: Sequence[float | None], now: Sequence[float | None]) -> bool:
    """Whether values agree up to rounding."""
    one, other = (np.array(values, dtype=float) for values in (held, now))
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-9, atol=0.0, equal_nan=True)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
