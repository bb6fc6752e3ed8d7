"""The packages with public names beside those at the top."""

ROOMS = (
    "blocks",
    "derivatives",
    "exact",
    "online",
    "operate",
    "policies",
    "proofs",
    "properties",
    "report",
    "scale",
    "tradeoff",
)
