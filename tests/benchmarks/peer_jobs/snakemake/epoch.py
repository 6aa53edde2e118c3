import sys

import numpy as np
from common import start, step

output, *inputs = sys.argv[1:]
np.save(output, step(np.load(inputs[0]))[0] if inputs else start())
