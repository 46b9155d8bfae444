"""Answers questions to a node: does it live, does an address answer, which GPUs does it see."""
