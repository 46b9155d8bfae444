from lab.lab import Lab as Lab
from lab.version import __version__ as __version__

__all__ = ["Lab", "__version__"]
