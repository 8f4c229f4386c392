"""Load a head by name: one that is shipped inside the package, or a folder."""

from pathlib import Path

from phrasedraft.drafters.head_file import default_head_path
from phrasedraft.drafters.phrase_head import PhraseHead


def shipped_heads() -> dict[str, Path]:
    """The heads inside this package, by the name of their target."""
    return {folder.name: folder for folder in sorted(default_head_path().parent.iterdir()) if folder.is_dir()}


def load_head(name: str | Path) -> PhraseHead:
    """The head `name`: that of an embedded target (`smollm2-135m`), or a folder written by `phrasedraft fit`.

    Raises `HeadFileError` for a folder that does not hold a whole head.
    """
    return PhraseHead.from_pretrained(shipped_heads().get(str(name), Path(name)))
