"""The health agent of a node: what is read of it, the checks that judge that, and the loop that runs them."""
