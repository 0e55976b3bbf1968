"""Replies by rules: greetings, what to try, small sums, earlier messages, and summaries of tool results."""

# ruff: noqa: RUF001 - Russian and Chinese have letters and signs that look like others

import ast
import json
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from artel.brain.brain import Message, ToolCall, ToolSchema
from artel.brain.demo.user_words import Language, language_of, missing_tool, read_json
from artel.text import one_line

QUOTED_CHARACTERS = 140
REMEMBERED = 3

_ROLE = re.compile(r"(?i)\byou are ((?:the |an? )?[^.,;:\n]{3,80})")
_NAME = re.compile(r"(?i)(?:my name is|call me|меня зовут|我叫)\s*([\w-]{1,40})")

_HOW_TO = (
    "Add a real model while the server runs: an administrator does it under Administration → Models, or with "
    "`artel models add` (for example `artel models add ollama`).\n\n"
    "Or set one of these before the server starts:\n"
    "- `OPENAI_API_KEY` for OpenAI; `OPENAI_BASE_URL` as well for any other compatible server\n"
    "- `OLLAMA_API_BASE` (for example http://localhost:11434) for models on your own machine, named `ollama/…`\n"
    "- `ANTHROPIC_API_KEY`, `GEMINI_API_KEY` and the like for other providers\n"
    "`artel models list` then shows the models."
)
_SUGGESTIONS = {
    "tool_list_directory": "“list the files”",
    "list_files": "“list the files”",
    "tool_read_file": "“read README.md”",
    "tool_search_files": "“search for TODO”",
    "tool_write_file": "“write hello to notes.txt”",
    "write_file": "“write hello to notes.txt”",
}
_REVIEW = {"en": "“review this folder”", "ru": "«проверь эту папку»", "zh": "“检查这个文件夹”"}
_GREETINGS = {
    "ru": "Здравствуйте! Я демонстрационный мозг Artel: правила вместо модели. Попробуйте: {tries}. "
    "Настоящую модель можно добавить без перезапуска: Администрирование → Модели или `artel models add`.",
    "zh": "你好！我是 Artel 的演示大脑：只有规则，没有模型。可以试试：{tries}。"
    "想用真正的模型，可在“管理 → 模型”中添加，或运行 `artel models add`，无需重启服务器。",
}
_UNKNOWN = {
    "ru": "Вы написали: «{text}». Я демонстрационный мозг, то есть правила без модели, и ответить на это не могу. "
    "Попробуйте: {tries}. Настоящую модель можно добавить без перезапуска: Администрирование → Модели или "
    "`artel models add`.",
    "zh": "你写道：“{text}”。我是演示大脑，只有规则，没有模型，回答不了这个。可以试试：{tries}。"
    "在“管理 → 模型”中添加模型，或运行 `artel models add`，真正的模型就会来回答，无需重启服务器。",
}

_UNKNOWN_EN = (
    (
        "“{text}”: a real model would answer that as {role}. I am the demo brain, rules without a model. "
        "What I can do: {tries}. When you want more, ask “how do I add a real model?”."
    ),
    (
        "I have no rule for “{text}”. Rules are all that I am made of; a real model would think about it as {role}. "
        "Try {one}, or ask “what can you do?”."
    ),
    (
        "You wrote “{text}”, and I have kept it in this conversation. An answer takes a real model: "
        "ask “how do I add a real model?”. Meanwhile, try {one}."
    ),
)

MAX_TEXT = 1000
MAX_CHARACTERS = 100
MAX_EXPONENT = 64
MAX_VALUE = 10**30

# Typed signs and their Python operators; the escapes are the cross, the dot, the obelus and the minus.
_SIGNS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "^": "**"})
_QUESTION = re.compile(
    r"(?i)^\s*(?:(?:hey|please|ok|and|so|what(?:'s| is| are)|how much (?:is|are)|calculate|compute|work out"
    r"|сколько будет|посчитай|计算)[,:]?\s*)*"
)
_SUM = re.compile(r"[-+\s(]*\d[\d.\s()]*(?:(?:\*\*?|//?|[-+%])[-+\s(]*\d[\d.\s()]*)+")
_DATE = re.compile(r"\d+-\d+-\d+")
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}

# Tool results are only quoted, never read as commands.
SHOWN_ENTRIES = 12
SHOWN_LINES = 8
SHOWN_CHARACTERS = 400

# Keys under which a result holds its data.
_WRAPPERS = ("data", "result", "output", "entries", "files", "matches", "items", "content", "text")


@dataclass(frozen=True, slots=True)
class _Talk:
    """The user's last message, with its context."""

    text: str
    before: tuple[str, ...]
    role: str
    language: Language
    tries: str  # suggestions for what the user can try


