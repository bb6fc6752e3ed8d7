"""Reports on a cluster: what they say, what they leave out, what they write, and their page in a browser."""

import json
import re
import shlex
from collections.abc import Iterator
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fairopt_clusters as fc
import numpy as np
import pytest
from browser import ENTER, MEASURED, Browser, missing, opened
from fairopt_clusters.report import page as cluster_page
from fairopt_clusters.report import words as cluster_words
from fairopt_clusters.report.cluster import ClusterReport, _findings
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.io import saving
from fairopt.questions.buying import purchases
from fairopt.runtime.clock import Clock

NASTY = 'a<b>&"q"\n<script>x</script>'
SECTIONS = [
    "summary",
    "notions",
    "gets",
    "held",
    "shares",
    "use",
    "prices",
    "why",
    "envy",
    "properties",
    "proofs",
    "words",
]
CLUSTER = fo.Instance(
    [[32, 8], [8, 1], [4, 0], [12, 2]],
    [[96, 8]] * 4 + [[64, 0]] * 3,
    users=["train", "tune", "index", NASTY],
    resources=["cpu", "nvidia.com/gpu"],
    servers=[f"a100-0{k}" for k in range(4)] + ["cpu-0", "cpu-1", "cpu-2"],
    teams={"team": ["vision", "nlp", "audio", "audio"]},
    task_limits=[6, 20, 12, 10],
    held=[3, 4, 12, 0],
    units={"cpu": "core"},
    notes=["made <for> a test"],
)


@pytest.fixture(scope="module")
def report() -> ClusterReport:
    return fc.report(["hdrf", "drf", "most-tasks"], CLUSTER, title="Fair & <square>")


@pytest.fixture(scope="module")
def page(report: ClusterReport) -> str:
    return report.to_html()


