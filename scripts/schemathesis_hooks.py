"""Keeps the fuzzer from sawing off the branch that it sits on: the key of the run is not revoked, and no stream that never ends
is waited for."""

import os

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    path = str(case.operation.path)
    own = case.method.upper() == "DELETE" and path.startswith("/v1/admin/keys")
    endless = path == "/v1/audit" and "follow" in (case.query or {})
    return not endless and not (own and os.environ["UMBRA_KEY_ID"] in str(case.path_parameters))
