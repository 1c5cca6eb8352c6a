"""The decoder: configuration, layers, attention, transformer, loss and the Hugging Face mapping.

Import the submodules directly; this file stays empty of imports so that reading a configuration
does not load torch.
"""
