"""``fairopt certify``: a proof for a CVXPY problem of the user's own."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt.certificate import ProblemCertificate
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.progress import console_for, say, show_json, working, written
from fairopt.errors import InvalidProblem, SolverUnavailable
from fairopt.policies.registry import object_at
from fairopt.proof.certify import certify as prove
from fairopt.proof.stated import check_problem
from fairopt.report import check_output
from fairopt.runtime.lazy import cp

CERTIFY = """Prove how good the answer of a CVXPY problem is, or that it has none, without trusting the solver.

PLACE names a problem in a Python file, or a function without parameters that makes one: model.py:problem. The file is \
run. If it has not solved the problem, CVXPY's default solver does. The proof takes the dual values of its constraints \
where they suffice, else one more solve.

--out writes the proof, which 'fairopt verify' checks by arithmetic alone.

The exit code is 0 if the answer is certified, or the problem is proved infeasible or unbounded, else 1.

\b
[bold]Examples[/]
  fairopt certify model.py:problem
  fairopt certify model.py:problem --out proof.json
  fairopt certify model.py:make --solver SCS"""


@app.command(no_args_is_help=True, help=CERTIFY)
@guarded
def certify(
    place: Annotated[str, typer.Argument(metavar="PLACE", show_default=False, help="FILE.py:NAME or MODULE:NAME.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the proof.")] = None,
    solver: Annotated[
        str | None, typer.Option(metavar="NAME", help="Solve the problem with this solver first.")
    ] = None,
    tol: Annotated[float, typer.Option(help="The largest gap and violation that are certified.")] = 1e-6,
    atol: Annotated[
        float | None,
        typer.Option(help="The distance from the optimum that is certified whatever the gap is, for optima of 0."),
    ] = None,
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time limit of the proof.")] = None,
    as_json: AsJson = False,
) -> None:
    """Certify a CVXPY problem."""
    check_output(out, (".json",), place.partition(":")[0])
    with working(place, verbose=False):
        problem = _problem(place)
        solved = solver is not None or any(variable.value is None for variable in problem.variables())
        if solved:
            check_problem(problem)
            try:
                problem.solve(solver=solver)
            except cp.error.SolverError as error:
                raise SolverUnavailable(f"{place} was not solved: {error}") from None
        proof = prove(problem, tol=tol, atol=atol, time_limit=time_limit)
    if out is not None:
        proof.save(out, place)
    if as_json:
        show_json("fairopt.certificate/1", {"problem": place, "solved": solved, **as_data(proof)})
    else:
        if solved:
            by = proof.solver or "a solver"
            say(f"{place} {'had no values and ' if solver is None else ''}was solved with {by}")
        console_for().print(str(proof), markup=False, soft_wrap=True)
        if out is not None:
            written(out)
    if not proof.ok:
        raise typer.Exit(1)


def as_data(proof: ProblemCertificate) -> dict[str, Any]:
    """A certificate as plain data."""
    data = {one.name: getattr(proof, one.name) for one in fields(proof) if one.name != "file"}
    for name in ("violations", "weights"):
        data[name] = dict(data[name])
    return {"ok": proof.ok, "statement": str(proof), "next_step": proof.next_step, **data}


def _problem(place: str) -> cp.Problem:
    """The problem of a place."""
    module, _, name = place.partition(":")
    found = object_at(module, name.strip(), place, (), (cp.Problem,))
    found = found() if callable(found) else found
    if not isinstance(found, cp.Problem):
        raise InvalidProblem(f"{place} is a {type(found).__name__}; give a cvxpy.Problem, or a function that makes one")
    return found
