"""Types of NumPy arrays, as annotations name them."""

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
