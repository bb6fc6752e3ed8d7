"""What a reader left out or assumed: counted, and said in sentences."""

from __future__ import annotations

from fairopt.errors import InvalidInstance, nearest

__all__ = ["Notes", "check_choice", "counted"]

_PLURALS = {
    "was": "were", "is": "are", "has": "have", "asks": "ask", "counts": "count", "gives": "give", "requests": "request",
    "takes": "take",
}  # fmt: skip


class Notes:
    """Sentences of the instance that is read, each with a number and, where there is one, an example.

    Examples
    --------
    >>> notes = Notes()
    >>> for name in ("web/b", "web/a"):
    ...     notes.add("{finished pod} {was} left out", name)
    >>> notes.add("{server} {is} powered down", number=1)
    >>> notes.sentences()
    ['2 finished pods were left out (as web/a)', '1 server is powered down']
    """

    def __init__(self, *said: str) -> None:
        self._said: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, str]] = {}
        for sentence in said:
            self.say(sentence)

    def add(self, sentence: str, *examples: str, number: float | None = None, **given: str) -> None:
        """So many more of something (as many as there are examples, by default); the smallest example is shown.

        The sentence has a thing in braces for its number and plural, as ``{finished pod}``, and verbs, as ``{was}``;
        ``given`` is what else stands in braces. Nothing is said of none.
        """
        number = len(examples) if number is None else number
        if not number:
            return
        key = (sentence, tuple(given.items()))
        before, example = self._said.get(key, (0, ""))
        self._said[key] = (before + number, min(filter(None, (example, *examples)), default=""))

    def say(self, text: str) -> None:
        """A whole sentence."""
        self.add("{text}", number=1, text=text)

    def sentences(self) -> list[str]:
        """What there is to say, in the order in which it first came up."""
        return [
            sentence.format_map(_Words(number, dict(given))) + (f" (as {example})" if example else "")
            for (sentence, given), (number, example) in self._said.items()
        ]

    def nothing_left(self, what: str) -> InvalidInstance:
        """The error about an input of which nothing is left, which says why."""
        return InvalidInstance("; ".join([what, *self.sentences()]))


class _Words(dict[str, str]):
    """The words in braces of a sentence about so many things."""

    def __init__(self, number: float, given: dict[str, str]) -> None:
        super().__init__(given)
        self.number = number

    def __missing__(self, word: str) -> str:
        if word in _PLURALS:
            return word if self.number == 1 else _PLURALS[word]
        return counted(self.number, word)


def counted(number: float, word: str) -> str:
    """A number of things, as ``"1 pod"``, ``"1,200 pods"`` or ``"2 capacities"``."""
    if number != 1:
        word = word[:-1] + "ies" if word.endswith("ty") else word + "s"
    return f"{number:,.12g} {word}"


def check_choice(option: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a value of an option that is none of those known, before anything is read."""
    if not isinstance(value, str) or value not in known:
        raise InvalidInstance(f"{option} is {value!r}; {nearest(value, known)}")
