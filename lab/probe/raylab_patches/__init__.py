"""Changes how Ray behaves: one module for each patch of `raylab_switches.PATCHES`."""
