"""Functions given in place of blocks: which are accepted, and their text in messages and files."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from types import CodeType, FunctionType
from typing import Any, ClassVar

from fairopt.blocks.base import Block, brief, is_function
from fairopt.errors import InvalidBlock
from fairopt.runtime.display import LONG, sentence, shorter


@dataclass(frozen=True, repr=False)
class Inline(Block):
    """A block that is given by a function of the model; two are equal if their functions are."""

    user_defined: ClassVar[bool] = True

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not is_function(self.function):
            raise InvalidBlock(f"{type(self).__name__}({brief(self.function)}): give a function of the model")
        try:
            signature = inspect.signature(self.function)
        except ValueError:  # some functions in C have none
            return
        try:
            signature.bind(None)
        except TypeError as error:
            taken = ", ".join(map(str, signature.parameters.values())) or "no argument"
            raise InvalidBlock(
                f"`{self}` takes {taken}; give a function of one argument, the model, and fix others by "
                "functools.partial"
            ) from error

    def _called(self, method: str) -> str:
        return f"`{self}`"

    def __repr__(self) -> str:
        """Code that makes the block again where the names in it are known."""
        return f"{type(self).__name__}({text_of(self.function)})"

    def __str__(self) -> str:
        """The function in names and messages, with the values that tell functions of the same code apart."""
        text = sentence(text_of(self.function))
        held = ", ".join(f"{name}={value}" for name, value in _held(self.function) if f"{name}={value}" not in text)
        held = " " + shorter(sentence(f"with {held}"), LONG // 2) if held else ""
        return shorter(text, LONG - len(held)) + held


def text_of(function: Any) -> str:
    """A function as Python code on one line: a lambda in full, others by name."""
    if isinstance(function, partial):
        given = [*map(brief, function.args), *(f"{name}={brief(value)}" for name, value in function.keywords.items())]
        return f"partial({', '.join([text_of(function.func), *given])})"
    name = getattr(function, "__name__", None)
    if name == "<lambda>":
        return _text_of_lambda(function.__code__, function.__code__.co_filename)
    text = repr(function)
    return name or (type(function).__name__ if text == object.__repr__(function) else text)


def _held(function: Any) -> list[tuple[str, str]]:
    """What a function closes over, and the values of its further arguments, in text."""
    if isinstance(function, partial):
        return [(name, value) for name, value in _held(function.func) if name not in function.keywords]
    if not isinstance(function, FunctionType):
        return []
    held = [(name, parameter.default) for name, parameter in inspect.signature(function).parameters.items()]
    held += [*inspect.getclosurevars(function).nonlocals.items()]
    kept = [(name, value) for name, value in held if value is not inspect.Parameter.empty]
    return [
        (name, _text_of_value(value)) for name, value in kept if not inspect.ismodule(value) and value is not function
    ]


def _text_of_value(value: Any) -> str:
    """A value in a function's text: that of a function, else its repr, or its class if that is an address."""
    if is_function(value):
        return text_of(value)
    return type(value).__name__ if repr(value) == object.__repr__(value) else brief(value)


@lru_cache(maxsize=256)
def _text_of_lambda(code: CodeType, file: str) -> str:
    """The source of a lambda, found by the lines and columns of its instructions; if there is none, its arguments."""
    known = [place for place in code.co_positions() if None not in place]
    spans = [((line, first), (until, end)) for line, until, first, end in known if (line, first) != (until, end)]
    lambdas: list[ast.Lambda] = []
    for node in ast.walk(_tree(code)) if spans else ():
        if isinstance(node, ast.Lambda):
            begin, close = (node.body.lineno, node.body.col_offset), (node.body.end_lineno, node.body.end_col_offset)
            if begin <= min(spans)[0] and max(end for _, end in spans) <= close:
                lambdas.append(node)  # an inner one after those around it
    if lambdas:
        return ast.unparse(lambdas[-1])
    return f"lambda {', '.join(code.co_varnames[: code.co_argcount])}: ..."


def _tree(code: CodeType) -> ast.AST:
    """The syntax tree of the file of a function; an empty one without source."""
    try:
        return ast.parse("".join(inspect.findsource(code)[0]))
    except (OSError, SyntaxError, ValueError):  # as in an interactive session of Python before 3.13
        return ast.Module([], [])
