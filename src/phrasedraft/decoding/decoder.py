"""The loop: draft, verify, walk, keep, update."""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from phrasedraft.budget import NumDraftTokens
from phrasedraft.choice import GREEDY, Choice
from phrasedraft.decoding.budgeting import Allowance, most_nodes, policy_of
from phrasedraft.decoding.generation import Generation, Piece
from phrasedraft.decoding.prompt import check_prompt, prompt_tokens
from phrasedraft.decoding.run import Run, RunSettings
from phrasedraft.decoding.session import Session
from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.decoding.stopping import Stopping
from phrasedraft.decoding.text_stream import TextStream
from phrasedraft.decoding.walk import walk
from phrasedraft.decoding.watch import AcceptanceWatch
from phrasedraft.drafters.protocol import DraftBudget, Drafter, Observer
from phrasedraft.errors import OptionError, PhraseDraftError
from phrasedraft.target.model import TransformersTarget
from phrasedraft.target.protocol import Support, TargetSequence
from phrasedraft.tree.draft_tree import DraftTree

Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, Any]] | Tensor
"""A text, token ids, or chat messages (`{"role": ..., "content": ...}`)."""

DEFAULT_STOPPING = Stopping()


class Decoder:
    """A target and a drafter that decode together; the text is the target's own whatever the drafter proposes.

    `num_draft_tokens` is the most nodes a draft tree may have beside its root; 0 decodes one token a pass, "auto"
    checks as many as are worth their time, for which it times passes of the target once a machine (some seconds).
    Weights belong to the target and the drafter, everything about one text to the call, so a decoder can be shared.
    """

    def __init__(self, target: TransformersTarget, drafter: Drafter, *, num_draft_tokens: NumDraftTokens = 8) -> None:
        most = most_nodes(num_draft_tokens)
        if not isinstance(drafter, Drafter):
            raise OptionError(
                f"the drafter is `{drafter!r}`, it may be a head or anything with the verbs of `Drafter`",
                hint='`load_head("smollm2-135m")` loads one; `num_draft_tokens=0` decodes without drafts',
            )
        drafter.check(target.identity)
        drafter.place(target.device)
        self.target = target
        self.drafter = drafter
        self.num_draft_tokens = most
        self.policy = policy_of(target, num_draft_tokens)
        self.observe = drafter.observe if most and isinstance(drafter, Observer) else None
        self.watch = AcceptanceWatch(drafter.name)
        if most and target.support is Support.NOTHING:
            warnings.warn(
                f"decoding `{target.identity.name}` without drafts: {'; '.join(target.notes)}",
                UserWarning,
                stacklevel=2,
            )

    def generate(
        self,
        prompt: Prompt,
        choice: Choice = GREEDY,
        stopping: Stopping = DEFAULT_STOPPING,
        *,
        logprobs: bool = False,
        session: Session | None = None,
    ) -> Generation:
        """The target's answer to a prompt. Raises `PromptError` for a prompt that cannot be answered."""
        stream = Stream(self, prompt, choice, stopping, logprobs=logprobs, session=session, show=False)
        for _ in stream:
            pass
        return stream.result

    def stream(
        self,
        prompt: Prompt,
        choice: Choice = GREEDY,
        stopping: Stopping = DEFAULT_STOPPING,
        *,
        logprobs: bool = False,
        session: Session | None = None,
    ) -> "Stream":
        """The answer token by token, as `Piece`s; the stream's `result` is the whole answer once it has ended."""
        return Stream(self, prompt, choice, stopping, logprobs=logprobs, session=session, show=True)

    def session(self) -> Session:
        """A place in the target's cache for a conversation; pass it to every turn."""
        return Session(self.target, self.drafter.features)


