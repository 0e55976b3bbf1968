"""Programs of agents in the sandbox: no network, files or environment of the machine; bounded in everything."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from artel.contract.agent_file import SandboxSecurity
from artel.errors import ConfigurationInvalid
from artel.nodes.task_scope import TaskScope
from artel.tools.programs import CodeExecute, Shell
from artel.tools.sandbox import LOOK_SECONDS, Sandbox, SandboxUnavailable
from artel.tools.sandbox_usage import Used, used_by
from artel.tools.tool import ToolResult
from tests.agents import reply, wants
from tests.node_files import ANN, BOB, agent_file, call, shared_tools
from tests.node_worlds import LocalWorld, NodeBrain, Nodes, approved, node_file, output_of
from tests.services import ServiceRun, until
from tests.services.installed import Program

pytestmark = pytest.mark.anyio

BUBBLEWRAP = Program("bubblewrap", "bubblewrap", ("bwrap",))


@pytest.fixture(scope="module")
def bwrap(services: ServiceRun) -> str:
    return str(services.programs.find(BUBBLEWRAP))


@pytest.fixture
def sandbox(tmp_path: Path, bwrap: str) -> Iterator[Sandbox]:
    yield Sandbox(tmp_path / "work", bwrap)
    assert not _processes_in(tmp_path)


def _processes_in(folder: Path) -> list[str]:
    """Return the processes whose work folder is in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        if str(folder) in mounts and " /work " in mounts:
            found.append(process.name)
    return found


@pytest.fixture
def broken_bwrap(tmp_path: Path) -> str:
    """Return a program that fails as bubblewrap does on a machine without user namespaces."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho no user namespaces here >&2\nexit 1\n")
    program.chmod(0o755)
    return str(program)


async def run(sandbox: Sandbox, code: str, task: str = "task", **limits: float) -> ToolResult:
    """Run a Python program."""
    security = SandboxSecurity.model_validate({"timeout_seconds": 20, **limits})
    return await CodeExecute(sandbox, task, security).call({"code": code})


async def shell(sandbox: Sandbox, command: str, task: str = "task", **limits: float) -> ToolResult:
    security = SandboxSecurity.model_validate({"timeout_seconds": 20, **limits})
    return await Shell(sandbox, task, security).call({"command": command})


def printed(result: ToolResult) -> str:
    assert isinstance(result.data, dict), result
    return str(result.data["output"]).strip()


@pytest.mark.req("AGT-02.1")
async def test_programs_run_and_share_the_folder_of_their_task(sandbox: Sandbox) -> None:
    wrote = await run(sandbox, "open('numbers.txt', 'w').write('1 2 3'); print('wrote', 6 * 7)")
    read = await shell(sandbox, "cat numbers.txt; exit 3")
    other_task = await shell(sandbox, "ls /work | wc -l", task="other")
    await sandbox.forget("task")
    afterwards = await shell(sandbox, "ls | wc -l")

    assert wrote.data == {"exit_code": 0, "output": "wrote 42\n"}
    assert read.data == {"exit_code": 3, "output": "1 2 3"}
    assert (printed(other_task), printed(afterwards)) == ("0", "0")


@pytest.mark.req("AGT-02.1")
async def test_programs_run_while_calls_of_plugins_hang(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.BoundedSemaphore(1)
    hanging.acquire()
    monkeypatch.setattr("artel.tools.tool._blocking_calls", hanging)

    assert printed(await shell(sandbox, "echo works")) == "works"


@pytest.mark.req("AGT-02.1")
async def test_there_are_no_network_files_or_environment_of_the_machine(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVATE_KEY", "not-for-agents")
    (tmp_path / "private.txt").write_text("not-for-agents")
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    code = f"""
import os, socket, pathlib
print(sorted(os.environ))
print([name for name in ("/etc/passwd", "/root", "/var", "/work/../private.txt", "{tmp_path}", "/etc/shadow")
       if os.path.exists(name)])
print(sorted(set(os.listdir("/")) - {{"bin", "sbin", "lib", "lib32", "lib64", "usr"}}))
print([name for _, name in socket.if_nameindex()], os.listdir("/tmp"), os.listdir("/home"))
for address in (("127.0.0.1", {port}), ("1.1.1.1", 53)):
    try:
        print(socket.create_connection(address, 1))
    except OSError:
        print("no connection")
