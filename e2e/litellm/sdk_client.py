"""Sends events with the CloudEvents SDK in each of its modes: sdk_client.py <url> <token> <time>."""

import sys
from datetime import datetime

import requests
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

url, token, time = sys.argv[1:]


def event(id):
    attributes = {"id": id, "type": "litellm_tokens", "source": "sdk", "subject": "acme"}
    data = {"model": "gpt-4o", "prompt_tokens": 12, "completion_tokens": 7}
    return CloudEvent({**attributes, "time": datetime.fromisoformat(time)}, data)


def send(headers, body):
    headers = {**headers, "Authorization": f"Bearer {token}"}
    print(requests.post(url, data=body, headers=headers).status_code)


for convert in to_binary_event, to_structured_event:
    message = convert(event(convert.__name__))
    send(message.headers, message.body)
# The SDK writes events, but no batch of them.
batch = b",".join(JSONFormat().write(event(id)) for id in ("first", "second"))
send({"Content-Type": "application/cloudevents-batch+json"}, b"[" + batch + b"]")
