"""What a pass costs, and how many draft tokens are worth it."""

from typing import Final, Literal, TypeAlias

AUTO: Final = "auto"
"""In place of a number of draft tokens: as many as are worth their time, pass by pass."""

MOST_NODES: Final = 46
"""The most draft tokens a pass checks where their number is chosen."""

NumDraftTokens: TypeAlias = int | Literal["auto"]
"""The most draft tokens of a pass, or `AUTO`."""
