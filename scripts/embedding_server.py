"""Serves all-MiniLM-L6-v2 as `POST /v1/embeddings` on 127.0.0.1:PORT, for measurements without a model server.

The packages to install and MODEL are those of distill_words.py. `umbra bench tools --embedding` asks it with these
settings:

    models:
      minilm: {provider: openai, kind: embedding, name: all-minilm, base_url: http://127.0.0.1:PORT/v1}

Usage: PYTHONPATH=DIR python3 scripts/embedding_server.py MODEL PORT
"""

import http.server
import json
import pathlib
import sys

from distill_words import Encoder

encoder = Encoder(pathlib.Path(sys.argv[1]))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        vectors = encoder(asked["input"], size=16)
        rows = [{"object": "embedding", "index": at, "embedding": row.tolist()} for at, row in enumerate(vectors)]
        body = json.dumps({"object": "list", "data": rows, "model": asked["model"]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