print(len([name for name in os.listdir("/proc") if name.isdigit()]), os.getpid() < 20)
for path in ("/usr/x", "/x", "/dev/x", "/etc/x", "/run/x"):
    try:
        open(path, "w")
        print("wrote", path)
    except OSError:
        pass
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
rights = int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"].strip()
print(*rights, os.getuid() > 0, os.nice(0) >= 10)
"""
    lines = printed(await run(sandbox, code)).splitlines()
    server.close()

    variables, files, top, interfaces, mine, public, processes, rights = lines
    assert "PRIVATE_KEY" not in variables
    assert set(eval(variables)) <= {"HOME", "LANG", "LC_CTYPE", "PATH", "PWD"}  # noqa: S307 - our own list
    assert files == "[]"
    assert set(eval(top)) <= {"dev", "etc", "home", "opt", "proc", "run", "tmp", "work"}  # noqa: S307
    assert interfaces == "['lo'] [] []"
    assert (mine, public) == ("no connection", "no connection")
    assert processes.endswith("True")
    assert int(processes.split()[0]) <= 3
    assert rights == "0 0 1 True True"


@pytest.mark.req("AGT-02.1")
async def test_time_is_limited_and_children_end_too(sandbox: Sandbox, tmp_path: Path) -> None:
    began = time.monotonic()
    slow = await shell(
        sandbox, "(while true; do sleep 1; done) & setsid sleep 100 & echo begun; wait", timeout_seconds=1
    )
    left = await shell(sandbox, "nohup setsid sleep 100 >/dev/null 2>&1 & echo left", timeout_seconds=10)

    assert slow.error == "shell was stopped: it took longer than 1 seconds. It had printed: begun\n"
    assert printed(left) == "left"
    assert time.monotonic() - began < 30
    assert _processes_in(tmp_path) == []


@pytest.mark.req("AGT-02.1")
async def test_cancelled_call_ends_the_program(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.require()
    task = asyncio.create_task(shell(sandbox, "echo > begun; sleep 100"))
    await asyncio.to_thread(until, lambda: bool(list((tmp_path / "work").glob("*/work/begun"))), 60)
    assert _processes_in(tmp_path)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(until, lambda: not _processes_in(tmp_path), 60)


@pytest.mark.req("AGT-02.1")
async def test_processes_are_limited(sandbox: Sandbox) -> None:
    code = """
import os, time
made = 0
try:
    for _ in range(500):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as problem:
    print(made < 40, problem.errno, flush=True)
os._exit(0)
"""
    assert printed(await run(sandbox, code)) == "True 11"
    bomb = await shell(sandbox, "bomb() { bomb | bomb & }; bomb; wait", timeout_seconds=2)
    assert bomb.data is not None or "was stopped" in str(bomb.error)  # and the fixture finds no process


@pytest.mark.req("AGT-02.1")
async def test_memory_is_limited_for_each_process_and_for_all_together(sandbox: Sandbox) -> None:
    alone = await run(sandbox, "x = bytearray(300_000_000)", memory_mb=128)
    together = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        x = bytearray(60_000_000)
        time.sleep(60)
time.sleep(60)
"""
    many = await run(sandbox, together, memory_mb=128)
    scratch = await shell(sandbox, "head -c 30000000 /dev/zero > /dev/shm/x || head -c 30000000 /dev/zero > /tmp/x")

    assert "MemoryError" in printed(alone)
    assert many.error == "code_execute was stopped: it used more than 128 MB of memory."
    assert isinstance(scratch.data, dict)
    assert scratch.data["exit_code"] != 0


