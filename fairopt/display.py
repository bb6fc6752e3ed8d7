"""Names and sentences made safe for terminals: on one line, without control characters."""

from __future__ import annotations

from typing import Any

__all__ = ["LONG", "label", "sentence", "shorter", "visible"]

LONG = 100  # letters of a name, such as the text of a block, from which on messages and titles shorten it

_JOINERS = "\u200c\u200d"  # not printable by themselves, but part of words in some scripts and of emoji


def visible(text: str) -> str:
    r"""A name on one line, with control and direction characters spelt out.

    Examples
    --------
    >>> print(visible("two\nlines and a colour: \x1b[31m"))
    two\nlines and a colour: \x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text)


def sentence(text: str) -> str:
    """A sentence on one line."""
    return visible(" ".join(text.split()))


def shorter(name: str, most: int = 26) -> str:
    """A name on one line; a long one loses its middle."""
    shown = "".join(c if c.isprintable() else " " for c in name)
    if len(shown) > most:  # names that begin alike often end differently
        end = (most - 1) // 2
        shown = shown[: most - 1 - end] + "…" + shown[len(shown) - end :]
    return shown


def label(mechanism: Any) -> str:
    """The name of a mechanism in tables and messages: its name, its text in short, or its class where it has none."""
    if name := getattr(mechanism, "name", None):
        return str(name)
    if not isinstance(mechanism, str) and type(mechanism).__str__ is not object.__str__:  # type: ignore[comparison-overlap]
        return str(mechanism)  # of blocks and policies, which shorten parameters
    text = mechanism if isinstance(mechanism, str) else repr(mechanism)
    return type(mechanism).__name__ if text == object.__repr__(mechanism) else shorter(sentence(text), LONG)
