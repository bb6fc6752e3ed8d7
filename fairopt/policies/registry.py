"""Policies by short name (``drf``, ``kdf:k=3``, ``gfj:beta=2,lam=-0.5``), ``package.module:NAME``, or blocks."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

from fairopt.blocks.base import Block
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError, InvalidBlock, nearest, own_lines
from fairopt.policies.amounts import Amounts
from fairopt.policies.bargaining import KalaiSmorodinsky, NashBargaining
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.bundles import FFMRA, HFFMRA, MLFDRS
from fairopt.policies.dominant import DRF, KDF, TSF
from fairopt.policies.dynamic import DynamicDRF
from fairopt.policies.hierarchical import HDRF
from fairopt.policies.parse import BLOCKS, parse_block, parse_policy
from fairopt.policies.per_server import NaivePerServer
from fairopt.policies.psdsf import PSDSF
from fairopt.policies.sequential import SequentialMinMax
from fairopt.policies.tradeoff import FDS, GFJ, MostTasks, NashWelfare, PNormFairness
from fairopt.policy import Policy, is_mechanism
from fairopt.runtime.display import LONG, shorter
from fairopt.runtime.extensions import OF_CLUSTERS, POLICIES, missing, points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

B = TypeVar("B", bound=Block)


@dataclass(frozen=True)
class Notion:
    """An entry of the registry; one of an installed package is loaded when it is made or described."""

    name: str
    make: Callable[..., Any]
    point: EntryPoint | None = None

    @cached_property
    def parameters(self) -> str:
        """The parameters of ``make``, with their defaults."""
        made = self._documented
        if made is None:
            return ""
        return ", ".join(
            p.name if p.default in (inspect.Parameter.empty, None) else f"{p.name}={p.default}"
            for p in inspect.signature(made).parameters.values()
        )

    @cached_property
    def summary(self) -> str:
        """The first line of its docstring, else where it is from."""
        text = inspect.getdoc(self._documented) if self._documented is not None else None
        return text.splitlines()[0] if text else self.name if self.point is None else f"from {self.point.value}"

    @cached_property
    def _documented(self) -> Callable[..., Any] | None:
        """The class or function that makes it; None of a policy that is made, and of what cannot be loaded."""
        if self.point is None:
            return self.make
        try:
            loaded = self.point.load()
        except (Exception, SystemExit):  # `make` says what breaks
            return None
        return loaded if isinstance(loaded, (type, FunctionType)) else None


def known_policies() -> dict[str, Notion]:
    """All policies with a short name: fairopt's, and the entry points ``fairopt.policies`` of installed packages.

    Returns
    -------
    dict of str to Notion
        Each with ``name``, ``parameters``, ``summary`` and ``make(**parameters)``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.policies.known_policies()["kdf"].make(k=3)
    Policy(Leximin(KDominantShare(3)), name='3-DF')
    """
    own = _own()
    others = {name: Notion(name, _loader(point), point) for name, point in points(POLICIES).items()}
    return own | {name: notion for name, notion in others.items() if name not in own}


def _own() -> dict[str, Notion]:
    """The policies of fairopt by short name."""
    own: dict[str, Callable[..., Any]] = {
        "drf": DRF,
        "2df": _two_df,
        "kdf": KDF,
        "drfh": _drfh,
        "tsf": TSF,
        "fds": FDS,
        "gfj": GFJ,
        "pnorm": PNormFairness,
        "nash": NashWelfare,
        "nash-bargaining": NashBargaining,
        "kalai-smorodinsky": KalaiSmorodinsky,
        "most-tasks": MostTasks,
        "mlf-drs": MLFDRS,
        "ffmra": FFMRA,
        "h-ffmra": HFFMRA,
        "ps-dsf": PSDSF,
        "hdrf": HDRF,
        "per-server": _per_server,
        "bottleneck": BottleneckFairness,
        "sequential-minmax": SequentialMinMax,
        "dynamic-drf": DynamicDRF,
    }
    return {name: Notion(name, make) for name, make in own.items()}


def named_policy(text: str) -> Any:
    """A policy from a short name with parameters, a ``module:NAME``, or blocks as text.

    Parameters
    ----------
    text : str
        ``drf``; ``kdf:k=3``; ``fds:alpha=2``; ``my_package.notions:MINE``; ``path/to/file.py:MINE``; or blocks such
        as ``AlphaFair(2, KDominantShare(2)) + 0.1 * Total(Tasks())``.

    Returns
    -------
    Policy or other mechanism
        Anything with ``.allocate(instance)``.

    Raises
    ------
    InvalidBlock
        If the name is unknown, or its parameters do not fit.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.policies.named_policy("kdf:k=3")
    Policy(Leximin(KDominantShare(3)), name='3-DF')
    """
    text = str(text).strip()
    name, _, rest = text.partition(":")
    key, known = _looked_up(name.strip())
    if key in known:
        return _made(known[key], rest, text)
    if "(" in text:
        return parse_policy(text)
    if _is_place(name, rest):
        return _as_policy(_imported(name, rest.strip(), text, known), text, {})
    if key in OF_CLUSTERS[POLICIES]:
        raise missing(f"policy {key!r}")
    raise InvalidBlock(f"no policy {shorter(text, LONG)!r}; {nearest(key, known)} (see `fairopt policies`)")


def named_family(text: str) -> Callable[..., Any]:
    """A function from parameters to mechanisms, from ``fds``, ``pnorm:p=2`` (one is given) or ``file.py:NAME``."""
    text = str(text).strip()
    name, _, rest = text.partition(":")
    key, known = _looked_up(name.strip())
    if key in known:
        return functools.partial(known[key].make, **_parameters(known[key], rest, text))
    if _is_place(name, rest):
        imported = _imported(name, rest.strip(), text, known)
        if callable(imported):
            _refuse_unless_made(imported, text, Policy)
            return imported
        raise InvalidBlock(f"{text!r} is {type(imported).__name__}; give a function from parameters to a policy")
    raise InvalidBlock(f"no family {shorter(text, LONG)!r}; {nearest(key, known)} (see `fairopt policies`)")


def _looked_up(name: str) -> tuple[str, dict[str, Notion]]:
    """The key of a short name, and the known policies."""
    known = _own()
    if name not in known:
        known = known_policies()  # searching installed packages takes 4 ms
    return name if name in known else name.lower(), known


def named_constraint(text: str) -> Constraint | Amounts:
    """A constraint from text: a block, perhaps with amounts such as ``16gpu``, ``module:NAME`` or ``file.py:NAME``."""
    return _named_block(text, Constraint, "a constraint", "MaxShare(0.3)")


def named_share(text: str) -> Share:
    """A share from text, as `named_constraint` reads a constraint."""
    return _named_block(text, Share, "a share", "ThroughputShare()")


def _named_block(text: str, kind: type[B], what: str, such: str) -> Any:
    """A block of a kind from its text, or from a module."""
    name, _, rest = text.strip().partition(":")
    if "(" in text or not _is_place(name, rest):
        return parse_block(text, (kind, Amounts) if kind is Constraint else kind, what, such)
    imported = _imported(name, rest.strip(), text, BLOCKS)
    if callable(imported):
        _refuse_unless_made(imported, text, kind)
        imported = _called(imported, text, {}, what)
    if not isinstance(imported, kind):
        raise InvalidBlock(f"{text!r} is {type(imported).__name__}, not {what}; give one such as {such}")
    return imported


def _drfh() -> Policy:
    """DRF on several servers: leximin of global dominant shares (Wang, Liang and Li 2015)."""
    return Policy(DRF().objective, name="DRFH")


def _two_df() -> Policy:
    """2-Dominant Fairness: leximin of the product of each user's two largest ratios (Jiang and Wu 2021, sec. 4)."""
    return KDF(2)


