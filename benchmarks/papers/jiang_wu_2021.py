"""Jiang and Wu (2021): 2-DF and k-DF. See `published` for what a row is.

Run: python benchmarks/papers/jiang_wu_2021.py [--quick]
"""

from __future__ import annotations

from published import Paper, main

PAPER = Paper("jiang-wu-2021", "Jiang and Wu (2021)", "2-DF and k-DF", ())

if __name__ == "__main__":
    main(PAPER)
