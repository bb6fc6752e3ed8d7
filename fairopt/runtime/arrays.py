"""Types of arrays."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Indices = NDArray[np.intp]
Ints = NDArray[np.int64]
Rng: TypeAlias = "np.random.Generator"  # which takes a while to import
