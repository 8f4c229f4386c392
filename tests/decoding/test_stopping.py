"""`Stopping` refuses what cannot be, with the name, the value and the range."""

import pytest
import torch

from phrasedraft import Stopping
from phrasedraft.errors import OptionError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_new_tokens": 0}, "`max_new_tokens` is `0`, it may be 1 or more"),
        ({"max_new_tokens": -3}, "`max_new_tokens` is `-3`"),
        ({"min_new_tokens": -1}, "`min_new_tokens` is `-1`, it may be 0 to `max_new_tokens`"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "`min_new_tokens` is `9`"),
        ({"stop_strings": ("END", "")}, "`stop_strings` holds an empty text"),
    ],
)
def test_a_setting_that_may_not_be_is_refused_by_name(settings, message):
    with pytest.raises(OptionError, match=message):
        Stopping(**settings)


def test_a_single_text_as_stop_strings_is_refused_with_the_cure(without_type_checks):
    with pytest.raises(OptionError, match="`stop_strings` is the text `END`") as error:
        Stopping(stop_strings="END")
    assert error.value.hint == "write `stop_strings=('END',)`"


def test_every_criterion_is_asked_even_after_one_has_agreed():
    asked = []

    def criterion(name, answer):
        return lambda tokens, scores: asked.append(name) or answer

    stopping = Stopping(criteria=(criterion("first", True), criterion("second", False)))
    assert stopping.meets_criterion(torch.tensor([[1, 2]]))
    assert asked == ["first", "second"]
    assert not Stopping().meets_criterion(torch.tensor([[1]]))


def test_settings_are_compared_by_value_and_cannot_be_changed():
    assert Stopping(max_new_tokens=3) == Stopping(max_new_tokens=3)
    with pytest.raises(AttributeError):
        Stopping().max_new_tokens = 5  # type: ignore[misc]
