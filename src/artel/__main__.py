"""`python -m artel`."""

import sys

# `python -m` puts the current folder first on the path. It may hold anything, so nothing more is imported from it.
if not sys.flags.safe_path:
    del sys.path[0]

from artel.cli.main import main

main()
