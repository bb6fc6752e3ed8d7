"""Lists of the named policies and of the solvers."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from fairopt.formulation import solvers
from fairopt.policies.registry import known_policies

__all__ = ["policy_rows", "solver_rows"]

_CONES_IF_INSTALLED = {"MOSEK": {"ExpCone", "PowCone3D"}}  # CVXPY lists these cones only if the solver is installed


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
    cones = {
        name: {kind.__name__ for kind in interface.SUPPORTED_CONSTRAINTS} | _CONES_IF_INSTALLED.get(name, set())
        for name, interface in defines.SOLVER_MAP_CONIC.items()
    }
    names = sorted({*cones, *defines.SOLVER_MAP_QP, *installed}, key=lambda name: (name not in installed, name))
    return [
        {
            "name": name,
            "installed": name in installed,
            "linear": True,
            "exponential": "ExpCone" in cones.get(name, ()),
            "power": "PowCone3D" in cones.get(name, ()),
            "install": None
            if name in installed or (extra := name.lower().replace("_", "-")) not in extras
            else f"pip install cvxpy[{extra}]",
        }
        for name in names
    ]
