"""The vector index of memories, which can always be rebuilt from the database, and the embedders."""
