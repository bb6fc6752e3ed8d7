"""The base class of blocks: a frozen dataclass of parameters whose repr can be pasted back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from functools import wraps
from typing import Any, ClassVar, NoReturn, Self, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import FairoptError, InvalidBlock, NotConcave
from fairopt.instance.labels import by_label
from fairopt.runtime.display import LONG, sentence, shorter

PART = 40  # longer parameters are shortened in names and messages, in characters
Result = TypeVar("Result")
OPEN = ("Block", "Share", "Objective", "Constraint", "BundleBase")  # bases for users' blocks


class Block:
    """A frozen dataclass that holds parameters, never state or data.

    Arrays are kept as tuples and dicts as tuples of pairs, so that blocks compare and hash.
    """

    # otherwise NumPy evaluates `np.float64(2) * block` element by element
    __array_ufunc__ = None

    instead: ClassVar[str] = "blocks are not numbers"  # shown for operators that are not defined
    user_defined: ClassVar[bool] = False  # True for fairopt's blocks that run a user's function

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse subclasses of fairopt's blocks: methods that recognise the block would ignore the change."""
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            if not _ships(cls) and _ships(base) and issubclass(base, Block) and base.__name__ not in OPEN:
                kind = next(b.__name__ for b in base.__mro__ if b.__name__ in OPEN)
                raise InvalidBlock(
                    f"{cls.__name__} is a subclass of fairopt's {base.__name__}, and fast methods for that block would "
                    f"ignore what it changes; subclass fairopt.{kind}, and use {base.__name__}(...) inside it"
                )

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Refuse classes whose instances with different parameters could compare equal."""
        if cls not in _FAULTS:
            _FAULTS[cls] = "" if _ships(cls) else _not_frozen(cls)
        if fault := _FAULTS[cls]:
            raise InvalidBlock(fault)
        return super().__new__(cls)

    def __repr__(self) -> str:
        """Code that makes this block again, without parameters at their defaults."""
        return self._written(_literal)

    def __str__(self) -> str:
        """The block in names and messages: its repr on one line, with long parameters shortened."""
        text = "" if _is_long(self) else repr(self)
        if text and len(text) <= LONG and text.isprintable():
            return text
        return self._written(brief) if type(self).__repr__ is Block.__repr__ else shorter(sentence(text), LONG)

    def _called(self, method: str) -> str:
        """A method of the block, in messages."""
        return f"{type(self).__name__}.{method}"

    def _written(self, literal: Callable[[Any], str]) -> str:
        words: list[str] = []
        held: tuple[Any, ...] = fields(self) if is_dataclass(self) else ()
        for k, field in enumerate(held):
            value = getattr(self, field.name)
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            if type(value) is type(default) and value == default:
                continue
            plain = k == len(words) and not field.kw_only
            words.append(literal(value) if plain else f"{field.name}={literal(value)}")
        return f"{type(self).__name__}({', '.join(words)})"


_FAULTS: dict[type, str] = {}  # results of `_not_frozen` by class


def _not_frozen(kind: type) -> str:
    """Why the fields of a class do not distinguish its blocks, with the fix; empty if they do."""
    name, order = kind.__name__, kind.__mro__
    made_by = next((k for k in order if "__dataclass_params__" in vars(k)), None)
    below = [k for k in order[: order.index(made_by) if made_by else -1] if not _ships(k)]
    parameters = [*inspect.signature(next(vars(k)["__init__"] for k in order if "__init__" in vars(k))).parameters][1:]
    init_only = parameters if any("__init__" in vars(k) for k in below) else []
    annotated = [a for k in below for a in inspect.get_annotations(k).values() if "ClassVar" not in str(a)]
    if made_by is None or init_only or annotated:
        as_fields = (
            f", with its parameters as fields ({', '.join(f'`{p}: float`' for p in init_only)}) instead of __init__"
        )
        return (
            f"{name} is not a frozen dataclass, so blocks with different parameters would be equal; add the lines "
            "`from dataclasses import dataclass` and, above the class, `@dataclass(frozen=True, repr=False)`"
            + (as_fields if init_only else "")
        )
    settings = vars(made_by)["__dataclass_params__"]
    by_fields = "and blocks are distinguished by their fields"
    if not (settings.frozen and settings.eq):
        lacks = "is not frozen" if settings.eq else "does not compare its fields"
        return f"{name} is a dataclass that {lacks}, {by_fields}; write `@dataclass(frozen=True, repr=False)` above it"
    held = {field.name: field for field in fields(kind)}
    for field in held.values():
        if not field.compare or field.hash is False:
            return (
                f"{name} leaves its field {field.name!r} out of comparisons, {by_fields}; "
                f"remove compare=False and hash=False from {field.name!r}"
            )
    for parameter in parameters:
        if parameter not in held:
            return (
                f"{name}.__init__ takes {parameter!r}, which is not a field, {by_fields}; "
                f"make it one, as `{parameter}: float`, and leave out __init__"
            )
    return ""


def require_hashable(block: Block) -> None:
    """`InvalidBlock` for a user's block that holds a list, dict or array, which cannot be hashed."""
    held: tuple[Any, ...] = fields(block) if is_dataclass(block) else ()
    for name in [] if is_ours(block) else [field.name for field in held]:
        value = getattr(block, name)
        try:
            hash(value)
        except TypeError as error:
            raise InvalidBlock(
                f"{type(block).__name__} holds {brief(value)} in its field {name!r}, which cannot be hashed; "
                "give a tuple, or a tuple of pairs instead of a dict"
            ) from error


