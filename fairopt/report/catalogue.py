"""The policies known by name, and the solvers."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from fairopt.formulation import solvers
from fairopt.policies.registry import known_policies

__all__ = ["policy_rows", "solver_rows"]

_SHOWN_ONLY_WHEN_LOADED = {"MOSEK": {"ExpCone", "PowCone3D"}}  # cvxpy adds these cones when it finds the solver


def policy_rows() -> list[dict[str, str]]:
    """One dict per named policy: ``name``, ``parameters`` and ``summary``."""
    return [{"name": n.name, "parameters": n.parameters, "summary": n.summary} for n in known_policies().values()]


def solver_rows() -> list[dict[str, Any]]:
    """One dict per solver that CVXPY knows, those installed here first.

    Keys are ``name``, ``installed``, whether it takes ``linear`` programs and ``exponential`` and ``power`` cones, and
    ``install``, the pip line where CVXPY has one.
    """
    from cvxpy.reductions.solvers import defines

    here = solvers.installed()
    extras = set(metadata.metadata("cvxpy").get_all("Provides-Extra") or ())
    cones = {
        name: {kind.__name__ for kind in interface.SUPPORTED_CONSTRAINTS} | _SHOWN_ONLY_WHEN_LOADED.get(name, set())
        for name, interface in defines.SOLVER_MAP_CONIC.items()
    }
    names = sorted({*cones, *defines.SOLVER_MAP_QP, *here}, key=lambda name: (name not in here, name))
    return [
        {
            "name": name,
            "installed": name in here,
            "linear": True,
            "exponential": "ExpCone" in cones.get(name, ()),
            "power": "PowCone3D" in cones.get(name, ()),
            "install": None
            if name in here or (extra := name.lower().replace("_", "-")) not in extras
            else f"pip install cvxpy[{extra}]",
        }
        for name in names
    ]
