"""What tests of served drives share with those of the command line."""

from ...cli.conftest import as_nobody as as_nobody
from ...cli.conftest import more_room as more_room
from ...cli.conftest import open_folder as open_folder
from ...cli.conftest import small_disk as small_disk
