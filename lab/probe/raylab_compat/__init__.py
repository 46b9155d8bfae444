"""Lets scripts written for another machine run unchanged: GPUs, Lightning, Food-11, unnamed runs."""
