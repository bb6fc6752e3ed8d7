"""Progress: who hears what, what it may do, and what Ctrl-C leaves."""

import asyncio
import contextvars
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from rich.console import Console

import fairopt as fo
from fairopt.cli import progress as shown
from fairopt.report.comparison import compare
from fairopt.runtime.progress import by_itself, progress, tell, within

POOL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
SERVERS = fo.Instance(
    [[1, 2], [2, 1], [1, 1]], [[4, 8], [8, 4], [3, 3]], task_limits=[2, None, None], servers=["a", "b", "c"]
)
Said = tuple[str, int | None, int | None]


def heard(work: Any) -> list[Said]:
    """What is told while a function runs."""
    said: list[Said] = []
    with progress(lambda what, done, total: said.append((what, done, total))):
        work()
    return said


# -- telling and hearing --------------------------------------------------------------------------------------


def test_nobody_listens_by_default() -> None:
    tell("something", 1, 2)
    assert heard(lambda: None) == []


def test_what_is_told_is_heard_as_it_was_told() -> None:
    assert heard(lambda: tell("levels", 3, 10)) == [("levels", 3, 10)]
    assert heard(lambda: tell("steps")) == [("steps", None, None)]


def test_the_innermost_listener_hears_and_the_outer_one_again_after_it() -> None:
    inner: list[Said] = []

    def work() -> None:
        inner.extend(heard(lambda: tell("inside")))
        tell("outside")

    assert heard(work) == [("outside", None, None)]
    assert inner == [("inside", None, None)]


def test_a_listener_is_gone_after_an_error() -> None:
    said: list[Any] = []
    with pytest.raises(ZeroDivisionError), progress(lambda *what: said.append(what)):
        raise ZeroDivisionError
    tell("after")
    assert said == []


def test_parts_of_the_work_are_named() -> None:
    def work() -> None:
        with within("DRF"), within("server 'a'"):
            tell("level 2", 1, 3)

    assert heard(work) == [("DRF: server 'a': level 2", 1, 3)]
    with within("nobody listens"):
        tell("so nothing happens")


def test_of_many_small_calls_only_the_whole_is_heard() -> None:
    def work() -> None:
        with by_itself() as say:
            tell("a small call")
            say("the whole", 1, 2)
        tell("after")

    assert heard(work) == [("the whole", 1, 2), ("after", None, None)]


def test_a_thread_does_not_hear_unless_it_runs_in_a_copy_of_the_context() -> None:
    said: list[Any] = []
    with progress(lambda what, *_: said.append(what)):
        context = contextvars.copy_context()
        for target in (lambda: tell("plain"), lambda: context.run(tell, "copied")):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert said == ["copied"]


def test_tasks_of_asyncio_have_listeners_of_their_own() -> None:
    said: dict[str, list[str]] = {"one": [], "two": []}

    async def work(name: str) -> None:
        with progress(lambda what, *_: said[name].append(what)):
            for k in range(3):
                tell(f"{name} {k}")
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(work("one"), work("two"))

    asyncio.run(both())
    assert said == {name: [f"{name} {k}" for k in range(3)] for name in said}


# -- who tells ------------------------------------------------------------------------------------------------


def conflicting() -> None:
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(fo.AlphaFair(1), [fo.MinShare(0.9)]).allocate(POOL, method="cone")


