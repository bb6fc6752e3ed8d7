"""What commands say of mistakes in a file of the user's: one line for the error, and the lines of that file."""

import re
from concurrent.futures import ProcessPoolExecutor

import pytest
from typer.testing import CliRunner

from fairopt.cli import app
from fairopt.cli.application import BAD_INPUT
from fairopt.errors import own_lines

FILE = """
from dataclasses import dataclass
import fairopt as fo

@dataclass(frozen=True, repr=False)
class Half(fo.Share):
    def per_task(self, instance):
        return instance.ratios[:, 0] / 2
    def conditions(self, symbols):
        return symbols.coefficient == 0.5 * symbols.ratios[0]

@dataclass(frozen=True, repr=False)
class Typo(fo.Share):
    def per_task(self, instance):
        return mean(instance)

def mean(instance):
    return instance.rations.mean(axis=-1)

class Zero:
    def allocate(self, instance):
        return 1 / 0

HALF, TYPO, ZERO = fo.Policy(fo.Leximin(Half())), fo.Policy(fo.Leximin(Typo())), Zero()

def FAMILY(alpha) -> fo.Policy:
    return fo.Policy(fo.AlphaFair(alpha, Typo()))

def MADE(alpha: float = 1) -> fo.Policy:
    return fo.Policy(fo.AlphaFair(alpha)) + "x"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a file of notions and a cluster, in which the command runs."""
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "users.csv").write_text("user,cpu\na,1\nb,2\n")
    (tmp_path / "servers.csv").write_text("server,cpu\ns,10\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TYPO = [
    "mine.py, line 15, in per_task: return mean(instance)",
    "mine.py, line 18, in mean: return instance.rations.mean(axis=-1)",
]


@pytest.mark.parametrize(
    ("words", "first", "lines"),
    [
        ("prove -p mine.py:HALF --resources 1", "InvalidBlock: Half.conditions: 0.5 in a condition; give", []),
        ("solve . -p mine.py:TYPO", "AttributeError: 'Instance' object has no attribute 'rations'", TYPO),
        ("compare . -p drf -p mine.py:TYPO", "AttributeError: 'Instance'", TYPO),
        ("buy . -p mine.py:TYPO", "AttributeError: 'Instance'", TYPO),
        ("frontier . -f mine.py:FAMILY --grid alpha=1", "AttributeError.*; in Typo.per_task of Typo", TYPO),
        ("solve . -p mine.py:ZERO", "ZeroDivisionError: division", ["mine.py, line 22, in allocate: return 1 / 0"]),
        ("solve . -p mine.py:MADE", r"InvalidBlock: .* fails when called: TypeError.*\(mine.py, line 30", []),
    ],
)
def test_errors_of_a_users_file_are_told_in_its_lines(words, first, lines, here):
    found = CliRunner().invoke(app, words.split())
    assert found.exit_code == BAD_INPUT
    told = found.stderr.splitlines()
    assert re.match(first, told[0]) and told[1:] == lines


def test_errors_while_a_file_is_imported_name_its_line(here):
    (here / "broken.py").write_text("import fairopt as fo\nX = fo.Policy(nope)\n")
    found = CliRunner().invoke(app, ["solve", ".", "-p", "broken.py:X"])
    assert found.exit_code == BAD_INPUT
    assert "NameError: name 'nope' is not defined (broken.py, line 2, in <module>: X =" in found.stderr


def test_errors_of_fairopt_itself_keep_their_traceback(monkeypatch, here):
    from fairopt.cli import commands

    monkeypatch.setattr(commands, "named_policy", {}.__getitem__)
    found = CliRunner().invoke(app, ["solve", ".", "-p", "drf"])
    assert isinstance(found.exception, KeyError)


def _fails(depth):
    return 1 / 0 if depth == 0 else _fails(depth - 1)


def test_lines_of_ones_own_are_named_once_and_also_of_other_processes():
    def lines(call, *given):
        with pytest.raises(ZeroDivisionError) as raised:
            call(*given)
        return own_lines(raised.value)

    assert sum(" in _fails: return 1 / 0 if" in line for line in lines(_fails, 30)) == 1
    with ProcessPoolExecutor(1) as pool:
        assert any("in _fails: return 1 / 0 if" in line for line in lines(pool.submit(_fails, 2).result))
