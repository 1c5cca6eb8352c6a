"""Speed measured side by side with the peers that are installed, written with its circumstances."""
