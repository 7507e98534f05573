import signal

import pytest
from harness import Server

# Under `nohup` it is ignored, and what is started here would ignore it, too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def server():
    """One server for all tests that do not need flags of their own; idle again after each."""
    with Server("--max-seqs=16", "--queue=256") as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request):
    """Whatever a test did, no slot, queue place or KV block stays taken, and the server lives."""
    yield
    if "server" in request.fixturenames:
        running = request.getfixturevalue("server")
        assert running.process.poll() is None, f"the server died: {running.log.read_text()[-2000:]}"
        running.wait_until_idle()
