"""What the page of a report keeps packed, without a browser that draws it."""

import base64
import gzip
import json
import re


def packed_turns(html):
    """What the page's script draws: the passages, the texts of calls, and the turns."""
    block = re.search(r'<script type="application/json" id="turns">"([^"]*)"</script>', html)[1]
    return json.loads(gzip.decompress(base64.b64decode(block)))
