"""The class's page: what teachers, assistants and students see of their class in a browser."""

from lab.daemons.gateway.page.site import PAGE, ClassPage

__all__ = ["PAGE", "ClassPage"]
