"""The database: the truth and the queue."""
