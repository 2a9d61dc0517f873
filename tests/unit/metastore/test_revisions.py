"""What is read from the migrations' files is what alembic finds in them, and a service starts without alembic."""

from __future__ import annotations

import subprocess
import sys

from alembic.config import Config
from alembic.script import ScriptDirectory

from metastore.postgres.schema.revisions import MIGRATIONS, read_revisions
from tests.support.repository import ROOT


def test_the_revisions_are_those_of_alembic() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    revisions = read_revisions()
    assert revisions.head == scripts.get_current_head()
    assert revisions.previous == {script.revision: script.down_revision for script in scripts.walk_revisions()}


def test_a_service_starts_without_alembic() -> None:
    code = "import sys, metastore.wiring; print([name for name in sys.modules if name.startswith(('alembic', 'mako'))])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
