"""The package of the wheel (pyproject.toml): after `import raylab_labctl`, `from lab import Lab` works.

That it is there tells labctl that it was installed (lab/host/environment).
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
