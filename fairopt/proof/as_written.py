"""What files hold of users' blocks that no checker can read: their linear rows and cone programs as numbers, and their
code as text.

A checker computes capacities, limits and fairopt's blocks anew. Of a user's constraint it takes the rows ``a'x <= b``
in tasks as they are written; of nonlinear ones, and of objectives by expressions, the cone program that was solved,

    max  -c'z   subject to  b - A z in K,      z = (tasks, further variables),

without the rows of capacities and of other blocks, whose multipliers stand beside it by name. What is dropped only
relaxes the program, and tasks are in natural units. What is proved is the program as written; that it is what the text
means is not.

An answer holds the arrays that were solved with and no model (`OwnProgram`); the entry is made when it is saved. The
dual point is moved into the dual cone until nothing is left of further variables, as the gate does (Bound 7.3).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairopt.blocks.algebra import AtLeast, Objective
from fairopt.blocks.base import Block, blocks_within, is_ours
from fairopt.blocks.inline import Inline
from fairopt.blocks.model import Pairs
from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError
from fairopt.instance import Instance
from fairopt.proof.completed import part_of
from fairopt.proof.conic import ConeProgram, cone_of_row
from fairopt.proof.entries import Place
from fairopt.proof.feasibility import tangent
from fairopt.proof.proof_file import by_single_entries, closed, of_program, or_null, row_order, violation_of
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import BLOCK_TOLERANCE
from fairopt.solve.form.compiled import Cones
from fairopt.solve.form.program import ConeModel, Program, affine_rows
from fairopt.solve.form.program_rows import rows_of

RADIUS = 1e3  # of further variables whose range no row states and of which the dual point leaves something


@dataclass(frozen=True, eq=False)
class OwnProgram:
    """A cone program as it was solved, with the points that a solver left.

    ``ours`` are the columns of the unknowns, of ``scale`` tasks each, of pairs of ``users_servers``, which run at most
    ``most``; ``tasks`` are those of the answer. ``dropped`` are rows that others state, ``rows`` those of blocks, by
    place and name, and ``aggregates`` the equations of variables that stand for sums of others, with the first columns
    of these: dropped and kept rows may share them. Dual values are ``per_dual`` natural units, and costs ``per_cost``,
    None if the objective is stated otherwise; ``constant`` is what the costs leave out.
    """

    data: Mapping[str, Any]
    offset: float
    points: tuple[Float, Float]
    ours: Indices
    scale: Float
    users_servers: tuple[Indices, Indices]
    most: Float
    tasks: Float
    dropped: tuple[slice, ...]
    rows: tuple[tuple[Place, str, slice], ...]
    aggregates: tuple[tuple[slice, int], ...]
    per_dual: float
    per_cost: float | None
    constant: float

    def entry(self, with_point: bool) -> dict[str, Any]:
        """The program in natural units, with its dual point and, if asked for, the point of the answer."""
        dims, matrix, n = self.data["dims"], sp.csr_array(self.data["A"]), len(self.ours)
        point, dual = self.points
        costs, constant = self._costs()
        cones, kept = cone_of_row(dims), self._kept_cones()
        rows = np.flatnonzero(kept[cones])
        used = (abs(matrix[rows]).sum(axis=0) > 0) | (costs != 0)
        used[self.ours] = False
        others = np.flatnonzero(used)
        columns, unit = np.append(self.ours, others), np.append(self.scale, np.ones(len(others)))
        least, most = self._ends("lower_bounds", columns, -np.inf), self._ends("upper_bounds", columns, np.inf)
        at = np.append(self.tasks, np.clip(point[others], least[n:], most[n:]))
        data = {
            "A": sp.csc_array(matrix[rows][:, columns] @ sp.diags_array(1.0 / unit)),
            "b": np.asarray(self.data["b"], dtype=float)[rows],
            "c": costs[columns] / unit,
            "dims": part_of(dims, np.flatnonzero(kept)),
            "lower_bounds": least,
            "upper_bounds": most,
        }
        ends = np.append(np.zeros(n), least[n:]), np.append(self.most, most[n:])
        program, further = ConeProgram.of_data(data, constant, *ends), np.arange(len(columns)) >= n
        y = self._without_dropped(matrix, kept[cones], costs, dual * self.per_dual)[rows]
        y = program.repaired(y, further & ~program.bounded, further)
        alone = by_single_entries(program, *ends)  # the checker knows fewer ranges before it searches
        y, needs = closed(replace(program, least=alone[0], most=alone[1]), y)
        broken = violation_of(program, (least, most), at) if with_point else 0.0
        if not broken <= BLOCK_TOLERANCE:
            raise ValueError(f"the cone program's further variables do not fit the tasks of the answer ({broken:.1e})")
        reach = np.maximum(np.abs(program.least), np.abs(program.most))
        reach = np.maximum(np.where(np.isfinite(reach), reach, 0.0), RADIUS * np.maximum(1.0, np.abs(at)))
        order = row_order(program.dims)
        place = np.full(matrix.shape[0], -1)
        place[rows[order]] = np.arange(len(rows))
        return {
            "user": self.users_servers[0].tolist(),
            "server": self.users_servers[1].tolist(),
            "objective": None if self.per_cost is None else "program" if self.data.get("P") is None else "tangent",
            "program": of_program(program, order),
            "constraints": [
                {"place": where, "name": name, "start": int(place[part.start]), "size": part.stop - part.start}
                for where, name, part in self.rows
                if part.stop > part.start and (place[part] >= 0).all()
            ],
            "limits": {"least": or_null(least), "most": or_null(most)},
            "radius": or_null(np.where(needs, reach, np.inf)) if needs.any() else None,
            "point": at.tolist() if with_point else None,
            "dual": y[order].tolist(),
        }

    def _costs(self) -> tuple[Float, float]:
        """The costs of columns in natural units and their constant: of squares those of the tangent at the answer."""
        costs, squares = np.asarray(self.data["c"], dtype=float), self.data.get("P")
        if self.per_cost is None:
            return np.zeros(len(costs)), 0.0
        constant = self.offset * self.per_cost - self.constant
        if squares is None:
            return costs * self.per_cost, constant
        at = np.array(self.points[0])
        at[self.ours] = self.tasks / self.scale
        slopes = np.asarray(squares @ at)
        return (costs + slopes) * self.per_cost, constant - 0.5 * float(slopes @ at) * self.per_cost

    def _kept_cones(self) -> Bool:
        """The cones that are written: not those that others state, nor signs of tasks; nor, without costs, those that
        share further variables with costs.
        """
        dims, matrix = self.data["dims"], sp.coo_array(self.data["A"])
        cones, linear = cone_of_row(dims), dims.zero + dims.nonneg
        stated = [cones[part] for part, _ in self.aggregates]
        kept, ours = np.ones(cones.max(initial=-1) + 1, dtype=bool), np.zeros(matrix.shape[1], dtype=bool)
        ours[self.ours] = True
        for part in self.dropped:
            kept[cones[part]] = False
        alone = (np.bincount(matrix.row, minlength=len(cones)) == 1) & (np.asarray(self.data["b"]) == 0)
        signs = alone[matrix.row] & (matrix.row >= dims.zero) & (matrix.row < linear) & ours[matrix.col]
        kept[cones[matrix.row[signs & (matrix.data < 0)]]] = False
        if self.per_cost is None:
            for part, start in self.aggregates:  # which costs and others may share
                ours[start : start + part.stop - part.start] = True
            some = ~ours[matrix.col]
            ends = cones[matrix.row[some]], len(kept) + matrix.col[some]
            size = len(kept) + matrix.shape[1]
            links = sp.csr_array((np.ones(int(some.sum())), ends), shape=(size, size))
            part_of_node = sp.csgraph.connected_components(links, directed=False)[1]
            with_costs = part_of_node[len(kept) :][~ours & (np.asarray(self.data["c"]) != 0)]
            kept &= ~np.isin(part_of_node[: len(kept)], with_costs)
        for places in stated:
            kept[places] = True
        return kept

    def _without_dropped(self, matrix: Any, kept: Bool, costs: Float, dual: Float) -> Float:
        """The dual point with the multipliers of equations of aggregates that leave nothing of these, without dropped
        rows.
        """
        y, by_column = np.where(kept, dual, 0.0), sp.csr_array(matrix.T)
        for part, start in self.aggregates:
            columns = slice(start, start + part.stop - part.start)
            y[part] = 0.0
            own = by_column[columns][:, np.arange(part.start, part.stop)].diagonal()
            y[part] = -(costs[columns] + by_column[columns] @ y) / own
        return y

    def _ends(self, name: str, columns: Indices, none: float) -> Float:
        """Ends of the ranges of columns that are no rows; those of tasks follow from the instance."""
        given = self.data.get(name)
        out = np.full(len(columns), none) if given is None else np.asarray(given, dtype=float)[columns]
        out[: len(self.ours)] = none
        return out


def in_full(entry: Mapping[str, Any], allocation: Any, objective: Objective, is_last: bool) -> Mapping[str, Any]:
    """An entry of evidence with the program of its objective in numbers.

    The point of the answer stands with the last tier, and where an objective is to be evaluated.
    """
    held = entry.get("written")
    try:
        if isinstance(held, OwnProgram):
            return {**entry, "written": held.entry(is_last or held.per_cost is not None)}
        if held is None and entry.get("kind") == "prices" and not objective.is_known:
            return {**entry, "written": _line(allocation, objective)}
    except (ValueError, FairoptError) as error:
        return {"why": str(error)} | {key: held for key, held in entry.items() if key not in ("written", "why")}
    return entry


def _line(allocation: Any, objective: Objective) -> dict[str, Any]:
    """The tangent of an objective at the answer as a program without rows; `ValueError` if CVXPY knows none."""
    program = Program(allocation.instance, objective, ())
    cone, tasks = ConeModel(program), program.gather(allocation.tasks_by_server)
    _ = cone.maximand
    found = tangent(cone, cone.natural, tasks)
    if found is None or found[2] or program.instance.n_servers < program.given.n_servers:
        raise ValueError(f"{objective} has no tangent at the answer by CVXPY's gradients")
    form, slopes, _ = found
    made = ConeProgram(
        -slopes, np.zeros(0), sp.csr_array((len(slopes), 0)), Cones(0, 0), -form.constant - cone.constant, tasks, tasks
    )
    nothing: list[None] = [None] * len(slopes)
    return {
        "user": program.active[program.pairs.user].tolist(),
        "server": program.pairs.server.tolist(),
        "objective": "tangent",
        "program": of_program(made, np.zeros(0, dtype=np.intp)),
        "constraints": [],
        "limits": {"least": nothing, "most": nothing},
        "radius": None,
        "point": tasks.tolist(),
        "dual": [],
    }


def blocks_as_written(policy: Any, instance: Instance) -> dict[str, Any]:
    """The linear rows of a policy's own constraints by place, and the code of its own blocks; empty without any."""
    own = [block for block in blocks_within((policy.objective, policy.constraints)) if not is_ours(block)]
    rows = dict[str, Any]()
    for k, block in enumerate(policy.constraints):
        if not is_ours(block) and not isinstance(block, AtLeast):
            found = _linear(block, instance)
            if found:
                rows[str(k)] = found
    if not [block for block in own if not isinstance(block, Share)]:
        return {}
    text = "\n\n".join(dict.fromkeys(_code(block) for block in own))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"as_written": {"text": text, "sha256": digest, "rows": rows}}


def _linear(block: Any, instance: Instance) -> list[dict[str, Any]]:
    """The linear rows of a constraint."""
    pairs = Pairs(instance)
    try:
        found = rows_of(block, pairs) or affine_rows(block, pairs) or []
    except FairoptError:
        return []
    out = []
    for one in found:
        table = sp.coo_array(one.rows.per_task)
        out.append(
            {
                "name": one.name,
                "equal": one.rows.equal,
                "right": one.rows.right.tolist(),
                "row": table.row.tolist(),
                "user": pairs.user[table.col].tolist(),
                "server": pairs.server[table.col].tolist(),
                "value": table.data.tolist(),
            }
        )
    return out


def _code(block: Block) -> str:
    """The Python text of a block."""
    if isinstance(block, Inline):
        try:
            return inspect.getsource(block.function)
        except (OSError, TypeError):
            return repr(block)
    try:
        return inspect.getsource(type(block))
    except (OSError, TypeError):  # of a session
        return repr(block)
