"""What property tests of the small HTTP servers draw from."""

from __future__ import annotations

from hypothesis import strategies as st


def words(text: str) -> st.SearchStrategy[str]:
    """One of these words."""
    return st.sampled_from(text.split())
