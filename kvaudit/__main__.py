"""`python -m kvaudit` is the command `kvaudit`."""

from kvaudit.cli.main import main

main()
