"""Extensions of the LiteLLM proxy, loaded from beside its configuration."""

import json
import os

from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.spend_tracking.spend_tracking_utils import get_logging_payload


class SpendLog(CustomLogger):
    """Writes the rows of LiteLLM's spend log to a file instead of a database, one JSON a line."""

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        row = get_logging_payload(kwargs, response_obj, start_time, end_time)
        with open(os.environ["SPEND_LOG"], "a") as file:
            file.write(json.dumps(row, default=str) + "\n")


spend_log = SpendLog()


async def user_of_key(request, api_key):
    """The key `sk-<user>` belongs to that user."""
    return UserAPIKeyAuth(api_key=api_key, user_id=api_key.removeprefix("sk-"))
