"""Storage on disk and in memory: files that are whole or absent, caches on sqlite, models that load once."""
