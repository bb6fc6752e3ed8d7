"""Lists of the named policies and of the solvers."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from fairopt.policies.registry import known_policies
from fairopt.solve.form import solvers


def policy_rows() -> list[dict[str, str]]:
    """One dict per named policy: ``name``, ``parameters`` and ``summary``."""
    return [{"name": n.name, "parameters": n.parameters, "summary": n.summary} for n in known_policies().values()]


def solver_rows() -> list[dict[str, Any]]:
    """One dict per solver that CVXPY knows, installed ones first.

    Keys are ``name``, ``installed``, ``linear``, ``exponential`` and ``power`` (whether it takes such programs), and
    ``install`` (the pip command, if CVXPY has one).
    """
    from cvxpy.reductions.solvers import defines

    installed = solvers.installed()
    extras = set(metadata.metadata("cvxpy").get_all("Provides-Extra") or ())
    known = {*defines.SOLVER_MAP_CONIC, *defines.SOLVER_MAP_QP, *installed}
    cones = {name: solvers.takes(name) for name in known}
    names = sorted(known, key=lambda name: (name not in installed, name))
    return [
        {
            "name": name,
            "installed": name in installed,
            "linear": True,
            "exponential": "ExpCone" in cones[name],
            "power": "PowCone3D" in cones[name],
            "install": None
            if name in installed or (extra := name.lower().replace("_", "-")) not in extras
            else f"pip install cvxpy[{extra}]",
        }
        for name in names
    ]
