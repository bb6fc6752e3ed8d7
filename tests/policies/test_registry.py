"""Policies by short name: what the names mean, what files and packages add, and what is said about wrong ones."""

import inspect
import sys
import textwrap

import pytest

import fairopt as fo
from fairopt.policies import registry
from fairopt.policy import is_mechanism

TWO = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("drf", fo.DRF()),
        ("2df", fo.KDF(2)),
        ("kdf", fo.KDF(2)),
        ("kdf:k=3", fo.KDF(3)),
        ("drfh", fo.Policy(fo.Leximin(), name="DRFH")),
        ("tsf", fo.TSF()),
        ("kdf:k=2,rank_weights=(1,2.5)", fo.KDF(2, (1, 2.5))),
        ("kdf:k=2,short=positive", fo.KDF(2, short="positive")),
        (
            "hdrf:by=(org,team),weights={vision/8 gpu: 2,nlp:1.5}",
            fo.HDRF(("org", "team"), {"vision/8 gpu": 2, "nlp": 1.5}),
        ),
        ("hdrf:by=('org', 'team'),weights={'vision': 2}", fo.HDRF(("org", "team"), {"vision": 2})),
        ("fds:alpha=2", fo.FDS(2)),
        ("fds:alpha=0.5", fo.FDS(0.5)),
        ("fds:beta=2,lam=-0.5", fo.FDS(beta=2, lam=-0.5)),
        ("gfj:alpha=1", fo.GFJ(1)),
        ("gfj:beta=2,lam=-0.5", fo.GFJ(beta=2, lam=-0.5)),
        ("gfj: beta = 2 , lam = -5e-1", fo.GFJ(beta=2, lam=-0.5)),
        ("pnorm:p=1,alpha=0.5", fo.PNormFairness(1, 0.5)),
        ("pnorm:p=inf,alpha=1", fo.PNormFairness(float("inf"), 1)),
        ("nash", fo.NashWelfare()),
        ("most-tasks", fo.MostTasks()),
        (" DRF ", fo.DRF()),
        ("2DF", fo.KDF(2)),
        ("drf:", fo.DRF()),
    ],
)
def test_short_names_mean_the_notions(text, policy):
    named = fo.policies.named_policy(text)
    assert named == policy
    assert named.name == policy.name


def test_every_known_notion_can_be_made_and_says_what_it_is():
    needed = {"fds": ":alpha=1", "gfj": ":alpha=1", "pnorm": ":p=1,alpha=1"}
    known = {name: one for name, one in fo.policies.known_policies().items() if one.point is None}
    others = {
        "mlf-drs",
        "ffmra",
        "h-ffmra",
        "ps-dsf",
        "per-server",
        "bottleneck",
        "sequential-minmax",
        "dynamic-drf",
        "hdrf",
    }
    bargaining = {"nash-bargaining", "kalai-smorodinsky"}
    shares = {"drf", "2df", "kdf", "drfh", "tsf", "fds", "gfj", "pnorm", "nash", "most-tasks"}
    assert set(known) - others - bargaining == shares
    for name, notion in known.items():
        assert notion.name == name
        assert notion.summary
        instance = TWO.replace(teams={"team": ["a", None]}) if name == "hdrf" else TWO
        assert fo.policies.named_policy(name + needed.get(name, "")).allocate(instance).certificate.ok


def test_the_registry_tells_the_parameters_of_each_notion():
    known = fo.policies.known_policies()
    assert known["drf"].parameters == known["nash"].parameters == known["2df"].parameters == ""
    assert known["kdf"].parameters.startswith("k=2, rank_weights")
    assert known["fds"].parameters == "alpha, beta, lam"
    assert known["pnorm"].parameters == "p, alpha, beta, lam"


