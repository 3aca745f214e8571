"""Parsers of completions into texts, queries, statements and grades: pure functions without input or output."""
