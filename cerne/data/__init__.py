"""Text in: sources, cleaning, token shards, packing, conversations, loader, the small world."""
