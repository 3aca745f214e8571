"""What two processes with one cache and the same requests pay for twice.

Both ask 300 requests, 32 at a time, of a server on this machine that answers after 0.2 to 0.8
seconds, drawn with a fixed seed.
"""

import asyncio
import random
import subprocess
import sys
import tempfile
from pathlib import Path

REQUESTS, AT_ONCE, SHORTEST, LONGEST = 300, 32, 0.2, 0.8
ASKER = """
import sys
from pyterrier_ikat.llms import Request, llm
made = llm(f"openai:m base_url={sys.argv[1]} cache={sys.argv[2]} concurrency={sys.argv[4]}")
made.open()
print("ready", flush=True)
sys.stdin.readline()
requests = []
for number in range(int(sys.argv[3])):
    requests.append(Request([{"role": "user", "content": str(number)}], "answer", f"1_{number}"))
made.ask(requests)
"""
BODY = (
    b'{"model": "m", "choices": [{"index": 0, "finish_reason": "stop", '
    b'"message": {"role": "assistant", "content": "tea"}}]}'
)


async def main() -> None:
    """Print the share."""
    calls, delays = 0, random.Random(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(
                    int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                )
                calls += 1
                await asyncio.sleep(delays.uniform(SHORTEST, LONGEST))
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=256)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    with tempfile.TemporaryDirectory() as folder:
        arguments = (url, str(Path(folder) / "llm.sqlite"), str(REQUESTS), str(AT_ONCE))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        both = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", ASKER, *arguments, **pipes)
            for _ in range(2)
        ]
        for one in both:
            await one.stdout.readline()
        await asyncio.gather(*(one.communicate(b"\n") for one in both))
    print(
        f"{REQUESTS} requests, {AT_ONCE} at a time in each of two processes: {calls} calls, "
        f"{calls / REQUESTS - 1:.1%} paid twice"
    )


if __name__ == "__main__":
    asyncio.run(main())