class Tables(HTMLParser):
    """The tables of a page by caption: rows of the text of cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self.rows: list[list[str]] = []
        self.into: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th", "caption"):
            self.into = []

    def handle_data(self, data: str) -> None:
        if self.into is not None:
            self.into.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = "".join(self.into or []).strip()
        if tag in ("td", "th"):
            self.rows[-1].append(text)
        elif tag == "caption":
            self.found.setdefault(text, self.rows)
        if tag in ("td", "th", "caption"):
            self.into = None


def test_the_summary_says_what_is_used_up_who_waits_and_what_to_do(report: ClusterReport) -> None:
    text = " ".join(report.sentences)
    assert "HDRF divides 7 servers among 3 teams (4 users)" in text and "gpu is used up (all 32)" in text
    assert "Every team asks for more than it gets" in text
    advice = [one.text for one in cluster_words.to_do(report.findings)]
    assert any(re.match(r"vision holds 13.3 gpu more than its fair share: start no more", line) for line in advice)
    assert any(
        "nlp holds 6.67 gpu less than its fair share" in line and "waiting tasks first" in line for line in advice
    )


def test_tables_have_what_teams_and_users_get(report: ClusterReport, page: str) -> None:
    found = Tables(page).found
    header, *rows = found["What each team gets"]
    assert header == ["team", "share", "tasks", "asks for", "cpu", "gpu", "entitled gpu"]
    assert {row[0]: row[-2] for row in rows} == dict.fromkeys(("vision", "nlp", "audio"), "10.667")
    users = {row[0]: row for row in found["What each user gets"][1:]}
    for name, tasks in zip(CLUSTER.users, report.main.tasks.tolist(), strict=True):
        assert float(users[name.replace("\n", r"\n")][2]) == pytest.approx(tasks, abs=1e-3)
    held = {row[0]: row for row in found["Held now beside what is fair, by team"][1:]}
    assert held["vision"][1:6] == ["holds more", "10.667", "24.000", "+13.333", "24"]


@pytest.mark.fast_methods
def test_what_teams_are_entitled_to_stands_beside_what_they_get_now() -> None:
    names = {"users": ["a", "b"], "resources": ["gpu"], "task_limits": [2, 20]}
    pool = fo.Instance([[1], [1]], [12], **names)
    found = fc.report("drf", pool)
    header, *rows = Tables(found.to_html()).found["What each user gets"]
    assert header[-1] == "entitled gpu" and [(row[4], row[-1]) for row in rows] == [("2", "6"), ("10", "6")]
    assert found.to_dict()["findings"]["DRF"]["entitled"]["user"] == {"a": {"gpu": 6.0}, "b": {"gpu": 6.0}}
    unlimited = fc.report("drf", pool.with_task_limits(None))
    assert unlimited.findings["DRF"].entitled is None and "entitled" not in unlimited.to_html()
    teams = fo.Instance([[1], [1], [2]], [12], **{**names, "users": ["a", "b", "c"], "task_limits": [2, 20, 1]},
                        teams={"team": ["x", "y", "y"]})  # fmt: skip
    full = teams.full_demand({"idle": {"gpu": 1}})
    page = fc.report("hdrf", teams, full_demand=full).to_html()
    header, *rows = Tables(page).found["What each team gets"]
    assert [row[header.index("entitled gpu")] for row in rows] == ["4", "4"]
    assert "Without tasks now, with those of all others assumed: idle (4)." in page


def test_the_page_of_a_cluster_names_idle_queues_and_their_entitlement(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    accounts = [{"account": name, "parent_account": "root", "shares_raw": 1} for name in ("bio", "cfd", "idle")]
    job = {"job_state": ["PENDING"], "partition": "all"}
    jobs = [
        job | {"job_id": k, "account": name, "tres_req_str": f"cpu={k},node=1", "array_task_string": f"1-{n}"}
        for k, (name, n) in enumerate((("bio", 1), ("bio", 9), ("cfd", 50)), 1)
    ]
    node = {"name": "n1", "cpus": 12, "real_memory": 1024, "state": ["IDLE"], "partitions": ["all"]}
    document = {"nodes": [node], "jobs": jobs, "associations": accounts}
    Path("now.json").write_text(json.dumps(document))
    done = CliRunner().invoke(app, ["report", "now.json", "--no-answers"])
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("full demand") == 0
    page = Path("report.html").read_text()
    header, *rows = Tables(page).found["What each team gets"]
    assert {row[0]: row[header.index("entitled cpu")] for row in rows} == {"bio": "4", "cfd": "4"}
    assert "Without tasks now, with those of all others assumed: idle (4)." in page


def test_one_more_of_a_full_resource_is_worth_what_it_brings() -> None:
    pool = fo.Instance([[3, 1], [1, 5]], [12, 1000], resources=["cpu", "disk"])  # x = 2 and 6 at shares of one half
    first, *others = cluster_words.worths(purchases(fo.DRF().allocate(pool)))
    exact = Fraction(1, 6) + Fraction(1, 2)  # both shares are of cpu and rise alike: half of it for each user
    assert first.what == "one more cpu" and first.tasks == pytest.approx(float(exact)) and others == []
    assert first.text.startswith("One more cpu is worth 0.6667 tasks")


def test_gpus_that_wait_lead_the_advice_and_tasks_do_if_asked_for(report: ClusterReport) -> None:
    kinds = "(8 gpu, 96 cpu)"
    (advice,) = (one.text for one in cluster_words.to_do(report.findings) if one.kind == "buy")
    assert advice.startswith("If you can add something: one more server like a100-[00-03] puts 8 more gpu in use (")
    found = fc.report("drf", CLUSTER.replace(servers=[f"nvidia-ip-10-0-1-{k}.internal" for k in range(7)]))
    text = next(one.text for one in cluster_words.worths(found.findings["DRF"].purchases) if np.isnan(one.percent))
    assert text.startswith(f"One more server like nvidia-ip-10-0-1-0 and 3 like it {kinds} puts 8 more gpu in use (")
    by_tasks = fc.report("drf", CLUSTER, lead="tasks")
    assert by_tasks.findings["DRF"].purchases is not None and by_tasks.findings["DRF"].purchases.lead is None
    (advice,) = (one.text for one in cluster_words.to_do(by_tasks.findings) if one.kind == "buy")
    assert " worth " in advice and "in use" not in advice
    assert "tasks more for 1% more" in by_tasks.to_html() and "gpu in use for 1% more" in report.to_html()
    with pytest.raises(fo.errors.FairoptError, match="gpus"):
        fc.report("drf", CLUSTER, lead="gpus")


def test_rates_of_less_than_one_unit_or_of_tiny_gains_name_other_amounts() -> None:
    small = fo.Instance([[1e-9], [3e-9]], [1e-3])
    text = cluster_words.worths(purchases(fo.MostTasks().allocate(small.with_task_limits([1e5, 3.5e5]))))[0].text
    assert text.startswith("0.0001 more resource1 are worth 33,333 tasks, up to 0.00015 more")
    large = fo.Instance([[4000], [1000]], [1e6], resources=["gpu_milli"])
    assert cluster_words.worths(purchases(fo.DRF().allocate(large)))[0].text.startswith("100 more gpu_milli are worth")


def test_everything_fits_nobody_and_one_are_said_plainly() -> None:
    fits = fc.report("drf", fo.Instance([[1, 2], [1, 1]], [10, 10], task_limits=[2, 3]))
    assert fits.sentences[-1] == "Every user gets all that it asks for: nobody waits."
    assert [one.kind for one in cluster_words.to_do(fits.findings)] == ["fits"]
    nobody = fc.report("drf", fo.Instance([[1, 2]], [10, 10]).select_users([]))
    assert nobody.sentences[-1] == "Nobody asks for anything." and "<table>" in nobody.to_html()
    alone = fc.report("hdrf", fo.Instance([[1, 2]], [10, 10], users=["only"], teams={"team": ["solo"]}))
    assert alone.sentences[-1] == "The only user asks for more than it gets: only." and "only" in alone.to_html()


def test_units_and_users_without_a_team_are_named() -> None:
    pool = fo.Instance(
        [[1, 3], [1, 3], [0, 2]],
        [4000, 12],
        users=["a", "b", "c"],
        resources=["cpu", "memory"],
        units={"cpu": "cores", "memory": "GiB"},
        teams={"team": ["x", "x", None]},
    )
    text = " ".join(cluster_words.summary(fo.DRF().allocate(pool)))
    assert "among 1 team and 1 user without a team (3 users)" in text
    assert (
        "memory is used up (all 12 GiB); less than 1% of cpu is in use. Every team and user without a team asks for"
        in text
    )
    first, second = cluster_words._more_of(pool)
    assert first == ("core of cpu", "cores of cpu") and second == ("GiB of memory",) * 2


def test_teams_are_always_listed_and_users_left_out_are_counted() -> None:
    n = 60
    many = fo.Instance(
        np.ones((n, 1)),
        [60],
        task_limits=np.linspace(0.1, 1, n),
        teams={"team": [f"team-{k % 34:02}" for k in range(n)]},
    )
    found = fc.report("hdrf", many)
    tables = Tables(found.to_html()).found
    assert [row[0] for row in tables["What each team gets"][1:]] == [f"team-{k:02}" for k in range(34)]
    assert {one.name for one in found.findings["HDRF"].explanations} == {f"team-{k:02}" for k in range(34)}
    assert len(tables["What each user gets"]) - 1 == cluster_page.USERS
    assert f"{n - cluster_page.USERS} more users are left out" in found.to_html()
    alone = fc.report("drf", many.replace(teams=None))
    assert "40 more users left out" in alone.to_html() and len(alone.findings["DRF"].explanations) == 20


def test_the_page_requests_nothing_and_escapes_names(page: str) -> None:
    linked = re.findall(r'(?:href|src|action|data|poster)="([^"]*)"|url\(([^)]*)\)|@import', page)
    assert linked and all((a or b).startswith(("#", "data:,")) for a, b in linked)
    assert "<script" not in page and "a&lt;b&gt;&amp;&#34;q&#34;\\n&lt;script&gt;" in page
    assert "<title>Fair &amp; &lt;square&gt;</title>" in page and "made &lt;for&gt; a test" in page


def test_tables_have_captions_and_headers_with_a_scope_and_pictures_a_text(page: str) -> None:
    assert (
        page.count("<table>") == page.count("<caption") == len(set(re.findall(r'aria-labelledby="(table-\d+)"', page)))
    )
    assert not re.findall(r"<th(?! scope=)(?!ead)", page)
    assert all("aria-label=" in tag for tag in re.findall(r'<[^>]*role="img"[^>]*>', page))
    assert re.findall(r'<section id="([a-z]+)"', page) == SECTIONS


@pytest.mark.parametrize("policy", ["hdrf", "ps-dsf", "h-ffmra", "dynamic-drf", "most-tasks"])
def test_mechanisms_have_a_page_like_policies(policy: str, tmp_path: Path) -> None:
    teams = {"team": ["a", "a", "b"]}
    found = fc.report(policy, fo.Instance([[4, 1], [1, 2], [2, 1]], [[32, 40]], teams=teams))
    (saved,) = found.write(tmp_path / "page.html", answers=tmp_path / "answers").values()
    proves = policy not in ("ps-dsf", "dynamic-drf")
    assert saved.verification.ok == proves
    assert ("yes, gap at most" if proves else "cannot be checked this way") in (tmp_path / "page.html").read_text()


def test_a_policy_without_an_answer_is_named_with_its_reason_and_none_is_an_error() -> None:
    sparse = fo.Instance([[1, 0], [1, 1]], [2, 2])
    found = fc.report(["2df", "drf"], sparse)
    assert list(found.findings) == ["DRF"] and "<strong>2-DF has no answer.</strong> OutOfDomain" in found.to_html()
    with pytest.raises(fo.errors.OutOfDomain):
        fc.report(["2df"], sparse)
    with pytest.raises(fo.errors.InvalidBlock, match="no policy is given"):
        fc.report([], sparse)


class Stopped:
    """A mechanism during which Ctrl-C is pressed."""

    name = "stopped"

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        raise KeyboardInterrupt


def test_ctrl_c_keeps_what_is_found_and_names_the_rest() -> None:
    pool = fo.Instance([[1], [2]], [4])
    found = fc.report(["drf", Stopped(), "nash"], pool)
    assert list(found.findings) == ["DRF"] and found.comparison.unanswered == ("stopped", "Nash welfare")
    assert "Not solved: stopped, Nash welfare." in found.to_html()
    with pytest.raises(KeyboardInterrupt):
        fc.report([Stopped()], pool)


def test_what_is_not_found_in_time_is_said_and_nothing_is_made_up() -> None:
    allocation = fo.Policy(fo.AlphaFair(2)).allocate(fo.datasets.demo())
    found = _findings(allocation, Clock(1e-9), lambda *_: None)
    html = ClusterReport(
        fo.compare("drf", fo.datasets.demo()),
        {"alpha": found},
        "t",
        fc.report("drf", fo.Instance([[1]], [1])).made,
    ).to_html()
    assert found.purchases is None and any(line.startswith("prices: ") for line in found.missing)
    assert "What could not be found" in html and "What more would bring is not known." in html


def test_nothing_is_written_unless_all_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fc.report(["drf", "nash"], fo.Instance([[1], [2]], [4]))
    (tmp_path / "page.html").mkdir()
    with pytest.raises(OSError, match="not a file that can be replaced"):
        found.write(tmp_path / "page.html", answers=tmp_path / "new" / "answers")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "_rename_all", full)
    (tmp_path / "old.html").write_text("old")
    with pytest.raises(OSError, match="No space left"):
        found.write(tmp_path / "old.html", answers=tmp_path / "answers")
    assert (tmp_path / "old.html").read_text() == "old" and not [*tmp_path.glob("answers/*")]
    with pytest.raises(
        fo.errors.InvalidBlock, match=r"cannot write .*page.txt; give a name that ends in .html or .htm"
    ):
        found.write(tmp_path / "page.txt")


def test_the_commands_on_the_page_prove_the_answers_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fo.datasets.write(CLUSTER, "now cluster.json")
    runner = CliRunner()

    def commands(*words: str) -> list[list[str]]:
        result = runner.invoke(
            app, ["report", "now cluster.json", "--weight", "nlp=2", "-p", "hdrf", "-p", "drf", *words]
        )
        assert result.exit_code == 0, result.output
        text = Path("report.html").read_text()
        found = re.findall(r'<code class="command" tabindex="0">(.*?)</code>', text.partition('id="proofs"')[2])
        return [shlex.split(line.replace("&#39;", "'"))[1:] for line in found]

    (verify,) = commands()
    assert verify[:3] == ["verify", "report-answers/hdrf.json", "report-answers/drf.json"]
    done = runner.invoke(app, verify)
    assert done.exit_code == 0 and done.stdout.count("proved: gap") == 2
    other = [word.replace("nlp=2", "nlp=3") for word in verify]
    assert runner.invoke(app, other).exit_code == 1
    *solve, verify = commands("--no-answers")
    for words in (*solve, verify):
        done = runner.invoke(app, words)
        assert done.exit_code == 0, done.output


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    fo.datasets.write(CLUSTER, tmp_path / "now.json")
    folder, runner = str(tmp_path), CliRunner()
    both = runner.invoke(app, ["report", f"{folder}/now.json", "--no-answers", "--answers", folder])
    assert both.exit_code == 2 and "--no-answers contradict each other" in both.stderr
    wrong = runner.invoke(app, ["report", f"{folder}/now.json", "--answers", f"{folder}/now.json"])
    assert wrong.exit_code == 2 and "this is a file; give the name of a folder" in wrong.stderr
    text = runner.invoke(app, ["report", f"{folder}/now.json", "--out", f"{folder}/page.txt"])
    assert text.exit_code == 2 and "ends in .html or .htm" in text.stderr


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    if lacking := missing():
        pytest.skip(f"the page is opened in a headless Chromium by its driver; not installed: {lacking}")
    with opened() as browser:
        yield browser


@pytest.fixture
def file(page: str, tmp_path: Path) -> Path:
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    return tmp_path / "page.html"


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1200, False), (1200, True)])
def test_the_page_fits_a_phone_and_a_desk_in_light_and_dark(
    window: Browser, file: Path, width: int, dark: bool
) -> None:
    window.open(file, width, dark=dark)
    found = window.run(MEASURED)
    assert (found["width"], found["dark"]) == (width, dark)
    assert found["page"] <= width and found["outside"] == []
    assert found["scrolls"] and max(found["scrolls"]) <= width
    assert found["errors"] == found["refused"] == found["requests"] == window.console == []
    assert found["sections"] == SECTIONS
    assert found["headings"][0] == 1 and max(np.diff(found["headings"])) <= 1
    assert {"vision", "nlp", "audio"} <= {*re.findall(r"\w+", found["text"])}
    assert len(found["contrasts"]) > 300
    assert [pair for pair in found["contrasts"] if pair[0] < 4.5] == []  # WCAG 2.2, level AA


def test_all_of_the_page_is_printed(window: Browser, file: Path) -> None:
    window.open(file, 718, print_=True)  # A4 between margins of 1 cm, at 96 dots per inch
    found = window.run(MEASURED)
    assert found["print"] and found["page"] <= 718 and found["outside"] == []
    assert found["folded"] == 0  # of what is folded on the screen
    assert window.console == []


def test_links_lead_somewhere_and_every_one_has_the_focus_in_turn(window: Browser, file: Path) -> None:
    window.open(file, 1200)
    assert window.run(MEASURED)["dead"] == []
    first = window.tab(0)
    assert first["href"] == "#summary"  # the link past the menu
    for k in range(1, first["of"]):
        found = window.tab(k)
        assert found["seen"] and found["there"], found


def test_a_key_follows_a_link_of_the_menu(window: Browser, file: Path) -> None:
    window.open(file, 1200)
    href = [window.tab(k)["href"] for k in range(3)][-1]
    window.press(ENTER)
    window.wait("return location.hash", lambda there: there == href)
    top = window.run(f"return document.querySelector('{href}').getBoundingClientRect().top")
    assert -1 <= top < 900


def test_the_page_counts_a_team_without_inner_teams_as_one_of_the_teams_that_it_shows() -> None:
    """hep is in physics, as cid is; ml has two users and no team in it."""
    teams = {"account": ["hep", "hep", None, None, None], "top": ["physics", "physics", "physics", "ml", "ml"]}
    pool = fo.Instance([[1]] * 5, [10], users=["bob", "dan", "cid", "ann", "eve"], teams=teams)
    assert cluster_words.who(pool) == ("team", ["hep", "cid", "ml"])
    assert cluster_words.counted(pool) == "2 teams and 1 user without a team"
