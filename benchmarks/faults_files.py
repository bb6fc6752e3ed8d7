"""Faults of files, memory, labels and names; see `faults`."""

from __future__ import annotations

import json
import os

from faults import Bench, Ended, Fault

ANSWER = {"demands": [[40, 8, 8], [8, 5, 1]], "capacities": [200, 200, 200]}
LIMITED = """
import resource, sys
kind, most = sys.argv[1].split("=")
resource.setrlimit(getattr(resource, kind), (int(most), int(most)))
sys.argv = ["fairopt", *sys.argv[2:]]
from fairopt.cli import main
main()
"""
CLOSED = """
import os, sys
os.closerange(int(sys.argv[1]), int(sys.argv[1]) + 1)
os.execv(sys.executable, [sys.executable, "-m", "fairopt", *sys.argv[2:]])
"""
FULL = """
import os, sys
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
os.execv(sys.executable, [sys.executable, "-m", "fairopt", *sys.argv[1:]])
"""
SHARDED = """
import resource, sys, fairopt as fo
resource.setrlimit(resource.RLIMIT_AS, (2 << 30,) * 2)
try:
    fo.allocate_sharded(fo.DRF(), "big.npy", capacities=[1])
except fo.errors.FairoptError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
KILLED_BETWEEN = """
import os, fairopt as fo
old, new = fo.Instance([[1]], [[4], [5]]), fo.Instance([[2], [3]], [7])
fo.datasets.write(old, "two")
replace, count = os.replace, []
def failing(*names):
    count.append(names)
    if len(count) == FAILS:
        raise KeyboardInterrupt
    replace(*names)
os.replace = failing
try:
    fo.datasets.write(new, "two")
except KeyboardInterrupt:
    pass
os.replace = replace
print(fo.read("two") in (old, new) and len(os.listdir("two")))
"""


def cluster(bench: Bench, name: str = "x.json", users: int = 2, **more: object) -> str:
    """A small cluster in a file."""
    rows = [[1 + k % 7, 1 + k % 5, 1 + k % 3] for k in range(users)] if users > 2 else ANSWER["demands"]
    (bench.folder / name).write_text(json.dumps(ANSWER | {"demands": rows} | more))
    return name


def ends(ended: Ended, code: int, *words: str) -> str:
    """What is wrong with an error that should be one line with these words."""
    good = ended.code == code and ended.one_line and all(word in ended.err for word in words)
    return "" if good else str(ended)


def kept(bench: Bench, name: str, *command: str, most: int = 20_000) -> str:
    """A disk that is full after some bytes under a file that was there: it must stay, alone, and be named."""
    file = bench.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("the older answer")
    ended = bench.code(LIMITED, f"RLIMIT_FSIZE={most}", *command)
    if not file.exists() or file.read_text(errors="replace") != "the older answer":
        return f"the older file is lost; {ended}"
    left = [path.name for path in file.parent.glob(f".{file.name}.*")]
    if left:
        return f"leaves {', '.join(left)}"
    return ends(ended, 2, name)


def full(*command: str, name: str) -> Fault:
    """A full disk under a command."""
    return lambda bench: kept(bench, name, *command[:1], cluster(bench, users=2000), *command[1:])


def audit(bench: Bench) -> str:
    """A full disk under an audit."""
    options = ("--max-examples", "60", "--property", "ef", "--save", "a.json")
    return kept(bench, "a.json", "audit", "2df", *options, most=200)


def demo(bench: Bench) -> str:
    """A full disk under the pictures of the demonstration."""
    return kept(bench, "d/shares.png", "demo", "--folder", "d")


def tables(bench: Bench) -> str:
    """A second table that cannot be put in its place."""
    found = []
    for at in (2, 3, 4):
        ended = bench.code(KILLED_BETWEEN.replace("FAILS", str(at)))
        found.append(ended.out.strip() if ended.code == 0 else f"{at}: {ended}")
    return "" if all(one in ("2", "3") for one in found) else f"tables of two instances, or not whole: {found}"


def own_input(bench: Bench) -> str:
    """An answer over its own input."""
    name = cluster(bench)
    before = (bench.folder / name).read_bytes()
    ended = bench.fairopt("solve", name, "--out", "./x.json")
    return "input lost" if (bench.folder / name).read_bytes() != before else ends(ended, 2, "x.json")


def extra(bench: Bench) -> str:
    """A missing pyarrow is told before solving."""
    code = 'import sys; sys.modules["pyarrow"] = None; from fairopt.cli import main; main()'
    ended = bench.code(code, "solve", cluster(bench), "--out", "a.parquet")
    return "said after solving" if "DRF" in ended.out else ends(ended, 2, "pip install")


def memory(*command: str, limit: int, **size: int) -> Fault:
    """An address space that is too small."""

    def fault(bench: Bench) -> str:
        users, servers = size.get("users", 2), size.get("servers", 1)
        name = cluster(bench, users=users, capacities=[[200, 200, 200 + k] for k in range(servers)])
        most = f"RLIMIT_AS={limit << 20}"
        ended = bench.code(LIMITED, most, command[0], name, *command[1:], patience=100.0)
        told = "memory" in ended.err + ended.out  # of `compare` in the table
        return "" if ended.code == 3 and ended.one_line and told else str(ended)

    return fault


def shards(bench: Bench) -> str:
    """A file of users that memory cannot map."""
    with (bench.folder / "big.npy").open("wb") as file:
        header = str({"descr": "<f8", "fortran_order": False, "shape": (10**9, 1)}).ljust(117) + "\n"
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        file.truncate(10 + len(header) + 8 * 10**9)
    return ends(bench.code(SHARDED), 1, "memory")


def formulas(bench: Bench) -> str:
    """Labels that a spreadsheet would execute."""
    cluster(bench, users=2, resources=["cpu", "=m", "gpu"])
    code = """
