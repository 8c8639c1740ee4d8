"""Keeps the fuzzer from sawing off the branch that it sits on: the key of the run is not revoked."""

import os

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    path = str(case.operation.path)
    own = case.method.upper() == "DELETE" and path.startswith("/v1/admin/keys")
    return not (own and os.environ["UMBRA_KEY_ID"] in str(case.path_parameters))
