"""Unit tests of the connector's grants, questions, reconnect delay, diffs, command output and audit log."""

import difflib
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from artel.connector.audit_log import AuditLog
from artel.connector.commands import HEAD_BYTES, TAIL_BYTES, NamedCommand, Output
from artel.connector.decisions import EXPIRE_SECONDS, Decider, ProposedAction, Subject, UserAnswer
from artel.connector.diffs import diff
from artel.connector.errors import CallRefused
from artel.connector.file_search import ExpressionMatcher
from artel.connector.grants import Grant, Grants, glob_for
from artel.connector.rules import Ignored, WriteRule
from artel.contract.connector import DIFF_BYTES
from artel.errors import ConfigurationInvalid
from artel.paths.beneath import allow_all
from artel.paths.errors import FileChanged
from artel.paths.policy import PROTECTED, SECRET, is_protected, is_secret, matches

NAMES = st.from_regex(r"[a-zA-Z0-9_.-]{1,12}", fullmatch=True).filter(lambda name: name.strip("."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)


@given(PATHS, PATHS)
def test_offered_glob_matches_similar_files_in_the_same_folder(parts: tuple[str, ...], other: tuple[str, ...]) -> None:
    glob = glob_for(parts)

    if glob is None:
        assert is_protected(parts) or is_secret(parts)
        return
    assert matches(parts, (glob,))
    if len(other) != len(parts):
        assert not matches(other, (glob,))


@given(st.sampled_from(PROTECTED + SECRET), st.lists(NAMES, max_size=2), st.sampled_from(["**", "*", "**/*", "*.*"]))
def test_no_grant_allows_protected_or_secret_files(rule: str, above: list[str], glob: str) -> None:
    parts = (*above, *rule.replace("**", "x").replace("*", "x").split("/"))
    with tempfile.TemporaryDirectory() as folder:
        grants = Grants(Path(folder, "grants.json"))
        grants.add(Grant("write", glob), always=True)
        grants.add(Grant("write", "/".join(parts)), always=False)

        assert grants.for_write([parts]) is None
        assert grants.for_write([("plain.txt",), parts]) is None
    assert glob_for(parts) is None


@pytest.mark.parametrize("name", ["*.py", "a?", "[a]", "x*"])
def test_names_that_look_like_globs_are_not_offered(name: str) -> None:
    assert glob_for(("src", name)) is None


def test_unreadable_grants_allow_nothing(tmp_path: Path) -> None:
    for text in ("", "{", "[1]", '[{"kind": "write"}]', '{"a": 1}'):
        (tmp_path / "grants.json").write_text(text)
        assert Grants(tmp_path / "grants.json").for_write([("a",)]) is None


def test_file_is_written_only_under_names_that_were_checked() -> None:
    rule = WriteRule(Ignored(None), allow_all, "a", is_approved=False)
    rule(("a",))
    rule.again(("a",))

    with pytest.raises(FileChanged):
        rule.again((".git", "config"))


def test_search_is_refused_if_its_process_dies() -> None:
    matcher = ExpressionMatcher("a+", 10, 30)
    matcher.begin()
    assert matcher.find(b"x\naa\n") == [(2, "aa")]
    os.kill(matcher._process.pid, signal.SIGKILL)

    with pytest.raises(CallRefused, match="memory"):
        matcher.find(b"a" * 1_000_000)
    matcher.close()


class Asker:
    """Proposes to write a file, and asks the user in the terminal."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.shown: list[str] = []
        self.decider = Decider(
            "terminal",
            Grants(folder / "grants.json"),
            lambda question: self.shown.append(question.ask_id),
            lambda question: self.shown.remove(question.ask_id),
            lambda: self.now,
        )

    def propose(self, name: str = "a", old_sha256: str = "") -> str | None:
        """Return the hash that the file must have if the user has allowed to write it; else raise CallRefused."""
        subject = Subject("write", name, "1" * 64)
        proposal = ProposedAction(subject, "agent", "diff", None, is_granted=False, old_sha256=old_sha256)
        return self.decider.decide(proposal, None).sha256

    def ask(self, name: str = "a", old_sha256: str = "") -> str:
        with pytest.raises(CallRefused) as refused:
            self.propose(name, old_sha256)
        assert refused.value.code == "asks"
        return str(refused.value.more["ask_id"])


def test_expired_question_is_asked_again(tmp_path: Path) -> None:
    asker = Asker(tmp_path)
    first = asker.ask()
    asker.now = EXPIRE_SECONDS - 1
    assert asker.ask() == first

    asker.now = EXPIRE_SECONDS

    assert asker.decider.answer(first, UserAnswer(approved=True)) is None
    assert asker.decider.answers() == []
    assert asker.ask() != first


def test_question_stays_open_for_as_long_as_it_was_extended_but_at_most_a_day(tmp_path: Path) -> None:
    asker = Asker(tmp_path)
    ask_id = asker.ask()
    asker.decider.extend(ask_id, 2 * EXPIRE_SECONDS)
    asker.decider.extend(ask_id, 1.0)  # never shorter
    assert asker.decider.seconds_left(ask_id) == 2 * EXPIRE_SECONDS
    asker.now = 2 * EXPIRE_SECONDS - 1
    assert asker.ask() == ask_id
    asker.decider.extend(ask_id, 1e9)
    assert asker.decider.seconds_left(ask_id) == 86_400
    assert asker.shown == [ask_id]

    assert asker.decider.answer(ask_id, UserAnswer(approved=True)) is not None

    assert asker.propose() == ""
    assert asker.decider.seconds_left(ask_id) == 0
    with pytest.raises(CallRefused, match="answered already"):
        asker.decider.extend(ask_id, 60)


@pytest.mark.req("DEC-01.3")
@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abc"), max_size=40))
@example(list("abcabcabca"), list("abcabcabcb"))
def test_diff_has_the_line_numbers_of_the_whole_file(old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    whole = "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/x", "b/x"))
    shown = diff("x", before.encode(), after.encode()).text

    assert applied(shown, old) == applied(whole, old) == (new if whole else old)


def applied(patch: str, old: list[str]) -> list[str]:
    """Return what the lines become with a unified diff, which must fit at its line numbers."""
    result, done = list[str](), 0
    for line in patch.splitlines()[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            result, done = result + old[done:begin], begin
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert old[done] == line[1:]
            result, done = result + ([line[1:]] if line.startswith(" ") else []), done + 1
    return result + old[done:]


def test_answer_is_taken_once_and_expires(tmp_path: Path) -> None:
    asker = Asker(tmp_path)
    assert asker.decider.answer(asker.ask(), UserAnswer(approved=True)) is not None
    assert asker.propose() == ""

    second = asker.ask()
    assert asker.decider.answer(second, UserAnswer(approved=True)) is not None
    asker.now = 2 * EXPIRE_SECONDS
    assert asker.ask() != second


def test_first_answer_counts(tmp_path: Path) -> None:
    asker = Asker(tmp_path)
    ask_id = asker.ask()

    assert asker.decider.answer(ask_id, UserAnswer(approved=False)) is not None
    assert asker.decider.answer(ask_id, UserAnswer(approved=True)) is None
    with pytest.raises(CallRefused, match="said no"):
        asker.propose()


def test_question_about_a_file_that_changed_is_replaced(tmp_path: Path) -> None:
    asker = Asker(tmp_path)
    first = asker.ask()
    second = asker.ask(old_sha256="2" * 64)

    assert first != second
    assert asker.shown == [second]
    assert asker.decider.answer(first, UserAnswer(approved=True)) is None


def test_withdrawn_question_is_hidden_and_its_answer_dropped(tmp_path: Path) -> None:
    asker = Asker(tmp_path)
    asker.decider.settle(asker.ask("a"))
    answered = asker.ask("b")
    assert asker.decider.answer(answered, UserAnswer(approved=True)) is not None
    asker.decider.settle(answered)

    assert asker.shown == [answered]  # the terminal itself stops to show what was answered there
    assert asker.decider.answers() == []


def test_number_of_open_questions_is_bounded(tmp_path: Path) -> None:
    asker = Asker(tmp_path)
    for number in range(50):
        asker.ask(f"{number}")

    with pytest.raises(CallRefused, match="Too many questions"):
        asker.propose("more")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.text(max_size=300).map(str.encode))
def test_diff_is_empty_only_if_nothing_changes(old: bytes, new: bytes) -> None:
    shown = diff("a", old, new).text

    assert (shown == "") == (old == new)
    assert all(line[:1] in "+-@ \\" for line in shown.split("\n")) or "no text" in shown


def test_long_diff_is_cut() -> None:
    shown = diff("a", b"", b"some line\n" * 40_000).text
    too_long = diff("a", b"one line\n" * 4_000, b"some line\n" * 4_000).text
    hostile = diff("a", b"", b"\x01" * 400_000).text

    assert DIFF_BYTES - 100 < len(shown) < DIFF_BYTES + 100
    assert "cut" in shown
    assert "too long to compare" in too_long
    assert "cut" in hostile
    assert len(json.dumps(hostile)) < 2.1 * DIFF_BYTES
    assert diff("a", None, b"x").text.startswith("--- /dev/null\n+++ b/a\n")


@given(st.lists(st.integers(1, 40_000), max_size=8))
def test_output_keeps_its_head_and_its_tail(sizes: list[int]) -> None:
    output, whole = Output(), b""
    for number, size in enumerate(sizes):
        data = bytes([97 + number]) * size
        output.add(data)
        whole += data

    text = output.text.encode()

    assert output.is_cut == (len(whole) > HEAD_BYTES + TAIL_BYTES)
    if output.is_cut:
        assert text.startswith(whole[:HEAD_BYTES])
        assert text.endswith(whole[-TAIL_BYTES:])
        assert len(text) < HEAD_BYTES + TAIL_BYTES + 100
    else:
        assert text == whole


@given(st.text(max_size=30))
def test_command_line_parses_to_the_same_command_again(text: str) -> None:
    try:
        command = NamedCommand.parse(f"name={text}")
    except ConfigurationInvalid:
        return
    assert command.words
    assert NamedCommand.parse(f"name={command.line}") == command


def test_audit_log_is_rotated_and_bounded(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", max_bytes=1000)
    for number in range(200):
        log.add(number=number)

    files = sorted(path.name for path in tmp_path.iterdir())

    assert set(files) <= {"audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000
    newest = [json.loads(line) for line in (tmp_path / "audit.jsonl.1").read_text().splitlines()]
    assert newest[-1]["number"] > 180
