"""The tables of the page on evidence, with one module for each section."""
