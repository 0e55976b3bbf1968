"""The terminal output of an answer."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.cli.chat_screen import RESTARTED, AnswerPrinter, ChatScreen, StatusLine
from artel.cli.markdown_screen import MarkdownPrinter, end_of_blocks, split_blocks
from artel.cli.output import visible
from artel.cli.questions import ToolQuestion
from artel.client.api_client import ApiClient
from artel.client.conversation import Conversation
from artel.client.sse import ServerEvent
from artel.client.turn import StreamedAnswer as Answer
from artel.client.turn import TurnView


def printed(*answers: Answer) -> str:
    out = io.StringIO()
    printer = AnswerPrinter(out)
    for answer in answers:
        printer.show(answer)
    printer.end_line()
    return out.getvalue()


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that stay on a terminal, without those drawn over."""
    return [line.split("\x1b[J")[-1].rstrip() for line in capsys.readouterr().out.splitlines()]


def test_growing_answer_is_printed_once() -> None:
    assert printed(Answer(1, "Hel"), Answer(2, "Hello"), Answer(2, "Hello"), Answer(2, "Hello!", True)) == "Hello!\n"


def test_escape_sequence_in_two_pieces_is_shown_escaped() -> None:
    assert printed(Answer(1, "a\x1b[3"), Answer(2, "a\x1b[31mb", True)) == "a\\x1b[31mb\n"


def test_emoji_in_two_pieces_is_not_escaped() -> None:
    assert printed(Answer(1, "\u26a0"), Answer(2, "\u26a0\ufe0f!", True)) == "\u26a0\ufe0f!\n"


def test_restarted_answer_with_the_same_text_is_not_printed_twice() -> None:
    assert printed(Answer(1, "Hello"), Answer(2, ""), Answer(3, "Hel"), Answer(4, "Hello!", True)) == "Hello!\n"


def test_other_output_within_an_answer_has_its_own_line() -> None:
    out = io.StringIO()
    printer = AnswerPrinter(out)
    printer.show(Answer(1, "One"))
    printer.end_line()
    printer.end_line()
    out.write("[note]\n")
    printer.show(Answer(2, "One, two.", True))
    printer.end_line()

    assert out.getvalue() == "One\n[note]\n, two.\n"


def test_changed_answer_is_printed_again() -> None:
    printed_twice = printed(Answer(1, "Wrong"), Answer(2, ""), Answer(3, "Right"), Answer(4, "Right.", True))

    assert printed_twice == f"Wrong\n{RESTARTED}\nRight.\n"


@pytest.mark.req("CLI-01.3")
def test_text_before_a_tool_call_stays() -> None:
    before, called, after = Answer(1, "I look."), Answer(1, "I look.", tool_calls=1), Answer(2, "Done", tool_calls=1)
    improved = Answer(3, "Better.", tool_calls=1, complete=True)

    assert printed(before, called, Answer(2, "", tool_calls=1), after) == "I look.\nDone\n"
    assert printed(before, called, after, improved) == f"I look.\nDone\n{RESTARTED}\nBetter.\n"


@pytest.mark.req("CLI-01.3")
def test_rendered_text_is_complete_before_other_output(capsys: pytest.CaptureFixture[str]) -> None:
    printer = MarkdownPrinter()
    for number, text in enumerate(["I ", "I look ", "I look into **it**."]):  # faster than it is redrawn
        printer.show(Answer(number, text))
    printer.end_line()
    assert shown(capsys)[-1] == "I look into it."

    printer.show(Answer(3, "", tool_calls=1))
    printer.show(Answer(4, "It is done.", tool_calls=1, complete=True))
    assert shown(capsys) == ["", "It is done."]


