"""What is read from the migrations' files is what alembic finds in them."""

from __future__ import annotations

from alembic.config import Config
from alembic.script import ScriptDirectory

from metastore.postgres.schema.revisions import MIGRATIONS, read_revisions


def test_the_revisions_are_those_of_alembic() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    revisions = read_revisions()
    assert revisions.head == scripts.get_current_head()
    assert revisions.previous == {script.revision: script.down_revision for script in scripts.walk_revisions()}
