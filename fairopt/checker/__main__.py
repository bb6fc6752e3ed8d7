"""The command ``python -m fairopt.checker ANSWER...``, and that of the file which `write` makes."""

from __future__ import annotations

import argparse
import sys
import tempfile
import zipapp
from pathlib import Path
from shutil import copytree, ignore_patterns

from .answer import verify

ABOUT = """Prove saved answers of fairopt from their files alone, by arithmetic in fractions.

No solver runs, and no other part of fairopt. The exit code is 0 if all files are proved, else 1."""


def main(arguments: list[str] | None = None) -> int:
    """Check files, print a statement for each, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=Path(sys.argv[0]).name if sys.argv[0].endswith(".pyz") else "python -m fairopt.checker",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="ANSWER", help="a JSON file of a saved answer or proof")
    parser.add_argument("--tol", type=float, default=1e-6, help="the largest gap that is proved (default 1e-6)")
    parser.add_argument("--atol", type=float, default=0.0, help="of a program: the largest distance from its bound")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="time limit for each file")
    given = parser.parse_args(arguments)
    proved = True
    for path in given.files:
        try:
            found = verify(path, tol=given.tol, atol=given.atol, time_limit=given.time_limit)
            ok, said = found.ok, str(found)
        except FileNotFoundError as error:
            ok, said = False, f"not proved: {error}"
        except ValueError as error:  # of an option
            parser.error(str(error))
        print(f"{path}: {said}" if len(given.files) > 1 else said)
        proved = proved and ok
    return 0 if proved else 1


def write(target: Path) -> None:
    """Write the checker as one file, which runs on Python 3.9 and later without fairopt."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        copytree(Path(__file__).parent, source / "checker", ignore=ignore_patterns("__pycache__", "*.toml"))
        (source / "__main__.py").write_text("from checker.__main__ import main\n\nraise SystemExit(main())\n")
        zipapp.create_archive(source, target, interpreter="/usr/bin/env python3", compressed=True)


if __name__ == "__main__":
    raise SystemExit(main())