WORK: dict[str, tuple[Any, str]] = {
    "cone": (lambda: fo.FDS(2).allocate(POOL, solver="CLARABEL"), "cone program by CLARABEL"),
    "prices of a pool": (lambda: fo.FDS(2).allocate(POOL), "prices, step"),
    "prices of servers": (lambda: fo.FDS(1).allocate(SERVERS), "prices, step"),
    "levels on servers": (lambda: fo.DRF().allocate(SERVERS), "levels, users settled"),
    "levels by programs": (lambda: fo.DRF().allocate(SERVERS, method="cone"), "levels by HIGHS, users settled"),
    "a parameter": (
        lambda: fo.GFJ(beta=-1, lam=1).allocate(POOL, solver="CLARABEL"),
        "search along the sum of shares by CLARABEL, gap",
    ),
    "conflicts": (lambda: conflicting(), "searching for conflicting constraints"),
    "many": (lambda: fo.allocate_many(fo.DRF(), np.ones((5, 2, 2)), [4, 4]), "instances"),
    "shards": (
        lambda: fo.allocate_sharded(fo.DRF(), [np.ones((5, 2))] * 2, capacities=[9, 9]),
        "round 1: opening, shards",
    ),
    "bundles": (lambda: fo.HFFMRA().allocate(SERVERS, method="cone"), "cone program over bundles by"),
    "virtual shares": (lambda: fo.PSDSF().allocate(SERVERS), "servers in balance, step"),
    "each server": (lambda: fo.NaivePerServer(fo.DRF()).allocate(SERVERS), "classes of servers: instances"),
    "one server after the other": (
        lambda: fo.NaivePerServer(fo.FDS(2)).allocate(SERVERS, solver="CLARABEL"),
        "classes of servers",
    ),
    "a comparison": (lambda: compare(["drf"], POOL), "DRF"),
    "an audit": (lambda: fo.audit(fo.KDF(2), ["si"], max_examples=50), "sharing-incentive, instances"),
    "a misreport": (lambda: fo.properties.best_misreport(fo.DRF(), POOL, "web", budget=50), "lies: "),
}


@pytest.mark.fast_methods
@pytest.mark.parametrize("name", WORK)
def test_long_work_tells_what_it_does(name: str) -> None:
    work, words = WORK[name]
    said = heard(work)
    assert any(what.startswith(words) for what, _, _ in said), said
    assert all(done is None or total is None or 0 <= done <= total for _, done, total in said)


def test_a_comparison_names_the_policy_at_work_and_counts_policies() -> None:
    said = heard(lambda: compare(["drf", "fds:alpha=2"], POOL, solver="CLARABEL"))
    assert ("DRF", 0, 2) in said and ("FDS(alpha=2)", 1, 2) in said
    assert ("FDS(alpha=2): cone program by CLARABEL", None, None) in said


@pytest.mark.fast_methods
def test_levels_count_the_users_that_are_settled() -> None:
    said = heard(lambda: fo.DRF().allocate(SERVERS))
    counts = [done for what, done, total in said if what == "levels, users settled" and total == 3]
    assert counts == sorted(counts) and counts[0] == 0 and len(counts) >= 2


class Talks:
    """DRF, which tells of every call."""

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        tell("one call")
        return fo.DRF().allocate(instance)


def test_an_audit_counts_instances_and_is_silent_about_each() -> None:
    said = heard(lambda: fo.audit(Talks(), ["pe"], max_examples=20))
    assert {what for what, _, _ in said} == {"pareto, instances"}
    assert said[-1] == ("pareto, instances", 20, 20)


@pytest.mark.fast_methods
def test_a_misreport_is_looked_for_in_silence_about_each_report() -> None:
    said = heard(lambda: fo.properties.best_misreport(Talks(), POOL, "web", budget=20))
    assert said[0] == ("one call", None, None)  # of the truth
    assert len(said) > 5 and all(what.startswith("lies: ") for what, _, _ in said[1:])


def test_a_batch_counts_the_instances_that_are_done() -> None:
    said = heard(lambda: fo.allocate_many(fo.DRF(), np.ones((5, 2, 2)), [4, 4]))
    assert said == [("instances", 0, 5), ("instances", 5, 5)]


@pytest.mark.parametrize("name", ["cone", "levels on servers", "many", "shards", "each server", "a comparison"])
def test_listening_changes_no_answer(name: str) -> None:
    work = WORK[name][0]
    found: list[Any] = []
    heard(lambda: found.append(work()))
    plain = work()
    for listened, alone in zip(_tasks(found[0]), _tasks(plain), strict=True):
        np.testing.assert_allclose(listened, alone, rtol=1e-12, atol=1e-12)


