"""The library: every case has what it promises, and its answers agree with fresh solves and exact oracles."""

import json
import zlib
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import fractions_waterfill
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import Infeasible, InvalidInstance, OutOfDomain, UnknownName
from fairopt.instances.library import library as module

LIBRARY = fo.datasets.library()
DATA = Path(module.__file__).parent / "data"
STATED = {"paper": 25, "deployed": 30, "claim": 20, "hard": 30, "cluster": 10}  # cases by kind, at least
EXAMPLE = "ghodsi-2011-example"
SMALL = [case for case in LIBRARY.values() if "family" not in case.to_dict() and case.size[0] <= 8]


def test_there_are_a_hundred_cases_of_every_kind() -> None:
    assert len(LIBRARY) >= 100
    assert all(LIBRARY.tags[tag] >= least for tag, least in STATED.items()), LIBRARY.tags


def test_every_case_has_a_source_tags_a_command_and_a_file() -> None:
    assert {file.stem for file in DATA.glob("*.json")} == {*STATED, "index"}
    assert [name for kind in STATED for name in module.read_data(kind)] == list(LIBRARY)
    for name, case in LIBRARY.items():
        assert case.name == name and case.title and case.command.endswith(name)
        assert case.source.kind == {"paper": "paper", "claim": "paper", "deployed": "code"}.get(case.tags[0], "script")
        assert str(case.source) and case.answers


def test_files_are_valid_under_their_schemas_and_small() -> None:
    of_case, of_library, of_instance = (
        jsonschema.Draft202012Validator(schema)
        for schema in (fo.report.schema("fairopt.case/1"), fo.report.schema("fairopt.library/1"), fo.datasets.schema())
    )
    index = module.read_data("index")
    of_library.validate(index)
    assert [case.to_entry() for case in LIBRARY.values()] == index["cases"]
    for name, case in LIBRARY.items():
        data = module.read_data(case.tags[0])[name]
        of_case.validate(data)
        assert data == {"format": "fairopt.case/1", **case.to_dict()}
        if "instance" in data and case.size[0] <= 10:
            of_instance.validate(data["instance"])
    assert sum(len(zlib.compress(file.read_bytes())) for file in DATA.glob("*.json")) < 120_000


def test_instances_load_and_have_the_size_that_the_index_states() -> None:
    for case in LIBRARY.values():
        instance = case.instance
        assert (instance.n_users, instance.n_resources, int(instance.counts.sum())) == case.size
        assert ("servers" in case.tags) == (instance.n_servers > 1)


def test_intervals_enclose_exact_values_and_exact_answers_have_no_gap() -> None:
    exact = bounded = 0
    for case, answer in LIBRARY.answers(status="optimal"):
        assert answer.gap is not None and 0 <= answer.gap <= 1e-6, (case, answer)
        if answer.interval is not None:
            low, high = answer.interval
            assert low <= high
            assert answer.value is None or Fraction(low) <= answer.value <= Fraction(high)
        exact += answer.exact
        assert not answer.exact or answer.gap == 0
        if "exact_bounds" in answer.proof:
            assert answer.interval is not None and answer.unit is not None
            bounded += 1
            assert answer.interval[1] - answer.interval[0] <= 1e-14 * max(answer.unit, abs(answer.interval[0]))
    assert exact > 400 and bounded > 100


def test_the_lie_of_the_example_about_ceei_pays_and_asset_fairness_breaks_the_sharing_incentive() -> None:
    truth, lie = (LIBRARY[f"ghodsi-2011-ceei-{name}"].answers["nash"].tasks for name in ("truth", "lie"))
    assert truth is not None and lie is not None and lie[0] > truth[0]
    case = LIBRARY["ghodsi-2011-asset-fairness"].instance
    tasks = np.array([6, 12])  # equal sums of resources, and resource 2 is full
    held = tasks[:, None] * case.demands
    assert held.sum(1).tolist() == [24, 24] and held.sum(0).max() == case.capacities.max()
    assert (held[1] < case.capacities[0] / 2).all()


def test_sources_that_are_quoted_from_memory_name_no_place_in_a_text() -> None:
    quoted = [case.source.where for case in LIBRARY.values() if "from memory" in case.source.where]
    assert len(quoted) == 5 and not any(word in where for where in quoted for word in ("sec.", "Fig.", "Table"))


