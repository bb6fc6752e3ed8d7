"""Names and sentences made safe for terminals: on one line, without control characters."""

from __future__ import annotations

__all__ = ["sentence", "visible"]

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
