"""Verifies messages with the public library of Standard Webhooks: what a partner's engineer would write.

Reads one JSON object a line, {"secret", "headers", "body"}, and answers each with "verified" or what was wrong with it.
"""

import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    message = json.loads(line)
    try:
        Webhook(message["secret"]).verify(message["body"], message["headers"])
        print("verified", flush=True)
    except WebhookVerificationError as error:
        print(error, flush=True)
