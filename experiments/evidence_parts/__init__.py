"""The tables of the page on evidence, one module for each of its sections."""