def _tasks(answer: Any) -> list[Any]:
    if isinstance(answer, fo.report.Comparison):
        return [a.tasks for a in answer.allocations.values()]
    return [answer.tasks(k) for k in range(2)] if callable(answer.tasks) else [answer.tasks]


# -- a listener that raises -----------------------------------------------------------------------------------


class Enough(Exception):
    """Of a listener."""


def enough(*_: Any) -> None:
    raise Enough


@pytest.mark.parametrize("name", [name for name in WORK if name != "conflicts"])
def test_what_a_listener_raises_comes_out_of_the_call(name: str) -> None:
    with pytest.raises(Enough), progress(enough):
        WORK[name][0]()
    assert heard(lambda: tell("as before")) == [("as before", None, None)]


def test_a_prepared_policy_answers_as_before_after_it_was_stopped() -> None:
    ready = fo.FDS(2).prepare(SERVERS, solver="CLARABEL")
    first = ready.allocate().tasks
    with pytest.raises(Enough), progress(enough):
        ready.allocate()
    np.testing.assert_allclose(ready.allocate().tasks, first, rtol=1e-6)


def test_a_listener_may_stop_a_comparison_as_ctrl_c_does() -> None:
    def stop(what: str, done: int | None, total: int | None) -> None:
        if what == "2-DF":
            raise KeyboardInterrupt

    with progress(stop):
        result = compare(["drf", "2df", "tsf"], POOL)
    assert result.interrupted
    assert list(result.allocations) == ["DRF"]
    assert result.unanswered == ("2-DF", "TSF")


# -- Ctrl-C ---------------------------------------------------------------------------------------------------


class Stops:
    """A mechanism in which Ctrl-C is pressed."""

    name = "stops"

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        raise KeyboardInterrupt


def test_an_interrupted_comparison_says_so_wherever_it_is_shown() -> None:
    result = compare(["drf", Stops(), "2df"], POOL)
    words = "interrupted: 2 more"
    console = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(result)
    text = console.export_text()
    assert text.startswith("1 of 3 policies on ")
    for shown_as in (text, repr(result), result.to_markdown(), result.to_latex(), result._repr_html_()):
        assert words in shown_as
    data = json.loads(json.dumps(result.to_dict()))
    assert data["interrupted"] is True
    assert data["unanswered"] == ["stops", "2-DF"]


def test_a_comparison_stopped_before_the_first_answer_can_be_shown() -> None:
    result = compare([Stops(), "drf"], POOL)
    assert result.interrupted and result.outcomes == ()
    assert repr(result).startswith("<Comparison of nothing on ")
    for text in (result.to_markdown(), result.to_latex(), result.to_csv(), result._repr_html_()):
        assert text
    assert result.to_dict()["rows"] == result.findings() == []
    Console(width=80, file=open(os.devnull, "w")).print(result)  # noqa: SIM115


def test_a_comparison_that_is_whole_does_not_say_it_was_interrupted() -> None:
    result = compare(["drf"], POOL)
    assert not result.interrupted and result.unanswered == ()
    assert "interrupted" not in repr(result) + result.to_markdown()


PRESSED = """
import json, os, signal, threading
import fairopt as fo

class Waits:
    name = "waits"

    def allocate(self, instance):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(60)

cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
result = fo.compare(["drf", Waits(), "2df"], cluster)
print(json.dumps([result.interrupted, list(result.allocations), list(result.unanswered)]))
try:
    Waits().allocate(cluster)
except KeyboardInterrupt:
    print(json.dumps(fo.DRF().allocate(cluster).tasks.tolist()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_a_real_sigint_leaves_the_finished_part_and_a_process_that_goes_on() -> None:
    done = forked.run("-c", PRESSED)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert json.loads(first) == [True, ["DRF"], ["waits", "2-DF"]]
    assert json.loads(second) == pytest.approx([2.5, 12.5])


NOTION = """
import os, signal, threading


