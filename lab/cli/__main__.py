"""Entry point of `python -m lab.cli`, to which labctl.py hands over."""

from __future__ import annotations

import sys

from lab.cli.main import main

sys.exit(main())
