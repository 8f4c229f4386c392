"""How many nodes each pass may check: a fixed number, or what the budget finds worth its time."""

from phrasedraft.budget import AUTO, MOST_NODES, NumDraftTokens
from phrasedraft.budget.cost_cache import pass_cost
from phrasedraft.budget.curve import CostCurve
from phrasedraft.budget.policy import AdaptiveBudget, PassOutcome
from phrasedraft.errors import OptionError
from phrasedraft.target.model import TransformersTarget
from phrasedraft.target.protocol import Support
from phrasedraft.tree.draft_tree import DraftTree


def most_nodes(num_draft_tokens: NumDraftTokens) -> int:
    """The most nodes a pass may check; `OptionError` for what is no number of them."""
    if num_draft_tokens == AUTO:
        return MOST_NODES
    if not isinstance(num_draft_tokens, int) or num_draft_tokens < 0:
        raise OptionError(
            f"`num_draft_tokens` is `{num_draft_tokens}`, it may be 0 or more, a whole number, or `{AUTO}`",
            hint=f"`{AUTO}` checks as many in each pass as are worth their time, 0 drafts nothing",
        )
    return num_draft_tokens


def policy_of(target: TransformersTarget, num_draft_tokens: NumDraftTokens) -> AdaptiveBudget | None:
    """The policy of a decoder whose nodes are to be chosen, its passes timed if they never were; else None."""
    if num_draft_tokens != AUTO or target.support is Support.NOTHING:
        return None
    return AdaptiveBudget(CostCurve(pass_cost(target)))


class Allowance:
    """The nodes of one text's passes. A pass asks first, may then cut what was proposed, and settles at its end."""

    def __init__(self, most: int, policy: AdaptiveBudget | None) -> None:
        self._most = most
        self._policy = policy
        self._num_asked = 0
        self._context_tokens = 0

    def ask(self, context_tokens: int, *, may_draft: bool) -> int:
        """How many nodes to ask the drafter for in a pass after so many cached tokens."""
        self._context_tokens = context_tokens
        self._num_asked = 0
        if may_draft:
            self._num_asked = self._most if self._policy is None else self._policy.ask()
        return self._num_asked

    def refuse(self) -> None:
        """The target can check no draft in this pass."""
        self._num_asked = 0

    def cut(self, tree: DraftTree) -> DraftTree:
        """The part of the proposed tree that is worth its time."""
        if self._policy is None:
            return tree
        return tree.first(self._policy.choose(tree.values, self._context_tokens))

    def settle(
        self, tree: DraftTree, num_accepted: int, draft_seconds: float, verify_seconds: float, after_seconds: float
    ) -> None:
        """The pass is over."""
        if self._policy is None:
            return
        self._policy.observe(
            PassOutcome(
                num_asked=self._num_asked,
                num_nodes=tree.num_draft_tokens,
                predicted=sum(tree.values[1:], 0.0),
                num_accepted=num_accepted,
                context_tokens=self._context_tokens,
                draft_seconds=draft_seconds,
                verify_seconds=verify_seconds,
                after_seconds=after_seconds,
            )
        )
