from fairopt.operate.what_if import WhatIf as WhatIf
