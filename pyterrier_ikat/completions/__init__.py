"""What models write, read into texts, queries, statements and grades: pure functions, no input or output."""
