"""The same answer under every kernel of OpenBLAS: leximin on several servers."""

from __future__ import annotations

import json
from functools import partial

from faults import Bench, Fault

KERNELS = ("Haswell", "Sandybridge", "SkylakeX")
MORE = ("Zen", "Prescott")
INSTANCES = 300
CLOSE = 1e-5  # relative difference of shares within the tolerances of the certificate

# Arguments: the checkout, how many instances, a file for the shares. Prints how many were refused.
LEVELS = """
import json, sys
sys.path.insert(0, sys.argv[1] + "/tests")
import numpy as np
import fairopt as fo
from oracle.instances import log_uniform
shares, refused = [], 0
for seed in range(int(sys.argv[2])):
    rng = np.random.default_rng(seed)
    users, servers, resources = int(rng.integers(60, 201)), int(rng.integers(3, 9)), int(rng.integers(2, 5))
    instance = log_uniform(rng, users, resources, servers, limits=0.3 * (seed % 2))
    share = (fo.DominantShare(), fo.StandAloneShare(), fo.Tasks())[seed // 2 % 3]
    try:
        shares.append(fo.Policy(fo.Leximin(share)).allocate(instance, method="levels").shares.tolist())
    except fo.errors.NotCertified:
        shares.append(None)
        refused += 1
json.dump(shares, open(sys.argv[3], "w"))
print(refused)
"""

ONE = """
import sys
sys.path.insert(0, sys.argv[1] + "/tests")
import numpy as np
import fairopt as fo
from oracle.instances import log_uniform
a = fo.DRF().allocate(log_uniform(np.random.default_rng(3), 200, 3, 3))
assert a.certificate.method == "levels"
"""


def refused(kernel: str, bench: Bench) -> str:
    """Refusals by levels of instances of 60 to 200 users on 3 to 8 servers over four decades."""
    file = str(bench.folder / kernel)
    ended = bench.code(LEVELS, str(bench.checkout), str(INSTANCES), file, OPENBLAS_CORETYPE=kernel, patience=1800)
    if ended.code:
        return str(ended)
    return "" if ended.out.split() == ["0"] else f"{ended.out.strip()} of {INSTANCES} refused"


def drf(bench: Bench) -> str:
    """DRF of 200 users on 3 servers, by levels under each kernel."""
    ends = {kernel: bench.code(ONE, str(bench.checkout), OPENBLAS_CORETYPE=kernel) for kernel in (*KERNELS, *MORE)}
    return "; ".join(f"{kernel} {ended}" for kernel, ended in ends.items() if ended.code)


def differ(bench: Bench) -> str:
    """Instances that a kernel refuses and another does not, or whose shares differ."""
    for kernel in KERNELS:
        refused(kernel, bench)
    by_kernel = [json.loads((bench.folder / kernel).read_text()) for kernel in KERNELS]
    some = sum(None in answers and any(answers) for answers in zip(*by_kernel, strict=True))
    far = sum(
        max(max(row) / min(row) - 1 for row in zip(*answers, strict=True) if max(row)) > CLOSE
        for answers in zip(*by_kernel, strict=True)
        if None not in answers
    )
    parts = [f"{some} refused by some"] * bool(some) + [f"{far} with other shares"] * bool(far)
    return f"of {INSTANCES} " + ", ".join(parts) if parts else ""


FAULTS: dict[str, Fault] = {
    "DRF of 200 users on 3 servers": drf,
    **{f"leximin on servers, {kernel}": partial(refused, kernel) for kernel in KERNELS},
    "leximin on servers, the same under all": differ,
}
