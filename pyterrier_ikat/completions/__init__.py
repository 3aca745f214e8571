"""Parsers of completions into texts, queries, statements and grades. All are pure functions."""
