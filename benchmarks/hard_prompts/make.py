"""Prompts on which drafting has little to gain: sentences to translate, and words drawn at random.

    python benchmarks/hard_prompts/make.py

The sentences are those of the bundled public-domain texts (phrasedraft/evaluation/data/README.md); the words are drawn
from the same texts with a fixed seed, so that they are tokens of many languages in no order.
"""

import json
import random
import re
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).parent
LANGUAGES = ("english", "german", "hindi", "telugu", "chinese")
NUM_SENTENCES = 3
NUM_RANDOM = 12
NUM_WORDS = 60


def text_of(language):
    return files("phrasedraft.evaluation").joinpath("data", "fertility", f"{language}.txt").read_text(encoding="utf-8")


def write(name, turns):
    lines = [json.dumps({"id": f"{name}-{number}", "turns": [turn]}, ensure_ascii=False) for number, turn in turns]
    (HERE / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    sentences = []
    for language in LANGUAGES:
        parts = [part.strip() for part in re.split(r"(?<=[.!?।。])\s*", text_of(language).replace("\n", " "))]
        goal = "German" if language == "english" else "English"
        sentences += [f"Translate into {goal}: {part}" for part in parts if 40 < len(part) < 300][:NUM_SENTENCES]
    write("translation", enumerate(sentences))
    draws = random.Random(0)
    words = [word for language in (*LANGUAGES, "code") for word in text_of(language).split()]
    write("random_words", enumerate(" ".join(draws.sample(words, NUM_WORDS)) for _ in range(NUM_RANDOM)))


if __name__ == "__main__":
    main()
