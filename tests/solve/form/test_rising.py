"""Who can rise above the base of a surplus on several servers."""

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.teams import Rising, Surplus
from fairopt.errors import OutOfDomain
from fairopt.solve.form import rising
from fairopt.solve.form.program import Program


def filled(rng):
    """An instance whose guarantees are a vertex of what is feasible, and who can rise, one linear program each."""
    n, m, servers = rng.integers(2, 8), rng.integers(1, 4), rng.integers(2, 4)
    demands = rng.integers(0, 4, (n, m)).astype(float)
    demands[demands.sum(axis=1) == 0, 0] = 1
    capacities = rng.integers(3, 12, (servers, m)).astype(float)
    eligible = rng.random((n, servers)) < 0.8
    eligible[np.arange(n), rng.integers(0, servers, n)] = True
    limits = np.where(rng.random(n) < 0.3, rng.integers(1, 4, n), np.inf)
    user, server = np.nonzero(eligible)
    loads = np.vstack([(server == s) * demands[user].T for s in range(servers)])
    totals = (user == np.arange(n)[:, None]).astype(float)
    some = np.isfinite(limits)
    rows, right = np.vstack([loads, totals[some]]), np.concatenate([capacities.ravel(), limits[some]])
    vertex = linprog(-rng.random(len(user)) * (rng.random(len(user)) < 0.7), A_ub=rows, b_ub=right).x
    base = totals @ vertex * (rng.random(n) < 0.8)
    floors, least = np.vstack([rows, -totals]), np.concatenate([right, -base * (1 - 1e-12)])
    most = np.array([-linprog(-totals[j], A_ub=floors, b_ub=least).fun for j in range(n)])
    given = fo.Instance(demands, capacities, eligible=eligible, task_limits=limits, guarantees=base)
    return given, most > base + 1e-6 * (1 + base)


def test_whether_bases_fill_a_resource_is_decided_as_in_fractions():
    """Where they leave a billionth of it, give or take a last digit."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        demands, base = rng.lognormal(size=(2, 5))
        capacity = float(base @ demands) * (1 + 1e-9) + rng.integers(-2, 3) * 1e-16
        left = Fraction(capacity) - sum(Fraction(d) * Fraction(b) for d, b in zip(demands, base, strict=True))
        pool = fo.Instance(demands[:, None], [capacity], guarantees=base)
        room = Program(pool, fo.Leximin(Surplus()), ()).room
        assert room.tolist() == [left > Fraction(capacity) / 10**9] * 5


def test_those_who_rise_are_found():
    rng = np.random.default_rng(0)
    for _ in range(60):
        given, true = filled(rng)
        (share,) = Program(given, fo.MaxMin(fo.Surplus()), ()).objective.share_blocks()
        found = share._rises(given) if isinstance(share, Rising) else np.full(len(true), isinstance(share, Surplus))
        assert found.tolist() == true.tolist()


@pytest.mark.parametrize("make", [fo.MaxMin, lambda share: fo.AlphaFair(3, share)])
def test_those_who_stay_leave_the_objective(make):
    rng = np.random.default_rng(3)
    for _ in range(8):
        given, true = filled(rng)
        answer = fo.Policy(make(fo.Surplus())).allocate(given)
        assert answer.certificate.ok
        assert (answer.tasks[true] > given.guarantees[true]).all()


def test_no_prices_prove_too_little():
    rng = np.random.default_rng(5)
    for _ in range(30):
        given, _ = filled(rng)
        program = Program(given, fo.Total(), ())
        numbers = fo.Surplus()._numbers(given)
        linear = rising._Linear(program, numbers, np.ones(len(numbers)))
        some = rng.random(len(numbers)) < 0.5
        prices = rng.exponential(1, len(program.usable_rows)) * rng.integers(0, 2, len(program.usable_rows))
        total = fo.Policy(fo.Total(fo.Tasks())).allocate(given)  # any feasible point
        held = numbers.above(numbers.per_task * total.tasks)
        assert linear.most(some, prices) >= held[some].sum() - 1e-9


@pytest.mark.parametrize("large", [1e10, 1e12])
def test_rise_that_is_little_of_what_a_user_has_alone_is_not_left_out(large):
    """User j could have 50 tasks on server B, of very many on server A, which the guarantee of another user fills."""
    eligible = [[True, False], [True, True], [False, True]]
    given = fo.Instance([[1], [1], [1]], [[large], [100]], eligible=eligible, guarantees=[large, 0, 0])
    assert not [s for s in Program(given, fo.Leximin(fo.Surplus()), ()).objective.share_blocks() if type(s) is Rising]
    with pytest.raises(OutOfDomain, match="is not certain"):
        fo.Policy(fo.MaxMin(fo.Surplus(fo.Tasks()))).allocate(given)


@pytest.mark.parametrize("share", [fo.Surplus(), fo.Surplus(fo.OfTeam())], ids=str)
@pytest.mark.parametrize(
    "make",
    [fo.MaxMin, fo.Leximin, lambda s: fo.AlphaFair(2, s), lambda s: fo.AlphaFair(0.5, s)],
    ids=["MaxMin", "Leximin", "AlphaFair(2)", "AlphaFair(0.5)"],
)
def test_answers_with_users_who_stay_are_read_and_verified(tmp_path, make, share):
    teams = {"team": ["k", "j", "l"]}
    given = fo.Instance([[1, 0], [1, 1], [0, 1]], [5, 6], guarantees=[5, 0, 0], teams=teams)
    answer = fo.Policy(make(share)).allocate(given)
    assert answer.tasks == pytest.approx([5, 0, 6])
    file = answer.save(tmp_path / "answer.json")
    assert fo.Allocation.load(file).certificate.ok
    assert fo.verify(file).ok, fo.verify(file)
    for value in (0.0, answer.objective):
        spoiled = json.loads(file.read_text()) | {"tasks_by_server": [[5.0], [0.0], [0.0]], "objective": value}
        other = tmp_path / "spoiled.json"
        other.write_text(json.dumps(spoiled))
        assert not fo.verify(other).ok
