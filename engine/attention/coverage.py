"""How much attention mass a selection left out, estimated from the scores it was made with.

A chunk's score is its best key's logit; the mass of a dropped chunk is taken as FILL keys of that logit. The estimate
is a warning light, not a measurement: README.md says what it rests on.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unabridged.engine.attention.plain import capped
from unabridged.engine.attention.select import Selection

# Fitted on real text, see README.md. Below 1 because a score is the best of a group's heads and of its distance.
FILL = 0.75


def coverage(stages: Sequence[Selection], attended: Tensor, cap: float | None = None) -> float:
    """Share of attention mass that the last block's selection kept, mean over its lists.

    `stages`: what each stage saw and kept, all for the same queries; each dropped other chunks. `attended` `[G]`: log
    of the summed exponentials over the attended keys, the largest of each head group. `cap`: see plain.capped; scores
    are made without it, since it changes no order.
    """
    dropped = torch.stack([_dropped(stage, cap) for stage in stages]).logsumexp(0)
    kept = attended.view(len(dropped), -1).amax(-1)
    return float((kept - dropped - torch.tensor(FILL).log()).sigmoid().mean())


def _dropped(stage: Selection, cap: float | None) -> Tensor:
    """Log of the summed exponentials of the last block's chunks that were not kept, `[J]`."""
    scores = stage.scores[-1]
    scores = capped(scores.clone(), cap).where(scores > -torch.inf, -torch.inf)
    return scores.scatter(-1, stage.kept[-1], -torch.inf).logsumexp(-1)
