"""Signals end the command with one line and an exit code, and leave nothing half done."""

import ast
import multiprocessing
import os
import re
import signal
import sys
import threading
from pathlib import Path

import forked
import pytest

import fairopt as fo
from fairopt import signals

LINUX = sys.platform == "linux"
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")


def test_the_package_imports_the_handler_first_and_the_handler_needs_nothing_else() -> None:
    tree = ast.parse(Path(str(fo.__file__)).read_text(encoding="utf-8"))
    first = next(node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)))
    assert ast.unparse(first) == "from fairopt import signals"
    nodes = ast.walk(ast.parse(Path(signals.__file__).read_text(encoding="utf-8")))
    needed = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in needed} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    ("argv", "started", "command"),
    [
        (["-m"], ["python", "-m", "fairopt", "solve"], True),
        (["-m"], ["python", "-OO", "-mfairopt"], True),
        (["-m"], ["python", "-m", "pytest"], False),
        (["/bin/fairopt", "solve"], ["python", "/bin/fairopt", "solve"], True),
        (["C:\\bin\\fairopt.exe"], ["python", "C:\\bin\\fairopt.exe"], os.name == "nt"),
        (["/bin/fairopt", "shards"], ["python", "-c", "from multiprocessing.spawn import spawn_main"], False),
        (["mine.py", "fairopt"], ["python", "mine.py", "fairopt"], False),
        ([""], ["python"], False),
    ],
)
def test_only_the_command_handles_signals(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], started: list[str], command: bool
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", started)
    assert signals._is_command() is command


@posix
@pytest.mark.parametrize(("name", "words"), [("SIGINT", "Ctrl-C"), ("SIGTERM", "SIGTERM"), ("SIGHUP", "SIGHUP")])
def test_a_signal_where_nobody_waits_for_it_ends_the_process_with_one_line(name: str, words: str) -> None:
    number = getattr(signal, name)
    done = forked.run(
        "-c",
        "import os, signal\nfrom fairopt import signals\nsignals.install()\ntry:\n"
        f"    signal.raise_signal({number})\nfinally:\n    print('goes on')",
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", f"stopped by {words}\n")


OWN = """
import os, signal
import fairopt as fo
from pathlib import Path
from fairopt.io.saving import replacing


class Own:
    number = signal.SIGINT

    def allocate(self, instance):
        try:
            os.kill(os.getpid(), self.number)
            for _ in range(1000): pass
        except KeyboardInterrupt:
            return self.then(instance)

    def then(self, instance):
        return fo.DRF().allocate(instance)


class Imports(Own):
    def then(self, instance):
        raise ImportError("numpy.core.multiarray failed to import")


class Destroyed(Own):
    def allocate(self, instance):
        class Late:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000): pass
        Late()
        return self.then(instance)


class Writes(Own):
    number = signal.SIGTERM

    def allocate(self, instance):
        with replacing([Path("out.json")]) as (part,):
            super().allocate(instance)
"""


@posix
@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("Own", 130, "stopped by Ctrl-C"),
        ("Imports", 130, "stopped by Ctrl-C"),
        ("Destroyed", 130, "stopped by Ctrl-C"),
        ("Writes", 143, "stopped by SIGTERM"),
    ],
)
def test_a_signal_that_others_drop_still_ends_the_command(tmp_path: Path, name: str, code: int, line: str) -> None:
    fo.datasets.write(fo.Instance([[1, 2], [2, 1]], [4, 4]), tmp_path / "two.json")
    (tmp_path / "own.py").write_text(OWN)
    done = forked.run("-m", "fairopt", "solve", "two.json", "-p", f"own.py:{name}", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{line}\n")
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"own.py", "two.json"}


@posix
def test_files_that_are_not_yet_in_their_place_are_removed_when_the_process_ends_at_once(tmp_path: Path) -> None:
    done = forked.run(
        "-c",
        "import signal\nfrom pathlib import Path\nfrom fairopt import signals\n"
        "from fairopt.io.saving import replacing\nsignals.install()\n"
        "with replacing([Path('whole.txt')]):\n"
        "    print(len(list(Path().iterdir())), *signals.unfinished)\n"
        "    for path in signals.unfinished: Path(path).touch()\n"
        "    signal.raise_signal(signal.SIGTERM)",
        folder=tmp_path,
    )
    assert done.returncode == 143 and len(done.stdout.split()) == 2
    assert list(tmp_path.iterdir()) == []


def test_steps_that_belong_together_are_all_done_before_a_signal_acts() -> None:
    done = []
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background ignore it
    with pytest.raises(KeyboardInterrupt), signals.undivided():
        for step in range(3):
            signal.raise_signal(signal.SIGINT)
            done.append(step)
    assert done == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix
def test_threads_and_processes_of_a_command_do_not_hear_ctrl_c() -> None:
    with signals.kept_from_children():
        masks = []
        thread = threading.Thread(target=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        thread.start()
        thread.join()
        child = multiprocessing.get_context("spawn").Process(target=print)
        child.start()
        blocked = re.search(r"SigBlk:\s*(\w+)", Path(f"/proc/{child.pid}/status").read_text()) if LINUX else None
        child.join()
    assert signal.SIGINT in masks[0]
    assert blocked is None or int(blocked[1], 16) >> (signal.SIGINT - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@posix
def test_after_a_signal_libraries_have_no_last_word_and_forked_children_no_handler() -> None:
    done = forked.run(
        "-c",
        "import atexit, os, signal\nfrom fairopt import signals\nsignals.install()\n"
        "atexit.register(print, 'last word')\n"
        "try:\n    with signals.raising():\n        signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    print('cleaned up')\n"
        "child = os.fork() or os.kill(os.getpid(), signal.SIGINT)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "signals.finish()",
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "cleaned up\n-2\n", "")
