"""Draw the README's picture and write the table of claims again: fairopt's own output in the documentation."""

from pathlib import Path

import matplotlib

import fairopt as fo
from fairopt.properties.literature.claims import markdown

DOCS = Path(__file__).parent
BELOW = "<!-- `make refresh` writes what is below. -->\n\n"


def main() -> None:
    """The demo's cluster under three notions, by fairopt's own picture; and all claims, with verdicts."""
    matplotlib.use("Agg")
    result = fo.compare(["drf", "fds:alpha=1", "most-tasks"], fo.datasets.demo())
    result.plot().savefig(DOCS / "_static" / "shares.png", dpi=110, metadata={"Software": None})
    page = DOCS / "properties.md"
    above, mark, _ = page.read_text(encoding="utf-8").partition(BELOW)
    page.write_text(f"{above}{mark}{markdown()}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
