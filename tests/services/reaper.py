"""End the services of a test run whose controller was killed: python -m tests.services.reaper FOLDER PID."""

import sys
import time
from pathlib import Path

from .process import Process
from .service_run import ServiceRun


def main(folder: Path, controller: Process) -> None:
    """Wait until the controller or the folder of the run is gone, then end what is left."""
    while folder.is_dir() and controller.alive():
        time.sleep(1)
    ServiceRun.join(folder).stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Process.of(int(sys.argv[2])))
