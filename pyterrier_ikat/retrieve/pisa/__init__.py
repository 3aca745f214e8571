"""PISA, kept at arm's length: it writes its indexes in a process of its own, and is only read in ours."""