import csv, fairopt as fo
from pathlib import Path
from fairopt.report.files import write_allocation
labels = ["=HYPERLINK(1)", "+1", "-x", "@x", "'=x", "''-y", "'plain"]
given = fo.Instance([[1, 2]] * 7, [9, 9], users=labels, resources=["=a", "b"], server_types=["=t"])
fo.datasets.write(given, "c")
assert fo.read("c") == given
from fairopt.report.files import write_allocation
write_allocation(fo.DRF().allocate(given), Path("a.csv"))
files = [list(csv.reader(open(name))) for name in ("c/users.csv", "c/servers.csv", "a.csv")]
bad = [cell for rows in files for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@")]
print(bad[:3] or "fine")
"""
    ended = bench.code(code)
    return "" if ended.out.strip() == "fine" else f"{ended.out.strip() or ended}"


def surrogates(bench: Bench) -> str:
    """A label that is no text."""
    (bench.folder / "s.json").write_text(json.dumps(ANSWER | {"users": ["a\ud800", "b"]}))
    found = [ends(bench.fairopt("solve", "s.json", *more), 2, "s.json") for more in ((), ("--json",))]
    return "; ".join(filter(None, found))


def ascii_only(bench: Bench) -> str:
    """Labels that the terminal cannot encode."""
    name = cluster(bench, users=2, resources=["cpü", "内存", "gpu"])
    plain, as_json = (bench.fairopt("solve", name, *more, PYTHONIOENCODING="ascii") for more in ((), ("--json",)))
    if plain.code or as_json.code:
        return str(plain if plain.code else as_json)
    return "" if "内存" in json.dumps(json.loads(as_json.out), ensure_ascii=False) else "JSON with other labels"


def closed(bench: Bench) -> str:
    """A closed stdout, and a closed stderr."""
    name = cluster(bench)
    wrong = ends(bench.code(CLOSED, "1", "solve", name), 2, "stdout")
    ended = bench.code(CLOSED, "2", "solve", name)
    return wrong or ("" if ended.code == 0 and "DRF" in ended.out else f"without stderr {ended}")


def full_stdout(bench: Bench) -> str:
    """A stdout on a full disk."""
    found = [ends(bench.code(FULL, "solve", cluster(bench), *more), 2, "stdout") for more in ((), ("--json",))]
    return "; ".join(filter(None, found))


def loop(bench: Bench) -> str:
    """A link to itself, as input and as output."""
    (bench.folder / "l.json").symlink_to("l.json")
    commands = (("l.json",), (cluster(bench), "--out", "l.json"))
    return "; ".join(filter(None, (ends(bench.fairopt("solve", *more), 2, "l.json") for more in commands)))


def not_utf8(bench: Bench) -> str:
    """Names of files in another encoding."""
    name = os.fsdecode(b"\xff")
    found = []
    for ending in (".json", ".csv", ".parquet"):
        ended = bench.fairopt("solve", cluster(bench), "--out", name + ending)
        whole = (bench.folder / (name + ending)).exists()
        found.append("" if ended.code == 0 and whole else f"{ending}: {ended}")
    ended = bench.fairopt("verify", name + ".json", "--json")
    return "; ".join(filter(None, [*found, "" if ended.code == 0 else f"verify: {ended}"]))


FAULTS: dict[str, Fault] = {
    "solve --out .json, disk full": full("solve", "--out", "a.json", name="a.json"),
    "solve --out .csv, disk full": full("solve", "--out", "a.csv", name="a.csv"),
    "solve --out .parquet, disk full": full("solve", "--out", "a.parquet", name="a.parquet"),
    "compare --plot, disk full": full("compare", "-p", "drf", "--plot", "a.png", name="a.png"),
    "frontier --plot, disk full": full("frontier", "-f", "fds", "--alpha", "1,2", "--plot", "a.png", name="a.png"),
    "convert to a folder, disk full": full("convert", "c", "--force", name="c/users.csv"),
    "audit --save, disk full": audit,
    "demo, disk full": demo,
    "stopped between two tables": tables,
    "solve --out over its input": own_input,
    "solve --out a.parquet without pyarrow": extra,
    "memory: reading": memory("solve", limit=460, users=400_000),
    "memory: leximin on servers": memory("solve", limit=600, users=20_000, servers=200),
    "memory: most tasks on servers": memory("solve", "-p", "most-tasks", limit=600, users=20_000, servers=200),
    "memory: a mechanism": memory("solve", "-p", "ps-dsf", limit=600, users=20_000, servers=200),
    "memory: compare": memory("compare", "-p", "drf", limit=600, users=20_000, servers=200),
    "memory: HiGHS": memory("solve", "-p", "most-tasks", "--solver", "HIGHS", limit=700, users=3_000, servers=40),
    "memory: SCS": memory("solve", "-p", "drf", "--solver", "SCS", limit=600, users=3_000, servers=40),
    "memory: Clarabel": memory("solve", "-p", "nash", "--solver", "CLARABEL", limit=700, users=3_000, servers=40),
    "memory: a .npy file": shards,
    "labels that spreadsheets execute": formulas,
    "labels with surrogates": surrogates,
    "labels that the terminal cannot encode": ascii_only,
    "stdout or stderr is closed": closed,
    "stdout on a full disk": full_stdout,
    "a link to itself": loop,
    "names that are not UTF-8": not_utf8,
}
