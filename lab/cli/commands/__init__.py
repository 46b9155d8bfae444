"""The commands of labctl, by what they deal with."""
