"""What `phrasedraft generate` does: encode, stream, verify, report."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from phrasedraft.budget import AUTO, NumDraftTokens
from phrasedraft.choice import Choice
from phrasedraft.cli.console import data_console, note_console, print_json
from phrasedraft.cli.drafted_text import DraftedText
from phrasedraft.cli.loading import Loaded, choice_of, has_chat_template, load, stopping_of
from phrasedraft.cli.options import ChoiceOptions, DraftingOptions, StoppingOptions
from phrasedraft.decoding import DecodingStats, Divergence, Generation, Piece, Stopping, first_divergence
from phrasedraft.errors import OptionError, PromptError
from phrasedraft.target import TransformersTarget


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """What is asked of one answer beside how it is decoded."""

    nodes: NumDraftTokens
    chat: bool | None
    system: str | None
    logprobs: bool
    show_drafts: bool
    verify: bool
    stats: bool
    as_json: bool


def answer(
    prompt: str,
    target_options: DraftingOptions,
    choice_options: ChoiceOptions,
    stopping_options: StoppingOptions,
    options: AnswerOptions,
) -> bool:
    """Print the answer to a prompt; whether it is the plain one, as far as that was looked at."""
    text = _prompt_text(prompt)
    choice, stopping = choice_of(choice_options), stopping_of(stopping_options)
    loaded = load(target_options)
    tokens = encode_prompt(loaded.target, text, chat=options.chat, system=options.system)
    result = _stream(loaded, tokens, choice, stopping, options)
    parting, checked = None, options.verify
    if checked:
        parting = _part_from_plain(loaded, tokens, replace(choice, seed=result.seed), stopping, result)
    if options.as_json:
        print_json(
            {
                "target": target_options.target,
                "head": loaded.head_name,
                "sources": list(loaded.sources),
                "num_draft_tokens": options.nodes,
                **as_dict(result),
                **({"identical": parting is None, "first_divergence": _parting_dict(parting)} if checked else {}),
            }
        )
    notes = note_console()
    if options.stats:
        notes.print(stats_line(result.stats, options.nodes), soft_wrap=True)
    if checked and not options.as_json:
        notes.print(f"verify: {_verdict(parting, len(result.tokens))}", soft_wrap=True)
    return parting is None


def encode_prompt(
    target: TransformersTarget, text: str, *, chat: bool | None = None, system: str | None = None
) -> list[int]:
    """The ids of a prompt, in the chat template unless it is raw or there is none."""
    as_chat = has_chat_template(target) if chat is None else chat
    if not as_chat:
        if system is not None:
            raise OptionError(
                f"`--system` is `{system}`, but the prompt is not in a chat template",
                hint="give `--chat` with a target that has one, or write it into the prompt",
            )
        return target.encode(text)
    messages = [{"role": "system", "content": system}] if system is not None else []
    return target.encode_chat([*messages, {"role": "user", "content": text}])


def as_dict(result: Generation) -> dict[str, Any]:
    """An answer, ready for JSON."""
    return {
        "text": result.text,
        "tokens": list(result.tokens),
        "finish_reason": result.finish_reason.value,
        "stop_string": result.stop_string,
        "seed": result.seed,
        "num_prompt_tokens": result.num_prompt_tokens,
        **({"logprobs": list(result.logprobs)} if result.logprobs is not None else {}),
        "stats": result.stats.as_dict(),
    }


def stats_line(stats: DecodingStats, nodes: NumDraftTokens) -> str:
    """What the drafts gave, on one line; with the nodes that were checked where their number is chosen."""
    checked = f"{stats.mean_draft_tokens:.1f} nodes a pass, " if nodes == AUTO else ""
    speed = stats.num_generated_tokens / max(stats.decode_seconds + stats.prefill_seconds, 1e-9)
    return (
        f"{stats.num_generated_tokens} tokens in {stats.num_passes} passes: {stats.mean_acceptance_length:.2f} tokens "
        f"a pass, {checked}landing {stats.landing:.2f}, banked {stats.banked:.2f}; {speed:.1f} tokens/s, "
        f"{stats.outside_share:.1%} of the loop outside the target"
    )


def _prompt_text(prompt: str) -> str:
    text = sys.stdin.read().removesuffix("\n") if prompt == "-" else prompt
    if not text.strip():
        raise PromptError(f"the prompt is `{text}`, it may be any text that is not empty")
    return text


def _stream(
    loaded: Loaded, tokens: Sequence[int], choice: Choice, stopping: Stopping, options: AnswerOptions
) -> Generation:
    """The answer, shown while it is decoded unless JSON is asked for."""
    stream = loaded.decoder(options.nodes).stream(tokens, choice, stopping, logprobs=options.logprobs)
    console = data_console()
    marked = DraftedText(console)
    for piece in stream:
        if options.as_json:
            continue
        if options.logprobs:
            console.file.write(_token_line(loaded.target, piece))
        else:
            marked.write(piece if options.show_drafts else replace(piece, was_drafted=False))
    if not options.as_json and not options.logprobs:
        marked.end()
    return stream.result


def _token_line(target: TransformersTarget, piece: Piece) -> str:
    text = target.tokenizer.decode([piece.token]) if target.tokenizer is not None else ""
    return f"{piece.token}\t{piece.logprob:.6f}\t{text!r}\n"


def _part_from_plain(
    loaded: Loaded, tokens: Sequence[int], choice: Choice, stopping: Stopping, result: Generation
) -> Divergence | None:
    plain = loaded.plain_decoder().generate(tokens, choice, stopping)
    return first_divergence(loaded.target, tokens, plain.tokens, result.tokens)


def _parting_dict(parting: Divergence | None) -> dict[str, Any] | None:
    return None if parting is None else {"position": parting.position, "top_two_gap": parting.top_two_gap}


def _verdict(parting: Divergence | None, num_tokens: int) -> str:
    if parting is None:
        return f"identical to plain decoding ({num_tokens} tokens)"
    return (
        f"differs from plain decoding at token {parting.position}: {parting.token_b} instead of {parting.token_a}, "
        f"where the target's two largest logits differ by {parting.top_two_gap:.2e}"
    )
