"""Text to measure tokenizers on: the built-in world, Python's own source code and given files."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path


def mixed_text(files: Sequence[str], size_bytes: int) -> tuple[str, dict[str, int]]:
    """About `size_bytes` of text and how many bytes come from where.

    Three tenths are code; the rest is the world's English and Portuguese, or, when files are
    given, one tenth world and six tenths files in equal parts.
    """
    shares = {"world:mix": 0.1 if files else 0.7, "python": 0.3}
    for file in files:
        shares[file] = 0.6 / len(files)
    parts: list[str] = []
    sizes: dict[str, int] = {}
    for name, share in shares.items():
        limit = int(size_bytes * share)
        text = _code(limit) if name == "python" else _source(name, limit)
        parts.append(text)
        sizes[Path(name).name] = len(text.encode())
    return "".join(parts), sizes


def _code(limit: int) -> str:
    texts: list[str] = []
    size = 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        texts.append(path.read_text(encoding="utf-8", errors="replace"))
        size += len(texts[-1].encode())
        if size >= limit:
            break
    return _cut("".join(texts), limit)


def _source(name: str, limit: int) -> str:
    from cerne.data.config import DataConfig
    from cerne.data.report import RowReport
    from cerne.data.sources import find_sources, read_documents

    address = f"{name}?documents=100000" if name.startswith("world:") else name
    texts: list[str] = []
    size = 0
    for source in find_sources((address,)):
        for piece in read_documents(source, DataConfig(errors="replace"), RowReport()):
            texts.append(piece.text + "\n")
            size += len(texts[-1].encode())
            if size >= limit:
                return _cut("".join(texts), limit)
    return "".join(texts)


def _cut(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", errors="ignore")