@pytest.mark.req("AGT-02.1")
async def test_files_and_output_are_limited(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.tools.sandbox_usage.MAX_WORK_BYTES", 30_000_000)
    monkeypatch.setattr("artel.tools.sandbox_usage.MAX_WORK_ENTRIES", 50)

    one_file = await shell(sandbox, "head -c 25000000 /dev/zero > x; ls -l x | cut -d' ' -f5", task="1")
    many_bytes = await shell(sandbox, "for i in 1 2 3; do head -c 15000000 /dev/zero > x$i; done; sleep 60", task="2")
    many_files = await run(sandbox, "for i in range(80): open(str(i), 'w')", task="3")
    output = await run(sandbox, "for i in range(300_000): print('x' * 99)", output_bytes=2_000)

    assert printed(one_file).endswith("20000000")
    assert "its folder has more than" in str(many_bytes.error)
    assert "its folder has more than" in str(many_files.error)
    assert len(printed(output)) < 2_000
    assert isinstance(output.data, dict)
    assert "cut" in output.data


HIDDEN_FILES = """
import mmap, os, time
kept = []
for _ in range(8):
    file = open("file", "wb+")
    file.truncate(20_000_000)
    kept.append({kept})
    os.unlink("file")
file.close()
time.sleep(60)
"""


@pytest.mark.req("AGT-02.1")
@pytest.mark.parametrize("kept", ["file", "mmap.mmap(file.fileno(), 4096)"])
async def test_deleted_files_that_a_program_keeps_count(sandbox: Sandbox, kept: str) -> None:
    result = await run(sandbox, HIDDEN_FILES.replace("{kept}", kept))

    assert result.error == "code_execute was stopped: it kept more than 100000000 bytes of deleted files."


@pytest.mark.req("AGT-02.1")
async def test_what_a_program_keeps_counts_also_if_its_first_thread_has_ended(sandbox: Sandbox) -> None:
    code = """
import ctypes, os, threading, time
for _ in range(3):
    os.fork()
def keep():
    while int(open("/proc/self/statm").read().split()[0]):
        time.sleep(0.01)
    kept = bytearray(40_000_000)
    time.sleep(60)
threading.Thread(target=keep).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
    result = await run(sandbox, code, memory_mb=256)

    assert result.error == "code_execute was stopped: it used more than 256 MB of memory."


@pytest.mark.req("AGT-02.1")
async def test_files_and_memory_in_sockets_are_bounded(sandbox: Sandbox) -> None:
    setup = "import os, socket, time; pair = socket.socketpair(); "
    sent = "file = open('file', 'wb'); socket.send_fds(pair[0], [b'x'], [file.fileno()]); file.close(); time.sleep(60)"
    many = "os.fork(); kept = [socket.socketpair() for _ in range(100)]; time.sleep(60)"

    in_flight = await run(sandbox, setup + sent)
    sockets = await run(sandbox, setup + many, memory_mb=128)

    assert "or leaves files in a socket" in str(in_flight.error)
    assert sockets.error == "code_execute was stopped: it used more than 128 MB of memory."


NOBODY = None if os.geteuid() else 65_534


@contextmanager
def without_rights_of_root() -> Iterator[None]:
    """Be nobody for a while, if this process is root, who may look into every process."""
    group = os.getegid()
    if NOBODY:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if NOBODY:
            os.seteuid(0)
            os.setegid(group)


@pytest.mark.req("AGT-02.1")
def test_program_that_hides_is_not_taken_for_one_that_has_ended() -> None:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(shutil.copy(str(shutil.which("sleep")), folder))
        Path(folder).chmod(0o755)
        for mode in (0o755, 0o111):
            program.chmod(mode)
            with subprocess.Popen([program, "60"], user=NOBODY, group=NOBODY) as process:
                with without_rights_of_root():
                    found.append(used_by(process.pid))
                process.kill()

    readable, hidden = found
    assert readable is not None
    assert readable.memory > 0
    assert hidden is None


@pytest.mark.req("AGT-02.1")
def test_mappings_of_all_processes_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Used | None] = []
    for script in ("echo; read line", "(echo; read line); :"):
        with subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            if not found:
                size = len(Path(f"/proc/{process.pid}/maps").read_bytes())
                monkeypatch.setattr("artel.tools.sandbox_usage.MAX_MAPPINGS_BYTES", size + 100)
            found.append(used_by(process.pid))

    alone, with_child = found
    assert alone is not None
    assert with_child is None


@pytest.mark.req("AGT-02.1")
async def test_looks_take_at_most_half_of_the_time(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    await sandbox.require()
    looks: list[float] = []

    def slow_look(pid: int) -> Used | None:
        looks.append(time.monotonic())
        time.sleep(2 * LOOK_SECONDS)
        return used_by(pid)

    monkeypatch.setattr("artel.tools.sandbox.used_by", slow_look)
    await shell(sandbox, "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.05; done")

    assert len(looks) > 1
    assert all(later - earlier >= 4 * LOOK_SECONDS for earlier, later in pairwise(looks))


@pytest.mark.req("AGT-02.1")
async def test_ordinary_programs_with_processes_and_sockets_run(sandbox: Sandbox) -> None:
    code = """
import asyncio, multiprocessing, socket, subprocess, time
async def main():
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    print(len((await process.communicate(b"x" * 1_000_000))[0]))
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=ours)
    reader, _ = await asyncio.open_connection(sock=theirs)
    writer.writelines([b"x" * 500_000] * 2)
    print(len(await reader.readexactly(1_000_000)))
