"""Print a kernel of OpenBLAS, as OPENBLAS_CORETYPE takes it, other than the one in use; nothing, and why, if none is.

OpenBLAS adds up in another order by each kernel, so that answers differ in their last bits. The hash of the commit
chooses the kernel, so that a series of commits tries all, and a commit always the same. As a plugin of pytest
(``-p other_kernel``) this makes sure that the tests really ran by another kernel than OTHER_THAN.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

KERNELS = ("Haswell", "Zen", "Sandybridge", "Prescott")  # by turns; the wheels of NumPy and SciPy use Haswell for Zen
ARM = ("NEOVERSEN1", "ARMV8")
# A processor without a kernel's instructions stops at the product, unless OpenBLAS has taken another kernel.
PROBE = "import numpy, scipy.linalg, other_kernel; numpy.ones((64, 64)) @ numpy.ones(64); print(other_kernel.in_use())"


def in_use() -> str:
    """The kernels that the loaded copies of OpenBLAS use; nothing where there is no OpenBLAS."""
    import threadpoolctl

    found = {i["architecture"] for i in threadpoolctl.threadpool_info() if i["internal_api"] == "openblas"}
    return ", ".join(sorted(found))


def used_under(variables: Mapping[str, str]) -> str:
    """The kernels that a fresh process uses under some environment variables; nothing if it cannot run."""
    asked, own = [sys.executable, "-c", PROBE], os.environ | dict(variables)
    done = subprocess.run(asked, env=own, cwd=Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def turn() -> int:
    """The hash of the commit that is checked out as a number; 0 outside a repository."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:  # git is not installed
        return 0
    return int(done.stdout, 16) if done.returncode == 0 else 0


def pytest_collection_finish() -> None:
    """Stop unless another kernel than OTHER_THAN is in use."""
    if in_use() in ("", os.environ["OTHER_THAN"]):
        raise SystemExit(f"the kernel of OpenBLAS is {in_use() or 'unknown'}, though another was asked for")


if __name__ == "__main__":
    now, first = used_under({}), turn() % len(KERNELS)
    candidates = (*KERNELS[first:], *KERNELS[:first], *ARM) if now else ()
    other = next((name for name in candidates if used_under({"OPENBLAS_CORETYPE": name}) not in ("", now)), None)
    if other:
        print(other, now.replace(", ", "+"))
    else:
        reason = f"this processor runs no kernel of OpenBLAS but {now}" if now else "NumPy's BLAS is not OpenBLAS"
        print(f"== no second run of the tests: {reason}", file=sys.stderr)
