"""Try a wheel as its users would: in an empty environment of each Python, run the demonstration and README's example.

The checker that the wheel writes as one file then proves an answer, without installed packages.

    python .ci/try_wheel.py dist/fairopt-0.2.0-py3-none-any.whl python3.11 python3.12

A Python that is not installed is named, and so is a dependency that pip would have to compile: nothing is compiled.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 200_000  # bytes of data, compressed
ANSWER = (
    "import fairopt as fo; fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).save('answer.json')"
)


def contents(wheel: Path) -> str:
    """What a wheel holds; `SystemExit` if it has tests, or more data than it should."""
    with zipfile.ZipFile(wheel) as archive:
        files = archive.infolist()
    code = (".py", ".pyi", ".typed")
    data = sum(f.compress_size for f in files if not f.filename.endswith(code) and ".dist-info/" not in f.filename)
    if strange := [f.filename for f in files if not f.filename.startswith("fairopt")]:
        sys.exit(f"{wheel.name} holds {', '.join(strange)}")
    if data > MOST:
        sys.exit(f"{wheel.name} holds {data:,} bytes of data, of at most {MOST:,}")
    return f"{wheel.name}: {wheel.stat().st_size:,} bytes, of them {data:,} of data; no tests"


def tried(wheel: Path, python: str) -> str:
    """What came of a wheel under a Python, in words."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    with tempfile.TemporaryDirectory() as folder:
        bin_ = Path(folder, "environment", "bin")

        def run(*command: str | Path) -> str:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{python}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
            return done.stdout

        run(python, "-m", "venv", "environment")
        run(bin_ / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel.resolve())
        run(bin_ / "fairopt", "demo")
        run(bin_ / "python", "-c", example[1])
        run(bin_ / "python", "-c", ANSWER)
        run(bin_ / "fairopt", "verify", "--write-checker", "checker.pyz")
        said = run(bin_ / "python", "-I", "-S", "checker.pyz", "answer.json")  # neither fairopt nor other packages
        if not said.startswith("proved: "):
            sys.exit(f"{python}: checker.pyz says of an answer: {said}")
        solvers = run(bin_ / "python", "-c", "import cvxpy; print(', '.join(cvxpy.installed_solvers()))").strip()
        return (
            f"{run(bin_ / 'python', '--version').strip()}: demonstration, example and checker run; solvers: {solvers}"
        )


def runs(python: str) -> bool:
    """Whether a command is a Python that can make environments."""
    try:
        return not subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True).returncode
    except OSError:
        return False


if __name__ == "__main__":
    print(contents(Path(sys.argv[1])))
    for name in sys.argv[2:]:
        print(tried(Path(sys.argv[1]), name) if runs(name) else f"{name}: not installed", flush=True)
