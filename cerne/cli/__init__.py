"""The command line: one thin file per verb, loaded only when it is used."""
