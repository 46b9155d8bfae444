"""Makes recoveries fast: one module for each patch of `table.PATCHES`."""
