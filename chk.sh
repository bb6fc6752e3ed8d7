#!/bin/bash
cd /work/wt/tr; B=/work/main/.venv/bin
$B/ruff check --fix -q fairopt tests/deployed benchmarks docs; $B/ruff format -q fairopt/deployed fairopt/properties/audit fairopt/cli/audit.py tests/deployed benchmarks/trial.py 2>/dev/null
[ "$1" = m ] && $B/mypy fairopt 2>&1 | tail -12
