"""Which numbers an instance takes, and how to mend others."""

from __future__ import annotations

from typing import Any

import numpy as np

# The numbers of an instance, zeros and infinite limits aside. Thus a demand per capacity is within 1e-120 to 1e120, a
# level (the tasks per weight at which a resource is full) within 1e-180 to 1e180 times the number of users, and squares
# of ratios and products of prices and tasks are floats in all their digits: code after this check need not ask. What
# can still leave the range of floats are powers: a product of three ratios (3-dominant shares), a level to the power
# 1 - alpha. They are refused where they arise, as `OutOfDomain`. float64, so that float32 is not rounded to.
SMALLEST, LARGEST = np.float64(1e-60), np.float64(1e60)


def in_range(numbers: Any) -> Any:
    """Which numbers are 0, or from `SMALLEST` to `LARGEST`."""
    return (numbers == 0) | ((numbers >= SMALLEST) & (numbers <= LARGEST))


def fix_or_unit(number: Any, fix: str, what: str) -> str:
    """How to mend a wrong value: the fix, or another unit for a positive number that is not `in_range`."""
    if np.ndim(number) or isinstance(number, str) or in_range(number) or not 0 < number < np.inf:
        return fix
    return f"numbers other than 0 lie between 1e-60 and 1e60: count {what} in another unit"
