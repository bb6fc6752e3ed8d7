"""The two users or two resources at the axes of a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairopt.errors import InvalidBlock, nearest

__all__ = ["two_of"]


def two_of(
    names: Sequence[str], asked: Sequence[str] | None, what: str, how: Callable[[str, str], str] | None = None
) -> tuple[int, int]:
    """Positions of the two of some names that were asked for, or of the only two.

    ``what`` is ``users`` or ``resources``; ``how`` writes how two names are chosen, as an error says it, by default as
    ``users=('a', 'b')``.

    Examples
    --------
    >>> two_of(["cpu", "memory", "gpu"], ["gpu", "cpu"], "resources")
    (2, 0)
    """
    if len(names) < 2:
        raise InvalidBlock(f"this picture has two {what} at its axes, and there is {len(names) or 'none'} of them")
    example = f"{what}=({names[0]!r}, {names[1]!r})" if how is None else how(names[0], names[1])
    if asked is None:
        if len(names) > 2:
            some = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            raise InvalidBlock(
                f"this picture has two {what} at its axes; choose two of the {len(names):,}, "
                f"as {example}, from {some}"
            )
        return 0, 1
    if isinstance(asked, str) or len(asked) != 2 or asked[0] == asked[1]:
        raise InvalidBlock(f"{what}={asked!r}; give two different names, as {example}")
    for name in asked:
        if name not in names:
            raise InvalidBlock(f"there is no {name!r} among the {what}; {nearest(name, names)}")
    return names.index(asked[0]), names.index(asked[1])
