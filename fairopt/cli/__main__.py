"""``python -m fairopt.cli``, where the script is not on the path."""

from fairopt.cli.commands import main

main()
