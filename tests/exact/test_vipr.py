"""Linear programs and their proofs in VIPR's format: proved by a checker here and by viprchk, and read by HiGHS."""

import itertools
import re
import shutil
import subprocess
from fractions import Fraction as Q
from pathlib import Path

import numpy as np
import pytest
from oracle.vipr import Refused, checked
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import NotCertified
from fairopt.exact import vipr
from fairopt.exact.cluster import Cluster
from fairopt.solve.cluster import exact_hierarchy

VIPRCHK = shutil.which("viprchk")
PAPER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
SERVERS = fo.Instance(
    [[1, 2], [3, 1], [1, 1]],
    [[9, 18], [12, 4]],
    users=["a b", "a_b", "e1"],
    weights=[1, 2, 1],
    task_limits=[None, None, Q(7, 3)],
    eligible=[[True, True], [True, False], [False, True]],
)
POLICIES = [
    fo.DRF(),
    fo.MostTasks(),
    fo.Policy(fo.MaxMin()),
    fo.Policy(fo.OrderedWeighted([3, 1])),
    fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks()))),
    fo.Policy(fo.OrderedWeighted([3, 1]).then(fo.Total(fo.Tasks()))),
    fo.Policy(fo.Total(fo.Tasks()), [fo.MaxMin() >= Q(1, 10), fo.SharingIncentive()]),
    fo.Policy(fo.Leximin(fo.Surplus())),
]


def written(answer, folder):
    made = vipr.write(answer, folder, "answer.json")
    return made, [(folder / f"level-{k}.vipr").read_text() for k in range(1, made.programs + 1)]


def by_highs(file):
    """The optimum of an LP file."""
    highspy = pytest.importorskip("highspy")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(file)) == highspy.HighsStatus.kOk
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return highs.getObjectiveValue()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("instance", [PAPER, SERVERS], ids=["pool", "servers"])
def test_every_level_is_proved_here_and_by_viprchk_and_has_the_same_optimum_by_highs(policy, instance, tmp_path):
    made, texts = written(policy.allocate(instance, exact=True), tmp_path / "out")
    assert made.programs == len(texts) >= 1
    for k, text in enumerate(texts, 1):
        claim = checked(text)
        lp = tmp_path / "out" / f"level-{k}.lp"
        objective = re.search(r"Maximize\n(?:\\ (\d+) times)?", lp.read_text())
        scale = int(objective[1] or 1)
        assert by_highs(lp) == pytest.approx(float(claim.value) * scale, rel=1e-9, abs=1e-9)
        if VIPRCHK is not None:
            found = subprocess.run([VIPRCHK, lp.with_suffix(".vipr")], capture_output=True, text=True)
            assert found.returncode == 0 and f"value range [{claim.value}, {claim.value}]" in found.stdout


@pytest.mark.skipif(VIPRCHK is None, reason="viprchk (github.com/scipopt/vipr) is not on the PATH")
@pytest.mark.parametrize(("old", "new"), [("1/400", "1/401"), ("range 1/2 1/2", "range 2/3 2/3"), ("L 1/2", "L 1/3")])
def test_viprchk_refuses_another_multiplier_or_value(old, new, tmp_path):
    _, (text,) = written(fo.DRF().allocate(PAPER, exact=True), tmp_path / "out")
    file = tmp_path / "changed.vipr"
    for content, code in ((text, 0), (text.replace(old, new), 255)):
        file.write_text(content)
        assert subprocess.run([VIPRCHK, file], capture_output=True).returncode == code


def test_no_other_value_is_proved_when_one_number_of_a_proof_changes(tmp_path):
    _, (text,) = written(fo.DRF().allocate(PAPER, exact=True), tmp_path / "out")
    start = text.index("RTP")
    numbers = [m for m in re.finditer(r"(?<![\w/.])-?\d+(/\d+)?(?![\w/.])", text) if m.start() > start]
    accepted = []
    for m, change in itertools.product(numbers, (Q(1), Q(-1, 7))):
        changed = text[: m.start()] + str(Q(m[0]) + change) + text[m.end() :]
        try:
            accepted.append(checked(changed).value)
        except (Refused, ValueError, IndexError, KeyError):
            continue
    assert len(numbers) == 20 and set(accepted) <= {Q(1, 2)}


def test_the_levels_of_a_leximin_are_its_sorted_shares_and_the_point_is_the_answer(tmp_path):
    answer = fo.DRF().allocate(SERVERS, exact=True)
    _, texts = written(answer, tmp_path / "out")
    capacity = [21, 22]
    demands = SERVERS.demands.astype(int).tolist()
    shares = {
        sum(answer.exact_tasks[j]) * max(Q(d, c) for d, c in zip(demands[j], capacity, strict=True)) / Q(w)
        for j, w in enumerate([1, 2, 1])
    }
    assert {checked(text).value for text in texts} == shares
    point = re.search(r"^answer \d+ (.*)$", texts[-1], re.M)[1].split()
    values = dict(zip(map(int, point[::2]), map(Q, point[1::2]), strict=True))
    names = checked(texts[-1]).names
    assert len(set(names)) == len(names) and names[0].startswith("tasks_a_b_on_")
    assert values.get(0, 0) == answer.exact_tasks[0, 0]


