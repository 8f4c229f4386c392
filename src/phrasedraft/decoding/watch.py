"""Says once that drafting only costs time, where a drafter's drafts come to nothing."""

import warnings

NUM_DRAFTS = 200
"""How many drafts may come to nothing before that is said."""


class AcceptanceWatch:
    """Counts a decoder's drafts over all its texts until one token of them is accepted; then it has seen enough."""

    def __init__(self, drafter: str) -> None:
        self._drafter = drafter
        self._num_drafts = 0
        self._is_over = False

    def count(self, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Take note of one pass; warns at the 200th draft if nothing was accepted since the first."""
        if self._is_over:
            return
        self._num_drafts += num_draft_tokens > 0
        self._is_over = num_accepted_tokens > 0 or self._num_drafts >= NUM_DRAFTS
        if self._is_over and not num_accepted_tokens:
            warnings.warn(
                f"no drafts accepted: `{self._drafter}` has drafted {self._num_drafts} times and not one token was "
                "right, which costs time (the text is the target's own all the same); likely causes: the head is of "
                "another target or revision, reads another layer than it was trained on, was trained on shifted "
                "labels, or its weights are damaged; `phrasedraft doctor` checks target and head",
                stacklevel=2,
            )
