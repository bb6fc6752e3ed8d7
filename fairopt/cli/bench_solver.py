"""``fairopt bench-solver`` has moved; for one version the command says where."""

from __future__ import annotations

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.errors import InvalidInput

MOVED = "fairopt bench-solver is now a script in fairopt's repository: python benchmarks/bench_solver.py"


@app.command(
    "bench-solver", deprecated=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
@guarded
def bench(as_json: AsJson = False) -> None:
    """Moved to benchmarks/bench_solver.py in fairopt's repository."""
    raise InvalidInput(MOVED)
