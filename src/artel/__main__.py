"""The command `artel`, and `python -m artel`."""

import os  # imported by Python's startup, like `sys`: importing them here runs no file of the current folder
import sys


def main() -> None:
    """Run the command, after removing the current folder from where modules are imported from."""
    distrust_current_folder()
    from artel.cli.main import main as run_command  # here, because it imports other packages

    run_command()


def distrust_current_folder() -> None:
    """Remove the current folder from `sys.path`, and from PYTHONPATH for child processes.

    `python -m` puts it there, and an empty entry of PYTHONPATH. It may be a cloned folder, so modules there are not
    trusted.
    """
    try:
        here = os.path.realpath(os.curdir)
    except OSError:  # it was deleted, so that nothing can be imported from it
        return
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
    if "PYTHONPATH" in os.environ:
        entries = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if os.path.realpath(entry) != here)


if __name__ == "__main__":
    main()