def reply(messages: tuple[Message, ...], tools: tuple[ToolSchema, ...]) -> str:
    """Return the reply to the user's last message."""
    texts = [message.content.strip() for message in messages if message.role == "user"]
    text = texts[-1] if texts else ""
    missing = missing_tool(text, tools)
    if missing:
        how = "Tools are part of an agent's settings; for files of yours, run `artel connect DIR` as well."
        if any(tool.name.startswith("tool_") for tool in tools):
            how = (
                "Ask the team instead of one agent, and one that has it is chosen; or add it in this agent's settings."
            )
        return f"For that I would need `{missing}`, a tool that this agent does not have. {how}"
    # The role is in the first system message; later ones hold memory.
    role = _ROLE.search(next((message.content for message in messages if message.role == "system"), ""))
    language = language_of(text)
    tries = [_SUGGESTIONS[tool.name] for tool in tools if tool.name in _SUGGESTIONS]
    if any(tool.name == "tool_list_directory" for tool in tools):
        tries.insert(0, _REVIEW[language])
    shown = ", ".join(dict.fromkeys([*tries, "“17 * 23”", "“what did I say?”"]))
    talk = _Talk(text, tuple(texts[:-1]), role[1].strip() if role else "this agent", language, shown)
    answer = next((answer for words, answer in _ANSWERS if words.search(text)), _sum_or_unknown)
    return answer if isinstance(answer, str) else answer(talk)


def _greeting(talk: _Talk) -> str:
    if talk.language in _GREETINGS:
        return _GREETINGS[talk.language].format(tries=talk.tries)
    name = next((found[1] for text in (talk.text, *talk.before) if (found := _NAME.search(text))), "")
    again = " again" if talk.before else ""
    return (
        f"Hello{again}{f', {name}' if name else ''}! I am Artel's demo brain: rules, no model. "
        f"I stand in for {talk.role}. Try {talk.tries}, or ask “how do I add a real model?”."
    )


def _introduction(talk: _Talk) -> str:
    if talk.language in _GREETINGS:
        return _greeting(talk)
    return (
        f"I am the demo brain: a set of rules that stands in for {talk.role} until a real model is configured. "
        f"I can't reason, but I can show you around. Try {talk.tries}. With `artel connect DIR` I work on files of "
        "yours; changes need your approval. Ask “how do I add a real model?” for the rest."
    )


def _remembered(talk: _Talk) -> str:
    if not talk.before:
        return "This is the first thing that you have said in this conversation, as far as I can see."
    lines = [f"- {_quoted(text)}" for text in talk.before[-REMEMBERED:]]
    first = "You said:" if len(talk.before) <= REMEMBERED else f"The last {REMEMBERED} things that you said:"
    return "\n".join([first, *lines])


def _your_name(talk: _Talk) -> str:
    found = next((found for text in reversed(talk.before) if (found := _NAME.search(text))), None)
    return f"You are {found[1]}; you told me." if found else "You have not told me. Say “my name is …”."


def _noted(talk: _Talk) -> str:
    found = _NAME.search(talk.text)
    return (
        f"Pleased to meet you, {found[1] if found else 'friend'}. Ask me later what your name is. Or try {talk.tries}."
    )


def _sum_or_unknown(talk: _Talk) -> str:
    expression = find_sum(talk.text)
    if expression:
        try:
            return f"{expression} = {work_out(expression)}"
        except NoSum as problem:
            return f"I can't work out {expression}: {problem}."
    if not talk.text:
        return f"Your message is empty. Try {talk.tries}."
    # Vary the wording by the length of the conversation.
    wording = _UNKNOWN.get(talk.language) or _UNKNOWN_EN[len(talk.before) % len(_UNKNOWN_EN)]
    return wording.format(text=_quoted(talk.text), role=talk.role, tries=talk.tries, one=talk.tries.split(", ")[0])


_ANSWERS: tuple[tuple[re.Pattern[str], str | Callable[[_Talk], str]], ...] = tuple(
    (re.compile("|".join(words), re.IGNORECASE), answer)
    for answer, *words in (
        (
            _HOW_TO,
            r"\b(real|other|better|own|different) model|api.?key|\bOPENAI_|\bOLLAMA",
            r"\b(configure|set ?up|add|use|connect)\b.{0,40}\bmodel\b|настоящ\w+ модел|真正的模型",
        ),
        (
            _remembered,
            r"what did i (just )?(say|tell|write|ask)|what have i said",
            r"что я (сказал|писал|говорил)|我(刚才)?说了什么",
        ),
        (_your_name, r"(what('s| is) my name|who am i)\b|как меня зовут|我叫什么"),
        (
            _introduction,
            r"\b(who|what) are you|what can (you|i) do|^what is this\W*$|^help\b|introduce yourself",
            r"кто ты|что ты умеешь|你是谁|你能做什么",
        ),
        (
            _greeting,
            r"^\W*(hi|hello|hey|good (morning|afternoon|evening)|greetings)\b",
            r"^\W*(привет|здравствуй|добрый (день|вечер)|доброе утро|你好|您好|嗨)",
        ),
        (_noted, r"my name is|call me \w|меня зовут|我叫"),
        ("You are welcome. What next?", r"\b(thanks|thank you|спасибо)\b|谢谢"),
        (
            "Goodbye! The conversation stays here; come back to it whenever you like.",
            r"^\W*(bye|goodbye|see you|good night|пока|до свидания|再见)",
        ),
    )
)


