"""Fine-tuning: supervised on conversations (sft)."""
