"""From options to the objects that decode; the first module of a verb that imports a model library."""

import warnings
from dataclasses import dataclass

import transformers

from phrasedraft.budget import AUTO, NumDraftTokens
from phrasedraft.choice import Choice
from phrasedraft.cli.console import show_stage
from phrasedraft.cli.known_answer import KnownAnswerDrafter
from phrasedraft.cli.options import ChoiceOptions, DraftingOptions, LoadOptions, StoppingOptions, TargetOptions
from phrasedraft.decoding import Decoder, Stopping
from phrasedraft.drafters import Head, load_head, merge_drafters, shipped_heads
from phrasedraft.drafters.loading import TRAINING_FREE, load_each
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.errors import OptionError
from phrasedraft.target import EMBEDDED_NAME, TransformersTarget, load_target

NO_HEAD = NO_SOURCES = "none"
DEFAULT_SOURCES = ("suffix-automaton", "token-recycling")
"""What drafts beside a head, unless it is said."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A target and what drafts for it.

    `drafter` is grown from the head and the sources, `head` the head alone, None where there is none; `head_name` is
    what `--head` says, `sources` the names of the sources.
    """

    target: TransformersTarget
    drafter: Drafter
    head: Head | None
    head_name: str
    head_folder: str | None
    sources: tuple[str, ...]

    def decoder(self, num_draft_tokens: NumDraftTokens) -> Decoder:
        """Both together, drafting at most `num_draft_tokens` tokens a pass."""
        drafts = self.head is not None or bool(self.sources)
        if drafts and num_draft_tokens == AUTO:
            show_stage("looking up, or measuring, what a pass costs")
        return Decoder(self.target, self.drafter, num_draft_tokens=num_draft_tokens if drafts else 0)

    def plain_decoder(self) -> Decoder:
        """The target alone, one token a pass."""
        return Decoder(self.target, KnownAnswerDrafter(), num_draft_tokens=0)


def load(options: TargetOptions) -> Loaded:
    """The target and head of a verb's options; the head is read first, so that a wrong one is refused at once."""
    folder = head_folder(options.target, options.head)
    head = load_head(folder) if folder is not None else None
    wanted = options.sources if isinstance(options, DraftingOptions) else NO_SOURCES
    sources = source_names(wanted, has_head=head is not None)
    drafter: Drafter = head or KnownAnswerDrafter()
    if sources:
        drafter = merge_drafters([*([head] if head is not None else []), *load_each(sources, head)])
    target = load_target_quietly(options.target, options)
    drafter.check(target.identity)
    return Loaded(
        target=target,
        drafter=drafter,
        head=head,
        head_name=(options.head or options.target) if folder is not None else NO_HEAD,
        head_folder=folder,
        sources=sources,
    )


def source_names(text: str | None, *, has_head: bool) -> tuple[str, ...]:
    """The sources that `--sources` names; unless it is given, `DEFAULT_SOURCES` beside a head, none without one."""
    if text is None:
        return DEFAULT_SOURCES if has_head else ()
    names = tuple(text.split(",")) if text != NO_SOURCES else ()
    for name in names:
        if name not in TRAINING_FREE or names.count(name) > 1:
            raise OptionError(
                f"`--sources` is `{text}`, it may be `{NO_SOURCES}`, or some of "
                f"{', '.join(f'`{each}`' for each in TRAINING_FREE)}, comma-separated, each once",
                hint="a head is given with `--head`",
            )
    return names


def head_folder(target: str, head: str | None) -> str | None:
    """The folder of the head to use, None where nothing drafts; `OptionError` where the user has to say."""
    if head == NO_HEAD:
        return None
    shipped = shipped_heads()
    if head is not None:
        return str(shipped.get(head, head))
    if target != EMBEDDED_NAME:
        raise OptionError(
            f"no head is known for target `{target}`; `{EMBEDDED_NAME}` comes with one",
            hint=f"give `--head FOLDER`, train one with `phrasedraft fit {target}`, or decode plainly: `--head none`",
        )
    return str(shipped[target])


def load_target_quietly(name: str, options: LoadOptions) -> TransformersTarget:
    """The target, without the progress bars and messages of the libraries that load it."""
    show_stage(f"loading {name}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return load_target(
        name,
        dtype=options.dtype,
        device=options.device,
        attn_implementation=options.attn_implementation,
        revision=options.revision,
        trust_remote_code=options.trust_remote_code,
        packed=options.packed,
    )


def choice_of(options: ChoiceOptions) -> Choice:
    """How to choose tokens; warns where an option has no effect."""
    choice = Choice(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        repetition_penalty=options.repetition_penalty,
        seed=options.seed,
    )
    unused = [
        f"--{name.replace('_', '-')}" for name in ("top_k", "top_p", "seed") if getattr(options, name) is not None
    ]
    if choice.is_greedy and unused:
        warnings.warn(f"without `--temperature` above 0, {', '.join(unused)} has no effect", stacklevel=1)
    return choice


def stopping_of(options: StoppingOptions) -> Stopping:
    """When to stop."""
    return Stopping(
        max_new_tokens=options.max_new_tokens,
        min_new_tokens=options.min_new_tokens,
        stop_strings=tuple(options.stop or ()),
        ignore_eos=options.ignore_eos,
    )


def encode_turn(target: TransformersTarget, text: str) -> list[int]:
    """The ids of one user message: in the chat template where there is one, as plain text otherwise."""
    if has_chat_template(target):
        return target.encode_chat([{"role": "user", "content": text}])
    return target.encode(text)


def has_chat_template(target: TransformersTarget) -> bool:
    """Whether the target's tokenizer can write a conversation."""
    return bool(getattr(target.tokenizer, "chat_template", None))