asyncio.run(main())
print(subprocess.run(["echo", "shell"], capture_output=True, text=True).stdout.strip())
with multiprocessing.Pool(2) as pool:
    print(pool.map(time.sleep, [0.3, 0.3]))
"""
    assert printed(await run(sandbox, code)).splitlines() == ["1000000", "1000000", "shell", "[None, None]"]


@pytest.mark.req("AGT-02.1")
async def test_no_memory_is_out_of_sight(sandbox: Sandbox) -> None:
    code = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
SHARED, PRIVATE, ANONYMOUS, HUGE, NEW_USER, SET_DUMPABLE = 1, 2, 0x20, 0x40000, 0x10000000, 4
for name, made in {
    "memfd_create": lambda: libc.memfd_create(b"x", 0),
    "shmget": lambda: libc.shmget(0, 4096, 0o1600),
    "shared": lambda: libc.mmap(None, 4096, 3, SHARED | ANONYMOUS, -1, 0),
    "huge": lambda: libc.mmap(None, 4096, 3, PRIVATE | ANONYMOUS | HUGE, -1, 0),
    "vmsplice": lambda: libc.vmsplice(1, None, 0, 0),
    "unshare": lambda: libc.unshare(NEW_USER),
    "clone": lambda: libc.syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine], NEW_USER | 17, 0, 0, 0, 0),
    "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "dumpable": lambda: libc.prctl(SET_DUMPABLE, 0, 0, 0, 0),
}.items():
    print(name, made(), ctypes.get_errno())
print(mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).write(b"private"))
try:
    open("/proc/self/oom_score_adj", "w")
except OSError as refused:
    print(refused.strerror, open("/proc/self/oom_score_adj").read())
"""
    refused = ["memfd_create", "shmget", "shared", "huge", "vmsplice", "unshare", "clone", "mount", "dumpable"]
    through_a_file = await run(
        sandbox,
        "import mmap, time; zero = open('/dev/zero', 'rb+'); kept = mmap.mmap(zero.fileno(), 4096); time.sleep(60)",
    )

    assert printed(await run(sandbox, code)).splitlines() == [
        *(f"{name} -1 1" for name in refused),
        "7",
        "Read-only file system 1000",
    ]
    assert str(through_a_file.error).startswith("code_execute was stopped: its memory can't be measured")


