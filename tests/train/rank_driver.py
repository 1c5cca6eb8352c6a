"""One rank of a data-parallel training; prints its result as JSON. Used by test_distributed.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from train_tools import VOCAB, tiny_model, train_config, weights_digest

from cerne.data.loader import PackedLoader
from cerne.data.memory import MemoryStore
from cerne.runs import RunDirectory
from cerne.train.distributed import join_ranks, leave_ranks
from cerne.train.loop import Trainer


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    ranks = join_ranks()
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(4, 24, (40,), generator=generator).tolist()
    examples = [
        (torch.randint(0, VOCAB, (n,), generator=generator).tolist(), [True] * n) for n in lengths
    ]
    rows = 4 // ranks.size
    # Large gradients and a small limit, so that clipping matters in every step.
    config = train_config(steps=6, batch_size=rows, accumulate=2, grad_clip=0.05, save_every=3)
    loader = PackedLoader(
        MemoryStore(examples, 0, VOCAB), 16, rows, seed=1, rank=ranks.rank, world_size=ranks.size
    )
    model = tiny_model(seed=ranks.rank, dropout=0.0)
    if ranks.size == 1:
        model = tiny_model(seed=0, dropout=0.0)
    trainer = Trainer(model, loader, config, RunDirectory(folder), ranks=ranks)
    if len(sys.argv) > 2:
        trainer.restore(RunDirectory(folder).checkpoint_path(int(sys.argv[2])))
    result = trainer.train()
    weights = [p.detach().double().sum().item() for p in model.parameters()]
    print(json.dumps({"tokens": result.tokens, "digest": weights_digest(model), "sums": weights}))
    leave_ranks()


if __name__ == "__main__":
    main()
