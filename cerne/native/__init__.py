"""Binding to the C core: one file per concern. Nothing above this folder sees cffi."""