def _per_server(policy: str = "drf") -> NaivePerServer:
    """A policy on each server by itself, the baseline of Hamzeh et al. (2021)."""
    return NaivePerServer(named_policy(policy))


def _loader(point: EntryPoint) -> Callable[..., Any]:
    def make(**parameters: Any) -> Any:
        try:
            loaded = point.load()
        except (Exception, SystemExit) as error:
            raise InvalidBlock(
                f"policy {point.name!r} cannot be loaded from {point.value}: {_message_of(error)}"
            ) from error
        return _as_policy(loaded, point.name, parameters, registered=True)

    return make


def _made(notion: Notion, rest: str, text: str) -> Any:
    try:
        return notion.make(**_parameters(notion, rest, text))
    except TypeError as error:
        takes = f"it takes {notion.parameters}" if notion.parameters else "it takes no parameters"
        raise InvalidBlock(f"{text!r}: {error}; {takes}") from error


def _parameters(notion: Notion, rest: str, text: str) -> dict[str, Any]:
    """The parameters of ``name=value,name=value``."""
    parameters: dict[str, Any] = {}
    for word in filter(None, (w.strip() for w in _split(rest))):
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidBlock(f"{text!r}: {word!r} is not a parameter; write {notion.name}:name=value,name=value")
        if not value.strip():
            raise InvalidBlock(f"{text!r}: {key.strip()} has no value; write {notion.name}:{key.strip()}=2, say")
        parameters[key.strip()] = parsed_value(value.strip())
    return parameters


def _split(rest: str) -> list[str]:
    """Split at commas outside brackets, so that ``rank_weights=(1,2)`` stays whole."""
    parts, depth = [""], 0
    for letter in rest:
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def parsed_value(value: str) -> Any:
    """A number, a tuple in brackets, a dict such as ``{vision: 2}``, or else the text itself, without quotes."""
    parts = [part.strip() for part in value[1:-1].split(",") if part.strip()]
    if value[:1] in "([" and value[-1:] in ")]":
        return tuple(map(parsed_value, parts))
    if value[:1] == "{" and value[-1:] == "}" and all(":" in part for part in parts):
        pairs = (part.rpartition(":") for part in parts)
        return {parsed_value(name.strip()): parsed_value(number.strip()) for name, _, number in pairs}
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _is_place(name: str, rest: str) -> bool:
    """Whether text names a file, or a module and an object."""
    return name.endswith(".py") or (bool(rest) and all(part.isidentifier() for part in name.split(".")))