def test_listing_reads_no_case() -> None:
    again = fo.datasets.library()
    assert "instance" not in vars(again[EXAMPLE]) and "_data" not in vars(again[EXAMPLE])
    again.to_frame()
    assert len(repr(again)) and "_data" not in vars(again[EXAMPLE])


@pytest.mark.parametrize("case", SMALL[::9], ids=lambda case: case.name)
def test_answers_agree_with_fresh_ones(case: fo.datasets.Case) -> None:
    for name, answer in case.answers.items():
        try:
            found = answer.make().allocate(case.instance)
        except (Infeasible, OutOfDomain) as error:
            found = error
        assert case.check(found, name), (name, case.check(found, name))


def test_drf_on_pools_is_what_water_filling_in_fractions_gives() -> None:
    checked = 0
    for case in SMALL:
        instance, answer = case.instance, case.answers.get("drf")
        if instance.n_servers > 1 or answer is None or answer.value is None or not instance.n_users:
            continue
        if instance.team_weights or instance.derived.has_guarantees or (instance.counts > 1).any():
            continue
        demands, (capacities,) = (
            [[Fraction(repr(x)) for x in row] for row in rows.tolist()]
            for rows in (instance.demands, instance.capacities)
        )
        limits = [None if np.isinf(t) else Fraction(repr(t)) for t in instance.task_limits.tolist()]
        weights = [Fraction(repr(w)) for w in instance.weights.tolist()]
        share = fractions_waterfill.dominant(demands, capacities)
        assert tuple(fractions_waterfill.leximin(demands, capacities, share, weights, limits)) == answer.tasks, case
        checked += 1
    assert checked > 50


def test_check_tells_worse_from_infeasible_and_better_from_wrong() -> None:
    case = LIBRARY[EXAMPLE]
    assert case.check(fo.DRF().allocate(case.instance)) and case.check([[3], [2]], "drf").difference == 0
    worse, broken = case.check([2.9, 2], "drf"), case.check([3, 2.1], "drf")
    assert worse.shortfall == pytest.approx(0.1 / 3) and "below the optimum 2/3" in worse.reason
    assert not broken and "violates a capacity" in broken.reason
    assert not case.check(Infeasible("no"), "drf") and not case.check(OutOfDomain("no"), "drf")
    assert case.check([45 / 11, 18 / 11], "nash").shortfall < 1e-15
    assert not case.check([4, 18 / 11], "nash")
    with pytest.raises(UnknownName, match="has no answer of 'nahs'; did you mean 'nash'"):
        case.check([3, 2], "nahs")
    with pytest.raises(UnknownName, match="give name=, one of drf"):
        case.check(fo.FDS(3).allocate(case.instance))
    assert case.check({"A": 3, "B": 2}, "drf") and not case.check({"A": 3}, "drf")
    for wrong in ([3, 2, 1], "x", None, {"C": 1}):
        with pytest.raises(InvalidInstance):
            case.check(wrong, "drf")


def test_answers_of_another_policy_or_cluster_are_compared_by_their_tasks() -> None:
    case = LIBRARY[EXAMPLE]
    for policy in (fo.NashWelfare(), fo.MostTasks(), fo.DRF()):
        answer = policy.allocate(case.instance)
        for name in ("drf", "nash", "max-min", "most-tasks", "ordered", "2df"):
            given, measured = case.check(answer, name), case.check(answer.tasks_by_server, name)
            assert given.ok == measured.ok and given.shortfall == pytest.approx(measured.shortfall, abs=1e-9)
    less_memory = fo.DRF().allocate(fo.Instance(case.instance.demands, [9, 9]))
    assert "below the optimum 2/3" in case.check(less_memory, "drf").reason


def test_errors_agree_where_the_library_has_no_optimum() -> None:
    case = LIBRARY["hard-one-resource"]
    assert case.answers["2df"].status == "out of domain" and "k is larger" in case.answers["2df"].reason
    assert case.check(OutOfDomain("whatever"), "2df") and not case.check([1, 1, 1], "2df")
    conflict = LIBRARY["kai-cpu-oversubscribed"]
    assert {answer.status for answer in conflict.answers.values()} <= {"infeasible", "out of domain"}
    assert conflict.check(Infeasible("no"), "drf")


