"""Label selectors: what they select, and where a mistake is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.registry.selectors import MAX_CHARACTERS, SelectorInvalid, parse_selector

LABELS = {"env": "prod", "gpu": "", "cores": "8", "tier": "gold", "capability.write_article": "true"}

KEYS = st.sampled_from(["env", "gpu", "in", "notin", "a.b/c-d", "x_1", "8"])
VALUES = st.sampled_from(["a", "b", "in", "-3", "4", "10", "007", "x/y.z"])
Condition = tuple[str, str, list[str]]
CONDITIONS: st.SearchStrategy[Condition] = st.one_of(
    st.tuples(st.just("exists"), KEYS, st.just([])),
    st.tuples(st.just("not exists"), KEYS, st.just([])),
    st.tuples(st.sampled_from(["in", "notin"]), KEYS, st.lists(VALUES, min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["=", "==", "!="]), KEYS, st.lists(VALUES, min_size=1, max_size=1)),
    st.tuples(st.sampled_from([">", "<"]), KEYS, st.lists(st.sampled_from(["-3", "0", "7"]), min_size=1, max_size=1)),
)


def written(condition: Condition, space: str) -> str:
    operator, key, values = condition
    match operator:
        case "exists":
            return f"{space}{key}{space}"
        case "not exists":
            return f"{space}!{space}{key}{space}"
        case "in" | "notin":
            return f"{key} {operator}{space}({space}{f'{space},{space}'.join(values)}{space})"
    return f"{key}{space}{operator}{space}{values[0]}"


def holds(condition: Condition, labels: dict[str, str]) -> bool:
    """Evaluate a condition as the documentation of Kubernetes describes it."""
    operator, key, values = condition
    if operator in ("exists", "not exists"):
        return (key in labels) == (operator == "exists")
    if operator in ("in", "=", "=="):
        return key in labels and labels[key] in values
    if operator in ("notin", "!="):
        return key not in labels or labels[key] not in values
    if key not in labels or not re.fullmatch(r"-?\d{1,18}", labels[key]):
        return False
    number, limit = int(labels[key]), int(values[0])
    return number > limit if operator == ">" else number < limit


@pytest.mark.req("AGT-08.3")
@given(
    st.lists(CONDITIONS, max_size=5),
    st.dictionaries(KEYS, VALUES | st.sampled_from(["", "many", "9" * 19]), max_size=6),
    st.sampled_from(["", " ", "\t  "]),
)
def test_selector_agrees_with_a_simple_implementation(
    conditions: list[Condition], labels: dict[str, str], space: str
) -> None:
    selector = parse_selector(",".join(written(condition, space) for condition in conditions))

    assert selector.matches(labels) == all(holds(condition, labels) for condition in conditions)


@pytest.mark.req("AGT-08.3")
@pytest.mark.parametrize(
    ("text", "character", "expected"),
    [
        ("env in (a b)", 11, "a comma or )"),
        ("env in (a, )", 12, "a value"),
        ("env in a", 8, "( and values"),
        ("env in (a", 10, "a comma or )"),
        ("env = ", 7, "a value"),
        ("cores > many", 9, "a whole number"),
        ("env beta", 5, "in, notin, =, !=, >, <, a comma or the end"),
        ("env,,beta", 5, "the name of a label or !"),
        ("env,", 5, "the name of a label or !"),
        ("!", 2, "the name of a label"),
        ("env; beta", 4, "in, notin, =, !=, >, <, a comma or the end"),
        ("env in (ä)", 9, "a value"),
    ],
)
def test_mistake_in_a_selector_is_named_with_its_place(text: str, character: int, expected: str) -> None:
    with pytest.raises(SelectorInvalid) as refused:
        parse_selector(text)

    assert f"at character {character}: expected {expected}" in refused.value.detail


def test_selector_is_bounded_and_an_empty_one_selects_everything() -> None:
    assert parse_selector("  ").matches({})
    assert parse_selector("a," * (MAX_CHARACTERS // 2 - 1) + "aa").matches({"a": "", "aa": ""})
    with pytest.raises(SelectorInvalid, match="1001 characters"):
        parse_selector("a" * (MAX_CHARACTERS + 1))


@given(st.text(alphabet="ab ,()!=<>in-1é\n", max_size=40))
def test_any_text_is_parsed_or_refused_with_a_place(text: str) -> None:
    try:
        parse_selector(text).matches(LABELS)
    except SelectorInvalid as refused:
        character = re.search(r"at character (\d+)", refused.detail)
        assert character
        assert 1 <= int(character[1]) <= len(text) + 1
