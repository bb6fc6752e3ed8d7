from fairopt.derivatives.sensitivity import Derivatives as Derivatives
from fairopt.derivatives.sensitivity import Purchase as Purchase
from fairopt.derivatives.sensitivity import Sensitivity as Sensitivity
