"""Programs of the lab's own that run as its services, in containers too: they need neither click nor rich."""
