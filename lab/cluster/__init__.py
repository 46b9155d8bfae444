"""The Ray cluster of a lab: its HTTP APIs, its jobs, who holds which of its resources, and Ray's settings."""
