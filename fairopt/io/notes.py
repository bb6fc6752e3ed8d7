"""What readers return: arguments of an `Instance`, and notes, sentences that count what they left out or assumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairopt.errors import InvalidInstance, nearest
from fairopt.runtime.display import About

_PLURALS = {"was": "were", "is": "are", "has": "have"}  # of verbs
_PLURALS |= {f"{verb}s": verb for verb in ("count", "need", "request", "share", "take", "wait")}


class Notes:
    """Notes on an instance: sentences with a number and, if there is one, an example.

    Parameters
    ----------
    *sentences : str
        Whole sentences to start with.

    Examples
    --------
    >>> import fairopt as fo
    >>> notes = fo.io.Notes()
    >>> for name in ("web/b", "web/a"):
    ...     notes.add("{finished pod} {was} left out", name)
    >>> notes.add("{server} {is} powered down", number=1)
    >>> notes.sentences()
    ['2 finished pods were left out (such as web/a)', '1 server is powered down']
    """

    def __init__(self, *sentences: str) -> None:
        self._counts: dict[tuple[type[str], str, tuple[tuple[str, str], ...]], tuple[float, str]] = {}
        for sentence in sentences:
            self.say(sentence)

    def add(self, sentence: str, *examples: str, number: float | None = None, **given: str) -> None:
        """Count things, by default the examples, of which the smallest is shown.

        Braces mark a noun that is counted, ``{finished pod}``, a verb that agrees with it, ``{was}``, or a word that
        ``given`` replaces. A number of 0 adds nothing. A sentence that is `About` makes such a note.
        """
        number = len(examples) if number is None else number
        if number:
            key = (About if isinstance(sentence, About) else str, sentence, tuple(given.items()))
            before, example = self._counts.get(key, (0, ""))
            self._counts[key] = (before + number, min(filter(None, (example, *examples)), default=""))

    def say(self, text: str) -> None:
        """Add a whole sentence."""
        self.add(About("{text}") if isinstance(text, About) else "{text}", number=1, text=text)

    def sentences(self) -> list[str]:
        """The sentences, in the order in which they were first added."""
        return [
            kind(
                sentence.format_map(_Words(dict(given), number=number))
                + (f" ({'such as ' * (number != 1)}{example})" if example else "")
            )
            for (kind, sentence, given), (number, example) in self._counts.items()
        ]

    def nothing_left(self, what: str) -> InvalidInstance:
        """The error for an input with no users or servers left; the notes give the reasons."""
        return InvalidInstance("; ".join([what, *self.sentences()]))


class _Words(dict[str, str]):
    """Replacements for the words in braces, given the number."""

    def __init__(self, given: dict[str, str], number: float) -> None:
        super().__init__(given)
        self.number = number

    def __missing__(self, word: str) -> str:
        if word in _PLURALS:
            return word if self.number == 1 else _PLURALS[word]
        return counted(self.number, word)


def counted(number: float, word: str) -> str:
    """A number of things, as ``"1 pod"``, ``"1,200 pods"`` or ``"2 capacities"``.

    Parameters
    ----------
    number : float
        How many.
    word : str
        The noun in the singular.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.counted(1200, "pod")
    '1,200 pods'
    """
    if number != 1:
        word = word[:-1] + "ies" if word.endswith("ty") else word + "s"
    return f"{number:,.12g} {word}"


def check_choice(option: str, value: object, known: tuple[str, ...]) -> None:
    """Raise `InvalidInstance` unless the value of an option is one of those that are known.

    Parameters
    ----------
    option : str
        Its name.
    value : object
        What was given.
    known : tuple of str
        What may be given.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.check_choice("tasks", "meen", ("mean", "shapes"))
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: tasks is 'meen'; did you mean 'mean'?
    """
    if not isinstance(value, str) or value not in known:
        raise InvalidInstance(f"{option} is {value!r}; {nearest(value, known)}")


def closed_servers(servers: Sequence[str], listed: Iterable[bool], part: str, to_all: bool) -> list[str]:
    """A note on servers that no list or line (a ``part`` of a file) names, such as servers added later."""
    names = [repr(name[:40]) for name, known in zip(servers, listed, strict=True) if not known]
    if not names:
        return []
    shown, it = ", ".join(names[:5]) + (", ..." if len(names) > 5 else ""), "it" if len(names) == 1 else "them"
    who = "no user may use" if to_all else "only users without a list may use"
    return [f"no {part} names the server{'s' * (len(names) > 1)} {shown}, so {who} {it}"]


# -- results --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arguments:
    """What a reader returns: arguments of an `Instance`, and what errors about them need.

    Parameters
    ----------
    values : dict
        The arguments by name.
    places : tuple of str
        The files or documents that they are from, for messages.
    merge : bool, default False
        Whether identical servers become one row with a count.
    hint : str, default ""
        What errors end with.
    same_at_full_demand : bool, default False
        Whether reading with ``full_demand`` gives the same but for task limits, so that nobody need read again.

    Examples
    --------
    >>> import fairopt as fo
    >>> found = fo.io.Arguments({"demands": [[1]], "capacities": [4, 4]}, ("cluster.toml",))
    >>> fo.datasets.instance_of(lambda: found)
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: cluster.toml: ...
    """

    values: dict[str, Any]
    places: tuple[str, ...]
    merge: bool = False
    hint: str = ""
    same_at_full_demand: bool = False
