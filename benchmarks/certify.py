"""`fo.certify` on 61 problems after each installed solver, and on answers that were spoilt on purpose.

Linear, quadratic, second-order, exponential, power and semidefinite programs of 2 to 20,000 variables, of the shapes of
CVXPY's gallery and of Netlib, drawn with a seed. Each is solved by each solver that takes it, at its defaults, and
certified. Beside the gap stands the distance to the value of a tighter solve, and the seconds of both. Run:

    python benchmarks/certify.py [--solvers CLARABEL,SCS,ECOS,OSQP,HIGHS] [--largest 20000] [--only lasso,sdp]
    python benchmarks/certify.py --draws 10000

``--draws`` draws small problems, spoils the variables' values or the dual values of solved ones, and counts certified
answers that are not optimal, and bounds on the wrong side: none may be. Of each tenth that is certified the file is
checked by `fairopt.verify`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from common import arguments, median, show

import fairopt as fo
from fairopt.solve.form.solvers import silence_banner

Rng = np.random.Generator
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
MOST = {"SCS": 500, "ECOS": 500}  # variables, beyond which these take minutes for some, as HIGHS does on squares
NOISE = 1e-5  # the tighter solve errs by 1e-11: it found 5e-13 where the optimum is 0
COUNTED = ("draws", "certified", "by own duals", "not optimal", "wrong bounds", "files", "not proved")
FILED = 10  # one file of so many draws is checked
WRONG = 3e-6  # of the value: a certified answer promises 1e-6, and so does the tighter solve


def sparse(rng: Rng, m: int, n: int, each: int = 4) -> sp.csr_array:
    """A matrix with a few entries in each row."""
    row, column = np.repeat(np.arange(m), each), rng.integers(0, n, m * each)
    return sp.csr_array((rng.normal(size=m * each), (row, column)), shape=(m, n))


# -- linear


def diet(rng: Rng, n: int) -> cp.Problem:
    """The cheapest foods with enough of each nutrient."""
    foods, cost = rng.uniform(0, 1, (max(n // 3, 1), n)), rng.uniform(1, 4, n)
    x = cp.Variable(n, name="x", nonneg=True)
    return cp.Problem(cp.Minimize(cost @ x), [foods @ x >= 1])


def transport(rng: Rng, n: int) -> cp.Problem:
    """Goods from sources to sinks, in a matrix of amounts."""
    k = max(int(np.sqrt(n)), 2)
    supply, x = rng.uniform(1, 2, k), cp.Variable((k, k), name="flow")
    cost = rng.uniform(1, 9, (k, k))
    sides = [cp.sum(x, axis=1) <= supply, cp.sum(x, axis=0) == 0.9 * np.roll(supply, 1), x >= 0]
    return cp.Problem(cp.Minimize(cp.sum(cp.multiply(cost, x))), sides)


def staircase(rng: Rng, n: int) -> cp.Problem:
    """Stocks over time, as the staircases of Netlib."""
    t = max(n // 3, 1)
    make, store, sell = (cp.Variable(t, name=name, nonneg=True) for name in ("make", "store", "sell"))
    price, cost = rng.uniform(2, 5, t), rng.uniform(1, 4, t)
    rows = [store[0] == make[0] - sell[0], make <= 3, sell <= rng.uniform(1, 4, t)]
    rows += [store[1:] == store[:-1] + make[1:] - sell[1:]] if t > 1 else []
    return cp.Problem(cp.Maximize(price @ sell - cost @ make - 0.1 * cp.sum(store)), rows)


def chebyshev(rng: Rng, n: int) -> cp.Problem:
    """The centre of a polyhedron: free variables."""
    a = sparse(rng, 3 * n, n) + sp.vstack([sp.eye_array(n), -sp.eye_array(n), sp.csr_array((n, n))])
    x, r = cp.Variable(n, name="x"), cp.Variable(name="r")
    return cp.Problem(cp.Maximize(r), [a @ x + r * sp.linalg.norm(a, axis=1) <= 1 + rng.uniform(size=3 * n)])


def least_deviations(rng: Rng, n: int) -> cp.Problem:
    """A regression by absolute values."""
    a, x = sparse(rng, 2 * n, n) + 0.1 * sp.eye_array(2 * n, n), cp.Variable(n, name="x")
    return cp.Problem(cp.Minimize(cp.norm1(a @ x - rng.normal(size=2 * n))))


# -- quadratic


def portfolio(rng: Rng, n: int) -> cp.Problem:
    """Returns less a risk by factors."""
    k = max(min(n // 10, 50), 1)
    factors, w, f = rng.normal(size=(k, n)), cp.Variable(n, name="w"), cp.Variable(k, name="f")
    risk = cp.sum_squares(f) + cp.sum_squares(cp.multiply(rng.uniform(0.1, 1, n), w))
    returns = rng.uniform(0, 1, n) @ w
    return cp.Problem(cp.Maximize(returns - 0.5 * risk), [f == factors @ w, cp.sum(w) == 1, w >= 0])


def ridge(rng: Rng, n: int) -> cp.Problem:
    """Least squares with a square penalty: no constraints."""
    a, x = sparse(rng, 2 * n, n), cp.Variable(n, name="x")
    return cp.Problem(cp.Minimize(cp.sum_squares(a @ x - rng.normal(size=2 * n)) + 0.1 * cp.sum_squares(x)))


def lasso(rng: Rng, n: int) -> cp.Problem:
    """Least squares with a penalty of absolute values."""
    a, x = sparse(rng, n + 5, n), cp.Variable(n, name="x")
    return cp.Problem(cp.Minimize(cp.sum_squares(a @ x - rng.normal(size=n + 5)) + 0.3 * cp.norm1(x)))


def control(rng: Rng, n: int) -> cp.Problem:
    """A linear system driven to 0 by bounded inputs."""
    t = max(n // 4, 2)
    a, b = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=(3, 1))
    x, u = cp.Variable((3, t + 1), name="x"), cp.Variable((1, t), name="u", bounds=[-1, 1])
    rows = [x[:, 1:] == a @ x[:, :-1] + b @ u, x[:, 0] == rng.uniform(-1, 1, 3)]
    return cp.Problem(cp.Minimize(cp.sum_squares(x) + cp.sum_squares(u)), rows)


def support_vectors(rng: Rng, n: int) -> cp.Problem:
    """A separating plane with slack."""
    a, y = rng.normal(size=(2 * n, min(n, 30))), rng.choice([-1.0, 1.0], 2 * n)
    w, v = cp.Variable(min(n, 30), name="w"), cp.Variable(name="v")
    return cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - cp.multiply(y, a @ w - v))) + cp.sum_squares(w)))


# -- second-order cones


def robust(rng: Rng, n: int) -> cp.Problem:
    """A linear program whose rows hold for all coefficients in ellipsoids."""
    a, x = sparse(rng, n, n), cp.Variable(n, name="x")
    rows = [a @ x + 0.1 * cp.norm(x) <= 1, x <= 2, x >= -2]
    return cp.Problem(cp.Maximize(rng.normal(size=n) @ x), rows)


def facility(rng: Rng, n: int) -> cp.Problem:
    """Points near given ones, a sum of norms."""
    points, x = rng.normal(size=(max(n // 2, 2), 2)), cp.Variable((max(n // 2, 2), 2), name="x")
    far = cp.sum(cp.norm(x - points, axis=1)) + cp.sum(cp.norm(cp.diff(x, axis=0), axis=1))
    return cp.Problem(cp.Minimize(far))


def smallest_ball(rng: Rng, n: int) -> cp.Problem:
    """The smallest ball around points."""
    points, x = rng.normal(size=(3 * n, min(n, 20))), cp.Variable(min(n, 20), name="centre")
    return cp.Problem(cp.Minimize(cp.max(cp.norm(points - cp.reshape(x, (1, x.size), order="F"), axis=1))))


def geometric(rng: Rng, n: int) -> cp.Problem:
    """The largest geometric mean in a polytope."""
    a, x = rng.uniform(0, 1, (max(n // 2, 1), n)), cp.Variable(n, name="x")
    return cp.Problem(cp.Maximize(cp.geo_mean(x)), [a @ x <= 1])


# -- exponential cones


def logistic(rng: Rng, n: int) -> cp.Problem:
    """Logistic regression with a penalty."""
    a, y = rng.normal(size=(2 * n, min(n, 40))), rng.choice([-1.0, 1.0], 2 * n)
    x = cp.Variable(min(n, 40), name="x")
    return cp.Problem(cp.Minimize(cp.sum(cp.logistic(-cp.multiply(y, a @ x))) + 0.1 * cp.norm1(x)))


def entropy(rng: Rng, n: int) -> cp.Problem:
    """The largest entropy with given moments."""
    moments, x = rng.normal(size=(min(n // 2, 5) or 1, n)), cp.Variable(n, name="x")
    at = moments @ (np.ones(n) / n)
    return cp.Problem(cp.Maximize(cp.sum(cp.entr(x))), [cp.sum(x) == 1, moments @ x == 0.9 * at])


def water_filling(rng: Rng, n: int) -> cp.Problem:
    """Power over channels: logarithms."""
    x = cp.Variable(n, name="x")
    return cp.Problem(cp.Maximize(cp.sum(cp.log(rng.uniform(0.1, 1, n) + x))), [cp.sum(x) == 1, x >= 0])


def soft_maximum(rng: Rng, n: int) -> cp.Problem:
    """A log-sum-exp, as of geometric programs, in a box."""
    a, x = rng.normal(size=(2 * n, min(n, 40))), cp.Variable(min(n, 40), name="x")
    return cp.Problem(cp.Minimize(cp.log_sum_exp(a @ x + rng.normal(size=2 * n))), [cp.abs(x) <= 1])


# -- power cones


def powers(rng: Rng, n: int) -> cp.Problem:
    """Diminishing returns as powers."""
    a, x = rng.uniform(0, 1, (max(n // 4, 1), n)), cp.Variable(n, name="x")
    return cp.Problem(cp.Maximize(cp.sum(cp.power(x, 0.4, approx=False))), [a @ x <= 1])


def p_norm(rng: Rng, n: int) -> cp.Problem:
    """A regression by the norm of 2.5."""
    a, x = rng.normal(size=(2 * min(n, 60), min(n, 60))), cp.Variable(min(n, 60), name="x")
    return cp.Problem(cp.Minimize(cp.pnorm(a @ x - rng.normal(size=len(a)), 2.5, approx=False)))


# -- semidefinite


def max_cut(rng: Rng, n: int) -> cp.Problem:
    """The relaxation of a largest cut."""
    k = max(min(int(np.sqrt(2 * n)), 60), 2)
    a, x = rng.normal(size=(k, k)), cp.Variable((k, k), PSD=True, name="X")
    return cp.Problem(cp.Maximize(cp.trace((a + a.T) @ x)), [cp.diag(x) == 1])


def eigenvalue(rng: Rng, n: int) -> cp.Problem:
    """The smallest largest eigenvalue of matrices in a plane."""
    k = max(min(int(np.sqrt(2 * n)), 40), 2)
    a, x = rng.normal(size=(4, k, k)), cp.Variable(3, name="x")
    parts = [one + one.T for one in a]
    return cp.Problem(cp.Minimize(cp.lambda_max(parts[0] + sum(x[i] * parts[i + 1] for i in range(3)))))


def covariance(rng: Rng, n: int) -> cp.Problem:
    """A sparse inverse covariance."""
    k = max(min(int(np.sqrt(2 * n)), 20), 2)
    a, x = rng.normal(size=(3 * k, k)), cp.Variable((k, k), PSD=True, name="X")
    return cp.Problem(cp.Minimize(cp.trace(a.T @ a @ x) / len(a) - cp.log_det(x) + 0.1 * cp.sum(cp.abs(x))))


Kind = Callable[[Rng, int], cp.Problem]
SIZES: list[tuple[str, list[Kind], list[int]]] = [
    ("LP", [diet, chebyshev, least_deviations], [2, 40, 400]),
    ("LP", [transport, staircase], [4, 400, 20000]),
    ("QP", [portfolio, ridge, control], [4, 200, 2000]),
    ("QP", [lasso, support_vectors], [4, 200]),
    ("SOCP", [robust, facility, geometric], [2, 50, 100]),
    ("SOCP", [smallest_ball], [10, 200]),
    ("exponential", [logistic, entropy], [4, 100, 1000]),
    ("exponential", [water_filling, soft_maximum], [4, 300]),
    ("power", [powers, p_norm], [4, 60]),
    ("PSD", [max_cut, eigenvalue, covariance], [3, 50, 300]),
]


def problems(largest: int, only: list[str]) -> Iterator[tuple[str, str, int, cp.Problem]]:
    """Kinds, names, sizes and problems."""
    for kind, makers, sizes in SIZES:
        for make in makers:
            for n in sizes:
                if n <= largest and (only == [""] or make.__name__ in only):
                    yield kind, f"{make.__name__}-{n}", n, make(np.random.default_rng(n), n)


def solved(problem: cp.Problem, solver: str, **options: Any) -> float | None:
    """Seconds of a solve; None if the solver does not take the problem or finds nothing."""
    begun = time.perf_counter()
    try:
        problem.solve(solver=solver, **options)
    except (cp.error.SolverError, ValueError):
        return None
    found = all(variable.value is not None for variable in problem.variables())
    return time.perf_counter() - begun if found else None


def table(solvers: list[str], largest: int, only: list[str]) -> list[dict[str, Any]]:
    """One row per problem and solver."""
    rows = []
    for kind, name, n, problem in problems(largest, only):
        tight = solved(problem, "CLARABEL", **TIGHT)
        best = None if tight is None else float(problem.objective.args[0].value)
        for solver in [one for one in solvers if one in cp.installed_solvers()]:
            again = cp.Problem(problem.objective, problem.constraints)
            takes = n <= MOST.get(solver, n) and (solver != "HIGHS" or kind == "LP")
            seconds = solved(again, solver) if takes else None
            if seconds is None:
                continue
            proof = fo.certify(again)
            unit = max(abs(proof.value or 0.0), abs(best or 0.0), 1e-12)
            row = {
                "kind": kind,
                "problem": name,
                "solver": solver,
                "claimed": str(proof.claimed),
                "certified": str(proof.ok),
                "gap": float(proof.gap),
                "off": float("nan") if best is None or proof.value is None else abs(proof.value - best) / unit,
                "violation": float(proof.violation),
                "why": "" if proof.ok else "violation" if proof.violation > proof.tol else "gap",
                "absolute": str(not proof.assumed),
                "again": str(proof.solved_again),
                "solve s": seconds,
                "certify s": proof.seconds,
            }
            print(*(f"{v:.2g}" if isinstance(v, float) else v for v in row.values()), flush=True)
            rows.append(row)
    return rows


SMALL: list[Kind] = [
    diet, transport, staircase, chebyshev, least_deviations, portfolio, ridge, lasso, control, robust, facility,
    geometric, logistic, entropy, water_filling, soft_maximum, powers, p_norm, max_cut, eigenvalue,
]  # fmt: skip


def spoilt(rng: Rng, problem: cp.Problem) -> str:
    """Spoil what a solver left, and say what."""
    how = str(rng.choice(["nothing", "values", "duals", "both", "scale", "nonsense"]))
    size = 10.0 ** rng.uniform(-9, 1)
    if how in ("values", "both"):
        for variable in problem.variables():
            value = np.asarray(variable.value)
            noise = rng.normal(size=variable.shape)
            noise = noise + noise.T if variable.attributes["PSD"] else noise
            variable.save_value(value + size * np.abs(value).max(initial=0.0) * noise)
    if how == "scale":
        for variable in problem.variables():
            variable.save_value(np.asarray(variable.value) * (1.0 + size))
    if how in ("duals", "both", "nonsense"):
        for condition in problem.constraints:
            for dual in condition.dual_variables:
                if dual.value is None:
                    continue
                noise = rng.normal(size=dual.shape) * (1e6 if how == "nonsense" else size)
                dual.save_value(np.asarray(dual.value) * (how != "nonsense") + noise)
    return how


def draws(count: int, seed: int, folder: str) -> list[dict[str, Any]]:
    """How many spoilt answers were certified, by what was spoilt, and how many of these were not optimal."""
    found: dict[str, dict[str, Any]] = {}
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        make = SMALL[int(rng.integers(len(SMALL)))]
        problem = make(rng, int(rng.integers(2, 12)))
        if solved(problem, "CLARABEL", **TIGHT) is None:
            continue
        best = float(problem.objective.args[0].value)
        how = spoilt(rng, problem)
        proof = fo.certify(problem)
        sign = -1.0 if proof.maximised else 1.0
        unit = max(abs(best), abs(proof.value or 0.0), NOISE)
        wrong = proof.ok and not (proof.infeasible or proof.unbounded or abs(proof.value - best) <= WRONG * unit)
        wrong |= proof.infeasible or proof.unbounded
        beyond = sign * (proof.bound - best) > WRONG * unit  # a bound on the wrong side
        row = found.setdefault(how, {"spoilt": how} | dict.fromkeys(COUNTED, 0))
        row["draws"] += 1
        row["certified"] += proof.ok
        row["by own duals"] += proof.ok and not proof.solved_again
        row["not optimal"] += int(wrong)
        row["wrong bounds"] += int(beyond)
        if proof.ok and k % FILED == 0:
            row["files"] += 1
            row["not proved"] += int(not fo.verify(proof.save(Path(folder) / "proof.json"), atol=proof.atol).ok)
        if wrong or beyond:
            print(f"draw {k} ({make.__name__}, {how}): optimum {best!r}, {proof}")
    return list(found.values())


if __name__ == "__main__":
    given = arguments(
        __doc__ or "",
        solvers=["CLARABEL", "SCS", "ECOS", "OSQP", "HIGHS"],
        largest=20000,
        only=[""],
        draws=0,
        seed=0,
    )
    warnings.simplefilter("ignore")
    silence_banner()
    if given.draws:
        with TemporaryDirectory() as folder:
            show("Spoilt answers", draws(given.draws, given.seed, folder), "certify_draws")
    else:
        rows = table(given.solvers, given.largest, given.only)
        show("Certificates of problems", rows, "certify")
        good = sum(row["certified"] == "True" for row in rows)
        parts = {"own duals": "False", "one more solve": "True"}
        for name, which in parts.items():
            ratios = [row["certify s"] / row["solve s"] for row in rows if row["again"] == which]
            print(f"by {name}: {median(ratios or [0.0]):.2f} of the solve in the median of {len(ratios)}")
        why = ", ".join(f"{sum(row['why'] == one for row in rows)} refused by {one}" for one in ("gap", "violation"))
        print(f"{good} of {len(rows)} certified; {why}")
