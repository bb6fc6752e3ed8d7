"""What schedulers give beside certified answers, in Python and by ``fairopt queues``."""

import random
from dataclasses import replace
from pathlib import Path

import fairopt_clusters as fc
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

QUEUE = """apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: NAME}
spec: {resources: {gpu: {quota: 0, limit: -1, overQuotaWeight: WEIGHT}}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "queues.yaml"
    texts = [QUEUE.replace("NAME", name).replace("WEIGHT", weight) for name, weight in ("a5", "b3", "c1")]
    path.write_text("---\n".join(texts))
    return path


def test_guarantees_first_then_weights_level_by_level() -> None:
    queues = (
        Queue("ml", weight=2, guarantee={"gpu": 4}),
        Queue("nlp", "ml", guarantee={"gpu": 1}),
        Queue("vision", "ml", 3),
        Queue("bio", request={"gpu": 9}),
    )
    table, notes = fc.schedulers.beside(fc.schedulers.KAI(), QueueTree("KAI", queues, {"gpu": 13}))
    assert table["queue"].tolist() == ["nlp", "vision", "bio"] and notes == []
    assert table["gives"].tolist() == [3, 7, 3]  # ml has 4 + 6; nlp 1 + 9 / 4, rounded
    assert table["fair"].tolist() == pytest.approx([3.25, 6.75, 3])


def test_queues_on_different_levels_have_their_guarantees() -> None:
    """a owns 1 and c below it 1, b owns 1, and the 1 that nobody owns is shared by a and b."""
    root, a, b, c = (
        Queue(name, parent, guarantee={"cpu": 1}) for name, parent in zip("zabc", ["", *"zza"], strict=True)
    )
    table, _ = fc.schedulers.beside(fc.schedulers.Kueue(), QueueTree("Kueue", (root, a, b, c)))
    assert table["queue"].tolist() == ["b", "c"]
    assert table["gives"].tolist() == table["fair"].tolist() == [1.5, 2.5]


def test_what_is_owed_may_not_fit() -> None:
    queues = tuple(Queue(name, guarantee={"gpu": 2}) for name in "ab")
    table, notes = fc.schedulers.beside(fc.schedulers.KAI(), QueueTree("KAI", queues, {"gpu": 3}))
    assert table["gives"].tolist() == [2, 2] and table["fair"].isna().all() and "no certified answer" in notes[0]


def test_the_command(file: Path) -> None:
    found = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "kai", "--capacity", "gpu=5"])
    assert found.exit_code == 0, found.output
    rows = [line.split() for line in found.stdout.splitlines()]
    assert ["c", "gpu", "0", "0.5556", "-0.5556"] in rows and "d5bc503a" in found.stdout


def test_errors_of_the_command(file: Path) -> None:
    other = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "yunikorn", "--capacity", "gpu=5"])
    assert other.exit_code == 2 and "are of KAI; give queues of YuniKorn" in " ".join(other.output.split())
    unknown = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "kay"])
    assert unknown.exit_code == 2 and "kai" in unknown.output
    nothing = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "kai"])
    assert nothing.exit_code == 2 and "no capacity" in " ".join(nothing.output.split())


def clusters(*queues: str) -> str:
    """ClusterQueues from name, cohort, weight and quota."""
    text = """apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: %s}
spec:
  cohort: %s
  fairSharing: {weight: %s}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: default, resources: [{name: cpu, nominalQuota: %s}]}]}]
