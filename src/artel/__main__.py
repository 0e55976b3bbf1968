"""`python -m artel`."""

from artel.cli.main import main

main()
