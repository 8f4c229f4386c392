"""Load a drafter by name: a head that is shipped inside the package or lies in a folder, or one without weights."""

from collections.abc import Callable
from pathlib import Path

from phrasedraft.drafters.head import Head
from phrasedraft.drafters.head_config import PHRASE, PHRASE_CHAIN, TOKEN_CHAIN
from phrasedraft.drafters.head_file import default_head_path, kind_of
from phrasedraft.drafters.merged import merge_drafters
from phrasedraft.drafters.phrase_chain import PhraseChain
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.prompt_lookup import PromptLookup
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.drafters.suffix_automaton import SuffixAutomatonDrafter
from phrasedraft.drafters.token_chain import TokenChain
from phrasedraft.drafters.token_recycling import TokenRecycling
from phrasedraft.errors import OptionError

TRAINING_FREE: dict[str, Callable[[], Drafter]] = {
    "prompt-lookup": PromptLookup,
    "suffix-automaton": SuffixAutomatonDrafter,
    "token-recycling": TokenRecycling,
}
"""The drafters that need no head, by name."""

HEADS: dict[str, Callable[[Path], Head]] = {
    PHRASE: PhraseHead.from_pretrained,
    TOKEN_CHAIN: TokenChain.from_pretrained,
    PHRASE_CHAIN: PhraseChain.from_pretrained,
}
"""How each kind of head is read, by its `speculators_model_type`."""


def load_drafter(name: str) -> Drafter:
    """A new drafter: `prompt-lookup`, `suffix-automaton`, `token-recycling`, or a head by its name or folder.

    Names joined by `+`, such as `smollm2-135m+suffix-automaton`, make one drafter whose trees are grown from all of
    them. Raises `OptionError` for any other name, `HeadFileError` for a folder that does not hold a whole head.
    """
    if "+" in name and not Path(name).is_dir():
        return merge_drafters([load_drafter(part) for part in name.split("+")])
    if name not in TRAINING_FREE and name and (name in shipped_heads() or Path(name).is_dir()):
        return load_head(name)
    if name not in TRAINING_FREE:
        raise OptionError(
            f"the drafter is `{name}`, it may be {', '.join(f'`{known}`' for known in TRAINING_FREE)}",
            hint="a head is loaded with `load_head`, and on the command line with `--head`",
        )
    return TRAINING_FREE[name]()


def shipped_heads() -> dict[str, Path]:
    """The heads inside this package, by the name of their target."""
    return {folder.name: folder for folder in sorted(default_head_path().parent.iterdir()) if folder.is_dir()}


def load_head(name: str | Path) -> Head:
    """The head `name`, of whichever kind: that of an embedded target (`smollm2-135m`), or a folder `fit` wrote.

    Raises `HeadFileError` for a folder that does not hold a whole head.
    """
    folder = shipped_heads().get(str(name), Path(name))
    return HEADS[kind_of(folder)](folder)
