"""Storage: files that are complete or absent, caches in sqlite, models that are loaded once."""