@pytest.mark.req("AGT-02.1")
async def test_work_folder_is_removed_whatever_a_program_made_of_it(sandbox: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    code = f"""
import os
os.symlink("{outside}", "link")
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
open("file", "w")
os.chmod(".", 0)
"""
    await run(sandbox, code)
    await sandbox.forget("task")

    assert list((tmp_path / "work").glob("*")) in ([], [tmp_path / "work/probe"])
    assert (outside / "kept.txt").read_text() == "kept"


@pytest.mark.req("AGT-02.1")
async def test_tenants_do_not_lose_folders_to_others_and_are_forgotten(
    tmp_path: Path, bwrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artel.tools.sandbox.MAX_WORK_FOLDERS", 4)
    shared = shared_tools(tmp_path, agent_file("shell", security={"shell": {"enabled": True}}))
    shared.sandbox = Sandbox(tmp_path / "work", bwrap)

    async def left_by(scope: TaskScope, command: str) -> str:
        return printed(await call(shared, scope, "shell", approved=True, command=command))

    await left_by(BOB, "echo kept > a")
    for number in range(5):
        await left_by(replace(ANN, task_id=str(number)), "echo kept > a")
    before = await left_by(BOB, "cat a")
    anns = [await left_by(replace(ANN, task_id=number), "cat a 2>/dev/null || echo lost") for number in "04"]
    await shared.forget(BOB.tenant)

    assert (before, anns) == ("kept", ["lost", "kept"])
    assert await left_by(BOB, "ls | wc -l") == "0"
    assert await left_by(replace(ANN, task_id="4"), "cat a") == "kept"


@pytest.mark.req("AGT-02.1")
async def test_nothing_runs_without_a_sandbox(broken_bwrap: str, tmp_path: Path) -> None:
    shared = shared_tools(tmp_path, agent_file("shell", security={"shell": {"enabled": True}}))

    shared.sandbox = Sandbox(tmp_path / "work", broken_bwrap)
    does_not_work = await call(shared, ANN, "shell", command=f"touch {tmp_path}/ran")
    shared.sandbox = missing = Sandbox(tmp_path / "work")
    missing._bwrap = None
    is_missing = await call(shared, ANN, "shell", approved=True, command=f"touch {tmp_path}/ran")

    assert "The sandbox does not work on the machine of this node" in str(does_not_work.error)
    assert "bubblewrap is not installed" in str(is_missing.error)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(SandboxUnavailable, match="install bubblewrap"):
        await missing.require()


@pytest.mark.req("AGT-02.7", "AGT-02.1")
async def test_node_runs_approved_programs_of_a_task_in_one_folder_and_leaves_nothing(
    tmp_path: Path, bwrap: str
) -> None:
    assert bwrap
    tools = {"enabled": ["shell"], "security": {"shell": {"enabled": True}}}
    scripts = [reply("", wants("shell", command="echo hello > a")), reply("", wants("shell", command="cat a"))]
    brain = NodeBrain(*scripts, reply("Done."))
    nodes = Nodes(LocalWorld(), tmp_path / "data")
    node, client = await nodes.start(node_file(tools=tools), brain), await nodes.client()
    space_tool = {"name": "tool_read_file", "description": "Reads.", "parameters": {"type": "object"}}

    async def go_on(parked: dict[str, Any], command: str) -> Any:
        params = {"state": parked["state"], "results": [approved(node, parked["calls"][0])]}
        return output_of(await client.ask(node, "continue", params, context={"task_id": "task-1"}, subject=command))

    params = {"text": "Try it.", "tools": [space_tool]}
    parked = output_of(await client.ask(node, "answer", params, subject="command-1"))
    assert brain.kinds[-1] == "answer"  # nothing was run, and the model was told nothing
    done = await go_on(await go_on(parked, "command-2"), "command-3")
    await nodes.close()

    told = [message.content for message in brain.asked[-1].messages if message.role == "tool"]
    assert '"output": "hello\\n"' in told[1]
    assert done["text"] == "Done."
    assert {path.name for path in (tmp_path / "data").glob("**/work/*") if path.name != "work"} == {"probe"}


@pytest.mark.req("AGT-02.12")
async def test_node_with_a_tool_that_is_not_installed_does_not_start(tmp_path: Path) -> None:
    nodes = Nodes(LocalWorld(), tmp_path / "data")

    with pytest.raises(ConfigurationInvalid, match="There is no tool not_installed"):
        await nodes.start(node_file(tools={"enabled": ["not_installed"]}))
    await nodes.close()


@pytest.mark.req("AGT-02.7", "AGT-02.8")
async def test_approved_program_runs_for_its_task_only(tmp_path: Path, bwrap: str) -> None:
    shared = shared_tools(tmp_path, agent_file("shell", security={"shell": {"enabled": True}}))
    shared.sandbox = Sandbox(shared.folder / "work", bwrap)

    ran = await call(shared, ANN, "shell", approved=True, command="echo secret > a; id -u")
    other = await call(shared, BOB, "shell", approved=True, command="ls | wc -l")
    await shared.end(ANN)

    assert int(printed(ran)) >= 60_000  # never root
    assert printed(other) == "0"
    assert len(list((shared.folder / "work").iterdir())) == 2  # of the probe and of the other task
