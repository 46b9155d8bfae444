"""raylab: a small Ray cluster with an object store on one machine, broken on purpose, recovery proven."""

__version__ = "0.1.0"
