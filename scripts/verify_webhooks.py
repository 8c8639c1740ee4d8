"""Verifies deliveries with the published `standardwebhooks` package, an independent implementation.

Usage: verify_webhooks.py SECRET < DELIVERIES, where each line is JSON {"headers": {..}, "body": ".."}. Prints the
number of messages by `webhook-id`. Exits with 1 at the first delivery that does not verify, or that verifies although
its body, its id or its secret was changed.
"""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def refuses(webhook, body, headers):
    try:
        webhook.verify(body, headers)
    except WebhookVerificationError:
        return True
    return False


secret = sys.argv[1]
webhook, other = Webhook(secret), Webhook("whsec_" + "A" * 32)
ids = set()
for line in sys.stdin:
    delivery = json.loads(line)
    headers, body = delivery["headers"], delivery["body"]
    payload = webhook.verify(body, headers)
    assert set(payload) == {"type", "timestamp", "data"}, payload
    assert refuses(webhook, body + " ", headers), "a changed body verifies"
    assert refuses(webhook, body, {**headers, "webhook-id": "msg_0"}), "a changed id verifies"
    assert refuses(other, body, headers), "another secret verifies"
    ids.add(headers["webhook-id"])
print(len(ids))
