"""Text in: sources, cleaning, token shards, packing, conversations, the loader and the small world."""
