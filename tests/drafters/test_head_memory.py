"""What the shipped head costs in memory: its weights, its phrases, and the state of one text."""

import subprocess
import sys

LIMIT_MEGABYTES = 60

SCRIPT = """
import gc, psutil, torch
import phrasedraft.decoding
from phrasedraft import DraftBudget, load_head

process = psutil.Process()
gc.collect()
before = process.memory_info().rss
head = load_head("smollm2-135m")
width = 576 * len(head.features.layers)
state = head.begin([1, 2], 5, torch.randn(2, width), lambda tokens: torch.randn(len(tokens), 576))
with torch.inference_mode():
    for _ in range(100):
        tree = head.propose(state, DraftBudget(num_draft_tokens=46, max_depth=60))
        head.update(state, [7], torch.randn(1, width))
gc.collect()
assert tree.num_draft_tokens == 46
print((process.memory_info().rss - before) / 1e6)
"""


def test_head_phrases_and_tree_state_stay_under_60_megabytes() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert 5 < float(run.stdout) < LIMIT_MEGABYTES
