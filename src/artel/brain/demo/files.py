"""What the demo brain says about files that the user attached: it counts, but does not read."""

# ruff: noqa: RUF001 - Russian and Chinese have letters and signs that look like others

from collections.abc import Sequence

from artel.brain.brain import Message
from artel.brain.demo.user_words import Language
from artel.text import one_line

SHOWN_CHARACTERS = 80

_TEXT = {
    "en": "{name} has {lines:,} {unit} ({size:,} bytes){begin}.",
    "ru": "{name}: строк {lines:,}, байт {size:,}{begin}.",
    "zh": "{name} 有 {lines:,} 行（{size:,} 字节）{begin}。",
}
_BEGIN = {"en": " and begins with “{text}”", "ru": ", начало: «{text}»", "zh": "，开头是“{text}”"}
_IMAGE = {
    "en": "{name} is an image of {width} by {height} pixels; a model that takes images would look at it.",
    "ru": "{name} — изображение {width} на {height} пикселей; его рассмотрела бы модель, которая видит изображения.",
    "zh": "{name} 是 {width}×{height} 像素的图片；支持图片的模型会查看它。",
}


def files_of_last(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the files that are attached to the user's last message."""
    last = max((at for at, each in enumerate(messages) if each.role == "user" and each.file is None), default=-1)
    first = last
    while first > 0 and messages[first - 1].file is not None:
        first -= 1
    return list(messages[first:last])


def acknowledgement(files: Sequence[Message], language: Language) -> str:
    """Return a sentence about each file."""
    sentences = []
    for message in files:
        file = message.file
        if file is None:
            continue
        if file.is_image:
            sentences.append(_IMAGE[language].format(name=file.name, width=file.width, height=file.height))
        else:
            lines = file.lines or 0
            begin = _beginning(message.content)
            shown = _BEGIN[language].format(text=begin) if begin else ""
            unit = "line" if lines == 1 else "lines"
            fields = {"name": file.name, "lines": lines, "unit": unit, "size": file.size, "begin": shown}
            sentences.append(_TEXT[language].format(**fields))
    return "\n".join(sentences)


def _beginning(content: str) -> str:
    """Return the first line of a quoted text that is not empty."""
    quoted = content.partition("\n<<<")[2].partition("\n")[2].rpartition("\n")[0]
    return next((one_line(line, SHOWN_CHARACTERS) for line in quoted.split("\n") if line.strip()), "")
