"""Run tests as people run them: as another user, in a copy of the checkout, from nothing but make and Python.

    python .ci/foreign.py tests/test_cli.py -k pipes

The user is ``nobody`` if root starts this, else the same. The copy and temporary files lie in a folder with a space, an
accent and an apostrophe. The locale is C, the time zone is not UTC, new files are for their owner only (umask 077),
HOME cannot be written to, and there is one core. The arguments are those of pytest; without any, all tests run.
"""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
IGNORED = [".git", *(ROOT / ".gitignore").read_text(encoding="utf-8").replace("/\n", "\n").split()]
ZONE = "NST3:30NDT,M3.2.0,M11.1.0"  # half hours and summer time, from no database of zones
OURS = ("PYTHON", "VIRTUAL_ENV", "XDG_", "MAKE", "MFLAGS", "LC_", "LANGUAGE", "MPLCONFIGDIR", "PYTEST")  # not theirs


def left_out(folder: str, names: Iterable[str]) -> set[str]:
    """What of a folder of the checkout git does not keep."""
    here = Path(folder).relative_to(ROOT)
    return {name for name in names if any((here / name).match(pattern) for pattern in IGNORED)}


def give(path: Path, owner: pwd.struct_passwd) -> None:
    """Make a file or folder somebody's, and nobody else's."""
    os.chown(path, owner.pw_uid, owner.pw_gid)
    path.chmod(path.stat().st_mode & 0o700)


def on_one_core() -> None:
    """Leave this process one of its cores."""
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def runs(python: str, **how: Any) -> bool:
    """Whether somebody can start a Python, which may be in a folder that is not theirs to read."""
    try:
        return not subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True, **how).returncode
    except OSError:
        return False


def tried(arguments: list[str]) -> int:
    """The exit code of pytest, or of what sets up its environment."""
    is_root = os.geteuid() == 0
    owner = pwd.getpwnam("nobody") if is_root else pwd.getpwuid(os.getuid())
    with tempfile.TemporaryDirectory(prefix="fairopt-") as made:
        folder, home = Path(made, "forêt d'essais"), Path(made, "home")
        copy, temporary = folder / "fairopt", folder / "tmp"
        shutil.copytree(ROOT, copy, ignore=left_out)
        temporary.mkdir()
        for path in (Path(made), folder, *folder.rglob("*")):
            give(path, owner)
        home.mkdir(mode=0o555)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        theirs = {"HOME": str(home), "USER": owner.pw_name, "LOGNAME": owner.pw_name, "TMPDIR": str(temporary)}
        how: dict[str, Any] = {
            "cwd": copy,
            "env": kept | theirs | {"LANG": "C", "LC_ALL": "C", "TZ": ZONE},
            "umask": 0o077,
            "preexec_fn": on_one_core,
        }
        if is_root:
            how |= {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        base = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
        given = os.environ.get("PYTHON") or (base if runs(base, **how) else "")  # if empty, make looks for one
        print(f"== as {owner.pw_name} in {copy}", flush=True)
        set_up = subprocess.run(["make", ".venv/.fairopt-installed", f"PYTHON={given}"], **how).returncode
        return set_up or subprocess.run([".venv/bin/python", "-m", "pytest", "-q", *arguments], **how).returncode


if __name__ == "__main__":
    sys.exit(tried(sys.argv[1:]))
