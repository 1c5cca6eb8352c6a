"""Byte-level BPE: training, encoding, control tokens, chat templates, streaming detokenizer."""
