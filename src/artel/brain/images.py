"""Images in requests: how many tokens they count, and the notes that replace them for models that take none.

Models count images in different ways. All are counted here by the larger one of two published rules. The first is
OpenAI's: the image is scaled down to 2,048 pixels at most and then to 768 at its shorter side, and costs 85 tokens and
170 for each tile of 512 by 512 pixels. The second is Anthropic's: a token for 750 pixels, at most 1,600.
"""

import math
import re
from collections.abc import Callable
from dataclasses import replace

from artel.brain.brain import AttachedFile, Message, Request

LONGER_SIDE = 2_048
SHORTER_SIDE = 768
TILE = 512
BASE_TOKENS = 85
TILE_TOKENS = 170
PIXELS_PER_TOKEN = 750
MOST_BY_PIXELS = 1_600
# Models that count the same tiles as more tokens, at a lower price for each.
_MANY_TOKENS = re.compile(r"gpt-4o-mini")
MANY_TIMES = 34


def image_tokens(file: AttachedFile | None, model: str) -> int:
    """Return how many tokens an image counts; 0 for other files."""
    if file is None or file.width is None or file.height is None:
        return 0
    width, height = float(file.width), float(file.height)
    by_pixels = min(MOST_BY_PIXELS, math.ceil(width * height / PIXELS_PER_TOKEN))
    scale = min(1.0, LONGER_SIDE / max(width, height))
    scale *= min(1.0, SHORTER_SIDE / (min(width, height) * scale))
    tiles = math.ceil(width * scale / TILE) * math.ceil(height * scale / TILE)
    by_tiles = BASE_TOKENS + TILE_TOKENS * tiles
    return max(by_pixels, by_tiles * (MANY_TIMES if _MANY_TOKENS.search(model) else 1))


def without_images(messages: tuple[Message, ...], why: str) -> tuple[Message, ...]:
    """Return the messages with a note in place of each image."""
    return tuple(_note(message, why) for message in messages)


def for_model(request: Request, takes_images: Callable[[str], bool]) -> Request:
    """Return the request without images if its model takes none, which may be the fallback of one that does."""
    if not any(message.file is not None and message.file.is_image for message in request.messages):
        return request
    if takes_images(request.model):
        return request
    return replace(request, messages=without_images(request.messages, "this model takes no images"))


def _note(message: Message, why: str) -> Message:
    file = message.file
    if file is None or not file.is_image:
        return message
    no_image = replace(file, width=None, height=None, image=b"")
    return replace(message, content=f"[The image {file.name} is attached, but left out: {why}.]", file=no_image)
