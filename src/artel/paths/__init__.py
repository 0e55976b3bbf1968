"""Safe access to files in a folder at untrusted paths: the only code that opens such paths."""