class Waits:
    name = "waits"

    def allocate(self, instance):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(60)


WAITS = Waits()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    fo.datasets.write(POOL, tmp_path / "pool.json")
    (tmp_path / "notion.py").write_text(NOTION)
    yield tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_a_real_sigint_on_the_command_line_writes_what_is_known(folder: Path) -> None:
    command = ["-m", "fairopt", "compare", "pool.json", "-p", "drf", "-p", "notion.py:WAITS"]
    done = forked.run(*command, "-p", "2df", "--out", "t.json", folder=folder)
    assert done.returncode == 130
    assert done.stderr == "stopped by Ctrl-C after 1 of 3 policies\n"
    assert done.stdout.startswith("1 of 3 policies on ")
    assert json.loads((folder / "t.json").read_text())["unanswered"] == ["waits", "2-DF"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_a_real_sigint_while_solving_is_one_line_and_130(folder: Path) -> None:
    done = forked.run("-m", "fairopt", "solve", "pool.json", "-p", "notion.py:WAITS", folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped by Ctrl-C\n")


# -- on a terminal --------------------------------------------------------------------------------------------


def terminal(monkeypatch: pytest.MonkeyPatch, width: int = 80) -> Console:
    """A terminal whose picture is kept."""
    console = Console(width=width, record=True, force_terminal=True, file=open(os.devnull, "w"), legacy_windows=False)  # noqa: SIM115
    monkeypatch.setattr(shown, "console_for", lambda stderr=False: console)
    return console


@pytest.mark.parametrize("width", [40, 80])
def test_a_terminal_shows_a_line_with_a_bar_where_the_total_is_known(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    from rich.progress import Progress

    lines: list[str] = []

    def keep(self: Progress, *arguments: Any, **options: Any) -> None:
        update(self, *arguments, **options)
        picture = Console(width=width, file=open(os.devnull, "w"), record=True)  # noqa: SIM115
        picture.print(self.get_renderable())
        lines.extend(picture.export_text().splitlines())

    update = Progress.update
    monkeypatch.setattr(Progress, "update", keep)
    terminal(monkeypatch, width)
    with shown.working("DRF"):
        tell("levels, users settled", 1, 4)
        tell("prices, step 3")
        tell("bytes read", 5_000_000)
        tell("a sentence that is longer than any terminal is wide\n\x1b[31m " * 3, 2, 3)
    assert len(lines) == 4 and max(map(len, lines)) <= width
    if width == 80:
        assert "DRF: levels, users settled, 1 of 4" in lines[0] and "━" in lines[0]
        assert "DRF: prices, step 3 " in lines[1]
        assert "DRF: bytes read, 5,000,000 " in lines[2]
    assert "…" in lines[3]


def test_nothing_is_listened_to_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown.working("DRF"):
        inside = heard(lambda: tell("asked"))
        tell("levels", 1, 4)
    assert inside == [("asked", None, None)]
    assert capsys.readouterr().err == ""


def test_solvers_that_print_are_not_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    console = terminal(monkeypatch)
    with shown.working("DRF", verbose=True):
        tell("levels", 1, 4)
    assert console.export_text() == ""


@pytest.mark.parametrize("name", ["cluster", "cluster.json", "cluster.yaml"])
def test_reading_tells_which_file_is_read(name: str, tmp_path: Path) -> None:
    fo.datasets.write(fo.Instance([[1, 2]], [4, 4]), tmp_path / name)
    heard: list[str] = []
    with fo.progress(lambda what, *_: heard.append(what)):
        fo.read(tmp_path / name)
    assert f"reading {'users.csv' if name == 'cluster' else name}" in heard
