"""The compose runtime: the lab as containers, driven through Docker Compose."""
