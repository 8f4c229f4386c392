"""Phrase drafting behind a model you have already loaded: one more argument to `model.generate`."""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from phrasedraft import load_head
from phrasedraft.integrations.transformers import phrase_generate
from phrasedraft.target.embedded import embedded_folder

model = AutoModelForCausalLM.from_pretrained(embedded_folder(), dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
inputs = tokenizer.apply_chat_template(
    [{"role": "user", "content": "What is 17 + 25?"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
)
generate = phrase_generate(load_head("smollm2-135m"))
drafted = model.generate(**inputs, custom_generate=generate, max_new_tokens=40, do_sample=False)
plain = model.generate(**inputs, max_new_tokens=40, do_sample=False)
print(tokenizer.decode(drafted[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))
print("identical:", torch.equal(drafted, plain), f"{generate.stats.mean_acceptance_length:.2f} tokens per pass")
