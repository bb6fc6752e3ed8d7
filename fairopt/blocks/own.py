"""Variables that blocks add: by name, or by block and number; as CVXPY variables, or as numbers at an allocation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.blocks.base import Block, brief, refuse_text
from fairopt.errors import InvalidBlock
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp

Shape = int | tuple[int, ...]

FAR = 10.0  # units: bounds beyond are left out of programs in units that other constraints imply
RESERVED = ("tasks", "bundles")  # variables of `Policy.problem`


@dataclass(frozen=True)
class OwnVariable:
    """A variable of a block, of ``unit`` natural units each; ``given`` are its bounds as they were given."""

    variable: cp.Variable
    unit: float
    given: tuple[Any, Any]

    @property
    def expression(self) -> cp.Expression:
        """The variable in natural units."""
        return self.variable if self.unit == 1 else self.unit * self.variable

    @property
    def value(self) -> Float | None:
        """Its value in natural units, within its bounds."""
        if self.variable.value is None:
            return None
        low, high = ranges(self.variable)
        held = np.asarray(self.variable.value, dtype=float)
        inside = np.clip(held.ravel(order="F"), low, high).reshape(held.shape, order="F")
        return np.asarray(inside * self.unit)

    @property
    def beyond(self) -> float:
        """By how much its value is beyond the given bounds, relative to these; infinite without a value."""
        value, (low, high) = self.value, self.given
        if value is None:
            return np.inf
        if low is None or high is None:  # its attributes hold
            return 0.0
        excess = np.ravel(np.maximum(np.maximum(low - value, value - high), 0.0))
        bound = np.ravel(np.abs(np.where(value < low, low, high)))
        return float((excess / np.where((excess > 0) & (bound > 0), bound, 1.0)).max(initial=0.0))


class OwnVariables:
    """The variables of all blocks of a model.

    With ``units``, natural units per unit of a variable by its key, solvers see numbers near 1; bounds far beyond them
    are then implied by other constraints, and left out. By default the unit is the largest bound. Without scaling
    (``natural``) all units are 1.
    """

    def __init__(self, natural: bool = False, units: Mapping[str, float] | None = None) -> None:
        self.natural, self.units = natural, dict(units or {})
        self.held: dict[str, OwnVariable] = {}
        self.blocks: dict[str, Block] = {}
        self.block: Block | None = None
        self._made = 0

    @contextmanager
    def of(self, block: Block) -> Iterator[None]:
        """Count variables without a name as those of a block."""
        before = self.block, self._made
        self.block, self._made = block, 0
        try:
            yield
        finally:
            self.block, self._made = before

    def key(self, name: str | None) -> str:
        """The key of a variable: its name, or its number and block."""
        if name is not None:
            return name
        self._made += 1
        block = repr(self.block)
        if self.block is not None and self.blocks.setdefault(block, self.block) != self.block:
            raise InvalidBlock(
                f"two different blocks with variables of their own are written {brief(self.block)}; rename the class "
                "of one, or name their variables"
            )
        return f"variable {self._made} of `{block}`"

    def make(self, shape: Shape, name: str | None, lower: Any, upper: Any) -> tuple[Any, dict[str, Float]]:
        """The variable of a name, which is made on first use, and bounds that it did not get then.

        See `Model.variable`.
        """
        size, given = self.checked(shape, name, lower, upper)
        key = self.key(name)
        own = self.held.get(key)
        if own is None:
            unit = 1.0 if self.natural else self.units.get(key) or _unit(*given)
            low, high = (side / unit for side in given)
            if key in self.units:
                low, high = np.where(low < -FAR, -np.inf, low), np.where(high > FAR, np.inf, high)
            bounds = [side if np.isfinite(side).any() else None for side in (low, high)]
            some = any(side is not None for side in bounds)
            variable = cp.Variable(size, name=key, bounds=bounds if some else None)
            own = self.held[key] = OwnVariable(variable, unit, given)
            return own.expression, {}
        if own.variable.shape != size:
            raise InvalidBlock(
                f"{self.block}: the variable {key!r} has shape {size} here and {own.variable.shape} in another "
                "block; give it one shape, or two names (objectives see only users with a task limit above 0, "
                "constraints all)"
            )
        sides = zip(("lower", "upper"), given, own.given, strict=True)
        more = {side: now for side, now, then in sides if np.isfinite(now).any() and not np.array_equal(now, then)}
        return own.expression, more

    def checked(self, shape: Any, name: Any, lower: Any, upper: Any) -> tuple[tuple[int, ...], tuple[Float, Float]]:
        """The shape and the bounds of a variable; `InvalidBlock` with the fix if they are not valid."""
        try:
            if name is not None and (not isinstance(name, str) or not name or name in RESERVED):
                raise ValueError(f"needs a name other than {' and '.join(map(repr, RESERVED))}, as a text")
            sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
            if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in sizes):
                raise ValueError(f"has the shape {brief(shape)}; give a whole number or a tuple of them, () for one")
            size = tuple(map(int, sizes))
            low, high = _side(size, "lower", lower, -np.inf), _side(size, "upper", upper, np.inf)
            for at in np.argwhere((low > high) | (low == np.inf) | (high == -np.inf))[:1]:
                where, k = f" at {tuple(at.tolist())}" if size else "", tuple(at)
                raise ValueError(f"has the lower bound {low[k]:g} and the upper bound {high[k]:g}{where}; give a range")
        except ValueError as error:
            of = "" if self.block is None else f"{self.block}: "
            what = "a variable" if name is None else f"the variable {name!r}"
            raise InvalidBlock(f"{of}{what} {error}") from error
        return size, (low, high)

    def adopt(self, variables: Iterable[cp.Variable]) -> None:
        """Count further variables, which a block made by itself, among these.

        One made outside the block's method is the same object in all models, so values of earlier solves are deleted.
        """
        known = {own.variable.id for own in self.held.values()}
        for variable in variables:
            if variable.id not in known:
                known.add(variable.id)
                variable.save_value(None)
                self.held[self.key(None)] = OwnVariable(variable, 1.0, (None, None))

    def values(self) -> dict[str, Float]:
        """The values in natural units, by key; without those that have none."""
        every = {key: own.value for key, own in self.held.items()}
        return {key: value for key, value in every.items() if value is not None}

    def save(self, values: Mapping[str, Any]) -> None:
        """Set values in natural units, by key; those of other shapes are left out."""
        for key, own in self.held.items():
            value = np.asarray(values.get(key, np.nan), dtype=float)
            if value.shape == own.variable.shape and np.isfinite(value).all():
                own.variable.save_value(value / own.unit)


class OwnValues(OwnVariables):
    """The same at an allocation: numbers, or variables where no value is known."""

    def __init__(self, known: Callable[[], Mapping[str, Float]] | None = None) -> None:
        super().__init__(natural=True)
        self._known, self._values = known, dict[str, Float]()

    @property
    def known(self) -> Mapping[str, Float]:
        """The known values by key."""
        if self._known is not None:
            self._values, self._known = dict(self._known()), None
        return self._values

    def make(self, shape: Shape, name: str | None, lower: Any, upper: Any) -> tuple[Any, dict[str, Float]]:
        size, _ = self.checked(shape, name, lower, upper)
        made = self._made
        value = self.known.get(self.key(name))
        if value is not None and value.shape == size:
            return value, {}
        self._made = made
        return super().make(shape, name, lower, upper)

    def adopt(self, variables: Iterable[cp.Variable]) -> None:
        for variable in variables:
            value = self.known.get(self.key(None))
            if value is not None and value.shape == variable.shape:
                variable.save_value(value)


def _side(size: tuple[int, ...], side: str, value: Any, none: float) -> Float:
    """One side of the bounds, in the shape of the variable."""
    try:
        refuse_text(value)
        bound = np.array(np.broadcast_to(np.asarray(none if value is None else value, dtype=float), size))
    except (TypeError, ValueError):
        raise ValueError(f"has {side}={brief(value)}; give a number or an array of shape {size}") from None
    if np.isnan(bound).any():
        raise ValueError(f"has NaN in {side}; give numbers, or infinity for no bound")
    return bound


def _unit(low: Float, high: Float) -> float:
    """The largest finite bound; 1 without one."""
    both = np.abs(np.concatenate([low.ravel(), high.ravel()]))
    return float(both[np.isfinite(both)].max(initial=0.0)) or 1.0


def ranges(variable: cp.Variable) -> tuple[Float, Float]:
    """The least and greatest values that a variable's attributes allow, flat in column order."""
    low, high = np.full(variable.size, -np.inf), np.full(variable.size, np.inf)
    given = variable.attributes
    for side, sign, bound in ((low, ("nonneg", "pos"), 0), (high, ("nonpos", "neg"), 1)):
        if any(given[name] for name in sign):
            side[:] = 0.0
        of_bounds = None if given["bounds"] is None else given["bounds"][bound]
        if of_bounds is not None:
            values = np.broadcast_to(np.asarray(of_bounds, dtype=float), variable.shape).ravel(order="F")
            side[:] = np.maximum(side, values) if bound == 0 else np.minimum(side, values)
    return low, high