class Stream:
    """An answer in the making: iterate over its pieces, then read `result`."""

    def __init__(
        self,
        decoder: Decoder,
        prompt: Prompt,
        choice: Choice,
        stopping: Stopping,
        *,
        logprobs: bool,
        session: Session | None,
        show: bool,
    ) -> None:
        target = decoder.target
        self._decoder = decoder
        self._prompt = prompt_tokens(target, prompt)
        check_prompt(target, self._prompt)
        if session is not None:
            session.check(target, decoder.drafter.features)
        self._session = session or decoder.session()
        self._text = _text_stream(target, stopping, show=show)
        settings = RunSettings(
            choice=choice if choice.is_greedy else choice.seeded(),
            stopping=stopping,
            eos_token_ids=target.eos_token_ids,
            context_limit=target.context_limit,
            want_logprobs=logprobs,
        )
        self._run = Run(self._prompt, settings, self._text, target.device)
        self._allowance = Allowance(decoder.num_draft_tokens, decoder.policy)
        self._want_logprobs = logprobs
        self._num_cached = 0
        self._pieces = self._decode()
        self.stats = DecodingStats()

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        # Inference mode is a thread's state, so it is entered for each step and never left on between two of them.
        with torch.inference_mode():
            return next(self._pieces)

    @property
    def result(self) -> Generation:
        """The whole answer; only once the stream has ended."""
        run = self._run
        if run.finish_reason is None:
            raise PhraseDraftError("the answer is not finished", hint="iterate over the stream to its end first")
        return Generation(
            tokens=tuple(run.tokens),
            text=self._whole_text(),
            finish_reason=run.finish_reason,
            stop_string=self._text.stop_string if self._text is not None else None,
            logprobs=tuple(run.logprobs) if self._want_logprobs else None,
            seed=None if run.choice.is_greedy else run.choice.seed,
            num_prompt_tokens=len(self._prompt),
            num_cached_prompt_tokens=self._num_cached,
            stats=self.stats,
        )

    def _whole_text(self) -> str:
        tokenizer = self._decoder.target.tokenizer
        if self._text is not None or tokenizer is None:
            return self._text.text if self._text is not None else ""
        text = tokenizer.decode(self._run.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _decode(self) -> Iterator[Piece]:
        run, stats, drafter = self._run, self.stats, self._decoder.drafter
        clock = time.perf_counter
        started = clock()
        sequence, unread = self._session.open(self._prompt)
        turn = self._session.turn
        self._num_cached = len(self._prompt) - len(unread)
        first = sequence.prefill(unread)
        run.commit(run.chooser(first.logits)(0), False)
        state = None
        if run.finish_reason is None:
            state = drafter.begin(self._prompt, run.last_token, first.hidden, self._decoder.target.embed)
        del first  # the prompt's hidden states would stay for as long as the text
        stats.prefill_seconds = clock() - started
        yield from self._settle()
        while run.finish_reason is None:
            started = clock()
            self._session.unsettle(turn)
            tree = self._draft(state, sequence)
            drafted = clock()
            checked = sequence.verify(tree)
            checked.logits[0, 0].item()  # an accelerator works behind our back until something is read from it
            verified = clock()
            if self._decoder.observe is not None:
                self._decoder.observe(state, tree, checked.logits)
            verification = walk(tree, run.chooser(checked.logits), run.commit)
            walked = clock()
            sequence.keep(verification.path)
            kept = clock()
            if run.finish_reason is None:
                committed = [*(tree.tokens[node] for node in verification.path[1:]), verification.bonus_token]
                drafter.update(state, committed, checked.hidden[list(verification.path)])
            stats.count(verification, tree.num_draft_tokens)
            self._decoder.watch.count(tree.num_draft_tokens, verification.num_accepted_tokens)
            self._allowance.settle(
                tree, verification.num_accepted_tokens, drafted - started, verified - drafted, clock() - verified
            )
            stats.draft_seconds += drafted - started
            stats.verify_seconds += verified - drafted
            stats.keep_seconds += kept - walked
            stats.other_seconds += walked - verified + clock() - kept
            del checked  # or its logits would stay while the next pass makes its own
            yield from self._settle()

    def _settle(self) -> list[Piece]:
        """What the pass committed; from here on the session may be left, or go on."""
        pieces = self._run.claim()
        self.stats.num_generated_tokens += len(pieces)
        self._session.settle([piece.token for piece in pieces])
        return pieces

    def _draft(self, state: Any, sequence: TargetSequence) -> DraftTree:
        run, decoder, allowance = self._run, self._decoder, self._allowance
        limit = allowance.ask(sequence.num_cached_tokens, may_draft=run.num_tokens_left > 1)
        support = sequence.support_for(1 + limit)
        if not limit or support is Support.NOTHING:
            allowance.refuse()
            return DraftTree.root_only(run.last_token)
        budget = DraftBudget(
            num_draft_tokens=limit, max_depth=run.num_tokens_left - 1, chain_only=support is Support.CHAIN
        )
        tree = decoder.drafter.propose(state, budget).cut(budget.max_depth)
        if budget.chain_only:
            tree = tree.best_chain()
        self._check(tree, limit)
        return allowance.cut(tree)

    def _check(self, tree: DraftTree, limit: int) -> None:
        """Refuse a draft that no pass could check; a wrong one is fine."""
        root, vocab_size = self._run.last_token, self._decoder.target.identity.vocab_size
        lowest, highest = min(tree.tokens), max(tree.tokens)
        if tree.tokens[0] != root or tree.num_draft_tokens > limit or lowest < 0 or highest >= vocab_size:
            raise PhraseDraftError(
                f"drafter `{self._decoder.drafter.name}` proposed {tree.num_draft_tokens} tokens, ids {lowest} to "
                f"{highest}, after token {tree.tokens[0]}; it may propose {limit}, ids 0 to {vocab_size - 1}, "
                f"after token {root}"
            )


def _text_stream(target: TransformersTarget, stopping: Stopping, *, show: bool) -> TextStream | None:
    if stopping.stop_strings and target.tokenizer is None:
        raise OptionError(
            f"`stop_strings` need a tokenizer, target `{target.identity.name}` was given without one",
            hint="pass `TransformersTarget(model, tokenizer)`",
        )
    if target.tokenizer is None or not (show or stopping.stop_strings):
        return None
    return TextStream(target.tokenizer, stopping.stop_strings)