def test_a_notion_that_is_not_called_says_to_call_it_and_stays_a_function():
    for make, call in ((fo.DRF, r"DRF\(\)"), (fo.FDS, r"FDS\(\.\.\.\)"), (fo.HFFMRA, r"HFFMRA\(\.\.\.\)")):
        with pytest.raises(
            fo.errors.InvalidBlock, match=rf"makes a policy; call it first: {call}\.allocate\(instance\)"
        ):
            make.allocate(TWO)
        assert inspect.isfunction(make)
        assert not is_mechanism(make)
    for ask in (lambda: fo.NaivePerServer(fo.DRF), lambda: fo.compare([fo.DRF], TWO), lambda: fo.audit(fo.DRF)):
        with pytest.raises(fo.errors.InvalidBlock, match="function DRF"):
            ask()
    assert is_mechanism(fo.DRF())
    assert is_mechanism(fo.PSDSF())
    assert not is_mechanism(fo.PSDSF)


# -- wrong names and parameters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drff", r"no policy 'drff'; did you mean 'drf'"),
        ("mosttasks", "'most-tasks'"),
        ("3df", "did you mean .*'kdf'"),
        ("zzz", "known: drf, 2df"),
        ("x" * 300, "no policy 'x{40,60}…x{40,60}'; known: drf"),
        ("", "known: drf"),
        (":", "known: drf"),
        ("kdf:3", "'3' is not a parameter; write kdf:name=value"),
        ("kdf:q=3", "'q'.*it takes k=2, rank_weights"),
        ("drf:k=2", "'k'.*takes no parameters"),
        ("2df:k=3", "'k'.*takes no parameters"),
        ("kdf:k=x", "k is 'x'"),
        ("kdf:k=2.5", r"k is 2\.5"),
        ("kdf:k=0", "k is 0"),
        ("fds", "either alpha, or beta and lam together"),
        ("fds:beta=2", "either alpha, or beta and lam together"),
        ("fds:alpha=-1", "alpha is -1"),
        ("fds:alpha=nan", "alpha is nan"),
        ("fds:alpha=two", "alpha is 'two'"),
        ("pnorm", "'p'.*it takes p, alpha"),
        ("pnorm:p=-1,alpha=1", "p is -1"),
        ("pnorm:p=x,alpha=1", "p is 'x'"),
        ("pnorm:p=1", "either alpha, or beta and lam together"),
        ("nosuch:DRF", "cannot import 'nosuch'"),
        ("nosuch.module:DRF", r"cannot import 'nosuch\.module'"),
        ("fairopt:DRFX", "'fairopt' has no 'DRFX'; did you mean 'DRF'"),
        ("math:pi", "is float, not a policy"),
        ("os:getcwd", r"not called, since it is not declared to make a policy; .* def make\(\) -> fo\.Policy"),
        ("sys:exit", "not called"),
        ("builtins:object", "not called"),
    ],
)
def test_a_wrong_name_is_answered_with_place_and_fix(text, message):
    with pytest.raises(fo.errors.InvalidBlock, match=message):
        fo.policies.named_policy(text)


@pytest.mark.parametrize("text", ["drf", fo.DRF(), fo.Total()], ids=repr)
def test_policies_and_objectives_name_themselves(text):
    assert isinstance(fo.policies.named_policy(text), fo.Policy)


# -- files and modules -----------------------------------------------------------------------------------------------


def write(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return str(folder / name)


@pytest.fixture(autouse=True)
def fresh_modules():
    before, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] != "fairopt":  # its rooms stay attributes of the package
            del sys.modules[name]
    assert sys.path == path


MINE = """
    import fairopt as fo
    MINE = fo.Policy(fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks()), [fo.SharingIncentive()])
    NAMED = fo.Policy(fo.MaxMin(), name="best of the worst")
    OBJECTIVE = fo.MaxMin(fo.Tasks())
    def make() -> fo.Policy: return fo.FDS(2)
    def needs(alpha) -> "fo.Policy": return fo.FDS(alpha)
    def gives_three() -> fo.Policy: return 3
    def unsaid(): raise AssertionError
    def exits() -> fo.Policy: raise SystemExit(0)
    def fails() -> fo.Policy: return 1 / 0
    class Mechanism:
        name = "mine"
        def allocate(self, instance): return "an allocation"
    mechanism = Mechanism()
    NUMBER = 3
"""


