"""Generation: interface, sampler, stop handling, the torch engine, the public session."""
