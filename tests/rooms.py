"""The packages with public names beside those at the top."""

ROOMS = (
    "blocks",
    "checker",
    "derivatives",
    "exact",
    "online",
    "operate",
    "policies",
    "properties",
    "report",
    "scale",
    "tradeoff",
)
