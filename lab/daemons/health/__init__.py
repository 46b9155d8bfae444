"""Health of every GPU and node: what the nodes' agents found, and the state that follows from it."""
