"""The packages with public names beside those at the top."""

ROOMS = (
    "blocks",
    "derivatives",
    "online",
    "operate",
    "policies",
    "proofs",
    "properties",
    "report",
    "scale",
    "tradeoff",
)
