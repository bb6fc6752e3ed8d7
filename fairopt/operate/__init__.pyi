from fairopt.operate.explanation import Binding as Binding
from fairopt.operate.explanation import Explanation as Explanation