def test_a_policy_in_a_file_is_found_and_takes_its_name(tmp_path):
    path = write(tmp_path, "my_notion_file.py", MINE)
    mine = fo.policies.named_policy(f"{path}:MINE")
    assert mine == fo.Policy(fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks()), [fo.SharingIncentive()])
    assert mine.name == "MINE"
    assert fo.policies.named_policy(f"{path}:NAMED").name == "best of the worst"


def test_an_objective_a_factory_and_a_mechanism_in_a_file_are_policies_too(tmp_path):
    path = write(tmp_path, "my_other_file.py", MINE)
    assert fo.policies.named_policy(f"{path}:OBJECTIVE") == fo.Policy(fo.MaxMin(fo.Tasks()))
    assert fo.policies.named_policy(f"{path}:make") == fo.FDS(2)
    assert fo.policies.named_policy(f"{path}:mechanism").allocate(TWO) == "an allocation"


def test_a_class_with_allocate_is_made_before_it_is_used(tmp_path):
    path = write(tmp_path, "my_class_file.py", MINE)
    assert fo.policies.named_policy(f"{path}:Mechanism").allocate(TWO) == "an allocation"


def test_a_partial_function_and_a_class_say_what_they_make(tmp_path):
    text = """
        import functools
        from dataclasses import dataclass
        import fairopt as fo
        THREE = functools.partial(fo.KDF, 3)
        @dataclass(frozen=True, repr=False)
        class Own(fo.Objective):
            def expression(self, model):
                return model.tasks.sum()
        def limit() -> fo.MaxTasks: return fo.MaxTasks(2)
        def no_limit(): return fo.MaxTasks(2)
    """
    path = write(tmp_path, "my_makers.py", text)
    assert fo.policies.named_policy(f"{path}:THREE") == fo.KDF(3)
    assert type(fo.policies.named_policy(f"{path}:Own").objective).__name__ == "Own"
    assert registry.named_constraint(f"{path}:limit") == fo.MaxTasks(2)
    assert registry.named_family("fairopt:KDF") is fo.KDF
    for read, text in (
        (registry.named_constraint, f"{path}:no_limit"),
        (registry.named_constraint, "fairopt:DRF"),
        (registry.named_family, "os:remove"),
    ):
        with pytest.raises(fo.errors.InvalidBlock, match="is not called, since it is not declared to make a"):
            read(text)


def test_a_notion_without_docstring_as_under_pythonoptimize_has_its_name_as_summary():
    assert registry.Notion("bare", lambda k=2: fo.KDF(k)).summary == "bare"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MINEE", "has no 'MINEE'; did you mean 'MINE'"),
        ("NUMBER", "int, not a policy"),
        ("gives_three", "int, not a policy"),
        ("needs", "alpha"),
        ("unsaid", r"my_wrong_file\.py:unsaid' is not called"),
        ("exits", r"my_wrong_file\.py:exits' fails when called: it exits \(code 0\), and a policy must not"),
        ("fails", r"my_wrong_file\.py:fails' fails when called: ZeroDivisionError: division by zero"),
    ],
)
def test_a_wrong_name_in_a_file_is_answered_with_the_nearest(tmp_path, name, message):
    path = write(tmp_path, "my_wrong_file.py", MINE)
    with pytest.raises(fo.errors.InvalidBlock, match=message):
        fo.policies.named_policy(f"{path}:{name}")


def test_a_share_is_not_a_policy_and_is_told_to_be_put_in_one(tmp_path):
    text = """
        from dataclasses import dataclass
        import fairopt as fo
        @dataclass(frozen=True, repr=False)
        class GeoShare(fo.Share):
            def per_task(self, instance):
                return instance.ratios.mean(axis=-1)
        GEO = GeoShare()
        SHIPPED = fo.DominantShare()
    """
    path = write(tmp_path, "my_share_file.py", text)
    for name, kind in (("GeoShare", "GeoShare"), ("GEO", "GeoShare"), ("SHIPPED", "DominantShare")):
        with pytest.raises(fo.errors.InvalidBlock, match="a share is not a policy; put it in one") as error:
            fo.policies.named_policy(f"{path}:{name}")
        assert str(error.value).endswith(f"Policy(AlphaFair(2, {kind}()))")


