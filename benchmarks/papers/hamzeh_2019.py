"""Hamzeh et al. (2019): MLF-DRS. See `published` for what a row is.

Run: python benchmarks/papers/hamzeh_2019.py [--quick]
"""

from __future__ import annotations

from published import Paper, main

PAPER = Paper("hamzeh-2019", "Hamzeh et al. (2019)", "MLF-DRS", ())

if __name__ == "__main__":
    main(PAPER)
