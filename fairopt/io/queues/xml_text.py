"""XML without a document type, whose entities could take unlimited memory."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from fairopt.errors import InvalidInstance

_DEEPEST = 100  # levels


def root_of(text: str, name: str) -> Element:
    """The root element of a text; errors name the line."""
    parser, builder = expat.ParserCreate(), TreeBuilder()
    depth = 0

    def refuse(*_: Any) -> None:
        raise InvalidInstance(
            f"{name}, line {parser.CurrentLineNumber}: a document type (DTD) is not read; remove <!DOCTYPE ...>"
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise InvalidInstance(f"{name}, line {parser.CurrentLineNumber}: this is nested too deeply")
        element = builder.start(tag, attributes)
        element.set(_LINE, str(parser.CurrentLineNumber))

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise InvalidInstance(f"{name}, line {error.lineno}: {problem}; check the tags there") from None
    return builder.close()


_LINE = "{fairopt}line"  # an attribute that no file has


def place_of(element: Element, name: str) -> str:
    """The file and the line of an element."""
    return f"{name}, line {element.get(_LINE)}"


def text_of(element: Element) -> str:
    """The text of an element without surrounding blanks."""
    return (element.text or "").strip()