@pytest.mark.parametrize("name", ["no_such_file.py", "folder/no_such_file.py"])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(fo.errors.InvalidBlock, match=r"no_such_file\.py"):
        fo.policies.named_policy(f"{tmp_path / name}:MINE")


def test_a_file_imports_what_is_beside_it_and_leaves_the_path_alone(tmp_path, monkeypatch):
    (tmp_path / "beside_it.py").write_text("ALPHA = 2\n")
    (tmp_path / "mine.py").write_text("import fairopt as fo\nfrom beside_it import ALPHA\nX = fo.AlphaFair(ALPHA)\n")
    before = list(sys.path)
    assert fo.policies.named_policy(f"{tmp_path / 'mine.py'}:X").objective == fo.AlphaFair(2)
    assert sys.path == before
    (tmp_path / "lacks.py").write_text("import not_beside_it\n")
    with pytest.raises(
        fo.errors.InvalidBlock, match=r"lacks\.py' fails when imported: .*No module named 'not_beside_it'"
    ):
        fo.policies.named_policy(f"{tmp_path / 'lacks.py'}:X")
    del sys.modules["beside_it"]


def test_a_file_without_a_name_is_answered_with_those_that_it_has(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import fairopt as fo\nfrom fairopt import DRF\nA = fo.GFJ(2)\ndef b(k=1):\n    return fo.KDF(k)\n")
    for text in (str(path), f"{path}:"):
        with pytest.raises(fo.errors.InvalidBlock, match=r"is a file; give .*mine\.py:NAME, one of A, b$"):
            fo.policies.named_policy(text)
    path.write_text("")
    with pytest.raises(fo.errors.InvalidBlock, match=r"has none yet"):
        fo.policies.named_policy(str(path))
    with pytest.raises(fo.errors.InvalidBlock, match=r"no file '.*nowhere\.py'"):
        fo.policies.named_policy(str(tmp_path / "nowhere.py"))


def test_two_files_of_the_same_name_are_two_files(tmp_path):
    first = write(tmp_path / "a", "twins.py", "import fairopt as fo\nMINE = fo.DRF()")
    second = write(tmp_path / "b", "twins.py", "import fairopt as fo\nMINE = fo.FDS(2)")
    assert fo.policies.named_policy(f"{first}:MINE") == fo.DRF()
    assert fo.policies.named_policy(f"{second}:MINE") == fo.FDS(2)


def test_a_file_named_like_a_loaded_module_is_the_file(tmp_path):
    path = write(tmp_path, "json.py", "import fairopt as fo\nMINE = fo.FDS(2)")
    assert fo.policies.named_policy(f"{path}:MINE") == fo.FDS(2)


@pytest.mark.parametrize(
    "text",
    ["MINE = (", "1 / 0", "import no_such_module_at_all", "raise RuntimeError('no')", "raise SystemExit(0)"],
    ids=["syntax", "error", "import", "raise", "exit"],
)
def test_a_file_that_fails_is_an_error_of_ours_that_names_it(tmp_path, text):
    path = write(tmp_path, "failing.py", text)
    with pytest.raises(fo.errors.InvalidBlock, match=r"failing\.py"):
        fo.policies.named_policy(f"{path}:MINE")


def test_a_module_beside_the_caller_is_found(tmp_path, monkeypatch):
    write(tmp_path, "notion_beside_me.py", MINE)
    monkeypatch.chdir(tmp_path)
    assert fo.policies.named_policy("notion_beside_me:make") == fo.FDS(2)


def test_a_module_that_is_installed_is_found():
    assert fo.policies.named_policy("fairopt:DRF") == fo.DRF()
    assert fo.policies.named_policy("fairopt.policies.dominant:TSF") == fo.TSF()


# -- entry points ----------------------------------------------------------------------------------------------------


class Point:
    def __init__(self, name, found):
        self.name, self.value, self.found = name, f"a_package:{name}", found

    def load(self):
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


def documented(k=3):
    """A family."""
    return fo.KDF(k)


@pytest.fixture
def points(monkeypatch):
    found = [
        Point("mine", fo.Policy(fo.MaxMin())),
        Point("family", lambda alpha=1: fo.FDS(alpha)),
        Point("documented", documented),
        Point("objective", fo.MaxMin()),
        Point("number", 3),
        Point("broken", ImportError("no module named that")),
        Point("drf", fo.MostTasks()),
        Point("Upper", fo.FDS(2)),
        Point("raising", ZeroDivisionError("at import")),
        Point("exiting", SystemExit(0)),
    ]
    asked = []
    monkeypatch.setattr(registry, "points", lambda group: asked.append(group) or {one.name: one for one in found})
    return asked


def test_packages_add_policies_in_the_group_fairopt_policies(points):
    known = fo.policies.known_policies()
    assert points == ["fairopt.policies"]
    assert known["mine"].summary == "from a_package:mine"
    assert fo.policies.named_policy("mine") == fo.Policy(fo.MaxMin())
    assert fo.policies.named_policy("mine").name == "mine"
    assert fo.policies.named_policy("objective") == fo.Policy(fo.MaxMin())


def test_a_package_may_add_a_family_with_parameters(points):
    assert fo.policies.named_policy("family") == fo.FDS(1)
    assert fo.policies.named_policy("family:alpha=2") == fo.FDS(2)
    with pytest.raises(fo.errors.InvalidBlock, match="beta"):
        fo.policies.named_policy("family:beta=2")


def test_an_entry_says_what_it_is_and_takes_by_its_docstring_and_signature(points):
    known = fo.policies.known_policies()
    assert (known["family"].parameters, known["family"].summary) == ("alpha=1", "from a_package:family")
    assert (known["documented"].parameters, known["documented"].summary) == ("k=3", "A family.")
    assert (known["broken"].parameters, known["broken"].summary) == ("", "from a_package:broken")


@pytest.mark.parametrize("name", ["kueue", "slurm"])
def test_a_policy_that_another_distribution_would_bring_is_named_with_it(name, monkeypatch):
    monkeypatch.setattr(registry, "points", lambda group: {})
    with pytest.raises(
        fo.errors.MissingExtra, match=rf"policy '{name}' needs fairopt-clusters, .*: pip install \. \./clusters"
    ):
        fo.policies.named_policy(name)


def test_a_package_does_not_replace_a_name_of_fairopt(points):
    assert fo.policies.named_policy("drf") == fo.DRF()


def test_a_name_that_a_package_gives_in_capitals_is_found(points):
    assert fo.policies.named_policy("Upper") == fo.FDS(2)


def test_parameters_of_an_entry_that_takes_none_are_refused_not_ignored(points):
    with pytest.raises(fo.errors.InvalidBlock, match="mine"):
        fo.policies.named_policy("mine:alpha=2")


@pytest.mark.parametrize("name", ["number", "broken", "raising", "exiting"])
def test_an_entry_that_cannot_be_used_is_an_error_of_ours_that_names_it(points, name):
    with pytest.raises(fo.errors.InvalidBlock, match=name):
        fo.policies.named_policy(name)


def test_a_broken_entry_does_not_stand_in_the_way_of_others(points):
    assert "broken" in fo.policies.known_policies()
    assert fo.policies.named_policy("mine") == fo.Policy(fo.MaxMin())


@pytest.mark.parametrize(
    ("text", "words"), [("fds:alpha=", "alpha has no value"), ("2df:k=3", "it takes no parameters"), ("drf:", "")]
)
def test_parameters_are_named_and_have_values(text, words):
    if not words:
        assert fo.policies.named_policy(text) == fo.DRF()
        return
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        fo.policies.named_policy(text)
