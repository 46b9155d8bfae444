"""Shapes of the documents that cross a process: each is declared here once, and imported by both ends."""
