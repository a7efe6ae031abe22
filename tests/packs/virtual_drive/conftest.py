"""What tests of served drives share with those of the command line."""

from ...cli.conftest import as_nobody as as_nobody
from ...cli.conftest import open_folder as open_folder
