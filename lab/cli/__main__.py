"""Entry point of `python -m lab.cli`, to which labctl.py hands over."""

from __future__ import annotations

import gc
import sys

gc.set_threshold(100_000)
"""New objects after which garbage is looked for: at 700 that is a fifth of all imports, half of a receipt."""

from lab.cli.main import main  # noqa: E402

sys.exit(main())
