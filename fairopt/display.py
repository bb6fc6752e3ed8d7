"""Names and sentences as they may be shown: on one line, with nothing in them that a terminal would obey."""

from __future__ import annotations

__all__ = ["sentence", "visible"]

_JOINERS = "\u200c\u200d"  # that no letter is printed for, but which words of some scripts and emoji need


def visible(text: str) -> str:
    r"""A name on one line, with what no terminal should be sent (control and direction characters) spelt out.

    Examples
    --------
    >>> print(visible("two\nlines and a colour: \x1b[31m"))
    two\nlines and a colour: \x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text)


def sentence(text: str) -> str:
    """A sentence, as of an error, on one line."""
    return visible(" ".join(text.split()))