def _imported(module: str, name: str, text: str, known: Iterable[str]) -> Any:
    """The object of a name in a module or file."""
    try:
        loaded = _from_file(Path(module)) if module.endswith(".py") else _from_folder(module)
    except FileNotFoundError as error:
        raise InvalidBlock(f"{text!r}: no file {module!r}; give the path of a Python file") from error
    except (Exception, SystemExit) as error:  # raised by the user's own file
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise InvalidBlock(f"{text!r}: cannot import {module!r} ({error}); {nearest(module, known)}") from error
        raise InvalidBlock(f"{text!r}: {module!r} fails when imported: {_message_of(error)}") from error
    if not hasattr(loaded, name):
        there = {
            k: v
            for k, v in vars(loaded).items()
            if not k.startswith("_") and (is_mechanism(v) or callable(v) or isinstance(v, Block))
        }
        lazy = [k for k in dir(loaded) if k not in vars(loaded)]  # public names not imported yet
        if not name:
            made = [k for k, v in there.items() if getattr(v, "__module__", "") == loaded.__name__ or not callable(v)]
            these = f"one of {', '.join(made)}" if made else f"and {module!r} has none yet"
            raise InvalidBlock(f"{text!r} is a file; give {module}:NAME, {these}")
        raise InvalidBlock(f"{text!r}: {module!r} has no {name!r}; {nearest(name, [*there, *lazy])}")
    return getattr(loaded, name)


def _from_file(path: Path) -> Any:
    """A module from a file, which can import from its folder."""
    if not path.is_file():
        raise FileNotFoundError(path)
    spec = importlib.util.spec_from_file_location(f"_policy_file_{abs(hash(path.resolve()))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    with _on_path(path.parent):
        spec.loader.exec_module(module)
    return module


def _from_folder(module: str) -> Any:
    """A module by name, also from the current folder."""
    with _on_path(Path.cwd()):
        return importlib.import_module(module)


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    """Import from a folder first."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


def _as_policy(found: Any, text: str, parameters: dict[str, Any], registered: bool = False) -> Any:
    """A policy from a policy, an objective, or a class or function that makes one."""
    kind = found if isinstance(found, type) else type(found)
    for word, part, whole in (
        ("share", Share, "Policy(AlphaFair(2, {}()))"),
        ("constraint", Constraint, "Policy(Leximin(), [{}()])"),
    ):
        if issubclass(kind, part):
            fix = whole.format(kind.__name__)
            raise InvalidBlock(f"{text!r}: a {word} is not a policy; put it in one: {fix}")
    if callable(found) and not is_mechanism(found):
        if not registered:
            _refuse_unless_made(found, text, Policy)
        found = _called(found, text, parameters, "a policy, or other parameters")
    elif parameters:
        raise InvalidBlock(f"{text!r} takes no parameters; leave out {', '.join(parameters)}")
    if is_mechanism(found):
        if isinstance(found, Policy) and found.name is None:
            return Policy(found.objective, found.constraints, name=text.rpartition(":")[2])
        return found
    if type(found).__name__ in BLOCKS or hasattr(found, "expression"):
        return Policy(found, name=text.rpartition(":")[2])
    raise InvalidBlock(f"{text!r} is {type(found).__name__}, not a policy; give something with .allocate(instance)")


def _refuse_unless_made(found: Any, text: str, wanted: type[Policy] | type[Block]) -> None:
    """Refuse to call an object unless it is a class of what is wanted, or a function annotated to return it.

    Text may name any function of any module.
    """
    while isinstance(found, functools.partial):
        found = found.func
    made = found
    if not isinstance(found, type):
        try:
            made = get_type_hints(found).get("return")
        except Exception:  # not a function, or an annotation that cannot be evaluated
            made = None
    kind = get_origin(made) or made  # Objective[int] is an Objective
    if isinstance(kind, type) and issubclass(kind, Block if wanted is Policy else wanted):
        return
    if wanted is Policy and isinstance(kind, type) and callable(getattr(kind, "allocate", None)):
        return
    what = wanted.__name__.lower()
    raise InvalidBlock(
        f"{text!r} is not called, since it is not declared to make a {what}; give a {what}, a class of them, or a "
        f"function that is annotated to return one, as def make() -> fo.{wanted.__name__}"
    )


def _called(make: Callable[..., Any], text: str, parameters: dict[str, Any], fix: str) -> Any:
    """The result of a user's function or class."""
    try:
        return make(**parameters)
    except FairoptError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, TypeError) and not own_lines(error):  # raised by the call itself
            raise InvalidBlock(f"{text!r} cannot be called ({error}); give {fix}") from error
        raise InvalidBlock(f"{text!r} fails when called: {_message_of(error)}") from error


def _message_of(error: BaseException) -> str:
    """The message about an exception of user code."""
    if isinstance(error, SystemExit):
        return f"it exits (code {error.code!r}), and a policy must not"
    lines = own_lines(error)
    return f"{type(error).__name__}: {error}" + (f" ({lines[-1]})" if lines else "")
