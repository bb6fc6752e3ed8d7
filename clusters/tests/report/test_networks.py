"""Reports on networks: what the page says of demands over paths."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairopt.cli import app

pytest.importorskip("networkx", reason="networkx is in the extra networks")


def command(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize("policy", [(), ("-p", "drf")])
def test_a_report_says_why_envy_is_not_checked(tmp_path: Path, policy: tuple[str, ...]) -> None:
    (tmp_path / "g.txt").write_text("a b 1\nb c 1\na c 1\n")
    (tmp_path / "d.csv").write_text("source,target\na,c\nb,c\n")
    page = tmp_path / "page.html"
    code, out = command(
        "report", str(tmp_path / "g.txt"), "--demands", str(tmp_path / "d.csv"), *policy, "--out", str(page)
    )
    assert code == 0, out
    assert "Envy is not checked, as users are paths of demands." in page.read_text()


def test_a_report_counts_a_demand_that_has_its_volume_as_served(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a b 10\nb c 5\na c 4\n")
    (tmp_path / "d.csv").write_text("source,target,volume\na,c,1\nb,c,9\n")
    words = str(tmp_path / "g.txt"), "--demands", str(tmp_path / "d.csv"), "--out", str(tmp_path / "page.html")
    code, out = command("report", *words)
    assert code == 0, out
    assert "1 of 2 teams gets all that it asks for; b->c waits for more." in out
    assert "b->c is used up (all 5); 25% of a->c and 0% of a->b are in use." in out
