"""The packages with public names beside those at the top."""

ROOMS = (
    "blocks",
    "checker",
    "derivatives",
    "exact",
    "io",
    "online",
    "policies",
    "properties",
    "questions",
    "report",
    "scale",
    "tradeoff",
)
