"""Load a drafter by name: a head that is shipped inside the package or lies in a folder, or one without weights."""

from collections.abc import Callable
from pathlib import Path

from phrasedraft.drafters.head_file import default_head_path
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.prompt_lookup import PromptLookup
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.drafters.suffix_automaton import SuffixAutomatonDrafter
from phrasedraft.drafters.token_recycling import TokenRecycling
from phrasedraft.errors import OptionError

TRAINING_FREE: dict[str, Callable[[], Drafter]] = {
    "prompt-lookup": PromptLookup,
    "suffix-automaton": SuffixAutomatonDrafter,
    "token-recycling": TokenRecycling,
}
"""The drafters that need no head, by name."""


def load_drafter(name: str) -> Drafter:
    """A new drafter of those that need no training: `prompt-lookup`, `suffix-automaton` or `token-recycling`.

    Raises `OptionError` for any other name.
    """
    if name not in TRAINING_FREE:
        raise OptionError(
            f"the drafter is `{name}`, it may be {', '.join(f'`{known}`' for known in TRAINING_FREE)}",
            hint="a head is loaded with `load_head`, and on the command line with `--head`",
        )
    return TRAINING_FREE[name]()


def shipped_heads() -> dict[str, Path]:
    """The heads inside this package, by the name of their target."""
    return {folder.name: folder for folder in sorted(default_head_path().parent.iterdir()) if folder.is_dir()}


def load_head(name: str | Path) -> PhraseHead:
    """The head `name`: that of an embedded target (`smollm2-135m`), or a folder written by `phrasedraft fit`.

    Raises `HeadFileError` for a folder that does not hold a whole head.
    """
    return PhraseHead.from_pretrained(shipped_heads().get(str(name), Path(name)))
