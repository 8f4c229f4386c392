"""Load a drafter by name: a head that is shipped inside the package or lies in a folder, or one without weights."""

from collections.abc import Callable, Sequence
from pathlib import Path

from phrasedraft.drafters.head import Head
from phrasedraft.drafters.head_config import PHRASE, PHRASE_CHAIN, TOKEN_CHAIN
from phrasedraft.drafters.head_file import default_head_path, kind_of
from phrasedraft.drafters.merged import merge_drafters
from phrasedraft.drafters.online_phrases import OnlineSettings
from phrasedraft.drafters.online_vocabulary import OnlineVocabulary
from phrasedraft.drafters.phrase_chain import PhraseChain
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.prompt_lookup import PromptLookup
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.drafters.suffix_automaton import SuffixAutomatonDrafter
from phrasedraft.drafters.token_chain import TokenChain
from phrasedraft.drafters.token_recycling import TokenRecycling
from phrasedraft.drafters.trained_head import TrainedHead
from phrasedraft.errors import OptionError

TRAINING_FREE: dict[str, Callable[[], Drafter]] = {
    "prompt-lookup": PromptLookup,
    "suffix-automaton": SuffixAutomatonDrafter,
    "token-recycling": TokenRecycling,
    OnlineVocabulary.name: OnlineVocabulary,
}
"""The drafters that need no head, by name."""

MIN_MATCH_BESIDE = 3
"""What others propose is better than what an online vocabulary makes of a shorter match."""

HEADS: dict[str, Callable[[Path], Head]] = {
    PHRASE: PhraseHead.from_pretrained,
    TOKEN_CHAIN: TokenChain.from_pretrained,
    PHRASE_CHAIN: PhraseChain.from_pretrained,
}
"""How each kind of head is read, by its `speculators_model_type`."""


def load_drafter(name: str) -> Drafter:
    """A new drafter: one of `TRAINING_FREE` by its name, or a head by its name or folder.

    Names joined by `+`, such as `smollm2-135m+suffix-automaton`, make one drafter whose trees are grown from all of
    them; an `online-vocabulary` there also drafts tokens that the head beside it has no entry for. Raises `OptionError`
    for any other name, `HeadFileError` for a folder that does not hold a whole head.
    """
    if "+" in name and not Path(name).is_dir():
        return merge_drafters(load_each(name.split("+")))
    if name not in TRAINING_FREE and name and (name in shipped_heads() or Path(name).is_dir()):
        return load_head(name)
    if name not in TRAINING_FREE:
        raise OptionError(
            f"the drafter is `{name}`, it may be {', '.join(f'`{known}`' for known in TRAINING_FREE)}",
            hint="a head is loaded with `load_head`, and on the command line with `--head`",
        )
    return TRAINING_FREE[name]()


def load_each(names: Sequence[str], beside_head: Drafter | None = None) -> list[Drafter]:
    """A drafter for each name; the online vocabulary is given the head beside it, where there is one.

    That is the first head named, unless `beside_head` is one that was loaded already.
    """
    drafters = {place: load_drafter(name) for place, name in enumerate(names) if name != OnlineVocabulary.name}
    known: list[Drafter] = [*([beside_head] if beside_head is not None else []), *drafters.values()]
    head = next((drafter for drafter in known if isinstance(drafter, TrainedHead)), None)
    beside = OnlineSettings(min_match=MIN_MATCH_BESIDE)
    return [drafters[place] if place in drafters else OnlineVocabulary(head, beside) for place in range(len(names))]


def shipped_heads() -> dict[str, Path]:
    """The heads inside this package by name; the one that a target comes with has the name of that target."""
    return {folder.name: folder for folder in sorted(default_head_path().parent.iterdir()) if folder.is_dir()}


def load_head(name: str | Path) -> Head:
    """The head `name`, of whichever kind: that of an embedded target (`smollm2-135m`), or a folder `fit` wrote.

    Raises `HeadFileError` for a folder that does not hold a whole head.
    """
    folder = shipped_heads().get(str(name), Path(name))
    return HEADS[kind_of(folder)](folder)
