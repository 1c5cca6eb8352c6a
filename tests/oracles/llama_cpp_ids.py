"""What llama.cpp's tokenizer gives for every corpus, as digests that a test can hold ours against.

`python tests/oracles/llama_cpp_ids.py NAME MODEL.gguf` writes the entry NAME of llama_cpp_ids.json;
it needs the package llama-cpp-python, the test does not.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizer_oracle import corpus_texts

Ids = npt.NDArray[np.uint32]
RECORD = Path(__file__).with_suffix(".json")


def digest(encoded: Sequence[Ids]) -> str:
    """SHA-256 of the numbers of ids (64 bits each) and then of all ids (32 bits each)."""
    lengths = np.array([len(ids) for ids in encoded], dtype="<u8")
    whole = hashlib.sha256(lengths.tobytes())
    for ids in encoded:
        whole.update(ids.astype("<u4").tobytes())
    return whole.hexdigest()


def digests(shared: Path, encode: Callable[[bytes], Ids]) -> dict[str, str]:
    """The digest of each corpus of the shared folder."""
    found = {}
    for path in sorted((shared / "data" / "text").glob("*.xz")):
        texts = [text.encode("utf-8", "surrogatepass") for text in corpus_texts(path)]
        found[path.name] = digest([encode(text) for text in texts])
    return found


def llama_cpp_encoder(model: Path) -> Callable[[bytes], Ids]:
    """llama_tokenize with neither special tokens added nor recognised."""
    import llama_cpp

    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    loaded = llama_cpp.llama_model_load_from_file(os.fsencode(model), params)
    vocabulary = llama_cpp.llama_model_get_vocab(loaded)

    def encode(text: bytes) -> Ids:
        room = len(text) + 8
        ids = (ctypes.c_int32 * room)()
        count = llama_cpp.llama_tokenize(vocabulary, text, len(text), ids, room, False, False)
        return np.ctypeslib.as_array(ids)[:count].astype(np.uint32)

    return encode


def main() -> None:
    """Records one model."""
    name, model = sys.argv[1:]
    shared = Path(os.environ.get("CERNE_SHARED", Path(__file__).parents[3] / "shared"))
    record = json.loads(RECORD.read_text(encoding="ascii")) if RECORD.is_file() else {}
    record[name] = digests(shared, llama_cpp_encoder(Path(model)))
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
