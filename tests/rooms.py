"""The packages with public names beside those at the top."""

ROOMS = (
    "blocks",
    "checker",
    "deployed",
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
