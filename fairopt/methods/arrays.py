"""Types of arrays: numbers, indices and flags."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
Int = NDArray[np.intp]
Bool = NDArray[np.bool_]