@pytest.mark.req("CLI-01.3")
def test_rendered_text_of_an_unfinished_block_survives_a_tool_call(capsys: pytest.CaptureFixture[str]) -> None:
    printer = MarkdownPrinter()
    for answer in [Answer(1, "I look."), Answer(2, "", tool_calls=1), Answer(3, "Done.", tool_calls=1, complete=True)]:
        printer.show(answer)
    assert shown(capsys)[-3:] == ["I look.", "", "Done."]

    printer.show(Answer(4, "Better.", tool_calls=1, complete=True))
    assert shown(capsys) == [RESTARTED, "", "Better."]


def test_answer_that_gets_shorter_is_printed_again() -> None:
    assert printed(Answer(1, "Too much"), Answer(1, "Too", True)) == f"Too much\n{RESTARTED}\nToo\n"


@given(st.lists(st.text()), st.text())
def test_last_printed_text_is_the_whole_answer(pieces: list[str], final: str) -> None:
    answers = [Answer(n, "".join(pieces[: n + 1])) for n in range(len(pieces))]

    last = printed(*answers, Answer(0, final, True)).rsplit(f"{RESTARTED}\n", 1)[-1]

    assert last.removesuffix("\n") == visible(final).removesuffix("\n")


PLAN: dict[str, Any] = {
    "workflow_id": "w",
    "tasks": [{"id": name, "agent": "agent_coder", "description": name, "depends_on": []} for name in "ab"],
}
PIECE = ("message_delta", {"message_id": "m", "task_id": "t", "n": 1, "text": "All"})
WHOLE = ("message_completed", {"message_id": "m", "role": "assistant", "content": "All of it.", "agent_id": None})


class Watched(StatusLine):
    """An enabled status line that draws nothing."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.enabled = True


class NoConversation(Conversation):
    """A conversation with a server that can't be reached."""

    def __init__(self) -> None:
        super().__init__(ApiClient("http://127.0.0.1:1"), {"session_id": "s", "project_id": 1})


def test_answer_waits_for_the_end_of_all_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    turn, shown = TurnView(), []
    screen = ChatScreen(NoConversation(), Watched(), direct=False)
    screen.live = True
    done = [("task_completed", {"task_id": name, "result": "", "duration": 1.0}) for name in "ab"]
    for kind, data in [("task_plan_created", PLAN), done[0], PIECE, done[1], WHOLE]:
        turn.apply(ServerEvent(kind, {"turn_id": "t"} | data))
        screen.show(turn)
        shown.append(capsys.readouterr())
    screen.end(turn)

    assert [seen.out for seen in shown] == ["", "", "", "All", " of it."]
    assert shown[3].err == "  b  agent_coder is done after 1 s\n"


def test_answer_of_one_task_waits_for_its_agent_name(capsys: pytest.CaptureFixture[str]) -> None:
    turn, shown = TurnView(), []
    conversation = NoConversation()
    conversation._names[7] = "agent_coder"
    screen = ChatScreen(conversation, Watched(), direct=False, in_chat=True)
    screen.live = True
    started = ("task_started", {"task_id": "a", "agent_id": 7})
    for kind, data in [("task_plan_created", PLAN | {"tasks": PLAN["tasks"][:1]}), PIECE, started]:
        turn.apply(ServerEvent(kind, {"turn_id": "t"} | data))
        screen.show(turn)
        shown.append(capsys.readouterr().out)

    assert shown == ["", "", "agent_coder:\nAll"]


@pytest.mark.req("CLI-01.2")
@pytest.mark.parametrize(
    ("old", "words"), [("b", "No change: notes.txt already has this content."), ("", "notes.txt will be empty.")]
)
def test_write_with_an_empty_diff_is_not_shown_as_new_text(old: str, words: str) -> None:
    notes: list[str] = []
    request = {
        "approval_id": "a",
        "tool": "tool_write_file",
        "arguments": {"path": "notes.txt", "content": "all of it"},
        "details": {"diff": "", "old_sha256": old, "new_sha256": "b", "where": "terminal"},
    }

    ToolQuestion(NoConversation(), request, "agent_coder", lambda text, *_, **__: notes.append(text)).ask()

    assert notes[:2] == ["agent_coder wants to write notes.txt:", words]
    assert not any("all of it" in note for note in notes)


