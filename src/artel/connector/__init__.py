"""The connector: the only thing that opens the user's files. It checks, carries out, notes, and may refuse."""