def refuse_operator(block: Block, sign: str, other: object = None, reflected: bool = False) -> NoReturn:
    """Raise `InvalidBlock` for an operator that is not defined, with what to write instead."""
    sides = (brief(other), brief(block))
    written = f" {sign} ".join(sides if reflected else sides[::-1])
    raise InvalidBlock(f"{written} is not defined: {block.instead}")


def _refusing(sign: str, reflected: bool = False) -> Callable[[Block, object], NoReturn]:
    def operator(self: Block, other: object) -> NoReturn:
        refuse_operator(self, sign, other, reflected)

    return operator


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**", "matmul": "@"}.items():
    setattr(Block, f"__{_name}__", _refusing(_sign))
    setattr(Block, f"__r{_name}__", _refusing(_sign, reflected=True))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Block, f"__{_name}__", _refusing(_sign))
del _name, _sign


def _ships(kind: type) -> bool:
    """Whether fairopt defines a class."""
    return kind.__module__.startswith("fairopt.")


def is_ours(block: object) -> bool:
    """Whether fairopt defines a block, which then treats users and servers symmetrically."""
    return _ships(type(block)) and not getattr(block, "user_defined", False)


def once(method: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """A method of a block without arguments, called once for each block: its parameters do not change."""
    name = f"_{method.__name__}"

    @wraps(method)
    def of(self: Any) -> Result:
        held: dict[str, Any] = self.__dict__
        if name not in held:
            held[name] = method(self)
        found: Result = held[name]
        return found

    return of


def blocks_within(value: Any) -> Iterator[Block]:
    """A block and all blocks inside its parameters, at any depth."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, Block):
            yield part
            left += [getattr(part, name) for name in getattr(part, "__dataclass_fields__", ())]
        elif isinstance(part, (tuple, list)):
            left += [one for one in part if isinstance(one, (Block, tuple, list))]  # parameters may be long


def call_block(block: Block, method: str, view: Any) -> Any:
    """The result of a method of a block; `InvalidBlock` with the fix if it is None or CVXPY refuses it."""
    own = getattr(view, "own", None)  # the variables that blocks add to it
    try:
        if own is None or is_ours(block):
            result = getattr(block, method)(view)
        else:
            before = len(view.required)
            with own.of(block):
                result = getattr(block, method)(view)
                own.adopt(_variables_of(result, view, before))
    except FairoptError:
        raise
    except Exception as error:
        if fault := _fault(error, view):
            raise InvalidBlock(f"{block._called(method)} {fault}") from error
        name = block._called(method)
        error.add_note(f"in {name}" if block.user_defined else f"in {name} of {block}")
        raise
    if result is None:
        raise InvalidBlock(f"{block._called(method)} returned None; is a `return` missing?")
    return result


def refuse_unknown_numbers(block: Block, part: Any, what: str) -> None:
    """`InvalidBlock` for NaN, infinite numbers and parameters without a value in expressions of a user's block."""
    if is_ours(block):
        return
    for one in part.parameters():
        if one.value is None:
            raise InvalidBlock(f"{block}: {what} has the parameter {one}, which has no value; use a number")
    for constant in part.constants():
        numbers = constant.value.data if hasattr(constant.value, "tocsr") else constant.value
        wrong = np.ravel(numbers)[~np.isfinite(np.ravel(numbers))]
        if len(wrong):
            raise InvalidBlock(f"{block}: {what} holds {wrong[0]}; give finite numbers, and leave out unbounded rows")


def refuse_whole_numbers(block: Block, part: Any, unknowns: Any) -> None:
    """`NotConcave` for integer variables of a block."""
    for variable in set(part.variables()) - set(unknowns.variables()):
        if variable.attributes["boolean"] or variable.attributes["integer"]:
            raise NotConcave(
                f"{block} has an integer variable ({variable}), and only convex programs are solved; "
                "write the condition without it, and for whole tasks give allocate(..., integral=True)"
            )


def _variables_of(found: Any, view: Any, before: int) -> list[Any]:
    """The CVXPY variables that a block wrote into its result, or into what it required after ``before``."""
    parts = [*(found.values() if isinstance(found, dict) else [found]), *view.required[before:]]
    unknowns = {v.id for name in ("unknowns", "held") for v in _variables(getattr(view, name, None))}
    variables = dict.fromkeys(v for part in parts for v in _variables(part))
    return [v for v in variables if v.id not in unknowns]


def _variables(part: Any) -> list[Any]:
    """The variables of a CVXPY expression or constraint; none of other objects."""
    return part.variables() if callable(getattr(part, "variables", None)) else []


_OF_CVXPY = "use CVXPY's functions, such as cp.log, cp.sum or cp.maximum"
# Common mistakes with CVXPY expressions, by a part of the error message.
_MISTAKES = {
    "Strict inequalities": "compares by `<` or `>`, as `max` and `min` do; write `<=`, `>=`, cp.maximum or cp.minimum",
    "truth value of a constraint": "uses a constraint as true or false, as `if`, `and` and chains such as "
    "`0 <= x <= 1` do, before any tasks are known; give each constraint by itself",
    "calling a NumPy function": f"applies a NumPy function to an expression; {_OF_CVXPY}",
    "unexpected keyword argument 'out'": f"applies a NumPy function to an expression; {_OF_CVXPY}",
    "must be real number, not": f"applies a Python function to an expression; {_OF_CVXPY}",
}


def _fault(error: Exception, view: Any) -> str:
    """What is wrong in a method of a block that CVXPY or NumPy refuses, with the fix; empty for other errors."""
    if isinstance(error, (IndexError, ValueError)) and _of_label(error):
        named = "pairs.instance" if hasattr(type(view), "totals") else "model.instance"
        where, instance = (named, view.instance) if hasattr(view, "instance") else ("instance", view)
        return (
            f"uses a label as an index ({error}); use its position, as x[{where}.user_index("
            f"{instance.users[0]!r})]. Users: {_first(instance.users)}; resources, by resource_index: "
            f"{_first(instance.resources)}"
        )
    if hasattr(view, "instance"):  # a model
        known = next((fault for words, fault in _MISTAKES.items() if words in str(error)), "")
        return known or (f"cannot be written ({error})" if _raised_by(error) in ("cvxpy", "numpy") else "")
    return ""


def _first(labels: Sequence[str]) -> str:
    """The first labels, for messages."""
    return ", ".join(map(repr, labels[:4])) + (", ..." if len(labels) > 4 else "")


def _raised_by(error: Exception) -> str:
    """The package whose code raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__")).split(".")[0]


def _of_label(error: Exception) -> bool:
    """Whether a label was used as an index."""
    by_cvxpy = _raised_by(error) == "cvxpy" and "invalid literal for int" in str(error)
    return "only integers, slices" in str(error) or by_cvxpy


class Ratio(float):
    """The float of a Fraction that was given as a parameter, which exact answers use."""

    fraction: Fraction

    def __new__(cls, fraction: Fraction) -> Ratio:
        made = super().__new__(cls, fraction)
        made.fraction = fraction
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fraction,)

    def __repr__(self) -> str:
        return f"Fraction({self.fraction.numerator}, {self.fraction.denominator})"


def as_float(value: Any) -> float:
    """A number as a float, a `Ratio` if it is a Fraction that floats round or that is no decimal."""
    if isinstance(value, Ratio):
        return value
    return Ratio(value) if isinstance(value, Fraction) and value.denominator > 1 else float(value)


def _literal(value: Any) -> str:
    """Code for a value, with 2 for 2.0."""
    if isinstance(value, Ratio):
        return repr(value)
    if isinstance(value, float):
        if np.isinf(value):
            return f"float('{float(value)}')"
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def brief(value: Any, most: int = PART) -> str:
    """A value in names and messages: its repr on one line; long sequences are cut, with their length.

    Examples
    --------
    >>> brief(tuple(range(300)))
    '(0, 1, 2, 3, 4, 5, ... 300 numbers)'
    """
    if isinstance(value, Block):
        return str(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    several = isinstance(value, (tuple, list, Mapping))
    if several and len(value) > most:
        return _first_parts(value, most)
    text = _literal(value)
    return _first_parts(value, most) if several and len(text) > most else shorter(sentence(text), most)


def _is_long(value: Any) -> bool:
    """Whether a block of ours has a parameter of more elements than `LONG` characters can name."""
    if isinstance(value, Block):
        held: tuple[Any, ...] = fields(value) if is_dataclass(value) else ()
        return type(value).__repr__ is Block.__repr__ and any(_is_long(getattr(value, field.name)) for field in held)
    return isinstance(value, (tuple, list)) and len(value) > LONG


def _first_parts(value: Any, most: int) -> str:
    """The first elements of a long sequence, and its length."""
    parts = list(_parts(value))
    what = "numbers" if all(isinstance(part, (int, float)) for part in parts) else "values"
    end = f"... {len(parts)} {what}"
    kept, room = list[str](), most - len(end) - 2
    for part in parts:
        word = f"{part:.4g}" if isinstance(part, float) else brief(part, most)
        kept.append(part if isinstance(value, Mapping) else word)
        room -= len(kept[-1]) + 2
        if room < 0:
            break
    opened, closed = "{}" if isinstance(value, Mapping) else "[]" if isinstance(value, list) else "()"
    return f"{opened}{', '.join([*kept[:-1], end])}{closed}"


def _parts(value: Any) -> Iterator[Any]:
    """The elements of a value at any depth; items of a dict as text."""
    for part in value:
        if isinstance(part, (tuple, list)):
            yield from _parts(part)
        else:
            yield f"{part!r}: {brief(value[part], PART // 2)}" if isinstance(value, Mapping) else part


class ByUser(Mapping[str, Any]):
    """An immutable dict by user of numbers, or of tuples of numbers."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        if wrong := [key for key in values if not isinstance(key, str)]:
            raise InvalidBlock(f"a dict by user has the key {wrong[0]!r}; give labels")
        made = {str(key): v if isinstance(v, tuple) else as_float(v) for key, v in values.items()}
        self._values = dict(sorted(made.items()))

    def __getitem__(self, user: str) -> Any:
        return self._values[user]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return repr(self._values)


MOST = 1e120  # tasks that fit: a capacity of at most 1e60, and 1e-60 of it for each; no number of a block is larger

# Blocks keep arrays as tuples, and dicts as `ByUser`.
PerUser = float | Sequence[float] | NDArray[Any] | Mapping[str, Any]


def per_user_parameter(value: Any, name: str) -> PerUser:
    """A scalar, array or dict by user in immutable form; `InvalidBlock` unless all numbers are from 0 to `MOST`."""
    if isinstance(value, ByUser):
        return value
    value = by_label(value)
    try:
        refuse_text(list(value.values()) if isinstance(value, Mapping) else value)
        frozen: PerUser
        if isinstance(value, Mapping):
            frozen = ByUser(value)
            numbers = np.array(list(frozen.values()))
        else:
            numbers = np.asarray(value, dtype=float)
            if numbers.ndim > 1:
                raise ValueError(f"{numbers.ndim} dimensions")
            if np.asarray(value).dtype.kind == "O":  # with Fractions
                frozen = as_float(value) if numbers.ndim == 0 else tuple(map(as_float, value))
            else:
                frozen = float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())
    except OverflowError as error:
        raise InvalidBlock(f"{name} holds a whole number too large for a float; give a smaller one") from error
    except (TypeError, ValueError) as error:
        raise InvalidBlock(f"{name} is {brief(value)}; give a number, an array by user or a dict by user") from error
    bad = np.flatnonzero(np.atleast_1d(~((numbers >= 0) & (numbers <= MOST))))
    if len(bad):
        user = repr(list(frozen)[bad[0]]) if isinstance(frozen, ByUser) else f"user number {bad[0] + 1}"
        whose = "" if isinstance(frozen, float) else f" for {user}"
        raise InvalidBlock(f"{name} holds {np.atleast_1d(numbers)[bad[0]]}{whose}; give numbers from 0 to {MOST:g}")
    return frozen


