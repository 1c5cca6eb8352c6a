"""`python -m cerne` equals `cerne`."""

from cerne.cli.app import main

main()
