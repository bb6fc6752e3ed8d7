"""Ctrl-C ends the command with one line and exit code 130, and leaves no file half written."""

import ast
import multiprocessing
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import forked
import pytest

import fairopt as fo
from fairopt.runtime import subprocesses

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")

OWN = """
import os, signal
import fairopt as fo
from pathlib import Path
from fairopt.io.saving import replacing


class Own:
    def allocate(self, instance):
        try:
            os.kill(os.getpid(), signal.SIGINT)
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
        class Dropped:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000): pass
        Dropped()
        return self.then(instance)


class Writes(Own):
    def allocate(self, instance):
        with replacing([Path("out.json")]) as (part,):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
"""


@posix
@pytest.mark.parametrize("name", ["Own", "Imports", "Destroyed", "Writes"])
def test_ctrl_c_that_others_drop_still_ends_the_command(tmp_path: Path, name: str) -> None:
    fo.datasets.write(fo.Instance([[1, 2], [2, 1]], [4, 4]), tmp_path / "two.json")
    (tmp_path / "own.py").write_text(OWN)
    done = forked.run("-m", "fairopt", "solve", "two.json", "-p", f"own.py:{name}", folder=tmp_path)
    assert (done.returncode, done.stdout) == (130, "") and "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"own.py", "two.json"}


@posix
def test_sigterm_while_a_file_is_written_ends_the_process_when_it_is_whole(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from fairopt.io.saving import write_whole\n"
        "def content(file):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    file.write(b'all')\n"
        "write_whole(Path('x'), content)\n"
        "print('still there')"
    )
    done = forked.run("-c", code, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "all")]


@posix
@pytest.mark.parametrize("module", ["typer", "fairopt.cli.commands"])
def test_ctrl_c_during_imports_is_no_traceback(tmp_path: Path, module: str) -> None:
    code = (
        "import os, signal, sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressed())\nsys.argv = ['fairopt', 'solve', 'x']\n"
        "from fairopt.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (130, "") and "Traceback" not in done.stderr


@posix
def test_threads_and_processes_of_a_command_do_not_hear_ctrl_c() -> None:
    with subprocesses.without_sigint():
        masks = []
        thread = threading.Thread(target=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        thread.start()
        thread.join()
        child = multiprocessing.get_context("spawn").Process(target=print)
        child.start()
        status = Path(f"/proc/{child.pid}/status")
        blocked = re.search(r"SigBlk:\s*(\w+)", status.read_text()) if sys.platform == "linux" else None
        child.join()
    assert signal.SIGINT in masks[0]
    assert blocked is None or int(blocked[1], 16) >> (signal.SIGINT - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_the_package_imports_what_ends_an_early_ctrl_c_first_and_that_imports_nothing_else() -> None:
    def first_imports(module: str) -> list[str]:
        tree = ast.parse(Path(module).read_text(encoding="utf-8"))
        return [ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]

    package = Path(str(fo.__file__))
    assert first_imports(str(package))[0] == "from fairopt.runtime import quiet_start"
    assert first_imports(str(package.parent / "runtime" / "quiet_start.py")) == ["import _signal", "import sys"]
    assert (
        first_imports(str(package.parent / "runtime" / "__init__.py"))[0] == "from fairopt.runtime import quiet_start"
    )
