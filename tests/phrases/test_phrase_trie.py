import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.phrases import PhraseTrie, PhraseVocabulary

phrase_lists = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple), max_size=30, unique=True)


def paths_of(trie: PhraseTrie) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for node in range(len(trie)):
        parent = int(trie.parents[node])
        assert parent < node
        paths.append((paths[parent] if parent >= 0 else ()) + (int(trie.tokens[node]),))
    return paths


@given(phrase_lists)
def test_the_nodes_are_all_prefixes_of_all_phrases_each_once(phrases):
    vocabulary = PhraseVocabulary.from_phrases(phrases)
    paths = paths_of(vocabulary.trie)
    assert len(paths) == len(set(paths))
    assert set(paths) == {phrase[:end] for phrase in phrases for end in range(1, len(phrase) + 1)}
    assert vocabulary.trie.depths.tolist() == [len(path) for path in paths] == sorted(map(len, paths))


@given(phrase_lists)
def test_the_phrases_of_a_node_are_those_that_begin_with_its_path(phrases):
    vocabulary = PhraseVocabulary.from_phrases(phrases)
    trie = vocabulary.trie
    assert sorted(trie.order.tolist()) == list(range(len(phrases)))
    for node, path in enumerate(paths_of(trie)):
        beginning = {phrase_id for phrase_id, phrase in enumerate(phrases) if phrase[: len(path)] == path}
        assert set(trie.order[trie.first[node] : trie.last[node]].tolist()) == beginning
        assert trie.phrase_ids[node] == (phrases.index(path) if path in phrases else -1)


def test_phrases_are_ordered_by_their_tokens_and_a_beginning_comes_first():
    vocabulary = PhraseVocabulary.from_phrases([(2,), (1, 3), (1,), (1, 2, 9)])
    assert vocabulary.trie.order.tolist() == [2, 3, 1, 0]


def test_an_empty_vocabulary_has_a_trie_without_nodes():
    for width in (0, 1, 4):
        trie = PhraseVocabulary(np.zeros((0, width), dtype=np.int32)).trie
        assert len(trie) == len(trie.order) == 0
