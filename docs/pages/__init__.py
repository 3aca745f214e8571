"""What the documentation is made of: the texts between markers, and the pages that the package itself tells."""
