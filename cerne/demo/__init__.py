"""The demo: one run through the whole path, from the small world's text to a model that answers."""
