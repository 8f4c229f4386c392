"""From phrases in the order of their worth to a vocabulary of the size wanted."""

from collections.abc import Iterable, Iterator, Sequence, Set

from phrasedraft.phrases.settings import VocabularySettings
from phrasedraft.phrases.vocabulary import PhraseVocabulary


def fill(
    ranked: Iterable[Sequence[int]], ranked_tokens: Sequence[int], settings: VocabularySettings, *, close: bool
) -> PhraseVocabulary:
    """The first of `ranked` that find a place beside the single tokens, then these, most frequent first.

    With `close` a phrase brings those of its prefixes that are missing, right before it, and is passed over where there
    is no room for all of them. Single tokens take the places that are left.
    """
    reserved = ranked_tokens[: settings.num_single_tokens]
    kept: set[tuple[int, ...]] = {(token,) for token in reserved}
    phrases = list[tuple[int, ...]]()
    for phrase in map(tuple, ranked):
        room = settings.num_phrases - len(kept)
        if not room:
            break
        new = list(_missing(phrase, kept)) if close else [phrase]
        if len(new) <= room:
            kept.update(new)
            phrases.extend(part for part in reversed(new) if len(part) > 1)
    num_singles = settings.num_phrases - len(phrases)
    needed = {phrase[0] for phrase in kept if len(phrase) == 1}
    others = [token for token in ranked_tokens if token not in needed]
    chosen = needed.union(others[: num_singles - len(needed)])
    return PhraseVocabulary.from_phrases([*phrases, *((token,) for token in ranked_tokens if token in chosen)])


def _missing(phrase: tuple[int, ...], kept: Set[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """The phrase and its prefixes, longest first, down to one that is kept, whose own prefixes are kept too."""
    for length in range(len(phrase), 0, -1):
        if phrase[:length] in kept:
            return
        yield phrase[:length]
