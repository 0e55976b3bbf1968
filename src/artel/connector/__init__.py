"""The connector: runs on the user's machine and checks, records and carries out calls to the user's files."""
