"""What tests of commands under the witness share with those of the command line and of the witness itself."""

from ...cli.conftest import as_nobody as as_nobody
from ...cli.conftest import open_folder as open_folder
from ...verify.conftest import compiled as compiled
from ...verify.conftest import witnessed as witnessed
