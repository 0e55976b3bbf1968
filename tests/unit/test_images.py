"""Images in requests: tokens, reservations, and models that take none."""

import time
from dataclasses import replace

import pytest

from artel.brain.brain import AttachedFile, Completion, Message, Request, TokenSink, Usage
from artel.brain.errors import ContextTooLarge
from artel.brain.images import image_tokens
from artel.brain.openai_format import body_of
from artel.brain.retries import PaidBrain, RetryingBrain
from artel.brain.router import BrainRouter, ModelRules
from artel.brain.window import cut_file, estimated_tokens, fit_to_model

PHOTO = AttachedFile("a1", "photo.png", "image/png", 1000, width=1024, height=1024, image=b"pixels")
NOTES = AttachedFile("a2", "notes.txt", "text/plain", 1000, lines=1)


def quoted(text: str) -> Message:
    return Message("user", f"Head\n<<<mark\n{text}\nmark>>>", part="attachment", file=NOTES)


def request(*messages: Message, model: str = "gpt-4o", **fields: int) -> Request:
    messages = (*messages, Message("user", "Look"))
    return Request(model, messages, 0.0, 100, time.monotonic() + 60, **fields)  # type: ignore[arg-type]


@pytest.mark.req("CHT-20.3")
@pytest.mark.parametrize(
    ("width", "height", "model", "tokens"),
    [
        (512, 512, "gpt-4o", 350),  # by pixels: more than 85 + 170
        (1024, 1024, "gpt-4o", 1399),  # by pixels: more than 85 + 4 * 170
        (200, 10, "gpt-4o", 255),  # one tile
        (8000, 8000, "claude-sonnet-4-5", 1600),  # at most
        (600, 6000, "gpt-4o", 1600),
        (1024, 1024, "openai/gpt-4o-mini", 34 * 765),
    ],
)
def test_image_counts_by_the_larger_of_two_rules(width: int, height: int, model: str, tokens: int) -> None:
    assert image_tokens(replace(PHOTO, width=width, height=height), model) == tokens
    assert image_tokens(NOTES, model) == 0


class Budget:
    def __init__(self) -> None:
        self.reserved: list[float] = []

    async def reserve(self, amount: float) -> str:
        self.reserved.append(amount)
        return "r"

    async def settle(self, name: str, amount: float | None) -> None:
        pass


class Answers:
    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:  # noqa: ARG002
        self.asked.append(request)
        return Completion("Yes", (), "stop", Usage(request.model, 1, 1, 0.0, 1))

    async def close(self) -> None:
        pass


@pytest.mark.anyio
@pytest.mark.req("CHT-20.3")
async def test_reservation_and_estimate_include_the_image() -> None:
    brain, budget = RetryingBrain(lambda _: Answers()), Budget()
    photo = Message("user", "photo", part="attachment", file=PHOTO)

    await PaidBrain(brain, budget).complete(request(replace(photo, file=None)))
    await PaidBrain(brain, budget).complete(request(photo))

    without, with_image = budget.reserved
    assert with_image - without >= 1399 * 2.5e-6
    counted = [(await estimated_tokens(request(each), "", ()))[0] for each in (replace(photo, file=None), photo)]
    assert counted[1] - counted[0] == 1399


@pytest.mark.anyio
@pytest.mark.req("CHT-20.3")
async def test_model_that_takes_no_images_gets_a_note() -> None:
    answers = Answers()
    brain = RetryingBrain(lambda _: answers, takes_images=lambda model: model == "gpt-4o")
    photo = Message("user", "photo", part="attachment", file=PHOTO)

    await brain.complete(request(photo))
    await brain.complete(request(photo, model="gpt-4"))

    seen, blind = (body_of(asked, asked.model, frozenset(), stream=False)["messages"] for asked in answers.asked)
    assert [part["type"] for part in seen[0]["content"]] == ["text", "image_url", "text"]
    note = "[The image photo.png is attached, but left out: this model takes no images.]"
    assert blind == [{"role": "user", "content": f"{note}\n\nLook"}]


@pytest.mark.anyio
@pytest.mark.req("CHT-20.2")
async def test_attached_text_is_cut_to_fit_before_a_message_is_refused() -> None:
    fitted = await fit_to_model(request(quoted("word " * 3_000), quoted("short"), max_context_tokens=1_000))

    long, short, question = fitted.messages
    assert short == quoted("short")
    assert question.content == "Look"
    assert long.content.startswith("Head\n<<<mark\nword word")
    assert long.content.endswith(" …\n[The rest of notes.txt is left out here, because it is too long.]\nmark>>>")
    assert 2_000 < len(long.content) < 5_000
    with pytest.raises(ContextTooLarge, match="attach less"):
        await fit_to_model(request(Message("user", "x", part="attachment", file=PHOTO), max_context_tokens=1_000))


def test_text_that_is_cut_twice_has_one_note() -> None:
    once = cut_file(quoted("word " * 3_000), 500, lambda text: len(text) // 4)
    twice = cut_file(once, 200, lambda text: len(text) // 4)

    assert twice.content.count("left out here") == 1
    assert len(twice.content) < len(once.content) < 2_100


@pytest.mark.req("CHT-20.3")
def test_models_are_known_or_allowed_to_take_images() -> None:
    router = BrainRouter({"OPENAI_API_KEY": "x"}, ModelRules(with_images=["ollama/llava*"]))

    models = ["gpt-4o", "gpt-4", "ollama/llava:7b", "ollama/llama3", "somebody/new"]
    assert [model for model in models if router.takes_images(model)] == ["gpt-4o", "ollama/llava:7b"]
    assert BrainRouter({}).takes_images("gpt-4")  # the demo brain says what it is