@pytest.mark.req("SEC-03.1", "SEC-03.3")
def test_question_shows_hidden_characters_and_warnings() -> None:
    notes: list[str] = []
    warning = "Would replace 10,000,001 bytes that are not shown and can't be undone."
    notice = "What is not shown has 1 hidden character (U+202E)."
    request = {
        "approval_id": "a",
        "tool": "tool_write_file",
        "arguments": {"path": "big.csv", "content": "x"},
        "details": {"diff": "+small\x9d\n", "warning": warning, "notice": notice, "where": "terminal"},
    }

    ToolQuestion(NoConversation(), request, "agent_coder", lambda text, *_, **__: notes.append(text)).ask()

    assert notes[:5] == [
        "agent_coder wants to write big.csv:",
        warning,
        notice,
        "This has 1 hidden character (U+009D); it is shown as \\x9d.",
        "+small\\x9d",
    ]


@pytest.mark.req("SEC-03.1")
def test_path_in_question_keeps_every_space() -> None:
    notes: list[str] = []
    request = {
        "approval_id": "a",
        "tool": "tool_delete_file",
        "arguments": {"path": "a  b\u00a0c\n.txt"},
        "details": {"where": "terminal"},
    }

    ToolQuestion(NoConversation(), request, "agent_coder", lambda text, *_, **__: notes.append(text)).ask()

    assert notes[0] == "agent_coder wants to delete a  b\u00a0c\\n.txt:"


@pytest.mark.req("SEC-03.1")
def test_argument_in_question_cannot_look_like_another() -> None:
    notes: list[str] = []
    request = {
        "approval_id": "a",
        "tool": "send_mail",
        "arguments": {"text": "Hi\nto: ada@example.org\n+b\n", "a\nto": "x", "to": "eve@x.org", "copies": [1, "2\n"]},
        "details": {"where": "terminal"},
    }

    ToolQuestion(NoConversation(), request, "agent_coder", lambda text, *_, **__: notes.append(text)).ask()

    assert notes[1:-1] == [
        "a\\nto: x",
        "to: eve@x.org",
        'copies: [1, "2\\n"]',
        "text: Hi",
        "  | to: ada@example.org",
        "  | +b",
        "  | ",
    ]


@pytest.mark.req("CLI-01.3")
@pytest.mark.parametrize("split", [split_blocks, end_of_blocks])
def test_splitting_an_answer_takes_linear_time(split: Callable[[str], object]) -> None:
    copied = 0

    class Text(str):
        """A text that counts the characters that are copied from it."""

        def __getitem__(self, key: Any) -> "Text":
            nonlocal copied
            part = Text(super().__getitem__(key))
            copied += len(part)
            return part

        def splitlines(self, keepends: bool = False) -> list[str]:
            nonlocal copied
            copied += len(self)
            return super().splitlines(keepends)

    def characters_copied(blocks: int) -> int:
        nonlocal copied
        copied = 0
        split(Text("a\n\n" * blocks))
        return copied

    assert 0 < characters_copied(4_000) < 5 * characters_copied(1_000)


@pytest.mark.req("CLI-01.3")
@pytest.mark.parametrize(
    ("text", "blocks", "finished"),
    [
        ("a\n\nb", ["a", "b"], "a\n\n"),
        ("- a\n\n  more\n\n- b\n\nc", ["- a\n\n  more", "- b", "c"], "- a\n\n  more\n\n- b\n\n"),
        ("a\n```py\nx\n\ny\n```\nb\n", ["a", "```py\nx\n\ny\n```", "b"], "a\n```py\nx\n\ny\n```\n"),
        ("````\n```\nx", ["````\n```\nx"], ""),
        ("\n\na\n\n\n", ["a"], ""),
    ],
)
def test_blocks_of_an_answer(text: str, blocks: list[str], finished: str) -> None:
    assert split_blocks(text) == blocks
    assert text[: end_of_blocks(text)] == finished
