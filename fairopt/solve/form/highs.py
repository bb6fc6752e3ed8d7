"""HiGHS without its banner on stdout, usable in forked processes, and given programs as arrays.

It imports nothing of fairopt, since `solver_process` loads it by path.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

__all__ = ["give", "root_of", "silence_banner", "solve_data"]


@cache
def silence_banner() -> None:
    """Make HiGHS print its banner, once per process, with output switched off.

    `highspy.Highs` prints it when created, before options can be set; its compiled base class does not.
    """
    import highspy

    compiled: Any = highspy.Highs.__base__
    silent = compiled()
    silent.setOptionValue("log_to_console", False)
    silent.passModel(highspy.HighsModel())


def give(
    highs: Any, costs: Any, bounds: tuple[Any, Any], rows: tuple[Any, Any], matrix: Any, whole: bool = False
) -> None:
    """Pass a linear program to HiGHS: costs to minimise, bounds of columns and rows, and the matrix by columns.

    All columns are integers if ``whole``. As one call with arrays: number by number, as attributes of a program, 190
    columns took 0.2 ms.
    """
    import highspy
    import numpy as np

    m, n = matrix.shape
    form, sense = int(highspy.MatrixFormat.kColwise), int(highspy.ObjSense.kMinimize)
    entries, kinds = (matrix.indptr, matrix.indices, matrix.data), np.full(n, int(whole), dtype=np.int32)
    highs.passModel(n, m, matrix.nnz, form, sense, 0.0, costs, *bounds, *rows, *entries, kinds)


def root_of(costs: Any, bounds: tuple[Any, Any], rows: tuple[Any, Any], matrix: Any, seconds: float | None) -> Any:
    """The integers that HiGHS finds for a program of `give` without branching; None if it finds none.

    `scipy.optimize.milp` would do it too, and takes 0.15 s to import.
    """
    import highspy
    import numpy as np

    silence_banner()
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {"output_flag": False, "mip_max_nodes": 1, "mip_rel_gap": 0.0}
    for name, value in (options | ({} if seconds is None else {"time_limit": seconds})).items():
        highs.setOptionValue(name, value)
    give(highs, costs, bounds, rows, matrix, whole=True)
    highs.run()
    solution = highs.getSolution()
    return np.array(solution.col_value) if solution.value_valid else None


def solve_data(data: dict[str, Any], verbose: bool, options: dict[str, Any]) -> dict[str, Any]:
    """What HiGHS leaves of a linear program in cone form, as CVXPY's interface returns it; `ValueError` for an option
    that it refuses.
    """
    import highspy
    import numpy as np

    silence_banner()
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("log_to_console", verbose)
    for name, value in options.items():
        if highs.setOptionValue(name, value) == highspy.HighsStatus.kError:
            raise ValueError(f"HIGHS returned status kError for option (name, value): ({name}, {value})")
    right = data["b"]
    least = np.where(np.arange(len(right)) < data["dims"].zero, right, -np.inf)
    give(highs, data["c"], (data["lower_bounds"], data["upper_bounds"]), (least, right), data["A"])
    highs.run()
    found, status = highs.getSolution(), highs.getModelStatus().name
    solution = SimpleNamespace(col_value=np.array(found.col_value), row_dual=np.array(found.row_dual))
    ray = {"dual_ray": highs.getDualRay()} if status == "kInfeasible" else {}
    return {"solution": solution, "model_status": status} | ray


def _forget_threads() -> None:
    """Let HiGHS start new threads in a forked process; otherwise it waits for those of its parent."""
    if "highspy" in sys.modules:
        sys.modules["highspy"].Highs.resetGlobalScheduler(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
