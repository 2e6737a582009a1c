"""Plans that tests compile go to a folder of their own, which starts empty."""

import os
import tempfile

_FOLDER = tempfile.TemporaryDirectory(prefix="anabranch-tests-")
os.environ["ANABRANCH_CACHE_DIR"] = _FOLDER.name
