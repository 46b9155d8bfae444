"""The steps of ranks, one by one: of a training whose survivors go on, or that a ladder measures."""
