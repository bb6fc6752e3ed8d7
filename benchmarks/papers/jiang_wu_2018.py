"""Jiang and Wu (2018): 2-DF, the slides. See `published` for what a row is.

Run: python benchmarks/papers/jiang_wu_2018.py [--quick]
"""

from __future__ import annotations

from published import Paper, main

PAPER = Paper("jiang-wu-2018", "Jiang and Wu (2018)", "2-DF, the slides", ())

if __name__ == "__main__":
    main(PAPER)
