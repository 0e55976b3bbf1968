"""Files that users attach to messages: their types, rows and uploads."""
