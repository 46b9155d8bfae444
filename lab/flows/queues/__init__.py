"""Files of queues, read and simulated, and the page about a simulation."""
