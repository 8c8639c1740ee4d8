#!/usr/bin/env python3
"""Writes the findings of a server to a SARIF file, and fails where they or the gate of an environment say no.

Run by `action.yml`, whose inputs come as variables: UMBRA_URL, UMBRA_API_KEY, UMBRA_AGENT, UMBRA_TASK, UMBRA_SINCE,
UMBRA_FAIL_ON, UMBRA_ENVIRONMENT, UMBRA_SARIF. Exit codes: 0 passed, 1 a finding or the gate says no, 2 the server
cannot be asked.
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

# Most findings in a file: code scanning shows 5,000 of a run.
MOST = 5_000
SEVERITIES = ("info", "warning", "critical")


def setting(name, default=""):
    return os.environ.get(f"UMBRA_{name}", "").strip() or default


def stop(words):
    print(f"::error::{words}")
    sys.exit(2)


def ask(path, **query):
    """Gets a resource as JSON; stops with the server's own words if it refuses."""
    base = setting("URL").rstrip("/")
    if not base.startswith(("http://", "https://")):
        stop("server is no address: write https://HOST or http://HOST:PORT")
    given = {name: value for name, value in query.items() if value}
    request = urllib.request.Request(f"{base}{path}?{urllib.parse.urlencode(given)}")
    if setting("API_KEY"):
        request.add_header("Authorization", f"Bearer {setting('API_KEY')}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        body = refused.read()
        try:
            problem = json.loads(body)
            faults = "; ".join(f"{fault['pointer']}: {fault['detail']}" for fault in problem.get("errors", []))
            words = f"{problem['detail']} {faults}".strip()
        except (ValueError, KeyError, TypeError):
            words = "no problem of an Umbra server"
        advice = " Set api-key to a key with the scope read." if refused.code in (401, 403) else ""
        stop(f"{base} answers {refused.code}: {words}{advice}")
    except (OSError, ValueError) as gone:
        stop(f"{base} cannot be asked: {gone}")


def pages(path, **query):
    """Yields all pages of a list, as far as a file may have them."""
    cursor, read = "", 0
    while True:
        page = ask(path, limit=500, cursor=cursor, **query)
        yield page
        read += 500
        cursor = page.get("next_cursor") or page.get("runs", [{}])[0].get("properties", {}).get("next_cursor")
        if not cursor or read >= MOST:
            return


def written(query):
    """Writes all findings into one run of SARIF, and returns their number."""
    log, rules = None, {}
    for page in pages("/v1/findings.sarif", **query):
        run = page["runs"][0]
        own = run["tool"]["driver"]["rules"]
        for rule in own:
            rules.setdefault(rule["id"], (len(rules), rule))
        for result in run["results"]:
            result["ruleIndex"] = rules[result["ruleId"]][0]
            for location in result.get("locations", []):
                # Code scanning takes paths and lines of a repository alone.
                physical = location["physicalLocation"]
                physical["artifactLocation"] = {"uri": physical["artifactLocation"]["uri"].removeprefix("umbra:")}
                physical["region"] = {"startLine": 1}
        if log is None:
            log = page
        else:
            log["runs"][0]["results"] += run["results"]
    run = log["runs"][0]
    run["tool"]["driver"]["rules"] = [rule for _, rule in rules.values()]
    with open(setting("SARIF", "umbra.sarif"), "w", encoding="utf-8") as file:
        json.dump(log, file)
    return len(run["results"])


def main():
    fail_on = setting("FAIL_ON", "critical")
    if fail_on not in (*SEVERITIES, "never"):
        stop(f"fail-on is {fail_on!r}: write info, warning, critical or never")
    query = {"agent": setting("AGENT"), "task_id": setting("TASK"), "since": setting("SINCE")}
    count = written(query)
    print(f"{count} findings in {setting('SARIF', 'umbra.sarif')}")
    if os.environ.get("GITHUB_OUTPUT"):
        with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as output:
            output.write(f"findings={count}\n")
    failed = False
    if fail_on != "never":
        for status in ("open", "confirmed"):
            for page in pages("/v1/findings", severity=fail_on, status=status, **query):
                for finding in page["items"]:
                    failed = True
                    words = finding["description"].replace("\n", " ")
                    print(f"::error::{finding['severity']}: {finding['watched_agent']}: {words} ({finding['id']})")
    if setting("ENVIRONMENT"):
        gate = ask("/v1/gate", environment=setting("ENVIRONMENT"))
        for reason in gate["reasons"]:
            print(f"::error::gate of {gate['environment']}: {reason['subject']}: {reason['detail']}")
        failed |= not gate["pass"]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
