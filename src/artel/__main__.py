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
    trusted, unless Python or Artel itself is installed there.
    """
    try:
        here = os.path.realpath(os.curdir)
    except OSError:  # it was deleted, so that nothing can be imported from it
        return
    if here in map(os.path.realpath, _installation_folders()):
        return
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
    if "PYTHONPATH" in os.environ:
        entries = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if os.path.realpath(entry) != here)


def _installation_folders() -> list[str]:
    """Return the folders of the standard library, of installed packages, and of this package.

    `sysconfig` and `pathlib` are not used, because they would be imported from the current folder at this point.
    """
    library, package = (file.rpartition(os.sep)[0] for file in (os.__file__, __file__))
    folders = [library, f"{library}{os.sep}lib-dynload", package.rpartition(os.sep)[0]]
    site = sys.modules.get("site")  # imported by Python's startup, except with -S
    if site is not None:
        folders += site.getsitepackages()
        folders += [site.USER_SITE] if site.ENABLE_USER_SITE and site.USER_SITE else []
    return folders


if __name__ == "__main__":
    main()
