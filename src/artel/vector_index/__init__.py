"""What agents remember, made searchable: the index, which can be lost and is rebuilt from the rows."""