def _quoted(text: str) -> str:
    return one_line(text.rstrip().rstrip("."), QUOTED_CHARACTERS)


class NoSum(ValueError):
    """The expression can't be evaluated; the text says why."""


def find_sum(text: str) -> str | None:
    """Return the expression in the text, if the text asks for nothing else."""
    if len(text) > MAX_TEXT:
        return None
    rest = _QUESTION.sub("", text, count=1).rstrip(" =?.!")
    is_sum = _SUM.fullmatch(rest.translate(_SIGNS)) and not _DATE.fullmatch(rest)
    return rest if is_sum else None


def work_out(text: str) -> str:
    """Return the value of an expression, formatted; raise NoSum if it can't be evaluated."""
    if len(text) > MAX_CHARACTERS:
        raise NoSum("it is too long for me")
    try:
        value = _value(ast.parse(text.translate(_SIGNS).strip(), mode="eval").body)
    except SyntaxError:
        raise NoSum("it is not written as a sum") from None
    except ZeroDivisionError:
        raise NoSum("it divides by zero") from None
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.10g}"


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(Fraction(str(number)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _value(left), _value(right)
            if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
                raise NoSum("its exponent is more than I can do")
            return _bounded(base ** int(exponent))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(op)](_value(left), _value(right)))
    raise NoSum("it is more than a small sum")


def _bounded(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) > MAX_VALUE:
        raise NoSum("its numbers are too large for me")
    return value


def summary(messages: tuple[Message, ...], results: list[Message]) -> str:
    """Return a summary of the results of the last tool calls."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    return "\n\n".join(_describe(calls.get(result.tool_call_id or ""), result.content) for result in results)


def _describe(call: ToolCall | None, content: str) -> str:
    name = call.name if call else "the tool"
    data, error = _unwrap(content)
    if error is not None:
        return f"That did not work. {name} says: {one_line(error, SHOWN_CHARACTERS)}"
    subject = _subject(call)
    if "write" in name or "edit" in name or "delete" in name:
        return f"Done: {subject or 'it'} is {'gone' if 'delete' in name else 'written'}."
    lines = _lines(data)
    if "list" in name:
        where = "the folder" if subject in ("", ".") else subject
        seen = f"In {where} I see {_counted(len(lines), 'entry', 'entries')}:\n{_bullets(lines)}"
        return seen if lines else f"There is nothing in {where} yet."
    if "search" in name:
        found = f"“{subject}” is found {_counted(len(lines), 'time', 'times')}:\n{_bullets(lines)}"
        return found if lines else f"Nothing found for “{subject}”."
    return _describe_text(subject or name, data)


def _unwrap(content: str) -> tuple[Any, str | None]:
    """Return the data of a result, and its error if it has one."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content, None
    while isinstance(value, dict):
        error = value.get("error")
        if error or value.get("success") is False:
            return None, error if isinstance(error, str) else json.dumps(error or "it failed", ensure_ascii=False)
        inner = next((key for key in _WRAPPERS if key in value), None)
        if inner is None:
            break
        value = value[inner]
    return value, None


def _subject(call: ToolCall | None) -> str:
    """Return the subject of a call: a path, a pattern or a command."""
    arguments = read_json(call.arguments) if call else None
    if not isinstance(arguments, dict):
        return ""
    values = (arguments.get("path") if "content" in arguments else None, *arguments.values())
    return next((one_line(str(value), 80) for value in values if value), "")


def _describe_text(subject: str, data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    lines = text.splitlines()
    if not text.strip():
        return f"{subject} is empty."
    beginning = "\n".join(lines[:SHOWN_LINES])
    ending = "\n…" if len(lines) > SHOWN_LINES or len(beginning) > SHOWN_CHARACTERS else ""
    quoted = "\n".join(f"> {line}" for line in (beginning[:SHOWN_CHARACTERS] + ending).splitlines())
    return f"{subject} has {_counted(len(lines), 'line', 'lines')}. It begins:\n{quoted}"


def _lines(data: Any) -> list[str]:
    if isinstance(data, str):
        return [line for line in data.splitlines() if line.strip()]
    if isinstance(data, dict):
        return [f"{key}: {value}" for key, value in data.items()]
    return [_entry(item) for item in data] if isinstance(data, Iterable) else [str(data)]


def _entry(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    name = next((str(item[key]) for key in ("path", "name", "file", "url") if item.get(key)), json.dumps(item))
    line = item.get("line") or item.get("line_number")
    text = item.get("text") or item.get("title") or item.get("snippet")
    return f"{name}{f':{line}' if line else ''}{f' {text}' if text else ''}"


def _bullets(lines: list[str]) -> str:
    shown = [f"- {one_line(line, 100)}" for line in lines[:SHOWN_ENTRIES]]
    if len(lines) > SHOWN_ENTRIES:
        shown.append(f"- … and {len(lines) - SHOWN_ENTRIES} more")
    return "\n".join(shown)


def _counted(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"