FILLED = {  # with the tasks of those who stop at each event
    "pool": (
        fo.Instance([[4, 2], [4, 2], [1, 0]], [1000, 100], teams={"team": ["nlp", "vision", "vision"]}),
        [Q(50), Q(800)],
    ),
    "servers": (
        fo.Instance(
            [[1]] * 3,
            [[10], [10]],
            teams={"team": ["a", "b", "c"]},
            eligible=[[True, False], [True, False], [False, True]],
            guarantees=[0, 6, 0],
        ),
        [Q(10), Q(10)],
    ),
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("case", FILLED)
def test_those_who_stop_where_a_row_is_full_cannot_rise_while_others_keep_their_tasks(case, exact, tmp_path):
    instance, values = FILLED[case]
    made, texts = written(fo.HDRF().allocate(instance, exact=exact), tmp_path / "out")
    assert [checked(text).value for text in texts] == values and "arithmetic" in made.notes[0]
    assert_viprchk(tmp_path / "out", len(texts))


def test_the_program_of_an_event_has_the_tasks_of_that_event():
    """At level L of vision's users, which is 6/5 L of the teams, 60 L + 50 L tasks use 2 of 100 each."""
    cluster, policy, seen = Cluster(FILLED["pool"][0]), fo.HDRF(), []
    exact_hierarchy.solve(cluster, policy, record=lambda what, model, *_: seen.append((what, model.cluster.low)))
    (first, low), (last, at_end) = seen
    assert first.startswith("event 1,") and list(map(Q, map(str, low))) == [Q(300, 11), Q(250, 11), Q(5000, 11)]
    assert last.startswith("event 2,") and list(map(Q, map(str, at_end))) == [Q(300, 11), Q(250, 11), Q(800)]


@pytest.mark.parametrize("seed", range(6))
def test_each_user_of_a_filling_stops_in_one_program_or_at_its_limit(seed, tmp_path):
    r = np.random.default_rng(seed)
    eligible = r.random((6, 2)) < 0.7
    eligible[~eligible.any(axis=1), 0] = True
    instance = fo.Instance(
        r.integers(1, 6, (6, 2)),
        r.integers(5, 20, (2, 2)),
        eligible=eligible,
        task_limits=[None, 1, None, None, 2, None],
        users=list("abcdef"),
        teams={"org": ["x", "x", "x", "x", "y", "y"], "team": ["p", "p", "q", "q", "s", "s"]},
    )
    answer = fo.HDRF(by=("org", "team")).allocate(instance, exact=True)
    made, texts = written(answer, tmp_path / "out")
    runs, stopped = dict(zip("abcdef", answer.exact_tasks.sum(axis=1), strict=True)), []
    for claim in map(checked, texts):
        who = {claim.names[c].split("_")[1] for c in claim.costs}
        assert claim.value == sum(runs[user] for user in who) and who
        stopped += who
    at_limits = {user for user, limit in (("b", 1), ("e", 2)) if runs[user] == limit}
    assert len(set(stopped)) == len(stopped) and set("abcdef") - at_limits <= set(stopped)
    assert_viprchk(tmp_path / "out", made.programs)


def test_who_cannot_rise_above_a_base_and_that_the_others_can_are_programs(tmp_path):
    """A guarantee of all 4 leaves users on server 1 nothing more; user 3 has 6 on server 2."""
    instance = fo.Instance(
        [[1]] * 3, [[4], [6]], guarantees=[4, 0, 0], eligible=[[True, False], [True, False], [False, True]]
    )
    answer = fo.Policy(fo.MaxMin(fo.Surplus(fo.Tasks()))).allocate(instance, exact=True)
    made, texts = written(answer, tmp_path / "out")
    levels = [line for line in (tmp_path / "out" / "README.txt").read_text().splitlines() if line.startswith("level-")]
    *fixed, rise, smallest = levels
    assert [checked(text).value for text in texts] == [Q(0)] * len(fixed) + [Q(6), Q(6)]
    names = [name for line in fixed for name in re.search("fixes (.*): 0$", line)[1].split(", ")]
    assert sorted(names) == ["user1", "user2"] and all("who can rise" in line for line in fixed)
    assert rise.endswith("with 2 at earlier levels; all compared here can rise: 6") and "who" not in smallest
    assert_viprchk(tmp_path / "out", made.programs)


def test_that_a_number_at_its_base_could_rise_is_a_program_with_a_point_of_its_own(tmp_path):
    policy = fo.Policy(fo.MaxMin(fo.Surplus(fo.Tasks())) + 10 * fo.Total(fo.Tasks()))
    answer = policy.allocate(fo.Instance([[1], [2]], [10]), exact=True)
    made, texts = written(answer, tmp_path / "out")
    assert answer.exact_proof["proof"][0]["rising"] and answer.exact_tasks[1, 0] == 0
    assert [checked(text).value for text in texts] == [Q(10, 3), Q(100)]
    assert "\npoint 3 0 10/3 1 10/3 " in texts[0] and "\nanswer 1 0 10\n" in texts[1]
    assert_viprchk(tmp_path / "out", made.programs)


def test_what_guarantees_teams_is_a_program_for_each_resource_and_for_its_share(tmp_path):
    """Of 3, 1, 2 units a task, 4, 3 and 8 guarantee 4, 4/3 and 8/3; three tasks of 1/3 hold 3 of 9."""
    instance = fo.Instance(
        [[3, 1, 2]] * 3,
        [4, 9, 12],
        guarantees={"t0": {"resource1": 4, "resource2": 3, "resource3": 8}},
        teams={"team": ["t1", "t0", "t0"]},
    )
    _, texts = written(fo.Policy(fo.MaxMin(fo.OfTeam())).allocate(instance, exact=True), tmp_path / "out")
    assert [checked(text).value for text in texts] == [Q(4), Q(4, 3), Q(8, 3), Q(0)]
    assert_viprchk(tmp_path / "out", len(texts))
    above = fo.Instance(
        [[3, 1, 2], [1, 2, 1], [1, 1, 1]],
        [40, 9, 12],
        guarantees={"t0": {"resource1": 4, "resource2": 3}},
        teams={"team": ["t1", "t0", "t0"]},
    )
    answer = fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam()))).allocate(above, exact=True)
    _, texts = written(answer, tmp_path / "above")
    assert [checked(text).value for text in texts] == [Q(3), Q(3), Q(-1, 3), Q(2, 5), Q(2, 5)]
    assert_viprchk(tmp_path / "above", len(texts))


