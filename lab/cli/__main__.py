"""`python -m lab.cli`: what labctl.py hands over to."""

from __future__ import annotations

import sys

from lab.cli.main import main

sys.exit(main())
