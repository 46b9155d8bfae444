"""The people of a class: who they are, what each may do, and the keys that follow from it."""