"""
    return "---\n".join(text % tuple(queue.split()) for queue in queues)


def test_queues_of_kueue_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    empty = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: empty}\nspec: {parentName: all}\n"
    file.write_text(clusters("a all 3 500m", "b all 1 500m", "c all 1 8") + empty)
    tree = fc.read_queues(file)
    assert (tree.scheduler, [queue.name for queue in tree.queues]) == ("Kueue", ["all", "a", "b", "c", "empty"])
    assert tree.by_name["a"].guarantee == {"cpu": 0.5} and tree.by_name["a"].weight == 3
    tree = replace(tree, queues=tuple(replace(q, request={"cpu": 1}) if q.name == "c" else q for q in tree.queues))
    table, notes = fc.schedulers.beside(fc.schedulers.Kueue(), tree)
    assert table["gives"].tolist() == [5.75, 2.25, 1, 0] and notes == []  # 7 are left: 3 parts of 4, and 1
    assert table["fair"].tolist() == pytest.approx([5.75, 2.25, 1, 0])
    found = CliRunner().invoke(app, ["queues", str(file), "--scheduler", "kueue"])
    assert found.exit_code == 0 and "ff69552e" in found.stdout


def test_a_queue_in_two_cohorts_and_a_circle(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(clusters("a x 1 1", "a y 1 1"))
    with pytest.raises(fo.errors.InvalidInstance, match=r"'a' is there twice; the other one is .*document 1"):
        fc.read_queues(file)
    cohort = "apiVersion: kueue.x-k8s.io/v1alpha1\nkind: Cohort\nmetadata: {name: %s}\nspec: {parent: %s}\n"
    file.write_text("---\n".join([cohort % ("x", "y"), cohort % ("y", "x")]))
    with pytest.raises(fo.errors.InvalidInstance, match="circle of parents, x -> y -> x"):
        fc.read_queues(file)
    file.write_text(clusters("a x -1 1"))
    with pytest.raises(fo.errors.InvalidInstance, match=r"spec\.fairSharing\.weight is -1; give a quantity >= 0"):
        fc.read_queues(file)
    file.write_text(clusters("a x 1 null"))
    with pytest.raises(fo.errors.InvalidInstance, match=r"flavors\[0\].resources\[0\].nominalQuota is missing; add it"):
        fc.read_queues(file)


def test_notes_say_where_ties_decide_and_what_kueue_does_not_read():
    two = tuple(Queue(name, request={"gpu": 14}) for name in "ab")
    _, notes = fc.schedulers.beside(fc.schedulers.Volcano("capacity"), QueueTree("Volcano", two, {"gpu": 14}))
    what = "2 queues with another amount if the queues of the file come in another order, by ties (such as a)"
    assert notes == [what]
    assert fc.schedulers.beside(fc.schedulers.KAI(), QueueTree("KAI", two, {"gpu": 14}))[1] == []
    owed = tuple(Queue(name, guarantee={"gpu": 7}, limit={"gpu": 9}, request={"gpu": 14}) for name in "ab")
    _, notes = fc.schedulers.beside(fc.schedulers.Kueue(), QueueTree("Kueue", owed))
    assert notes == ["the limits of 2 queues count for nothing: Kueue has borrowing limits (such as a)"]


@pytest.mark.parametrize("seed", range(12))
def test_with_lending_limits_what_kueue_gives_is_the_certified_answer(seed: int) -> None:
    """Two levels of cohorts, with borrowing limits and requests too: two ways to say what a lending limit binds."""
    r = random.Random(seed)

    def some(most: int) -> dict[str, float]:
        return r.choice([{}, {"cpu": float(r.randint(0, most))}])

    rows = [Queue("root", guarantee={"cpu": 3.0}), Queue("mid", "root", 2.0, {"cpu": 2.0}, lending=some(3))]
    rows += [
        Queue(
            name,
            "mid" if name == "a" else r.choice(["root", "mid"]),
            float(r.randint(1, 3)),
            {"cpu": float(r.randint(0, 5))},
            lending=some(5),
            borrowing=some(5),
            request=r.choice([None, {"cpu": float(r.randint(0, 12))}]),
        )
        for name in "abcd"
    ]
    table, notes = fc.schedulers.beside(fc.schedulers.Kueue(), QueueTree("Kueue", tuple(rows)))
    assert table["gives"].tolist() == pytest.approx(table["fair"].tolist(), abs=1e-6), notes
