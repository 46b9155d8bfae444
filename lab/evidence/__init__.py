"""Evidence: what jobs recorded about themselves, their checkpoints, and the receipt judged from both."""
