"""Time limits: every call ends in time, keeps what it found, and names the step that it had reached."""

import inspect
import sys
import time
from pathlib import Path
from typing import Any

import cvxpy as cp
import forked
import numpy as np
import pytest
from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone

import fairopt as fo
from fairopt.proof import gate
from fairopt.runtime import lazy, solver_process, subprocesses
from fairopt.runtime.clock import SHORTEST, Clock, Late, check, current
from fairopt.runtime.progress import steps, tell
from fairopt.solve import infeasible, leftover
from fairopt.solve.cluster.psdsf import equilibrium
from fairopt.solve.form import affine, solvers

CLUSTER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], teams={"team": ["batch", None]})
SERVERS = fo.Instance([[40, 8, 8], [8, 5, 1]], [[200, 200, 200], [50, 90, 70]])


def for_ever(*_: Any, **__: Any) -> Any:
    while True:
        check()


def over(*_: Any, **__: Any) -> Any:
    """Stopped at once, as if all the time had gone before."""
    clock = current()
    assert clock is not None
    clock.end = clock.hard = time.perf_counter()
    raise Late


def test_reports_of_progress_end_a_call_whose_time_is_over() -> None:
    def work() -> Any:
        tell("looking")
        for _ in steps(iter(int, 1), "things"):
            pass

    words = (clock := Clock(0.01)).run(work, lambda: str(clock))
    assert words.startswith("the time limit of 0.01 s, which ended at: things, ")
    assert current() is None
    check("after the call")


def test_a_proof_has_half_a_second_more_at_most() -> None:
    for clock, grace in ((Clock(0.1), 0.08), (Clock(1e4), 0.5), (Clock(1.0, grace=False), 0.0)):
        assert clock.hard - clock.end == pytest.approx(grace)


def test_an_inner_limit_ends_with_the_outer_one() -> None:
    def work() -> str:
        return Clock(1000.0).run(for_ever, lambda: "inner")

    assert Clock(0.01).run(work, lambda: "outer") == "inner"


def test_a_call_without_a_limit_ends_with_the_outer_one() -> None:
    assert Clock(0.01).run(lambda: Clock(None).run(for_ever, lambda: "inner"), lambda: "outer") == "outer"


def test_without_a_limit_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("threading.Thread.start", "subprocess.Popen.__init__"):
        monkeypatch.setattr(name, lambda *_, **__: pytest.fail("started"))
    assert fo.FDS(2).allocate(CLUSTER, method="cone").certificate.ok
    assert current() is None


def test_a_proof_without_end_is_stopped_and_its_answer_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "judge", over)
    with pytest.raises(fo.errors.NotCertified, match=r"which ended at: the proof.*time_limit") as caught:
        fo.FDS(1).allocate(CLUSTER, method="cone", time_limit=60)
    best = caught.value.best
    assert not best.certificate.ok
    assert best.certificate.violation <= 1e-9
    assert best.tasks.sum() > 0  # the point that was being judged
    assert [attempt.solver for attempt in caught.value.tried] == ["CLARABEL"]


def test_an_answer_that_was_certified_in_time_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftover, "distribute_leftover", over)
    assert fo.FDS(1).allocate(CLUSTER, method="cone", time_limit=60).certificate.ok


@pytest.mark.fast_methods
@pytest.mark.parametrize(
    "mechanism, place",
    [
        (fo.DRF(), "fairopt.solve.pool.waterfilling.find_events"),
        (fo.PSDSF(), "fairopt.policies.psdsf.equilibrium"),
        (fo.NaivePerServer(fo.DRF()), "fairopt.policies.per_server.allocate_together"),
        (fo.BottleneckFairness(), "fairopt.policies.bottleneck.bottleneck_fairness"),
        (fo.SequentialMinMax(), "fairopt.policies.sequential.one_after_the_other"),
        (fo.DynamicDRF(), "fairopt.policies.dynamic.solve_waterfilling"),
        (fo.HDRF(), "fairopt.proof.gate.of_filling"),
    ],
    ids=lambda what: getattr(what, "name", None),
)
def test_every_mechanism_is_stopped(mechanism: Any, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, for_ever)
    with pytest.raises(fo.errors.NotCertified, match=r"which ended at: .*give it more time_limit"):
        mechanism.allocate(CLUSTER, time_limit=0.02)


