"""Smaller weights: types per tensor, calibration, and GGUF files that llama.cpp reads."""
