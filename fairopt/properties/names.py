"""The properties by name: what they are called, what each says, and the short forms."""

from __future__ import annotations

from fairopt.errors import InvalidBlock, nearest

__all__ = ["ALIASES", "OF_ALLOCATIONS", "PROPERTIES", "canonical", "property_name"]

# What each says, in the order in which reports list them (math.md section 6).
MEANING = {
    "pareto": "no feasible allocation gives everyone at least as many tasks and someone more",
    "sharing-incentive": "nobody would run more tasks on its own slice of every server",
    "envy-free": "nobody would run more tasks on what another holds, at its own weight",
    "strategy-proof": "nobody runs more tasks by reporting other demands",
    "strategy-proof-boosting": "nobody runs more tasks by reporting larger demands",
    "bottleneck": "everyone has all it asked for, or its entitlement of some full resource",
    "population-monotone": "when a user leaves, nobody else runs fewer tasks",
    "resource-monotone": "when a capacity grows, nobody runs fewer tasks",
}
PROPERTIES = tuple(MEANING)
OF_ALLOCATIONS = ("pareto", "sharing-incentive", "envy-free", "bottleneck")  # the others are about a mechanism
ALIASES = {
    "pe": "pareto", "si": "sharing-incentive", "ef": "envy-free", "sp": "strategy-proof",
    "sp-boosting": "strategy-proof-boosting", "bf": "bottleneck", "pm": "population-monotone",
    "rm": "resource-monotone",
    "pareto-efficiency": "pareto", "pareto-efficient": "pareto", "envy-freeness": "envy-free",
    "strategy-proofness": "strategy-proof", "bottleneck-fairness": "bottleneck", "bottleneck-fair": "bottleneck",
    "population-monotonicity": "population-monotone", "resource-monotonicity": "resource-monotone",
}  # fmt: skip


def canonical(text: object) -> str | None:
    """The canonical name of a property given by name or short form, or None if there is no such property."""
    if not isinstance(text, str):
        return None
    name = "-".join(text.strip().lower().replace("_", " ").replace("-", " ").split())
    name = ALIASES.get(name, name)
    return name if name in MEANING else None


def property_name(text: object) -> str:
    """The canonical name of a property.

    Parameters
    ----------
    text : str
        A name of `PROPERTIES` or a short form, as ``"pe"``, ``"si"``, ``"ef"``, ``"sp"``; capitals, spaces and
        underscores do not matter.

    Returns
    -------
    str

    Raises
    ------
    InvalidBlock
        If there is no such property; the message holds the nearest names.

    Examples
    --------
    >>> from fairopt.properties.names import property_name
    >>> property_name("PE"), property_name("envy_free"), property_name("sp-boosting")
    ('pareto', 'envy-free', 'strategy-proof-boosting')
    """
    name = canonical(text)
    if name is None:
        raise InvalidBlock(f"no property {text!r}; {nearest(text, (*PROPERTIES, *ALIASES))}")
    return name