def test_all_that_has_a_name_takes_a_time_limit() -> None:
    for name, notion in fo.policies.known_policies().items():
        given = [f"{word}=1" for word in ("p", "alpha") if word in inspect.signature(notion.make).parameters]
        made = fo.policies.named_policy(":".join([name, ",".join(given)]) if given else name)
        assert "time_limit" in inspect.signature(made.allocate).parameters, name


def test_whole_tasks_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairopt.solve.whole.solve.rounded", for_ever)
    with pytest.raises(fo.errors.NotCertified, match="which ended at: "):
        fo.DRF().allocate(CLUSTER, integral="rounded", time_limit=0.05)


# -- solvers in processes of their own ---------------------------------------------------------------------------


@pytest.fixture
def nobody_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocesses, "_idle", [])


@pytest.mark.parametrize("solver", ["ECOS", "CLARABEL"])
def test_a_solver_that_does_not_end_is_stopped(
    solver: str, nobody_at_hand: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text("while True: pass")
    monkeypatch.setattr(subprocesses, "PROGRAM", program)
    monkeypatch.setattr(solvers, "_LONG", 0)
    monkeypatch.setattr(solvers, "_SHORT", 0)
    x = cp.Variable()
    attempt = solvers.run(cp.Problem(cp.Maximize(x), [x <= 1]), solver, time_limit=0.05)
    assert attempt.status == "time limit reached"
    assert subprocesses._idle == []


def test_a_process_that_ends_is_an_error_of_the_solver(
    nobody_at_hand: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os; os._exit(7)")
    monkeypatch.setattr(subprocesses, "PROGRAM", program)
    monkeypatch.setattr(solvers, "_SHORT", 0)
    x = cp.Variable()
    attempt = solvers.run(cp.Problem(cp.Maximize(x), [x <= 1]), "ECOS", time_limit=60)
    assert (attempt.status, attempt.message) == (
        "solver_error",
        "RuntimeError: the process of the solver ended with exit code 7",
    )


def test_another_process_gives_the_same_answer_and_prints_nothing(
    nobody_at_hand: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(solvers, "_LONG", 0)
    policy = fo.Policy(fo.OrderedWeighted((3, 2)))
    here = policy.allocate(SERVERS, solver="CLARABEL")
    there = policy.allocate(SERVERS, solver="CLARABEL", time_limit=60)
    assert there.certificate.ok
    # the other process has CVXPY compile all rows, in another order than rows that are known here
    np.testing.assert_allclose(here.tasks, there.tasks, rtol=1e-9)
    (process,) = subprocesses._idle
    assert fo.MostTasks().allocate(SERVERS, solver="HIGHS", time_limit=60).certificate.ok
    assert capfd.readouterr() == ("", "")
    with pytest.raises(fo.errors.InvalidBlock, match="CLARABEL refuses its solver_options"):
        policy.allocate(SERVERS, solver="CLARABEL", solver_options={"no_such": 1}, time_limit=60)
    assert subprocesses._idle == [process]  # it goes on after an error
    process.process.kill()
    process.process.wait()
    again = policy.allocate(SERVERS, solver="CLARABEL", time_limit=60)  # by a new process
    assert np.array_equal(again.tasks, there.tasks) and subprocesses._idle != [process]
    subprocesses._idle.pop().end()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process ends when its seconds are over")
def test_the_process_ends_with_the_one_that_asks() -> None:
    asks = forked.Program(
        "-c",
        "from fairopt.runtime import subprocesses\nsubprocesses.start()\nprint(subprocesses._idle[0].process.pid)\n"
        "import signal\nsignal.pause()",
    )
    asks.wait_for("\n", asks.out)
    about = Path("/proc", asks.out.read_text().strip(), "stat")
    asks.process.kill()
    asks.done()
    until = time.monotonic() + forked.PATIENCE
    while about.exists() and about.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_cannot_be_sent_is_solved_here(nobody_at_hand: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "_LONG", 0)
    x = cp.Variable()
    x.own = lambda: None  # cannot be pickled
    attempt = solvers.run(cp.Problem(cp.Minimize(cp.exp(x)), [x >= 1]), "SCS", time_limit=60)
    assert attempt.status == "optimal" and x.value == pytest.approx(1.0)
    assert subprocesses._idle == []


def test_the_time_of_a_solver_begins_before_it_is_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    x = cp.Variable()
    problem = cp.Problem(cp.Maximize(x), [x <= 1])
    request: dict[str, Any] = dict(problem=problem, solver="CLARABEL", time_option=("time_limit",), verbose=False)
    assert solver_process.problem(**request, options={}, seconds=0.0) is None
    found = solver_process.problem(**request, options=(options := {}), seconds=60.0)
    assert found is not None and found[0] == "optimal" and 0 < options["time_limit"] < 60
    assert solvers.run(problem, "HIGHS", time_limit=0.0).status == "time limit reached"


def test_a_proof_by_a_second_solve_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(what: str, until: float, **_: Any) -> Any:
        asked.append((what, until))
        raise subprocesses._Stopped

    asked: list[tuple[str, float]] = []
    problem = cp.Problem(cp.Maximize(cp.sum(x := cp.Variable(2, nonneg=True))), [x <= 1])
    monkeypatch.setattr(subprocesses, "solve", stopped)
    monkeypatch.setattr(solvers, "_LONG", 0)

    def work() -> Any:
        from fairopt.proof.conic import conic_excess

        return conic_excess(problem.objective.expr, problem.constraints, x, np.ones(2), 2.0)

    assert work()[0] < 1e-6
    assert (clock := Clock(60.0)).run(work) == (np.inf, "")
    assert asked == [("CLARABEL", clock.hard)]
    with pytest.raises(fo.errors.NotCertified, match="which ended at: the proof by CLARABEL"):
        Clock(1e-9, grace=False).run(work)


def test_a_search_for_what_conflicts_ends_in_time() -> None:
    def work() -> Any:
        return infeasible.irreducible({"a": [x >= 1], "b": [x <= 0]})

    x = cp.Variable()
    assert Clock(60.0).run(work) == ["a", "b"]
    assert Clock(1e-9, grace=False).run(work, lambda: ["late"]) == ["late"]
    with pytest.raises(Late), Clock(1e-9, grace=False).enforced():
        check("late")


def test_imports_since_the_beginning_of_a_call_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "_IMPORTS", [(1.0, 0.5), (3.0, 0.25)])
    assert (lazy.seconds_since(0.0), lazy.seconds_since(2.0), lazy.seconds_since(4.0)) == (0.75, 0.25, 0)


def test_a_clock_gives_steps_what_is_left_of_the_limit() -> None:
    clock = Clock(60.0)
    first = clock.left
    assert first is not None and 59 < first <= 60 and not clock.late
    over_at_once = Clock(1e-9)
    assert over_at_once.late and over_at_once.left == SHORTEST
    assert Clock(None).left is None and not Clock(None).late
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit is 0"):
        Clock(0)


def test_a_clock_limits_the_calls_in_its_block() -> None:
    with Clock(60.0).enforced():
        outer = current()
        assert outer is not None
        with Clock(None).enforced():
            assert current() is outer
        with Clock(1e-9).enforced():
            inner = current()
            assert inner is not None and inner.late and inner.end < outer.end
        assert current() is outer and not outer.late
    assert current() is None


# -- the best found by mechanisms of several steps ---------------------------------------------------------------


def test_servers_solved_in_time_are_the_best_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fo.datasets.log_uniform(20, 3, n_servers=9_000, different_servers=True, seed=1)
    late = iter([False, *[True] * 100])
    monkeypatch.setattr(Clock, "late", property(lambda self: next(late)))
    with pytest.raises(fo.errors.NotCertified) as caught:
        fo.NaivePerServer(fo.DRF()).allocate(cluster, time_limit=600)
    best = caught.value.best
    used = best.tasks_by_server.sum(axis=0) > 0
    assert used.any() and not used.all() and best.certificate.violation <= 1e-9 and not best.certificate.ok


def test_users_who_arrived_in_time_have_their_tasks_in_the_best_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = fo.Instance([[1, 1 / 2, 3 / 4], [1 / 2, 1, 3 / 4], [1 / 2, 1 / 2, 1]], [1, 1, 1])
    late = iter([False, True])
    monkeypatch.setattr(Clock, "late", property(lambda self: next(late)))
    with pytest.raises(fo.errors.NotCertified, match="after 2 of 3 users had arrived") as caught:
        fo.DynamicDRF().allocate(pool, time_limit=60)
    best = caught.value.best
    assert best.tasks == pytest.approx([4 / 9, 4 / 9, 0]) and best.instance is pool and not best.certificate.ok


def test_after_the_deadline_ps_dsf_stops_filling_servers() -> None:
    servers = equilibrium(SERVERS, Clock(1e-9))
    assert servers.tolist() == [[0, 0], [0, 0]]


def test_what_ps_dsf_had_when_its_proof_was_stopped_is_the_best_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fo.PSDSF().allocate(SERVERS)
    monkeypatch.setattr(gate, "largest_gain", for_ever)
    with pytest.raises(fo.errors.NotCertified, match="which ended at: the proof") as caught:
        fo.PSDSF().allocate(SERVERS, time_limit=0.05)
    best = caught.value.best
    assert best.tasks == pytest.approx(found.tasks, rel=1e-6)
    assert best.certificate.gap == np.inf and best.certificate.violation <= 1e-9


def test_ps_dsf_stopped_in_its_search_has_the_nearest_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairopt.solve.cluster.psdsf.largest_gain", for_ever)
    with pytest.raises(fo.errors.NotCertified, match="which ended at: servers in balance, step 1") as caught:
        fo.PSDSF().allocate(SERVERS, time_limit=0.05)
    best = caught.value.best
    assert (best.tasks > 0).all() and best.certificate.violation <= 1e-9 and not best.certificate.ok


# -- programs that have many more entries than the notion has numbers --------------------------------------------------


def theil(model: Any) -> Any:
    """The mean by a dense matrix, so that the compiled program has as many entries as pairs of users."""
    n = model.tasks.size
    mean = np.full((n, n), 1 / n) @ model.tasks
    return cp.sum(mean) / n - 0.5 * cp.sum(cp.rel_entr(model.tasks, mean)) / n


MANY = fo.Instance(np.random.default_rng(1).uniform(1, 4, (40, 2)), [40, 40])


@pytest.mark.parametrize("solver", ["CLARABEL", "HIGHS"])
def test_entries_decide_where_a_program_is_solved(
    solver: str, nobody_at_hand: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    solve = subprocesses.solve

    def seen(what: str, until: float, **data: Any) -> Any:
        asked.append(what)
        return solve(what, until, **data)

    monkeypatch.setattr(solvers, "_LONG", 1_000)
    monkeypatch.setattr(subprocesses, "solve", seen)
    policies = {
        "CLARABEL": fo.Policy(theil),
        "HIGHS": fo.Policy(fo.Total(), [lambda m: m.tasks >= np.full((40, 40), 0.1 / 40) @ m.tasks]),
    }
    a = policies[solver].allocate(MANY, solver=solver, time_limit=60)
    assert a.certificate.ok and solver in asked
    asked.clear()
    assert fo.FDS(2).allocate(MANY, solver="CLARABEL", time_limit=60).certificate.ok
    assert asked == []
    subprocesses._idle.pop().end()


def test_a_program_that_takes_longer_to_compile_than_the_call_may_take_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(affine, "PER_ENTRY", 1.0)
    with pytest.raises(fo.errors.NotCertified, match="which ended at: CVXPY, which compiles for CLARABEL"):
        fo.Policy(theil).allocate(MANY, time_limit=60)
    monkeypatch.setattr(affine, "PER_ENTRY", 1e-9)
    assert fo.Policy(theil).allocate(MANY, time_limit=60).certificate.ok


def test_writing_in_cones_is_stopped_between_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "cvxpy.reductions.dcp2cone.dcp2cone.Dcp2Cone.canonicalize_expr"
    write, written = Dcp2Cone.canonicalize_expr, list[Any]()

    def slow(*what: Any) -> Any:
        clock = current()
        assert clock is not None
        clock.end = clock.hard = time.perf_counter()
        written.append(what)
        return write(*what)

    monkeypatch.setattr(place, slow)
    with pytest.raises(fo.errors.NotCertified, match="which ended at: CVXPY, which compiles for CLARABEL"):
        fo.Policy(lambda m: sum(cp.sqrt(m.tasks[j]) for j in range(2))).allocate(CLUSTER, time_limit=60)
    assert len(written) == 1