def test_conditions_of_a_policy_count_in_check() -> None:
    case = LIBRARY["hard-just-feasible"]
    assert case.check([3, 2], "minima-total") and not case.check([63 / 11 - 9 / 11, 9 / 11], "minima-total")


def test_tags_and_names_that_are_unknown_are_answered_with_near_ones() -> None:
    assert set(LIBRARY.tagged("hard", "ties")) <= set(LIBRARY.tagged("hard"))
    with pytest.raises(UnknownName, match="no case has the tag 'papr'; did you mean 'paper'"):
        LIBRARY.tagged("papr")
    with pytest.raises(UnknownName, match=f"the library has no 'ghodsi-2011-exampel'; did you mean '{EXAMPLE}'"):
        LIBRARY["ghodsi-2011-exampel"]


def test_cases_and_answers_are_mappings_whose_unknown_names_are_key_errors() -> None:
    for mapping in (LIBRARY, LIBRARY[EXAMPLE].answers):
        assert mapping.get("nahs") is None and mapping.get("nahs", 1) == 1 and "nahs" not in mapping
        assert dict(mapping) == dict(mapping.items()) and len(mapping) == len([*mapping])
        with pytest.raises(KeyError, match="has no ") as error:
            mapping["nahs"]
        assert isinstance(error.value, fo.FairoptError)


@pytest.mark.parametrize("name", LIBRARY.families())
def test_families_give_the_same_instance_for_the_same_seed_and_any_size(name: str) -> None:
    one, same, other = (LIBRARY.family(name, n_users=20, seed=seed).instance for seed in (3, 3, 4))
    assert one == same and one != other
    for n in (0, 1, 2):
        case = LIBRARY.family(name, n_users=n)
        assert case.instance.n_users == n == case.size[0] and not case.answers
    assert eval(case.command, {"fo": fo}).instance == case.instance


def test_families_refuse_what_they_do_not_take() -> None:
    assert LIBRARY.family("shared-pool", n_users=100_000).instance.n_users == 100_000
    with pytest.raises(UnknownName, match="no family 'shard-pool'; did you mean 'shared-pool'"):
        LIBRARY.family("shard-pool", n_users=1)
    with pytest.raises(InvalidInstance, match="it takes n_users, seed=0, n_resources=3"):
        LIBRARY.family("ties", users=1)
    for wrong in ({"n_users": -1}, {"n_users": 1.5}, {"n_users": 1, "seed": -1}):
        for name in LIBRARY.families():
            with pytest.raises(InvalidInstance):
                LIBRARY.family(name, **wrong)


def test_the_command_lists_filters_and_shows() -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return result.output

    assert EXAMPLE in run("library") and EXAMPLE not in run("library", "--tag", "deployed")
    shown = run("library", EXAMPLE)
    assert "Ghodsi et al. 2011, the example of DRF" in shown and "45/11, 18/11" in shown
    data = json.loads(run("library", EXAMPLE, "--json"))
    jsonschema.validate(data, fo.report.schema("fairopt.case/1"))
    assert data["answers"]["drf"]["tasks"] == ["3", "2"]
    assert_allclose(
        [*json.loads(run("solve", f"library:{EXAMPLE}", "-p", "drf", "--json"))["tasks"].values()], [3, 2], rtol=1e-9
    )
    names = run("library", "hard-names")
    assert "a<b>&c" in names and 'say "hi"' in names


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["library", "nope"], "the library has no 'nope'"),
        (["library", EXAMPLE, "--tag", "paper"], "give either"),
        (["solve", "library:nope"], "the library has no 'nope'"),
        (["solve", f"library:{EXAMPLE}", "--teams", "x"], "it takes no --teams"),
    ],
)
def test_wrong_words_of_the_command_are_errors(words: list[str], text: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2 and text in " ".join(result.output.split())


def test_pages_escape_names_and_show_answers() -> None:
    page = LIBRARY["hard-names"]._repr_html_()
    assert page is not None and "a&lt;b&gt;&amp;c" in page and "<b>&c" not in page
    listing = LIBRARY.tagged("paper")._repr_html_()
    assert listing is not None and EXAMPLE in listing
    assert LIBRARY.family("ties", n_users=3)._repr_html_()
