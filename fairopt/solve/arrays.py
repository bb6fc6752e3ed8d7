"""Types of arrays: numbers, indices and flags."""

import numpy as np
from fairopt.runtime.arrays import Bool, Float, Indices