def refuse_text(value: Any) -> None:
    """Raise `ValueError` for text, which NumPy and Python convert to numbers."""
    if np.asarray(value).dtype.kind in "SU":
        raise ValueError("a text is not a number")


def parameter(value: Any, name: str, *, low: float = -np.inf, high: float = np.inf, fix: str = "") -> float:
    """A parameter as a float; `InvalidBlock`, with the fix, unless it lies in [low, high]."""
    try:
        refuse_text(value)
        number = as_float(value)
    except OverflowError as error:
        raise InvalidBlock(f"{name} is a whole number too large for a float; give a smaller one") from error
    except (TypeError, ValueError) as error:
        raise InvalidBlock(f"{name} is {brief(value)}; give a number") from error
    if not low <= number <= high:
        raise InvalidBlock(f"{name} is {number:g}; {fix or f'give a number from {low:g} to {high:g}'}")
    return number


def resource_name(resource: Any) -> str | int:
    """A resource's label or index as str or int; `InvalidBlock` for anything else."""
    if isinstance(resource, str):
        return str(resource)
    if isinstance(resource, (int, np.integer)) and not isinstance(resource, bool):
        return int(resource)
    raise InvalidBlock(f"there is no resource {resource!r}; give its label or its index")


def is_function(given: object) -> TypeGuard[Callable[[Any], Any]]:
    """Whether an object can be called and is neither a class, a block nor a function that makes policies."""
    return callable(given) and not (inspect.isclass(given) or isinstance(given, Block) or hasattr(given, "allocate"))
