"""`python -m artel`."""

import sys

# `python -m` puts the current folder first on sys.path. Remove it: modules there are not trusted.
if not sys.flags.safe_path:
    del sys.path[0]

from artel.cli.main import main

main()
