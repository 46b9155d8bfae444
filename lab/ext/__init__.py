"""Extensions: a folder each, which can be deleted. The core imports none of them, nor one of them another."""
