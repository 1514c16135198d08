"""A node's log: lines for people, or with --log-json one JSON object a line, each naming its request."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """One object a line: "at" (UTC), "level", "logger", "message"; "request" where one is served; "error", a trace."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter.format`."""
        from ringleader.api.ids import REQUEST

        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := REQUEST.get():
            line["request"] = request
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(as_json: bool) -> None:
    """Log what a node says to standard error. As JSON, every request that ended is a line too."""
    if not as_json:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("ringleader.api.faults").setLevel(logging.DEBUG)
