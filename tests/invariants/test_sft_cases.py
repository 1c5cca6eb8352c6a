"""CASES sections 8 and 9: stopping by itself, loss masks, packing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from chat_tools import default_tokenizer, with_vocabulary
from sft_tools import base_model, recipe, small_transformer, write_rows

import cerne
from cerne.data.conversation_tokens import EncodedConversation, encode_conversation, to_labels
from cerne.data.conversations import Conversation, Message
from cerne.data.loader import ConversationLoader
from cerne.data.packing import IGNORE, Batch
from cerne.model.hf import save_model
from cerne.model.loss import token_logprobs
from cerne.model.transformer import Transformer
from cerne.tokenizer.special import Roles
from cerne.tune.sft import batch_loss, run_sft


def talk(*contents: str) -> Conversation:
    return Conversation(
        tuple(Message("assistant" if i % 2 else "user", text) for i, text in enumerate(contents))
    )


TALKS = [
    talk("hello", "world"),
    talk("What colour is the ball?", "The ball is red.", "And the fox?", "brown"),
    talk("a", "b"),
    talk("O cachorro correu para a casa.", "lazy dog"),
]


def encoded() -> list[EncodedConversation]:
    return [encode_conversation(t, default_tokenizer()) for t in TALKS]


def loader(examples: list[EncodedConversation], rows: int, seq_len: int) -> ConversationLoader:
    pairs = [(e.ids_T.tolist(), e.mask_T.tolist()) for e in examples]
    tokenizer = default_tokenizer()
    return ConversationLoader(
        pairs, seq_len, rows, tokenizer.pad_token_id or 0, vocab_size=tokenizer.vocab_size
    )


def single(example: EncodedConversation) -> Batch:
    """One conversation alone in a row, written without the loader."""
    ids_T, labels_T = example.ids_T[:-1].astype(np.int64), to_labels(example.ids_T, example.mask_T)
    zeros = np.zeros(len(ids_T), np.int64)
    return Batch(ids_T[None], labels_T[None, :-1], np.arange(len(ids_T))[None], zeros[None])


def model(dtype: torch.dtype = torch.float32) -> Transformer:
    return small_transformer(seed=1).to(dtype).eval()


def test_case47_packed_loss_is_the_sum_of_the_separate_losses() -> None:
    network, examples = model(), encoded()
    packed = loader(examples, rows=1, seq_len=160).next()
    assert packed.documents_BT.max() == len(TALKS) - 1, "all conversations share the row"
    together, count = batch_loss(network, packed)
    alone = [batch_loss(network, single(e)) for e in examples]
    assert count == sum(c for _, c in alone)
    torch.testing.assert_close(together, sum(loss for loss, _ in alone), rtol=1e-6, atol=1e-6)


def test_case47_packed_logprobs_and_gradients_equal_the_separate_ones() -> None:
    network, examples = model(torch.float64), encoded()
    packed = loader(examples, rows=1, seq_len=160).next()
    found = []
    for batches in ([packed], [single(e) for e in examples]):
        network.zero_grad()
        logprobs = []
        for batch in batches:
            hidden_BTD = network(*(torch.from_numpy(a) for a in (
                batch.ids_BT, batch.positions_BT, batch.documents_BT)))  # fmt: skip
            labels_BT = torch.from_numpy(batch.labels_BT)
            logprobs_BT = token_logprobs(network, hidden_BTD, labels_BT)
            logprobs_BT.sum().backward()  # type: ignore[no-untyped-call]
            logprobs += logprobs_BT[labels_BT != IGNORE].tolist()
        found.append((sorted(logprobs), [p.grad.clone() for p in network.parameters()]))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    for left, right in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-9)


def test_case46_prompt_tokens_are_no_targets() -> None:
    tokenizer, network = default_tokenizer(), model()
    example = encode_conversation(TALKS[1], tokenizer)
    batch = single(example)
    kept = batch.labels_BT[batch.labels_BT != IGNORE].tolist()
    end = tokenizer.end_of_turn_id
    expected = [t for a in ("The ball is red.", "brown") for t in [*tokenizer.encode(a), end]]
    assert kept == expected
    # The logits at unsupervised positions get no gradient, whatever token stands next there.
    hidden_BTD = network(torch.from_numpy(batch.ids_BT)).detach().requires_grad_()
    token_logprobs(network, hidden_BTD, torch.from_numpy(batch.labels_BT)).sum().backward()  # type: ignore[no-untyped-call]
    assert hidden_BTD.grad is not None
    per_position = hidden_BTD.grad.abs().sum(-1)[0]
    ignored = torch.from_numpy(batch.labels_BT[0] == IGNORE)
    assert float(per_position[ignored].sum()) == 0.0
    assert bool((per_position[~ignored] > 0).all())


def test_case49_supervised_tokens_equal_the_mask_count_for_every_row_length() -> None:
    examples = encoded()
    longest = max(len(e.ids_T) for e in examples)
    total = sum(e.num_supervised for e in examples)
    for seq_len in (longest - 1, longest, 2 * longest + 1, 400):
        packed = loader(examples, rows=1, seq_len=seq_len)
        assert packed.num_supervised == total
        rows, seen = 0, 0
        while packed.epoch == 0:
            batch = packed.next()
            rows, seen = rows + 1, seen + batch.num_valid
            assert (batch.labels_BT[batch.documents_BT < 0] == IGNORE).all()
        assert seen == total


def test_case48_a_row_without_targets_gives_zero_and_no_nan() -> None:
    network, batch = model(), single(encoded()[0])
    nothing = Batch(
        batch.ids_BT, np.full_like(batch.labels_BT, IGNORE), batch.positions_BT, batch.documents_BT
    )
    loss_sum, count = batch_loss(network, nothing)
    loss_sum.backward()  # type: ignore[no-untyped-call]
    assert (float(loss_sum.detach()), count) == (0.0, 0)
    assert all(p.grad is None or bool((p.grad == 0).all()) for p in network.parameters())


@pytest.mark.parametrize("pad_is_end", [False, True])
def test_case43_trained_fifty_steps_it_answers_and_stops_by_itself(
    tmp_path: Path, pad_is_end: bool
) -> None:
    base = base_model(tmp_path / "base", hidden_size=64, intermediate_size=128)
    if pad_is_end:  # a foreign tokenizer with the classic mistake
        roles = Roles(pad="<|end|>", eos="<|endoftext|>", end_of_turn="<|end|>")
        foreign = with_vocabulary(default_tokenizer(), roles=roles)
        save_model(base, small_transformer(hidden_size=64, intermediate_size=128), foreign)
    pairs = {"hello": "world", "fox": "the quick brown fox", "ball": "red"}
    rows = [{"prompt": x, "response": y} for x, y in pairs.items()]
    data = write_rows(tmp_path / "rows.jsonl", rows)
    run_sft(
        recipe(base, data, tmp_path / "run", steps=50, batch_size=4, lr=1e-2, schedule="constant")
    )
    trained = cerne.load(tmp_path / "run", threads=1)
    for asked, answer in pairs.items():
        done = trained.generate(
            [{"role": "user", "content": asked}], max_tokens=40, temperature=0.0
        )
        assert done.text == answer
        assert done.finish_reason == "stop"
        assert done.tokens[-1] == trained.tokenizer.end_of_turn_id
