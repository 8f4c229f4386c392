"""Cases of targets whose weights are not where the inputs are."""

import pytest
import torch

import zoo
from kit import PROMPT, RightUntilDrafter, greedy_answer
from phrasedraft import Decoder, Stopping, TransformersTarget

accelerate = pytest.importorskip("accelerate")
CPU = torch.device("cpu")


@pytest.mark.parametrize("way", ["device map", "offload to memory", "offload to disk"])
def test_dev_two_gpus_a_model_that_accelerate_has_spread_out_works(way, tmp_path):
    """`dev-two-gpus`: a device map, and weights that are elsewhere (`meta`) until a layer runs."""
    model = zoo.build_model("llama")
    model = {
        "device map": lambda: accelerate.dispatch_model(model, {"": "cpu"}, force_hooks=True),
        "offload to memory": lambda: accelerate.cpu_offload(model, execution_device=CPU),
        "offload to disk": lambda: accelerate.disk_offload(model, tmp_path, execution_device=CPU),
    }[way]()
    placed = []

    class Placed(RightUntilDrafter):
        def place(self, device):
            placed.append(device)

    answer = greedy_answer("llama", 20)
    decoder = Decoder(TransformersTarget(model), Placed(answer), num_draft_tokens=4)
    generation = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=20))
    assert generation.tokens == answer
    assert generation.stats.num_accepted_tokens > 0
    assert placed == [CPU]
    assert any("not packed" in note for note in decoder.target.notes)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_dev_two_gpus_layers_on_two_devices_work():
    """`dev-two-gpus`: the real thing, where there are two devices."""
    model = zoo.build_model("llama")
    places = {"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": 1, "model.norm": 1, "lm_head": 1}
    model = accelerate.dispatch_model(model, {**places, "model.rotary_emb": 0})
    answer = greedy_answer("llama", 20)
    generation = Decoder(TransformersTarget(model), RightUntilDrafter(answer), num_draft_tokens=4).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20)
    )
    assert generation.tokens == answer
