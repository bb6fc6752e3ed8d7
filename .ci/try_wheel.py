"""Try the wheels in dist as their users would: in an empty environment of each Python, first that of fairopt alone.

It runs the demonstration and README's example, says what a command of fairopt-clusters needs, and the checker that it
writes as one file proves an answer, without installed packages. Then the wheel of fairopt-clusters is added, and gives
quotas of the demonstration's cluster.

    python .ci/try_wheel.py python3.11 python3.12

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


def tried(core: Path, clusters: Path, python: str) -> str:
    """What came of both wheels under a Python, in words."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    with tempfile.TemporaryDirectory() as folder:
        bin_ = Path(folder, "environment", "bin")

        def run(*command: str | Path, expected: int = 0) -> str:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode != expected:
                sys.exit(f"{python}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
            return done.stderr if expected else done.stdout

        def install(wheel: Path) -> None:
            run(bin_ / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel.resolve())

        run(python, "-m", "venv", "environment")
        install(core)
        run(bin_ / "fairopt", "demo")
        said = run(bin_ / "fairopt", "quotas", "demo-out/cluster", expected=2)
        if "fairopt-clusters" not in said:
            sys.exit(f"{python}: without fairopt-clusters, fairopt quotas says: {said}")
        run(bin_ / "python", "-c", example[1])
        run(bin_ / "python", "-c", ANSWER)
        run(bin_ / "fairopt", "verify", "--write-checker", "checker.pyz")
        said = run(bin_ / "python", "-I", "-S", "checker.pyz", "answer.json")  # neither fairopt nor other packages
        if not said.startswith("proved: "):
            sys.exit(f"{python}: checker.pyz says of an answer: {said}")
        install(clusters)
        run(bin_ / "fairopt", "quotas", "demo-out/cluster")
        solvers = run(bin_ / "python", "-c", "import cvxpy; print(', '.join(cvxpy.installed_solvers()))").strip()
        version = run(bin_ / "python", "--version").strip()
        return f"{version}: demonstration, example, checker and quotas run; solvers: {solvers}"


def runs(python: str) -> bool:
    """Whether a command is a Python that can make environments."""
    try:
        return not subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True).returncode
    except OSError:
        return False


if __name__ == "__main__":
    wheels = [*(ROOT / "dist").glob("fairopt-*.whl"), *(ROOT / "dist").glob("fairopt_clusters-*.whl")]
    print(*map(contents, wheels), sep="\n")
    for name in sys.argv[1:]:
        print(tried(*wheels, name) if runs(name) else f"{name}: not installed", flush=True)
