"""Phrase drafting behind transformers' own `model.generate(...)`.

    generate = phrase_generate(head)
    model.generate(**inputs, custom_generate=generate, max_new_tokens=64)

transformers prepares everything (processors, stopping criteria, lengths, cache) and hands the loop to us. With a
callable `custom_generate` it drops three arguments on the way: `streamer`, which is taken back from the call,
`assistant_model`, which has no effect (with a warning), and `tokenizer`, without which it refuses `stop_strings`. Give
those as `StopStringCriteria(tokenizer, [...])`, or call `PhraseGenerate.generate(model, ...)`, which takes them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteriaList,
    StopStringCriteria,
)
from transformers.generation import GenerateDecoderOnlyOutput
from transformers.generation.streamers import BaseStreamer

from phrasedraft.budget import NumDraftTokens
from phrasedraft.choice import Choice
from phrasedraft.decoding import Decoder, DecodingStats, FinishReason, Session, Stopping
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.errors import OptionError
from phrasedraft.integrations.arguments import check_arguments, dropped_arguments, of_row, reusable_cache, unpadded
from phrasedraft.target import TransformersTarget


@dataclass
class Recorder:
    """A logits processor that changes nothing and keeps the rows it sees: one for each token of the text."""

    rows: list[Float[Tensor, "1 vocab"]]

    def __call__(self, _: Int[Tensor, "1 seq"], scores: Float[Tensor, "1 vocab"]) -> Float[Tensor, "1 vocab"]:
        """The scores as they came."""
        self.rows.append(scores.clone())
        return scores


class PhraseGenerate:
    """A `custom_generate` for transformers: phrase drafting with the arguments users already have.

    `stats` are those of the last call, all its rows together. Sampled text is drawn with a seed from torch's global
    generator, so `torch.manual_seed` repeats it; it is distributed as transformers' own sampling, not equal to it.
    `num_draft_tokens` is as `Decoder` has it: a number, or "auto".
    """

    def __init__(
        self, drafter: Drafter, *, num_draft_tokens: NumDraftTokens = 8, streamer: BaseStreamer | None = None
    ) -> None:
        self._drafter = drafter
        self._num_draft_tokens = num_draft_tokens
        self._streamer = streamer
        self._decoder: Decoder | None = None
        self.stats = DecodingStats()

    def generate(
        self,
        model: PreTrainedModel,
        *inputs: Any,
        streamer: BaseStreamer | None = None,
        tokenizer: Any = None,
        stop_strings: str | list[str] | None = None,
        **arguments: Any,
    ) -> Any:
        """`model.generate(...)` with phrase drafting, `streamer`, `tokenizer` and `stop_strings` included."""
        if stop_strings:
            if tokenizer is None:
                raise OptionError(
                    "`stop_strings` were given without `tokenizer`", hint="pass `tokenizer=tokenizer` too"
                )
            criteria = arguments.pop("stopping_criteria", None) or []
            arguments["stopping_criteria"] = StoppingCriteriaList(
                [*criteria, StopStringCriteria(tokenizer, stop_strings)]
            )
        bound = PhraseGenerate(
            self._drafter, num_draft_tokens=self._num_draft_tokens, streamer=streamer or self._streamer
        )
        bound._decoder = self._decoder
        output = model.generate(*inputs, custom_generate=bound, **arguments)
        self._decoder, self.stats = bound._decoder, bound.stats
        return output

    def __call__(
        self,
        model: PreTrainedModel,
        input_ids: Int[Tensor, "batch seq"],
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **model_kwargs: Any,
    ) -> Any:
        """The loop transformers calls; returns what `generate` returns."""
        given, assistant = dropped_arguments()
        if assistant is not None:
            warnings.warn("`assistant_model` has no effect: the phrase head drafts", UserWarning, stacklevel=2)
        streamer = self._streamer or given
        check_arguments(input_ids, generation_config, model_kwargs, has_streamer=streamer is not None)
        if streamer is not None and streamer is not given:  # transformers puts the prompt into the one it is given
            streamer.put(input_ids.cpu())
        decoder = self._decoder_for(model)
        self.stats = DecodingStats()
        call = _Call(decoder, logits_processor, stopping_criteria, generation_config, streamer)
        rows = []
        for row in range(input_ids.shape[0]):
            prompt, padding = unpadded(input_ids[row], model_kwargs, row)
            cache = reusable_cache(model_kwargs, num_rows=input_ids.shape[0], num_padding=padding.shape[1])
            mine = replace(call, processors=of_row(logits_processor, row, num_rows=input_ids.shape[0]))
            rows.append(self._one(mine, prompt, padding, cache))
        return _output(input_ids, rows, generation_config)

    def _decoder_for(self, model: PreTrainedModel) -> Decoder:
        if self._decoder is None or self._decoder.target.model is not model:
            target = TransformersTarget(model)
            self._decoder = Decoder(target, self._drafter, num_draft_tokens=self._num_draft_tokens)
        return self._decoder

    def _one(
        self, call: "_Call", prompt: list[int], padding: Int[Tensor, "1 pad"], cache: DynamicCache | None
    ) -> "Row":
        config = call.config
        raw, processed = Recorder([]), Recorder([])
        wrapped: list[Any] = [_Padded(processor, padding) for processor in call.processors]
        if config.output_logits:
            wrapped.insert(0, raw)
        if config.output_scores:
            wrapped.append(processed)
        choice = Choice(
            temperature=1.0 if config.do_sample else 0.0,
            processors=tuple(wrapped),
            seed=int(torch.randint(2**62, (1,)).item()) if config.do_sample else None,
        )
        # The criteria transformers prepared hold its own rules for EOS and length, so ours stay out of the way.
        stopping = Stopping(
            max_new_tokens=config.max_length - padding.shape[1] - len(prompt),
            ignore_eos=True,
            criteria=(_Padded(call.criteria, padding),) if len(call.criteria) else (),
        )
        stream = call.decoder.stream(prompt, choice, stopping, session=self._session(call, prompt, cache))
        tokens = []
        for piece in stream:
            tokens.append(piece.token)
            if call.streamer is not None:
                call.streamer.put(torch.tensor([piece.token]))
        if call.streamer is not None:
            call.streamer.end()
        self.stats.add(stream.stats)
        if stream.result.finish_reason is FinishReason.CONTEXT:
            warnings.warn(
                f"the text ends at the {call.decoder.target.context_limit} positions the target was made for; without "
                "`custom_generate` it would go on beyond them",
                UserWarning,
                stacklevel=2,
            )
        return Row(tokens, raw.rows, processed.rows)

    def _session(self, call: "_Call", prompt: list[int], cache: DynamicCache | None) -> Session | None:
        """The place in a cache that was passed in, None to start with an empty one."""
        if cache is None:
            return None
        target, features = call.decoder.target, self._drafter.features
        sequence = target.start(features, cache)
        return Session(target, features, sequence=sequence, cached_tokens=prompt[: sequence.num_cached_tokens])


@dataclass(frozen=True)
class _Call:
    """One call of `generate`, as transformers prepared it."""

    decoder: Decoder
    processors: LogitsProcessorList
    criteria: StoppingCriteriaList
    config: GenerationConfig
    streamer: BaseStreamer | None


def phrase_generate(
    drafter: Drafter, *, num_draft_tokens: NumDraftTokens = 8, streamer: BaseStreamer | None = None
) -> PhraseGenerate:
    """What to pass as `custom_generate`; keep it, since it remembers what it found out about the model."""
    return PhraseGenerate(drafter, num_draft_tokens=num_draft_tokens, streamer=streamer)


@dataclass(frozen=True)
class Row:
    """The new tokens of one row, and the recorded logits before and after processing."""

    tokens: list[int]
    logits: list[Float[Tensor, "1 vocab"]]
    scores: list[Float[Tensor, "1 vocab"]]


@dataclass(frozen=True)
class _Padded:
    """A processor or criterion that is shown the row's padding again, as transformers shows it."""

    function: Callable[..., Any]
    padding: Int[Tensor, "1 pad"]

    def __call__(self, input_ids: Int[Tensor, "1 seq"], scores: Any) -> Any:
        shown = torch.cat([self.padding.to(input_ids.device), input_ids], dim=1) if self.padding.shape[1] else input_ids
        return self.function(shown, scores)


def _output(input_ids: Int[Tensor, "batch seq"], rows: list[Row], config: GenerationConfig) -> Any:
    longest = max(len(row.tokens) for row in rows)
    eos = config.eos_token_id
    pad = config.pad_token_id if config.pad_token_id is not None else (eos[0] if isinstance(eos, list) else eos)
    new = torch.full((len(rows), longest), pad if pad is not None else 0, dtype=input_ids.dtype)
    for index, row in enumerate(rows):
        new[index, : len(row.tokens)] = torch.tensor(row.tokens)
    sequences = torch.cat([input_ids, new.to(input_ids.device)], dim=1)
    if not config.return_dict_in_generate:
        return sequences
    if (config.output_scores or config.output_logits) and len(rows) > 1:
        warnings.warn("`scores` and `logits` are those of the first row only", UserWarning, stacklevel=2)
    return GenerateDecoderOnlyOutput(
        sequences=sequences,
        scores=tuple(rows[0].scores) if config.output_scores else None,
        logits=tuple(rows[0].logits) if config.output_logits else None,
    )
