"""One file per fault. A file whose name begins with an underscore holds what several of them share."""
