"""What the collections of benchmarks.composition say together: right answers, likelihoods, paired differences."""

from collections.abc import Sequence
from typing import Any

import torch
from benchmarks.report import interval

from unabridged.engine.events import Composition

WAYS: tuple[Composition, ...] = ("composable", "joint")
DRAWS = 10_000


def summary(collections: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of collections of one kind."""
    out: dict[str, Any] = {"collections": len(collections), "questions": sum(len(one["cases"]) for one in collections)}
    out["tokens"] = round(sum(one["joint"]["tokens"] for one in collections) / len(collections))
    for way in (*WAYS, "alone"):
        asked = [case for one in collections for case in one.get(way, {"asked": ()})["asked"]]
        if asked:
            found = sum(case["right"] for case in asked)
            nll = sum(case["nll"] for case in asked) / len(asked)
            out[way] = {"right": found, "interval": interval(found, len(asked)), "nll": nll}
    for name in ("nll", "right"):
        pairs = [
            [joint[name] - apart[name] for apart, joint in zip(*(one[way]["asked"] for way in WAYS), strict=True)]
            for one in collections
        ]
        out[f"joint - composable, {name}"] = paired(pairs)
    told = [one for one in collections if "follows" in one["joint"]]
    if told:
        for way in WAYS:
            out[f"{way}, nll of what follows"] = sum(one[way]["follows"] for one in told) / len(told)
        out["joint - composable, nll of what follows"] = paired(
            [[one["joint"]["follows"] - one["composable"]["follows"]] for one in told]
        )
    return out


def paired(groups: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """The mean of paired differences, with percentile intervals: over all of them, and over whole groups."""
    random = torch.Generator().manual_seed(0)
    single = torch.tensor([value for group in groups for value in group], dtype=torch.float64)
    sums = torch.tensor([sum(group) for group in groups], dtype=torch.float64)
    sizes = torch.tensor([len(group) for group in groups], dtype=torch.float64)
    drawn = torch.randint(len(groups), (DRAWS, len(groups)), generator=random)
    means = {
        "over questions": single[torch.randint(len(single), (DRAWS, len(single)), generator=random)].mean(1),
        "over collections": sums[drawn].sum(1) / sizes[drawn].sum(1),
    }
    bounds = torch.tensor([0.025, 0.975], dtype=torch.float64)
    return {"mean": [float(single.mean())]} | {name: one.quantile(bounds).tolist() for name, one in means.items()}