def assert_viprchk(folder, programs):
    """The checker by others accepts the programs of a folder, if it is here."""
    for k in range(1, programs + 1) if VIPRCHK is not None else ():
        assert subprocess.run([VIPRCHK, folder / f"level-{k}.vipr"], capture_output=True).returncode == 0


def test_integers_beyond_what_floats_hold_are_rounded_in_the_lp_text_alone(tmp_path):
    huge = fo.Instance([[Q(1, p)] for p in (101, 103, 107, 109, 113, 127, 131, 137, 139)], [1])
    answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(huge, exact=True)
    _, texts = written(answer, tmp_path / "out")
    claim = checked(texts[0])
    text = (tmp_path / "out" / "level-1.lp").read_text()
    assert claim.value.denominator > 2**53 and "rounded: " in text
    assert by_highs(tmp_path / "out" / "level-1.lp") == pytest.approx(float(claim.value), rel=1e-6)


def test_tasks_below_the_optimum_are_no_proof(tmp_path):
    answer = fo.DRF().allocate(PAPER, exact=True)
    object.__setattr__(answer, "exact_tasks", np.array([[Q(2)], [Q(25, 2)]], dtype=object))
    with pytest.raises(NotCertified, match="do not reach the optimum"):
        vipr.write(answer, tmp_path / "out", "answer.json")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: fo.FDS(2).allocate(PAPER), "not rational in general"),
        (lambda: fo.MLFDRS().allocate(PAPER), "not one linear program per level"),
        (lambda: fo.DRF().allocate(fo.datasets.library()["hard-no-users"].instance), "nobody can run anything"),
    ],
)
def test_what_is_not_linear_is_named_with_its_reason(answer, why, tmp_path):
    made, _ = written(answer(), tmp_path / "out")
    assert made.programs == 0 and why in "; ".join(made.notes)
    assert why in (tmp_path / "out" / "README.txt").read_text()


def test_the_command_writes_a_folder_for_each_answer_and_replaces_only_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fo.DRF().allocate(PAPER, exact=True).save("exact.json")
    fo.DRF().allocate(PAPER).save("floats.json")

    def run(*arguments):
        return CliRunner().invoke(app, ["verify", *arguments])

    for _ in range(2):
        result = run("exact.json", "floats.json", "--vipr", "proofs")
        assert result.exit_code == 0, result.output
        assert "exact.json: 1 linear program with proofs in proofs/exact" in result.stdout
        assert "the answer is in floats" in result.stdout
    texts = [Path("proofs", name, "level-1.vipr").read_text() for name in ("exact", "floats")]
    assert texts[0] == texts[1] and "fixes batch, web: 1/2" in Path("proofs/exact/README.txt").read_text()
    Path("proofs/exact/mine.txt").touch()
    result = run("exact.json", "--vipr", "proofs")
    assert result.exit_code != 0 and "has files of others" in result.output
    result = run("exact.json", "--vipr", "floats.json")
    assert result.exit_code == 2 and "is a file" in result.output


def test_nothing_is_written_for_an_answer_that_is_not_proved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = fo.DRF().allocate(PAPER).save("answer.json")
    file.write_text(file.read_text().replace("12.5", "12.6"))
    assert CliRunner().invoke(app, ["verify", "answer.json", "--vipr", "proofs"]).exit_code == 1
    assert not Path("proofs").exists()
