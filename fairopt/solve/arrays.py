"""Types of arrays: numbers, indices and flags."""

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.intp]
Bool = NDArray[np.bool_]
