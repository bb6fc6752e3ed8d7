"""Draw the pictures that the README shows, into ``docs/_static``."""

from pathlib import Path

import matplotlib

import fairopt as fo

STATIC = Path(__file__).parent / "_static"


def main() -> None:
    """The demo's cluster under three notions, by fairopt's own picture."""
    matplotlib.use("Agg")
    result = fo.compare(["drf", "fds:alpha=1", "most-tasks"], fo.datasets.demo())
    figure = result.plot()[0].figure
    figure.savefig(STATIC / "shares.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
