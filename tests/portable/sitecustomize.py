"""Python reads this file as it starts where its folder is on the path: the processes that tests start lack the same."""

import without_linux

without_linux.begin()
